"""Prodigy, JSONL of db-out: a line per answer.

https://prodi.gy/docs/api-interfaces
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from credalset.annotations.readers.common import Export, Guess, OneQuestion, Reader, Vote
from credalset.annotations.readers.source import Source
from credalset.exceptions import FileFormatError

#: sessions that nobody named are called after their start
UNNAMED = re.compile(r"\d{4}-\d\d-\d\d_\d\d")


def recognise(source: Source) -> Guess | None:
    """Recognise answers by the hashes that Prodigy gives to tasks."""
    columns = set(source.columns)
    if "answer" in columns and columns & {"_input_hash", "_task_hash"}:
        return Guess(1.0, "its lines have an answer and Prodigy's hashes")
    if "answer" in columns and columns & {"_session_id", "_annotator_id", "_view_id"}:
        return Guess(0.95, "its lines have an answer and Prodigy's sessions")
    return None


def read(export: Export) -> Iterator[Vote]:
    """Yield a vote per answer: the options accepted, or accept and reject of the label in question."""
    log, wanted = export.log, export.wanted.one_vs_rest
    question = OneQuestion(export, "one_vs_rest", "asks yes-or-no questions about several labels")
    named = False
    for _, number, task, row in export.records("_input_hash", "_task_hash", "text"):
        worker = export.worker(row, "_annotator_id", "_session_id")
        time = export.field(row, "time", "_timestamp")
        named = named or not UNNAMED.match(str(worker))
        yield Vote(task)
        answer = row.get("answer")
        if answer not in ("accept", "reject"):
            log.left_out["ignored" if answer == "ignore" else "without an answer"] += 1
        elif "accept" in row or "options" in row:
            log.declare(
                option["id"] for option in row.get("options") or [] if isinstance(option, dict) and "id" in option
            )
            if answer == "reject":
                log.left_out["rejected"] += 1
                continue
            yield Vote(task, worker, row.get("accept") or [], time)
        elif isinstance(row.get("label"), str):
            if question(row["label"]):
                no = f"not {row['label']}" if wanted is None else []  # with one_vs_rest, what was chosen is a list
                yield Vote(task, worker, row["label"] if answer == "accept" else no, time)
        else:
            raise FileFormatError(
                f"{export.source.name}: line {number + 1} has neither options nor a label, only {list(row)}: spans of "
                "text are no labels of items."
            )
    if question.only is not None:
        log.declare([f"not {question.only}", question.only])
    if not named:
        log.notes.append("sessions have no names, so that each of them counts as an annotator")


READER = Reader("prodigy", recognise, read, ("task", "worker", "time"))
