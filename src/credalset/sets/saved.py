"""Sets as plain values and arrays; `credalset.scores.saved` puts them together again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from credalset._typing import FloatArray, Prediction
from credalset.persistence.bundle import Bundle
from credalset.persistence.plain import plain_names

if TYPE_CHECKING:
    from credalset.sets.credal_set import CredalSet

KIND = "sets"


def sets_to_bundle(sets: CredalSet) -> Bundle:
    """Take sets apart: their score, predictions and thresholds, from which the rest follows, and their names."""
    score, prediction = sets.score, packed(sets.prediction)
    values = {
        "score": score.describe(),
        "n_classes": sets.n_classes,
        "classes": plain_names(sets.classes, "class names"),
        "items": plain_names(sets.items, "item names", tuples=True),
    }
    return Bundle(KIND, values, {"prediction": prediction, "threshold": np.asarray(sets.threshold, dtype=np.float64)})


def packed(prediction: Prediction) -> FloatArray:
    """Return predictions as the one array from which a score reads them."""
    return np.ascontiguousarray(prediction, dtype=np.float64)
