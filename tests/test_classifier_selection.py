"""scikit-learn's model selection on label distributions and counts,
and several scores on one model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import credalset as cs
from credalset import Annotations, ConformalCredalClassifier, SoftLabelClassifier, metrics

DATA = cs.datasets.make_synthetic(300, n_classes=3, n_votes=20, random_state=0)
X, COUNTS = DATA.X, DATA.counts
SHARES = COUNTS / 20
GRID = [1e-6, 1.0]


def soft_cross_entropy(p: np.ndarray, y: np.ndarray) -> float:
    return float(-(y * np.log(p)).sum(axis=1).mean())


# --- score ---


@pytest.mark.parametrize("make", [ConformalCredalClassifier, SoftLabelClassifier])
def test_score_is_minus_the_soft_cross_entropy(make: Any) -> None:
    model = make(LogisticRegression()).fit(X[:200], COUNTS[:200])
    expected = -soft_cross_entropy(model.predict_proba(X[200:]), SHARES[200:])
    for Y in (COUNTS[200:], SHARES[200:], cs.Annotations.from_counts(COUNTS[200:])):
        assert model.score(X[200:], Y) == pytest.approx(expected, rel=1e-12)
    weights = np.arange(1.0, 101.0)
    own = -(SHARES[200:] * np.log(model.predict_proba(X[200:]))).sum(axis=1)
    assert model.score(X[200:], COUNTS[200:], weights) == pytest.approx(
        -np.average(own, weights=weights), rel=1e-12
    )


def test_score_goes_by_names() -> None:
    frame = pd.DataFrame(COUNTS, columns=["no", "maybe", "yes"])
    model = ConformalCredalClassifier(LogisticRegression()).fit(X, frame)
    assert model.score(X, frame[["yes", "no", "maybe"]]) == pytest.approx(
        model.score(X, frame), rel=1e-12
    )
    assert model.score(X, frame) == pytest.approx(model.score(X, COUNTS), rel=1e-12)


def test_score_of_hard_labels_is_the_log_loss() -> None:
    labels = np.array(["a", "b", "c"])[COUNTS.argmax(axis=1)]
    model = ConformalCredalClassifier(LogisticRegression()).fit(X, labels)
    assert model.score(X, labels) == pytest.approx(
        -log_loss(labels, model.predict_proba(X)), rel=1e-12
    )


def test_probabilities_of_zero_cost_much_but_not_everything() -> None:
    loss = metrics.soft_log_loss([[0, 1], [1, 0]], [[1.0, 0.0], [1.0, 0.0]])
    assert loss == pytest.approx(-0.5 * np.log(np.finfo(float).eps), rel=1e-12)


# --- searches ---


@pytest.mark.parametrize(
    ("make", "Y"),
    [
        (SoftLabelClassifier, COUNTS),
        (SoftLabelClassifier, SHARES),
        (ConformalCredalClassifier, COUNTS),
        (ConformalCredalClassifier, pd.DataFrame(COUNTS, columns=["a", "b", "c"])),
    ],
    ids=["n", "share", "sets, n", "sets, frame"],
)
def test_cross_val_score_and_searches_on_counts(make: Any, Y: Any) -> None:
    scores = cross_val_score(make(LogisticRegression()), X, Y, cv=3)
    assert np.isfinite(scores).all()
    assert (scores > -1.1).all()
    name = "base__C" if make is SoftLabelClassifier else "estimator__C"
    search = GridSearchCV(make(LogisticRegression()), {name: GRID}, cv=3).fit(X, Y)
    assert search.best_params_ == {name: 1.0}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_losses_of_predictions_come_with_intervals() -> None:
    p = SoftLabelClassifier().fit(X, COUNTS).predict_proba(X)
    loss = metrics.soft_log_loss(COUNTS, p)
    assert loss == pytest.approx(soft_cross_entropy(p, SHARES), rel=1e-12)
    assert loss.low < loss < loss.high
    assert metrics.soft_brier(SHARES, p) == pytest.approx(
        ((p - SHARES) ** 2).sum(axis=1).mean(), rel=1e-12
    )
    named = pd.DataFrame(p, columns=["a", "b", "c"])
    other = pd.DataFrame(COUNTS, columns=["a", "b", "c"])[["c", "a", "b"]]
    assert metrics.soft_log_loss(other, named) == pytest.approx(loss, rel=1e-12)
    with pytest.raises(ValueError, match="votes must have one row for each item of predictions"):
        metrics.soft_log_loss(COUNTS[1:], p)


@pytest.mark.parametrize("loss", [metrics.soft_log_loss, metrics.soft_brier])
def test_losses_are_metrics_of_scikit_learn(loss: Any) -> None:
    model, scorer = (
        SoftLabelClassifier().fit(X, COUNTS),
        make_scorer(loss, greater_is_better=False, response_method="predict_proba"),
    )
    assert scorer(model, X, SHARES) == pytest.approx(
        -loss(SHARES, model.predict_proba(X)), rel=1e-12
    )


@pytest.mark.parametrize("kind", ["grid", "random", "pipeline"])
def test_a_search_as_the_inner_estimator(kind: str) -> None:
    soft = SoftLabelClassifier(LogisticRegression())
    search = {
        "grid": GridSearchCV(soft, {"base__C": GRID}, cv=3),
        "random": RandomizedSearchCV(soft, {"base__C": GRID}, n_iter=2, cv=3, random_state=0),
        "pipeline": GridSearchCV(
            make_pipeline(StandardScaler(), soft), {"softlabelclassifier__base__C": GRID}, cv=3
        ),
    }[kind]
    clf = (
        ConformalCredalClassifier(search, "kl")
        .fit(X[:200], COUNTS[:200])
        .conformalize(X[200:], COUNTS[200:])
    )
    assert list(clf.estimator_.best_params_.values()) == [1.0]
    assert clf.predict_set(X[:5], alpha=0.2).contains(SHARES[:5]).shape == (5,)
    assert not hasattr(search, "best_params_"), "the search that was given stays as it is"


def test_a_search_that_would_have_rows_of_one_item_in_two_folds_is_refused() -> None:
    with pytest.raises(ValueError, match=r"GridSearchCV\(SoftLabelClassifier"):
        ConformalCredalClassifier(GridSearchCV(LogisticRegression(), {"C": GRID})).fit(X, COUNTS)


# --- searches over classifiers, with votes as a table ---


def table_of_votes(n: int = 90) -> tuple[Any, Any]:
    """Named features, and a row per vote, in another order."""
    items = [f"t{i:03d}" for i in range(n)]
    item, label = np.nonzero(COUNTS[:n])
    times = COUNTS[item, label].astype(int)
    rows = pd.DataFrame({"task": np.array(items)[item], "label": np.array(["a", "b", "c"])[label]})
    rows = rows.loc[rows.index.repeat(times)].sample(frac=1, random_state=0)
    rows["worker"] = [f"w{i}" for i in range(len(rows))]
    return pd.DataFrame(X[:n], items), rows[["task", "worker", "label"]]


def test_a_search_over_the_classifier_with_votes_as_a_table() -> None:
    frame, rows = table_of_votes()
    votes = Annotations.from_table(rows)
    assert votes.items != tuple(frame.index)
    search = GridSearchCV(
        ConformalCredalClassifier(LogisticRegression()), {"estimator__C": GRID}, cv=3
    )
    found = search.fit(frame, votes.align(frame.index))
    counts = pd.DataFrame(COUNTS[:90], frame.index, ["a", "b", "c"])
    other = clone(search).fit(frame, counts)
    assert found.cv_results_["mean_test_score"] == pytest.approx(
        other.cv_results_["mean_test_score"], rel=1e-12
    )
    assert found.best_params_ == other.best_params_


@pytest.mark.parametrize("kind", ["votes", "counts", "counts without names"])
def test_a_search_with_votes_in_another_order_says_how(kind: str) -> None:
    frame, rows = table_of_votes()
    votes = Annotations.from_table(rows)
    counts = pd.DataFrame(votes.counts, votes.items, votes.classes)
    Y = {"votes": votes, "counts": counts, "counts without names": counts.reset_index(drop=True)}
    search = GridSearchCV(ConformalCredalClassifier(LogisticRegression()), {}, error_score="raise")
    with pytest.raises(ValueError, match=r"GridSearchCV.*votes\.align\(X\.index\)"):
        search.fit(frame, Y[kind])


def test_rows_of_votes_are_not_counts() -> None:
    frame, rows = table_of_votes()
    for Y in (rows, rows.set_index("task")):
        with pytest.raises(TypeError, match=r"Annotations\.from_table\(Y\)"):
            ConformalCredalClassifier(LogisticRegression()).fit(frame, Y)
    wide = pd.DataFrame(COUNTS[:90], columns=["a", "b", "c"])
    wide.insert(0, "item", frame.index)
    with pytest.raises(TypeError, match=r"set_index\('item'\)"):
        ConformalCredalClassifier(LogisticRegression()).fit(frame, wide)


# --- compare ---


@pytest.fixture(scope="module")
def fitted() -> ConformalCredalClassifier:
    return ConformalCredalClassifier(LogisticRegression()).fit(X[:100], COUNTS[:100])


def test_compare_gives_a_row_per_score_and_level(fitted: ConformalCredalClassifier) -> None:
    rows = fitted.compare(X[100:], COUNTS[100:], ["tv", "kl", "inner"], alpha=[0.1, 0.2])
    assert [(row["score"], row["alpha"]) for row in rows] == [
        (score, alpha) for score in ("tv", "kl", "inner") for alpha in (0.1, 0.2)
    ]
    assert {row["n"] for row in rows} == {100}
    assert len(pd.DataFrame(rows)) == 6
    assert not hasattr(fitted, "calibration_"), "the classifier stays as it is"
    again = fitted.compare(X[100:], COUNTS[100:], ["tv", "kl", "inner"], alpha=[0.1, 0.2])
    assert again == rows, "the split is the same every time"


def test_compare_calibrates_and_measures_on_different_items(
    fitted: ConformalCredalClassifier,
) -> None:
    row = fitted.compare(X[100:], COUNTS[100:], ["kl"], alpha=0.2)[0]
    order = np.random.default_rng(0).permutation(200)
    calib, test = np.sort(order[:100]), np.sort(order[100:])
    twin = ConformalCredalClassifier(fitted.estimator_, "kl")
    twin.conformalize(X[100:][calib], COUNTS[100:][calib])
    expected = twin.evaluate(X[100:][test], COUNTS[100:][test], alpha=0.2)[0]
    assert row == expected


def test_scores_of_one_name_are_told_apart(fitted: ConformalCredalClassifier) -> None:
    scores = [cs.scores.Normalized("tv"), cs.scores.Normalized("kl")]
    rows = fitted.compare(X[100:], COUNTS[100:], scores, alpha=0.2)
    assert [row["score"] for row in rows] == [repr(score) for score in scores]


def test_compare_refuses_what_it_cannot_use(fitted: ConformalCredalClassifier) -> None:
    with pytest.raises(
        TypeError, match=r"scores must be a list of scores, but is 'tv'. Write \['tv'\]"
    ):
        fitted.compare(X, COUNTS, "tv")
    with pytest.raises(ValueError, match="X has 1 items"):
        fitted.compare(X[:1], COUNTS[:1], ["tv"])
    with pytest.raises(TypeError, match="needs an estimator with predict_concentration"):
        fitted.compare(X, COUNTS, ["tv", "so"])
    with pytest.raises(NotFittedError, match="has no fitted estimator"):
        ConformalCredalClassifier(LogisticRegression()).compare(X, COUNTS, ["tv"])
    crossed = ConformalCredalClassifier(LogisticRegression()).cross_conformalize(
        X, COUNTS, 2, random_state=0
    )
    with pytest.raises(NotFittedError, match="compare needs one estimator"):
        crossed.compare(X, COUNTS, ["tv"])
    prefit = ConformalCredalClassifier(SoftLabelClassifier().fit(X[:100], COUNTS[:100]))
    assert len(prefit.compare(X[100:], COUNTS[100:], ["tv"], alpha=0.2)) == 1
