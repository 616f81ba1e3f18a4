"""The verdict: bands by simulation and by SciPy, both of its parts,
and items that were used before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset._batch import read_votes
from credalset._display import proportion
from credalset.evaluation.tested import TestedItems, items_used, read_tested
from credalset.evaluation.verdict import ConstantPrediction, Verdict, percent


def uniform_calibration(n: int, groups: list[str] | None = None, seed: int = 0) -> cs.Calibration:
    """A calibration whose scores are uniform numbers: total variation between
    (1, 0) and (1 − u, u) is u.
    """
    u = np.random.default_rng(seed).random(n)
    return cs.conformalize(
        np.tile([1.0, 0.0], (n, 1)), np.column_stack([1 - u, u]), "tv", groups=groups
    )


def hits(n: int, share: float) -> np.ndarray:
    return np.arange(n) < round(n * share)


def items_of(calibration: Any, n: int, groups: list[str] | None = None) -> TestedItems:
    """Items that a calibration is tested on; their predictions and votes do not matter here."""
    k = calibration.n_classes
    flat = np.full((n, k), 1.0 / k)
    is_crossed = isinstance(calibration, cs.CrossCalibration)
    predictions = [flat] * calibration.n_folds if is_crossed else flat
    weights = np.ones(n) if calibration.fitted.weighted else None
    return read_tested(calibration, predictions, flat, groups, weights)


def coverage_band(
    calibration: Any, alpha: float, n: int, groups: list[str] | None = None
) -> tuple[float, float] | None:
    items = items_of(calibration, n, groups)
    return items.band(alpha, items.rows)


def judge(calibration: Any, covered: np.ndarray, alpha: float) -> Verdict:
    items = items_of(calibration, len(covered))
    return items.judge(covered, alpha, items.rows)


# --- the band ---


@pytest.mark.parametrize(("n", "m", "alpha"), [(500, 500, 0.1), (99, 40, 0.25), (1000, 2000, 0.05)])
def test_the_band_is_the_central_part_of_a_beta_binomial(n: int, m: int, alpha: float) -> None:
    rank = int(np.ceil((n + 1) * (1 - alpha) - 1e-9))
    law = betabinom(m, rank, n + 1 - rank)
    low, high = coverage_band(uniform_calibration(n), alpha, m)
    assert law.cdf(round(low * m) - 1) <= 0.005 < law.cdf(round(low * m))
    assert law.sf(round(high * m)) <= 0.005 < law.sf(round(high * m) - 1)


def test_the_band_holds_what_happens() -> None:
    """Calibrate and test again and again: the share of runs inside the band is at least its level,
    and not all.
    """
    rng, runs = np.random.default_rng(0), 2000
    low, high = coverage_band(uniform_calibration(60), 0.2, 50)
    inside = 0
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


def test_where_the_band_is_certain_or_unknown() -> None:
    assert coverage_band(uniform_calibration(5), 0.1, 50) == (1.0, 1.0)
    assert coverage_band(uniform_calibration(50), 0.1, 0) is None
    data = cs.datasets.make_synthetic(120, n_votes=20, random_state=0)
    noisy = cs.conformalize(data.distributions, data.counts, "tv", noise=cs.UnbiasedVotes())
    weighted = cs.conformalize(data.distributions, data.counts, "tv", weights=np.ones(120))
    crossed = cs.cross_conformalize(data.distributions, data.counts, np.arange(120) % 4, score="tv")
    assert [coverage_band(c, 0.1, 50) for c in (noisy, weighted, crossed)] == [None] * 3


# --- valid ---


@pytest.mark.parametrize(
    ("share", "n", "status", "valid"),
    [
        (0.90, 500, "valid", True),
        (0.80, 500, "undercovers", False),
        (0.99, 500, "overcovers", True),
        (1.00, 3, "not tested", None),
        (0.00, 40, "undercovers", False),
        (1.00, 0, "not tested", None),
    ],
)
def test_statuses_with_a_band(share: float, n: int, status: str, valid: bool | None) -> None:
    verdict = judge(uniform_calibration(500), hits(n, share), 0.1)
    assert (verdict.status, verdict.valid, verdict.passed) == (
        status,
        valid,
        status != "undercovers",
    )
    first = verdict.sentence.split(". ")[1 if status == "not tested" and n else 0]
    assert verdict.sentence.startswith(verdict.headline)
    assert n == 0 or (percent(share) in first and f"of {n} items" in first)
    assert verdict.valid is None or percent(verdict.band[0]) in first


@pytest.mark.parametrize(("n_calibration", "n_tested"), [(500, 40), (15, 500)])
def test_too_few_items_test_nothing(n_calibration: int, n_tested: int) -> None:
    verdict = judge(uniform_calibration(n_calibration), hits(n_tested, 0.8), 0.2)
    assert verdict.status == "not tested"
    assert "too few test or calibration items for alpha = 0.2" in verdict.sentence


@pytest.mark.parametrize(
    ("share", "n", "status"),
    [(0.9, 300, "valid"), (0.6, 300, "undercovers"), (1.0, 8, "not tested")],
)
def test_statuses_without_a_band(share: float, n: int, status: str) -> None:
    """The interval of a cross-conformal calibration is compared with its bound below
    and with 1 − α above.
    """
    data = cs.datasets.make_synthetic(120, n_votes=20, random_state=0)
    crossed = cs.cross_conformalize(data.distributions, data.counts, np.arange(120) % 4, score="tv")
    verdict = judge(crossed, hits(n, share), 0.1)
    assert verdict.band is None
    assert verdict.guaranteed == crossed.guaranteed_coverage(0.1) < 0.9
    assert verdict.status == status
    assert judge(crossed, hits(3000, 0.99), 0.1).status == "overcovers"


def test_votes_cannot_test_a_guarantee_about_true_distributions() -> None:
    data = cs.datasets.make_synthetic(300, n_votes=20, random_state=0)
    calibration = cs.conformalize(data.distributions, data.counts, "tv", noise=cs.UnbiasedVotes())
    verdict = judge(calibration, hits(200, 0.97), 0.1)
    assert verdict.status == "not tested"
    assert "true" in verdict.untested
    flat = np.full((100, 2), 0.5)
    items = TestedItems.of_sets(cs.get_score("tv").region(flat, 0.1), read_votes(flat))
    assert items.judge(hits(100, 0.9), None, items.rows).status == "not tested"


# --- informative ---


def verdict(**sizes: Any) -> Verdict:
    known = {"width": 0.4, "constant_width": 1.0, "labels": 1.5, "n_classes": 4}
    return Verdict(proportion(90, 100), 0.1, 0.9, (0.85, 0.95), **known | sizes)


@pytest.mark.parametrize(
    ("sizes", "informative"),
    [
        ({}, True),
        ({"labels": 3.9}, False),
        ({"labels": 3.5}, True),
        ({"labels": 1.95, "n_classes": 2}, False),
        ({"width": 0.97}, False),
        ({"width": 0.97, "constant_width": None}, True),
    ],
)
def test_sets_that_say_nothing_are_headed_so(sizes: dict[str, Any], informative: bool) -> None:
    found = verdict(**sizes)
    assert (found.valid, found.informative) == (True, informative)
    assert ("but" in found.headline) is not informative
    assert ("too-large" in found.sentence) is not informative


def test_sizes_that_were_not_measured() -> None:
    assert judge(uniform_calibration(500), hits(500, 0.9), 0.1).informative is None


def test_the_constant_prediction_is_the_mean_of_the_labels() -> None:
    y = np.random.default_rng(0).dirichlet([4.0, 3.0, 2.0], 400)
    scores = np.sort(0.5 * np.abs(y - y.mean(axis=0)).sum(axis=1))
    sets = cs.get_score("tv").region(y.mean(axis=0, keepdims=True), scores[360])
    assert ConstantPrediction.of(cs.get_score("tv"), y).width(0.1) == pytest.approx(
        sets.width()[0], abs=1e-9
    )
    second = ConstantPrediction.of(cs.get_score("so"), y).width(0.1)
    exact = cs.get_score("so").region(
        [[4.0, 3.0, 2.0]], cs.get_score("so")(np.tile([4.0, 3.0, 2.0], (400, 1)), y).max()
    )
    assert 0 < second <= exact.width()[0]
    assert ConstantPrediction.of(cs.get_score("tv"), y[:0]) is None
    # Scales come with the predictions: there is no constant prediction.
    assert ConstantPrediction.of(cs.scores.Normalized("tv", scale="predicted"), y) is None


# --- items that were used before ---


@pytest.fixture
def named() -> tuple[pd.DataFrame, pd.DataFrame]:
    data = cs.datasets.make_synthetic(400, n_votes=20, random_state=0)
    names = [f"m{i}" for i in range(400)]
    return pd.DataFrame(data.distributions, names), pd.DataFrame(data.counts, names)


def test_items_of_the_calibration_are_known_by_name(
    named: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    """They used to get the verdict "kept"."""
    prediction, votes = named
    calibration = cs.conformalize(prediction[:200], votes[:200], "tv")
    assert "calibration (200 of 200)" in items_used(calibration, prediction.index[:200])
    assert items_used(calibration, prediction.index[200:]) == items_used(calibration, None) == ""
    for rows, tested in ((slice(200), False), (slice(199, 300), False), (slice(200, 400), True)):
        (found,) = cs.evaluate(calibration, prediction[rows], votes[rows], 0.1).verdicts
        assert (found.status != "not tested") is tested
        assert found.passed is tested
        assert ("used for calibration" in found.headline) is not tested


def test_items_of_the_training_set_are_known_by_name(
    named: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    X, votes = named
    clf = cs.ConformalCredalClassifier(LogisticRegression(), "tv").fit(X[:100], votes[:100])
    clf.conformalize(X[100:200], votes[100:200])
    (found,) = clf.evaluate(X[:200], votes[:200], 0.1).verdicts
    assert (found.status, found.passed) == ("not tested", False)
    assert "training and calibration" in found.headline
    assert clf.evaluate(X[200:], votes[200:], 0.1).passed


def test_percentages_never_round_to_all_or_nothing() -> None:
    shares = {
        0.9: "90%",
        0.896: "89.6%",
        1.0: "100%",
        0.9999: "99.9%",
        0.0: "0%",
        1e-6: "0.1%",
        np.nan: "unknown",
    }
    assert [percent(x) for x in shares] == list(shares.values())
