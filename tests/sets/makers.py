"""Batches of sets of every kind, for the laws: every score in every variant, density sets and cross-conformal sets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from credalset import cross_conformalize
from credalset.scores import NegativeLogDensity, Score
from credalset.sets.credal_set import CredalSet
from credalset.simplex import sample_uniform
from tests.conftest import SCORES, random_predictions


def make_sets(
    name: str, n_classes: int, n: int = 6, seed: int = 0, levels: tuple[float, float] = (0.1, 0.8)
) -> CredalSet:
    """Sets of mixed size: thresholds at quantiles of the scores of uniform distributions."""
    score, rng = SCORES[name], np.random.default_rng(seed)
    prediction = random_predictions(score, n, n_classes, rng)
    pool = sample_uniform(400 if n <= 50 else 40, n_classes, rng)
    spread = score(np.repeat(prediction, len(pool), axis=0), np.tile(pool, (n, 1))).reshape(n, -1)
    spread = np.sort(np.where(np.isfinite(spread), spread, 50.0), axis=1)
    rank = np.rint(np.linspace(*levels, n) * (len(pool) - 1)).astype(int)
    threshold = spread[np.arange(n), rank]
    if score.name == "so":
        threshold = np.minimum(threshold, 0.9999)  # closer to one the score itself has few digits left
    return score.region(prediction, threshold)


def mixture_predictions(n: int, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """Two components, some concentrations below one."""
    weights, theta = rng.dirichlet([3.0, 3.0], n), rng.gamma(1.5, 2.0, (n, 2, n_classes)) + 0.2
    return np.concatenate([weights[..., None], theta], axis=-1)


def mixtures(n: int, n_classes: int, seed: int = 0, drop: float = 2.0) -> CredalSet:
    """Density sets of mixtures, whose level lies some way below the highest density."""
    score, prediction = NegativeLogDensity(), mixture_predictions(n, n_classes, np.random.default_rng(seed))
    return score.region(prediction, score(prediction, score.best_fit(score.check_prediction(prediction))) + drop)


def crossed(score: Score, n: int, n_classes: int, seed: int = 0, alpha: float = 0.2) -> CredalSet:
    """Exact cross-conformal sets from three folds whose models differ a little."""
    rng = np.random.default_rng(seed)
    calibration, folds = random_predictions(score, 60, n_classes, rng), np.arange(60) % 3
    base = rng.dirichlet(np.full(n_classes, 2.0), n)
    models = np.stack([0.85 * base + 0.15 * rng.dirichlet(np.ones(n_classes), n) for _ in range(3)])
    if score.order == "second":
        models = 1.0 + 12.0 * models
    labels = 0.7 * calibration_means(score, calibration) + 0.3 * rng.dirichlet(np.ones(n_classes), 60)
    return cross_conformalize(calibration, labels, folds, score).predict_set(models, alpha)


def calibration_means(score: Score, prediction: np.ndarray) -> np.ndarray:
    return prediction / prediction.sum(axis=1, keepdims=True) if score.order == "second" else prediction


def _of_score(name: str) -> Callable[[int, int, int], CredalSet]:
    return lambda n_classes, n, seed: make_sets(name, n_classes, n, seed)


def _crossed(name: str) -> Callable[[int, int, int], CredalSet]:
    return lambda n_classes, n, seed: crossed(SCORES[name], n, n_classes, seed)


#: by name, a function of the number of classes, the number of sets and a seed
KINDS: dict[str, Callable[[int, int, int], CredalSet]] = {name: _of_score(name) for name in SCORES}
KINDS["mixture"] = lambda n_classes, n, seed: mixtures(n, n_classes, seed)
KINDS |= {f"cross-{name}": _crossed(name) for name in ("tv", "kl", "inner", "so", "hellinger")}
