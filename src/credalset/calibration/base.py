"""What every calibration is: a score, the rule that makes thresholds of its calibration scores, and names."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from credalset._guessing import Hinting
from credalset._predictions import PredictionBatch
from credalset._typing import AnyArray, ArrayLike, FloatArray, Prediction
from credalset._validation import Checked, as_counts, as_distributions, as_probability
from credalset.annotations.labels import (
    Labels,
    column_names,
    distinct_names,
    in_item_order,
    name_array,
    row_names,
    shown,
    with_columns,
)
from credalset.annotations.seen import NOTHING, digests, reused
from credalset.annotations.votes import Annotations
from credalset.calibration.models import as_noise
from credalset.calibration.quantile import exact_level
from credalset.calibration.rule import Rule
from credalset.calibration.saved import rule_from_plain, rule_to_plain
from credalset.exceptions import warn
from credalset.persistence.bundle import Bundle, write_bundle
from credalset.persistence.plain import is_whole, plain_names, read_array, read_names, refusing, require
from credalset.scores import Score
from credalset.scores.saved import score_from_dict
from credalset.sets.credal_set import CredalSet

Sets = TypeVar("Sets")
LARGEST_LIKELY = 0.5  # miscoverage rate that anybody asks for on purpose
SEEN = "seen"


@dataclass(frozen=True, eq=False, repr=False)
class BaseCalibration(Hinting):
    """Everything that a split and a cross-conformal calibration have in common."""

    kind: ClassVar[str]
    _hints: ClassVar[dict[str, str]] = {
        "coverage": "Ask credalset.metrics.coverage(sets, Y) of the sets that predict_set returns.",
        "evaluate": "Ask credalset.evaluate(calibration, prediction, labels, alpha=[0.1, 0.2]).",
        "predict": "Ask predict_set(prediction, alpha=0.1).",
        "p_value": "Ask p_values(prediction, labels).",
        "quantile": "Ask threshold(alpha=0.1).",
        "queue": "Ask predict_set(prediction, alpha=0.1).queue().",
    }

    score: Score
    scores: FloatArray
    n_classes: int
    classes: tuple[Any, ...] | None = None
    rule: Rule = None  # type: ignore[assignment]
    mixtures: bool | None = None
    seen: AnyArray = field(default_factory=lambda: NOTHING, kw_only=True)

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
        seen = digests(labels.items, beside(prediction, labels))
        return cls(score, rule.scores, n_classes, labels.classes, rule, mixtures, seen=seen, **own)

    def reuse(self, items: Any, rows: Any = None) -> str:
        """Say that items which are to show how well sets cover were used to make them; an empty text if they were not.

        Parameters
        ----------
        items : sequence or None
            Names of the items.
        rows : array, optional
            By which items without names are known again: `beside` of predictions and labels, or features.
        """
        which = reused(self.seen, items, rows)
        so = "what is observed on them says nothing about new items. Keep some aside that neither of the two gets."
        return which and f"{which} were used in fit or conformalize: {so}"

    def save(self, path: str | Path) -> None:
        """Write the calibration to a directory (JSON and ``.npz``, no pickle); read it with `credalset.load`."""
        write_bundle(path, self.to_bundle())

    def to_bundle(self) -> Bundle:
        """Return the calibration as plain values and arrays."""
        rule, arrays = rule_to_plain(self.rule)
        arrays |= {SEEN: self.seen} if len(self.seen) else {}
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
        seen = NOTHING
        if SEEN in bundle.arrays:
            seen = read_array(bundle.arrays, SEEN, np.uint64, (None,), "digests of the items it has seen")
        return cls(score, rule.scores, n_classes, classes, rule, mixtures, seen=seen, **cls._own_fields(bundle, rule))

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


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdCalibration(BaseCalibration, Generic[Sets]):
    """A calibration for the predictions of one model: each gets a threshold, and the set of what scores no more."""

    def thresholds(
        self, prediction: ArrayLike, alpha: float = 0.1, *, groups: Any = None, weights: Any = None
    ) -> FloatArray:
        """Return the threshold of each prediction, (N,); they differ with groups, weights or `UnbiasedVotes`.

        Parameters
        ----------
        prediction, alpha, groups, weights
            As in `predict_set`.
        """
        return self._thresholds(prediction, self.check(prediction), alpha, groups, weights)

    def predict_set(
        self,
        prediction: ArrayLike,
        alpha: float = 0.1,
        *,
        classes: Sequence[Any] | None = None,
        groups: Any = None,
        weights: Any = None,
    ) -> Sets:
        """Predict what scores at most the threshold: credal sets {λ : score(prediction, λ) ≤ threshold}, or label sets.

        Parameters
        ----------
        prediction : array of shape (N, K)
            Predicted distributions, or Dirichlet concentrations for a second-order score.
        alpha : float
            Miscoverage rate in (0, 1); any level may be asked of the same calibration.
        classes : sequence, optional
            Names of the columns, which are put into the order of those seen in calibration. Read from the columns of a
            data frame.
        groups : sequence of N keys, or array of shape (N, d), optional
            Group of each item, if the calibration has groups of its own keys; its features, if it is `Conditional`.
        weights : array of shape (N,), optional
            Likelihood ratio of each item, if the calibration is weighted.

        Returns
        -------
        CredalSet or LabelSets
            A batch of N sets. Some may be empty: nothing conforms to the prediction.
        """
        checked = self.check(prediction, classes)
        return self._sets_within(checked, self._thresholds(prediction, checked, alpha, groups, weights), prediction)

    def _thresholds(
        self, prediction: ArrayLike, checked: FloatArray, alpha: float, groups: Any, weights: Any
    ) -> FloatArray:
        ordered = per_item(prediction, groups, weights)
        return self.rule.thresholds(as_level(alpha), self.score, checked, *ordered)

    @abstractmethod
    def _sets_within(self, checked: FloatArray, thresholds: FloatArray, prediction: Any) -> Sets:
        """Return the sets of what scores at most the thresholds, with the names of the items."""


def read_items(
    score: Score, prediction: Any, labels: Any, classes: Sequence[Any] | None = None, labels_name: str = "labels"
) -> tuple[FloatArray, Labels]:
    """Return valid predictions and labels of the calibration items, classes and rows matched by name."""
    if isinstance(prediction, Annotations):
        raise TypeError(f"prediction holds annotations. The order is conformalize(prediction, {labels_name}, score).")
    if hasattr(prediction, "fit"):
        what = type(prediction).__name__
        raise TypeError(
            f"prediction must hold predictions, but is a {what}. A model is calibrated by "
            f"ConformalCredalClassifier({what}()), which has cross_conformalize(X, Y), and fit and conformalize."
        )
    named, own = _with_names(prediction, classes, "prediction")
    names = column_names(labels, labels_name) if own is None else own
    checked = named.prediction if isinstance(named, Checked) else _not_swapped(score, named, labels, labels_name)
    n_classes = score.n_classes(checked)
    if names is not None and len(names) != n_classes:
        whose = "classes" if classes is not None else labels_name
        raise ValueError(f"{whose} names {len(names)} classes, but prediction has {n_classes} columns.")
    found = Labels.read(labels, labels_name, classes=names)
    found = found.matching(row_names(prediction), labels_name, "prediction")
    found = found if found.items is not None else replace(found, items=row_names(prediction))
    score.check_pairs(checked, found.distributions, labels_name)
    if score.goes_by_order and names is not None and found.scale not in (None, names):
        raise ValueError(
            f"{labels_name} are on the scale {shown(found.scale, 8)}, but predictions have the classes in the order "
            f"{shown(names, 8)}, and for the score {score.name!r} neighbouring columns are neighbouring levels. Put "
            "columns into the order of the scale, prediction[list(votes.classes)]; a classifier learns it where it is "
            "fitted to votes on that scale."
        )
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


def beside(prediction: Prediction, labels: Labels) -> FloatArray:
    """Return a row per item by which it is known again, (n, …): its prediction beside its label distribution."""
    first = prediction.arrays()[0] if isinstance(prediction, PredictionBatch) else prediction
    return np.hstack([np.reshape(first, (len(first), -1)), labels.distributions])


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
