"""The protocol of all calibrations, and what those with one score per item share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from credalset._batch import Batch, Labels, Names, read, take_names
from credalset._display import join_names, plural
from credalset._typing import AnyArray, FloatArray, IntArray, Prediction
from credalset._validation import as_probability, freeze
from credalset.calibration.levels import CoverageDistribution, exact_level
from credalset.calibration.noise import PLAIN, Columns, Guarantee, Noise
from credalset.calibration.thresholds import Options, Thresholds
from credalset.exceptions import warn
from credalset.io.store import Saved
from credalset.scores import Score
from credalset.sets import CredalSet

LARGEST_LIKELY = 0.5  # miscoverage rate beyond which alpha was probably meant as a coverage

#: what a calibration can do beyond predicting sets
Support = Literal["votes", "groups", "weights", "p_values", "constant"]

REFUSED = {
    "votes": "votes in hand were given, but sets of this calibration do not use them. Calibrate "
    "with a DirichletCrowd",
    "groups": "groups was given, but the calibration has no groups. Omit groups",
    "weights": "weights was given, but the calibration has no weights. Pass weights to "
    "conformalize too",
}


@dataclass(frozen=True, eq=False)
class Inputs:
    """Valid inputs for N items, read once by a calibration: what its thresholds depend on.

    Attributes
    ----------
    batch : Batch
        The predictions with their names, for whatever else belongs to the items.
    prediction : ndarray of shape (N, K) or PredictionBatch
        Valid predictions, around which the score forms sets.
    codes : ndarray of shape (N,)
        Group of each item by its number; −1 for a group without calibration items.
    keys : tuple or None
        Key of the group of each item; None if the calibration has no groups.
    columns : Columns
        Weights and features.
    in_hand : ndarray of shape (N, K) or None
        Votes in hand that the sets use.
    set_aside : ndarray of shape (N, K) or None
        Votes in hand that the sets do not use, and therefore cover.
    """

    batch: Batch
    prediction: Prediction
    codes: IntArray
    keys: Names | None = None
    columns: Columns = PLAIN
    in_hand: FloatArray | None = None
    set_aside: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.batch)

    def take(self, rows: Any) -> Inputs:
        """Return the inputs of some items."""
        return replace(
            self,
            batch=self.batch[rows],
            prediction=self.prediction[rows],
            codes=self.codes[rows],
            keys=take_names(self.keys, rows),
            columns=self.columns.take(rows),
            in_hand=None if self.in_hand is None else self.in_hand[rows],
            set_aside=None if self.set_aside is None else self.set_aside[rows],
        )


class Predictor(Saved, ABC):
    """What predicts sets: a calibration, or a classifier that has one.

    Evaluation, reports, tables and commands know this and nothing else of them.
    """

    #: what the first argument of `predict_set` holds
    reads: Any = "predictions"

    @property
    @abstractmethod
    def calibration(self) -> Calibration:
        """The calibration that gives the guarantee."""

    @property
    def feature_names(self) -> Names | None:
        """Names of the features that `predict_set` takes; None without features or names."""
        return None

    @property
    def feature_kinds(self) -> tuple[str, ...] | None:
        """What the features are: number, category or text; None if all are numbers."""
        return None

    @property
    def text_name(self) -> str | None:
        """Name of the column of texts that `predict_set` takes; None without texts or name."""
        return None

    def _fills_in(self) -> bool:
        """Tell whether features may be missing."""
        return False

    def _known_categories(self) -> dict[str, set[Any]]:
        """Return the values of categories that were in training, by the name of the feature."""
        return {}

    @abstractmethod
    def _read(
        self, inputs: Any, *, votes: Any = None, groups: Any = None, weights: Any = None
    ) -> Inputs:
        """Read and check the arguments of `predict_set`, once for all levels."""

    @abstractmethod
    def _used(self) -> dict[str, set[str]]:
        """Return the names of the items that were used before, by what they were used for."""


class Calibration(Predictor):
    """Abstract base of calibrations: a score with calibrated thresholds, which predicts sets.

    All calibrations have these attributes and methods. What one cannot do is not in ``supports``,
    and the argument is refused.

    Attributes
    ----------
    score : Score
        The nonconformity score.
    n_classes : int
        Number of classes K.
    classes : tuple or None
        Names of the classes in column order, if they are known.
    items : tuple or None
        Names of the calibration items, if they are known.
    guarantee : Guarantee
        What predicted sets contain, for which items, and under which assumptions.
    supports : frozenset of str
        Which of ``"votes"``, ``"groups"``, ``"weights"`` and ``"p_values"`` the calibration takes
        or computes.
    """

    #: whether sets hold distributions or labels
    predicts: ClassVar[Literal["distributions", "labels"]] = "distributions"

    score: Any
    n_classes: Any
    classes: Any
    items: Any

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What predicted sets contain, for which items, and under which assumptions."""

    @property
    @abstractmethod
    def supports(self) -> frozenset[Support]:
        """What the calibration takes or computes beyond predictions and a level."""

    @property
    def groups(self) -> Names | None:
        """Keys of the groups, each of which has its own threshold; None without groups."""
        return None

    @property
    def calibration(self) -> Calibration:
        """The calibration itself; a classifier has one too."""
        return self

    @abstractmethod
    def __len__(self) -> int:
        """Number of calibration items."""

    # --- sets ---

    def predict_set(
        self,
        predictions: Any,
        alpha: float = 0.1,
        *,
        votes: Any = None,
        groups: Any = None,
        weights: Any = None,
    ) -> Any:
        """Predict the sets of all distributions (or labels) whose score is at most the threshold.

        The attribute ``guarantee`` states what the sets contain with probability at least 1 − α,
        and under which assumptions.

        Parameters
        ----------
        predictions : array or data frame of shape (N, K)
            Predicted distributions, or Dirichlet concentrations for a second-order score. Columns
            with names are put into the order of the calibration's classes; columns without are in
            this order.
        alpha : float
            Miscoverage rate in (0, 1). The same calibration can be used with any rate.
        votes : array or data frame of shape (N, K), Annotations or None
            Votes in hand, for a calibration that uses them (``"votes" in supports``).
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
        inputs = self._read(predictions, votes=votes, groups=groups, weights=weights)
        sets = self._predict(inputs, as_level(alpha))
        warn_of_empty(sets)
        return sets

    def thresholds(
        self,
        predictions: Any,
        alpha: float = 0.1,
        *,
        votes: Any = None,
        groups: Any = None,
        weights: Any = None,
    ) -> FloatArray:
        """Return the threshold of each item.

        Thresholds differ between items if the calibration has groups or weights, uses votes in
        hand or `UnbiasedVotes`.

        Parameters
        ----------
        predictions, alpha, votes, groups, weights
            As in `predict_set`.

        Returns
        -------
        ndarray of shape (N,)
            The thresholds.
        """
        inputs = self._read(predictions, votes=votes, groups=groups, weights=weights)
        return self._thresholds(inputs, as_level(alpha))

    # --- what the package asks of a calibration, with arguments that are read and valid ---

    def _read(
        self, predictions: Any, *, votes: Any = None, groups: Any = None, weights: Any = None
    ) -> Inputs:
        """Read and check the arguments of `predict_set`."""
        for name, given in (("votes", votes), ("groups", groups), ("weights", weights)):
            if given is not None and name not in self.supports:
                raise ValueError(f"{REFUSED[name]}.")
        return self._read_inputs(predictions, votes, groups, weights)

    @abstractmethod
    def _read_inputs(self, predictions: Any, votes: Any, groups: Any, weights: Any) -> Inputs:
        """Read arguments that the calibration supports."""

    @abstractmethod
    def _thresholds(self, inputs: Inputs, level: Fraction) -> FloatArray:
        """Return the threshold of each item, (N,)."""

    @abstractmethod
    def _sets(self, inputs: Inputs, thresholds: FloatArray) -> Any:
        """Return the sets at these thresholds."""

    def _predict(self, inputs: Inputs, level: Fraction) -> Any:
        return self._sets(inputs, self._thresholds(inputs, level))

    @property
    def _needs_groups(self) -> bool:
        """Whether new items must have groups."""
        return False

    @abstractmethod
    def _all_scores(self) -> FloatArray:
        """Return all calibration scores, which identify the calibration."""

    def _serves(self, level: Fraction) -> bool:
        """Whether sets can be predicted at a level."""
        return True

    def _guaranteed(self, alpha: float) -> float:
        """Return the coverage that is guaranteed at a level."""
        return 1.0 - as_probability(alpha, "alpha")

    def _coverage_of(
        self, inputs: Inputs, alpha: float, rows: AnyArray
    ) -> list[tuple[CoverageDistribution, int]] | None:
        """Return independent parts of some items: their coverage's distribution, and their number.

        None if the distribution is not known, as with noise models or weights.
        """
        return None

    def _tested(self, inputs: Inputs, labels: Labels) -> tuple[FloatArray, str]:
        """Return the distributions that sets must cover, NaN where none is known, and a note."""
        return labels.distributions, ""

    def _p_of_scores(self, inputs: Inputs, scores: FloatArray) -> FloatArray | None:
        """Return the conformal p-values of one score per item; None if there are none."""
        return None

    def _check_assumption(self, inputs: Inputs, labels: Labels) -> Any:
        """Test the assumption about votes that the guarantee rests on; None if there is no test.

        The result prints as a table and has a ``sentence``.
        """
        return None

    def _used(self) -> dict[str, set[str]]:
        """Return the names of the items that were used before, by what they were used for."""
        return {"calibration": set(map(str, self.items or ()))}

    def _hold_back(self, predictions: Any, votes: Any) -> tuple[IntArray, Any, Any] | None:
        """Divide the votes of test items into those in hand and those to be covered.

        Returns the rows that can be tested, the votes in hand and the others; None if sets use no
        votes unless they are given.
        """
        return None


def warn_of_empty(sets: Any) -> None:
    """Say how many credal sets are empty, which for label sets is nothing unusual."""
    n_empty = int(sets.is_empty().sum()) if isinstance(sets, CredalSet) else 0
    if n_empty:
        warn(
            f"{n_empty} of {len(sets)} credal sets are empty: every distribution scores above the "
            "threshold for these predictions. The coverage guarantee still holds on average. "
            "Find them with sets.is_empty()."
        )


@dataclass(frozen=True, eq=False, repr=False)
class ScoreCalibration(Calibration):
    """A calibration that rests on one score per calibration item, with groups and weights."""

    score: Score
    scores: FloatArray
    n_classes: int
    fitted: Thresholds
    classes: Names | None = None
    items: Names | None = None

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
    def supports(self) -> frozenset[Support]:
        """What the calibration takes or computes beyond predictions and a level."""
        found: set[Support] = {"constant", "groups", "weights"}
        if self.fitted.has_p_values:
            found.add("p_values")
        return frozenset(found)

    @property
    def _n_models(self) -> int:
        """Number of models whose predictions one set takes."""
        return 1

    @property
    def noise(self) -> Noise:
        """The noise model: how votes relate to the distribution that is covered."""
        return self.fitted.noise

    @property
    def groups(self) -> Names | None:
        """Keys of the groups, each of which has its own threshold; None without groups."""
        return self.fitted.groups

    @property
    def _needs_groups(self) -> bool:
        by_key = self.fitted.groups is not None and not self.fitted.predicted
        return by_key or self.features is not None

    def _all_scores(self) -> FloatArray:
        return self.scores

    def _serves(self, level: Fraction) -> bool:
        return level > self.noise._spent

    @property
    def features(self) -> Names | None:
        """Names of the features that thresholds depend on; None without `Conditional`."""
        return self.fitted.features

    @property
    def guarantee(self) -> Guarantee:
        """What predicted sets contain, for which items, and under which assumptions."""
        return self.fitted.guarantee

    def _read_predictions(self, predictions: Any, name: str = "predictions") -> Batch:
        """Return valid predictions, their columns in the order of the calibration's classes."""
        batch = read(predictions, self.classes, self.n_classes, name)
        valid = self.score.check_prediction(batch.values, name, self.n_classes)
        return batch.with_values(valid)

    def _read_inputs(self, predictions: Any, votes: Any, groups: Any, weights: Any) -> Inputs:
        return self._inputs([self._read_predictions(predictions)], groups, weights)

    def _inputs(self, batches: Sequence[Batch], groups: Any, weights: Any) -> Inputs:
        """Return the inputs of items whose predictions are valid: one batch for each model."""
        (batch,) = batches
        return self._with_groups(batch, batch.values, groups, weights)

    def _with_groups(
        self, batch: Batch, prediction: Prediction, groups: Any, weights: Any
    ) -> Inputs:
        """Read the groups and weights of items."""
        groups = batch.per_item(groups, "groups")
        weights = batch.per_item(weights, "weights")
        codes, keys, columns = self.fitted.read_new(self.score, prediction, groups, weights)
        return Inputs(batch, prediction, codes, keys, columns)

    def _thresholds(self, inputs: Inputs, level: Fraction) -> FloatArray:
        fitted = self.fitted
        found = fitted.thresholds(level, inputs.prediction, inputs.codes, inputs.columns)
        fitted.warn_infinite(found, inputs.codes, level, self.score)
        return found

    def __repr__(self) -> str:
        order = ""
        if self.score.is_ordinal and self.classes is not None:
            order = f" ({' < '.join(map(str, self.classes))})"
        size = f"{plural(len(self), 'item')}, {self.n_classes} classes"
        how = self.fitted.describe()
        return f"{type(self).__name__}: score {self.score.title}{order}, {size}{how}"


