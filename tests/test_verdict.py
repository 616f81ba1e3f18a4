"""Promise against observation: bands by simulation and by SciPy, statuses, and sentences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import betabinom

import credalset as cs
from credalset.verdict import coverage_band, judge, percent, promise_of


def uniform_calibration(n: int, groups: list[str] | None = None, seed: int = 0) -> cs.Calibration:
    """A calibration whose scores are uniform numbers: total variation between (1, 0) and (1 − u, u) is u."""
    u = np.random.default_rng(seed).random(n)
    return cs.conformalize(np.tile([1.0, 0.0], (n, 1)), np.column_stack([1 - u, u]), "tv", groups=groups)


@pytest.mark.parametrize(("n", "m", "alpha"), [(500, 500, 0.1), (99, 40, 0.25), (1000, 2000, 0.05)])
def test_the_band_is_the_central_part_of_a_beta_binomial(n: int, m: int, alpha: float) -> None:
    rank = int(np.ceil((n + 1) * (1 - alpha) - 1e-9))
    law = betabinom(m, rank, n + 1 - rank)
    low, high = coverage_band(uniform_calibration(n), alpha, m)
    assert law.cdf(round(low * m) - 1) <= 0.005 < law.cdf(round(low * m))
    assert law.sf(round(high * m)) <= 0.005 < law.sf(round(high * m) - 1)


def test_the_band_holds_what_happens() -> None:
    """Calibrate and test again and again: the share of runs inside the band is at least its level, and not all."""
    rng, inside, runs = np.random.default_rng(0), 0, 2000
    low, high = coverage_band(uniform_calibration(60), 0.2, 50)
    for _ in range(runs):
        threshold = np.sort(rng.random(60))[49 - 1]
        inside += low - 1e-9 <= (rng.random(50) <= threshold).mean() <= high + 1e-9
    assert 0.99 - 3 * np.sqrt(0.01 * 0.99 / runs) <= inside / runs < 0.999


def test_groups_are_summed() -> None:
    calibration = uniform_calibration(300, ["a"] * 200 + ["b"] * 100)
    band = coverage_band(calibration, 0.1, 90, groups=["a"] * 60 + ["b"] * 30)
    laws = []
    for n, m in ((200, 60), (100, 30)):
        rank = int(np.ceil((n + 1) * 0.9 - 1e-9))
        laws.append(betabinom(m, rank, n + 1 - rank).pmf(np.arange(m + 1)))
    below = np.cumsum(np.convolve(*laws))
    low, high = round(band[0] * 90), round(band[1] * 90)
    assert below[low - 1] <= 0.005 < below[low]
    assert below[high - 1] < 0.995 <= below[high]


def test_too_few_calibration_items_cover_everything() -> None:
    assert coverage_band(uniform_calibration(5), 0.1, 50) == (1.0, 1.0)


def test_no_band_is_known_for_noise_weights_and_cross_calibration() -> None:
    data = cs.datasets.make_synthetic(120, n_votes=20, random_state=0)
    g, counts = data.distributions, data.counts
    noisy = cs.conformalize(g, counts, "tv", noise=cs.UnbiasedVotes())
    weighted = cs.conformalize(g, counts, "tv", weights=np.ones(120))
    crossed = cs.cross_conformalize(g, counts, np.arange(120) % 4, score="tv")
    assert [coverage_band(c, 0.1, 50) for c in (noisy, weighted, crossed)] == [None] * 3
    assert coverage_band(uniform_calibration(50), 0.1, 0) is None


def hits(n: int, share: float) -> np.ndarray:
    return np.arange(n) < round(n * share)


@pytest.mark.parametrize(
    ("share", "n", "status", "words"),
    [
        (0.90, 500, "kept", "within the"),
        (0.80, 500, "short", "below the"),
        (0.99, 500, "generous", "above the"),
        (1.00, 3, "too few", "on 3 items, within the"),
        (1.00, 1, "too few", "on 1 item,"),
        (0.00, 40, "short", "and 0% is observed"),
    ],
)
def test_statuses_with_a_band(share: float, n: int, status: str, words: str) -> None:
    verdict = judge(uniform_calibration(500), hits(n, share), 0.1)
    assert verdict.status == status
    assert words in verdict.sentence
    assert verdict.sentence.startswith(verdict.headline + ": ")


def test_without_votes_without_promise() -> None:
    calibration = uniform_calibration(100)
    assert judge(calibration, np.zeros(0, dtype=bool), 0.1).status == "unchecked"
    assert judge(None, hits(100, 0.9), None).status == "no promise"
    assert "90% of 100 recorded label distributions lie in their sets" in judge(None, hits(100, 0.9), None).sentence
    assert "there are no votes" in judge(None, hits(0, 0.9), None).sentence


def test_noise_models_promise_what_votes_do_not_show() -> None:
    data = cs.datasets.make_synthetic(300, n_votes=20, random_state=0)
    calibration = cs.conformalize(data.distributions, data.counts, "tv", noise=cs.UnbiasedVotes())
    verdict = judge(calibration, hits(200, 0.97), 0.1)
    assert verdict.status == "unseen"
    assert "true label distributions" in verdict.sentence
    assert verdict.promise is not None
    assert any("Votes are fair" in words for words in verdict.promise.assumptions)
    assert judge(calibration, hits(200, 0.92), 0.1, of_truth=True).status == "kept"
    assert judge(calibration, hits(200, 0.6), 0.1, of_truth=True).status == "short"
    assert judge(calibration, hits(200, 1.0), 0.1, of_truth=True).status == "generous"
    assert judge(calibration, hits(5, 1.0), 0.1, of_truth=True).status == "too few"
    with pytest.raises(ValueError, match="of_truth=True needs a calibration"):
        judge(uniform_calibration(100), hits(200, 0.92), 0.1, of_truth=True)


def test_promises_name_what_they_rest_on() -> None:
    data = cs.datasets.make_synthetic(120, n_votes=20, random_state=0)
    g, counts = data.distributions, data.counts
    plain = promise_of(cs.conformalize(g, counts), 0.1)
    assert (plain.coverage, plain.about, plain.n, len(plain.assumptions)) == (0.9, "recorded", 120, 1)
    for noise in (cs.AnnotatorSampling(0.05), cs.BoundedNoise(0.1, 0.02), cs.UnbiasedVotes()):
        promise = promise_of(cs.conformalize(g, counts, "tv", noise=noise), 0.1)
        assert promise.about == "true"
        assert repr(noise) in promise.assumptions[1]
    few = promise_of(cs.conformalize(g, counts, "brier", noise=cs.FewVotes(method="moments")), 0.1)
    assert few.assumptions[0].startswith("New items are drawn independently, as the calibration items were")
    assert few.assumptions[1].startswith("Votes are independent draws")
    shifted = promise_of(cs.conformalize(g, counts, weights=np.ones(120)), 0.1)
    assert "but for a known shift of their features" in shifted.assumptions[0]
    grouped = promise_of(cs.conformalize(g, counts, groups="predicted"), 0.1)
    assert "within each group" in grouped.assumptions[-1]
    crossed = cs.cross_conformalize(g, counts, np.arange(120) % 4, score="tv")
    promise = promise_of(crossed, 0.1)
    assert (promise.coverage, promise.typical) == (crossed.guaranteed_coverage(0.1), 0.9)


def test_percentages_never_round_to_all_or_nothing() -> None:
    assert [percent(x) for x in (0.9, 0.896, 1.0, 0.9999, 0.0, 1e-6, np.nan)] == [
        "90%",
        "89.6%",
        "100%",
        "99.9%",
        "0%",
        "0.1%",
        "unknown",
    ]
