"""Brier balls with and without weights, against slower computations that share nothing
with the closed forms.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from credalset.scores import Brier, Normalized
from credalset.sets import CredalSet
from credalset.simplex import entropy_of_valid, grid, sample_uniform
from tests.scores.search import smallest, spread_centers

WEIGHTS = {3: (0.3, 1.0, 2.5), 5: (0.2, 1.0, 4.0, 1.0, 0.5)}
weighting = pytest.mark.parametrize("weighted", [False, True])


def balls(n_classes: int, weighted: bool, n: int = 12, seed: int = 0) -> CredalSet:
    score = Brier(WEIGHTS[n_classes] if weighted else None)
    return score.region(
        spread_centers(n, n_classes, seed),
        np.random.default_rng(9).permutation(np.geomspace(1e-4, 1.0, n)),
    )


def weights_of(n_classes: int, weighted: bool) -> np.ndarray:
    return np.array(WEIGHTS[n_classes]) if weighted else np.ones(n_classes)


def projection(y: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Project onto the simplex in the weighted distance, by one root for the sum."""
    low, high = (v * (y - 1.0)).min() - 1.0, (v * y).max()
    theta = brentq(
        lambda t: np.maximum(y - t / v, 0.0).sum() - 1.0, low, high, xtol=1e-15, rtol=1e-15
    )
    return np.maximum(y - theta / v, 0.0)


@weighting
@pytest.mark.parametrize("n_classes", [3, 5])
def test_support_and_envelope_end_a_path_of_projections(n_classes: int, weighted: bool) -> None:
    sets, v = balls(n_classes, weighted), weights_of(n_classes, weighted)
    random = np.random.default_rng(1).normal(size=n_classes)
    for utility in (random, *np.eye(n_classes), *-np.eye(n_classes)[:2]):
        value = sets.upper_expectation(utility)
        for g, r, found in zip(sets.center, sets.radius, value, strict=True):

            def distance(log_step: float, g: np.ndarray = g, u: np.ndarray = utility) -> float:
                return float((v * (projection(g + np.exp(log_step) * u / v, v) - g) ** 2).sum())

            if distance(14.0) <= r:
                assert found == pytest.approx(utility.max(), abs=1e-6)
                continue
            step = brentq(lambda s, d=distance, r=r: d(s) - r, -25.0, 14.0, xtol=1e-13)
            assert found == pytest.approx(
                projection(g + np.exp(step) * utility / v, v) @ utility, rel=1e-8, abs=1e-8
            )
    lower, upper = sets.envelope()
    for k in range(n_classes):
        assert upper[:, k] == pytest.approx(sets.upper_expectation(np.eye(n_classes)[k]), abs=1e-12)
        assert lower[:, k] == pytest.approx(sets.lower_expectation(np.eye(n_classes)[k]), abs=1e-12)


def test_envelopes_of_a_hundred_classes() -> None:
    centers = np.random.default_rng(0).dirichlet(np.full(100, 0.5), 6)
    sets = Brier().region(centers, np.geomspace(1e-5, 1.5, 6))
    upper = sets.upper()
    for k in (0, 17, 99):
        assert upper[:, k] == pytest.approx(sets.upper_expectation(np.eye(100)[k]), abs=1e-12)


@weighting
def test_area_of_three_classes_on_a_grid(weighted: bool) -> None:
    sets = balls(3, weighted)
    volume = sets.volume(return_error=True)
    assert volume.method == "exact"
    share = sets.contains(grid(3, 0.0025), broadcast=True).mean(axis=1)
    assert np.asarray(volume[0]) == pytest.approx(share, abs=0.006)


def test_volumes_of_five_classes_by_counting() -> None:
    sets = balls(5, weighted=True)[5:]
    points = sample_uniform(100_000, 5, 0)
    share = sets.contains(points, broadcast=True).mean(axis=1)
    value, error = sets.volume(return_error=True)
    assert (
        np.abs(value - share) <= 5 * np.hypot(error, np.sqrt(share * (1 - share) / 1e5)) + 1e-4
    ).all()


@weighting
@pytest.mark.parametrize("n_classes", [3, 5])
def test_largest_entropy_has_a_certificate(n_classes: int, weighted: bool) -> None:
    """No member has more than ⟨−log p, λ⟩ at its largest, for any p;
    at the maximiser the two agree.
    """
    sets, v = balls(n_classes, weighted), weights_of(n_classes, weighted)
    most = np.asarray(sets.entropy_bounds().upper)
    for i, (g, r) in enumerate(zip(sets.center, sets.radius, strict=True)):
        found = minimize(
            lambda x: -entropy_of_valid(np.maximum(x, 1e-300)),
            g
            + min(1.0, 0.9 * np.sqrt(r / max((v * (g - 1 / n_classes) ** 2).sum(), 1e-300)))
            * (1 / n_classes - g),
            bounds=[(1e-12, 1)] * n_classes,
            constraints=[
                {"type": "eq", "fun": lambda x: x.sum() - 1},
                {"type": "ineq", "fun": lambda x, g=g, r=r: r - (v * (x - g) ** 2).sum()},
            ],
            options={"maxiter": 500, "ftol": 1e-14},
        )
        point = np.maximum(found.x, 1e-12) / np.maximum(found.x, 1e-12).sum()
        assert -found.fun <= most[i] + 1e-7
        assert most[i] <= sets[i].upper_expectation(-np.log(point))[0] + 1e-9


