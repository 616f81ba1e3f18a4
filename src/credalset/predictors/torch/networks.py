"""Fully connected networks: one as an ordinary PyTorch module, many of the same shape as stacked tensors.

Weights start as PyTorch's own linear layers do, uniform on ±1/√n_inputs, but are drawn from a generator that is passed
in: the global random state of PyTorch is neither read nor changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, tuple[type[nn.Module], Callable[[Tensor], Tensor]]] = {
    "relu": (nn.ReLU, torch.relu_),
    "tanh": (nn.Tanh, torch.tanh_),
    "silu": (nn.SiLU, nn.functional.silu),
    "gelu": (nn.GELU, nn.functional.gelu),
}


def build_network(
    n_inputs: int, hidden: Sequence[int], n_outputs: int, *, activation: str, dropout: float
) -> nn.Sequential:
    """Build a fully connected network with dropout before its output layer, as yet without memory for its weights.

    Examples
    --------
    >>> build_network(10, (16, 4), 3, activation="relu", dropout=0.3)
    Sequential(
      (0): Linear(in_features=10, out_features=16, bias=True)
      (1): ReLU()
      (2): Linear(in_features=16, out_features=4, bias=True)
      (3): ReLU()
      (4): Dropout(p=0.3, inplace=False)
      (5): Linear(in_features=4, out_features=3, bias=True)
    )
    """
    layers: list[nn.Module] = []
    for before, after in pairwise([n_inputs, *hidden]):
        layers += [nn.Linear(before, after, device="meta"), ACTIVATIONS[activation][0]()]
    layers += [nn.Dropout(dropout), nn.Linear([n_inputs, *hidden][-1], n_outputs, device="meta")]
    return nn.Sequential(*layers)


class Committee(nn.ModuleList):
    """Several networks that answer side by side: outputs (n, M, n_outputs)."""

    def forward(self, x: Tensor) -> Tensor:
        """Ask every network."""
        return torch.stack([network(x) for network in self], dim=1)


def initialise(network: nn.Sequential, generator: torch.Generator) -> None:
    """Give the network memory and draw the weights of every linear layer, in order."""
    network.to_empty(device="cpu")
    with torch.no_grad():
        for layer in _linear_layers(network):
            bound = 1.0 / math.sqrt(layer.in_features)
            layer.weight.uniform_(-bound, bound, generator=generator)
            layer.bias.uniform_(-bound, bound, generator=generator)


def _linear_layers(network: nn.Sequential) -> list[nn.Linear]:
    return [layer for layer in network if isinstance(layer, nn.Linear)]


class StackedNetworks:
    """R fully connected networks of the same shape as batched matrix products.

    Each layer holds the weights of all runs, (R, n_inputs, n_outputs), so that one product serves every run. Runs
    share nothing: each one's gradient is what it would be alone.

    Parameters
    ----------
    networks : sequence of nn.Sequential
        From `build_network`, all of the same shape; `write_back` copies the trained weights into them.
    activation : str
        Name of the activation they were built with.
    dropout : float
        Share of the last hidden layer that is dropped in training.
    device : torch.device
        Where the stacked weights live.
    """

    def __init__(
        self, networks: Sequence[nn.Sequential], *, activation: str, dropout: float, device: torch.device
    ) -> None:
        self._layers = [_linear_layers(network) for network in networks]
        self._activate = ACTIVATIONS[activation][1]
        self.dropout = dropout
        depth = len(self._layers[0])
        stacks = []
        for i in range(depth):
            column = [layers[i] for layers in self._layers]
            stacks.append(torch.stack([layer.weight.detach().T for layer in column]))
            stacks.append(torch.stack([layer.bias.detach()[None] for layer in column]))
        self.parameters: Sequence[Tensor] = [stack.to(device).contiguous().requires_grad_() for stack in stacks]
        self._kept: list[Tensor] | None = None
        self.work = float(sum(parameter.numel() for parameter in self.parameters))
        self.mask_width = self.parameters[-2].shape[1] if dropout > 0.0 else 0

    def training_outputs(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return outputs (R, B, n_outputs) for features (R, B, n_inputs); ``mask`` multiplies the last hidden layer."""
        *inner, last_weight, last_bias = self.parameters
        for weight, bias in zip(inner[::2], inner[1::2], strict=True):
            x = self._activate(torch.baddbmm(bias, x, weight))
        if mask is not None:
            x = x * mask
        return torch.baddbmm(last_bias, x, last_weight)

    def outputs(self, x: Tensor) -> Tensor:
        """Return outputs without dropout."""
        return self.training_outputs(x, None)

    def keep(self, runs: list[int]) -> None:
        """Remember the present weights of these runs."""
        if self._kept is None:
            self._kept = [parameter.detach().clone() for parameter in self.parameters]
        for kept, parameter in zip(self._kept, self.parameters, strict=True):
            kept[runs] = parameter.detach()[runs]

    def restore(self) -> None:
        """Put back the weights that were kept."""
        with torch.no_grad():
            for parameter, kept in zip(self.parameters, self._kept or self.parameters, strict=True):
                parameter.copy_(kept)

    def write_back(self) -> None:
        """Copy the weights of every run into the network it came from."""
        with torch.no_grad():
            for i, stack in enumerate(self.parameters):
                for layers, values in zip(self._layers, stack.detach().cpu(), strict=True):
                    layer = layers[i // 2]
                    if i % 2 == 0:
                        layer.weight.copy_(values.T)
                    else:
                        layer.bias.copy_(values[0])
