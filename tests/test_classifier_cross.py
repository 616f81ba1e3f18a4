"""Cross-conformal calibration through the classifier: trained per fold, predicted by all,
saved and loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import credalset as cs

DATA = cs.datasets.make_synthetic(400, n_votes=20, random_state=0)
X, Y, X_NEW, Y_NEW = DATA.X[:80], DATA.counts[:80], DATA.X[80:], DATA.counts[80:]


def classifier(score: str = "tv", **options: Any) -> Any:
    return cs.ConformalCredalClassifier(LogisticRegression(), score, **options)


@pytest.mark.parametrize("score", ["tv", "kl", "normalized"])
def test_it_is_cross_conformalize_by_hand(score: str) -> None:
    folds = np.arange(80) % 4
    clf = classifier(score).cross_conformalize(X, Y, folds)
    out, new = np.empty((80, 3)), []
    for k in range(4):
        model = cs.SoftLabelClassifier(LogisticRegression()).fit(X[folds != k], Y[folds != k])
        out[folds == k] = model.predict_proba(X[folds == k])
        new.append(model.predict_proba(X_NEW))
    direct = cs.cross_conformalize(out, Y, folds, score)
    assert np.array_equal(clf.calibration_.scores, direct.scores)
    assert np.array_equal(clf.predict_set(X_NEW, 0.2).threshold, direct.thresholds(new, 0.2))
    assert clf.predict_proba(X_NEW) == pytest.approx(np.mean(new, axis=0))
    assert np.array_equal(clf.predict(X_NEW), np.mean(new, axis=0).argmax(axis=1))


def test_coverage_and_evaluation() -> None:
    clf = classifier().cross_conformalize(X, Y, random_state=0)
    assert len(clf.estimators_) == clf.calibration_.n_folds == 5
    assert np.bincount(clf.calibration_.folds).tolist() == [16] * 5
    rows = clf.evaluate(X_NEW, Y_NEW, alpha=[0.1, 0.2])
    assert [
        row["coverage"] >= clf.calibration_.guaranteed_coverage(row["alpha"]) for row in rows
    ] == [True, True]
    assert rows[0]["coverage"] >= 0.85


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        ({}, {}),
        ({"groups": np.arange(80) % 2}, {"groups": np.arange(320) % 2}),
        ({"weights": np.linspace(0.5, 1.5, 80)}, {"weights": np.ones(320)}),
    ],
    ids=["plain", "groups", "weights"],
)
@pytest.mark.parametrize("noise", [None, cs.AnnotatorSampling(0.05)], ids=repr)
def test_classifiers_come_back(
    made: dict[str, Any], asked: dict[str, Any], noise: Any, tmp_path: Path
) -> None:
    names = pd.DataFrame(Y, columns=["no", "maybe", "yes"])
    clf = classifier("kl", noise=noise).cross_conformalize(
        X, names, folds=3, random_state=1, **made
    )
    clf.save(tmp_path / "c")
    loaded: Any = cs.load(tmp_path / "c")
    sets, again = clf.predict_set(X_NEW, 0.2, **asked), loaded.predict_set(X_NEW, 0.2, **asked)
    assert again.threshold.tobytes() == sets.threshold.tobytes()
    assert type(again) is type(sets)
    assert again.classes == sets.classes == ("no", "maybe", "yes")
    assert loaded.predict_proba(X_NEW).tobytes() == clf.predict_proba(X_NEW).tobytes()
    assert loaded.predict(X_NEW).tolist() == clf.predict(X_NEW).tolist()
    assert (loaded.noise, repr(loaded.calibration_)) == (noise, repr(clf.calibration_))
    check_is_fitted(loaded)


def test_the_latest_calibration_counts() -> None:
    clf = classifier().cross_conformalize(X, Y, random_state=0)
    assert not hasattr(clf, "estimator_")
    with pytest.raises(NotFittedError, match="no fitted estimator"):
        clf.conformalize(X, Y)
    clf.fit(X[:40], Y[:40])
    assert not hasattr(clf, "estimators_")
    assert not hasattr(clf, "calibration_")
    clf.conformalize(X[40:], Y[40:])
    assert isinstance(clf.calibration_, cs.Calibration)
    clf.cross_conformalize(X, Y, random_state=0)
    assert isinstance(clf.calibration_, cs.CrossCalibration)
    assert not hasattr(clone(clf), "estimators_")


def test_kinds_of_input() -> None:
    dense = classifier().cross_conformalize(X, Y, random_state=0).predict_set(X_NEW, 0.2)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    by_name = classifier().cross_conformalize(frame, cs.Annotations.from_counts(Y), random_state=0)
    assert np.array_equal(
        by_name.predict_set(pd.DataFrame(X_NEW, columns=frame.columns), 0.2).threshold,
        dense.threshold,
    )
    with pytest.raises(ValueError, match="feature names"):
        by_name.predict_set(pd.DataFrame(X_NEW, columns=frame.columns[::-1]), 0.2)
    sparse_sets = (
        classifier()
        .cross_conformalize(sparse.coo_matrix(X), Y, random_state=0)
        .predict_set(X_NEW, 0.2)
    )
    assert sparse_sets.threshold == pytest.approx(dense.threshold, rel=1e-3)
    labels = np.array(["a", "b", "c"])[Y.argmax(axis=1)]
    one_vote = classifier(noise=cs.AnnotatorSampling(0.05)).cross_conformalize(
        X, labels, random_state=0
    )
    assert set(one_vote.predict(X_NEW)) <= {"a", "b", "c"}


def test_refusals() -> None:
    for folds in (1, 81, [0, 1], np.zeros(80), 5.0, None, "5"):
        with pytest.raises((TypeError, ValueError), match=r"folds|n_splits"):
            classifier().cross_conformalize(X, Y, folds)
    with pytest.raises(ValueError, match="Y must have one row for each item of X"):
        classifier().cross_conformalize(X, Y[:79])
    with pytest.raises(ValueError, match="one model"):
        classifier(noise=cs.UnbiasedVotes()).cross_conformalize(X, Y)
    with pytest.raises(ValueError, match="predict"):
        classifier().cross_conformalize(X, Y, groups="predicted")


def frozen() -> FrozenEstimator:
    return FrozenEstimator(RandomForestClassifier(5, random_state=0).fit(X, Y.argmax(axis=1)))


FROZEN: dict[str, Callable[[], Any]] = {
    "alone": frozen,
    "pipeline": lambda: make_pipeline(StandardScaler(), frozen()),
    "soft labels": lambda: cs.SoftLabelClassifier(frozen()),
    "one of several": lambda: VotingClassifier(
        [("a", LogisticRegression()), ("b", frozen())], voting="soft"
    ),
    "first step": lambda: make_pipeline(
        FrozenEstimator(StandardScaler().fit(X)), LogisticRegression()
    ),
    "selection": lambda: make_pipeline(
        SelectFromModel(LogisticRegression().fit(X, Y.argmax(axis=1)), prefit=True),
        LogisticRegression(),
    ),
    "stacking": lambda: StackingClassifier(
        [("a", LogisticRegression().fit(X, Y.argmax(axis=1)))], cv="prefit"
    ),
}


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_parts_are_refused_wherever_they_are(name: str) -> None:
    with pytest.raises(ValueError, match="already fitted"):
        cs.ConformalCredalClassifier(FROZEN[name]()).cross_conformalize(X, Y)


class Untrainable(LogisticRegression):
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        raise AssertionError("trained before the arguments were checked")


@pytest.mark.parametrize(
    ("labels", "options", "noise", "name"),
    [
        (Y, {"weights": np.ones(3)}, None, "weights"),
        (Y, {"weights": -np.ones(80)}, None, "weights"),
        (Y, {"groups": [0] * 79}, None, "groups"),
        (Y, {"folds": [0, 1]}, None, "folds"),
        (Y / 20, {}, cs.AnnotatorSampling(0.05), "counts"),
    ],
    ids=["short weights", "negative weights", "groups", "folds", "counts"],
)
def test_arguments_are_checked_before_anything_is_trained(
    labels: Any, options: Any, noise: Any, name: str
) -> None:
    clf = cs.ConformalCredalClassifier(Untrainable(), noise=noise)
    with pytest.raises(ValueError, match=name):
        clf.cross_conformalize(X, labels, **options)


class FewerColumns(BaseEstimator):
    """Predicts only as many classes as it has seen."""

    accepts_label_distributions = True

    def fit(self, X: Any, Y: Any) -> FewerColumns:
        self.n_ = int((np.asarray(Y).sum(axis=0) > 0).sum())
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.full((len(X), self.n_), 1 / self.n_)


def test_folds_that_lack_a_class() -> None:
    labels = np.eye(3)[[0, 1] * 39 + [2, 2]]
    folds = np.r_[np.arange(78) // 2 % 2, 1, 1]
    with pytest.raises(ValueError, match="predicts 2 classes"):
        cs.ConformalCredalClassifier(FewerColumns()).cross_conformalize(X, labels, folds)


def test_splitters_make_the_folds() -> None:
    plain = classifier().cross_conformalize(X, Y, KFold(4)).calibration_
    assert plain.folds.tolist() == np.repeat(np.arange(4), 20).tolist()
    shuffled = (
        classifier().cross_conformalize(X, Y, KFold(4, shuffle=True, random_state=3)).calibration_
    )
    drawn = classifier().cross_conformalize(X, Y, 4, random_state=3).calibration_
    assert shuffled.folds.tolist() == drawn.folds.tolist()
    for splitter in (ShuffleSplit(3), TimeSeriesSplit(3), StratifiedKFold(3)):
        with pytest.raises(
            (TypeError, ValueError)
        ):  # not every item once, or folds that depend on labels
            classifier().cross_conformalize(X, Y, splitter)


@pytest.mark.parametrize("score", ["kl", "so"])
def test_networks_come_back(score: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from credalset.predictors import FirstOrderNetwork, SecondOrderNetwork

    kind = {"kl": FirstOrderNetwork, "so": SecondOrderNetwork}[score]
    clf = cs.ConformalCredalClassifier(kind((8,), epochs=2, random_state=0), score)
    clf.cross_conformalize(X, Y, 2, random_state=0).save(tmp_path / "c")
    loaded: Any = cs.load(tmp_path / "c")
    sets, again = clf.predict_set(X_NEW[:20], 0.2), loaded.predict_set(X_NEW[:20], 0.2)
    assert again.threshold.tobytes() == sets.threshold.tobytes()
    assert loaded.predict_proba(X_NEW).tobytes() == clf.predict_proba(X_NEW).tobytes()
    assert (
        loaded.estimators_[0].predict_proba(X_NEW) != loaded.estimators_[1].predict_proba(X_NEW)
    ).any()
