"""Tables in files: CSV, TSV, JSONL and Parquet, compressed or not, read and written a batch at a time."""

from __future__ import annotations

import codecs
import csv as plain_csv
import io
import json
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
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
BLOCK = 1 << 24  # bytes of a text file read at a time
READ_BUFFER = 1 << 20  # bytes of a column that are read ahead, where Arrow would hold all of it
NOT_UTF8 = "is not text in UTF-8. Name its encoding, such as encoding='cp1252' for a spreadsheet saved on Windows."
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
    path: str,
    format: str | None = None,
    *,
    text: Sequence[str] = (),
    batch_rows: int = BATCH_ROWS,
    encoding: str | None = None,
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
    encoding : str, optional
        Of CSV and TSV files that are not UTF-8.
    """
    need("pyarrow", "Reading tables")
    files = [path] if path == STANDARD_STREAM else list(map(str, find_paths(path, any_suffix=format is not None)))
    streams = (_open_file(file, format, text, batch_rows, encoding) for file in files)
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


def _open_file(file: str, format: str | None, text: Sequence[str], batch_rows: int, encoding: str | None) -> Table:
    kind = kind_of(file, format)
    with readable(file, kind.format):
        if kind.format in ("csv", "tsv"):
            table = _read_csv(file, kind, text, batch_rows, encoding)
        else:
            reader = _read_parquet if kind.format == "parquet" else _read_jsonl
            table = reader(file, kind, text, batch_rows)
        _ = table.schema.names  # Arrow decodes them when they are asked for

    def batches() -> Iterator[pa.RecordBatch]:
        with readable(file, kind.format):
            yield from table.batches

    return Table(table.schema, batches())


@contextmanager
def readable(file: str, format: str) -> Iterator[None]:
    """Name the file in errors of Arrow; those of the system do so themselves."""
    import pyarrow as pa

    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except UnicodeDecodeError:
        raise ValueError(f"{file} {NOT_UTF8}") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        what = str(error).strip().split("\n")[0][:300] or type(error).__name__
        if "invalid UTF8" in what:
            raise ValueError(f"{file} {NOT_UTF8}") from None
        raise ValueError(f"{file} is not a readable {format} file: {what}") from None


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
    is_plain = file != STANDARD_STREAM and kind.compression is None
    # The footer comes last: Parquet cannot be read as it arrives.
    parquet = open_parquet(file if is_plain else io.BytesIO(_input(file, kind).read()))
    return Table(parquet.schema_arrow, parquet.iter_batches(batch_size=batch_rows))


def _read_csv(file: str, kind: Kind, text: Sequence[str], batch_rows: int, encoding: str | None) -> Table:
    import pyarrow as pa
    from pyarrow import csv

    delimiter, decimal = ("\t", ".") if kind.format == "tsv" else _dialect(_peek(file, kind))
    types = dict.fromkeys(text, pa.string())
    reader = csv.open_csv(
        _input(file, kind),
        read_options=csv.ReadOptions(encoding=_encoding(file, kind, encoding)),
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=True, decimal_point=decimal),
    )
    return Table(reader.schema, (part for batch in reader for part in _slices(batch, batch_rows)))


def _encoding(file: str, kind: Kind, said: str | None) -> str:
    """Return the encoding of a text file: UTF-8 if it is that, else the one that was named."""
    if said is None or file == STANDARD_STREAM:
        return said or "utf-8"
    try:
        codecs.lookup(said)
    except LookupError:
        raise ValueError(f"encoding={said!r} is unknown to Python. Try 'cp1252' or 'latin-1'.") from None
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _input(file, kind) as source:
        try:
            while block := source.read(BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return said
    return "utf-8"


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
    schema = _json_schema(first, text)

    def batches() -> Iterator[pa.RecordBatch]:
        for block in chain([first], blocks):
            for batch in _parse_json(block, schema, text).to_batches():
                yield from _slices(batch, batch_rows)

    return Table(schema, batches())


def _json_blocks(source: Any) -> Iterator[bytes]:
    """Cut JSON lines into blocks of whole lines."""
    kept = b""
    while block := source.read(BLOCK):
        head, mark, tail = (kept + block).rpartition(b"\n")
        if mark:
            yield head + mark
        kept = tail
    if kept.strip():
        yield kept


def _json_schema(block: bytes, text: Sequence[str]) -> pa.Schema:
    """Return the types of a block; names of items may look like dates, but are texts."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    found = arrow_json.read_json(io.BytesIO(block)).schema
    dates = [each.name for each in found if each.name in text and pa.types.is_timestamp(each.type)]
    return pa.schema([each.with_type(pa.string()) if each.name in dates else each for each in found])


def _parse_json(block: bytes, schema: pa.Schema, text: Sequence[str]) -> pa.Table:
    """Read a block with the types of the first one, or with its own where these do not fit: whole numbers end."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    def read(types: pa.Schema) -> pa.Table:
        return arrow_json.read_json(io.BytesIO(block), parse_options=arrow_json.ParseOptions(explicit_schema=types))

    try:
        return read(schema)
    except pa.ArrowInvalid:
        own = _json_schema(block, text)
        return read(pa.schema([own.field(each.name) if each.name in own.names else each for each in schema]))


@contextmanager
def table_writer(path: str, schema: pa.Schema, format: str | None = None) -> Iterator[Any]:
    """Open a table for writing; it appears under its name only when everything is written.

    Yields a function that takes record batches of the schema. ``-`` is standard output.
    """
    import pyarrow as pa

    kind = kind_of(path, format)
    if path == STANDARD_STREAM:
        with _sink(pa.PythonFile(sys.stdout.buffer, mode="w"), schema, kind.format) as write:
            yield write
        sys.stdout.buffer.flush()
        return
    with staged(Path(path)) as staging, _naming(staging), pa.OSFile(str(staging), "wb") as raw:
        stream = raw if kind.compression is None else pa.CompressedOutputStream(raw, kind.compression)
        with stream, _sink(stream, schema, kind.format) as write:
            yield write


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Name the file in errors of Arrow, which do not say which one is meant."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(file)) from None


@contextmanager
def _sink(stream: Any, schema: pa.Schema, format: str) -> Iterator[Any]:
    """Give a function that writes record batches as bytes of one format."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    if format == "parquet":
        with parquet.ParquetWriter(stream, schema) as writer:
            yield writer.write_batch
    elif format == "jsonl":
        yield lambda batch: stream.write(_json_lines(batch))
    else:
        options = csv.WriteOptions(delimiter="\t" if format == "tsv" else ",")
        with csv.CSVWriter(stream, _flat(schema.empty_table()).schema, write_options=options) as writer:
            yield lambda batch: writer.write(_flat(pa.Table.from_batches([batch])))


def _json_lines(batch: pa.RecordBatch) -> bytes:
    rows = ({name: _plain(value) for name, value in row.items()} for row in batch.to_pylist())
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: null and a large word stand for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def _flat(table: pa.Table) -> pa.Table:
    """CSV has no lists: their entries are joined by ``|``."""
    import pyarrow as pa
    from pyarrow import compute

    for i, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            table = table.set_column(i, field.name, compute.binary_join(table.column(i), "|"))
    return table
