"""Compiled volume of the Kullback–Leibler ball, as `credalset.scores.kullback_leibler.volume`."""

from __future__ import annotations

import math

import numpy as np

from credalset._typing import FloatArray
from credalset.scores.kullback_leibler.geometry_kernels import bregman, compiled, rise


@compiled
def _width(mass: float, rest: float, radius: float) -> float:
    stay = math.exp(-radius)
    leave = 1.0 - stay if radius > 0.5 else -math.expm1(-radius)
    return rise(mass, rest, radius, stay, leave) + rise(rest, mass, radius, stay, leave)


@compiled
def _slice_width(shift: float, a: float, b: float, c: float, radius: float) -> float:
    """Length of the chord at λ_a = a + shift, in the coordinate λ_b."""
    others = b + c
    left = others - shift
    if left <= 0.0 or a + shift < 0.0:
        return 0.0
    spare = radius - bregman(a, shift)[0] - bregman(others, -shift)[0]
    return left * _width(b / others, c / others, spare / left) if spare > 0.0 else 0.0


@compiled
def _edge_cuts(a: float, b: float, c: float, radius: float, cuts: FloatArray) -> None:
    """Where, along λ_a − a, the ball meets the edge λ_c = 0: first and last point and the nearest one."""
    mass, rest = a / (a + b), b / (a + b)
    nearest = mass * c
    cuts[:] = nearest
    beyond = radius - (-math.log1p(-c) if c < 0.5 else -math.log(a + b))
    if beyond > 0.0:
        stay, leave = math.exp(-beyond), -math.expm1(-beyond)
        cuts[0] -= rise(rest, mass, beyond, stay, leave)
        cuts[2] += rise(mass, rest, beyond, stay, leave)


@compiled
def log_volume(
    center: FloatArray, radius: FloatArray, nodes: FloatArray, weights: FloatArray, value: FloatArray
) -> None:
    """Logarithm of the fraction of the simplex, for two and three classes, by tanh–sinh quadrature."""
    cuts = np.empty(9)
    for i in range(center.shape[0]):
        if center[i].min() <= 0.0 or radius[i] <= 0.0:
            value[i] = -np.inf
            continue
        if center.shape[1] == 2:
            value[i] = math.log(min(_width(center[i, 0], center[i, 1], radius[i]), 1.0))
            continue
        first = center[i].argmax()
        a, b, c = center[i, first], center[i, (first + 1) % 3], center[i, (first + 2) % 3]
        stay, leave = math.exp(-radius[i]), -math.expm1(-radius[i])
        start = -rise(b + c, a, radius[i], stay, leave)
        stop = rise(a, b + c, radius[i], stay, leave)
        cuts[0], cuts[1], cuts[2] = start, 0.0, stop
        _edge_cuts(a, b, c, radius[i], cuts[3:6])
        _edge_cuts(a, c, b, radius[i], cuts[6:9])
        cuts.sort()
        area = 0.0
        for piece in range(8):
            low, high = max(cuts[piece], start), min(cuts[piece + 1], stop)
            length = high - low
            if length <= 0.0:
                continue
            part = 0.0
            for j in range(nodes.shape[0]):
                step = length * nodes[j]
                both = _slice_width(low + step, a, b, c, radius[i]) + _slice_width(high - step, a, b, c, radius[i])
                part += weights[j] * both
            area += length * part
        value[i] = min(math.log(2.0 * area), 0.0) if area > 0.0 else -np.inf
