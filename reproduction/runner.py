"""Work through batches, one after another or in several processes, keeping each once finished."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path

from joblib import Parallel, delayed

from reproduction.batch import Batch, Outcome
from reproduction.runs import run_tasks
from reproduction.store import Store

Report = Callable[[Batch, bool], None]
Finished = tuple[list[Batch], list[Outcome]]
SEEDS_AT_ONCE = 5  # so that twenty networks of the synthetic votes are trained in one stack


def run_all(
    batches: Sequence[Batch],
    store: Store,
    data_dir: Path | None,
    *,
    jobs: int = 1,
    report: Report | None = None,
) -> None:
    """Compute every batch that the store does not have yet.

    Batches that differ in their seeds only are trained together, a few at a time.

    Parameters
    ----------
    batches : sequence of Batch
        The batches to compute.
    store : Store
        Where finished batches are kept; batches that it has already are not computed again.
    data_dir : path or None
        Folder with third-party data.
    jobs : int
        Processes to use.
    report : callable, optional
        Called with each batch once it is in the store, and whether it was there before.
    """
    report = report or (lambda batch, was_there: None)
    groups: list[list[Batch]] = []
    for batch in batches:
        if store.is_done(batch):
            report(batch, True)
        elif groups and len(groups[-1]) < SEEDS_AT_ONCE and batch.differs_in_seed(groups[-1][0]):
            groups[-1].append(batch)
        else:
            groups.append([batch])
    with closing(_outcomes(groups, data_dir, jobs)) as finished:
        for group, outcomes in finished:
            for batch, outcome in zip(group, outcomes, strict=True):
                store.write(batch, outcome)
                report(batch, False)


def compute(group: Sequence[Batch], data_dir: Path | None) -> list[Outcome]:
    """Compute batches that differ in their seeds only, with the module of their experiment."""
    module = import_module(f"reproduction.{group[0].experiment}")
    return run_tasks([module.tasks(batch, data_dir) for batch in group], group[0].options)


def _outcomes(
    groups: Sequence[list[Batch]], data_dir: Path | None, jobs: int
) -> Generator[Finished, None, None]:
    """Yield each group of batches, with their outcomes, as soon as it is finished."""
    workers = max(1, min(jobs, len(groups)))
    start = {"initializer": _start_worker, "initargs": (os.getpid(),)}
    pool = Parallel(
        workers, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs", **start
    )
    with _interrupts_ignored():
        running = pool(delayed(_compute_group)(group, data_dir) for group in groups)
    with warnings.catch_warnings():
        # joblib warns of workers that were ended before they had finished, wherever Ctrl-C finds it
        warnings.filterwarnings("ignore", ".*still being processed by the workers", UserWarning)
        try:
            yield from running
        finally:
            running.close()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Start processes inside that never see Ctrl-C, which is for this one.

    They inherit that it is ignored.
    """
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # only the main thread sees it anyway
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _compute_group(group: list[Batch], data_dir: Path | None) -> Finished:
    return group, compute(group, data_dir)


def _start_worker(main: int) -> None:
    """Ignore Ctrl-C, and leave when the main process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == main:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
