"""Open a file of votes, look at it, and read it piece by piece, as plain columns, Arrow batches or `Annotations`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from credalset.annotations.building import Building
from credalset.annotations.counting import as_seconds, check_options, count_votes
from credalset.annotations.readers.arrow import import_arrow
from credalset.annotations.readers.common import Log, Reader, Wanted
from credalset.annotations.readers.parsing import Batch
from credalset.annotations.readers.registry import Recognition, find_reader, recognise
from credalset.annotations.readers.source import EMPTY, Source
from credalset.annotations.readers.types import ColumnType
from credalset.annotations.single_labels import SingleLabels
from credalset.annotations.table import Column, GrowingColumn, check_option, default_classes, is_missing

A = TypeVar("A", bound=Building)
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
    empty: Sequence[str] = EMPTY,
    encoding: str | None = None,
    delimiter: str | None = None,
) -> VoteFile:
    r"""Open an annotation export or a vote table as one long table: task, worker, label[, time][, weight].

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
    source = Source.open(path, encoding=encoding, delimiter=delimiter, empty=tuple(empty))
    recognised = recognise(source) if kind is None else None
    reader = find_reader(recognised.kind if recognised is not None else str(kind))
    for role, name in zip(ROLES, (task, worker, label, time, weight), strict=True):
        if name is not None and role not in reader.takes:
            raise ValueError(f"{role}={name!r}: files of kind {reader.kind!r} have no choice of {role}. Leave it out.")
    missing = reader.missing if missing is None else missing
    check_option(missing, "missing", ("error", "drop"))
    wanted = Wanted(task, worker, label, time, weight, one_vs_rest)
    return VoteFile(source, reader, recognised, wanted, missing)


@dataclass
class VoteFile:
    """A file of votes, open for reading as often as wanted, a batch of rows at a time."""

    source: Source
    reader: Reader
    recognised: Recognition | None
    wanted: Wanted
    missing: str
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
        """Yield columns task, worker, label[, time][, weight] with one label per row, as the file holds them."""
        for batch in self._labelled():
            complete = _complete(batch)
            if self.missing == "error" and len(complete["label"]) < len(batch["label"]):
                raise ValueError(
                    f"{self.source.name} has a vote without task, worker or label. Pass missing='drop' to leave it out."
                )
            if complete["label"]:
                yield complete

    def _labelled(self) -> Iterator[Batch]:
        """Yield batches with single labels; rows without one are still there, and say which items there are."""
        self.log = log = Log(number_texts=frozenset(ROLES if self.source.is_text else ()))
        single = SingleLabels(self.wanted.one_vs_rest)
        found: set[str] = set()
        unknown = count(1)
        for batch in self.reader.read(self.source, self.wanted, log):
            batch["label"] = labels = single(batch["label"], partial(self._where, batch))
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
        pyarrow = import_arrow("Arrow batches", "or use VoteFile.batches")
        names = {"int": pyarrow.int64(), "float": pyarrow.float64(), "bool": pyarrow.bool_(), "str": pyarrow.string()}
        return pyarrow.schema([(role, names[kind.name]) for role, kind in self.types.items()])

    def record_batches(self) -> Iterator[Any]:
        """Yield pyarrow record batches of one schema; memory does not grow with the file."""
        pyarrow = import_arrow("Arrow batches", "or use VoteFile.batches")
        types, schema = self.types, self.schema
        for batch in self.batches():
            arrays = [
                pyarrow.array([kind(value) for value in batch[role]], schema.field(role).type)
                for role, kind in types.items()
            ]
            yield pyarrow.record_batch(arrays, schema=schema)


