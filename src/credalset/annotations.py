"""Votes and counts in, label distributions out: the data every calibration starts from.

Tables are read by duck typing, so pandas, polars and pyarrow are never imported here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from credalset._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IntArray
from credalset._validation import as_counts, as_distributions, as_matrix

__all__ = ["Annotations"]

# Recovered counts may miss a whole number by this much. A wrong n_votes misses by at least 1 / (true votes),
# so mistakes are noticed up to a thousand votes per item, while float32 frequencies still pass.
WHOLE_TOLERANCE = 1e-3
LARGEST_EXACT_COUNT = 2.0**53


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Annotations:
    r"""Annotation counts of n items over K classes, and the label distributions they estimate.

    With :math:`c_{ik}` votes for class k on item i, the label distribution of the item is the share of votes

    .. math:: \lambda_{ik} = c_{ik} / \sum_{j=1}^{K} c_{ij}.

    Build one with `from_table`, `from_counts` or `from_distributions`; instances do not change. Arrays are handed
    out as copies: keep ``d = votes.distributions`` in a variable rather than asking for it in a loop.

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
    >>> votes.counts
    array([[2, 1],
           [0, 2]])
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
        classes: Iterable[Hashable] | None = None,
        items: Iterable[Hashable] | None = None,
        duplicates: Literal["last", "first", "error", "keep"] = "last",
        unknown: Literal["error", "drop"] = "error",
        missing: Literal["error", "drop"] = "error",
    ) -> Annotations:
        """Count the votes of a long table with one row per vote (the crowd-kit convention).

        Rows with missing values are handled first, then unknown labels and tasks, then repeated votes; so an
        unusable row never overrules a usable one. An item that loses all its votes on the way stays as an empty
        item: nothing disappears unseen (see `drop_empty`).

        Parameters
        ----------
        table : pandas, polars or pyarrow table, mapping of columns, or sequence of rows
            Rows are tuples (task, worker, label), or (task, label) where the worker is not known.
        task, worker, label : column names
            Use ``worker=None``, or a table without a column "worker", if workers are not known. Each row then
            counts as one vote, as repeated votes cannot be told apart; ``duplicates="error"`` is refused.
        classes : iterable, optional
            Class names in the wanted order. By default the categories, in their order, of a pandas Categorical,
            polars Enum or ordered Arrow dictionary; otherwise the labels that occur, sorted.
        items : iterable, optional
            Item names in the wanted order; those without a vote become empty items (rows of zeros). By default
            the tasks in order of first appearance.
        duplicates : {"last", "first", "error", "keep"}
            Several votes of one worker on one task: count the last in table order (a correction), the first,
            raise, or keep and count every one.
        unknown : {"error", "drop"}
            Rows whose label is not in ``classes`` or whose task is not in ``items``: raise or leave out.
        missing : {"error", "drop"}
            Rows where task, worker or label is None, NaN, NaT, ``pandas.NA`` or null: raise or leave out.

        Returns
        -------
        Annotations
            One row per item and one column per class.

        Examples
        --------
        >>> rows = [("t1", "ann", "cat"), ("t1", "ann", "dog"), ("t2", "bob", "dog")]
        >>> Annotations.from_table(rows, classes=["cat", "dog"]).counts
        array([[0, 1],
               [0, 1]])
        >>> Annotations.from_table(rows, duplicates="first", items=["t2", "t1", "t3"]).counts
        array([[0, 1],
               [1, 0],
               [0, 0]])
        """
        _check_option(duplicates, "duplicates", ("last", "first", "error", "keep"))
        _check_option(unknown, "unknown", ("error", "drop"))
        _check_option(missing, "missing", ("error", "drop"))
        columns = _columns(table, task, worker, label)
        coded = {name: _encode(_as_list(column), name) for name, column in columns.items()}
        present = _present_rows(coded, missing)

        (task_codes, tasks), (label_codes, labels) = coded["task"], coded["label"]
        if classes is None:
            classes = _categories(columns["label"])
        if classes is None:
            classes = _sorted_labels([value for value in labels if not _is_missing(value)])
        if items is None:
            items = [value for value in tasks if not _is_missing(value)]
        class_names, item_names = _as_names(classes, "classes"), _as_names(items, "items")
        _check_two_classes(class_names)

        item_of_row = _positions(tasks, item_names)[task_codes]
        class_of_row = _positions(labels, class_names)[label_codes]
        known = _known_rows(
            item_of_row, class_of_row, present, (tasks, task_codes), (labels, label_codes), unknown
        )
        rows = np.flatnonzero(present & known)
        if "worker" in coded:
            rows = _without_repeats(rows, item_of_row, coded["worker"], item_names, duplicates)
        elif duplicates == "error":
            raise ValueError(
                "duplicates='error' needs to know who voted, but the table has no worker column. Name the column "
                "with worker=..., or choose duplicates='keep' to count every row as a vote."
            )
        shape = (len(item_names), len(class_names))
        cells = item_of_row[rows] * shape[1] + class_of_row[rows]
        counts = np.bincount(cells, minlength=shape[0] * shape[1]).astype(np.int64).reshape(shape)
        return cls(classes=class_names, items=item_names, _matrix=counts)

    @classmethod
    def from_counts(
        cls,
        counts: Any,
        *,
        classes: Iterable[Hashable] | None = None,
        items: Iterable[Hashable] | None = None,
    ) -> Annotations:
        """Wrap a count matrix of shape (n, K). Rows of zeros become empty items (see `drop_empty`).

        Parameters
        ----------
        counts : array-like or data frame of shape (n, K)
            Non-negative whole numbers. The column names of a data frame name the classes, the index of a pandas
            one names the items.
        classes, items : iterable, optional
            Names; 0, 1, 2, … by default. If the data frame has the same names in another order, its columns or
            rows are put into the order given here; default names 0, 1, 2, … are replaced.

        Returns
        -------
        Annotations
            One row per item and one column per class.

        Examples
        --------
        >>> Annotations.from_counts([[3, 1], [0, 5]], classes=["no", "yes"])
        Annotations(2 items, 2 classes: 'no', 'yes'; 9 votes, 4 to 5 per item)
        """
        matrix = as_matrix(counts, "counts")
        # Only empty items are more welcome here than in as_counts, so they are hidden from its check.
        as_counts(np.where(matrix.any(axis=1, keepdims=True), matrix, 1.0), "counts")
        if matrix.size and matrix.max() >= LARGEST_EXACT_COUNT:
            raise ValueError(
                f"counts holds {matrix.max():.6g}, too large to be a number of votes. Check the units."
            )
        return cls._named(counts, matrix.astype(np.int64), classes, items)

    @classmethod
    def from_distributions(
        cls,
        distributions: Any,
        *,
        n_votes: ArrayLike | None = None,
        classes: Iterable[Hashable] | None = None,
        items: Iterable[Hashable] | None = None,
    ) -> Annotations:
        """Wrap label distributions of shape (n, K), with or without the numbers of votes behind them.

        Parameters
        ----------
        distributions : array-like or data frame of shape (n, K)
            Rows sum to one. Names are read from a data frame as in `from_counts`.
        n_votes : int or array-like of shape (n,), optional
            Votes per item. The counts are then ``distributions * n_votes``, which must be whole numbers to within
            0.001. Without it the counts stay unknown and `counts` raises.
        classes, items : iterable, optional
            Names, as in `from_counts`.

        Returns
        -------
        Annotations
            One row per item and one column per class.

        Examples
        --------
        >>> Annotations.from_distributions([[0.75, 0.25], [0.5, 0.5]], n_votes=4).counts
        array([[3, 1],
               [2, 2]])
        >>> Annotations.from_distributions([[0.75, 0.25]], classes=["no", "yes"])
        Annotations(1 item, 2 classes: 'no', 'yes'; label distributions, vote counts unknown)
        """
        matrix = as_distributions(distributions, "distributions")
        if n_votes is None:
            return cls._named(distributions, matrix.copy(), classes, items)
        return cls._named(distributions, _recover_counts(matrix, n_votes), classes, items)

    @classmethod
    def _named(
        cls,
        source: Any,
        matrix: AnyArray,
        classes: Iterable[Hashable] | None,
        items: Iterable[Hashable] | None,
    ) -> Annotations:
        columns = getattr(source, "column_names", getattr(source, "columns", None))
        index = None if columns is None else getattr(source, "index", None)
        class_names, column_order = _align(columns, classes, "classes", matrix.shape[1])
        item_names, row_order = _align(index, items, "items", matrix.shape[0])
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
        position = {name: row for row, name in enumerate(self.items)}
        if len(position) != len(self.items):
            raise ValueError(
                "items repeat here, so names do not tell them apart. Take them by position: votes[...]."
            )
        wanted = _as_names(items, "items")
        unknown = [name for name in wanted if name not in position]
        if unknown:
            raise ValueError(
                f"items names {len(unknown)} that are not among the {len(self)} annotated items "
                f"(first: {unknown[0]!r}). For positions or a mask use votes[...]."
            )
        return self[np.array([position[name] for name in wanted], dtype=np.int64)]

    def reorder(self, classes: Iterable[Hashable]) -> Annotations:
        """Put the classes, and with them the columns, into the order given.

        Examples
        --------
        >>> Annotations.from_counts([[3, 1]], classes=["no", "yes"]).reorder(["yes", "no"]).counts
        array([[1, 3]])
        """
        names, order = _align(self.classes, classes, "classes", self.n_classes, rename=False)
        return replace(self, classes=names, _matrix=self._matrix[:, order])

    def to_dict(
        self, values: Literal["counts", "distributions"] = "counts", *, item: str = "item"
    ) -> dict[Hashable, list[Any]]:
        """Return columns for a data frame: the items under the name ``item``, then one column per class.

        Examples
        --------
        >>> Annotations.from_counts([[3, 1]], classes=["no", "yes"], items=["a"]).to_dict()
        {'item': ['a'], 'no': [3], 'yes': [1]}
        """
        _check_option(values, "values", ("counts", "distributions"))
        if item in self.classes:
            raise ValueError(
                f"item={item!r} is also the name of a class. Choose another name for the item column."
            )
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
        return (
            named_alike
            and self.has_counts == other.has_counts
            and np.array_equal(self._matrix, other._matrix)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.classes[:6])) + (", …" if self.n_classes > 6 else "")
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


