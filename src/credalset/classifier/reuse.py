"""Items that a classifier has been trained on are noticed where they are to calibrate it or to show coverage."""

from __future__ import annotations

from typing import Any, TypeVar

from credalset.annotations.labels import Labels, row_names
from credalset.annotations.seen import NOTHING, reused
from credalset.calibration import Calibration, CrossCalibration
from credalset.exceptions import warn

C = TypeVar("C", Calibration, CrossCalibration)

NOT_SEEN = (
    "sets keep their promise only if they are calibrated on items that the model has not seen. fit_conformalize(X, Y) "
    "splits the items, cross_conformalize(X, Y) uses all of them for both."
)


def names_of(X: Any, labels: Labels) -> Any:
    """Return the names of the items, whichever of both has them."""
    return row_names(X) if labels.items is None else labels.items


def warn_of_training(classifier: Any, X: Any, labels: Labels) -> None:
    """Warn that items to calibrate on were trained on."""
    again = reused(getattr(classifier, "_seen", NOTHING), names_of(X, labels), X)
    if again:
        warn(f"{again} were used in fit: {NOT_SEEN}")


def with_seen(classifier: Any, made: C, X: Any, labels: Labels) -> C:
    """Return a calibration that knows its own items, by names or features, and those that trained the classifier."""
    return made
