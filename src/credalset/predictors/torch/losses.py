"""Losses against label distributions, and the links from network outputs to Dirichlet concentrations.

Every function takes tensors of shape (…, K) and returns one value per item, shape (…).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

#: from a raw output to the excess a = θ − 1 ≥ 0 of a Dirichlet concentration
LINKS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "softplus": functional.softplus,
    "exp": torch.exp,
}


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    r"""Cross-entropy $-\sum_k \lambda_k \log \mathrm{softmax}(z)_k$ of logits z against a label distribution λ.

    Examples
    --------
    >>> soft_cross_entropy(torch.zeros(1, 4), torch.full((1, 4), 0.25)).exp()
    tensor([4.])
    """
    return -(target * torch.log_softmax(logits, dim=-1)).sum(dim=-1)


def probability_cross_entropy(probabilities: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of predicted probabilities; a probability of zero counts as the smallest positive number."""
    tiny = torch.finfo(probabilities.dtype).tiny
    return -(target * probabilities.clamp_min(tiny).log()).sum(dim=-1)


def dirichlet_negative_log_likelihood(excess: Tensor, target: Tensor, clip: float) -> Tensor:
    r"""Negative log density $-\log \mathrm{Dir}(\lambda \mid \theta)$ with θ = 1 + ``excess``.

    $-\log\Gamma(\sum_k \theta_k) + \sum_k \log\Gamma(\theta_k) - \sum_k (\theta_k - 1) \log \lambda_k$, where λ is
    first clipped to [``clip``, 1]: a label on the boundary would have an infinite loss. λ is not rescaled afterwards,
    as in the published experiments.

    Examples
    --------
    >>> label = torch.tensor([[0.2, 0.3, 0.5]])
    >>> dirichlet_negative_log_likelihood(torch.zeros(1, 3), label, 1e-6).exp()  # the uniform density is 2
    tensor([0.5000])
    """
    concentration = 1.0 + excess
    log_beta = torch.lgamma(concentration).sum(dim=-1) - torch.lgamma(concentration.sum(dim=-1))
    return log_beta - (excess * target.clamp(clip, 1.0).log()).sum(dim=-1)


def dirichlet_log_density(concentration: Tensor, log_target: Tensor) -> Tensor:
    r"""Log density $\log \mathrm{Dir}(y \mid \theta)$ at points given by their logarithms.

    Examples
    --------
    >>> dirichlet_log_density(torch.ones(3), torch.tensor([0.2, 0.3, 0.5]).log()).exp()  # the uniform density
    tensor(2.)
    """
    log_beta = torch.lgamma(concentration).sum(dim=-1) - torch.lgamma(concentration.sum(dim=-1))
    return ((concentration - 1.0) * log_target).sum(dim=-1) - log_beta


def dirichlet_multinomial_log_likelihood(concentration: Tensor, counts: Tensor) -> Tensor:
    r"""Log probability of votes n, in the order they came, when λ follows a Dirichlet.

    That is $\log B(\theta + n) - \log B(\theta)$, the integral of $\prod_k \lambda_k^{n_k}$ over the density;
    the multinomial coefficient, which no parameter changes, is left out.

    Examples
    --------
    >>> dirichlet_multinomial_log_likelihood(torch.ones(2), torch.tensor([1.0, 1.0])).exp()  # 1/2 · 1/3
    tensor(0.1667)
    """
    total, votes = concentration.sum(dim=-1), counts.sum(dim=-1)
    rising = (torch.lgamma(concentration + counts) - torch.lgamma(concentration)).sum(dim=-1)
    return rising + torch.lgamma(total) - torch.lgamma(total + votes)
