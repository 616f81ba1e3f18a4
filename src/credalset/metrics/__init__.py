"""How well credal sets and predictions do on labelled data: coverage, size and loss, with confidence intervals."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from credalset._guessing import missing_name
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

if TYPE_CHECKING:
    from credalset.metrics.losses import WidthScorer, soft_brier, soft_log_loss

# Scorers need scikit-learn's model selection, which takes a while to import: only who asks for them waits.
_LOSSES = ("WidthScorer", "soft_brier", "soft_log_loss")


def __getattr__(name: str) -> Any:
    if name not in _LOSSES:
        raise missing_name(__name__, name, __all__, {})
    return getattr(import_module("credalset.metrics.losses"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LOSSES})


__all__ = [
    "Estimate",
    "WidthScorer",
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
    "soft_brier",
    "soft_log_loss",
]
