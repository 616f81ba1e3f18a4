"""Prodigy, JSONL of ``db-out``: a line per answer. https://prodi.gy/docs/api-interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from credalset.exceptions import FileFormatError
from credalset.votes.exports.export import Export, Record

__all__ = ["recognise", "votes"]

MARKS = {"_input_hash", "_task_hash", "_session_id", "_annotator_id", "_view_id"}


def recognise(records: list[Record]) -> bool:
    """Lines with an answer and Prodigy's hashes or sessions."""
    return "answer" in records[0] and bool(MARKS & set(records[0]))


def votes(export: Export) -> Iterator[tuple[Any, ...]]:
    """Yield a vote per answer: options accepted, or accept and reject of the label in question."""
    for _, task, row in export.records("_input_hash", "_task_hash", "text"):
        worker = export.worker(row, "_annotator_id", "_session_id")
        time = export.field(row, "time", "_timestamp")
        answer = row.get("answer")
        label = row.get("label")
        if answer not in ("accept", "reject"):
            export.dropped["ignored by the annotator"] += 1
        elif "accept" in row or "options" in row:
            options = [
                option
                for option in row.get("options") or []
                if isinstance(option, dict) and "id" in option
            ]
            export.declare(option["id"] for option in options)
            if answer == "reject":
                export.dropped["rejected by the annotator"] += 1
            else:
                yield task, worker, row.get("accept"), time
        elif isinstance(label, str):
            if export.asks(label):
                export.declare([f"not {label}", label])
                yield task, worker, label if answer == "accept" else f"not {label}", time
        else:
            raise FileFormatError(
                f"{export.name}: a line has neither options nor a label, only {list(row)}."
            )