def _check_option(value: object, name: str, options: tuple[str, ...]) -> None:
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, but is {value!r}.")


def _check_two_classes(classes: tuple[Hashable, ...]) -> None:
    if len(classes) < 2:
        raise ValueError(
            f"At least 2 classes are needed, but there are {len(classes)}: {list(classes)}. "
            "Pass classes=[...] with every label that could have been chosen."
        )


def _columns(table: Any, task: Hashable, worker: Hashable | None, label: Hashable) -> dict[str, Any]:
    """Find the columns of any supported table, under the names task, worker (if there is one) and label."""
    get: Any = table.__getitem__ if hasattr(table, "__getitem__") else None
    if isinstance(table, Mapping):
        available = list(table)
    elif hasattr(table, "column_names") or hasattr(table, "columns"):
        available = list(getattr(table, "column_names", None) or table.columns)
    else:
        return _columns_from_rows(table, worker)
    if not hasattr(table, "__len__") or hasattr(table, "collect_schema") and not hasattr(table, "to_numpy"):
        raise TypeError(f"table is a lazy {type(table).__name__}. Call .collect() or .compute() on it first.")
    wanted = {"task": task, "worker": worker, "label": label}
    if worker is None or (worker == "worker" and worker not in available):
        del wanted["worker"]
    for argument, name in wanted.items():
        if name not in available:
            raise ValueError(
                f"table has no column {name!r}; its columns are {available}. Name the right one with {argument}=..."
            )
    columns = {argument: get(name) for argument, name in wanted.items()}
    for argument, column in columns.items():
        if getattr(column, "ndim", 1) != 1:
            raise ValueError(f"{argument}={wanted[argument]!r} must name one column with one value per row.")
    lengths = {argument: len(column) for argument, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"table must have columns of one length, but they have {lengths}.")
    return columns


