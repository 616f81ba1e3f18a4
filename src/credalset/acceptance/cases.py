"""Items seen with some of their votes held back: what was predicted, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credalset._typing import FloatArray, IntArray
from credalset.acceptance.losses import Believe, Loss


@dataclass(frozen=True, eq=False)
class Cases:
    """Items seen with some votes held back, each in one way or several, which are averaged.

    Attributes
    ----------
    item : ndarray of C ints
        Position of the item of each case.
    weight : ndarray of shape (C,)
        Weight of the case; the weights of an item sum to one.
    risk, loss : ndarray of shape (C,)
        Predicted loss, and the loss for the votes that were held back.
    expected, variance : ndarray of shape (C,)
        Mean and variance of the loss, as far as they are known before votes are looked at.
    n_items : int
        Number of items.
    """

    item: IntArray
    weight: FloatArray
    risk: FloatArray
    loss: FloatArray
    expected: FloatArray
    variance: FloatArray
    n_items: int

    def accepted(self, threshold: float) -> FloatArray:
        """Return the share of the cases of each item whose risk is at most a threshold, (n,)."""
        inside = self.risk <= threshold
        found = np.bincount(self.item[inside], self.weight[inside], self.n_items)
        return found.astype(np.float64)

    def take(self, rows: IntArray) -> Cases:
        """Return the cases of some items, which are renumbered."""
        place = np.full(self.n_items, -1)
        place[rows] = np.arange(len(rows))
        kept = np.flatnonzero(place[self.item] >= 0)
        return Cases(
            place[self.item[kept]],
            self.weight[kept],
            self.risk[kept],
            self.loss[kept],
            self.expected[kept],
            self.variance[kept],
            len(rows),
        )


@dataclass(frozen=True, eq=False)
class Seen:
    """Rows of items with the votes in hand and the votes held back, before anything is predicted.

    Attributes
    ----------
    item, weight
        As in `Cases`.
    hand, held : ndarray of shape (C, K)
        Votes in hand, and votes held back.
    """

    item: IntArray
    weight: FloatArray
    hand: FloatArray
    held: FloatArray


def leave_out(counts: FloatArray, n_held_back: int) -> Seen:
    """Hold back each vote in turn, or each pair of votes, of items with at least so many.

    Votes for one class are alike, so that there is one case for each class, or pair of classes,
    with the share of the votes, or pairs, as its weight.
    """
    if n_held_back == 1:
        item, label = np.nonzero(counts)
        held = np.zeros((len(item), counts.shape[1]))
        held[np.arange(len(item)), label] = 1.0
        weight = counts[item, label] / counts.sum(axis=1)[item]
        return Seen(item, weight, counts[item] - held, held)
    first = leave_out(counts, 1)
    item, label = np.nonzero(first.hand)
    row = first.item[item]
    # Unordered pairs: of those with different classes, the one in the order of the classes.
    own = first.held.argmax(axis=1)[item]
    once = np.flatnonzero(own <= label)
    item = item[once]
    label = label[once]
    row = row[once]
    own = own[once]
    total = counts.sum(axis=1)[row]
    pairs = counts[row, own] * first.hand[item, label] * np.where(own == label, 1.0, 2.0)
    held = first.held[item].copy()
    held[np.arange(len(row)), label] += 1.0
    weight = pairs / (total * (total - 1.0))
    return Seen(row, weight, counts[row] - held, held)


def join_cases(parts: list[Cases], starts: list[int], n_items: int) -> Cases:
    """Return the cases of blocks of items, which start at so many items, as those of one table."""

    def joined(name: str) -> FloatArray:
        return np.concatenate([getattr(part, name) for part in parts])

    item = [part.item + start for part, start in zip(parts, starts, strict=True)]
    return Cases(
        np.concatenate(item),
        joined("weight"),
        joined("risk"),
        joined("loss"),
        joined("expected"),
        joined("variance"),
        n_items,
    )


def evaluate_cases(
    believe: Believe, loss: Loss, prediction: FloatArray, seen: Seen, n_items: int
) -> Cases:
    """Predict labels and risks from the votes in hand, and evaluate them on those held back.

    Where too few votes are held back, which is so only for items that do not certify, the loss is
    taken to be as predicted.
    """
    verdicts = loss.decide(believe(prediction[seen.item], seen.hand))
    risk = verdicts.risk
    enough = np.flatnonzero(seen.held.sum(axis=1) >= loss.n_held_back)
    losses = risk.copy()
    losses[enough] = loss.of(verdicts.labels[enough], seen.held[enough])
    return Cases(seen.item, seen.weight, risk, losses, risk, verdicts.variance, n_items)
