"""doccano: a file per annotator (JSONL, JSON or CSV), in a zip archive; or one for all, which names nobody.

https://doccano.github.io/doccano/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from credalset.annotations.readers.common import Guess, Log, Reader, Vote, Wanted, as_name, chosen_field, in_batches
from credalset.annotations.readers.files import File
from credalset.annotations.readers.source import Source
from credalset.exceptions import FileFormatError

LABELS = ("label", "labels", "cats", "annotations")
DATA = {"text", "data", "filename"}
#: name of the file in which the labels of all annotators are mixed
SHARED = "all"


def recognise(source: Source) -> Guess | None:
    """Recognise documents with an id, a text or file name, and a list of labels."""
    rows = [row for row in source.sample if isinstance(row, dict)]
    if not rows or len(rows) < len(source.sample) or not all("id" in row and DATA & set(row) for row in rows):
        return None
    lists = [row[name] for row in rows for name in LABELS if isinstance(row.get(name), list)]
    if len(lists) < len(rows) or not all(map(_is_category, (label for labels in lists for label in labels))):
        return None
    if any(isinstance(row.get("annotations"), list) for row in rows):
        return Guess(0.9, "its documents have annotations with a label and a user")
    files = "a file per annotator" if len(source.files) > 1 else "documents with a list of labels"
    return Guess(0.9 if len(source.files) > 1 else 0.75, f"it holds {files}")


def _is_category(label: Any) -> bool:
    return isinstance(label, str | int) or (isinstance(label, dict) and "user" in label and "start_offset" not in label)


@in_batches
def read(source: Source, wanted: Wanted, log: Log) -> Iterator[Vote]:
    """Yield a vote per document and annotator: the name of the file is that of the annotator."""
    log.no_workers = wanted.worker is None and [file.stem for file in source.files] == [SHARED]
    for file, number, row in source.records():
        task = as_name(
            number if wanted.task is None and row.get("id") is None else chosen_field(row, wanted.task, "id")
        )
        labels = chosen_field(row, wanted.label, *LABELS)
        if isinstance(labels, str) and source.is_text:
            labels = labels.split("#")  # the CSV export joins the labels of a document
        labels = labels if isinstance(labels, list) else [] if labels is None else [labels]
        yield Vote(task, None, None)
        if any(isinstance(label, dict) for label in labels):
            yield from _old_votes(task, labels, file)
            continue
        if any(isinstance(label, list) for label in labels):
            raise FileFormatError(f"{file.name} holds spans of text, not labels of documents: {labels[0]!r}.")
        if len(labels) > 1 and len(source.files) == 1 and wanted.one_vs_rest is None:
            raise ValueError(_who_chose_which(file, task, labels))
        worker = file.stem if wanted.worker is None else as_name(chosen_field(row, wanted.worker))
        yield Vote(task, worker, labels or None)  # documents that nobody has looked at have an empty list


def _who_chose_which(file: File, task: Any, labels: list[Any]) -> str:
    return (
        f"{file.name} gives task {task!r} the labels {labels} without saying who chose which. If annotators share "
        "their labels in this project, switch 'Share annotations across all users' off and export again, which gives "
        f"a file per annotator. If one person chose several, ask one question per label: one_vs_rest={labels[0]!r}."
    )


def _old_votes(task: Any, annotations: list[Any], file: File) -> Iterator[Vote]:
    """Yield the votes of releases before 1.3, which list annotations with a label and a user."""
    by_user: dict[Any, list[Any]] = {}
    for annotation in annotations:
        if not isinstance(annotation, dict) or "label" not in annotation or "start_offset" in annotation:
            raise FileFormatError(f"{file.name} holds spans of text, not labels of documents: {annotation!r}.")
        by_user.setdefault(annotation.get("user"), []).append(annotation["label"])
    for user, labels in by_user.items():
        yield Vote(task, file.stem if user is None else user, labels)


READER = Reader("doccano", "doccano JSONL, JSON or CSV", recognise, read)
