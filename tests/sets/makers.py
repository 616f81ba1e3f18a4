"""Batches of sets of every kind, for tests."""

from __future__ import annotations

import numpy as np

from credalset import cross_conformalize
from credalset.scores import NegativeLogDensity, Score
from credalset.sets.credal_set import CredalSet
from tests.conftest import random_predictions


def mixtures(n: int, n_classes: int, seed: int = 0, drop: float = 2.0) -> CredalSet:
    """Density sets of two components, some concentrations below one."""
    rng = np.random.default_rng(seed)
    weights, theta = rng.dirichlet([3.0, 3.0], n), rng.gamma(1.5, 2.0, (n, 2, n_classes)) + 0.2
    score, prediction = NegativeLogDensity(), np.concatenate([weights[..., None], theta], axis=-1)
    return score.region(prediction, score(prediction, score.best_fit(score.check_prediction(prediction))) + drop)


def crossed(score: Score, n: int, n_classes: int, seed: int = 0, alpha: float = 0.2) -> CredalSet:
    """Exact cross-conformal sets from three folds whose models differ a little."""
    rng = np.random.default_rng(seed)
    calibration, folds = random_predictions(score, 60, n_classes, rng), np.arange(60) % 3
    base = rng.dirichlet(np.full(n_classes, 2.0), n)
    models = np.stack([0.85 * base + 0.15 * rng.dirichlet(np.ones(n_classes), n) for _ in range(3)])
    if score.order == "second":
        models = 1.0 + 12.0 * models
    labels = rng.dirichlet(np.ones(n_classes), 60)
    return cross_conformalize(calibration, labels, folds, score, exact=True).predict_set(models, alpha)
