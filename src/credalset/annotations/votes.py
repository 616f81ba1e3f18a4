"""Votes and counts in, label distributions out: the data every calibration starts from.

Tables are read by duck typing, so pandas, polars and pyarrow are never imported here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from credalset._typing import AnyArray, ArrayLike, FloatArray, IntArray
from credalset._validation import as_counts, as_distributions, as_matrix
from credalset.annotations.table import (
    LARGEST_EXACT_COUNT,
    Column,
    Names,
    align,
    as_names,
    check_option,
    counted_rows,
    default_classes,
    find_columns,
    positions,
    recover_counts,
)

__all__ = ["Annotations"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Annotations:
    r"""Annotation counts of n items over K classes, and the label distributions they estimate.

    With $c_{ik}$ votes for class k on item i, the label distribution of the item is the share of votes
    $\lambda_{ik} = c_{ik} / \sum_j c_{ij}$. Build instances with `from_table`, `from_counts` or
    `from_distributions`; they do not change, and arrays are handed out as copies.

    Attributes
    ----------
    classes : tuple
        Names of the K classes, in column order.
    items : tuple
        Names of the n items, in row order.

    Examples
    --------
    >>> from credalset.annotations import Annotations
    >>> table = {
    ...     "task": ["t1", "t1", "t1", "t2", "t2"],
    ...     "worker": ["ann", "bob", "eve", "ann", "bob"],
    ...     "label": ["cat", "dog", "cat", "dog", "dog"],
    ... }
    >>> votes = Annotations.from_table(table)
    >>> votes
    Annotations(2 items, 2 classes: 'cat', 'dog'; 5 votes, 2 to 3 per item)
    >>> votes.distributions.round(2)
    array([[0.67, 0.33],
           [0.  , 1.  ]])
    """

    classes: tuple[Hashable, ...]
    items: tuple[Hashable, ...]
    _matrix: AnyArray  # int64 counts, or float64 distributions when the counts are unknown

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        task: Hashable = "task",
        worker: Hashable | None = "worker",
        label: Hashable = "label",
        classes: Names | None = None,
        items: Names | None = None,
        duplicates: Literal["last", "first", "error", "keep"] = "last",
        unknown: Literal["error", "drop"] = "error",
        missing: Literal["error", "drop"] = "error",
    ) -> Annotations:
        """Count the votes of a long table with one row per vote (the crowd-kit convention).

        Missing values are handled first, then unknown labels and tasks, then repeated votes, so that an unusable
        row never overrules a usable one. An item that loses all its votes stays as an empty item.

        Parameters
        ----------
        table : pandas, polars or pyarrow table, mapping of columns, or list of rows
            Rows are tuples (task, worker, label), or (task, label) where the worker is not known.
        task, worker, label : column names
            With ``worker=None``, or in a table without a column "worker", workers are not known: every row is one
            vote, as repeated votes cannot be told apart, and ``duplicates="error"`` is refused.
        classes : iterable, optional
            Class names in the wanted order. By default the categories, in their order, of a pandas
            Categorical, polars Enum or ordered Arrow dictionary; otherwise the labels that occur, sorted.
        items : iterable, optional
            Item names in the wanted order; those without a vote become empty items (rows of zeros, see
            `drop_empty`). By default the tasks in order of first appearance.
        duplicates : {"last", "first", "error", "keep"}
            Several votes of one worker on one task: count the last in table order (a correction), the first,
            raise, or keep and count every one.
        unknown : {"error", "drop"}
            Rows whose label is not in ``classes`` or whose task is not in ``items``: raise or leave out.
        missing : {"error", "drop"}
            Rows where task, worker or label is None, NaN, NaT, ``pandas.NA`` or null: raise or leave out.

        Examples
        --------
        >>> rows = [("t1", "ann", "cat"), ("t1", "ann", "dog"), ("t2", "bob", "dog")]
        >>> Annotations.from_table(rows, duplicates="first", items=["t2", "t1", "t3"]).counts
        array([[0, 1],
               [1, 0],
               [0, 0]])
        """
        check_option(duplicates, "duplicates", ("last", "first", "error", "keep"))
        check_option(unknown, "unknown", ("error", "drop"))
        check_option(missing, "missing", ("error", "drop"))
        raw = find_columns(table, task, worker, label)
        columns = {name: Column.encode(name, column) for name, column in raw.items()}
        kept = np.ones(len(columns["task"].codes), dtype=np.bool_)
        for column in columns.values():
            kept = column.filter(kept, column.missing, missing, "that are missing", "Fill them in, or pass missing")
        class_names = as_names(
            default_classes(raw["label"], columns["label"]) if classes is None else classes, "classes"
        )
        item_names = as_names(columns["task"].present() if items is None else items, "items")
        if len(class_names) < 2:
            raise ValueError(
                f"classes must be at least 2, but there are {len(class_names)}: {list(class_names)}. "
                "Pass classes=[...] with every label that could have been chosen."
            )
        cells = []
        for column, names, argument in (
            (columns["task"], item_names, "items"),
            (columns["label"], class_names, "classes"),
        ):
            position = positions(column.values, names)[column.codes]
            advice = f"Correct them, extend {argument}, or pass unknown"
            kept = column.filter(kept, position < 0, unknown, f"that are not in {argument}", advice)
            cells.append(position)
        rows = counted_rows(np.flatnonzero(kept), columns, duplicates)
        shape = (len(item_names), len(class_names))
        flat = cells[0][rows] * shape[1] + cells[1][rows]
        counts = np.bincount(flat, minlength=shape[0] * shape[1]).astype(np.int64).reshape(shape)
        return cls(classes=class_names, items=item_names, _matrix=counts)

    @classmethod
    def from_counts(cls, counts: Any, *, classes: Names | None = None, items: Names | None = None) -> Annotations:
        """Wrap a count matrix of shape (n, K). Rows of zeros become empty items (see `drop_empty`).

        Parameters
        ----------
        counts : array-like or data frame of shape (n, K)
            Non-negative whole numbers. The column names of a data frame name the classes, the index of a
            pandas one names the items.
        classes, items : iterable, optional
            Names; 0, 1, 2, … by default. Columns or rows of a data frame that has the same names in another
            order are put into the order given here; its default names 0, 1, 2, … are replaced.

        Examples
        --------
        >>> Annotations.from_counts([[3, 1], [0, 5]], classes=["no", "yes"])
        Annotations(2 items, 2 classes: 'no', 'yes'; 9 votes, 4 to 5 per item)
        """
        matrix = as_matrix(counts, "counts")
        # as_counts refuses empty items, which are welcome here: hide them from its check.
        as_counts(np.where(matrix.any(axis=1, keepdims=True), matrix, 1.0), "counts")
        if matrix.size and matrix.max() >= LARGEST_EXACT_COUNT:
            raise ValueError(f"counts holds {matrix.max():.6g}, too large for a number of votes. Check the units.")
        return cls._named(counts, matrix.astype(np.int64), classes, items)

    @classmethod
    def from_distributions(
        cls,
        distributions: Any,
        *,
        n_votes: ArrayLike | None = None,
        classes: Names | None = None,
        items: Names | None = None,
    ) -> Annotations:
        """Wrap label distributions of shape (n, K), with or without the numbers of votes behind them.

        Parameters
        ----------
        distributions : array-like or data frame of shape (n, K)
            Rows sum to one. Names are read from a data frame as in `from_counts`.
        n_votes : int or array-like of shape (n,), optional
            Votes per item. The counts are then ``distributions * n_votes``, which must be whole numbers to
            within 0.001. Without it the counts stay unknown and `counts` raises.
        classes, items : iterable, optional
            Names, as in `from_counts`.

        Examples
        --------
        >>> Annotations.from_distributions([[0.75, 0.25], [0.5, 0.5]], n_votes=4).counts
        array([[3, 1],
               [2, 2]])
        """
        matrix = as_distributions(distributions, "distributions")
        values = matrix if n_votes is None else recover_counts(matrix, n_votes)
        return cls._named(distributions, values, classes, items)

    @classmethod
    def _named(cls, source: Any, matrix: AnyArray, classes: Names | None, items: Names | None) -> Annotations:
        columns = getattr(source, "column_names", getattr(source, "columns", None))
        index = None if columns is None else getattr(source, "index", None)
        class_names, column_order = align(columns, classes, "classes", matrix.shape[1])
        item_names, row_order = align(index, items, "items", matrix.shape[0])
        # Indexing by arrays copies, so later changes to the source do not reach the annotations.
        return cls(classes=class_names, items=item_names, _matrix=matrix[row_order][:, column_order])

    @property
    def has_counts(self) -> bool:
        """Whether the numbers of votes are known."""
        return bool(self._matrix.dtype.kind == "i")

    @property
    def counts(self) -> IntArray:
        """Votes per item and class, int64 of shape (n, K)."""
        if not self.has_counts:
            raise ValueError(
                "counts are unknown: these annotations were built from distributions alone. "
                "Pass n_votes to Annotations.from_distributions, or use .distributions."
            )
        return self._matrix.copy()

    @property
    def n_votes(self) -> IntArray:
        """Votes per item, int64 of shape (n,)."""
        votes: IntArray = self.counts.sum(axis=1)
        return votes

    @property
    def distributions(self) -> FloatArray:
        """Share of votes per item and class, float64 of shape (n, K); refuses empty items."""
        if not self.has_counts:
            return self._matrix.copy()
        votes = self.n_votes
        empty = np.flatnonzero(votes == 0)
        if len(empty):
            who = "1 item has" if len(empty) == 1 else f"{len(empty)} items have"
            raise ValueError(
                f"{who} no votes (first: {self.items[empty[0]]!r}) and so no label distribution. "
                "Leave such items out with .drop_empty()."
            )
        shares: FloatArray = self._matrix / votes[:, None]
        return shares

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.classes)

    def drop_empty(self) -> Annotations:
        """Leave out the items without votes.

        Examples
        --------
        >>> Annotations.from_counts([[1, 1], [0, 0]], items=["a", "b"]).drop_empty().items
        ('a',)
        """
        return self[self.n_votes > 0] if self.has_counts else self

    def select(self, items: Iterable[Hashable]) -> Annotations:
        """Take items by name, in the order given; ``votes[...]`` takes them by position.

        Examples
        --------
        >>> votes = Annotations.from_counts([[1, 1], [0, 3]], items=["a", "b"])
        >>> votes.select(["b"]).counts
        array([[0, 3]])
        """
        if len(set(self.items)) < len(self):
            raise ValueError("items repeat here, so names do not tell them apart. Take positions: votes[...].")
        wanted = as_names(items, "items")
        rows = positions(wanted, self.items)
        if (rows < 0).any():
            raise ValueError(
                f"items has {(rows < 0).sum()} name(s) that are not among the {len(self)} annotated items "
                f"(first: {wanted[int(rows.argmin())]!r}). For positions or a mask use votes[...]."
            )
        return self[rows]

    def reorder(self, classes: Iterable[Hashable]) -> Annotations:
        """Put the classes, and with them the columns, into the order given.

        Examples
        --------
        >>> Annotations.from_counts([[3, 1]], classes=["no", "yes"]).reorder(["yes", "no"]).counts
        array([[1, 3]])
        """
        names = as_names(classes, "classes")
        if set(names) != set(self.classes):
            raise ValueError(
                f"classes must be the names {list(self.classes)} in some order, but is {list(names)}. "
                "To rename classes, pass the counts to Annotations.from_counts."
            )
        return replace(self, classes=names, _matrix=self._matrix[:, positions(names, self.classes)])

    def to_dict(
        self, values: Literal["counts", "distributions"] = "counts", *, item: str = "item"
    ) -> dict[Hashable, list[Any]]:
        """Return columns for a data frame: the items under the name ``item``, then one column per class.

        Examples
        --------
        >>> Annotations.from_counts([[3, 1]], classes=["no", "yes"], items=["a"]).to_dict()
        {'item': ['a'], 'no': [3], 'yes': [1]}
        """
        check_option(values, "values", ("counts", "distributions"))
        if item in self.classes:
            raise ValueError(f"item={item!r} is also the name of a class. Choose another name for the item column.")
        matrix = self.counts if values == "counts" else self.distributions
        return {item: list(self.items), **dict(zip(self.classes, matrix.T.tolist(), strict=True))}

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: int | slice | ArrayLike) -> Annotations:
        """Take items by position: an int (one item), a slice, a boolean mask or an array of ints."""
        rows: AnyArray = np.arange(len(self))
        if isinstance(key, slice):
            rows = rows[key]
        else:
            index = np.asarray(key)
            index = index.astype(np.int64) if index.size == 0 else np.atleast_1d(index)
            if index.dtype.kind not in "biu" or index.ndim != 1:
                raise TypeError(
                    "Annotations take an int, a slice, a boolean mask or a 1-d array of ints as an index, but got "
                    f"{key!r}. Use .select(items) to take items by name."
                )
            if index.dtype.kind == "b" and len(index) != len(self):
                raise ValueError(f"The mask has length {len(index)}, but there are {len(self)} items.")
            rows = rows[index]
        return replace(self, items=tuple(self.items[row] for row in rows), _matrix=self._matrix[rows])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Annotations):
            return NotImplemented
        named_alike = self.classes == other.classes and self.items == other.items
        return named_alike and self.has_counts == other.has_counts and np.array_equal(self._matrix, other._matrix)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        plain = [name.item() if isinstance(name, np.generic) else name for name in self.classes[:6]]
        names = ", ".join(map(repr, plain)) + (", …" if self.n_classes > 6 else "")
        size = f"{len(self)} item{'' if len(self) == 1 else 's'}, {self.n_classes} classes: {names}"
        if not self.has_counts:
            return f"Annotations({size}; label distributions, vote counts unknown)"
        votes = self.n_votes
        text = f"{size}; {votes.sum()} vote{'' if votes.sum() == 1 else 's'}"
        if len(votes):
            low, high = votes.min(), votes.max()
            text += f", {low} per item" if low == high else f", {low} to {high} per item"
        empty = int((votes == 0).sum())
        return f"Annotations({text}{f', {empty} without votes' if empty else ''})"
