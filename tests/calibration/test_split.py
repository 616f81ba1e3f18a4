"""Split calibration: thresholds, p-values, names, and what is warned of or refused."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import credalset as cs


def calibrated(scores: Any) -> cs.Calibration:
    """A calibration with these total-variation scores: predictions (1, 0),
    labels at these distances.
    """
    labels = np.column_stack([1 - np.asarray(scores), scores])
    return cs.conformalize(np.tile([1.0, 0.0], (len(labels), 1)), labels, "tv")


def test_threshold_is_the_ranked_score() -> None:
    calibration = calibrated(np.arange(1, 10) / 10)
    assert [calibration.threshold(alpha) for alpha in (0.1, 0.5)] == pytest.approx([0.9, 0.5])
    with pytest.warns(cs.CredalSetWarning, match="alpha=0.99 is a miscoverage rate"):
        assert calibration.threshold(0.99) == pytest.approx(0.1)
    assert (np.diff(calibration.scores) >= 0).all()
    assert len(calibration) == 9
    coverage = calibration.coverage_distribution(0.1)
    assert (coverage.rank, coverage.n) == (9, 9)


def test_too_little_data_gives_an_infinite_threshold_and_a_warning() -> None:
    calibration = calibrated(np.arange(1, 10) / 10)
    with pytest.warns(cs.CredalSetWarning, match=r"9 calibration items .*0\.1"):
        assert calibration.threshold(0.05) == math.inf
    with pytest.warns(cs.CredalSetWarning):
        sets = calibration.predict_set([[0.2, 0.8]], 0.05)
    assert sets.contains(np.eye(2), broadcast=True).all()


def test_infinite_scores_are_blamed_for_an_infinite_threshold() -> None:
    g, labels = np.tile([1.0, 0.0], (20, 1)), np.eye(2)[[0] * 15 + [1] * 5]
    with pytest.warns(cs.CredalSetWarning, match="5 calibration items"):
        assert cs.conformalize(g, labels, "kl").threshold(0.1) == math.inf


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 1.5, math.nan, math.inf])
def test_alpha_out_of_range(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        calibrated([0.1, 0.2]).threshold(alpha)


@pytest.mark.parametrize("alpha", ["0.1", None, True, [0.1]])
def test_alpha_of_the_wrong_type(alpha: object) -> None:
    with pytest.raises(TypeError, match="alpha"):
        calibrated([0.1, 0.2]).threshold(alpha)  # type: ignore[arg-type]


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
        options["groups"], asked["groups"] = np.arange(n) % 2, np.arange(20) % 2
    calibration = cs.conformalize(
        np.tile([0.5, 0.3, 0.2], (n, 1)), rng.multinomial(3, [0.4, 0.4, 0.2], n), "tv", **options
    )
    labels, new = rng.multinomial(3, [0.4, 0.4, 0.2], 20) / 3, np.tile([0.5, 0.3, 0.2], (20, 1))
    alpha = numerator / 100
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.CredalSetWarning)
        inside = calibration.predict_set(new, alpha, **asked).contains(labels)
    assert np.array_equal(calibration.p_values(new, labels, **asked) > alpha + 1e-9, inside)


def test_pac_threshold() -> None:
    calibration = calibrated(np.arange(1, 501) / 500)
    assert calibration.pac_threshold(0.1, 0.05) == pytest.approx(462 / 500)
    with pytest.warns(cs.CredalSetWarning, match="infinite"):
        assert calibrated([0.1, 0.2]).pac_threshold(0.1, 0.05) == math.inf
    with pytest.raises(ValueError, match="delta"):
        calibration.pac_threshold(0.1, 0.0)


def test_labels_may_be_counts_distributions_or_annotations() -> None:
    rng = np.random.default_rng(0)
    prediction, counts = rng.dirichlet(np.ones(3), 30), rng.multinomial(7, [0.2, 0.3, 0.5], 30)
    from_counts = cs.conformalize(prediction, counts)
    from_annotations = cs.conformalize(
        prediction,
        cs.Annotations.from_counts(counts, classes=["a", "b", "c"]),
        classes=["a", "b", "c"],
    )
    assert from_counts.score.name == "kl"
    assert from_counts.scores == pytest.approx(
        cs.conformalize(prediction, counts / 7).scores, abs=1e-15
    )
    assert np.array_equal(from_counts.scores, from_annotations.scores)
    assert from_annotations.classes == ("a", "b", "c")


def test_classes_and_items_are_matched_by_name() -> None:
    rng = np.random.default_rng(0)
    names = [f"t{i}" for i in range(30)]
    prediction = pd.DataFrame(rng.dirichlet(np.ones(3), 30), columns=["a", "b", "c"], index=names)
    counts = pd.DataFrame(
        rng.multinomial(7, [0.2, 0.3, 0.5], 30), columns=["a", "b", "c"], index=names
    )
    calibration = cs.conformalize(prediction, counts)
    assert (calibration.classes, calibration.items) == (("a", "b", "c"), tuple(names))
    shuffled = counts.iloc[::-1][["c", "a", "b"]]
    assert np.array_equal(cs.conformalize(prediction, shuffled).scores, calibration.scores)
    expected = calibration.predict_set(prediction, 0.2)
    swapped = ["b", "a", "c"]
    sets = calibration.predict_set(prediction[swapped], 0.2)
    assert np.array_equal(sets.lower(), expected.lower())
    assert sets.classes == ("a", "b", "c")
    with pytest.raises(ValueError, match="'x'"):
        calibration.predict_set(prediction.set_axis(["x", "b", "c"], axis=1), 0.2)
    with pytest.raises(ValueError, match="2 classes"):
        cs.conformalize(prediction.to_numpy(), counts.to_numpy(), classes=["a", "b"])


def test_groups_and_weights_are_matched_by_item_name() -> None:
    rng = np.random.default_rng(1)
    names = [f"t{i}" for i in range(60)]
    prediction = pd.DataFrame(rng.dirichlet(np.ones(3), 60), index=names)
    counts = rng.multinomial(7, [0.2, 0.3, 0.5], 60)
    groups, weights = (
        pd.Series(np.arange(60) % 2, index=names),
        pd.Series(rng.random(60), index=names),
    )
    plain = cs.conformalize(prediction, counts, groups=groups, weights=weights)
    other = cs.conformalize(
        prediction, counts, groups=groups[::-1], weights=weights.sample(frac=1, random_state=0)
    )
    asked = {"groups": groups[::-1], "weights": weights[::-1]}
    expected = plain.thresholds(prediction[:9], 0.2, groups=groups[:9], weights=weights[:9])
    assert np.array_equal(other.thresholds(prediction[:9], 0.2, **asked), expected)


def test_shapes_are_checked() -> None:
    calibration = cs.conformalize(np.full((9, 3), 1 / 3), np.eye(3)[[0, 1, 2] * 3])
    with pytest.raises(ValueError, match="predictions has 2 classes"):
        calibration.predict_set([[0.5, 0.5]], 0.2)
    with pytest.raises(ValueError, match="votes must have one row for each item"):
        cs.conformalize(np.full((9, 3), 1 / 3), np.eye(3))
    with pytest.raises(ValueError, match="at least one item"):
        cs.conformalize(np.empty((0, 3)), np.empty((0, 3)))
    with pytest.raises(TypeError, match="prediction"):
        cs.conformalize(cs.SoftLabelClassifier(), np.eye(3))


def test_empty_half_spaces_are_announced() -> None:
    calibration = cs.conformalize(
        np.tile([0.98, 0.01, 0.01], (50, 1)), np.tile([1, 0, 0], (50, 1)), score="inner"
    )
    with pytest.warns(cs.CredalSetWarning, match="1 of 2 credal sets are empty"):
        sets = calibration.predict_set([[0.4, 0.3, 0.3], [1.0, 0.0, 0.0]], 0.1)
    assert sets.is_empty().tolist() == [True, False]


def test_scores_are_not_capped() -> None:
    """Sharp second-order predictions that are all far off still rank,
    so that their threshold is not the largest.
    """
    rng = np.random.default_rng(3)
    labels = rng.dirichlet(np.full(3, 20.0), 500)
    sharp = 1.0 + 400.0 * rng.dirichlet(np.full(3, 20.0), 500)
    calibration = cs.conformalize(sharp, labels, "so")
    assert len(np.unique(calibration.scores)) == 500
    assert (
        calibration.predict_set(sharp[:20], 0.1).contains(np.eye(3), broadcast=True).sum(axis=1) < 3
    ).all()
