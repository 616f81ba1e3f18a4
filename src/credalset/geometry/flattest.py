"""The member whose largest probability is smallest, min over λ of max_k λ_k: the worst case of a best guess."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from credalset._parallel import for_each_block
from credalset._typing import FloatArray

if TYPE_CHECKING:
    from credalset.geometry.region import Region


def capped(center: FloatArray, cap: FloatArray) -> FloatArray:
    """Return min(c·g, cap) with c such that rows sum to one; mass that no class of the support can take goes to zeros.

    For a divergence Σ g_k φ(λ_k / g_k), and for total variation, no distribution with entries up to ``cap`` is closer
    to g: the ratio λ_k / g_k is the same for all classes below the cap.
    """
    n, k = center.shape
    order = np.argsort(-center, axis=1)
    ranked = np.take_along_axis(center, order, axis=1)
    tail = np.cumsum(ranked[:, ::-1], axis=1)[:, ::-1]  # mass of the classes from rank j on
    positions = np.arange(k)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = (1.0 - positions * cap[:, None]) / tail  # c if exactly the first j classes are capped
        fits = (tail > 0) & (ranked * factor <= cap[:, None] * (1 + 1e-15))
    first = np.where(fits.any(axis=1), fits.argmax(axis=1), k)
    chosen = np.where(first < k, np.take_along_axis(factor, np.minimum(first, k - 1)[:, None], axis=1)[:, 0], 0.0)
    filled = np.where(positions < first[:, None], cap[:, None], np.maximum(chosen, 0.0)[:, None] * ranked)
    filled = np.where(ranked > 0, filled, 0.0)
    zeros = ranked == 0
    spare = np.maximum(1.0 - filled.sum(axis=1), 0.0)
    filled += np.where(zeros, (spare / np.maximum(zeros.sum(axis=1), 1))[:, None], 0.0)
    result = np.empty((n, k))
    np.put_along_axis(result, order, filled, axis=1)
    return result


def capped_peak(sets: Region) -> FloatArray:
    """Return the smallest peak of each ball of an f-divergence or of total variation, by bisection on the cap."""
    result = np.empty(len(sets))

    def one_block(rows: slice) -> None:
        result[rows] = _capped_peak(sets[rows])

    for_each_block(one_block, len(sets), sets.n_classes)
    return result


def _capped_peak(sets: Region) -> FloatArray:
    low, high = np.full(len(sets), 1.0 / sets.n_classes), sets.center.max(axis=1)
    for _ in range(55):
        middle = 0.5 * (low + high)
        points = capped(sets.center, middle)
        legal = np.abs(points.sum(axis=1) - 1.0) < 1e-9
        inside = legal & (sets._divergence(points[:, None, :])[:, 0] <= sets.radius)
        low, high = np.where(inside, low, middle), np.where(inside, middle, high)
    flat = capped(sets.center, np.full(len(sets), 1.0 / sets.n_classes))
    reaches_uniform = (np.abs(flat.sum(axis=1) - 1.0) < 1e-9) & (
        sets._divergence(flat[:, None, :])[:, 0] <= sets.radius
    )
    return np.where(reaches_uniform, 1.0 / sets.n_classes, high)


def half_space_peak(center: FloatArray, level: FloatArray) -> FloatArray:
    """Return min max λ_k subject to ⟨λ, g⟩ ≥ level: fill the largest classes up to the cap, by bisection on the cap."""
    n, k = center.shape
    ranked = -np.sort(-center, axis=1)
    sums = np.concatenate([np.zeros((n, 1)), np.cumsum(ranked, axis=1)], axis=1)
    ranked = np.concatenate([ranked, np.zeros((n, 1))], axis=1)
    low, high = np.full(n, 1.0 / k), np.ones(n)
    rows = np.arange(n)

    def reach(cap: FloatArray) -> FloatArray:
        full = np.minimum((1.0 / cap + 1e-12).astype(np.int64), k)
        return cap * sums[rows, full] + np.maximum(1.0 - full * cap, 0.0) * ranked[rows, full]

    flat = reach(low) >= level
    for _ in range(55):
        middle = 0.5 * (low + high)
        good = reach(middle) >= level
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    return np.where(flat, 1.0 / k, high)


def wasserstein_peak(center: FloatArray, radius: FloatArray, gaps: FloatArray) -> FloatArray:
    """Return min max λ_k over W1 balls, one small linear program per ball."""
    from scipy.optimize import linprog

    k = center.shape[1]
    lower = np.tril(np.ones((k, k)))[:-1]  # cumulative sums
    # Variables: λ (K), |F − G| (K − 1), peak (1).
    move = np.block([[lower, -np.eye(k - 1), np.zeros((k - 1, 1))], [-lower, -np.eye(k - 1), np.zeros((k - 1, 1))]])
    budget = np.concatenate([np.zeros(k), gaps, [0.0]])[None]
    below = np.hstack([np.eye(k), np.zeros((k, k - 1)), -np.ones((k, 1))])
    equal = np.concatenate([np.ones(k), np.zeros(k)])[None]
    cost = np.zeros(2 * k)
    cost[-1] = 1.0
    peaks = np.empty(len(center))
    for i, (g, r) in enumerate(zip(center, radius, strict=True)):
        target = lower @ g
        limits = np.concatenate([target, -target, [r], np.zeros(k)])
        solution = linprog(cost, np.vstack([move, budget, below]), limits, equal, [1.0], method="highs")
        # The centre is always feasible; a solver that gives up on rounding leaves its peak as the answer.
        peaks[i] = solution.x[-1] if solution.x is not None else g.max()
    return np.clip(peaks, 1.0 / k, center.max(axis=1))
