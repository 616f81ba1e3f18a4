"""The region of a score that says no more than its formula."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from credalset._parallel import gather_blocks
from credalset._typing import FloatArray, IntArray, Prediction
from credalset.sets import convex_support
from credalset.sets.credal_set import PAIRS_PER_BLOCK, CredalSet

if TYPE_CHECKING:
    from credalset.scores.base import Score


@dataclass(frozen=True, eq=False, repr=False)
class LevelSet(CredalSet):
    """{λ : f(prediction, λ) ≤ threshold} for a formula f that is convex in λ.

    The centre is the best fit, the divergence how much worse a distribution fits, and ``radius`` how much worse members
    may fit. Every question has a generic answer: expectations and envelopes from cuts that no member passes, at most
    1e-6 of the range of utilities beyond what a member attains (`credalset.sets.convex_support`), the rest from these
    (`credalset.sets.generic`). A score with a region of its own answers faster and more exactly.
    """

    shape: ClassVar[str] = "level set"
    tolerance: ClassVar[float] = convex_support.TOLERANCE

    origin: IntArray = field(kw_only=True)
    known: dict[int, convex_support.Outline] = field(default_factory=dict, kw_only=True)

    @classmethod
    def build(cls, score: Score, prediction: Prediction, threshold: FloatArray) -> Self:
        """Build the sets of valid predictions and thresholds (N,)."""
        center = score.best_fit(prediction)
        with np.errstate(invalid="ignore"):
            spare = threshold - score.evaluate_rows(prediction, center)
        radius = np.where(np.isposinf(threshold), np.inf, spare)
        return cls(score, prediction, threshold, center=center, radius=radius, origin=np.arange(len(center)))

    def _take(self, rows: Any) -> Self:
        picked = super()._take(rows)
        return replace(picked, origin=np.atleast_1d(self.origin[rows]))

    def rescored(self, score: Score, threshold: FloatArray, prediction: Prediction | None = None) -> Self:
        """Return the level sets of the other score, in whose units the radius is then measured."""
        return self.build(score, self.prediction if prediction is None else prediction, threshold)

    @cached_property
    def _lowest(self) -> FloatArray:
        return self.score.evaluate_rows(self.prediction, self.center)

    @cached_property
    def magnitude(self) -> FloatArray:
        """Size of the numbers that a divergence is the difference of, at least 1, (N,)."""
        return 1.0 + np.abs(self._lowest)

    def _divergence(self, points: FloatArray) -> FloatArray:

        def one_block(rows: slice) -> FloatArray:
            return self.score.evaluate_pairs(self.prediction[rows], points[rows]) - self._lowest[rows, None]

        return gather_blocks(one_block, len(self), points.shape[1], PAIRS_PER_BLOCK)

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return convex_support.support(self, self._outline(), utility)

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        around = self._outline()
        return around.lower, around.upper

    def _outline(self) -> convex_support.Outline:
        """What holds the sets, worked out once for each: selections of a batch share what is known."""
        missing = np.array([i for i, row in enumerate(self.origin) if int(row) not in self.known], dtype=np.int64)
        if len(missing):
            found = convex_support.outline(self[missing])
            for i, row in enumerate(self.origin[missing]):
                self.known[int(row)] = found.select(i)
        rows = [self.known[int(row)] for row in self.origin]
        return convex_support.Outline(*(np.stack(column) for column in zip(*rows, strict=True)))
