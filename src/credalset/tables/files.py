"""Tables in files: CSV, TSV, JSONL and Parquet, compressed or not, read and written a batch at a time."""

from __future__ import annotations

import csv as plain_csv
import io
import json
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from credalset._files import staged
from credalset.annotations.readers.files import STANDARD_STREAM, find_paths
from credalset.exceptions import need

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
BATCH_ROWS = 1 << 16
JSON_BLOCK = 1 << 24  # bytes of JSON lines read at a time
READ_BUFFER = 1 << 20  # bytes of a column that are read ahead, where Arrow would hold all of it
PEEKED = 1 << 13  # bytes at the start of a text file that tell how its fields are split


class Kind(NamedTuple):
    """What a file name says of its contents: format, and compression or None."""

    format: str
    compression: str | None


def kind_of(path: str, format: str | None = None, option: str = "format") -> Kind:
    """Read the format from a file's name, or take the one given; ``option`` is what the caller calls it.

    Examples
    --------
    >>> kind_of("votes.csv.gz")
    Kind(format='csv', compression='gzip')
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    compression = COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    if format is None:
        rest = suffixes[:-1] if compression else suffixes
        format = FORMATS.get(rest[-1]) if rest else None
    if format is None or format not in set(FORMATS.values()):
        known = ", ".join(sorted(set(FORMATS.values())))
        seen = "its format is not known" if format is None else f"{format!r} is no format"
        raise ValueError(
            f"{path}: {seen}. Name the file .csv, .tsv, .jsonl or .parquet, or say which it is: {option}=... ({known})."
        )
    return Kind(format, compression)


class Table(NamedTuple):
    """A table that is read as it is used: its schema, and its record batches."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def read_table(
    path: str, format: str | None = None, *, text: Sequence[str] = (), batch_rows: int = BATCH_ROWS
) -> Table:
    """Open a file, a folder, a pattern or standard input (``-``) as a stream of record batches.

    Parameters
    ----------
    path : str
        Where the table is.
    format : {"csv", "tsv", "jsonl", "parquet"}, optional
        By default as the name says; needed for standard input.
    text : sequence of str
        Columns that are text even where they look like numbers: ``007`` is not ``7``.
    batch_rows : int
        Rows per batch, at most.
    """
    need("pyarrow", "Reading tables")
    files = [path] if path == STANDARD_STREAM else list(map(str, find_paths(path, any_suffix=format is not None)))
    streams = (_open_file(file, format, text, batch_rows) for file in files)
    first = next(streams)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first.batches
        for file, table in zip(files[1:], streams, strict=True):
            if table.schema.names != first.schema.names:
                raise ValueError(
                    f"{file} has the columns {table.schema.names}, but {files[0]} has {first.schema.names}. "
                    "Files of one table need the same columns."
                )
            yield from table.batches

    return Table(first.schema, batches())


def _open_file(file: str, format: str | None, text: Sequence[str], batch_rows: int) -> Table:
    import pyarrow as pa

    kind = kind_of(file, format)
    readers = {"parquet": _read_parquet, "jsonl": _read_jsonl, "csv": _read_csv, "tsv": _read_csv}
    try:
        table = readers[kind.format](file, kind, text, batch_rows)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise ValueError(f"{file} is not a readable {kind.format} file: {_first_line(error)}") from None
    return Table(table.schema, _named_errors(table.batches, file, kind.format))


def _named_errors(batches: Iterator[pa.RecordBatch], file: str, format: str) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    try:
        yield from batches
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise ValueError(f"{file} is not a readable {format} file: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:300] or type(error).__name__


def _input(file: str, kind: Kind) -> Any:
    import pyarrow as pa

    if file == STANDARD_STREAM:
        return sys.stdin.buffer
    if Path(file).stat().st_size == 0:
        raise ValueError(f"{file} is empty: it has no header and no rows.")
    return pa.input_stream(file, compression=kind.compression)


def open_parquet(source: Any) -> Any:
    """Open a Parquet file to be read in batches, in memory that does not grow with the file or its row groups."""
    from pyarrow import parquet

    return parquet.ParquetFile(source, pre_buffer=False, buffer_size=READ_BUFFER)


def _read_parquet(file: str, kind: Kind, text: Sequence[str], batch_rows: int) -> Table:
    source = _input(file, kind)
    if file == STANDARD_STREAM:
        source = io.BytesIO(source.read())  # the footer comes last: Parquet cannot be read as it arrives
    elif kind.compression is None:
        source.close()
        source = file
    parquet = open_parquet(source)
    return Table(parquet.schema_arrow, parquet.iter_batches(batch_size=batch_rows))


def _read_csv(file: str, kind: Kind, text: Sequence[str], batch_rows: int) -> Table:
    import pyarrow as pa
    from pyarrow import csv

    delimiter, decimal = ("\t", ".") if kind.format == "tsv" else _dialect(_peek(file, kind))
    types = dict.fromkeys(text, pa.string())
    reader = csv.open_csv(
        _input(file, kind),
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=True, decimal_point=decimal),
    )
    return Table(reader.schema, (part for batch in reader for part in _slices(batch, batch_rows)))


