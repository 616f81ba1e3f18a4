"""Thresholds per group, and thresholds under covariate shift."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import credalset as cs
from credalset.calibration.levels import conformal_rank, exact_level
from credalset.calibration.noise import Columns, NoNoise, Quantile
from credalset.scores import Score
from tests.conftest import random_predictions

NOISES = [
    None,
    cs.BoundedNoise(0.05, 0.02),
    cs.AnnotatorSampling(),
    cs.AnnotatorSampling(0.02),
    cs.UnbiasedVotes(),
]


def draw(score: Score, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    prediction = random_predictions(score, n, 3, rng)
    shares = score.mean(score.check_prediction(prediction))
    return prediction, rng.multinomial(10, 0.7 * shares + 0.1)


# --- groups ---


@pytest.mark.filterwarnings("ignore::credalset.CredalSetWarning")
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_each_group_is_calibrated_on_its_own(noise: Any, score: Score) -> None:
    if isinstance(noise, cs.UnbiasedVotes) and not score.is_convex:
        return
    rng = np.random.default_rng(0)
    prediction, counts = draw(score, 90, rng)
    groups = rng.permutation(np.repeat(["a", "b"], [33, 57]))
    together = cs.conformalize(prediction, counts, score, noise=noise, groups=groups)
    for key in ("a", "b"):
        own = groups == key
        alone = cs.conformalize(prediction[own], counts[own], score, noise=noise)
        expected = alone.thresholds(prediction[:4], 0.2)
        assert np.array_equal(together.thresholds(prediction[:4], 0.2, groups=[key] * 4), expected)
    assert together.groups is not None
    assert set(together.groups) == {"a", "b"}
    assert together.guarantee.within == "each group"


def test_coverage_holds_in_each_group() -> None:
    rng = np.random.default_rng(1)
    covered: dict[str, list[float]] = {"easy": [], "hard": []}
    plain = []
    for _ in range(30):
        hard = rng.random(600) < 0.3
        truth = rng.dirichlet(np.ones(3), 600)
        share = np.where(hard, 0.9, 0.1)[:, None]
        g = (1 - share) * truth + share * rng.dirichlet(np.ones(3), 600)
        keys = np.where(hard, "hard", "easy")
        calibration = cs.conformalize(g[:400], truth[:400], "tv", groups=keys[:400])
        inside = calibration.predict_set(g[400:], 0.1, groups=keys[400:]).contains(truth[400:])
        for key, values in covered.items():
            values.append(inside[keys[400:] == key].mean())
        everyone = (
            cs.conformalize(g[:400], truth[:400], "tv")
            .predict_set(g[400:], 0.1)
            .contains(truth[400:])
        )
        plain.append(everyone[keys[400:] == "hard"].mean())
    for key, values in covered.items():
        assert 0.9 - 3 * np.std(values) / math.sqrt(30) <= np.mean(values) <= 0.95, key
    assert np.mean(plain) < 0.8, "without groups the hard ones pay"


def test_predicted_classes_follow_from_the_prediction() -> None:
    g, counts = draw(cs.get_score("tv"), 300, np.random.default_rng(2))
    by_name = cs.conformalize(g, counts, groups="predicted")
    by_key = cs.conformalize(g, counts, groups=g.argmax(axis=1))
    assert np.array_equal(
        by_name.thresholds(g, 0.1), by_key.thresholds(g, 0.1, groups=g.argmax(axis=1))
    )
    with pytest.raises(ValueError, match="groups"):
        by_name.thresholds(g, 0.1, groups=g.argmax(axis=1))


def test_small_and_unknown_groups_get_everything_and_a_warning() -> None:
    g, counts = draw(cs.get_score("tv"), 100, np.random.default_rng(3))
    groups = ["rare"] * 3 + ["common"] * 97
    split = cs.conformalize(g, counts, groups=groups)
    cross = cs.cross_conformalize(g, counts, np.arange(100) % 2, groups=groups)
    for asked, match in (
        ("rare", "'rare' have too few"),
        ("unseen", "'unseen', which no calibration item has"),
    ):
        for ask in (
            lambda keys: split.thresholds(g[:2], 0.1, groups=keys),
            lambda keys: cross.thresholds([g[:2]] * 2, 0.1, groups=keys),
        ):
            with pytest.warns(cs.CredalSetWarning, match=match):
                found = ask([asked, "common"])
            assert np.isinf(found).tolist() == [True, False]
    assert split.p_values(g[:1], counts[:1], groups=["unseen"]) == 1.0


def test_what_groups_refuse() -> None:
    g, counts = draw(cs.get_score("tv"), 20, np.random.default_rng(4))
    with pytest.raises(ValueError, match=r"groups must hold one key per item \(20\), but holds 3"):
        cs.conformalize(g, counts, groups=[1, 2, 3])
    with pytest.raises(TypeError, match="groups"):
        cs.conformalize(g, counts, groups="class")
    with pytest.raises(ValueError, match="groups has no key in row 0"):
        cs.conformalize(g, counts, groups=[math.nan] * 20)
    with pytest.raises(TypeError, match="groups"):
        cs.conformalize(g, counts, groups=[{}] * 20)
    with pytest.raises(ValueError, match="groups is missing"):
        cs.conformalize(g, counts, groups=[0, 1] * 10).predict_set(g, 0.5)
    for given_option in ({"groups": [0] * 20}, {"weights": [1] * 20}):
        with pytest.raises(ValueError, match=next(iter(given_option))):
            cs.conformalize(g, counts).predict_set(g, 0.5, **given_option)


def test_coverage_within_a_group_is_beta() -> None:
    g, counts = draw(cs.get_score("tv"), 100, np.random.default_rng(12))
    calibration = cs.conformalize(g, counts, groups=["a"] * 59 + ["b"] * 41)
    found = calibration.coverage_distribution(0.1, group="a")
    assert (found.rank, found.n) == (54, 59)
    for group in (None, "c"):
        with pytest.raises(ValueError, match="group"):
            calibration.coverage_distribution(0.1, group=group)
    with pytest.raises(ValueError, match="group"):
        cs.conformalize(g, counts).coverage_distribution(0.1, group="a")
    with pytest.raises(ValueError, match="weights"):
        cs.conformalize(g, counts, weights=np.ones(100)).coverage_distribution(0.1)


# --- weights ---


def quantiles(scores: Any, level: float, n_new: int, weights: Any, new_weights: Any) -> np.ndarray:
    return Quantile(scores, NoNoise(), weights).at(exact_level(level), n_new, Columns(new_weights))


@given(
    n=st.integers(1, 80),
    numerator=st.integers(1, 99),
    seed=st.integers(0, 1000),
    scale=st.floats(1e-9, 1e9),
)
def test_equal_weights_are_no_weights(n: int, numerator: int, seed: int, scale: float) -> None:
    scores = np.random.default_rng(seed).integers(0, 10, n) / 10
    plain = quantiles(scores, numerator / 100, 2, None, None)
    weighted = quantiles(scores, numerator / 100, 2, np.full(n, scale), np.full(2, scale))
    assert np.array_equal(plain, weighted)


def test_whole_weights_are_repeated_items() -> None:
    rng = np.random.default_rng(5)
    scores, weights = rng.random(40), rng.integers(0, 5, 40)
    repeated = np.sort(np.repeat(scores, weights))
    value = quantiles(scores, 0.25, 1, weights.astype(float), np.ones(1))[0]
    assert value == repeated[conformal_rank(len(repeated), 0.25) - 1]


@pytest.mark.filterwarnings("ignore::credalset.CredalSetWarning")
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_weights_compose_with_noise_and_groups(noise: Any, score: Score) -> None:
    if isinstance(noise, cs.UnbiasedVotes) and not score.is_convex:
        return
    prediction, counts = draw(score, 80, np.random.default_rng(6))
    keys = np.arange(80) // 40
    plain = cs.conformalize(prediction, counts, score, noise=noise, groups=keys)
    weighted = cs.conformalize(
        prediction, counts, score, noise=noise, groups=keys, weights=np.full(80, 3.0)
    )
    expected = plain.thresholds(prediction, 0.2, groups=keys)
    observed = weighted.thresholds(prediction, 0.2, groups=keys, weights=np.full(80, 3.0))
    assert observed == pytest.approx(expected, rel=1e-12)


def shifted(
    n: int, tilt: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Items with difficulty x in (0, 1), density 1 + tilt (2x − 1)."""
    u = rng.random(n)
    x = u if tilt == 0 else (tilt - 1 + np.sqrt((1 - tilt) ** 2 + 4 * tilt * u)) / (2 * tilt)
    truth = rng.dirichlet(np.ones(3), n)
    g = (1 - x[:, None]) * truth + x[:, None] * rng.dirichlet(np.ones(3), n)
    return x, g, truth


