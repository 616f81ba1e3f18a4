"""Guarantees for the distribution behind the votes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import credalset as cs
from credalset.calibration.noise import DELTAS, set_aside
from credalset.scores import Score
from credalset.scores.anytime import anytime_radius
from credalset.scores.confidence import (
    REGIONS,
    largest_score,
    lower_limits,
    relative_entropy_radius,
    total_variation_radius,
)

from .conftest import SCORES, random_predictions

ALPHA = 0.1
MODELS: dict[str, Callable[..., cs.Calibration]] = {
    "unbiased": lambda g, n, score: cs.conformalize(g, n, score, noise=cs.UnbiasedVotes()),
    "sampling": lambda g, n, score: cs.conformalize(g, n, score, noise=cs.AnnotatorSampling()),
    "sampling-fixed-tv": lambda g, n, score: cs.conformalize(g, n, score, noise=cs.AnnotatorSampling(0.02, "tv")),
    "sampling-fixed-kl": lambda g, n, score: cs.conformalize(g, n, score, noise=cs.AnnotatorSampling(0.02, "kl")),
    "bounded": lambda g, n, score: cs.conformalize(
        g, n, score, noise=cs.epsilon_from_counts(n, 0.04, score, prediction=g)
    ),
}


def draw(
    score: Score, n: int, n_classes: int, votes: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions, true distributions and votes; half the models are sharp, where votes mislead most."""
    truth = rng.dirichlet(np.full(n_classes, 0.5), n)
    if score.order == "first":
        g = 0.8 * truth + 0.2 * rng.dirichlet(np.ones(n_classes), n)
        sharp = g**4
        g = np.where(rng.random((n, 1)) < 0.5, g, sharp / sharp.sum(axis=1, keepdims=True))
    else:
        g = 1.0 + rng.gamma(3.0, 3.0, (n, 1)) * (0.9 * truth + 0.1 / n_classes)
    return g, truth, rng.multinomial(votes, truth)


def check_coverage(
    model: str, score: Score, n_classes: int, votes: int, repetitions: int, n_calib: int, n_test: int
) -> None:
    rng = np.random.default_rng([n_classes, votes])
    coverage = []
    for _ in range(repetitions):
        g, truth, counts = draw(score, n_calib + n_test, n_classes, votes, rng)
        calibration = MODELS[model](g[:n_calib], counts[:n_calib], score)
        sets = calibration.predict_set(g[n_calib:], ALPHA)
        coverage.append(sets.contains(truth[n_calib:]).mean())
    spread = math.sqrt(ALPHA * (1 - ALPHA) * (1 / n_test + 1 / n_calib) / repetitions)
    assert np.mean(coverage) >= 1 - ALPHA - 3 * spread


def applies(model: str, score: Score) -> bool:
    return model != "unbiased" or score.is_convex


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [3, 10])
@pytest.mark.parametrize("votes", [1, 3, 5, 10, 100])
@pytest.mark.parametrize("model", MODELS)
def test_the_true_distribution_is_covered(model: str, votes: int, n_classes: int, score: Score) -> None:
    if applies(model, score):
        check_coverage(model, score, n_classes, votes, repetitions=25, n_calib=400, n_test=300)


