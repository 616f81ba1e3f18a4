"""Calls that must not succeed, and what they leave behind: the classifier as it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, LeaveOneOut, PredefinedSplit, ShuffleSplit, StratifiedKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import credalset as cs
from credalset.exceptions import CredalSetWarning
from credalset.predictors import SoftLabelClassifier

DATA = cs.datasets.make_synthetic(160, n_votes=20, random_state=0)
X, Y, X_NEW = DATA.X[:80], DATA.counts[:80], DATA.X[80:]


# --- frozen parts cannot be trained per fold ---


def forest() -> FrozenEstimator:
    return FrozenEstimator(RandomForestClassifier(5, random_state=0).fit(X, Y.argmax(axis=1)))


FROZEN: dict[str, Callable[[], Any]] = {
    "alone": forest,
    "pipeline": lambda: make_pipeline(StandardScaler(), forest()),
    "nested pipeline": lambda: make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), forest())),
    "soft labels": lambda: SoftLabelClassifier(forest()),
    "soft labels in a pipeline": lambda: make_pipeline(StandardScaler(), SoftLabelClassifier(forest())),
    "one of several": lambda: VotingClassifier([("a", LogisticRegression()), ("b", forest())], voting="soft"),
    "first step": lambda: make_pipeline(FrozenEstimator(StandardScaler().fit(X)), LogisticRegression()),
    "selection": lambda: make_pipeline(
        SelectFromModel(LogisticRegression().fit(X, Y.argmax(axis=1)), prefit=True), LogisticRegression()
    ),
}


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_parts_are_refused_wherever_they_sit(name: str) -> None:
    with pytest.raises(ValueError, match="frozen or prefit, but cross_conformalize trains one per fold"):
        cs.ConformalCredalClassifier(FROZEN[name]()).cross_conformalize(X, Y)


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_prefit_modules_are_refused(in_pipeline: bool) -> None:
    torch = pytest.importorskip("torch")
    from credalset.predictors import TorchPredictor

    prefit = TorchPredictor(torch.nn.Linear(10, 3), "first", "logits", prefit=True)
    estimator = make_pipeline(StandardScaler(), prefit) if in_pipeline else prefit
    with pytest.raises(ValueError, match="frozen or prefit, but cross_conformalize trains one per fold"):
        cs.ConformalCredalClassifier(estimator).cross_conformalize(X, Y)


# --- a failure changes nothing ---


class Counting(LogisticRegression):
    """Counts how often any copy of it is fitted."""

    n_fits = 0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Counting:
        Counting.n_fits += 1
        return super().fit(X, y, sample_weight)


def state(clf: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(clf).items() if name not in clf.get_params(deep=False)}


def assert_unchanged(clf: Any, call: Callable[[], Any], message: str) -> None:
    before, expected = state(clf), clf.predict_set(X_NEW, 0.2).threshold
    with pytest.raises((TypeError, ValueError), match=message):
        call()
    assert state(clf).keys() == before.keys()
    assert all(state(clf)[name] is before[name] for name in before)
    assert np.array_equal(clf.predict_set(X_NEW, 0.2).threshold, expected)


NAMED = pd.DataFrame(np.column_stack([X, X]), columns=[f"x{i}" for i in range(20)])
BAD_ITEMS: dict[str, tuple[dict[str, Any], str]] = {
    "weights": ({"weights": np.ones(3)}, r"weights must hold one number per item \(80\)"),
    "more weights": ({"weights": np.ones(200)}, r"weights must hold one number per item \(80\)"),
    "negative weights": ({"weights": -np.ones(80)}, "weights must be finite and not negative"),
    "text for weights": ({"weights": "all"}, "weights must hold numbers, but holds text"),
    "groups": ({"groups": [0] * 79}, r"groups must hold one key per item \(80\)"),
    "more groups": ({"groups": [0] * 200}, r"groups must hold one key per item \(80\)"),
    "groups without a key": ({"groups": [None] * 80}, "groups has no key in row 0"),
    "text for groups": ({"groups": "none"}, "groups must be one key per item"),
}
BAD_CROSS: dict[str, tuple[dict[str, Any], str]] = BAD_ITEMS | {
    "exact": ({"exact": "yes"}, "exact must be True, False or None, but is 'yes'"),
    "exact as a number": ({"exact": 1}, "exact must be True, False or None, but is 1"),
    "folds": ({"folds": 5.0}, r"folds must be a whole number of folds, .* but is 5\.0"),
    "seed": ({"random_state": "x"}, "seed"),
}


def calibrated(how: str) -> Any:
    clf = deepcopy(calibrated_once(how))
    Counting.n_fits = 0
    return clf


@cache
def calibrated_once(how: str) -> Any:
    clf = cs.ConformalCredalClassifier(Counting())
    if how == "cross":
        clf.cross_conformalize(X, Y, 3, random_state=0)
    else:
        clf.fit(X[:40], Y[:40]).conformalize(X[40:], Y[40:])
    return clf


@pytest.mark.parametrize("how", ["split", "cross"])
@pytest.mark.parametrize("name", BAD_CROSS)
def test_failed_cross_conformalize(name: str, how: str) -> None:
    clf = calibrated(how)
    options, message = BAD_CROSS[name]
    assert_unchanged(clf, lambda: clf.cross_conformalize(NAMED, Y, **options), message)
    assert Counting.n_fits == 0, "arguments are checked before anything is trained"


@pytest.mark.parametrize("name", BAD_ITEMS)
def test_failed_fit_conformalize(name: str) -> None:
    clf = calibrated("split")
    options, message = BAD_ITEMS[name]
    assert_unchanged(clf, lambda: clf.fit_conformalize(NAMED, Y, **options), message)
    assert Counting.n_fits == 0, "arguments are checked before anything is trained"


@pytest.mark.parametrize("name", BAD_ITEMS)
def test_failed_conformalize(name: str) -> None:
    clf = calibrated("split")
    options, message = BAD_ITEMS[name]
    assert_unchanged(clf, lambda: clf.conformalize(X, Y, **options), message)


@pytest.mark.parametrize("how", ["split", "cross"])
def test_a_failing_estimator_leaves_the_old_ones(how: str) -> None:
    clf = calibrated(how)
    broken = X.copy()
    broken[3, 4] = np.nan
    wide = np.column_stack([broken, broken])
    for call in (clf.fit, clf.fit_conformalize, clf.cross_conformalize):
        assert_unchanged(clf, lambda call=call: call(wide, Y), "NaN")  # type: ignore[misc]
    assert_unchanged(clf, lambda: clf.cross_conformalize(X, Y[:, :2] * -1), "negative")
    if how == "split":
        assert_unchanged(clf, lambda: clf.conformalize(broken, Y), "NaN")
        assert_unchanged(clf, lambda: clf.conformalize(X, Y[:, :2]), "2 classes")


def test_noise_that_needs_counts_is_told_before_training() -> None:
    clf = cs.ConformalCredalClassifier(Counting(), noise=cs.AnnotatorSampling(0.05))
    clf.cross_conformalize(X, Y, 3, random_state=0)
    Counting.n_fits = 0
    shares = Y / 20
    for call in (clf.cross_conformalize, clf.fit_conformalize):
        assert_unchanged(
            clf,
            lambda call=call: call(X, shares),
            "needs annotation counts, but Y holds distributions",  # type: ignore[misc]
        )
    assert Counting.n_fits == 0


def test_a_failed_conformalize_adopts_no_estimator() -> None:
    clf = cs.ConformalCredalClassifier(SoftLabelClassifier().fit(X, Y))
    with pytest.raises(ValueError, match="Y has 2 classes"):
        clf.conformalize(X, Y[:, :2])
    assert state(clf) == {}


def test_features_that_made_no_sense_are_not_remembered() -> None:
    clf = cs.ConformalCredalClassifier(SoftLabelClassifier().fit(X, Y)).conformalize(X, Y)
    with pytest.raises(ValueError, match="features"):
        clf.predict_set(X_NEW[:, :3], 0.2)
    assert len(clf.predict_set(X_NEW, 0.2)) == 80


def test_noise_that_changes_asks_for_a_new_calibration(tmp_path: Any) -> None:
    clf = cs.ConformalCredalClassifier(LogisticRegression(), noise=cs.AnnotatorSampling(0.05)).fit(X[:40], Y[:40])
    clf.conformalize(X[40:], Y[40:]).set_params(noise=None)
    for call in (lambda: clf.predict_set(X_NEW, 0.2), lambda: clf.save(tmp_path / "c")):
        with pytest.raises(NotFittedError, match=r"noise is None, but the calibration was made with AnnotatorSampling"):
            call()
    assert not (tmp_path / "c").exists(), "what could not be loaded is not written"


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
    with pytest.raises(ValueError, match=r"must predict the 3 classes of Y each, but predict items of shapes \[\(2,\)"):
        cs.ConformalCredalClassifier(FewerColumns()).cross_conformalize(X, labels, folds)


def test_class_names_must_differ() -> None:
    twice = pd.DataFrame(Y, columns=["a", "a", "b"])
    with pytest.raises(ValueError, match="Y names a class twice"):
        cs.ConformalCredalClassifier(LogisticRegression()).fit(X, twice)


# --- what folds may be ---


def test_splitters_make_the_folds() -> None:
    clf = cs.ConformalCredalClassifier(LogisticRegression())
    plain = clf.cross_conformalize(X, Y, KFold(4)).calibration_
    assert plain.folds.tolist() == np.repeat(np.arange(4), 20).tolist()
    shuffled = clf.cross_conformalize(X, Y, KFold(4, shuffle=True, random_state=3)).calibration_
    assert shuffled.folds.tolist() == clf.cross_conformalize(X, Y, 4, random_state=3).calibration_.folds.tolist()
    own = clf.cross_conformalize(X, Y, PredefinedSplit(np.arange(80) % 3)).calibration_
    assert own.folds.tolist() == (np.arange(80) % 3).tolist()
    assert clf.cross_conformalize(X[:12], Y[:12], LeaveOneOut()).calibration_.n_folds == 12


@pytest.mark.parametrize(
    ("folds", "kind", "message"),
    [
        (5.0, TypeError, r"a whole number of folds, .*, but is 5\.0"),
        (None, TypeError, "a whole number of folds, .*, but is None"),
        (True, TypeError, "a whole number of folds, .*, but is True"),
        ("5", TypeError, "a whole number of folds, .*, but is '5'"),
        (KFold(81), ValueError, "cannot split 80 items"),
        (StratifiedKFold(3), ValueError, r"StratifiedKFold\(.*cannot split 80 items without their labels or groups"),
        (ShuffleSplit(3), ValueError, "does not hold out every item exactly once"),
        (TimeSeriesSplit(3), ValueError, "does not hold out every item exactly once"),
        (PredefinedSplit([-1] * 79 + [0]), ValueError, "does not hold out every item exactly once"),
        (PredefinedSplit([0] * 80), ValueError, "at least two"),
        (np.zeros(80), ValueError, r"array of shape \(80,\) and dtype float64"),
        ([[0, 1], [1]], ValueError, "one whole number per item"),
    ],
    ids=repr,
)
def test_odd_folds(folds: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        cs.ConformalCredalClassifier(LogisticRegression()).cross_conformalize(X, Y, folds)


# --- densities that are trained off the boundary by one amount and read by another ---


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_pulls_that_differ_are_told(in_pipeline: bool, recwarn: pytest.WarningsRecorder) -> None:
    pytest.importorskip("torch")
    from credalset.predictors import DirichletMixtureNetwork

    def estimator(pull: float) -> Any:
        network = DirichletMixtureNetwork((4,), n_components=2, pull=pull, epochs=1, random_state=0)
        return make_pipeline(StandardScaler(), network) if in_pipeline else network

    advice = re.escape("has pull=0.05, but the score reads its densities with pull=0.001") + ".*"
    advice += re.escape("Use nonconformity=NegativeLogDensity(pull=0.05).")
    clf = cs.ConformalCredalClassifier(estimator(0.05), "density")
    with pytest.warns(CredalSetWarning, match=advice) as seen:
        clf.fit(X, Y)
    assert [warning.filename for warning in seen] == [__file__]
    fitted = clf.estimator_
    with pytest.warns(CredalSetWarning, match=advice):
        clf.conformalize(X, Y)
    for prefit in (fitted, *([] if in_pipeline else [FrozenEstimator(fitted)])):
        with pytest.warns(CredalSetWarning, match=advice):
            cs.ConformalCredalClassifier(prefit, "density").conformalize(X, Y)
    with pytest.warns(CredalSetWarning, match=advice):
        clf.cross_conformalize(X, Y, 2)
    recwarn.clear()
    remedy = cs.scores.NegativeLogDensity(pull=0.05)
    cs.ConformalCredalClassifier(estimator(0.05), remedy).fit(X[:9], Y[:9]).conformalize(X[9:], Y[9:])
    cs.ConformalCredalClassifier(estimator(1e-3), "density").fit(X[:9], Y[:9]).conformalize(X[9:], Y[9:])
    cs.ConformalCredalClassifier(estimator(0.05), "tv").fit(X[:9], Y[:9]).conformalize(X[9:], Y[9:])
    of_counts = estimator(0.05).set_params(**{"dirichletmixturenetwork__" * in_pipeline + "likelihood": "counts"})
    cs.ConformalCredalClassifier(of_counts, "density").fit(X[:9], Y[:9]).conformalize(X[9:], Y[9:])
    assert not recwarn.list


def test_balls_are_refused_before_mixtures_are_trained() -> None:
    pytest.importorskip("torch")
    from credalset.predictors import DirichletMixtureNetwork

    class Untrainable(DirichletMixtureNetwork):
        def fit(self, X: Any, Y: Any) -> Any:
            raise AssertionError("trained before the arguments were checked")

    clf = cs.ConformalCredalClassifier(Untrainable(), "density")
    with pytest.raises(ValueError, match="exact is False, but no balls are known"):
        clf.cross_conformalize(X, Y, exact=False)
    clf.set_params(noise=cs.UnbiasedVotes())
    with pytest.raises(ValueError, match="'density' is not for these predictions"):
        clf.fit_conformalize(X, Y)
