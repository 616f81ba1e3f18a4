"""Level sets of mixtures of Dirichlets: membership, certified boxes, estimated volumes, samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import dirichlet

from credalset.scores import NegativeLogDensity
from credalset.scores.mixture import DirichletMixture, _monomial_peak
from credalset.simplex import entropy_of_valid, grid, sample_uniform

PULL = 1e-3


def mixtures(n: int, k: int, seed: int = 0, n_components: int = 3) -> np.ndarray:
    """Components inside, on faces (some concentrations below one) and in corners: (n, C, 1 + k)."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n_components), n)
    theta = np.exp(rng.normal(0.5, 1.2, (n, n_components, k)))
    return np.concatenate([weights[..., None], theta], axis=2)


def test_score_is_the_negative_log_density() -> None:
    prediction, points = mixtures(5, 3), sample_uniform(5, 3, 0)
    expected = []
    for rows, point in zip(prediction, points, strict=True):
        y = (point + PULL) / (1 + 3 * PULL)
        expected.append(-np.log(sum(row[0] * dirichlet.pdf(y, row[1:]) for row in rows)))
    assert NegativeLogDensity()(prediction, points) == pytest.approx(expected, rel=1e-10)


def test_a_mixture_of_one_is_a_dirichlet() -> None:
    theta, points = 1.0 + np.random.default_rng(0).gamma(1.0, 4.0, (6, 3)), sample_uniform(6, 3, 1)
    one = np.concatenate([np.ones((6, 1, 1)), theta[:, None]], axis=2)
    score = NegativeLogDensity(pull=0.0)
    assert score(one, points) == pytest.approx(score(theta, points), rel=1e-10)
    assert score.region(one, 0.0).center == pytest.approx(score.region(theta, 0.0).center, abs=1e-9)


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_no_member_goes_beyond_the_box(k: int, share: float) -> None:
    """Members pushed outward by a search stay within the envelopes; they used to pass them by 1e-5 for four classes."""
    prediction, pool = mixtures(6, k, seed=k), sample_uniform(4000, k, 0)
    score = NegativeLogDensity()
    threshold = np.quantile(score.evaluate_pairs(score.check_prediction(prediction), pool[None]), share, axis=1)
    sets = score.region(prediction, threshold)
    lower, upper = sets.envelope()
    bounds = sets.entropy_bounds()
    utility = np.random.default_rng(1).normal(size=k)
    value = sets.upper_expectation(utility)
    for i, inside in enumerate(sets.contains(pool, broadcast=True)):
        members = np.concatenate([pool[inside], sets.center[[i]]])
        assert (members >= lower[i] - 1e-12).all()
        assert (members <= upper[i] + 1e-12).all()
        assert (members @ utility <= value[i] + 1e-12).all()
        entropy = entropy_of_valid(members)
        assert (entropy >= bounds.lower[i] - 1e-12).all()
        assert (entropy <= bounds.upper[i] + 1e-12).all()
        for c in range(k):
            start = members[members[:, c].argmax()]
            found = minimize(
                lambda x, c=c: -x[c],
                start,
                bounds=[(0, 1)] * k,
                constraints=[
                    {"type": "eq", "fun": lambda x: x.sum() - 1},
                    {
                        "type": "ineq",
                        "fun": lambda x, i=i: float(
                            threshold[i] - score(prediction[[i]], (np.maximum(x, 0) / np.maximum(x, 0).sum())[None])[0]
                        ),
                    },
                ],
            )
            point = np.maximum(found.x, 0.0) / np.maximum(found.x, 0.0).sum()
            if sets[i].contains(point[None])[0]:
                assert point[c] <= upper[i, c] + 1e-9


