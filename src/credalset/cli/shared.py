"""What the commands share: options, reading and matching of tables, notes on standard error."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from typer import Argument, Option

from credalset.evaluation.verdict import names_used
from credalset.io.match import ItemTable, match, read_items
from credalset.io.scorer import as_calibrated, calibration_of, is_calibration, reads_texts
from credalset.io.store import load
from credalset.io.tables import read_votes
from credalset.votes import Annotations
from credalset.votes.names import plural

SCHEMA_VERSION = 2
#: with line separators and marks of text direction
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

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


def visible(text: Any) -> str:
    """Return a text with control characters escaped; names in files cannot control the terminal."""
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), str(text))


def say(text: str) -> None:
    """Print words to standard error, so that data can be piped."""
    Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True).print(
        visible(text)
    )


NO_VOTES = "there is no --votes-in-hand: all items count as items without votes."


def note(sentence: str) -> None:
    """Print a note to standard error."""
    say(f"note: {sentence}")


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


def split(names: str | None) -> list[str]:
    """Read names separated by commas."""
    return [name.strip() for name in (names or "").split(",") if name.strip()]


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
    model = load(path, trusted=split(trusted))
    if not hasattr(model, "predict_set"):
        what = f"{path} holds a {type(model).__name__}, which predicts no sets"
        raise ValueError(f"{what}. Give the folder that calibrate or fit wrote.")
    return model


def check_in_hand(model: Any, path: str) -> None:
    """Refuse a model that was calibrated without votes in hand."""
    if not hasattr(model, "crowd"):
        raise ValueError(
            f"{path} was calibrated without votes in hand. Calibrate it with --in-hand or --lead."
        )


@dataclass(frozen=True)
class Reading:
    """How a table of predictions or features is read.

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

    def items(self, model: Any = None, *, features: bool = False) -> ItemTable:
        """Read the table: features to train on, what a model reads, or predictions."""
        texts: bool | str | None = None if features else False
        columns = split(self.columns) or None
        classes = None
        if model is not None and is_calibration(model):
            classes = calibration_of(model).classes
        elif model is not None:
            texts = reads_texts(model)
            known = getattr(model, "feature_names_in_", None)
            columns = columns or (None if known is None else [str(name) for name in known])
        extra = {role: column for role, column in (self.extra or {}).items() if column is not None}
        options: dict[str, Any] = {"logits": self.logits, "strict": self.strict, "texts": texts}
        return read_items(
            self.path, id=self.id, columns=columns, extra=extra, classes=classes, **options
        )


@dataclass(frozen=True)
class Pair:
    """Predictions (or features) and votes of the same items, and other columns by their uses."""

    inputs: Any
    votes: Annotations
    items: tuple[str, ...]
    extra: dict[str, Any]


def read_pair(
    reading: Reading,
    votes: str,
    model: Any = None,
    *,
    features: bool = False,
    votes_in_hand: str | None = None,
    hold_out: float = 0.0,
    random_state: int = 0,
) -> Pair:
    """Read predictions and votes, match them by name, and note what was left out.

    Items that trained or calibrated the model are left out unless there are no others; of items
    that are to do so, a random share is held out.
    """
    by_class = is_calibration(model) if model is not None else not features
    found = read_votes(votes)
    matched = match(reading.items(model, features=features), found, by_class=by_class)
    for sentence in matched.notes:
        note(sentence)
    n = len(matched.table)
    used = set[str]().union(*names_used(model).values())
    rows = np.flatnonzero([item not in used for item in matched.table.items])
    if hold_out:
        rows = np.sort(np.random.default_rng(random_state).permutation(n)[round(hold_out * n) :])
        if not len(rows):
            raise ValueError(
                f"hold_out is {hold_out:g}, which leaves none of {n} items to calibrate on."
            )
        note(f"{n - len(rows)} of {n} items are held out for check and report.")
    elif 0 < len(rows) < n:
        note(
            f"{plural(n - len(rows), 'item')} used for training or calibration left out; "
            f"{len(rows)} others remain."
        )
    rows = rows if len(rows) else np.arange(n)
    table = matched.table.take(rows)
    kept = matched.votes[rows]
    extra = dict[str, Any](table.extra)
    if "groups" in extra and model is not None:
        extra["groups"] = np.array(
            as_calibrated(extra["groups"], calibration_of(model)), dtype=object
        )
    if votes_in_hand is not None:
        so_far = read_votes(votes_in_hand)
        if so_far.workers and found.workers:
            pairs = (
                set(zip(each.table["task"], each.table["worker"], strict=True))
                for each in (so_far, found)
            )
            if twice := set.intersection(*pairs):
                raise ValueError(
                    f"{votes} holds {len(twice)} of the votes in hand. Remove them from it."
                )
        extra["votes_in_hand"] = match(table, so_far, keep_unvoted=True).votes
    elif (policy := getattr(model, "policy", None)) is not None:
        note(
            "without votes in hand, the policy is replayed: it uses some votes on each "
            "item, others test its sets."
        )
        replay = policy.replay(table.features(), kept)
        table = table.take(replay.rows)
        extra = {role: values[replay.rows] for role, values in extra.items()}
        names: Any = {"classes": policy.crowd.classes_, "items": table.items}
        kept, extra["votes_in_hand"] = (
            Annotations.from_counts(votes, **names) for votes in (replay.held_back, replay.votes)
        )
    return Pair(table.features(), kept, table.items, extra)


def command_line() -> str:
    """Return the command as it was typed."""
    import shlex

    return f"credalset {shlex.join(sys.argv[1:])}"
