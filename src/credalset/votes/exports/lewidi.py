"""LeWiDi (Learning with Disagreements) JSON: an object of items, editions 2023 and 2025.

https://le-wi-di.github.io/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from credalset.exceptions import FileFormatError
from credalset.votes.counting import NUMBER
from credalset.votes.exports.export import Export, Record

__all__ = ["level", "recognise", "votes"]


def recognise(records: list[Record]) -> bool:
    """Items with annotations, annotators and a soft label."""
    return {"annotations", "annotators", "soft_label"} <= set(records[0])


def votes(export: Export) -> Iterator[tuple[Any, ...]]:
    """Yield a vote per annotation; all levels of the soft label are classes, even if unvoted."""
    levels: set[str] = set()
    for _, task, item in export.records("id"):
        soft = item["soft_label"] if isinstance(item.get("soft_label"), dict) else {}
        known = [level(name) for name in soft]
        export.declare(known)
        levels.update(known)
        several = any(isinstance(share, dict) for share in soft.values())
        for worker, label in _annotations(item, task, export):
            if label in (None, "", "nan"):  # "nan" means no annotation in these files
                yield task, worker, None
            elif several:
                yield task, worker, [one.strip() for one in label.split(",")]
            else:
                levels.add(level(label))
                yield task, worker, level(label)
    export.ordered = all(map(NUMBER.fullmatch, levels)) and len(levels) > 2


def level(text: str) -> str:
    """Return a level; the soft labels of some items write 6 as 6.0."""
    return text.removesuffix(".0")


def _annotations(item: Record, task: Any, export: Export) -> list[tuple[Any, Any]]:
    found = item.get("annotations")
    if isinstance(found, dict):
        return [
            (worker, None if label is None else str(label).strip())
            for worker, label in found.items()
        ]
    labels = [label.strip() for label in str(found).split(",")] if found else []
    workers = [worker.strip() for worker in str(item.get("annotators") or "").split(",")]
    if labels and len(labels) != len(workers):
        raise FileFormatError(
            f"{export.name}: item {task!r} has {len(labels)} annotations, {len(workers)} "
            "annotators."
        )
    return list(zip(workers, labels, strict=False))
