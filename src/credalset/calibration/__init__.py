"""Conformal calibration."""

from __future__ import annotations

from credalset.calibration.epsilon import epsilon_from_counts
from credalset.calibration.groups import vote_bands
from credalset.calibration.noise import AnnotatorSampling, BoundedNoise, UnbiasedVotes
from credalset.calibration.quantile import CoverageDistribution, conformal_rank, pac_rank
from credalset.calibration.split import Calibration, conformalize

__all__ = [
    "AnnotatorSampling",
    "BoundedNoise",
    "Calibration",
    "CoverageDistribution",
    "UnbiasedVotes",
    "conformal_rank",
    "conformalize",
    "epsilon_from_counts",
    "pac_rank",
    "vote_bands",
]
