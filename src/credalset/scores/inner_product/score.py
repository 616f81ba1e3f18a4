"""One minus the inner product with the prediction, and the half-space it induces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from credalset._typing import BoolArray, FloatArray, Prediction
from credalset.scores.base import Score
from credalset.scores.inner_product import geometry as half_space
from credalset.scores.inner_product import volume as half_space_volume
from credalset.sets.old_set import CredalSet


@dataclass(frozen=True)
class InnerProduct(Score):
    r"""One minus the inner product, $f = 1 - \sum_k \lambda_k g_k$ (paper name: Inner).

    Even a perfect prediction scores above zero unless it is one-hot, and the set can be empty: it is so exactly when
    the largest predicted probability lies below one minus the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> InnerProduct()(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]))
    array([0.5])
    """

    name: ClassVar[str] = "inner"
    order: ClassVar[Literal["first", "second"]] = "first"
    is_convex_in_prediction: ClassVar[bool] = True
    treats_classes_alike: ClassVar[bool] = True

    kernel_name: ClassVar[str] = "inner"

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """1 − Σ λ_k g_k."""
        return np.maximum(1.0 - (distribution * prediction).sum(axis=-1), 0.0)

    def _old_region(self, prediction: FloatArray, threshold: FloatArray) -> HalfSpace:
        return HalfSpace(self, prediction, threshold, center=prediction, radius=threshold)

    def best_fit(self, prediction: FloatArray) -> FloatArray:
        """The corner of the class with the largest predicted probability."""
        corners = np.zeros_like(prediction)
        corners[np.arange(len(prediction)), prediction.argmax(axis=1)] = 1.0
        return corners

    def label_scores(self, prediction: FloatArray) -> FloatArray:
        """One minus the predicted probability."""
        return 1.0 - prediction

    def lipschitz(self, n_classes: int) -> float:
        """One: a unit of mass that moves changes the product by a difference of two probabilities."""
        return 1.0

    def largest_within(self, prediction: FloatArray, ball: CredalSet, radius: FloatArray) -> FloatArray:
        """One minus the smallest expectation of the prediction, exactly."""
        return np.maximum(1.0 - ball.lower_expectation(prediction), 0.0)

    def has_enclosing_balls(self, prediction: Prediction) -> bool:
        """Tell that every prediction has them."""
        return True

    def largest_gap(self, model: FloatArray, center: FloatArray) -> FloatArray:
        """The largest difference of the two predictions, at the corner of its class."""
        return (model - center).max(axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class HalfSpace(CredalSet):
    """{λ : ⟨λ, center⟩ ≥ 1 − radius}, a simplex cut by one hyperplane.

    Everything is exact for any number of classes; see `geometry` for the formulas. The centre
    need not be a member.
    """

    shape: ClassVar[str] = "half-space"
    exact_volume_up_to: ClassVar[float] = np.inf

    def is_empty(self) -> BoolArray:
        """Tell which sets have no member: those whose best corner scores above the threshold."""
        best = self.score.best_fit(self.prediction)
        return np.asarray(self.score.evaluate_rows(self.prediction, best) > self.threshold)

    def _smallest_peak(self) -> FloatArray:
        return half_space.smallest_peak(self.center, self.radius)

    def _divergence(self, points: FloatArray) -> FloatArray:
        return 1.0 - np.einsum("nmk,nk->nm", points, self.center)

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        return half_space.envelope(self.center, self.radius)

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return half_space.support(self.center, self.radius, utility, attaining=attaining)

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return half_space.max_entropy(self.center, self.radius, attaining=attaining)

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Zero: a non-empty half-space contains the corner of the class with the largest predicted probability."""
        zero = np.zeros(len(self))
        return zero, zero, InnerProduct().best_fit(self.center) if attaining else None

    def _log_volume(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, str]:
        return half_space_volume.log_fraction(self.center, self.radius), np.zeros(len(self)), "exact"

    def _vertices(self) -> FloatArray:
        return half_space.vertices(self.center, self.radius)

    def _sample(self, n: int, generator: np.random.Generator) -> FloatArray:
        return half_space_volume.sample(self.center, self.radius, n, generator)

    def _closest_with_top(self) -> FloatArray:
        """Return, for each class, the smallest divergence of a distribution in which no class is more probable."""
        return half_space.closest_with_top(self.center)
