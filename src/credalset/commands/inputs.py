"""What the commands on files read: options that many share, how they are read, and the Python that does the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer

from credalset.calibration import Calibration
from credalset.commands.shared import call, note, split_names, split_pairs
from credalset.io.columns import find_id
from credalset.io.files import STANDARD_STREAM
from credalset.io.match import Matched, match, read_items
from credalset.io.scorer import as_calibrated, calibration_of, reads_texts
from credalset.io.store import load
from credalset.io.tables import read_table
from credalset.scores import Wasserstein, get_score
from credalset.votes import Annotations
from credalset.votes.exports import KINDS


@dataclass(frozen=True, kw_only=True)
class VoteOptions:
    """How votes in a file are read. Each field is an option of the commands that take votes."""

    kind: Annotated[
        str | None, typer.Option(help=f"What the votes are, if it is not recognised: {', '.join(KINDS)}.")
    ] = None
    task: Annotated[
        str | None, typer.Option("--task", "--item", help="Column or field of the votes that names the items.")
    ] = None
    worker: Annotated[
        list[str] | None,
        typer.Option(
            "--worker",
            "--annotator",
            help="Column or field of the votes that names the annotators; all theirs in a wide table: a,b,c.",
        ),
    ] = None
    label: Annotated[str | None, typer.Option(help="Column, or question of an export, with the labels.")] = None
    time: Annotated[str | None, typer.Option(help="Column with times: a worker's later vote counts.")] = None
    dayfirst: Annotated[
        bool | None, typer.Option("--dayfirst/--monthfirst", help="How to read dates such as 02.01.2025.")
    ] = None
    empty: Annotated[str | None, typer.Option(help="Further texts that mark a cell without a label: 'n/a,?'.")] = None
    rename: Annotated[
        list[str] | None, typer.Option(help="Call labels something else, or merge them: old=new,older=new.")
    ] = None
    tidy: Annotated[
        bool, typer.Option("--tidy", help="Read labels in lower case, without outer spaces: 'Yes ' is 'yes'.")
    ] = False
    encoding: Annotated[str | None, typer.Option(help="Encoding of text files that are not UTF-8: cp1252.")] = None
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", "--sep", help="What separates the columns of the votes.")
    ] = None

    def options(self) -> dict[str, Any]:
        """Return what is said about the file, as options of `Annotations.read` and `open_votes`."""
        said = {each.name: getattr(self, each.name) for each in fields(VoteOptions)}
        workers = split_names(",".join(self.worker or ()))
        said["worker"] = None if not workers else workers if len(workers) > 1 else workers[0]
        return said | {"empty": tuple(split_names(self.empty) or ()), "rename": split_pairs(self.rename)}


@dataclass(frozen=True, kw_only=True)
class Votes(VoteOptions):
    """Votes in a file."""

    votes: Annotated[str, typer.Argument(help="Votes: a long table (task, worker, label) or an annotation export.")]
    scale: Annotated[
        str | None, typer.Option(help="The labels in their order, where they are levels of a scale: low,middle,high.")
    ] = None

    unknown: Annotated[
        str | None, typer.Option(help="Votes for labels that are not in --scale: error, or drop them.")
    ] = None

    @property
    def levels(self) -> list[str] | None:
        """The labels in their order, if that was said."""
        return split_names(self.scale)

    def options(self) -> dict[str, Any]:
        """Return what is said about the file and the labels, as options of `Annotations.read`."""
        if self.unknown is not None and self.levels is None:
            raise ValueError(f"--unknown {self.unknown} needs --scale, which says which labels there are.")
        options = super().options() | ({} if self.levels is None else {"scale": self.levels})
        return options | ({} if self.unknown is None else {"unknown": self.unknown})

    def note_order(self, score: str, classes: Sequence[Any]) -> None:
        """Say in which order a score that knows one takes the classes, unless that was said."""
        if self.levels is None and isinstance(get_score(score), Wasserstein):
            note(f"{score} takes the classes in the order {', '.join(map(str, classes))} (--scale names another).")

    def read(self) -> Annotations:
        """Read the votes and say what the file was taken for."""
        votes = Annotations.read(self.votes, **self.options())
        if votes.origin is not None:
            note(f"{votes.origin}.")
        return votes

    def python(self) -> str:
        """Write down how they are read."""
        return "votes = " + call("cs.Annotations.read", Annotations.read, repr(self.votes), **self.options())


@dataclass(frozen=True)
class Model:
    """A saved calibration or calibrated model. Each field is an option of the commands that take one."""

    calibration: Annotated[str, typer.Argument(help="Folder of a calibration or a calibrated model.")]
    trust: Annotated[
        str | None, typer.Option("--trust", help="Types outside scikit-learn that loading may build, by full name.")
    ] = None

    def check(self) -> None:
        """See that there is a folder."""
        if not Path(self.calibration).is_dir():
            raise ValueError(f"{self.calibration} is no folder. Give the folder that calibrate or fit wrote.")

    @property
    def trusted(self) -> tuple[str, ...]:
        """Types that loading may build."""
        return tuple(split_names(self.trust) or ())

    def load(self) -> Any:
        """Load it."""
        self.check()
        return load(self.calibration, trusted=self.trusted)

    def python(self) -> str:
        """Write down how it is loaded."""
        return "model = " + call("cs.load", load, repr(self.calibration), trusted=self.trusted)


@dataclass(frozen=True)
class Features:
    """How a table of features is read, with a group and a weight for each item."""

    id: Annotated[str | None, typer.Option(help="Column that names the items; else found as in votes.")] = None
    columns: Annotated[str | None, typer.Option(help="Columns with the numbers, or the one with texts.")] = None
    format: Annotated[str | None, typer.Option(help="csv, tsv, jsonl or parquet; else as the name says.")] = None
    groups: Annotated[str | None, typer.Option(help="Column with a group for each item.")] = None
    weights: Annotated[str | None, typer.Option(help="Column with a weight for each item.")] = None

    def options(self) -> dict[str, Any]:
        """Return what is said about the table, as options of `read_items`."""
        return {"format": self.format, "columns": split_names(self.columns)}

    def id_in(self, path: str, encoding: str | None = None) -> str:
        """Return the column of a table that names the items: as was said, or as `find_id` finds it."""
        if self.id is not None or path == STANDARD_STREAM:
            return "task" if self.id is None else self.id
        try:
            return find_id(read_table(path, self.format, encoding=encoding).schema.names)
        except FileNotFoundError:  # said by whoever reads it
            return "task"


@dataclass(frozen=True)
class Predictions(Features):
    """How a table of predictions is read."""

    logits: Annotated[bool, typer.Option("--logits", help="The numbers are logits: apply a softmax.")] = False

    def options(self) -> dict[str, Any]:
        """Return what is said about the table, as options of `read_items`."""
        return {**super().options(), "logits": self.logits}


def note_id(table: Features, id: str) -> None:
    """Say which column was taken for the names of the items, unless it was named or has the usual name."""
    if table.id is None and id != "task":
        note(f"items are named by the column {id!r} (--id names another).")


@dataclass(frozen=True)
class Pair:
    """A table of predictions or features and votes on the same items.

    Parameters
    ----------
    path : str
        The table.
    table : Features or Predictions
        How to read it.
    votes : Votes
        The votes.
    model : object, optional
        What will be asked: a classifier reads the features it was trained with, a calibration the classes of the votes.
    further : dict of str to (str or None)
        Columns to carry along, by what they are used for, beside groups and weights.
    keep_unvoted : bool
        Whether items without votes stay.
    """

    path: str
    table: Features
    votes: Votes
    model: Any = None
    further: Mapping[str, str | None] = field(default_factory=dict)
    keep_unvoted: bool = False

    @property
    def by_class(self) -> bool:
        """Whether there is one column per class."""
        return isinstance(self.model, Calibration) if self.model is not None else isinstance(self.table, Predictions)

    def _carried(self) -> dict[str, str]:
        roles = {"groups": self.table.groups, "weights": self.table.weights, **self.further}
        return {role: column for role, column in roles.items() if column is not None}

    @cached_property
    def id(self) -> str:
        """The column that names the items."""
        if self.table.id is not None:
            return self.table.id
        return self.table.id_in(self.path, self.votes.encoding)

    def _options(self) -> dict[str, Any]:
        options = self.table.options() | {"id": self.id, "encoding": self.votes.encoding}
        options["texts"] = reads_texts(self.model) if self.model is not None else False if self.by_class else None
        known = getattr(self.model, "feature_names_in_", None)
        if options["columns"] is None and known is not None:
            options["columns"] = [str(name) for name in known]
        options["extra"] = self._carried()
        options["classes"] = getattr(self.model, "classes", self.votes.levels) if self.by_class else None
        return options

    def _matching(self) -> dict[str, bool]:
        return {"by_class": self.by_class, "keep_unvoted": self.keep_unvoted}

    def read(self) -> tuple[Any, Matched, dict[str, Any]]:
        """Return predictions or features, what was matched, and the further columns by what they are used for."""
        matched = match(read_items(self.path, **self._options()), self.votes.read(), **self._matching())
        note_id(self.table, self.id)
        for sentence in matched.notes:
            note(sentence)
        table = matched.table
        carried = {role: values.tolist() for role, values in table.extra.items()}
        if "groups" in carried and self.model is not None:
            carried["groups"] = as_calibrated(carried["groups"], calibration_of(self.model))
        return table.values if self.by_class else table.features(), matched, carried

    def python(self) -> list[str]:
        """Write down how both are read and matched."""
        return [
            "from credalset.io.match import match, read_items",
            self.votes.python(),
            f"table = {call('read_items', read_items, repr(self.path), **self._options())}",
            f"both = {call('match', match, 'table', 'votes', **self._matching())}",
        ]

    @property
    def asked(self) -> str:
        """How the predictions or features are called in the Python that is shown."""
        return "both.table.values" if self.by_class else "both.table.features()"

    def arguments(self, *without: str) -> str:
        """Write down the further columns as arguments, but for some."""
        return "".join(f", {role}=both.table.extra[{role!r}]" for role in self._carried() if role not in without)
