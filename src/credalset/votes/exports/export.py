"""The records of a file, and what the tools' readers share."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from credalset.annotations.readers.files import find_files, guard
from credalset.annotations.readers.source import Source
from credalset.exceptions import FileFormatError
from credalset.votes.tables import is_missing

Record = dict[str, Any]
# Numbers stay the texts that stand in the file; NaN is no label.
DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda text: None)


@dataclass
class Export:
    """The records of a file or several, the names that the caller gave, and what a reader finds out on the way."""

    name: str
    files: list[tuple[str, list[Record]]]  # name without suffix, records
    given: dict[str, Any]
    folder: Path | None = None
    features: dict[str, Any] = field(default_factory=dict)  # what the Hugging Face library noted about columns
    dropped: Counter[str] = field(default_factory=Counter)
    how: list[str] = field(default_factory=list)
    classes: dict[Any, None] = field(default_factory=dict)  # labels that could be chosen
    items: dict[Any, None] = field(default_factory=dict)
    ordered: bool = False
    only: str | None = None  # the one question that is read

    def records(self, *usual: str) -> Iterator[tuple[str, Any, Record]]:
        """Yield the name of the file, the item and the fields of every record.

        The item is named by the field that was asked for as its task, by the first usual one, or by its number.
        """
        number = 0
        for stem, records in self.files:
            for record in records:
                found = self.field(record, "task", *usual)
                if found is None and self.given["task"] is not None:
                    raise ValueError(f"task={self.given['task']!r} is not a field of record {number}: {list(record)}.")
                task = text_of(number if found is None else found)
                self.items[task] = None
                yield stem, task, record
                number += 1

    def field(self, record: Record, role: str, *usual: str) -> Any:
        """Return the field that was asked for in a role, else the first of the usual ones that is there."""
        wanted = self.given[role]
        if wanted is not None:
            return dig(record, wanted)
        return next((record[name] for name in usual if record.get(name) is not None), None)

    def worker(self, record: Record, *usual: str) -> Any:
        """Return who voted: a name, or the id of an object; None if that is not known."""
        who = self.field(record, "worker", *usual)
        if isinstance(who, dict):
            who = next((who[key] for key in ("id", "email", "username") if who.get(key) is not None), None)
        return who

    def asks(self, question: str) -> bool:
        """Tell whether to read a question: the one that ``label`` names, or the only one of the export."""
        if self.given["label"] is not None:
            return bool(question == self.given["label"])
        self.only = self.only or question
        if question != self.only:
            raise ValueError(
                f"{self.name} has several questions, such as {self.only!r} and {question!r}. Read one at a time: "
                f"label={self.only!r}."
            )
        return True

    def declare(self, labels: Iterable[Any]) -> None:
        """Note labels that could be chosen, whether anybody did or not."""
        self.classes.update(dict.fromkeys(map(text_of, labels)))


def dig(record: Any, path: str) -> Any:
    """Return the field of a record under a name, or under names joined by dots; None if there is none.

    Examples
    --------
    >>> dig({"data": {"uid": 7}}, "data.uid")
    7
    """
    if not isinstance(record, dict) or path in record:
        return record.get(path) if isinstance(record, dict) else None
    head, _, rest = str(path).partition(".")
    return dig(record.get(head), rest) if rest else None


def text_of(value: Any) -> Any:
    """Return a value as the text that stands in the file; None where it is empty, a list of texts for a list."""
    if isinstance(value, str) or is_missing(value):
        return value if isinstance(value, str) and value else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return [text_of(one) for one in value] if isinstance(value, list | tuple) else str(value)


def read_records(path: str | Path, given: dict[str, Any], encoding: str | None, delimiter: str | None) -> Export:
    """Read a file, or those of a folder, a pattern or an archive, as records."""
    source = Source.open(path, encoding=encoding, delimiter=delimiter)
    files: dict[str, list[Record]] = {}
    if source.format == "json":
        for file in find_files(path):
            with guard(file.name), file.open() as stream:
                files[file.stem] = parse_json(_decode(stream.read(), encoding), file.name)
    else:
        for file, record in source.documents():
            files.setdefault(file.stem, []).append(record)
    folder = Path(path) if Path(path).is_dir() else None
    return Export(source.name, list(files.items()), given, folder, source.features)


def _decode(data: bytes, encoding: str | None) -> str:
    return data.decode(encoding or ("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"))


def parse_json(text: str, name: str) -> list[Record]:
    r"""Return the records of JSON text: an array, an object of records by id, or documents in a row (JSON Lines).

    Examples
    --------
    >>> parse_json('{"id": 1.10, "label": "a"}\n{"id": 7}', "votes.jsonl")
    [{'id': '1.10', 'label': 'a'}, {'id': '7'}]
    """
    found = list(_documents(text, name))
    if len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    elif len(found) == 1 and found[0] and all(isinstance(value, dict) for value in found[0].values()):
        found = [{"id": key} | value for key, value in found[0].items()]
    return found


def _documents(text: str, name: str) -> Iterator[Any]:
    position = len(text) - len(text.lstrip())
    while position < len(text):
        try:
            document, position = DECODER.raw_decode(text, position)
        except RecursionError:
            raise FileFormatError(f"{name} is nested too deeply to be read.") from None
        except ValueError as error:
            line = text.count("\n", 0, getattr(error, "pos", position)) + 1
            raise FileFormatError(f"{name} is not valid JSON in line {line} ({error}). Export it again.") from None
        if not isinstance(document, dict | list) or (isinstance(document, list) and not all(map(_is_object, document))):
            raise FileFormatError(f"{name} must hold objects, but holds {str(document)[:60]!r}.")
        yield document
        while position < len(text) and text[position].isspace():
            position += 1


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)
