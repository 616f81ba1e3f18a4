"""One reader and one writer for every table.

Formats are CSV, TSV, JSON Lines, JSON, Parquet and Arrow, compressed or not.

In text files every cell is the text that stands there: ``007``, ``1.10`` and ``NA`` are names, and
only the empty cell is missing. Consumers parse the columns that must be numbers. Tables are read
and written in record batches, so that memory does not grow with the number of rows.

What is written here is read back as it was, with one exception: all texts are read in Unicode form
NFC. An "é" of one code point and an "e" with a combining accent look alike, and would otherwise
name two items.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import os
import re
import shlex
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credalset._display import join_names, plural
from credalset._files import quote_formula, staged
from credalset.exceptions import FileFormatError, need, warn
from credalset.io.files import (
    COMPRESSIONS,
    FORMATS,
    STDIN,
    File,
    clean_copy,
    find_files,
    format_of,
    open_file,
    open_text,
    readable,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Normaliser",
    "Records",
    "Table",
    "as_texts",
    "count_rows",
    "is_list",
    "is_number",
    "is_text",
    "read_records",
    "read_table",
    "said_of_normalised",
    "table_writer",
    "with_decimal_points",
    "write_table",
]

DELIMITERS = ",;\t"
OTHER_DELIMITER = "|"  # is not tried, as it may well be part of a name, but suspected
BATCH_ROWS = 1 << 15
BLOCK = 1 << 22  # bytes of a text file that Arrow parses at a time
# Bytes of a Parquet column that are read ahead, where Arrow would hold all of it.
READ_BUFFER = 1 << 20
SPACE = re.compile(r"\s*")
RECORDS = 1 << 14  # JSON records that become one batch
#: numbers stay the texts that stand in the file; NaN is a missing value
DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda text: None)
#: a number with a decimal comma; with a point as well, it would be a comma between thousands
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")


class Table(NamedTuple):
    """A table that is read as it is used: its schema, and its record batches."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class Records(NamedTuple):
    """The rows of tables, or the documents of JSON files, file by file.

    Attributes
    ----------
    files : list of (File, list of dict)
        The records of each file.
    metadata : list of dict
        The metadata of each Parquet or Arrow file, as bytes.
    n_normalised : int
        Number of texts that were not in Unicode form NFC.
    """

    files: list[tuple[File, list[dict[str, Any]]]]
    metadata: list[dict[bytes, bytes]]
    n_normalised: int


