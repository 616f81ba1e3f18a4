"""The posterior of a crowd given the votes in hand: Dirichlet mixtures, one per item."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from credalset._typing import FloatArray, IntArray, RandomState
from credalset._validation import as_generator, as_positive_int
from credalset.crowd.law import CrowdLaw, Items, component_weights, concentrations_around

BLOCK = 4_000_000  # numbers that one block of items may need per array


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior distribution of the crowd of each of N items: a mixture of Dirichlet distributions.

    Attributes
    ----------
    weights : ndarray of shape (N, C)
        Probabilities of the components: J around the prediction, then T for each class on which a
        crowd may agree.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(300, n_classes=3, n_votes=5, random_state=0)
    >>> crowd = cs.DirichletCrowd(n_consensus=1).fit(data.distributions, data.counts)
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
        """Return the posterior given predictions and votes, (N, K) each."""
        return cls(law, prediction, counts, component_weights(law, Items(law, prediction, counts)))

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: slice) -> Posterior:
        return replace(
            self,
            prediction=self.prediction[rows],
            counts=self.counts[rows],
            weights=self.weights[rows],
        )

    @property
    def mean(self) -> FloatArray:
        """Expected distribution of the crowd of each item, (N, K)."""
        return self.moments[0]

    @property
    def concentration(self) -> FloatArray:
        """Dirichlet concentrations of all components, (N, C, K)."""
        everything = np.broadcast_to(np.arange(self.weights.shape[1]), self.weights.shape)
        return self.of_components(everything)

    @cached_property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Means and variances of the share of each class, each (N, K)."""
        first = np.zeros_like(self.prediction)
        second = np.zeros_like(self.prediction)
        for _, total, sums, squares, _ in self._parts:
            first += sums / total
            second += squares / (total * (total + 1.0))
        first /= first.sum(axis=1, keepdims=True)
        return first, np.maximum(second - first**2, 0.0)

    def lead(self) -> tuple[FloatArray, FloatArray]:
        """Return the lead of the first class over the second, mean and standard deviation, (N,)."""
        mean = self.mean
        units = np.eye(self.prediction.shape[1])
        top = np.argpartition(-mean, 1, axis=1)[:, :2]
        difference = units[top[:, 0]] - units[top[:, 1]]
        lead = np.abs((difference * mean).sum(axis=1))
        square = np.zeros(len(mean))
        for (
            weight,
            total,
            _,
            _,
            dot,
        ) in self._parts:  # E (u·λ)² = ((u·α)² + u²·α) / (A (A + 1)) for each component
            square += (
                weight * (dot(difference) ** 2 + dot(difference**2)) / (total * (total + 1.0))
            ).sum(axis=1)
        return lead, np.sqrt(np.maximum(square - lead**2, 0.0))

    @property
    def strength(self) -> FloatArray:
        """Concentration of the one Dirichlet with this mean and total variance, (N,)."""
        mean, variance = self.moments
        spread = np.maximum(variance.sum(axis=1), 1e-12)
        return np.maximum((1.0 - (mean**2).sum(axis=1)) / spread - 1.0, 1e-6)

    def center(self, order: str) -> FloatArray:
        """Return the prediction that sets are centred at, (N, K); second-order, concentrations.

        The normalised power 1 + 1 / √(1 + strength) of the mean lies between the mean and the mode.
        Sets around it are narrower than around the mean and leave fewer labels open.
        """
        power = self.mean ** (1.0 + 1.0 / np.sqrt(1.0 + self.strength))[:, None]
        power /= power.sum(axis=1, keepdims=True)
        return power if order == "first" else 1.0 + self.strength[:, None] * power

    def sample(self, n: int = 1, random_state: RandomState = None) -> FloatArray:
        """Draw n distributions for each item, (N, n, K).

        Parameters
        ----------
        n : int
            Number of draws for each item.
        random_state : int, Generator or None
            Seed.
        """
        generator = as_generator(random_state)
        n = as_positive_int(n, "n")
        cumulative = np.cumsum(self.weights, axis=1)
        cumulative /= cumulative[:, -1:]
        uniform = generator.random((len(self), n))
        component = (uniform[:, :, None] > cumulative[:, None, :-1]).sum(axis=2)
        return sample_dirichlet(self.of_components(component), generator)

    @cached_property
    def _items(self) -> Items:
        return Items(self.law, self.prediction, self.counts)

    @cached_property
    def _parts(self) -> list[Any]:
        """Return quantities of each part with concentrations α.

        They are weights w (N, C), totals A, Σ w α, Σ w α (α + 1) and the function u·α.
        """
        counts = self.counts
        n_votes = self.counts.sum(axis=1, keepdims=True)
        parts = []
        n_around = len(self.law.around)
        n_classes = counts.shape[1]
        for j in range(n_around):
            full = concentrations_around(self.law, self._items, j) + counts
            weight = self.weights[:, [j]]
            total = full.sum(axis=1, keepdims=True)
            dot = partial(_dot, full, np.zeros((1, n_classes)))
            parts.append((weight, total, weight * full, weight * full * (full + 1.0), dot))
        for t in range(len(self.law.consensus)):
            rows = self.law.rows(t)
            weight = self.weights[:, n_around + t * n_classes :][:, :n_classes]
            mass = weight.sum(axis=1, keepdims=True)
            start = weight @ rows
            squares = (
                weight @ rows**2 + (2.0 * counts + 1.0) * start + mass * counts * (counts + 1.0)
            )
            parts.append(
                (
                    weight,
                    rows[0].sum() + n_votes,
                    start + mass * counts,
                    squares,
                    partial(_dot, counts, rows),
                )
            )
        return parts

    def of_components(self, component: IntArray) -> FloatArray:
        """Return the concentrations of chosen components, numbers (N, n), as (N, n, K)."""
        n_around = len(self.law.around)
        n_classes = self.prediction.shape[1]
        table = [self.law.rows(t) for t in range(len(self.law.consensus))]
        rows = np.concatenate([*table, np.zeros((1, n_classes))])
        full = rows[np.where(component < n_around, len(rows) - 1, component - n_around)]
        for j in range(n_around):
            item, draw = np.nonzero(component == j)
            full[item, draw] = concentrations_around(self.law, self._items, j)[item]
        full += self.counts[:, None, :]
        return np.asarray(full)


def _dot(per_item: FloatArray, rows: FloatArray, u: FloatArray) -> FloatArray:
    """Return u·α for the components α = per_item + row, (N, C)."""
    return np.asarray((u * per_item).sum(axis=1, keepdims=True) + u @ rows.T)


def sample_dirichlet(concentration: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Draw one distribution per row (…, K); in logarithms, as small concentrations underflow."""
    logs = np.log(generator.standard_gamma(concentration + 1.0))
    logs -= generator.standard_exponential(concentration.shape) / concentration
    draws = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(draws / draws.sum(axis=-1, keepdims=True))


def blocks(n_rows: int, per_row: int) -> list[slice]:
    """Return slices of rows that need at most `BLOCK` numbers each."""
    size = max(1, BLOCK // max(per_row, 1))
    return [slice(start, start + size) for start in range(0, n_rows, size)]


def predict_blocks(law: CrowdLaw, prediction: FloatArray, counts: FloatArray) -> FloatArray:
    """Return posterior means, (N, K), in blocks of items."""
    found = np.empty_like(prediction)
    n_parts = len(law.around) + len(law.consensus)
    for rows in blocks(len(prediction), 6 * n_parts * prediction.shape[1]):
        found[rows] = Posterior.given(law, prediction[rows], counts[rows]).mean
    return found
