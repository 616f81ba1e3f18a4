"""Long tables, a row per vote, under any column names: CSV, TSV, JSON Lines, Parquet."""

from __future__ import annotations

from collections.abc import Iterator

from credalset.annotations.naming import guess_columns, likely_workers, warn_of_nobody
from credalset.annotations.readers.common import Export, Guess, Reader
from credalset.annotations.readers.parsing import Batch
from credalset.annotations.readers.source import Source
from credalset.exceptions import FileFormatError

TAKES = ("task", "worker", "label", "time", "weight")


def recognise(source: Source) -> Guess | None:
    """Recognise a table by the names of its columns, and by values that are no lists or objects."""
    try:
        roles = guess_columns(source.columns, {})
    except ValueError:
        return None
    rows = [row for row in source.sample if isinstance(row, dict)]
    if len(rows) < len(source.sample) or any(
        isinstance(row.get(name), dict) for row in rows for name in roles.values()
    ):
        return None
    labels = [row[roles["label"]] for row in rows if row.get(roles["label"]) is not None]
    listed = any(isinstance(label, list) for label in labels)
    differ = "worker" not in roles and len(labels) > 3 and len(set(map(str, labels))) == len(labels)
    sure = (0.8 if "worker" in roles else 0.6) - (0.3 if listed or differ else 0.0)
    return Guess(sure, "its columns have names of tasks and labels" + (", and of workers" if "worker" in roles else ""))


def read(export: Export) -> Iterator[Batch]:
    """Yield the columns that were asked for or guessed."""
    source, given = export.source, {role: getattr(export.wanted, role) for role in TAKES}
    try:
        roles = guess_columns(source.columns, given)
    except ValueError as error:
        raise type(error)(f"{source.name}: {error}") from None
    names = [str(name) for name in roles.values()]
    export.log.notes.append(", ".join(f"{role} from {name!r}" for role, name in zip(roles, names, strict=True)))
    if "worker" not in roles:
        rows = [row for row in source.sample if isinstance(row, dict)]
        beside = {name: [row.get(name) for row in rows] for name in source.columns if name not in names}
        warn_of_nobody(likely_workers([row.get(roles["task"]) for row in rows], beside), f"{source.name}: ")
    for batch in source.batches(names):
        for name, column in batch.items():
            kinds = set(map(type, column))
            if float in kinds:
                batch[name] = [None if value != value else value for value in column]  # NaN
            if dict in kinds:
                raise FileFormatError(f"{source.name}: column {name!r} holds objects, not names or numbers.")
        yield {role: batch[name] for role, name in zip(roles, names, strict=True)}


READER = Reader("long", recognise, read, TAKES, missing="error")
