"""Roots of many scalar equations at once: bisection, and Newton steps in a bracket.

Equations that have converged no longer move, so a root does not depend on the other equations of
the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from credalset._typing import BoolArray, FloatArray, IntArray

ROUNDING = 4e-16  # relative width of a bracket at the level of rounding


def among(rows: IntArray | BoolArray, *arrays: Any) -> Any:
    """Select along the last axis of several arrays."""
    # `array[..., rows]` is half as fast, and lets no other thread run meanwhile.
    if rows.dtype == np.bool_:
        return tuple(array.compress(rows, axis=-1) for array in arrays)
    return tuple(np.take(array, rows, axis=-1) for array in arrays)


def bisect(
    beyond: Callable[[FloatArray], BoolArray], low: FloatArray, high: FloatArray, steps: int
) -> tuple[FloatArray, FloatArray]:
    """Halve brackets of roots ``steps`` times.

    Parameters
    ----------
    beyond : callable
        Tells which points lie above the root.
    low, high : ndarray
        Ends of the brackets; a root may be at an end.
    steps : int
        Number of halvings.

    Examples
    --------
    >>> squares = np.array([2.0, 9.0])
    >>> low, high = bisect(lambda x: x * x > squares, np.zeros(2), np.full(2, 4.0), steps=60)
    >>> high
    array([1.41421356, 3.        ])
    """
    for _ in range(steps):
        middle = 0.5 * (low + high)
        far = beyond(middle)
        low = np.where(far, low, middle)
        high = np.where(far, middle, high)
    return low, high


def newton(
    curve: Callable[..., tuple[FloatArray, FloatArray]],
    data: Sequence[FloatArray],
    low: FloatArray,
    high: FloatArray,
    start: FloatArray,
    tolerance: FloatArray,
    steps: int = 200,
) -> FloatArray:
    """Solve curve(x) = 0 by Newton steps within a shrinking bracket.

    Parameters
    ----------
    curve : callable
        Maps x (n,) and the ``data`` of the same n equations to values, rising in x, and slopes.
        Where a value is not finite, or a slope not positive, the bracket is halved instead.
    data : sequence of arrays of shape (…, n)
        Parameters of the equations; the last axis is that of the equations.
    low, high, start : ndarray of shape (n,)
        Brackets (``high`` may be infinite) and first guesses.
    tolerance : ndarray of shape (n,)
        Size of the last step; convergence is quadratic, so the remaining error is about its square.
    steps : int
        Upper limit on the number of evaluations.

    Examples
    --------
    >>> squares = np.array([2.0, 9.0])
    >>> newton(lambda x, c: (x * x - c, 2 * x), [squares],
    ...        np.zeros(2), squares, squares, np.full(2, 1e-8))
    array([1.41421356, 3.        ])
    """
    x = np.clip(start, low, high)
    root = x.copy()
    rows = np.arange(len(x))
    done = np.zeros(len(x), dtype=bool)
    before = np.full(len(x), np.inf)
    for _ in range(steps):
        with np.errstate(all="ignore"):
            value, slope = curve(x, *data)
            far = value > 0
            low = np.where(far, low, x)
            high = np.where(far, x, high)
            move = -value / slope
            inside = (
                (slope > 0)
                & (x + move >= low)
                & (x + move <= high)
                & (np.abs(move) < 0.75 * before)
            )
            middle = np.where(np.isinf(high), 2.0 * np.maximum(low, 1.0), 0.5 * (low + high))
            following = np.where(inside, x + move, middle)
            closed = (high - low <= ROUNDING * np.abs(high)) & (high < np.inf)
            settled = (inside & (np.abs(move) <= tolerance)) | closed
            before = np.abs(following - x)
        x = np.where(done, x, following)
        done = done | settled
        root[rows] = x
        n_open = len(done) - np.count_nonzero(done)
        if n_open == 0:
            break
        if n_open < 0.7 * len(done):
            kept = ~done
            data = among(kept, *data)
            rows, x, low, high, before, tolerance, done = among(
                kept, rows, x, low, high, before, tolerance, done
            )
    return root
