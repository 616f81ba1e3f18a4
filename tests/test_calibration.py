from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import credalset as cs
from credalset.calibration import conformal_rank, pac_rank
from credalset.calibration.quantile import exact_level


def calibrated(scores: list[float] | np.ndarray) -> cs.Calibration:
    return cs.Calibration(cs.get_score("tv"), np.sort(np.asarray(scores, dtype=float)), n_classes=3)


@given(n=st.integers(1, 5000), numerator=st.integers(1, 999))
def test_rank_is_exact_for_every_decimal_level(n: int, numerator: int) -> None:
    exact = math.ceil((n + 1) * (1 - Fraction(numerator, 1000)))
    alpha = numerator / 1000
    assert conformal_rank(n, alpha) == exact
    assert conformal_rank(n, 1 - (1 - alpha)) == exact
    assert conformal_rank(n, np.float32(alpha)) == exact


def test_rank_where_floating_point_trips() -> None:
    assert conformal_rank(9, 0.1) == 9
    assert conformal_rank(9, 0.3) == 7, "(9 + 1) * (1 - 0.3) is 7.000000000000001 in floating point"


def test_threshold_is_the_ranked_score() -> None:
    calibration = calibrated(np.arange(1, 10) / 10)
    assert calibration.threshold(0.1) == 0.9
    assert calibration.threshold(0.5) == 0.5
    assert calibration.threshold(0.99) == 0.1


def test_too_little_data_gives_an_infinite_threshold_and_a_warning() -> None:
    calibration = calibrated(np.arange(1, 10) / 10)
    with pytest.warns(cs.CredalSetWarning, match=r"9 calibration items are too few for alpha=0.05.*0\.1"):
        assert calibration.threshold(0.05) == math.inf
    with pytest.warns(cs.CredalSetWarning):
        sets = calibration.predict_set([[0.2, 0.3, 0.5]], 0.05)
    assert sets.contains(np.eye(3), broadcast=True).all()


def test_infinite_scores_are_blamed_for_an_infinite_threshold() -> None:
    with pytest.warns(cs.CredalSetWarning, match="5 of 20 calibration scores are infinite"):
        assert calibrated([0.1] * 15 + [math.inf] * 5).threshold(0.1) == math.inf


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 1.5, math.nan, math.inf])
def test_alpha_out_of_range(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha must lie strictly between 0 and 1"):
        calibrated([0.1, 0.2]).threshold(alpha)


@pytest.mark.parametrize("alpha", ["0.1", None, True, [0.1]])
def test_alpha_of_the_wrong_type(alpha: object) -> None:
    with pytest.raises(TypeError, match="alpha must be a number"):
        calibrated([0.1, 0.2]).threshold(alpha)  # type: ignore[arg-type]


@given(n=st.integers(1, 60), numerator=st.integers(1, 99), seed=st.integers(0, 10**6))
def test_p_value_exceeds_alpha_exactly_on_members(n: int, numerator: int, seed: int) -> None:
    """With few votes scores tie, which is where strict inequalities go wrong."""
    rng = np.random.default_rng(seed)
    prediction = np.tile([0.5, 0.3, 0.2], (n, 1))
    calibration = cs.conformalize(prediction, rng.multinomial(3, [0.4, 0.4, 0.2], n))
    labels = rng.multinomial(3, [0.4, 0.4, 0.2], 20) / 3
    new = np.tile([0.5, 0.3, 0.2], (20, 1))
    alpha = numerator / 100
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.CredalSetWarning)
        inside = calibration.predict_set(new, alpha).contains(labels)
    assert np.array_equal(calibration.p_values(new, labels) > alpha + 1e-12, inside)


def test_coverage_distribution_is_the_beta_of_the_rank() -> None:
    coverage = calibrated(np.linspace(0, 1, 500)).coverage_distribution(0.1)
    beta = stats.beta(451, 50)
    assert coverage.mean() == pytest.approx(beta.mean())
    assert coverage.std() == pytest.approx(beta.std())
    assert coverage.interval(0.9) == pytest.approx(beta.interval(0.9))
    assert coverage.cdf(0.9) == pytest.approx(beta.cdf(0.9))
    assert coverage.ppf(0.25) == pytest.approx(beta.ppf(0.25))


