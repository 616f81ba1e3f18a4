"""Label Studio, JSON: tasks with a list of annotations each. https://labelstud.io/guide/task_format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from credalset.exceptions import FileFormatError
from credalset.votes.exports.export import Export, Record

__all__ = ["ANSWERS", "annotations_of", "answer", "chosen_in", "recognise", "votes", "why_not"]

#: types of answers that are votes, each also the key of its value
ANSWERS = ("choices", "rating", "taxonomy")


def recognise(records: list[Record]) -> bool:
    """Tasks with data and a list of annotations that have results."""
    lists = [found for record in records if isinstance(found := annotations_of(record), list)]
    if lists and all("data" in record for record in records):
        return True
    annotations = [one for found in lists for one in found if isinstance(one, dict)]
    return any(isinstance(one.get("result"), list) for one in annotations)


def annotations_of(task: Record) -> Any:
    """Return the annotations of a task; before version 1.0 they were called completions."""
    return task.get("annotations", task.get("completions"))


def votes(export: Export) -> Iterator[tuple[Any, ...]]:
    """Yield a vote per annotation.

    Cancelled and ground-truth ones are dropped, predictions and drafts ignored.
    """
    seen: set[Any] = set()
    for _, task, record in export.records("id"):
        found = annotations_of(record)
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise FileFormatError(
                f"{export.name}: task {task!r} has no complete annotations. Export these."
            )
        for annotation in found:
            if reason := why_not(annotation, seen):
                export.dropped[reason] += 1
                continue
            seen.add(annotation.get("id"))
            time = export.field(annotation, "time", "updated_at", "created_at")
            worker = export.worker(annotation, "completed_by")
            yield task, worker, answer(annotation.get("result") or [], export), time


def why_not(annotation: Record, seen: set[Any]) -> str:
    """Return the reason why an annotation is not a vote, empty if it is one."""
    if annotation.get("was_cancelled") or annotation.get("skipped"):
        return "cancelled"
    if annotation.get("ground_truth"):
        return "marked as ground truth"
    # Exports with several annotations per task have listed the task once per annotation, with all
    # of them each time.
    identity = annotation.get("id")
    return "listed twice" if identity is not None and identity in seen else ""


def answer(results: list[Any], export: Export) -> Any:
    """Return the answer to the question: a rating, or a list of choices; None if unanswered."""
    chosen: list[Any] | None = None
    for result in results:
        value = result.get("value") if isinstance(result, dict) else None
        key = str(result.get("type")).lower() if isinstance(value, dict) else ""
        if value is None or key not in ANSWERS or key not in value:
            continue
        if set(value) - {key}:
            export.dropped["about a part of the item"] += 1
        elif export.asks(str(result.get("from_name"))):
            chosen = (chosen or []) + chosen_in(value, key, export)
    return chosen


def chosen_in(value: Record, key: str, export: Export) -> list[Any]:
    """Return the rating or the choices that a value holds.

    A choice in a taxonomy is the path to it.
    """
    if key == "rating":
        export.ordered = True
        return [value[key]]
    return [
        " / ".join(map(str, choice)) if isinstance(choice, list) else choice
        for choice in value[key] or []
    ]
