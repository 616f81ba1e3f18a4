"""Checks that calibrations of every kind share, some of them before there is anything to calibrate."""

from __future__ import annotations

from typing import Any

import numpy as np

from credalset._predictions import PredictionBatch
from credalset._typing import Prediction
from credalset.annotations.labels import Labels
from credalset.calibration.models import as_noise
from credalset.calibration.rule import Rule
from credalset.scores import Score


def check_items(
    score: Score, prediction: Prediction, labels: Labels, noise: Any = None, groups: Any = None, weights: Any = None
) -> None:
    """Check what is known of n items before a model is trained: their votes, groups and weights.

    ``prediction`` is only looked at for its shape: one row per item, with the axes that predictions will have.
    """
    model = as_noise(noise)
    model.check_score(score, prediction)
    if model.needs_counts:
        labels.votes("Y", type(model).__name__)
    Rule.beside_labels(score, prediction, model, groups, weights)


def takes_mixtures(score: Score) -> bool:
    """Tell whether a score takes mixtures of densities beside single ones."""
    return "predict_density" in score.prediction_methods


def uses_mixtures(score: Score, prediction: Prediction) -> bool | None:
    """Tell whether valid predictions are mixtures; None for a score that does not take them."""
    return isinstance(prediction, PredictionBatch) if takes_mixtures(score) else None


def placeholder(score: Score, n: int, mixtures: bool) -> Prediction:
    """Return n predictions of the right kind with nothing in them, for checks before there are any."""
    return score.check_prediction(np.ones((n, 1, 3))) if mixtures else np.ones((n, 2))


def check_kind(prediction: Prediction, mixtures: bool | None, name: str) -> None:
    """Refuse mixtures where single Dirichlets were calibrated, and the reverse: the score reads them differently."""
    if mixtures is None or isinstance(prediction, PredictionBatch) == mixtures:
        return
    kinds = {True: "mixtures of shape (N, C, K + 1)", False: "concentrations of shape (N, K)"}
    raise ValueError(
        f"{name} holds {kinds[not mixtures]}, but the calibration was made with {kinds[mixtures]}, whose scores do not "
        "compare. Predict with the model that was calibrated, or calibrate this one."
    )