def _columns_from_rows(rows: Any, worker: Hashable | None) -> dict[str, Any]:
    advice = "Pass a pandas, polars or pyarrow table, a dict of columns, or a list of (task, worker, label) tuples."
    if isinstance(rows, str) or not isinstance(rows, Sequence | np.ndarray):
        raise TypeError(f"table cannot be a {type(rows).__name__}. {advice}")
    if any(isinstance(row, str | Mapping) or not hasattr(row, "__len__") for row in rows):
        raise TypeError(f"table is a list whose elements are not tuples. {advice}")
    widths = {len(row) for row in rows} or {3}
    if widths not in ({2}, {3}):
        raise ValueError(
            f"table has rows of {sorted(widths)} values, where 3 (or 2, without worker) are needed. {advice}"
        )
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    named = {"task": columns[0], "label": columns[-1]}
    return named if worker is None or len(columns) == 2 else {**named, "worker": columns[1]}


def _as_list(column: Any) -> list[Any]:
    """Turn a column of any library into a list of Python values; nulls become None, NaN, NaT or NA."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "mM":
        return list(column)  # tolist would turn nanosecond times into bare integers
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, method):
            values: list[Any] = getattr(column, method)()
            return values
    return list(column)


def _encode(values: list[Any], name: str) -> tuple[IntArray, list[Any]]:
    """Number the distinct values in order of first appearance."""
    try:
        code = {value: number for number, value in enumerate(dict.fromkeys(values))}
    except TypeError as error:
        raise TypeError(
            f"The {name} column holds values that cannot be told apart by equality ({error}). Use numbers or strings."
        ) from None
    return np.fromiter(map(code.__getitem__, values), np.int64, len(values)), list(code)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # only pandas.NA refuses to say whether it differs from itself
        return True


def _present_rows(coded: dict[str, tuple[IntArray, list[Any]]], missing: str) -> BoolArray:
    """Mark the rows where nothing is missing."""
    present = np.ones(len(coded["task"][0]), dtype=np.bool_)
    for name, (codes, values) in coded.items():
        absent = np.fromiter(map(_is_missing, values), np.bool_, len(values))[codes]
        if absent.any() and missing == "error":
            raise ValueError(
                f"The {name} column has {absent.sum()} missing value(s) (first in row {absent.argmax()}). "
                "Fill them in, or pass missing='drop' to leave these votes out."
            )
        present &= ~absent
    return present


def _categories(column: Any) -> list[Any] | None:
    """Return the category order that a label column carries, if it does."""
    categories = getattr(getattr(column, "dtype", None), "categories", None)
    if categories is not None and hasattr(categories, "__len__"):
        return _as_list(categories)
    if getattr(getattr(column, "type", None), "ordered", False) and len(column):
        unified = column.unify_dictionaries().chunk(0) if hasattr(column, "unify_dictionaries") else column
        return _as_list(unified.dictionary)
    return None


def _sorted_labels(labels: list[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in labels})
        raise TypeError(
            f"The label column mixes types that have no common order ({', '.join(kinds)}). "
            "Convert the labels to one type, or pass classes=[...] in the order you want."
        ) from None


def _as_names(names: Iterable[Hashable], argument: str) -> tuple[Hashable, ...]:
    """Check that names are distinct and present."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise TypeError(f"{argument} must be a list of names, but is {names!r}.")
    values = _as_list(names)
    codes, distinct = _encode(values, argument)
    if any(map(_is_missing, distinct)):
        raise ValueError(f"{argument} contains a missing value (None or NaN). Give every one of them a name.")
    if len(distinct) < len(values):
        repeated = distinct[int(np.argmax(np.bincount(codes) > 1))]
        raise ValueError(f"{argument} must be distinct, but {repeated!r} occurs more than once.")
    return tuple(values)


