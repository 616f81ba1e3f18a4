"""A batch of label sets, with the names of classes and items."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from credalset._guessing import Hinting
from credalset._typing import AnyArray, BoolArray, FloatArray, IntArray
from credalset.annotations.labels import Labels, plain_names, shown
from credalset.exceptions import need
from credalset.sets.columns import label_lists, write_csv


@dataclass(frozen=True, eq=False, repr=False)
class LabelSets(Hinting):
    """N sets of labels over K classes.

    Attributes
    ----------
    members : ndarray of shape (N, K)
        Whether each label is in the set.
    classes : tuple or None
        Names of the classes in column order, when they are known.
    items : ndarray of shape (N,) or None
        Names of the items, when they are known.

    Examples
    --------
    >>> sets = LabelSets(np.array([[True, True, False], [False, True, False]]), ("fine", "rude", "hateful"))
    >>> sets
    LabelSets: 2 sets over 3 classes, 1.5 labels on average
    >>> sets.names()
    [['fine', 'rude'], ['rude']]
    >>> sets.contains(["hateful", "rude"])
    array([False,  True])
    >>> sets.share([[5, 3, 2], [1, 8, 1]])  # of each item's votes
    array([0.8, 0.8])
    """

    _hints: ClassVar[dict[str, str]] = {
        "labels": "Ask names().",
        "coverage": "Ask contains(labels).mean(), or share(votes).mean() for votes.",
        "size": "Ask sizes().",
    }

    members: BoolArray
    classes: tuple[Any, ...] | None = None
    items: AnyArray | None = None

    def __len__(self) -> int:
        """Number of sets."""
        return len(self.members)

    def __getitem__(self, rows: Any) -> LabelSets:
        """Return some of the sets; one set is a batch of one."""
        which: Any = [rows] if isinstance(rows, int | np.integer) else rows
        return replace(self, members=self.members[which], items=None if self.items is None else self.items[which])

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.members.shape[1])

    def sizes(self) -> IntArray:
        """Return the number of labels in each set, (N,)."""
        return self.members.sum(axis=1)

    def is_empty(self) -> BoolArray:
        """Tell which sets hold no label, (N,): items to which no label conforms."""
        return np.asarray(~self.members.any(axis=1))

    def names(self) -> list[list[Any]]:
        """Return the labels of each set by name."""
        return label_lists(self.members, self._names())

    def contains(self, labels: Any) -> BoolArray:
        """Tell whether the label of each item is in its set, (N,).

        Parameters
        ----------
        labels : sequence of N labels
            Names of classes, or their numbers where classes have no names.
        """
        wanted = plain_names(labels)
        if len(wanted) != len(self):
            raise ValueError(f"labels must hold one label for each of the {len(self)} sets, but holds {len(wanted)}.")
        position = {name: k for k, name in enumerate(self._names())}
        unknown = [name for name in dict.fromkeys(wanted) if name not in position]
        if unknown:
            raise ValueError(f"labels holds {shown(unknown)}, but the classes are {shown(list(position))}.")
        columns = np.array([position[name] for name in wanted], dtype=np.int64)
        return self.members[np.arange(len(self)), columns]

    def share(self, labels: Any) -> FloatArray:
        """Return the share of each item's votes that are for a label of its set, (N,).

        Its mean over items is the coverage of the label of an annotator asked at random.

        Parameters
        ----------
        labels : array of shape (N, K) or Annotations
            Annotation counts or label distributions; classes and items are matched by name where both have names.
        """
        found = Labels.read(labels, classes=self.classes, like="the label sets", n_classes=self.n_classes)
        found = found.matching(self.items, "labels", "the label sets")
        if len(found) != len(self):
            raise ValueError(f"labels must hold one row for each of the {len(self)} sets, but holds {len(found)}.")
        return (found.distributions * self.members).sum(axis=1)

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per set: the item, its labels by name, and their number."""
        items = list(range(len(self))) if self.items is None else self.items
        return need("pandas").DataFrame({"item": items, "labels": self.names(), "n_labels": self.sizes()})

    def to_csv(self, path: str | Path, *, sep: str = ",", decimal: str = ".", encoding: str = "utf-8") -> None:
        """Write the table of `to_frame`; labels are joined by ``|``."""
        write_csv(self.to_frame(), path, sep, decimal, encoding)

    def _names(self) -> tuple[Any, ...]:
        return tuple(range(self.n_classes)) if self.classes is None else self.classes

    def __repr__(self) -> str:
        text = f"LabelSets: {len(self)} sets over {self.n_classes} classes"
        if not len(self):
            return text
        n_empty = int(self.is_empty().sum())
        return f"{text}, {self.sizes().mean():.3g} labels on average" + (f", {n_empty} empty" if n_empty else "")
