"""Wide tables: a row per item, a column per annotator, labels or codes in the cells, many of them empty."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from credalset.annotations.naming import candidates, plain, tidied
from credalset.annotations.table import SEVERAL, as_list, is_missing
from credalset.exceptions import warn

ANNOTATOR = re.compile(r"(annotator|annotation|rater|worker|coder|judge|labell?er|reviewer|expert|user|ann)[ _.#-]*\d+")
MOST_CELLS_READ = 100_000
MOST_LABELS = 20  # more distinct values, and more than every second row a new one, are texts rather than labels
TELLING = 5  # filled cells of a column that tell whether its values are those of others


def looks_wide(table: Any) -> str:
    """Say why a table looks like items by annotators with labels in its cells, rather than counts or shares.

    Returns an empty string where nothing speaks for it. A table of codes without empty cells and with meaningless
    column names cannot be told from counts.

    Parameters
    ----------
    table : data frame, array or list of rows
        What was passed as counts or as labels.

    Examples
    --------
    >>> looks_wide({"Ann": ["cat", "dog"], "Bob": ["cat", None]})
    "cells hold texts (first: 'cat')"
    >>> looks_wide({"rater 1": [0, 2], "rater 2": [1, 1]})
    "its columns are called 'rater 1', 'rater 2'"
    >>> looks_wide([[0, 2, float("nan")], [1, float("nan"), 1]])
    'some cells are empty and the others hold whole numbers'
    >>> looks_wide([[3, 1], [0, 4]])
    ''
    """
    if hasattr(table, "distributions") or isinstance(table, str) or not hasattr(table, "__len__"):
        return ""
    names, columns = _columns(table)
    if len(columns) < 2:
        return ""
    if names is not None and all(is_annotator(name) for name in names):
        return f"its columns are called {', '.join(map(repr, names[:3]))}"
    return _why_cells_are_labels(columns)


def refuse_wide(table: Any, name: str, error: Exception | None = None) -> None:
    """Raise an error with the remedy if a table looks wide; a fault that was found already keeps its message."""
    reason = looks_wide(table)
    if not reason:
        return
    remedy = "If each column is an annotator, use Annotations.from_wide"
    if "empty" in reason:
        remedy += "; if the columns are classes and an empty cell means no votes, fill in 0"
    if error is not None:
        raise type(error)(f"{error} This may be a wide table: {reason}. {remedy}.") from None
    raise ValueError(f"{name} looks like a wide table of items by annotators: {reason}. {remedy}.")


def _columns(table: Any) -> tuple[list[Any] | None, list[Any]]:
    if isinstance(table, Mapping):
        return list(table), list(table.values())
    if hasattr(table, "columns"):
        names = list(getattr(table, "column_names", table.columns))
        return names, [table[name] for name in names] if len(set(names)) == len(names) else []
    if isinstance(table, list | tuple):  # not by way of an array, which would turn NaN beside texts into a text
        rows = [list(row) for row in table if isinstance(row, list | tuple | np.ndarray)]
        even = len(rows) == len(table) and len(set(map(len, rows))) == 1
        return None, [list(column) for column in zip(*rows, strict=True)] if even else []
    matrix = np.asarray(table)
    return None, list(matrix.T) if matrix.ndim == 2 else []


def _why_cells_are_labels(columns: list[Any]) -> str:
    empty = False
    rows = max(1, MOST_CELLS_READ // len(columns))
    for column in columns:
        numbers = np.asarray(column)
        if numbers.dtype.kind in "iufb":
            known = numbers[~np.isnan(numbers)] if numbers.dtype.kind == "f" else numbers
            if not (np.isfinite(known).all() and (known == np.floor(known)).all()):
                return ""
            empty = empty or len(known) < len(numbers)
            cells: list[Any] = [known.min()] if len(known) else []
        else:
            cells = as_list(column[:rows])
        for value in cells:
            if is_missing(value):
                empty = True
            elif isinstance(value, str):
                return f"cells hold texts (first: {value!r})"
            elif isinstance(value, SEVERAL) or not _is_whole(value):
                return ""
            elif value < 0:
                return f"a cell holds {value:g}, which often stands for an empty one"
    return "some cells are empty and the others hold whole numbers" if empty else ""


def _is_whole(value: Any) -> bool:
    try:
        return bool(value == int(value))
    except (TypeError, ValueError, OverflowError):
        return False


def label_columns(cells: Mapping[Any, list[Any]]) -> list[Any]:
    """Return the columns that hold labels: few different ones, some of which stand in other columns too.

    Texts differ from row to row, and columns such as a topic have values that no other column has.

    Examples
    --------
    >>> topics, ann, bob = ["law", "art"] * 3, ["yes", "no", "no"] * 2, ["yes", "yes", None] * 2
    >>> label_columns({"topic": topics, "ann": ann, "bob": bob, "text": ["a", "b", "c", "d", "e", "f"]})
    ['ann', 'bob']
    """
    filled = {name: [tidied(value) for value in values if not is_missing(value)] for name, values in cells.items()}
    filled = {n: values for n, values in filled.items() if not any(isinstance(v, (*SEVERAL, dict)) for v in values)}
    holders = Counter(value for values in filled.values() for value in set(values))
    shares = {name for name, values in filled.items() if any(holders[value] > 1 for value in values)}
    found = [
        name
        for name, values in filled.items()
        if len(set(values)) <= max(MOST_LABELS, len(values) // 2)
        and (len(set(values)) < max(3, len(values)) or name in shares)
    ]
    if len(shares.intersection(found)) < 2:
        return found
    enough = min(TELLING, max(3, max(map(len, cells.values())) // 2))
    return [name for name in found if name in shares or len(filled[name]) < enough or is_annotator(name)]


def is_annotator(name: Any) -> bool:
    """Tell whether a column is called like an annotator: rater_1, Judge 2."""
    return ANNOTATOR.fullmatch(plain(name)) is not None


def melt(
    table: Any, task: Hashable | None, empty: Iterable[Any], worker: Iterable[Hashable] | None = None
) -> tuple[dict[str, list[Any]], list[Any]]:
    """Turn a wide table into columns task, worker and label, without the empty cells; return them and all items.

    Parameters
    ----------
    table : data frame, mapping of columns, array or list of rows
        A row per item.
    task : column name, optional
        Where the items are named. By default a column whose name says so, else a pandas index, else 0, 1, …
    empty : iterable
        Values that mark an empty cell, besides None, NaN and empty text.
    worker : iterable of column names, optional
        The annotators; by default every column but that of the items.
    """
    names, columns = _columns(table)
    if names is None and not columns:
        raise ValueError(
            "table must have a row per item and a column per annotator, all rows of one length, which this "
            f"{type(table).__name__} has not. Pass a data frame, a dict of columns or a 2-d array."
        )
    annotators = list(range(len(columns))) if names is None else names
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise ValueError(f"table must have columns of one length, but they have {sorted(lengths)}.")
    size = lengths.pop() if lengths else 0
    if task is None:
        task = next(iter(candidates(annotators, "task")), None)
    elif task not in annotators:
        raise ValueError(
            f"table has no column {task!r}, only {annotators}. Name the one that holds the items: task=..."
        )
    index = getattr(table, "index", None) if hasattr(table, "columns") else None
    items = list(range(size)) if index is None or callable(index) else as_list(index)
    cells = {name: as_list(column) for name, column in zip(annotators, columns, strict=True)}
    if task is not None:
        items = cells.pop(task)
    if worker is not None:
        cells = {name: cells[name] for name in _annotators(worker, list(cells))}
    elif names is not None:
        others = [name for name in cells if name not in label_columns(cells)]
        if 0 < len(others) < len(cells) - 1:
            cells = {name: column for name, column in cells.items() if name not in others}
            warn(
                f"columns {', '.join(map(repr, others[:5]))} are not read: they hold texts, or values that no other "
                "column has. Name the annotators if some are among them: worker=[...]."
            )
    if not cells:
        raise ValueError(f"table has no column besides {task!r}: each annotator needs one.")
    long = votes_in(cells, items, empty)
    if worker is None:
        _warn_of_others(long)
    return long, items


def votes_in(cells: Mapping[Any, list[Any]], items: list[Any], empty: Iterable[Any] = ()) -> dict[str, list[Any]]:
    """Return a vote per filled cell of columns by annotator, as columns task, worker and label."""
    blank = {None, "", *empty}
    long: dict[str, list[Any]] = {"task": [], "worker": [], "label": []}
    for name, labels in cells.items():
        filled = [row for row, label in enumerate(labels) if not _is_blank(label, blank)]
        long["task"] += [items[row] for row in filled]
        long["worker"] += [name] * len(filled)
        long["label"] += [_plain_number(labels[row]) for row in filled]
    return long


def _annotators(worker: Iterable[Hashable], columns: list[Any]) -> list[Hashable]:
    wanted: list[Hashable] = [worker] if isinstance(worker, str) else list(worker)
    unknown = [name for name in wanted if name not in columns]
    if unknown:
        raise ValueError(f"worker names {unknown[0]!r}, which is none of the columns {columns}.")
    return wanted


def _warn_of_others(long: dict[str, list[Any]]) -> None:
    """Warn of columns that were taken for annotators beside others whose names say that they are."""
    names = dict.fromkeys(long["worker"])
    others = [name for name in names if not is_annotator(name)]
    if len(names) - len(others) >= 2 and others:
        warn(
            f"the cells of {', '.join(map(repr, others[:3]))} are counted as votes too, beside columns named as "
            "annotators. Name the columns that hold votes: worker=[...]."
        )


def _is_blank(label: Any, blank: set[Any]) -> bool:
    try:
        return label in blank or is_missing(label)
    except (TypeError, ValueError):  # lists and arrays: several labels, refused further on
        return False


def _plain_number(label: Any) -> Any:
    """Give back the whole number that an empty cell in the same column has turned into a float."""
    return int(label) if isinstance(label, float) and label.is_integer() else label


def decode(labels: list[Any], classes: tuple[Hashable, ...] | None) -> list[Any]:
    """Replace codes 0 … K − 1 by the names of the classes, where these are given and are not the codes themselves."""
    if classes is None or not labels:
        return labels
    codes = {label for label in labels if isinstance(label, int) and not isinstance(label, bool)}
    coded = len(codes) == len(set(labels)) and not codes & set(classes) and codes <= set(range(len(classes)))
    return [classes[label] for label in labels] if coded else labels
