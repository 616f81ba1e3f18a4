"""Normalised scores whose scale comes with the predictions: the laws for every inner score, and the ways to give it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.predictors import PrecisionHead
from credalset.scores import Normalized, Prototypes, ScaledPrediction
from credalset.testing import check_score
from tests.conftest import SCORES, random_predictions

INNER = ["tv", "ws", "kl", "inner", "so", "density", "hellinger", "brier"]


def scaled(name: str, n: int, n_classes: int, seed: int = 0) -> ScaledPrediction:
    """Predictions that the score takes, with scales of mixed size."""
    rng = np.random.default_rng(seed)
    return ScaledPrediction(random_predictions(SCORES[name], n, n_classes, rng), rng.gamma(1.0, 1.0, n) + 0.01)


@pytest.mark.parametrize("name", INNER)
def test_laws(name: str) -> None:
    for offset, n_classes in ((0.0, 2), (0.2, 3), (0.0, 5)):
        report = check_score(Normalized(SCORES[name], offset, "predicted"), scaled(name, 6, n_classes))
        assert "saving" in report.laws


@given(seed=st.integers(0, 2**32 - 1), n_classes=st.integers(2, 20), name=st.sampled_from(INNER))
def test_score_and_region_agree_to_the_last_bit(seed: int, n_classes: int, name: str) -> None:
    score, prediction = Normalized(SCORES[name], scale="predicted"), scaled(name, 1, n_classes, seed)
    if seed % 5 == 0:
        prediction = ScaledPrediction(prediction.rows, np.zeros(1))
    label = np.random.default_rng(seed).dirichlet(np.full(n_classes, 0.5))[None]
    value = float(score(prediction, label)[0])
    assert score.region(prediction, value).contains(label).all()
    if np.isfinite(value):
        assert not score.region(prediction, np.nextafter(value, -np.inf)).contains(label).any()
    assert score.region(prediction, np.inf).contains(label).all()
    best = score.best_fit(score.check_prediction(prediction))
    least = float(score(prediction, best)[0])
    if np.isfinite(least):
        assert not score.region(prediction, least).is_empty()[0]
        assert score.region(prediction, least - 1e-6 * max(1.0, abs(least))).is_empty()[0]


@pytest.mark.parametrize("name", INNER)
def test_sets_are_those_of_the_inner_score_with_the_threshold_scaled(name: str) -> None:
    inner, prediction = SCORES[name], scaled(name, 12, 4)
    labels = np.random.default_rng(1).dirichlet(np.ones(4), 12)
    score = Normalized(inner, 0.1, "predicted")
    assert score(prediction, labels) == pytest.approx(inner(prediction.rows, labels) / (prediction.scale + 0.1))
    threshold = score(prediction, labels)
    sets, alone = score.region(prediction, threshold), inner.region(prediction.rows, inner(prediction.rows, labels))
    assert sets.shape == alone.shape
    assert sets.answers() == alone.answers()
    assert np.array_equal(sets.is_empty(), alone.is_empty())
    tolerance = 1e-9 if name != "hellinger" else 3e-6  # whose envelopes are cut out to 1e-6
    for own, other in zip(sets.envelope(), alone.envelope(), strict=True):
        assert own == pytest.approx(other, abs=tolerance)
    assert np.allclose(sets.entropy_bounds().upper, alone.entropy_bounds().upper, atol=1e-5)
    drawn = sets.sample(5, random_state=0)
    assert score.evaluate_pairs(score.check_prediction(prediction), drawn).max(axis=1) == pytest.approx(
        np.minimum(score.evaluate_pairs(score.check_prediction(prediction), drawn).max(axis=1), threshold), abs=1e-6
    )


def test_arrays_named_values_and_prototypes_say_the_same() -> None:
    prediction, score = scaled("kl", 5, 3), Normalized("kl", scale="predicted")
    labels = np.random.default_rng(1).dirichlet(np.ones(3), 5)
    table = np.asarray(prediction)
    assert table.shape == (5, 4)
    assert np.asarray(prediction, dtype=np.float32).dtype == np.float32
    prototypes = np.column_stack([prediction.rows, 1.0 / prediction.scale, np.ones(5)])[:, None]
    expected = score(prediction, labels)
    assert np.array_equal(score(table, labels), expected)
    assert score(prototypes, labels) == pytest.approx(expected, rel=1e-12)
    same = Prototypes(cs.scores.KullbackLeibler(), offsets=False)
    assert same(prototypes, labels) == pytest.approx(expected, rel=1e-12)
    assert prediction.mean() == pytest.approx(prediction.rows)
    assert score.region(table, 0.5).to_dict()["prediction_0"] == pytest.approx(prediction.rows[:, 0])


def test_a_head_serves_every_score_and_is_saved(tmp_path: Path) -> None:
    data = cs.datasets.make_synthetic(450, n_classes=3, random_state=0)
    X, counts = data.X, data.counts
    trained = LogisticRegression().fit(X[:150], counts[:150].argmax(axis=1))
    for name in ("tv", "inner"):
        head = PrecisionHead(FrozenEstimator(trained), base=name)
        clf = cs.ConformalCredalClassifier(head, Normalized(name, scale="predicted"))
        clf = clf.fit(X[:150], counts[:150]).conformalize(X[150:300], counts[150:300])
        sets = clf.predict_set(X[300:], 0.2)
        other = cs.ConformalCredalClassifier(clf.estimator_, Prototypes(name, offsets=False))
        other = other.conformalize(X[150:300], counts[150:300])
        assert sets.upper() == pytest.approx(other.predict_set(X[300:], 0.2).upper(), abs=1e-9, nan_ok=True)
        assert 0.68 < sets.contains(counts[300:]).mean() < 0.92
        assert len(clf.evaluate(X[300:], counts[300:], alpha=0.2)) == 1
        clf.save(tmp_path / name)
        again: Any = cs.load(tmp_path / name)
        assert np.array_equal(again.predict_set(X[300:], 0.2).upper(), sets.upper(), equal_nan=True)
        sets.save(tmp_path / f"{name}-sets")
        kept: Any = cs.load(tmp_path / f"{name}-sets")
        assert np.array_equal(kept.upper(), sets.upper(), equal_nan=True)


def test_a_constant_scale_changes_nothing_but_the_unit() -> None:
    data = cs.datasets.make_synthetic(300, n_classes=3, random_state=1)
    trained = LogisticRegression().fit(data.X, data.counts.argmax(axis=1))
    head = PrecisionHead(trained, DummyRegressor(), base="kl").fit(data.X, data.counts)
    prediction, rows = head.predict_prototypes(data.X), head.predict_proba(data.X)
    plain = cs.conformalize(rows[:200], data.counts[:200], "kl").predict_set(rows[200:], 0.1)
    own = cs.conformalize(prediction[:200], data.counts[:200], Normalized("kl", scale="predicted"))
    assert own.predict_set(prediction[200:], 0.1).upper() == pytest.approx(plain.upper(), abs=1e-9)


@pytest.mark.parametrize(
    "noise", [None, cs.BoundedNoise(0.02, 0.02), cs.UnbiasedVotes()], ids=["none", "bounded", "unbiased"]
)
def test_calibration_with_noise_and_across_folds(noise: Any) -> None:
    rng = np.random.default_rng(0)
    prediction, score = scaled("brier", 900, 3), Normalized("brier", 0.1, "predicted")
    counts = rng.multinomial(50, 0.8 * prediction.rows + 0.2 * rng.dirichlet(np.ones(3), 900))
    calibration = cs.conformalize(prediction[:500], counts[:500], score, noise=noise)
    assert calibration.predict_set(prediction[500:], 0.2).contains(counts[500:]).mean() > 0.75
    if noise is None:
        folds = np.arange(500) % 3
        models = [
            ScaledPrediction(prediction.rows[500:520], (1.0 + 0.1 * i) * prediction.scale[500:520]) for i in range(3)
        ]
        exact = cs.cross_conformalize(prediction[:500], counts[:500], folds, score, exact=True).predict_set(models, 0.2)
        assert not exact.is_empty().any()
        tv = Normalized("tv", 0.1, "predicted")
        balls = cs.cross_conformalize(prediction[:500], counts[:500], folds, tv, exact=False).predict_set(models, 0.2)
        inside = cs.cross_conformalize(prediction[:500], counts[:500], folds, tv, exact=True).predict_set(models, 0.2)
        points = rng.dirichlet(np.ones(3), 500)
        assert (inside.contains(points, broadcast=True) <= balls.contains(points, broadcast=True)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Normalized("tv", scale="entropy"), "scale must be None, .* or 'predicted', but is 'entropy'"),
        (lambda: Normalized("tv", scale=np.ones(3)), "go with the predictions: ScaledPrediction"),  # type: ignore[arg-type]
        (lambda: Normalized(Prototypes(), scale="predicted"), "a score that is not normalised yet"),
        (lambda: Normalized("so"), "scale='predicted' takes them"),
        (lambda: Prototypes(Normalized("tv", scale="predicted")), "convex regions and plain predictions"),
        (lambda: _region([[0.5, 0.3, 0.2]]), "holds plain distributions"),
        (lambda: _region([[0.5, 0.5]]), r"must come with a scale .* but has shape \(1, 2\)"),
        (lambda: _region(np.ones((1, 2, 5))), r"has shape \(1, 2, 5\)"),
        (lambda: _region([[0.5, 0.5, -1.0]]), "finite scale of at least 0 for each of its 1 items"),
        (lambda: _region([[0.5, 0.6, 1.0]]), "do not sum to one"),
        (lambda: _region(ScaledPrediction(np.full((2, 2), 0.5), np.ones(3))), r"scales of shape \(3,\)"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def _region(prediction: Any) -> Any:
    return Normalized("tv", scale="predicted").region(prediction, 0.1)
