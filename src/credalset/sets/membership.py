"""Which distributions belong to which sets, computed from the score in blocks of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credalset._blocks import gather_blocks
from credalset._typing import BoolArray, FloatArray
from credalset._validation import as_numbers
from credalset.simplex import grid
from credalset.votes.names import Names, item_names, read_labels

if TYPE_CHECKING:
    from credalset.sets.credal_set import CredalSet

PAIRS_PER_BLOCK = 1 << 17  # (set, distribution) pairs evaluated at a time


def contains(sets: CredalSet, distribution: Any, broadcast: bool) -> BoolArray:
    """Tell which distributions belong to which sets; see `CredalSet.contains`."""
    if not broadcast and getattr(distribution, "ndim", 2) == 3:
        array = as_numbers(distribution, "distribution")
        n, m, k = array.shape
        if n != len(sets):
            raise ValueError(
                f"distribution must have one block per set ({len(sets)}), but has shape "
                f"{array.shape}."
            )
        return contains_pairs(sets, _read(sets, array.reshape(n * m, k), None).reshape(n, m, -1))
    candidates = _read(sets, distribution, item_names(distribution) if broadcast else sets.items)
    if broadcast:
        return contains_pairs(sets, candidates[None])
    if len(candidates) != len(sets):
        raise ValueError(
            f"distribution has {len(candidates)} rows, but there are {len(sets)} sets. "
            "Pass broadcast=True to compare every row with every set."
        )
    return np.asarray(sets.score.evaluate_rows(sets.prediction, candidates) <= sets.threshold)


def _read(sets: CredalSet, distribution: Any, items: Names | None) -> FloatArray:
    return read_labels(
        distribution,
        items=items,
        classes=sets.classes,
        n_classes=sets.n_classes,
        name="distribution",
        like="the sets",
    ).distributions


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
