"""What a nonconformity score is, and how it meets its region.

A score is a frozen dataclass with two duties: `Score.__call__` says how badly a label distribution fits a prediction,
and `Score.region` gives the credal set of all distributions that fit at least as well as a threshold. One law binds
them: ``score(prediction, λ) <= t`` if and only if λ lies in ``score.region(prediction, t)``.

A new score writes one method, `Score.formula`. Everything else has a default: the region is the level set of the
formula, the best fit is the prediction. Closed forms replace these defaults where they are known.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypeGuard

import numpy as np

from credalset._compiled import kernels
from credalset._parallel import for_each_block, gather_blocks
from credalset._predictions import PredictionBatch, map_arrays, row_size
from credalset._typing import ArrayLike, FloatArray, Prediction
from credalset._validation import EXACT_SUM_TOLERANCE, as_concentrations, as_distributions, as_thresholds, is_exact
from credalset.sets.credal_set import CredalSet
from credalset.sets.level_set import LevelSet

#: every registered score, by name; see `credalset.scores.register_score`
REGISTRY: dict[str, type[Score]] = {}

BLOCK_SIZE = 1 << 15  # entries of predictions scored at a time: they and what the formula makes of them stay in cache
KERNEL_BLOCK_SIZE = 1 << 20


def _is_plain(value: ArrayLike) -> TypeGuard[FloatArray]:
    return type(value) is np.ndarray and value.dtype == np.float64 and value.ndim == 2


def _class_major(array: FloatArray) -> FloatArray:
    """Lay an array (n, …, K) out with the classes of all items one after the other; not to be written to."""
    result = np.asfortranarray(array).view()
    result.flags.writeable = False
    return result


#: what a score may know of its formula; sets and calibration ask for it, and every answer has a default
_KNOWN_OF_A_FORMULA = {
    "best_fit",
    "_region",
    "is_metric",
    "has_convex_regions",
    "largest_above",
    "largest_within",
    "label_scores",
    "lipschitz",
    "largest_gap",
    "enclosing_threshold",
    "has_enclosing_balls",
    "is_convex_in_prediction",
    "treats_classes_alike",
    "estimate_from_votes",
}


class Score(ABC):
    """A nonconformity score f(x, λ) on the simplex, together with the region {λ : f(x, λ) ≤ t}.

    Subclasses are frozen dataclasses whose fields are the score's parameters.
    """

    name: ClassVar[str]
    #: "first": predictions are distributions (N, K). "second": predictions are Dirichlet concentrations (N, K) ≥ 1.
    order: ClassVar[Literal["first", "second"]]
    #: whether f(x, ·) is convex in λ for every prediction
    is_convex: ClassVar[bool] = True
    #: whether f obeys the triangle inequality; predictions and labels are then points of one space
    is_metric: ClassVar[bool] = False
    #: whether neighbouring columns are neighbouring levels of a scale, so that their order matters
    goes_by_order: ClassVar[bool] = False
    #: whether f(·, λ) is convex in the prediction for every λ
    is_convex_in_prediction: ClassVar[bool] = False
    #: whether renaming the classes of prediction and λ alike leaves f as it is
    treats_classes_alike: ClassVar[bool] = False

    #: whether predictions are arrays (N, K), to which `Normalized` and `Prototypes` can add numbers of their own
    has_plain_predictions: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        """Forget what is known of a formula in a subclass that replaces it."""
        super().__init_subclass__(**options)
        if "formula" not in vars(cls):
            return
        author = next(parent for parent in cls.__mro__[1:] if "formula" in vars(parent))
        for name in _KNOWN_OF_A_FORMULA - set(vars(cls)):
            owner = next(parent for parent in cls.__mro__[1:] if name in vars(parent))
            if author is not Score and issubclass(owner, author):
                setattr(cls, name, vars(Score)[name])

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
        scores = self._scores_of_exact(prediction, distribution)
        if scores is not None:
            return scores
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

    def check_prediction(
        self, prediction: ArrayLike, name: str = "prediction", n_classes: int | None = None
    ) -> Prediction:
        """Validate predictions of this score's order."""
        check = as_distributions if self.order == "first" else as_concentrations
        array = check(prediction, name, n_classes=n_classes)
        self._check_classes(array.shape[1])
        return array

    @property
    def prediction_methods(self) -> tuple[str, ...]:
        """The estimator's methods that give such predictions, the preferred one first."""
        return ("predict_proba",) if self.order == "first" else ("predict_concentration",)

    def n_classes(self, prediction: Prediction) -> int:
        """Return the number of classes K of valid predictions."""
        return prediction.n_classes if isinstance(prediction, PredictionBatch) else int(prediction.shape[1])

    def mean(self, prediction: Prediction) -> FloatArray:
        """Return the expected label distribution under valid predictions, (N, K)."""
        if isinstance(prediction, PredictionBatch):
            return prediction.mean()
        return prediction if self.order == "first" else prediction / prediction.sum(axis=1, keepdims=True)

    def is_convex_at(self, prediction: Prediction) -> bool:
        """Tell whether f(x, ·) is convex in λ for these predictions."""
        return self.is_convex

    def check_pairs(self, prediction: Prediction, labels: FloatArray, labels_name: str = "labels") -> None:
        """Check that valid predictions and labels describe the same items over the same classes."""
        shape = (len(prediction), self.n_classes(prediction))
        if shape != labels.shape:
            raise ValueError(
                f"prediction has shape {shape} and {labels_name} has shape {labels.shape}; both need one row per item "
                "and one column per class, in the same order."
            )

    # --- what a score knows of itself: calibration with noise and cross-conformal calibration ask for it ---

    @property
    def has_convex_regions(self) -> bool:
        """Whether every region {λ : f(x, λ) ≤ t} is convex: so for every convex score, and for some others."""
        return self.is_convex

    def largest_above(self, prediction: Prediction, lower: FloatArray) -> FloatArray:
        """Return per row the largest score over {λ : λ ≥ lower}, or a bound above it; no checks.

        That simplex has K corners, one of which a score with convex regions takes its maximum at.
        """
        if not self.has_convex_regions:
            raise ValueError(
                f"the score {self.name!r} does not say how large it gets over a set of distributions: its regions need "
                "not be convex. Give it a method largest_above, or use a convex score."
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

    def label_scores(self, prediction: Prediction) -> FloatArray:
        """Return the score of each label, (N, K): that of the distribution in which it is certain; no checks."""
        n_classes = self.n_classes(prediction)

        def one_block(rows: slice) -> FloatArray:
            return self.evaluate_pairs(prediction[rows], np.eye(n_classes)[None])

        return gather_blocks(one_block, len(prediction), n_classes**2)

    def estimate_from_votes(self, prediction: Prediction, counts: FloatArray) -> FloatArray | None:
        """Return numbers whose mean over votes drawn from λ is at least f(x, λ), whatever λ is; None if there are none.

        They may be negative, and are at most `largest_score`. The closer the mean is to f, the better.
        """
        return None

    def unscaled(self, prediction: Prediction) -> tuple[Score, FloatArray]:
        """Return a score g and positive numbers c, (n,), with f = g / c for these predictions."""
        return self, np.ones(len(prediction))

    def largest_within(self, prediction: Prediction, ball: CredalSet, radius: FloatArray) -> FloatArray:
        """Return per row the largest score over a set of the batch, or a bound above it; no checks.

        Members of each set lie within the total variation ``radius`` of its centre. Two bounds hold, and the smaller
        one counts: the score over the simplex above the set's lower envelope, and that of the centre plus as much as
        the score can change over the radius.
        """
        bound = self.largest_above(prediction, ball.lower())
        slope = self.lipschitz(ball.n_classes)
        if slope is None:
            return bound
        return np.minimum(bound, self.evaluate_rows(prediction, ball.center) + slope * radius)

    def lipschitz(self, n_classes: int) -> float | None:
        """Return L with |f(x, λ) − f(x, λ')| ≤ L · TV(λ, λ') for every prediction x; None where none is known."""
        return None

    def has_enclosing_balls(self, prediction: Prediction) -> bool:
        """Tell whether `enclosing_threshold` has an answer for such predictions."""
        return self.is_metric or type(self).largest_gap is not Score.largest_gap

    def common_center(self, models: Sequence[FloatArray]) -> FloatArray:
        """Return one prediction per item that those of several models are all near: their mean."""
        return np.mean(models, axis=0)

    def enclosing_threshold(self, model: FloatArray, center: FloatArray, threshold: FloatArray) -> FloatArray:
        r"""Return t with $\{f(model, \cdot) \le threshold\} \subseteq \{f(center, \cdot) \le t\}$, broadcast."""
        return threshold + self.largest_gap(model, center)

    def largest_gap(self, model: FloatArray, center: FloatArray) -> FloatArray:
        """Return the supremum over λ of f(center, λ) − f(model, λ), (N,): for a metric their distance, at λ = model."""
        if not self.is_metric:
            raise NotImplementedError(f"no enclosing balls are known for the score {self.name!r}.")
        return self.evaluate_rows(model, center)

    def evaluate_rows(self, prediction: Prediction, distribution: FloatArray) -> FloatArray:
        """Score row against row, (N,), for predictions and distributions (N, K) that are already valid."""

        def one_block(rows: slice) -> FloatArray:
            return self.evaluate_pairs(prediction[rows], distribution[rows, None])[:, 0]

        scores = gather_blocks(one_block, len(distribution), row_size(prediction), BLOCK_SIZE)
        return self._without_nan(scores, distribution)

    def evaluate_pairs(self, prediction: Prediction, points: FloatArray) -> FloatArray:
        """Score valid distributions (N, M, K), or (1, M, K) for all, against each of N valid predictions: (N, M).

        The formula sees arrays of at least two items in which the classes lie furthest apart in memory. Sums over
        classes then add one class after the other, so a score's bits depend neither on the batch it is computed in nor
        on how arrays came: equal inputs tie exactly, which closed conformal sets rely on.
        """
        n, m, k = len(prediction), points.shape[1], points.shape[2]
        if n == 0 or m == 0:
            return np.empty((n, m))
        if n == 1:  # NumPy sums a single row in another order: read half of the points against a copy
            both = np.concatenate([points[0], points[0, -1:]])[: m + m % 2].reshape(2, -1, k)
            return self.evaluate_pairs(prediction[[0, 0]], both).reshape(1, -1)[:, :m]
        if m == 1 and len(points) == 1:
            points = np.repeat(points, n, axis=0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            rows = map_arrays(prediction, lambda array: _class_major(array)[:, None])
            return self.formula(rows, _class_major(points))

    def params(self) -> dict[str, Any]:
        """Return the score's parameters as plain values, enough to build it again."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def _check_classes(self, n_classes: int) -> None:
        """Refuse a number of classes that the score's parameters do not fit."""
        return

    @abstractmethod
    def formula(self, prediction: Prediction, distribution: FloatArray) -> FloatArray:
        """Compute f on arrays (…, K) of valid predictions and distributions that broadcast against each other: (…).

        Never NaN; ``+inf`` is legal. Operations entry by entry and sums over the last axis are as good as exact about
        ties, see `evaluate_pairs`; matrix products are not. Warnings of division by zero and the like are off.
        """

    def best_fit(self, prediction: Prediction) -> FloatArray:
        """Return, per row, a distribution with the smallest possible score: by default what is predicted."""
        if self.order == "first" and not isinstance(prediction, PredictionBatch):
            return np.asarray(prediction)
        raise NotImplementedError(
            f"{type(self).__name__} must say which distribution fits a prediction best: define "
            "best_fit(self, prediction), with predictions (N, K) to distributions (N, K)."
        )

    def _region(self, prediction: Prediction, threshold: FloatArray) -> CredalSet:
        """Build the region for valid predictions and thresholds (N,): by default the level set of the formula."""
        if not self.is_convex_at(prediction):
            raise NotImplementedError(
                f"{type(self).__name__} is not convex, and only convex formulas have a region by default: define "
                "_region(self, prediction, threshold)."
            )
        return LevelSet.build(self, prediction, threshold)

    def _scores_of_exact(self, prediction: ArrayLike, distribution: ArrayLike) -> FloatArray | None:
        """Check and score plain arrays of distributions in one pass; None if anything about them is unusual.

        Rows that do not sum to one, and whatever else needs a second look, are left to the ordinary way, which
        normalises or complains.
        """
        if not (_is_plain(prediction) and _is_plain(distribution)) or prediction.shape != distribution.shape:
            return None
        own_check = type(self).check_prediction is not Score.check_prediction
        if self.order != "first" or own_check or prediction.shape[0] < 2 or prediction.shape[1] < 2:
            return None
        self._check_classes(prediction.shape[1])
        kernel, weights = self._kernel(prediction.size), self._kernel_weights(prediction.shape[1])
        result = np.empty(len(prediction))
        unusual = []

        def one_block(rows: slice) -> None:
            g, y = prediction[rows], distribution[rows]
            if kernel is not None and not kernel(g, y, weights, EXACT_SUM_TOLERANCE, result[rows]):
                return
            g, y = _class_major(g), _class_major(y)
            if is_exact(g) and is_exact(y):
                result[rows] = self.evaluate_pairs(g, y[:, None])[:, 0]
            else:
                unusual.append(rows)

        for_each_block(
            one_block, len(prediction), prediction.shape[1], BLOCK_SIZE if kernel is None else KERNEL_BLOCK_SIZE
        )
        return None if unusual else self._without_nan(result, distribution)

    def _kernel(self, size: int) -> Callable[..., bool] | None:
        """Return the compiled form of the formula for large arrays: that of the class which wrote the formula."""
        author = next(cls for cls in type(self).__mro__ if "formula" in vars(cls))
        name = vars(author).get("kernel_name")
        # Importing Numba takes longer than scoring a million numbers with NumPy.
        module = None if name is None else kernels("credalset.scores.base_kernels", size, at_least=1 << 20)
        return getattr(module, str(name)) if module is not None else None

    def _kernel_weights(self, n_classes: int) -> FloatArray:
        """Numbers handed to the compiled form of the formula, such as the gaps between classes for Wasserstein."""
        return np.ones(1)

    def _without_nan(self, scores: FloatArray, distribution: FloatArray) -> FloatArray:
        missing = np.isnan(scores)
        if not missing.any():
            return scores
        row = int(missing.argmax())
        raise ValueError(
            f"the formula of score {self.name!r} is NaN for row {row}, whose label distribution is "
            f"{distribution[row].tolist()}. It may be +inf, but must be a number for every prediction and "
            "distribution, zeros included."
        )
