"""LeWiDi (Learning with Disagreements) JSON: an object of items, the second (2023) and third (2025) edition.

https://le-wi-di.github.io/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from credalset.annotations.readers.common import Export, Guess, Reader, Vote
from credalset.annotations.readers.source import Source
from credalset.annotations.table import NUMBER_TEXT
from credalset.exceptions import FileFormatError

MARKS = {"annotations", "annotators"}
MORE = {"soft_label", "number of annotations", "annotation task"}


def recognise(source: Source) -> Guess | None:
    """Recognise items by their fields."""
    first = next((item for document in source.sample for _, item in _items(document)), None)
    if isinstance(first, dict) and set(first) >= MARKS and set(first) & MORE:
        return Guess(1.0, "its items have annotations, annotators and a soft label")
    return None


def _items(document: Any) -> Iterator[tuple[Any, Any]]:
    """Yield identifier and item; a document is an object of items, or, in JSON Lines, an item."""
    if isinstance(document, dict) and set(document) >= MARKS:
        yield document.get("id"), document
    elif isinstance(document, dict):
        yield from document.items()


def read(export: Export) -> Iterator[Vote]:
    """Yield a vote per annotation; the levels of the soft label stay, whether anybody chose them or not."""
    source, log = export.source, export.log
    log.number_texts = frozenset({"label"})
    number = 0
    levels: set[str] = set()
    for _, _, document in source.records():
        for identity, item in _items(document):
            if not isinstance(item, dict) or "annotations" not in item:
                raise FileFormatError(f"{source.name}: item {identity!r} has no annotations.")
            named = export.wanted.task is None and identity is not None
            task = identity if named else export.task_of(item, number)
            number += 1
            soft = item["soft_label"] if isinstance(item.get("soft_label"), dict) else {}
            log.declare(soft)
            levels.update(soft)
            several = any(isinstance(share, dict) for share in soft.values())
            yield Vote(task)
            for worker, label in _annotations(item, identity, source):
                if label in ("", "nan", None):
                    yield Vote(task, worker)
                else:
                    levels.add(label)
                    yield Vote(task, worker, [one.strip() for one in label.split(",")] if several else label)
    log.ordered = all(map(NUMBER_TEXT.fullmatch, levels)) and len(set(map(float, levels))) > 2


def _annotations(item: dict[str, Any], identity: Any, source: Source) -> list[tuple[Any, Any]]:
    found = item["annotations"]
    if isinstance(found, dict):
        return [(worker, None if label is None else str(label).strip()) for worker, label in found.items()]
    labels = [label.strip() for label in str(found or "").split(",")] if found else []
    workers = [worker.strip() for worker in str(item.get("annotators") or "").split(",")]
    if labels and len(labels) != len(workers):
        raise FileFormatError(
            f"{source.name}: item {identity!r} has {len(labels)} annotations, but {len(workers)} annotators."
        )
    return list(zip(workers, labels, strict=False))


READER = Reader("lewidi", recognise, read, ("task",))
