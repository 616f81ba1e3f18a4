"""Is the crowd a Dirichlet crowd? Hide votes and compare them with what is predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from credalset._typing import FloatArray, IntArray
from credalset.crowd.inputs import Voted, draw_one, draw_votes
from credalset.crowd.law import CrowdLaw
from credalset.crowd.posterior import Posterior

MOST_KEPT = 5  # votes that stay in hand, at most: with many votes any crowd predicts the next one
BINS = np.array([0.0, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 1.0])


@dataclass(frozen=True, eq=False)
class CrowdCheck:
    """Predicted and observed frequencies of hidden votes.

    Attributes
    ----------
    votes, pairs : ndarray of shape (B, 5)
        Rows of lower and upper end of the predicted probability, number of cases, mean prediction, observed frequency:
        of the classes of one hidden vote, and of the agreement of two hidden votes.
    vote_p_value, pair_p_value : float
        Monte Carlo p-values of the chi-square statistics of the tables; NaN where no item has two votes.
    """

    votes: FloatArray
    pairs: FloatArray
    vote_p_value: float
    pair_p_value: float

    @property
    def p_value(self) -> float:
        """Twice the smaller of the two p-values, at most one (Bonferroni)."""
        both = [p for p in (self.vote_p_value, self.pair_p_value) if not np.isnan(p)]
        return min(1.0, len(both) * min(both))

    @property
    def agreement(self) -> tuple[float, float]:
        """Share of pairs of hidden votes that agree: predicted and observed."""
        weight = self.pairs[:, 2] / max(self.pairs[:, 2].sum(), 1.0)
        return float(weight @ self.pairs[:, 3]), float(weight @ self.pairs[:, 4])

    def __str__(self) -> str:
        lines = [f"Dirichlet crowd: p-value {self.p_value:.3f} (small values speak against the assumption)"]
        for title, rows, p in (("class", self.votes, self.vote_p_value), ("agreement", self.pairs, self.pair_p_value)):
            lines.append(f"{title + f' (p = {p:.3f})':<22}{'cases':>8}{'predicted':>11}{'observed':>10}")
            lines += [f"  {a:.2f} to {b:.2f}{'':<8}{n:>8.0f}{mean:>11.3f}{seen:>10.3f}" for a, b, n, mean, seen in rows]
        return "\n".join(lines)

    __repr__ = __str__


def check_crowd(law: CrowdLaw, voted: Voted, n_simulations: int, generator: np.random.Generator) -> CrowdCheck:
    """Hide up to two votes of each item, keep some of the others, and compare."""
    voted = voted[voted.n_votes > 0]
    if len(voted) == 0:
        raise ValueError("votes has no votes at all: a crowd is checked with items that have at least one vote each.")
    hides_two = voted.n_votes >= 2
    most = np.minimum(voted.n_votes - 1 - hides_two, MOST_KEPT)
    number = generator.integers(most + 1)
    drawn = draw_votes(voted.counts, tuple(range(MOST_KEPT + 1)), generator)
    kept = np.choose(number[:, None], [drawn[h] for h in range(MOST_KEPT + 1)])
    left = voted.counts - kept
    first = draw_one(left, generator)
    left[np.arange(len(left)), first] -= 1
    posterior = Posterior.given(law, voted.prediction, kept)
    mean, variance = posterior.moments()
    seen = np.eye(mean.shape[1])[first]
    votes, vote_p = _compare(mean, seen, lambda: np.eye(mean.shape[1])[_draw(mean, generator)], n_simulations)
    if not hides_two.any():
        return CrowdCheck(votes, np.empty((0, 5)), vote_p, np.nan)
    second = draw_one(left[hides_two], generator)
    agree = np.minimum((variance + mean**2).sum(axis=1), 1.0)[hides_two]
    same = (first[hides_two] == second).astype(np.float64)
    pairs, pair_p = _compare(agree, same, lambda: (generator.random(len(agree)) < agree).astype(float), n_simulations)
    return CrowdCheck(votes, pairs, vote_p, pair_p)


def _draw(probability: FloatArray, generator: np.random.Generator) -> IntArray:
    uniform = generator.random((len(probability), 1))
    return np.minimum((np.cumsum(probability, axis=1) <= uniform).sum(axis=1), probability.shape[1] - 1)


def _compare(
    predicted: FloatArray, seen: FloatArray, simulate: Callable[[], FloatArray], n_simulations: int
) -> tuple[FloatArray, float]:
    """Return the table of predicted and observed frequencies, and the Monte Carlo p-value of its chi-square."""
    cell = np.clip(np.searchsorted(BINS, predicted.ravel(), side="right") - 1, 0, len(BINS) - 2)
    number = np.bincount(cell, minlength=len(BINS) - 1)
    expected = np.bincount(cell, predicted.ravel(), minlength=len(number))
    spread = np.bincount(cell, (predicted * (1.0 - predicted)).ravel(), minlength=len(number))

    def statistic(values: FloatArray) -> tuple[float, FloatArray]:
        observed = np.bincount(cell, values.ravel(), minlength=len(number)).astype(np.float64)
        return float(((observed - expected) ** 2 / np.maximum(spread, 1.0)).sum()), observed

    value, observed = statistic(seen)
    beyond = sum(statistic(simulate())[0] >= value - 1e-9 for _ in range(n_simulations))
    rows = number > 0
    columns = [
        BINS[:-1][rows],
        BINS[1:][rows],
        number[rows],
        expected[rows] / number[rows],
        observed[rows] / number[rows],
    ]
    return np.stack(columns, axis=1), (1 + beyond) / (n_simulations + 1)
