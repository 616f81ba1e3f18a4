"""Loading and saving in processes of their own, with limits on memory and time, or killed half-way.

They are forked from a process without threads. One with threads (of Arrow, Dask or PyTorch, say)
must not be forked: a lock that another thread holds at this moment would stay locked in the child
for ever.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
import tracemalloc
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import credalset as cs
from credalset import _files
from credalset.io import tables

from .forging import calibrate

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [__name__, "credalset.io.estimators", "credalset.io.store", "skops.io"]
)
PATIENCE = 120.0  # seconds that a child may take on a busy machine


def in_child(work: Callable[..., str], *args: Any) -> tuple[int, str]:
    """Run a function of this module in a child; return its exit code and what it returned."""
    reading, writing = FORKS.Pipe(duplex=False)
    child = FORKS.Process(target=_send, args=(writing, work, *args), daemon=True)
    child.start()
    writing.close()
    child.join(PATIENCE)
    if child.exitcode is None:
        child.kill()
        raise TimeoutError(f"{work.__name__} did not end within {PATIENCE:.0f} seconds")
    return child.exitcode, reading.recv() if reading.poll() and child.exitcode == 0 else ""


def _send(writing: Connection, work: Callable[..., str], *args: Any) -> None:
    writing.send(work(*args))


def load_within_limits(path: Path, trusted: list[str] | None = None) -> str:
    """Load in a child with little memory; return the name of the error, or what else happened."""
    return in_child(_load, path, trusted or [])[1]


def _load(path: Path, trusted: list[str]) -> str:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 200_000_000,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 5,) * 2)
    outcome = "loaded"
    start = time.process_time()  # whatever else the machine does
    try:
        cs.load(path, trusted=trusted)
    except BaseException as error:
        outcome = type(error).__name__
    seconds = time.process_time() - start
    return outcome if seconds < 1.0 else f"{outcome} after {seconds:.1f} s"


def save_and_die(score: str, path: Path, turn: int, fallback: bool) -> int:
    """Save a calibration in a child that kills itself at some step;
    return 0 if it came to the end.
    """
    return in_child(_save_and_die, score, path, turn, fallback)[0]


def _save_and_die(score: str, path: Path, turn: int, fallback: bool) -> str:
    turns = iter(range(100))

    def dying(function: Any) -> Any:
        def wrapped(*args: Any, **options: Any) -> Any:
            if next(turns) == turn:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **options)

        return wrapped

    thing = calibrate(score)
    if fallback:
        _files._exchange = lambda one, other: False
    owners: list[Any] = [os, Path, _files, _files, _files.shutil]
    for owner, name in zip(
        owners, ["fsync", "rename", "_exchange", "_remove", "rmtree"], strict=True
    ):
        setattr(owner, name, dying(getattr(owner, name)))
    thing.save(path)
    return "saved"


def memory_of_reading(path: Path, n: int) -> int:
    """Write a table of n rows; return the most memory that reading it in blocks takes, in a child.

    Memory is traced where there are no other threads: CPython 3.11 may crash if one allocates while
    tracing stops.
    """
    return int(in_child(_memory_of_reading, path, n)[1])


def _memory_of_reading(path: Path, n: int) -> str:
    tables.BLOCK, tables.BATCH_ROWS, tables.RECORDS = 1 << 15, 500, 200
    columns: Any = {
        "task": [f"t{i}" for i in range(n)],
        **{f"c{j}": np.full(n, 0.125) for j in range(8)},
    }
    with tables.table_writer(path, pa.table(columns).schema) as write:
        for batch in pa.table(columns).to_batches(max_chunksize=1_000):
            write(batch)
    del columns
    for batch in tables.read_table(
        path
    ).batches:  # once, so that what is imported on the way is not counted
        del batch
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    most = max(pa.total_allocated_bytes() - before for _ in tables.read_table(path).batches)
    return str(most + tracemalloc.get_traced_memory()[1])
