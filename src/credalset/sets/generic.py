"""Answers for any convex region from two things only: its divergence and its support function.

These are the defaults behind every region's closed forms, and the oracles in their tests. A new score whose region
provides ``_divergence`` and ``_support`` gets envelopes, entropy bounds, volumes, samples and decisions from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.sets.roots import bisect
from credalset.simplex import corners, entropy_of_valid

if TYPE_CHECKING:
    from credalset.sets.region import Region

TOLERANCE = 1e-10
MAX_STEPS, FEW_STEPS = 500, 100  # with an exact support function, and with one that is not
SEARCH_EFFORT = 1 << 12  # classes times starts, and classes times steps, of a search for the smallest entropy


def envelope(sets: Region) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and largest probability of every class, by 2K support functions."""
    n, k = sets.center.shape
    lower, upper = np.empty((n, k)), np.empty((n, k))
    for c in range(k):
        unit = corners(np.full(n, c), k)
        upper[:, c] = sets._support(unit, False)[0]
        lower[:, c] = -sets._support(-unit, False)[0]
    return np.clip(lower, 0.0, 1.0) + 0.0, np.clip(upper, 0.0, 1.0)


def max_entropy(sets: Region) -> tuple[FloatArray, FloatArray]:
    """Maximise the (concave) entropy by Frank–Wolfe steps with an exact line search.

    A step goes toward the vertex v that looks best from λ, or moves weight to it from the vertex that looks worst among
    those that λ is made of, whichever gains more: the first settles quickly on curved boundaries, the second on flat
    faces (Lacoste-Julien and Jaggi, 2015). The gap max_v ⟨∇H(λ), v − λ⟩ bounds the distance to the optimum and is
    added to the entropy of λ: no member has more. Iteration ends when it falls below 1e-10, or below what the support
    function is good for.
    """
    n, k = sets.center.shape
    uniform = np.full((n, 1, k), 1.0 / k)
    reach = sets._ray_length(uniform - sets.center[:, None, :])
    point = sets.center + np.minimum(reach, 1.0) * (uniform[:, 0] - sets.center)
    is_uniform = (sets.center == 1.0 / k).all(axis=1)
    active = np.flatnonzero((reach[:, 0] < 1.0) & ~is_uniform)
    best, used = np.zeros(n), [(point.copy(), np.ones(n))]
    for _ in range(MAX_STEPS if sets.tolerance == 0.0 else FEW_STEPS):
        if len(active) == 0:
            break
        current = point[active]
        slope = -np.log(np.maximum(current, np.finfo(float).tiny))
        bound, vertex = sets[active]._support(slope, True)
        assert vertex is not None
        best[active] = bound - (slope * current).sum(axis=1)
        point[active] = _ascend(used, active, current, vertex, slope)
        spread = np.where(current > 0, slope, 0.0).max(axis=1) - slope.min(axis=1)
        active = active[best[active] > np.maximum(TOLERANCE, sets.tolerance * spread)]
    return entropy_of_valid(point) + np.maximum(best, 0.0), point


def _ascend(
    used: list[tuple[FloatArray, FloatArray]],
    active: IntArray,
    current: FloatArray,
    vertex: FloatArray,
    slope: FloatArray,
) -> FloatArray:
    """Take the better of two steps, and note what the points are made of: vertices and their weights."""
    worth = np.stack([np.where(weight[active] > 0, (slope * at[active]).sum(axis=1), np.inf) for at, weight in used])
    worst, rows = worth.argmin(axis=0), np.arange(len(active))
    away = np.stack([at[active] for at, _ in used])[worst, rows]
    spare = np.stack([weight[active] for _, weight in used])[worst, rows]
    toward, swap = vertex - current, spare[:, None] * (vertex - away)
    t, s = _entropy_line_search(current, toward), _entropy_line_search(current, swap)
    moved, swapped = current + t[:, None] * toward, current + s[:, None] * swap
    swaps = entropy_of_valid(swapped) > entropy_of_valid(moved)
    for i, (_, weight) in enumerate(used):
        weight[active] *= np.where(swaps, 1.0, 1.0 - t)
        weight[active] -= np.where(swaps & (worst == i), s * spare, 0.0)
    at, new = np.zeros_like(used[0][0]), np.zeros(len(used[0][1]))
    at[active], new[active] = vertex, np.where(swaps, s * spare, t)
    used.append((at, new))
    return np.maximum(np.where(swaps[:, None], swapped, moved), 0.0)


