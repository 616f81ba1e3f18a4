"""One reader and one writer for every table.

Formats are CSV, TSV, JSON Lines, JSON, Parquet and Arrow, compressed or not.

In text files every cell is the text that stands there: ``007``, ``1.10`` and ``NA`` are names, and
only the empty cell is missing. Consumers parse the columns that must be numbers. Tables are read
and written in record batches, so that memory does not grow with the number of rows.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from credalset._files import quote_formula, staged
from credalset.exceptions import FileFormatError, need, warn
from credalset.io.files import (
    COMPRESSIONS,
    FORMATS,
    STDIN,
    File,
    find_files,
    format_of,
    open_file,
    open_text,
    readable,
)
from credalset.votes.names import LABELS, join_names
from credalset.votes.tables import SYNONYMS, find_columns, long_table

if TYPE_CHECKING:
    import pyarrow as pa

    from credalset.votes import Annotations

DELIMITERS = ",;\t"
BATCH_ROWS = 1 << 16
BLOCK = 1 << 22  # bytes of a text file that Arrow parses at a time
READ_BUFFER = (
    1 << 20
)  # bytes of a Parquet column that are read ahead, where Arrow would hold all of it
SPACE = re.compile(r"\s*")
RECORDS = 1 << 14  # JSON records that become one batch
#: numbers stay the texts that stand in the file; NaN is a missing value
DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda text: None)


class Table(NamedTuple):
    """A table that is read as it is used: its schema, and its record batches."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def read_table(path: str | Path) -> Table:
    r"""Open files, a folder, pattern, archive or standard input (``-``) as record batches.

    The format is that of the name, else that of the first bytes. Cells of text files are texts, and
    empty cells are null. Objects in columns become columns of their own: ``{"probs": {"a": 0.2}}``
    has the column ``probs.a``. Files of one table need the same columns, in any order and any
    formats.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "p.csv").write_text("task;yes;no\n007;0,2;0,8\nNA;;1\n")
    ...     table = read_table(f"{folder}/p.csv")
    ...     next(table.batches).to_pylist()
    [{'task': '007', 'yes': '0,2', 'no': '0,8'}, {'task': 'NA', 'yes': None, 'no': '1'}]
    """
    files = find_files(path)
    first = _flattened(_open_table(files[0]))

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first.batches
        for file in files[1:]:
            table = _flattened(_open_table(file))
            odd = sorted(set(table.schema.names) ^ set(first.schema.names))
            if odd:
                raise ValueError(
                    f"{file.name} and {files[0].name} differ in columns ({join_names(odd)}). Files "
                    "of one table need "
                    "the same columns; name the files to read by a pattern such as 'folder/*.csv'."
                )
            yield from (batch.select(first.schema.names) for batch in table.batches)

    return Table(first.schema, batches())


def read_records(
    path: str | Path, *, encoding: str | None = None, delimiter: str | None = None
) -> tuple[list[tuple[File, list[dict[str, Any]]]], dict[str, Any]]:
    """Read the rows of tables, or the documents of JSON files, as dicts of texts, file by file.

    Text files may have another ``encoding`` than UTF-8 or UTF-16, and CSV files another
    ``delimiter`` than the comma, semicolon or tab that splits the first line into the most names.
    Also return what the Hugging Face library noted about the columns of a Parquet or Arrow file,
    and the labels that `write_votes` noted.
    """
    found: list[tuple[File, list[dict[str, Any]]]] = []
    features: dict[str, Any] = {}
    for file in find_files(path):
        with readable(file.name):
            format, head, stream = opened = _open(file)
            if format in ("json", "jsonl"):
                found.append(
                    (file, list(_documents(file, open_text(file, head, stream, encoding))))
                )
                continue
        table = _open_table(file, opened, encoding, delimiter)
        metadata = table.schema.metadata or {}
        features |= (
            json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
        )
        features[LABELS] = features.get(LABELS, {}) | _labels(metadata)
        found.append((file, [row for batch in table.batches for row in batch.to_pylist()]))
    return found, features


def _labels(metadata: dict[bytes, bytes] | None) -> dict[str, float | None]:
    """Return labels noted by `write_votes`, in order, with positions on a scale or None."""
    return json.loads((metadata or {}).get(LABELS.encode(), b"{}"))


