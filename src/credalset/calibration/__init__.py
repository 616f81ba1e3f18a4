"""Conformal calibration: from calibration scores to thresholds with a coverage guarantee."""

from __future__ import annotations

from credalset.calibration.base import Calibration
from credalset.calibration.conditional import Conditional
from credalset.calibration.cross import CrossCalibration, cross_conformalize
from credalset.calibration.epsilon import epsilon_from_counts
from credalset.calibration.few_votes import FewVotes
from credalset.calibration.levels import CoverageDistribution
from credalset.calibration.noise import BoundedNoise, Guarantee
from credalset.calibration.sampling import AnnotatorSampling
from credalset.calibration.split import SplitCalibration, conformalize
from credalset.calibration.stream import Stream, StreamStep
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
    "SplitCalibration",
    "Stream",
    "StreamStep",
    "UnbiasedVotes",
    "conformalize",
    "cross_conformalize",
    "epsilon_from_counts",
]


def __dir__() -> list[str]:
    return list(__all__)
