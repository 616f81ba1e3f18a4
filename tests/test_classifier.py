"""The classifier: three steps, any estimator, names of classes, failures that change nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_matrix
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import credalset as cs
from credalset import ConformalCredalClassifier, SoftLabelClassifier

DATA = cs.datasets.make_synthetic(900, n_classes=3, n_votes=20, random_state=0)
TRAIN, CALIB, TEST = slice(0, 300), slice(300, 600), slice(600, 900)


def fitted(estimator: object = None, score: str = "tv") -> ConformalCredalClassifier:
    clf = ConformalCredalClassifier(
        SoftLabelClassifier() if estimator is None else estimator, score
    )
    return clf.fit(DATA.X[TRAIN], DATA.counts[TRAIN]).conformalize(
        DATA.X[CALIB], DATA.counts[CALIB]
    )


@parametrize_with_checks([ConformalCredalClassifier(LogisticRegression())])
def test_scikit_learn_estimator_checks(estimator: object, check: object) -> None:
    """The estimator inside is a `SoftLabelClassifier`: what it is asked goes through both."""
    check(estimator)  # type: ignore[operator]


@pytest.mark.slow
@parametrize_with_checks([SoftLabelClassifier()])
def test_scikit_learn_estimator_checks_without_sets(estimator: object, check: object) -> None:
    """Most of this goes the way of `test_scikit_learn_estimator_checks`."""
    check(estimator)  # type: ignore[operator]


@pytest.mark.parametrize("score", ["tv", "ws", "kl", "inner", "normalized"])
def test_the_three_steps(score: str) -> None:
    clf = fitted(score=score)
    sets = clf.predict_set(DATA.X[TEST], alpha=0.2)
    assert len(sets) == 300
    observed = cs.metrics.coverage(sets, DATA.counts[TEST])
    assert observed.low <= 0.8 <= observed.high or abs(observed - 0.8) < 0.06
    assert clf.predict_proba(DATA.X[TEST]).shape == (300, 3)
    assert set(clf.predict(DATA.X[TEST])) <= {0, 1, 2}


def test_soft_labels_recover_the_truth() -> None:
    """Logistic regression on soft labels is the true model of the synthetic data."""
    data = cs.datasets.make_synthetic(5000, n_classes=3, n_votes=200, random_state=1)
    model = SoftLabelClassifier(LogisticRegression(C=1e6, max_iter=2000)).fit(data.X, data.counts)
    error = np.abs(model.predict_proba(data.X) - data.distributions).sum(axis=1).mean() / 2
    assert error < 0.005


def test_soft_labels_equal_repeated_votes() -> None:
    """Weights λ_k give the same fit as one row per vote."""
    X, counts = DATA.X[:50], DATA.counts[:50]
    rows = np.repeat(np.arange(50), 20)
    votes = np.concatenate([np.repeat(np.arange(3), c) for c in counts])
    base = LogisticRegression(C=20.0, tol=1e-10, max_iter=5000)
    soft = SoftLabelClassifier(base).fit(X, counts, sample_weight=np.full(50, 20.0))
    assert soft.predict_proba(X) == pytest.approx(
        clone(base).fit(X[rows], votes).predict_proba(X), abs=1e-6
    )


def test_classes_without_mass_get_probability_zero() -> None:
    model = SoftLabelClassifier().fit(
        DATA.X[:50], np.column_stack([DATA.counts[:50, :2] + 1, np.zeros(50)])
    )
    assert (model.predict_proba(DATA.X)[:, 2] == 0).all()


def test_plain_classifiers_and_pipelines_are_wrapped() -> None:
    for estimator in (
        RandomForestClassifier(10, random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), SoftLabelClassifier(LogisticRegression())),
    ):
        assert len(fitted(estimator).predict_set(DATA.X[TEST], 0.1)) == 300


def test_a_fitted_estimator_needs_no_fit() -> None:
    model = SoftLabelClassifier().fit(DATA.X[TRAIN], DATA.counts[TRAIN])
    plain = LogisticRegression().fit(DATA.X[TRAIN], DATA.counts[TRAIN].argmax(axis=1))
    for estimator in (model, plain, FrozenEstimator(model)):
        clf = ConformalCredalClassifier(estimator, "kl").conformalize(
            DATA.X[CALIB], DATA.counts[CALIB]
        )
        assert clf.estimator_ is estimator
        assert np.array_equal(
            clf.predict_proba(DATA.X[TEST]), estimator.predict_proba(DATA.X[TEST])
        )


class ConstantDirichlet:
    """A second-order predictor that has nothing to fit."""

    def predict_concentration(self, X: np.ndarray) -> np.ndarray:
        return np.tile([4.0, 3.0, 2.0], (len(X), 1))


@pytest.mark.parametrize("score", ["so", "density"])
def test_second_order_estimators(score: str) -> None:
    clf = ConformalCredalClassifier(ConstantDirichlet(), score).conformalize(
        DATA.X[CALIB], DATA.distributions[CALIB]
    )
    assert clf.predict_proba(DATA.X[:2]) == pytest.approx(np.tile([4 / 9, 3 / 9, 2 / 9], (2, 1)))
    observed = cs.metrics.coverage(clf.predict_set(DATA.X[TEST], 0.2), DATA.distributions[TEST])
    assert abs(observed - 0.8) < 0.08


def test_scores_and_estimators_of_different_order() -> None:
    model = LogisticRegression().fit(DATA.X, DATA.counts.argmax(axis=1))
    with pytest.raises(
        TypeError, match="needs an estimator with predict_concentration, but LogisticRegression"
    ):
        ConformalCredalClassifier(model, "so").conformalize(DATA.X, DATA.counts)
    with pytest.raises(TypeError, match="needs an estimator with predict_proba"):
        ConformalCredalClassifier(ConstantDirichlet(), "tv").conformalize(DATA.X, DATA.counts)


def test_steps_out_of_order() -> None:
    clf = ConformalCredalClassifier(LogisticRegression())
    with pytest.raises(NotFittedError, match="no fitted estimator"):
        clf.conformalize(DATA.X, DATA.counts)
    with pytest.raises(NotFittedError, match="not calibrated"):
        clf.fit(DATA.X, DATA.counts).predict_set(DATA.X)
    calibrated = fitted()
    calibrated.fit(DATA.X[TRAIN], DATA.counts[TRAIN])
    with pytest.raises(NotFittedError, match="not calibrated"):
        calibrated.predict_set(DATA.X)


def test_estimators_that_cannot_take_weights() -> None:
    with pytest.raises(TypeError, match="KNeighborsClassifier does not"):
        ConformalCredalClassifier(KNeighborsClassifier()).fit(DATA.X, DATA.counts)
    with pytest.raises(TypeError, match="StandardScaler has none"):
        SoftLabelClassifier(StandardScaler()).fit(DATA.X, DATA.counts)


def test_class_names_and_their_order() -> None:
    names = ["no", "maybe", "yes"]
    votes = cs.Annotations.from_counts(DATA.counts, classes=names)
    clf = ConformalCredalClassifier(LogisticRegression()).fit(DATA.X[TRAIN], votes[TRAIN])
    assert clf.classes_.tolist() == names
    clf.conformalize(DATA.X[CALIB], votes[CALIB])
    expected = clf.calibration_.scores
    frame = pd.DataFrame(DATA.counts, columns=names)[["maybe", "no", "yes"]]
    assert np.array_equal(
        clf.conformalize(DATA.X[CALIB], frame[CALIB]).calibration_.scores, expected
    )
    with pytest.raises(
        ValueError, match="Y and the fitted model name different classes: there is no 'perhaps'"
    ):
        clf.conformalize(DATA.X[CALIB], frame.rename(columns={"yes": "perhaps"})[CALIB])
    assert clf.calibration_.classes == tuple(names)
    assert set(clf.predict(DATA.X)) <= set(names)
    assert clf.predict_set(DATA.X[:2]).classes == tuple(names)
    with pytest.raises(ValueError, match="2 classes"):
        clf.conformalize(DATA.X[CALIB], DATA.counts[CALIB][:, :2] + 1)


def test_plain_labels_are_single_votes() -> None:
    labels = np.array(["a", "b", "c"])[DATA.counts.argmax(axis=1)]
    clf = (
        ConformalCredalClassifier(LogisticRegression())
        .fit(DATA.X[TRAIN], labels[TRAIN])
        .conformalize(DATA.X[CALIB], labels[CALIB])
    )
    assert (clf.predict(DATA.X[TEST]) == labels[TEST]).mean() > 0.7
    with pytest.raises(ValueError, match="label 'z'"):
        clf.conformalize(DATA.X[:2], ["a", "z"])


def test_evaluate_rows() -> None:
    rows = fitted(score="kl").evaluate(DATA.X[TEST], DATA.counts[TEST], alpha=[0.05, 0.1, 0.2])
    assert [row["nominal"] for row in rows] == [0.95, 0.9, 0.8]
    assert all(row["coverage_low"] <= row["coverage"] <= row["coverage_high"] for row in rows)
    assert rows[0]["threshold"] > rows[2]["threshold"]
    assert len(pd.DataFrame(rows)) == 3
    assert len(fitted().evaluate(DATA.X[TEST], DATA.counts[TEST], alpha=0.1)) == 1


def test_parameters_and_clone() -> None:
    clf = ConformalCredalClassifier(SoftLabelClassifier(LogisticRegression(C=2.0)), "kl")
    assert clf.get_params()["estimator__base__C"] == 2.0
    twin = clone(clf).set_params(estimator__base__C=3.0, nonconformity="ws")
    assert twin.estimator.base.C == 3.0
    assert clf.estimator.base.C == 2.0
    assert not hasattr(twin, "estimator_")


def test_cross_validation_runs() -> None:
    labels = DATA.counts.argmax(axis=1)
    scores = cross_val_score(
        ConformalCredalClassifier(LogisticRegression()),
        DATA.X,
        labels,
        cv=3,
        scoring="neg_log_loss",
    )
    assert (scores > -1.0).all()


def test_split_sizes_and_errors() -> None:
    parts = cs.train_conformalize_test_split(
        DATA.X, DATA.counts, train_size=0.5, conformalize_size=100, test_size=0.25, random_state=0
    )
    assert [len(part) for part in parts] == [450, 100, 225] * 2
    together = np.concatenate(parts[:3])
    assert len(np.unique(together, axis=0)) == 775
    order = {tuple(x): c for x, c in zip(DATA.X, DATA.counts, strict=True)}
    assert all((order[tuple(x)] == y).all() for x, y in zip(parts[2], parts[5], strict=True))
    for sizes, name in [
        ((800, 100, 1), "add up to 901"),
        ((0, 100, 1), "train_size"),
        ((1.5, 0.1, 1), "train_size"),
    ]:
        named = dict(zip(("train_size", "conformalize_size", "test_size"), sizes, strict=True))
        with pytest.raises(ValueError, match=name):
            cs.train_conformalize_test_split(DATA.X, DATA.counts, **named)
    with pytest.raises(ValueError, match="X has 900 items, but Y has 10"):
        cs.train_conformalize_test_split(DATA.X, DATA.counts[:10])


def test_splits_match_names() -> None:
    names = [f"t{i}" for i in range(900)]
    frame, votes = (
        pd.DataFrame(DATA.X, index=names),
        cs.Annotations.from_counts(DATA.counts, items=names),
    )
    X_train, _, _, Y_train, _, Y_test = cs.train_conformalize_test_split(
        frame, votes[::-1], random_state=0
    )
    assert isinstance(Y_test, cs.Annotations)
    assert Y_train.items == tuple(X_train.index)


def test_a_changed_score_needs_a_new_calibration() -> None:
    clf = fitted(LogisticRegression(), score="kl").set_params(nonconformity="tv")
    with pytest.raises(NotFittedError, match="the calibration was made with KullbackLeibler"):
        clf.predict_set(DATA.X[TEST])


# --- a failure changes nothing ---


def state(clf: Any) -> dict[str, Any]:
    return {
        name: value for name, value in vars(clf).items() if name not in clf.get_params(deep=False)
    }


def assert_unchanged(clf: Any, call: Callable[[], Any], message: str) -> None:
    before, expected = state(clf), clf.predict_set(DATA.X[TEST], 0.2).threshold
    with pytest.raises((TypeError, ValueError), match=message):
        call()
    assert state(clf).keys() == before.keys()
    assert all(state(clf)[name] is before[name] for name in before)
    assert np.array_equal(clf.predict_set(DATA.X[TEST], 0.2).threshold, expected)


def test_failures_leave_what_was_fitted_before() -> None:
    clf = fitted(LogisticRegression())
    broken = np.column_stack([DATA.X, DATA.X])
    broken[3, 4] = np.nan
    X, Y = DATA.X[CALIB], DATA.counts[CALIB]
    assert_unchanged(clf, lambda: clf.fit(broken, DATA.counts), "NaN")
    assert_unchanged(clf, lambda: clf.cross_conformalize(broken, DATA.counts), "NaN")
    assert_unchanged(clf, lambda: clf.conformalize(broken[:, :10], DATA.counts), "NaN")
    assert_unchanged(clf, lambda: clf.conformalize(X, Y[:, :2] + 1), "2 classes")
    assert_unchanged(clf, lambda: clf.conformalize(X, Y, weights=np.ones(3)), "weights")
    assert_unchanged(clf, lambda: clf.conformalize(X, Y, groups=[0] * 299), "groups")
    assert_unchanged(clf, lambda: clf.conformalize(X, Y - 1), "negative")


def test_a_failed_conformalize_adopts_no_estimator() -> None:
    clf = ConformalCredalClassifier(SoftLabelClassifier().fit(DATA.X, DATA.counts))
    with pytest.raises(ValueError, match="Y has 2 classes"):
        clf.conformalize(DATA.X, DATA.counts[:, :2] + 1)
    assert state(clf) == {}
    clf.conformalize(DATA.X[CALIB], DATA.counts[CALIB])
    with pytest.raises(ValueError, match="features"):
        clf.predict_set(DATA.X[TEST, :3])
    assert len(clf.predict_set(DATA.X[TEST])) == 300


# --- texts, sparse features, items used before ---


def test_models_of_texts() -> None:
    texts = pd.Series(
        [("good " * c[0] + "bad " * c[1] + "so " * c[2]) for c in DATA.counts], name="message"
    )
    clf = ConformalCredalClassifier(make_pipeline(CountVectorizer(), LogisticRegression()))
    clf.fit(texts[TRAIN], DATA.counts[TRAIN]).conformalize(texts[CALIB], DATA.counts[CALIB])
    assert clf.text_name_in_ == "message"
    assert len(clf.predict_set(list(texts[TEST]))) == 300
    with pytest.raises(TypeError, match="cannot read X"):
        clf.predict_set(DATA.X[TEST])
    with pytest.raises(ValueError, match="one column of texts"):
        clf.predict_set(texts[TEST].to_frame())
    clf.set_params(estimator=LogisticRegression()).fit(DATA.X, DATA.counts)
    assert not hasattr(clf, "text_name_in_")
    with pytest.raises(ValueError, match="X holds texts"):
        clf.predict_proba(texts)


def test_sparse_features() -> None:
    clf = ConformalCredalClassifier(LogisticRegression()).fit(
        coo_matrix(DATA.X[TRAIN]), DATA.counts[TRAIN]
    )
    clf.conformalize(coo_matrix(DATA.X[CALIB]), DATA.counts[CALIB])
    expected = fitted(LogisticRegression(), "kl").predict_set(DATA.X[TEST])
    assert clf.predict_set(coo_matrix(DATA.X[TEST])).threshold == pytest.approx(
        expected.threshold, rel=1e-3
    )


def test_items_of_fit_are_remembered_by_name() -> None:
    frame = pd.DataFrame(DATA.X, index=[f"t{i}" for i in range(900)])
    clf = ConformalCredalClassifier(LogisticRegression()).fit(frame[TRAIN], DATA.counts[TRAIN])
    assert clf.items_ == tuple(frame.index[TRAIN])
    with pytest.warns(cs.CredalSetWarning, match="10 of 300 items were used in fit"):
        clf.conformalize(frame[290:590], DATA.counts[290:590])
    with warnings.catch_warnings():
        warnings.simplefilter("error", cs.CredalSetWarning)
        clf.conformalize(frame[CALIB], DATA.counts[CALIB])
    verdicts = [
        clf.evaluate(frame[part], DATA.counts[part], 0.2)[0]["verdict"]
        for part in (TRAIN, CALIB, TEST)
    ]
    assert verdicts == ["not tested", "not tested", "valid"]
    assert fitted().items_ is None


def test_masked_values_are_refused() -> None:
    """Of features, labels, weights and folds: NumPy takes what is below the mask for data."""
    X, y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    hidden, one = np.ma.array(X, mask=X > 6), np.ma.array(y, mask=[0, 0, 0, 1])
    model, classifier = cs.SoftLabelClassifier().fit(X, y), cs.ConformalCredalClassifier().fit(X, y)
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("X", lambda: model.fit(hidden, y)),
        ("X", lambda: model.predict_proba(hidden)),
        ("X", lambda: model.predict_proba(list(hidden))),
        ("X", lambda: classifier.fit(hidden, y)),
        ("X", lambda: classifier.conformalize(hidden, y)),
        ("X", lambda: classifier.predict_proba(hidden)),
        ("Y", lambda: model.fit(X, one)),
        ("sample_weight", lambda: model.fit(X, y, one)),
        ("sample_weight", lambda: model.score(X, y, one)),
        ("folds", lambda: classifier.cross_conformalize(X, y, folds=one)),
    ]
    for name, call in calls:
        with pytest.raises(ValueError, match=f"{name} has masked values"):
            call()
