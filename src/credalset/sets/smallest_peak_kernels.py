"""Compiled smallest peaks of Kullback–Leibler balls, in both directions, as `credalset.sets.smallest_peak`."""

from __future__ import annotations

import math

import numpy as np

from credalset._typing import FloatArray
from credalset.scores.kullback_leibler.geometry_kernels import bregman, compiled
from credalset.sets.smallest_peak import MAX_STEPS, PRECISE, ROUNDING


@compiled
def _share(mass: float, probability: float, reverse: bool) -> float:
    """What a class adds to the divergence of its probability from its mass."""
    if probability == mass:
        return 0.0
    if reverse:
        return bregman(probability, mass - probability)[0]
    return bregman(mass, probability - mass)[0] if mass > 0.0 else np.inf


@compiled
def _shortfall(ranked: FloatArray, tail: FloatArray, support: int, j: int, cap: float, reverse: bool) -> float:
    """Root of the divergence of min(c·g, cap) with j classes at the cap, for masses in falling order."""
    total = 0.0
    for k in range(min(j, support)):
        total += _share(ranked[k], cap, reverse)
    if j < support:
        total += tail[j] * _share(1.0, max(1.0 - j * cap, 0.0) / tail[j], reverse)
    elif support < ranked.shape[0]:
        spare = 1.0 - support * cap
        if spare > 0.0:
            total += spare if reverse else np.inf
    return math.sqrt(max(total, 0.0))


@compiled
def _solve(
    ranked: FloatArray, tail: FloatArray, support: int, j: int, near: float, far: float, width: float, reverse: bool
) -> float:
    """Find the cap between ``far``, too far from the centre, and ``near``, by false position (Illinois)."""
    f_near = _shortfall(ranked, tail, support, j, near, reverse) - width
    f_far = _shortfall(ranked, tail, support, j, far, reverse) - width
    side = 0
    for _ in range(MAX_STEPS):
        if near - far <= ROUNDING * near:
            break
        cap = (near * f_far - far * f_near) / (f_far - f_near)
        if not far < cap < near:
            cap = 0.5 * (near + far)
        f = _shortfall(ranked, tail, support, j, cap, reverse) - width
        if f <= 0.0:
            if side > 0:
                f_far *= 0.5
            near, f_near, side = cap, f, 1
            if -f <= PRECISE * width:
                break
        else:
            if side < 0:
                f_near *= 0.5
            far, f_far, side = cap, f, -1
    return near


@compiled
def _cap(ranked: FloatArray, tail: FloatArray, support: int, j: int) -> float:
    """Cap at which class j, in falling order, reaches it; 1/K once the whole support has."""
    return ranked[j] / (tail[j] + j * ranked[j]) if j < support else 1.0 / ranked.shape[0]


@compiled
def capped_peak(center: FloatArray, radius: FloatArray, reverse: bool, peak: FloatArray) -> None:
    """Search for the number of classes at the cap, then for the cap."""
    n_classes = center.shape[1]
    tail = np.zeros(n_classes + 1)
    for i in range(center.shape[0]):
        ranked = np.sort(center[i])[::-1]
        support = 0
        for k in range(n_classes - 1, -1, -1):
            tail[k] = tail[k + 1] + ranked[k]
            support += ranked[k] > 0.0
        width = math.sqrt(radius[i])
        low, high = 0, support + 1
        while high - low > 1:
            j = (low + high) // 2
            if _shortfall(ranked, tail, support, j, _cap(ranked, tail, support, j), reverse) > width:
                high = j
            else:
                low = j
        near = _cap(ranked, tail, support, low)
        if high <= support:
            near = _solve(ranked, tail, support, high, near, _cap(ranked, tail, support, high), width, reverse)
        peak[i] = min(near, ranked[0])
