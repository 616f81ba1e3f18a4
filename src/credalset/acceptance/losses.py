"""Losses of accepting a label, and what is believed about the crowd of an item."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from credalset._typing import FloatArray, IntArray

DIGITS = 12  # of a risk


@dataclass(frozen=True, eq=False)
class Beliefs:
    """What is believed about the crowd of each of N items, given some of its votes.

    Attributes
    ----------
    mean : ndarray of shape (N, K)
        Expected share of each class.
    agreement : ndarray of shape (N,)
        Expected probability that two annotators agree, E Σ λ².
    doubt : ndarray of shape (N,)
        Probability, roughly, that another class than the first is the majority's.
    """

    mean: FloatArray
    agreement: FloatArray
    doubt: FloatArray

    @classmethod
    def certain(cls, mean: FloatArray) -> Beliefs:
        """Return the beliefs of somebody who takes a prediction for the crowd's distribution."""
        return cls(mean, (mean**2).sum(axis=1), 1.0 - mean.max(axis=1))


#: what tells beliefs from predictions and votes in hand, (N, K) each
Believe = Callable[[FloatArray, FloatArray], Beliefs]


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Label, predicted loss of accepting it, and variance of this loss, of N items.

    Risks are rounded, so that items with the same prediction and votes have the same risk whichever
    items are computed beside them, and all of them are accepted or none.
    """

    labels: IntArray
    risk: FloatArray
    variance: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "risk", np.round(self.risk, DIGITS))


@dataclass(frozen=True, eq=False)
class Loss(ABC):
    """The loss of accepting a label, an average over sets of votes that were held back."""

    name: ClassVar[str]
    n_held_back: ClassVar[int] = 1  # votes that one evaluation needs
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0

    @abstractmethod
    def decide(self, beliefs: Beliefs) -> Verdicts:
        """Return labels with their predicted losses."""

    @abstractmethod
    def of(self, labels: IntArray, held: FloatArray) -> FloatArray:
        """Return the mean loss of labels over the votes held back, (N, K), which are enough."""

    def largest_threshold(self, error: float) -> float:
        """Return the largest risk of an item for which the claim may be made."""
        return np.inf


@dataclass(frozen=True, eq=False)
class Annotator(Loss):
    """Another annotator gives another label: ℓ = 1[y ≠ v]."""

    name: ClassVar[str] = "annotator"

    def decide(self, beliefs: Beliefs) -> Verdicts:
        """Choose the likeliest label."""
        labels = beliefs.mean.argmax(axis=1)
        risk = np.clip(1.0 - _at(beliefs.mean, labels), 0.0, 1.0)
        return Verdicts(labels, risk, risk * (1.0 - risk))

    def of(self, labels: IntArray, held: FloatArray) -> FloatArray:
        """Return the share of other labels."""
        return 1.0 - _at(held, labels) / held.sum(axis=1)


@dataclass(frozen=True, eq=False)
class Cost(Loss):
    """The cost of a label for an annotator: ℓ = cost[y, v], divided by the largest cost."""

    costs: FloatArray
    name: ClassVar[str] = "cost"

    def decide(self, beliefs: Beliefs) -> Verdicts:
        """Choose the label of least expected cost."""
        expected = beliefs.mean @ self.costs.T
        labels = expected.argmin(axis=1)
        risk = _at(expected, labels)
        square = _at(beliefs.mean @ (self.costs**2).T, labels)
        return Verdicts(labels, risk, np.maximum(square - risk**2, 0.0))

    def of(self, labels: IntArray, held: FloatArray) -> FloatArray:
        """Return the mean cost."""
        return np.asarray((self.costs[labels] * held).sum(axis=1) / held.sum(axis=1))


@dataclass(frozen=True, eq=False)
class Person(Loss):
    """The label is worse than a person's: ℓ = 1[y ≠ v] − 1[v' ≠ v] for two annotators v, v'."""

    name: ClassVar[str] = "person"
    n_held_back: ClassVar[int] = 2
    low: ClassVar[float] = -1.0

    def decide(self, beliefs: Beliefs) -> Verdicts:
        """Choose the likeliest label; the risk is below zero where it beats a person."""
        labels = beliefs.mean.argmax(axis=1)
        share = _at(beliefs.mean, labels)
        risk = beliefs.agreement - share
        return Verdicts(labels, risk, np.clip(1.0 - share, 0.0, 1.0))

    def of(self, labels: IntArray, held: FloatArray) -> FloatArray:
        """Return how much more often the label disagrees with a vote than another vote."""
        return pair_agreement(held) - _at(held, labels) / held.sum(axis=1)


@dataclass(frozen=True, eq=False)
class Majority(Loss):
    """The label is not the one with most of the votes held back; of ties, one counts at random."""

    name: ClassVar[str] = "majority"
    n_held_back: ClassVar[int] = 5

    def decide(self, beliefs: Beliefs) -> Verdicts:
        """Choose the likeliest label; the risk is that it is not the majority's."""
        risk = np.clip(beliefs.doubt, 0.0, 1.0)
        return Verdicts(beliefs.mean.argmax(axis=1), risk, risk * (1.0 - risk))

    def of(self, labels: IntArray, held: FloatArray) -> FloatArray:
        """Return 0 where the label has most votes, 1 where it has not."""
        top = held == held.max(axis=1, keepdims=True)
        return np.asarray(1.0 - _at(top, labels) / top.sum(axis=1))


@dataclass(frozen=True, eq=False)
class Divided(Loss):
    """The claim that people are divided fails where two annotators agree: ℓ = 1[v = v'].

    An error of 1 − g claims that two annotators disagree with probability g.
    """

    name: ClassVar[str] = "divided"
    n_held_back: ClassVar[int] = 2

    def decide(self, beliefs: Beliefs) -> Verdicts:
        """Claim first where the expected agreement is least."""
        risk = np.clip(beliefs.agreement, 0.0, 1.0)
        return Verdicts(beliefs.mean.argmax(axis=1), risk, risk * (1.0 - risk))

    def of(self, labels: IntArray, held: FloatArray) -> FloatArray:
        """Return the share of pairs that agree."""
        return pair_agreement(held)

    def largest_threshold(self, error: float) -> float:
        """Return the error: only items that are believed to be divided are claimed."""
        return error


LOSSES: dict[str, Loss] = {
    loss.name: loss for loss in (Annotator(), Person(), Majority(), Divided())
}


def pair_agreement(counts: FloatArray) -> FloatArray:
    """Return the share of pairs of votes that agree, (N,), for two votes or more per item."""
    number = counts.sum(axis=1)
    return np.asarray((counts * (counts - 1.0)).sum(axis=1) / (number * (number - 1.0)))


def _at(values: Any, columns: IntArray) -> FloatArray:
    return np.asarray(values[np.arange(len(columns)), columns], dtype=np.float64)
