"""What each set says, in numbers: envelopes, entropies, width, possible labels, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credalset._typing import FloatArray, IntArray, RandomState
from credalset._validation import as_generator
from credalset.reporting.inputs import Items
from credalset.sets import CredalSet, Queue, QueueRules
from credalset.sets.queue import ACTIONS

TOP = 100  # items of each action that are on the page in any case


@dataclass(frozen=True, eq=False)
class Measures:
    """Sets, the items they are about, and what they say in numbers; NaN where a set is empty.

    Attributes
    ----------
    sets : CredalSet
        N sets over K classes.
    items : Items
        What is known of the items.
    lower, upper : ndarray of shape (N, K)
        Smallest and largest probability of each class.
    width : ndarray of shape (N,)
        ½ Σ (upper − lower).
    queue : Queue
        Possible labels, aleatoric and epistemic part, and what to do.
    """

    sets: CredalSet
    items: Items
    lower: FloatArray
    upper: FloatArray
    width: FloatArray
    queue: Queue

    @classmethod
    def of(cls, sets: CredalSet, items: Items, rules: QueueRules | None) -> Measures:
        """Ask the sets."""
        lower, upper = sets.envelope()
        width = 0.5 * (upper - lower).sum(axis=1)
        return cls(sets, items, lower, upper, width, sets.queue(rules, items=items.names))


def choose_shown(queue: Queue, strata: IntArray, limit: int, random_state: RandomState = 0) -> IntArray:
    """Return the rows that a page shows, in their order: all, or a sample of at most ``limit``.

    The first hundred of each action that asks for work are always there; the rest is drawn at random within each
    stratum, in proportion to its size.
    """
    n = len(queue)
    if n <= limit:
        return np.arange(n)
    each = min(TOP, limit // (2 * len(ACTIONS)))
    kept = np.zeros(n, dtype=bool)
    for action in ACTIONS[:-1]:
        kept[queue.order(action)[:each]] = True
    rest = np.flatnonzero(~kept)
    kept[rest[_in_proportion(strata[rest], limit - int(kept.sum()), as_generator(random_state))]] = True
    return np.flatnonzero(kept)


def _in_proportion(strata: IntArray, size: int, generator: np.random.Generator) -> IntArray:
    """Draw ``size`` rows, from each stratum its share: one in so many of a random order, sorted by stratum."""
    order = generator.permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]
    return order[((np.arange(size) + generator.random()) * len(strata) / size).astype(np.int64)]
