"""Votes of several annotators per item, counted: what every calibration starts from."""

from __future__ import annotations

from credalset.annotations.votes import Annotations

__all__ = ["Annotations"]
