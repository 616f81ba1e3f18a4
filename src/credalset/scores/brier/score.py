"""Weighted squared distance: f(x, λ) = Σ v_k (λ_k − g_k)², and the ball it induces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from credalset._typing import FloatArray
from credalset._validation import as_finite
from credalset.scores.base import Score
from credalset.scores.brier import ellipse, geometry
from credalset.sets import generic
from credalset.sets.old_set import CredalSet
from credalset.sets.rays import ray_length_in_norm
from credalset.simplex import entropy_of_valid


@dataclass(frozen=True)
class Brier(Score):
    r"""Squared Euclidean distance $f = \sum_k v_k (\lambda_k - g_k)^2$: a Brier score, less the least it can be.

    Between 0 and 2 without weights. Of all distances it is the one whose mean the votes tell without bias, from two
    votes per item on; `credalset.FewVotes` builds on that.

    Parameters
    ----------
    weights : sequence of positive numbers, optional
        v_k, how much a class counts; one for every class by default.

    Examples
    --------
    >>> import numpy as np
    >>> Brier()(np.array([[0.5, 0.5, 0.0]]), np.array([[0.2, 0.5, 0.3]])).round(3)
    array([0.18])
    >>> Brier(weights=(1, 1, 4))(np.array([[0.5, 0.5, 0.0]]), np.array([[0.2, 0.5, 0.3]])).round(3)
    array([0.45])
    """

    weights: Sequence[float] | None = None
    name: ClassVar[str] = "brier"
    order: ClassVar[Literal["first", "second"]] = "first"
    is_convex_in_prediction: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.weights is None:
            return
        weights = tuple(as_finite(weight, "weights", minimum=0.0) for weight in self.weights)
        if len(weights) < 2 or min(weights) < 1e-100 or max(weights) > 1e100:
            raise ValueError(
                f"weights must hold one number from 1e-100 to 1e+100 per class, but is {self.weights!r}. "
                "A class that should not count cannot be left out; give it a small weight."
            )
        object.__setattr__(self, "weights", weights)

    def of_classes(self, n_classes: int) -> FloatArray:
        """Return v, (K,)."""
        return np.ones(n_classes) if self.weights is None else np.asarray(self.weights)

    @property
    def treats_classes_alike(self) -> bool:  # type: ignore[override]
        """Whether all weights are equal."""
        return self.weights is None or len(set(self.weights)) == 1

    def estimate_from_votes(self, prediction: FloatArray, counts: FloatArray) -> FloatArray:
        r"""Return $\sum_k v_k [c_k (c_k - 1) / m (m - 1) - 2 g_k c_k / m + g_k^2]$, whose mean is f from two votes on.

        A single vote says nothing of $\lambda_k^2$. Its own score is put in, whose mean is larger by Jensen's
        inequality.
        """
        weights, votes = self.of_classes(prediction.shape[1]), counts.sum(axis=1, keepdims=True)
        share = counts / votes
        pairs = np.where(votes > 1, share * (counts - 1.0) / np.maximum(votes - 1.0, 1.0), share**2)
        return (pairs - 2.0 * prediction * share + prediction**2) @ weights

    def _check_classes(self, n_classes: int) -> None:
        if self.weights is not None and len(self.weights) != n_classes:
            raise ValueError(f"weights has {len(self.weights)} entries, but there are {n_classes} classes.")

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """Σ v_k (λ_k − g_k)²."""
        return (self.of_classes(distribution.shape[-1]) * (distribution - prediction) ** 2).sum(axis=-1)

    def _old_region(self, prediction: FloatArray, threshold: FloatArray) -> BrierBall:
        weights = self.of_classes(prediction.shape[1])
        return BrierBall(self, prediction, threshold, center=prediction, radius=threshold, weights=weights)

    def lipschitz(self, n_classes: int) -> float:
        """Twice the two largest weights: f(λ) − f(λ') = Σ v_k (λ_k − λ'_k)(λ_k + λ'_k − 2 g_k)."""
        return 2.0 * float(np.sort(self.of_classes(n_classes))[-2:].sum())

    def has_enclosing_balls(self, prediction: FloatArray) -> bool:
        """The root of f is a distance."""
        return True

    def enclosing_threshold(self, model: FloatArray, center: FloatArray, threshold: FloatArray) -> FloatArray:
        """(√t + √f(model, center))², by the triangle inequality for the root of f."""
        grown = (np.sqrt(np.maximum(threshold, 0.0)) + np.sqrt(self.evaluate_rows(model, center))) ** 2
        return np.where(threshold < 0, threshold, grown)


@dataclass(frozen=True, eq=False, repr=False)
class BrierBall(CredalSet):
    """{λ : Σ v_k (λ_k − center_k)² ≤ radius}.

    Expectations, envelopes, the largest entropy and the smallest peak are exact. So are the volume and the least
    entropy up to three classes; beyond, the volume is estimated by rays, and the least entropy lies in a bracket.
    """

    shape: ClassVar[str] = "Brier ball"
    exact_volume_up_to: ClassVar[float] = 3

    weights: FloatArray = field(kw_only=True)

    def _divergence(self, points: FloatArray) -> FloatArray:
        return geometry.divergence(self.center, self.weights, points)

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return geometry.support(self.center, self.radius, self.weights, utility)

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        point = geometry.max_entropy(self.center, self.radius, self.weights)
        return entropy_of_valid(point), point

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        if self.n_classes > 3:
            low, high, best = super()._min_entropy(attaining)
            if np.ptp(self.weights) == 0.0:
                low = np.maximum(
                    low, generic.entropy_of_sums(geometry.largest_sums(self.center, self.radius, self.weights))
                )
            return np.minimum(low, high), high, best
        point = ellipse.min_entropy(self.center, self.radius, self.weights) if self.n_classes == 3 else self._best_end()
        least = entropy_of_valid(point)
        return least, least, point

    def _has_exact_entropies(self) -> bool:
        return self.n_classes <= 3

    def _best_end(self) -> FloatArray:
        """Two classes: an interval, whose ends are the only extreme points."""
        lower, upper = self._envelope()
        ends = np.stack([np.stack([lower[:, 0], upper[:, 1]], axis=1), np.stack([upper[:, 0], lower[:, 1]], axis=1)])
        return ends[entropy_of_valid(ends).argmin(axis=0), np.arange(len(self))]

    def _smallest_peak(self) -> FloatArray:
        return geometry.smallest_peak(self.center, self.radius, self.weights)

    def _closest_with_top(self) -> FloatArray | None:
        equal = np.ptp(self.weights) == 0.0
        return self.weights[0] * geometry.closest_with_top(self.center) if equal else None

    def _ray_length(self, directions: FloatArray) -> FloatArray:
        norm = np.sqrt(directions**2 @ self.weights)
        return ray_length_in_norm(self.center, np.sqrt(self.radius), norm, directions)

    def _log_volume(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, str] | None:
        if self.n_classes != 3:
            return super()._log_volume(generator)
        return ellipse.log_fraction(self.center, self.radius, self.weights), np.zeros(len(self)), "exact"