Opened = tuple[str, bytes, Any]


def _open(file: File) -> Opened:
    """Return the format of a file, its first bytes and a stream; of Parquet the format only.

    Arrow opens Parquet files itself.
    """
    if FORMATS.get(Path(file.path).suffix.lower()) == "parquet" and file.member is None:
        return "parquet", b"", None
    head, stream = open_file(file)
    return format_of(file.name, head), head, stream


def _open_table(
    file: File,
    opened: Opened | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
) -> Table:
    need("pyarrow", "Reading tables")
    with readable(file.name):
        format, head, stream = opened or _open(file)
        if format in ("csv", "tsv"):
            text = open_text(file, head, stream, encoding)
            table = _read_csv(head, text, "\t" if format == "tsv" else delimiter)
        elif format in ("json", "jsonl"):
            table = _read_json(_documents(file, open_text(file, head, stream, encoding)))
        else:
            table = _read_arrow(file, head, stream, format)
        twice = [name for name, n in Counter(table.schema.names).items() if n > 1]
        if twice:
            raise FileFormatError(
                f"{file.name} has several columns called {twice[0]!r}. Give each its own name."
            )

    def batches() -> Iterator[pa.RecordBatch]:
        with readable(file.name):
            for batch in table.batches:
                yield from (
                    batch.slice(start, BATCH_ROWS) for start in range(0, batch.num_rows, BATCH_ROWS)
                )

    return Table(table.schema, batches())


def _flattened(table: Table) -> Table:
    """Turn structs into columns of their own."""
    import pyarrow as pa

    def flat(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.Table.from_batches([batch]).flatten().combine_chunks().to_batches()[0]

    if not any(pa.types.is_struct(kind) for kind in table.schema.types):
        return table
    return Table(table.schema.empty_table().flatten().schema, map(flat, table.batches))


# --- formats ---


def _read_csv(head: bytes, text: io.TextIOWrapper, delimiter: str | None) -> Table:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    encoding = text.encoding
    stream = text.detach()
    start = codecs.getincrementaldecoder(encoding)("replace").decode(head)
    mark = delimiter or max(DELIMITERS, key=lambda mark: len(_header(start, mark)))
    types = dict.fromkeys(_header(start, mark), pa.string())
    reader = arrow_csv.open_csv(
        stream,
        # With threads, errors do not name the row.
        arrow_csv.ReadOptions(
            encoding=encoding.removesuffix("-sig"), block_size=BLOCK, use_threads=False
        ),
        arrow_csv.ParseOptions(delimiter=mark, newlines_in_values=True),
        arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=True, null_values=[""]),
    )
    if set(reader.schema.types) != {
        pa.string()
    }:  # of names that are not in `types`: numbers would lose their digits
        raise pa.ArrowInvalid(f"its header cannot be read in the first {len(head)} bytes")
    schema = pa.schema([(name.strip(), pa.string()) for name in reader.schema.names])
    return Table(
        schema, (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in reader)
    )


def _header(start: str, delimiter: str) -> list[str]:
    with suppress(csv.Error):
        return next(
            filter(None, csv.reader(io.StringIO(start, newline=""), delimiter=delimiter)), []
        )
    return []


def _documents(file: File, text: io.TextIOWrapper) -> Iterator[dict[str, Any]]:
    """Yield objects of JSON Lines, an array, an object of records by id, or documents in a row."""
    found = _values(file, text)
    every = list(islice(found, 2))
    if len(every) == 1 and isinstance(every[0], list):
        (every,) = every
    elif (
        len(every) == 1
        and isinstance(every[0], dict)
        and all(isinstance(v, dict) for v in every[0].values())
    ):
        by_id = (
            len(every[0]) > 1 or ".json" in Path(file.name).suffixes
        )  # one record of JSON Lines may hold an object
        every = [{"id": key} | value for key, value in every[0].items()] if by_id else every
    for number, document in enumerate(chain(every, found)):
        if not isinstance(document, dict):
            raise FileFormatError(
                f"{file.name} must hold objects, but number {number} is {str(document)[:60]!r}."
            )
        yield document


