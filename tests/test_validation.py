"""Bad input of every kind gets a sentence that names the argument, what was seen and what to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import credalset as cs
from credalset import _validation as v
from credalset._batch import read_votes
from credalset.scores import (
    KullbackLeibler,
    Normalized,
    RelativeLikelihood,
    TotalVariation,
    Wasserstein,
)

GOOD = np.full((4, 3), 1 / 3)


@pytest.mark.parametrize(
    ("prediction", "error"),
    [
        ([0.2, 0.8], ValueError),
        ([[1.0], [1.0]], ValueError),
        ([[0.5, np.nan, 0.5]] * 4, ValueError),
        ([[0.7, 0.7, -0.4]] * 4, ValueError),
        ([[0.5, 0.2, 0.2]] * 4, ValueError),
        ([["a", "b", "c"]] * 4, TypeError),
        ([[2.0, -1.0, 3.0]] * 4, ValueError),
    ],
)
def test_bad_predictions(prediction: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^predictions "):
        cs.conformalize(prediction, GOOD)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "labels",
    [
        [[1, -2, 3]] * 4,
        [[0, 0, 0]] * 4,
        [[3.5, 1.0, 0.5]] * 4,
        [[1.0, np.inf, 0.0]] * 4,
        np.full((4, 2), 0.5),
    ],
)
def test_bad_labels(labels: object) -> None:
    with pytest.raises(ValueError, match=r"^votes "):
        cs.conformalize(GOOD, labels)


def test_a_message_tells_rows_and_what_was_seen() -> None:
    with pytest.raises(ValueError, match=r"row 1 sums to 0\.9"):
        cs.conformalize([[0.5, 0.3, 0.2], [0.5, 0.2, 0.2]], GOOD[:2])


def test_counts_and_distributions_are_told_apart() -> None:
    for value, shares in (
        ([[3, 1], [0, 4]], [[0.75, 0.25], [0.0, 1.0]]),
        ([[1, 0], [2, 2]], [[1.0, 0.0], [0.5, 0.5]]),
        ([[1, 0], [0, 1]], [[1.0, 0.0], [0.0, 1.0]]),
    ):
        labels = read_votes(value, name="Y")
        assert labels.distributions.tolist() == shares
        assert labels.counts is not None
        assert labels.counts.tolist() == value
    shares_only = read_votes([[0.5, 0.5]], name="Y")
    assert (shares_only.distributions.tolist(), shares_only.counts) == ([[0.5, 0.5]], None)


def test_single_precision_softmax_is_accepted_and_normalised_once() -> None:
    logits = np.random.default_rng(0).normal(size=(1000, 50)).astype(np.float32)
    soft = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    checked = v.as_distributions(soft, "p")
    assert np.abs(checked.sum(axis=1) - 1).max() < 1e-14
    assert np.array_equal(v.as_distributions(checked, "p"), checked), (
        "validating twice must change nothing"
    )


def test_exact_rows_are_left_alone() -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(7), 100)
    assert np.array_equal(v.as_distributions(rows, "p"), rows)


@pytest.mark.parametrize(
    ("score", "error"), [("euclid", ValueError), (TotalVariation, TypeError), (3, TypeError)]
)
def test_bad_score_names(score: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^score "):
        cs.conformalize(GOOD, GOOD, score=score)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argument", "make"),
    [
        ("base", lambda: KullbackLeibler(base=1)),
        ("positions", lambda: Wasserstein(positions=(0, 2, 1))),
        ("positions", lambda: Wasserstein(positions=(0, 1))(GOOD, GOOD)),
        ("offset", lambda: Normalized(TotalVariation(), offset=-1)),
        ("score", lambda: Normalized(RelativeLikelihood())),
    ],
)
def test_bad_score_parameters(argument: str, make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=f"^{argument} "):
        make()


def test_probabilities_where_concentrations_are_needed() -> None:
    with pytest.raises(ValueError, match=r"^predictions .*first-order score"):
        cs.conformalize(GOOD, GOOD, score="so")


@pytest.mark.parametrize(
    ("threshold", "error"),
    [(np.nan, ValueError), ([0.1, 0.2], ValueError), ("x", TypeError), (None, TypeError)],
)
def test_bad_thresholds(threshold: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^threshold "):
        TotalVariation().region(GOOD, threshold)  # type: ignore[arg-type]


def test_missing_extra_names_the_command() -> None:
    assert "pip install 'credalset[cli]'" in str(
        cs.MissingExtraError("The command", "typer", "cli")
    )


# --- what is no array of numbers ---

NO_NUMBERS: dict[str, tuple[object, type[Exception] | tuple[type[Exception], ...]]] = {
    "ragged": ([[0.2, 0.3, 0.5], [0.5, 0.5]], ValueError),
    "complex": (GOOD + 0j, TypeError),
    "text": ([["0.2", "0.3", "0.5"]] * 4, TypeError),
    "dates": (np.full((4, 3), "2020-01-01", dtype="M8[D]"), TypeError),
    "words": (np.array([["x", 0.5, 0.5]], dtype=object), TypeError),
    "complex objects": (np.array([[1j, 0.5, 0.5]], dtype=object), TypeError),
    # Values per item may be a mapping of items, which these predictions do not name.
    "a dict": ({"a": 1}, (TypeError, ValueError)),
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_what_holds_no_numbers_is_refused_by_name(kind: str) -> None:
    value, error = NO_NUMBERS[kind]
    calibration, sets = cs.conformalize(GOOD, GOOD), TotalVariation().region(GOOD, 0.2)
    calls = {
        "predictions": [
            lambda: cs.conformalize(value, GOOD),  # type: ignore[arg-type]
            lambda: calibration.predict_set(value, 0.5),
        ],
        "prediction": [
            lambda: RelativeLikelihood().region(value, 0.5),
            lambda: TotalVariation()(value, GOOD),
        ],
        "votes": [lambda: cs.conformalize(GOOD, value)],
        "distribution": [lambda: sets.contains(value), lambda: TotalVariation()(GOOD, value)],
        "utility": [
            lambda: sets.upper_expectation(value),
            lambda: sets.lower_expectation(value),
            lambda: sets.decide("maximal", value),
        ],
        "threshold": [lambda: TotalVariation().region(GOOD, value)],
    }
    for name, attempts in calls.items():
        for attempt in attempts:
            with pytest.raises(error, match=rf"^{name} (must h|names its items)"):
                attempt()
    with pytest.raises(TypeError, match=r"^alpha must be a number strictly between 0 and 1"):
        calibration.threshold(value)  # type: ignore[arg-type]


def test_exact_numbers_in_objects_are_numbers() -> None:
    from decimal import Decimal

    exact = np.array([[Decimal("0.5"), Decimal("0.25"), Decimal("0.25")]], dtype=object)
    assert v.as_distributions(exact, "p").tolist() == [[0.5, 0.25, 0.25]]


def test_frames_are_judged_by_the_precision_of_their_columns() -> None:
    pandas = pytest.importorskip("pandas")
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 200)
    half = rows.astype(np.float16)
    assert np.abs(half.astype(float).sum(axis=1) - 1).max() > 1e-4
    frame = pandas.DataFrame(half)
    assert np.array_equal(v.as_distributions(frame, "p"), v.as_distributions(half, "p"))
    assert np.array_equal(
        read_votes(frame, name="Y").distributions, read_votes(half, name="Y").distributions
    )
    v.as_distributions(frame.astype({0: np.float64}), "p")


def test_two_decimals_are_renormalised() -> None:
    drawn = np.random.default_rng(0).dirichlet(np.ones(4), 2000).round(2)
    rounded = np.concatenate([drawn, [[0.25, 0.25, 0.25, 0.27], [0.25, 0.25, 0.25, 0.23]]])
    assert np.allclose(
        v.as_distributions(rounded, "p"), rounded / rounded.sum(axis=1, keepdims=True), atol=1e-16
    )
    for off in (0.979, 1.021):
        with pytest.raises(ValueError, match=r"do not sum to one within 0\.02"):
            v.as_distributions(np.full((3, 4), off / 4), "p")


def test_rows_of_frames_are_called_by_their_names() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[0.5, 0.5], [0.5, 0.6], [0.5, 0.7]], index=["t1", "t2", "t3"])
    with pytest.raises(
        ValueError, match=r"2 rows \(first: t2, t3\) do not sum .* \(row t2 sums to 1\.1\)"
    ):
        v.as_distributions(frame, "p")
    for bad, said in ((-0.1, "negative values in row t3"), (np.nan, "infinity in row t3")):
        frame.iloc[2] = [bad, 1.1]
        with pytest.raises(ValueError, match=said):
            v.as_distributions(frame, "p")


def test_levels_without_axes_are_levels() -> None:
    scores = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    calibration = cs.conformalize(np.full((50, 3), 1 / 3), scores)
    assert calibration.threshold(np.array(0.1)) == calibration.threshold(0.1)  # type: ignore[arg-type]
