"""Squared Hellinger distance, and the ball it induces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from credalset._typing import FloatArray
from credalset.scores.base import Score
from credalset.scores.power import PowerBall, pooled_spread
from credalset.scores.registry import register_score
from credalset.simplex import sum_classes


@register_score
@dataclass(frozen=True)
class Hellinger(Score):
    r"""Squared Hellinger distance $f = 1 - \sum_k \sqrt{\lambda_k g_k}$, between 0 and 1.

    Unlike the Kullback–Leibler divergence it is finite for every λ. It is half the squared
    Euclidean distance between the square roots of the probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> Hellinger()(np.array([[1.0, 0.0]]), np.array([[0.25, 0.75]]))
    array([0.5])
    """

    name: ClassVar[str] = "hellinger"
    order: ClassVar[Literal["first", "second"]] = "first"
    has_enclosing_balls: ClassVar[bool] = True

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """Return ½ Σ (√λ_k − √g_k)², which is exactly zero for λ = g."""
        return np.asarray(0.5 * ((np.sqrt(distribution) - np.sqrt(prediction)) ** 2).sum(axis=-1))

    def geometry(self, prediction: FloatArray, threshold: FloatArray) -> HellingerBall:
        """Return Hellinger balls; from 1 on they are the whole simplex."""
        return HellingerBall(prediction, np.where(threshold >= 1.0, np.inf, threshold))

    def largest_gap(self, model: FloatArray, center: FloatArray) -> FloatArray:
        r"""Return the norm of the positive terms.

        It is the largest $\sum_k \sqrt{\lambda_k} (\sqrt{g_k} - \sqrt{c_k})$.
        """
        return np.asarray(
            np.sqrt((np.maximum(np.sqrt(model) - np.sqrt(center), 0.0) ** 2).sum(axis=-1))
        )


@dataclass(frozen=True, eq=False)
class HellingerBall(PowerBall):
    """{λ : 1 − Σ √(λ_k center_k) ≤ radius}. All is exact but the volume beyond two classes."""

    shape: ClassVar[str] = "Hellinger ball"
    power: ClassVar[int] = 2

    @staticmethod
    def distance(center: FloatArray, point: FloatArray) -> FloatArray:
        """Return ½ Σ (√λ − √g)²."""
        return 0.5 * sum_classes((np.sqrt(point) - np.sqrt(center)) ** 2)

    @staticmethod
    def kept_mass(value: FloatArray, radius: FloatArray) -> FloatArray:
        """Solve √mass · (1 − value) = 1 − radius."""
        return (np.maximum(1.0 - radius, 0.0) / (1.0 - value)) ** 2

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Solve the problem for two classes, as the others stay in proportion.

        √λ_k is the sine of an angle, which changes by at most the angle whose cosine is 1 − radius.
        """
        angle = np.arcsin(np.sqrt(np.minimum(self.center, 1.0)))
        reach = 2.0 * np.arcsin(np.sqrt(0.5 * np.minimum(self.radius, 1.0)))[:, None]
        return np.sin(np.maximum(angle - reach, 0.0)) ** 2, np.sin(
            np.minimum(angle + reach, 0.5 * np.pi)
        ) ** 2

    def log_volume(
        self, generator: np.random.Generator, n_rays: int
    ) -> tuple[FloatArray, FloatArray, str]:
        """Integrate over the angle for three classes; the error is from half as many angles."""
        if self.n_classes != 3:
            return super().log_volume(generator, n_rays)
        angle = np.pi * np.arange(2 * n_rays) / n_rays
        axes = [[0.5, -0.5, 0.0], [12**-0.5, 12**-0.5, -(3**-0.5)]]
        plane = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ axes
        with np.errstate(divide="ignore", invalid="ignore"):
            squares = self._ray_length(np.repeat(plane[None], len(self), axis=0)) ** 2
            # The plane's unit is √2, in which the triangle has the area √3 / 4.
            area, half = (
                np.pi * part.mean(axis=1) / np.sqrt(3.0) for part in (squares, squares[:, ::2])
            )
            return np.log(area), np.nan_to_num(np.abs(area - half) / area), "estimate"

    def mode_radius(self) -> FloatArray:
        r"""Pool each class with the larger ones at the square of the average of √g.

        The others stay in proportion.

        The affinity is then $\sqrt{1 - S}$ with S the pool's squared deviations from that average.
        """
        spread = pooled_spread(np.sqrt(self.center))
        return spread / (1.0 + np.sqrt(np.maximum(1.0 - spread, 0.0)))
