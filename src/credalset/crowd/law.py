r"""The crowd law: the distribution of crowds given a prediction, its likelihood and the gradient.

Given a prediction $p$ with normalised entropy $f(p)$, the crowd's distribution is drawn from a
mixture,

$$\lambda \mid x \sim \sum_j g_j \, \mathrm{Dir}\big(s_j\, p^{b_j} / \textstyle\sum p^{b_j}
  + e_j\big)
  + \sum_t g_t \sum_y q_{ty} \, \mathrm{Dir}\big(d_t\, \delta_y + o_t\, C_y\big),$$

with two kinds of parts. A part *around* the prediction has strength $s_j$, log-linear in $f$. In a
*consensus* part the crowd mostly agrees on one class $y$, which the model may not predict ($q_{ty}$
mixes a power of $p$ with the uniform distribution), and $C_y$ is the distribution over the classes
that are confused with $y$. The weights $g$ of the parts are a softmax of linear functions of $f$.
Votes are drawn from λ, so that counts have Dirichlet-multinomial likelihoods.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import digamma, expit, gammaln

from credalset._typing import FloatArray, IntArray

FARTHEST = 5.0  # bound of standardised entropies


@dataclass(frozen=True, eq=False)
class CrowdLaw:
    """Parameters of a crowd law, as plain arrays.

    Attributes
    ----------
    around : ndarray of shape (J, 4)
        Logarithm of the strength, its slope in the entropy, logarithms of the power and of the
        floor.
    consensus : ndarray of shape (T, 4)
        Logarithms of the concentration on the own class, on all others and of the power; logit of
        the uniform share.
    gate : ndarray of shape (J + T, 2)
        Level and slope of the log-odds of each part.
    confusion : ndarray of shape (K, K)
        Row y: distribution of the votes for other classes if the crowd agrees on y; zero diagonal.
    entropy : ndarray of shape (2,)
        Mean and standard deviation of normalised entropies, for standardising them.
    """

    around: FloatArray
    consensus: FloatArray
    gate: FloatArray
    confusion: FloatArray
    entropy: FloatArray

    def __post_init__(self) -> None:
        n_parts = len(self.around) + len(self.consensus)
        n_classes = len(self.confusion)
        shapes = (
            (len(self.around), 4),
            (len(self.consensus), 4),
            (n_parts, 2),
            (n_classes, n_classes),
            (2,),
        )
        for field, shape in zip(fields(self), shapes, strict=True):
            value = getattr(self, field.name)
            if value.shape != shape or not np.isfinite(value).all():
                raise ValueError(
                    f"{field.name} of a crowd law must hold finite numbers of shape {shape}."
                )
        if n_parts == 0 or n_classes < 2 or self.confusion.min() < 0 or self.entropy[1] <= 0:
            raise ValueError(
                "a crowd law needs a part, two classes, a confusion ≥ 0 and a positive deviation."
            )

    @property
    def theta(self) -> FloatArray:
        """The parameters that are fitted, as one vector."""
        return np.concatenate([self.around.ravel(), self.consensus.ravel(), self.gate.ravel()])

    def at(self, theta: FloatArray) -> CrowdLaw:
        """Return the law with other fitted parameters."""
        first = self.around.size
        second = self.around.size + self.consensus.size
        around = theta[:first]
        consensus = theta[first:second]
        gate = theta[second:]
        return replace(
            self,
            around=around.reshape(-1, 4),
            consensus=consensus.reshape(-1, 4),
            gate=gate.reshape(-1, 2),
        )

    def rows(self, layer: int) -> FloatArray:
        """Return the concentrations of a consensus on each class, (K, K)."""
        rows = np.exp(self.consensus[layer, 1]) * self.confusion
        np.fill_diagonal(rows, np.exp(self.consensus[layer, 0]))
        return rows


class Items:
    """Predictions and votes of N items, with quantities that all evaluations of the law share."""

    def __init__(self, law: CrowdLaw, prediction: FloatArray, counts: FloatArray) -> None:
        self.prediction = prediction
        self.counts = counts
        self.n_votes = counts.sum(axis=1)
        with np.errstate(divide="ignore"):
            self.log_p = np.log(prediction)
        self.finite_log_p = np.where(prediction > 0, self.log_p, 0.0)
        entropy = (normalised_entropy(prediction) - law.entropy[0]) / law.entropy[1]
        self.sureness = np.clip(entropy, -FARTHEST, FARTHEST)
        self.row, self.column = np.nonzero(counts)
        self.votes = counts[self.row, self.column]
        pairs, self.pair = np.unique(
            np.stack([self.column, self.votes]), axis=1, return_inverse=True
        )
        self.pair_class: IntArray = pairs[0].astype(np.int64)
        self.pair_votes: FloatArray = pairs[1]
        shape = (len(counts), pairs.shape[1])
        self.has_pair = csr_matrix(
            (np.ones(len(self.row)), (self.row, self.pair.ravel())), shape=shape
        )

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum values of the entries with votes over each item."""
        return np.bincount(self.row, values, minlength=len(self.counts)).astype(np.float64)

    def tempered(self, log_power: float) -> tuple[FloatArray, FloatArray]:
        """Return p^b / Σ p^b and its derivative by log b."""
        power = np.exp(log_power)
        scaled = power * self.log_p
        q = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        q /= q.sum(axis=1, keepdims=True)
        mean = (q * self.finite_log_p).sum(axis=1, keepdims=True)
        return q, q * power * (self.finite_log_p - mean)


def normalised_entropy(prediction: FloatArray) -> FloatArray:
    """Return entropies divided by log K, (N,)."""
    logs = np.log(np.where(prediction > 0, prediction, 1.0))
    return -(prediction * logs).sum(axis=1) / np.log(prediction.shape[1])


