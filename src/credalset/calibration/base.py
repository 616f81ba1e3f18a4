"""Base classes of split, cross-conformal and label calibrations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from credalset._predictions import map_arrays
from credalset._typing import ArrayLike, FloatArray, Prediction
from credalset._validation import Checked, as_probability, freeze
from credalset.calibration.levels import exact_level
from credalset.calibration.noise import Guarantee, Noise
from credalset.calibration.thresholds import Thresholds
from credalset.exceptions import warn
from credalset.scores import Score
from credalset.votes.names import (
    Labels,
    as_names,
    class_names,
    item_names,
    join_names,
    match_names,
    order_columns,
    per_item,
    plural,
    read_labels,
    warn_of_numbers,
)

Sets = TypeVar("Sets")
LARGEST_LIKELY = 0.5  # miscoverage rate beyond which alpha was probably meant as a coverage


@dataclass(frozen=True, eq=False, repr=False)
class BaseCalibration:
    """A score, its calibration scores and thresholds, and the names of classes and items."""

    score: Score
    scores: FloatArray
    n_classes: int
    fitted: Thresholds
    classes: tuple[Any, ...] | None = None
    items: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        if self.scores.ndim != 1 or not len(self.scores) or np.isnan(self.scores).any():
            raise ValueError(
                "scores must hold one number for each of at least one calibration item."
            )
        if len(self.fitted.codes) != len(self.scores):
            raise ValueError("fitted must hold as many items as scores.")
        for name, size in (("classes", self.n_classes), ("items", len(self.scores))):
            names = getattr(self, name)
            if names is not None and len(names) != size:
                raise ValueError(f"{name} must hold {size} names, but holds {len(names)}.")
        self.score._check_classes(self.n_classes)
        self.noise.check_score(self.score)
        freeze(self, "scores")

    def __len__(self) -> int:
        """Number of calibration items."""
        return len(self.scores)

    @property
    def noise(self) -> Noise:
        """The noise model, which states how votes relate to the distribution that is covered."""
        return self.fitted.noise

    @property
    def groups(self) -> tuple[Any, ...] | None:
        """Keys of the groups, each of which has its own threshold; None without groups."""
        return self.fitted.groups

    @property
    def features(self) -> tuple[Any, ...] | None:
        """Names of the features that thresholds depend on; None without `Conditional`."""
        return self.fitted.features

    @property
    def guarantee(self) -> Guarantee:
        """What predicted sets contain, for which items, and under which assumptions."""
        return self.fitted.guarantee

    def save(self, path: str | Path) -> None:
        """Write the calibration to a folder (JSON and ``.npz``, no pickle).

        Read it with `credalset.load`.

        Parameters
        ----------
        path : str or Path
            Folder to write to.
        """
        from credalset.io.store import save

        save(self, path)

    def check(
        self, prediction: Any, classes: Sequence[Any] | None = None, name: str = "prediction"
    ) -> Prediction:
        """Return valid predictions, their columns in the order of the calibration's classes."""
        if isinstance(prediction, Checked):
            return prediction.prediction
        like = "the calibration data"
        if classes is None:
            ordered = order_columns(prediction, self.classes, name, like)
        else:
            columns = match_names(as_names(classes), self.classes, "classes", "classes", like)
            ordered = prediction if columns is None else np.asarray(prediction)[:, columns]
        return self.score.check_prediction(ordered, name, self.n_classes)

    def read_labels(self, labels: Any, name: str, prediction: Any) -> Labels:
        """Return the labels of items that were predicted, classes and rows matched by name."""
        items = item_names(prediction)
        like = "prediction"
        return read_labels(
            labels,
            items=items,
            classes=self.classes,
            n_classes=self.n_classes,
            name=name,
            like=like,
        )

    def __repr__(self) -> str:
        order = (
            f" ({' < '.join(map(str, self.classes))})"
            if self.score.is_ordinal and self.classes is not None
            else ""
        )
        items = f"{plural(len(self), 'item')}, {self.n_classes} classes"
        return (
            f"{type(self).__name__}: score {self.score.name}{order}, "
            f"{items}{self.fitted.describe()}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdCalibration(BaseCalibration, Generic[Sets]):
    """A calibration of one model: a threshold, and the set within it, for each prediction."""

    def thresholds(
        self, prediction: ArrayLike, alpha: float = 0.1, *, groups: Any = None, weights: Any = None
    ) -> FloatArray:
        """Return the threshold of each prediction.

        Thresholds differ between items if the calibration has groups or weights, or uses
        `UnbiasedVotes`.

        Parameters
        ----------
        prediction, alpha, groups, weights
            As in `predict_set`.

        Returns
        -------
        ndarray of shape (N,)
            The thresholds.
        """
        checked = self.check(prediction)
        items = item_names(prediction)
        new = (per_item(groups, items, "groups"), per_item(weights, items, "weights"))
        return self.fitted.thresholds(as_level(alpha), self.score, checked, *new)

    def predict_set(
        self,
        prediction: ArrayLike,
        alpha: float = 0.1,
        *,
        classes: Sequence[Any] | None = None,
        groups: Any = None,
        weights: Any = None,
    ) -> Sets:
        """Predict the sets of all distributions (or labels) whose score is at most the threshold.

        The attribute ``guarantee`` states what the sets contain with probability at least 1 − α,
        and under which assumptions.

        Parameters
        ----------
        prediction : array of shape (N, K)
            Predicted distributions, or Dirichlet concentrations for a second-order score.
        alpha : float
            Miscoverage rate in (0, 1). The same calibration can be used with any rate.
        classes : sequence, optional
            Names of the columns. The columns are put into the order of the calibration data. By
            default the names are those of the columns of a data frame.
        groups : sequence of N keys, or array of shape (N, d), optional
            Group of each item if the calibration has groups by keys, or its features if it uses
            `Conditional`.
        weights : array of shape (N,), optional
            Likelihood ratio of each item if the calibration is weighted.

        Returns
        -------
        CredalSet or LabelSets
            A batch of N sets, some of which may be empty.
        """
        found = Checked(self.check(prediction, classes), item_names(prediction))
        thresholds = self.thresholds(found, alpha, groups=groups, weights=weights)  # type: ignore[arg-type]
        return self._sets_within(found.prediction, thresholds, found.items)

    @abstractmethod
    def _sets_within(
        self, checked: Prediction, thresholds: FloatArray, items: tuple[Any, ...] | None
    ) -> Sets:
        """Return the sets at these thresholds, with the names of the items."""


def read_items(
    score: Score,
    prediction: Any,
    labels: Any,
    classes: Sequence[Any] | None = None,
    labels_name: str = "labels",
) -> tuple[Score, Prediction, Labels]:
    """Return the score, valid predictions and labels of the calibration items, matched by name.

    An ordinal score gets the positions of the labels' scale, unless it has its own, and columns in
    the order of the scale.
    """
    if hasattr(prediction, "fit"):
        what = type(prediction).__name__
        raise TypeError(
            f"prediction must hold predictions, but is a {what}. Use "
            f"ConformalCredalClassifier({what}(...)) to calibrate a model."
        )
    names = class_names(prediction, "prediction") if classes is None else as_names(classes)
    if classes is None and class_names(labels, labels_name) is None:
        warn_of_numbers(names, "classes", "prediction", labels_name)
    if isinstance(prediction, Checked):
        checked = prediction.prediction
    else:
        checked = score.check_prediction(order_columns(prediction, names, "prediction", "classes"))
    n_classes = score.n_classes(checked)
    if names is not None and len(names) != n_classes:
        raise ValueError(f"prediction has {n_classes} columns, but there are {len(names)} classes.")
    items = item_names(prediction)
    found = read_labels(labels, items=items, classes=names, n_classes=n_classes, name=labels_name)
    score.check_pairs(checked, found.distributions, labels_name)
    if len(checked) == 0:
        raise ValueError(
            f"prediction and {labels_name} are empty. Pass at least one item to calibrate on."
        )
    has_names = class_names(prediction, "prediction") is not None
    order = found.scale_order(has_names, labels_name) if score.is_ordinal else None
    if order is not None:
        checked = map_arrays(checked, lambda array: array[:, order])
        found = found.reorder(order)
        warn(
            "the columns of prediction are put into the order of the scale, "
            f"{join_names(found.classes or (), 8)}. "
            "Later predictions need names of classes too, or this order."
        )
    return score.on_scale(found.scale), checked, found


def as_level(alpha: Any) -> Fraction:
    """Check a miscoverage rate and return an exact fraction; warn if it looks like a coverage."""
    number = as_probability(alpha, "alpha")
    if number > LARGEST_LIKELY:
        warn(
            f"alpha={number:g} is a miscoverage rate: sets will cover only {1 - number:.3g} of "
            f"the items. Set alpha to {1 - number:.3g} for a coverage of {number:g}."
        )
    scalar: Any = alpha[()] if isinstance(alpha, np.ndarray) else alpha
    return exact_level(scalar)
