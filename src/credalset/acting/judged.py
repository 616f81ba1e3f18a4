"""Predictions from the answers of judges, pooled as the votes of some items teach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from credalset._batch import Batch, Labels, Names
from credalset._typing import FloatArray, IntArray
from credalset.acting.sources import Source
from credalset.predictors import JudgePool
from credalset.predictors.judges import Answers, read_judged
from credalset.predictors.pool import kind_names, read_kinds


@dataclass(frozen=True, eq=False)
class Judged:
    """Answers of judges, votes on some of their items, and the kinds of the items."""

    answers: Answers
    labels: Labels
    columns: list[list[Any]]
    kind_names: Names | None = None

    @classmethod
    def read(cls, judges: Any, votes: Any, kinds: Any) -> Judged:
        """Read answers, votes and kinds, matched by name."""
        answers, labels = read_judged(judges, votes)
        return cls(answers, labels, read_kinds(answers.batch(), kinds), kind_names(kinds))

    @property
    def counts(self) -> FloatArray:
        """Votes, (N, K); rows may be zero."""
        return self.labels.votes("votes", "review")

    def batch(self) -> Batch:
        """Return items and classes, which match what belongs to them."""
        return self.answers.batch()

    def fit(self, rows: IntArray, units: IntArray | None, seed: int) -> JudgePool:
        """Return a pool that has seen the votes of some items only."""
        part = self.answers.take(rows)
        kinds: list[Sequence[Any]] = [[column[row] for row in rows] for column in self.columns]
        clusters = None if units is None else units[rows]
        pool = JudgePool(random_state=seed)
        return pool._fit(part, self.labels[rows], kinds, clusters, self.kind_names)


class PooledJudges(Source):
    """A pool of judges that learns from the votes of some items."""

    halves = True

    def __init__(self, judged: Judged, units: IntArray | None, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.judged = judged
        self.units = units
        self._pools: list[JudgePool] = []

    def predict(self, rows: IntArray) -> FloatArray:
        """Pool the judges for all items; out of fold for the items that were learned from."""
        pool = self.judged.fit(rows, self.units, self.seed)
        found = pool.law_.predict(self.judged.answers, self.judged.columns)
        found[rows] = pool.oof_
        self._pools.append(pool)
        return np.asarray(found)

    def model(self) -> Any:
        """Return the pool of the first rule."""
        return self._pools[0]
