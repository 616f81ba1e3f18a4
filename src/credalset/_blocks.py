"""Run a function over blocks of rows, which are small enough to stay in cache and to bound memory.

A row's result never depends, in any bit, on which rows share its block. A block is so large that an
operation on it takes much longer than the Python code that asks for it: threads that score other
batches (`credalset.io.threads`) run meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

BLOCK_SIZE = 1 << 18  # elements of a block
P = ParamSpec("P")
T = TypeVar("T")


def row_blocks(n_rows: int, row_size: int, block_size: int = BLOCK_SIZE) -> list[slice]:
    """Return consecutive slices that cover ``range(n_rows)``, of about ``block_size`` elements."""
    step = max(1, block_size // max(1, row_size))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def gather_blocks(
    function: Callable[[slice], Any], n_rows: int, row_size: int, block_size: int = BLOCK_SIZE
) -> Any:
    """Return ``function(slice(0, n_rows))``, worked out for a block of rows at a time.

    The function returns one or several arrays with one row per row, or None in place of one not
    asked for. A row touches ``row_size`` elements, and a block at most ``block_size``.
    """
    blocks = row_blocks(n_rows, row_size, block_size)
    if len(blocks) < 2:
        return function(slice(0, n_rows))
    answers = [function(rows) for rows in blocks]
    if not isinstance(answers[0], tuple):
        return np.concatenate(answers)
    return tuple(
        None if column[0] is None else np.concatenate(column)
        for column in zip(*answers, strict=True)
    )


def in_blocks(
    cells: Callable[[int], int] = lambda size: size, block_size: int = BLOCK_SIZE
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function of rows work on a block of them at a time.

    The positional arguments of the decorated function are arrays with one row per set, its keyword
    arguments are shared by all rows; it returns one or several arrays with one row per set, or None
    in place of one not asked for.

    Parameters
    ----------
    cells : callable
        Elements touched per row, from the size of a row of the first argument; that size by
        default.
    block_size : int
        Elements a block may touch. Blocks this small stay in cache from one NumPy call to the next.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def blockwise(*rows: Any, **shared: Any) -> Any:
            def one_block(block: slice) -> Any:
                return function(*(array[block] for array in rows), **shared)

            return gather_blocks(
                one_block, len(rows[0]), cells(math.prod(rows[0].shape[1:])), block_size
            )

        return blockwise

    return decorate
