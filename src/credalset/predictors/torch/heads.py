"""What a network's outputs mean: how they are trained, and how predictions are read from them.

A head knows how many outputs K classes need, the loss of a batch, and the prediction. A learner with a new density
adds one head; networks, training and saving stay as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from credalset._typing import FloatArray
from credalset._validation import as_concentrations, as_distributions, as_finite
from credalset.predictors.torch import losses

Order = Literal["first", "second"]


class Head(ABC):
    """The meaning of outputs of shape (…, batch, n_outputs). Leading axes are runs that are trained together."""

    #: whether `read` gives distributions ("first") or Dirichlet concentrations ("second")
    order: Order

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

    order: Order = "first"

    def item_loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy."""
        return losses.soft_cross_entropy(outputs, target)

    def read(self, outputs: Tensor) -> FloatArray:
        """Softmax."""
        return _array(torch.softmax(outputs, dim=-1))


class Probabilities(Head):
    """Outputs are already distributions; that is checked."""

    order: Order = "first"

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

    order = "second"

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


def _array(tensor: Tensor) -> FloatArray:
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype=np.float64)
