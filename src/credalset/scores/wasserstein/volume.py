r"""Volume of W₁ balls on a line as a fraction of the simplex, exact for three and four classes.

The map λ ↦ F is volume preserving, so with w = F − G the fraction is (K − 1)! times the volume of

.. math:: \{ w : Σ_k gap_k |w_k| ≤ r,\; w_1 ≥ −g_1,\; w_{k+1} − w_k ≥ −g_{k+1},\; w_{K−1} ≤ g_K \}.

Everything is written in the offsets w and measured in units of the radius, so that small balls keep their digits.

* K = 3: for fixed w_1 an interval of w_2, whose length is piecewise linear in w_1: the trapezoidal rule between the
  breakpoints is exact, and all its terms are positive.
* K = 4: for fixed w_2 the pair (w_1, w_3) lies in a rectangle cut by a diamond, whose area is piecewise quadratic in
  w_2: two Gauss points between the breakpoints are exact.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from credalset._parallel import in_blocks
from credalset._typing import FloatArray
from credalset.scores.wasserstein.geometry import in_units_of_radius, within_reach

MAX_CLASSES = 4
GAUSS_POINT = 1.0 / math.sqrt(3.0)


@in_blocks(lambda size: 100, block_size=1 << 17)
def log_fraction(center: FloatArray, radius: FloatArray, *, gaps: FloatArray) -> FloatArray:
    """Logarithm of the fraction of the simplex in each ball, −inf at radius 0."""
    n_classes, result = center.shape[1], np.full(len(center), -np.inf)
    some = radius > 0.0
    reach = within_reach(radius[some], gaps)
    size = (_area if n_classes == 3 else _volume)(in_units_of_radius(center[some], reach, gaps), gaps)
    result[some] = np.minimum(np.log(size) + (n_classes - 1) * np.log(reach) + math.lgamma(n_classes), 0.0)
    return result


def _area(mass: FloatArray, gaps: FloatArray) -> FloatArray:
    """∫ over w_1 of the length of {w_2 : max(w_1 − g_2, −s/b) ≤ w_2 ≤ min(g_3, s/b)}, s = 1 − a |w_1|."""
    a, b = gaps
    g1, g2, g3 = mass.T
    low, high = -np.minimum(g1, 1.0 / a), np.minimum(g2 + g3, 1.0 / a)
    ones = np.ones_like(g1)
    breaks = [low, high, 0.0 * ones, (1.0 - b * g3) / a, -(1.0 - b * g3) / a]
    for side, sign in product((-1.0, 1.0), (-1.0, 1.0)):  # w_1 − g_2 = side · (1 − sign · a w_1) / b
        slope = b + side * sign * a
        if slope != 0.0:
            breaks.append((side + b * g2) / slope)
    w1 = np.sort(np.clip(np.stack(breaks, axis=1), low[:, None], high[:, None]), axis=1)
    s = np.maximum(1.0 - a * np.abs(w1), 0.0) / b
    length = np.maximum(np.minimum(g3[:, None], s) - np.maximum(w1 - g2[:, None], -s), 0.0)
    return np.asarray((0.5 * np.diff(w1, axis=1) * (length[:, 1:] + length[:, :-1])).sum(axis=1))


def _volume(mass: FloatArray, gaps: FloatArray) -> FloatArray:
    """∫ over w_2 of the area of {−g_1 ≤ w_1 ≤ w_2 + g_2, w_2 − g_3 ≤ w_3 ≤ g_4, a|w_1| + c|w_3| ≤ 1 − b|w_2|}."""
    a, b, c = gaps
    g1, g2, g3, g4 = mass.T
    low, high = -np.minimum(g1 + g2, 1.0 / b), np.minimum(g3 + g4, 1.0 / b)
    zero = np.zeros_like(g1)
    breaks = [low, high, zero, -g2, g3]
    # The area changes form where 1 − b|w_2| equals a·U + c·W for some of the sides U ∈ {0, g_1, |w_2 + g_2|} and
    # W ∈ {0, g_4, |w_2 − g_3|} of the rectangle: linear equations, one for each choice of signs.
    for sign, s1, s3 in product((-1.0, 1.0), (-1.0, 1.0), (-1.0, 1.0)):
        for (u, du), (w, dw) in product(
            ((zero, 0.0), (g1, 0.0), (s1 * g2, s1)), ((zero, 0.0), (g4, 0.0), (-s3 * g3, s3))
        ):
            slope = a * du + c * dw + sign * b
            if slope != 0.0:
                breaks.append((1.0 - a * u - c * w) / slope)
    knots = np.sort(np.clip(np.stack(breaks, axis=1), low[:, None], high[:, None]), axis=1)
    half, middle = 0.5 * np.diff(knots, axis=1), 0.5 * (knots[:, 1:] + knots[:, :-1])
    total = np.zeros_like(g1)
    for node in (-GAUSS_POINT, GAUSS_POINT):
        w2 = middle + node * half
        s = np.maximum(1.0 - b * np.abs(w2), 0.0)
        x_sides, z_sides = (-g1[:, None], w2 + g2[:, None]), (w2 - g3[:, None], g4[:, None])
        area = sum(
            sign_x * sign_z * _corner_area(x, z, s, a, c)
            for sign_x, x in zip((-1.0, 1.0), x_sides, strict=True)
            for sign_z, z in zip((-1.0, 1.0), z_sides, strict=True)
        )
        total += (half * np.maximum(area, 0.0)).sum(axis=1)
    return total


def _corner_area(x: FloatArray, z: FloatArray, s: FloatArray, a: float, c: float) -> FloatArray:
    """Signed area of {0..x} × {0..z} within a|u| + c|w| ≤ s."""
    width, depth = np.minimum(np.abs(x), s / a), np.minimum(np.abs(z), s / c)
    cut = np.maximum(a * width + c * depth - s, 0.0)
    return np.asarray(np.sign(x) * np.sign(z) * (width * depth - cut * cut / (2.0 * a * c)))
