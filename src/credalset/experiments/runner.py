"""Work through batches, one after another or in several processes, keeping each as soon as it is finished."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

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
        What there is to do.
    store : Store
        Where finished batches are kept; those that are there already are not computed again.
    data_dir : path or None
        Folder with third-party data.
    jobs : int
        Processes to use.
    report : callable, optional
        Called with each batch once it is in the store, and whether it was there before.
    """
    told = report or (lambda batch, was_there: None)
    missing: list[Batch] = []
    whole: dict[str, tuple[Batch, Batch | None]] = {}
    for batch in batches:
        if store.is_done(batch):
            told(batch, True)
            continue
        begun = store.started(batch)
        missing.append(batch if begun is None else with_seeds(batch, batch.options["seeds"][begun.n_seeds :]))
        whole[missing[-1].name] = batch, begun
    for computed, outcome in _outcomes(missing, data_dir, jobs):
        batch, begun = whole[computed.name]
        store.write(batch, outcome if begun is None else store.outcome(begun) + outcome)
        store.delete_shorter(batch)
        told(batch, False)


def compute(batch: Batch, data_dir: Path | None) -> Outcome:
    """Compute one batch with the module of its experiment."""
    module = import_module(f"credalset.experiments.{batch.experiment}")
    outcome: Outcome = module.run(batch, data_dir)
    return outcome


def _outcomes(batches: Sequence[Batch], data_dir: Path | None, jobs: int) -> Iterator[tuple[Batch, Outcome]]:
    for batch in batches:
        if batch.alone or jobs == 1:
            yield batch, compute(batch, data_dir)
    rest = [batch for batch in batches if not batch.alone]
    if jobs > 1 and rest:
        yield from _in_processes(rest, data_dir, jobs)


def _in_processes(batches: Sequence[Batch], data_dir: Path | None, jobs: int) -> Iterator[tuple[Batch, Outcome]]:
    from multiprocessing import active_children, get_context

    # Processes are spawned: a fork would copy the threads' locks of PyTorch and Arrow in whatever state they are.
    context = get_context("spawn")
    workers = min(jobs, len(batches))
    threads = max(1, (os.cpu_count() or 1) // workers)
    others = set(active_children())
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(threads,))
    try:
        with _interrupts_held_back():
            running: dict[Future[Outcome], Batch] = {pool.submit(compute, batch, data_dir): batch for batch in batches}
        while running:
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                yield running.pop(future), future.result()
    except BaseException:
        for worker in set(active_children()) - others:  # what they have begun would hold up the end
            worker.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Let processes that are started inside never see Ctrl-C, which is for this one; here it only comes later."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(threads: int) -> None:
    """Share the cores among the workers, and leave when the process that started this one is gone."""
    from multiprocessing import parent_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["CREDALSET_NUM_THREADS"] = str(threads)
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
