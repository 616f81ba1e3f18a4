"""One minus the inner product with the prediction, and the half-space it induces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from credalset._typing import FloatArray
from credalset.credal_set import CredalSet
from credalset.scores.base import Score


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

    def _evaluate(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        total = distribution[0] * prediction[0]
        for y, g in zip(distribution[1:], prediction[1:], strict=True):
            total += y * g
        return np.maximum(1.0 - total, 0.0)

    def _region(self, prediction: FloatArray, threshold: FloatArray) -> HalfSpace:
        return HalfSpace(self, prediction, threshold, center=prediction, radius=threshold)

    def best_fit(self, prediction: FloatArray) -> FloatArray:
        """The corner of the class with the largest predicted probability."""
        corners = np.zeros_like(prediction)
        corners[np.arange(len(prediction)), prediction.argmax(axis=1)] = 1.0
        return corners


@dataclass(frozen=True, eq=False, repr=False)
class HalfSpace(CredalSet):
    """{λ : ⟨λ, center⟩ ≥ 1 − radius}, a simplex cut by one hyperplane."""

    shape: ClassVar[str] = "half-space"
