"""One door for labels: whatever form they come in and whatever order their names are in, the answer is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset import metrics
from credalset.annotations.labels import Labels, plain_names, shown
from credalset.evaluation import evaluate
from credalset.predictors import SoftLabelClassifier
from credalset.predictors.labels import read_labels

CLASSES = ("no", "maybe", "yes")
DATA = cs.datasets.make_synthetic(120, n_votes=12, random_state=0)
ITEMS = [f"item {i}" for i in range(120)]
PREDICTION = pd.DataFrame(0.8 * DATA.distributions + 0.2 / 3, columns=CLASSES, index=ITEMS)
FEATURES = pd.DataFrame(DATA.X, columns=[f"x{i}" for i in range(DATA.X.shape[1])], index=ITEMS)
COUNTS = pd.DataFrame(DATA.counts, columns=CLASSES, index=ITEMS)
ORDER = np.random.default_rng(0).permutation(120)
FOLDS = np.arange(120) % 3

PLAIN = cs.conformalize(PREDICTION, COUNTS)
CLASSIFIER = cs.ConformalCredalClassifier(LogisticRegression()).fit(FEATURES, COUNTS).conformalize(FEATURES, COUNTS)
CROSS = cs.cross_conformalize(PREDICTION, COUNTS, FOLDS)


def fitted(estimator: Any, labels: Any) -> Any:
    return estimator.fit(FEATURES, labels).predict_proba(FEATURES)


#: every public door that takes labels, with what it answers as an array
DOORS: dict[str, Callable[[Any], Any]] = {
    "conformalize": lambda Y: cs.conformalize(PREDICTION, Y, "kl").scores,
    "cross_conformalize": lambda Y: cs.cross_conformalize(PREDICTION, Y, FOLDS, "kl").scores,
    "update": lambda Y: cs.Stream(PLAIN).update(PREDICTION, Y),
    "p_values": lambda Y: PLAIN.p_values(PREDICTION, Y),
    "contains": lambda Y: PLAIN.predict_set(PREDICTION, 0.3).contains(Y),
    "contains of cross-conformal sets": lambda Y: CROSS.predict_set([PREDICTION] * 3, 0.3).contains(Y),
    "coverage": lambda Y: metrics.coverage(PLAIN.predict_set(PREDICTION, 0.3), Y),
    "coverage_by_group": lambda Y: metrics.coverage_by_group(PLAIN.predict_set(PREDICTION, 0.3), Y, FOLDS),
    "coverage_by_entropy": lambda Y: metrics.coverage_by_entropy(PLAIN.predict_set(PREDICTION, 0.3), Y),
    "cs.evaluate": lambda Y: evaluate(PLAIN, PREDICTION, Y, [0.2, 0.4]),
    "evaluate": lambda Y: CLASSIFIER.evaluate(FEATURES, Y, [0.2, 0.4]),
    "conformalize of a classifier": lambda Y: CLASSIFIER.conformalize(FEATURES, Y).calibration_.scores,
}
COUNT_DOORS: dict[str, Callable[[Any], Any]] = {
    "epsilon_from_counts": lambda Y: cs.epsilon_from_counts(Y, 0.1, "kl", prediction=PREDICTION).epsilon,
    "AnnotatorSampling": lambda Y: cs.conformalize(PREDICTION, Y, noise=cs.AnnotatorSampling(0.05)).rule.bounds,
}
#: doors that learn the classes from the labels
FIT_DOORS: dict[str, Callable[[Any], Any]] = {
    "fit": lambda Y: fitted(cs.ConformalCredalClassifier(LogisticRegression()), Y),
    "fit of soft labels": lambda Y: fitted(SoftLabelClassifier(), Y),
    "fit_conformalize": lambda Y: (
        cs.ConformalCredalClassifier(LogisticRegression())
        .fit_conformalize(FEATURES, Y, random_state=0)
        .calibration_.scores
    ),
    "cross_conformalize of a classifier": lambda Y: (
        cs.ConformalCredalClassifier(LogisticRegression())
        .cross_conformalize(FEATURES, Y, 3, random_state=0)
        .calibration_.scores
    ),
}
ALL_DOORS = DOORS | COUNT_DOORS | FIT_DOORS


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and np.allclose(one, other, rtol=1e-9, atol=1e-12)
    return repr(one) == repr(other) if not isinstance(one, float) else bool(one == pytest.approx(other, rel=1e-12))


@pytest.mark.parametrize("door", ALL_DOORS)
def test_every_form_of_labels_is_read_alike(door: str) -> None:
    ask = ALL_DOORS[door]
    votes = cs.Annotations.from_counts(DATA.counts, classes=CLASSES, items=ITEMS)
    expected = ask(DATA.counts)
    forms: list[Any] = [COUNTS, votes, pl.DataFrame(DATA.counts, schema=list(CLASSES)), DATA.counts.tolist()]
    if door not in COUNT_DOORS:
        forms += [DATA.counts / 12, COUNTS / 12]
    for labels in forms:
        assert same(ask(labels), expected), type(labels)


@pytest.mark.parametrize("door", ALL_DOORS)
def test_items_are_matched_by_name(door: str) -> None:
    ask = ALL_DOORS[door]
    expected = ask(COUNTS)
    for labels in (COUNTS.iloc[ORDER], cs.Annotations.from_counts(COUNTS)[ORDER]):
        assert same(ask(labels), expected)
    assert not same(ask(COUNTS.iloc[ORDER].to_numpy()), expected), "without names another order is another answer"


@pytest.mark.parametrize("door", [*DOORS, *COUNT_DOORS])
def test_classes_are_matched_by_name(door: str) -> None:
    ask = ALL_DOORS[door]
    expected = ask(COUNTS)
    swapped = COUNTS[["yes", "no", "maybe"]]
    votes = cs.Annotations.from_counts(COUNTS).reorder(["maybe", "yes", "no"])
    for labels in (swapped, swapped.iloc[ORDER], votes, votes[ORDER]):
        assert same(ask(labels), expected)
    assert not same(ask(swapped.to_numpy()), expected), "without names another order is another answer"


@pytest.mark.parametrize("door", [*DOORS, *COUNT_DOORS])
def test_other_classes_are_named(door: str) -> None:
    ask = ALL_DOORS[door]
    odd = cs.Annotations.from_counts(DATA.counts, classes=np.array(["no", "maybe", "perhaps"]))
    with pytest.raises(ValueError, match="name different classes") as caught:
        ask(odd)
    assert "has no 'yes'" in str(caught.value)
    assert "has no 'perhaps'" in str(caught.value)
    assert "np.str_" not in str(caught.value)
    with pytest.raises(ValueError, match=r"has no 'yes'\. Give both the same classes"):
        ask(COUNTS[["no", "maybe"]])


@pytest.mark.parametrize("door", ALL_DOORS)
def test_other_items_are_counted_and_named(door: str) -> None:
    ask = ALL_DOORS[door]
    with pytest.raises(
        ValueError, match=r"name different items \(2 in all\): .* has no 'item 7' and .* has no 'stray'"
    ):
        ask(COUNTS.rename(index={"item 7": "stray"}))
    twice = COUNTS.iloc[ORDER].rename(index={"item 7": "item 8"})
    with pytest.raises(ValueError, match="name different items"):
        ask(twice)


def test_rows_without_names_are_positions() -> None:
    expected = cs.conformalize(PREDICTION.to_numpy(), DATA.counts).scores
    numbered = pd.DataFrame(DATA.counts, columns=CLASSES)
    shifted = numbered.set_index(np.arange(500, 620))
    for prediction, labels in (
        (PREDICTION, numbered),
        (PREDICTION.reset_index(drop=True), shifted),
        (PREDICTION, cs.Annotations.from_counts(DATA.counts, classes=CLASSES)),
        (PREDICTION.to_numpy(), COUNTS.iloc[np.arange(120)]),
    ):
        assert np.array_equal(cs.conformalize(prediction, labels).scores, expected)


def test_names_that_repeat() -> None:
    twice = COUNTS.set_axis([f"item {i // 2}" for i in range(120)])
    prediction = PREDICTION.set_axis(twice.index)
    assert np.array_equal(cs.conformalize(prediction, twice).scores, PLAIN.scores), "in the same order, nothing to do"
    with pytest.raises(ValueError, match="in different orders, and names that repeat"):
        cs.conformalize(prediction, twice.iloc[ORDER])


def test_votes_with_names_for_an_estimator_without() -> None:
    """Fitted on plain arrays, an estimator calls its classes 0, 1, …: names that others know are welcome."""
    fitted = cs.ConformalCredalClassifier(LogisticRegression()).fit(FEATURES, DATA.counts).estimator_
    clf = cs.ConformalCredalClassifier(fitted).conformalize(FEATURES, cs.Annotations.from_counts(COUNTS))
    assert clf.classes_.tolist() == list(CLASSES)
    assert clf.predict_set(FEATURES[:2]).classes == CLASSES
    assert clf.evaluate(FEATURES, COUNTS[["yes", "no", "maybe"]], 0.2) == clf.evaluate(FEATURES, COUNTS, 0.2)
    with pytest.raises(ValueError, match=r"Y has 2 classes \(columns\), but 3 are expected"):
        cs.ConformalCredalClassifier(fitted).conformalize(FEATURES, COUNTS[["no", "yes"]] + 1)


def test_classes_given_and_classes_known() -> None:
    swapped = ["yes", "no", "maybe"]
    by_name = cs.conformalize(PREDICTION, COUNTS, classes=swapped)
    assert by_name.classes == tuple(swapped)
    assert by_name.scores == pytest.approx(PLAIN.scores, rel=1e-12)
    assert by_name.predict_set(PREDICTION, 0.2).center.tobytes() == PREDICTION[swapped].to_numpy().tobytes()
    arrays = cs.conformalize(PREDICTION.to_numpy(), DATA.counts, classes=np.array(CLASSES))  # type: ignore[arg-type]
    assert arrays.classes == CLASSES
    assert all(type(name) is str for name in arrays.classes)


def test_sets_know_their_items() -> None:
    sets = PLAIN.predict_set(PREDICTION, 0.3)
    inside = sets.contains(COUNTS)
    assert sets.items is not None
    assert sets[5:9].items is not None
    assert sets[5:9].items.tolist() == ITEMS[5:9]  # type: ignore[union-attr]
    assert np.array_equal(sets[ORDER].contains(COUNTS), inside[ORDER])
    assert np.array_equal(CLASSIFIER.predict_set(FEATURES).items, ITEMS)
    assert sets.contains(COUNTS.iloc[[3]], broadcast=True).shape == (120, 1), "candidates for all sets are no items"
    assert PLAIN.predict_set(PREDICTION.to_numpy(), 0.3).items is None


def test_hard_labels_are_matched_too() -> None:
    hard = pd.Series(np.array(CLASSES)[DATA.counts.argmax(axis=1)], index=ITEMS)
    expected = SoftLabelClassifier().fit(FEATURES, hard).predict_proba(FEATURES)
    shuffled = SoftLabelClassifier().fit(FEATURES, hard.iloc[ORDER]).predict_proba(FEATURES)
    assert shuffled == pytest.approx(expected)
    one_vote = read_labels(hard, FEATURES, classes=CLASSES)
    assert one_vote.counts is not None
    assert one_vote.counts.sum(axis=1).tolist() == [1.0] * 120


def test_votes_are_kept_beside_shares() -> None:
    votes = cs.Annotations.from_counts(COUNTS)
    for value in (DATA.counts, COUNTS, votes):
        labels = Labels.read(value)
        assert labels.counts is not None
        assert np.array_equal(labels.counts, DATA.counts)
        assert np.allclose(labels.distributions, DATA.counts / 12, rtol=1e-15)
    picked = Labels.read(votes)[ORDER[:3]]
    assert list(picked.items) == [ITEMS[i] for i in ORDER[:3]]
    assert np.array_equal(picked.counts, DATA.counts[ORDER[:3]])  # type: ignore[arg-type]
    assert Labels.read(DATA.counts / 12).counts is None
    assert Labels.read(picked) is picked, "what was read is not read again"


def test_splits_keep_items_together() -> None:
    votes = cs.Annotations.from_counts(COUNTS)
    sizes: Any = {"train_size": 60, "conformalize_size": 40, "test_size": 20, "random_state": 0}
    for labels in (COUNTS, COUNTS.iloc[ORDER], votes, votes[ORDER]):
        parts = cs.train_conformalize_test_split(FEATURES, labels, **sizes)
        for X, Y in ((parts.X_train, parts.Y_train), (parts.X_test, parts.Y_test)):
            names = Y.items if isinstance(Y, cs.Annotations) else Y.index
            assert list(names) == list(X.index)


def test_names_are_plain_in_messages() -> None:
    assert plain_names(np.array(["a", "b"])) == ("a", "b")
    assert shown(np.array(["a", "b"])) == "'a', 'b'"
    assert shown([np.int64(3), np.float64(0.5), np.str_("x"), None, ("t", 1), 6]) == "3, 0.5, 'x', None, ('t', 1), …"


# --- once ---


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were validated, call by call."""
    seen: list[int] = []
    original = cs.Score.check_prediction

    def counting(self: Any, prediction: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(len(prediction))
        return original(self, prediction, *args, **kwargs)

    monkeypatch.setattr(cs.Score, "check_prediction", counting)
    return seen


def test_predictions_are_validated_once(checks: list[int]) -> None:
    g, counts = PREDICTION.to_numpy(), DATA.counts
    calibration = cs.conformalize(g, counts, "kl", noise=cs.AnnotatorSampling(0.05), groups="predicted")
    assert checks == [120]
    for ask in (
        lambda: calibration.predict_set(g[:50], 0.2),
        lambda: calibration.thresholds(g[:50], 0.2),
        lambda: PLAIN.p_values(g[:50], counts[:50]),
        lambda: cs.Stream(PLAIN).update(g[:50], counts[:50]),
        lambda: cs.Stream(PLAIN).predict_set(g[:50]),
        lambda: evaluate(PLAIN, g[:50], counts[:50], [0.1, 0.2, 0.3]),
        lambda: cs.epsilon_from_counts(counts[:50], 0.1, "kl", prediction=g[:50]),
    ):
        checks.clear()
        ask()
        assert checks == [50]


def test_predictions_of_folds_are_validated_once(checks: list[int]) -> None:
    g, counts = PREDICTION.to_numpy(), DATA.counts
    calibration = cs.cross_conformalize(g, counts, FOLDS)
    assert checks == [120]
    for ask in (
        lambda: calibration.predict_set([g[:50]] * 3, 0.2),
        lambda: evaluate(calibration, [g[:50]] * 3, counts[:50], [0.1, 0.2]),
    ):
        checks.clear()
        ask()
        assert checks == [50] * 3


def test_predictions_of_classifiers_are_validated_once(checks: list[int]) -> None:
    clf = cs.ConformalCredalClassifier(LogisticRegression()).fit(DATA.X[:70], DATA.counts[:70])
    for ask, expected in (
        (lambda: clf.conformalize(DATA.X[70:], DATA.counts[70:]), [50, 1]),  # and the constant one
        (lambda: clf.predict_set(DATA.X[:30]), [30]),
        (lambda: clf.evaluate(DATA.X[:30], DATA.counts[:30]), [30, 1, 1, 1]),
        (lambda: clf.cross_conformalize(DATA.X, DATA.counts, 3, random_state=0), [40, 40, 40, 1]),
        (lambda: clf.predict_set(DATA.X[:30]), [30, 30, 30]),
        (lambda: clf.evaluate(DATA.X[:30], DATA.counts[:30]), [30, 30, 30, 1, 1, 1]),
    ):
        checks.clear()
        ask()
        assert checks == expected
