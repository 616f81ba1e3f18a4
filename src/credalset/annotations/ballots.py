"""Who voted for what, item by item: what counts forget and agreement per worker needs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from credalset._typing import AnyArray, IntArray


@dataclass(frozen=True, eq=False)
class Ballots:
    """Votes sorted by item: those of item i are ``worker[start[i]:start[i + 1]]`` and ``label[...]`` alike.

    Eight bytes per vote, plus the names of the workers once.
    """

    workers: tuple[Hashable, ...]
    start: IntArray  # (n + 1,)
    worker: AnyArray  # int32 codes into workers
    label: AnyArray  # int32 positions among the classes

    @classmethod
    def sort(
        cls, workers: tuple[Hashable, ...], item: IntArray, worker: IntArray, label: IntArray, size: int
    ) -> Ballots:
        """Sort votes by item."""
        order = np.argsort(item, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(item, minlength=size))]).astype(np.int64)
        return cls(workers, start, worker[order].astype(np.int32), label[order].astype(np.int32))

    @property
    def item(self) -> IntArray:
        """Item of every vote."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def take(self, rows: IntArray) -> Ballots:
        """Take items by position, in the order given."""
        sizes = np.diff(self.start)[rows]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        votes = np.arange(start[-1]) + np.repeat(self.start[rows] - start[:-1], sizes)
        return replace(self, start=start, worker=self.worker[votes], label=self.label[votes])

    def relabel(self, new: IntArray) -> Ballots:
        """Give every class a new position."""
        return replace(self, label=new.astype(np.int32)[self.label])
