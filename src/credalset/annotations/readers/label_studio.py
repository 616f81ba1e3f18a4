"""Label Studio, JSON: tasks with a list of annotations each.

https://labelstud.io/guide/task_format
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from credalset.annotations.readers.common import (
    Guess,
    Log,
    OneQuestion,
    Reader,
    Vote,
    Wanted,
    as_name,
    chosen_field,
    dig,
    in_batches,
    task_of,
)
from credalset.annotations.readers.source import Source
from credalset.exceptions import FileFormatError

#: types of answers that are votes, and the key of their value
ANSWERS = {"choices": "choices", "rating": "rating", "taxonomy": "taxonomy"}


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


@in_batches
def read(source: Source, wanted: Wanted, log: Log) -> Iterator[Vote]:
    """Yield a vote per annotation; cancelled and ground-truth ones are left out, predictions and drafts ignored."""
    question = OneQuestion(wanted.label, "questions", source.name)
    seen: set[Any] = set()
    for _, number, task in source.records():
        found = annotations_of(task)
        if not isinstance(found, list):
            raise FileFormatError(f"{source.name}: task {number} has no list of annotations, only {list(task)}.")
        name = task_of(task, wanted, number, "id")
        yield Vote(name, None, None)
        for annotation in found:
            if not isinstance(annotation, dict):
                raise FileFormatError(f"{source.name} holds annotations as ids only. Export complete annotations.")
            identity = annotation.get("id")
            if reason := why_not(annotation, seen):
                log.left_out[reason] += 1
                continue
            if identity is not None:
                seen.add(identity)
            label = answer(annotation.get("result") or [], question, log)
            time = chosen_field(annotation, wanted.time, "updated_at", "created_at")
            yield Vote(name, worker_of(annotation, wanted), label, time)


def why_not(annotation: dict[str, Any], seen: set[Any]) -> str:
    """Say why an annotation is no vote, if it is none."""
    if annotation.get("was_cancelled") or annotation.get("skipped"):
        return "cancelled"
    if annotation.get("ground_truth"):
        return "ground truth"
    # Exports with several annotations per task have listed the task once per annotation, with all of them each time.
    return "listed again" if annotation.get("id") in seen else ""


def worker_of(annotation: dict[str, Any], wanted: Wanted) -> Any:
    """Return who annotated: a number, or the number in an object; None if the user is no longer known."""
    who = dig(annotation, "completed_by" if wanted.worker is None else wanted.worker)
    if isinstance(who, dict):
        who = next((who[key] for key in ("id", "email", "username") if who.get(key) is not None), None)
    return as_name(who)


def answer(results: list[Any], question: OneQuestion, log: Log) -> Any:
    """Return the answer to the question: a rating, or a list of the choices; None if it was not answered."""
    chosen: list[Any] | None = None
    for result in results:
        value = result.get("value") if isinstance(result, dict) else None
        key = ANSWERS.get(str(result.get("type")).lower()) if isinstance(value, dict) else None
        if value is None or key is None or key not in value:
            continue
        if set(value) - {key}:
            log.left_out["about a part of the item"] += 1
        elif question(str(result.get("from_name"))):
            if key == "rating":
                log.ordered = True
                return value[key]
            chosen = (chosen or []) + [leaf(choice) for choice in value[key] or []]
    return chosen


def leaf(choice: Any) -> Any:
    """Return a choice; one in a taxonomy is the path to it."""
    return " / ".join(map(str, choice)) if isinstance(choice, list) else choice


READER = Reader("label-studio", "Label Studio JSON", recognise, read, ("task", "worker", "label", "time"))
