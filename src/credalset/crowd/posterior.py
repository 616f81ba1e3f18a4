"""What is believed of crowds given the votes in hand: a mixture of Dirichlet distributions per item."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credalset._typing import BoolArray, FloatArray, RandomState
from credalset._validation import as_generator, as_positive_int
from credalset.crowd.law import CrowdLaw, Items, concentrations_around, log_weights

BLOCK = 4_000_000  # numbers that one block of items may need per array


@dataclass(frozen=True, eq=False)
class Posterior:
    """Mixtures of Dirichlet distributions, one for each of N items.

    Attributes
    ----------
    law : CrowdLaw
        The law of the crowd before votes.
    prediction, counts : ndarray of shape (N, K)
        Predictions and votes in hand.
    weights : ndarray of shape (N, C)
        Probabilities of the components: J around the prediction, then T for each class on which a crowd may agree.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(300, n_classes=3, n_votes=5, random_state=0)
    >>> crowd = cs.DirichletCrowd().fit(data.distributions, data.counts)
    >>> posterior = crowd.posterior(data.distributions[:2], data.counts[:2])
    >>> posterior.mean.shape, posterior.weights.shape, posterior.concentration.shape
    ((2, 3), (2, 5), (2, 5, 3))
    >>> posterior.sample(4, random_state=0).shape
    (2, 4, 3)
    """

    law: CrowdLaw
    prediction: FloatArray
    counts: FloatArray
    weights: FloatArray

    @classmethod
    def given(cls, law: CrowdLaw, prediction: FloatArray, counts: FloatArray) -> Posterior:
        """Weigh the components by what the votes say."""
        weights = np.empty((len(prediction), len(law.around) + len(law.consensus) * len(law.confusion)))
        for rows in blocks(len(prediction), 4 * max(weights.shape[1], prediction.shape[1])):
            weights[rows] = np.exp(log_weights(law, Items(law, prediction[rows], counts[rows])))
        return cls(law, prediction, counts, weights)

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: slice | BoolArray) -> Posterior:
        return Posterior(self.law, self.prediction[rows], self.counts[rows], self.weights[rows])

    @property
    def mean(self) -> FloatArray:
        """Expected distribution of the crowd of each item, (N, K)."""
        return self.moments()[0]

    @property
    def concentration(self) -> FloatArray:
        """Concentrations of all components, (N, C, K)."""
        everything = np.broadcast_to(np.arange(self.weights.shape[1]), self.weights.shape)
        return self._chosen(everything)

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of the share of each class, each (N, K)."""
        items, n_votes = self._items(), self.counts.sum(axis=1)[:, None]
        first, second = np.zeros_like(self.prediction), np.zeros_like(self.prediction)
        for j in range(len(self.law.around)):
            full = concentrations_around(self.law, items, j) + self.counts
            total, weight = full.sum(axis=1, keepdims=True), self.weights[:, [j]]
            first += weight * full / total
            second += weight * full * (full + 1.0) / (total * (total + 1.0))
        for t, weight in self._consensus_weights():
            rows = self.law.rows(t)
            total, mass = rows[0].sum() + n_votes, weight.sum(axis=1, keepdims=True)
            expected = weight @ rows
            first += (expected + mass * self.counts) / total
            squares = weight @ rows**2 + (2.0 * self.counts + 1.0) * expected + mass * self.counts * (self.counts + 1.0)
            second += squares / (total * (total + 1.0))
        first /= first.sum(axis=1, keepdims=True)
        return first, np.maximum(second - first**2, 0.0)

    def lead(self) -> tuple[FloatArray, FloatArray]:
        """Return by how much the first class leads the second in the mean, and the deviation of that lead, each (N,)."""
        mean, n_votes = self.mean, self.counts.sum(axis=1)[:, None]
        top = np.argpartition(-mean, 1, axis=1)[:, :2]
        expected = np.take_along_axis(mean, top, axis=1)
        lead, items, index = np.abs(expected[:, 0] - expected[:, 1]), self._items(), np.arange(len(mean))
        square = np.zeros(len(mean))
        for j in range(len(self.law.around)):
            full = concentrations_around(self.law, items, j) + self.counts
            a, b, total = full[index, top[:, 0]], full[index, top[:, 1]], full.sum(axis=1)
            square += self.weights[:, j] * ((a - b) ** 2 + a + b) / (total * (total + 1.0))
        for t, weight in self._consensus_weights():
            rows = self.law.rows(t)
            a, b = (rows.T[top[:, i]] + self.counts[index, top[:, i]][:, None] for i in (0, 1))
            total = rows[0].sum() + n_votes
            square += (weight * ((a - b) ** 2 + a + b) / (total * (total + 1.0))).sum(axis=1)
        return lead, np.sqrt(np.maximum(square - lead**2, 0.0))

    def matched(self) -> FloatArray:
        """Return the concentrations of the one Dirichlet distribution with this mean and total variance, (N, K)."""
        mean, variance = self.moments()
        spread = np.maximum(variance.sum(axis=1), 1e-12)
        total = np.maximum((1.0 - (mean**2).sum(axis=1)) / spread - 1.0, 1e-6)
        return total[:, None] * mean

    def sample(self, n: int = 1, random_state: RandomState = None) -> FloatArray:
        """Draw n distributions for each item, (N, n, K).

        Parameters
        ----------
        n : int
            Number of draws for each item.
        random_state : int, Generator or None
            Seed.
        """
        generator, n = as_generator(random_state), as_positive_int(n, "n")
        cumulative = np.cumsum(self.weights, axis=1)
        cumulative /= cumulative[:, -1:]
        uniform = generator.random((len(self), n))
        component = np.zeros((len(self), n), dtype=np.int64)
        for c in range(cumulative.shape[1] - 1):
            component += uniform > cumulative[:, [c]]
        return sample_dirichlet(self._chosen(component), generator)

    def _items(self) -> Items:
        return Items(self.law, self.prediction, self.counts)

    def _consensus_weights(self) -> list[tuple[int, FloatArray]]:
        n_classes, start = self.prediction.shape[1], len(self.law.around)
        layers = range(len(self.law.consensus))
        return [(t, self.weights[:, start + t * n_classes : start + (t + 1) * n_classes]) for t in layers]

    def _chosen(self, component: FloatArray) -> FloatArray:
        """Return the concentrations of chosen components, indices (N, n), as (N, n, K)."""
        items, n_around, n_classes = self._items(), len(self.law.around), self.prediction.shape[1]
        table = [self.law.rows(t) for t in range(len(self.law.consensus))]
        rows = np.concatenate([*table, np.zeros((1, n_classes))])
        full = rows[np.where(component < n_around, len(rows) - 1, component - n_around)]
        for j in range(n_around):
            full += (component == j)[:, :, None] * concentrations_around(self.law, items, j)[:, None, :]
        return np.asarray(full + self.counts[:, None, :])


def sample_dirichlet(concentration: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Draw one distribution per row (…, K); in logarithms, because small concentrations underflow."""
    logs = np.log(generator.standard_gamma(concentration + 1.0))
    logs -= generator.standard_exponential(concentration.shape) / concentration
    draws = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(draws / draws.sum(axis=-1, keepdims=True))


def blocks(n_rows: int, per_row: int) -> list[slice]:
    """Return slices of rows that need at most `BLOCK` numbers each."""
    size = max(1, BLOCK // max(per_row, 1))
    return [slice(start, start + size) for start in range(0, n_rows, size)]


def posterior_mean(law: CrowdLaw, prediction: FloatArray, counts: FloatArray) -> FloatArray:
    """Return posterior means, (N, K), a block of items at a time."""
    mean = np.empty_like(prediction)
    for rows in blocks(len(prediction), 6 * (len(law.around) + len(law.consensus)) * prediction.shape[1]):
        mean[rows] = Posterior.given(law, prediction[rows], counts[rows]).mean
    return mean