@dataclass(frozen=True, eq=False)
class CalibrationItems:
    """Valid predictions, votes and options of the items that calibrate a score.

    Attributes
    ----------
    score : Score
        The score; an ordinal one has the positions of the scale of the votes.
    batch : Batch
        The predictions, with names.
    labels : Labels
        Their votes.
    options : Options
        Noise model, groups and weights.
    """

    score: Score
    batch: Batch
    labels: Labels
    options: Options = field(default_factory=Options)

    @property
    def prediction(self) -> Prediction:
        """The valid predictions."""
        return self.batch.values

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return self.score.n_classes(self.prediction)


def read_items(
    score: Score,
    predictions: Any,
    votes: Any,
    classes: Sequence[Any] | None = None,
    *,
    noise: Any = None,
    groups: Any = None,
    weights: Any = None,
    cross: bool = False,
    votes_name: str = "votes",
) -> CalibrationItems:
    """Read what calibrates a score: rows and columns in the order of the predictions.

    An ordinal score gets the positions of the scale of the votes, unless it has its own, and
    columns in the order of the scale.
    """
    batch = read(predictions, classes)
    batch = batch.with_values(score.check_prediction(batch.values, "predictions"))
    labels = batch.votes(votes, votes_name)
    if len(batch) == 0:
        raise ValueError(
            f"predictions and {votes_name} are empty. Pass at least one item to calibrate on."
        )
    if score.is_ordinal:
        batch, labels = in_scale_order(batch, labels, predictions, votes_name)
        score = score.on_scale(labels.scale)
    options = Options.read(
        len(batch),
        noise,
        batch.per_item(groups, "groups"),
        batch.per_item(weights, "weights"),
        cross=cross,
    )
    return CalibrationItems(score, batch, labels, options)