def test_boxes_are_tight_for_one_component() -> None:
    one = np.concatenate([np.ones((4, 1, 1)), 1.0 + np.random.default_rng(0).gamma(1.0, 4.0, (4, 1, 3))], axis=2)
    score = NegativeLogDensity(pull=0.0)
    mixed, plain = score.region(one, 0.0), score.region(one[:, 0, 1:], 0.0)
    full = ~plain.is_empty()
    assert mixed.upper()[full] == pytest.approx(plain.upper()[full], abs=1e-5)
    assert mixed.lower()[full] == pytest.approx(plain.lower()[full], abs=1e-5)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_volumes_and_samples_against_counting(k: int) -> None:
    prediction, pool = mixtures(5, k, seed=k), sample_uniform(100_000, k, 0)
    score = NegativeLogDensity()
    values = score.evaluate_pairs(score.check_prediction(prediction), pool[None])
    sets = score.region(prediction, np.quantile(values, 0.1, axis=1))
    volume = sets.volume(return_error=True)
    assert volume.method == "estimate"
    assert (np.abs(np.asarray(volume[0]) - 0.1) <= 5 * np.hypot(volume[1], 0.1 / np.sqrt(1e4))).all()
    draws = sets.sample(1000, random_state=0)
    assert sets.contains(draws).all()
    for i, inside in enumerate(sets.contains(pool, broadcast=True)):
        noise = pool[inside].std(axis=0) * np.hypot(1 / np.sqrt(1000), 1 / np.sqrt(inside.sum()))
        assert (np.abs(draws[i].mean(axis=0) - pool[inside].mean(axis=0)) <= 5 * noise).all()


def test_sets_out_of_reach_are_refused() -> None:
    """Two far corners of many classes span a box that next to no draw leaves for the set."""
    k = 12
    corner = np.full((1, 2, k + 1), 1.0)
    corner[0, :, 0] = 0.5
    corner[0, 0, 1], corner[0, 1, 2] = 3000.0, 3000.0
    score = NegativeLogDensity()
    checked = score.check_prediction(corner)
    sets = score.region(corner, score.evaluate_rows(checked, score.best_fit(checked)) + 3.0)
    assert not sets.is_empty().any()
    with pytest.raises(ValueError, match="too few for volumes"):
        sets.volume(n_rays=8)


def test_the_peak_is_found() -> None:
    prediction, points = mixtures(8, 3, seed=3), grid(3, 0.01)
    score = NegativeLogDensity()
    checked = score.check_prediction(prediction)
    best = score.evaluate_rows(checked, score.best_fit(checked))
    assert (best <= score.evaluate_pairs(checked, points[None]).min(axis=1) + 1e-9).all()


def test_monomial_peak_on_a_grid() -> None:
    powers = np.random.default_rng(0).normal(0.5, 1.0, (30, 3))
    powers[0] = -1.0
    floor, points = 0.02, grid(3, 0.005)
    points = points[(points >= 0.02).all(axis=1)]
    found = _monomial_peak(powers, floor)
    assert found.sum(axis=1) == pytest.approx(1.0)
    assert ((powers * np.log(found)).sum(axis=1) >= (np.log(points) @ powers.T).max(axis=0) - 1e-12).all()


def test_largest_score_above_a_corner_of_the_simplex() -> None:
    prediction, rng = mixtures(6, 3, seed=5), np.random.default_rng(0)
    score = NegativeLogDensity()
    checked, lower = score.check_prediction(prediction), rng.dirichlet(np.ones(4), 6)[:, :3]
    spare = 1.0 - lower.sum(axis=1)
    points = lower[:, None] + spare[:, None, None] * sample_uniform(500, 3, 0)
    bound = score.largest_above(checked, lower)
    assert (score.evaluate_pairs(checked, points) <= bound[:, None] + 1e-9).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a[:, :, :2], "mixtures of shape"),
        (lambda a: a * [[[0.5] + [1.0] * 3]], "weights"),
        (lambda a: a * [[[1.0, 0.0, 1.0, 1.0]]], "concentrations"),
        (lambda a: a * [[[1.0, np.nan, 1.0, 1.0]]], "NaN"),
    ],
)
def test_mixtures_that_are_none(change: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NegativeLogDensity().region(change(mixtures(2, 3)), 0.0)  # type: ignore[operator]


def test_values_and_arrays_are_the_same() -> None:
    array = mixtures(3, 3)
    named = DirichletMixture(array[..., 0], array[..., 1:])
    assert np.array_equal(np.asarray(named), array)
    points = sample_uniform(3, 3, 0)
    assert np.array_equal(NegativeLogDensity()(named, points), NegativeLogDensity()(array, points))
    with pytest.raises(ValueError, match="pull > 0"):
        NegativeLogDensity(pull=0.0).region(mixtures(2, 3), 0.0)
