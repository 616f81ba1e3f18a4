"""Kullback–Leibler divergence from the prediction: the score, and everything about the ball it induces."""

from __future__ import annotations

from credalset.scores.kullback_leibler.score import KullbackLeibler, KullbackLeiblerBall

__all__ = ["KullbackLeibler", "KullbackLeiblerBall"]