def test_coverage_is_certain_when_the_threshold_is_infinite() -> None:
    coverage = calibrated([0.1, 0.2]).coverage_distribution(0.01)
    assert coverage.mean() == coverage.interval(0.9)[0] == coverage.ppf(0.5) == 1.0
    assert (coverage.cdf(0.999), coverage.cdf(1.0), coverage.std()) == (0.0, 1.0, 0.0)


@given(n=st.integers(5, 800), alpha=st.sampled_from([0.05, 0.1, 0.3]), delta=st.sampled_from([0.01, 0.1, 0.5]))
def test_pac_rank_is_the_smallest_that_works(n: int, alpha: float, delta: float) -> None:
    rank = pac_rank(n, alpha, delta)
    if rank <= n:
        assert stats.beta(rank, n + 1 - rank).cdf(1 - alpha) <= delta
    if rank > 1:
        assert stats.beta(rank - 1, n + 2 - rank).cdf(1 - alpha) > delta


def test_pac_threshold() -> None:
    calibration = calibrated(np.arange(1, 501) / 500)
    assert calibration.pac_threshold(0.1, 0.05) == pytest.approx(462 / 500)
    with pytest.warns(cs.CredalSetWarning, match="infinite"):
        assert calibrated([0.1, 0.2]).pac_threshold(0.1, 0.05) == math.inf
    with pytest.raises(ValueError, match="delta must lie"):
        calibration.pac_threshold(0.1, 0.0)


def test_labels_may_be_counts_distributions_or_annotations() -> None:
    rng = np.random.default_rng(0)
    prediction, counts = rng.dirichlet(np.ones(3), 30), rng.multinomial(7, [0.2, 0.3, 0.5], 30)
    from_counts = cs.conformalize(prediction, counts)
    from_distributions = cs.conformalize(prediction, counts / 7)
    from_annotations = cs.conformalize(prediction, cs.Annotations.from_counts(counts, classes=["a", "b", "c"]))
    assert from_counts.scores == pytest.approx(from_distributions.scores, abs=1e-15)
    assert np.array_equal(from_counts.scores, from_annotations.scores)
    assert from_annotations.classes == ("a", "b", "c")


def test_classes_are_matched_by_name() -> None:
    import pandas as pd

    rng = np.random.default_rng(0)
    prediction = pd.DataFrame(rng.dirichlet(np.ones(3), 30), columns=["a", "b", "c"])
    counts = rng.multinomial(7, [0.2, 0.3, 0.5], 30)
    calibration = cs.conformalize(prediction, counts)
    assert calibration.predict_set(prediction, 0.2).classes == ("a", "b", "c")
    expected = calibration.predict_set(prediction, 0.2)
    for swapped in (
        calibration.predict_set(prediction[["b", "a", "c"]], 0.2),
        calibration.predict_set(prediction[["b", "a", "c"]].to_numpy(), 0.2, classes=["b", "a", "c"]),
    ):
        assert swapped.center.tobytes() == expected.center.tobytes()
        assert swapped.classes == ("a", "b", "c")
    message = "name different classes .*: prediction has no 'a' and the calibration data has no 'x'"
    with pytest.raises(ValueError, match=message):
        calibration.predict_set(prediction.to_numpy(), 0.2, classes=["x", "b", "c"])
    votes = cs.Annotations.from_counts(counts, classes=["a", "b", "c"])
    for labels in (votes, votes.reorder(["b", "c", "a"]), pd.DataFrame(counts, columns=list("abc"))[["c", "a", "b"]]):
        assert np.array_equal(cs.conformalize(prediction, labels).scores, calibration.scores)
    with pytest.raises(ValueError, match="names 2 classes"):
        cs.conformalize(prediction.to_numpy(), counts, classes=["a", "b"])


