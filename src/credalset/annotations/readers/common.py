"""What readers share: what a vote is, what they are asked for, and what they have to say besides votes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from credalset.annotations.readers.files import File
from credalset.annotations.readers.parsing import Batch
from credalset.annotations.readers.source import BATCH, Source


class Vote(NamedTuple):
    """One vote. Without a label, it says that the item is there; a list of labels means that several were chosen."""

    task: Any
    worker: Any = None
    label: Any = None
    time: Any = None


class Guess(NamedTuple):
    """A reader's opinion of a file: how sure it is, from 0 to 1, and why."""

    sure: float
    why: str


@dataclass
class Wanted:
    """What the user asked for: names of columns or fields, and the label of a yes-or-no question."""

    task: Hashable | None = None
    worker: Any = None
    label: Hashable | None = None
    time: Hashable | None = None
    weight: Hashable | None = None
    one_vs_rest: Hashable | None = None


@dataclass
class Log:
    """What a reader notes on the way: what it left out, how it understood the file, which labels could be chosen."""

    left_out: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    classes: dict[Any, None] = field(default_factory=dict)
    ordered: bool = False
    no_workers: bool = False
    number_texts: frozenset[str] = frozenset()  # roles in which texts that are numbers stand for numbers

    def declare(self, labels: Iterable[Any]) -> None:
        """Note labels that could be chosen, whether anybody did or not."""
        self.classes.update(dict.fromkeys(labels))


@dataclass(frozen=True)
class Export:
    """A file that is being read: its records, what the user asked for, and the log to write in."""

    source: Source
    wanted: Wanted
    log: Log

    def records(self, *usual: str) -> Iterator[tuple[File, int, Any, dict[str, Any]]]:
        """Yield the file, number, item and fields of every record.

        The item is called by the field that was asked for as its task, by the first usual one that is there, or by the
        number of the record.
        """
        for file, number, record in self.source.records():
            yield file, number, self.task_of(record, number, *usual), record

    def task_of(self, record: dict[str, Any], number: int, *usual: str) -> Any:
        """Return what the item of a record is called."""
        value = self.field(record, "task", *usual)
        if value is None and self.wanted.task is not None:
            raise ValueError(
                f"Record {number} has no field {self.wanted.task!r}, only {list(record)}. Name another: task=..."
            )
        return as_name(number if value is None else value)

    def field(self, record: dict[str, Any], role: str, *usual: str) -> Any:
        """Return the field that was asked for in a role, else the first of the usual ones that is there."""
        wanted = getattr(self.wanted, role)
        if wanted is not None:
            return dig(record, wanted)
        return next((record[name] for name in usual if record.get(name) is not None), None)

    def worker(self, record: dict[str, Any], *usual: str) -> Any:
        """Return who voted: a name or a number, or that of an object; None if that is not known."""
        who = self.field(record, "worker", *usual)
        if isinstance(who, dict):
            who = next((who[key] for key in ("id", "email", "username") if who.get(key) is not None), None)
        return as_name(who)


@dataclass(frozen=True)
class Reader:
    """A kind of file: how to recognise it and how to read it.

    Parameters
    ----------
    kind : str
        Name for ``kind=...``.
    recognise : callable
        Source to Guess, or None if it is certainly something else.
    read : callable
        Export to votes, or to batches of columns task, worker, label, and if known time and weight.
    takes : tuple of str
        What a user may name: of task, worker, label, time, weight.
    missing : str
        What to make of votes without a label: an error, or no votes.
    """

    kind: str
    recognise: Callable[[Source], Guess | None]
    read: Callable[[Export], Iterator[Vote] | Iterator[Batch]]
    takes: tuple[str, ...]
    missing: str = "drop"

    def batches(self, export: Export) -> Iterator[Batch]:
        """Read a file in batches of columns."""
        found = self.read(export)
        while rows := list(islice(found, 1)):
            if isinstance(rows[0], dict):
                yield rows[0]
                continue
            rows += islice(found, BATCH - 1)
            yield {name: list(column) for name, column in zip(Vote._fields, zip(*rows, strict=True), strict=True)}


def dig(record: Any, path: Hashable) -> Any:
    """Return the field of a record under a name, or under names joined by dots; None if there is none.

    Examples
    --------
    >>> dig({"data": {"uid": 7}}, "data.uid")
    7
    """
    if not isinstance(record, dict):
        return None
    if path in record:
        return record[path]
    head, _, rest = str(path).partition(".")
    return dig(record.get(head), rest) if rest else None


def as_name(value: Any) -> Any:
    """Return a value that can name a task or a worker; objects and lists cannot, and become text."""
    return value if value is None or isinstance(value, str | int | float | bool) else repr(value)


class OneQuestion:
    """Settles which of several questions in an export is read: the one asked for, or the only one there is."""

    def __init__(self, export: Export, role: str = "label", several: str = "has several questions") -> None:
        self.wanted, self.role = getattr(export.wanted, role), role
        self.several = f"{export.source.name} {several}"
        self.only: str | None = None

    def __call__(self, question: str) -> bool:
        """Tell whether to read a question; refuses a second one where none was asked for."""
        if self.wanted is not None:
            return question == self.wanted
        if self.only is None:
            self.only = question
        if question != self.only:
            raise ValueError(
                f"{self.several}, such as {self.only!r} and {question!r}. "
                f"Read one at a time: {self.role}={self.only!r}."
            )
        return True
