"""`FewVotes`: the betting bound on a mean, and the guarantee that rests on it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import credalset as cs
from credalset.calibration import few_votes
from credalset.calibration.few_votes import upper_mean
from credalset.scores import Brier, Normalized
from credalset.scores.normalized import ScaledPrediction

MEAN, ALPHA = 0.2, 0.1

# Laws with mean 0.2 and the largest value they can take.
LAWS: dict[str, tuple[Any, float]] = {
    "coin": (lambda n, rng: (rng.random(n) < MEAN).astype(float), 1.0),
    "rare and large": (
        lambda n, rng: np.where(rng.random(n) < 0.01, MEAN + 9.9, MEAN - 0.1),
        MEAN + 9.9,
    ),
    "rare and small": (
        lambda n, rng: np.where(rng.random(n) < 0.01, MEAN - 9.9, MEAN + 0.1),
        MEAN + 0.1,
    ),
    "two far points": (lambda n, rng: MEAN + np.where(rng.random(n) < 0.5, 5.0, -5.0), MEAN + 5.0),
    "smooth": (lambda n, rng: MEAN + np.clip(rng.normal(size=n), -3, 3), MEAN + 3.0),
}


def errors(law: str, n: int, delta: float, repetitions: int) -> int:
    sample, largest = LAWS[law]
    rng = np.random.default_rng([n, len(law)])
    return sum(upper_mean(sample(n, rng), largest, delta) < MEAN for _ in range(repetitions))


@pytest.mark.parametrize("n", [20, 300])
@pytest.mark.parametrize("law", LAWS)
def test_the_bound_is_rarely_too_small(law: str, n: int) -> None:
    assert errors(law, n, 0.3, 40) <= stats.binom.ppf(1 - 1e-4, 40, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 300, 1500])
@pytest.mark.parametrize("law", LAWS)
def test_the_bound_is_rarely_too_small_over_many_samples(law: str, n: int) -> None:
    for delta in (0.01, 0.3):
        assert errors(law, n, delta, 300) <= stats.binom.ppf(1 - 1e-4, 300, delta)


def test_a_bet_that_is_too_bold_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gambler who may go into debt would be seen by the test above:
    the limit on the bet matters.
    """
    monkeypatch.setattr(few_votes, "BOLDNESS", 50.0)
    monkeypatch.setattr(few_votes, "PRIOR", 1e-3)
    assert errors("rare and large", 20, 0.3, 60) > stats.binom.ppf(1 - 1e-4, 60, 0.3)


@pytest.mark.parametrize(("delta", "limit"), [(0.3, 1.0), (0.01, 2.8)])
def test_the_bound_is_nearly_as_sharp_as_the_normal_approximation(
    delta: float, limit: float
) -> None:
    """Within ``limit`` standard errors for half of the samples,
    where a constant bet would need √(2 log 1/δ).
    """
    rng, n = np.random.default_rng(1), 3000
    found = [upper_mean(np.clip(rng.normal(1.0, 0.3, n), 0, 2), 2.0, delta) for _ in range(15)]
    assert np.median(found) <= 1.0 * few_votes.RATIO + limit * 0.3 / math.sqrt(n)


def test_without_evidence_the_bound_is_the_largest_value() -> None:
    assert upper_mean(np.empty(0), 1.5, 0.01) == 1.5
    assert upper_mean(np.full(5, 1.5), 1.5, 0.01) == 1.5
    assert upper_mean(np.zeros(20_000), 1.0, 0.01) < 0.005


# --- the guarantee ---


