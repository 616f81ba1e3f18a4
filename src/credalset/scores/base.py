"""What a nonconformity score is, and how it meets its region.

A score is a frozen dataclass with two duties: `Score.__call__` says how badly a label distribution fits a prediction,
and `Score.region` gives the credal set of all distributions that fit at least as well as a threshold. One law binds
them: ``score(prediction, λ) <= t`` if and only if λ lies in ``score.region(prediction, t)``.

A new score fills in three methods, `_evaluate`, `_region` and `best_fit`, and adds itself to the registry in
``scores/__init__.py``.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypeGuard

import numpy as np

from credalset._compiled import kernels
from credalset._parallel import for_each_block
from credalset._typing import ArrayLike, FloatArray
from credalset._validation import (
    EXACT_SUM_TOLERANCE,
    as_concentrations,
    as_distributions,
    as_thresholds,
)
from credalset.sets.credal_set import CredalSet


def _is_plain(value: ArrayLike) -> TypeGuard[FloatArray]:
    return type(value) is np.ndarray and value.dtype == np.float64 and value.ndim == 2


#: what a score may know of its formula; calibration asks for it, and every answer has a default
_KNOWN_OF_A_FORMULA = {
    "is_metric",
    "has_convex_regions",
    "largest_above",
    "largest_within",
    "lipschitz",
    "largest_gap",
    "enclosing_threshold",
    "has_enclosing_balls",
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

    def __init_subclass__(cls, **options: Any) -> None:
        """Forget what is known of the parent's formula in a subclass with a formula of its own."""
        super().__init_subclass__(**options)
        if "_evaluate" in vars(cls):
            for name in _KNOWN_OF_A_FORMULA - set(vars(cls)):
                setattr(cls, name, getattr(Score, name))

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
        fused = self._fused_scores(prediction, distribution)
        if fused is not None:
            return fused
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
    ) -> FloatArray:
        """Validate predictions of this score's order."""
        check = as_distributions if self.order == "first" else as_concentrations
        array = check(prediction, name, n_classes=n_classes)
        self._check_classes(array.shape[1])
        return array

    @property
    def prediction_methods(self) -> tuple[str, ...]:
        """The estimator's methods that give such predictions, the preferred one first."""
        return ("predict_proba",) if self.order == "first" else ("predict_concentration",)

    def n_classes(self, prediction: FloatArray) -> int:
        """Return the number of classes K of valid predictions."""
        return int(prediction.shape[1])

    def mean(self, prediction: FloatArray) -> FloatArray:
        """Return the expected label distribution under valid predictions, (N, K)."""
        return prediction if self.order == "first" else prediction / prediction.sum(axis=1, keepdims=True)

    def is_convex_at(self, prediction: FloatArray) -> bool:
        """Tell whether f(x, ·) is convex in λ for these predictions."""
        return self.is_convex

    def check_pairs(self, prediction: FloatArray, labels: FloatArray, labels_name: str = "labels") -> None:
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

    def largest_above(self, prediction: FloatArray, lower: FloatArray) -> FloatArray:
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

    def largest_score(self, prediction: FloatArray) -> FloatArray:
        """Return per prediction the largest score of any distribution, or a bound above it; no checks."""
        return self.largest_above(prediction, np.zeros((len(prediction), self.n_classes(prediction))))

    def largest_within(self, prediction: FloatArray, ball: CredalSet, radius: FloatArray) -> FloatArray:
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

    def has_enclosing_balls(self, prediction: FloatArray) -> bool:
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

    def evaluate_rows(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """Score row against row, for arrays that are already valid."""
        result = np.empty(len(prediction))

        def one_block(rows: slice) -> None:
            result[rows] = self.evaluate(prediction[rows].T, distribution[rows].T)

        for_each_block(one_block, len(prediction), int(np.prod(prediction.shape[1:])))
        return result

    def evaluate(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """Score class-major arrays of shape (K, …) that broadcast against each other; no checks.

        Classes are summed one after the other, so a score's bits depend neither on the batch it is computed in nor on
        the memory layout: equal inputs tie exactly, which closed conformal sets rely on.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            return self._evaluate(prediction, distribution)

    def params(self) -> dict[str, Any]:
        """Return the score's parameters as plain values, enough to build it again."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def _check_classes(self, n_classes: int) -> None:
        """Refuse a number of classes that the score's parameters do not fit."""
        return

    @abstractmethod
    def _evaluate(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """Compute f on class-major arrays; must never be NaN."""

    @abstractmethod
    def _region(self, prediction: FloatArray, threshold: FloatArray) -> CredalSet:
        """Build the region for valid arrays (N, K) and (N,)."""

    @abstractmethod
    def best_fit(self, prediction: FloatArray) -> FloatArray:
        """Return, per row, a distribution with the smallest possible score."""

    def _fused_scores(self, prediction: ArrayLike, distribution: ArrayLike) -> FloatArray | None:
        """Validate and score in one compiled pass over large plain arrays; None when that does not apply.

        The kernels add in the same order as `_evaluate`, so both ways give the same bits. Anything unusual, such as
        rows that do not sum to one, is left to the ordinary way, which normalises or complains.
        """
        if not (_is_plain(prediction) and _is_plain(distribution)) or prediction.shape != distribution.shape:
            return None
        # Importing Numba takes longer than scoring a million numbers with NumPy.
        kernel = getattr(kernels("credalset.scores.base_kernels", prediction.size, at_least=1 << 20), self.name, None)
        if kernel is None or prediction.shape[1] < 2:
            return None
        self._check_classes(prediction.shape[1])
        result = np.empty(len(prediction))
        unusual = []

        def one_block(rows: slice) -> None:
            if self._fused_block(kernel, prediction[rows], distribution[rows], result[rows]):
                unusual.append(rows)

        for_each_block(one_block, len(prediction), prediction.shape[1], block_size=self._fused_block_size)
        return None if unusual else result

    #: elements a block of `_fused_scores` may touch
    _fused_block_size: ClassVar[int] = 1 << 20

    def _fused_block(
        self, kernel: Callable[..., bool], prediction: FloatArray, distribution: FloatArray, out: FloatArray
    ) -> bool:
        """Run the compiled kernel on a block of rows and tell whether any row is unusual."""
        return kernel(prediction, distribution, self._fused_weights(prediction.shape[1]), EXACT_SUM_TOLERANCE, out)

    def _fused_weights(self, n_classes: int) -> FloatArray:
        """Per-class weights handed to the compiled kernel (class gaps for Wasserstein)."""
        return np.ones(n_classes)
