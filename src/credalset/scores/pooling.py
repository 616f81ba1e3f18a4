"""The nearest distribution in which a class is on top: it is pooled with the classes that exceed it."""

from __future__ import annotations

import numpy as np

from credalset._typing import FloatArray


def pooled_spread(values: FloatArray) -> FloatArray:
    """Return Σ (x − x̄)² over the pool of each value, (N, K), for values (N, K) that are not negative.

    The pool of a value is itself and the largest others, as long as each exceeds the average of those before it: what
    isotonic regression averages so that no value is larger.

    Examples
    --------
    >>> pooled_spread(np.array([[0.6, 0.4, 0.0]])).round(4)
    array([[0.    , 0.02  , 0.1867]])
    """
    total, squares, size = values.copy(), values**2, np.ones_like(values)
    for largest in -np.sort(-values, axis=1).T:
        joins = largest[:, None] * size > total
        if not joins.any():
            break
        total += np.where(joins, largest[:, None], 0.0)
        squares += np.where(joins, largest[:, None] ** 2, 0.0)
        size += joins
    return np.where(size > 1, np.maximum(squares - total**2 / size, 0.0), 0.0)
