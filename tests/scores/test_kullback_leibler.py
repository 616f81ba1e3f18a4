"""Kullback–Leibler balls: values, volumes and extremes;
everything else is in `tests.sets.test_oracles`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp, rel_entr
from scipy.stats import entropy

from credalset.scores import KullbackLeibler
from credalset.simplex import sample_uniform

SCORE = KullbackLeibler(base=math.e)


def test_values() -> None:
    rng = np.random.default_rng(0)
    g, y = rng.dirichlet(np.ones(5), 20), rng.dirichlet(np.ones(5), 20)
    np.testing.assert_allclose(SCORE(g, y), entropy(y, g, axis=1), rtol=1e-12)
    np.testing.assert_allclose(KullbackLeibler()(g, y), SCORE(g, y) / math.log(2.0), rtol=1e-12)
    np.testing.assert_array_equal(SCORE(g, g), 0.0)
    assert SCORE([[1.0, 0.0]], [[0.5, 0.5]])[0] == np.inf


@pytest.mark.parametrize("base", [1.0, 0.5, math.nan, math.inf])
def test_base(base: float) -> None:
    with pytest.raises(ValueError, match="base"):
        KullbackLeibler(base=base)


@pytest.mark.parametrize("g", [1e-9, 1e-4, 0.03, 0.5, 0.97, 1.0 - 1e-9])
@pytest.mark.parametrize("radius", [1e-8, 1e-4, 0.05, 0.7, 5.0])
def test_envelope_solves_the_binary_equation(g: float, radius: float) -> None:
    def excess(p: float) -> float:
        return float(rel_entr(p, g) + rel_entr(1 - p, 1 - g)) - radius

    expected_upper = 1.0 if excess(1.0) <= 0 else brentq(excess, g, 1.0, xtol=1e-15)
    expected_lower = 0.0 if excess(0.0) <= 0 else brentq(excess, 0.0, g, xtol=1e-15)
    lower, upper = SCORE.region([[g, 1.0 - g]], radius).envelope()
    assert upper[0, 0] == pytest.approx(expected_upper, abs=1e-9)
    assert lower[0, 0] == pytest.approx(expected_lower, abs=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
@pytest.mark.parametrize("radius", [1e-300, 1e-13, 1e-11, 1e-6, 0.1, 3.0, 600.0])
def test_extreme_predictions_and_radii(n_classes: int, radius: float) -> None:
    tiny = np.full(n_classes, 1.0 / n_classes)
    tiny[0] = 1e-300
    sharp = np.r_[1.0 - 1e-12 * (n_classes - 1), np.full(n_classes - 1, 1e-12)]
    sets = SCORE.region(np.stack([tiny / tiny.sum(), sharp, np.eye(n_classes)[0]]), radius)
    lower, upper = sets.envelope()
    assert (lower <= sets.prediction).all()
    assert (upper >= sets.prediction).all()
    bounds = sets.entropy_bounds()
    assert (bounds.lower <= bounds.upper).all()
    value, member = sets.support(np.arange(float(n_classes)))
    assert (SCORE(sets.prediction, member) <= radius * (1 + 1e-6) + 1e-12).all()
    np.testing.assert_allclose(member @ np.arange(float(n_classes)), value, atol=1e-6)
    assert sets.decide().any(axis=1).all()


@pytest.mark.parametrize("share", [1.0, 1.0 - 1e-15, 1.0 - 5e-13, 1.0 - 2e-12])
def test_balls_that_end_at_a_corner(share: float) -> None:
    """Thresholds are scores of calibration items; those of one vote are scores of corners."""
    g = np.array([[0.9, 0.1 - 1e-10, 1e-10]])
    value, member = SCORE.region(g, share * SCORE(g, [[0.0, 0.0, 1.0]])).support([-1.0, 0.0, 1.0])
    np.testing.assert_allclose(value, 1.0, atol=1e-6)
    np.testing.assert_allclose(member, [[0.0, 0.0, 1.0]], atol=1e-6)


def test_classes_that_are_ruled_out_stay_out() -> None:
    sets = SCORE.region([[0.6, 0.4, 0.0]], 0.3)
    assert sets.upper()[0, 2] == 0.0
    assert sets.volume()[0] == 0.0
    np.testing.assert_array_equal(sets.decide(), [[True, True, False]])
    draws = sets.sample(200, random_state=0)
    assert (draws[..., 2] == 0.0).all()
    assert draws[0, :, 0].std() > 0.1


def test_area_over_three_classes() -> None:
    rng = np.random.default_rng(1)
    centers = np.concatenate(
        [rng.dirichlet(np.ones(3), 10), rng.dirichlet(np.full(3, 0.1), 10) * 0.99 + 0.01 / 3]
    )
    for radius in (0.01, 0.1, 0.5, 2.0):
        sets = SCORE.region(centers, radius)
        held = sets.contains(sample_uniform(100_000, 3, 0), broadcast=True).mean(axis=1)
        value, error = sets.volume(return_error=True)
        assert (error == 0.0).all()
        np.testing.assert_allclose(value, held, atol=5 * np.sqrt(0.25 / 100_000))


@pytest.mark.parametrize("tiny", [1e-12, 1e-20, 1e-300])
@pytest.mark.parametrize("largest", [0.5, 0.999, 1.0])
def test_area_with_classes_below_rounding(largest: float, tiny: float) -> None:
    """It was zero: 1 − g is zero, or a class lost beside another one."""
    g = np.array([tiny, largest, max(1.0 - largest, tiny)])
    points = sample_uniform(20_000, 3, 0)
    radius = float(np.median(rel_entr(points, g).sum(axis=1)))
    np.testing.assert_allclose(SCORE.region([g], radius).volume(), 0.5, atol=0.02)


def test_small_balls_are_ellipses() -> None:
    g, radius = np.array([0.5, 0.3, 0.2]), 1e-7
    expected = (
        2.0 * np.pi * 2.0 * radius * np.sqrt(g.prod())
    )  # area πab of Σ x²/2g = r, over that of the triangle
    np.testing.assert_allclose(SCORE.region([g], radius).volume(), expected, rtol=1e-4)


@pytest.mark.parametrize("tiny", [1e-300, 1e-307, 1e-310, 5e-324])
@pytest.mark.parametrize("utility", [[0.0, 1.0, 2.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
def test_predictions_below_the_normal_range(tiny: float, utility: list[float]) -> None:
    """Expectations against the dual, min η (r + log Σ g exp(u / η)), from logarithms."""
    u = np.array(utility)
    for g in ([0.7, 0.3, tiny], [1.0, tiny, tiny], [tiny, 1.0, tiny]):
        logs = np.log(g)
        for radius in (1e-3, 0.1, 10.0, 650.0, 740.0):
            found = minimize_scalar(
                lambda x, r=radius, b=logs: math.exp(x) * (r + logsumexp(u / math.exp(x) + b)),
                bounds=(-12.0, 12.0),
                method="bounded",
                options={"xatol": 1e-10},
            )
            expected = min(float(found.fun), max(utility))
            sets = SCORE.region([g], radius)
            assert sets.upper_expectation(u)[0] == pytest.approx(expected, rel=1e-5, abs=1e-5)
            bounds = sets.entropy_bounds()
            assert 0.0 <= bounds.lower[0] <= bounds.upper[0] <= math.log(3.0) + 1e-12
            assert np.isfinite(sets.envelope()).all()
            assert sets.decide().any()


def tilted(log_g: np.ndarray, power: float) -> tuple[float, float]:
    """Entropy of λ ∝ g^power and its divergence from g, from logarithms alone."""
    logs = power * log_g - logsumexp(power * log_g)
    shares = np.exp(logs)
    return -float(shares @ logs), float(shares @ (logs - log_g))


@pytest.mark.parametrize("tiny", [1e-20, 1e-300, 1e-310, 5e-324])
@pytest.mark.parametrize("radius", [1e-6, 1e-3, 0.1, 0.35, 10.0, 740.0])
def test_entropies_below_the_normal_range_are_those_of_tilts(tiny: float, radius: float) -> None:
    for g in ([0.7, 0.3, tiny], [0.5, 0.3, 0.2 - tiny, tiny], [0.6, 0.4 - tiny, tiny]):
        logs = np.log(g)

        def excess(power: float, b: np.ndarray = logs) -> float:
            return tilted(b, power)[1] - radius

        flat = 0.0 if excess(0.0) <= 0.0 else brentq(excess, 0.0, 1.0, xtol=1e-15)
        if radius >= -logs.max():
            least = 0.0
        else:
            least = tilted(logs, brentq(excess, 1.0, 1e4, xtol=1e-14))[0]
        bounds = SCORE.region([g], radius).entropy_bounds()
        assert bounds.upper[0] == pytest.approx(tilted(logs, flat)[0], abs=1e-9)
        assert bounds.lower[0] == pytest.approx(least, abs=1e-9)