def _entropy_line_search(point: FloatArray, step: FloatArray) -> FloatArray:
    """Return t in [0, 1] that maximises H(point + t·step), by bisection on the (falling) derivative."""

    def falls(t: FloatArray) -> BoolArray:
        logs = np.log(np.maximum(point + t[:, None] * step, np.finfo(float).tiny))
        return (step * logs).sum(axis=1) >= 0

    low, high = bisect(falls, np.zeros(len(point)), np.ones(len(point)), steps=50)
    return 0.5 * (low + high)


def min_entropy(sets: Region) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bracket the smallest entropy: (certified lower bound, entropy of the best point found, that point)."""
    high, point = _descend(sets)
    lower, upper = sets._envelope()
    low = majorization_bound(lower, upper)
    return np.minimum(low, high), high, point


def majorization_bound(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return a lower bound on the entropy of every distribution between the envelopes.

    The j largest entries of a member add up to at most T_j = min(sum of the j largest uppers, 1 − sum of the K − j
    smallest lowers). The increments of the least concave majorant of T majorise every member, and entropy is
    Schur-concave.
    """
    tops = np.cumsum(-np.sort(-upper, axis=1), axis=1)
    rest = np.cumsum(np.sort(lower, axis=1), axis=1)
    sums = np.minimum(tops, 1.0)
    sums[:, :-1] = np.minimum(sums[:, :-1], 1.0 - rest[:, -2::-1])
    sums[:, -1] = 1.0
    return entropy_of_sums(sums)


def entropy_of_sums(sums: FloatArray) -> FloatArray:
    """Return a lower bound on the entropy of distributions whose j largest entries add up to at most sums[:, j − 1]."""
    sums = np.maximum.accumulate(np.maximum(sums, 0.0), axis=1)
    return entropy_of_valid(_falling(sums))


def _falling(sums: FloatArray) -> FloatArray:
    """Return the increments of the least concave majorant of sums (N, K), from zero: steepest chords, one by one."""
    n, k = sums.shape
    upto, rows = np.column_stack([np.zeros(n), sums]), np.arange(n)
    at, steps = np.zeros(n, dtype=np.int64), np.zeros((n, k))
    while (at < k).any():
        ahead = np.arange(k + 1) - at[:, None]
        slope = np.where(ahead > 0, (upto - upto[rows, at, None]) / np.maximum(ahead, 1), -np.inf)
        steps = np.where(ahead[:, 1:] > 0, slope.max(axis=1, keepdims=True), steps)
        at = k - slope[:, ::-1].argmax(axis=1)  # the furthest end of the steepest chord
    return steps


def _descend(sets: Region) -> tuple[FloatArray, FloatArray]:
    """Search for a low entropy: from the peaks of the most probable classes, follow linearisations downhill.

    Entropy is concave, so the minimiser of its linearisation over the set never has more entropy.
    """
    n, k = sets.center.shape
    likely = np.argsort(-sets.center, axis=1, kind="stable")
    best, best_point = entropy_of_valid(sets.center), sets.center.copy()
    inside = sets._divergence(sets.center[:, None, :])[:, 0] <= sets.radius
    best = np.where(inside, best, np.inf)
    n_starts, n_steps = min(k, max(1, SEARCH_EFFORT // k)), min(60, max(4, SEARCH_EFFORT // k))
    for rank in range(n_starts):
        slope = corners(likely[:, rank], k)
        value = np.full(n, np.inf)
        for _ in range(n_steps):
            point = sets._support(slope, True)[1]
            assert point is not None
            entropy = entropy_of_valid(point)
            better = entropy < best
            best, best_point = np.where(better, entropy, best), np.where(better[:, None], point, best_point)
            if not (entropy < value - max(1e-14, 1e-3 * sets.tolerance)).any():
                break
            value = np.minimum(value, entropy)
            slope = np.log(np.maximum(point, np.finfo(float).tiny))
    return best, best_point
