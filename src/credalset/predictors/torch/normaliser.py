r"""The integral that turns exp(−s KL(λ‖g)) into a density over the simplex.

With x = sλ for a total that is let free, the integral splits into one for each class,
$h(u) = \int_0^\infty e^{-(x \log(x/u) - x + u)} \, dx$, which gives

$$ \log Z(s, g) \approx \sum_k \log h(s g_k) - (K - 1) \log s - \log h(s) . $$

log h is tabulated (`log_h`, within 1e-6 between 1e-8 and 1e5). The approximation itself is exact in the limit of large
s; `tests/test_torch_prototypes.py` states its error against quadrature. Coverage never depends on it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from credalset._typing import FloatArray

LOW, HIGH, N_NODES = np.log(1e-8), np.log(1e5), 4096


@lru_cache(maxsize=4)
def _rule(n: int) -> tuple[FloatArray, FloatArray]:
    return np.polynomial.legendre.leggauss(n)


def quadrature(u: FloatArray, n: int = 400) -> FloatArray:
    """Return log h(u) by Gauss–Legendre over what lies within exp(−40) of the peak, whose value is 1 at x = u."""
    u = np.asarray(u, dtype=float)[..., None]
    nodes, weights = _rule(n)
    total = np.zeros(u.shape[:-1])
    # The integrand falls like exp(−x log(1/u)) for small u and like a normal density of variance u for large u.
    reach = 10.0 * np.sqrt(u) + 40.0 / np.maximum(1.0, np.log1p(1.0 / u))
    for low, high in ((np.maximum(u - 10.0 * np.sqrt(u), 0.0), u), (u, u + reach)):
        # Squared nodes are denser toward the end at zero, where x log x is steep.
        y = 0.5 * (nodes + 1.0)
        x = low + (high - low) * y**2
        with np.errstate(divide="ignore", invalid="ignore"):
            exponent = np.where(x > 0, x * np.log(x / u), 0.0) - x + u
        total += ((high - low) * y * weights * np.exp(-exponent)).sum(axis=-1)
    return np.log(total)


@lru_cache(maxsize=1)
def _table() -> Tensor:
    return torch.from_numpy(quadrature(np.exp(np.linspace(LOW, HIGH, N_NODES))))


def log_h(u: Tensor) -> Tensor:
    """Interpolate log h, linearly in log u.

    Examples
    --------
    >>> u = torch.tensor([1000.0])
    >>> torch.allclose(log_h(u), 0.5 * torch.log(2 * torch.pi * u), atol=1e-4)  # a normal integral in the limit
    True
    """
    table = _table().to(dtype=u.dtype, device=u.device)
    place = (u.log().clamp(LOW, HIGH) - LOW) * ((N_NODES - 1) / (HIGH - LOW))
    left = place.detach().floor().clamp(0, N_NODES - 2).long()
    return torch.lerp(table[left], table[left + 1], place - left)


def log_normaliser(precision: Tensor, distribution: Tensor) -> Tensor:
    """Return log Z(s, g) for precisions (…) and distributions (…, K)."""
    n_classes = distribution.shape[-1]
    each = log_h(precision.unsqueeze(-1) * distribution).sum(dim=-1)
    return each - (n_classes - 1) * precision.log() - log_h(precision)
