"""Argilla: records with lists of responses, as a Hugging Face dataset or as its own JSON.

Datasets are Parquet or JSON.

https://docs.argilla.io/latest/how_to_guides/import_export/
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from credalset.exceptions import FileFormatError
from credalset.votes.exports.export import Export, Record

__all__ = ["recognise", "votes"]

ENDING = ".responses"
PARTS = {"user_id", "value"}
# types of questions whose options are labels
CHOICES = ("label_selection", "multi_label_selection", "rating")


def recognise(records: list[Record]) -> bool:
    """Columns of responses, or responses with a user and a value."""
    return any(True for record in records for _ in _questions(record))


def votes(export: Export) -> Iterator[tuple[Any, ...]]:
    """Yield a vote per submitted response; drafts and discards are dropped, suggestions ignored."""
    _declare(export)
    for _, task, record in export.records("id", "external_id"):
        for question, responses in _questions(record):
            if not responses or not export.asks(question):
                continue
            for user, value, status in responses:
                parts = value if isinstance(value, list) else [value]
                if any(isinstance(part, dict) for part in parts):
                    raise FileFormatError(
                        f"{export.name}: {question!r} asks for rankings or spans, not for labels."
                    )
                if status is not None and str(status).lower() != "submitted":
                    export.dropped[str(status).lower()] += 1
                else:
                    yield task, user, value


def _questions(record: Record) -> Iterator[tuple[str, list[tuple[Any, Any, Any]]]]:
    """Yield each question and its responses (user, value, status), in any of three layouts."""
    nested = record.get("responses")
    if isinstance(nested, dict) and "fields" in record:
        for name, responses in nested.items():
            yield name, list(map(_response, responses or []))
        return
    for name, value in record.items():
        if name.endswith(ENDING):
            users = record.get(f"{name}.users")
            status = record.get(f"{name}.status")
            yield name.removesuffix(ENDING), _zipped(users, value, status)
        elif isinstance(value, dict) and set(value) >= PARTS and isinstance(value["value"], list):
            yield name, _zipped(value["user_id"], value["value"], value.get("status"))
        elif isinstance(value, list) and value and all(map(_is_response, value)):
            yield name, list(map(_response, value))


def _is_response(value: Any) -> bool:
    return isinstance(value, dict) and set(value) >= PARTS


def _response(value: Record) -> tuple[Any, Any, Any]:
    return value.get("user_id"), value.get("value"), value.get("status")


def _zipped(users: Any, values: Any, statuses: Any) -> list[tuple[Any, Any, Any]]:
    return list(zip_longest(users or [], values or [], statuses or []))[: len(values or [])]


def _declare(export: Export) -> None:
    """Note the options of the question from the settings beside the data, if there are any."""
    settings = None if export.folder is None else export.folder / ".argilla" / "settings.json"
    if settings is None or not settings.is_file():
        return
    try:
        questions = json.loads(settings.read_bytes())["questions"]
        asked = [q for q in questions if export.given["label"] in (None, q["name"])]
        chosen = [q["settings"] for q in asked if q["settings"]["type"] in CHOICES]
        if len(chosen) == 1:
            export.declare(option["value"] for option in chosen[0]["options"])
            export.ordered = chosen[0]["type"] == "rating"
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(
            f"{settings} is not a settings file of Argilla ({error}). Remove it."
        ) from None
