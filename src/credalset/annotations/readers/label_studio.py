"""Label Studio, JSON: tasks with a list of annotations each.

https://labelstud.io/guide/task_format
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from credalset.annotations.readers.common import Export, Guess, Log, OneQuestion, Reader, Vote
from credalset.annotations.readers.source import Source
from credalset.exceptions import FileFormatError

#: types of answers that are votes, each also the key of its value
ANSWERS = ("choices", "rating", "taxonomy")


def recognise(source: Source) -> Guess | None:
    """Recognise tasks by their list of annotations, which have results."""
    tasks = [task for task in source.sample if isinstance(task, dict) and isinstance(annotations_of(task), list)]
    found = [annotation for task in tasks for annotation in annotations_of(task)]
    if any(isinstance(annotation, dict) and isinstance(annotation.get("result"), list) for annotation in found):
        return Guess(1.0, "its tasks have annotations with results")
    if tasks and all("data" in task for task in tasks):
        return Guess(0.8, "its tasks have data and a list of annotations")
    return None


def annotations_of(task: dict[str, Any]) -> Any:
    """Return the annotations of a task; before version 1.0 they were called completions."""
    return task.get("annotations", task.get("completions"))


def read(export: Export) -> Iterator[Vote]:
    """Yield a vote per annotation; cancelled and ground-truth ones are left out, predictions and drafts ignored."""
    name, log = export.source.name, export.log
    question = OneQuestion(export)
    seen: set[Any] = set()
    for _, number, task, record in export.records("id"):
        found = annotations_of(record)
        if not isinstance(found, list):
            raise FileFormatError(f"{name}: task {number} has no list of annotations, only {list(record)}.")
        yield Vote(task)
        for annotation in found:
            if not isinstance(annotation, dict):
                raise FileFormatError(f"{name} holds annotations as ids only. Export complete annotations.")
            if reason := why_not(annotation, seen):
                log.left_out[reason] += 1
                continue
            seen.add(annotation.get("id"))
            label = answer(annotation.get("result") or [], question, log)
            time = export.field(annotation, "time", "updated_at", "created_at")
            yield Vote(task, export.worker(annotation, "completed_by"), label, time)


def why_not(annotation: dict[str, Any], seen: set[Any]) -> str:
    """Say why an annotation is no vote, if it is none."""
    if annotation.get("was_cancelled") or annotation.get("skipped"):
        return "cancelled"
    if annotation.get("ground_truth"):
        return "ground truth"
    # Exports with several annotations per task have listed the task once per annotation, with all of them each time.
    identity = annotation.get("id")
    return "listed again" if identity is not None and identity in seen else ""


def answer(results: list[Any], question: OneQuestion, log: Log) -> Any:
    """Return the answer to the question: a rating, or a list of the choices; None if it was not answered."""
    chosen: list[Any] | None = None
    for result in results:
        value = result.get("value") if isinstance(result, dict) else None
        key = str(result.get("type")).lower() if isinstance(value, dict) else ""
        if value is None or key not in ANSWERS or key not in value:
            continue
        if set(value) - {key}:
            log.left_out["about a part of the item"] += 1
        elif question(str(result.get("from_name"))):
            given = chosen_in(value, key, log)
            if key == "rating":
                return given
            chosen = (chosen or []) + given
    return chosen


def chosen_in(value: dict[str, Any], key: str, log: Log) -> Any:
    """Return the rating, or the list of choices, that a value holds; a choice in a taxonomy is the path to it."""
    if key == "rating":
        log.ordered = True
        return value[key]
    return [" / ".join(map(str, choice)) if isinstance(choice, list) else choice for choice in value[key] or []]


READER = Reader("label-studio", recognise, read, ("task", "worker", "label", "time"))
