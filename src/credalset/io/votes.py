"""Votes as tables: written as long tables, and carried along as a column of counts beside predictions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from credalset.exceptions import need, warn
from credalset.io.columns import as_texts
from credalset.io.files import format_of
from credalset.io.tables import Table, table_writer
from credalset.votes.names import SCALE

if TYPE_CHECKING:
    import pyarrow as pa

    from credalset.votes import Annotations


def write_votes(votes: Annotations, path: str) -> None:
    """Write votes as a long table: task, worker, label, and time where it is known."""
    pa = need("pyarrow", "Writing tables")
    columns = {name: _texts(column) for name, column in votes.table.items()}
    table = pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})
    if votes.scale is not None:
        if format_of(path, None) != "parquet":
            warn(f"{path} does not keep the scale of the labels. Write .parquet instead.")
        levels = [str(votes.classes[k]) for k in np.argsort(votes.scale)] if votes.classes else []
        table = table.replace_schema_metadata({SCALE: json.dumps(levels)})
    with table_writer(path, table.schema) as write:
        for batch in table.to_batches():
            write(batch)


def _texts(column: list[Any]) -> list[str | None]:
    return [None if value is None else str(value) for value in column]


def with_votes(table: Table, votes: Annotations, id: str, classes: Any, name: str) -> Table:
    """Add a column with the counts of each item, a list in the order of the classes; items without votes have zeros."""
    import pyarrow as pa

    if name in table.schema.names:
        raise ValueError(f"the predictions have a column {name!r} already. Rename it.")
    if classes is None:
        raise ValueError("the calibration has no names of classes, so votes cannot be matched. Calibrate with names.")
    ordered = votes.reorder([str(c) for c in classes])
    row = {str(item): i for i, item in enumerate(ordered.items or ())}
    counts = np.vstack([ordered.counts, np.zeros((1, len(classes)), dtype=np.int64)])
    schema = table.schema.append(pa.field(name, pa.list_(pa.int64())))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.batches:
            items = as_texts(batch.column(batch.schema.get_field_index(id)))
            chosen = counts[[row.get(item or "", -1) for item in items]]
            offsets = np.arange(len(chosen) + 1, dtype=np.int32) * chosen.shape[1]
            lists = pa.ListArray.from_arrays(offsets, chosen.ravel())
            yield pa.RecordBatch.from_arrays([*batch.columns, lists], schema=schema)

    return Table(schema, batches())
