"""Exports of annotation tools: one module per tool, which converts records to votes.

A module has ``recognise(records)``, which tells from the structure of the first records whether
they are of its tool, and ``votes(export)``, which yields (task, worker, label) or (task, worker,
label, time).

``votes`` goes through ``export.records(...)``, which finds the name of each item in the field that
the caller gave or in one of the usual fields, and keeps the items in the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from credalset.exceptions import FileFormatError
from credalset.io.tables import said_of_normalised
from credalset.votes.exports import (
    argilla,
    by_worker,
    doccano,
    inspect_ai,
    label_studio,
    label_studio_min,
    lewidi,
    lists,
    prodigy,
)
from credalset.votes.exports.export import Export, Record, dig, open_export, text_of
from credalset.votes.tables import (
    LongTable,
    find_columns,
    long_table,
    melt,
    refuse_unnamed_worker,
)

__all__ = ["KINDS", "TOOLS", "read_export"]

#: modules by kind, in the order in which they are tried
TOOLS: dict[str, Any] = {
    "label-studio": label_studio,
    "label-studio-min": label_studio_min,
    "prodigy": prodigy,
    "argilla": argilla,
    "lewidi": lewidi,
    "lists": lists,
    "doccano": doccano,
    "inspect": inspect_ai,
    "by-worker": by_worker,
}
KINDS = (*TOOLS, "crowd-kit", "long", "wide")
SAMPLE = 200  # records by which a kind is recognised


def read_export(
    path: str | Path,
    kind: str | None,
    names: dict[str, Any],
    encoding: str | None = None,
    delimiter: str | None = None,
) -> tuple[LongTable, str]:
    """Read a file of votes as a long table of texts; return it and what the file was read as.

    Parameters
    ----------
    path : path
        A file, a folder, a pattern or a zip archive.
    kind : str, optional
        One of `KINDS`; by default the tool whose structure the file has, else a long table.
    names : dict
        Columns or fields by role: task, worker, label, time; None where they are to be found.
    encoding, delimiter : str, optional
        Of text files.
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, but is {kind!r}.")
    export = open_export(path, names, encoding, delimiter)
    records = [record for _, found in export.files for record in found]
    if not records:
        raise FileFormatError(f"{export.name} has no votes: there are no rows.")
    if kind is None:
        kind = _recognise(records[:SAMPLE])
    if kind == "wide":
        table = _read_wide(export, records)
    elif kind in ("long", "crowd-kit"):
        # crowd-kit's columns are task, worker (or performer) and label
        table = _read_long(export, records)
    else:
        table = _read_tool(export, kind)
    _make_texts(table, export)
    if export.n_normalised:
        table.notes.append(said_of_normalised(export.n_normalised))
    named = "items are numbered"
    if table.named_by is not None:
        named = f"items are named by {table.named_by!r}"
    return table, "; ".join([f"{export.name}, read as {kind}", *export.how, named])


def _recognise(first: list[Record]) -> str:
    """Return the first tool whose structure the records have, else that they are a long table."""
    return next((name for name, tool in TOOLS.items() if tool.recognise(first)), "long")


def _read_wide(export: Export, records: list[Record]) -> LongTable:
    task = export.given["task"]
    workers = export.given["worker"]
    table = melt(_columns(records, [task, *(workers or ())]), task, workers)
    export.how.append(f"annotators {', '.join(map(repr, dict.fromkeys(table.worker or ())))}")
    return table


def _read_long(export: Export, records: list[Record]) -> LongTable:
    columns = _columns(records, export.given.values())
    roles = find_columns(list(columns), export.given)
    if export.given["worker"] is None:
        refuse_unnamed_worker(columns, roles, export.name)
    table = long_table(columns, export.given)
    table.declare(export.labels)
    return table


def _read_tool(export: Export, kind: str) -> LongTable:
    table = LongTable.collect(TOOLS[kind].votes(export))
    table.classes = tuple(export.classes) or None
    table.ordered = export.ordered
    table.items = tuple(export.items)
    table.dropped = export.dropped
    table.named_by = export.named_by
    for role in ("worker", "label"):
        name = export.given[role]
        if name is not None and not any(getattr(table, role) or ()):
            raise ValueError(f"{role} names the field {name!r}, which {export.name} does not have.")
    return table


def _make_texts(table: LongTable, export: Export) -> None:
    """Write the names of items, workers and labels, and times, as the texts of the file."""
    for role in ("task", "worker", "label", "time"):
        column = getattr(table, role) or []
        if any(isinstance(value, dict) for value in column):
            raise FileFormatError(
                f"{export.name}: {role} holds objects, not names. Name another field with {role}."
            )
        column[:] = map(text_of, column)
    if table.items is not None:
        table.items = tuple(map(text_of, table.items))
    if table.classes is not None:
        table.classes = tuple(map(text_of, table.classes))


def _columns(records: list[Record], wanted: Iterable[Any]) -> dict[str, list[Any]]:
    """Return fields of records by name, if wanted those within objects too: ``answer.label``."""
    columns = {}
    for path in wanted:
        if "." in str(path):
            values = [dig(record, path) for record in records]
            if any(value is not None for value in values):
                columns[path] = values
    for name in dict.fromkeys(name for record in records for name in record):
        columns[name] = [record.get(name) for record in records]
    return columns