def read_annotations(cls: type[A], path: str | Path, kind: str | None, options: dict[str, Any]) -> A:
    """Read and count the votes of a file; see `Annotations.read`."""
    counting = {name: options.pop(name, default) for name, default in (("duplicates", "last"), ("unknown", "error"))}
    given = {name: options.pop(name, None) for name in ("classes", "items", "ordered", "positions")}
    classes, items = (None if given[name] is None else list(given[name]) for name in ("classes", "items"))
    check_options(counting["duplicates"], counting["unknown"], "drop")
    votes = open_votes(path, kind, **options)
    if votes.wanted.one_vs_rest is not None and classes is not None:
        raise ValueError("one_vs_rest sets the two classes itself: leave classes out.")
    columns, tasks = _collect(votes)
    kinds = {
        role: _settled(column, votes, role, {"label": classes, "task": items}.get(role))
        for role, column in columns.items()
    }
    columns = {role: _retyped(column, kinds[role]) for role, column in columns.items()}
    _drop_unreadable_times(columns, votes)
    wanted = SingleLabels(votes.wanted.one_vs_rest).classes or classes
    counted = count_votes(
        columns,
        _classes(columns["label"], votes, kinds["label"]) if wanted is None else wanted,
        list(dict.fromkeys(map(kinds["task"], tasks))) if items is None else items,
        missing=votes.missing,
        **counting,
    )
    inferred = votes.log.ordered and votes.wanted.one_vs_rest is None
    return cls._counted(counted, "weight" in columns, given["ordered"], given["positions"], inferred, votes.describe())


def _complete(batch: Batch) -> Batch:
    """Return the rows that have a task, a worker, a label and a weight, as far as there are such columns."""
    gaps = [column for role, column in batch.items() if role != "time" and None in column]
    if not gaps:
        return batch
    kept = [row for row in range(len(batch["label"])) if all(column[row] is not None for column in gaps)]
    return {role: [column[row] for row in kept] for role, column in batch.items()}


def _collect(votes: VoteFile) -> tuple[dict[str, Column], list[Any]]:
    """Read all votes, as codes; return the columns that hold anything, and every task, with votes or without."""
    growing: dict[str, GrowingColumn] = {role: GrowingColumn(role) for role in ("task", "label")}
    tasks: dict[Any, None] = {}
    for batch in votes._labelled():
        try:
            tasks.update(dict.fromkeys(batch["task"]))
        except TypeError as error:
            raise TypeError(
                f"{votes.source.name}: a task cannot be named by {error}. Name another field: task=..."
            ) from None
        kept = batch if votes.missing == "error" else _complete(batch)
        for role, column in kept.items():
            growing.setdefault(role, GrowingColumn(role)).add(column)
    columns = {role: growing[role].finish() for role in ROLES if role in growing}
    optional = [role for role in ("worker", "time") if role in columns and not columns[role].present()]
    return {role: column for role, column in columns.items() if role not in optional}, [
        task for task in tasks if not is_missing(task)
    ]


def _settled(column: Column, votes: VoteFile, role: str, names: Iterable[Any] | None) -> ColumnType:
    """Find the type of a column; names that the caller gives as texts keep it text."""
    keep_text = names is not None and all(isinstance(name, str) for name in names)
    kind = ColumnType(role in votes.log.number_texts, keep_text)
    kind.see(column.values)
    if role == "label":
        kind.see(votes.log.classes)
    return kind


def _retyped(column: Column, kind: ColumnType) -> Column:
    code: dict[Any, int] = {}
    codes = np.array([code.setdefault(kind(value), len(code)) for value in column.values], dtype=np.int64)
    return Column(column.name, codes[column.codes], list(code))


def _classes(labels: Column, votes: VoteFile, kind: ColumnType) -> list[Any]:
    """Return the labels that could be chosen in the order of the export, then others; sorted if they are numbers."""
    seen = default_classes(None, labels)
    declared = list(dict.fromkeys(map(kind, votes.log.classes)))
    every = declared + [label for label in seen if label not in declared]
    return default_classes(None, Column.encode("label", every)) if kind.name in ("int", "float") else every


def _drop_unreadable_times(columns: dict[str, Column], votes: VoteFile) -> None:
    """Go by the order of the file if times that nobody asked for cannot be understood."""
    if "time" not in columns or votes.wanted.time is not None:
        return
    try:
        as_seconds(columns["time"])
    except ValueError:
        del columns["time"]
        votes.log.notes.append("times were not understood: of several votes on one task, the last in the file counts")
