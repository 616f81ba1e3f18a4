"""The nearest distribution in which a class is on top: it is pooled with the classes that exceed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from credalset._typing import FloatArray


def pool(values: FloatArray, *terms: Callable[[FloatArray], Any]) -> tuple[FloatArray, ...]:
    """Return the size of the pool of each of the values (N, K), and the sums over it of functions of them.

    The pool of a value is itself and the largest others, as long as each exceeds the average of those before it: what
    isotonic regression averages so that no value is larger. The j-th largest does so, for x and the larger ones, if
    j times it less the sum of the larger ones exceeds x, which holds for the next one only if it held for this one.

    Examples
    --------
    >>> size, total, squares = pool(np.array([[0.6, 0.4, 0.0]]), np.positive, np.square)
    >>> size.tolist(), (total / size).round(3).tolist(), squares.round(3).tolist()
    ([[1.0, 2.0, 3.0]], [[0.6, 0.5, 0.333]], [[0.36, 0.52, 0.52]])
    """
    own = np.ascontiguousarray(values.T)  # classes first, so that rows run along memory
    ranked = -np.sort(-values, axis=1).T
    limits = np.arange(1, len(own) + 1)[:, None] * ranked - (np.cumsum(ranked, axis=0) - ranked)
    sums, added = [term(own) for term in terms], [term(ranked) for term in terms]
    size, joins = np.ones_like(own), np.ones(own.shape, dtype=bool)
    for j, limit in enumerate(limits):
        joins &= limit > own
        if not joins.any():
            break
        size += joins
        for total, more in zip(sums, added, strict=True):
            total += more[j] * joins
    return size.T, *(total.T for total in sums)


def pooled_spread(values: FloatArray) -> FloatArray:
    """Return Σ (x − x̄)² over the pool of each value, (N, K), for values (N, K) that are not negative.

    Examples
    --------
    >>> pooled_spread(np.array([[0.6, 0.4, 0.0]])).round(4)
    array([[0.    , 0.02  , 0.1867]])
    """
    size, total, squares = pool(values, np.positive, np.square)
    return np.where(size > 1, np.maximum(squares - total**2 / size, 0.0), 0.0)
