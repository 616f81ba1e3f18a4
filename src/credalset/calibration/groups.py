"""Groups of items with a threshold each (Mondrian calibration)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from credalset._typing import ArrayLike, BoolArray, FloatArray, IntArray
from credalset._validation import as_counts
from credalset.scores import Score

#: the value of ``groups`` that stands for the most probable class of the (mean) predicted distribution
PREDICTED = "predicted"


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of the calibration items.

    Attributes
    ----------
    keys : tuple
        The groups in order of first appearance.
    codes : ndarray of shape (n,)
        Position in ``keys`` of each item's group.
    predicted : bool
        Whether groups are predicted classes, which `Calibration` works out by itself.
    """

    keys: tuple[Any, ...]
    codes: IntArray
    predicted: bool = False

    @classmethod
    def read(cls, groups: Any, score: Score, prediction: FloatArray) -> Groups:
        """Build groups from one key per item, or from ``"predicted"``."""
        names = item_keys(groups, score, prediction)
        position: dict[Hashable, int] = {}
        codes = [position.setdefault(name, len(position)) for name in names]
        return cls(tuple(position), np.array(codes, dtype=np.int64), predicted=is_predicted(groups))

    def pool(self, key: Hashable, min_size: int, kept: BoolArray) -> tuple[list[int], bool]:
        """Return the positions of the groups whose items set the threshold for a new item of this group.

        Only the items marked in ``kept`` count, and the new item with them. Groups with fewer than ``min_size`` items
        then share one threshold, together with the next smallest groups if they are still too few. The rule treats all
        these items alike, so, given the group sizes, those in the pool are exchangeable and its guarantee is exact.

        Returns
        -------
        tuple
            The positions, and whether they are a pool rather than the group alone.
        """
        sizes = dict.fromkeys(self.keys, 0) | {key: 0}
        for code, size in enumerate(np.bincount(self.codes[kept], minlength=len(self.keys)).tolist()):
            sizes[self.keys[code]] = size
        sizes[key] += 1
        by_size = sorted(sizes, key=lambda name: (sizes[name], str(name)))
        pooled, total = [], 0
        for name in by_size:
            if sizes[name] >= min_size and (total == 0 or total >= min_size):
                break
            pooled.append(name)
            total += sizes[name]
        if key not in pooled:
            return [code for code, name in enumerate(self.keys) if name == key], False
        return [code for code, name in enumerate(self.keys) if name in pooled], True


def item_keys(groups: Any, score: Score, prediction: FloatArray) -> list[Any]:
    """Return one hashable key per item."""
    if is_predicted(groups):
        return [int(k) for k in score.mean(prediction).argmax(axis=1)]
    if isinstance(groups, str) or not hasattr(groups, "__len__"):
        raise TypeError(f"groups must be one key per item or {PREDICTED!r}, but is {groups!r}.")
    keys = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    keys = [tuple(key) if isinstance(key, list) else key for key in keys]
    if len(keys) != len(prediction):
        raise ValueError(f"groups must hold one key per item ({len(prediction)}), but holds {len(keys)}.")
    odd = [key for key in keys if not isinstance(key, Hashable)]
    if odd:
        raise TypeError(f"groups must hold hashable keys such as text or numbers, but one is {odd[0]!r}.")
    missing = [row for row, key in enumerate(keys) if key is None or key != key]
    if missing:
        raise ValueError(f"groups has no key in row {missing[0]}. Give items without a group a name of their own.")
    return keys


def vote_bands(counts: ArrayLike, edges: Sequence[int] = (2, 5, 10, 50)) -> list[str]:
    """Name the band of vote numbers that each item falls into, for use as ``groups``.

    Parameters
    ----------
    counts : array of shape (n, K)
        Annotation counts.
    edges : sequence of increasing whole numbers
        Where a new band begins.

    Examples
    --------
    >>> vote_bands([[1, 0], [2, 1], [60, 40]])
    ['1 vote', '2-4 votes', '50+ votes']
    """
    votes = as_counts(counts, "counts").sum(axis=1)
    starts = [1, *(int(edge) for edge in edges)]
    if (np.diff(starts) <= 0).any():
        raise ValueError(f"edges must be increasing whole numbers above 1, but is {list(edges)}.")
    names = [f"{a}-{b - 1} votes" if b - 1 > a else f"{a} vote{'s' * (a > 1)}" for a, b in pairwise(starts)]
    names.append(f"{starts[-1]}+ votes")
    return [names[i] for i in np.searchsorted(starts, votes, side="right") - 1]


def is_predicted(groups: Any) -> bool:
    """Tell whether groups are the predicted classes."""
    return isinstance(groups, str) and groups == PREDICTED
