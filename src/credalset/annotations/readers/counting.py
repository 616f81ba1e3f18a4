"""Count the votes of a file: columns collected in pieces, types settled, then as any table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from credalset.annotations.building import Building
from credalset.annotations.counting import Rules, count_votes, drop_unreadable_times
from credalset.annotations.odd_labels import warn_of_odd_labels
from credalset.annotations.readers.reading import ROLES, VoteFile
from credalset.annotations.readers.types import ColumnType
from credalset.annotations.scale import find_positions
from credalset.annotations.single_labels import SingleLabels
from credalset.annotations.table import Column, GrowingColumn, Names, default_classes, is_missing

A = TypeVar("A", bound=Building)


def count_file(
    cls: type[A],
    votes: VoteFile,
    classes: Names | None,
    items: Names | None,
    ordered: bool | None,
    positions: Sequence[float] | None,
    duplicates: str,
    unknown: str,
) -> A:
    """Read and count the votes of a file; see `Annotations.read`."""
    rules = Rules(duplicates, unknown, votes.missing, votes.spelling.tidy)
    single = SingleLabels(votes.wanted.one_vs_rest, classes)
    names = {"label": None if classes is None else list(classes), "task": None if items is None else list(items)}
    columns, tasks = _collect(votes)
    more = {"label": votes.log.classes, "task": tasks}
    kinds = {
        role: _settled([*column.values, *more.get(role, ())], role in votes.log.number_texts, names.get(role))
        for role, column in columns.items()
    }
    columns = {
        role: column if role == "label" and single.classes else _retyped(column, kinds[role])
        for role, column in columns.items()
    }
    if votes.wanted.time is None and drop_unreadable_times(columns):
        votes.log.notes.append("times were not understood: of several votes on one task, the last in the file counts")
    wanted = single.classes or names["label"]
    known = _classes(columns["label"], votes, kinds["label"]) if wanted is None else wanted
    every = list(dict.fromkeys(map(kinds["task"], tasks))) if names["task"] is None else names["task"]
    counted = count_votes(columns, known, every, rules)
    if counted.overruled:
        which = "later" if duplicates == "first" else "earlier"
        which += "" if "time" in columns else " in the file"
        votes.log.left_out[f"{which} by the same worker"] += counted.overruled
    votes.log.left_out.update({"for other labels": counted.outside} if counted.outside else {})
    if wanted is None:
        warn_of_odd_labels(
            counted.classes, counted.matrix.sum(axis=0), f"{votes.source.name}: ", empty=votes.source.empty
        )
    inferred = votes.log.ordered and single.classes is None
    places = find_positions(counted.classes, ordered, positions, inferred)
    return cls._counted(counted, "weight" in columns, places, votes.describe())


def _collect(votes: VoteFile) -> tuple[dict[str, Column], list[Any]]:
    """Read all votes, as codes; return the columns that hold anything, and every task, with votes or without."""
    growing: dict[str, GrowingColumn] = {role: GrowingColumn(role) for role in ("task", "label")}
    tasks: dict[Any, None] = {}
    for batch in votes._labelled():
        try:
            tasks.update(dict.fromkeys(batch["task"]))
        except TypeError as error:
            raise TypeError(
                f"{votes.source.name}: a task cannot be named by {error}. Name another field: task=..."
            ) from None
        kept = batch if votes.missing == "error" else votes.complete(batch)
        for role, column in kept.items():
            growing.setdefault(role, GrowingColumn(role)).add(column)
    columns = {role: growing[role].finish() for role in ROLES if role in growing}
    optional = [role for role in ("worker", "time") if role in columns and not columns[role].present()]
    return {role: column for role, column in columns.items() if role not in optional}, [
        task for task in tasks if not is_missing(task)
    ]


def _settled(values: Iterable[Any], number_texts: bool, names: Iterable[Any] | None) -> ColumnType:
    """Find the type of a column; names that the caller gives as texts keep it text."""
    keep_text = names is not None and all(isinstance(name, str) for name in names)
    kind = ColumnType(number_texts, keep_text)
    kind.see(values)
    return kind


def _retyped(column: Column, kind: ColumnType) -> Column:
    code: dict[Any, int] = {}
    codes = np.array([code.setdefault(kind(value), len(code)) for value in column.values], dtype=np.int64)
    return Column(column.name, codes[column.codes], list(code))


def _classes(labels: Column, votes: VoteFile, kind: ColumnType) -> list[Any]:
    """Return the labels that could be chosen in the order of the export, then others; sorted if they are numbers."""
    seen = default_classes(labels)
    declared = list(dict.fromkeys(map(kind, votes.log.classes)))
    every = declared + [label for label in seen if label not in declared]
    return default_classes(Column.encode("label", every)) if kind.name in ("int", "float") else every
