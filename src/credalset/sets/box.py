"""Distributions between two envelopes: expectations, the most even one, entropy bounds."""

from __future__ import annotations

import numpy as np

from credalset._typing import BoolArray, FloatArray
from credalset.sets.roots import bisect
from credalset.simplex import entropy_of_valid


def support(
    lower: FloatArray, upper: FloatArray, utility: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the largest expected utility between the envelopes and a maximiser.

    The best classes are filled first.
    """
    order = np.argsort(-utility, axis=1, kind="stable")
    room = np.take_along_axis(upper - lower, order, axis=1)
    spare = 1.0 - lower.sum(axis=1, keepdims=True)
    before = np.cumsum(room, axis=1) - room
    filled = np.clip(spare - before, 0.0, room)
    point = np.empty_like(lower)
    np.put_along_axis(point, order, filled, axis=1)
    point += lower
    return (utility * point).sum(axis=1), point


def majorization_bound(
    lower: FloatArray, upper: FloatArray, most: FloatArray | float = 1.0
) -> FloatArray:
    """Return a lower bound (N,) on the entropy of every distribution between envelopes (N, K).

    The j largest entries of a member add up to at most T_j = min(sum of the j largest uppers, 1 −
    sum of the K − j smallest lowers), which is concave in j. The increments of T majorise every
    member, and entropy is Schur-concave. Further bounds ``most`` (N, K − 1) that are concave in j
    improve T.

    Examples
    --------
    >>> majorization_bound(np.array([[0.0, 0.0]]), np.array([[0.5, 1.0]]))
    array([0.])
    >>> majorization_bound(*np.full((2, 1, 2), 0.5))
    array([0.69314718])
    """
    tops = np.cumsum(np.sort(upper, axis=1)[:, ::-1], axis=1)
    rest = np.cumsum(np.sort(lower, axis=1), axis=1)
    sums = np.clip(np.minimum(np.minimum(tops[:, :-1], 1.0 - rest[:, -2::-1]), most), 0.0, 1.0)
    return entropy_of_valid(
        np.diff(np.maximum.accumulate(sums, axis=1), axis=1, prepend=0.0, append=1.0)
    )


def most_even(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the distribution (N, K) that every other one between the envelopes majorises.

    It is clip(level, lower, upper).

    Examples
    --------
    >>> most_even(np.array([[0.5, 0.0, 0.0]]), np.array([[1.0, 1.0, 0.2]])).round(3)
    array([[0.5, 0.3, 0.2]])
    """

    def is_full(level: FloatArray) -> BoolArray:
        return np.asarray(np.clip(level, lower, upper).sum(axis=1, keepdims=True) >= 1.0)

    level = bisect(is_full, np.zeros((len(lower), 1)), np.ones((len(lower), 1)), steps=60)[1]
    point = np.clip(level, lower, upper)
    return np.asarray(point / point.sum(axis=1, keepdims=True))
