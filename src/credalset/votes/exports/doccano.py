"""doccano: a file per annotator (JSONL, JSON or CSV), in a folder or zip archive.

Or one for all, which names nobody.

https://doccano.github.io/doccano/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from credalset.exceptions import FileFormatError
from credalset.votes.exports.export import Export, Record

__all__ = ["recognise", "votes"]

LABELS = ("label", "labels", "cats", "annotations")
SHARED = "all"  # name of the file in which the labels of all annotators are mixed


def recognise(records: list[Record]) -> bool:
    """Documents with an id, a text or file name, and a list of labels."""
    return all(
        "id" in record
        and any(isinstance(record.get(name), str) for name in ("text", "data", "filename"))
        and any(isinstance(record.get(name), list) for name in LABELS)
        for record in records
    )


def votes(export: Export) -> Iterator[tuple[Any, ...]]:
    """Yield a vote per document and annotator: the name of the file is that of the annotator."""
    shared = [stem for stem, _ in export.files] == [SHARED]
    for stem, task, record in export.records("id"):
        labels: Any = export.field(record, "label", *LABELS)
        if isinstance(labels, str):
            labels = labels.split("#")  # as the CSV export joins them
        labels = list(labels or [])
        if any(map(_is_span, labels)):
            raise FileFormatError(
                f"{export.name} holds spans of text, not labels of documents: {labels[0]!r}."
            )
        # Releases before 1.3 list annotations with a user.
        if any(isinstance(label, dict) for label in labels):
            by_user: dict[Any, list[Any]] = {}
            for annotation in labels:
                user = annotation.get("user") or stem
                by_user.setdefault(user, []).append(annotation.get("label"))
            yield from ((task, user, chosen) for user, chosen in by_user.items())
            continue
        if len(labels) > 1 and len(export.files) == 1:
            raise ValueError(
                f"{export.name} gives task {task!r} the labels {labels} without saying who chose "
                "which. Switch 'Share annotations across all users' off and export again, which "
                "gives a file per annotator; or, if each is a vote, set kind to 'lists'."
            )
        worker = None if shared else stem
        if export.given["worker"]:
            worker = export.worker(record)
        if labels:  # documents that nobody has looked at have an empty list
            yield task, worker, labels


def _is_span(label: Any) -> bool:
    return isinstance(label, list) or (isinstance(label, dict) and "start_offset" in label)
