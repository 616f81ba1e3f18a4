"""Guarantees for the distribution behind the votes: thresholds against slow oracles,
and coverage of the truth.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import optimize, stats

import credalset as cs
from credalset.calibration.epsilon import total_variation_radius
from credalset.calibration.noise import Guarantee, Noise, NoNoise, set_aside
from credalset.calibration.sampling import DELTAS, REGIONS, lower_limits
from credalset.calibration.thresholds import NOISES, named_noises
from credalset.scores import Score, TotalVariation
from tests.conftest import SCORES, random_predictions

ALPHA, N, N_NEW, K = 0.1, 53, 4, 3


def draw(
    score: Score, n: int, n_classes: int, votes: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions, true distributions and votes; half the models are sharp,
    where votes mislead most.
    """
    truth = rng.dirichlet(np.full(n_classes, 0.5), n)
    if score.order == "first":
        g = 0.8 * truth + 0.2 * rng.dirichlet(np.ones(n_classes), n)
        sharp = g**4
        g = np.where(rng.random((n, 1)) < 0.5, g, sharp / sharp.sum(axis=1, keepdims=True))
    else:
        g = 1.0 + rng.gamma(3.0, 3.0, (n, 1)) * (0.9 * truth + 0.1 / n_classes)
    return g, truth, rng.multinomial(votes, truth)


def synthetic(n: int = 300, votes: int = 20) -> Any:
    return cs.datasets.make_synthetic(n, n_classes=3, n_votes=votes, random_state=0)


# --- thresholds, slowly ---


def quantile(values: list[float], level: Fraction) -> float:
    rank = math.ceil((len(values) + 1) * (1 - level))
    return sorted(values)[rank - 1] if rank <= len(values) else math.inf