def read_table(
    path: str | Path,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    whole: bool = False,
    is_table: bool = True,
) -> Table:
    r"""Open files, a folder, pattern, archive or standard input (``-``) as record batches.

    The format is that of the name, else that of the first bytes. Cells of text files are texts, and
    empty cells are null. Objects in columns become columns of their own: ``{"probs": {"a": 0.2}}``
    has the column ``probs.a``. Files of one table need the same columns, in any order and any
    formats. Once all batches are read, a warning counts the texts that were not in Unicode form
    NFC.

    Parameters
    ----------
    path : str or Path
        What to read.
    encoding : str, optional
        Encoding of text files, if it is not UTF-8 or UTF-16.
    delimiter : str, optional
        Delimiter of CSV files, if it is not the comma, semicolon or tab that splits the first line
        into the most names.
    whole : bool
        Whether JSON records are all read before the first batch, so that fields may appear late.
    is_table : bool
        Whether messages recommend ``import --kind table``, which is not for votes.

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
    normaliser = Normaliser()

    def opened(file: File) -> Table:
        return _open_table(
            file, normaliser, encoding, delimiter, whole=whole, flat=True, is_table=is_table
        )

    first = opened(files[0])

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first.batches
        for file in files[1:]:
            table = opened(file)
            odd = sorted(set(table.schema.names) ^ set(first.schema.names))
            if odd:
                raise ValueError(
                    f"{file.name} and {files[0].name} differ in columns ({join_names(odd)}). Files "
                    "of one table need the same columns; name the files to read by a pattern such "
                    "as 'folder/*.csv'."
                )
            yield from (batch.select(first.schema.names) for batch in table.batches)
        if normaliser.n_changed:
            warn(f"{path}: {said_of_normalised(normaliser.n_changed)}.")

    return Table(first.schema, batches())


def count_rows(path: str | Path) -> int | None:
    """Return about how many rows files have, without parsing them; None if that is not known.

    Lines are counted in text files, of which some may belong to one row.
    """
    if os.fspath(path) == STDIN:
        return None
    n_rows = 0
    for file in find_files(path):
        suffix = Path(file.path).suffix.lower()
        format = FORMATS.get(suffix)
        if file.member is not None or format not in ("parquet", "csv", "tsv", "jsonl"):
            return None
        if format == "parquet":
            from pyarrow import parquet

            n_rows += parquet.read_metadata(file.path).num_rows
            continue
        with open(file.path, "rb") as stream:
            n_lines = sum(block.count(b"\n") for block in iter(lambda: stream.read(BLOCK), b""))
        n_rows += n_lines - (format != "jsonl")
    return n_rows


def said_of_normalised(number: int) -> str:
    """Return the words of a note on texts that were not in Unicode form NFC."""
    return f"{plural(number, 'text')} put into Unicode form NFC, so that equal names are equal"


def read_records(
    path: str | Path, *, encoding: str | None = None, delimiter: str | None = None
) -> Records:
    """Read the rows of tables, or the documents of JSON files, as dicts of texts, file by file.

    ``encoding`` and ``delimiter`` are those of `read_table`. Objects stay objects.
    """
    found: list[tuple[File, list[dict[str, Any]]]] = []
    metadata: list[dict[bytes, bytes]] = []
    normaliser = Normaliser()
    for file in find_files(path):
        with readable(file.name):
            opened = _open(file)
            if opened.format in ("json", "jsonl"):
                documents = _documents(file, open_text(file, *opened[1:], encoding))
                found.append((file, [normaliser.document(each) for each in documents]))
                continue
        table = _open_table(file, normaliser, encoding, delimiter, opened=opened)
        metadata.append(table.schema.metadata or {})
        rows = [row for batch in table.batches for row in batch.to_pylist()]
        # Texts in columns are normalised, those within objects are not.
        has_objects = any(map(_holds_objects, table.schema.types))
        found.append((file, normaliser.document(rows) if has_objects else rows))
    return Records(found, metadata, normaliser.n_changed)


def _holds_objects(kind: pa.DataType) -> bool:
    from pyarrow import types

    return types.is_nested(kind) and not types.is_primitive(getattr(kind, "value_type", kind))


def with_decimal_points(table: pa.Table, id: Any) -> tuple[pa.Table, list[str]]:
    """Return a table of texts with points for decimal commas, and the columns where that was so.

    A column has decimal commas if every cell is a number, at least one of them with a comma. The
    column ``id`` names the items, and stays as it is, as do words and dates.
    """
    from pyarrow import compute

    changed = []
    for place, name in enumerate(table.schema.names):
        if name != id and _has_decimal_commas(table.column(name)):
            points = compute.replace_substring(table.column(name), ",", ".")
            table = table.set_column(place, name, points)
            changed.append(name)
    return table, changed


def _has_decimal_commas(column: pa.ChunkedArray) -> bool:
    if not is_text(column.type):
        return False
    cells = [cell for cell in column.to_pylist() if cell is not None]
    return all(map(is_number, cells)) and any(map(DECIMAL_COMMA.fullmatch, cells))


def is_number(text: str) -> bool:
    """Tell whether a text is a number, with a decimal point or comma."""
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return "_" not in text  # which Python allows between digits


class Opened(NamedTuple):
    """The format of a file, its first bytes and a stream; of Parquet the format only.

    Arrow opens Parquet files itself.
    """

    format: str
    head: bytes = b""
    stream: Any = None


def _open(file: File) -> Opened:
    if FORMATS.get(Path(file.path).suffix.lower()) == "parquet" and file.member is None:
        return Opened("parquet")
    head, stream = open_file(file)
    return Opened(format_of(file.name, head), head, stream)


def _open_table(
    file: File,
    normaliser: Normaliser,
    encoding: str | None = None,
    delimiter: str | None = None,
    *,
    opened: Opened | None = None,
    whole: bool = False,
    flat: bool = False,
    is_table: bool = False,
) -> Table:
    need("pyarrow", "Reading tables")
    with readable(file.name, is_table=is_table):
        format, head, stream = opened or _open(file)
        if format in ("csv", "tsv"):
            text = open_text(file, head, stream, encoding)
            mark = "\t" if format == "tsv" else delimiter
            table = _read_csv(file, head, text, mark, is_table=is_table)
        elif format in ("json", "jsonl"):
            documents = _documents(file, open_text(file, head, stream, encoding))
            table = _read_json(file, documents, None if whole else RECORDS)
        else:
            table = _read_arrow(file, head, stream, format)
        if flat:
            table = _flattened(table)
        schema = normaliser.schema(table.schema)
        twice = [name for name, n in Counter(schema.names).items() if n > 1]
        if twice:
            raise FileFormatError(
                f"{file.name} has several columns called {twice[0]!r}. Give each its own name."
            )

    def batches() -> Iterator[pa.RecordBatch]:
        with readable(file.name, is_table=is_table):
            for batch in table.batches:
                normalised = normaliser.batch(batch, schema)
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    yield normalised.slice(start, BATCH_ROWS)

    return Table(schema, batches())


def _flattened(table: Table) -> Table:
    """Turn structs into columns of their own."""
    import pyarrow as pa

    def flat(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.Table.from_batches([batch]).flatten().combine_chunks().to_batches()[0]

    if not any(pa.types.is_struct(kind) for kind in table.schema.types):
        return table
    return Table(table.schema.empty_table().flatten().schema, map(flat, table.batches))


class Normaliser:
    """Puts texts into Unicode form NFC, and counts those that were in another form."""

    def __init__(self) -> None:
        self.n_changed = 0

    def text(self, text: str) -> str:
        """Return a text in NFC."""
        if unicodedata.is_normalized("NFC", text):
            return text
        self.n_changed += 1
        return unicodedata.normalize("NFC", text)

    def document(self, value: Any) -> Any:
        """Return a JSON document, or a part of one, with its texts and names in NFC."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self.document(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.document(each) for each in value]
        return value

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema with its names in NFC."""
        for place, name in enumerate(schema.names):
            normal = self.text(name)
            if normal != name:
                schema = schema.set(place, schema.field(place).with_name(normal))
        return schema

    def batch(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Return a batch with its texts in NFC, under the names of a schema."""
        import pyarrow as pa

        columns = [self._column(column) for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _column(self, column: pa.Array) -> pa.Array:
        import pyarrow as pa

        if pa.types.is_dictionary(column.type):
            words = self._column(column.dictionary)
            if words is column.dictionary:
                return column
            return pa.DictionaryArray.from_arrays(
                column.indices, words, ordered=column.type.ordered
            )
        texts = column.flatten() if is_list(column.type) else column
        if not is_text(texts.type) or _is_ascii(texts):
            return column
        before = self.n_changed
        cells = self.document(column.to_pylist())
        return column if self.n_changed == before else pa.array(cells, column.type)


def _is_ascii(column: pa.Array) -> bool:
    """Tell whether all texts are ASCII, by their bytes, which is quicker than text by text."""
    from pyarrow import types

    if not (types.is_string(column.type) or types.is_large_string(column.type)):
        return False
    data = column.buffers()[-1]
    return data is None or not (np.frombuffer(data, dtype=np.int8) < 0).any()


# --- formats ---


def _read_csv(
    file: File, head: bytes, text: io.TextIOWrapper, delimiter: str | None, *, is_table: bool
) -> Table:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    encoding = text.encoding
    stream: Any = text.detach()
    start = codecs.getincrementaldecoder(encoding)("replace").decode(head)
    mark = delimiter or _delimiter(start)
    names = _header(start, mark, strict=False)
    if len(names) == 1 and OTHER_DELIMITER in names[0] and delimiter is None:
        copy = clean_copy(file.name, f"--delimiter {OTHER_DELIMITER!r}", is_table=is_table)
        raise FileFormatError(
            f"{file.name} has a header without comma, semicolon or tab: {names[0][:80]!r}. If "
            f"{OTHER_DELIMITER!r} separates its columns, {copy}."
        )
    types = dict.fromkeys(names, pa.string())
    source = stream
    if encoding in ("utf-8", "utf-8-sig") and stream.raw.path is not None:
        # Arrow reads ahead in a thread of its own. If that thread reads by Python code while the
        # program ends, after an error, Python aborts the process. So Arrow opens the file itself
        # where it can.
        source = pa.OSFile(stream.raw.path)
        stream.close()
    reader = arrow_csv.open_csv(
        source,
        # With threads, errors do not name the row.
        arrow_csv.ReadOptions(
            encoding=encoding.removesuffix("-sig"), block_size=BLOCK, use_threads=False
        ),
        arrow_csv.ParseOptions(delimiter=mark, newlines_in_values=True),
        arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=True, null_values=[""]),
    )
    # Columns that are not in `types` would be read as numbers, which lose their digits.
    if set(reader.schema.types) != {pa.string()}:
        raise pa.ArrowInvalid(f"its header cannot be read in the first {len(head)} bytes")
    schema = pa.schema([(name.strip(), pa.string()) for name in reader.schema.names])
    return Table(
        schema, (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in reader)
    )


