"""Cross-conformal calibration: the ball holds the CV+ set, and the promise holds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import credalset as cs
from credalset.calibration.cross import common_center, enclosing_threshold
from credalset.exceptions import FileFormatError
from credalset.scores import Score

from .conftest import SCORES, random_predictions
from .saved_objects import forge


def models_for(score: Score, n_folds: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Predictions of fold models that differ a little."""
    base = random_predictions(score, n, 3, rng)
    noise = np.stack([random_predictions(score, n, 3, rng) for _ in range(n_folds)])
    return 0.8 * base + 0.2 * noise


def test_balls_enclose_balls(score: Score) -> None:
    rng = np.random.default_rng(0)
    models = models_for(score, 4, 30, rng)
    center = common_center(score, list(models))
    candidates = np.vstack([rng.dirichlet(np.ones(3), 400), rng.dirichlet(np.full(3, 0.2), 100), np.eye(3)])
    for model in models:
        for i in range(30):
            own = score(np.tile(model[i], (len(candidates), 1)), candidates)
            other = score(np.tile(center[i], (len(candidates), 1)), candidates)
            bound = enclosing_threshold(score, model[i : i + 1], center[i : i + 1], own)
            assert (other <= bound + 1e-9 * (1 + np.abs(bound))).all()


def test_the_cross_conformal_set_is_inside(score: Score) -> None:
    rng = np.random.default_rng(1)
    n, n_folds = 40, 4
    folds = np.arange(n) % n_folds
    labels = rng.dirichlet(np.ones(3), n)
    calibration = cs.cross_conformalize(random_predictions(score, n, 3, rng), labels, folds, score)
    new = models_for(score, n_folds, 5, rng)
    candidates = rng.dirichlet(np.ones(3), 300)
    sets = calibration.predict_set(new, 0.2)
    for i in range(5):
        fold_scores = np.stack([score(np.tile(new[k, i], (300, 1)), candidates) for k in range(n_folds)])
        count = 1 + (calibration.scores[:, None] >= fold_scores[folds]).sum(axis=0)
        member = count > 0.2 * (n + 1)
        assert sets[i : i + 1].contains(candidates[None])[0][member].all()


def test_coverage_of_scarce_data() -> None:
    rng = np.random.default_rng(2)
    observed, promised = [], 0.0
    for _ in range(25):
        data = cs.datasets.make_synthetic(260, n_features=3, n_votes=20, random_state=rng)
        X, Y = data.X, data.counts / 20
        folds, out, new = np.arange(60) % 6, np.empty((60, 3)), []
        for k in range(6):
            held = folds == k
            solve = np.linalg.lstsq(np.c_[X[:60][~held], np.ones((~held).sum())], Y[:60][~held], rcond=None)[0]
            g = np.clip(np.c_[X, np.ones(260)] @ solve, 0.02, None)
            g /= g.sum(axis=1, keepdims=True)
            out[held] = g[:60][held]
            new.append(g[60:])
        calibration = cs.cross_conformalize(out, Y[:60], folds, "tv")
        promised = calibration.guaranteed_coverage(0.1)
        observed.append(calibration.predict_set(new, 0.1).contains(Y[60:]).mean())
    assert np.mean(observed) >= promised
    assert 0.88 <= np.mean(observed) <= 0.99
    assert promised == pytest.approx(1 - 0.2 - min(2 * (5 / 6) / 11, (1 - 0.1) / 7))


def test_one_model_for_all_is_split_conformal() -> None:
    rng = np.random.default_rng(3)
    g, labels = rng.dirichlet(np.ones(3), 50), rng.dirichlet(np.ones(3), 50)
    calibration = cs.cross_conformalize(g, labels, np.arange(50) % 2, "kl")
    plain = cs.conformalize(g, labels, "kl")
    assert calibration.thresholds([g, g], 0.1) == pytest.approx(np.full(50, plain.threshold(0.1)))


@pytest.mark.parametrize("name", SCORES)
def test_round_trip(name: str, tmp_path: Path) -> None:
    score, rng = SCORES[name], np.random.default_rng(4)
    saved = cs.cross_conformalize(
        random_predictions(score, 30, 3, rng), rng.dirichlet(np.ones(3), 30), np.arange(30) % 3, score
    )
    saved.save(tmp_path / "c")
    loaded: Any = cs.load(tmp_path / "c")
    new = models_for(score, 3, 4, rng)
    assert repr(loaded) == repr(saved)
    assert loaded.thresholds(new, 0.2).tobytes() == saved.thresholds(new, 0.2).tobytes()


def test_forged_files_are_refused(tmp_path: Path) -> None:
    cs.cross_conformalize(np.full((4, 2), 0.5), np.eye(2)[[0, 1, 0, 1]], [0, 1, 0, 1]).save(tmp_path / "c")
    forge(tmp_path / "c", lambda m: m["values"].update(n_classes=1))
    with pytest.raises(FileFormatError, match="number of classes"):
        cs.load(tmp_path / "c")
    forge(tmp_path / "c", lambda m: m["values"].update(n_classes=2, score={"name": "x", "params": {}}))
    with pytest.raises(FileFormatError, match="not registered"):
        cs.load(tmp_path / "c")


def test_refusals() -> None:
    g, labels = np.full((4, 2), 0.5), np.eye(2)[[0, 1, 0, 1]]
    for folds in ([0, 0, 0, 0], [0, 2, 0, 2], [1, 2, 1, 2]):
        with pytest.raises(ValueError, match="folds must be numbered"):
            cs.cross_conformalize(g, labels, folds)
    for odd in ([0, 1], [0.0, 1.0, 0.0, 1.0]):
        with pytest.raises(ValueError, match="folds must hold one whole number per item"):
            cs.cross_conformalize(g, labels, odd)  # type: ignore[arg-type]
    calibration = cs.cross_conformalize(g, labels, [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"predictions must have shape \(2, n_items, 2\)"):
        calibration.predict_set(g, 0.5)
    with pytest.warns(cs.CredalSetWarning, match="4 items are too few for alpha=0.1"):
        assert (calibration.thresholds([g, g], 0.1) == math.inf).all()

    class Own(Score):
        """A score that nobody knows balls of."""

        name, order = "own", "first"

        def _evaluate(self, prediction: Any, distribution: Any) -> Any:
            return prediction

        def _region(self, prediction: Any, threshold: Any) -> Any:
            return prediction

        def best_fit(self, prediction: Any) -> Any:
            return prediction

    with pytest.raises(TypeError, match="knows no enclosing balls"):
        cs.cross_conformalize(g, labels, [0, 1, 0, 1], Own())
