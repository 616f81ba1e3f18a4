"""Estimators that learn label distributions, and the protocol by which credalset talks to any estimator."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from credalset._guessing import missing_name
from credalset.predictors.soft_label import SoftLabelClassifier

if TYPE_CHECKING:
    from credalset.predictors.torch import (
        DirichletMixtureNetwork,
        FirstOrderNetwork,
        IntervalNetwork,
        PrototypeNetwork,
        SecondOrderNetwork,
        TorchPredictor,
        fit_many,
    )


# PyTorch is an extra, and takes seconds to import: only who asks for a network waits for it.
def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise missing_name(__name__, name, __all__, {})
    value = getattr(import_module("credalset.predictors.torch"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "DirichletMixtureNetwork",
    "FirstOrderNetwork",
    "IntervalNetwork",
    "PrototypeNetwork",
    "SecondOrderNetwork",
    "SoftLabelClassifier",
    "TorchPredictor",
    "fit_many",
]
