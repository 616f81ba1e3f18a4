"""Where votes narrow sets most: widths to expect, and budgets spent by gain per cost.

More votes on an item narrow its set by less and less in the end, but at first they may do nothing at all: the region of
the votes must become smaller than the set. So items take votes in lots: the next lot of an item is the one with the
largest fall in width per cost among all its sizes. Lots so chosen have falling gains, and taking the best ones of all
items until the budget is spent is optimal for the widths expected (but for the last lot).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credalset._parallel import gather_blocks
from credalset._typing import FloatArray, IntArray
from credalset.exceptions import need
from credalset.planning.crowd import Beliefs
from credalset.scores.anytime import anytime_radius
from credalset.scores.dirichlet import geometry
from credalset.sets.credal_set import CredalSet
from credalset.sets.updated import foreseen, meet

GROWTH = 1.7  # from one number of votes that is looked at to the next
LEAST_GAIN = 1e-9


@dataclass(frozen=True)
class Widths:
    """½ Σ (upper − lower) of sets cut by votes, from the envelopes of the sets and what they foresee, (N, K)."""

    lower: FloatArray
    upper: FloatArray
    center: FloatArray
    delta: float

    @classmethod
    def of(cls, sets: CredalSet, delta: float) -> Widths:
        """Ask sets for their envelopes, once."""
        return cls(*sets.envelope(), foreseen(sets), delta)

    def __getitem__(self, rows: IntArray) -> Widths:
        return Widths(self.lower[rows], self.upper[rows], self.center[rows], self.delta)

    def __call__(self, counts: FloatArray) -> FloatArray:
        """Return the width after votes (N, K), which may be fractions; 0 where nothing is left, (N,)."""

        def one_block(rows: slice) -> FloatArray:
            some = counts[rows].sum(axis=1, keepdims=True) > 0
            votes = np.where(some, counts[rows], 1.0)
            radius = anytime_radius(votes, self.delta, self.center[rows])
            low, high = geometry.envelope(votes / votes.sum(axis=1, keepdims=True), radius)
            region = np.where(some, low, 0.0), np.where(some, high, 1.0)
            lower, upper = meet((self.lower[rows], self.upper[rows]), region)
            return 0.5 * np.nan_to_num(upper - lower).sum(axis=1)

        return gather_blocks(one_block, len(counts), counts.shape[1])


def sizes(most: int) -> IntArray:
    """Return the numbers of votes that are looked at: 0, 1, 2, 3, … up to the most.

    Examples
    --------
    >>> sizes(30)
    array([ 0,  1,  2,  3,  6, 10, 17, 28, 30])
    """
    numbers, x = [0, 1], 1.0
    while x * GROWTH < most:
        x = max(x * GROWTH, numbers[-1] + 1)
        numbers.append(round(x))
    return np.unique(np.minimum([*numbers, most], most))


def expected_widths(widths: Widths, beliefs: Beliefs, numbers: IntArray) -> FloatArray:
    """Return the width of each item if that many more votes fall as expected, (N, M).

    Votes that scatter do a little better on average; `simulated_widths` says by how much. Which items gain most is
    the same, without the luck of draws.
    """
    mean = beliefs.mean()
    return np.stack([widths(beliefs.counts + m * mean) for m in numbers], axis=1)


def simulated_widths(widths: Widths, beliefs: Beliefs, votes: IntArray, generator: np.random.Generator) -> FloatArray:
    """Draw distributions and as many votes as asked for, and return the widths that come of it, (N,)."""
    more = generator.multinomial(votes, beliefs.draw(generator))
    return widths(beliefs.counts + more)


@dataclass(frozen=True)
class Lots:
    """Lots of votes in the order in which to buy them: items, votes, cost and gain, (L,) each."""

    item: IntArray
    votes: IntArray
    cost: FloatArray
    gain: FloatArray

    def spend(self, budget: float, n_items: int) -> IntArray:
        """Return the votes to ask for each item, (n_items,), at no more than the budget in all.

        Examples
        --------
        >>> two = Lots(np.array([1, 0]), np.array([10, 10]), np.array([10.0, 10.0]), np.array([0.5, 0.1]))
        >>> two.spend(13, n_items=3)
        array([ 3, 10,  0])
        """
        spent = np.cumsum(self.cost)
        whole = spent <= budget * (1.0 + 1e-12)
        result = np.bincount(self.item[whole], self.votes[whole], minlength=n_items).astype(np.int64)
        if not whole.all():
            last = int(whole.argmin())  # as much as there is left for
            left = budget - (spent[last] - self.cost[last])
            result[self.item[last]] += int(left / (self.cost[last] / self.votes[last]) + 1e-9)
        return result


def best_lots(table: FloatArray, numbers: IntArray, cost: FloatArray) -> Lots:
    """Cut each item's widths (N, M) after some numbers of votes (M,) into lots of falling gain per cost (N,)."""
    at = np.zeros(len(table), dtype=np.int64)
    rows, found = np.arange(len(table)), []
    while len(rows):
        here = at[rows]
        more = numbers - numbers[here][:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where(more > 0, (table[rows, here][:, None] - table[rows]) / more, -np.inf)
        best = rate.argmax(axis=1)
        worth = rate[np.arange(len(rows)), best] > LEAST_GAIN
        rows, here, best = rows[worth], here[worth], best[worth]
        found.append((rows, numbers[best] - numbers[here], table[rows, here] - table[rows, best]))
        at[rows] = best
    item, votes, gain = (np.concatenate(column) for column in zip(*found, strict=True))
    price = votes * cost[item]
    order = np.argsort(-gain / price, kind="stable")
    return Lots(item[order], votes[order], price[order], gain[order])


def by_rank(table: FloatArray, numbers: IntArray, cost: FloatArray, budget: float, rank: IntArray) -> IntArray:
    """Give votes to items in some order, each the same number: the one that is expected to narrow most in all."""
    best, chosen = -np.inf, np.zeros(len(table), dtype=np.int64)
    for column, m in enumerate(numbers[1:], 1):
        served = rank[np.cumsum(m * cost[rank]) <= budget * (1.0 + 1e-12)]
        gain = (table[served, 0] - table[served, column]).sum()
        if gain > best:
            best, chosen = gain, np.zeros(len(table), dtype=np.int64)
            chosen[served] = m
    return chosen


def uniformly(n_items: int, cost: FloatArray, budget: float, most: int, generator: np.random.Generator) -> IntArray:
    """Give every item the same number of votes, and what is left over to items at random."""
    each = int(min(budget / cost.sum() + 1e-9, most))
    votes = np.full(n_items, each)
    if each < most:
        order = generator.permutation(n_items)
        votes[order[np.cumsum(cost[order]) <= budget - each * cost.sum() + 1e-9]] += 1
    return votes


def active_lab(counts: FloatArray, center: FloatArray) -> IntArray:
    """Rank items by cleanlab's ActiveLab (Goh and Mueller, 2023), lowest score first.

    Votes have no names here: the j-th votes of all items count as one annotator.
    """
    rank = need("cleanlab.multiannotator").get_active_learning_scores
    voted = np.flatnonzero(counts.sum(axis=1) > 0)
    table = np.full((len(voted), int(counts.sum(axis=1).max(initial=1))), np.nan)
    for row, own in enumerate(counts[voted].astype(np.int64)):
        labels = np.repeat(np.arange(len(own)), own)
        table[row, : len(labels)] = labels
    rest = np.setdiff1d(np.arange(len(counts)), voted)
    scores = np.empty(len(counts))
    scores[voted], unvoted = rank(table, center[voted], center[rest] if len(rest) else None)
    scores[rest] = unvoted
    return np.argsort(scores, kind="stable")
