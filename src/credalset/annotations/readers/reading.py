"""Open a file of votes, look at it, and read it piece by piece, as plain columns or Arrow batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any

from credalset._validation import check_choice
from credalset.annotations.counting import as_seconds
from credalset.annotations.labels import shown
from credalset.annotations.naming import tidied
from credalset.annotations.readers.common import Export, Log, Reader, Wanted
from credalset.annotations.readers.parsing import Batch
from credalset.annotations.readers.registry import READERS, Recognition, recognise
from credalset.annotations.readers.source import EMPTY, Source
from credalset.annotations.readers.types import ColumnType
from credalset.annotations.single_labels import SingleLabels
from credalset.annotations.spelling import Spelling
from credalset.annotations.table import Column, is_missing, is_number_text
from credalset.exceptions import need

ROLES = ("task", "worker", "label", "time", "weight")


def sniff(path: str | Path, *, encoding: str | None = None, delimiter: str | None = None) -> Recognition:
    r"""Say what kind of file a path holds, how sure that is, and why; raises ``FileFormatError`` if nobody knows.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "votes.csv"
    >>> _ = path.write_text("task,worker,label\n1,ann,cat\n")
    >>> print(sniff(path))
    certainly crowd-kit: it has the columns task, worker and label
    """
    return recognise(Source.open(path, encoding=encoding, delimiter=delimiter))


def open_votes(
    path: str | Path,
    kind: str | None = None,
    *,
    task: Hashable | None = None,
    worker: Any = None,
    label: Hashable | None = None,
    time: Hashable | None = None,
    weight: Hashable | None = None,
    one_vs_rest: Hashable | None = None,
    missing: str | None = None,
    rename: Mapping[Any, Hashable] | None = None,
    tidy: bool = False,
    empty: Sequence[str] = EMPTY,
    encoding: str | None = None,
    delimiter: str | None = None,
) -> VoteFile:
    r"""Open an annotation export or a vote table as one long table: task, worker, label, and if known time and weight.

    Parameters
    ----------
    path : path
        A file, a folder, a pattern, a zip archive, or "-" for standard input.
    kind : str, optional
        A key of ``READERS``; recognised from the file by default.
    task, worker, label, time, weight : name, optional
        Column of a table, or field of a record ("data.uid"); ``label`` also the question of an export that has several.
        A wide table takes a list of columns as ``worker``.
    one_vs_rest : label, optional
        Turn every vote into one for or against this label.
    missing : {"error", "drop"}, optional
        Rows without a task, worker or label: an error in long tables, no votes elsewhere, by default.
    rename : mapping, optional
        Names of labels by those in the file; what gets the same name is one label.
    tidy : bool
        Read labels in lower case, with single spaces and none around them; after renaming.
    empty : sequence of str
        Texts that mark an empty cell of a table.
    encoding, delimiter : str, optional
        Of text files; UTF-8, and found from the first lines, by default.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "votes.csv"
    >>> _ = path.write_text("item;rater;rating\na;1;5\na;2;4\n")
    >>> votes = open_votes(path)
    >>> votes.kind
    'long'
    >>> for batch in votes.batches():
    ...     print(batch)
    {'task': ['a', 'a'], 'worker': ['1', '2'], 'label': ['5', '4']}
    """
    for text, name in ((encoding, "encoding"), (delimiter, "delimiter")):
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{name} must be text, but is {text!r}.")
    if delimiter is not None and len(delimiter) != 1:
        raise ValueError(f"delimiter must be one character, but is {delimiter!r}.")
    if isinstance(empty, str):
        raise TypeError(f"empty must be a list of texts, but is {empty!r}. Write empty=['', {empty!r}].")
    source = Source.open(path, encoding=encoding, delimiter=delimiter, empty=tuple(empty))
    if kind is None and None not in (task, label) and {task, label} <= set(source.columns or ()):
        kind = "long"  # whoever names these columns has said what it is
    recognised = recognise(source) if kind is None else None
    kind = kind if recognised is None else recognised.kind
    check_choice(kind, "kind", tuple(READERS))
    reader = READERS[str(kind)]
    for role, name in zip(ROLES, (task, worker, label, time, weight), strict=True):
        if name is not None and role not in reader.takes:
            raise ValueError(f"{role}={name!r}: files of kind {reader.kind!r} have no choice of {role}. Leave it out.")
    missing = reader.missing if missing is None else missing
    check_choice(missing, "missing", ("error", "drop"))
    wanted = Wanted(task, worker, label, time, weight, one_vs_rest)
    return VoteFile(source, reader, recognised, wanted, missing, Spelling(rename, tidy))


@dataclass
class VoteFile:
    """A file of votes, open for reading as often as wanted, a batch of rows at a time."""

    source: Source
    reader: Reader
    recognised: Recognition | None
    wanted: Wanted
    missing: str
    spelling: Spelling = field(default_factory=lambda: Spelling(None, False))
    log: Log = field(default_factory=Log)

    @property
    def kind(self) -> str:
        """What the file was read as."""
        return self.reader.kind

    def describe(self) -> str:
        """Say what the file was taken for, how it was understood and, once it was read, what was left out."""
        how = f"read as {self.kind}" if self.recognised is None else str(self.recognised)
        notes = list(dict.fromkeys(self.log.notes))
        if self.log.left_out:
            notes.append("left out: " + ", ".join(f"{n} {why}" for why, n in sorted(self.log.left_out.items())))
        return "; ".join([f"{self.source.name}, {how}", *notes])

    def batches(self) -> Iterator[Batch]:
        """Yield columns task, worker, label, and time and weight where known: one label per row, as in the file."""
        n_rows, gaps = 0, []
        for batch in self._labelled():
            complete = self.complete(batch)
            if self.missing == "error":
                gaps += [n_rows + row for row in incomplete_rows(batch)]
                n_rows += len(batch["label"])
            if complete["label"] and not gaps:  # after a gap, what follows is only counted
                yield complete
        if gaps:
            votes, them = ("1 vote", "it") if len(gaps) == 1 else (f"{len(gaps)} votes", "them")
            raise ValueError(
                f"{self.source.name} has {votes} without task, worker or label (in rows {shown(gaps)}; the first is 0)"
                f". Pass missing='drop' to leave {them} out."
            )

    def complete(self, batch: Batch) -> Batch:
        """Return the complete rows; those of a table in which none should be missing are counted as left out."""
        complete = complete_rows(batch)
        gone = len(batch["label"]) - len(complete["label"])
        if gone and self.reader.missing == "error":
            self.log.left_out["without task, worker or label"] += gone
        return complete

    def _labelled(self) -> Iterator[Batch]:
        """Yield batches with single labels; rows without one are still there, and say which items there are."""
        self.log = log = Log(number_texts=frozenset(ROLES if self.source.is_text else ()))
        spelling, asked = self.spelling, self.wanted.one_vs_rest
        single = SingleLabels(tidied(asked) if spelling.tidy else asked)
        found: set[str] = set()
        unknown = count(1)
        for batch in self.reader.batches(Export(self.source, self.wanted, log)):
            if self.wanted.time is not None:
                check_times(batch["time"])
            labels = single(spelling(batch["label"]), partial(self._where, batch))
            batch["label"] = labels
            if log.no_workers:
                del batch["worker"]
            elif self.reader.missing == "drop":
                workers = batch["worker"]
                found.update(role for role in ("worker", "label") if any(value is not None for value in batch[role]))
                log.left_out["without a label"] += sum(
                    label is None and worker is not None for label, worker in zip(labels, workers, strict=True)
                )
                # A vote of nobody knows whom is a vote; two of them are not by the same person for that.
                batch["worker"] = [
                    f"unknown {next(unknown)}" if worker is None and label is not None else worker
                    for label, worker in zip(labels, workers, strict=True)
                ]
            yield batch
        log.left_out += Counter()  # without those that are zero
        log.classes = dict.fromkeys(spelling(list(log.classes)))
        spelling.check()
        if self.reader.missing == "drop" and not log.no_workers:
            self._check_found(found)
        single.check()

    def _check_found(self, found: set[str]) -> None:
        for role in ("worker", "label"):
            name = getattr(self.wanted, role)
            if name is not None and role not in found:
                raise ValueError(f"{self.source.name} has nothing under {role}={name!r}. Check the name.")

    def _where(self, batch: Batch, row: int) -> str:
        who = f" by {batch['worker'][row]!r}" if "worker" in batch and batch["worker"][row] is not None else ""
        return f"{self.source.name}: the vote{who} on task {batch['task'][row]!r}"

    @cached_property
    def types(self) -> dict[str, ColumnType]:
        """Types of the columns, found by reading the file once; columns without any value are left out."""
        found: dict[str, ColumnType] = {}
        filled: set[str] = set()
        for batch in self.batches():
            for role, column in batch.items():
                values = [value for value in set(column) if not is_missing(value)]
                if values:
                    filled.add(role)
                found.setdefault(role, ColumnType(role in self.log.number_texts)).see(values)
        return {role: found[role] for role in ROLES if role in filled}

    @property
    def schema(self) -> Any:
        """Schema of `record_batches`: whole numbers, numbers, truth values or texts. Reads the file once."""
        pyarrow = need("pyarrow", "Arrow batches", "or use VoteFile.batches")
        names = {"int": pyarrow.int64(), "float": pyarrow.float64(), "bool": pyarrow.bool_(), "str": pyarrow.string()}
        return pyarrow.schema([(role, names[kind.name]) for role, kind in self.types.items()])

    def record_batches(self) -> Iterator[Any]:
        """Yield pyarrow record batches of one schema; memory does not grow with the file."""
        pyarrow = need("pyarrow", "Arrow batches", "or use VoteFile.batches")
        types, schema = self.types, self.schema
        for batch in self.batches():
            arrays = [
                pyarrow.array([kind(value) for value in batch[role]], schema.field(role).type)
                for role, kind in types.items()
            ]
            yield pyarrow.record_batch(arrays, schema=schema)


def check_times(times: list[Any]) -> None:
    """Refuse times that cannot be understood, before anybody relies on them; numbers may come as texts."""
    as_seconds(Column.encode("time", [value for value in times if not is_number_text(value)]))


def complete_rows(batch: Batch) -> Batch:
    """Return the rows that have a task, a worker, a label and a weight, as far as there are such columns."""
    gaps = set(incomplete_rows(batch))
    if not gaps:
        return batch
    return {role: [x for row, x in enumerate(column) if row not in gaps] for role, column in batch.items()}


def incomplete_rows(batch: Batch) -> list[int]:
    """Return the rows in which the task, the worker, the label or the weight is missing."""
    columns = [column for role, column in batch.items() if role != "time" and None in column]
    return sorted({row for column in columns for row, value in enumerate(column) if value is None})
