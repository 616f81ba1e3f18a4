"""The true distribution from a handful of votes: what is promised, when it breaks, and what it combines with."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.calibration.ladder import Evidence, Ladder
from credalset.calibration.majorants import Majorants, tables
from credalset.calibration.noise import DELTAS
from credalset.scores import Brier, Normalized
from credalset.scores.anytime import anytime_radius
from credalset.scores.confidence import lower_limits

ALPHA = 0.1


@pytest.fixture(autouse=True)
def coarse(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick tests have fewer tables, which are as valid and somewhat wider."""
    if request.node.get_closest_marker("slow") is None:
        for name, sizes in {"MESH": (12, 5, 3), "POINTS": (40, 14, 8)}.items():
            for n_classes, size in zip((2, 3, 4), sizes, strict=True):
                monkeypatch.setitem(getattr(tables, name), n_classes, size)


PREDICTORS = {"good": 0.9, "fair": 0.7, "poor": 0.3}


def draw(
    predictor: str, n: int, n_classes: int, votes: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions, true distributions and votes."""
    if predictor == "overconfident":  # certain of the majority, which nearly unanimous crowds are not entirely
        truth = rng.uniform(0.02, 0.08, (n, 1)) * rng.dirichlet(np.ones(n_classes), n)
        top = rng.integers(0, n_classes, n)
        truth[np.arange(n), top] += 1.0 - truth.sum(axis=1)
        g = 0.999 * np.eye(n_classes)[top] + 0.001 / n_classes
    else:
        truth = rng.dirichlet(np.full(n_classes, 0.7), n)
        share = PREDICTORS[predictor]
        g = share * truth + (1.0 - share) * rng.dirichlet(np.ones(n_classes), n)
    return g, truth, rng.multinomial(votes, truth)


def barely(n: int, share: float, rng: np.random.Generator, votes: int = 4) -> tuple[np.ndarray, ...]:
    """The hardest case: a share of crowds at one distance from the prediction, the others exactly at it.

    Every threshold below that distance covers all but ``share``, and Markov's inequality loses nothing.
    """
    g = np.full((n, 2), 0.5)
    far = rng.random(n) < share
    truth = np.where(far[:, None], [0.9, 0.1], g)
    return g, truth, rng.multinomial(votes, truth)


# --- ladders ---


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("delta", [0.001, 0.01, 0.3])
def test_a_certain_ladder_keeps_both_promises(alpha: float, delta: float) -> None:
    ladder = Ladder.certain(alpha, delta)
    assert ladder.mean_risk == pytest.approx(alpha)
    assert ladder.deltas[0] == delta
    assert 0.5 * alpha < ladder.risks[0] <= alpha
    assert (np.diff(ladder.risks) > 0).all()


@pytest.mark.parametrize("n_rungs", [9, 12])
@pytest.mark.parametrize("error", [1e-6, 0.01, 0.05, 0.5])
def test_an_average_ladder_spends_alpha(error: float, n_rungs: int) -> None:
    ladder = Ladder.average(ALPHA, error, n_rungs)
    if ladder.risks[0] > 0:
        assert ladder.mean_risk <= ALPHA + 1e-12
    assert (np.diff(ladder.risks) > 0).all()
    assert (ladder.risks < 1).all()


def test_thresholds_that_are_sure_to_pass_or_fail_are_not_tested() -> None:
    held_out = np.array([[0.0], [0.001], [0.02], [0.0976], [0.9], [1.0]]) + 1e-4 * np.random.default_rng(0).normal(
        size=(6, 50)
    )
    evidence = Evidence.of(np.array([6.0, 5.0, 4.0, 3.0, 2.0, 1.0]), held_out, np.ones(6))
    assert evidence.window(Ladder.certain(0.1, 0.01)) == slice(2, 4)


# --- coverage ---


def coverage(noise: Any, score: Any, data: Any, repetitions: int, n: int, n_test: int = 500) -> np.ndarray:
    """Coverage of the truth by each of several calibrations."""
    found = []
    for seed in range(repetitions):
        g, truth, counts = data(n + n_test, np.random.default_rng([seed, n]))
        sets = cs.conformalize(g[:n], counts[:n], score, noise=noise).predict_set(g[n:], ALPHA)
        found.append(sets.contains(truth[n:]).mean())
    return np.array(found)


def assert_covers(found: np.ndarray, n: int, n_test: int = 500) -> None:
    spread = math.sqrt(ALPHA * (1 - ALPHA) * (1 / n_test + 1 / n) / len(found))
    assert found.mean() >= 1 - ALPHA - 3 * spread


@pytest.mark.parametrize("delta", [0.01, None])
@pytest.mark.parametrize("predictor", ["good", "poor", "overconfident"])
@pytest.mark.parametrize(("n_classes", "votes"), [(2, 2), (3, 3), (10, 5)])
def test_moments_cover_the_truth(n_classes: int, votes: int, predictor: str, delta: float | None) -> None:
    noise = cs.FewVotes(delta, method="moments")
    found = coverage(noise, "brier", lambda n, rng: draw(predictor, n, n_classes, votes, rng), 3, 500)
    assert_covers(found, 500)


@pytest.mark.parametrize("delta", [0.1, None])
def test_moments_cover_in_the_hardest_case(delta: float | None) -> None:
    """Twelve crowds of a hundred are far: a threshold below their distance covers 0.88, and must be rare."""
    noise = cs.FewVotes(delta, method="moments")
    found = coverage(noise, "brier", lambda n, rng: barely(n, 0.12, rng), 40, 400, 1000)
    assert found.mean() >= 1 - ALPHA
    if delta is not None:
        assert (found < 0.94).sum() <= stats.binom.ppf(1 - 1e-3, 40, delta)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.11, 0.12, 0.15, 0.2])
@pytest.mark.parametrize("n", [300, 2000])
def test_the_promise_with_probability_holds_over_a_thousand_calibrations(n: int, share: float) -> None:
    """A calibration fails if its threshold lies below the distance of the far crowds, as it then misses all of them."""
    missed: dict[float | None, int] = {0.01: 0, 0.05: 0, None: 0}
    for seed in range(1000):
        g, _, counts = barely(n, share, np.random.default_rng([seed, n]))
        for delta in missed:
            rule = cs.conformalize(g, counts, "brier", noise=cs.FewVotes(delta, method="moments")).rule
            missed[delta] += rule.thresholds(cs.calibration.base.as_level(ALPHA), Brier(), g[:1], quiet=True)[0] < 0.32
    for delta in (0.01, 0.05):
        assert missed[delta] <= stats.binom.ppf(1 - 1e-3, 1000, delta)
    assert share * missed[None] / 1000 <= ALPHA


def test_tables_cover_the_truth() -> None:
    noise = cs.FewVotes(None, method="majorant")
    assert_covers(coverage(noise, "tv", lambda n, rng: draw("fair", n, 3, 3, rng), 2, 500), 500)
    assert_covers(coverage(noise, "brier", lambda n, rng: draw("good", n, 2, 5, rng), 3, 500), 500)


ROUTES = {
    "certain": cs.FewVotes(),
    "average": cs.FewVotes(None),
    "sampling": cs.AnnotatorSampling(),
    "anytime": cs.AnnotatorSampling(region="anytime"),
    "unbiased": cs.UnbiasedVotes(),
    "auto": "auto",
}
CASES = [(2, "brier"), (2, "tv"), (2, "kl"), (3, "brier"), (3, "tv"), (3, "kl"), (10, "brier"), (10, "tv"), (10, "kl")]


def fit_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit tables to the first sample of a size, and use them for all others, for which they are as valid."""
    known: dict[Any, Majorants] = {}
    fit = Majorants.fit

    def remembered(score: Any, prediction: np.ndarray, counts: np.ndarray, n: int, family: bool = False) -> Majorants:
        if n not in known:
            known[n] = fit(score, prediction, counts, n, family)
        return known[n]

    monkeypatch.setattr(Majorants, "fit", remembered)


def routes(score: str, n_classes: int) -> dict[str, Any]:
    """Return those that apply: there are no tables for ten classes, and moments for the Brier score only."""
    few = n_classes < 10 or score == "brier"
    return {name: noise for name, noise in ROUTES.items() if few or not isinstance(noise, cs.FewVotes)}


@pytest.mark.slow
@pytest.mark.parametrize("predictor", ["good", "fair", "poor", "overconfident"])
@pytest.mark.parametrize("votes", [2, 3, 5, 10])
@pytest.mark.parametrize(("n_classes", "score"), CASES)
def test_the_truth_is_covered_long(
    n_classes: int, score: str, votes: int, predictor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit_once(monkeypatch)
    for n, repetitions in ((500, 12), (5000, 2)):
        for noise in routes(score, n_classes).values():
            found = coverage(noise, score, lambda n, rng: draw(predictor, n, n_classes, votes, rng), repetitions, n)
            assert_covers(found, n)


def test_sets_are_smaller_than_those_of_plain_calibration() -> None:
    """And of every other promise: the point of it all."""
    g, _, counts = draw("good", 5000, 3, 5, np.random.default_rng(0))
    by = {
        name: cs.conformalize(g, counts, "brier", noise=noise).predict_set(g[:100], ALPHA).volume().mean()
        for name, noise in {
            "plain": None,
            "unbiased": cs.UnbiasedVotes(),
            "certain": cs.FewVotes(method="moments"),
            "average": cs.FewVotes(None, method="moments"),
        }.items()
    }
    assert by["certain"] < 0.6 * by["plain"] < by["unbiased"]
    assert by["average"] <= by["certain"]


# --- where it breaks ---


def test_votes_that_lean_toward_the_prediction_break_it() -> None:
    """Annotators who are shown the prediction, and half of whom agree with it, are not draws from λ."""

    def shown(n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        g, truth, _ = barely(n, 0.2, rng)
        return g, truth, rng.multinomial(4, 0.7 * g + 0.3 * truth)

    noise = cs.FewVotes(0.1, method="moments")
    found = coverage(noise, "brier", shown, 10, 2000)
    with pytest.raises(AssertionError):
        assert_covers(found, 2000)


def test_votes_that_share_their_noise_break_it() -> None:
    """Votes that avoid each other lie closer to λ than draws do, and the estimate takes off too much."""

    def quotas(n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        g, truth, _ = barely(n, 0.2, rng)
        return g, truth, np.where(truth == 0.9, [9, 1], [5, 5])  # each crowd in exact proportion

    found = coverage(cs.FewVotes(0.1, method="moments"), "brier", quotas, 10, 2000)
    with pytest.raises(AssertionError):
        assert_covers(found, 2000)


def until(agree: Callable[[np.ndarray], Any], truth: np.ndarray, rng: np.random.Generator, most: int) -> np.ndarray:
    """Collect votes until the first of two classes leads by ``agree(votes so far)``."""
    first = rng.random((len(truth), most)) < truth[:, :1]
    lead, votes = np.cumsum(np.where(first, 1, -1), axis=1), np.arange(1, most + 1)
    enough = lead >= agree(votes)
    stop = np.where(enough.any(axis=1), enough.argmax(axis=1), most - 1)
    ones = np.take_along_axis(np.cumsum(first, axis=1), stop[:, None], axis=1)[:, 0]
    return np.column_stack([ones, stop + 1 - ones]).astype(float)


def test_stopping_when_votes_agree_breaks_exact_limits_and_not_the_anytime_region() -> None:
    """Votes are collected until the first class leads by more than chance explains, at most a hundred of them."""
    truth = np.tile([0.5, 0.5], (20_000, 1))
    counts = until(lambda votes: 1.65 * np.sqrt(votes) + 1.0, truth, np.random.default_rng(0), 100)
    limit = stats.binom.ppf(1 - 1e-5, len(truth), 0.1)
    assert (lower_limits(counts, 0.1) > truth).any(axis=1).sum() > 2 * limit
    shares = counts / counts.sum(axis=1, keepdims=True)
    divergence = np.where(shares > 0, shares * np.log(np.maximum(shares, 1e-300) / truth), 0.0).sum(axis=1)
    assert (divergence > anytime_radius(counts, 0.1)).sum() <= limit


def test_stopping_when_votes_agree_breaks_all_other_promises() -> None:
    """Votes are collected until the first class leads by two. Twelve crowds of a hundred are far away."""
    rng = np.random.default_rng(0)
    g = np.tile([0.9, 0.1], (2500, 1))
    truth = np.where(rng.random((2500, 1)) < 0.12, [0.6, 0.4], g)
    distance = Brier()(g[:1], np.array([[0.6, 0.4]]))[0]
    stopped, honest = until(lambda votes: 2, truth, rng, 50), rng.multinomial(4, truth)
    for noise in (cs.FewVotes(None, method="moments"), cs.FewVotes(None, method="majorant"), cs.UnbiasedVotes()):
        found = [cs.conformalize(g, c, "brier", noise=noise).thresholds(g[:1], ALPHA)[0] for c in (stopped, honest)]
        assert found[0] < distance <= found[1]
    anytime = cs.conformalize(g, stopped, "brier", noise=cs.AnnotatorSampling(region="anytime"))
    assert anytime.threshold(ALPHA) >= distance


def test_votes_that_share_noise_break_the_promise() -> None:
    """All annotators of an item misread it alike, and the model has learned to: votes are about what they read."""
    rng = np.random.default_rng(1)
    truth = rng.dirichlet(np.full(3, 0.7), 6000)
    read = np.array([rng.dirichlet(10.0 * row + 0.05) for row in truth])
    g = 0.9 * read + 0.1 * rng.dirichlet(np.ones(3), 6000)
    alike, honest = rng.multinomial(5, read), rng.multinomial(5, truth)
    for noise in (cs.FewVotes(method="moments"), cs.FewVotes(None, method="moments")):
        of_alike, of_honest = (
            cs.conformalize(g[:5000], votes[:5000], "brier", noise=noise).predict_set(g[5000:], ALPHA)
            for votes in (alike, honest)
        )
        assert of_honest.contains(truth[5000:]).mean() >= 1.0 - ALPHA
        assert of_alike.contains(read[5000:]).mean() >= 1.0 - ALPHA
        assert of_alike.contains(truth[5000:]).mean() < 1.0 - ALPHA - 0.02


@pytest.mark.parametrize("votes", [1, 3, 30])
def test_the_anytime_region_holds_at_every_time_at_once(votes: int) -> None:
    rng = np.random.default_rng(votes)
    for truth in (np.array([0.6, 0.3, 0.1]), np.array([0.98, 0.01, 0.01])):
        counts = np.cumsum(rng.multinomial(1, truth, (4000, votes)), axis=1).astype(float)
        shares = counts / counts.sum(axis=2, keepdims=True)
        divergence = np.where(shares > 0, shares * np.log(np.maximum(shares, 1e-300) / truth), 0.0).sum(axis=2)
        radius = anytime_radius(counts.reshape(-1, 3), 0.2).reshape(4000, votes)
        assert (divergence > radius).any(axis=1).sum() <= stats.binom.ppf(1 - 1e-5, 4000, 0.2)


def camps(share: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """A share of crowds in two camps on either side of the prediction, the others exactly at it."""
    g = np.full((n, 2), 0.5)
    side = rng.choice([-0.4, 0.0, 0.4], size=(n, 1), p=[0.5 * share, 1.0 - share, 0.5 * share])
    truth = g + side * [1.0, -1.0]
    return g, truth, rng.multinomial(4, truth)


def test_the_assumption_about_families_can_fail() -> None:
    """Crowds in two sharp camps are like no mixture of the family; majorants for every λ do not mind."""
    g, _, counts = camps(0.12, 3000, np.random.default_rng(0))
    distance = Brier()(g[:1], np.array([[0.9, 0.1]]))[0]
    for method, holds in (("family", False), ("majorant", True)):
        noise = cs.FewVotes(None, method=method)  # type: ignore[arg-type]
        assert (cs.conformalize(g, counts, "brier", noise=noise).threshold(ALPHA) >= distance) == holds


@pytest.mark.parametrize("sharpness", [5.0, pytest.param(30.0, marks=pytest.mark.slow)])
def test_families_cover_crowds_that_they_describe_and_many_others(
    sharpness: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scattered(n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        g = 0.01 + 0.98 * rng.dirichlet(np.ones(2), n)
        truth = rng.beta(sharpness * g[:, 0], sharpness * g[:, 1])
        truth = np.column_stack([truth, 1.0 - truth])
        return g, truth, rng.multinomial(4, truth)

    def leaning(n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        g, truth, counts = draw("good", n, 2, 4, rng)
        return 0.8 * g + [0.2, 0.0], truth, counts  # a predictor that favours the first class

    noise = cs.FewVotes(None, method="family")
    for data in (scattered, leaning, lambda n, rng: draw("fair", n, 2, 4, rng)):
        with monkeypatch.context() as patch:
            fit_once(patch)
            assert_covers(coverage(noise, "brier", data, 2, 800), 800)


# --- annotator sampling at level α (1 − δ) ---


def test_a_large_delta_is_worth_it() -> None:
    rng = np.random.default_rng(0)
    g, truth, counts = draw("good", 1000, 3, 100, rng)
    old = cs.conformalize(g[:500], counts[:500], noise=cs.AnnotatorSampling(0.02)).threshold(ALPHA)
    calibration = cs.conformalize(g[:500], counts[:500], noise=cs.AnnotatorSampling())
    assert calibration.threshold(ALPHA) < 0.85 * old
    assert calibration.predict_set(g[500:], ALPHA).contains(truth[500:]).mean() >= 0.9
    part = calibration.rule.part(None)
    row, level = calibration.rule.noise.choose(part, cs.calibration.base.as_level(ALPHA))
    assert DELTAS[row] >= 0.2
    assert float(level) == pytest.approx(ALPHA * (1 - DELTAS[row]))


def test_annotator_sampling_covers_in_its_hardest_case() -> None:
    """A region that misses half the time, and crowds of which a share just above α is far away."""
    found = coverage(cs.AnnotatorSampling(0.5), "tv", lambda n, rng: barely(n, 0.12, rng, votes=20), 40, 500, 2000)
    assert found.mean() >= 1 - ALPHA


# --- auto ---


def test_auto_says_what_it_chose_and_why(tmp_path: Path) -> None:
    g, truth, counts = draw("good", 3000, 3, 5, np.random.default_rng(0))
    calibration = cs.conformalize(g[:2500], counts[:2500], "brier", noise="auto")
    assert isinstance(calibration.rule.noise, cs.FewVotes)
    assert calibration.rule.noise.delta is None
    text = repr(calibration)
    assert "Chosen for the smallest mean width" in text
    assert "UnbiasedVotes 1." in text
    assert "Promise: the true distribution, with probability at least 1 - alpha on average" in text
    calibration.save(tmp_path / "auto")
    assert str(calibration.promise) in (tmp_path / "auto" / "manifest.json").read_text()
    loaded = cs.load(tmp_path / "auto")
    assert repr(loaded) == text
    assert loaded.threshold(ALPHA) == calibration.threshold(ALPHA)
    assert calibration.predict_set(g[2500:], ALPHA).contains(truth[2500:]).mean() >= 0.9
    names = [part.split()[0] for part in text.split("promise: ")[1].split("\n")[0].split(", ")]
    widths = [float(part.split()[1]) for part in text.split("promise: ")[1].split("\n")[0].split(", ")]
    assert names[int(np.argmin(widths))] == "FewVotes"


def test_auto_with_many_votes_or_without_counts() -> None:
    g, _, counts = draw("poor", 600, 5, 200, np.random.default_rng(0))
    assert not isinstance(cs.conformalize(g, counts, "tv", noise="auto").rule.noise, cs.FewVotes)
    shares = counts / counts.sum(axis=1, keepdims=True)
    assert isinstance(cs.conformalize(g, shares, "tv", noise="auto").rule.noise, cs.UnbiasedVotes)
    with pytest.raises(ValueError, match="needs annotation counts for the score 'so', which is not convex"):
        cs.conformalize(1 + 3 * g, shares, "so", noise="auto")
    assert isinstance(cs.conformalize(1 + 3 * g, counts, "so", noise="auto").rule.noise, cs.AnnotatorSampling)


def scattered_votes(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Good predictions, and two to seven votes per item."""
    rng = np.random.default_rng(seed)
    g, truth, _ = draw("good", n, 3, 1, rng)
    return g, np.array([rng.multinomial(m, row) for m, row in zip(rng.integers(2, 8, n), truth, strict=True)])


def test_auto_does_not_choose_the_whole_simplex() -> None:
    """FewVotes may well end with an infinite threshold here, and the items set aside give warning of it."""
    g, counts = scattered_votes(150, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibration = cs.conformalize(g, counts, "tv", noise="auto")
        assert np.isfinite(calibration.thresholds(g, ALPHA)).all()
    assert "FewVotes" in repr(calibration)
    assert "in vain with probability" in repr(calibration)


def test_auto_says_what_it_tried_in_vain() -> None:
    g, counts = scattered_votes(10, 0)
    with pytest.warns(cs.CredalSetWarning, match=r"tried UnbiasedVotes, AnnotatorSampling, FewVotes\. Add calibration"):
        calibration = cs.conformalize(g, counts, "kl", noise="auto")
    assert (calibration.predict_set(g, ALPHA).volume() > 0.999).all()


def test_few_items_and_few_votes_are_named_as_the_reason() -> None:
    g, counts = scattered_votes(60, 0)
    calibration = cs.conformalize(g, counts, "brier", noise=cs.FewVotes(method="moments"))
    with pytest.warns(cs.CredalSetWarning, match=r"48 calibration items with these votes .* raise alpha or delta"):
        assert np.isinf(calibration.threshold(0.05))


# --- composition ---


def test_groups_have_thresholds_of_their_own() -> None:
    g, truth, counts = draw("good", 6000, 3, 10, np.random.default_rng(0))
    keys = np.where(np.arange(6000) % 3 == 0, "a", "b")
    noise = cs.FewVotes(None, method="moments")
    calibration = cs.conformalize(g[:5000], counts[:5000], "brier", noise=noise, groups=keys[:5000])
    values = calibration.thresholds(g[5000:], ALPHA, groups=keys[5000:])
    assert len(np.unique(values)) == 2
    alone = cs.conformalize(g[:5000][keys[:5000] == "a"], counts[:5000][keys[:5000] == "a"], "brier", noise=noise)
    assert values[keys[5000:] == "a"][0] == pytest.approx(alone.threshold(ALPHA), rel=1.0)
    sets = calibration.predict_set(g[5000:], ALPHA, groups=keys[5000:])
    assert sets.contains(truth[5000:]).mean() >= 0.9
    assert calibration.promise.within == "each group"
    with pytest.warns(cs.CredalSetWarning, match="infinite"):
        assert np.isinf(calibration.thresholds(g[:1], ALPHA, groups=["new"])).all()


@pytest.mark.parametrize("noise", [cs.FewVotes(), "auto"])
def test_weights_are_refused(noise: Any) -> None:
    g, _, counts = draw("good", 100, 3, 3, np.random.default_rng(0))
    with pytest.raises(ValueError, match="weights was given, but there is no proof with this noise model"):
        cs.conformalize(g, counts, "brier", noise=noise, weights=np.ones(100))


@pytest.mark.parametrize("noise", [cs.FewVotes(), "auto"])
def test_folds_are_refused(noise: Any) -> None:
    g, _, counts = draw("good", 100, 3, 3, np.random.default_rng(0))
    with pytest.raises(ValueError, match="cross-conformal calibration every item"):
        cs.cross_conformalize(g, counts, np.arange(100) % 5, "brier", noise=noise)


def test_cross_conformal_annotator_sampling_divides_the_misses() -> None:
    g, _, counts = draw("good", 200, 3, 20, np.random.default_rng(0))
    folds = np.arange(200) % 10
    plain = cs.cross_conformalize(g, counts, folds, "tv")
    half = cs.cross_conformalize(g, counts, folds, "tv", noise=cs.AnnotatorSampling(0.5))
    missed = 1 - plain.guaranteed_coverage(0.5 * ALPHA)
    assert half.guaranteed_coverage(ALPHA) == pytest.approx(1 - 2 * missed)


def test_from_the_classifier_and_back(tmp_path: Path) -> None:
    data = cs.datasets.make_synthetic(600, n_votes=3, random_state=0)
    for noise in (cs.FewVotes(None, method="moments"), "auto"):
        clf = cs.ConformalCredalClassifier(LogisticRegression(), "brier", noise=noise)
        clf.fit(data.X[:200], data.counts[:200]).conformalize(data.X[200:], data.counts[200:])
        sets = clf.predict_set(data.X[:20], alpha=0.2)
        clf.save(tmp_path / "clf")
        loaded = cs.load(tmp_path / "clf")
        assert np.array_equal(loaded.predict_set(data.X[:20], alpha=0.2).threshold, sets.threshold)
        loaded.noise = cs.FewVotes(0.2)
        with pytest.raises(NotFittedError, match="noise is FewVotes"):
            loaded.predict_set(data.X[:20], alpha=0.2)


@pytest.mark.parametrize("method", ["moments", "majorant", "family"])
def test_saved_and_loaded(method: Any, tmp_path: Path) -> None:
    g, _, counts = draw("good", 600, 2, 3, np.random.default_rng(0))
    calibration = cs.conformalize(g, counts, "brier", noise=cs.FewVotes(0.05, method=method))
    calibration.save(tmp_path / "c")
    loaded = cs.load(tmp_path / "c")
    assert loaded.rule.noise == calibration.rule.noise
    assert loaded.promise == calibration.promise
    for alpha in (0.05, 0.1, 0.3):
        assert loaded.threshold(alpha) == calibration.threshold(alpha)


def test_scaled_scores_and_votes_of_all_numbers() -> None:
    """Predictions with scales of their own; one to seven votes per item."""
    rng = np.random.default_rng(0)
    g, truth, _ = draw("good", 3000, 3, 1, rng)
    votes = rng.integers(1, 8, 3000)
    counts = np.array([rng.multinomial(m, row) for m, row in zip(votes, truth, strict=True)])
    score = Normalized(Brier(), offset=0.2)
    for noise in (cs.FewVotes(None, method="moments"), cs.FewVotes(None, method="majorant")):
        sets = cs.conformalize(g[:2000], counts[:2000], score, noise=noise).predict_set(g[2000:], 0.2)
        assert np.isfinite(sets.threshold).all()
        assert sets.contains(truth[2000:]).mean() >= 0.8


def test_single_votes_are_safe_and_say_little() -> None:
    """The score of a single vote is on average at least that of λ."""
    rng = np.random.default_rng(0)
    g, truth = np.array([[0.5, 0.3, 0.2]]), np.array([[0.2, 0.5, 0.3]])
    votes = np.eye(3)
    estimates = Brier().estimate_from_votes(np.tile(g, (3, 1)), votes)
    assert truth[0] @ estimates >= Brier()(g, truth)[0]
    for m in (2, 3, 10):
        counts = rng.multinomial(m, truth[0], 200_000).astype(float)
        found = Brier((1.0, 2.0, 0.5)).estimate_from_votes(np.tile(g, (len(counts), 1)), counts)
        exact = Brier((1.0, 2.0, 0.5))(g, truth)[0]
        assert found.mean() == pytest.approx(exact, abs=5 * found.std() / math.sqrt(len(counts)))
        assert found.max() <= Brier((1.0, 2.0, 0.5)).largest_score(g)[0] + 1e-12


# --- refusals and words ---


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: cs.FewVotes(0.0), "delta must lie strictly"),
        (lambda: cs.FewVotes(method="magic"), "method must be one of 'auto', 'moments'"),  # type: ignore[arg-type]
        (lambda: cs.FewVotes(tuning=0.0), "tuning must lie strictly"),
        (lambda: cs.FewVotes(levels=(1.0,)), "levels and largest must hold one positive number"),
    ],
)
def test_what_few_votes_refuses(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_scores_that_have_no_method() -> None:
    g, _, counts = draw("good", 60, 5, 3, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"score 'tv' \(moments: votes give no .* at most 4 classes"):
        cs.conformalize(g, counts, "tv", noise=cs.FewVotes())
    with pytest.raises(
        ValueError, match=r"FewVotes\(method='moments'\) does not apply .*moments: votes give no unbiased"
    ):
        cs.conformalize(g, counts, "tv", noise=cs.FewVotes(method="moments"))
    with pytest.raises(ValueError, match="takes densities, not distributions"):
        cs.conformalize(1 + 3 * g, counts, "density", noise=cs.FewVotes(method="majorant"))
    with pytest.raises(ValueError, match="needs annotation counts, but labels holds distributions"):
        cs.conformalize(g, g, "brier", noise=cs.FewVotes())
    with pytest.raises(ValueError, match="3 are too few"):
        cs.conformalize(g[:3], counts[:3], "brier", noise=cs.FewVotes())


def test_promises_in_words() -> None:
    g, _, counts = draw("good", 200, 3, 5, np.random.default_rng(0))
    told = {
        noise: str(cs.conformalize(g, counts, "brier", noise=noise).promise)
        for noise in (None, cs.UnbiasedVotes(), cs.AnnotatorSampling(region="anytime"), cs.FewVotes(method="moments"))
    }
    plain, unbiased, anytime, few = told.values()
    assert plain.startswith("the distribution of the recorded votes")
    assert "votes are fair" in unbiased
    assert "may depend on how they fall" in anytime
    assert "for all but a share 0.01" in few
    assert "items are independent" in few
    weighted = cs.conformalize(g, counts, "brier", noise=cs.UnbiasedVotes(), weights=np.ones(200))
    assert "known shift" in str(weighted.promise)
    family = cs.FewVotes(method="family").promise
    assert "mixture of Dirichlet" in family.votes
