"""The records of a file, with helpers for the modules of the tools."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from credalset.io.tables import read_records
from credalset.votes.tables import is_missing, labels_of

__all__ = ["Export", "Record", "dig", "open_export", "text_of"]

Record = dict[str, Any]


@dataclass
class Export:
    """The records of some files, the columns given by the caller, and a reader's findings."""

    name: str
    files: list[tuple[str, list[Record]]]  # name without suffix, records
    given: dict[str, Any]
    folder: Path | None = None
    # metadata of columns by the Hugging Face library
    features: dict[str, Any] = field(default_factory=dict)
    # labels in their order, with their positions on a scale or None, where a table has noted them
    labels: dict[str, float | None] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    how: list[str] = field(default_factory=list)
    classes: dict[Any, None] = field(default_factory=dict)  # labels that could be chosen
    items: dict[Any, None] = field(default_factory=dict)
    ordered: bool = False
    only: str | None = None  # the one question that is read
    named_by: str | None = None  # the field that names the items
    n_normalised: int = 0  # texts that were not in Unicode form NFC

    def records(self, *usual: str) -> Iterator[tuple[str, Any, Record]]:
        """Yield the name of the file, the item and the fields of every record.

        The item is named by the field given as its task, by the first usual one, or by its number.
        """
        number = 0
        for stem, records in self.files:
            for record in records:
                found = self.field(record, "task", *usual)
                given = self.given["task"]
                if found is None and given is not None:
                    raise ValueError(
                        f"task names {given!r}, which record {number} does "
                        f"not have: {list(record)}."
                    )
                if self.named_by is None and found is not None:
                    self.named_by = given or next(
                        name for name in usual if record.get(name) is not None
                    )
                task = text_of(number if found is None else found)
                self.items[task] = None
                yield stem, task, record
                number += 1

    def field(self, record: Record, role: str, *usual: str) -> Any:
        """Return the field given for a role, otherwise the first usual one that the record has."""
        wanted = self.given[role]
        if wanted is not None:
            return dig(record, wanted)
        return _first(record, usual)

    def worker(self, record: Record, *usual: str) -> Any:
        """Return the annotator: a name, or the id of an object; None if unknown."""
        who = self.field(record, "worker", *usual)
        return _first(who, ("id", "email", "username")) if isinstance(who, dict) else who

    def asks(self, question: str) -> bool:
        """Tell whether to read a question: the one ``label`` names, or the only one."""
        if self.given["label"] is not None:
            return bool(question == self.given["label"])
        self.only = self.only or question
        if question != self.only:
            raise ValueError(
                f"{self.name} has several questions, such as {self.only!r} and {question!r}. "
                "Choose one with label."
            )
        return True

    def declare(self, labels: Iterable[Any]) -> None:
        """Add labels that could be chosen, whether or not a vote is for them."""
        self.classes.update(dict.fromkeys(map(text_of, labels)))


def _first(record: Record, names: Iterable[str]) -> Any:
    """Return the first of some fields that has a value."""
    return next((record[name] for name in names if record.get(name) is not None), None)


def dig(record: Any, path: str) -> Any:
    """Return a field of a record by name, or by names joined by dots; None if it is missing.

    Examples
    --------
    >>> dig({"data": {"uid": 7}}, "data.uid")
    7
    """
    if not isinstance(record, dict):
        return None
    if path in record:
        return record[path]
    head, _, rest = str(path).partition(".")
    return dig(record.get(head), rest) if rest else None


def text_of(value: Any) -> Any:
    """Return a value as the text in the file, None if it is empty, a list of texts for a list."""
    if is_missing(value):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return [text_of(one) for one in value]
    return str(value)


def open_export(
    path: str | Path, given: dict[str, Any], encoding: str | None, delimiter: str | None
) -> Export:
    """Read a file, or those of a folder, a pattern or an archive, as records."""
    records = read_records(path, encoding=encoding, delimiter=delimiter)
    files = [(file.stem, found) for file, found in records.files]
    name = f"{len(files)} files in {path}"
    if len(files) == 1:
        name = Path(records.files[0][0].name).name
    export = Export(name, files, given, Path(path) if Path(path).is_dir() else None)
    for metadata in records.metadata:
        about = json.loads(metadata.get(b"huggingface", b"{}"))
        export.features |= about.get("info", {}).get("features", {})
        export.labels |= labels_of(metadata)
    export.n_normalised = records.n_normalised
    return export
