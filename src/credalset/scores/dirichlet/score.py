"""Scores for second-order (Dirichlet) predictions, and the reverse-KL ball both of them induce.

With concentrations θ ≥ 1, excess a = θ − 1, weight W = Σ a and mode m = a / W, the Dirichlet density satisfies
p(λ) = p(m) · exp(−W · KL(m ‖ λ)). Level sets of the density are therefore reverse-KL balls around the mode. W = 0 is
the uniform density: every λ fits equally well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.special import gammaln, rel_entr

from credalset._typing import FloatArray, Prediction
from credalset._validation import sequential_row_sums
from credalset.scores.base import Score
from credalset.scores.dirichlet import entropy, geometry, volume
from credalset.scores.dirichlet.enclosing import largest_fall
from credalset.sets.old_set import CredalSet
from credalset.sets.smallest_peak import capped_peak


def mode_and_weight(concentration: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mode m (N, K) and weight W (N,); the mode of a uniform Dirichlet is taken to be the centre."""
    excess = concentration - 1.0
    weight = sequential_row_sums(excess)  # the order of the score's own sum, so that the mode scores exactly zero
    safe = np.where(weight > 0, weight, 1.0)
    mode = np.where(weight[:, None] > 0, excess / safe[:, None], 1.0 / concentration.shape[1])
    return mode, weight


def log_likelihood_drop(concentration: FloatArray, distribution: FloatArray) -> FloatArray:
    """Log p(m) − log p(λ) = W · KL(m ‖ λ) on arrays (…, K); zero where W = 0."""
    excess = concentration - 1.0
    weight = excess.sum(axis=-1)
    mode = excess / np.where(weight > 0, weight, 1.0)[..., None]
    drop = rel_entr(mode, distribution).sum(axis=-1)
    return np.where(weight > 0, weight * np.maximum(drop, 0.0), 0.0)


def negative_log_peak(concentration: FloatArray) -> FloatArray:
    """−log p(m) = log B(θ) − Σ a_k log m_k on arrays (…, K)."""
    excess = concentration - 1.0
    mode = excess / excess.sum(axis=-1)[..., None]
    logs = np.where(excess > 0, excess * np.log(mode), 0.0)
    return (gammaln(concentration) - logs).sum(axis=-1) - gammaln(concentration.sum(axis=-1))


class DirichletScore(Score):
    """Base of the scores whose region is a reverse-KL ball around the mode of the predicted Dirichlet."""

    order: ClassVar[Literal["first", "second"]] = "second"

    def best_fit(self, prediction: FloatArray) -> FloatArray:
        """The mode of the predicted Dirichlet."""
        return mode_and_weight(prediction)[0]

    def common_center(self, models: Sequence[FloatArray]) -> FloatArray:
        """The smallest concentrations, whose density no model's falls below by much."""
        return np.min(models, axis=0)

    def _ball(self, prediction: FloatArray, threshold: FloatArray, drop: FloatArray) -> ReverseKullbackLeiblerBall:
        """Build the ball of all λ whose log-likelihood lies at most ``drop`` below the peak."""
        mode, weight = mode_and_weight(prediction)
        with np.errstate(divide="ignore", invalid="ignore"):
            radius = np.where(weight > 0, drop / weight, np.where(drop >= 0, np.inf, -np.inf))
        return ReverseKullbackLeiblerBall(self, prediction, threshold, center=mode, radius=radius)


@dataclass(frozen=True)
class RelativeLikelihood(DirichletScore):
    r"""One minus relative likelihood, $f = 1 - p(\lambda | \theta) / p(m | \theta)$ (paper name: SO).

    Between 0 (at the mode m) and 1. For all-ones concentrations every distribution scores 0.

    Examples
    --------
    >>> import numpy as np
    >>> RelativeLikelihood()(np.array([[3.0, 2.0, 1.0]]), np.array([[2 / 3, 1 / 3, 0.0]])).round(12)
    array([0.])
    """

    name: ClassVar[str] = "so"
    is_convex: ClassVar[bool] = False

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """1 − p(λ) / p(m)."""
        return -np.expm1(-log_likelihood_drop(prediction, distribution)) + 0.0

    def _old_region(self, prediction: FloatArray, threshold: FloatArray) -> ReverseKullbackLeiblerBall:
        return self._ball(prediction, threshold, _drop(threshold))

    @property
    def has_convex_regions(self) -> bool:
        """They are reverse-KL balls, although the score itself is not convex."""
        return True

    def has_enclosing_balls(self, prediction: Prediction) -> bool:
        """Tell that every prediction has them."""
        return True

    def largest_gap(self, model: FloatArray, center: FloatArray) -> FloatArray:
        """The largest fall in log-likelihood relative to the peaks."""
        return largest_fall(model, center, relative=True)

    def enclosing_threshold(self, model: FloatArray, center: FloatArray, threshold: FloatArray) -> FloatArray:
        """Return the threshold whose drop in log-likelihood is that of the model plus the gap."""
        return -np.expm1(-np.maximum(_drop(threshold) + self.largest_gap(model, center), 0.0))


def _drop(threshold: FloatArray) -> FloatArray:
    """Return how far below the peak the log-likelihood lies at a threshold of one minus relative likelihood."""
    with np.errstate(divide="ignore"):
        return np.where(threshold < 1.0, -np.log1p(-np.minimum(threshold, 1.0)), np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class ReverseKullbackLeiblerBall(CredalSet):
    """{λ : KL(center ‖ λ) ≤ radius}, radius in nats; the centre is the mode of the predicted Dirichlet.

    Everything is exact for any number of classes: envelopes, expectations, both entropies, the volume, the nearest
    distribution with a given top class. See `credalset.scores.dirichlet.geometry` for the derivations.
    """

    shape: ClassVar[str] = "reverse-KL ball"
    exact_volume_up_to: ClassVar[float] = np.inf

    def _smallest_peak(self) -> FloatArray:
        return capped_peak(self.center, self.radius, share=geometry.share)

    def _divergence(self, points: FloatArray) -> FloatArray:
        return geometry.divergence(points, self.center)

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        return geometry.envelope(self.center, self.radius)

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return geometry.support(self.center, self.radius, utility, attaining=attaining)

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return entropy.max_entropy(self.center, self.radius, attaining=attaining)

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        least, point = entropy.min_entropy(self.center, self.radius, attaining=attaining)
        return least, least, point

    def _log_volume(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, str] | None:
        return volume.log_volume(self.center, self.radius), np.zeros(len(self)), "exact"

    def _closest_with_top(self) -> FloatArray:
        """For each class, the smallest radius at which some member gives it at least as much as any other: (N, K)."""
        return geometry.closest_with_top(self.center)

    def _ray_length(self, directions: FloatArray) -> FloatArray:
        return geometry.ray_length(directions, self.center, self.radius)
