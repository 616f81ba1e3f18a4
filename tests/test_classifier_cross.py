"""Cross-conformal calibration through the classifier: trained per fold, predicted by all, saved and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
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
    assert [row["coverage"] >= clf.calibration_.guaranteed_coverage(row["alpha"]) for row in rows] == [True, True]
    assert rows[0]["coverage"] >= 0.85
    exact = classifier().cross_conformalize(X, Y, random_state=0, exact=True)
    smaller = exact.evaluate(X_NEW[:60], Y_NEW[:60], alpha=0.2)[0]
    larger = clf.evaluate(X_NEW[:60], Y_NEW[:60], alpha=0.2)[0]
    assert smaller["volume"] < larger["volume"]
    assert smaller["coverage"] <= larger["coverage"]


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        ({}, {}),
        ({"exact": True}, {}),
        ({"groups": np.arange(80) % 2}, {"groups": np.arange(320) % 2}),
        ({"weights": np.linspace(0.5, 1.5, 80)}, {"weights": np.ones(320)}),
    ],
    ids=["plain", "exact", "groups", "weights"],
)
@pytest.mark.parametrize("noise", [None, cs.AnnotatorSampling(0.05)], ids=repr)
def test_classifiers_come_back(made: dict[str, Any], asked: dict[str, Any], noise: Any, tmp_path: Path) -> None:
    names = pd.DataFrame(Y, columns=["no", "maybe", "yes"])
    clf = classifier("kl", noise=noise).cross_conformalize(X, names, folds=3, random_state=1, **made)
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
        by_name.predict_set(pd.DataFrame(X_NEW, columns=frame.columns), 0.2).threshold, dense.threshold
    )
    with pytest.raises(ValueError, match="feature names"):
        by_name.predict_set(pd.DataFrame(X_NEW, columns=frame.columns[::-1]), 0.2)
    sparse_sets = classifier().cross_conformalize(sparse.coo_matrix(X), Y, random_state=0).predict_set(X_NEW, 0.2)
    assert sparse_sets.threshold == pytest.approx(dense.threshold, rel=1e-3)
    labels = np.array(["a", "b", "c"])[Y.argmax(axis=1)]
    one_vote = classifier(noise=cs.AnnotatorSampling(0.05)).cross_conformalize(X, labels, random_state=0)
    assert set(one_vote.predict(X_NEW)) <= {"a", "b", "c"}


def test_refusals() -> None:
    for folds, message in (
        (1, "at least 2"),
        (81, "at most the number of items"),
        ([0, 1], "one whole number per item"),
    ):
        with pytest.raises(ValueError, match=message):
            classifier().cross_conformalize(X, Y, folds)
    with pytest.raises(ValueError, match="X has 80 items, but Y has 79"):
        classifier().cross_conformalize(X, Y[:79])
    with pytest.raises(ValueError, match="proof needs one model"):
        classifier(noise=cs.UnbiasedVotes()).cross_conformalize(X, Y)
    with pytest.raises(ValueError, match="may predict different classes"):
        classifier().cross_conformalize(X, Y, groups="predicted")
    frozen = FrozenEstimator(cs.SoftLabelClassifier().fit(X, Y))
    with pytest.raises(ValueError, match="estimator is frozen"):
        cs.ConformalCredalClassifier(frozen).cross_conformalize(X, Y)


@pytest.mark.parametrize("score", ["kl", "so", "density"])
def test_networks_come_back(score: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from credalset.predictors import DirichletMixtureNetwork, FirstOrderNetwork, SecondOrderNetwork

    kind = {"kl": FirstOrderNetwork, "so": SecondOrderNetwork, "density": DirichletMixtureNetwork}[score]
    clf = cs.ConformalCredalClassifier(kind((8,), epochs=2, random_state=0), score)
    clf.cross_conformalize(X, Y, 2, random_state=0).save(tmp_path / "c")
    loaded: Any = cs.load(tmp_path / "c")
    sets, again = clf.predict_set(X_NEW[:20], 0.2), loaded.predict_set(X_NEW[:20], 0.2)
    assert again.threshold.tobytes() == sets.threshold.tobytes()
    assert again.contains(Y_NEW[:20] / 20).tolist() == sets.contains(Y_NEW[:20] / 20).tolist()
    assert loaded.predict_proba(X_NEW).tobytes() == clf.predict_proba(X_NEW).tobytes()
    assert (loaded.estimators_[0].predict_proba(X_NEW) != loaded.estimators_[1].predict_proba(X_NEW)).any()
