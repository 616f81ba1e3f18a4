"""The report: one HTML page with the verdict, the coverage, all items and what to do next."""

from __future__ import annotations

from credalset.reporting.compose import Report, report

__all__ = ["Report", "report"]


def __dir__() -> list[str]:
    return list(__all__)