def _delimiter(start: str) -> str:
    """Return the delimiter that splits the first line into the most names."""
    # A quoted name may hold other delimiters: where those split, text follows a closing quote,
    # which strict reading refuses. Headers that are odd to all of them are read as they come.
    for strict in (True, False):
        names = {mark: _header(start, mark, strict=strict) for mark in DELIMITERS}
        best = max(DELIMITERS, key=lambda mark: len(names[mark]))
        if len(names[best]) > 1:
            break
    return best


def _header(start: str, delimiter: str, *, strict: bool) -> list[str]:
    lines = csv.reader(io.StringIO(start, newline=""), delimiter=delimiter, strict=strict)
    with suppress(csv.Error):
        return next(filter(None, lines), [])
    return []


def _documents(file: File, text: io.TextIOWrapper) -> Iterator[dict[str, Any]]:
    """Yield objects of JSON Lines, an array, an object of records by id, or documents in a row."""
    found = _values(file, text)
    every = list(islice(found, 2))
    if len(every) == 1 and isinstance(every[0], list):
        every = every[0]
    elif len(every) == 1 and _is_by_id(every[0], file):
        every = [{"id": key} | value for key, value in every[0].items()]
    for number, document in enumerate(chain(every, found)):
        if not isinstance(document, dict):
            raise FileFormatError(
                f"{file.name} must hold objects, but number {number} is {str(document)[:60]!r}."
            )
        yield document


