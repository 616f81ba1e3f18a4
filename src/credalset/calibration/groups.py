"""Groups of items with a threshold each (Mondrian calibration)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.annotations.labels import Labels, shown
from credalset.exceptions import warn
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

    def pool(self, key: Hashable, min_size: int, kept: BoolArray) -> Pool:
        """Return the groups whose items set the threshold for a new item of this group.

        Only the items marked in ``kept`` count, and the new item with them. Groups with fewer than ``min_size`` items
        then share one threshold, together with the next smallest groups if they are still too few. The rule treats all
        these items alike, so, given the group sizes, those in the pool are exchangeable and its guarantee is exact.
        """
        numbers = np.bincount(self.codes[kept], minlength=len(self.keys)).tolist()
        sizes = dict(zip(self.keys, numbers, strict=True))
        sizes[key] = sizes.get(key, 0) + 1
        pooled: list[Hashable] = []
        total = 0
        for name in sorted(sizes, key=lambda name: (sizes[name], str(name))):
            if sizes[name] >= min_size and (total == 0 or total >= min_size):
                break
            pooled.append(name)
            total += sizes[name]
        if key not in pooled:
            return Pool(self.positions([key]))
        small = [name for name in pooled if sizes[name] < min_size]
        return Pool(self.positions(pooled), small, [name for name in pooled if name not in small])

    def positions(self, names: Sequence[Hashable]) -> tuple[int, ...]:
        """Return the positions of groups in ``keys``; those without an item have none."""
        return tuple(code for code, key in enumerate(self.keys) if key in names)


class Pool(NamedTuple):
    """Groups that share a threshold: their positions, which are too small for one of their own, and which joined."""

    codes: tuple[int, ...]
    small: Sequence[Hashable] = ()
    joined: Sequence[Hashable] = ()


def warn_pooled(pools: Sequence[Pool], alpha: float) -> None:
    """Warn of groups that are too small for a threshold of their own, and say with whom they share."""
    small = list(dict.fromkeys(key for pool in pools for key in pool.small))
    joined = [key for key in dict.fromkeys(key for pool in pools for key in pool.joined) if key not in small]
    if len(small) + len(joined) < 2:
        return  # nobody to share with
    who = f"group {shown(small)} is" if len(small) == 1 else f"groups {shown(small)} are"
    share = "shares" if len(small) == 1 else "share"
    partners = f" with {shown(joined)}, large enough but next in size" if joined else ""
    warn(
        f"the {who} too small for alpha={alpha:g} and {share} one threshold{partners}. "
        "The guarantee holds for them together, not one by one."
    )


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


def vote_bands(counts: Any, edges: Sequence[int] = (2, 5, 10, 50)) -> list[str]:
    """Name the band of vote numbers that each item falls into, for use as ``groups``.

    Parameters
    ----------
    counts : array of shape (n, K) or Annotations
        Annotation counts.
    edges : sequence of increasing whole numbers
        Where a new band begins.

    Examples
    --------
    >>> vote_bands([[1, 0], [2, 1], [60, 40]])
    ['1 vote', '2-4 votes', '50+ votes']
    """
    votes = Labels.read(counts, "counts").votes("counts", "vote_bands").sum(axis=1)
    starts = [1, *(int(edge) for edge in edges)]
    if (np.diff(starts) <= 0).any():
        raise ValueError(f"edges must be increasing whole numbers above 1, but is {list(edges)}.")
    names = [f"{a}-{b - 1} votes" if b - 1 > a else f"{a} vote{'s' * (a > 1)}" for a, b in pairwise(starts)]
    names.append(f"{starts[-1]}+ votes")
    return [names[i] for i in np.searchsorted(starts, votes, side="right") - 1]


def is_predicted(groups: Any) -> bool:
    """Tell whether groups are the predicted classes."""
    return isinstance(groups, str) and groups == PREDICTED
