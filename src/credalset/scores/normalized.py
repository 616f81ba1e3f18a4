"""A first-order score divided by the entropy of the prediction ("adaptive" in the published notebooks)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from credalset._typing import FloatArray
from credalset._validation import as_finite
from credalset.scores.base import Score
from credalset.scores.registry import get_score
from credalset.scores.total_variation import TotalVariation
from credalset.sets.credal_set import CredalSet


@dataclass(frozen=True)
class Normalized(Score):
    r"""A score relative to how ambiguous the prediction is: $f / (H_K(g) + c)$.

    $H_K$ is the entropy of the prediction in base K, between 0 and 1. Sets around confident predictions get
    smaller, sets around ambiguous ones larger. A one-hot prediction with ``offset=0`` fits only itself: its score is
    0 there and ``+inf`` everywhere else.

    Parameters
    ----------
    score : Score
        Any first-order score.
    offset : float
        c ≥ 0; the published experiments use 0 on ChaosNLI and 0.1 on CIFAR-10H.

    Examples
    --------
    >>> import numpy as np
    >>> score = Normalized(TotalVariation(), offset=0.1)
    >>> score(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])).round(4)
    array([0.4545])
    """

    score: Score = field(default_factory=TotalVariation)
    offset: float = 0.0
    name: ClassVar[str] = "normalized"
    order: ClassVar[Literal["first", "second"]] = "first"

    def __post_init__(self) -> None:
        score = get_score(self.score)
        if score.order != "first" or isinstance(score, Normalized):
            raise ValueError(
                f"Normalized needs a first-order score (tv, ws, kl, inner, hellinger) that is not normalised yet, but "
                f"got {score!r}. Second-order scores adapt to the instance by themselves."
            )
        object.__setattr__(self, "score", score)
        object.__setattr__(self, "offset", as_finite(self.offset, "offset", minimum=0.0))

    @property
    def is_convex(self) -> bool:  # type: ignore[override]
        """Dividing by a number that depends only on the prediction keeps the score's convexity."""
        return self.score.is_convex

    def ambiguity(self, prediction: FloatArray) -> FloatArray:
        """H_K(g) + c of predictions (…, K): what the score is divided by."""
        terms = -prediction * np.log(np.where(prediction > 0, prediction, 1.0))
        return np.maximum(terms.sum(axis=-1), 0.0) / np.log(prediction.shape[-1]) + self.offset

    def params(self) -> dict[str, Any]:
        """Return the inner score and the offset."""
        return {"score": self.score, "offset": self.offset}

    def _check_classes(self, n_classes: int) -> None:
        self.score._check_classes(n_classes)

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """The inner score over the ambiguity of the prediction."""
        raw = self.score.formula(prediction, distribution)
        return np.where(raw > 0, raw / self.ambiguity(prediction), 0.0)

    def _region(self, prediction: FloatArray, threshold: FloatArray) -> CredalSet:
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = threshold * self.ambiguity(prediction)
        # A negative threshold means empty and an infinite one everything, also where the scale is zero.
        inner = np.where((threshold < 0) | np.isinf(threshold), threshold, scaled)
        return self.score._region(prediction, inner).rescored(self, threshold)

    def best_fit(self, prediction: FloatArray) -> FloatArray:
        """Where the inner score is smallest."""
        return self.score.best_fit(prediction)

    @property
    def has_convex_regions(self) -> bool:
        """Whether those of the inner score are: they are the same sets."""
        return self.score.has_convex_regions

    def largest_above(self, prediction: FloatArray, lower: FloatArray) -> FloatArray:
        """Return that of the inner score, on this scale."""
        return self._rescaled(self.score.largest_above(prediction, lower), prediction)

    def estimate_from_votes(self, prediction: FloatArray, counts: FloatArray) -> FloatArray | None:
        """Return that of the inner score, on this scale."""
        raw = self.score.estimate_from_votes(prediction, counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            return None if raw is None else np.where(raw != 0, raw / self.ambiguity(prediction), 0.0)

    def unscaled(self, prediction: FloatArray) -> tuple[Score, FloatArray]:
        """Return the inner score and the scale."""
        return self.score, self.ambiguity(prediction)

    def largest_within(self, prediction: FloatArray, ball: CredalSet, radius: FloatArray) -> FloatArray:
        """Return that of the inner score, on this scale."""
        return self._rescaled(self.score.largest_within(prediction, ball, radius), prediction)

    def has_enclosing_balls(self, prediction: FloatArray) -> bool:
        """Tell whether the inner score has them."""
        return self.score.has_enclosing_balls(prediction)

    def common_center(self, models: Sequence[FloatArray]) -> FloatArray:
        """Return that of the inner score."""
        return self.score.common_center(models)

    def enclosing_threshold(self, model: FloatArray, center: FloatArray, threshold: FloatArray) -> FloatArray:
        """Return that of the inner score, from the scale of the model to that of the centre."""
        with np.errstate(invalid="ignore"):
            raw = self.score.enclosing_threshold(model, center, threshold * self.ambiguity(model))
        return self._rescaled(np.where(np.isnan(raw), np.inf, raw), center)

    def _rescaled(self, raw: FloatArray, prediction: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(raw > 0, raw / self.ambiguity(prediction), 0.0)
