"""Precisions for a classifier that is already trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import rel_entr, softmax
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.predictors import PrecisionHead
from credalset.scores import Prototypes, TotalVariation


def noisy(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels around a distribution that the first feature tells, as closely as the second says."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    center = softmax(np.c_[x[:, 0], -x[:, 0], np.zeros(n)], axis=1)
    precision = np.exp(3.5 + 1.2 * x[:, 1])
    return x, np.array([rng.dirichlet(s * g) for s, g in zip(precision, center, strict=True)]), precision


X, LABELS, PRECISION = noisy(900, 0)
TRAINED = LogisticRegression().fit(X[:300], LABELS[:300].argmax(axis=1))


@pytest.mark.parametrize("inputs", ["features", "both"])
@pytest.mark.parametrize("regressor", [None, RandomForestRegressor(20, min_samples_leaf=10, random_state=0)])
def test_it_finds_where_the_classifier_is_close(inputs: str, regressor: Any) -> None:
    exact = _Exact()
    head = PrecisionHead(exact, regressor, inputs=inputs).fit(X[:600], LABELS[:600])
    table = head.predict_prototypes(X[600:])
    assert table.shape == (300, 1, 5)
    assert np.corrcoef(np.log(table[:, 0, 3]), np.log(PRECISION[600:]))[0, 1] > 0.6
    assert table[:, 0, :3] == pytest.approx(0.999 * exact.predict_proba(X[600:]) + 0.001 / 3)
    assert (table[:, 0, 4] == 0.0).all()


class _Exact:
    """A trained classifier without ``fit``, which knows the centres."""

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(softmax(np.c_[x[:, 0], -x[:, 0], np.zeros(len(x))], axis=1))


def test_sets_are_narrower_at_the_same_coverage() -> None:
    head = PrecisionHead(_Exact(), inputs="features").fit(X[:300], LABELS[:300])
    widths, covered = {}, {}
    for name, predict in {"prototypes": head.predict_prototypes, "kl": head.predict_proba}.items():
        sets = cs.conformalize(predict(X[300:600]), LABELS[300:600], name).predict_set(predict(X[600:]), 0.2)
        lower, upper = sets.envelope()
        widths[name], covered[name] = 0.5 * (upper - lower).sum(axis=1).mean(), sets.contains(LABELS[600:]).mean()
    assert widths["prototypes"] < 0.9 * widths["kl"]
    assert min(covered.values()) > 0.72


def test_distances_are_those_of_the_base_score() -> None:
    """A regressor that sees one constant predicts the mean distance, of which beta times as much is added."""
    from sklearn.dummy import DummyRegressor

    predicted = 0.999 * TRAINED.predict_proba(X) + 0.001 / 3
    for base, distance in {
        "kl": rel_entr(LABELS, predicted).sum(axis=1),
        "tv": TotalVariation()(predicted, LABELS),
    }.items():
        head = PrecisionHead(TRAINED, DummyRegressor(), base=base, beta=0.5).fit(X, LABELS)
        assert head.predict_prototypes(X[:5])[:, 0, 3] == pytest.approx(1 / (1.5 * distance.mean()))
        assert Prototypes(base, offsets=False).region(head.predict_prototypes(X[:5]), 0.5).upper().shape == (5, 3)


def test_through_the_classifier_saved_and_loaded(tmp_path: Path) -> None:
    clf = cs.ConformalCredalClassifier(PrecisionHead(FrozenEstimator(TRAINED)), nonconformity="prototypes")
    clf = clf.fit(X[:300], LABELS[:300]).conformalize(X[300:600], LABELS[300:600])
    sets = clf.predict_set(X[600:], 0.2)
    assert 0.7 < sets.contains(LABELS[600:]).mean() < 0.9
    assert np.array_equal(clf.estimator_.predict(X), TRAINED.predict(X))
    clf.save(tmp_path / "clf")
    again: Any = cs.load(tmp_path / "clf")
    assert np.array_equal(again.predict_set(X[600:], 0.2).threshold, sets.threshold)
    assert np.array_equal(again.predict_set(X[600:], 0.2).upper(), sets.upper())


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (PrecisionHead(LogisticRegression()), "needs a classifier that is already trained"),
        (PrecisionHead(TRAINED, inputs="logits"), "inputs must be one of 'predictions', 'features', 'both'"),
        (PrecisionHead(TRAINED, floor=0.0), "floor must lie strictly between 0 and 1"),
        (PrecisionHead(TRAINED, beta=-1.0), "beta must be a finite number of at least 0"),
        (PrecisionHead(TRAINED, base="prototypes"), "base must be a score with convex regions"),
    ],
)
def test_refusals(head: PrecisionHead, message: str) -> None:
    with pytest.raises((ValueError, NotFittedError), match=message):
        head.fit(X, LABELS)


def test_other_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="predicts 3 classes for 900 items"):
        PrecisionHead(TRAINED).fit(X, np.full((900, 4), 0.25))
