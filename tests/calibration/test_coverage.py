"""Coverage, statistically: the mean over fresh calibration and test draws must meet the
exact conformal rank.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from credalset.calibration.levels import conformal_rank, score_at_rank
from credalset.scores import Score
from tests.conftest import SCORES

ALPHAS = (0.05, 0.1, 0.2, 0.3)


def draw(
    score: Score, n: int, n_classes: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Exchangeable pairs of prediction and label distribution, from a mediocre model."""
    labels = rng.dirichlet(np.full(n_classes, 0.8), n)
    if score.order == "first":
        return 0.6 * labels + 0.4 * rng.dirichlet(np.ones(n_classes), n), labels
    return 1.0 + rng.gamma(3.0, 3.0, (n, 1)) * (0.7 * labels + 0.3 / n_classes), labels


def observed_coverage(
    score: Score,
    n_classes: int,
    repetitions: int,
    n_calib: int,
    n_test: int,
    quantile: object = None,
) -> np.ndarray:
    """Coverage on each repetition and level, (repetitions, len(ALPHAS))."""
    rng = np.random.default_rng(20240521)
    result = np.empty((repetitions, len(ALPHAS)))
    for r in range(repetitions):
        prediction, labels = draw(score, n_calib + n_test, n_classes, rng)
        scores = score(prediction[:n_calib], labels[:n_calib])
        for j, alpha in enumerate(ALPHAS):
            threshold = score_at_rank(np.sort(scores), conformal_rank(n_calib, alpha))
            region = score.region(prediction[n_calib:], threshold)
            result[r, j] = region.contains(labels[n_calib:]).mean()
    return result


def band(
    rank: int, n_calib: int, n_test: int, repetitions: int, z: float = 3.9
) -> tuple[float, float]:
    """Where the mean of ``repetitions`` coverages lies (each is beta-binomial),
    up to one chance in 10 000.
    """
    single = stats.betabinom(n_test, rank, n_calib + 1 - rank)
    half = z * single.std() / n_test / math.sqrt(repetitions)
    center = rank / (n_calib + 1)
    return center - half, center + half


def check(score: Score, n_classes: int, repetitions: int, n_calib: int, n_test: int) -> None:
    means = observed_coverage(score, n_classes, repetitions, n_calib, n_test).mean(axis=0)
    for alpha, mean in zip(ALPHAS, means, strict=True):
        low, high = band(conformal_rank(n_calib, alpha), n_calib, n_test, repetitions)
        assert low <= mean <= high, (
            f"alpha={alpha}: coverage {mean:.4f} outside [{low:.4f}, {high:.4f}]"
        )


@pytest.mark.parametrize("n_classes", [3, 10])
def test_coverage_short(score: Score, n_classes: int) -> None:
    check(score, n_classes, repetitions=40, n_calib=99, n_test=200)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [3, 10])
def test_coverage_long(score: Score, n_classes: int) -> None:
    check(score, n_classes, repetitions=200, n_calib=500, n_test=1000)


def test_a_quantile_without_the_extra_one_fails_the_band() -> None:
    """⌈n(1 − α)⌉ in place of ⌈(n + 1)(1 − α)⌉ under-covers, and the band above must see it."""
    score, n_calib, n_test, repetitions = SCORES["tv"], 19, 2000, 200
    rng = np.random.default_rng(0)
    right, wrong = [], []
    for _ in range(repetitions):
        prediction, labels = draw(score, n_calib + n_test, 3, rng)
        scores = np.sort(score(prediction[:n_calib], labels[:n_calib]))
        for ranks, rank in [
            (right, conformal_rank(n_calib, 0.1)),
            (wrong, math.floor(n_calib * 0.9)),
        ]:
            region = score.region(prediction[n_calib:], score_at_rank(scores, rank))
            ranks.append(region.contains(labels[n_calib:]).mean())
    low, high = band(conformal_rank(n_calib, 0.1), n_calib, n_test, repetitions)
    assert low <= np.mean(right) <= high
    assert not low <= np.mean(wrong) <= high


def test_strict_sets_lose_their_coverage_when_scores_tie() -> None:
    """A constant model and few votes: scores take a handful of values. Closed sets cover,
    open ones do not.
    """
    score, rng = SCORES["tv"], np.random.default_rng(1)
    prediction = np.tile([0.5, 0.3, 0.2], (3000, 1))
    labels = rng.multinomial(1, [0.5, 0.3, 0.2], 3000) / 1.0
    scores = np.sort(score(prediction[:1000], labels[:1000]))
    threshold = score_at_rank(scores, conformal_rank(1000, 0.1))
    closed = score.region(prediction[1000:], threshold).contains(labels[1000:]).mean()
    opened = (score(prediction[1000:], labels[1000:]) < threshold).mean()
    low = band(conformal_rank(1000, 0.1), 1000, 2000, 1)[0]
    assert closed >= low
    assert opened < low
