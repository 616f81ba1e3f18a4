r"""What the sets of single prototypes leave open, differentiably: what training can aim at.

The envelope of class k of a Kullback–Leibler ball solves d(p‖g_k) = r, d the divergence of two-point distributions.
Both roots are found by bisection, and get their gradients in r and g from one Newton step (implicit differentiation).

Label k is as probable as label j for a member if $r \ge -\log(1 - (\sqrt{g_j} - \sqrt{g_k})^2)$, the divergence of the
nearest distribution that has them equal. With j the most probable label, that is when k stays possible, except where a
third one is in the way; it counts smoothly, by a sigmoid in the logarithm of both sides.
"""

from __future__ import annotations

import torch
from torch import Tensor

LEVELS = (0.1, 0.2, 0.3)  # miscoverage at which widths are looked at
SOFTNESS = 0.3  # of counting labels
BISECTIONS = 16
EDGE = 3e-5  # roots closer than this to 0 or 1, which bisection cannot tell from them, do not move


def mean_sizes(precision: Tensor, distribution: Tensor, divergence: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean width and number of labels of each batch's sets if the batch itself were the calibration data, (…).

    Precisions and divergences of the labels have shape (…, B), distributions (…, B, K). At level α the threshold is
    the (1 − α)-quantile of precision times divergence over the batch; the mean is over items and `LEVELS`.
    """
    scores = torch.sort(precision * divergence, dim=-1)[0]
    n = scores.shape[-1]
    places = [min(n - 1, max(0, round((1.0 - level) * (n + 1)) - 1)) for level in LEVELS]
    radius = scores[..., places].unsqueeze(-2) / precision.unsqueeze(-1)
    center, radius = distribution.unsqueeze(-2), radius.unsqueeze(-1)
    return _widths(center, radius).mean(dim=(-2, -1)), _labels(center, radius).mean(dim=(-2, -1))


def _labels(center: Tensor, radius: Tensor) -> Tensor:
    """Number of labels that stay possible, smoothly, of balls of radius (…, L, 1) around (…, 1, K): (…, L)."""
    gap = center.max(dim=-1, keepdim=True)[0].sqrt() - center.sqrt()
    needed = -torch.log1p(-gap.square().clamp_max(1.0 - 1e-6))
    open_to = torch.sigmoid((radius.log() - needed.clamp_min(1e-6).log()) / SOFTNESS)
    return torch.where(gap > 0, open_to, torch.ones_like(open_to)).sum(dim=-1)


def _widths(center: Tensor, radius: Tensor) -> Tensor:
    """½ Σ_k (upper_k − lower_k) of balls of radius (…, L, 1) around distributions (…, 1, K): (…, L)."""
    g = center.expand(*radius.shape[:-1], center.shape[-1])
    r = radius.expand_as(g)
    with torch.no_grad():
        inside = torch.stack([g, g])
        outside = torch.stack([torch.ones_like(g), torch.zeros_like(g)])
        for _ in range(BISECTIONS):
            middle = 0.5 * (inside + outside)
            within = _binary_divergence(middle, g) <= r
            inside, outside = torch.where(within, middle, inside), torch.where(within, outside, middle)
    root = inside.clamp(EDGE, 1.0 - EDGE)
    slope = (torch.log(root / g) - torch.log((1.0 - root) / _rest(g))).detach()
    free = (slope.abs() > 1e-3) & (inside > EDGE) & (inside < 1.0 - EDGE)
    step = (_binary_divergence(root, g) - r) / torch.where(free, slope, torch.ones_like(slope))
    ends = inside - torch.where(free, step - step.detach(), torch.zeros_like(step))
    return 0.5 * (ends[0] - ends[1]).sum(dim=-1)


def _binary_divergence(p: Tensor, g: Tensor) -> Tensor:
    return torch.xlogy(p, p / g) + torch.xlogy(1.0 - p, (1.0 - p) / _rest(g))


def _rest(g: Tensor) -> Tensor:
    """1 − g, which single precision rounds to zero where the other classes have next to nothing."""
    return (1.0 - g).clamp_min(1e-7)
