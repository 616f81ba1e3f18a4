"""crowd-kit's convention: a table with the columns task, worker and label; before 2022, performer for worker.

https://github.com/Toloka/crowd-kit
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from credalset.annotations.readers import long_table
from credalset.annotations.readers.common import Export, Guess, Reader
from credalset.annotations.readers.parsing import Batch
from credalset.annotations.readers.source import Source


def recognise(source: Source) -> Guess | None:
    """Recognise the columns by their names."""
    names = set(source.columns)
    if {"task", "label"} <= names and names & {"worker", "performer"}:
        return Guess(0.95, "it has the columns task, worker and label")
    return None


def read(export: Export) -> Iterator[Batch]:
    """Yield the columns of the convention."""
    source, wanted = export.source, export.wanted
    if {"left", "right"} <= set(source.columns):
        raise ValueError(
            f"{source.name} compares pairs: its label is the better of 'left' and 'right', which differ from task to "
            "task. Such votes are no label distribution over fixed classes."
        )
    worker = "worker" if "worker" in source.columns else "performer"
    usual = replace(wanted, task=wanted.task or "task", worker=wanted.worker or worker, label=wanted.label or "label")
    yield from long_table.read(replace(export, wanted=usual))


READER = Reader("crowd-kit", recognise, read, long_table.TAKES, missing="error")
