r"""A learner of probability intervals: distributions, and bounds around them.

It learns where label distributions lie, and how far each class may go down and up.

Training aims at what people read. Each batch is taken for its own calibration data: at each of
`LEVELS` the threshold is a smooth quantile of its scores, and the sets that it gives have a width,
a number of labels that stay possible and a range of entropies, whose means are differentiable in
everything the network puts out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor

from credalset._typing import FloatArray
from credalset._validation import as_finite
from credalset.predictors.torch.base import Network
from credalset.predictors.torch.networks import cross_entropy

LEVELS = (0.1, 0.2, 0.3)  # miscoverage rates of the sets in the loss
FIRST_LOG_SIDE = -2.0  # mean log side of an untrained network
LOG_SIDES = (-16.0, 1.0)  # bounds of log sides
SPREAD = 0.05  # standard deviation of the smoothed quantile, as a share of the batch
SOFTNESS = 0.05  # scale of the sigmoid that counts labels, in units of probability
BISECTIONS = 18


@dataclass(eq=False, repr=False)
class IntervalNetwork(Network):
    r"""Predict probability intervals.

    An interval is a label distribution and, for each class, a half-width below and above it.

    Use the network with the score `Intervals`. It is trained for small sets: the loss is the
    cross-entropy plus a weighted sum of the mean width of the sets, their mean number of
    E-admissible labels and the mean difference between their largest and smallest entropy. The
    thresholds of these sets are calibrated on the batch itself, at 70, 80 and 90 % coverage.

    Parameters
    ----------
    hidden, learning_rate, weight_decay, epochs
        As in `FirstOrderNetwork`, with other defaults.
    dropout, early_stopping, validation_fraction, n_iter_no_change, random_state, device, verbose
        As in `FirstOrderNetwork`.
    batch_size : int
        Items per step. Thresholds are calibrated on the batch, so it should not be small.
    width : float
        Weight of the mean width in the loss.
    labels : float
        Weight of the mean number of E-admissible labels in the loss.
    epistemic : float
        Weight of the mean difference between largest and smallest entropy in the loss.

    Attributes
    ----------
    module_, classes_, n_features_in_, loss_curve_, validation_curve_, n_iter_
        As in `FirstOrderNetwork`.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(200, n_classes=3, random_state=0)
    >>> network = IntervalNetwork(epochs=5, random_state=0).fit(data.X, data.counts)
    >>> network.predict_intervals(data.X[:2]).shape  # distribution, half-widths
    (2, 3, 3)
    """

    hidden: Sequence[int] = (64, 64)
    _: KW_ONLY
    width: float = 20.0
    labels: float = 8.0
    epistemic: float = 10.0
    learning_rate: float = 2e-3
    weight_decay: float = 1e-2
    batch_size: int = 128
    epochs: int = 80

    def predict_intervals(self, X: Any) -> FloatArray:
        """Predict probability intervals.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        ndarray of shape (n, 3, K)
            For each item the label distribution, the half-widths below it and the half-widths above
            it.
        """
        return torch.stack(self._parts(self._outputs(X)), dim=1).numpy()

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict label distributions, without the half-widths.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        ndarray of shape (n, K)
            Predicted distributions.
        """
        return self.predict_intervals(X)[:, 0]

    def _n_outputs(self, n_classes: int) -> int:
        return 3 * n_classes

    def _check_options(self) -> None:
        super()._check_options()
        for name in ("width", "labels", "epistemic"):
            as_finite(getattr(self, name), name, minimum=0.0)

    def _loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        width, labels, epistemic = mean_sizes(*self._parts(outputs), target)
        loss = cross_entropy(outputs.chunk(3, dim=-1)[0], target)
        return loss + self.width * width + self.labels * labels + self.epistemic * epistemic

    def _parts(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Split outputs into distributions, half-widths below and above, (n, K) each."""
        logits, below, above = outputs.chunk(3, dim=-1)
        sides = [(raw + FIRST_LOG_SIDE).clamp(*LOG_SIDES).exp() for raw in (below, above)]
        return torch.softmax(logits, dim=-1), sides[0], sides[1]


def mean_sizes(
    center: Tensor, below: Tensor, above: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean width, number of labels and range of entropies of each batch's sets, (…).

    The tensors have shape (…, B, K).

    At level α the threshold is about the (1 − α)-quantile of the batch's scores; the mean is over
    items and `LEVELS`.
    """
    gap = labels - center
    scores = torch.maximum(gap / above, -gap / below).amax(dim=-1)
    threshold = smooth_quantiles(scores)[..., None, None]
    center, below, above = (part.unsqueeze(-3) for part in (center, below, above))
    lower = (center - threshold * below).clamp_min(0.0)
    upper = (center + threshold * above).clamp_max(1.0)
    # Reachable envelopes: probabilities sum to one.
    rest_of_lower, rest_of_upper = (end.sum(dim=-1, keepdim=True) - end for end in (lower, upper))
    lower = torch.maximum(lower, 1.0 - rest_of_upper)
    upper = torch.minimum(upper, 1.0 - rest_of_lower)
    width = 0.5 * (upper - lower).sum(dim=-1)
    entropies = most_entropy(lower, upper) - least_entropy(lower, upper)
    possible = n_possible(lower, upper)
    return tuple(
        size.mean(dim=(-2, -1))
        for size in (width, possible, entropies / math.log(center.shape[-1]))
    )  # type: ignore[return-value]


def smooth_quantiles(scores: Tensor) -> Tensor:
    """Return quantiles of scores (…, B) at `LEVELS`, (…, L): geometric means of ranks around.

    A single order statistic would have a gradient for one item of the batch only.
    """
    ranked = torch.sort(scores, dim=-1)[0].clamp_min(1e-9).log()
    n = ranked.shape[-1]
    ranks = torch.arange(n).to(ranked)
    wanted = torch.tensor([[(1.0 - level) * (n + 1) - 1.0] for level in LEVELS]).to(ranked)
    weights = torch.softmax(-0.5 * ((ranks - wanted) / (SPREAD * n)).square(), dim=-1)
    return (ranked @ weights.T).exp()


def n_possible(lower: Tensor, upper: Tensor) -> Tensor:
    """Return a smooth number of E-admissible labels between reachable envelopes, (…, K) to (…)."""
    # Total mass if no class exceeds k.
    cut = torch.minimum(upper.unsqueeze(-2), upper.unsqueeze(-1)).sum(dim=-1) - 1.0
    lead = upper - lower.amax(dim=-1, keepdim=True)
    return torch.sigmoid(torch.minimum(cut, lead) / SOFTNESS).sum(dim=-1)


def most_entropy(lower: Tensor, upper: Tensor) -> Tensor:
    """Return the largest entropy between reachable envelopes, (…, K) to (…).

    It is that of one level clipped to the envelopes.
    """
    with torch.no_grad():
        low = torch.zeros_like(lower[..., :1])
        level = torch.ones_like(lower[..., :1])
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + level)
            short = middle.clamp(lower, upper).sum(dim=-1, keepdim=True) < 1.0
            low = torch.where(short, middle, low)
            level = torch.where(short, level, middle)
    point = torch.minimum(torch.maximum(level, lower), upper)
    terms = -torch.xlogy(point, point.clamp_min(1e-9))
    # The gradient with respect to the ends: mass that a class gains is lost by those at the level.
    return (terms + (1.0 + level.log()) * (point - point.detach())).sum(dim=-1)


def least_entropy(lower: Tensor, upper: Tensor) -> Tensor:
    """Return a small entropy between reachable envelopes, (…, K) to (…).

    Mass goes to the largest upper ends first.
    """
    order = torch.argsort(upper, dim=-1, descending=True)
    lower = lower.gather(-1, order)
    upper = upper.gather(-1, order)
    room = upper - lower
    left = 1.0 - lower.sum(dim=-1, keepdim=True) - (room.cumsum(dim=-1) - room)
    point = lower + torch.minimum(room, left.clamp_min(0.0))
    return -torch.xlogy(point, point.clamp_min(1e-6)).sum(dim=-1)