def _positions(values: list[Any], names: tuple[Hashable, ...]) -> IntArray:
    """Place of each value among the names, -1 where it is none of them."""
    position = {name: number for number, name in enumerate(names)}
    return np.fromiter((position.get(value, -1) for value in values), np.int64, len(values))


def _known_rows(
    item_of_row: IntArray,
    class_of_row: IntArray,
    present: BoolArray,
    tasks: tuple[list[Any], IntArray],
    labels: tuple[list[Any], IntArray],
    unknown: str,
) -> BoolArray:
    """Mark the rows whose task is among the items and whose label is among the classes."""
    checks = (("label", "classes", class_of_row, labels), ("task", "items", item_of_row, tasks))
    for column, argument, positions, (values, codes) in checks:
        strange = present & (positions < 0)
        if strange.any() and unknown == "error":
            first = values[codes[strange.argmax()]]
            raise ValueError(
                f"The {column} column has {strange.sum()} row(s) that are not in {argument} (first: {first!r}, row "
                f"{strange.argmax()}). Correct them, extend {argument}, or pass unknown='drop' to leave them out."
            )
    return (item_of_row >= 0) & (class_of_row >= 0)


def _without_repeats(
    rows: IntArray,
    item_of_row: IntArray,
    workers: tuple[IntArray, list[Any]],
    items: tuple[Hashable, ...],
    duplicates: str,
) -> IntArray:
    """Keep one vote per worker and item, or say where there are more."""
    if duplicates == "keep":
        return rows
    worker_of_row, names = workers
    if duplicates == "last":
        rows = rows[::-1]  # np.unique reports the first occurrence
    _, first = np.unique(item_of_row[rows] * max(len(names), 1) + worker_of_row[rows], return_index=True)
    if duplicates == "error" and len(first) < len(rows):
        row = rows[np.setdiff1d(np.arange(len(rows)), first)[0]]
        raise ValueError(
            f"{len(rows) - len(first)} vote(s) repeat a worker on a task (first: worker {names[worker_of_row[row]]!r} "
            f"on task {items[item_of_row[row]]!r}, row {row}). Pass duplicates='last', 'first' or 'keep' to say what "
            "counts."
        )
    kept: IntArray = rows[first]
    return kept


