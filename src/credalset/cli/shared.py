"""What the commands share: options, reading and matching of tables, notes on standard error."""

from __future__ import annotations

import csv
import json
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from typer import Argument, Option

from credalset._batch import name_array
from credalset._display import join_names, plural
from credalset.calibration.base import Predictor
from credalset.cli.words import note as note
from credalset.cli.words import say as say
from credalset.cli.words import say_next as say_next
from credalset.cli.words import tell as tell
from credalset.cli.words import visible as visible
from credalset.exceptions import FileFormatError
from credalset.io.features import select_training
from credalset.io.items import (
    TRAINED,
    ItemTable,
    Select,
    columns_of_classes,
    read_items,
    select_predictions,
    select_voted,
)
from credalset.io.scorer import as_calibrated, as_calibrated_votes, said_of_used, selector
from credalset.io.store import load
from credalset.votes import Annotations
from credalset.votes.files import read_vote_table

SCHEMA_VERSION = 2
#: with line separators and marks of text direction

VotesFile = Annotated[str, Argument(help="Votes, as import writes them: task, worker, label.")]
Model = Annotated[str, Argument(help="Folder that calibrate or fit wrote.")]
HeldOut = Annotated[
    str, Argument(help="Predictions for items kept aside; features or texts for a model of fit.")
]
Id = Annotated[
    str | None, Option(help="Column that names the items, if it is not called task, item or id.")
]
Columns = Annotated[str | None, Option(help="Columns to read, separated by commas.")]
Groups = Annotated[str | None, Option(help="Column with the group of each item.")]
Weights = Annotated[
    str | None, Option(help="Column with density ratios, new over calibration items.")
]
Logits = Annotated[bool, Option("--logits", help="Predictions are logits: apply a softmax.")]
Strict = Annotated[
    bool, Option("--strict", help="Refuse rows with empty cells instead of dropping them.")
]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace what is there already.")]
Trusted = Annotated[
    str | None, Option(help="Types that a model may hold, by full name: see the guide on saving.")
]
InHand = Annotated[
    str | None, Option(help="Table of the votes that items have already; the sets use them.")
]
HoldOut = Annotated[
    float, Option(min=0, max=0.9, help="Random share of the items left for check and report.")
]
MaxVotes = Annotated[int | None, Option(help="With --lead: most votes per item (20).")]
InitialVotes = Annotated[
    int | None, Option(help="With --lead: votes that every item has at the start (0).")
]
Futility = Annotated[
    float | None, Option(help="With --lead: stop when the lead is less probable than this.")
]
Alpha = Annotated[float, Option(help="Miscoverage rate: 0.1 for 90 % coverage.")]
Alphas = Annotated[str, Option("--alpha", help="Miscoverage rates, separated by commas.")]
Seed = Annotated[int, Option("--random-state", min=0, help="Seed of the random numbers.")]
Json = Annotated[bool, Option("--json", help="Print JSON instead of a table.")]


NO_VOTES = "there is no --votes-in-hand: all items count as items without votes."


def print_json(kind: str, **values: Any) -> None:
    """Print a JSON object with its kind and the version of its schema."""
    typer.echo(
        json.dumps(
            {"schema_version": SCHEMA_VERSION, "kind": kind, **_plain(values)},
            indent=2,
            allow_nan=False,
        )
    )


