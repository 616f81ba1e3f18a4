"""The one table of votes that the commands read and write, and the votes of exports."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from credalset._display import join_names
from credalset.exceptions import need, warn
from credalset.io.files import format_of, readable
from credalset.io.tables import as_texts, read_table, write_table
from credalset.votes.annotations import Annotations
from credalset.votes.tables import (
    LABELS,
    SYNONYMS,
    find_columns,
    labels_of,
    long_table,
    refuse_unnamed_worker,
)

__all__ = ["read_vote_table", "write_smoothed", "write_vote_table"]


def read_vote_table(path: str | Path, classes: Iterable[str] = ()) -> Annotations:
    """Read votes from a long table of `write_vote_table`: task, worker, label, and time if known.

    Classes that are known from elsewhere are classes also if nobody has voted for them here.

    Exports of annotation tools, and tables whose columns have other names, are for
    `Annotations.read`.
    """
    # Votes are held in memory, so that JSON records may all be looked at for their fields.
    table = read_table(path, whole=True, is_table=False)
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
        others = {name: found[name].to_pylist() for name in table.schema.names}
    refuse_unnamed_worker(others, names, str(path))
    long = long_table(columns, names)
    long.declare(labels_of(table.schema.metadata) or dict.fromkeys(classes))
    return replace(
        Annotations.from_table(long, scale=long.ordered or None),
        origin=f"{Path(path).name}, read as long",
    )


def write_vote_table(votes: Annotations, path: str) -> None:
    """Write votes as a long table: task, worker, label, and time where it is known.

    Parquet also keeps the order of the labels, those without votes, and their scale.
    """
    pa = need("pyarrow", "Writing tables")
    columns = {}
    for name, cells in votes.table.items():
        if name == "worker" and votes.workers is None:
            continue
        texts = [None if cell is None else str(cell) for cell in cells]
        columns[name] = pa.array(texts, pa.string())
    if votes.scale is not None and format_of(path, None) != "parquet":
        warn(f"{path} does not keep the scale of the labels. Write .parquet instead.")
    classes = tuple(map(str, votes.classes or ()))
    labels: dict[str, float | None] = dict.fromkeys(classes)
    if votes.scale is not None:
        labels = {name: at for at, name in sorted(zip(votes.scale, classes, strict=True))}
    table = pa.table(columns).replace_schema_metadata({LABELS: json.dumps(labels)})
    write_table(table, path)


def write_smoothed(votes: Annotations, path: str) -> None:
    """Write the smoothed shares of votes, one row per item, as a table of predictions."""
    pa = need("pyarrow", "Writing tables")
    taken = [name for name in votes.classes or () if name in SYNONYMS["task"]]
    if taken:
        raise ValueError(
            f"a class is called {taken[0]!r}, like a column of items. Rename it with rename."
        )
    write_table(pa.Table.from_pandas(votes.to_frame("smoothed").reset_index()), path)
