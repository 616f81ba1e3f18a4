"""Parquet and Arrow files, read in batches; with pyarrow."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from credalset.annotations.readers.files import File, guard
from credalset.annotations.readers.parsing import Batch
from credalset.exceptions import FileFormatError, need


@contextmanager
def open_arrow(file: File, format: str) -> Iterator[Any]:
    """Open a Parquet or Arrow file; what pyarrow says about a damaged one becomes a sentence."""
    pyarrow = need("pyarrow", f"Reading {file.name}", "or export it as CSV or JSON")
    with guard(file.name), file.open() as stream:
        seekable = stream if isinstance(stream, io.BufferedReader) and stream.seekable() else io.BytesIO(stream.read())
        try:
            if format == "parquet":
                yield need("pyarrow.parquet").ParquetFile(seekable)
            else:
                yield (pyarrow.ipc.open_file if format == "arrow" else pyarrow.ipc.open_stream)(seekable)
        except pyarrow.ArrowException as error:
            raise FileFormatError(f"{file.name} is damaged or cut short: {error} Export it again.") from None


def arrow_schema(file: File, format: str) -> Any:
    """Return the schema of a file."""
    with open_arrow(file, format) as reader:
        return reader.schema_arrow if format == "parquet" else reader.schema


def arrow_batches(file: File, format: str, names: Sequence[str] | None, size: int) -> Iterator[Batch]:
    """Yield columns of a file as lists, a batch of rows at a time: those of the names that it has, or all."""
    with open_arrow(file, format) as reader:
        if format == "parquet":
            batches = reader.iter_batches(batch_size=size, columns=names)
        elif format == "arrow":
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            batches = iter(reader)
        for batch in batches:
            wanted = [name for name in batch.schema.names if names is None or name in names]
            yield {name: batch.column(name).to_pylist() for name in wanted}
