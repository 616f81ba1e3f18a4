"""Brier balls with and without weights, against slower computations that share nothing with the closed forms."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from credalset.sets.max_min import max_min
from scipy.integrate import quad
from scipy.optimize import brentq, minimize

from credalset.scores import Brier, Normalized
from credalset.sets import generic
from credalset.sets.credal_set import CredalSet
from credalset.sets.rays import estimate_log_volume
from credalset.simplex import entropy_of_valid

WEIGHTS = {3: (0.3, 1.0, 2.5), 5: (0.2, 1.0, 4.0, 1.0, 0.5)}


def balls(n_classes: int, weighted: bool, n: int = 12, seed: int = 0) -> CredalSet:
    """Balls of all sizes around centres inside, near a side, on a side and in a corner."""
    rng = np.random.default_rng(seed)
    centers = rng.dirichlet(np.full(n_classes, 0.6), n)
    centers[0], centers[1] = np.eye(n_classes)[0], np.eye(n_classes)[:2].mean(axis=0)
    return Brier(WEIGHTS[n_classes] if weighted else None).region(centers, np.geomspace(1e-4, 1.0, n))


def projection(y: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Project onto the simplex in the weighted distance, by one root for the sum."""
    low, high = (v * (y - 1.0)).min() - 1.0, (v * y).max()
    theta = brentq(lambda t: np.maximum(y - t / v, 0.0).sum() - 1.0, low, high, xtol=1e-15, rtol=1e-15)
    return np.maximum(y - theta / v, 0.0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [3, 5])
