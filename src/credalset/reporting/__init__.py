"""The page: one HTML file that says whether sets can be trusted, where annotators disagree and what to do next."""

from __future__ import annotations

from credalset.reporting.compose import Report, report
from credalset.reporting.example import example_report

__all__ = ["Report", "example_report", "report"]
