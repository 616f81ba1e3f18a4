"""What a network's outputs mean: how they are trained, and how predictions are read from them.

A head knows how many outputs K classes need, the loss of a batch, and the prediction. A learner with a new density
adds one head; networks, training and saving stay as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from credalset._typing import FloatArray
from credalset._validation import as_concentrations, as_distributions, as_finite, as_positive_int
from credalset.predictors.torch import losses

LIKELIHOODS = ("density", "counts")
MAX_LOG_CONCENTRATION = 9.0


class Head(ABC):
    """The meaning of outputs of shape (…, batch, n_outputs). Leading axes are runs that are trained together."""

    def n_outputs(self, n_classes: int) -> int:
        """Return how many numbers the network must put out for K classes."""
        return n_classes

    @abstractmethod
    def item_loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each item, (…, batch)."""

    def batch_loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the training loss of each run's batch, (…): the mean over its items."""
        return self.item_loss(outputs, target).mean(dim=-1)

    @abstractmethod
    def read(self, outputs: Tensor) -> FloatArray:
        """Turn float64 outputs (n, n_outputs) into predictions; refuse what contradicts their declared meaning."""


class Softmax(Head):
    """Outputs are logits; the loss is the cross-entropy against the label distribution."""

    def item_loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy."""
        return losses.soft_cross_entropy(outputs, target)

    def read(self, outputs: Tensor) -> FloatArray:
        """Softmax."""
        return _array(torch.softmax(outputs, dim=-1))


class Probabilities(Head):
    """Outputs are already distributions; that is checked."""

    def item_loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy."""
        return losses.probability_cross_entropy(outputs, target)

    def read(self, outputs: Tensor) -> FloatArray:
        """Return the rows, which must sum to one up to the rounding of single precision."""
        # Modules compute in single precision, so the wider tolerance for rounding applies.
        rows = as_distributions(_array(outputs).astype(np.float32), 'the module\'s output, declared "probabilities",')
        return rows / rows.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Dirichlet(Head):
    """Outputs become concentrations θ = 1 + link(output); the loss is the Dirichlet negative log-likelihood.

    Parameters
    ----------
    link : {"relu", "softplus", "exp", "concentration"}
        ``"concentration"`` takes the outputs as θ themselves, and checks that they are at least one.
    label_clip : float
        Labels are clipped to [label_clip, 1] before the logarithm.
    output_l2 : float
        Weight of ½‖θ − 1‖², summed over the batch.
    """

    link: str = "relu"
    label_clip: float = 1e-6
    output_l2: float = 1e-4

    def __post_init__(self) -> None:
        if self.link != "concentration" and self.link not in losses.LINKS:
            known = ", ".join(map(repr, losses.LINKS))
            raise ValueError(f"link must be one of {known}, but is {self.link!r}.")
        if not 0.0 < as_finite(self.label_clip, "label_clip") < 1.0:
            raise ValueError(f"label_clip must lie strictly between 0 and 1, but is {self.label_clip!r}.")
        as_finite(self.output_l2, "output_l2", minimum=0.0)

    def excess(self, outputs: Tensor) -> Tensor:
        """Return θ − 1."""
        return outputs - 1.0 if self.link == "concentration" else losses.LINKS[self.link](outputs)

    def item_loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Negative log-likelihood."""
        return losses.dirichlet_negative_log_likelihood(self.excess(outputs), target, self.label_clip)

    def batch_loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Mean negative log-likelihood plus the penalty, which is summed over the batch."""
        excess = self.excess(outputs)
        loss = losses.dirichlet_negative_log_likelihood(excess, target, self.label_clip).mean(dim=-1)
        if self.output_l2 == 0.0:
            return loss
        return loss + 0.5 * self.output_l2 * excess.square().sum(dim=(-2, -1))

    def read(self, outputs: Tensor) -> FloatArray:
        """Return θ."""
        name = "the module's output" if self.link == "concentration" else f"1 + {self.link}(output)"
        return as_concentrations(_array(1.0 + self.excess(outputs)), f"{name}, declared as concentrations,")


@dataclass(frozen=True)
class DirichletMixture(Head):
    r"""Outputs are C weights (softmax) and C·K concentrations (exponential) of a mixture of Dirichlets.

    Parameters
    ----------
    n_components : int
        C.
    pull : float
        Label distributions are read at (λ + pull) / (1 + K·pull), off the boundary, where densities are finite.
    likelihood : {"density", "counts"}
        Whether targets are label distributions, whose density is maximised, or votes, whose probability under the
        mixture of Dirichlet-multinomials is.
    """

    n_components: int = 8
    pull: float = 1e-3
    likelihood: str = "density"

    def __post_init__(self) -> None:
        as_positive_int(self.n_components, "n_components")
        if as_finite(self.pull, "pull", minimum=0.0) == 0.0:
            raise ValueError("pull must be positive, but is 0: labels on the boundary would have infinite densities.")
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood must be one of {', '.join(map(repr, LIKELIHOODS))}, not {self.likelihood!r}.")

    def n_outputs(self, n_classes: int) -> int:
        """Return C (K + 1)."""
        return self.n_components * (n_classes + 1)

    def item_loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Negative log-likelihood of the mixture."""
        log_weights, concentration = self._parts(outputs)
        if self.likelihood == "counts":
            logs = losses.dirichlet_multinomial_log_likelihood(concentration, target.unsqueeze(-2))
        else:
            pulled = (target + self.pull) / (1.0 + target.shape[-1] * self.pull)
            logs = losses.dirichlet_log_density(concentration, pulled.log().unsqueeze(-2))
        return -torch.logsumexp(log_weights + logs, dim=-1)

    def read(self, outputs: Tensor) -> FloatArray:
        """Return mixtures (n, C, K + 1), weights first, then concentrations; of M networks (n, M, …) their mean."""
        log_weights, concentration = self._parts(outputs)
        weights = log_weights.exp() / (outputs.shape[1] if outputs.ndim == 3 else 1)
        table = torch.cat([weights.unsqueeze(-1), concentration], dim=-1)
        return _array(table.reshape(len(table), -1, table.shape[-1]))

    def _parts(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Split outputs into log-weights (…, C) and concentrations (…, C, K)."""
        table = outputs.reshape(*outputs.shape[:-1], self.n_components, -1)
        # Within these bounds lgamma is accurate in single precision, and no vote can tell the difference.
        concentration = table[..., 1:].clamp(-MAX_LOG_CONCENTRATION, MAX_LOG_CONCENTRATION).exp()
        return torch.log_softmax(table[..., 0], dim=-1), concentration


def _array(tensor: Tensor) -> FloatArray:
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype=np.float64)