def _values(file: File, text: io.TextIOWrapper) -> Iterator[Any]:
    """Yield a document per line; from the first line that is none, documents over several lines."""
    for number, line in enumerate(text, 1):
        with suppress(json.JSONDecodeError):
            yield from [DECODER.decode(line)] if line.strip() else []
            continue
        rest = (line + text.read()).rstrip()
        start = 0
        while start < len(rest):
            try:
                document, start = DECODER.raw_decode(rest, SPACE.match(rest, start).end())  # type: ignore[union-attr]
            except json.JSONDecodeError as error:
                at = number + rest.count("\n", 0, error.pos)
                said = f"{file.name} is not valid JSON in line {at} ({error.msg})."
                raise FileFormatError(f"{said} Export it again, or correct the line.") from None
            yield document


def _read_json(documents: Iterator[dict[str, Any]]) -> Table:
    """Read records as columns of texts, or of lists of texts; the first block tells the names."""
    import pyarrow as pa

    first = [_flat_record(record) for record in islice(documents, RECORDS)]
    kinds = {name: pa.string() for record in first for name in record}
    kinds |= {
        name: pa.list_(pa.string())
        for record in first
        for name in record
        if isinstance(record[name], list)
    }
    schema = pa.schema(kinds)

    def batches() -> Iterator[pa.RecordBatch]:
        records = first
        while records:
            yield pa.RecordBatch.from_pylist(records, schema)
            records = [_flat_record(record) for record in islice(documents, RECORDS)]

    return Table(schema, batches())


def _flat_record(record: dict[str, Any], start: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat |= _flat_record(value, f"{start}{name}.")
        else:
            flat[start + name] = (
                [_text(inner) for inner in value] if isinstance(value, list) else _text(value)
            )
    return flat


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    return json.dumps(value, ensure_ascii=False)


def _read_arrow(file: File, head: bytes, stream: Any, format: str) -> Table:
    import pyarrow as pa
    from pyarrow import parquet

    source: Any = file.path
    if stream is not None and (
        file.member or file.path == STDIN or Path(file.path).suffix.lower() in COMPRESSIONS
    ):
        source = io.BytesIO(stream.read())  # the footer comes last: all of it is needed
    if format == "parquet":
        reader = parquet.ParquetFile(source, pre_buffer=False, buffer_size=READ_BUFFER)
        return Table(reader.schema_arrow, reader.iter_batches(batch_size=BATCH_ROWS))
    if head.startswith(b"ARROW1"):
        reader = pa.ipc.open_file(source)
        return Table(reader.schema, (reader.get_batch(i) for i in range(reader.num_record_batches)))
    reader = pa.ipc.open_stream(pa.OSFile(source) if isinstance(source, str) else source)
    return Table(reader.schema, iter(reader))


# --- writing ---


@contextmanager
def table_writer(path: str | Path, schema: pa.Schema) -> Iterator[Any]:
    """Open a table for writing; it appears under its name only when everything is written.

    Yields a function that takes record batches of the schema. ``-`` is standard output, which gets
    CSV. In CSV and TSV, lists are joined by ``|``, and texts that a spreadsheet would run as a
    formula begin with an apostrophe.
    """
    import pyarrow as pa

    if path == STDIN:
        with _sink(pa.PythonFile(sys.stdout.buffer, mode="w"), schema, "csv") as write:
            yield write
        sys.stdout.buffer.flush()
        return
    format = format_of(str(path))
    compression = COMPRESSIONS.get(Path(path).suffix.lower())
    with staged(Path(path)) as staging, pa.OSFile(str(staging), "wb") as raw:
        stream = raw if compression is None else pa.CompressedOutputStream(raw, compression)
        with stream, _sink(stream, schema, format) as write:
            yield write


@contextmanager
def _sink(stream: Any, schema: pa.Schema, format: str) -> Iterator[Any]:
    """Give a function that writes record batches as bytes of one format."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    if format == "parquet":
        with parquet.ParquetWriter(stream, schema) as writer:
            yield writer.write_batch
    elif format == "jsonl":
        yield lambda batch: stream.write("".join(map(_json_line, batch.to_pylist())).encode())
    else:
        options = arrow_csv.WriteOptions(delimiter="\t" if format == "tsv" else ",")
        head = _for_spreadsheets(pa.RecordBatch.from_pylist([], schema))
        with arrow_csv.CSVWriter(stream, head.schema, write_options=options) as writer:
            yield lambda batch: writer.write(_for_spreadsheets(batch))


def _json_line(row: dict[str, Any]) -> str:
    """Return a row as JSON, which has no NaN and no infinity: they are null and a text."""
    odd = {name: x for name, x in row.items() if isinstance(x, float) and not math.isfinite(x)}
    row |= {
        name: None if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"
        for name, x in odd.items()
    }
    return json.dumps(row, ensure_ascii=False, default=str) + "\n"


def _for_spreadsheets(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    columns = []
    for column in batch.columns:
        if is_list(column.type) or is_text(column.type):
            cells = [
                "|".join(map(str, cell)) if isinstance(cell, list) else cell
                for cell in column.to_pylist()
            ]
            column = pa.array(
                [None if cell is None else quote_formula(cell) for cell in cells], pa.string()
            )
        columns.append(column)
    return pa.RecordBatch.from_arrays(
        columns, names=[quote_formula(name) for name in batch.schema.names]
    )


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column holds texts."""
    from pyarrow import types

    if types.is_dictionary(kind):  # categories
        return is_text(kind.value_type)
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a column holds lists."""
    from pyarrow import types

    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def as_texts(column: Any) -> list[str | None]:
    """Return cells as texts like `read_records` and CSV of pandas: 1.0, of which Arrow makes 1."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        return [None if value is None else str(value) for value in column.to_pylist()]
    return list(column.cast(pa.string()).to_pylist())


def write_votes(votes: Annotations, path: str) -> None:
    """Write votes as a long table: task, worker, label, and time where it is known.

    Parquet also keeps the order of the labels, those without votes, and their scale.
    """
    pa = need("pyarrow", "Writing tables")
    columns = {
        name: [None if cell is None else str(cell) for cell in cells]
        for name, cells in votes.table.items()
    }
    table = pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})
    if votes.scale is not None and format_of(path, None) != "parquet":
        warn(f"{path} does not keep the scale of the labels. Write .parquet instead.")
    positions = sorted(zip(votes.scale or (), map(str, votes.classes or ()), strict=False))
    labels = {name: at for at, name in positions} or dict.fromkeys(map(str, votes.classes or ()))
    table = table.replace_schema_metadata({LABELS: json.dumps(labels)})
    _write_table(table, path)


