"""Bad input of every kind gets a sentence that names the argument, what was seen and what to do."""

from __future__ import annotations

import numpy as np
import pytest

import credalset as cs
from credalset import _validation as v
from credalset.scores import KullbackLeibler, Normalized, RelativeLikelihood, TotalVariation, Wasserstein

GOOD = np.full((4, 3), 1 / 3)


@pytest.mark.parametrize(
    ("prediction", "error", "message"),
    [
        ([0.2, 0.8], ValueError, r"prediction must have shape \(n_items, n_classes\), but has shape \(2,\)"),
        ([[1.0], [1.0]], ValueError, "prediction must have at least 2 classes"),
        ([[0.5, np.nan, 0.5]] * 4, ValueError, r"prediction contains NaN or infinity in 4 rows \(first: 0, 1, 2\)"),
        ([[0.7, 0.7, -0.4]] * 4, ValueError, r"prediction contains negative values .*smallest -0.4"),
        ([[0.5, 0.2, 0.2]] * 4, ValueError, r"do not sum to one \(row 0 sums to 0.9\)"),
        ([["a", "b", "c"]] * 4, TypeError, "prediction must hold numbers"),
        ([[2.0, -1.0, 3.0]] * 4, ValueError, "prediction contains negative"),
    ],
)
def test_bad_predictions(prediction: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cs.conformalize(prediction, GOOD)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[1, -2, 3]] * 4, "labels contains negative values"),
        ([[0, 0, 0]] * 4, "labels has no annotation at all in 4 rows"),
        ([[3.5, 1.0, 0.5]] * 4, "are neither"),
        ([[1.0, np.inf, 0.0]] * 4, "labels contains NaN or infinity"),
        (np.full((4, 2), 0.5), "prediction has shape"),
    ],
)
def test_bad_labels(labels: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cs.conformalize(GOOD, labels)


def test_counts_and_distributions_are_told_apart() -> None:
    assert v.as_label_distributions([[3, 1], [0, 4]], "Y").tolist() == [[0.75, 0.25], [0.0, 1.0]]
    assert v.as_label_distributions([[1, 0], [2, 2]], "Y").tolist() == [[1.0, 0.0], [0.5, 0.5]]
    assert v.as_label_distributions([[1, 0], [0, 1]], "Y").tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert v.as_label_distributions([[0.5, 0.5]], "Y").tolist() == [[0.5, 0.5]]


def test_single_precision_softmax_is_accepted_and_normalised_once() -> None:
    logits = np.random.default_rng(0).normal(size=(1000, 50)).astype(np.float32)
    soft = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    checked = v.as_distributions(soft, "p")
    assert np.abs(checked.sum(axis=1) - 1).max() < 1e-14
    assert np.array_equal(v.as_distributions(checked, "p"), checked), "validating twice must change nothing"


def test_exact_rows_are_left_alone() -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(7), 100)
    assert np.array_equal(v.as_distributions(rows, "p"), rows)


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("euclid", "score 'euclid' is unknown. Known names: density, hellinger, inner, kl"),
        (TotalVariation, "write TotalVariation()"),
    ],
)
def test_bad_score_names(score: object, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        cs.conformalize(GOOD, GOOD, score=score)  # type: ignore[arg-type]


def test_bad_score_parameters() -> None:
    with pytest.raises(ValueError, match="base must be above 1"):
        KullbackLeibler(base=1)
    with pytest.raises(ValueError, match="strictly increasing"):
        Wasserstein(positions=(0, 2, 1))
    with pytest.raises(ValueError, match="positions has 2 entries, but the predictions have 3 classes"):
        Wasserstein(positions=(0, 1))(GOOD, GOOD)
    with pytest.raises(ValueError, match="offset must be a finite number of at least 0"):
        Normalized(TotalVariation(), offset=-1)
    with pytest.raises(ValueError, match="Normalized needs a first-order score"):
        Normalized(RelativeLikelihood())
    with pytest.raises(TypeError, match="score must be a name or a Score"):
        cs.get_score(3)  # type: ignore[arg-type]


def test_concentrations_below_one() -> None:
    with pytest.raises(ValueError, match=r"Dirichlet concentrations of at least 1.*first-order score"):
        cs.conformalize(GOOD, GOOD, score="so")


@pytest.mark.parametrize(
    ("threshold", "message"),
    [(np.nan, "threshold is NaN"), ([0.1, 0.2], r"one number or one per prediction \(4\)"), ("x", "must be a number")],
)
def test_bad_thresholds(threshold: object, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        TotalVariation().region(GOOD, threshold)  # type: ignore[arg-type]


def test_missing_extra_names_the_command() -> None:
    assert "pip install 'credalset[cli]'" in str(cs.MissingExtraError("The command", "typer", "cli"))
