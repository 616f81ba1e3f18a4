"""Nonconformity scores, each with the region it induces. A new score is one file here and one line below."""

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

_FIRST_ORDER = (TotalVariation, Wasserstein, KullbackLeibler, InnerProduct, Hellinger, Brier, Normalized, Intervals)
for _score in (*_FIRST_ORDER, RelativeLikelihood, NegativeLogDensity):
    register_score(_score)

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
