"""Draw votes of items at random, without replacement."""

from __future__ import annotations

import numpy as np

from credalset._typing import FloatArray, IntArray


def draw_votes(
    counts: FloatArray, numbers: tuple[int, ...], generator: np.random.Generator
) -> dict[int, FloatArray]:
    """Draw votes of each item; return the first h votes of the same draw for each number h.

    All votes are drawn of an item that has fewer.
    """
    left = counts.copy()
    drawn = np.zeros_like(counts)
    found = {}
    for step in range(max(numbers) + 1):
        if step in numbers:
            found[step] = drawn.copy()
        rows = np.flatnonzero(left.sum(axis=1) > 0)
        # One number for every item, so that the draws of an item do not depend on other items.
        chosen = draw_one(left[rows], generator.random(len(left))[rows])
        drawn[rows, chosen] += 1
        left[rows, chosen] -= 1
    return found


def draw_one(counts: FloatArray, uniform: FloatArray) -> IntArray:
    """Draw one vote of each item by a uniform number of its own; return its class, (N,)."""
    number = np.floor(uniform * counts.sum(axis=1))
    return (np.cumsum(counts, axis=1) <= number[:, None]).sum(axis=1)
