"""Conversion of all sources of votes to a long table.

A row per vote with task, worker, label and, if known, time.

Columns are named by the caller (``task``, ``worker``, ``label``, ``time``) or found by the names in
`SYNONYMS`, ignoring case, spaces and underscores; the first name of the list that the table has is
used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from credalset.votes.names import Names, as_names, join_names

#: names of columns that are found by default
SYNONYMS = {
    "task": ("task", "task id", "item", "item id", "hit id", "id"),
    "worker": (
        "worker",
        "worker id",
        "annotator",
        "annotator id",
        "rater",
        "rater id",
        "performer",
        "user",
        "user id",
    ),
    "label": ("label", "annotation", "rating", "answer", "choice", "class"),
    "time": (
        "time",
        "timestamp",
        "updated at",
        "created at",
        "submitted at",
        "submit time",
        "date",
    ),
}


@dataclass
class LongTable:
    """Votes, one per row, as columns of one length.

    Attributes
    ----------
    task, label : list
        Item and label of each vote.
    worker, time : list or None
        Annotator and time of each vote, None if unknown.
    classes : tuple or None
        Labels that could be chosen, in their order, if the source declares them.
    ordered : bool or dict
        Whether the labels are levels of an ordinal scale, or their positions on it.
    items : tuple or None
        All items, if the source has a row for each.
    has_names : bool
        Whether the tasks are names of items or row numbers.
    dropped : Counter
        Numbers of votes in the source that are not counted, by reason.
    named_by : hashable or None
        Column or field that names the items; None if they are numbered.
    """

    task: list[Any] = field(default_factory=list)
    label: list[Any] = field(default_factory=list)
    worker: list[Any] | None = None
    time: list[Any] | None = None
    classes: Names | None = None
    ordered: bool | Mapping[Any, float] = False
    items: Names | None = None
    has_names: bool = True
    dropped: Counter[str] = field(default_factory=Counter)
    named_by: Hashable | None = None

    @classmethod
    def collect(cls, votes: Iterable[tuple[Any, ...]]) -> LongTable:
        """Collect votes (task, worker, label) or (task, worker, label, time)."""
        rows = [(*vote, None) if len(vote) == 3 else vote for vote in votes]
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], [], []]
        task, worker, label, time = columns
        worker, time = (
            [] if all(is_missing(value) for value in column) else column
            for column in (worker, time)
        )
        return cls(task, label, worker or None, time or None)

    def declare(self, labels: Mapping[Any, Any]) -> None:
        """Set the labels to choose from, in their order, with positions on a scale or None."""
        self.classes = tuple(labels) or None
        self.ordered = None not in labels.values() and labels


def find_columns(
    available: Sequence[Hashable], given: Mapping[str, Hashable | None]
) -> dict[str, Hashable]:
    """Return the columns of task, worker, label and time; worker and time may be missing.

    Examples
    --------
    >>> find_columns(["Item ID", "rater", "Rating", "text"], {"time": None})
    {'task': 'Item ID', 'worker': 'rater', 'label': 'Rating'}
    """
    found = {role: name for role, name in given.items() if name is not None}
    for role, name in found.items():
        if name not in available:
            raise ValueError(
                f"{role} names the column {name!r}, but the table has {join_names(available, 12)}."
            )
    plain = {_plain(name): name for name in reversed(available) if name not in found.values()}
    for role, synonyms in SYNONYMS.items():
        known = next((plain[_plain(name)] for name in synonyms if _plain(name) in plain), None)
        if role not in found and known is not None:
            found[role] = known
    for role in ("task", "label"):
        if role not in found:
            raise ValueError(
                f"table has no column with a usual name of the {role} "
                f"({', '.join(SYNONYMS[role])}); it has {join_names(available, 12)}. Say with "
                f"{role} which column it is. If each annotator has a column, the table is wide: "
                "read it as such."
            )
    return {role: found[role] for role in SYNONYMS if role in found}


def _plain(name: Hashable) -> str:
    return "".join(filter(str.isalnum, str(name).lower()))


def long_table(table: Any, given: Mapping[str, Hashable | None]) -> LongTable:
    """Read a long table.

    A data frame, a mapping of columns, or a list of dicts or (task, worker, label) tuples.
    """
    if isinstance(table, LongTable):
        return table
    columns = _columns(table)
    roles = find_columns(list(columns), given)
    lists = {role: as_list(columns[name]) for role, name in roles.items()}
    lengths = {len(column) for column in lists.values()}
    if len(lengths) > 1:
        raise ValueError(
            f"table must have columns of one length, but they have lengths {sorted(lengths)}."
        )
    classes, ordered = _categories(columns[roles["label"]])
    found = LongTable(
        lists["task"], lists["label"], lists.get("worker"), lists.get("time"), classes, ordered
    )
    found.named_by = roles["task"]
    return found


def _columns(table: Any) -> Mapping[Any, Any]:
    """Return the columns of a table by name."""
    if isinstance(table, str | PathLike):
        raise TypeError(
            f"table cannot be a path. Files are read by Annotations.read({str(table)!r})."
        )
    if isinstance(table, Mapping):
        return table
    if hasattr(table, "columns") and hasattr(table, "__len__"):
        names = list(table.column_names if hasattr(table, "column_names") else table.columns)
        if len(set(names)) < len(names):
            raise ValueError(
                f"table has two columns of one name among {join_names(names, 12)}. Rename one "
                "of them."
            )
        return {name: table[name] for name in names}
    rows: list[Any] = list(table) if isinstance(table, list | tuple) else [None]
    if all(isinstance(row, Mapping) for row in rows):
        return {
            name: [row.get(name) for row in rows]
            for name in dict.fromkeys(key for row in rows for key in row)
        }
    if all(isinstance(row, tuple | list) and len(row) == 3 for row in rows):
        return dict(zip(("task", "worker", "label"), zip(*rows, strict=True), strict=True))
    raise TypeError(
        f"table cannot be a {type(table).__name__}. Pass a pandas, polars or pyarrow table, a "
        "dict of columns, or a list of dicts or (task, worker, label) tuples."
    )


def melt(table: Any, task: Hashable | None, worker: Iterable[Hashable] | None) -> LongTable:
    """Read a wide table: a row per item, a column per annotator, labels in the cells.

    Empty cells are not votes.

    Items are named by the column ``task``, by a column with one of its `SYNONYMS`, or by the index
    of a pandas frame.
    """
    if isinstance(table, Mapping) or hasattr(table, "columns"):
        columns = dict(_columns(table))
    else:
        columns = _matrix_columns(table)
    sizes = {len(column) for column in columns.values()}
    if len(sizes) != 1:
        raise ValueError(
            f"table must have columns of one length, but they have lengths {sorted(sizes)}."
        )
    (size,) = sizes
    if task is not None and task not in columns:
        raise ValueError(
            f"task names the column {task!r}, but the table has {join_names(columns, 12)}."
        )
    plain = {_plain(name): name for name in reversed(columns) if not isinstance(name, int)}
    known = next((plain[_plain(name)] for name in SYNONYMS["task"] if _plain(name) in plain), None)
    task = known if task is None else task
    task = (
        "" if task is None and "" in columns else task
    )  # the index of a frame, as pandas writes it
    index = getattr(table, "index", None) if hasattr(table, "columns") else None
    is_default = index is None or callable(index) or getattr(index, "start", None) == 0
    items: list[Any] = list(range(size)) if is_default else as_list(index)
    if task is not None:
        items = as_list(columns.pop(task))
    if worker is not None:
        wanted = [worker] if isinstance(worker, str) else list(worker)
        unknown = [name for name in wanted if name not in columns]
        if unknown:
            raise ValueError(
                f"worker names {unknown[0]!r}, which is not a column; there are "
                f"{join_names(columns, 12)}."
            )
        columns = {name: columns[name] for name in wanted}
    if not columns:
        raise ValueError("table has no column besides that of the items: each annotator needs one.")
    found = LongTable(
        worker=[], has_names=task is not None or not is_default, items=tuple(items), named_by=task
    )
    assert found.worker is not None
    for name, column in columns.items():
        cells = as_list(column)
        rows = [row for row, label in enumerate(cells) if not is_missing(label)]
        found.task += [items[row] for row in rows]
        found.worker += [name] * len(rows)
        found.label += [cells[row] for row in rows]
    return found


def _matrix_columns(table: Any) -> dict[Hashable, Any]:
    """Return the columns of a 2-d array or of rows of one length, by number."""
    if isinstance(table, np.ndarray) and table.ndim == 2:
        return dict(enumerate(table.T))
    rows: list[Any] = list(table) if isinstance(table, list | tuple) else [None]
    if (
        all(isinstance(row, list | tuple | np.ndarray) for row in rows)
        and len({len(row) for row in rows}) == 1
    ):
        return dict(enumerate(zip(*rows, strict=True)))
    raise TypeError(
        f"table cannot be a {type(table).__name__}. Pass a data frame, a dict of columns or a 2-d "
        "array, with a row per item and a column per annotator."
    )


def records_table(records: Mapping[Hashable, Any]) -> LongTable:
    """Read labels by item, or counts by item.

    Examples are ``{"t1": ["cat", "cat", "dog"]}`` and ``{"t1": {"cat": 2, "dog": 1}}``.
    """
    task: list[Any] = []
    label: list[Any] = []
    classes: dict[Any, None] = {}
    for item, found in records.items():
        if isinstance(found, Mapping):
            classes |= dict.fromkeys(found)
            odd = [
                n
                for n in found.values()
                if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0
            ]
            if odd:
                raise ValueError(
                    f"records[{item!r}] must hold numbers of votes by label, but holds {odd[0]!r}."
                )
            votes = [name for name, number in found.items() for _ in range(number)]
        elif isinstance(found, str) or not isinstance(found, Iterable):
            raise TypeError(
                f"records[{item!r}] must be a list of labels or a dict of counts, but is {found!r}."
            )
        else:
            votes = list(found)
        task += [item] * len(votes)
        label += votes
    return LongTable(task, label, classes=tuple(classes) or None, items=tuple(records))


def as_list(column: Any) -> list[Any]:
    """Return a column of any library as a list of Python values; missing ones become None.

    Whole numbers that were converted to floats because of missing values become whole numbers
    again.

    Examples
    --------
    >>> as_list(np.array([1.0, np.nan])), as_list(np.ma.array([1, 2], mask=[0, 1]))
    ([1, None], [1, None])
    >>> as_list(["1.0", ""])
    ['1.0', None]
    """
    if isinstance(column, np.ndarray) and column.dtype.kind in "mM":
        values = list(column)  # tolist would turn nanosecond times into bare integers
    else:
        method = next(
            (name for name in ("to_pylist", "tolist", "to_list") if hasattr(column, name)), None
        )
        values = list(column) if method is None else getattr(column, method)()
    missing = [is_missing(value) for value in values]
    if not any(missing):
        return list(as_names(values))
    floats = [value for value, gone in zip(values, missing, strict=True) if not gone]
    whole = all(isinstance(value, float) and value.is_integer() for value in floats)
    return [
        None if gone else int(v) if whole else v for v, gone in zip(values, missing, strict=True)
    ]


def is_missing(value: Any) -> bool:
    """Tell whether a value is None, NaN, NaT, ``pandas.NA`` or an empty text."""
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, str):
        return not value
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # raised by pandas.NA, lists and arrays
        return type(value).__name__ == "NAType"


def _categories(column: Any) -> tuple[Names | None, bool]:
    """Return the categories that a label column declares, and whether they are ordered."""
    dtype = getattr(column, "dtype", None)
    categories = getattr(dtype, "categories", None)  # pandas Categorical, polars Enum
    if categories is not None and hasattr(categories, "__len__"):
        return as_names(categories), bool(getattr(dtype, "ordered", False))
    if getattr(getattr(column, "type", None), "ordered", False) and len(column):  # Arrow dictionary
        unified = (
            column.unify_dictionaries().chunk(0)
            if hasattr(column, "unify_dictionaries")
            else column
        )
        return tuple(unified.dictionary.to_pylist()), True
    return None, False
