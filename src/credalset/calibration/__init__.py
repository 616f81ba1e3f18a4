"""Conformal calibration: from calibration scores to thresholds with a coverage guarantee."""

from __future__ import annotations

from credalset.calibration.base import Calibration as Calibration
from credalset.calibration.conditional import Conditional as Conditional
from credalset.calibration.cross import CrossCalibration as CrossCalibration
from credalset.calibration.cross import cross_conformalize as cross_conformalize
from credalset.calibration.epsilon import epsilon_from_counts as epsilon_from_counts
from credalset.calibration.few_votes import FewVotes as FewVotes
from credalset.calibration.levels import CoverageDistribution as CoverageDistribution
from credalset.calibration.noise import BoundedNoise as BoundedNoise
from credalset.calibration.noise import Guarantee as Guarantee
from credalset.calibration.sampling import AnnotatorSampling as AnnotatorSampling
from credalset.calibration.split import SplitCalibration as SplitCalibration
from credalset.calibration.split import conformalize as conformalize
from credalset.calibration.stream import Stream as Stream
from credalset.calibration.stream import StreamStep as StreamStep
from credalset.calibration.unbiased import UnbiasedVotes as UnbiasedVotes
