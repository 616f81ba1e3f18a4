"""Argilla: records with lists of responses, as Parquet or JSON of a Hugging Face dataset, or as its own JSON.

https://docs.argilla.io/latest/how_to_guides/import_export/
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from credalset.annotations.readers.common import Export, Guess, OneQuestion, Reader, Vote, as_name
from credalset.annotations.readers.source import Source
from credalset.exceptions import FileFormatError

ENDING = ".responses"
PARTS = {"user_id", "value"}
CHOICES = ("label_selection", "multi_label_selection", "rating")  # types of questions whose options are labels
Response = tuple[Any, Any, Any]  # user, value, status


def recognise(source: Source) -> Guess | None:
    """Recognise records by columns of responses, or by responses with a user and a value."""
    if any(name.endswith(ENDING) for name in source.columns):
        return Guess(1.0, "its records have columns of responses")
    rows = [row for row in source.sample if isinstance(row, dict)]
    if any(isinstance(row.get("responses"), dict) and "fields" in row for row in rows):
        return Guess(1.0, "its records have fields and responses")
    if any(_is_old(value) for row in rows for value in row.values()):
        return Guess(0.95, "its records hold responses with a user and a value")
    return None


def read(export: Export) -> Iterator[Vote]:
    """Yield a vote per submitted response; drafts and discarded ones are left out, suggestions ignored."""
    question = OneQuestion(export)
    _declare(export)
    for _, _, task, row in export.records("id", "external_id"):
        yield Vote(task)
        for name, responses in _questions(row):
            if not responses or not question(name):
                continue
            for user, value, status in responses:
                if status is not None and str(status).lower() != "submitted":
                    export.log.left_out[str(status).lower()] += 1
                else:
                    yield Vote(task, as_name(user), _checked(value, name, export.source))


def _checked(value: Any, name: str, source: Source) -> Any:
    parts = value if isinstance(value, list) else [value]
    if any(isinstance(part, dict) for part in parts):
        raise FileFormatError(
            f"{source.name}: the question {name!r} asks for rankings or spans, which are no labels of items."
        )
    return value


def _questions(row: dict[str, Any]) -> Iterator[tuple[str, list[Response]]]:
    """Yield the name and responses of every question, in whichever of the three layouts."""
    nested = row.get("responses")
    if isinstance(nested, dict):
        for name, responses in nested.items():
            yield name, [(r.get("user_id"), r.get("value"), r.get("status")) for r in responses or []]
        return
    for name, value in row.items():
        if name.endswith(ENDING):
            users, statuses = row.get(f"{name}.users"), row.get(f"{name}.status")
            yield name.removesuffix(ENDING), _aligned(users, value, statuses)
        elif _is_old(value):
            yield name, _old_responses(value)


def _is_old(value: Any) -> bool:
    """Tell whether a value holds responses as written before version 2: objects in a list, or lists in an object."""
    if isinstance(value, dict):
        return set(value) >= PARTS and isinstance(value["value"], list) and isinstance(value["user_id"], list)
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) and set(one) >= PARTS for one in value)


def _old_responses(value: Any) -> list[Response]:
    if isinstance(value, dict):
        return _aligned(value["user_id"], value["value"], value.get("status"))
    return [(one["user_id"], one["value"], one.get("status")) for one in value]


def _aligned(users: Any, values: Any, statuses: Any) -> list[Response]:
    """Return responses from lists side by side, of which those of users and statuses may be missing."""
    return list(zip_longest(users or [], values or [], statuses or []))[: len(values or [])]


def _declare(export: Export) -> None:
    """Note the options of the question from the settings beside the data, where a folder holds them."""
    settings = Path(export.source.path) / ".argilla" / "settings.json"
    if not settings.is_file():
        return
    try:
        questions = json.loads(settings.read_text(encoding="utf-8")).get("questions", [])
        kinds = [q for q in questions if q["settings"]["type"] in CHOICES]
        chosen = [q for q in kinds if export.wanted.label in (None, q["name"])]
        if len(chosen) == 1:
            export.log.declare(option["value"] for option in chosen[0]["settings"]["options"])
            export.log.ordered = chosen[0]["settings"]["type"] == "rating"
    except (ValueError, KeyError, TypeError, AttributeError):
        export.log.notes.append("settings.json could not be understood, so labels that nobody chose are not known")


READER = Reader("argilla", recognise, read, ("task", "label"))
