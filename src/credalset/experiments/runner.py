"""Work through batches, one after another or in several processes, keeping each as soon as it is finished."""

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

from joblib import Parallel, delayed  # type: ignore[import-untyped]

from credalset.experiments.batch import Batch, Outcome, with_seeds
from credalset.experiments.store import Store

Report = Callable[[Batch, bool], None]


def run_all(
    batches: Sequence[Batch], store: Store, data_dir: Path | None, *, jobs: int = 1, report: Report | None = None
) -> None:
    """Compute every batch that the store does not have yet.

    Where a finished batch has the first seeds of one that is missing, because fewer seeds were asked for before, only
    the other seeds are computed; the shorter batch is then deleted.

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
    missing: list[Batch] = []
    whole: dict[str, tuple[Batch, Batch | None]] = {}
    for batch in batches:
        if store.is_done(batch):
            report(batch, True)
            continue
        begun = store.started(batch)
        missing.append(batch if begun is None else with_seeds(batch, batch.options["seeds"][begun.n_seeds :]))
        whole[missing[-1].name] = batch, begun
    with closing(_outcomes(missing, data_dir, jobs)) as outcomes:
        for name, outcome in outcomes:
            batch, begun = whole[name]
            store.write(batch, outcome if begun is None else store.outcome(begun) + outcome)
            store.delete_shorter(batch)
            report(batch, False)


def compute(batch: Batch, data_dir: Path | None) -> Outcome:
    """Compute one batch with the module of its experiment."""
    module = import_module(f"credalset.experiments.{batch.experiment}")
    outcome: Outcome = module.run(batch, data_dir)
    return outcome


def _outcomes(batches: Sequence[Batch], data_dir: Path | None, jobs: int) -> Generator[tuple[str, Outcome], None, None]:
    """Yield the name and outcome of each batch as soon as it is finished."""
    workers = max(1, min(jobs, len(batches)))
    start = {"initializer": _start_worker, "initargs": (os.getpid(), workers)}
    pool = Parallel(workers, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs", **start)
    with _interrupts_ignored():
        running = pool(delayed(_compute_named)(batch, data_dir) for batch in batches)
    with warnings.catch_warnings():
        # joblib warns of workers that were ended before they had finished, wherever Ctrl-C finds it
        warnings.filterwarnings("ignore", ".*still being processed by the workers", UserWarning)
        try:
            yield from running
        finally:
            running.close()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Start processes inside that never see Ctrl-C, which is for this one: they inherit that it is ignored."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread sees it anyway
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _compute_named(batch: Batch, data_dir: Path | None) -> tuple[str, Outcome]:
    return batch.name, compute(batch, data_dir)


def _start_worker(main: int, workers: int) -> None:
    """Ignore Ctrl-C, share the cores among the workers, and leave when the main process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["CREDALSET_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // workers))

    def watch() -> None:
        while os.getppid() == main:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
