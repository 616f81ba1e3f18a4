"""The base class of nonconformity scores.

A score is a frozen dataclass. `Score.__call__` measures how badly a label distribution fits a
prediction, and `Score.region` returns the credal set of all distributions with a score of at most a
threshold: ``score(prediction, λ) <= t`` if and only if λ is in ``score.region(prediction, t)``.

A new score defines one method, `Score.formula`. Everything else has a default: the regions are
level sets of the formula, and the best fit is the prediction. Closed forms override the defaults
where they are known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from credalset._batch import read
from credalset._blocks import gather_blocks
from credalset._predictions import PredictionBatch, map_arrays, row_size
from credalset._typing import ArrayLike, FloatArray, Prediction
from credalset._validation import as_concentrations, as_distributions, as_thresholds
from credalset.sets.credal_set import CredalSet
from credalset.sets.geometry import Geometry
from credalset.sets.level_set import LevelSet

#: every registered score, by name; see `credalset.scores.register_score`
REGISTRY: dict[str, type[Score]] = {}

#: entries of predictions scored at a time, so that intermediate arrays stay in cache
BLOCK_SIZE = 1 << 15


class Score(ABC):
    """A nonconformity score f(x, λ) on the simplex, together with the region {λ : f(x, λ) ≤ t}.

    A score of your own is a subclass, written as a frozen dataclass whose fields are the parameters
    of the score; see the guide *Write your own score*. To change the formula of an existing score,
    derive from `Score` and not from that score, because its geometry belongs to its formula.
    """

    name: ClassVar[str]
    #: "first": predictions are distributions (N, K). "second": predictions are Dirichlet
    #: concentrations (N, K) ≥ 1.
    order: ClassVar[Literal["first", "second"]]
    #: whether f(x, ·) is convex in λ for every prediction
    is_convex: ClassVar[bool] = True
    #: whether f obeys the triangle inequality; predictions and labels are then points of one space
    is_metric: ClassVar[bool] = False
    #: whether `enclosing_threshold` has an answer; every metric has one
    has_enclosing_balls: ClassVar[bool] = False
    #: whether neighbouring columns are neighbouring levels of a scale, so that their order matters
    is_ordinal: ClassVar[bool] = False

    def __call__(self, prediction: ArrayLike, distribution: ArrayLike) -> FloatArray:
        """Score each distribution against the prediction in the same row.

        Parameters
        ----------
        prediction : array of shape (N, K)
            Predicted distributions (first order) or Dirichlet concentrations (second order).
        distribution : array of shape (N, K)
            Label distributions.

        Returns
        -------
        ndarray of shape (N,)
            Nonconformity scores. A larger score is a worse fit; it may be ``+inf``.
        """
        batch = read(prediction, name="prediction")
        batch = batch.with_values(self.check_prediction(batch.values))
        labels = batch.matrix(distribution, "distribution")
        labels = as_distributions(labels, "distribution")
        self.check_pairs(batch.values, labels, "distribution")
        return self.evaluate_rows(batch.values, labels)

    @property
    def positions(self) -> tuple[float, ...] | None:
        """Positions of the classes of an ordinal score, None for the default."""
        return None

    @property
    def title(self) -> str:
        """Name of the score in tables and descriptions."""
        return self.name

    def on_scale(self, positions: Sequence[float] | None) -> Score:
        """Return the score for classes at these positions.

        A score that has its own positions, or needs none, is returned as is.
        """
        return self

    def region(self, prediction: ArrayLike, threshold: ArrayLike) -> CredalSet:
        """Return the credal sets {λ : f(prediction, λ) ≤ threshold}, one per prediction.

        Parameters
        ----------
        prediction : array of shape (N, K)
            Predicted distributions (first order) or Dirichlet concentrations (second order).
        threshold : float or array of shape (N,)
            Largest score of a member; ``+inf`` gives the whole simplex.

        Returns
        -------
        CredalSet
            A batch of N sets.
        """
        batch = read(prediction, name="prediction")
        checked = self.check_prediction(batch.values)
        thresholds = as_thresholds(batch.per_item(threshold, "threshold"), len(checked))
        sets = self._region(checked, thresholds)
        return replace(sets, classes=batch.classes, items=batch.items)

    def _region(self, prediction: Prediction, threshold: FloatArray) -> CredalSet:
        """Build sets from copies of valid predictions and thresholds (N,)."""
        own = map_arrays(prediction, np.array)
        return CredalSet(self, own, threshold, self.geometry(own, threshold))

    @abstractmethod
    def formula(self, prediction: Prediction, distribution: FloatArray) -> FloatArray:
        """Compute f on arrays (…, K) of valid predictions and distributions.

        The arrays broadcast against each other, to (…).

        The result must not be NaN; ``+inf`` is legal. Use elementwise operations and sums over the
        last axis, so that ties are exact (see `evaluate_pairs`). Floating-point warnings are off.
        """

    def geometry(self, prediction: Prediction, threshold: FloatArray) -> Geometry:
        """Return regions of valid predictions at thresholds (N,), by default level sets.

        The radius is negative where a region is empty and ``+inf`` where it is the whole simplex.
        """
        if not self.is_convex:
            raise NotImplementedError(
                f"{type(self).__name__} is not convex, and only convex scores have a default "
                "geometry. Define geometry(self, prediction, threshold)."
            )
        return LevelSet.build(self, prediction, threshold)

    def best_fit(self, prediction: Prediction) -> FloatArray:
        """Return, per row, a distribution of smallest score: by default the prediction."""
        if self.order == "first" and not isinstance(prediction, PredictionBatch):
            return np.asarray(prediction)
        raise NotImplementedError(
            f"{type(self).__name__} does not define the distribution that fits a prediction best. "
            "Define best_fit(self, prediction), which maps predictions to distributions (N, K)."
        )

    def evaluate_rows(self, prediction: Prediction, distribution: FloatArray) -> FloatArray:
        """Score each valid distribution (N, K) against the prediction in the same row, (N,)."""

        def one_block(rows: slice) -> FloatArray:
            return self.evaluate_pairs(prediction[rows], distribution[rows, None])[:, 0]

        scores = np.asarray(
            gather_blocks(one_block, len(distribution), row_size(prediction), BLOCK_SIZE)
        )
        missing = np.isnan(scores)
        if missing.any():
            row = int(missing.argmax())
            raise ValueError(
                f"the formula of score {self.name!r} is NaN for row {row}, with the label "
                f"distribution {distribution[row].tolist()}. Return +inf where nothing fits."
            )
        return scores

    def evaluate_pairs(self, prediction: Prediction, points: FloatArray) -> FloatArray:
        """Score valid distributions (N, M, K) against each of N valid predictions: (N, M).

        Distributions (1, M, K) are the same for all predictions.

        The formula gets Fortran-ordered arrays, for which NumPy adds one class after the other. A
        score then depends neither on its batch nor on the memory layout of the input: equal inputs
        tie exactly, as closed conformal sets require.
        """
        n = len(prediction)
        m = points.shape[1]
        if n == 0 or m == 0:
            return np.empty((n, m))
        if n == 1:  # NumPy sums a single row in another order, so it is scored twice
            return self.evaluate_pairs(prediction[[0, 0]], points)[:1]
        if m == 1 and len(points) == 1:
            points = np.repeat(points, n, axis=0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            rows = map_arrays(prediction, lambda array: np.asfortranarray(array)[:, None])
            return self.formula(rows, np.asfortranarray(points))

    # --- predictions ---

    @property
    def prediction_methods(self) -> tuple[str, ...]:
        """The estimator's methods that return such predictions, the preferred one first."""
        return ("predict_proba",) if self.order == "first" else ("predict_concentration",)

    def check_prediction(
        self, prediction: ArrayLike, name: str = "prediction", n_classes: int | None = None
    ) -> Prediction:
        """Validate predictions of this score's order."""
        check = as_distributions if self.order == "first" else as_concentrations
        array = check(prediction, name, n_classes=n_classes)
        self._check_classes(array.shape[1])
        return array

    def _check_classes(self, n_classes: int) -> None:
        """Refuse a number of classes that does not match the score's parameters."""
        return

    def n_classes(self, prediction: Prediction) -> int:
        """Return the number of classes K of valid predictions."""
        return (
            prediction.n_classes
            if isinstance(prediction, PredictionBatch)
            else int(prediction.shape[1])
        )

    def mean(self, prediction: Prediction) -> FloatArray:
        """Return the expected label distribution under valid predictions, (N, K)."""
        if isinstance(prediction, PredictionBatch):
            return prediction.mean()
        return np.asarray(
            prediction
            if self.order == "first"
            else prediction / prediction.sum(axis=1, keepdims=True)
        )

    def stand_in(self, n_classes: int) -> Prediction:
        """Return a valid prediction for one item, which tells what properties sets have."""
        uniform = np.full((1, n_classes), 1.0 / n_classes)
        return uniform + 1.0 if self.order == "second" else uniform

    def check_pairs(
        self, prediction: Prediction, labels: FloatArray, labels_name: str = "labels"
    ) -> None:
        """Check that valid predictions and labels describe the same items over the same classes."""
        shape = (len(prediction), self.n_classes(prediction))
        if shape != labels.shape:
            raise ValueError(
                f"prediction has shape {shape}, but {labels_name} has shape {labels.shape}. Pass "
                "one row per item and one column per class in both, in the same order."
            )

    # --- used by noise models, label sets and cross-conformal calibration ---

    def largest_above(self, prediction: Prediction, lower: FloatArray) -> FloatArray:
        """Return per row the largest score over {λ : λ ≥ lower}, or an upper bound; no checks.

        That set is a simplex with K corners, and a convex score attains its maximum at one of them.
        """
        if not self.is_convex:
            raise ValueError(
                f"the score {self.name!r} is not convex and defines no method largest_above, so "
                "its largest score over "
                "a set of distributions is unknown. Define the method, or use a convex score."
            )
        spare = np.maximum(1.0 - lower.sum(axis=1), 0.0)
        largest = np.full(len(prediction), -np.inf)
        for k in range(lower.shape[1]):
            corner = lower.copy()
            corner[:, k] += spare
            np.maximum(largest, self.evaluate_rows(prediction, corner), out=largest)
        return largest

    def largest_score(self, prediction: Prediction) -> FloatArray:
        """Return the largest score of any distribution per prediction, or a bound; no checks."""
        return self.largest_above(
            prediction, np.zeros((len(prediction), self.n_classes(prediction)))
        )

    def lipschitz(self, n_classes: int) -> float | None:
        """Return L with |f(x, λ) − f(x, λ')| ≤ L · TV(λ, λ') for every x, None if unknown."""
        return None

    def label_scores(self, prediction: Prediction) -> FloatArray:
        """Return the score of each label, (N, K), i.e. of its one-hot distribution; no checks."""
        n_classes = self.n_classes(prediction)

        def one_block(rows: slice) -> FloatArray:
            return self.evaluate_pairs(prediction[rows], np.eye(n_classes)[None])

        return np.asarray(gather_blocks(one_block, len(prediction), n_classes**2))

    def scale_offset(self, n_classes: int) -> float | None:
        """Return the offset c with which a crowd divides the score by its predicted scale plus c.

        It must be in the units of the score. None if the score is not to be divided.
        """
        return None

    def estimate_from_votes(self, prediction: Prediction, counts: FloatArray) -> FloatArray | None:
        """Return estimates with mean at least f(x, λ) over votes drawn from λ; None if unknown.

        They may be negative and are at most `largest_score`. The closer the mean is to f, the
        better.
        """
        return None

    def common_center(self, models: Sequence[Prediction]) -> Prediction:
        """Return one prediction per item close to those of several models: by default, the mean."""
        return np.mean(models, axis=0)

    def enclosing_threshold(
        self, model: Prediction, center: Prediction, threshold: FloatArray
    ) -> FloatArray:
        r"""Return a threshold at which the centre's set contains the model's, by broadcasting.

        It is t with $\{f(model, \cdot) \le threshold\} \subseteq \{f(center, \cdot) \le t\}$.
        """
        return threshold + self.largest_gap(model, center)

    def largest_gap(self, model: Prediction, center: Prediction) -> FloatArray:
        """Return sup over λ of f(center, λ) − f(model, λ), (N,): a metric's distance of the two."""
        if not self.is_metric:
            raise NotImplementedError(
                f"score {self.name!r} is not a metric and does not define largest_gap."
            )
        return self.evaluate_rows(model, center)
