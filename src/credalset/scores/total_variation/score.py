"""Total variation: f(x, λ) = ½ Σ |λ_k − g_k|, and the TV ball it induces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from credalset._typing import FloatArray
from credalset.scores.base import Score
from credalset.scores.total_variation import geometry, volume
from credalset.scores.total_variation import rays as total_variation_rays
from credalset.sets.old_set import CredalSet
from credalset.sets.rays import Rays, ray_length_in_norm


@dataclass(frozen=True)
class TotalVariation(Score):
    r"""Total variation distance $f = \tfrac12 \sum_k |\lambda_k - g_k|$ (paper name: TV).

    The largest difference in probability that the two distributions give to any event; between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> TotalVariation()(np.array([[0.5, 0.5, 0.0]]), np.array([[0.2, 0.5, 0.3]])).round(3)
    array([0.3])
    """

    name: ClassVar[str] = "tv"
    order: ClassVar[Literal["first", "second"]] = "first"
    is_convex_in_prediction: ClassVar[bool] = True
    treats_classes_alike: ClassVar[bool] = True
    is_metric: ClassVar[bool] = True

    kernel_name: ClassVar[str] = "tv"

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """½ Σ |λ_k − g_k|."""
        return 0.5 * np.abs(distribution - prediction).sum(axis=-1)

    def _old_region(self, prediction: FloatArray, threshold: FloatArray) -> TotalVariationBall:
        return TotalVariationBall(self, prediction, threshold, center=prediction, radius=threshold)

    def label_scores(self, prediction: FloatArray) -> FloatArray:
        """One minus the predicted probability."""
        return 1.0 - prediction

    def lipschitz(self, n_classes: int) -> float:
        """One, by the triangle inequality."""
        return 1.0


@dataclass(frozen=True, eq=False, repr=False)
class TotalVariationBall(CredalSet):
    """{λ : ½ ‖λ − center‖₁ ≤ radius}.

    Everything about it is exact: envelopes, expectations and both entropies for any number of classes, vertices,
    the volume and the generalized Hartley measure up to 15 classes. See `credalset.scores.total_variation.geometry`.
    """

    shape: ClassVar[str] = "total-variation ball"
    exact_volume_up_to: ClassVar[float] = volume.MAX_CLASSES

    def _smallest_peak(self) -> FloatArray:
        return geometry.smallest_peak(self.center, self.radius)

    def _divergence(self, points: FloatArray) -> FloatArray:
        return geometry.divergence(self.center, points)

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        return geometry.envelope(self.center, self.radius)

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return geometry.support(self.center, self.radius, utility, attaining=attaining)

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return geometry.max_entropy(self.center, self.radius, attaining=attaining)

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        least, point = geometry.min_entropy(self.center, self.radius, attaining=attaining)
        return least, least, point

    def _log_volume(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, str] | None:
        if self.n_classes > volume.MAX_CLASSES:
            return None
        return volume.log_fraction(self.center, self.radius), np.zeros(len(self)), "exact"

    def _weighted_rays(self, n_rays: int, generator: np.random.Generator) -> Rays:
        return total_variation_rays.weighted_rays(self, n_rays, generator)

    def _ray_length(self, directions: FloatArray) -> FloatArray:
        half_norm = np.abs(directions) @ np.full(self.n_classes, 0.5)
        return ray_length_in_norm(self.center, self.radius, half_norm, directions)

    def _vertices(self) -> FloatArray:
        return geometry.vertices(self.center[0], float(self.radius[0]))

    def _generalized_hartley(self) -> FloatArray:
        """Non-specificity in bits of the lower probability max(0, center(A) − radius), at most 15 classes."""
        return geometry.generalized_hartley(self.center, self.radius)

    def _closest_with_top(self) -> FloatArray:
        """For each class, the smallest radius at which some member gives it at least as much as any other: (N, K)."""
        return geometry.closest_with_top(self.center)
