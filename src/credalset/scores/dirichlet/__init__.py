"""Scores of Dirichlet predictions, and everything about the reverse-KL ball they induce."""

from __future__ import annotations

from credalset.scores.dirichlet.score import DirichletScore, RelativeLikelihood, ReverseKullbackLeiblerBall

__all__ = ["DirichletScore", "RelativeLikelihood", "ReverseKullbackLeiblerBall"]