def _is_by_id(document: Any, file: File) -> bool:
    """Tell whether the only document of a file is an object of records by id."""
    if not isinstance(document, dict) or not all(isinstance(v, dict) for v in document.values()):
        return False
    # The one record of a file of JSON Lines may hold an object.
    return len(document) > 1 or ".json" in Path(file.name).suffixes


def _values(file: File, text: io.TextIOWrapper) -> Iterator[Any]:
    """Yield a document per line; from the first line that is none, documents over several lines."""
    for number, line in enumerate(text, 1):
        if not line.strip():
            continue
        with suppress(json.JSONDecodeError):
            yield DECODER.decode(line)
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


def _read_json(
    file: File, documents: Iterator[dict[str, Any]], n_first: int | None = RECORDS
) -> Table:
    """Read records as columns of texts, or of lists of texts.

    The first ``n_first`` tell the names, all of them if it is None. A later record with another
    field is an error: batches have one schema, so the field would be lost.
    """
    import pyarrow as pa

    first = [_flat_record(record) for record in islice(documents, n_first)]
    names = dict.fromkeys(name for record in first for name in record)
    lists = {name for record in first for name in record if isinstance(record[name], list)}
    schema = pa.schema(
        [(name, pa.list_(pa.string()) if name in lists else pa.string()) for name in names]
    )

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(first), RECORDS):
            yield pa.RecordBatch.from_pylist(first[start : start + RECORDS], schema)
        n_read = len(first)
        while records := [_flat_record(record) for record in islice(documents, RECORDS)]:
            for number, record in enumerate(records, n_read + 1):
                late = [name for name in record if name not in names]
                late += [n for n in record if isinstance(record[n], list) and n not in lists]
                if late:
                    raise _late_field(file, number, n_read, late[0])
            yield pa.RecordBatch.from_pylist(records, schema)
            n_read += len(records)

    return Table(schema, batches())


