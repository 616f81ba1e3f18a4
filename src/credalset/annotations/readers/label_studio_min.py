"""Label Studio, JSON-MIN, CSV and TSV: a row per annotation, with its answers beside the data of the task.

https://labelstud.io/guide/export#JSON-MIN
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from credalset.annotations.readers.common import Export, Guess, Log, Reader, Vote
from credalset.annotations.readers.label_studio import ANSWERS, chosen_in
from credalset.annotations.readers.source import Source

MARKS = {"annotator", "annotation_id", "lead_time"}


def recognise(source: Source) -> Guess | None:
    """Recognise rows by the fields that Label Studio adds to them."""
    if set(source.columns) >= MARKS:
        return Guess(1.0, "its rows have annotator, annotation_id and lead_time")
    return None


def read(export: Export) -> Iterator[Vote]:
    """Yield a vote per row. Cancelled annotations are not in such a file; ground truth cannot be told apart in it."""
    log, wanted = export.log, export.wanted.label
    label = wanted if wanted is not None else _only_answer(export.source)
    log.notes.append(f"answers from {label!r}; ground truth cannot be told apart in this kind of export")
    seen: set[Any] = set()
    for _, _, task, row in export.records("id"):
        identity = row.get("annotation_id")
        if identity is not None and identity in seen:
            log.left_out["listed again"] += 1
            continue
        seen.add(identity)
        time = export.field(row, "time", "updated_at", "created_at")
        yield Vote(task, export.worker(row, "annotator"), _answer(row.get(str(label)), log), time)


def _only_answer(source: Source) -> str:
    """Return the column that holds answers: they stand between the id of the task and the annotator."""
    columns = source.columns
    start = columns.index("id") + 1 if "id" in columns else 0
    between = [name for name in columns[start : columns.index("annotator")] if _holds_answers(source, name)]
    if len(between) == 1:
        return between[0]
    found = f"could be any of {between}" if between else f"was not found among {columns}"
    raise ValueError(f"{source.name}: the question {found}. Name it: label=...")


def _holds_answers(source: Source, name: str) -> bool:
    values = [record.get(name) for record in source.sample if isinstance(record, dict)]
    return any(_answer(value, Log()) is not None for value in values)


def _answer(value: Any, log: Log) -> Any:
    """Return a choice, a rating, or a list of choices; None for what is neither."""
    if isinstance(value, str) and value[:1] in "[{":
        try:
            value = json.loads(value)
        except ValueError:
            return value
    if isinstance(value, list):
        answers = [_answer(part, log) for part in value]
        answers = [part for part in answers if part is not None]
        return answers[0] if len(answers) == 1 else answers or None
    if not isinstance(value, dict):
        return value
    key = next((key for key in ANSWERS if set(value) <= {key, "type"} and key in value), None)
    return None if key is None else chosen_in(value, key, log)


READER = Reader("label-studio-min", recognise, read, ("task", "worker", "label", "time"))
