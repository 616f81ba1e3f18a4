"""Read predictions and votes, once: matched by name where both have names, else by position."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import AnyArray, FloatArray, IntArray
from credalset._validation import as_counts, as_distributions
from credalset.votes.names import Names, class_names, item_names, join_names, order_columns, per_item, take_names


class Saved:
    """Everything of the crowd that can be saved."""

    def save(self, path: str | Path) -> None:
        """Write it to a folder (JSON and ``.npz``, no pickle); read it with `credalset.load`."""
        from credalset.io.store import save

        save(self, path)


@dataclass(frozen=True, eq=False)
class Voted:
    """Predictions (N, K) and votes (N, K) of the same items, with names and groups (N,) where they are known."""

    prediction: FloatArray
    counts: FloatArray
    items: Names | None
    classes: Names | None
    groups: AnyArray | None = None

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: Any) -> Voted:
        groups = None if self.groups is None else self.groups[rows]
        return Voted(self.prediction[rows], self.counts[rows], take_names(self.items, rows), self.classes, groups)

    def grouped(self, groups: Any) -> Voted:
        """Return the items with the group of each, put into their order."""
        if groups is None:
            return self
        keys = np.asarray(per_item(groups, self.items, "groups", "predictions"))
        if keys.shape != (len(self),):
            raise ValueError(f"groups must hold one key per item ({len(self)}), but has shape {keys.shape}.")
        return replace(self, groups=keys)

    @property
    def n_votes(self) -> IntArray:
        """Number of votes on each item."""
        return self.counts.sum(axis=1).astype(np.int64)


def read_voted(predictions: Any, votes: Any, classes: Names | None = None, n_classes: int | None = None) -> Voted:
    """Return valid predictions and counts; named items without votes have none.

    Parameters
    ----------
    predictions : array or data frame of shape (N, K)
        Predicted distributions.
    votes : array or data frame of shape (N, K), Annotations or None
        Votes per item and class; rows may be empty. None: no votes at all.
    classes, n_classes
        Names and number of the classes that are known already.
    """
    classes = class_names(predictions, "predictions") if classes is None else classes
    ordered = order_columns(predictions, classes, "predictions", "the crowd")
    prediction = as_distributions(ordered, "predictions", n_classes=n_classes)
    items = item_names(predictions)
    if votes is None:
        return Voted(prediction, np.zeros_like(prediction), items, classes)
    if not getattr(votes, "has_counts", True):
        raise ValueError("votes holds distributions, which do not tell the number of votes. Pass counts per class.")
    counts = as_counts(getattr(votes, "counts", votes), "votes", may_be_none=True)
    own, named = class_names(votes, "votes"), item_names(votes)
    counts = _align(_align(counts.T, own, classes, "classes").T, named, items, "items")
    if counts.shape != prediction.shape:
        raise ValueError(
            f"votes has {counts.shape[0]} rows and {counts.shape[1]} classes, but predictions have "
            f"{prediction.shape[0]} and {prediction.shape[1]}. Pass one row per prediction, or name the items of both."
        )
    return Voted(prediction, counts, named if items is None else items, own if classes is None else classes)


def _align(counts: FloatArray, own: Names | None, wanted: Names | None, what: str) -> FloatArray:
    """Put rows into the order of the wanted names; those that are not named have no votes."""
    if own is None or wanted is None or own == wanted:
        return counts
    position = {name: row for row, name in enumerate(wanted)}
    unknown = [name for name, row in zip(own, counts, strict=True) if name not in position and row.any()]
    if unknown:
        raise ValueError(
            f"votes has votes on {len(unknown)} {what} that predictions do not have ({join_names(unknown, 3)}). "
            f"Predict these {what} too, or drop their votes."
        )
    if len(position) < len(wanted) or len(set(own)) < len(own):
        raise ValueError(f"predictions or votes name one of the {what} twice. Give each a name of its own.")
    found = np.zeros((len(wanted), counts.shape[1]))
    rows = [row for row, name in enumerate(own) if name in position]
    found[[position[own[row]] for row in rows]] = counts[rows]
    return found


def draw_votes(counts: FloatArray, numbers: tuple[int, ...], generator: np.random.Generator) -> dict[int, FloatArray]:
    """Draw votes of each item at random, one by one without replacement; return those drawn after each number.

    Items with fewer votes give all they have.
    """
    left, drawn, found = counts.copy(), np.zeros_like(counts), {}
    for step in range(max(numbers) + 1):
        if step in numbers:
            found[step] = drawn.copy()
        rows = np.flatnonzero(left.sum(axis=1) > 0)
        chosen = draw_one(left[rows], generator)
        drawn[rows, chosen] += 1
        left[rows, chosen] -= 1
    return found


def draw_one(counts: FloatArray, generator: np.random.Generator) -> IntArray:
    """Draw one of the votes of each item at random, as the position of its class, (N,)."""
    number = generator.integers(counts.sum(axis=1).astype(np.int64))
    return (np.cumsum(counts, axis=1) <= number[:, None]).sum(axis=1)
