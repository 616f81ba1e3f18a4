"""Decide about items with one law of the crowd: labels, risks, claims, and whether a vote pays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import qmc

from credalset._display import progress
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.acceptance.losses import LOSSES, Loss
from credalset.crowd.accept import believe
from credalset.crowd.law import CrowdLaw

AHEAD = 5  # further votes that are looked ahead
PATHS = 16  # ways in which these votes may come
TOGETHER = 100_000  # items × paths at a time
#: an item is asked if acceptance is at least as probable as this, for each vote that it may take
WORTH = 0.1


@dataclass(frozen=True, eq=False)
class Decisions:
    """What is decided about N items, as plain arrays.

    Attributes
    ----------
    label, risk : ndarray of shape (N,)
        The label that an item would get, and its predicted loss.
    accepted : ndarray of shape (N, R)
        Whether the label is accepted, for each error.
    divided : ndarray of shape (N,)
        Whether people are claimed to be divided.
    ask : ndarray of shape (N,)
        Whether another vote is worth its price.
    further_votes, variance : ndarray of shape (N,)
        Expected further votes, and the variance of their number; zero where nobody is asked.
    after : ndarray of shape (N, AHEAD + 1)
        Probability that an item is accepted once it may get 0, 1, … more votes where it is asked.
    bought : ndarray of shape (N, AHEAD + 1)
        Expected votes that it has got by then.
    after_each : ndarray of shape (N, AHEAD + 1)
        Probability that an item is accepted once it got 0, 1, … more votes, also if nobody would
        be asked; accepted items stay so.
    """

    label: IntArray
    risk: FloatArray
    accepted: BoolArray
    divided: BoolArray
    ask: BoolArray
    further_votes: FloatArray
    variance: FloatArray
    after: FloatArray
    bought: FloatArray
    after_each: FloatArray

    @classmethod
    def joined(cls, parts: list[tuple[IntArray, Decisions]], n_items: int) -> Decisions:
        """Return decisions about all items from those about some of them, with their rows."""
        columns = []
        for name in cls.__dataclass_fields__:
            arrays = [(rows, getattr(part, name)) for rows, part in parts]
            first = arrays[0][1]
            column = np.zeros((n_items, *first.shape[1:]), dtype=first.dtype)
            for rows, array in arrays:
                column[rows] = array
            columns.append(column)
        return cls(*columns)


@dataclass(frozen=True, eq=False)
class Decider:
    """One law of the crowd, and the thresholds that were certified with it.

    Attributes
    ----------
    law : CrowdLaw
        What predicts from predictions and votes.
    loss : Loss
        What accepting a label costs.
    thresholds : ndarray of shape (G, R)
        Largest risk that is accepted, by group and error; −inf if nothing is certified.
    disagreement : float
        Smallest mean disagreement of items that are claimed to be divided.
    least_divided : float
        Largest expected agreement of an item that is claimed to be divided; −inf for none.
    main : int
        The error that decides the next step, a column of ``thresholds``.
    error : float
        This error, in units of the loss.
    """

    law: CrowdLaw
    loss: Loss
    thresholds: FloatArray
    disagreement: float
    least_divided: float
    main: int
    error: float

    def decide(
        self,
        prediction: FloatArray,
        hand: FloatArray,
        earlier: FloatArray,
        codes: IntArray,
        *,
        thresholds: FloatArray | None = None,
    ) -> Decisions:
        """Decide about N items, each by its own row alone.

        Parameters
        ----------
        prediction, hand : ndarray of shape (N, K)
            Predictions, and the votes that decide about acceptance.
        earlier : ndarray of shape (N, K)
            The votes that decide whether people are divided.
        codes : ndarray of shape (N,)
            Group of each item.
        thresholds : ndarray of shape (G, R), optional
            Largest risks that are accepted, instead of those that were certified.
        """
        used = self.thresholds if thresholds is None else thresholds
        beliefs = believe(self.law, prediction, hand)
        verdicts = self.loss.decide(beliefs)
        accepted = verdicts.risk[:, None] <= used[codes]
        limit = used[codes, self.main]
        # Where nothing is certified, votes are sought for items that would be safe one by one.
        target = np.where(np.isfinite(limit), limit, self.error)
        divided = LOSSES["divided"].decide(believe(self.law, prediction, earlier))
        open_rows = np.flatnonzero(~accepted[:, self.main] & (verdicts.risk > target))
        after = np.zeros((len(hand), AHEAD + 1))
        bought = np.zeros((len(hand), AHEAD + 1))
        after[accepted[:, self.main]] = 1.0
        square = np.zeros(len(hand))
        size = max(1, TOGETHER // PATHS)
        with progress("Looking ahead", len(open_rows), unit="items") as advance:
            for start in range(0, len(open_rows), size):
                rows = open_rows[start : start + size]
                steps = self._look_ahead(
                    prediction[rows], hand[rows], beliefs.mean[rows], target[rows]
                )
                after[rows] = (steps[:, :, None] <= np.arange(AHEAD + 1)).mean(axis=1)
                taken = np.minimum(steps[:, :, None], np.arange(AHEAD + 1))
                bought[rows] = taken.mean(axis=1)
                square[rows] = (taken[:, :, -1] ** 2).mean(axis=1)
                advance(len(rows), "")
        expected = bought[:, -1]
        ask = np.zeros(len(hand), dtype=bool)
        ask[open_rows] = after[open_rows, -1] >= WORTH * expected[open_rows]
        after_each = after.copy()
        after[~ask & ~accepted[:, self.main]] = 0.0
        bought[~ask] = 0.0
        return Decisions(
            verdicts.labels,
            verdicts.risk,
            accepted,
            divided.risk <= self.least_divided,
            ask,
            bought[:, -1],
            np.where(ask, square - expected**2, 0.0),
            after,
            bought,
            after_each,
        )

    def _look_ahead(
        self, prediction: FloatArray, hand: FloatArray, mean: FloatArray, target: FloatArray
    ) -> FloatArray:
        """Return after how many further votes an item is accepted, (N, PATHS).

        One more than `AHEAD` if it is not. The next vote is drawn from the mean of the posterior,
        by the same uniform numbers for every item, so that the answer for an item does not depend
        on its place in the batch.
        """
        n_items = len(hand)
        uniform = paths()
        row = np.repeat(np.arange(n_items), PATHS)
        path = np.tile(np.arange(PATHS), n_items)
        votes = np.repeat(hand, PATHS, axis=0)
        belief = np.repeat(mean, PATHS, axis=0)
        steps = np.full(n_items * PATHS, float(AHEAD + 1))
        active = np.arange(len(row))
        for step in range(1, AHEAD + 1):
            drawn = uniform[path[active], step - 1][:, None]
            chosen = (np.cumsum(belief, axis=1)[:, :-1] <= drawn).sum(axis=1)
            votes[active, chosen] += 1.0
            beliefs = believe(self.law, prediction[row[active]], votes[active])
            done = self.loss.decide(beliefs).risk <= target[row[active]]
            steps[active[done]] = step
            belief = beliefs.mean[~done]
            active = active[~done]
        return steps.reshape(n_items, PATHS)


@lru_cache(maxsize=1)
def paths() -> FloatArray:
    """Return evenly spread uniform numbers, (PATHS, AHEAD), the same in every run."""
    return np.asarray(qmc.Sobol(AHEAD, scramble=True, seed=0).random(PATHS))