@weighting
@pytest.mark.parametrize("n_classes", [3, 5])
def test_smallest_entropy_is_certified(n_classes: int, weighted: bool) -> None:
    sets = balls(n_classes, weighted)
    bounds = sets.entropy_bounds()
    for i in range(len(sets)):
        best = smallest(
            lambda x: float(entropy_of_valid(x)),
            sets.score,
            sets.center[i],
            float(sets.radius[i]),
            4,
        )
        assert bounds.lower[i] <= best + 1e-7
        assert bounds.lower[i] + bounds.lower_gap[i] <= best + 0.05


def test_brackets_of_ten_classes_are_narrow() -> None:
    rng = np.random.default_rng(0)
    sharp = np.exp(4.0 * rng.normal(size=(300, 10)))
    sharp /= sharp.sum(axis=1, keepdims=True)
    flat = rng.dirichlet(np.ones(10), 300)
    for centers, limit in ((sharp, 0.01), (flat, 0.04)):
        far = Brier()(centers, np.full((300, 10), 0.1))
        for share in (0.02, 0.2, 0.6):
            gap = np.asarray(
                Brier().region(centers, share * far).entropy_bounds(base="K").lower_gap
            )
            assert gap.mean() < limit
    exact = Brier().region([[0.7, 0.3], [1.0, 0.0]], 0.02).entropy_bounds()
    assert exact.method == "exact"


@weighting
def test_nearest_distribution_with_a_class_on_top(weighted: bool) -> None:
    """The distance itself with equal weights; with others,
    the side of the radius on which it lies.
    """
    sets, v = balls(5, weighted, n=8, seed=2), weights_of(5, weighted)
    nearest = sets.geometry.mode_radius()
    for g, r, found in zip(sets.center, sets.radius, nearest, strict=True):
        for top in range(5):
            expected = minimize(
                lambda x, g=g: (v * (x - g) ** 2).sum(),
                np.full(5, 0.2),
                jac=lambda x, g=g: 2.0 * v * (x - g),
                bounds=[(0, 1)] * 5,
                constraints=[
                    {"type": "eq", "fun": lambda x: x.sum() - 1},
                    {"type": "ineq", "fun": lambda x, top=top: x[top] - x},
                ],
                options={"ftol": 1e-15, "maxiter": 500},
            )
            if weighted:
                assert (found[top] <= r) == (expected.fun <= r)
            else:
                assert found[top] == pytest.approx(expected.fun, abs=1e-7)


def test_estimates_from_votes_have_the_right_mean() -> None:
    rng, score = np.random.default_rng(0), Brier((1.0, 2.0, 0.5))
    truth, g = np.array([0.2, 0.5, 0.3]), np.array([[0.3, 0.3, 0.4]])
    votes = rng.multinomial(3, truth, 200_000)
    estimate = score.estimate_from_votes(np.repeat(g, len(votes), axis=0), votes.astype(float))
    assert estimate.mean() == pytest.approx(
        score(g, truth[None])[0], abs=5 * estimate.std() / np.sqrt(len(votes))
    )
    one = score.estimate_from_votes(g, np.array([[0.0, 1.0, 0.0]]))
    assert one == pytest.approx(score(g, np.array([[0.0, 1.0, 0.0]])))


def test_enclosing_balls_enclose() -> None:
    rng, score = np.random.default_rng(1), Brier()
    model, center, points = rng.dirichlet(np.ones(4), (3, 500))
    inside = score(model, points)
    assert (score(center, points) <= score.enclosing_threshold(model, center, inside) + 1e-12).all()


@pytest.mark.parametrize(
    "weights", [(), (1.0,), (1.0, 0.0), (1.0, -1.0), (1.0, 1e200), (1.0, float("nan"))]
)
def test_refused_weights(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="weights"):
        Brier(weights)


def test_weights_fit_the_classes() -> None:
    with pytest.raises(ValueError, match="weights has 2 entries"):
        Brier((1, 2)).region([[0.2, 0.3, 0.5]], 0.1)
    scaled = Normalized(Brier((1, 2, 3)), offset=0.1).region([[0.2, 0.3, 0.5]], 0.1)
    plain = Brier((1, 2, 3)).region([[0.2, 0.3, 0.5]], scaled.radius)
    assert scaled.upper() == pytest.approx(plain.upper())
