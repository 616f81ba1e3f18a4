"""Total variation: the score, and everything about the ball it induces."""

from __future__ import annotations

from credalset.scores.total_variation.score import TotalVariation, TotalVariationBall

__all__ = ["TotalVariation", "TotalVariationBall"]
