"""Squared Hellinger distance, and the ball it induces: what it takes to add a score.

The file holds a score (three short methods) and its region (the two answers that every other one follows from). With
its line in the registry it is calibrated, tested against the laws, and answers envelopes, entropies, volumes, samples
and decisions through the defaults in `credalset.sets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from credalset._typing import FloatArray
from credalset.scores.base import Score
from credalset.sets.credal_set import CredalSet
from credalset.sets.magnify import magnified
from credalset.sets.smallest_peak import capped_peak


@dataclass(frozen=True)
class Hellinger(Score):
    r"""Squared Hellinger distance $f = 1 - \sum_k \sqrt{\lambda_k g_k}$, between 0 and 1.

    Finite where Kullback–Leibler is not, and gentler than total variation on rare classes.

    Examples
    --------
    >>> import numpy as np
    >>> Hellinger()(np.array([[1.0, 0.0]]), np.array([[0.25, 0.75]]))
    array([0.5])
    """

    name: ClassVar[str] = "hellinger"
    order: ClassVar[Literal["first", "second"]] = "first"

    def _evaluate(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        # Half the squared distance of the square roots: the same number, and exactly zero for a perfect fit.
        total = (np.sqrt(distribution[0]) - np.sqrt(prediction[0])) ** 2
        for y, g in zip(distribution[1:], prediction[1:], strict=True):
            total += (np.sqrt(y) - np.sqrt(g)) ** 2
        return 0.5 * total

    def _region(self, prediction: FloatArray, threshold: FloatArray) -> HellingerBall:
        return HellingerBall(self, prediction, threshold, center=prediction, radius=threshold)

    def best_fit(self, prediction: FloatArray) -> FloatArray:
        """The prediction itself, at distance zero."""
        return prediction

    def largest_gap(self, model: FloatArray, center: FloatArray) -> FloatArray:
        r"""The largest $\sum_k \sqrt{\lambda_k} (\sqrt{g_k} - \sqrt{c_k})$: the norm of the positive differences."""
        return np.sqrt((np.maximum(np.sqrt(model) - np.sqrt(center), 0.0) ** 2).sum(axis=1))


@dataclass(frozen=True, eq=False, repr=False)
class HellingerBall(CredalSet):
    """{λ : 1 − Σ √(λ_k center_k) ≤ radius}."""

    shape: ClassVar[str] = "Hellinger ball"

    def _smallest_peak(self) -> FloatArray:
        return capped_peak(self)

    def _divergence(self, points: FloatArray) -> FloatArray:
        return 0.5 * ((np.sqrt(points) - np.sqrt(self.center[:, None, :])) ** 2).sum(axis=-1)

    def _log_volume(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, str] | None:
        """Two classes: √λ runs along an arc, λ = sin² θ, and the distance is 1 − cos of an angle."""
        if self.n_classes > 2:
            return None
        angle, reach = (
            np.arcsin(np.sqrt(self.center.min(axis=1))),
            2.0 * np.arcsin(np.sqrt(0.5) * np.sqrt(np.minimum(self.radius, 1.0))),
        )
        down, up = np.minimum(reach, angle), np.minimum(reach, 0.5 * np.pi - angle)
        with np.errstate(divide="ignore"):
            width = np.log(np.sin(2.0 * angle + up - down)) + np.log(np.sin(up + down))
        return np.minimum(width, 0.0), np.zeros(len(self)), "exact"

    def _estimate_log_volume(self, generator: np.random.Generator, n_rays: int) -> tuple[FloatArray, FloatArray]:
        """Distances this small drown in the rounding of the points themselves: measure a larger ball."""
        balls, log_factor = magnified(self, below=1e-14, ratio=1e7)
        value, error = super(HellingerBall, balls)._estimate_log_volume(generator, n_rays)
        return value + log_factor, error

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        r"""Maximise ⟨u, λ⟩: stationary points are $\lambda_k \propto g_k / (\eta - u_k)^2$ with η above every utility.

        The affinity Σ √(λ g) rises with η, so η is a root. Where even η → max u leaves affinity to spare, the spare
        mass goes to the best class: the set reaches its face, or a class that the centre rules out.
        """
        top = utility.max(axis=1, keepdims=True)
        depth = top - utility  # ≥ 0, zero for the best classes
        span = depth.max(axis=1, keepdims=True)
        depth = depth / np.where(span > 0, span, 1.0)
        needed = 1.0 - self.radius
        low, high = np.full(len(depth), -700.0), np.full(len(depth), 60.0)
        for _ in range(90):
            middle = 0.5 * (low + high)
            enough = self._tilted(depth, np.exp(middle))[1] >= needed
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        point, affinity = self._tilted(depth, np.exp(high))
        share = (
            np.minimum(np.where(affinity > 0, np.maximum(needed, 0.0) / np.maximum(affinity, 1e-300), 0.0), 1.0) ** 2
        )
        share = np.where(low == -700.0, share, 1.0)  # only at the bottom of the bracket is there mass to spare
        best = np.eye(self.n_classes)[utility.argmax(axis=1)]
        point = share[:, None] * point + (1.0 - share)[:, None] * best
        return (utility * point).sum(axis=1), point if attaining else None

    def _tilted(self, depth: FloatArray, offset: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return λ ∝ g / (offset + depth)² and its affinity with the centre."""
        ratio = np.where(self.center > 0, 1.0 / (offset[:, None] + depth), 0.0)
        ratio /= ratio.max(axis=1, keepdims=True)
        mass = self.center * ratio**2
        total = mass.sum(axis=1)
        safe = np.where(total > 0, total, 1.0)
        return mass / safe[:, None], (self.center * ratio).sum(axis=1) / np.sqrt(safe)
