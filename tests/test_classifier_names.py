"""Labels meet features by name where both have names, by position where neither has,
and never by guessing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import credalset as cs
from credalset import ConformalCredalClassifier, SoftLabelClassifier

DATA = cs.datasets.make_synthetic(300, n_classes=3, n_votes=50, random_state=0)
ITEMS = [f"t{i}" for i in range(300)]
X = pd.DataFrame(DATA.X, index=ITEMS)
VOTES = cs.Annotations.from_counts(DATA.counts, classes=["a", "b", "c"], items=ITEMS)
ORDER = np.random.default_rng(1).permutation(300)
SHUFFLED = VOTES[ORDER]
OURS = [SoftLabelClassifier, ConformalCredalClassifier]


def error(model: Any) -> float:
    return float(np.abs(model.predict_proba(DATA.X) - DATA.distributions).sum(axis=1).mean() / 2)


class InnerModel(TransformerMixin, BaseEstimator):
    """Replaces features by what a model of its own predicts,
    which it trains on rows in an order of its own.
    """

    def fit(self, X: Any, y: Any) -> InnerModel:
        rows = np.random.default_rng(0).permutation(len(X))
        self.model_ = SoftLabelClassifier().fit(
            np.asarray(X)[rows], y.iloc[rows] if hasattr(y, "iloc") else y[rows]
        )
        return self

    def transform(self, X: Any) -> np.ndarray:
        return np.asarray(self.model_.predict_proba(np.asarray(X)))


@pytest.mark.parametrize("named", [False, True])
def test_a_model_inside_a_pipeline_keeps_the_order_of_its_own_rows(named: bool) -> None:
    features, labels = (X, VOTES) if named else (pd.DataFrame(DATA.X), pd.DataFrame(DATA.counts))
    pipeline = make_pipeline(InnerModel(), StandardScaler())
    if named:
        with pytest.raises(ValueError, match="Y names its"):
            pipeline.fit(features, labels)
        labels = labels.align(X.index).counts
    assert error(pipeline.fit(features, labels)[0].model_) < 0.05


@pytest.mark.parametrize("make", OURS)
def test_names_count_where_both_sides_have_them(make: Any) -> None:
    model = make(make_pipeline(StandardScaler(), LogisticRegression()))
    expected = clone(model).fit(X, DATA.counts).predict_proba(X)
    for labels in (SHUFFLED, pd.DataFrame(DATA.counts, index=ITEMS).iloc[ORDER]):
        np.testing.assert_allclose(model.fit(X, labels).predict_proba(X), expected, rtol=1e-12)
        assert model.score(X, labels) == pytest.approx(model.score(X, DATA.counts), rel=1e-12)


@pytest.mark.parametrize("make", OURS)
@pytest.mark.parametrize("labels", [SHUFFLED, SHUFFLED.to_frame()], ids=["votes", "frame"])
def test_names_that_only_the_labels_have_are_refused(make: Any, labels: Any) -> None:
    model = make(LogisticRegression())
    for features in (DATA.X, X.reset_index(drop=True)):
        with pytest.raises(ValueError, match="Y names its"):
            model.fit(features, labels)
    with pytest.raises(ValueError, match="Y names its"):
        make_pipeline(StandardScaler(), model).fit(X, labels)
    with pytest.raises(ValueError, match="Y names its"):
        model.fit(X, VOTES).score(DATA.X, labels)
    remedied = make_pipeline(StandardScaler(), model).fit(X, SHUFFLED.align(X.index).counts)
    assert error(remedied) < 0.05


@pytest.mark.parametrize("make", OURS)
def test_unnamed_labels_go_by_position(make: Any) -> None:
    model = make(LogisticRegression())
    expected = clone(model).fit(DATA.X, DATA.counts).predict_proba(DATA.X)
    for features in (DATA.X, X):
        for labels in (
            DATA.counts,
            pd.DataFrame(DATA.counts),
            cs.Annotations.from_counts(DATA.counts),
        ):
            np.testing.assert_allclose(
                model.fit(features, labels).predict_proba(features), expected, rtol=1e-12
            )
    series = pd.Series(DATA.counts.argmax(axis=1))
    assert (cross_val_score(model, DATA.X, series, cv=3) > -1.0).all(), (
        "subsets of a default index name nothing"
    )


def test_numbers_in_another_order_are_warned_of() -> None:
    """A series that was shuffled, beside features without names, which keep their order."""
    shuffled = pd.Series(DATA.counts.argmax(axis=1)).iloc[ORDER]
    for features in (DATA.X, pd.DataFrame(DATA.X)):
        with pytest.warns(cs.CredalSetWarning, match="items of Y and X are matched by position"):
            SoftLabelClassifier().fit(features, shuffled)


DROP_THE_INDEX = [
    BaggingClassifier(SoftLabelClassifier(), 2, random_state=0),
    StackingClassifier([("soft", SoftLabelClassifier())], cv=2),
    VotingClassifier([("soft", SoftLabelClassifier())], voting="soft"),
    VotingClassifier(
        [("one", SoftLabelClassifier()), ("two", ConformalCredalClassifier(LogisticRegression()))],
        n_jobs=2,
    ),
]
KEEP_THE_INDEX = [
    CalibratedClassifierCV(SoftLabelClassifier(), cv=2),
    CalibratedClassifierCV(ConformalCredalClassifier(LogisticRegression()), cv=2),
    GridSearchCV(SoftLabelClassifier(), {}, cv=2, error_score="raise"),
]
SERIES = pd.Series(DATA.counts.argmax(axis=1), index=ITEMS)


@pytest.mark.parametrize(
    "outer", [*DROP_THE_INDEX, *KEEP_THE_INDEX], ids=lambda outer: type(outer).__name__
)
def test_meta_estimators_cannot_misalign_votes(outer: Any) -> None:
    """Votes and frames of counts in another order are refused, by scikit-learn or by us;
    aligned labels are right.
    """
    for votes in (SHUFFLED, SHUFFLED.to_frame()):
        with parallel_config("threading"), pytest.raises((ValueError, NotImplementedError)):
            clone(outer).fit(X, votes)
    labels = SHUFFLED.align(X.index).counts.argmax(axis=1)
    with parallel_config("threading"):
        assert (clone(outer).fit(X, labels).predict(X) == SERIES).mean() > 0.8


@pytest.mark.parametrize("outer", KEEP_THE_INDEX, ids=lambda outer: type(outer).__name__)
def test_series_in_another_order_are_refused(outer: Any) -> None:
    with pytest.raises(ValueError, match="of X have no Y"):
        clone(outer).fit(X, SERIES.iloc[ORDER])


@pytest.mark.parametrize("outer", DROP_THE_INDEX[:3], ids=lambda outer: type(outer).__name__)
def test_series_whose_index_scikit_learn_drops(outer: Any) -> None:
    """Nothing of ours sees their names: the guide says so."""
    series = SERIES.iloc[ORDER]
    expected = clone(outer).fit(X, series.to_numpy()).predict(X)
    assert (clone(outer).fit(X, series).predict(X) == expected).all()
    assert "drop the index" in Path("docs/learners.md").read_text()


def test_parallel_searches_match_names() -> None:
    model = SoftLabelClassifier(make_pipeline(StandardScaler(), LogisticRegression()))
    expected = cross_val_score(model, X, DATA.counts, cv=2)
    with parallel_config("threading"):
        np.testing.assert_allclose(
            cross_val_score(model, X, VOTES, cv=2, n_jobs=2), expected, rtol=1e-12
        )
    with pytest.raises(ValueError, match="of X have no Y"):
        cross_val_score(model, X, SHUFFLED, cv=2, error_score="raise")
