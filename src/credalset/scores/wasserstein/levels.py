r"""Keeping every class of a W₁ ball below a level: the smallest peak, and the nearest distribution with a class on top.

With the level t fixed, the cheapest λ with entries between 0 and t is a shortest path in one dimension: minimise
Σ gap_k |F_k − G_k| over F with 0 ≤ F_k − F_{k−1} ≤ t. Go through the classes and carry the least cost of those so far
as a function of F_k, the message, which is convex and piecewise linear. A class may take anything between 0 and t, so
the part of the message to the right of its minimum moves right by t; if the class has to take t exactly, all of it
does. Then gap_k |F_k − G_k| is added: one more breakpoint, and the minimum moves. The least cost is convex and
piecewise linear in t itself, and the breakpoints know how they move with t: tangents lead to exact answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credalset._parallel import in_blocks
from credalset._typing import FloatArray, IntArray
from credalset.sets.roots import among, newton

NUDGE = 1e-13  # levels are looked at from a little above, where no two breakpoints meet by chance


@in_blocks(lambda size: size * size, block_size=1 << 17)
def closest_with_top(center: FloatArray, *, gaps: FloatArray) -> FloatArray:
    """For each class, the least W₁ distance of a distribution in which no class has more mass: (N, K).

    The best level of class a lies between g_a and max g: below, undoing a part of what left class a helps, and above,
    where nothing else needs to grow, so does undoing a part of what came. Tangents at both ends of a bracket, which
    bound the cost from below, are intersected until they meet it.
    """
    most, closest = center.max(axis=1, keepdims=True), np.zeros(center.shape)
    rows, top = np.nonzero(center < most)
    pairs, cumulative = np.arange(len(rows)), np.ascontiguousarray(np.cumsum(center, axis=1)[rows].T)
    ends = np.maximum(1.0 / center.shape[1], center[rows, top]), most[rows, 0]
    # Level, cost and slope at both ends of each bracket, (3, n).
    low, high = (np.stack([end, *cost_at_level(end, cumulative, top, gaps=gaps)]) for end in ends)
    best, open_top = np.minimum(low[1], high[1]), top
    while True:
        with np.errstate(all="ignore"):
            level = (high[1] - low[1] + low[2] * low[0] - high[2] * high[0]) / (low[2] - high[2])
            is_open = (low[2] < 0.0) & (high[2] > 0.0) & (low[0] < level) & (level < high[0])
        pairs, open_top, cumulative, low, high, level = among(is_open, pairs, open_top, cumulative, low, high, level)
        if not len(pairs):
            break
        found = np.stack([level, *cost_at_level(level, cumulative, open_top, gaps=gaps)])
        best[pairs] = np.minimum(best[pairs], found[1])
        met = found[1] - (low[1] + low[2] * (level - low[0])) <= 1e-14 * gaps.sum()
        falls = found[2] < 0.0
        low, high = np.where(falls, found, low), np.where(falls, high, found)
        low[2, met] = 0.0  # closes the bracket
    closest[rows, top] = np.maximum(best, 0.0)
    return closest


@in_blocks(block_size=1 << 16)
def smallest_peak(center: FloatArray, radius: FloatArray, *, gaps: FloatArray) -> FloatArray:
    """Return min max λ_k over W₁ balls: Newton's method from 1/K upwards follows tangents to the level of cost r."""
    n_rows, n_classes = center.shape
    cumulative, most = np.ascontiguousarray(np.cumsum(center, axis=1).T), center.max(axis=1)
    flat, nobody = np.full(n_rows, 1.0 / n_classes), np.full(n_rows, -1)

    def curve(level: FloatArray, cumulative: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
        cost, slope = cost_at_level(level, cumulative, nobody[: len(level)], gaps=gaps)
        return radius - cost, -slope

    result = np.minimum(flat, most)
    rows = np.flatnonzero((curve(flat, cumulative, radius)[0] < -1e-15 * gaps.sum()) & (flat < most))
    data = cumulative[:, rows], radius[rows]
    result[rows] = newton(curve, data, flat[rows], most[rows], flat[rows], np.full(len(rows), 1e-15))
    return result


def cost_at_level(
    level: FloatArray, cumulative: FloatArray, top: IntArray, *, gaps: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Least W₁ with λ_top = level and no class above it, and its derivative in the level (from the right, below one).

    Parameters
    ----------
    level, top : ndarray of shape (n,)
        The level, and the class that takes it exactly; −1 for none.
    cumulative : ndarray of shape (K, n)
        Cumulative masses G.
    gaps : ndarray of shape (K − 1,)
    """
    n, size, m, weight = len(level), 2 * len(gaps), 0, 0.0
    index, column = np.arange(size)[:, None], np.arange(n)
    nudged = level + np.where(level + NUDGE < 1.0, NUDGE, -NUDGE)  # there is no level above one
    # Breakpoints of the message: where, d place / d level, and the jumps of its slope up to each, in order.
    place, total, slope = np.zeros((size, n)), np.zeros((size, n)), np.zeros((size, n), dtype=np.int16)
    n_left = np.zeros(n, dtype=np.int64)  # of them, up to the minimum
    start, start_slope, end = np.zeros(n), np.zeros(n, dtype=np.int16), np.zeros(n)  # of the domain
    least: list[tuple[FloatArray, IntArray]] = []  # where the messages are

    def insert(array: NDArray[Any], at: IntArray, value: ArrayLike) -> None:
        array[1 : m + 1] = np.where(index[:m] >= at, array[:m], array[1 : m + 1])
        array[at, column] = value

    for k, gap in enumerate(gaps):
        is_top = top == k
        moving = (index[:m] >= n_left) | is_top
        place[:m] += nudged * moving
        slope[:m] += moving
        start, start_slope, end, weight = start + nudged * is_top, start_slope + is_top, end + nudged, weight + gap
        new = np.clip(cumulative[k], start, end)  # beyond the domain a hinge acts from its end
        at = (place[:m] < new).sum(axis=0)
        before = np.where(at > 0, total[np.maximum(at, 1) - 1, column], 0.0)
        total[:m] += 2.0 * gap * (index[:m] >= at)
        insert(slope, at, np.where(new == end, k + 1, np.where(new == start, start_slope, 0)))
        insert(place, at, new)
        insert(total, at, before + 2.0 * gap)
        m += 1
        # The minimum is where half of the jumps are left behind; a breakpoint that has it within is divided.
        at = np.minimum((total[:m] < weight).sum(axis=0), m - 1)
        least.append((place[at, column], slope[at, column]))
        insert(slope, at, least[-1][1])
        insert(place, at, least[-1][0])
        insert(total, at, weight)
        m, n_left = m + 1, at + 1
    cost, derivative = _trace_back(nudged, cumulative, top, gaps, least)
    return cost + (level - nudged) * derivative, derivative


def _trace_back(
    level: FloatArray, cumulative: FloatArray, top: IntArray, gaps: FloatArray, least: list[tuple[FloatArray, IntArray]]
) -> tuple[FloatArray, FloatArray]:
    """Read F off the minima of the messages, from the last class to the first; return cost and derivative."""
    place, slope = np.ones_like(level), np.zeros(len(level), dtype=np.int64)
    cost, derivative = np.zeros_like(level), np.zeros_like(level)
    for k in range(len(gaps) - 1, -1, -1):
        # The next class takes between 0 and the level, or just the level: as near to the minimum as that allows.
        lowest, lowest_slope = place - level, slope - 1
        short = place < least[k][0]
        place, slope = np.where(short, place, least[k][0]), np.where(short, slope, least[k][1])
        far = (place < lowest) | (top == k + 1)
        place, slope = np.where(far, lowest, place), np.where(far, lowest_slope, slope)
        off = place - cumulative[k]
        cost += gaps[k] * np.abs(off)
        derivative += gaps[k] * np.sign(off) * slope
    return cost, derivative
