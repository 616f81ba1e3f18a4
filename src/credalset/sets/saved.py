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
    if not _is_region(sets, prediction):
        raise TypeError(
            f"a {sets.shape} is not made of a score, predictions and thresholds alone, and cannot be saved. Save the "
            "calibration and the predictions, and predict the sets again."
        )
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


def _is_region(sets: CredalSet, prediction: FloatArray) -> bool:
    """Tell whether sets are what their score makes of their predictions and thresholds, to the last bit."""
    try:
        again = sets.score._region(sets.score.check_prediction(prediction), sets.threshold)
    except (TypeError, ValueError):
        return False
    is_same = type(again) is type(sets) and packed(again.prediction).tobytes() == prediction.tobytes()
    return (
        is_same and again.center.tobytes() == sets.center.tobytes() and again.radius.tobytes() == sets.radius.tobytes()
    )
