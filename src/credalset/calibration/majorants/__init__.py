"""Majorants: functions of votes whose mean is at least one where the truth scores above a threshold."""

from __future__ import annotations

from credalset.calibration.majorants.fit import Majorants, why_no_majorants

__all__ = ["Majorants", "why_no_majorants"]
