"""Votes of several annotators per item, counted: what every calibration starts from."""

from __future__ import annotations

from credalset.annotations.agreement_result import Agreement
from credalset.annotations.votes import Annotations
from credalset.annotations.wide import looks_wide

__all__ = ["Agreement", "Annotations", "looks_wide"]
