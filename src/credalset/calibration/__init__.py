"""Conformal calibration."""

from __future__ import annotations

from credalset.calibration.conditional import Conditional
from credalset.calibration.cross import CrossCalibration, cross_conformalize
from credalset.calibration.epsilon import epsilon_from_counts
from credalset.calibration.few_votes import FewVotes
from credalset.calibration.levels import CoverageDistribution, conformal_rank, pac_rank
from credalset.calibration.noise import BoundedNoise, Guarantee
from credalset.calibration.sampling import AnnotatorSampling
from credalset.calibration.split import Calibration, conformalize
from credalset.calibration.stream import Stream
from credalset.calibration.unbiased import UnbiasedVotes

__all__ = [
    "AnnotatorSampling",
    "BoundedNoise",
    "Calibration",
    "Conditional",
    "CoverageDistribution",
    "CrossCalibration",
    "FewVotes",
    "Guarantee",
    "Stream",
    "UnbiasedVotes",
    "conformal_rank",
    "conformalize",
    "cross_conformalize",
    "epsilon_from_counts",
    "pac_rank",
]