def _plain(value: Any) -> Any:
    """Return plain Python values, None for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def given(**options: Any) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def said_again(**options: Any) -> list[str]:
    """Return options that were given, as words of a command that reads the same tables."""
    words: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value not in (None, False):
            words += [flag, str(value)]
    return words


def split(names: str | None) -> list[str]:
    """Read names separated by commas; one that holds a comma stands in double quotes."""
    found = next(csv.reader([names or ""], skipinitialspace=True), [])
    return [name.strip() for name in found if name.strip()]


def split_numbers(text: str, name: str, kind: type = float) -> list[Any]:
    """Read numbers separated by commas."""
    try:
        return [kind(number) for number in split(text)]
    except ValueError:
        raise ValueError(
            f"--{name} must be numbers separated by commas, but is {text!r}."
        ) from None


def check_output(path: str, overwrite: bool, *, folder: bool = False) -> None:
    """Check that a result can be written before anything is computed."""
    target = Path(path)
    if path == "-" and not folder:
        return
    if not target.absolute().parent.is_dir():
        raise ValueError(
            f"{path} cannot be written: there is no folder {target.parent}. Create it first."
        )
    if target.exists() and target.is_dir() != folder:
        raise ValueError(
            f"{path} is a {'folder' if target.is_dir() else 'file'}. Choose another name."
        )
    if target.exists() and not overwrite:
        raise ValueError(
            f"{path} exists already. Choose another name, or replace it with --overwrite."
        )


def load_model(path: str, trusted: str | None = None) -> Any:
    """Load a calibration or a model."""
    if not Path(path).is_dir():
        raise ValueError(f"{path} is not a folder. Give the folder that calibrate or fit wrote.")
    try:
        model = load(path, trusted=split(trusted))
    except FileFormatError as error:
        if not error.untrusted:
            raise
        raise ValueError(
            f"{path} holds estimators of types that are not checked, through which an altered file "
            "can take over Python. If you trust it, add this to the command:\n"
            f"--trusted {','.join(error.untrusted)}"
        ) from None
    if not isinstance(model, Predictor):
        what = f"{path} holds a {type(model).__name__}, which predicts no sets"
        raise ValueError(f"{what}. Give the folder that calibrate or fit wrote.")
    return model


def uses_votes(model: Any) -> bool:
    """Tell whether the sets of a model use votes in hand."""
    return "votes" in model.calibration.supports


def check_in_hand(model: Any, path: str) -> None:
    """Refuse a model that was calibrated without votes in hand."""
    if not uses_votes(model):
        raise ValueError(
            f"{path} was calibrated without votes in hand. Calibrate it with --in-hand or --lead."
        )


def check_votes_in_hand(model: Any, path: str, votes_in_hand: str | None) -> None:
    """Refuse votes in hand that the sets of a model do not use; say so if they could use some."""
    if votes_in_hand is not None:
        check_in_hand(model, path)
    elif uses_votes(model) and model.calibration.policy is None:
        note(NO_VOTES)


@dataclass(frozen=True)
class TableSource:
    """A table of predictions or features, and how it is read.

    Attributes
    ----------
    path : str
        The table.
    id, columns : str or None
        The column that names the items, and the columns to read.
    extra : mapping
        Further columns by what they are used for: groups, weights, texts.
    logits, strict : bool
        Whether to apply a softmax, and whether to refuse rows with empty cells.
    """

    path: str
    id: str | None = None
    columns: str | None = None
    extra: Mapping[str, str | None] | None = None
    logits: bool = False
    strict: bool = False

    def predictions(self) -> ItemTable:
        """Read predictions, one column per class."""
        columns = split(self.columns) or None
        return self._read(lambda schema, taken: select_predictions(schema, taken, columns))

    def features(self) -> ItemTable:
        """Read numbers, categories and texts to train on."""
        return self._read(select_training(split(self.columns) or None))

    def inputs_of(self, model: Any) -> ItemTable:
        """Read what a calibration or classifier predicts from."""
        table = self._read(selector(model, split(self.columns) or None))
        if model.reads == "predictions" and table.names is not None and model.classes is not None:
            return replace(table, names=tuple(model.classes))  # which need not be texts
        return table

    def _read(self, select: Select) -> ItemTable:
        extra = {role: column for role, column in (self.extra or {}).items() if column is not None}
        return read_items(
            self.path, select, id=self.id, logits=self.logits, extra=extra, strict=self.strict
        )


@dataclass(frozen=True)
class Pair:
    """Predictions (or features) and votes of the same items, and other columns by their uses.

    New items have no held-out votes. Features have kinds: number, category or text.
    """

    inputs: Any
    votes: Annotations | None
    items: tuple[str, ...]
    extra: dict[str, Any]
    kinds: tuple[str, ...] = ()

    def take(self, rows: Any) -> Pair:
        """Return some of the items."""
        items = tuple(self.items[row] for row in rows)
        extra = {role: column[rows] for role, column in self.extra.items()}
        votes = None if self.votes is None else self.votes.align(items)
        return Pair(self.inputs.iloc[rows], votes, items, extra, self.kinds)


def read_training(
    source: TableSource, votes: str, *, features: bool, hold_out: float, random_state: int
) -> Pair:
    """Read items that are to train or calibrate; a random share is held out."""
    found = read_vote_table(votes)
    read = source.features() if features else source.predictions()
    if not features:
        check_classes(read, found, source)
    voted = select_voted(read, found)
    _note_all(voted.notes)
    table = _without_trained(voted.table)
    n = len(table)
    if hold_out:
        order = np.random.default_rng(random_state).permutation(n)
        rows = np.sort(order[round(hold_out * n) :])
        if not len(rows):
            raise ValueError(
                f"hold_out is {hold_out:g}, which leaves none of {n} items to calibrate on."
            )
        note(f"{n - len(rows)} of {n} items are held out for check and report.")
        table = table.take(rows)
    votes_of_items = found.align(table.items)
    return Pair(table.frame(), votes_of_items, table.items, dict(table.extra), table.kinds)


def check_classes(table: ItemTable, votes: Annotations, source: TableSource) -> None:
    """Refuse predictions whose columns are not the classes of the votes.

    A class without votes is one if it is named with --columns. A column of other small numbers
    would pass for one, as rows need not sum to one exactly.
    """
    if table.names is None or votes.classes is None:
        return
    classes = [str(name) for name in votes.classes]
    missing = [name for name in classes if name not in table.names]
    more = [name for name in table.names if name not in classes]
    if missing:
        raise ValueError(
            f"votes are for {join_names(classes, 12)}, but the columns of {source.path} are "
            f"{join_names(table.headers, 12)}. Say which column holds which class: --columns "
            f"{columns_of_classes(table.headers, classes)}. (A model is trained on features with "
            "credalset fit.)"
        )
    if more and not source.columns:
        headers = dict(zip(table.names, table.headers, strict=True))
        named = [headers[name] for name in classes]
        raise ValueError(
            f"nobody voted for {join_names(more)}, which {source.path} has as columns beside "
            f"{join_names(classes, 12)}. If these are no classes, leave them out: --columns "
            f"{shlex.quote(','.join(named))}. If they are, name them too."
        )


def read_held_out(
    source: TableSource, votes: str, model: Any, votes_in_hand: str | None = None
) -> Pair:
    """Read items that test a model, with the votes in hand if its sets use them.

    Items that trained or calibrated the model are left out unless there are no others.
    """
    found = as_calibrated_votes(read_vote_table(votes), model.calibration)
    voted = select_voted(source.inputs_of(model), found)
    _note_all(voted.notes)
    table = _without_used(_without_trained(voted.table), model)
    extra = dict[str, Any](table.extra)
    if "groups" in extra:
        extra["groups"] = name_array(as_calibrated(extra["groups"], model.calibration))
    if votes_in_hand is not None:
        so_far = as_calibrated_votes(read_vote_table(votes_in_hand), model.calibration)
        _refuse_shared(so_far, found, votes)
        select_voted(table, so_far, keep=True)  # an error if no item is in both
        extra["votes_in_hand"] = so_far
        return Pair(table.frame(), found, table.items, extra)
    return _hold_back(Pair(table.frame(), found, table.items, extra), model)


def read_new(source: TableSource, model: Any, votes_in_hand: str | None = None) -> Pair:
    """Read new items without held-out votes, with the votes in hand if sets use them."""
    table = source.inputs_of(model)
    extra = dict[str, Any](table.extra)
    if "groups" in extra:
        extra["groups"] = name_array(as_calibrated(extra["groups"], model.calibration))
    if votes_in_hand is not None:
        so_far = as_calibrated_votes(read_vote_table(votes_in_hand), model.calibration)
        _note_all(select_voted(table, so_far, keep=True).notes)
        extra["votes_in_hand"] = so_far
    return Pair(table.frame(), None, table.items, extra)


def note_used(items: Sequence[str], model: Any) -> None:
    """Say how many items the model was made of."""
    for use, names in model._used().items():
        known = [item for item in items if item in names]
        if known:
            note(said_of_used(use, len(known), known[0]))


def _without_trained(table: ItemTable) -> ItemTable:
    """Leave out predictions of a model for the items that trained it, as `predict` marks them."""
    if TRAINED not in table.extra:
        return table
    extra = dict(table.extra)
    # pandas writes True, and spreadsheets TRUE
    rows = np.flatnonzero([str(cell).lower() != "true" for cell in extra.pop(TRAINED)])
    if not len(rows):
        raise ValueError(
            "all of these items trained the model that predicted them, so that its predictions are "
            "better than for new items. Predict others."
        )
    table = replace(table, extra=extra)
    if len(rows) < len(table):
        left_out = plural(len(table) - len(rows), "item")
        note(f"{left_out} that trained the model which predicted them left out.")
    return table.take(rows)


def _without_used(table: ItemTable, model: Any) -> ItemTable:
    """Leave out items that trained or calibrated the model, unless there are no others."""
    used = set[str]().union(*model._used().values())
    rows = np.flatnonzero([item not in used for item in table.items])
    if 0 < len(rows) < len(table):
        left_out = plural(len(table) - len(rows), "item")
        note(f"{left_out} used for training or calibration left out; {len(rows)} others remain.")
        return table.take(rows)
    if not len(rows):
        note("all items were used already. To keep some, fit or calibrate with --hold-out 0.3.")
    return table


def _refuse_shared(so_far: Annotations, later: Annotations, path: str) -> None:
    if not (so_far.workers and later.workers):
        return
    pairs = [
        set(zip(each.table["task"], each.table["worker"], strict=True)) for each in (so_far, later)
    ]
    twice = pairs[0] & pairs[1]
    if twice:
        raise ValueError(f"{path} holds {len(twice)} of the votes in hand. Remove them from it.")


def _hold_back(pair: Pair, model: Any) -> Pair:
    """Divide the votes for a policy, which needs votes in hand to be tested."""
    divided = model.calibration._hold_back(pair.inputs, pair.votes)
    if divided is None:
        return pair
    note(
        "without votes in hand, the policy is replayed: it uses some votes on each item, others "
        "test its sets."
    )
    rows, used, later = divided
    kept = pair.take(rows)
    names: Any = {"classes": model.calibration.classes, "items": kept.items}
    kept.extra["votes_in_hand"] = Annotations.from_counts(used, **names)
    return replace(kept, votes=Annotations.from_counts(later, **names))


def _note_all(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        note(sentence)


def command_line() -> str:
    """Return the command as it was typed."""
    return f"credalset {shlex.join(sys.argv[1:])}"
