"""Kullback–Leibler divergence from the prediction, and the KL ball it induces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from credalset._typing import FloatArray
from credalset._validation import as_finite
from credalset.credal_set import CredalSet
from credalset.scores.base import Score


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

    def __post_init__(self) -> None:
        base = as_finite(self.base, "base")
        if base <= 1.0:
            raise ValueError(f"base must be above 1, but is {self.base!r}. Use 2 for bits or math.e for nats.")
        object.__setattr__(self, "base", base)

    def _evaluate(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        # Each logarithm is taken on its own side, before broadcasting: a grid of M points against N predictions costs
        # M + N logarithms per class, and no ratio can overflow.
        total: FloatArray | None = None
        for y, g in zip(distribution, prediction, strict=True):
            term = np.where(y > 0, y * (np.log(_packed(y)) - np.log(_packed(g))), 0.0)
            total = term if total is None else total + term
        assert total is not None
        return np.maximum(total, 0.0) / math.log(self.base)

    def _region(self, prediction: FloatArray, threshold: FloatArray) -> KullbackLeiblerBall:
        radius = threshold * math.log(self.base)
        return KullbackLeiblerBall(self, prediction, threshold, center=prediction, radius=radius)

    def best_fit(self, prediction: FloatArray) -> FloatArray:
        """The prediction itself, at divergence zero."""
        return prediction


def _packed(values: FloatArray) -> FloatArray:
    """Copy to contiguous memory: NumPy's logarithm may differ in the last bit between strided and packed input."""
    return np.ascontiguousarray(values)


@dataclass(frozen=True, eq=False, repr=False)
class KullbackLeiblerBall(CredalSet):
    """{λ : KL(λ ‖ center) ≤ radius}, radius in nats."""

    shape: ClassVar[str] = "Kullback–Leibler ball"