def _recover_counts(distributions: FloatArray, n_votes: ArrayLike) -> IntArray:
    votes = np.asarray(n_votes)
    n_items = len(distributions)
    if votes.dtype.kind not in "iuf" or votes.shape not in ((), (n_items,)):
        raise ValueError(
            f"n_votes must be one whole number or one per item ({n_items}), but has shape {votes.shape} and dtype "
            f"{votes.dtype}."
        )
    if not np.all((votes >= 1) & (votes < LARGEST_EXACT_COUNT) & (votes == np.floor(votes))):
        raise ValueError("n_votes must hold whole numbers of at least 1. Leave out items without votes.")
    votes = np.broadcast_to(votes, (n_items,)).astype(np.float64)
    exact = distributions * votes[:, None]
    counts = np.rint(exact)
    wrong = (np.abs(exact - counts) > WHOLE_TOLERANCE).any(axis=1) | (counts.sum(axis=1) != votes)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"distributions and n_votes do not fit: in {wrong.sum()} row(s) their product is not whole (row {row}: "
            f"{exact[row].round(4).tolist()}). Check n_votes, or leave it out if the numbers are rounded."
        )
    return counts.astype(np.int64)


def _align(
    own: Iterable[Hashable] | None,
    wanted: Iterable[Hashable] | None,
    argument: str,
    size: int,
    *,
    rename: bool = True,
) -> tuple[tuple[Hashable, ...], IntArray]:
    """Settle on names and the order that brings the table's own names into theirs."""
    default = tuple(range(size))
    own_names = default if own is None else tuple(_as_list(own))
    names = _as_names(own_names if wanted is None else wanted, argument)
    if len(names) != size:
        raise ValueError(f"{argument} holds {len(names)} names, but {size} are needed: one for each.")
    if own is not None and set(names) == set(own_names):
        return names, _positions(list(names), own_names)
    if rename and own_names == default:
        return names, np.arange(size)
    raise ValueError(
        f"{argument} {list(names[:6])} do not match the names that are there, {list(own_names[:6])}. "
        "Pass the same names in the order you want, or rename them first."
    )