def _late_field(file: File, number: int, n_read: int, name: str) -> FileFormatError:
    return FileFormatError(
        f"{file.name}: the field {name!r} of record {number} is not in the {n_read} records before "
        "it, or is no list there. Give the first record all fields, or write a table that has "
        f"them: credalset import {shlex.quote(file.name)} --kind table -o clean.parquet"
    )


def _flat_record(record: dict[str, Any], start: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat |= _flat_record(value, f"{start}{name}.")
        elif isinstance(value, list):
            flat[start + name] = [_text(inner) for inner in value]
        else:
            flat[start + name] = _text(value)
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
def table_writer(
    path: str | Path, schema: pa.Schema, *, for_spreadsheets: str | None = None
) -> Iterator[Any]:
    """Open a table for writing; it appears under its name only when everything is written.

    Yields a function that takes record batches of the schema. ``-`` is standard output, which gets
    CSV. In CSV and TSV, lists are joined by ``|``. In all text files an empty text is a missing
    value.

    Parameters
    ----------
    path : str or Path
        Where to write; the suffix tells the format and the compression.
    schema : pyarrow schema
        Of the batches.
    for_spreadsheets : str, optional
        The column of ids of a table that people will open in a spreadsheet: in CSV and TSV, texts
        in the other columns that it would run as a formula begin with an apostrophe. Ids stay as
        they are, because votes come back under them. A warning counts both.
    """
    import pyarrow as pa

    format = "csv" if path == STDIN else format_of(str(path))
    guard = None
    if for_spreadsheets is not None and format in ("csv", "tsv"):
        guard = _Guard(for_spreadsheets)
    if path == STDIN:
        with _sink(pa.PythonFile(sys.stdout.buffer, mode="w"), schema, format, guard) as write:
            yield write
        sys.stdout.buffer.flush()
    else:
        compression = COMPRESSIONS.get(Path(path).suffix.lower())
        with staged(Path(path)) as staging, pa.OSFile(str(staging), "wb") as raw:
            stream = raw if compression is None else pa.CompressedOutputStream(raw, compression)
            with stream, _sink(stream, schema, format, guard) as write:
                yield write
    if guard is not None and guard.n_quoted:
        warn(
            f"{plural(guard.n_quoted, 'text')} in {path} got an apostrophe in front, as a "
            "spreadsheet would run them as formulas. Write .parquet or .jsonl for the texts as "
            "they are."
        )
    if guard is not None and guard.n_ids:
        warn(
            f"{plural(guard.n_ids, 'id')} in {path} would run as formulas in a spreadsheet, and "
            "stay as they are, because votes come back under them. Open the file as text if you "
            "do not trust them."
        )


def write_table(table: pa.Table, path: str | Path) -> None:
    """Write a whole table; see `table_writer`."""
    with table_writer(path, table.schema) as write:
        for batch in table.to_batches():
            write(batch)


@contextmanager
def _sink(stream: Any, schema: pa.Schema, format: str, guard: _Guard | None) -> Iterator[Any]:
    """Give a function that writes record batches as bytes of one format."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    if format == "parquet":
        with parquet.ParquetWriter(stream, schema, use_dictionary=_repeated(schema)) as writer:
            yield writer.write_batch
    elif format == "jsonl":
        yield lambda batch: stream.write("".join(map(_json_line, batch.to_pylist())).encode())
    else:
        options = arrow_csv.WriteOptions(delimiter="\t" if format == "tsv" else ",")
        head = _as_cells(pa.RecordBatch.from_pylist([], schema), guard)
        with arrow_csv.CSVWriter(stream, head.schema, write_options=options) as writer:
            yield lambda batch: writer.write(_as_cells(batch, guard))


def _repeated(schema: pa.Schema) -> list[str]:
    """Return the columns for whose values a Parquet file keeps a dictionary: all but fractions.

    Fractions hardly repeat, and looking for their repetitions takes half of the time of writing.
    """
    from pyarrow import types

    names = []
    for field in schema:
        values = field.type.value_type if is_list(field.type) else field.type
        if not types.is_floating(values):
            names.append(f"{field.name}.list.element" if is_list(field.type) else field.name)
    return names


def _json_line(row: dict[str, Any]) -> str:
    """Return a row as JSON, which has no NaN and no infinity: they are null and a text."""
    plain = {name: _json_value(value) for name, value in row.items()}
    return json.dumps(plain, ensure_ascii=False, default=str) + "\n"


def _json_value(value: Any) -> Any:
    if value == "":  # missing, as it is where it is read
        return None
    if not isinstance(value, float) or math.isfinite(value):
        return value
    if math.isnan(value):
        return None
    return "Infinity" if value > 0 else "-Infinity"


class _Guard:
    """Puts an apostrophe before texts that a spreadsheet would run, and counts them.

    Texts in the column of ids are counted only.
    """

    def __init__(self, id: str) -> None:
        self.id = id
        self.n_quoted = 0
        self.n_ids = 0

    def column(self, name: str, texts: list[str | None]) -> list[str | None]:
        """Return the texts of a column as they are written."""
        if name != self.id:
            return [self(text) for text in texts]
        self.n_ids += sum(text is not None and quote_formula(text) != text for text in texts)
        return texts

    def __call__(self, text: str | None) -> str | None:
        quoted = None if text is None else quote_formula(text)
        self.n_quoted += quoted != text
        return quoted


def _as_cells(batch: pa.RecordBatch, guard: _Guard | None) -> pa.RecordBatch:
    """Return a batch as CSV files have it: lists are joined texts, and empty texts are null."""
    import pyarrow as pa
    from pyarrow import compute

    names = list(batch.schema.names)
    columns = []
    for name, column in zip(names, batch.columns, strict=True):
        if is_list(column.type):
            cells = [None if c is None else "|".join(map(str, c)) for c in column.to_pylist()]
            column = pa.array(cells, pa.string())
        if is_text(column.type):
            column = column.cast(pa.string())
            if compute.any(compute.match_substring(column, "\0")).as_py():
                raise ValueError(
                    f"column {name!r} has a text with a NUL character, which CSV and TSV files "
                    "cannot hold. Write .parquet or .jsonl."
                )
            column = compute.if_else(compute.equal(column, ""), None, column)
            if guard is not None:
                column = pa.array(guard.column(name, column.to_pylist()), pa.string())
        columns.append(column)
    if guard is not None:
        names = [name if name == guard.id else quote_formula(name) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)


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
