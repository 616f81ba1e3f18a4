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
from credalset.calibration.groups import Groups
from credalset.calibration.part import Part
from credalset.calibration.quantile import conformal_rank, exact_level
from credalset.scores import Score

from .conftest import random_predictions

NOISES = [None, cs.BoundedNoise(0.05, 0.02), cs.AnnotatorSampling(), cs.AnnotatorSampling(0.02), cs.UnbiasedVotes()]


def draw(score: Score, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    prediction = random_predictions(score, n, 3, rng)
    shares = score.mean(score.check_prediction(prediction))
    return prediction, rng.multinomial(10, 0.7 * shares + 0.1)


# --- groups ---


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_each_group_is_calibrated_on_its_own(noise: Any, score: Score) -> None:
    if isinstance(noise, cs.UnbiasedVotes) and not score.is_convex:
        return
    rng = np.random.default_rng(0)
    prediction, counts = draw(score, 300, rng)
    groups = np.repeat(["a", "b"], [100, 200])  # in blocks of five, so that the same items are set aside
    together = cs.conformalize(prediction, counts, score, noise=noise, groups=groups)
    for key in ("a", "b"):
        own = groups == key
        alone = cs.conformalize(prediction[own], counts[own], score, noise=noise)
        expected = alone.thresholds(prediction[:4], 0.2)
        assert np.array_equal(together.thresholds(prediction[:4], 0.2, groups=[key] * 4), expected)
    mixed = together.predict_set(prediction, 0.2, groups=groups)
    assert len(mixed) == 300


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
        everyone = cs.conformalize(g[:400], truth[:400], "tv").predict_set(g[400:], 0.1).contains(truth[400:])
        plain.append(everyone[keys[400:] == "hard"].mean())
    for key, values in covered.items():
        assert 0.9 - 3 * np.std(values) / math.sqrt(30) <= np.mean(values) <= 0.95, key
    assert np.mean(plain) < 0.8, "without groups the hard ones pay"


def test_predicted_classes_follow_from_the_prediction() -> None:
    rng = np.random.default_rng(2)
    g, counts = draw(cs.get_score("tv"), 300, rng)
    by_name = cs.conformalize(g, counts, groups="predicted")
    by_key = cs.conformalize(g, counts, groups=g.argmax(axis=1))
    assert np.array_equal(by_name.thresholds(g, 0.1), by_key.thresholds(g, 0.1, groups=g.argmax(axis=1)))
    with pytest.raises(ValueError, match="Leave groups out"):
        by_name.thresholds(g, 0.1, groups=g.argmax(axis=1))


def pool(sizes: dict[Any, int], key: Any, min_size: int) -> tuple[list[Any], bool]:
    keys = tuple(sizes)
    codes = np.repeat(np.arange(len(keys)), list(sizes.values()))
    found = Groups(keys, codes).pool(key, min_size, np.ones(len(codes), dtype=bool))
    return [keys[code] for code in found.codes], bool(found.small)


def test_small_groups_share_a_threshold() -> None:
    sizes = {"big": 50, "one": 1, "two": 2, "middle": 12}
    assert pool(sizes, "big", 10) == (["big"], False)
    assert pool(sizes, "middle", 10) == (["middle"], False) or pool(sizes, "middle", 10)[1]
    assert pool(sizes, "one", 4) == (["one", "two"], True)
    assert pool(sizes, "one", 10) == (["one", "two", "middle"], True), "too few together: the next smallest joins"
    assert pool(sizes, "unseen", 4) == (["one", "two"], True)
    assert pool({"a": 9, "b": 50}, "a", 10) == (["a"], False), "the new item is counted in"
    assert pool({"a": 8, "b": 50}, "a", 10) == (["a", "b"], True), "and one more would have done"
    assert pool({"a": 9, "b": 50}, "unseen", 10) == (["a"], True)
    assert pool({"a": 40, "b": 50}, "unseen", 10) == (["a"], True)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(1, 12))
def test_pools_do_not_depend_on_which_item_is_new(labels: list[int], min_size: int) -> None:
    """Any of the n + 1 items of a pool could have been the new one, and would have found the same pool."""
    partners = []
    for new in range(len(labels)):
        rest = labels[:new] + labels[new + 1 :]
        sizes = {key: rest.count(key) for key in dict.fromkeys(rest)}
        found, is_pool = pool(sizes, labels[new], min_size) if rest else ([], False)
        partners.append((frozenset([*found, labels[new]]), is_pool))
    for i, (mine, _) in enumerate(partners):
        for j in range(len(labels)):
            if labels[j] in mine and j != i:
                assert partners[j][0] == mine


