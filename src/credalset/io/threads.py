"""Work on batches in several threads, in their order.

NumPy and Arrow let other threads run while they work on an array, and Python code in between does
not. So threads pay for arrays that take longer than the code around them, see `credalset._blocks`.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")

#: seconds after which a thread that runs Python code lets another one; the usual 5 ms are longer
#: than most operations on a block, so that threads would mostly wait for each other
SWITCH_INTERVAL = 1e-4
#: Options of glibc and their values: arrays of a block are not given back to the system after each
#: operation, which would cost more than many of the operations.
MALLOC_OPTIONS = {-1: 1 << 28, -3: 1 << 26}  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD; in bytes


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(function: Callable[[S], T], things: Iterable[S], n_threads: int = 1) -> Iterator[T]:
    """Yield the results of a function for things, in their order.

    With several threads, at most one thing more than threads is held at a time. Things are read,
    and results used, in the calling thread.

    Examples
    --------
    >>> list(in_order(str.upper, ["a", "b", "c"], n_threads=2))
    ['A', 'B', 'C']
    """
    if n_threads == 1:
        yield from map(function, things)
        return
    under_way: deque[Future[T]] = deque()
    with ThreadPoolExecutor(n_threads, "credalset") as threads:
        try:
            for thing in things:
                under_way.append(threads.submit(function, thing))
                if len(under_way) > n_threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()


@contextmanager
def tuned_for_threads() -> Iterator[None]:
    """Let threads change places quickly, and keep the memory of arrays.

    This is for programs of our own: it concerns the whole process.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    keep_memory()
    gc.freeze()  # modules need not be searched for garbage, which stops all threads
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)


def keep_memory() -> None:
    """Ask glibc not to give the memory of arrays back to the system; elsewhere do nothing."""
    if not sys.platform.startswith("linux"):
        return
    change = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if change is not None:
        for option, value in MALLOC_OPTIONS.items():
            change(option, value)