def write_smoothed(votes: Annotations, path: str) -> None:
    """Write the smoothed shares of votes, one row per item, as a table of predictions."""
    if taken := [name for name in votes.classes or () if name in SYNONYMS["task"]]:
        raise ValueError(
            f"a class is called {taken[0]!r}, like a column of items. Rename it with rename."
        )
    _write_table(
        need("pyarrow", "Writing tables").Table.from_pandas(
            votes.to_frame("smoothed").reset_index()
        ),
        path,
    )


def _write_table(table: pa.Table, path: str) -> None:
    with table_writer(path, table.schema) as write:
        for batch in table.to_batches():
            write(batch)


def read_votes(path: str | Path) -> Annotations:
    """Read votes from a long table of `write_votes`: task, worker, label, and time if known.

    Exports of annotation tools, and tables whose columns have other names, are for
    `Annotations.read`.
    """
    from credalset.votes import Annotations

    table = read_table(path)
    try:
        names = {role: str(name) for role, name in find_columns(table.schema.names, {}).items()}
    except ValueError:
        has = join_names(table.schema.names, 12)
        raise ValueError(
            f"{path} needs columns task and label, but has {has}. Use credalset import first."
        ) from None
    with readable(str(path)):
        found = need("pyarrow").Table.from_batches(table.batches, table.schema)
        columns = {name: as_texts(found[name]) for name in names.values()}
    long = long_table(columns, names)
    long.declare(_labels(table.schema.metadata))
    return replace(
        Annotations.from_table(long, scale=long.ordered or None),
        origin=f"{Path(path).name}, read as long",
    )
