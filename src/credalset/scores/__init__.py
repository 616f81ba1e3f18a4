"""Nonconformity scores, each with the region it induces.

A new score is one file here, and one line below.
"""

from __future__ import annotations

from credalset.scores.base import REGISTRY as REGISTRY
from credalset.scores.base import Score as Score
from credalset.scores.brier import Brier as Brier
from credalset.scores.dirichlet import NegativeLogDensity as NegativeLogDensity
from credalset.scores.dirichlet import RelativeLikelihood as RelativeLikelihood
from credalset.scores.hellinger import Hellinger as Hellinger
from credalset.scores.inner_product import InnerProduct as InnerProduct
from credalset.scores.intervals import IntervalPrediction as IntervalPrediction
from credalset.scores.intervals import Intervals as Intervals
from credalset.scores.kullback_leibler import KullbackLeibler as KullbackLeibler
from credalset.scores.normalized import Normalized as Normalized
from credalset.scores.normalized import ScaledPrediction as ScaledPrediction
from credalset.scores.registry import get_score as get_score
from credalset.scores.registry import register_score as register_score
from credalset.scores.total_variation import TotalVariation as TotalVariation
from credalset.scores.wasserstein import Wasserstein as Wasserstein
