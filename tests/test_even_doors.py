"""Small things a first user ran into, one test for each: levels, shapes, rows, names, groups."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import credalset as cs
from credalset.calibration.split import Calibration
from credalset.exceptions import CredalSetWarning
from credalset.predictors import SoftLabelClassifier

DATA = cs.datasets.make_synthetic(200, n_classes=3, n_votes=20, random_state=0)
PLAIN = cs.conformalize(DATA.distributions, DATA.counts)
CROSS = cs.cross_conformalize(DATA.distributions, DATA.counts, np.arange(200) % 4)
CLF = cs.ConformalCredalClassifier(LogisticRegression()).fit_conformalize(DATA.X, DATA.counts, 0.5, random_state=0)


# --- levels ---


@pytest.mark.parametrize(
    "door",
    [
        *(Calibration.threshold, Calibration.thresholds, Calibration.predict_set, Calibration.coverage_distribution),
        *(cs.CrossCalibration.thresholds, cs.CrossCalibration.predict_set, cs.CrossCalibration.guaranteed_coverage),
        *(cs.ConformalCredalClassifier.predict_set, cs.ConformalCredalClassifier.compare, cs.Stream, cs.Scorer),
        cs.metrics.WidthScorer,
    ],
    ids=lambda door: door.__qualname__,
)
def test_every_door_has_the_same_level_by_default(door: Callable[..., Any]) -> None:
    assert inspect.signature(door).parameters["alpha"].default == 0.1


ASK: dict[str, Callable[[float], Any]] = {
    "threshold": PLAIN.threshold,
    "predict_set": lambda alpha: PLAIN.predict_set(DATA.distributions, alpha),
    "cross": lambda alpha: CROSS.predict_set([DATA.distributions] * 4, alpha),
    "classifier": lambda alpha: CLF.predict_set(DATA.X, alpha),
    "evaluate": lambda alpha: CLF.evaluate(DATA.X, DATA.counts, alpha),
    "coverage_distribution": PLAIN.coverage_distribution,
}


@pytest.mark.parametrize("door", ASK)
def test_a_coverage_in_place_of_alpha_is_warned_of(door: str) -> None:
    with pytest.warns(CredalSetWarning, match=r"alpha=0\.9 is a miscoverage rate.*write alpha=0\.1\."):
        ASK[door](0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CredalSetWarning)
        ASK[door](0.5)


# --- shapes ---


def doors(value: Any) -> list[Callable[[], Any]]:
    sets = PLAIN.predict_set(DATA.distributions)
    return [
        lambda: cs.conformalize(value, DATA.counts),
        lambda: cs.conformalize(DATA.distributions, value),
        lambda: sets.contains(value),
        lambda: cs.metrics.coverage(sets, value),
        lambda: PLAIN.p_values(DATA.distributions, value),
    ]


@pytest.mark.parametrize("door", range(5))
@pytest.mark.parametrize(
    ("value", "error", "remedy"),
    [
        (DATA.distributions[:, 0], ValueError, r"of one of two classes, pass both columns: np\.column_stack"),
        (DATA.counts.argmax(axis=1), ValueError, r"class labels, one per item, pass a vote each: np\.eye\(n_classes\)"),
        (DATA.counts.argmax(axis=1) > 0, ValueError, r"np\.eye\(n_classes\)\[labels\]"),
        (np.array(["a", "b", "c"])[DATA.counts.argmax(axis=1)], TypeError, r"pandas\.get_dummies\(labels\)"),
        (["a", "b"] * 100, TypeError, r"one text per item.*pandas\.get_dummies\(labels\)"),
        (pd.Series(["a", "b"] * 100, dtype=object), TypeError, r"pandas\.get_dummies\(labels\)"),
        (DATA.distributions[0], ValueError, r"has shape \(3,\)\. Use array\[None, :\] for a single row"),
        (np.array([2.5, -1.0, 0.3]), ValueError, r"has shape \(3,\)\. Use array\[None, :\] for a single row"),
    ],
    ids=["share", "code", "bool", "text", "list", "series", "row", "logits"],
)
def test_one_axis_gets_the_right_remedy(value: Any, error: type[Exception], remedy: str, door: int) -> None:
    with pytest.raises(error, match=remedy):
        doors(value)[door]()


def test_the_remedies_work() -> None:
    p = DATA.distributions[:, 0]
    both = np.column_stack([1 - p, p])
    codes = (DATA.counts.argmax(axis=1) > 0).astype(int)
    by_code = cs.conformalize(both, np.eye(2)[codes])
    names = pd.Series(np.array(["no", "yes"])[codes])
    by_name = cs.conformalize(pd.DataFrame(both, columns=["no", "yes"]), pd.get_dummies(names))
    assert np.array_equal(by_code.scores, by_name.scores)


# --- rows ---


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_a_frame_for_a_model_that_reads_texts_is_refused() -> None:
    """A vectorizer goes through the columns of a frame, and there were 2 sets for 813 rows."""
    frame = pd.DataFrame({"uid": range(60), "text": ["good day", "bad day", "no day"] * 20})
    counts = np.tile([[3, 1], [1, 3], [2, 2]], (20, 1))
    clf = cs.ConformalCredalClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()))
    clf.fit(frame["text"], counts).conformalize(frame["text"], counts)
    assert len(clf.predict_set(frame["text"])) == 60
    for ask in (clf.predict_set, clf.predict_proba):
        with pytest.raises(ValueError, match=r"60 rows, but .* returned 2 .*columns uid, text: .*X\['text'\]"):
            ask(frame[["uid", "text"]])
    with pytest.raises(ValueError, match="X has 60 rows, but the estimator returned 2 predictions"):
        clf.conformalize(frame[["uid", "text"]], counts)


def test_an_estimator_that_loses_rows_is_noticed() -> None:
    class Lossy(SoftLabelClassifier):
        def predict_proba(self, X: Any) -> Any:
            return super().predict_proba(X)[1:]

    with pytest.raises(ValueError, match="X has 200 rows, but the estimator returned 199 predictions"):
        cs.ConformalCredalClassifier(Lossy()).fit(DATA.X, DATA.counts).conformalize(DATA.X, DATA.counts)


# --- names ---


@pytest.mark.parametrize("kind", ["plain", "pipeline", "search", "soft"])
def test_a_fitted_estimator_passed_on_knows_the_names(kind: str) -> None:
    """Calibrated on votes whose classes come in another order, it is the same classifier."""
    estimator = {
        "plain": LogisticRegression(),
        "pipeline": make_pipeline(SoftLabelClassifier()),
        "search": GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2),
        "soft": SoftLabelClassifier(),
    }[kind]
    votes = cs.Annotations.from_counts(DATA.counts, classes=["no", "maybe", "yes"])
    first = cs.ConformalCredalClassifier(estimator, "tv").fit(DATA.X[:100], votes[:100])
    expected = first.conformalize(DATA.X[100:], votes[100:]).calibration_.scores
    passed = cs.ConformalCredalClassifier(first.estimator_, "tv")
    passed.conformalize(DATA.X[100:], votes[100:])
    assert np.array_equal(passed.calibration_.scores, expected)
    other_order = pd.DataFrame(DATA.counts[100:], columns=["no", "maybe", "yes"])[["yes", "no", "maybe"]]
    passed.conformalize(DATA.X[100:], other_order)
    assert np.array_equal(passed.calibration_.scores, expected)
    assert passed.classes_.tolist() == ["no", "maybe", "yes"]
    assert set(passed.predict(DATA.X)) <= {"no", "maybe", "yes"}


def test_folds_know_the_names_too() -> None:
    votes = cs.Annotations.from_counts(DATA.counts, classes=["no", "maybe", "yes"])
    clf = cs.ConformalCredalClassifier(LogisticRegression()).cross_conformalize(DATA.X, votes, 2, random_state=0)
    assert [model.classes_.tolist() for model in clf.estimators_] == [["no", "maybe", "yes"]] * 2


# --- groups ---


def test_a_group_that_is_large_enough_is_not_blamed_for_a_small_one() -> None:
    keys = np.array(["large"] * 197 + ["small"] * 3)
    calibration = cs.conformalize(DATA.distributions, DATA.counts, groups=keys)
    with pytest.warns(CredalSetWarning, match="the group 'small' is too small for alpha=0.1 and shares"):
        calibration.predict_set(DATA.distributions, 0.1, groups=keys)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CredalSetWarning)
        plenty = cs.conformalize(DATA.distributions, DATA.counts, groups=np.array(["a", "b"] * 100))
        plenty.predict_set(DATA.distributions, 0.1, groups=np.array(["a", "b"] * 100))
