"""Exports of annotation tools: one module per tool, which converts records to votes.

A module has ``recognise(records)``, which tells from the structure of the first records whether
they are of its tool, and ``votes(export)``, which yields (task, worker, label) or (task, worker,
label, time).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from credalset.exceptions import FileFormatError
from credalset.votes.exports import (
    argilla,
    doccano,
    label_studio,
    label_studio_min,
    lewidi,
    lists,
    prodigy,
)
from credalset.votes.exports.export import dig, read_records, text_of
from credalset.votes.names import LABELS
from credalset.votes.tables import LongTable, long_table, melt

#: modules by kind, in the order in which they are tried
TOOLS: dict[str, Any] = {
    "label-studio": label_studio,
    "label-studio-min": label_studio_min,
    "prodigy": prodigy,
    "argilla": argilla,
    "lewidi": lewidi,
    "lists": lists,
    "doccano": doccano,
}
KINDS = (*TOOLS, "crowd-kit", "long", "wide")
SAMPLE = 200  # records by which a kind is recognised


def read_votes(
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
    export = read_records(path, names, encoding, delimiter)
    records = [record for _, found in export.files for record in found]
    if not records:
        raise FileFormatError(f"{export.name} has no votes: there are no rows.")
    if kind is None:
        first = records[:SAMPLE]
        kind = next(
            (name for name, tool in TOOLS.items() if first and tool.recognise(first)), "long"
        )
    if kind == "wide":
        table = melt(
            _columns(records, [names["task"], *(names["worker"] or ())]),
            names["task"],
            names["worker"],
        )
        export.how.append(f"annotators {', '.join(map(repr, dict.fromkeys(table.worker or ())))}")
    elif kind in (
        "long",
        "crowd-kit",
    ):  # crowd-kit's columns are task, worker (or performer) and label
        table = long_table(_columns(records, names.values()), names)
        table.declare(export.features.get(LABELS, {}))
    else:
        table = LongTable.collect(TOOLS[kind].votes(export))
        table.classes = tuple(export.classes) or None
        table.ordered = export.ordered
        table.items = tuple(export.items)
        table.dropped = export.dropped
        table.named_by = export.named_by
        for role in ("worker", "label"):
            if names[role] is not None and not any(getattr(table, role) or ()):
                raise ValueError(
                    f"{role} names the field {names[role]!r}, which {export.name} does not have."
                )
    for role in ("task", "worker", "label", "time"):
        column = getattr(table, role) or []
        if any(isinstance(value, dict) for value in column):
            raise FileFormatError(
                f"{export.name}: {role} holds objects, not names. Name another field with {role}."
            )
        column[:] = map(text_of, column)
    export.how.append(
        "items are numbered" if table.named_by is None else f"items are named by {table.named_by!r}"
    )
    table.items = None if table.items is None else tuple(map(text_of, table.items))
    table.classes = None if table.classes is None else tuple(map(text_of, table.classes))
    return table, "; ".join([f"{export.name}, read as {kind}", *export.how])


def _columns(records: list[dict[str, Any]], wanted: Any) -> dict[str, list[Any]]:
    """Return fields of records by name, if wanted those within objects too: ``answer.label``."""
    columns = {
        name: [record.get(name) for record in records]
        for name in dict.fromkeys(n for r in records for n in r)
    }
    deeper = {
        name: [dig(record, name) for record in records] for name in wanted if "." in str(name)
    }
    return {
        name: values for name, values in deeper.items() if values.count(None) < len(values)
    } | columns
