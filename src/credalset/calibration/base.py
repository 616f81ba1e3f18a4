"""What every calibration is: a score, the rule that makes thresholds of its calibration scores, and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from credalset._guessing import Hinting
from credalset._typing import ArrayLike, FloatArray
from credalset._validation import Checked, as_counts, as_distributions, as_probability
from credalset.annotations.labels import (
    Labels,
    column_names,
    distinct_names,
    in_item_order,
    name_array,
    row_names,
    with_columns,
)
from credalset.annotations.votes import Annotations
from credalset.calibration.checks import check_kind, takes_mixtures, uses_mixtures
from credalset.calibration.quantile import exact_level
from credalset.calibration.rule import Rule
from credalset.calibration.saved import rule_from_plain, rule_to_plain
from credalset.exceptions import warn
from credalset.persistence.bundle import Bundle, write_bundle
from credalset.persistence.plain import is_whole, plain_names, read_names, refusing, require
from credalset.scores import Score
from credalset.scores.saved import score_from_dict
from credalset.sets.credal_set import CredalSet

LARGEST_LIKELY = 0.5  # miscoverage rate that anybody asks for on purpose


@dataclass(frozen=True, eq=False, repr=False)
class BaseCalibration(Hinting):
    """Everything that a split and a cross-conformal calibration have in common."""

    kind: ClassVar[str]
    _hints: ClassVar[dict[str, str]] = {
        "coverage": "Ask credalset.metrics.coverage(sets, Y) of the sets that predict_set returns.",
        "evaluate": "Ask credalset.evaluation.evaluate_predictions(calibration, prediction, labels, alphas).",
        "predict": "Ask predict_set(prediction, alpha=0.1).",
        "quantile": "Ask threshold(alpha=0.1).",
    }

    score: Score
    scores: FloatArray
    n_classes: int
    classes: tuple[Any, ...] | None = None
    rule: Rule = None  # type: ignore[assignment]
    mixtures: bool | None = None

    def __post_init__(self) -> None:
        if self.rule is None:
            object.__setattr__(self, "rule", Rule(self.scores))

    def __len__(self) -> int:
        """Number of calibration items."""
        return len(self.scores)

    @classmethod
    def from_rule(cls, score: Score, prediction: Any, labels: Labels, rule: Rule, **own: Any) -> Self:
        """Build a calibration of valid predictions and labels from the rule that they make."""
        n_classes, mixtures = score.n_classes(prediction), uses_mixtures(score, prediction)
        return cls(score, rule.scores, n_classes, labels.classes, rule, mixtures, **own)

    def save(self, path: str | Path) -> None:
        """Write the calibration to a directory (JSON and ``.npz``, no pickle); read it with `credalset.load`."""
        write_bundle(path, self.to_bundle())

    def to_bundle(self) -> Bundle:
        """Return the calibration as plain values and arrays."""
        rule, arrays = rule_to_plain(self.rule)
        values = {
            "score": self.score.describe(),
            "n_classes": self.n_classes,
            "classes": plain_names(self.classes, "class names"),
            "mixtures": self.mixtures,
            "rule": rule,
        }
        return Bundle(self.kind, values, arrays)

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """Build a calibration from what `to_bundle` returned, after checking all of it."""
        values: Any = bundle.values
        n_classes, mixtures = values.get("n_classes"), values.get("mixtures")
        require(is_whole(n_classes) and n_classes >= 2, "has no valid number of classes.")
        classes = read_names(values.get("classes"), "class names", n_classes)
        score = score_from_dict(values.get("score"))
        with refusing("contradicts itself"):
            score._check_classes(n_classes)
        is_valid = isinstance(mixtures, bool) if takes_mixtures(score) else mixtures is None
        require(is_valid, f"does not say which predictions its score {score.name!r} was calibrated with.")
        rule = rule_from_plain(values.get("rule"), bundle.arrays, score)
        return cls(score, rule.scores, n_classes, classes, rule, mixtures, **cls._own_fields(bundle, rule))

    @classmethod
    def _own_fields(cls, bundle: Bundle, rule: Rule) -> dict[str, Any]:
        """Return the fields that only this kind of calibration has."""
        return {}

    def check(
        self, prediction: ArrayLike | Checked, classes: Sequence[Any] | None = None, name: str = "prediction"
    ) -> FloatArray:
        """Return valid predictions, their columns in the order of the calibration's classes."""
        if isinstance(prediction, Checked):
            return prediction.prediction
        named, own = _with_names(prediction, classes, name)
        ordered = with_columns(named, own, self.classes, name, "the calibration data")
        checked = self.score.check_prediction(ordered, name, self.n_classes)
        check_kind(checked, self.mixtures, name)
        return checked

    def thresholds(
        self, prediction: ArrayLike, alpha: float = 0.1, *, groups: Any = None, weights: Any = None
    ) -> FloatArray:
        """Return the threshold of each prediction, (N,); they differ with groups, weights or `UnbiasedVotes`.

        Parameters
        ----------
        prediction, alpha, groups, weights
            As in `predict_set`.
        """
        ordered = per_item(prediction, groups, weights)
        return self.rule.thresholds(as_level(alpha), self.score, self.check(prediction), *ordered)

    def read_labels(self, labels: Any, name: str, prediction: Any) -> Labels:
        """Return the labels of items that were predicted, classes and rows matched by name."""
        like = "the calibration data"
        found = Labels.read(labels, name, classes=self.classes, like=like, n_classes=self.n_classes)
        return found.matching(row_names(prediction), name, "prediction")

    def _named(self, sets: CredalSet, prediction: Any) -> CredalSet:
        """Name the classes and the items of predicted sets, and warn of those without members."""
        n_empty = int(sets.is_empty().sum())
        if n_empty:
            which = "1 of 1 credal sets is" if len(sets) == 1 else f"{n_empty} of {len(sets)} credal sets are"
            warn(
                f"{which} empty: no distribution scores below the threshold for these predictions. The coverage "
                "guarantee still holds on average; sets.is_empty() tells which they are."
            )
        items = row_names(prediction)
        return replace(sets, classes=self.classes, items=None if items is None else name_array(items))


