"""One reader and one writer for every table: CSV, TSV, JSON Lines, JSON, Parquet and Arrow, compressed or not.

In text files every cell is the text that stands there: ``007``, ``1.10`` and ``NA`` are names, and only the empty cell
is missing. Consumers parse the columns that must be numbers (`matrix`). Tables are read and written in record batches,
so that memory does not grow with the number of rows.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from credalset._files import FORMULA, NUMBER, quote_formula, staged
from credalset.exceptions import FileFormatError, need
from credalset.io.columns import is_list, is_text
from credalset.io.files import (
    COMPRESSIONS,
    STANDARD_STREAM,
    UNPACKERS,
    File,
    encoding_of,
    find_files,
    format_of,
    open_file,
    readable,
)
from credalset.votes.names import SCALE, join_names

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = ",;\t"
BATCH_ROWS = 1 << 16
BLOCK = 1 << 22  # bytes of a text file that Arrow parses at a time
READ_BUFFER = 1 << 20  # bytes of a Parquet column that are read ahead, where Arrow would hold all of it
RECORDS = 1 << 14  # JSON records that become one batch
#: numbers stay the texts that stand in the file; NaN is a missing value
DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda text: None)


class Table(NamedTuple):
    """A table that is read as it is used: its schema, and its record batches."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def read_table(
    path: str | Path,
    format: str | None = None,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Table:
    r"""Open a file, a folder, a pattern, an archive or standard input (``-``) as a stream of record batches.

    Cells of text files are texts, and empty cells are null. Objects in columns become columns of their own:
    ``{"probs": {"a": 0.2}}`` has the column ``probs.a``. Files of one table need the same columns, in any order and
    any formats.

    Parameters
    ----------
    path : str or Path
        Where the table is.
    format : {"csv", "tsv", "jsonl", "json", "parquet", "arrow"}, optional
        By default as the name says, else as the first bytes do.
    encoding : str, optional
        Of text files that are neither UTF-8 nor UTF-16 with a byte order mark.
    delimiter : str, optional
        Of CSV files; by default the comma, semicolon or tab that splits the first line into the most names.
    batch_rows : int
        Rows per batch, at most.

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
    first = _open_table(files[0], format, encoding, delimiter, batch_rows)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first.batches
        for file in files[1:]:
            table = _open_table(file, format, encoding, delimiter, batch_rows)
            if sorted(table.schema.names) != sorted(first.schema.names):
                odd = sorted(set(table.schema.names) ^ set(first.schema.names))
                raise ValueError(
                    f"{file.name} and {files[0].name} differ in columns ({join_names(odd)}). Files of one table need "
                    "the same columns; name the files to read by a pattern such as 'folder/*.csv'."
                )
            yield from (batch.select(first.schema.names) for batch in table.batches)

    return Table(first.schema, batches())


def read_records(
    path: str | Path, *, encoding: str | None = None, delimiter: str | None = None
) -> tuple[list[tuple[File, list[dict[str, Any]]]], dict[str, Any]]:
    """Read the rows of tables, or the documents of JSON files, as dicts of texts, file by file.

    Also return what the Hugging Face library noted about the columns of a Parquet or Arrow file, and the scale that
    `credalset.io.votes.write_votes` noted.
    """
    found: list[tuple[File, list[dict[str, Any]]]] = []
    features: dict[str, Any] = {}
    for file in find_files(path):
        with readable(file.name):
            head, stream = open_file(file)
            if format_of(file.name, None, head) in ("json", "jsonl"):
                found.append((file, list(_documents(file, head, stream, encoding))))
                continue
        table = _open_table(file, None, encoding, delimiter, BATCH_ROWS, flat=False)
        metadata = table.schema.metadata or {}
        features |= json.loads(metadata.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
        features |= {SCALE: json.loads(metadata[SCALE.encode()])} if SCALE.encode() in metadata else {}
        found.append((file, [row for batch in table.batches for row in batch.to_pylist()]))
    return found, features


def _open_table(
    file: File, format: str | None, encoding: str | None, delimiter: str | None, batch_rows: int, flat: bool = True
) -> Table:
    need("pyarrow", "Reading tables")
    with readable(file.name):
        head, stream = open_file(file)
        format = format_of(file.name, format, head)
        if format in ("csv", "tsv"):
            table = _read_csv(file, head, stream, encoding, "\t" if format == "tsv" else delimiter)
        elif format in ("json", "jsonl"):
            table = _read_json(file, _documents(file, head, stream, encoding))
        else:
            table = _read_arrow(file, stream, format, batch_rows)
        twice = [name for name, n in _counts(table.schema.names).items() if n > 1]
        if twice:
            raise FileFormatError(f"{file.name} has several columns called {twice[0]!r}. Give each its own name.")
        table = _flattened(table) if flat else table

    def batches() -> Iterator[pa.RecordBatch]:
        with readable(file.name):
            for batch in table.batches:
                yield from (batch.slice(start, batch_rows) for start in range(0, batch.num_rows, batch_rows))

    return Table(table.schema, batches())


def _counts(names: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return found


def _flattened(table: Table) -> Table:
    """Turn structs into columns of their own."""
    import pyarrow as pa

    if not any(pa.types.is_struct(kind) for kind in table.schema.types):
        return table

    def flat(batch: pa.RecordBatch) -> pa.RecordBatch:
        whole = pa.Table.from_batches([batch]).flatten().combine_chunks()
        return whole.to_batches()[0]

    return Table(table.schema.empty_table().flatten().schema, (flat(b) for b in table.batches if b.num_rows))


# --- formats ---


def _read_csv(file: File, head: bytes, stream: Any, encoding: str | None, delimiter: str | None) -> Table:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    chosen = encoding_of(file.name, head, encoding)
    start = codecs.getincrementaldecoder(chosen)("replace").decode(head)
    mark = delimiter or max(DELIMITERS, key=lambda mark: len(_header(start, mark)))
    types = dict.fromkeys(_header(start, mark), pa.string())
    reader = arrow_csv.open_csv(
        stream,
        arrow_csv.ReadOptions(encoding=chosen.removesuffix("-sig"), block_size=BLOCK),
        arrow_csv.ParseOptions(delimiter=mark, newlines_in_values=True),
        arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=True, null_values=[""]),
    )
    schema = pa.schema([(name.strip(), pa.string()) for name in reader.schema.names])
    return Table(schema, (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in reader))


def _header(start: str, delimiter: str) -> list[str]:
    with suppress(csv.Error):
        return next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter), [])
    return []


def _documents(file: File, head: bytes, stream: Any, encoding: str | None) -> Iterator[dict[str, Any]]:
    """Yield the objects of JSON Lines, of an array, of an object of records by id, or of documents in a row."""
    text = io.TextIOWrapper(stream, encoding_of(file.name, head, encoding), newline="")
    found = _values(file, text)
    first, second = next(found, None), next(found, None)
    if second is None and isinstance(first, list):
        every: Iterator[Any] = iter(first)
    elif second is None and isinstance(first, dict) and first and all(isinstance(v, dict) for v in first.values()):
        by_id = len(first) > 1 or ".json" in Path(file.name).suffixes  # one record of JSON Lines may hold an object
        every = iter([{"id": key} | value for key, value in first.items()] if by_id else [first])
    else:
        every = chain([value for value in (first, second) if value is not None], found)
    for number, document in enumerate(every):
        if not isinstance(document, dict):
            raise FileFormatError(f"{file.name} must hold objects, but number {number} is {str(document)[:60]!r}.")
        yield document


def _values(file: File, text: Any) -> Iterator[Any]:
    for number, line in enumerate(text, 1):
        if not line.strip():
            continue
        try:
            yield DECODER.decode(line)
        except json.JSONDecodeError:
            yield from _rest(file, line + text.read(), number)
            return


def _rest(file: File, text: str, line: int) -> Iterator[Any]:
    """Yield documents that go over several lines."""
    position = 0
    while text[position:].strip():
        position += len(text[position:]) - len(text[position:].lstrip())
        try:
            document, position = DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            at = line + text.count("\n", 0, error.pos)
            said = f"{file.name} is not valid JSON in line {at} ({error.msg})."
            raise FileFormatError(f"{said} Export it again, or mend the line.") from None
        yield document


def _read_json(file: File, documents: Iterator[dict[str, Any]]) -> Table:
    """Read records as columns of texts, or of lists of texts; the first block tells the names."""
    import pyarrow as pa

    first = [_flat_record(record) for record in islice(documents, RECORDS)]
    names = dict.fromkeys(name for record in first for name in record)
    lists = {name for record in first for name, value in record.items() if isinstance(value, list)}
    schema = pa.schema([(name, pa.list_(pa.string()) if name in lists else pa.string()) for name in names])

    def batch(records: list[dict[str, Any]]) -> pa.RecordBatch:
        columns = []
        for each in schema:
            values = [record.get(each.name) for record in records]
            if each.name not in lists and any(isinstance(value, list) for value in values):
                raise FileFormatError(f"{file.name} has lists in the column {each.name!r} only further down.")
            columns.append(pa.array(values, each.type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(first)
        while records := [_flat_record(record) for record in islice(documents, RECORDS)]:
            yield batch(records)

    return Table(schema, batches())


def _flat_record(record: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": _text(inner) for key, inner in value.items()}
        else:
            flat[name] = [_text(inner) for inner in value] if isinstance(value, list) else _text(value)
    return flat


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    return json.dumps(value, ensure_ascii=False)


def _read_arrow(file: File, stream: Any, format: str, batch_rows: int) -> Table:
    import pyarrow as pa
    from pyarrow import parquet

    is_plain = file.member is None and file.path != STANDARD_STREAM
    if is_plain:
        with open(file.path, "rb") as raw:
            is_plain = not raw.read(6).startswith(tuple(UNPACKERS))
    source: Any = file.path if is_plain else io.BytesIO(stream.read())  # the footer comes last: all of it is needed
    if format == "parquet":
        reader = parquet.ParquetFile(source, pre_buffer=False, buffer_size=READ_BUFFER)
        return Table(reader.schema_arrow, reader.iter_batches(batch_size=batch_rows))
    try:
        reader = pa.ipc.open_file(source)
        return Table(reader.schema, (reader.get_batch(i) for i in range(reader.num_record_batches)))
    except pa.ArrowInvalid:
        reader = pa.ipc.open_stream(source if not is_plain else pa.OSFile(source))
        return Table(reader.schema, iter(reader))


# --- writing ---


@contextmanager
def table_writer(path: str | Path, schema: pa.Schema, format: str | None = None) -> Iterator[Any]:
    """Open a table for writing; it appears under its name only when everything is written.

    Yields a function that takes record batches of the schema. ``-`` is standard output. In CSV and TSV, lists are
    joined by ``|``, and texts that a spreadsheet would run as a formula begin with an apostrophe.
    """
    import pyarrow as pa

    path = str(path)
    format = format_of(path, format)
    if path == STANDARD_STREAM:
        with _sink(pa.PythonFile(sys.stdout.buffer, mode="w"), schema, format) as write:
            yield write
        sys.stdout.buffer.flush()
        return
    compression = COMPRESSIONS.get(Path(path).suffix.lower())
    if compression == "xz":
        raise ValueError(f"{path}: files are not written with xz. Name it .gz, .bz2 or .zst.")
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
        yield lambda batch: stream.write(_json_lines(batch))
    else:
        options = arrow_csv.WriteOptions(delimiter="\t" if format == "tsv" else ",")
        names = [quote_formula(name) for name in schema.names]
        head = _for_spreadsheets(pa.RecordBatch.from_pylist([], schema), names)
        with arrow_csv.CSVWriter(stream, head.schema, write_options=options) as writer:
            yield lambda batch: writer.write(_for_spreadsheets(batch, names))


def _json_lines(batch: pa.RecordBatch) -> bytes:
    rows = ({name: _plain(value) for name, value in row.items()} for row in batch.to_pylist())
    return "".join(f"{json.dumps(row, ensure_ascii=False, default=str)}\n" for row in rows).encode()


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: null and a word stand for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def _for_spreadsheets(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    import pyarrow as pa
    from pyarrow import compute

    columns = []
    for column in batch.columns:
        if is_list(column.type):
            column = compute.binary_join(column.cast(pa.list_(pa.string())), "|")
        if is_text(column.type):
            column = column.cast(pa.string())
            risky = compute.and_not(
                compute.match_substring_regex(column, FORMULA), compute.match_substring_regex(column, NUMBER)
            )
            if compute.any(risky).as_py():
                quoted = compute.binary_join_element_wise("'", column, "")
                column = compute.if_else(risky, quoted, column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=names)