def _peek(file: str, kind: Kind) -> str:
    """Return the first lines of a text file; what is piped in stays there to be read."""
    if file == STANDARD_STREAM:
        start = sys.stdin.buffer.peek(PEEKED) if hasattr(sys.stdin.buffer, "peek") else b""
    else:
        with _input(file, kind) as source:
            start = source.read(PEEKED)
    return str(start[:PEEKED], "utf-8", "replace")


def _dialect(start: str) -> tuple[str, str]:
    """Return what splits the names in the first line into the most parts, and the decimal point of the second.

    Spreadsheets of half the world write semicolons, and commas into numbers.
    """
    header, *rest = start.splitlines()[:2] or [""]
    delimiter = max(",;\t|", key=lambda mark: len(next(plain_csv.reader([header], delimiter=mark), [])))
    row = "".join(rest)
    commas = delimiter != "," and re.search(r"\d,\d", row) and not re.search(r"\d\.\d", row)
    return delimiter, "," if commas else "."


def _slices(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def _read_jsonl(file: str, kind: Kind, text: Sequence[str], batch_rows: int) -> Table:
    source = _input(file, kind)
    blocks = _json_blocks(source)
    first = next(blocks, None)
    if first is None:
        raise ValueError(f"{file} is empty: it has no rows.")
    schema = _parse_json(first, None).schema

    def batches() -> Iterator[pa.RecordBatch]:
        for block in _chain(first, blocks):
            for batch in _parse_json(block, schema).to_batches():
                yield from _slices(batch, batch_rows)

    return Table(schema, batches())


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _json_blocks(source: Any) -> Iterator[bytes]:
    """Cut JSON lines into blocks of whole lines."""
    kept = b""
    while block := source.read(JSON_BLOCK):
        head, mark, tail = (kept + block).rpartition(b"\n")
        if mark:
            yield head + mark
        kept = tail
    if kept.strip():
        yield kept


def _parse_json(block: bytes, schema: pa.Schema | None) -> pa.Table:
    from pyarrow import json as arrow_json

    options = None if schema is None else arrow_json.ParseOptions(explicit_schema=schema)
    return arrow_json.read_json(io.BytesIO(block), parse_options=options)


@contextmanager
def table_writer(path: str, schema: pa.Schema, format: str | None = None) -> Iterator[Any]:
    """Open a table for writing; it appears under its name only when everything is written.

    Yields a function that takes record batches of the schema. ``-`` is standard output.
    """
    import pyarrow as pa

    kind = kind_of(path, format)
    if path == STANDARD_STREAM:
        with _Sink(pa.PythonFile(sys.stdout.buffer, mode="w"), schema, kind.format) as sink:
            yield sink.write
        sys.stdout.buffer.flush()
        return
    with staged(Path(path)) as staging, _naming(staging), pa.OSFile(str(staging), "wb") as raw:
        stream = raw if kind.compression is None else pa.CompressedOutputStream(raw, kind.compression)
        with stream, _Sink(stream, schema, kind.format) as sink:
            yield sink.write


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Name the file in errors of Arrow, which do not say which one is meant."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(file)) from None


class _Sink:
    """Record batches in, bytes of one format out."""

    def __init__(self, stream: Any, schema: pa.Schema, format: str) -> None:
        self._stream, self._format = stream, format
        self._writer: Any = None
        if format == "parquet":
            from pyarrow import parquet

            self._writer = parquet.ParquetWriter(stream, schema)
        elif format != "jsonl":
            from pyarrow import csv

            options = csv.WriteOptions(delimiter="\t" if format == "tsv" else ",")
            self._writer = csv.CSVWriter(stream, _flat_schema(schema), write_options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write one batch."""
        if self._format == "parquet":
            self._writer.write_batch(batch)
        elif self._format == "jsonl":
            rows = (json.dumps({k: _plain(v) for k, v in row.items()}, ensure_ascii=False) for row in batch.to_pylist())
            self._stream.write("".join(f"{row}\n" for row in rows).encode())
        else:
            self._writer.write_batch(_flat(batch))

    def __enter__(self) -> _Sink:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: null and a large word stand for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def _flat_schema(schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    fields = [pa.field(f.name, pa.string()) if pa.types.is_list(f.type) else f for f in schema]
    return pa.schema(fields)


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """CSV has no lists: their entries are joined by ``|``."""
    import pyarrow as pa
    from pyarrow import compute

    columns = [
        compute.binary_join(column, "|") if pa.types.is_list(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_flat_schema(batch.schema))
