"""Neural networks that learn label distributions (extra ``torch``).

Only this folder imports PyTorch.
"""

from __future__ import annotations

from credalset.exceptions import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingExtraError("A neural network", "torch", "torch") from None

from credalset.predictors.torch.intervals import IntervalNetwork
from credalset.predictors.torch.networks import FirstOrderNetwork, SecondOrderNetwork

__all__ = ["FirstOrderNetwork", "IntervalNetwork", "SecondOrderNetwork"]


def __dir__() -> list[str]:
    return list(__all__)
