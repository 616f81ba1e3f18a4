"""Which distributions belong to which sets, computed from the score in blocks of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credalset._blocks import gather_blocks
from credalset._typing import BoolArray, FloatArray
from credalset._validation import as_numbers
from credalset.simplex import grid

if TYPE_CHECKING:
    from credalset.sets.credal_set import CredalSet

PAIRS_PER_BLOCK = 1 << 17  # (set, distribution) pairs evaluated at a time


def contains(sets: CredalSet, distribution: Any, broadcast: bool) -> BoolArray:
    """Tell which distributions belong to which sets; see `CredalSet.contains`."""
    if broadcast:
        candidates = sets._batch.candidates(distribution, "distribution")
        return contains_pairs(sets, candidates[None])
    if getattr(distribution, "ndim", 2) == 3:
        array = as_numbers(distribution, "distribution")
        n, m, k = array.shape
        if n != len(sets):
            raise ValueError(
                f"distribution must have one block per set ({len(sets)}), but has shape "
                f"{array.shape}."
            )
        candidates = sets._batch.candidates(array.reshape(n * m, k), "distribution")
        return contains_pairs(sets, candidates.reshape(n, m, -1))
    return contains_rows(sets, sets._batch.votes(distribution, "distribution").distributions)


def contains_rows(sets: CredalSet, distributions: FloatArray) -> BoolArray:
    """Tell whether each set contains the valid distribution in its row, (N,)."""
    scores = sets.score.evaluate_rows(sets.prediction, distributions)
    return np.asarray(scores <= sets.threshold)


def contains_pairs(sets: CredalSet, points: FloatArray) -> BoolArray:
    """Tell which distributions (N, M, K), or (1, M, K) for all, belong to each set, (N, M)."""

    def one_block(rows: slice) -> BoolArray:
        mine = points if len(points) == 1 else points[rows]
        return np.asarray(
            sets.score.evaluate_pairs(sets.prediction[rows], mine) <= sets.threshold[rows, None]
        )

    return np.asarray(gather_blocks(one_block, len(sets), points.shape[1], PAIRS_PER_BLOCK))


def efficiency(sets: CredalSet, resolution: float) -> FloatArray:
    """Return the fraction of the simplex grid that lies in each set; see `CredalSet.efficiency`."""
    points = grid(sets.n_classes, resolution)[None]

    def one_block(rows: slice) -> FloatArray:
        return np.asarray(contains_pairs(sets[rows], points).mean(axis=1))

    return np.asarray(gather_blocks(one_block, len(sets), points.shape[1], PAIRS_PER_BLOCK))
