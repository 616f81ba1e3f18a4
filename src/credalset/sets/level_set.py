"""The region of a score that defines only a formula."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from credalset._blocks import gather_blocks
from credalset._typing import FloatArray, IntArray, Prediction
from credalset.sets import convex_support
from credalset.sets.geometry import Geometry
from credalset.sets.membership import PAIRS_PER_BLOCK

if TYPE_CHECKING:
    from credalset.scores.base import Score


@dataclass(frozen=True, eq=False)
class LevelSet(Geometry):
    """{λ : f(prediction, λ) ≤ threshold} for a formula f that is convex in λ.

    The centre is the best fit c, the divergence f(prediction, λ) − f(prediction, c), and the radius
    the threshold minus f(prediction, c). Expectations and envelopes are certified by cuts, up to
    ``tolerance`` relative to the range of the utilities (`credalset.sets.convex_support`);
    everything else is a default. A score that defines its own geometry is faster and more precise.
    """

    shape: ClassVar[str] = "level set"
    tolerance: ClassVar[float] = convex_support.TOLERANCE

    score: Score
    prediction: Prediction
    origin: IntArray  # row in the batch that was built: the key in ``known``
    known: dict[int, convex_support.Outline] = field(default_factory=dict)

    @classmethod
    def build(cls, score: Score, prediction: Prediction, threshold: FloatArray) -> Self:
        """Build the level sets of valid predictions and thresholds (N,)."""
        center = score.best_fit(prediction)
        with np.errstate(invalid="ignore"):
            spare = threshold - score.evaluate_rows(prediction, center)
        radius = np.where(np.isposinf(threshold), np.inf, spare)
        return cls(center, radius, score, prediction, np.arange(len(center)))

    @cached_property
    def _lowest(self) -> FloatArray:
        return self.score.evaluate_rows(self.prediction, self.center)

    @property
    def magnitude(self) -> FloatArray:
        """Size of the scores whose difference is a divergence, at least 1, (N,)."""
        return np.asarray(1.0 + np.abs(self._lowest))

    def divergence(self, points: FloatArray) -> FloatArray:
        """Return f(prediction, λ) − f(prediction, center) for points (N, M, K)."""

        def one_block(rows: slice) -> FloatArray:
            return (
                self.score.evaluate_pairs(self.prediction[rows], points[rows])
                - self._lowest[rows, None]
            )

        return np.asarray(gather_blocks(one_block, len(self), points.shape[1], PAIRS_PER_BLOCK))

    def support(self, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return certified bounds of the largest expectations, and members that come close."""
        return convex_support.support(self, self._outline(), utility)

    def _attain(self, utility: FloatArray) -> FloatArray:
        """Return the members found by the search, without a certificate."""
        return convex_support.scaled_search(self, self._outline().upper > 0, utility)[0]

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of the box around each set."""
        around = self._outline()
        return np.clip(around.lower, 0.0, 1.0), np.clip(around.upper, 0.0, 1.0)

    def _outline(self) -> convex_support.Outline:
        """Return boxes and cuts around the sets, computed once, also for selections of a batch."""
        missing = np.array(
            [i for i, row in enumerate(self.origin) if int(row) not in self.known], dtype=np.int64
        )
        if len(missing):
            found = convex_support.outline(self[missing])
            for i, row in enumerate(self.origin[missing]):
                self.known[int(row)] = found.select(i)
        rows = [self.known[int(row)] for row in self.origin]
        return convex_support.Outline(*(np.stack(column) for column in zip(*rows, strict=True)))
