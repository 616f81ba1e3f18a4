"""The nearest distribution in which a class is a most probable one: the class is pooled with those that exceed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from credalset._typing import FloatArray, IntArray


def pool_sizes(values: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return how many of the largest values each value (N, K) is pooled with, and the average of its pool.

    The pool of x is x and the largest others, as long as each exceeds the average of those before it: what isotonic
    regression averages so that no value is larger. The j-th largest joins if j times it less the sum of the larger
    ones exceeds x. That limit falls with j, so the pool's size is found by binary search.

    Examples
    --------
    >>> size, average = pool_sizes(np.array([[0.6, 0.4, 0.0]]))
    >>> size.tolist(), average.round(3).tolist()
    ([[0, 1, 2]], [[0.6, 0.5, 0.333]])
    """
    n, k = values.shape
    ranked = -np.sort(-values, axis=1)
    sums = np.zeros((n, k + 1))
    np.cumsum(ranked, axis=1, out=sums[:, 1:])
    limits = np.arange(1, k + 1) * ranked - sums[:, :-1]
    row, size = np.arange(n)[:, None] * k, np.zeros((n, k), dtype=np.int64)
    for step in 2 ** np.arange(int(k).bit_length())[::-1]:
        trial = np.minimum(size + step, k)
        size = np.where(limits.take(row + trial - 1) > values, trial, size)
    average = (values + sums.take(np.arange(n)[:, None] * (k + 1) + size)) / (size + 1)
    return size, average


def pooled_spread(values: FloatArray) -> FloatArray:
    """Return Σ (x − x̄)² over the pool of each value, (N, K).

    Examples
    --------
    >>> pooled_spread(np.array([[0.6, 0.4, 0.0]])).round(4)
    array([[0.    , 0.02  , 0.1867]])
    """
    shifted = values - values.max(axis=1, keepdims=True)  # near ties keep their digits
    size, average = pool_sizes(shifted)
    squares = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(np.sort(shifted**2, axis=1), axis=1, out=squares[:, 1:])  # the largest values have the least squares
    total = shifted**2 + np.take_along_axis(squares, size, axis=1) - (size + 1) * average**2
    return np.where(size > 0, np.maximum(total, 0.0), 0.0)


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
