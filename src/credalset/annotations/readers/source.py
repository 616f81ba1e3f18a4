"""A file or several as one source of records or columns, whatever their format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from credalset.annotations.naming import as_mark
from credalset.annotations.readers.arrow import arrow_batches, arrow_schema
from credalset.annotations.readers.files import File, find_files, guard
from credalset.annotations.readers.parsing import Batch, JsonStream, as_text, delimited_batches, guess_delimiter
from credalset.exceptions import FileFormatError

BATCH = 1 << 14
SAMPLE_RECORDS = 200
SAMPLE_BYTES = 1 << 16
EMPTY = ("",)


@dataclass(frozen=True)
class Source:
    """What a path holds: text tables, JSON, or Parquet and Arrow tables; read in pieces, as often as needed."""

    path: str
    files: list[File]
    encoding: str | None = None
    delimiter: str | None = None
    empty: Sequence[str] = EMPTY
    format: str = field(init=False)

    def __post_init__(self) -> None:
        formats = {_format(file, self.encoding): file.name for file in self.files}
        if len(formats) > 1:
            raise FileFormatError(f"{self.path} mixes formats: {formats}. Read files of one format at a time.")
        object.__setattr__(self, "format", next(iter(formats)))

    @classmethod
    def open(cls, path: str | Path, **options: Any) -> Source:
        """Find the files and their format."""
        return cls(str(path), find_files(path), **options)

    @property
    def name(self) -> str:
        """What to call the source in messages."""
        return self.files[0].name if len(self.files) == 1 else f"{len(self.files)} files in {self.path}"

    @property
    def is_text(self) -> bool:
        """Whether numbers come as text."""
        return self.format == "text"

    @cached_property
    def sample(self) -> list[Any]:
        """The first records, or JSON documents that are none."""
        return list(islice((record for _, record in self.documents()), SAMPLE_RECORDS))

    @cached_property
    def columns(self) -> list[str]:
        """Names of the columns; of JSON records, every key among the first ones."""
        if self.format == "json":
            keys = (key for record in self.sample if isinstance(record, dict) for key in record)
            return list(dict.fromkeys(keys))
        if self.format == "text":
            return list(next(self._text_batches(self.files[0])))
        return list(arrow_schema(self.files[0], self.format).names)

    @cached_property
    def features(self) -> dict[str, Any]:
        """What the Hugging Face library noted about the columns of a Parquet or Arrow file."""
        if self.format in ("json", "text"):
            return {}
        noted = (arrow_schema(self.files[0], self.format).metadata or {}).get(b"huggingface", b"{}")
        found = json.loads(noted).get("info", {}).get("features", {})
        return found if isinstance(found, dict) else {}

    def documents(self) -> Iterator[tuple[File, Any]]:
        """Yield JSON documents, or the rows of a table as dicts."""
        for file in self.files:
            if self.format == "json":
                yield from ((file, document) for document in self._json_documents(file))
                continue
            for batch in self._file_batches(file):
                rows = zip(*batch.values(), strict=True)
                yield from ((file, dict(zip(batch, row, strict=True))) for row in rows)

    def records(self) -> Iterator[tuple[File, int, dict[str, Any]]]:
        """Yield documents with their number, refusing those that are no objects."""
        for number, (file, document) in enumerate(self.documents()):
            if not isinstance(document, dict):
                raise FileFormatError(
                    f"{file.name} must hold objects, but number {number} is {json.dumps(document)[:60]}."
                )
            yield file, number, document

    def batches(self, names: Sequence[str]) -> Iterator[Batch]:
        """Yield some columns, a batch of rows at a time; empty cells are None."""
        for file in self.files:
            yield from self._file_batches(file, names)

    def _file_batches(self, file: File, names: Sequence[str] | None = None) -> Iterator[Batch]:
        if self.format == "json":
            found = self._json_batches(file, names or self.columns)
        else:
            found = self._text_batches(file) if self.is_text else arrow_batches(file, self.format, names, BATCH)
        for batch in found:
            missing = [name for name in names or () if name not in batch]
            if missing:
                known = list(batch) if self.is_text else arrow_schema(file, self.format).names
                raise FileFormatError(f"{file.name} has no column {missing[0]!r}, only {known}.")
            yield {name: self._cells(batch[name]) for name in names or batch}

    def _cells(self, column: list[Any]) -> list[Any]:
        """Put None into empty cells."""
        blank = set(self.empty)
        if self.is_text:
            return [None if cell in blank else cell for cell in column]
        return column if self.empty == EMPTY else [None if as_mark(cell) in blank else cell for cell in column]

    def _text_batches(self, file: File) -> Iterator[Batch]:
        delimiter = self.delimiter
        if delimiter is None:
            with guard(file.name), as_text(file.open(), self.encoding) as stream:
                delimiter = guess_delimiter(stream.read(SAMPLE_BYTES), file.name)
        with guard(file.name), as_text(file.open(), self.encoding) as stream:
            yield from delimited_batches(stream, file.name, delimiter, BATCH)

    def _json_documents(self, file: File) -> Iterator[Any]:
        with guard(file.name), as_text(file.open(), self.encoding) as stream:
            yield from JsonStream(stream, file.name)

    def _json_batches(self, file: File, names: Sequence[str]) -> Iterator[Batch]:
        documents = self._json_documents(file)
        while records := list(islice(documents, BATCH)):
            if not all(isinstance(record, dict) for record in records):
                raise FileFormatError(f"{file.name} must hold objects, one per row.")
            yield {name: [record.get(name) for record in records] for name in names}


def _format(file: File, encoding: str | None) -> str:
    with guard(file.name), file.open() as stream:
        start = stream.read(512)
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"ARROW1"):
        return "arrow"
    if start.startswith(b"\xff\xff\xff\xff"):
        return "arrow-stream"
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = start.decode("utf-16", errors="ignore")
    elif b"\x00" in start and encoding is None:
        raise FileFormatError(f"{file.name} is a binary file of no known format. Export it as JSON, CSV or Parquet.")
    else:
        text = start.decode("utf-8", errors="replace").removeprefix("\ufeff")
    if not text.strip():
        raise FileFormatError(f"{file.name} is empty.")
    return "json" if text.lstrip()[0] in "[{" else "text"
