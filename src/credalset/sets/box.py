"""Distributions between a lower and an upper envelope: the box that answers for sets without a convex shape."""

from __future__ import annotations

import numpy as np

from credalset._typing import FloatArray


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


def flattest(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the distribution that every other one between the envelopes majorises: largest entropy, smallest peak.

    It is clip(level, lower, upper) with the level at which the entries sum to one.
    """
    low, high = np.zeros((len(lower), 1)), np.ones((len(lower), 1))
    for _ in range(60):
        level = 0.5 * (low + high)
        full = np.clip(level, lower, upper).sum(axis=1, keepdims=True) >= 1.0
        low, high = np.where(full, low, level), np.where(full, level, high)
    point = np.clip(high, lower, upper)
    return point / point.sum(axis=1, keepdims=True)
