"""The report: one HTML page with the verdict, the coverage, every item and what to do next."""

from __future__ import annotations

from credalset.reporting.compose import Report, report
from credalset.reporting.example import example_report

__all__ = ["Report", "example_report", "report"]
