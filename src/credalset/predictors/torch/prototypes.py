"""A learner of prototypes: where label distributions lie, and how closely."""

from __future__ import annotations

import math
from dataclasses import dataclass
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
from credalset.predictors.torch.widths import mean_sizes

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
    width : float
        Weight, beside the likelihood, of the mean width that sets would have if the batch were the calibration data.
    labels : float
        Weight of the mean number of labels that they would leave possible.
    """

    n_components: int = 1
    likelihood: str = "distributions"
    max_precision: float = 3000.0
    floor: float = 1e-3
    width: float = 0.0
    labels: float = 0.0

    def __post_init__(self) -> None:
        as_positive_int(self.n_components, "n_components")
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood must be one of {', '.join(map(repr, LIKELIHOODS))}, not {self.likelihood!r}.")
        if as_finite(self.max_precision, "max_precision") < 1.0:
            raise ValueError(f"max_precision must be at least 1, but is {self.max_precision!r}.")
        if not 0.0 < as_finite(self.floor, "floor") < 1.0:
            raise ValueError(f"floor must lie strictly between 0 and 1, but is {self.floor!r}.")
        aims = {name: as_finite(getattr(self, name), name, minimum=0.0) for name in ("width", "labels")}
        if self.n_components > 1 and any(aims.values()):
            name = max(aims, key=lambda aim: aims[aim])
            raise ValueError(f"{name} can only be aimed at with one prototype. Use {name}=0, or n_components=1.")

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

    def batch_loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Mean negative log-likelihood, plus the mean width of the sets."""
        loss = super().batch_loss(outputs, target)
        if self.width == self.labels == 0.0:
            return loss
        _, precision, distribution = self.parts(outputs)
        shares = target / target.sum(dim=-1, keepdim=True)
        divergence = (torch.xlogy(shares, shares) - shares * distribution[..., 0, :].log()).sum(dim=-1)
        width, labels = mean_sizes(precision[..., 0], distribution[..., 0, :], divergence.clamp_min(1e-9))
        return loss + self.width * width + self.labels * labels

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


@dataclass(kw_only=True, eq=False, repr=False)
class PrototypeNetwork(CommitteeEstimator):
    r"""Predict prototypes: label distributions that are likely for an item, and how closely they hold.

    The density of label distributions is learned as
    $p(\lambda | x) = \sum_c w_c(x) \, e^{-s_c(x) \, \mathrm{KL}(\lambda \| g_c(x))} / Z_c(x)$, with prototypes $g_c$,
    precisions $s_c$ and weights $w_c$ that are all outputs of one network. Use it with the score `Prototypes`. One
    prototype, the default, gives Kullback–Leibler balls whose size is learned. Trained for it (``width=20, labels=4,
    floor=1e-6, n_networks=3``), they were the narrowest sets on CIFAR-10H and ChaosNLI in `benchmarks/set_sizes.py`;
    where a classifier predicts label distributions well already, dividing its Kullback–Leibler score by the entropy
    (`Normalized`) comes close without any training. Several prototypes give unions of balls, which are nearly as small
    in volume as those of `DirichletMixtureNetwork`, and answer every question exactly.

    Parameters
    ----------
    hidden, activation, dropout
        As in `FirstOrderNetwork`.
    n_components : int
        Number of prototypes C.
    offsets : bool
        Whether to predict offsets $b_c = \log Z_c - \log w_c$, so that sets are level sets of the learned density: they
        are smaller, empty for items that no prototype fits well enough, and what prototypes of small weight need.
        Without, every prototype has offset 0, and no set is empty.
    n_networks : int
        Networks to train, side by side and from different seeds. Their prototypes are averaged if each has one, and
        put together, as one mixture, if each has several.
    likelihood : {"distributions", "counts"}
        ``"distributions"``: maximise the density of the label distributions. ``"counts"``: maximise the probability of
        the votes if each prototype is a Dirichlet of concentrations $s_c g_c$, which models the distribution behind few
        votes rather than their shares; Y must then be counts.
    max_precision : float
        Precisions stay below it.
    floor : float
        Predicted probabilities stay above ``floor`` / K, so that no label distribution has an infinite score. A small
        one, such as 1e-6, lets training rule out classes that nobody chooses: over many classes sets get narrower.
    width : float
        Weight, beside the likelihood, of the mean width that the sets of each batch would have if it were its own
        calibration data (at 70, 80 and 90 % coverage): training then aims at narrow sets. Needs one prototype.
    labels : float
        Likewise, weight of the mean number of labels that the sets leave possible.
    optimizer, learning_rate, weight_decay, momentum, batch_size, epochs
        As in `FirstOrderNetwork`.
    early_stopping, validation_fraction, n_iter_no_change, tol, warm_start
        As in `FirstOrderNetwork`.
    random_state, device, verbose
        As in `FirstOrderNetwork`.

    Attributes
    ----------
    module_, classes_, n_features_in_, loss_curve_, validation_curve_, n_iter_
        As in `FirstOrderNetwork`. With several networks ``module_`` holds them all, and curves are their means.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(200, n_classes=3, random_state=0)
    >>> network = PrototypeNetwork(epochs=5, random_state=0).fit(data.X, data.counts)
    >>> network.predict_prototypes(data.X[:2]).shape  # one prototype: three probabilities, a precision, an offset
    (2, 1, 5)
    """

    n_components: int = 1
    offsets: bool = False
    max_precision: float = 3000.0
    floor: float = 1e-3
    width: float = 0.0
    labels: float = 0.0

    def _head(self) -> PrototypeHead:
        return PrototypeHead(
            self.n_components, self.likelihood, self.max_precision, self.floor, self.width, self.labels
        )

    def predict_prototypes(self, X: Any) -> FloatArray:
        """Predict prototypes (n, C, K + 2): for each the K probabilities, the precision and the offset.

        With several networks of several prototypes, C is ``n_networks`` · ``n_components``.
        """
        table = self._head().read(self._predict_outputs(X))
        if table.ndim == 4:
            table = _average(table) if self.n_components == 1 else _pooled(table)
        if not self.offsets:
            table[..., -1] = 0.0
        return table

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict label distributions (n, K): the mean of the prototypes by weight."""
        mean = self._head().mean(self._predict_outputs(X))
        mean = mean.mean(axis=1) if mean.ndim == 3 else mean
        return np.asarray(mean / mean.sum(axis=1, keepdims=True))


def _pooled(table: FloatArray) -> FloatArray:
    """Put the prototypes of M networks, (n, M, C, K + 2), together as one mixture, (n, M · C, K + 2)."""
    pooled = table.reshape(len(table), -1, table.shape[-1])
    pooled[..., -1] += math.log(table.shape[1])
    return pooled


def _average(table: FloatArray) -> FloatArray:
    """Average the single prototypes of M networks, (n, M, 1, K + 2): precisions and offsets by their geometric mean."""
    mean = table.mean(axis=1)
    mean[..., -2] = np.exp(np.log(table[..., -2]).mean(axis=1))
    return mean
