"""Label Studio, JSON-MIN, CSV and TSV: a row per annotation, its answers beside its task.

https://labelstud.io/guide/export#JSON-MIN
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from credalset.votes.exports.export import Export, Record
from credalset.votes.exports.label_studio import ANSWERS, chosen_in

__all__ = ["answer", "recognise", "votes"]


def recognise(records: list[Record]) -> bool:
    """Rows with the fields that Label Studio adds."""
    return {"annotator", "annotation_id", "lead_time"} <= set(records[0])


def votes(export: Export) -> Iterator[tuple[Any, ...]]:
    """Yield a vote per row. Files have no cancelled annotations, nor mark ground truth."""
    records = [record for _, found in export.files for record in found]
    label = export.given["label"] or _question(export, records)
    export.how.append(f"answers from {label!r}")
    seen: set[Any] = set()
    for _, task, row in export.records("id"):
        identity = row.get("annotation_id")
        if identity is not None and identity in seen:
            export.dropped["listed twice"] += 1
            continue
        seen.add(identity)
        time = export.field(row, "time", "updated_at", "created_at")
        yield task, export.worker(row, "annotator"), answer(row.get(label), export), time


def _question(export: Export, records: list[Record]) -> str:
    """Return the only field between the id of the task and the annotator, where answers stand."""
    names = list(dict.fromkeys(name for record in records for name in record))
    between = names[names.index("id") + 1 if "id" in names else 0 : names.index("annotator")]
    if len(between) != 1:
        raise ValueError(
            f"label: {export.name} has answers in one of {between or names}. Name it with label."
        )
    return str(between[0])


def answer(value: Any, export: Export) -> Any:
    """Return a choice, a rating, or a list of choices; None for other values."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            value = json.loads(value, parse_int=str, parse_float=str)
        except ValueError:
            return value
    if isinstance(value, list):
        chosen: list[Any] = []
        for one in value:
            part = answer(one, export)
            if isinstance(part, list):
                chosen += part
            elif part is not None:
                chosen.append(part)
        return chosen or None
    if not isinstance(value, dict):
        return value
    key = next((key for key in ANSWERS if set(value) <= {key, "type"} and key in value), None)
    return None if key is None else chosen_in(value, key, export)