def above(score: Score, g: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """The largest score at a corner of {λ ≥ lower}."""
    spare = np.maximum(1 - lower.sum(axis=1, keepdims=True), 0)
    corners = [lower + spare * corner for corner in np.eye(K)]
    return np.max([score(g, y / y.sum(axis=1, keepdims=True)) for y in corners], axis=0)


def exact_limits(counts: np.ndarray, delta: float) -> np.ndarray:
    m = counts.sum(axis=1, keepdims=True)
    return np.where(
        counts > 0, stats.beta.ppf(delta / K, np.maximum(counts, 1), m - counts + 1), 0.0
    )


def anytime_limits(counts: np.ndarray, delta: float) -> np.ndarray:
    """The smallest λ_k with KL(shares ‖ λ) ≤ ρ, by root finding;
    ρ from integrals over the simplex in closed form.
    """
    result = np.zeros(counts.shape)
    for i, row in enumerate(counts):
        m = int(row.sum())
        marginal = math.lgamma(K) - math.lgamma(m + K) + sum(math.lgamma(1 + c) for c in row)
        rho = (sum(c * math.log(c / m) for c in row if c) - marginal - math.log(delta)) / m
        for k, share in enumerate(row / m):
            if share > 0:
                gap = lambda x, p=share, rho=rho: (  # noqa: E731
                    p * (math.log(p) - x)
                    + ((1 - p) * math.log((1 - p) / -math.expm1(x)) if p < 1 else 0.0)
                    - rho
                )
                result[i, k] = math.exp(
                    optimize.brentq(gap, math.log(share) - rho / share - 2, math.log(share))
                )
    return result


class Slow:
    """The items of a calibration, and what each noise model makes of them."""

    def __init__(self, score: Score, g: np.ndarray, counts: np.ndarray, alpha: Fraction) -> None:
        self.score, self.g, self.counts, self.alpha = score, g, counts, alpha
        self.scores = score(g, counts / counts.sum(axis=1, keepdims=True)).tolist()
        self.aside = [i % 5 == 4 for i in range(len(g))]

    def bounds(self, delta: float, limits: Callable[..., np.ndarray] = exact_limits) -> list[float]:
        found: list[float] = above(self.score, self.g, limits(self.counts, delta)).tolist()
        return found

    def fixed(self, delta: Fraction, limits: Callable[..., np.ndarray]) -> float:
        return quantile(self.bounds(float(delta), limits), self.alpha * (1 - delta))

    def bounded(self, delta: Fraction) -> float:
        bounds = self.bounds(float(delta) / 2)
        change = [
            0.0 if math.isinf(f) else max(u - f, 0.0)
            for u, f in zip(bounds, self.scores, strict=True)
        ]
        return quantile(self.scores, self.alpha - delta) + quantile(change, delta / 2)

    def chosen(self) -> float:
        rivals = []
        for rank, delta in enumerate(DELTAS):
            level = self.alpha * (1 - Fraction(str(delta)))
            if level * (self.aside.count(False) + 1) < 1:
                continue
            pairs = list(zip(self.bounds(delta), self.aside, strict=True))
            held_out = sorted(u for u, aside in pairs if aside)
            guess = held_out[math.ceil(len(held_out) * (1 - level)) - 1]
            rivals.append((guess, rank, quantile([u for u, aside in pairs if not aside], level)))
        return min(rivals)[2]

    def unbiased(self, new: np.ndarray) -> list[float]:
        pairs = list(zip(self.scores, self.aside, strict=True))
        finite = sorted(f for f, aside in pairs if aside and math.isfinite(f))
        kept = [f for f, aside in pairs if not aside]
        share = max(self.alpha - Fraction(1, len(kept) + 1), Fraction(0))
        start = (
            finite[min(math.floor(sum(self.aside) * (1 - share)), len(finite) - 1)]
            if finite
            else 0.0
        )
        total = sum(max(f - start, 0.0) for f in kept)
        peaks = np.maximum(above(self.score, new, np.zeros((len(new), K))) - start, 0.0)
        return [start + (total + peak) / (float(self.alpha) * (len(kept) + 1)) for peak in peaks]


MODELS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "unbiased": (lambda g, n, score: cs.UnbiasedVotes(), lambda slow, new: slow.unbiased(new)),
    "sampling": (lambda g, n, score: cs.AnnotatorSampling(), lambda slow, new: slow.chosen()),
    "sampling-exact": (
        lambda g, n, score: cs.AnnotatorSampling(0.05),
        lambda slow, new: slow.fixed(Fraction(1, 20), exact_limits),
    ),
    "sampling-anytime": (
        lambda g, n, score: cs.AnnotatorSampling(0.02, "anytime"),
        lambda slow, new: slow.fixed(Fraction(1, 50), anytime_limits),
    ),
    "bounded": (
        lambda g, n, score: cs.epsilon_from_counts(n, 0.08, score, predictions=g),
        lambda slow, new: slow.bounded(Fraction(2, 25)),
    ),
}


def applies(model: str, score: Score) -> bool:
    return score.name != "intervals" and (model != "unbiased" or score.is_convex)


@pytest.mark.parametrize("votes", [1, 10])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", SCORES)
def test_thresholds_are_those_of_the_oracle(name: str, model: str, votes: int) -> None:
    score = SCORES[name]
    if not applies(model, score):
        return
    g, _, counts = draw(score, N + N_NEW, K, votes, np.random.default_rng([votes, len(model)]))
    noise, slowly = MODELS[model]
    for alpha in (Fraction(1, 5), Fraction(1, 10)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cs.CredalSetWarning)
            made = noise(g[:N], counts[:N], score)
            found = cs.conformalize(g[:N], counts[:N], score, noise=made).thresholds(
                g[N:], float(alpha)
            )
        expected = slowly(Slow(score, g[:N], counts[:N], alpha), g[N:])
        assert found == pytest.approx(np.broadcast_to(expected, N_NEW), rel=2e-8, abs=1e-9)


# --- coverage ---


