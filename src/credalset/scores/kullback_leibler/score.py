"""Kullback–Leibler divergence from the prediction, and the KL ball it induces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np

from credalset._typing import FloatArray, Prediction
from credalset._validation import as_finite
from credalset.scores.base import Score
from credalset.scores.kullback_leibler import geometry, tops, volume
from credalset.sets.magnify import magnified
from credalset.sets.old_sampling import sample_on_faces
from credalset.sets.old_set import CredalSet
from credalset.sets.smallest_peak import capped_peak
from credalset.simplex import divergence_terms


@dataclass(frozen=True)
class KullbackLeibler(Score):
    r"""Kullback–Leibler divergence $f = \sum_k \lambda_k \log(\lambda_k / g_k)$ (paper name: KL).

    ``+inf`` when λ gives mass to a class that the prediction rules out.

    Parameters
    ----------
    base : float
        Base of the logarithm; 2 (bits) as in the published experiments. The sets do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> KullbackLeibler()(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]))
    array([1.])
    """

    base: float = 2.0
    name: ClassVar[str] = "kl"
    order: ClassVar[Literal["first", "second"]] = "first"
    is_convex_in_prediction: ClassVar[bool] = True
    treats_classes_alike: ClassVar[bool] = True

    def __post_init__(self) -> None:
        base = as_finite(self.base, "base")
        if base <= 1.0:
            raise ValueError(f"base must be above 1, but is {self.base!r}. Use 2 for bits or math.e for nats.")
        object.__setattr__(self, "base", base)

    kernel_name: ClassVar[str] = "kl"

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """Σ λ_k log(λ_k / g_k), in units of log(base)."""
        return np.maximum(divergence_terms(distribution, prediction).sum(axis=-1), 0.0) / math.log(self.base)

    def _kernel_weights(self, n_classes: int) -> FloatArray:
        return np.array([math.log(self.base)])

    def _old_region(self, prediction: FloatArray, threshold: FloatArray) -> KullbackLeiblerBall:
        radius = threshold * math.log(self.base)
        return KullbackLeiblerBall(self, prediction, threshold, center=prediction, radius=radius)

    def label_scores(self, prediction: FloatArray) -> FloatArray:
        """Minus the logarithm of the predicted probability."""
        with np.errstate(divide="ignore"):
            return np.maximum(-np.log(prediction), 0.0) / math.log(self.base)

    def has_enclosing_balls(self, prediction: Prediction) -> bool:
        """Tell that every prediction has them."""
        return True

    def largest_gap(self, model: FloatArray, center: FloatArray) -> FloatArray:
        """The largest log-ratio of the two predictions, at the corner of its class."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(model > 0, np.log(model) - np.log(center), -np.inf)
        return ratio.max(axis=1) / math.log(self.base)


@dataclass(frozen=True, eq=False, repr=False)
class KullbackLeiblerBall(CredalSet):
    """{λ : KL(λ ‖ center) ≤ radius}, radius in nats.

    Exact for any number of classes: envelopes, expectations, both entropies, the nearest distribution with a given top
    class. Exact for two and three classes: the volume. See `geometry` for the derivations.
    """

    shape: ClassVar[str] = "Kullback–Leibler ball"
    exact_volume_up_to: ClassVar[float] = 3

    def _smallest_peak(self) -> FloatArray:
        return capped_peak(self.center, self.radius, share=geometry.share)

    def _divergence(self, points: FloatArray) -> FloatArray:
        return geometry.divergence(points, self.center)

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        return geometry.envelope(self.center, self.radius)

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return geometry.support(self.center, self.radius, utility, attaining=attaining)

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return geometry.max_entropy(self.center, self.radius, attaining=attaining)

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        least, point = geometry.min_entropy(self.center, self.radius)
        return least, least, point

    def _closest_with_top(self) -> FloatArray:
        """For each class, the smallest radius at which some member gives it at least as much as any other: (N, K)."""
        return tops.closest_with_top(self.center)

    def _log_volume(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, str] | None:
        if self.n_classes > 3:
            return None
        balls, log_factor = self._magnified()
        return volume.log_volume(balls.center, balls.radius) + log_factor, np.zeros(len(self)), "exact"

    def _estimate_log_volume(self, generator: np.random.Generator, n_rays: int) -> tuple[FloatArray, FloatArray]:
        balls, log_factor = self._magnified()
        value, error = super(KullbackLeiblerBall, balls)._estimate_log_volume(generator, n_rays)
        return value + log_factor, error

    def _magnified(self) -> tuple[Self, FloatArray]:
        """Balls large enough for doubles, and what their volumes differ by; a ruled-out class leaves no volume."""
        balls, log_factor = magnified(self, below=1e-60, ratio=1e17)
        return balls, log_factor

    def _sample(self, n: int, generator: np.random.Generator) -> FloatArray | None:
        """Where the centre rules classes out the ball lies on a face; elsewhere the default does."""
        allowed = self.center > 0
        return None if allowed.all() else sample_on_faces(self, allowed, n, generator)

    def _ray_length(self, directions: FloatArray) -> FloatArray:
        return geometry.ray_length(directions, self.center, self.radius)
