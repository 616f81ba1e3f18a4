"""A learner of prototypes: where label distributions lie, and how closely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from credalset._typing import FloatArray
from credalset._validation import as_finite, as_positive_int
from credalset.predictors.torch import losses
from credalset.predictors.torch.committee import CommitteeEstimator
from credalset.predictors.torch.heads import Head
from credalset.predictors.torch.normaliser import log_normaliser

LIKELIHOODS = ("distributions", "counts")
FIRST_PRECISION = 10.0  # of an untrained network, on average
SMALLEST_PRECISION = 0.1


@dataclass(frozen=True)
class PrototypeHead(Head):
    """Outputs are, for each of C prototypes, a weight (softmax), a precision (exponential) and K logits.

    Parameters
    ----------
    n_components : int
        C.
    likelihood : {"distributions", "counts"}
        Whether targets are label distributions or votes.
    max_precision : float
        Precisions stay below it.
    floor : float
        Probabilities of prototypes stay above floor / K, so that no vote has an infinite score.
    """

    n_components: int = 1
    likelihood: str = "distributions"
    max_precision: float = 3000.0
    floor: float = 1e-3

    order = "first"

    def __post_init__(self) -> None:
        as_positive_int(self.n_components, "n_components")
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood must be one of {', '.join(map(repr, LIKELIHOODS))}, not {self.likelihood!r}.")
        if as_finite(self.max_precision, "max_precision") < 1.0:
            raise ValueError(f"max_precision must be at least 1, but is {self.max_precision!r}.")
        if not 0.0 < as_finite(self.floor, "floor") < 1.0:
            raise ValueError(f"floor must lie strictly between 0 and 1, but is {self.floor!r}.")

    def n_outputs(self, n_classes: int) -> int:
        """Return C (K + 2)."""
        return self.n_components * (n_classes + 2)

    def item_loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Negative log-likelihood of the mixture of prototypes."""
        log_weights, precision, distribution = self.parts(outputs)
        labels = target.unsqueeze(-2)
        if self.likelihood == "counts":
            theta = precision.unsqueeze(-1) * distribution
            logs = losses.dirichlet_multinomial_log_likelihood(theta, labels)
        else:
            divergence = (torch.xlogy(labels, labels) - labels * distribution.log()).sum(dim=-1)
            logs = -precision * divergence - log_normaliser(precision, distribution)
        return -torch.logsumexp(log_weights + logs, dim=-1)

    def read(self, outputs: Tensor) -> FloatArray:
        """Return prototypes (…, C, K + 2): the distribution, the precision and the offset log Z − log w."""
        log_weights, precision, distribution = self.parts(outputs)
        offset = log_normaliser(precision, distribution) - log_weights
        table = torch.cat([distribution, precision.unsqueeze(-1), offset.unsqueeze(-1)], dim=-1)
        return np.ascontiguousarray(table.detach().cpu().numpy(), dtype=np.float64)

    def mean(self, outputs: Tensor) -> FloatArray:
        """Return the mean of the prototypes by weight, (…, K)."""
        log_weights, _, distribution = self.parts(outputs)
        return np.asarray((log_weights.exp().unsqueeze(-1) * distribution).sum(dim=-2).detach().cpu().numpy())

    def parts(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split outputs into log-weights (…, C), precisions (…, C) and distributions (…, C, K)."""
        table = outputs.reshape(*outputs.shape[:-1], self.n_components, -1)
        log_precision = table[..., 1] + math.log(FIRST_PRECISION)
        precision = log_precision.clamp(math.log(SMALLEST_PRECISION), math.log(self.max_precision)).exp()
        shares = torch.softmax(table[..., 2:], dim=-1)
        distribution = (1.0 - self.floor) * shares + self.floor / shares.shape[-1]
        return torch.log_softmax(table[..., 0], dim=-1), precision, distribution


@dataclass(eq=False, repr=False)
class PrototypeNetwork(CommitteeEstimator):
    hidden: Sequence[int] = (64, 64)
    _: KW_ONLY
    n_components: int = 1
    offsets: bool = False
    likelihood: str = "distributions"
    max_precision: float = 3000.0
    floor: float = 1e-3
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    batch_size: int = 32
    epochs: int = 40

    def _head(self) -> PrototypeHead:
        return PrototypeHead(self.n_components, self.likelihood, self.max_precision, self.floor)

    def predict_prototypes(self, X: Any) -> FloatArray:
        table = self._head().read(self._predict_outputs(X))
        return table

    def predict_proba(self, X: Any) -> FloatArray:
        return self._head().mean(self._predict_outputs(X))