def in_scale_order(
    batch: Batch, labels: Labels, predictions: Any, name: str
) -> tuple[Batch, Labels]:
    """Put the columns into the order of the scale of the votes, with a warning.

    Columns of predictions without names stay where they are, because those of later predictions
    could not be put into another order: the caller is asked to.
    """
    order = labels.scale_order()
    if order is None:
        return batch, labels
    levels = join_names(take_names(labels.classes or tuple(range(len(order))), order) or (), 8)
    if not batch.is_named:
        raise ValueError(
            f"{name} are on the scale {levels}, but the columns are in another order. Pass "
            "predictions as a frame with class names, or put the columns of both into the order "
            "of the scale."
        )
    warn(
        f"the columns of predictions are put into the order of the scale, {levels}. Later "
        "predictions need names of classes too, or this order."
    )
    return batch.reorder(order), labels.reorder(order)


def as_level(alpha: Any) -> Fraction:
    """Check a miscoverage rate and return an exact fraction; warn if it looks like a coverage."""
    number = as_probability(alpha, "alpha")
    if number > LARGEST_LIKELY:
        warn(
            f"alpha={number:g} is a miscoverage rate: sets will cover only {1 - number:.3g} of the "
            f"items. Set alpha={1 - number:.3g} for a coverage of {number:g}."
        )
    scalar: Any = alpha[()] if isinstance(alpha, np.ndarray) else alpha
    return exact_level(scalar)
