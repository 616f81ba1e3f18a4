"""One function decides what to do next with an item, and says why.

`sets.queue`, ``plan``, ``review``, the report and the demo call `next_steps` and nothing else, so
that they cannot disagree. It knows arrays only: what is accepted and by which guarantee, what a
policy would ask, which items are claimed to be divided, and the votes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import betainc

from credalset._typing import AnyArray, BoolArray, FloatArray, IntArray

#: what may be done with an item, in the order in which it is tried
STEPS = ("accept", "ask", "divided", "expert")

#: what each step means, for tables, pages and the command line
MEANS = {
    "accept": "Take this label.",
    "ask": "Ask for another vote.",
    "divided": "Keep the distribution: people disagree, and more votes will not change that.",
    "expert": "An expert decides: votes are used up, or would not settle it.",
}
#: what follows from a step, after the votes and whatever else is known
FOLLOWS = {
    "accept": "",
    "ask": "Another vote may settle it.",
    "divided": "More votes will not change that people disagree.",
    "expert": "More votes are unlikely to settle it.",
}
CHANCE = 0.05  # below it, a lead in votes is not taken for chance (a sign test)
#: letters of a name of a class in a sentence
NAME_LETTERS = 60


@dataclass(frozen=True, eq=False)
class Findings:
    """What is known about N items over A labels, from which their next steps follow.

    Attributes
    ----------
    accept : ndarray of shape (N,)
        Whether the label of an item may be taken.
    ask : ndarray of shape (N,)
        Whether another vote on the item is worth its price.
    divided : ndarray of shape (N,)
        Whether it is claimed that people disagree on the item and more votes will not change that.
    label : ndarray of shape (N,)
        The label that an item gets or would get, as a column.
    predicted : ndarray of shape (N,)
        The label that the model gives without votes.
    names : sequence of A str
        Names of the labels.
    votes : ndarray of shape (N, A) or None
        Votes in hand; None if there are none to speak of.
    risk : ndarray of shape (N,) or None
        Probability that another annotator disagrees with the label; NaN where it is unknown.
    further_votes : ndarray of shape (N,) or None
        Expected further votes.
    remarks : ndarray of N str or None
        A first sentence for some items, such as that a set is empty.
    """

    accept: BoolArray
    ask: BoolArray
    divided: BoolArray
    label: IntArray
    predicted: IntArray
    names: Sequence[str]
    votes: FloatArray | None = None
    risk: FloatArray | None = None
    further_votes: FloatArray | None = None
    remarks: AnyArray | None = None

    def __len__(self) -> int:
        return len(self.accept)

    @cached_property
    def model_errors(self) -> BoolArray:
        """Where people clearly prefer another label to the one that the model gives."""
        if self.votes is None:
            return np.zeros(len(self), dtype=bool)
        rows = np.arange(len(self))
        first = self.votes.argmax(axis=1)
        lead = leads(self.votes[rows, first], self.votes[rows, self.predicted])
        return lead & (first != self.predicted)


def next_steps(found: Findings) -> tuple[AnyArray, AnyArray]:
    """Return the next step of each item, and why, both (N,) texts.

    The first of accept, ask and divided that applies is the step of an item; an item to which none
    applies goes to an expert.

    Examples
    --------
    >>> import numpy as np
    >>> yes, no = np.array([True]), np.array([False])
    >>> bird, horse = np.array([0]), np.array([1])
    >>> found = Findings(yes, no, no, horse, bird, ["bird", "horse"], np.array([[1.0, 51.0]]))
    >>> step, why = next_steps(found)
    >>> step[0], why[0]
    ('accept', '51 of 52 people say horse; the model says bird: likely an error of the model.')
    """
    steps = np.array(STEPS, dtype=object)
    step = steps[np.select([found.accept, found.ask, found.divided], [0, 1, 2], default=3)]
    return step, _reasons(found, step)


def leads(more: FloatArray, less: FloatArray) -> BoolArray:
    """Tell where a number of votes exceeds another by more than chance: a one-sided sign test.

    The probability that at least ``more`` of ``more + less`` fair coins show heads is the
    regularised incomplete beta function I_½(more, less + 1).

    Examples
    --------
    >>> leads(np.array([4.0, 5.0, 51.0]), np.array([0.0, 0.0, 1.0]))
    array([False,  True,  True])
    """
    chance = betainc(np.maximum(more, 0.5), less + 1.0, 0.5)
    return np.asarray((more > 0) & (chance <= CHANCE))


def first_and_second(votes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the largest and the second largest number of votes of each item."""
    top = -np.partition(-votes, 1, axis=1)[:, :2]
    return top[:, 0], top[:, 1]


def _reasons(found: Findings, step: AnyArray) -> AnyArray:
    """Say why: what people and the model say of each item, a remark, and what follows."""
    names = [_short(str(name)) for name in found.names]
    errors = found.model_errors
    sentences = []
    for row in range(len(found)):
        parts = []
        if found.votes is not None:
            is_error = bool(errors[row])
            parts.append(_heard(found.votes[row], int(found.predicted[row]), names, is_error))
        if found.remarks is not None:
            parts.append(str(found.remarks[row]))
        parts.append(FOLLOWS[str(step[row])])
        sentences.append(" ".join(part for part in parts if part))
    return np.array(sentences, dtype=object)


def _heard(votes: FloatArray, predicted: int, names: Sequence[str], is_error: bool) -> str:
    """Return a sentence with the votes on one item and the label that the model gives."""
    people = people_say(votes, names)
    if votes.any() and (votes >= votes[predicted]).sum() == 1:
        return f"{people}; the model does too."
    verdict = ": likely an error of the model" if is_error else ""
    return f"{people}; the model says {names[predicted]}{verdict}."


@lru_cache(maxsize=4096)
def _short(name: str) -> str:
    return name if len(name) <= NAME_LETTERS else name[: NAME_LETTERS - 1] + "…"


def people_say(votes: FloatArray, names: Sequence[str]) -> str:
    """Put the votes on one item into words.

    Examples
    --------
    >>> names = ["bird", "horse", "cat"]
    >>> for votes in ([1, 51, 0], [0, 3, 0], [1, 0, 0], [2, 2, 1]):
    ...     print(people_say(np.array(votes), names))
    51 of 52 people say horse
    All 3 people say horse
    The only vote says bird
    2 of 5 people say bird, 2 say horse
    """
    total = int(votes.sum())
    if total == 0:
        return "No vote yet"
    most, next_most = np.argsort(-votes, kind="stable")[:2]
    first = int(votes[most])
    second = int(votes[next_most])
    if total == 1:
        return f"The only vote says {names[most]}"
    if first == total:
        everyone = "Both" if total == 2 else f"All {total}"
        return f"{everyone} people say {names[most]}"
    words = f"{first} of {total} people {_say(first)} {names[most]}"
    if 3 * second < first:
        return words
    return f"{words}, {second} {_say(second)} {names[next_most]}"


def _say(number: int) -> str:
    return "says" if number == 1 else "say"
