"""What is reviewed: a table of items with votes, read and matched, and the terms of the review."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from credalset._batch import Batch, Names, item_names, read_votes
from credalset._display import plural
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.acceptance.rule import Claim, read_codes
from credalset.acting.judged import Judged, PooledJudges
from credalset.acting.sources import ClassShares, GivenPredictions, LearnedModel, Source
from credalset.crowd.base import read_voted
from credalset.exceptions import need, warn


@dataclass(frozen=True, eq=False)
class Table:
    """A table as it is reviewed, in plain arrays: n items, K classes.

    Attributes
    ----------
    source : Source
        Where predictions come from.
    counts : ndarray of shape (n, K)
        Votes; rows may be zero.
    items, classes : tuple
        Names.
    codes : ndarray of shape (n,)
        Group of each item.
    groups : tuple or None
        Names of the groups.
    units : ndarray of shape (n,) or None
        Cluster of each item.
    scale : tuple of K numbers or None
        Position of each class on an ordinal scale.
    """

    source: Source
    counts: FloatArray
    items: Names
    classes: Names
    codes: IntArray
    groups: Names | None = None
    units: IntArray | None = None
    scale: tuple[float, ...] | None = None

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def voted(self) -> BoolArray:
        """Which items have a vote."""
        return np.asarray(self.counts.any(axis=1))

    @property
    def class_names(self) -> Names | None:
        """Names of the classes; None if they are only numbered."""
        return None if self.classes == tuple(range(len(self.classes))) else self.classes

    @property
    def item_names(self) -> Names | None:
        """Names of the items; None if they are only numbered."""
        return None if self.items == tuple(range(len(self))) else self.items

    def names_of(self, rows: IntArray) -> Names | None:
        """Names of some of the items; None if they are only numbered."""
        names = self.item_names
        return None if names is None else tuple(names[row] for row in rows.tolist())


@dataclass(frozen=True, eq=False)
class Terms:
    """What a review is asked for.

    Attributes
    ----------
    claim : Claim
        What is to be certified, for each error.
    main : int
        The error that decides the next step, one of ``claim.errors``.
    disagreement : float
        Smallest mean disagreement of items that are claimed to be divided.
    decide_from : {"certified", "all"}
        The votes that labels are decided from: all but one, or all.
    seed : int
        Seed of everything that is drawn.
    """

    claim: Claim
    main: int = 0
    disagreement: float = 0.4
    decide_from: str = "certified"
    seed: int = 0

    @property
    def error(self) -> float:
        """The error that decides, in units of the loss."""
        return self.claim.errors[self.main]

    @property
    def columns(self) -> list[int]:
        """The errors of the claim, the one that decides first."""
        others = [column for column in range(len(self.claim.errors)) if column != self.main]
        return [self.main, *others]

    @property
    def shown_error(self) -> float:
        """The error that decides, as the user gave it."""
        return self.error * self.claim.unit


def read_table(
    predictions: Any, votes: Any, texts: Any, groups: Any, clusters: Any, seed: int
) -> tuple[Table, Batch]:
    """Read and match all that belongs to the items."""
    if votes is None:
        raise ValueError("votes are missing: pass counts per item and class, or Annotations.")
    if predictions is None:
        labels = read_votes(votes)
        counts = labels.votes("votes", "review")
        scale = labels.scale
        batch = Batch(counts, labels.n_classes, labels.items, labels.classes, name="votes")
        source: Source
        if texts is None:
            source = ClassShares(counts, seed)
        else:
            source = LearnedModel(*_features_of(texts, batch), counts, seed)
    else:
        voted = read_voted(predictions, votes, partial=True)
        batch = voted.batch
        counts = voted.counts
        scale = voted.scale
        named = set(item_names(votes, "votes") or ()) - set(batch.items or ())
        if named and batch.items is not None:
            warn(f"{plural(len(named), 'item')} with votes have no prediction and are left out.")
        source = GivenPredictions(voted.prediction, counts, seed)
    return _table_of(source, batch, groups, clusters, scale), batch


def read_judges(
    judges: Any, votes: Any, kinds: Any, groups: Any, clusters: Any, seed: int
) -> tuple[Table, Batch]:
    """Read and match answers of judges, votes, and all that belongs to the items."""
    if votes is None:
        raise ValueError("votes are missing: pass counts per item and class, or Annotations.")
    judged = Judged.read(judges, votes, kinds)
    batch = judged.batch()
    units = None
    if clusters is not None:
        units, _ = read_codes(batch, clusters, "clusters")
    source = PooledJudges(judged, units, judged.counts, seed)
    return _table_of(source, batch, groups, clusters, judged.labels.scale), batch


def _table_of(
    source: Source,
    batch: Batch,
    groups: Any,
    clusters: Any,
    scale: tuple[float, ...] | None,
) -> Table:
    """Return a table with the groups and clusters of its items."""
    counts = source.counts
    if not counts.any():
        raise ValueError("votes has no votes. Collect at least one vote on each item.")
    codes = np.zeros(len(counts), dtype=np.int64)
    keys = None
    if groups is not None:
        codes, keys = read_codes(batch, groups, "groups")
    units = None
    if clusters is not None:
        units, _ = read_codes(batch, clusters, "clusters")
    items = tuple(range(len(counts))) if batch.items is None else batch.items
    classes = tuple(range(counts.shape[1])) if batch.classes is None else batch.classes
    if len(set(items)) < len(items):
        raise ValueError("votes or predictions name an item twice. Give each a name of its own.")
    return Table(source, counts, items, classes, codes, keys, units, scale)


def _features_of(texts: Any, batch: Batch) -> tuple[Any, list[str]]:
    """Return what is to be learned from as a frame, and the kind of each column."""
    pandas = need("pandas", "A model of texts")
    if getattr(texts, "ndim", 1) == 1:
        column = [str(each) for each in batch.column(texts, "texts")]
        return pandas.DataFrame({"text": column}), ["text"]
    frame = batch.per_item(texts, "texts")
    kinds = ["number" if kind.kind in "fiub" else "text" for kind in frame.dtypes]
    return frame, list(frame.attrs.get("kinds", kinds))
