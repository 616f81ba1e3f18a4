"""Votes as plain Python: a list of dicts, or counts per item in dicts of their own."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from credalset._typing import FloatArray
from credalset.annotations.naming import complete
from credalset.annotations.table import Column, default_classes

SHAPES = (
    "a list of votes such as {'task': 't1', 'worker': 'ann', 'label': 'cat'}, a list of counts such as "
    "{'cat': 3, 'dog': 1}, or a dict of either counts or lists of labels by item"
)


def are_votes(record: Mapping[Any, Any], names: dict[str, Hashable | None]) -> bool:
    """Tell whether a record is a vote, with a task or a label, rather than counts by class."""
    has_texts = any(isinstance(value, str) for value in record.values())
    known = complete(list(record), names) if has_texts else names
    return known["task"] in record or known["label"] in record


def as_votes(records: Mapping[Hashable, Any]) -> dict[str, list[Any]]:
    """Return the columns of a table of votes that come as lists of labels by item."""
    pairs = [(item, label) for item, labels in records.items() for label in _labels_of(item, labels)]
    return {"task": [item for item, _ in pairs], "label": [label for _, label in pairs]}


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
    names = default_classes(Column.encode("label", seen)) if classes is None else list(classes)
    unknown = [name for name in seen if name not in names]
    if unknown:
        raise ValueError(
            f"records hold {unknown[0]!r}, which is not in classes {names}. Correct it, or extend classes."
        )
    matrix = np.array([[row.get(name, 0) for name in names] for row in rows], dtype=np.float64)
    return matrix.reshape(len(rows), len(names)), names, items


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number)
