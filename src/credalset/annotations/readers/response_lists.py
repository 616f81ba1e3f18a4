"""Rows with a list of labels each, and perhaps a list of annotators beside it: common among Hugging Face datasets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from credalset.annotations.naming import plain
from credalset.annotations.readers.common import Export, Guess, Reader, Vote, as_name, dig
from credalset.annotations.readers.source import Source
from credalset.exceptions import FileFormatError

LABELS = ["labels", "label", "annotations", "responses", "answers", "votes", "ratings", "annotator_labels", "judgments"]
WORKERS = [
    "annotators",
    "annotator_ids",
    "annotator_id",
    "workers",
    "worker_ids",
    "raters",
    "rater_ids",
    "users",
    "user_ids",
]
IDS = ("id", "uid", "task", "item", "example_id", "item_id", "text_id", "idx")


def recognise(source: Source) -> Guess | None:
    """Recognise two lists side by side, of labels and of annotators."""
    labels, workers = _find(source, LABELS), _find(source, WORKERS)
    if labels is None or workers is None:
        return None
    rows = [row for row in source.sample if isinstance(row.get(labels), list) and isinstance(row.get(workers), list)]
    if rows and all(len(row[labels]) == len(row[workers]) for row in rows):
        return Guess(0.9, f"its rows have lists {labels!r} and {workers!r} of one length")
    return None


def _find(source: Source, names: list[str]) -> str | None:
    """Return the first column with one of the names that holds lists."""
    for name in names:
        for column in source.columns:
            if plain(column) == name and any(
                isinstance(row, dict) and isinstance(row.get(column), list) for row in source.sample
            ):
                return column
    return None


def read(export: Export) -> Iterator[Vote]:
    """Yield a vote per element of the lists."""
    source, wanted, log = export.source, export.wanted, export.log
    labels = wanted.label if wanted.label is not None else _find(source, LABELS)
    workers = wanted.worker if wanted.worker is not None else _find(source, WORKERS)
    if labels is None:
        raise ValueError(f"{source.name}: no column of lists was found among {source.columns}. Name it: label=...")
    names = _class_names(source, str(labels))
    log.notes.append(f"labels from {labels!r}" + (f", annotators from {workers!r}" if workers is not None else ""))
    log.declare(names or [])
    log.no_workers = workers is None
    for _, _, task, row in export.records(*IDS):
        votes = _as_list(dig(row, labels), labels, source)
        who = _as_list(dig(row, workers), workers, source) if workers is not None else [None] * len(votes)
        if len(who) != len(votes):
            raise FileFormatError(f"{source.name}: task {task!r} has {len(votes)} labels, but {len(who)} annotators.")
        yield Vote(task)
        for worker, label in zip(who, votes, strict=True):
            if names is not None and isinstance(label, int):
                label = names[label] if label >= 0 else None  # -1 is "no label" in that library
            yield Vote(task, as_name(worker), label)


def _as_list(value: Any, column: Any, source: Source) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise FileFormatError(f"{source.name}: {column!r} must hold lists, but holds {value!r}.")
    return value


def _class_names(source: Source, column: str) -> list[str] | None:
    """Return the names behind codes, where the Hugging Face library noted them."""
    feature = source.features.get(column)
    while isinstance(feature, dict) and "names" not in feature:
        feature = feature.get("feature")
    names = feature.get("names") if isinstance(feature, dict) else None
    return names if isinstance(names, list) else None


READER = Reader("lists", recognise, read, ("task", "worker", "label"))