def test_pooling_is_announced() -> None:
    rng = np.random.default_rng(3)
    g, counts = draw(cs.get_score("tv"), 100, rng)
    groups = ["rare"] * 3 + ["seldom"] * 9 + ["common"] * 88
    calibration = cs.conformalize(g, counts, groups=groups)
    with pytest.warns(
        cs.CredalSetWarning, match=r"the groups 'rare', 'seldom' are too small for alpha=0.1 and share one"
    ):
        values = calibration.thresholds(g[:4], 0.1, groups=["rare", "common", "rare", "common"])
    assert values[0] == cs.conformalize(g[:12], counts[:12]).threshold(0.1)
    assert values[1] == cs.conformalize(g[12:], counts[12:]).threshold(0.1)


@pytest.mark.parametrize(
    ("sizes", "asked", "message"),
    [
        (
            {"rare": 3, "seldom": 9, "common": 88},
            ["rare"],
            "the groups 'rare', 'seldom' are too small for alpha=0.1 and share one threshold. The guarantee holds",
        ),
        (
            {"rare": 3, "seldom": 9, "common": 88},
            ["seldom"],
            "the group 'rare' is too small for alpha=0.1 and shares one threshold with 'seldom', large enough but next",
        ),
        (
            {"rare": 3, "common": 97},
            ["common", "common"],
            "the group 'rare' is too small for alpha=0.1 and shares one threshold with 'common', large enough but next",
        ),
        (
            {"common": 60, "frequent": 40},
            ["unseen"],
            "no calibration item has the group 'unseen'; there are 'common', 'frequent'. Such items get the threshold",
        ),
    ],
)
def test_who_is_too_small_and_who_only_shares(sizes: dict[str, int], asked: list[str], message: str) -> None:
    g, counts = draw(cs.get_score("tv"), 100, np.random.default_rng(3))
    keys = np.repeat(list(sizes), list(sizes.values()))
    split = cs.conformalize(g, counts, groups=keys)
    cross = cs.cross_conformalize(g, counts, np.arange(100) % 2, groups=keys)
    for ask in (
        lambda: split.thresholds(g[: len(asked)], 0.1, groups=asked),
        lambda: cross.thresholds([g[: len(asked)]] * 2, 0.1, groups=asked),
    ):
        with pytest.warns(cs.CredalSetWarning, match=message) as caught:
            ask()
        assert len(caught) == 1
        assert caught[0].filename == __file__


def test_a_group_with_nobody_to_share_with() -> None:
    g, counts = draw(cs.get_score("tv"), 5, np.random.default_rng(3))
    calibration = cs.conformalize(g, counts, groups=["a"] * 5)
    with pytest.warns(cs.CredalSetWarning, match="too few items for alpha=0.1 in the group") as caught:
        calibration.thresholds(g[:1], 0.1, groups=["a"])
    assert len(caught) == 1, "an infinite threshold is not announced as a shared one"


def test_what_groups_refuse() -> None:
    rng = np.random.default_rng(4)
    g, counts = draw(cs.get_score("tv"), 20, rng)
    with pytest.raises(ValueError, match=r"one key per item \(20\), but holds 3"):
        cs.conformalize(g, counts, groups=[1, 2, 3])
    with pytest.raises(TypeError, match="groups must be one key per item or 'predicted', but is 'class'"):
        cs.conformalize(g, counts, groups="class")
    with pytest.raises(ValueError, match="no key in row 0"):
        cs.conformalize(g, counts, groups=[math.nan] * 20)
    with pytest.raises(TypeError, match="hashable"):
        cs.conformalize(g, counts, groups=[{}] * 20)
    calibration = cs.conformalize(g, counts, groups=[0, 1] * 10)
    with pytest.raises(ValueError, match="groups is missing"):
        calibration.predict_set(g, 0.5)
    with pytest.raises(ValueError, match="the calibration has none"):
        cs.conformalize(g, counts).predict_set(g, 0.5, groups=[0] * 20)
    with pytest.raises(ValueError, match="the calibration has none"):
        cs.conformalize(g, counts).predict_set(g, 0.5, weights=[1] * 20)
    with pytest.raises(ValueError, match="the calibration has none"):
        cs.conformalize(g, counts, weights=np.ones(20)).predict_set(g, 0.5, groups=[0] * 20, weights=np.ones(20))


