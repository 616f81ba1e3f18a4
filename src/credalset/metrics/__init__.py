"""How well credal sets do on labelled data: coverage and size, with confidence intervals."""

from __future__ import annotations

from credalset.metrics.containment import coverage, coverage_by_entropy, coverage_by_group, coverage_by_size
from credalset.metrics.estimate import Estimate, by_group, mean, proportion
from credalset.metrics.size import (
    decided,
    mean_efficiency,
    mean_epistemic,
    mean_labels,
    mean_sizes,
    mean_volume,
    mean_width,
)

__all__ = [
    "Estimate",
    "by_group",
    "coverage",
    "coverage_by_entropy",
    "coverage_by_group",
    "coverage_by_size",
    "decided",
    "mean",
    "mean_efficiency",
    "mean_epistemic",
    "mean_labels",
    "mean_sizes",
    "mean_volume",
    "mean_width",
    "proportion",
]
