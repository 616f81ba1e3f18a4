"""doccano: a file per annotator (JSONL, JSON or CSV), in a zip archive; or one for all, which names nobody.

https://doccano.github.io/doccano/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from credalset.annotations.readers.common import Export, Guess, Reader, Vote
from credalset.annotations.readers.files import File
from credalset.annotations.readers.source import Source
from credalset.exceptions import FileFormatError

LABELS = ("label", "labels", "cats", "annotations")
#: name of the file in which the labels of all annotators are mixed
SHARED = "all"


def recognise(source: Source) -> Guess | None:
    """Recognise documents with an id, a text or file name, and a list of labels."""
    rows = source.sample
    if not rows or not all(isinstance(row, dict) and "id" in row and _shown(row) for row in rows):
        return None
    if all(_are(row.get("annotations"), dict) for row in rows) and any(row["annotations"] for row in rows):
        old = all(
            set(one) >= {"label", "user"} and "start_offset" not in one for row in rows for one in row["annotations"]
        )
        return Guess(0.9, "its documents have annotations with a label and a user") if old else None
    if not all(any(_are(row.get(name), str) for name in LABELS) for row in rows):
        return None
    files = "a file per annotator" if len(source.files) > 1 else "documents with a list of labels"
    return Guess(0.9 if len(source.files) > 1 else 0.75, f"it holds {files}")


def _shown(row: dict[str, Any]) -> bool:
    return any(isinstance(row.get(name), str) for name in ("text", "data", "filename"))


def _are(values: Any, kind: type) -> bool:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def read(export: Export) -> Iterator[Vote]:
    """Yield a vote per document and annotator: the name of the file is that of the annotator."""
    files, wanted = export.source.files, export.wanted
    export.log.no_workers = wanted.worker is None and [file.stem for file in files] == [SHARED]
    for file, _, task, row in export.records("id"):
        labels = export.field(row, "label", *LABELS)
        if isinstance(labels, str) and export.source.is_text:
            labels = labels.split("#")  # the CSV export joins the labels of a document
        labels = labels if isinstance(labels, list) else [] if labels is None else [labels]
        yield Vote(task)
        if any(isinstance(label, dict) for label in labels):
            yield from _old_votes(task, labels, file)
            continue
        if any(isinstance(label, list) for label in labels):
            raise FileFormatError(f"{file.name} holds spans of text, not labels of documents: {labels[0]!r}.")
        if len(labels) > 1 and len(files) == 1 and wanted.one_vs_rest is None:
            raise ValueError(_who_chose_which(file, task, labels))
        worker = file.stem if wanted.worker is None else export.worker(row)
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


READER = Reader("doccano", recognise, read, ("task", "worker", "label"))