def concentrations_around(law: CrowdLaw, items: Items, part: int) -> FloatArray:
    """Return the concentrations of one part around the prediction, (N, K)."""
    level, slope, log_power, log_floor = law.around[part]
    strength = np.exp(level + slope * items.sureness)
    return strength[:, None] * items.tempered(log_power)[0] + np.exp(log_floor)


def _around(law: CrowdLaw, items: Items, part: int) -> tuple[FloatArray, FloatArray]:
    """Return log-likelihoods (N,) under one part around the prediction, and gradients (N, 4)."""
    level, slope, log_power, log_floor = law.around[part]
    strength = np.exp(level + slope * items.sureness)
    floor = np.exp(log_floor)
    q, by_power = items.tempered(log_power)
    n_classes = q.shape[1]
    q_seen = q[items.row, items.column]
    seen = strength[items.row] * q_seen + floor
    total = strength + n_classes * floor
    value = gammaln(total) - gammaln(total + items.n_votes)
    value = value + items.sums(gammaln(seen + items.votes) - gammaln(seen))
    change = digamma(seen + items.votes) - digamma(seen)
    of_total = digamma(total) - digamma(total + items.n_votes)
    by_strength = strength * (items.sums(q_seen * change) + of_total)
    tempering = strength * items.sums(by_power[items.row, items.column] * change)
    by_floor = floor * (items.sums(change) + n_classes * of_total)
    return value, np.stack([by_strength, by_strength * items.sureness, tempering, by_floor], axis=1)


def _consensus(law: CrowdLaw, items: Items, layer: int) -> tuple[FloatArray, Any]:
    """Return log of q_y times the likelihood of a consensus on each class, (N, K).

    The second result is a function for its gradient.

    The function takes responsibilities (N, K) and returns Σ_y responsibility · gradient, (N, 4).
    """
    own, others = np.exp(law.consensus[layer, :2])
    uniform = expit(law.consensus[layer, 3])
    n_classes = len(law.confusion)
    q, by_power = items.tempered(law.consensus[layer, 2])
    share = (1.0 - uniform) * q + uniform / n_classes
    # (U, K): k of the pair, y
    start = law.rows(layer).T[items.pair_class]
    votes = items.pair_votes[:, None]
    total = own + others
    value = items.has_pair @ (gammaln(start + votes) - gammaln(start)) + np.log(share)
    value += (gammaln(total) - gammaln(total + items.n_votes))[:, None]

    def gradient(responsibility: FloatArray) -> FloatArray:
        change = digamma(start + votes) - digamma(start)
        of_total = responsibility.sum(axis=1) * (digamma(total) - digamma(total + items.n_votes))
        own_change = digamma(own + items.votes) - digamma(own)
        by_own = items.sums(responsibility[items.row, items.column] * own_change)
        confused = np.asarray(items.has_pair @ (change * law.confusion.T[items.pair_class]))
        by_others = (responsibility * confused).sum(axis=1)
        ratio = responsibility / share
        by_temper = (1.0 - uniform) * (ratio * by_power).sum(axis=1)
        by_uniform = uniform * (1.0 - uniform) * (ratio * (1.0 / n_classes - q)).sum(axis=1)
        return np.stack(
            [own * (by_own + of_total), others * (by_others + of_total), by_temper, by_uniform],
            axis=1,
        )

    return value, gradient


def log_likelihood(law: CrowdLaw, items: Items) -> tuple[FloatArray, FloatArray]:
    """Return log-likelihoods of the votes of items (in one order), (N,), and gradients, (N, P)."""
    n_around = len(law.around)
    n_items = len(items.counts)
    around = [_around(law, items, j) for j in range(n_around)]
    consensus = [_consensus(law, items, t) for t in range(len(law.consensus))]
    within = [_log_sum(value) for value, _ in consensus]
    features, gate = _gate(law, items)
    parts = [value for value, _ in around] + [value for value, _ in within]
    total, belongs = _log_sum(gate + np.stack(parts, axis=1))
    gradients = [belongs[:, [j]] * gradient for j, (_, gradient) in enumerate(around)]
    for t, ((_, gradient), (_, share)) in enumerate(zip(consensus, within, strict=True)):
        gradients.append(gradient(belongs[:, [n_around + t]] * share))
    by_gate = (belongs - np.exp(gate))[:, :, None] * features[:, None, :]
    return total, np.concatenate([*gradients, by_gate.reshape(n_items, -1)], axis=1)


def component_weights(law: CrowdLaw, items: Items) -> FloatArray:
    """Return the probabilities of the components given the votes, (N, J + T·K)."""
    gate = _gate(law, items)[1]
    n_around = len(law.around)
    logs = [(_around(law, items, j)[0] + gate[:, j])[:, None] for j in range(n_around)]
    logs += [
        _consensus(law, items, t)[0] + gate[:, [n_around + t]] for t in range(len(law.consensus))
    ]
    return _log_sum(np.concatenate(logs, axis=1))[1]


def _gate(law: CrowdLaw, items: Items) -> tuple[FloatArray, FloatArray]:
    """Return the features of the gate, (N, 2), and the logarithms of the weights of the parts."""
    features = np.stack([np.ones(len(items.counts)), items.sureness], axis=1)
    logits = features @ law.gate.T
    return features, logits - _log_sum(logits)[0][:, None]


def _log_sum(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log Σ exp of each row, (N,), and the share of each entry in the sum, (N, C)."""
    top = logs.max(axis=1, keepdims=True)
    share = np.exp(logs - top)
    total = share.sum(axis=1, keepdims=True)
    return (top + np.log(total))[:, 0], share / total
