"""Total variation: f(x, λ) = ½ Σ |λ_k − g_k|, and the TV ball it induces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from credalset._typing import FloatArray
from credalset.credal_set import CredalSet
from credalset.scores.base import Score


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

    def _evaluate(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        total = np.abs(distribution[0] - prediction[0])
        for y, g in zip(distribution[1:], prediction[1:], strict=True):
            total += np.abs(y - g)
        return 0.5 * total

    def _region(self, prediction: FloatArray, threshold: FloatArray) -> TotalVariationBall:
        return TotalVariationBall(self, prediction, threshold, center=prediction, radius=threshold)

    def best_fit(self, prediction: FloatArray) -> FloatArray:
        """The prediction itself, at distance zero."""
        return prediction


@dataclass(frozen=True, eq=False, repr=False)
class TotalVariationBall(CredalSet):
    """{λ : ½ ‖λ − center‖₁ ≤ radius}."""

    shape: ClassVar[str] = "total-variation ball"