def test_vote_bands() -> None:
    assert cs.vote_bands([[1, 0], [3, 0], [5, 5]], edges=[3, 4]) == ["1-2 votes", "3 votes", "4+ votes"]
    with pytest.raises(ValueError, match="edges must be increasing"):
        cs.vote_bands([[1, 0]], edges=[5, 5])


# --- weights ---


def quantiles(scores: Any, level: float, n_new: int, weights: Any, new_weights: Any) -> np.ndarray:
    return Part(scores[None], np.empty((1, 0)), weights).quantiles(exact_level(level), n_new, new_weights)


@given(n=st.integers(1, 80), numerator=st.integers(1, 99), seed=st.integers(0, 1000), scale=st.floats(1e-9, 1e9))
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


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_weights_compose_with_noise_and_groups(noise: Any, score: Score) -> None:
    if isinstance(noise, cs.UnbiasedVotes) and not score.is_convex:
        return
    rng = np.random.default_rng(6)
    prediction, counts = draw(score, 200, rng)
    keys = np.arange(200) // 100
    plain = cs.conformalize(prediction, counts, score, noise=noise, groups=keys)
    weighted = cs.conformalize(prediction, counts, score, noise=noise, groups=keys, weights=np.full(200, 3.0))
    expected = plain.thresholds(prediction, 0.2, groups=keys)
    observed = weighted.thresholds(prediction, 0.2, groups=keys, weights=np.full(200, 3.0))
    assert observed == pytest.approx(expected, rel=1e-12)