def test_support_is_the_end_of_a_path_of_projections(n_classes: int, weighted: bool) -> None:
    sets = balls(n_classes, weighted)
    v = np.array(WEIGHTS[n_classes]) if weighted else np.ones(n_classes)
    utility = np.random.default_rng(1).normal(size=(len(sets), n_classes))
    value = sets.upper_expectation(utility)
    for g, r, u, found in zip(sets.center, sets.radius, utility, value, strict=True):

        def distance(log_step: float, g: np.ndarray = g, u: np.ndarray = u) -> float:
            return float((v * (projection(g + np.exp(log_step) * u / v, v) - g) ** 2).sum())

        if distance(14.0) <= r:
            assert found == pytest.approx(u.max(), rel=1e-6)
            continue
        step = brentq(lambda s, d=distance, r=r: d(s) - r, -25.0, 14.0, xtol=1e-13)
        assert found == pytest.approx(projection(g + np.exp(step) * u / v, v) @ u, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_area_by_integrating_chords(weighted: bool) -> None:
    sets = balls(3, weighted)
    v = np.array(WEIGHTS[3]) if weighted else np.ones(3)
    for g, r, area in zip(sets.center, sets.radius, sets.volume(), strict=True):

        def chord(x: float, g: np.ndarray = g, r: float = r) -> float:
            """Length of {λ_2 : (x, λ_2, 1 − x − λ_2) in the ball}."""
            a, c = v[1] + v[2], v[0] * (x - g[0]) ** 2 - r
            b = v[2] * (1 - x - g[2]) + v[1] * g[1]
            c += v[1] * g[1] ** 2 + v[2] * (1 - x - g[2]) ** 2
            root = np.sqrt(max(b * b - a * c, 0.0)) / a
            return max(min(b / a + root, 1 - x) - max(b / a - root, 0.0), 0.0)

        lower, upper = sets.lower()[:, 0], sets.upper()[:, 0]
        i = int(np.flatnonzero((sets.center == g).all(axis=1) & (sets.radius == r))[0])
        ends = np.linspace(lower[i], upper[i], 200)
        expected = sum(quad(chord, a, b, epsabs=1e-13)[0] for a, b in pairwise(ends))
        assert area == pytest.approx(2.0 * expected, rel=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_least_entropy_of_ellipses(weighted: bool) -> None:
    """A hundred thousand points of the edge, those on the sides of the triangle among them."""
    sets = balls(3, weighted, n=30, seed=3)[1:]
    bounds = sets.entropy_bounds(return_distributions=True)
    assert (bounds.lower_gap == 0).all()
    v = np.array(WEIGHTS[3]) if weighted else np.ones(3)
    angles = np.linspace(0, 2 * np.pi, 100_001)
    plane = np.cos(angles)[:, None] * [1, -1, 0] + np.sin(angles)[:, None] * [1, 1, -2]
    unit = plane / np.sqrt((v * plane**2).sum(axis=1, keepdims=True))
    for g, r, least in zip(sets.center, sets.radius, bounds.lower, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            edge = np.where(unit < 0, g / -unit, np.inf).min(axis=1)
        points = g + np.minimum(np.sqrt(r), edge)[:, None] * unit
        brute = entropy_of_valid(np.maximum(points, 0.0)).min()
        assert least <= brute + 1e-12
        assert least == pytest.approx(brute, abs=1e-3), "steep where a class vanishes, hence the slack"


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [3, 5])
def test_largest_entropy_by_a_solver(n_classes: int, weighted: bool) -> None:
    sets = balls(n_classes, weighted)[2:]
    v = np.array(WEIGHTS[n_classes]) if weighted else np.ones(n_classes)
    most = sets.entropy_bounds().upper
    assert most == pytest.approx(generic.max_entropy(sets)[0], abs=1e-8)
    for g, r, value in zip(sets.center, sets.radius, most, strict=True):
        found = minimize(
            lambda x: -entropy_of_valid(np.maximum(x, 1e-300)),
            0.5 * g + 0.5 / n_classes if (v * (0.5 / n_classes - 0.5 * g) ** 2).sum() < r else g,
            bounds=[(1e-12, 1)] * n_classes,
            constraints=[
                {"type": "eq", "fun": lambda x: x.sum() - 1},
                {"type": "ineq", "fun": lambda x, g=g, r=r: r - (v * (x - g) ** 2).sum()},
            ],
            options={"maxiter": 500, "ftol": 1e-14},
        )
        assert -found.fun <= value + 1e-7


@pytest.mark.parametrize("weighted", [False, True])
def test_smallest_peak_and_envelopes(weighted: bool) -> None:
    sets = balls(5, weighted)
    for one, peak in zip(sets, sets.smallest_peak(), strict=True):
        low, high = max_min(one, -np.eye(5), tolerance=1e-8)
        assert -high - 1e-9 <= peak <= -low + 1e-9
    v = sets.weights  # type: ignore[attr-defined]
    room = (1 / v).sum() - 1 / v
    expected = np.maximum(sets.center - np.sqrt(sets.radius[:, None] / (v + 1 / room)), 0.0)
    assert sets.lower() == pytest.approx(expected, abs=1e-12), "what a class loses, the others share"


def test_the_bracket_of_the_least_entropy() -> None:
    """Beyond three classes: certified from below, attained from above, and tighter than envelopes alone give."""
    sets = balls(5, weighted=False, n=20, seed=5)
    bounds = sets.entropy_bounds()
    box = generic.majorization_bound(sets.lower(), sets.upper())
    assert (bounds.lower >= box - 1e-12).all()
    assert (bounds.lower > box + 0.01).mean() > 0.3
    draws = sets.sample(2000, random_state=0)
    assert (entropy_of_valid(draws) >= bounds.lower[:, None] - 1e-9).all()
    assert np.median(bounds.lower_gap) < 0.05


@pytest.mark.parametrize("n_classes", [2, 3, 6, 17])
def test_volumes_follow_their_power_law(n_classes: int) -> None:
    radii = np.array([1e-25, 1e-100, 1e-250, 1e-300, 5e-324])
    for center in (np.r_[0.7, np.full(n_classes - 1, 0.3 / (n_classes - 1))], np.eye(n_classes)[0]):
        value, error = Brier().region(np.tile(center, (5, 1)), radii).log_volume(return_error=True)
        expected = 0.5 * (n_classes - 1) * (np.log(radii) - np.log(radii[0]))
        assert value - value[0] == pytest.approx(expected, rel=1e-9, abs=5 * np.hypot(error, error[0]).max() + 1e-6)


def test_weighted_volumes_by_rays_and_by_counting() -> None:
    sets = balls(5, weighted=True)[4:]
    points = np.random.default_rng(0).dirichlet(np.ones(5), 200_000)
    share = sets.contains(points, broadcast=True).mean(axis=1)
    value, error = sets.volume(return_error=True)
    assert (np.abs(value - share) <= 5 * np.hypot(error, np.sqrt(share * (1 - share) / 2e5)) + 1e-6).all()
    three = balls(3, weighted=True)
    estimate, error = estimate_log_volume(three, np.random.default_rng(0), n_rays=2000)
    assert (np.abs(estimate - three.log_volume()) <= 5 * error + 1e-6).all()


@pytest.mark.parametrize("weights", [(), (1.0,), (1.0, 0.0), (1.0, -1.0), (1.0, 1e200), (1.0, float("nan"))])
def test_refused_weights(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="weights must"):
        Brier(weights)


def test_weights_fit_the_classes() -> None:
    with pytest.raises(ValueError, match="weights has 2 entries, but there are 3 classes"):
        Brier((1, 2)).region([[0.2, 0.3, 0.5]], 0.1)
    scaled = Normalized(Brier((1, 2, 3)), offset=0.1).region([[0.2, 0.3, 0.5]], 0.1)
    plain = Brier((1, 2, 3)).region([[0.2, 0.3, 0.5]], scaled.radius)
    assert scaled.upper() == pytest.approx(plain.upper())