def one_sided_predictor(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A one-hot predictor of the majority class, one vote per item: the vote usually agrees, λ never does."""
    majority = rng.integers(0, 3, n)
    g = np.eye(3)[majority]
    truth = np.full((n, 3), 0.025)
    truth[np.arange(n), majority] = 0.95
    return g, truth, rng.multinomial(1, truth)


def test_plain_calibration_fails_where_the_noise_models_hold() -> None:
    g, truth, counts = one_sided_predictor(1000, np.random.default_rng(0))
    plain = cs.conformalize(g[:500], counts[:500], "tv")
    assert plain.predict_set(g[500:], ALPHA).contains(truth[500:]).mean() == 0.0
    for name in MODELS:
        sets = MODELS[name](g[:500], counts[:500], "tv").predict_set(g[500:], ALPHA)
        assert sets.contains(truth[500:]).mean() == 1.0, name
        if name == "unbiased":
            assert sets.threshold.max() < 1.0, "and not because the set is everything"


# --- confidence regions ---


@pytest.mark.parametrize("votes", [1, 3, 10, 100])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_regions_hold_the_truth(votes: int, n_classes: int) -> None:
    rng = np.random.default_rng(votes)
    for delta in (0.02, 0.2):
        for truth in (*rng.dirichlet(np.full(n_classes, 0.3), 5), np.full(n_classes, 1 / n_classes)):
            counts = rng.multinomial(votes, truth, 2000).astype(float)
            shares = counts / votes
            missed = {
                "exact": (lower_limits(counts, delta) > truth).any(axis=1),
                "tv": np.abs(shares - truth).sum(axis=1) / 2
                > total_variation_radius(np.array([votes]), n_classes, delta) + 1e-12,
                "kl": np.where(shares > 0, shares * np.log(np.maximum(shares, 1e-300) / truth), 0).sum(axis=1)
                > relative_entropy_radius(np.array([votes]), n_classes, delta),
                "anytime": np.where(shares > 0, shares * np.log(np.maximum(shares, 1e-300) / truth), 0).sum(axis=1)
                > anytime_radius(counts, delta),
            }
            for name, rows in missed.items():
                assert rows.sum() <= stats.binom.ppf(1 - 1e-5, 2000, delta), name


def test_the_limits_are_clopper_pearson() -> None:
    counts = np.array([[3.0, 7.0, 0.0]])
    expected = [stats.binomtest(k, 10).proportion_ci(1 - 2 * 0.06 / 3, "exact").low for k in (3, 7, 0)]
    assert lower_limits(counts, 0.06)[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("region", REGIONS)
def test_no_member_of_a_region_scores_higher(region: str, score: Score) -> None:
    rng = np.random.default_rng(3)
    plain = random_predictions(score, 15, 3, rng)
    prediction = score.check_prediction(plain)
    counts = rng.multinomial(30, [0.5, 0.3, 0.2], 15).astype(float)
    bound = largest_score(score, prediction, counts, 0.1, region)
    assert (bound <= score.largest_score(prediction) + 1e-12).all()
    shares = counts / 30
    candidates = rng.dirichlet(np.ones(3), 4000)
    if region == "exact":
        inside = (candidates[None] >= lower_limits(counts, 0.1)[:, None]).all(axis=2)
    elif region == "tv":
        radius = total_variation_radius(np.full(15, 30.0), 3, 0.1)
        inside = np.abs(candidates[None] - shares[:, None]).sum(axis=2) / 2 <= radius[:, None]
    else:
        fixed = relative_entropy_radius(np.full(15, 30.0), 3, 0.1)
        radius = fixed if region == "kl" else anytime_radius(counts, 0.1)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(shares > 0, shares * np.log(shares), 0).sum(axis=1)[:, None] - shares @ np.log(
                candidates.T
            )
        inside = terms <= radius[:, None]
    for i in range(15):
        members = candidates[inside[i]]
        assert len(members) > 10
        found = score(np.repeat(plain[i : i + 1], len(members), axis=0), members).max()
        assert found <= bound[i] * (1 + 1e-9) + 1e-9
        if region == "exact" and np.isfinite(bound[i]):
            corner_scores = score(np.repeat(plain[i : i + 1], 3, axis=0), _corners(lower_limits(counts, 0.1)[i]))
            assert bound[i] == pytest.approx(corner_scores.max(), rel=1e-9)


def _corners(lower: np.ndarray) -> np.ndarray:
    return lower + (1 - lower.sum()) * np.eye(len(lower))


@pytest.mark.parametrize("region", ["tv", "kl"])
def test_the_inner_product_is_exact_over_balls(region: str) -> None:
    """The largest score over the ball equals the best of many members to the accuracy of a fine grid."""
    prediction, counts = np.array([[0.6, 0.3, 0.1]]), np.array([[20.0, 15.0, 5.0]])
    bound = largest_score(SCORES["inner"], prediction, counts, 0.1, region)[0]
    grid = cs.simplex.grid(3, 0.005)
    shares = counts[0] / 40
    if region == "tv":
        distance = np.abs(grid - shares).sum(axis=1) / 2
        inside = distance <= total_variation_radius(np.array([40.0]), 3, 0.1)[0]
    else:
        with np.errstate(divide="ignore"):
            divergence = (shares * (np.log(shares) - np.log(grid))).sum(axis=1)
        inside = divergence <= relative_entropy_radius(np.array([40.0]), 3, 0.1)[0]
    best = (1 - grid[inside] @ prediction[0]).max()
    assert best <= bound + 1e-12
    assert bound == pytest.approx(best, abs=0.01)


# --- bounded noise ---


def synthetic(n: int = 300, votes: int = 20, n_classes: int = 3) -> Any:
    return cs.datasets.make_synthetic(n, n_classes=n_classes, n_votes=votes, random_state=0)


def test_union_and_paper_levels() -> None:
    data = synthetic(99)
    plain = cs.conformalize(data.distributions, data.counts)
    for rule, level in (("union", 0.15), ("paper", 0.15 / 0.95)):
        noise = cs.BoundedNoise(0.25, 0.05, rule=rule)  # type: ignore[arg-type]
        calibration = cs.conformalize(data.distributions, data.counts, noise=noise)
        assert calibration.threshold(0.2) == plain.threshold(level) + 0.25
    free = cs.conformalize(data.distributions, data.counts, noise=cs.BoundedNoise(0.0, 0.0))
    assert free.threshold(0.1) == plain.threshold(0.1)


def test_infeasible_delta_names_the_smallest_alpha() -> None:
    data = synthetic(99)
    calibration = cs.conformalize(data.distributions, data.counts, noise=cs.BoundedNoise(0.1, 0.05))
    with pytest.raises(ValueError, match=r"alpha=0.05 must be above delta=0.05.*smallest feasible alpha .* is 0.06"):
        calibration.threshold(0.05)
    assert math.isfinite(calibration.threshold(0.06))
    sampling = cs.conformalize(data.distributions, data.counts, noise=cs.AnnotatorSampling(0.5))
    assert math.isfinite(sampling.threshold(0.02))
    with pytest.warns(cs.CredalSetWarning, match="the smallest level they support is 0.02"):
        assert math.isinf(sampling.threshold(0.019))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: cs.BoundedNoise(-0.1, 0.1), "epsilon must be a finite number of at least 0"),
        (lambda: cs.BoundedNoise(math.inf, 0.1), "epsilon must be a finite number"),
        (lambda: cs.BoundedNoise(0.1, 1.0), r"delta must lie in \[0, 1\)"),
        (lambda: cs.BoundedNoise(0.1, 0.1, rule="hope"), "rule must be one of 'union', 'paper'"),  # type: ignore[arg-type]
        (lambda: cs.AnnotatorSampling(0.0), "delta must lie strictly"),
        (lambda: cs.AnnotatorSampling(region="box"), "region must be one of"),  # type: ignore[arg-type]
        (lambda: cs.AnnotatorSampling(tuning=1.0), "tuning must lie strictly"),
        (lambda: cs.UnbiasedVotes(s=math.nan), "s must be a finite number"),
        (lambda: cs.epsilon_from_counts([[1, 2]], 0.1, region="box"), "region must be one of"),
        (lambda: cs.epsilon_from_counts([[0.5, 0.5]], 0.1), "needs annotation counts, but counts holds distributions"),
        (lambda: cs.epsilon_from_counts([[1, 2]], 0.1, "kl"), "prediction is missing"),
        (
            lambda: cs.epsilon_from_counts([[1, 2]], 0.1, "kl", prediction=[[0.5, 0.5]]),
            "1 items are too few for delta=0.1 .at least 19",
        ),
    ],
)
def test_refusals(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_what_conformalize_refuses() -> None:
    data = synthetic(50)
    with pytest.raises(
        TypeError,
        match=r"noise must be 'auto', 'few-votes', .* or FewVotes, AnnotatorSampling, UnbiasedVotes or Bounded",
    ):
        cs.conformalize(data.distributions, data.counts, noise="bounded")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="AnnotatorSampling needs annotation counts, but labels holds distributions"):
        cs.conformalize(data.distributions, data.distributions, noise=cs.AnnotatorSampling())
    with pytest.raises(ValueError, match=r"UnbiasedVotes needs a score that is convex .* and 'so' is not"):
        cs.conformalize(1 + data.distributions, data.counts, "so", noise=cs.UnbiasedVotes())
    calibration = cs.conformalize(data.distributions, data.counts, noise=cs.UnbiasedVotes())
    with pytest.raises(ValueError, match="no single one"):
        calibration.threshold(0.1)
    for call in (
        lambda: calibration.p_values(data.distributions, data.distributions),
        lambda: calibration.coverage_distribution(0.1),
        lambda: calibration.pac_threshold(0.1, 0.1),
    ):
        with pytest.raises(ValueError, match="defined for plain split calibration"):
            call()


def test_epsilon_is_a_tail_bound() -> None:
    same = cs.epsilon_from_counts(np.tile([60, 40, 0], (5, 1)), 0.05).epsilon
    assert same == total_variation_radius(np.array([100.0]), 3, 0.05)[0]
    assert cs.epsilon_from_counts(np.tile([60, 40, 0], (5, 1)), 0.05, "ws").epsilon == pytest.approx(2 * same)
    assert cs.epsilon_from_counts(np.tile([60, 40, 0], (5, 1)), 0.05, "inner").epsilon == same
    mixed = np.vstack([np.tile([60, 40, 0], (990, 1)), np.tile([1, 0, 0], (10, 1))])
    epsilon = cs.epsilon_from_counts(mixed, 0.05).epsilon
    assert same < epsilon < 1.3 * same, "ten items with one vote use up a fifth of delta, not all of it"
    assert cs.epsilon_from_counts(mixed[-20:], 0.05).epsilon == pytest.approx(1.0)


def test_epsilon_is_refused_where_scores_have_no_bound() -> None:
    counts = np.tile([3, 2, 0], (100, 1))
    with pytest.raises(ValueError, match=r"no finite epsilon exists: the score 'kl' has no bound .* of 100 items"):
        cs.epsilon_from_counts(counts, 0.1, "kl", prediction=np.tile([0.5, 0.5, 0.0], (100, 1)))


# --- the choice of delta and s ---


def test_items_set_aside() -> None:
    assert set_aside(5, 0.0).sum() == 0
    assert set_aside(100, 0.2).sum() == 20
    assert set_aside(7, 0.5).tolist() == [False, True, False, True, False, True, False]


@given(n=st.integers(1, 200), share=st.floats(0.01, 0.99))
def test_the_share_set_aside_is_what_was_asked(n: int, share: float) -> None:
    assert abs(set_aside(n, share).sum() - n * share) <= 1


def test_delta_is_chosen_by_the_items_set_aside_alone() -> None:
    data = synthetic(400)
    calibration = cs.conformalize(data.distributions, data.counts, noise=cs.AnnotatorSampling())
    rule = calibration.rule
    assert rule.bounds.shape == (len(DELTAS), 400)
    fixed = [
        cs.conformalize(data.distributions[~rule.tuning], data.counts[~rule.tuning], noise=cs.AnnotatorSampling(delta))
        for delta in DELTAS
    ]
    chosen = calibration.threshold(0.1)
    candidates = [c.threshold(0.1) for c in fixed]
    assert chosen in candidates
    assert chosen <= 1.1 * min(candidates)
    assert math.isinf(calibration.threshold(0.0001))


def test_unbiased_votes_formula() -> None:
    data = synthetic(30, votes=3)
    g = data.distributions
    calibration = cs.conformalize(g, data.counts, "tv", noise=cs.UnbiasedVotes(s=0.2))
    excess = np.maximum(cs.get_score("tv")(g, data.counts / 3) - 0.2, 0).sum()
    worst = (1 - g.min(axis=1)) - 0.2
    assert calibration.thresholds(g, 0.1) == pytest.approx(0.2 + (excess + worst) / (0.1 * 31))
    assert np.array_equal(calibration.predict_set(g, 0.1).threshold, calibration.thresholds(g, 0.1))


def test_unbiased_votes_with_an_unbounded_score_say_so() -> None:
    rng = np.random.default_rng(0)
    g = rng.dirichlet(np.ones(3), 100)
    counts = np.array([rng.multinomial(5, row) for row in g])
    calibration = cs.conformalize(g, counts, "kl", noise=cs.UnbiasedVotes())
    with pytest.warns(cs.CredalSetWarning, match="1 of 2 thresholds are infinite"):
        values = calibration.thresholds([[0.5, 0.5, 0.0], [0.4, 0.3, 0.3]], 0.1)
    assert np.isinf(values).tolist() == [True, False]


def test_more_votes_make_smaller_sets() -> None:
    for noise in (cs.UnbiasedVotes(), cs.AnnotatorSampling(), cs.AnnotatorSampling(0.02, "kl")):
        means = []
        for votes in (2, 20, 200):
            data = synthetic(400, votes)
            calibration = cs.conformalize(data.distributions, data.counts, noise=noise)
            means.append(calibration.thresholds(data.distributions, 0.1).mean())
        assert means == sorted(means, reverse=True)
