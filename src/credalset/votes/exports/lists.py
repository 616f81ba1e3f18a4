"""Rows with a list of labels each, and a list of annotators beside it.

Common among Hugging Face datasets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from credalset.exceptions import FileFormatError
from credalset.votes.exports.export import Export, Record, dig

__all__ = ["recognise", "votes"]

LABELS = ("labels", "label", "annotations", "responses", "answers", "votes", "ratings")
WORKERS = (
    "annotators",
    "annotator_ids",
    "annotator_id",
    "workers",
    "worker_ids",
    "raters",
    "users",
    "user_ids",
)


def recognise(records: list[Record]) -> bool:
    """Lists of labels and of annotators side by side, of one length."""
    labels = _find(records, LABELS)
    workers = _find(records, WORKERS)
    if labels is None or workers is None:
        return False
    return all(
        len(record.get(labels) or ()) == len(record.get(workers) or ()) for record in records
    )


def _find(records: list[Record], names: tuple[str, ...]) -> str | None:
    """Return the first of the names under which records hold lists."""
    return next(
        (name for name in names if any(isinstance(record.get(name), list) for record in records)),
        None,
    )


def votes(export: Export) -> Iterator[tuple[Any, ...]]:
    """Yield a vote per element of the lists."""
    records = [record for _, found in export.files for record in found]
    label = export.given["label"] or _find(records, LABELS)
    worker = export.given["worker"] or _find(records, WORKERS)
    if label is None:
        raise ValueError(
            f"label: {export.name} has no lists of labels under {', '.join(LABELS)}. Name "
            "their field with label."
        )
    export.how.append(f"labels from {label!r}")
    if worker is not None:
        export.how[-1] += f", annotators from {worker!r}"
    names = _class_names(export, label)
    export.declare(names or ())
    for _, task, record in export.records("id", "uid", "task", "item", "idx"):
        chosen = _list(dig(record, label), label, export)
        who = [None] * len(chosen)
        if worker is not None:
            who = _list(dig(record, worker), worker, export)
        if len(who) != len(chosen):
            raise FileFormatError(
                f"{export.name}: item {task!r} has {len(chosen)} labels and {len(who)} annotators."
            )
        for one, value in zip(who, chosen, strict=True):
            yield task, one, value if names is None else _name_of(value, names)


def _name_of(code: Any, names: list[str]) -> str | None:
    """Return the name of a code 0, 1, …; −1 means no label in the Hugging Face library."""
    if code is None or int(code) < 0:
        return None
    return names[int(code)]


def _list(value: Any, name: str, export: Export) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise FileFormatError(f"{export.name}: {name!r} must hold lists, but holds {value!r}.")
    return value or []


def _class_names(export: Export, column: str) -> list[str] | None:
    """Return the names of codes from the metadata of the Hugging Face library, if there are any."""
    feature = export.features.get(column)
    while isinstance(feature, dict) and "names" not in feature:
        feature = feature.get("feature")
    return feature["names"] if isinstance(feature, dict) else None
