"""Estimators that learn label distributions; the neural networks need the extra ``torch``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from credalset.predictors.pool import JudgePool
from credalset.predictors.soft_label import SoftLabelClassifier

if TYPE_CHECKING:
    from credalset.predictors.torch import FirstOrderNetwork, IntervalNetwork, SecondOrderNetwork

__all__ = [
    "FirstOrderNetwork",
    "IntervalNetwork",
    "JudgePool",
    "SecondOrderNetwork",
    "SoftLabelClassifier",
]


def __getattr__(name: str) -> Any:  # PyTorch takes seconds to import
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("credalset.predictors.torch"), name)


def __dir__() -> list[str]:
    return list(__all__)
