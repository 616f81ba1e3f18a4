"""What crowds and policies are for the calibrations that use them, and the items they read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credalset._batch import Batch, Names, read, take_names
from credalset._display import join_names
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset._validation import as_distributions, as_positive_int
from credalset.acceptance.rule import Believer
from credalset.crowd.accept import FitItems
from credalset.crowd.law import CrowdLaw
from credalset.exceptions import warn
from credalset.io.store import Saved

HELD_BACK = 10  # votes on a panel item that are never in hand, unless min_votes is given


@dataclass(frozen=True, eq=False)
class VotedItems:
    """Valid predictions and votes of the same n items.

    Attributes
    ----------
    batch : Batch
        The predictions, with names.
    counts : ndarray of shape (n, K)
        Votes per item and class.
    groups : list of n keys or None
        Group of each item.
    scale : tuple of K numbers or None
        Position of each class on the ordinal scale of the votes, in column order.
    """

    batch: Batch
    counts: FloatArray
    groups: list[Any] | None = None
    scale: tuple[float, ...] | None = None

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, rows: Any) -> VotedItems:
        groups = take_names(self.groups, rows)
        return replace(
            self,
            batch=self.batch[rows],
            counts=self.counts[rows],
            groups=None if groups is None else list(groups),
        )

    @property
    def prediction(self) -> FloatArray:
        """Predicted distributions, (n, K)."""
        return np.asarray(self.batch.values)

    @property
    def items(self) -> Names | None:
        """Names of the items."""
        return self.batch.items

    @property
    def n_votes(self) -> IntArray:
        """Number of votes on each item."""
        return self.counts.sum(axis=1).astype(np.int64)

    def with_groups(self, groups: Any) -> VotedItems:
        """Return the items with the group of each, put into their order."""
        if groups is None:
            return self
        return replace(self, groups=self.batch.column(groups, "groups"))


def read_voted(
    predictions: Any,
    votes: Any,
    classes: Names | None = None,
    n_classes: int | None = None,
    *,
    partial: bool = False,
) -> VotedItems:
    """Read predictions and votes; rows of votes may be empty.

    Parameters
    ----------
    predictions : array or data frame of shape (N, K)
        Predicted distributions.
    votes : array or data frame of shape (N, K), Annotations or None
        Votes per item and class. None: no votes at all.
    classes, n_classes
        Names and number of the classes of a fitted crowd. By default the names of the columns of
        the predictions, in the order of the scale of the votes.
    partial : bool
        Whether votes may leave out items, which then have no votes.
    """
    batch = read(predictions, classes, n_classes)
    valid = as_distributions(batch.values, "predictions", n_classes=n_classes)
    batch = batch.with_values(valid)
    labels = batch.votes(votes, partial=partial, empty=True)
    counts = labels.votes("votes", "a crowd")
    order = labels.scale_order()
    if order is not None and n_classes is None and batch.classes is not None:
        batch = batch.reorder(order)
        labels = labels.reorder(order)
        counts = labels.votes("votes", "a crowd")
    return VotedItems(batch, counts, scale=labels.scale)


class Crowd(Believer):
    """A fitted model of a crowd: what people would say, from a prediction and votes."""

    law_: CrowdLaw
    seen_: FitItems
    classes_: Names | None
    items_: Names | None

    @abstractmethod
    def _read(self, predictions: Any, votes: Any, *, partial: bool = True) -> VotedItems:
        """Read predictions and votes over the classes of the crowd."""

    def _refuse_fitted(self, voted: VotedItems, remedy: str = "set method='imputed'") -> None:
        """Refuse items with the names of items that the crowd was fitted to."""
        both = set(self.items_ or ()) & set(voted.items or ())
        if both:
            raise ValueError(
                f"predictions has {len(both)} items that the crowd was fitted to (first: "
                f"{join_names(sorted(both, key=str), 3)}): nothing is guaranteed on them. "
                f"Fit the crowd to others, or {remedy}."
            )


class Policy(Saved, ABC):
    """A rule that decides, from a prediction and the votes so far, whether to ask again."""

    crowd: Crowd
    max_votes: int

    @abstractmethod
    def _ask(self, prediction: FloatArray, counts: FloatArray) -> BoolArray:
        """Return which items to ask again, (N,)."""

    @abstractmethod
    def _refuse_unfinished(self, voted: VotedItems) -> None:
        """Refuse items that the policy would ask again, or whose votes it did not ask for."""

    @abstractmethod
    def _use(
        self, prediction: FloatArray, votes: FloatArray, generator: np.random.Generator
    ) -> FloatArray:
        """Run the policy with the votes of each item in random order; return those it used."""


def enough_votes(
    voted: VotedItems, most: int, min_votes: int | None, name: str, method: str = "panel"
) -> tuple[IntArray, int]:
    """Return the items with enough votes if so many may be in hand, and how many are enough."""
    spare = HELD_BACK if method == "panel" else 0
    largest = int(voted.n_votes.max(initial=0))
    needed = most + spare
    if min_votes is not None:
        needed = max(as_positive_int(min_votes, "min_votes"), most + 1)
    if largest < max(needed, 1):
        remedy = "Collect more votes"
        if min_votes is None and largest > spare:
            remedy = f"Lower {name} to at most {largest - spare}"
        if (name, method) == ("in_hand", "panel"):
            remedy += ", or set method='imputed'"
        raise ValueError(
            f"votes has at most {largest} votes on an item, but {name} up to {most} needs "
            f"{needed}. {remedy}."
        )
    least = needed if method == "panel" else 1
    rows = np.flatnonzero(voted.n_votes >= least)
    if len(rows) < len(voted):
        warn(
            f"{len(voted) - len(rows)} of {len(voted)} items have fewer than {least} votes and "
            "were left out."
        )
    return rows, least
