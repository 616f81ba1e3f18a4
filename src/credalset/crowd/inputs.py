"""Read predictions and votes, once: matched by name where both have names, else by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from credalset._typing import AnyArray, FloatArray, IntArray
from credalset._validation import as_counts, as_distributions
from credalset.votes.names import Names, class_names, item_names, join_names, order_columns, per_item, take_names


@dataclass(frozen=True, eq=False)
class Voted:
    """Predictions (N, K) and votes (N, K) of the same items, with names where they are known."""

    prediction: FloatArray
    counts: FloatArray
    items: Names | None
    classes: Names | None

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: Any) -> Voted:
        return Voted(self.prediction[rows], self.counts[rows], take_names(self.items, rows), self.classes)

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
    raw = as_counts(getattr(votes, "counts", votes), "votes", may_be_none=True)
    own = class_names(votes, "votes")
    counts = raw if own is None or classes is None else _in_columns(raw, own, classes)
    if counts.shape[1] != prediction.shape[1]:
        raise ValueError(f"votes has {counts.shape[1]} classes, but predictions have {prediction.shape[1]}.")
    named = item_names(votes)
    counts = _in_rows(counts, named, items, len(prediction))
    return Voted(prediction, counts, items if items is not None else named, own if classes is None else classes)


def _in_columns(counts: FloatArray, own: Names, classes: Names) -> FloatArray:
    """Put columns into the order of the known classes; classes that nobody chose may be absent or unknown."""
    position = {name: column for column, name in enumerate(classes)}
    unknown = [name for name, total in zip(own, counts.sum(axis=0), strict=True) if total and name not in position]
    if unknown:
        raise ValueError(
            f"votes has votes for classes that the predictions do not know ({join_names(unknown)}; known: "
            f"{join_names(classes, 8)}). Drop these votes, or predict these classes too."
        )
    found = np.zeros((len(counts), len(classes)))
    for column, name in enumerate(own):
        if name in position:
            found[:, position[name]] = counts[:, column]
    return found


def _in_rows(counts: FloatArray, own: Names | None, items: Names | None, n_items: int) -> FloatArray:
    """Put rows into the order of the predictions; items that are not named in votes have no votes."""
    if own is None or items is None or own == items:
        if len(counts) != n_items:
            raise ValueError(
                f"votes has {len(counts)} rows, but predictions have {n_items}. Pass one row of votes per prediction, "
                "or name the items of both."
            )
        return counts
    position = {name: row for row, name in enumerate(items)}
    other = [name for name in own if name not in position]
    if other:
        raise ValueError(
            f"votes has {len(other)} items that predictions do not have (first: {join_names(other, 3)}). Predict these "
            "items too, or drop their votes."
        )
    if len(position) < len(items) or len(set(own)) < len(own):
        raise ValueError("predictions or votes name an item twice, so they cannot be matched. Give each its own name.")
    found = np.zeros((n_items, counts.shape[1]))
    found[[position[name] for name in own]] = counts
    return found


def item_keys(groups: Any, voted: Voted) -> AnyArray | None:
    """Return the group of each item, in the order of the predictions; None if there are no groups."""
    if groups is None:
        return None
    keys = np.asarray(per_item(groups, voted.items, "groups", "predictions"))
    if keys.shape != (len(voted),):
        raise ValueError(f"groups must hold one key per item ({len(voted)}), but has shape {keys.shape}.")
    return keys


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
