"""Where sets come from: a calibration or a classifier with what it predicts from, asked at any level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from credalset._validation import Checked
from credalset.sets.credal_set import CredalSet
from credalset.votes.names import item_names, per_item


@dataclass(frozen=True, eq=False)
class Source:
    """A calibration with the predictions of some items, which are validated once.

    Attributes
    ----------
    origin : Calibration, CrossCalibration, CrowdCalibration or ConformalCredalClassifier
        What was given.
    calibration : Calibration, CrossCalibration or CrowdCalibration
        What gives the guarantee.
    predict : callable
        From a level to the sets at that level.
    n : int
        Number of items.
    items : sequence or None
        Names of the items.
    groups : sequence or None
        Groups of the items, in their order, whether or not the calibration has groups.
    keys : list or None
        The groups that decide thresholds; None if the calibration has none.
    """

    origin: Any
    calibration: Any
    predict: Callable[[float], CredalSet]
    n: int
    items: Any
    groups: Any
    keys: list[Any] | None

    @property
    def classes(self) -> Any:
        """Names of the classes, or their numbers, or None."""
        if hasattr(self.calibration, "crowd"):
            return self.calibration.crowd.classes_
        return range(self.calibration.n_classes) if self.calibration.classes is None else self.calibration.classes

    @classmethod
    def read(cls, origin: Any, prediction: Any, groups: Any = None, weights: Any = None, in_hand: Any = None) -> Source:
        """Take a calibration or a calibrated classifier with what it predicts from."""
        if not callable(getattr(origin, "predict_set", None)):
            raise TypeError(
                f"calibration must be a calibration or a calibrated classifier, but is a {type(origin).__name__}. "
                "Start with cs.conformalize(prediction, labels)."
            )
        if hasattr(origin, "crowd"):
            return cls._of_crowd(origin, prediction, groups, in_hand)
        calibration, asked = origin, prediction
        if hasattr(origin, "nonconformity"):
            calibration, asked = origin._calibrated(), origin._predict(prediction)
        is_cross = hasattr(calibration, "check_models")
        if is_cross:
            blocks = calibration.check_models(asked)
            items = item_names(asked[0])
            asked = [Checked(block, items) for block in blocks]
        else:
            items = item_names(asked)
            asked = Checked(calibration.check(asked), items)
        groups, fitted = per_item(groups, items, "groups"), calibration.fitted
        options: dict[str, Any] = {}
        if fitted.features is not None or (fitted.groups is not None and not fitted.predicted):
            options["groups"] = groups
        if fitted.weighted:
            options["weights"] = per_item(weights, items, "weights")
        keys = None if is_cross else fitted.keys_of(calibration.score, asked.prediction, options.get("groups"))

        def predict(alpha: float) -> CredalSet:
            return calibration.predict_set(asked, alpha=alpha, **options)

        return cls(origin, calibration, predict, len(blocks[0] if is_cross else asked.prediction), items, groups, keys)

    @classmethod
    def _of_crowd(cls, origin: Any, prediction: Any, groups: Any, in_hand: Any) -> Source:
        """Take a calibration that predicts from votes in hand too."""
        items = item_names(prediction)
        groups = per_item(groups, items, "groups")
        own = {} if origin.calibrations[0].groups is None else {"groups": groups}

        def predict(alpha: float) -> CredalSet:
            return origin.predict_set(prediction, in_hand, alpha, **own)

        return cls(origin, origin, predict, len(prediction), items, groups, None)
