"""Test of the crowd model: hide votes and compare them with their predicted probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credalset._typing import FloatArray, IntArray
from credalset.crowd.base import VotedItems
from credalset.crowd.drawing import draw_one, draw_votes
from credalset.crowd.law import CrowdLaw
from credalset.crowd.posterior import Posterior

MOST_KEPT = (
    5  # largest number of votes that stay in hand; with many votes every model predicts well
)
BINS = np.array([0.0, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 1.0])


@dataclass(frozen=True, eq=False)
class CrowdCheck:
    """Predicted and observed frequencies of hidden votes, returned by `DirichletCrowd.check`.

    It prints two tables. Each row counts the ``cases`` whose predicted probability lies in an
    interval. In the table ``class``, a case is an item and a class: the probability that the hidden
    vote is for this class, and how often it was. In the table ``agreement``, a case is an item with
    two hidden votes: the probability that both are for the same class, and how often they were.

    Attributes
    ----------
    votes : ndarray of shape (B, 5)
        The table ``class``. The columns are the lower and upper end of the predicted probability,
        number of cases, mean prediction and observed frequency.
    pairs : ndarray of shape (B, 5)
        The table ``agreement``, with the same columns; without rows if no item has two votes.
    vote_p_value : float
        Monte Carlo p-value of the chi-square statistic of ``votes``.
    pair_p_value : float
        Monte Carlo p-value of the chi-square statistic of ``pairs``; NaN if no item has two votes.
    """

    votes: FloatArray
    pairs: FloatArray
    vote_p_value: float
    pair_p_value: float

    @property
    def p_value(self) -> float:
        """Twice the smaller p-value (Bonferroni), at most one.

        It is ``vote_p_value`` if no item has two votes.
        """
        both = [p for p in (self.vote_p_value, self.pair_p_value) if not np.isnan(p)]
        return min(1.0, len(both) * min(both))

    @property
    def agreement(self) -> tuple[float, float]:
        """Predicted and observed share of pairs of hidden votes that agree, as two floats."""
        weight = self.pairs[:, 2] / max(self.pairs[:, 2].sum(), 1.0)
        return float(weight @ self.pairs[:, 3]), float(weight @ self.pairs[:, 4])

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        predicted, observed = self.agreement
        pairs = ""
        if len(self.pairs):
            pairs = f"two hidden votes agree with probability {predicted:.2f}, observed "
            pairs += f"{observed:.2f}; "
        return (
            f"Test of the crowd model on hidden votes: {pairs}p-value {self.p_value:.3f}, and "
            "small values are evidence against it."
        )

    def __str__(self) -> str:
        lines = [
            f"Dirichlet crowd: p-value {self.p_value:.3f}; small values are evidence "
            "against the assumption"
        ]
        for title, rows, p in (
            ("class", self.votes, self.vote_p_value),
            ("agreement", self.pairs, self.pair_p_value),
        ):
            heading = f"{title} (p = {p:.3f})"
            lines.append(f"{heading:<22}{'cases':>8}{'predicted':>11}{'observed':>10}")
            for low, high, n_cases, predicted, observed in rows:
                between = f"  {low:.2f} to {high:.2f}"
                lines.append(f"{between:<22}{n_cases:>8.0f}{predicted:>11.3f}{observed:>10.3f}")
        return "\n".join(lines)

    __repr__ = __str__


def check_crowd(
    law: CrowdLaw, voted: VotedItems, n_simulations: int, generator: np.random.Generator
) -> CrowdCheck:
    """Hide up to two votes of each item, keep some of the others in hand, and compare."""
    voted = voted[voted.n_votes > 0]
    if len(voted) == 0:
        raise ValueError("votes has no votes. Pass items with at least one vote each.")
    two = voted.n_votes >= 2
    number = generator.integers(np.minimum(voted.n_votes - 1 - two, MOST_KEPT) + 1)
    drawn = draw_votes(voted.counts, tuple(range(MOST_KEPT + 1)), generator)
    kept = np.choose(number[:, None], [drawn[h] for h in range(MOST_KEPT + 1)])
    left = voted.counts - kept
    first = draw_one(left, generator.random(len(left)))
    left[np.arange(len(left)), first] -= 1
    mean, variance = Posterior.given(law, voted.prediction, kept).moments
    votes, vote_p = _compare(mean, first, mean.shape[1], n_simulations, generator)
    if not two.any():
        return CrowdCheck(votes, np.empty((0, 5)), vote_p, np.nan)
    agree = np.minimum((variance + mean**2).sum(axis=1), 1.0)[two]
    differs = (draw_one(left[two], generator.random(len(left))[two]) != first[two]).astype(np.int64)
    pairs, pair_p = _compare(
        np.stack([agree, 1 - agree], axis=1), differs, 1, n_simulations, generator
    )
    return CrowdCheck(votes, pairs, vote_p, pair_p)


def _compare(
    predicted: FloatArray,
    seen: IntArray,
    n_columns: int,
    n_simulations: int,
    generator: np.random.Generator,
) -> tuple[FloatArray, float]:
    """Return a calibration table of the first columns, and a Monte Carlo p-value of its χ²."""
    shown = predicted[:, :n_columns]
    size = len(BINS) - 1
    rows = np.arange(len(predicted))
    cell = np.clip(np.searchsorted(BINS, shown, side="right") - 1, 0, size - 1)
    # Counted, but not shown.
    cell = np.pad(cell, ((0, 0), (0, predicted.shape[1] - n_columns)), constant_values=size)
    number = np.bincount(cell.ravel(), minlength=size)[:size]
    expected = np.bincount(cell[:, :n_columns].ravel(), shown.ravel(), minlength=size)
    spread = np.bincount(
        cell[:, :n_columns].ravel(), (shown * (1.0 - shown)).ravel(), minlength=size
    )
    ends = np.cumsum(predicted, axis=1)[:, :-1]

    def count(choice: IntArray) -> tuple[IntArray, float]:
        observed = np.bincount(cell[rows, choice], minlength=size)[:size]
        return observed, float(((observed - expected) ** 2 / np.maximum(spread, 1.0)).sum())

    observed, value = count(seen)
    draws = ((ends <= generator.random((len(rows), 1))).sum(axis=1) for _ in range(n_simulations))
    beyond = sum(count(draw)[1] >= value - 1e-9 for draw in draws)
    table = np.stack(
        [
            BINS[:-1],
            BINS[1:],
            number,
            expected / np.maximum(number, 1),
            observed / np.maximum(number, 1),
        ]
    )
    return table.T[number > 0], (1 + beyond) / (n_simulations + 1)
