"""Wide tables, a row per item and a column per annotator (cleanlab's shape): CSV, TSV, JSON Lines, Parquet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from credalset.annotations.naming import candidates, plain, tidied
from credalset.annotations.readers.common import Export, Guess, Reader
from credalset.annotations.readers.parsing import Batch
from credalset.annotations.readers.source import Source
from credalset.annotations.table import is_number_text
from credalset.annotations.wide import is_annotator, label_columns, votes_in

INDEX_NAMES = {"", "unnamed_0", "index"}


def recognise(source: Source) -> Guess | None:
    """Recognise columns by names such as rater_1, or by the same few labels in each of them."""
    if not source.sample or not all(isinstance(row, dict) for row in source.sample):
        return None
    columns = _annotators(source, _task_column(source, None))
    if len(columns) < 2 or candidates(columns, "label"):
        return None
    if all(is_annotator(name) for name in columns):
        return Guess(0.9, f"its columns are annotators: {', '.join(map(repr, columns[:3]))}")
    values = {name: {tidied(row[name]) for row in source.sample if row.get(name) is not None} for name in columns}
    holders = Counter(value for distinct in values.values() for value in distinct)
    shared = {value for value, n in holders.items() if n > 1}
    empty = any(row.get(name) is None for row in source.sample for name in columns)
    texts = not all(isinstance(value, int | float) or is_number_text(value) for value in holders)
    if sum(bool(distinct & shared) for distinct in values.values()) > 1 and (texts or empty):
        label = min(shared, key=str)
        return Guess(0.7, f"the columns {', '.join(map(repr, columns[:3]))} share labels such as {label!r}")
    return None


def _task_column(source: Source, wanted: Any) -> str | None:
    if wanted is not None:
        if wanted not in source.columns:
            raise ValueError(f"{source.name} has no column {wanted!r}, only {source.columns}. Name it: task=...")
        return str(wanted)
    found = candidates(source.columns, "task") or [name for name in source.columns if plain(name) in INDEX_NAMES]
    return str(found[0]) if found else None


def _annotators(source: Source, task: str | None) -> list[str]:
    """Return the columns that hold labels, as far as the first rows tell."""
    rows = [row for row in source.sample if isinstance(row, dict)]
    return label_columns({name: [row.get(name) for row in rows] for name in source.columns if name != task})


def read(export: Export) -> Iterator[Batch]:
    """Yield a vote per filled cell."""
    source, wanted = export.source, export.wanted
    task = _task_column(source, wanted.task)
    given = [wanted.worker] if isinstance(wanted.worker, str) else wanted.worker
    annotators = _annotators(source, task) if given is None else list(given)
    unknown = [name for name in annotators if name not in source.columns]
    if unknown or not annotators:
        fault = f"no column {unknown[0]!r}" if unknown else "no columns of labels"
        raise ValueError(f"{source.name} has {fault}, only {source.columns}. Name the annotators: worker=[...].")
    shown = ", ".join(map(repr, annotators[:5])) + (", …" if len(annotators) > 5 else "")
    others = [name for name in source.columns if name != task and name not in annotators]
    export.log.notes.append(
        f"annotators {shown}"
        + (f", items from {task!r}" if task is not None else ", items by number: name their column with task=...")
        + (f"; not read: {', '.join(map(repr, others[:5]))}" if others else "")
    )
    done = 0
    for batch in source.batches([*annotators, *([] if task is None else [task])]):
        size = len(batch[annotators[0]])
        items = batch[task] if task is not None else list(range(done, done + size))
        done += size
        yield {"task": items, "worker": [None] * size, "label": [None] * size}
        yield votes_in({name: batch[name] for name in annotators}, items)


READER = Reader("wide", recognise, read, ("task", "worker"))
