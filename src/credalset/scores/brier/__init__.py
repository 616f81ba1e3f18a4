"""Weighted squared distance (Brier): the score, and everything about the ball it induces."""

from __future__ import annotations

from credalset.scores.brier.score import Brier, BrierBall

__all__ = ["Brier", "BrierBall"]
