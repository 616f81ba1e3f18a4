"""Nonconformity scores, each with the region it induces.

A new score is one file here, with its import and its name below.
"""

from __future__ import annotations

from credalset.scores.base import REGISTRY, Score
from credalset.scores.brier import Brier
from credalset.scores.dirichlet import NegativeLogDensity, RelativeLikelihood
from credalset.scores.hellinger import Hellinger
from credalset.scores.inner_product import InnerProduct
from credalset.scores.intervals import IntervalPrediction, Intervals
from credalset.scores.kullback_leibler import KullbackLeibler
from credalset.scores.normalized import Normalized, ScaledPrediction
from credalset.scores.registry import get_score, register_score
from credalset.scores.total_variation import TotalVariation
from credalset.scores.wasserstein import Wasserstein

__all__ = [
    "REGISTRY",
    "Brier",
    "Hellinger",
    "InnerProduct",
    "IntervalPrediction",
    "Intervals",
    "KullbackLeibler",
    "NegativeLogDensity",
    "Normalized",
    "RelativeLikelihood",
    "ScaledPrediction",
    "Score",
    "TotalVariation",
    "Wasserstein",
    "get_score",
    "register_score",
]


def __dir__() -> list[str]:
    return list(__all__)