def read_items(
    score: Score, prediction: Any, labels: Any, classes: Sequence[Any] | None = None, labels_name: str = "labels"
) -> tuple[FloatArray, Labels]:
    """Return valid predictions and labels of the calibration items, classes and rows matched by name."""
    if isinstance(prediction, Annotations):
        raise TypeError(f"prediction holds annotations. The order is conformalize(prediction, {labels_name}, score).")
    named, own = _with_names(prediction, classes, "prediction")
    names = column_names(labels, labels_name) if own is None else own
    checked = named.prediction if isinstance(named, Checked) else _not_swapped(score, named, labels, labels_name)
    n_classes = score.n_classes(checked)
    if names is not None and len(names) != n_classes:
        whose = "classes" if classes is not None else labels_name
        raise ValueError(f"{whose} names {len(names)} classes, but prediction has {n_classes} columns.")
    found = Labels.read(labels, labels_name, classes=names)
    found = found.matching(row_names(prediction), labels_name, "prediction")
    score.check_pairs(checked, found.distributions, labels_name)
    if len(checked) == 0:
        raise ValueError(f"prediction and {labels_name} are empty: calibration needs at least one item.")
    return checked, found


def per_item(prediction: Any, groups: Any, weights: Any) -> tuple[Any, Any]:
    """Put groups and weights into the order of the predictions, where both name their items."""
    items = row_names(prediction)
    ordered = [in_item_order(v, items, n, "prediction") for n, v in (("groups", groups), ("weights", weights))]
    return ordered[0], ordered[1]


def _not_swapped(score: Score, prediction: Any, labels: Any, labels_name: str) -> FloatArray:
    """Return valid predictions; if they are none, but the labels would be, say so."""
    try:
        return score.check_prediction(prediction)
    except ValueError as error:
        try:
            as_counts(prediction, "prediction")
            as_distributions(np.asarray(labels), labels_name)
        except (TypeError, ValueError):
            raise error from None
        raise ValueError(
            f"{error} These are counts, and {labels_name} are distributions: the order is conformalize(prediction, "
            f"{labels_name}, score)."
        ) from None


def _with_names(value: Any, classes: Sequence[Any] | None, name: str) -> tuple[Any, tuple[Any, ...] | None]:
    """Return predictions in the order of the classes that were named, and the names of their columns."""
    own = column_names(value, name)
    if classes is None:
        return value, own
    wanted = distinct_names(classes, "classes")
    return with_columns(value, own, wanted, name, "classes"), wanted


def as_level(alpha: Any) -> Fraction:
    """Check a miscoverage rate and return the fraction that it stands for; warn of one that looks like a coverage."""
    if isinstance(alpha, list | tuple) or getattr(alpha, "ndim", 0) > 0:
        raise TypeError(
            f"alpha must be a number strictly between 0 and 1, but is {alpha!r}. Ask for one level at a time, "
            "{alpha: predict_set(..., alpha) for alpha in levels}; evaluate takes several."
        )
    number = as_probability(alpha, "alpha")
    if number > LARGEST_LIKELY:
        warn(
            f"alpha={number:g} is a miscoverage rate and asks for sets that cover only {1 - number:.3g} of the items. "
            f"For a coverage of {number:g} write alpha={1 - number:.3g}."
        )
    level: Any = alpha[()] if isinstance(alpha, np.ndarray) else alpha
    return exact_level(level)
