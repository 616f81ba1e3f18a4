"""Conformal calibration."""

from __future__ import annotations

from credalset.calibration.quantile import CoverageDistribution, conformal_rank, pac_rank
from credalset.calibration.split import Calibration, conformalize

__all__ = ["Calibration", "CoverageDistribution", "conformal_rank", "conformalize", "pac_rank"]
