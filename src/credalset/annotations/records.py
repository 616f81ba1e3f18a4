"""Votes as plain Python: a list of dicts, or counts per item in dicts of their own."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from credalset._typing import FloatArray
from credalset.annotations.table import Column, default_classes

SHAPES = (
    "a list of votes such as {'task': 't1', 'worker': 'ann', 'label': 'cat'}, a list of counts such as "
    "{'cat': 3, 'dog': 1}, or a dict of either counts or lists of labels by item"
)


def as_votes(records: Any, names: dict[str, Hashable | None]) -> dict[Hashable, list[Any]] | None:
    """Return the columns of a list of votes, or of a dict of lists of labels; None if records hold counts."""
    if isinstance(records, Mapping):
        if not records or any(isinstance(value, Mapping) for value in records.values()):
            return None
        pairs = [(item, label) for item, labels in records.items() for label in _labels_of(item, labels)]
        return {names["task"]: [item for item, _ in pairs], names["label"]: [label for _, label in pairs]}
    wanted = [name for name in names.values() if name is not None]
    if names["label"] not in records[0] and names["task"] not in records[0]:
        return None
    for number, record in enumerate(records):
        for role in ("task", "label"):
            if names[role] not in record:
                raise ValueError(
                    f"Record {number} has no {names[role]!r}, only {list(record)}. Name the right key: {role}=..."
                )
    return {name: [record.get(name) for record in records] for name in wanted if any(name in r for r in records)}


def _labels_of(item: Hashable, labels: Any) -> list[Any]:
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise TypeError(f"records[{item!r}] must be a list of labels or a dict of counts, but is {labels!r}.")
    return list(labels)


def check_records(records: Any) -> Any:
    """Refuse what is neither a dict nor a list of dicts; return a list or the dict."""
    if isinstance(records, Mapping):
        return records
    if hasattr(records, "columns"):
        raise TypeError("records cannot be a table. Tables are read by Annotations.from_table.")
    if isinstance(records, str) or not isinstance(records, Iterable):
        raise TypeError(f"records cannot be a {type(records).__name__}. Pass {SHAPES}.")
    found = list(records)
    odd = next((record for record in found if not isinstance(record, Mapping)), None)
    if odd is not None:
        raise TypeError(f"records must hold dicts, but holds {odd!r}. Pass {SHAPES}.")
    return found


def as_count_matrix(records: Any, classes: Iterable[Hashable] | None) -> tuple[FloatArray, list[Any], list[Any]]:
    """Return counts (n, K), classes and items of dicts of counts; a class that a record leaves out has no votes."""
    items = list(records) if isinstance(records, Mapping) else list(range(len(records)))
    rows = list(records.values()) if isinstance(records, Mapping) else records
    for item, row in zip(items, rows, strict=True):
        odd = [] if isinstance(row, Mapping) else [row]
        odd = odd or [value for value in row.values() if isinstance(value, bool) or not _is_number(value)]
        if odd:
            raise TypeError(f"records[{item!r}] must hold numbers of votes, but holds {odd[0]!r}. Pass {SHAPES}.")
    seen = list(dict.fromkeys(name for row in rows for name in row))
    names = default_classes(None, Column.encode("label", seen)) if classes is None else list(classes)
    unknown = [name for name in seen if name not in names]
    if unknown:
        raise ValueError(
            f"records hold {unknown[0]!r}, which is not in classes {names}. Correct it, or extend classes."
        )
    matrix = np.array([[row.get(name, 0) for name in names] for row in rows], dtype=np.float64)
    return matrix.reshape(len(rows), len(names)), names, items


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number)
