"""A batch of runs that are trained together, and what comes out of one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

Row = dict[str, Any]

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
    alone : bool
        Whether nothing else may run at the same time, because the batch takes times.
    """

    experiment: str
    part: str
    name: str
    options: dict[str, Any]
    n_runs: int
    alone: bool = False

    @property
    def n_seeds(self) -> int:
        """Number of seeds, none for a batch that does not repeat anything."""
        return len(self.options.get("seeds", ()))


@dataclass
class Outcome:
    """Result rows of a batch, a few predictions to draw, and the seconds that each stage took."""

    rows: list[Row] = field(default_factory=list)
    examples: list[Row] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def __add__(self, other: Outcome) -> Outcome:
        stages = dict.fromkeys([*self.seconds, *other.seconds])
        seconds = {stage: self.seconds.get(stage, 0.0) + other.seconds.get(stage, 0.0) for stage in stages}
        return Outcome(self.rows + other.rows, self.examples + other.examples, seconds)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time spent inside to a stage, by the clock and by processor time."""
        clock, processor = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            for name, spent in (
                (stage, time.perf_counter() - clock),
                (f"{stage}_cpu", time.process_time() - processor),
            ):
                self.seconds[name] = self.seconds.get(name, 0.0) + spent


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


def seed_groups(n_seeds: int) -> list[list[int]]:
    """Split the seeds into groups that are trained together; groups do not change when seeds are added at the end.

    Examples
    --------
    >>> seed_groups(7)
    [[0, 1, 2, 3, 4], [5, 6]]
    """
    seeds = list(range(n_seeds))
    return [seeds[start : start + SEEDS_PER_BATCH] for start in range(0, n_seeds, SEEDS_PER_BATCH)]


def span(seeds: Sequence[int]) -> str:
    """Name a group of consecutive seeds.

    Examples
    --------
    >>> span([0, 1, 2])
    'seeds-0-2'
    """
    return f"seeds-{seeds[0]}-{seeds[-1]}"
