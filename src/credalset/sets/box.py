"""Distributions between a lower and an upper envelope: the box that answers for sets without a convex shape."""

from __future__ import annotations

import numpy as np

from credalset._typing import BoolArray, FloatArray
from credalset.sets.roots import bisect


def support(lower: FloatArray, upper: FloatArray, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the largest expected utility between the envelopes and where it is taken: best classes filled first."""
    order = np.argsort(-utility, axis=1, kind="stable")
    room = np.take_along_axis(upper - lower, order, axis=1)
    spare = 1.0 - lower.sum(axis=1, keepdims=True)
    before = np.cumsum(room, axis=1) - room
    filled = np.clip(spare - before, 0.0, room)
    point = np.empty_like(lower)
    np.put_along_axis(point, order, filled, axis=1)
    point += lower
    return (utility * point).sum(axis=1), point


def most_even(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the distribution that every other one between the envelopes majorises: largest entropy, smallest peak.

    It is clip(level, lower, upper) with the level at which the entries sum to one.
    """

    def is_full(level: FloatArray) -> BoolArray:
        return np.clip(level, lower, upper).sum(axis=1, keepdims=True) >= 1.0

    level = bisect(is_full, np.zeros((len(lower), 1)), np.ones((len(lower), 1)), steps=60)[1]
    point = np.clip(level, lower, upper)
    return point / point.sum(axis=1, keepdims=True)
