"""The nearest distribution in which a class is a most probable one: the class is pooled with those that exceed it."""

from __future__ import annotations

import numpy as np

from credalset._typing import FloatArray, IntArray


def pool(values: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return how many of the largest values each value (N, K) is pooled with, and the average of its pool.

    The pool of x is x and the largest others, as long as each exceeds the average of those before it: what isotonic
    regression averages so that no value is larger. The j-th largest joins if j times it less the sum of the larger
    ones exceeds x. That limit falls with j, so the pool's size is found by binary search.

    Examples
    --------
    >>> size, average = pool(np.array([[0.6, 0.4, 0.0]]))
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
    size, average = pool(shifted)
    squares = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(np.sort(shifted**2, axis=1), axis=1, out=squares[:, 1:])  # the largest values have the least squares
    total = shifted**2 + np.take_along_axis(squares, size, axis=1) - (size + 1) * average**2
    return np.where(size > 0, np.maximum(total, 0.0), 0.0)
