r"""How crowds scatter around predictions: what votes to expect, learned from the votes there are.

The distribution of an item with prediction g is taken to be a draw from a mixture of Dirichlet laws,
$\sum_j \pi_j \, \mathrm{Dir}(s_j [(1 - e_j) g + e_j / K])$, over a grid of strengths $s_j$ and of shares $e_j$ by which
crowds are more mixed than predicted. Only the weights π are learned, by maximum likelihood (EM; the likelihood is
concave in π), apart for predictions of different sureness. What an item's own votes say is then a mixture of Dirichlet
laws again. This model chooses where votes go and says what to expect of them. No guarantee rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from credalset._typing import FloatArray, IntArray
from credalset.scores.anytime import log_marginal

LAWS = tuple(product((0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0), (0.003, 0.02, 0.08, 0.25, 0.6, 1.0)))
FITTED = 5_000  # items that weights are learned from, at most
STEPS = 60  # of EM
GROUPS, PER_GROUP = 5, 100  # of predictions by sureness: how many, and of how many items at least
NEGLIGIBLE = 1e-3  # weight below which a law is left out


def _concentration(law: tuple[float, float], center: FloatArray) -> FloatArray:
    strength, mixed = law
    return strength * ((1.0 - mixed) * center + mixed / center.shape[1])


def log_likelihoods(center: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the log-likelihood of the votes on each item under each law, (J, N)."""
    return np.stack([log_marginal(counts, _concentration(law, center)) for law in LAWS])


def learn_weights(likelihoods: FloatArray, importance: FloatArray) -> FloatArray:
    """Return the weights of the laws with the largest likelihood, items counting by their importance, (J,)."""
    scaled = np.exp(likelihoods - likelihoods.max(axis=0))
    weights = np.full(len(scaled), 1.0 / len(scaled))
    for _ in range(STEPS):
        share = weights[:, None] * scaled
        weights = (share / share.sum(axis=0)) @ importance / importance.sum()
    return np.asarray(weights)


@dataclass(frozen=True)
class Beliefs:
    """What is believed of N items given their votes: laws (J, 2), their chances (J, N), centres and votes (N, K)."""

    laws: tuple[tuple[float, float], ...]
    chances: FloatArray
    center: FloatArray
    counts: FloatArray

    @classmethod
    def given(cls, weights: FloatArray, center: FloatArray, counts: FloatArray) -> Beliefs:
        """Weigh the laws, (J, N) or (J, 1), by what the votes on each item say."""
        kept = np.flatnonzero(weights.max(axis=1) > NEGLIGIBLE)
        laws = tuple(LAWS[j] for j in kept)
        logs = np.stack([log_marginal(counts, _concentration(law, center)) for law in laws])
        logs += np.log(np.maximum(weights[kept], 1e-12))
        chances = np.exp(logs - logs.max(axis=0))
        return cls(laws, chances / chances.sum(axis=0), center, counts)

    def __getitem__(self, rows: IntArray) -> Beliefs:
        return Beliefs(self.laws, self.chances[:, rows], self.center[rows], self.counts[rows])

    def mean(self) -> FloatArray:
        """Return the expected distribution of each item, (N, K): the chances of its next vote.

        Examples
        --------
        >>> weights = np.full((len(LAWS), 1), 1 / len(LAWS))
        >>> Beliefs.given(weights, np.array([[0.5, 0.5]]), np.array([[3.0, 0.0]])).mean().round(2)
        array([[0.83, 0.17]])
        """
        total = np.zeros_like(self.center)
        for law, chance in zip(self.laws, self.chances, strict=True):
            full = _concentration(law, self.center) + self.counts
            total += chance[:, None] * full / full.sum(axis=1, keepdims=True)
        return total

    def draw(self, generator: np.random.Generator) -> FloatArray:
        """Draw a distribution for each item, (N, K)."""
        chosen = (np.cumsum(self.chances, axis=0) < generator.random(len(self.center))).sum(axis=0)
        strength, mixed = np.array(self.laws)[np.minimum(chosen, len(self.laws) - 1)].T
        near = (1.0 - mixed)[:, None] * self.center + mixed[:, None] / self.center.shape[1]
        draws = generator.standard_gamma(strength[:, None] * near + self.counts)
        draws = np.maximum(draws, np.finfo(float).tiny)
        return np.asarray(draws / draws.sum(axis=1, keepdims=True))


class Crowd:
    """The weights of laws that votes teach, and others that they might as well have taught (Bayesian bootstrap).

    Predictions are sorted by their largest probability into groups of equal size, with weights of their own.

    Parameters
    ----------
    center, counts : array of shape (n, K)
        Predictions and votes; items without votes teach nothing.
    generator : Generator
        Chooses the items to learn from, where there are many.
    """

    def __init__(self, center: FloatArray, counts: FloatArray, generator: np.random.Generator) -> None:
        rows = generator.permutation(np.flatnonzero(counts.sum(axis=1) > 0))[:FITTED]
        self.n = len(rows)
        n_groups = max(1, min(GROUPS, self.n // PER_GROUP))
        tops = np.sort(center[rows].max(axis=1))
        edges = np.unique(tops[np.arange(1, n_groups) * self.n // n_groups]) if self.n else tops
        self._edges = edges[edges < tops[-1]] if self.n else edges  # every group has items
        self._group = self._sort(center[rows])
        self._likelihoods = log_likelihoods(center[rows], counts[rows])
        self.weights = self._learn(np.ones(self.n))

    def _sort(self, center: FloatArray) -> IntArray:
        return np.searchsorted(self._edges, center.max(axis=1))

    def _learn(self, importance: FloatArray) -> FloatArray:
        """Return the weights of each group, (J, G)."""
        if self.n == 0:
            return np.full((len(LAWS), 1), 1.0 / len(LAWS))
        groups = [np.flatnonzero(self._group == g) for g in range(len(self._edges) + 1)]
        return np.stack([learn_weights(self._likelihoods[:, rows], importance[rows]) for rows in groups], axis=1)

    def beliefs(self, center: FloatArray, counts: FloatArray, generator: np.random.Generator | None = None) -> Beliefs:
        """Return what to believe of items, by the likeliest crowd or by one that random importance of items teaches."""
        weights = self.weights if generator is None else self._learn(generator.standard_exponential((self.n,)))
        return Beliefs.given(weights[:, self._sort(center)], center, counts)
