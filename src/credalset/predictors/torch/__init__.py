"""Neural networks that learn label distributions (extra ``torch``); the only folder that imports PyTorch."""

from __future__ import annotations

from credalset.exceptions import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingExtraError("A neural network", "torch", "torch") from None

from credalset.predictors.torch.base import fit_many
from credalset.predictors.torch.estimators import FirstOrderNetwork, SecondOrderNetwork
from credalset.predictors.torch.intervals import IntervalNetwork
from credalset.predictors.torch.mixture import DirichletMixtureNetwork
from credalset.predictors.torch.prototypes import PrototypeNetwork
from credalset.predictors.torch.torch_predictor import TorchPredictor

__all__ = [
    "DirichletMixtureNetwork",
    "FirstOrderNetwork",
    "IntervalNetwork",
    "PrototypeNetwork",
    "SecondOrderNetwork",
    "TorchPredictor",
    "fit_many",
]