def test_number_of_classes_is_checked() -> None:
    calibration = cs.conformalize(np.full((9, 3), 1 / 3), np.eye(3)[[0, 1, 2] * 3])
    with pytest.raises(ValueError, match=r"prediction has 2 classes .* but 3 are expected"):
        calibration.predict_set([[0.5, 0.5]], 0.2)
    with pytest.raises(ValueError, match=r"prediction has shape .* and labels has shape"):
        cs.conformalize(np.full((9, 3), 1 / 3), np.eye(3))
    with pytest.raises(ValueError, match="at least one item"):
        cs.conformalize(np.empty((0, 3)), np.empty((0, 3)))


def test_empty_half_spaces_are_announced() -> None:
    calibration = cs.conformalize(np.tile([0.98, 0.01, 0.01], (50, 1)), np.tile([1, 0, 0], (50, 1)), score="inner")
    with pytest.warns(cs.CredalSetWarning, match="1 of 2 credal sets are empty"):
        sets = calibration.predict_set([[0.4, 0.3, 0.3], [1.0, 0.0, 0.0]], 0.1)
    assert sets.is_empty().tolist() == [True, False]
    assert "1 empty" in repr(sets)


def test_frames_without_names_and_names_given_twice() -> None:
    import pandas as pd

    rng = np.random.default_rng(0)
    prediction, counts = rng.dirichlet(np.ones(3), 30), rng.multinomial(7, [0.2, 0.3, 0.5], 30)
    named = cs.conformalize(pd.DataFrame(prediction), pd.DataFrame(counts, columns=["a", "b", "c"]))
    assert named.classes == ("a", "b", "c")
    with pytest.raises(ValueError, match="classes names a class twice"):
        cs.conformalize(prediction, counts, classes=["a", "a", "b"])


# --- levels ---


@pytest.mark.parametrize(
    ("level", "meant"),
    [
        (0.3, "3/10"),
        (1 - 0.7, "3/10"),
        (1 - 0.9, "1/10"),
        (1 - 0.9999, "1/10000"),
        (0.1 + 0.2, "3/10"),
        (1 / 3, "1/3"),
        (6e-10, "6/10000000000"),
        (np.float32(0.3), "3/10"),
        (np.float32(1) - np.float32(0.9), "1/10"),
        (np.float32(6e-6), "6/1000000"),
        (np.float16(0.3), "3/10"),
        (np.float16(0.006), "6/1000"),
        (np.float16(0.0006), "6/10000"),
        (Fraction(3, 7), "3/7"),
        (0.12345678901234, str(Fraction(0.12345678901234))),  # meant as nothing but itself
    ],
    ids=repr,
)
def test_levels_are_what_was_meant(level: float, meant: str) -> None:
    assert exact_level(level) == Fraction(meant)


@given(
    mantissa=st.floats(0.1, 1.0, exclude_max=True),
    size=st.integers(0, 12),
    kind=st.sampled_from([np.float16, np.float32, np.float64]),
    nudge=st.integers(-40, 40),
)
def test_no_level_moves_by_more_than_its_precision(mantissa: float, size: int, kind: Any, nudge: int) -> None:
    level = kind(round(mantissa, 2) * 10.0**-size)  # near a short decimal, where rounding tempts
    for _ in range(abs(nudge)):
        level = np.nextafter(level, kind(nudge))
    if not np.finfo(kind).tiny < level < 1:
        return
    moved = abs(exact_level(level) - Fraction(float(level)))
    confidence = kind(1) - level
    is_difference = kind(1) - confidence == level
    precision = max(np.spacing(level), np.spacing(confidence)) if is_difference else np.spacing(level)
    assert moved <= 2 * Fraction(float(precision))


@given(digits=st.integers(1, 9), numerator=st.integers(1, 10**9 - 1))
def test_short_decimals_and_their_complements_are_exact(digits: int, numerator: int) -> None:
    meant = Fraction(numerator % 10**digits, 10**digits)
    if 0 < meant < 1:
        assert exact_level(float(meant)) == meant
        assert exact_level(1 - float(1 - meant)) == meant
        assert exact_level(1 - (1 - float(meant))) == meant
        if digits <= 4:
            assert exact_level(np.float32(float(meant))) == meant
