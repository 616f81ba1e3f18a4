"""What a nonconformity score is, and how it meets its region.

A score is a frozen dataclass with two duties: `Score.__call__` says how badly a label distribution fits a prediction,
and `Score.region` gives the credal set of all distributions that fit at least as well as a threshold. One law binds
them: ``score(prediction, λ) <= t`` if and only if λ lies in ``score.region(prediction, t)``.

A new score writes one method, `Score.formula`. Everything else has a default: the geometry is that of the level set of
the formula, the best fit is the prediction. Closed forms replace these defaults where they are known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from credalset._parallel import gather_blocks
from credalset._predictions import PredictionBatch, map_arrays, row_size
from credalset._typing import ArrayLike, FloatArray, Prediction
from credalset._validation import as_concentrations, as_distributions, as_thresholds
from credalset.sets.credal_set import CredalSet
from credalset.sets.geometry import Geometry
from credalset.sets.level_set import LevelSet

#: every registered score, by name; see `credalset.scores.register_score`
REGISTRY: dict[str, type[Score]] = {}

BLOCK_SIZE = 1 << 15  # entries of predictions scored at a time: they and what the formula makes of them stay in cache


class Score(ABC):
    """A nonconformity score f(x, λ) on the simplex, together with the region {λ : f(x, λ) ≤ t}.

    Subclasses are frozen dataclasses whose fields are the score's parameters. A subclass that changes the formula of
    another score must change its geometry too: derive from `Score` instead.
    """

    name: ClassVar[str]
    #: "first": predictions are distributions (N, K). "second": predictions are Dirichlet concentrations (N, K) ≥ 1.
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
            Nonconformity; larger is stranger, ``+inf`` is legal.
        """
        checked = self.check_prediction(prediction)
        labels = as_distributions(distribution, "distribution")
        self.check_pairs(checked, labels, "distribution")
        return self.evaluate_rows(checked, labels)

    def region(self, prediction: ArrayLike, threshold: ArrayLike) -> CredalSet:
        """Return the batch of credal sets {λ : f(prediction, λ) ≤ threshold}, one per prediction.

        Parameters
        ----------
        prediction : array of shape (N, K)
            Predicted distributions (first order) or Dirichlet concentrations (second order).
        threshold : float or array of shape (N,)
            In the units of the score; ``+inf`` gives the whole simplex.
        """
        checked = self.check_prediction(prediction)
        return self._region(checked, as_thresholds(threshold, len(checked)))

    def _region(self, prediction: Prediction, threshold: FloatArray) -> CredalSet:
        """Build sets from valid predictions and thresholds (N,); they own their memory."""
        own = map_arrays(prediction, np.array)
        return CredalSet(self, own, threshold, self.geometry(own, threshold))

    @abstractmethod
    def formula(self, prediction: Prediction, distribution: FloatArray) -> FloatArray:
        """Compute f on arrays (…, K) of valid predictions and distributions that broadcast against each other: (…).

        Never NaN; ``+inf`` is legal. Use operations entry by entry and sums over the last axis: ties are then exact,
        see `evaluate_pairs`. Warnings of division by zero and the like are off.
        """

    def geometry(self, prediction: Prediction, threshold: FloatArray) -> Geometry:
        """Return the regions of valid predictions at thresholds (N,): by default the level sets of the formula.

        The radius is negative where a region is empty and ``+inf`` where it is the whole simplex.
        """
        if not self.is_convex:
            raise NotImplementedError(
                f"{type(self).__name__} is not convex, and only convex formulas have a geometry by default: define "
                "geometry(self, prediction, threshold)."
            )
        return LevelSet.build(self, prediction, threshold)

    def best_fit(self, prediction: Prediction) -> FloatArray:
        """Return, per row, a distribution with the smallest possible score: by default what is predicted."""
        if self.order == "first" and not isinstance(prediction, PredictionBatch):
            return np.asarray(prediction)
        raise NotImplementedError(
            f"{type(self).__name__} must say which distribution fits a prediction best: define "
            "best_fit(self, prediction), with predictions (N, K) to distributions (N, K)."
        )

    def evaluate_rows(self, prediction: Prediction, distribution: FloatArray) -> FloatArray:
        """Score row against row, (N,), for predictions and distributions (N, K) that are already valid."""

        def one_block(rows: slice) -> FloatArray:
            return self.evaluate_pairs(prediction[rows], distribution[rows, None])[:, 0]

        scores = np.asarray(gather_blocks(one_block, len(distribution), row_size(prediction), BLOCK_SIZE))
        missing = np.isnan(scores)
        if missing.any():
            row = int(missing.argmax())
            raise ValueError(
                f"the formula of score {self.name!r} is NaN for row {row}, whose label distribution is "
                f"{distribution[row].tolist()}. It may be +inf, but must be a number."
            )
        return scores

    def evaluate_pairs(self, prediction: Prediction, points: FloatArray) -> FloatArray:
        """Score valid distributions (N, M, K), or (1, M, K) for all, against each of N valid predictions: (N, M).

        The formula sees arrays in which the classes lie furthest apart in memory. Sums over classes then add one class
        after the other, so a score depends neither on the batch it is computed in nor on how arrays came: equal
        inputs tie exactly, which closed conformal sets rely on.
        """
        n, m = len(prediction), points.shape[1]
        if n == 0 or m == 0:
            return np.empty((n, m))
        if n == 1:  # NumPy sums a single row in another order: score it twice
            return self.evaluate_pairs(prediction[[0, 0]], points)[:1]
        if m == 1 and len(points) == 1:
            points = np.repeat(points, n, axis=0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            rows = map_arrays(prediction, lambda array: np.asfortranarray(array)[:, None])
            return self.formula(rows, np.asfortranarray(points))

    # --- predictions ---

    @property
    def prediction_methods(self) -> tuple[str, ...]:
        """The estimator's methods that give such predictions, the preferred one first."""
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
        """Refuse a number of classes that the score's parameters do not fit."""
        return

    def n_classes(self, prediction: Prediction) -> int:
        """Return the number of classes K of valid predictions."""
        return prediction.n_classes if isinstance(prediction, PredictionBatch) else int(prediction.shape[1])

    def mean(self, prediction: Prediction) -> FloatArray:
        """Return the expected label distribution under valid predictions, (N, K)."""
        if isinstance(prediction, PredictionBatch):
            return prediction.mean()
        return np.asarray(prediction if self.order == "first" else prediction / prediction.sum(axis=1, keepdims=True))

    def check_pairs(self, prediction: Prediction, labels: FloatArray, labels_name: str = "labels") -> None:
        """Check that valid predictions and labels describe the same items over the same classes."""
        shape = (len(prediction), self.n_classes(prediction))
        if shape != labels.shape:
            raise ValueError(
                f"prediction has shape {shape} and {labels_name} has shape {labels.shape}; both need one row per item "
                "and one column per class, in the same order."
            )

    # --- what calibration with noise and cross-conformal calibration ask ---

    def largest_above(self, prediction: Prediction, lower: FloatArray) -> FloatArray:
        """Return per row the largest score over {λ : λ ≥ lower}, or an upper bound of it; no checks.

        That set is a simplex with K corners, and a convex score attains its maximum at one of them.
        """
        if not self.is_convex:
            raise ValueError(
                f"the score {self.name!r} is not convex and defines no method largest_above, so its largest score over "
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
        """Return per prediction the largest score of any distribution, or a bound above it; no checks."""
        return self.largest_above(prediction, np.zeros((len(prediction), self.n_classes(prediction))))

    def lipschitz(self, n_classes: int) -> float | None:
        """Return L with |f(x, λ) − f(x, λ')| ≤ L · TV(λ, λ') for every prediction x; None where none is known."""
        return None

    def label_scores(self, prediction: Prediction) -> FloatArray:
        """Return the score of each label, (N, K): that of the distribution in which it is certain; no checks."""
        n_classes = self.n_classes(prediction)

        def one_block(rows: slice) -> FloatArray:
            return self.evaluate_pairs(prediction[rows], np.eye(n_classes)[None])

        return np.asarray(gather_blocks(one_block, len(prediction), n_classes**2))

    def estimate_from_votes(self, prediction: Prediction, counts: FloatArray) -> FloatArray | None:
        """Return numbers whose mean over votes drawn from λ is at least f(x, λ), whatever λ is; None if there are none.

        They may be negative, and are at most `largest_score`. The closer the mean is to f, the better.
        """
        return None

    def common_center(self, models: Sequence[Prediction]) -> Prediction:
        """Return one prediction per item that those of several models are all near: their mean."""
        return np.mean(models, axis=0)

    def enclosing_threshold(self, model: Prediction, center: Prediction, threshold: FloatArray) -> FloatArray:
        r"""Return t with $\{f(model, \cdot) \le threshold\} \subseteq \{f(center, \cdot) \le t\}$, broadcast."""
        return threshold + self.largest_gap(model, center)

    def largest_gap(self, model: Prediction, center: Prediction) -> FloatArray:
        """Return the supremum over λ of f(center, λ) − f(model, λ), (N,): for a metric their distance, at λ = model."""
        if not self.is_metric:
            raise NotImplementedError(f"no enclosing balls are known for the score {self.name!r}.")
        return self.evaluate_rows(model, center)