def draw(
    share: float, n: int, n_classes: int, votes: int, rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    truth = rng.dirichlet(np.full(n_classes, 0.7), n)
    g = share * truth + (1.0 - share) * rng.dirichlet(np.ones(n_classes), n)
    return g, truth, rng.multinomial(votes, truth)


def barely(
    n: int, share: float, rng: np.random.Generator, votes: int = 4
) -> tuple[np.ndarray, ...]:
    """The hardest case.

    A share of crowds at one distance (0.32) from the prediction, the others exactly at it.

    Every threshold below that distance covers all but ``share``, and Markov's inequality loses
    nothing.
    """
    g = np.full((n, 2), 0.5)
    truth = np.where(rng.random((n, 1)) < share, [0.9, 0.1], g)
    return g, truth, rng.multinomial(votes, truth)


def threshold(g: np.ndarray, counts: np.ndarray, delta: float, alpha: float = ALPHA) -> float:
    fitted = cs.conformalize(g, counts, "brier", noise=cs.FewVotes(delta)).fitted
    return float(fitted.fits[0].threshold(cs.calibration.levels.exact_level(alpha), g[:1])[0])


def test_the_threshold_is_the_bound_over_the_level() -> None:
    g, _, counts = draw(0.9, 500, 3, 5, np.random.default_rng(0))
    shares, m = counts / 5, 5
    u = (counts * (counts - 1) / (m * (m - 1)) - 2 * g * shares + g**2).sum(axis=1)
    mean = upper_mean(u, 2.0, 0.05)
    for alpha in (0.1, 0.2):
        assert threshold(g, counts, 0.05, alpha) == pytest.approx(mean / ((alpha - 0.05) / 0.95))


@pytest.mark.filterwarnings("ignore::credalset.CredalSetWarning")
@pytest.mark.parametrize("share", [0.9, 0.3])
@pytest.mark.parametrize(("n_classes", "votes"), [(2, 2), (10, 5)])
def test_the_truth_is_covered(n_classes: int, votes: int, share: float) -> None:
    found = []
    for seed in range(3):
        g, truth, counts = draw(share, 1000, n_classes, votes, np.random.default_rng(seed))
        calibration = cs.conformalize(g[:500], counts[:500], "brier", noise=cs.FewVotes())
        found.append(calibration.predict_set(g[500:], ALPHA).contains(truth[500:]).mean())
    assert np.mean(found) >= 1 - ALPHA - 3 * math.sqrt(ALPHA * (1 - ALPHA) * 2 / 1500)


def test_the_hardest_case_fails_no_more_often_than_delta() -> None:
    """Twelve crowds of a hundred are far: a threshold below their distance covers 0.88,
    and must be rare.
    """
    missed = sum(
        threshold(*barely(400, 0.12, np.random.default_rng(seed))[::2], 0.09) < 0.32
        for seed in range(60)
    )
    assert missed <= stats.binom.ppf(1 - 1e-3, 60, 0.09)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.11, 0.12, 0.15])
def test_the_guarantee_holds_over_many_calibrations(share: float) -> None:
    for delta in (0.01, 0.05):
        missed = sum(
            threshold(*barely(1000, share, np.random.default_rng(seed))[::2], delta) < 0.32
            for seed in range(400)
        )
        assert missed <= stats.binom.ppf(1 - 1e-3, 400, delta)


def test_sets_are_smaller_than_those_of_plain_calibration() -> None:
    g, _, counts = draw(0.9, 5000, 3, 5, np.random.default_rng(0))
    volume = {
        name: cs.conformalize(g, counts, "brier", noise=noise)
        .predict_set(g[:100], ALPHA)
        .volume()
        .mean()
        for name, noise in {
            "plain": None,
            "unbiased": cs.UnbiasedVotes(),
            "few": cs.FewVotes(),
        }.items()
    }
    assert volume["few"] < 0.6 * volume["plain"] < volume["unbiased"]


def test_votes_that_lean_toward_the_prediction_break_it() -> None:
    """Annotators who are shown the prediction, and many of whom agree with it,
    are not draws from λ.
    """
    g, truth, _ = barely(4000, 0.2, np.random.default_rng(0))
    counts = np.random.default_rng(1).multinomial(4, 0.7 * g + 0.3 * truth)
    assert threshold(g, counts, 0.05) < 0.32


def test_too_little_data_gives_everything() -> None:
    g, _, counts = draw(0.3, 12, 3, 2, np.random.default_rng(0))
    with pytest.warns(cs.CredalSetWarning, match="infinite"):
        assert cs.conformalize(g, counts, "brier", noise=cs.FewVotes()).threshold(ALPHA) == math.inf


def test_what_it_refuses() -> None:
    g, _, counts = draw(0.9, 50, 3, 5, np.random.default_rng(0))
    with pytest.raises(ValueError, match="'tv'"):
        cs.conformalize(g, counts, "tv", noise=cs.FewVotes())
    scaled = ScaledPrediction(
        g, np.full(50, 1e-3)
    )  # scores of up to 2 000, which nothing bounds in advance
    with pytest.raises(ValueError, match="'normalized'"):
        cs.conformalize(scaled, counts, Normalized(Brier(), scale="predicted"), noise=cs.FewVotes())
    with pytest.raises(ValueError, match="votes"):
        cs.conformalize(g, counts / 5, "brier", noise=cs.FewVotes())
    for options in ({"weights": np.ones(50)}, {"groups": cs.Conditional(g[:, :1])}):
        with pytest.raises(ValueError, match="not supported"):
            cs.conformalize(g, counts, "brier", noise=cs.FewVotes(), **options)
    with pytest.raises(ValueError, match="not supported"):
        cs.cross_conformalize(g, counts, np.arange(50) % 2, Brier(), noise=cs.FewVotes())
