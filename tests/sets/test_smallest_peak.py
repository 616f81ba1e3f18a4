"""Smallest peaks, the old ways as oracles: bisection on the cap, and one linear programme per Wasserstein ball."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from credalset.scores import Wasserstein
from credalset.sets.credal_set import CredalSet
from tests.conftest import SCORES

F_DIVERGENCES = ["tv", "kl", "kl-nats", "so", "hellinger"]


def capped(center: np.ndarray, cap: np.ndarray) -> np.ndarray:
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
    spare = np.where(first < k, 0.0, np.maximum(1.0 - filled.sum(axis=1), 0.0))  # not what rounding left over
    filled += np.where(zeros, (spare / np.maximum(zeros.sum(axis=1), 1))[:, None], 0.0)
    result = np.empty((n, k))
    np.put_along_axis(result, order, filled, axis=1)
    return result


def bisected_peak(sets: CredalSet) -> np.ndarray:
    """Halve the range of caps 55 times, asking for the distance of the nearest distribution below each."""
    low, high = np.full(len(sets), 1.0 / sets.n_classes), sets.center.max(axis=1)

    def reaches(cap: np.ndarray) -> np.ndarray:
        points = capped(sets.center, cap)
        legal = np.abs(points.sum(axis=1) - 1.0) < 1e-9
        return legal & (sets._divergence(points[:, None, :])[:, 0] <= sets.radius)

    flat = reaches(low)
    for _ in range(55):
        middle = 0.5 * (low + high)
        inside = reaches(middle)
        low, high = np.where(inside, low, middle), np.where(inside, middle, high)
    return np.where(flat, 1.0 / sets.n_classes, high)


def peak_by_programme(center: np.ndarray, radius: np.ndarray, gaps: np.ndarray) -> np.ndarray:
    """The smallest peak of W₁ balls, by one small linear programme each."""
    k = center.shape[1]
    lower = np.tril(np.ones((k, k)))[:-1]  # cumulative sums
    # Variables: λ (K), |F − G| (K − 1), peak (1).
    move = np.block([[lower, -np.eye(k - 1), np.zeros((k - 1, 1))], [-lower, -np.eye(k - 1), np.zeros((k - 1, 1))]])
    budget = np.concatenate([np.zeros(k), gaps / gaps.sum(), [0.0]])[None]  # solvers expect numbers of order one
    below = np.hstack([np.eye(k), np.zeros((k, k - 1)), -np.ones((k, 1))])
    equal = np.concatenate([np.ones(k), np.zeros(k)])[None]
    cost = np.zeros(2 * k)
    cost[-1] = 1.0
    peaks = np.empty(len(center))
    for i, (g, r) in enumerate(zip(center, np.minimum(radius / gaps.sum(), 1.0), strict=True)):
        target = lower @ g
        limits = np.concatenate([target, -target, [r], np.zeros(k)])
        solution = linprog(cost, np.vstack([move, budget, below]), limits, equal, [1.0], method="highs")
        # The centre is always feasible; a solver that gives up on rounding leaves its peak as the answer.
        peaks[i] = solution.x[-1] if solution.x is not None else g.max()
    return np.clip(peaks, 1.0 / k, center.max(axis=1))


def centers(n_classes: int, n: int) -> np.ndarray:
    """Smooth, sharp, tied, with zeros, corners and the uniform distribution."""
    rng = np.random.default_rng(n_classes)
    rows = np.concatenate([rng.dirichlet(np.full(n_classes, a), n) for a in (0.2, 1.0, 5.0)])
    rows[::7, 0] = 0.0
    rows[1::7, : n_classes // 2] = rows[1::7, :1]
    rows = np.concatenate([rows, np.eye(n_classes)[:2], np.full((1, n_classes), 1.0)])
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 40])
@pytest.mark.parametrize("name", F_DIVERGENCES)
def test_against_bisection(name: str, n_classes: int) -> None:
    score, g = SCORES[name], centers(n_classes, 15)
    for radius in (0.0, 1e-12, 1e-4, 0.03, 0.3, 0.8):
        prediction = g if score.order == "first" else 1.0 + 10.0 * g
        sets = score.region(prediction, radius)
        peak = sets.smallest_peak()
        assert peak == pytest.approx(bisected_peak(sets), rel=1e-9, abs=2e-8 if radius == 0.0 else 1e-9)


@pytest.mark.parametrize("positions", [None, (0.0, 0.1, 3.0, 3.5, 10.0, 11.0)])
def test_wasserstein_against_linear_programmes(positions: tuple[float, ...] | None) -> None:
    score, g = Wasserstein(positions), centers(6, 12)
    for radius in (0.0, 1e-6, 0.02, 0.3, 2.0, 100.0):
        sets = score.region(g, radius)
        programmes = peak_by_programme(sets.center, sets.radius, sets.gaps)
        assert sets.smallest_peak() == pytest.approx(programmes, abs=1e-7)


def test_wasserstein_peaks_with_many_classes() -> None:
    """At the peak found, and not below it, the nearest distribution under the cap is within reach."""
    g = centers(30, 20)
    sets = Wasserstein().region(g, 0.4)
    peak = sets.smallest_peak()
    assert peak_by_programme(g, sets.radius, sets.gaps) == pytest.approx(peak, abs=1e-7)
    assert (peak >= 1 / 30 - 1e-15).all()
    assert (peak <= g.max(axis=1)).all()
