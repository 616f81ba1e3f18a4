"""Relative likelihood and density of Dirichlets,
reverse-KL balls and Hellinger balls against independent oracles.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import rel_entr, wrightomega
from scipy.stats import dirichlet

import credalset as cs
from credalset.scores import (
    Hellinger,
    NegativeLogDensity,
    Normalized,
    RelativeLikelihood,
    ScaledPrediction,
    Score,
)
from credalset.scores.dirichlet import ReverseKullbackLeiblerBall
from credalset.scores.hellinger import HellingerBall
from credalset.scores.power import PowerBall, omega, phi_inverse
from credalset.sets import Geometry
from credalset.simplex import entropy_of_valid, grid, sample_uniform
from tests.scores.search import smallest, spread_centers

BALLS: list[type[PowerBall]] = [ReverseKullbackLeiblerBall, HellingerBall]
kinds = pytest.mark.parametrize("kind", BALLS, ids=["reverse-kl", "hellinger"])


def distance(kind: type[PowerBall], m: np.ndarray, point: np.ndarray) -> np.ndarray:
    if kind is ReverseKullbackLeiblerBall:
        return rel_entr(m, point).sum(axis=-1)
    return 1.0 - np.sqrt(m * point).sum(axis=-1)


def balls(kind: type[PowerBall], n: int, k: int, seed: int = 0) -> PowerBall:
    rng = np.random.default_rng(seed)
    return kind(spread_centers(n, k, seed), rng.permutation(np.geomspace(1e-5, 0.6, n)))


# Scores


def test_scores_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    theta, points = 1.0 + rng.gamma(1.0, 3.0, (20, 4)), rng.dirichlet(np.ones(4), 20)
    logs = np.array([dirichlet.logpdf(y, t) for y, t in zip(points, theta, strict=True)])
    peaks = np.array([dirichlet.logpdf((t - 1) / (t - 1).sum(), t) for t in theta])
    assert NegativeLogDensity()(theta, points) == pytest.approx(-logs, rel=1e-12)
    drop = RelativeLikelihood()(theta, points)
    assert drop == pytest.approx(peaks - logs, rel=1e-10)
    assert RelativeLikelihood.as_published(drop) == pytest.approx(
        1.0 - np.exp(logs - peaks), rel=1e-10
    )


def test_all_ones_fit_everything_and_zeros_nothing() -> None:
    ones = np.ones((1, 3))
    assert RelativeLikelihood()(ones, np.array([[1.0, 0.0, 0.0]]))[0] == 0.0
    assert RelativeLikelihood()(ones + 1.0, np.array([[1.0, 0.0, 0.0]]))[0] == np.inf
    assert np.isposinf(RelativeLikelihood().region(ones, 0.0).radius).all()
    assert NegativeLogDensity().region(ones, -1.0).is_empty().all()


def test_answers_hold_members_that_rounding_lets_in() -> None:
    """Nearly flat densities: the score adds a drop of 1e-12 KL to a constant,
    whose rounding is 1e-4 of a radius.
    """
    score, flat = NegativeLogDensity(), np.array([[1.0 + 1e-12, 1.0, 1.0]])
    sets = score.region(flat, score(flat, np.array([[1.0, 0.0, 0.0]])))
    rest = np.linspace(0.0, 1e-3, 2001)
    points = np.stack([1.0 - rest, 0.5 * rest, 0.5 * rest], axis=1)
    members = points[sets.contains(points, broadcast=True)[0]]
    assert 1e-5 < 1.0 - members[:, 0].min() <= 1.0 - sets.lower()[0, 0] + 1e-9
    assert entropy_of_valid(members).max() <= sets.entropy_bounds().upper[0] + 1e-9
    assert score.region(flat, np.nextafter(sets.threshold, -np.inf)).is_empty()


def test_sharp_predictions_do_not_tie() -> None:
    """With 1 − exp(−drop) a quarter of these scores were exactly 1,
    and every set became the whole simplex.
    """
    rng = np.random.default_rng(0)
    mode, truth = rng.dirichlet(np.full(3, 2.0), 500), rng.dirichlet(np.full(3, 2.0), 500)
    labels = 0.6 * mode + 0.4 * truth
    calibration = cs.conformalize(1.0 + 400.0 * mode, labels, "so")
    assert len(np.unique(calibration.scores)) == 500
    sets = calibration.predict_set(1.0 + 400.0 * mode[:50], alpha=0.1)
    assert np.isfinite(sets.radius).all()
    assert sets.width().mean() < 1.5
    assert sets.contains(labels[:50]).mean() > 0.7


@pytest.mark.parametrize("level", [0.5, 30.0, 40.0, 700.0])
def test_scaled_thresholds_do_not_saturate(level: float) -> None:
    """Where threshold × scale rounded to just below 1, members and envelopes used to disagree."""
    rng = np.random.default_rng(1)
    theta = ScaledPrediction(1.0 + 50.0 * rng.dirichlet(np.ones(3), 20), np.full(20, 0.7))
    sets = Normalized("so", scale="predicted").region(theta, level)
    points = grid(3, 0.02)
    lower, upper = sets.envelope()
    for i, inside in enumerate(sets.contains(points, broadcast=True)):
        assert (points[inside] >= lower[i] - 1e-9).all()
        assert (points[inside] <= upper[i] + 1e-9).all()


@pytest.mark.parametrize(
    "score", [RelativeLikelihood(), NegativeLogDensity(), Hellinger()], ids=lambda s: s.name
)
def test_enclosing_balls_enclose(score: Score) -> None:
    rng = np.random.default_rng(2)
    models, points = 1.0 + rng.gamma(1.0, 4.0, (2, 300, 4)), rng.dirichlet(np.ones(4), 300)
    if score.order == "first":
        models = models / models.sum(axis=-1, keepdims=True)
    center = score.common_center(list(models))
    for model in models:
        threshold = score.enclosing_threshold(model, center, score(model, points))
        assert (score(center, points) <= threshold + 1e-9).all()


# Special functions


@pytest.mark.parametrize("radius", [5e-324, 1e-310, 1e-300])
@pytest.mark.parametrize("kind", [ReverseKullbackLeiblerBall, HellingerBall])
def test_radii_at_the_end_of_the_doubles(kind: type[PowerBall], radius: float) -> None:
    center = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.7, 0.2, 0.1]])
    bounds = kind(center, np.full(3, radius)).entropies()
    np.testing.assert_allclose(bounds.lower, entropy_of_valid(center), atol=1e-12)
    np.testing.assert_allclose(bounds.upper, entropy_of_valid(center), atol=1e-12)


def test_omega_is_that_of_scipy() -> None:
    z = np.concatenate(
        [np.linspace(-600, -20, 300), np.linspace(-20, 20, 4001), np.geomspace(20, 1e12, 300)]
    )
    assert omega(z) == pytest.approx(wrightomega(z), rel=1e-13)
    assert omega(np.array([-np.inf]))[0] < 1e-300


def test_phi_inverse_inverts() -> None:
    d = np.geomspace(1e-9, 1e8, 3001)
    q = np.where(d < 1e-3, d * d * (0.5 - d * (1 / 3 - d * (0.25 - d / 5))), d - np.log1p(d))
    assert phi_inverse(q) == pytest.approx(d, rel=1e-10)


# Both balls


@kinds
def test_divergence_agrees_with_the_plain_formula(kind: type[PowerBall]) -> None:
    sets = balls(kind, 12, 5)
    points = np.random.default_rng(1).dirichlet(np.ones(5), (12, 30))
    assert sets.divergence(points) == pytest.approx(
        distance(kind, sets.center[:, None], points), rel=1e-9, abs=1e-12
    )


@kinds
def test_envelope_solves_the_two_class_problem(kind: type[PowerBall]) -> None:
    sets = balls(kind, 15, 4)
    lower, upper = sets.envelope()
    for (i, k), m in np.ndenumerate(sets.center):
        r = sets.radius[i]

        def excess(x: float, m: float = m, r: float = r) -> float:
            return float(distance(kind, np.array([m, 1 - m]), np.array([x, 1 - x]))) - r

        low = (
            0.0
            if m == 0 or excess(0.0) <= 0
            else brentq(excess, 0.0 if np.isfinite(excess(0.0)) else 1e-300, m)
        )
        high = (
            1.0
            if excess(1.0) <= 0
            else brentq(excess, m, 1.0 if np.isfinite(excess(1.0)) else 1 - 1e-16)
        )
        assert lower[i, k] == pytest.approx(low, abs=1e-9)
        assert upper[i, k] == pytest.approx(high, abs=1e-9)


@kinds
@pytest.mark.parametrize("k", [3, 6])
def test_support_is_attained_and_unbeaten(kind: type[PowerBall], k: int) -> None:
    sets, rng = balls(kind, 15, k), np.random.default_rng(3)
    pool = sample_uniform(4000, k, 0)
    edge = sets.center[:, None] + sets._ray_length(pool[None] - sets.center[:, None]).clip(max=1.0)[
        ..., None
    ] * (pool[None] - sets.center[:, None])
    for utility in (
        rng.normal(size=(15, k)),
        np.tile(np.eye(k)[1], (15, 1)),
        np.tile(-np.eye(k)[0], (15, 1)),
    ):
        value, member = sets.support(utility)
        assert (sets.divergence(member[:, None])[:, 0] <= sets.radius * (1 + 1e-6)).all()
        assert (utility * member).sum(axis=1) == pytest.approx(value, abs=1e-12)
        assert ((edge @ utility[..., None])[..., 0] <= value[:, None] + 1e-9).all()


@kinds
def test_largest_entropy_has_a_certificate(kind: type[PowerBall]) -> None:
    """λ ∝ exp(p y) with y + log y = τ + log(m) / p:
    any such p bounds every member through the support function.
    """
    sets = balls(kind, 15, 5)
    most = sets.entropies().upper
    for i in range(len(sets)):
        m, r = sets.center[i], sets.radius[i]

        def point(log_theta: float, m: np.ndarray = m) -> np.ndarray:
            theta = np.exp(log_theta)
            with np.errstate(divide="ignore"):
                y = wrightomega(theta + np.log(theta) + np.log(m / m.max()) / kind.power).real
            mass = np.exp(kind.power * (y - theta))
            return mass / mass.sum()

        flat = np.full(5, 0.2)
        if distance(kind, m, flat) <= r:
            assert most[i] == pytest.approx(np.log(5), abs=1e-12)
            continue
        best = point(
            brentq(
                lambda x, m=m, r=r, p=point: float(distance(kind, m, p(x))) - r,
                -20.0,
                20.0,
                xtol=1e-13,
            )
        )
        assert most[i] == pytest.approx(entropy_of_valid(best), abs=1e-7)
        certificate = sets[[i]].support(-np.log(np.maximum(best, 1e-300))[None])[0][0]
        assert most[i] <= certificate + 1e-7


@kinds
@pytest.mark.parametrize("k", [3, 5])
def test_smallest_entropy_is_not_beaten_by_a_search(kind: type[PowerBall], k: int) -> None:
    score: Score = Hellinger() if kind is HellingerBall else RelativeLikelihood()
    sets = balls(kind, 6, k, seed=k)
    least = sets.entropies().lower
    for i, (m, r) in enumerate(zip(sets.center, sets.radius, strict=True)):
        prediction, threshold = (m, r) if kind is HellingerBall else (1.0 + 10.0 * m, 10.0 * r)
        best = smallest(
            lambda x: float(entropy_of_valid(x)), score, prediction, float(threshold), n_starts=16
        )
        assert least[i] <= best + 1e-6
        assert least[i] >= best - 0.05  # the search need not end at the minimum


@kinds
def test_both_branches_of_the_smallest_entropy_are_looked_at(kind: type[PowerBall]) -> None:
    """Flat centres over many classes: either end of a fold of the divergence may be the minimum.

    The whole curve is scanned: stationary points by x = −log y of the largest class, those within
    the radius.
    """
    rng = np.random.default_rng(0)
    levels = np.concatenate([np.zeros((40, 1)), 10 ** rng.uniform(-9, 1, (40, 11))], axis=1)
    levels[::2] = np.minimum(levels[::2], levels[::2, rng.integers(1, 12, 12)])
    levels[0] = np.r_[np.zeros(8), np.full(4, 1.2)]
    x = np.concatenate([-np.geomspace(20.0, 1e-5, 2000), np.geomspace(1e-5, 30.0, 6000)])
    own, used = np.expm1(-x), set()
    for m in np.exp(-np.sort(levels, axis=1)):
        m = m / m.sum()
        u = phi_inverse(np.maximum(own + x, 0.0) + np.log(m[0] / m[:, None]) / kind.power)
        points = m[:, None] * (np.exp(-x) / (1.0 + u)) ** kind.power
        points[0] = m[0]
        points = (points / points.sum(axis=0)).T
        reached = distance(kind, m, points)
        falls = np.flatnonzero((np.diff(reached) < -1e-13) & (x[1:] > 1e-4))
        shares = np.linspace(0.02, 0.98, 9)
        fold = reached[[falls[-1] + 1, falls[0]]] @ [shares, 1.0 - shares] if len(falls) else []
        for r in np.r_[np.quantile(reached[(x > -5) & (x < 5)], [0.3, 0.6, 0.8]), fold]:
            inside = reached <= r
            best = np.flatnonzero(inside)[entropy_of_valid(points[inside]).argmin()]
            used.add(bool((reached[:best] > r).any()))
            least = kind(m[None], np.array([r])).entropies().lower[0]
            assert least <= entropy_of_valid(points[best]) + 1e-9
            assert least == pytest.approx(entropy_of_valid(points[best]), abs=0.02)
    assert used == {True, False}  # the minimum lies before the fold for some, beyond it for others


@kinds
def test_nearest_distribution_with_a_class_on_top(kind: type[PowerBall]) -> None:
    sets = balls(kind, 9, 4, seed=1)
    nearest = sets.mode_radius()
    for m, found in zip(sets.center, nearest, strict=True):
        for top in range(4):
            start = np.where(np.arange(4) == top, 0.4, 0.2)
            expected = minimize(
                lambda x, m=m: min(
                    float(distance(kind, m, np.maximum(x, 1e-12) / np.maximum(x, 1e-12).sum())), 1e3
                ),
                start,
                bounds=[(1e-12, 1)] * 4,
                constraints=[
                    {"type": "eq", "fun": lambda x: x.sum() - 1},
                    {"type": "ineq", "fun": lambda x, top=top: x[top] - x},
                ],
                options={"ftol": 1e-14, "maxiter": 500},
            )
            assert found[top] <= expected.fun + 1e-7
            assert found[top] == pytest.approx(expected.fun, abs=2e-4)


# Volumes


@pytest.mark.parametrize("k", [2, 3, 5, 12])
def test_volume_by_counting(k: int) -> None:
    rng = np.random.default_rng(k)
    m = rng.dirichlet(np.ones(k), 4)
    m[0] = np.eye(k)[0]
    pool = sample_uniform(200_000, k, 1)
    for center in m:
        values = rel_entr(center, pool).sum(axis=1)
        radius = np.quantile(values, [0.05, 0.4, 0.9])
        share = (values[:, None] <= radius).mean(axis=0)
        log_volume, error, method = ReverseKullbackLeiblerBall(
            np.tile(center, (3, 1)), radius
        ).log_volume(rng, 1)
        assert method == "exact"
        assert (error == 0).all()
        assert np.abs(np.exp(log_volume) - share) == pytest.approx(0.0, abs=5 * np.sqrt(0.25 / 2e5))


def test_volume_at_a_corner_and_of_a_tiny_ball() -> None:
    """At a corner KL = −log λ_1: the share is (1 − e^(−r))^(K−1). A tiny ball is an ellipsoid."""
    for k in (2, 3, 7, 30):
        value = ReverseKullbackLeiblerBall(np.eye(k)[:1], np.array([0.3])).log_volume(
            np.random.default_rng(0), 1
        )[0]
        assert value[0] == pytest.approx((k - 1) * np.log(-np.expm1(-0.3)), rel=1e-9)
    m, r = np.array([[0.5, 0.3, 0.2]]), 1e-9
    value = ReverseKullbackLeiblerBall(m, np.array([r])).log_volume(np.random.default_rng(0), 1)[0]
    assert np.exp(value[0]) == pytest.approx(2.0 * np.pi * 2.0 * r * np.sqrt(m.prod()), rel=1e-3)


def test_rays_estimate_the_exact_volume() -> None:
    """These balls are the only ones with exact volumes for many classes:
    they test the general estimator.
    """
    rng = np.random.default_rng(0)
    known = (
        RelativeLikelihood()
        .region(1.0 + 30.0 * rng.dirichlet(np.ones(10), size=8), threshold=2.3)
        .geometry
    )
    exact = known.log_volume(rng, 1)[0]
    value, error, method = Geometry.log_volume(known, rng, 1024)
    assert method == "estimate"
    assert (np.abs(value - exact) < 4 * error).all()
    assert (error < 0.2).all()


def test_hellinger_volume_of_two_classes() -> None:
    sets = Hellinger().region([[0.3, 0.7], [1.0, 0.0]], 0.1)
    assert sets.volume(return_error=True).method == "exact"
    share = sets.contains(grid(2, 1e-5), broadcast=True).mean(axis=1)
    assert np.asarray(sets.volume()) == pytest.approx(share, abs=2e-5)


@pytest.mark.parametrize(
    "score", [RelativeLikelihood(), NegativeLogDensity()], ids=lambda score: score.name
)
def test_members_of_wide_balls_have_finite_scores(score: Score) -> None:
    """The probabilities that attain an expectation underflow there: exp(−1e5)."""
    prediction = np.array([[1.0, 1.3, 1.7], [1.001, 1.3, 1.7], [1.4, 1.3, 1.3]])
    sets = score.region(prediction, 1e5)
    for utility in (*np.eye(3), *-np.eye(3)):
        assert sets.contains(sets.support(utility)[1]).all()
