"""1-Wasserstein distance on a line: the score, and everything about the ball it induces."""

from __future__ import annotations

from credalset.scores.wasserstein.score import Wasserstein, WassersteinBall

__all__ = ["Wasserstein", "WassersteinBall"]
