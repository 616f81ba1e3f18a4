"""Run a function over blocks of rows, on a few threads when there is enough to do.

NumPy ufuncs and the compiled kernels release the interpreter lock, so threads help. Blocks are small enough to stay
in cache and to bound memory, and a block's result never depends on which rows share it.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
T = TypeVar("T")

THREAD_NAME = "credalset-worker"
PARALLEL_FROM = 1 << 17  # elements below which starting threads costs more than it gains


def n_threads() -> int:
    """Return the number of worker threads: ``CREDALSET_NUM_THREADS`` or the number of usable cores."""
    setting = os.environ.get("CREDALSET_NUM_THREADS", "")
    if setting.isdigit() and int(setting) > 0:
        return int(setting)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix=THREAD_NAME)


if hasattr(os, "register_at_fork"):  # a forked child inherits the pool object but none of its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def row_blocks(n_rows: int, row_size: int, block_size: int = 1 << 16) -> list[slice]:
    """Return consecutive slices that cover ``range(n_rows)``, each of about ``block_size`` elements."""
    step = max(1, block_size // max(1, row_size))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def for_each_block(function: Callable[[slice], None], n_rows: int, row_size: int, block_size: int = 1 << 16) -> None:
    """Call ``function(rows)`` for consecutive slices that cover ``range(n_rows)``.

    Parameters
    ----------
    function : callable
        Writes its own result; must not depend on which rows share a block.
    n_rows, row_size : int
        Number of rows and elements touched per row.
    block_size : int
        Elements a block may touch.
    """
    blocks = row_blocks(n_rows, row_size, block_size)
    # A block that itself works in blocks must not wait for the pool it runs on.
    workers = 1 if threading.current_thread().name.startswith(THREAD_NAME) else n_threads()
    if workers == 1 or len(blocks) < 2 or n_rows * row_size < PARALLEL_FROM:
        for block in blocks:
            function(block)
        return
    # A few long runs of blocks per worker: little queueing, and a slow core does not hold the others up.
    runs = [blocks[i :: workers * 4] for i in range(min(len(blocks), workers * 4))]

    def one_run(run: list[slice]) -> None:
        for block in run:
            function(block)

    list(_pool(workers).map(one_run, runs))


def gather_blocks(function: Callable[[slice], Any], n_rows: int, row_size: int, block_size: int = 1 << 16) -> Any:
    """Return ``function(slice(0, n_rows))``, worked out for a block of rows at a time.

    The function returns one or several arrays with one row per row, or None in place of one not asked for; the other
    parameters are those of `for_each_block`.
    """
    blocks = row_blocks(n_rows, row_size, block_size)
    if len(blocks) < 2:
        return function(slice(0, n_rows))
    parts: dict[int, Any] = {}

    def one_block(rows: slice) -> None:
        parts[rows.start] = function(rows)

    for_each_block(one_block, n_rows, row_size, block_size)
    answers = [parts[rows.start] for rows in blocks]
    if not isinstance(answers[0], tuple):
        return np.concatenate(answers)
    return tuple(None if column[0] is None else np.concatenate(column) for column in zip(*answers, strict=True))


def in_blocks(
    cells: Callable[[int], int] = lambda size: size, block_size: int = 1 << 16
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function of rows work on a block of them at a time, on a few threads when there are many.

    The positional arguments of the decorated function are arrays with one row per set, its keyword arguments are
    shared by all rows; it returns one or several arrays with one row per set, or None in place of one not asked for.

    Parameters
    ----------
    cells : callable
        Elements touched per row, from the size of a row of the first argument; that size by default.
    block_size : int
        Elements a block may touch. Blocks this small stay in cache from one NumPy call to the next.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def blockwise(*rows: Any, **shared: Any) -> Any:
            def one_block(block: slice) -> Any:
                return function(*(array[block] for array in rows), **shared)

            return gather_blocks(one_block, len(rows[0]), cells(math.prod(rows[0].shape[1:])), block_size)

        return blockwise

    return decorate
