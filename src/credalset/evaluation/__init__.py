"""Evaluation on held-out items: coverage, a verdict, and slices in which coverage differs."""

from __future__ import annotations

from credalset.evaluation.slices import Slice, WorstSlice, slice_coverage, worst_slice
from credalset.evaluation.table import Evaluation, evaluate
from credalset.evaluation.verdict import Verdict

__all__ = [
    "Evaluation",
    "Slice",
    "Verdict",
    "WorstSlice",
    "evaluate",
    "slice_coverage",
    "worst_slice",
]


def __dir__() -> list[str]:
    return list(__all__)
