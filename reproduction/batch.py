"""A batch of runs with one seed, and what comes out of one."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from credalset._typing import FloatArray

Row = dict[str, Any]

#: what is measured in every run, as columns of the result rows
SIZES = ("threshold", "efficiency", "volume", "volume_error")
READ = (
    "width",
    "labels",
    "decided",
)  # what people read off sets, see `credalset.metrics.mean_sizes`
MEASURED = (
    "coverage",
    "coverage_true",
    *SIZES,
    *READ,
    "total",
    "aleatoric",
    "epistemic",
    "epistemic_gap",
    "empty",
)


@dataclass(frozen=True)
class Batch:
    """Runs of one shape with one seed, stored as one: the unit that is resumed.

    Attributes
    ----------
    experiment, part, name : str
        Which experiment, which part of it, and a name that no other batch of the experiment has.
    options : dict
        Everything the result depends on, as plain JSON values: the learner, the seed, and much
        else.
    n_runs : int
        Trained learners or splits in the batch.
    """

    experiment: str
    part: str
    name: str
    options: dict[str, Any]
    n_runs: int

    def differs_in_seed(self, other: Batch) -> bool:
        """Tell whether another batch has all options but the seed in common with this one."""
        return self.part == other.part and self.options | {"seed": None} == other.options | {
            "seed": None
        }

    def head(self, n_classes: int, n_votes: int, n_train: int) -> Row:
        """Return the columns that say which run a result row belongs to."""
        sizes = {"n_classes": n_classes, "n_votes": n_votes, "n_train": n_train}
        return {
            "experiment": self.experiment,
            "part": self.part,
            "seed": self.options["seed"],
            **sizes,
        }


@dataclass
class Outcome:
    """Result rows of a batch, a few predictions to draw, and the seconds that each stage took."""

    rows: list[Row] = field(default_factory=list)
    examples: list[Row] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time spent inside to a stage, by the clock and by processor time."""
        clock = time.perf_counter()
        processor = time.process_time()
        try:
            yield
        finally:
            spent = {
                stage: time.perf_counter() - clock,
                f"{stage}_cpu": time.process_time() - processor,
            }
            self.seconds = add_up([self.seconds, spent])


def by_seeds(
    experiment: str, part: str, name: str, options: dict[str, Any], n_seeds: int, n_runs: int = 1
) -> list[Batch]:
    """Return a batch for each seed.

    Examples
    --------
    >>> [batch.name for batch in by_seeds("synthetic", "first-order", "some", {}, n_seeds=2)]
    ['some-seed-0', 'some-seed-1']
    """
    return [
        Batch(experiment, part, f"{name}-seed-{seed}", {**options, "seed": seed}, n_runs)
        for seed in range(n_seeds)
    ]


def add_up(times: Iterable[dict[str, float]]) -> dict[str, float]:
    """Add up seconds, stage by stage."""
    total: Counter[str] = Counter()
    for seconds in times:
        total.update(seconds)
    return dict(total)


def pick(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Return the result rows, or cells of a summary, with the given values.

    Examples
    --------
    >>> pick([{"part": "prefit", "seed": 0}, {"part": "prefit", "seed": 1}], seed=1)
    [{'part': 'prefit', 'seed': 1}]
    """
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def features_of(row: Any) -> str:
    """Return the features of a row or cell of ChaosNLI; parts are named ``"features learner"``."""
    return str(row["part"]).rsplit(" ", 1)[0]


def plain_name(text: str) -> str:
    """Turn a name or path into a part of a file name."""
    return "".join(c if c.isalnum() else "-" for c in text).strip("-")


def fingerprint(*arrays: FloatArray | None) -> str:
    """Return a short checksum of arrays and their shapes.

    It keeps results of other data from being taken for these.

    Examples
    --------
    >>> fingerprint(np.zeros(2)) == fingerprint(np.zeros((2, 1)))
    False
    """
    digest = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        digest.update(repr(array.shape).encode() + array.astype(np.float64).tobytes())
    return digest.hexdigest()[:16]
