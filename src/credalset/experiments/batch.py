"""A batch of runs that are trained together, and what comes out of one."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from credalset._typing import FloatArray

Row = dict[str, Any]

#: what is measured in every run, as columns of the result rows
SIZES = ("threshold", "efficiency", "volume", "volume_error")
READ = ("width", "labels", "decided")  # what people read off sets, see `credalset.metrics.mean_sizes`
MEASURED = ("coverage", "coverage_true", *SIZES, *READ, "total", "aleatoric", "epistemic", "epistemic_gap", "empty")
SEEDS_PER_BATCH = 5  # few enough to lose little when killed, enough for `fit_many` to pay


@dataclass(frozen=True)
class Batch:
    """Runs of one shape, computed and stored as one: the unit that is resumed.

    Attributes
    ----------
    experiment, part, name : str
        Which experiment, which part of it, and a name that no other batch of the experiment has.
    options : dict
        Everything the result depends on, as plain JSON values.
    n_runs : int
        Trained learners or splits in the batch.
    """

    experiment: str
    part: str
    name: str
    options: dict[str, Any]
    n_runs: int

    @property
    def n_seeds(self) -> int:
        """Number of seeds; zero for a batch without repetitions."""
        return len(self.options.get("seeds", ()))

    def head(self, seed: int, n_classes: int, n_votes: int, n_train: int) -> Row:
        """Return the columns that say which run a result row belongs to."""
        sizes = {"n_classes": n_classes, "n_votes": n_votes, "n_train": n_train}
        return {"experiment": self.experiment, "part": self.part, "seed": seed, **sizes}


@dataclass
class Outcome:
    """Result rows of a batch, a few predictions to draw, and the seconds that each stage took."""

    rows: list[Row] = field(default_factory=list)
    examples: list[Row] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def __add__(self, other: Outcome) -> Outcome:
        seconds = add_up([self.seconds, other.seconds])
        return Outcome(self.rows + other.rows, self.examples + other.examples, seconds)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time spent inside to a stage, by the clock and by processor time."""
        clock, processor = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            spent = {stage: time.perf_counter() - clock, f"{stage}_cpu": time.process_time() - processor}
            self.seconds = add_up([self.seconds, spent])


def with_seeds(batch: Batch, seeds: Sequence[int]) -> Batch:
    """Return the batch that has only some of the seeds; its name says which.

    Examples
    --------
    >>> some = Batch("synthetic", "first-order", "first-order-seeds-0-4", {"seeds": [0, 1, 2, 3, 4]}, 10)
    >>> with_seeds(some, [0, 1]).name, with_seeds(some, [0, 1]).n_runs
    ('first-order-seeds-0-1', 4)
    """
    own = batch.options["seeds"]
    return replace(
        batch,
        name=batch.name.removesuffix(span(own)) + span(seeds),
        options={**batch.options, "seeds": list(seeds)},
        n_runs=batch.n_runs * len(seeds) // len(own),
    )


def by_seeds(
    experiment: str, part: str, name: str, options: dict[str, Any], n_seeds: int, runs_per_seed: int = 1
) -> list[Batch]:
    """Split the runs of a part into batches of a few seeds, which do not change when seeds are added at the end.

    Examples
    --------
    >>> [batch.name for batch in by_seeds("synthetic", "first-order", "some", {}, n_seeds=7)]
    ['some-seeds-0-4', 'some-seeds-5-6']
    """
    groups = [list(range(n_seeds))[start : start + SEEDS_PER_BATCH] for start in range(0, n_seeds, SEEDS_PER_BATCH)]
    return [
        Batch(experiment, part, f"{name}-{span(seeds)}", {**options, "seeds": seeds}, len(seeds) * runs_per_seed)
        for seeds in groups
    ]


def span(seeds: Sequence[int]) -> str:
    """Name a group of consecutive seeds.

    Examples
    --------
    >>> span([0, 1, 2])
    'seeds-0-2'
    """
    return f"seeds-{seeds[0]}-{seeds[-1]}"


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
    >>> pick([{"part": "mixture", "seed": 0}, {"part": "mixture", "seed": 1}], seed=1)
    [{'part': 'mixture', 'seed': 1}]
    """
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def features_of(row: Any) -> str:
    """Return the features of a result row or cell of ChaosNLI, whose parts are named ``"features learner"``."""
    return str(row["part"]).rsplit(" ", 1)[0]


def plain_name(text: str) -> str:
    """Turn a name or path into a part of a file name."""
    return "".join(c if c.isalnum() else "-" for c in text).strip("-")


def fingerprint(*arrays: FloatArray | None) -> str:
    """Return a short checksum of arrays and their shapes, so that results of other data are not taken for these.

    Examples
    --------
    >>> fingerprint(np.zeros(2)) == fingerprint(np.zeros((2, 1)))
    False
    """
    digest = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        digest.update(repr(array.shape).encode() + array.astype(np.float64).tobytes())
    return digest.hexdigest()[:16]