def shifted(n: int, tilt: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
        calibration = cs.conformalize(g, labels, noise=noise, weights=ratio)
        weighted.append(calibration.predict_set(g_new, 0.1, weights=ratio_new).contains(truth_new).mean())
        unweighted.append(cs.conformalize(g, labels).predict_set(g_new, 0.1).contains(truth_new).mean())
    assert np.mean(weighted) >= 0.9 - 3 * np.std(weighted) / math.sqrt(40)
    assert np.mean(unweighted) < 0.8


def test_a_heavy_new_item_gets_everything() -> None:
    rng = np.random.default_rng(8)
    g, counts = draw(cs.get_score("tv"), 50, rng)
    calibration = cs.conformalize(g, counts, weights=np.ones(50))
    with pytest.warns(cs.CredalSetWarning, match="1 of 2 thresholds are infinite"):
        values = calibration.thresholds(g[:2], 0.1, weights=[1.0, 50.0])
    assert np.isinf(values).tolist() == [False, True]


def test_what_weights_refuse() -> None:
    rng = np.random.default_rng(9)
    g, counts = draw(cs.get_score("tv"), 20, rng)
    with pytest.raises(ValueError, match=r"weights must hold one number per item \(20\), but has shape \(3,\)"):
        cs.conformalize(g, counts, weights=[1, 2, 3])
    with pytest.raises(ValueError, match="finite and not negative"):
        cs.conformalize(g, counts, weights=np.full(20, -1.0))
    with pytest.raises(TypeError, match="one number per item"):
        cs.conformalize(g, counts, weights="heavy")
    calibration = cs.conformalize(g, counts, weights=np.ones(20))
    with pytest.raises(ValueError, match="weights is missing"):
        calibration.predict_set(g, 0.5)
    with pytest.raises(ValueError, match="no single one"):
        calibration.threshold(0.5)


def test_no_items_to_predict() -> None:
    rng = np.random.default_rng(10)
    g, counts = draw(cs.get_score("tv"), 50, rng)
    calibration = cs.conformalize(g, counts, noise=cs.UnbiasedVotes(), groups=[0] * 50, weights=np.ones(50))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(calibration.predict_set(g[:0], 0.1, groups=[], weights=[])) == 0


# --- p-values and the distribution of coverage ---


@given(
    n=st.integers(2, 60),
    numerator=st.integers(1, 99),
    seed=st.integers(0, 10**6),
    weighted=st.booleans(),
    grouped=st.booleans(),
)
def test_p_values_exceed_alpha_exactly_on_members(
    n: int, numerator: int, seed: int, weighted: bool, grouped: bool
) -> None:
    """With few votes scores tie, which is where strict inequalities go wrong."""
    rng = np.random.default_rng(seed)
    options: dict[str, Any] = {"weights": rng.integers(0, 4, n) / 4} if weighted else {}
    asked: dict[str, Any] = {"weights": rng.integers(0, 4, 20) / 4} if weighted else {}
    if grouped:
        options["groups"], asked["groups"] = rng.integers(0, 2, n), rng.integers(0, 3, 20)
    calibration = cs.conformalize(
        np.tile([0.5, 0.3, 0.2], (n, 1)), rng.multinomial(3, [0.4, 0.4, 0.2], n), noise=None, **options
    )
    new, labels = np.tile([0.5, 0.3, 0.2], (20, 1)), rng.multinomial(3, [0.4, 0.4, 0.2], 20) / 3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        inside = calibration.predict_set(new, numerator / 100, **asked).contains(labels)
    p = calibration.p_values(new, labels, **asked)
    alone = np.ones(20, dtype=bool)
    said = "".join(str(warning.message) for warning in caught)
    if "one threshold" in said or "no calibration item has the group" in said:
        sizes = np.bincount(options["groups"], minlength=3)
        alone = np.array([sizes[key] >= n for key in asked["groups"]])  # a group that is everybody is never pooled
    assert np.array_equal((p > numerator / 100 + 1e-9)[alone], inside[alone])


def test_p_values_in_a_group_are_those_of_its_items() -> None:
    rng = np.random.default_rng(11)
    g, counts = draw(cs.get_score("kl"), 90, rng)
    keys, weights = np.arange(90) % 3, rng.random(90) + 0.1
    calibration = cs.conformalize(g, counts, "kl", groups=keys, weights=weights)
    own = keys == 1
    alone = cs.conformalize(g[own], counts[own], "kl", weights=weights[own])
    candidates, new = rng.dirichlet(np.ones(3), 90), rng.random(90)
    expected = alone.p_values(g, candidates, weights=new)
    assert np.array_equal(calibration.p_values(g, candidates, groups=[1] * 90, weights=new), expected)
    scores = cs.get_score("kl")(g, candidates)
    old, heights = weights[own], alone_scores(alone)
    by_hand = [(w + old[heights >= s].sum()) / (w + old.sum()) for s, w in zip(scores, new, strict=True)]
    assert expected == pytest.approx(np.array(by_hand))
    assert (calibration.p_values(g, candidates, groups=["unseen"] * 90, weights=new) == 1.0).all()
    with pytest.raises(ValueError, match="groups is missing"):
        calibration.p_values(g, candidates, weights=new)
    with pytest.raises(ValueError, match="weights is missing"):
        calibration.p_values(g, candidates, groups=keys)
    with pytest.raises(ValueError, match="weights was given"):
        cs.conformalize(g, counts).p_values(g, candidates, weights=new)
    with pytest.raises(ValueError, match="without noise"):
        cs.conformalize(g, counts, noise=cs.BoundedNoise(0.1, 0.01)).p_values(g, candidates)


def alone_scores(calibration: cs.Calibration) -> np.ndarray:
    return calibration.rule.bounds[0]


def test_coverage_within_a_group_is_beta() -> None:
    rng = np.random.default_rng(12)
    g, counts = draw(cs.get_score("tv"), 100, rng)
    calibration = cs.conformalize(g, counts, groups=["a"] * 59 + ["b"] * 39 + ["c"] * 2)
    found = calibration.coverage_distribution(0.1, group="a")
    assert (found.rank, found.n) == (54, 59)
    with pytest.raises(ValueError, match=r"'c' has no threshold of its own at alpha=0\.1: 'c' is too small"):
        calibration.coverage_distribution(0.1, group="c")
    with pytest.raises(ValueError, match="group is missing"):
        calibration.coverage_distribution(0.1)
    with pytest.raises(ValueError, match="group was given"):
        cs.conformalize(g, counts).coverage_distribution(0.1, group="a")
    with pytest.raises(ValueError, match="without noise or weights"):
        cs.conformalize(g, counts, weights=np.ones(100)).coverage_distribution(0.1)


def test_without_any_weight_nothing_is_known() -> None:
    assert quantiles(np.array([0.1, 0.2]), 0.5, 2, np.zeros(2), np.array([0.0, 1.0])).tolist() == [math.inf] * 2
