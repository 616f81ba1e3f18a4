"""Conversion of all sources of votes to a long table.

A row per vote with task, worker, label and, if known, time.

Columns are named by the caller (``task``, ``worker``, ``label``, ``time``) or found by the names in
`SYNONYMS`, ignoring case, spaces and underscores; the first name of the list that the table has is
used.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from credalset._batch import Names
from credalset._display import join_names
from credalset._validation import as_names

__all__ = [
    "LABELS",
    "SYNONYMS",
    "LongTable",
    "as_list",
    "find_columns",
    "find_usual",
    "is_missing",
    "labels_of",
    "long_table",
    "melt",
    "records_table",
    "refuse_unnamed_worker",
]

#: metadata of a Parquet file of votes: labels in order, with positions on a scale or null
LABELS = "credalset.labels"
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
    notes : list of str
        What was changed as the source was read.
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
    notes: list[str] = field(default_factory=list)

    @classmethod
    def collect(cls, votes: Iterable[tuple[Any, ...]]) -> LongTable:
        """Collect votes (task, worker, label) or (task, worker, label, time)."""
        rows = [(*vote, None) if len(vote) == 3 else vote for vote in votes]
        if not rows:
            return cls()
        task, worker, label, time = (list(column) for column in zip(*rows, strict=True))
        found = cls(task, label)
        if not all(map(is_missing, worker)):
            found.worker = worker
        if not all(map(is_missing, time)):
            found.time = time
        return found

    def declare(self, labels: Mapping[Any, Any]) -> None:
        """Set the labels to choose from, in their order, with positions on a scale or None."""
        self.classes = tuple(labels) or None
        self.ordered = None not in labels.values() and labels


def labels_of(metadata: Mapping[bytes, bytes] | None) -> dict[str, float | None]:
    """Return labels that a table has noted, in order, with positions on a scale or None."""
    found: dict[str, float | None] = json.loads((metadata or {}).get(LABELS.encode(), b"{}"))
    return found


def find_columns(
    available: Sequence[Hashable], given: Mapping[str, Hashable | None]
) -> dict[str, Hashable]:
    """Return the columns of task, worker, label and time; worker and time may be missing.

    An empty name of the worker says that no column names the workers.

    Examples
    --------
    >>> find_columns(["Item ID", "rater", "Rating", "text"], {"time": None})
    {'task': 'Item ID', 'worker': 'rater', 'label': 'Rating'}
    """
    found = {role: name for role, name in given.items() if name is not None}
    has_no_worker = found.get("worker") == "" and "" not in available
    if has_no_worker:
        del found["worker"]
    for role, name in found.items():
        if name not in available:
            raise ValueError(
                f"{role} names the column {name!r}, but the table has {join_names(available, 12)}."
            )
    free = [name for name in available if name not in found.values()]
    for role in SYNONYMS:
        usual = find_usual(free, role)
        if role not in found and usual is not None and not (has_no_worker and role == "worker"):
            found[role] = usual
    missing = [role for role in ("task", "label") if role not in found]
    if missing:
        usual = " or ".join(f"the {role} ({', '.join(SYNONYMS[role])})" for role in missing)
        asked = missing if has_no_worker or "worker" in found else [*missing, "worker"]
        options = " ".join(f"--{role} …" for role in asked)
        raise ValueError(
            f"table has no column with a usual name of {usual}; it has "
            f"{join_names(available, 12)}. Say which columns they are with {' and '.join(asked)} "
            f"({options}). If each annotator has a column, the kind is wide. Predictions and "
            "features are no votes: credalset import cleans them with --kind table."
        )
    return {role: found[role] for role in SYNONYMS if role in found}


def find_usual(names: Sequence[Hashable], role: str) -> Hashable | None:
    """Return the first column that has a usual name of a role, None if there is none.

    Examples
    --------
    >>> find_usual(["text", "Item_ID"], "task")
    'Item_ID'
    """
    # Reversed: of several columns that are alike but for case and spaces, the first stays.
    plain = {_plain(name): name for name in reversed(names)}
    for synonym in SYNONYMS[role]:
        if _plain(synonym) in plain:
            return plain[_plain(synonym)]
    return None


def _plain(name: Hashable) -> str:
    return "".join(filter(str.isalnum, str(name).lower()))


def refuse_unnamed_worker(
    columns: Mapping[Any, Sequence[Any]], roles: Mapping[str, Hashable], where: str
) -> None:
    """Refuse a long table without workers that has a column which may name them.

    Without workers, several votes of one worker on an item all count. A column may name the workers
    if it differs between the votes on some item; what describes the items does not.
    """
    if "worker" in roles:
        return
    tasks = columns[roles["task"]]
    others = [name for name in columns if name not in roles.values()]
    possible = [name for name in others if _differs_within(columns[name], tasks)]
    if possible:
        raise ValueError(
            f"{where} has no column with a usual name of the worker "
            f"({', '.join(SYNONYMS['worker'])}), but {join_names(possible)} may name the workers. "
            f"Name the column as it is imported, --worker {str(possible[0])!r}, or say that there "
            "is none, --worker ''."
        )


def _differs_within(column: Sequence[Any], tasks: Sequence[Any]) -> bool:
    """Tell whether a column has different values, none of them missing, in rows of one task."""
    first: dict[Any, Any] = {}
    for task, value in zip(tasks, column, strict=True):
        if is_missing(task) or is_missing(value):
            continue
        if first.setdefault(str(task), value) != value:
            return True
    return False


def long_table(table: Any, given: Mapping[str, Hashable | None]) -> LongTable:
    """Read a long table.

    A data frame, a mapping of columns, or a list of dicts or (task, worker, label) tuples.
    """
    if isinstance(table, LongTable):
        return table
    columns = _columns(table)
    roles = find_columns(list(columns), given)
    lists = {role: as_list(columns[name]) for role, name in roles.items()}
    _check_lengths(lists)
    classes, ordered = _categories(columns[roles["label"]])
    return LongTable(
        lists["task"],
        lists["label"],
        lists.get("worker"),
        lists.get("time"),
        classes,
        ordered,
        named_by=roles["task"],
    )


def _check_lengths(columns: Mapping[Any, Any]) -> int:
    """Return the length of all columns."""
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        raise ValueError(
            f"table must have columns of one length, but they have lengths {sorted(lengths)}."
        )
    return lengths.pop()


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
    is_table = isinstance(table, Mapping) or hasattr(table, "columns")
    columns = dict(_columns(table)) if is_table else _matrix_columns(table)
    size = _check_lengths(columns)
    named_by = _task_column(columns, task)
    index = _index_names(table)
    if named_by is not None:
        items = as_list(columns.pop(named_by))
    elif index is not None:
        items = index
    else:
        items = list(range(size))
    found = LongTable(
        worker=[],
        has_names=named_by is not None or index is not None,
        items=tuple(items),
        named_by=named_by,
    )
    for name, column in _worker_columns(columns, worker).items():
        for item, label in zip(items, as_list(column), strict=True):
            if not is_missing(label):
                found.task.append(item)
                found.worker.append(name)  # type: ignore[union-attr]
                found.label.append(label)
    return found


def _task_column(columns: Mapping[Hashable, Any], given: Hashable | None) -> Hashable | None:
    """Return the column of a wide table that names the items, None if there is none."""
    if given is not None:
        if given not in columns:
            raise ValueError(
                f"task names the column {given!r}, but the table has {join_names(columns, 12)}."
            )
        return given
    # Numbers are the columns of matrices.
    usual = find_usual([name for name in columns if not isinstance(name, int)], "task")
    if usual is None and "" in columns:
        return ""  # the index of a frame, as pandas writes it
    return usual


def _index_names(table: Any) -> list[Any] | None:
    """Return the names in the index of a pandas frame; None for the default index, or without."""
    index = getattr(table, "index", None) if hasattr(table, "columns") else None
    if index is None or callable(index) or getattr(index, "start", None) == 0:
        return None
    return as_list(index)


def _worker_columns(
    columns: dict[Hashable, Any], worker: Iterable[Hashable] | None
) -> dict[Hashable, Any]:
    """Return the columns of the annotators: those that are named, else all."""
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
    return columns


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
    table = LongTable(items=tuple(records))
    classes: dict[Any, None] = {}
    for item, found in records.items():
        if isinstance(found, Mapping):
            classes |= dict.fromkeys(found)
            votes = _votes_of_counts(item, found)
        elif isinstance(found, str) or not isinstance(found, Iterable):
            raise TypeError(
                f"records[{item!r}] must be a list of labels or a dict of counts, but is {found!r}."
            )
        else:
            votes = list(found)
        table.task += [item] * len(votes)
        table.label += votes
    table.classes = tuple(classes) or None
    return table


def _votes_of_counts(item: Hashable, counts: Mapping[Any, Any]) -> list[Any]:
    """Return each label as often as it was chosen."""
    for number in counts.values():
        is_whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if not is_whole or number < 0:
            raise ValueError(
                f"records[{item!r}] must hold numbers of votes by label, but holds {number!r}."
            )
    return [label for label, number in counts.items() for _ in range(number)]


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
    values = _python_values(column)
    missing = [is_missing(value) for value in values]
    if not any(missing):
        return list(as_names(values))
    there = [value for value, gone in zip(values, missing, strict=True) if not gone]
    if all(isinstance(value, float) and value.is_integer() for value in there):
        values = [None if gone else int(v) for v, gone in zip(values, missing, strict=True)]
    return [None if gone else value for value, gone in zip(values, missing, strict=True)]


def _python_values(column: Any) -> list[Any]:
    if isinstance(column, np.ndarray) and column.dtype.kind in "mM":
        return list(column)  # tolist would turn nanosecond times into bare integers
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


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
    is_ordered = getattr(getattr(column, "type", None), "ordered", False)
    if is_ordered and len(column):  # a dictionary of Arrow
        if hasattr(column, "unify_dictionaries"):
            column = column.unify_dictionaries().chunk(0)
        return tuple(column.dictionary.to_pylist()), True
    return None, False