def check_coverage(
    model: str, score: Score, votes: int, n_classes: int, repetitions: int, n: int, n_test: int
) -> None:
    rng = np.random.default_rng([n_classes, votes])
    coverage = []
    for _ in range(repetitions):
        g, truth, counts = draw(score, n + n_test, n_classes, votes, rng)
        noise = MODELS[model][0](g[:n], counts[:n], score)
        sets = cs.conformalize(g[:n], counts[:n], score, noise=noise).predict_set(g[n:], ALPHA)
        coverage.append(sets.contains(truth[n:]).mean())
    assert np.mean(coverage) >= 1 - ALPHA - 3 * math.sqrt(
        ALPHA * (1 - ALPHA) * (1 / n_test + 1 / n) / repetitions
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::credalset.CredalSetWarning")
@pytest.mark.parametrize("n_classes", [3, 10])
@pytest.mark.parametrize("votes", [1, 3, 10, 100])
@pytest.mark.parametrize("model", MODELS)
def test_the_true_distribution_is_covered(
    model: str, votes: int, n_classes: int, score: Score
) -> None:
    if applies(model, score):
        check_coverage(model, score, votes, n_classes, repetitions=25, n=400, n_test=300)


def test_plain_calibration_fails_where_the_noise_models_hold() -> None:
    """A one-hot predictor of the majority class, one vote per item: the vote usually agrees,
    λ never does.
    """
    rng = np.random.default_rng(0)
    majority = rng.integers(0, 3, 1000)
    g, truth = np.eye(3)[majority], np.full((1000, 3), 0.025)
    truth[np.arange(1000), majority] = 0.95
    counts = rng.multinomial(1, truth)
    plain = cs.conformalize(g[:500], counts[:500], "tv")
    assert plain.predict_set(g[500:], ALPHA).contains(truth[500:]).mean() == 0.0
    for model, (noise, _) in MODELS.items():
        made = cs.conformalize(
            g[:500], counts[:500], "tv", noise=noise(g[:500], counts[:500], "tv")
        )
        sets = made.predict_set(g[500:], ALPHA)
        assert sets.contains(truth[500:]).mean() == 1.0, model
        if model == "unbiased":
            assert sets.threshold.max() < 1.0, "and not because the set is everything"


@pytest.mark.parametrize(
    ("name", "model"),
    [
        *product(["tv", "kl", "inner", "normalized-kl"], ["sampling-exact", "bounded"]),
        ("so", "sampling-exact"),
    ],
)
def test_with_many_votes_coverage_is_what_is_asked_for(name: str, model: str) -> None:
    """A million votes leave nearly no noise: coverage lies between 1 − α and 1 − α + δ,
    up to the draw of items.
    """
    score, rng, n, repetitions = SCORES[name], np.random.default_rng(5), 300, 12
    covered = []
    for _ in range(repetitions):
        g, truth, counts = draw(score, 2 * n, K, 1_000_000, rng)
        few = (
            cs.AnnotatorSampling(0.01)
            if model != "bounded"
            else cs.epsilon_from_counts(counts[:n], 0.01, score, predictions=g[:n])
        )
        calibration = cs.conformalize(g[:n], counts[:n], score, noise=few)
        covered.append(calibration.predict_set(g[n:], 0.25).contains(truth[n:]).mean())
    spread = math.sqrt(0.25 * 0.75 * 2 / (n * repetitions))
    assert 0.75 - 3 * spread <= np.mean(covered) <= 0.75 + 0.02 + 1 / n + 3 * spread


@pytest.mark.parametrize(("is_fresh", "least", "most"), [(True, 1.0, 1.0), (False, 0.3, 0.7)])
def test_unbiased_votes_need_new_annotators_for_each_item(
    is_fresh: bool, least: float, most: float
) -> None:
    """Half of the annotators always vote for the first class:
    one of them for all items is unbiased, and not enough.
    """
    rng, n, truth, covered = np.random.default_rng(0), 100, np.array([[0.5, 0.5]]), []
    certain = np.tile([1.0, 0.0], (n, 1))
    for _ in range(60):
        votes = np.eye(2)[rng.integers(2, size=n) if is_fresh else [rng.integers(2)] * n]
        calibration = cs.conformalize(certain, votes, "tv", noise=cs.UnbiasedVotes(s=0.0))
        covered.append(calibration.predict_set(certain[:1], 0.1).contains(truth)[0])
    assert least <= np.mean(covered) <= most
    assert "whatever the votes on other items" in str(calibration.guarantee)


def test_fair_votes_are_covered_where_markov_is_sharp() -> None:
    """Excesses that are nothing or all there is: one item in eight,
    so that α = 1/8 is just enough.
    """
    rng, n = np.random.default_rng(6), 4000
    bad = rng.random(2 * n) < 0.12
    g = np.tile([1.0, 0.0], (2 * n, 1))
    truth = np.where(bad[:, None], [0.0, 1.0], [1.0, 0.0])
    calibration = cs.conformalize(g[:n], truth[:n], "tv", noise=cs.UnbiasedVotes(s=0.0))
    at = {
        alpha: calibration.predict_set(g[n:], alpha).contains(truth[n:]).mean()
        for alpha in (0.11, 0.13)
    }
    assert at[0.11] == 1.0
    assert at[0.13] == 1 - bad[n:].mean()


# --- confidence regions ---


@pytest.mark.parametrize("votes", [1, 3, 30])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_regions_hold_the_truth(votes: int, n_classes: int) -> None:
    rng = np.random.default_rng(votes)
    for delta in (0.02, 0.2):
        for truth in (
            *rng.dirichlet(np.full(n_classes, 0.3), 3),
            np.full(n_classes, 1 / n_classes),
        ):
            counts = rng.multinomial(votes, truth, 2000).astype(float)
            limit = stats.binom.ppf(1 - 1e-5, 2000, delta)
            for region in REGIONS:
                assert (lower_limits(counts, delta, region) > truth).any(axis=1).sum() <= limit, (
                    region
                )
            radius = total_variation_radius(np.array([votes]), n_classes, delta)
            assert (np.abs(counts / votes - truth).sum(axis=1) / 2 > radius + 1e-12).sum() <= limit


def test_the_limits_are_clopper_pearson() -> None:
    expected = [
        stats.binomtest(k, 10).proportion_ci(1 - 2 * 0.06 / 3, "exact").low for k in (3, 7, 0)
    ]
    assert lower_limits(np.array([[3.0, 7.0, 0.0]]), 0.06)[0] == pytest.approx(expected, rel=1e-9)


def test_stopping_when_votes_agree_breaks_exact_limits_and_not_the_anytime_region() -> None:
    """Votes are collected until the first class leads by more than chance explains,
    at most a hundred of them.
    """
    rng, n = np.random.default_rng(0), 20_000
    first = rng.random((n, 100)) < 0.5
    lead, votes = np.cumsum(np.where(first, 1, -1), axis=1), np.arange(1, 101)
    enough = lead >= 1.65 * np.sqrt(votes) + 1.0
    stop = np.where(enough.any(axis=1), enough.argmax(axis=1), 99)
    ones = np.take_along_axis(np.cumsum(first, axis=1), stop[:, None], axis=1)[:, 0]
    counts = np.column_stack([ones, stop + 1 - ones]).astype(float)
    limit = stats.binom.ppf(1 - 1e-5, n, 0.1)
    assert (lower_limits(counts, 0.1) > 0.5).any(axis=1).sum() > 2 * limit
    assert (lower_limits(counts, 0.1, "anytime") > 0.5).any(axis=1).sum() <= limit


@pytest.mark.parametrize("region", REGIONS)
def test_no_member_of_a_region_scores_higher(region: str, score: Score) -> None:
    rng = np.random.default_rng(3)
    prediction = score.check_prediction(random_predictions(score, 15, 3, rng))
    lower = lower_limits(rng.multinomial(30, [0.5, 0.3, 0.2], 15).astype(float), 0.1, region)
    bound = score.largest_above(prediction, lower)
    assert (bound <= score.largest_score(prediction) + 1e-12).all()
    for point in rng.dirichlet(np.ones(3), 300):
        members = lower + (1 - lower.sum(axis=1, keepdims=True)) * point
        assert (score.evaluate_rows(prediction, members) <= bound * (1 + 1e-9) + 1e-9).all()


# --- bounded noise ---


def test_union_and_paper_levels() -> None:
    data = synthetic(99)
    plain = cs.conformalize(data.distributions, data.counts)
    for rule, level in (("union", 0.15), ("paper", 0.15 / 0.95)):
        noise = cs.BoundedNoise(0.25, 0.05, rule=rule)  # type: ignore[arg-type]
        calibration = cs.conformalize(data.distributions, data.counts, noise=noise)
        assert calibration.threshold(0.2) == plain.threshold(level) + 0.25
    free = cs.conformalize(data.distributions, data.counts, noise=cs.BoundedNoise(0.0, 0.0))
    assert free.threshold(0.1) == plain.threshold(0.1)


def test_infeasible_levels() -> None:
    data = synthetic(99)
    calibration = cs.conformalize(data.distributions, data.counts, noise=cs.BoundedNoise(0.1, 0.05))
    with pytest.raises(ValueError, match=r"alpha must be above delta=0.05"):
        calibration.threshold(0.05)
    assert math.isfinite(calibration.threshold(0.06))
    sampling = cs.conformalize(data.distributions, data.counts, noise=cs.AnnotatorSampling(0.5))
    assert math.isfinite(sampling.threshold(0.02))
    with pytest.warns(cs.CredalSetWarning, match="0.02"):
        assert math.isinf(sampling.threshold(0.019))


def test_epsilon_is_a_tail_bound() -> None:
    votes = np.tile([60, 40, 0], (5, 1))
    same = cs.epsilon_from_counts(votes, 0.05, "tv")
    assert same.epsilon == total_variation_radius(np.array([100.0]), 3, 0.05)[0]
    assert same._scope == "any"
    assert cs.epsilon_from_counts(votes, 0.05, "ws").epsilon == pytest.approx(2 * same.epsilon)
    assert cs.epsilon_from_counts(votes, 0.05, "inner").epsilon == same.epsilon
    mixed = np.vstack([np.tile([60, 40, 0], (990, 1)), np.tile([1, 0, 0], (10, 1))])
    found = cs.epsilon_from_counts(mixed, 0.05, "tv")
    assert found._scope == "average item"
    assert same.epsilon < found.epsilon < 1.3 * same.epsilon, (
        "ten items with one vote use up a fifth of delta"
    )
    assert cs.epsilon_from_counts(mixed[-20:], 0.05, "tv").epsilon == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: cs.BoundedNoise(-0.1, 0.1), "epsilon"),
        (lambda: cs.BoundedNoise(math.inf, 0.1), "epsilon"),
        (lambda: cs.BoundedNoise(0.1, 1.0), "delta"),
        (lambda: cs.BoundedNoise(0.1, 0.1, rule="hope"), "rule"),  # type: ignore[arg-type]
        (lambda: cs.AnnotatorSampling(0.0), "delta"),
        (lambda: cs.AnnotatorSampling(region="box"), "region"),  # type: ignore[arg-type]
        (lambda: cs.AnnotatorSampling(tuning=1.0), "tuning"),
        (lambda: cs.UnbiasedVotes(s=math.nan), "s must"),
        (lambda: cs.FewVotes(0.0), "delta"),
        (lambda: cs.epsilon_from_counts([[0.5, 0.5]], 0.1, "tv"), "votes"),
        (lambda: cs.epsilon_from_counts([[1, 2]], 0.1, "kl"), "prediction"),
        (
            lambda: cs.epsilon_from_counts([[1, 2]], 0.1, "kl", predictions=[[0.5, 0.5]]),
            "delta=0.1 needs 19",
        ),
        (
            lambda: cs.epsilon_from_counts(
                np.tile([3, 2, 0], (99, 1)), 0.1, predictions=np.tile([0.5, 0.5, 0], (99, 1))
            ),
            "score 'kl' is unbounded",
        ),
    ],
)
def test_refusals(build: Callable[[], Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        build()


class Root(TotalVariation):
    """The square root of a distance: votes may score lower on average than what they
    are drawn from.
    """

    name, is_convex = "root", False

    def formula(self, prediction: Any, distribution: Any) -> Any:
        return np.sqrt(super().formula(prediction, distribution))


def test_what_conformalize_refuses() -> None:
    data = synthetic(50)
    with pytest.raises(TypeError, match="noise"):
        cs.conformalize(data.distributions, data.counts, noise="bounded")
    with pytest.raises(ValueError, match="votes"):
        cs.conformalize(data.distributions, data.distributions, noise=cs.AnnotatorSampling())
    with pytest.raises(ValueError, match="'root'"):
        cs.conformalize(data.distributions, data.counts, Root(), noise=cs.UnbiasedVotes())
    calibration = cs.conformalize(data.distributions, data.counts, noise=cs.UnbiasedVotes())
    with pytest.raises(ValueError, match="thresholds"):
        calibration.threshold(0.1)
    for call in (
        lambda: calibration.p_values(data.distributions, data.distributions),
        lambda: calibration.coverage_distribution(0.1),
        lambda: calibration.pac_threshold(0.1, 0.1),
    ):
        with pytest.raises(ValueError, match="without noise"):
            call()


def test_items_set_aside() -> None:
    assert set_aside(5, 0.0).sum() == 0
    assert set_aside(100, 0.2).sum() == 20
    assert set_aside(7, 0.5).tolist() == [False, True, False, True, False, True, False]


# --- in words ---


def test_guarantees_say_what_is_covered_for_whom_and_assuming_what() -> None:
    data = synthetic(60)
    options: dict[str, Any] = {"groups": np.arange(60) % 2, "weights": np.ones(60)}
    plain = cs.conformalize(data.distributions, data.counts).guarantee
    assert plain == Guarantee(votes="new items get as many votes as calibration items")
    assert "recorded label" in str(plain)
    for noise in (cs.AnnotatorSampling(0.05), cs.BoundedNoise(0.1, 0.02), cs.UnbiasedVotes()):
        guarantee = cs.conformalize(
            data.distributions, data.counts, noise=noise, **options
        ).guarantee
        assert (guarantee.covers, guarantee.within) == ("true", "each group")
        assert "shift" in guarantee.items
        assert all(
            part in str(guarantee)
            for part in ("true", "each group", guarantee.items, guarantee.votes)
        )
    few = cs.conformalize(
        data.distributions, data.counts, "brier", noise=cs.FewVotes(0.05)
    ).guarantee
    assert (few.delta, few.items) == (0.05, "independent")
    assert "share 0.05" in str(few)


def test_a_noise_model_is_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """What CONTRIBUTING promises: a class with `bounds`,
    and an entry in `NOISES` if it has a name to go by.
    """

    @dataclass(frozen=True)
    class Doubled(Noise):
        name: ClassVar[str] = "doubled"

        def bounds(self, score: Any, prediction: Any, labels: Any, scores: Any) -> Any:
            return 2.0 * super().bounds(score, prediction, labels, scores)

    @dataclass(frozen=True)
    class Times(Doubled):
        amount: float
        name: ClassVar[str] = "times"

    for model in (Doubled, Times):
        monkeypatch.setitem(NOISES, model.name, model)
    assert "doubled" in named_noises()
    assert "times" not in named_noises(), "a parameter without a default has no value to go by"
    data = synthetic(60)
    plain = cs.conformalize(data.distributions, data.counts)
    for noise in (Doubled(), "doubled"):
        made = cs.conformalize(data.distributions, data.counts, noise=noise)
        assert made.threshold(0.1) == 2.0 * plain.threshold(0.1)
    assert isinstance(plain.noise, NoNoise)