@pytest.mark.parametrize("noise", [None, cs.UnbiasedVotes(), cs.AnnotatorSampling(0.02)], ids=repr)
def test_weighted_coverage_holds_where_unweighted_fails(noise: Any) -> None:
    rng = np.random.default_rng(7)
    weighted, unweighted = [], []
    for _ in range(40):
        x, g, truth = shifted(400, -0.95, rng)
        x_new, g_new, truth_new = shifted(200, 0.95, rng)
        labels = truth if noise is None else rng.multinomial(1000, truth)
        ratio, ratio_new = ((1 + 0.95 * (2 * v - 1)) / (1 - 0.95 * (2 * v - 1)) for v in (x, x_new))
        calibration = cs.conformalize(g, labels, "tv", noise=noise, weights=ratio)
        weighted.append(
            calibration.predict_set(g_new, 0.1, weights=ratio_new).contains(truth_new).mean()
        )
        unweighted.append(
            cs.conformalize(g, labels, "tv").predict_set(g_new, 0.1).contains(truth_new).mean()
        )
    assert np.mean(weighted) >= 0.9 - 3 * np.std(weighted) / math.sqrt(40)
    assert np.mean(unweighted) < 0.8


def test_a_heavy_new_item_gets_everything() -> None:
    g, counts = draw(cs.get_score("tv"), 50, np.random.default_rng(8))
    calibration = cs.conformalize(g, counts, weights=np.ones(50))
    with pytest.warns(cs.CredalSetWarning, match="infinite"):
        values = calibration.thresholds(g[:2], 0.1, weights=[1.0, 50.0])
    assert np.isinf(values).tolist() == [False, True]
    assert (
        quantiles(np.array([0.1, 0.2]), 0.5, 2, np.zeros(2), np.array([0.0, 1.0])).tolist()
        == [math.inf] * 2
    )


def test_what_weights_refuse() -> None:
    g, counts = draw(cs.get_score("tv"), 20, np.random.default_rng(9))
    for weights in ([1, 2, 3], np.full(20, -1.0), np.full(20, math.nan), np.full(20, 1e308)):
        with pytest.raises(ValueError, match="weights must"):
            cs.conformalize(g, counts, weights=weights)
    with pytest.raises(TypeError, match="weights"):
        cs.conformalize(g, counts, weights="heavy")
    calibration = cs.conformalize(g, counts, weights=np.ones(20))
    with pytest.raises(ValueError, match="weights is missing"):
        calibration.predict_set(g, 0.5)
    with pytest.raises(ValueError, match="thresholds"):
        calibration.threshold(0.5)


def test_no_items_to_predict() -> None:
    g, counts = draw(cs.get_score("tv"), 50, np.random.default_rng(10))
    calibration = cs.conformalize(
        g, counts, noise=cs.UnbiasedVotes(), groups=[0] * 50, weights=np.ones(50)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(calibration.predict_set(g[:0], 0.1, groups=[], weights=[])) == 0
