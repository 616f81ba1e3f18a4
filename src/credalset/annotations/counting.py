"""Count votes: from columns of names to a matrix of items by classes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal, get_args

import numpy as np

from credalset._typing import AnyArray, ArrayLike, FloatArray, IntArray
from credalset._validation import check_choice
from credalset.annotations.ballots import Ballots
from credalset.annotations.naming import tidied
from credalset.annotations.table import Column, Names, as_names, is_missing, positions

Duplicates = Literal["last", "first", "error", "keep"]
Fault = Literal["error", "drop"]

# Recovered counts may miss a whole number by this much. A wrong n_votes misses by at least 1 / (true votes),
# so mistakes are noticed up to a thousand votes per item, while float32 frequencies still pass.
WHOLE_TOLERANCE = 1e-3
LARGEST_EXACT_COUNT = 2.0**53
EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Counted:
    """Votes counted: int64 numbers of votes, or float64 sums of weights, and who cast them where that is known."""

    classes: tuple[Hashable, ...]
    items: tuple[Hashable, ...]
    matrix: AnyArray
    ballots: Ballots | None
    overruled: int = 0  # votes that do not count, as the same worker has another one on the same task
    outside: int = 0  # votes that do not count, as they are for none of the classes


@dataclass(frozen=True)
class Rules:
    """What to make of repeated, unknown and missing votes; see `Annotations.from_table`."""

    duplicates: str
    unknown: str
    missing: str
    tidy: bool = False  # whether labels were tidied, so that classes are matched as if they were, too

    def __post_init__(self) -> None:
        check_choice(self.duplicates, "duplicates", get_args(Duplicates))
        check_choice(self.unknown, "unknown", get_args(Fault))
        check_choice(self.missing, "missing", get_args(Fault))


def count_votes(columns: dict[str, Column], classes: Names, items: Names | None, rules: Rules) -> Counted:
    """Count the votes in columns named task, label and, where known, worker, time and weight.

    Missing values are handled first, then unknown labels and tasks, then repeated votes, so that an unusable row never
    overrules a usable one.
    """
    kept = np.ones(len(columns["task"].codes), dtype=np.bool_)
    for role, column in columns.items():
        if role != "time":
            kept = column.filter(
                kept, column.missing, rules.missing, "that are missing", "Fill them in, or pass missing"
            )
    class_names = as_names(classes, "classes")
    item_names = as_names(columns["task"].present() if items is None else items, "items")
    if len(class_names) < 2:
        raise ValueError(
            f"classes must be at least 2, but there are {len(class_names)}: {list(class_names)}. "
            "Pass classes=[...] with every label that could have been chosen."
        )
    spelt = as_names(map(tidied, class_names), "classes, tidied,") if rules.tidy else class_names
    cells, n_kept = [], [int(kept.sum())]
    for column, names, argument in ((columns["task"], item_names, "items"), (columns["label"], spelt, "classes")):
        position = positions(column.values, names)[column.codes]
        advice = f"Correct them, extend {argument}, or pass unknown"
        if argument == "classes" and not rules.tidy and _tidying_helps(column, names):
            advice = f"Some differ only in case or spaces: pass tidy=True. {advice}"
        kept = column.filter(kept, position < 0, rules.unknown, f"that are not in {argument}", advice)
        cells.append(position)
        n_kept.append(int(kept.sum()))
    rows = counted_rows(np.flatnonzero(kept), columns, rules.duplicates)
    item, label = cells[0][rows], cells[1][rows]
    weights = None if "weight" not in columns else as_weights(columns["weight"])[rows]
    shape = (len(item_names), len(class_names))
    matrix = np.bincount(item * shape[1] + label, weights, minlength=shape[0] * shape[1]).reshape(shape)
    ballots = None
    if "worker" in columns:
        worker = columns["worker"]
        ballots = Ballots.sort(tuple(worker.values), item, worker.codes[rows], label, shape[0])
    counts = matrix if weights is not None else matrix.astype(np.int64)
    return Counted(class_names, item_names, counts, ballots, n_kept[2] - len(rows), n_kept[1] - n_kept[2])


def _tidying_helps(labels: Column, classes: tuple[Hashable, ...]) -> bool:
    """Tell whether some labels are none of the classes only for their case or spaces."""
    known = {tidied(name) for name in classes}
    return any(value not in classes and tidied(value) in known for value in labels.present())


def as_weights(column: Column) -> FloatArray:
    """Return the weight of every row: finite, not negative; missing ones are NaN and must not be used."""
    numbers = []
    for value in column.values:
        if isinstance(value, str | bytes | bool) or (not is_missing(value) and not 0.0 <= float(value) < np.inf):
            raise ValueError(f"weight must hold finite numbers of at least 0, but holds {value!r}.")
        numbers.append(np.nan if is_missing(value) else float(value))
    return np.array(numbers)[column.codes]


def as_seconds(column: Column) -> FloatArray:
    """Return the time of every row as a number that grows with it; a missing one is before all others."""
    return np.array([_seconds(value) for value in column.values])[column.codes]


def drop_unreadable_times(columns: dict[str, Column]) -> bool:
    """Go by the order of the rows if times that nobody asked for cannot be understood; tell whether that was so."""
    try:
        if "time" in columns:
            as_seconds(columns["time"])
    except ValueError:
        del columns["time"]
        return True
    return False


def _seconds(value: Any) -> float:
    if is_missing(value):
        return -np.inf
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64)) / 1e6
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(moment, datetime):
            return (moment.replace(tzinfo=None) - (moment.utcoffset() or timedelta()) - EPOCH).total_seconds()
        if isinstance(moment, date):
            return float(moment.toordinal()) * 86400.0 - EPOCH.toordinal() * 86400.0
        return float(moment)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"time must hold numbers, dates or ISO 8601 texts such as 2024-05-01T12:00:00Z, but holds {value!r}. "
            "Convert them before: pd.to_datetime(table['when'], dayfirst=True) reads dates such as 02.01.2025. "
            "Leave time out only if the rows stand in the order in which the votes were cast."
        ) from None


def counted_rows(rows: IntArray, columns: dict[str, Column], duplicates: str) -> IntArray:
    """Keep the votes that count where one worker has several on one task."""
    if "worker" not in columns and duplicates == "error":
        raise ValueError(
            "duplicates='error' needs to know who voted, but the table has no worker column. "
            "Name it with worker=..., or choose duplicates='keep' to count every row as a vote."
        )
    if "worker" not in columns or duplicates == "keep":
        return rows
    task, worker = columns["task"], columns["worker"]
    if "time" in columns:
        rows = rows[np.argsort(as_seconds(columns["time"])[rows], kind="stable")]
    if duplicates == "last":
        rows = rows[::-1]  # np.unique reports the first occurrence
    pairs = task.codes[rows] * len(worker.values) + worker.codes[rows]
    first = np.unique(pairs, return_index=True)[1]
    if duplicates == "error" and len(first) < len(rows):
        row = np.delete(rows, first)[0]
        raise ValueError(
            f"The table has {len(rows) - len(first)} further vote(s) of a worker on the same task (first: worker "
            f"{worker.values[worker.codes[row]]!r} on task {task.values[task.codes[row]]!r} in row {row}). "
            "Pass duplicates='last', 'first' or 'keep' to say what counts."
        )
    return rows[first]


def recover_counts(distributions: FloatArray, n_votes: ArrayLike) -> IntArray:
    """Return the whole numbers of votes behind shares, refusing shares that no whole numbers give."""
    votes, n_items = np.asarray(n_votes), len(distributions)
    if votes.dtype.kind not in "iuf" or votes.shape not in ((), (n_items,)):
        raise ValueError(
            f"n_votes must be one whole number or one per item ({n_items}), but has shape {votes.shape} "
            f"and dtype {votes.dtype}."
        )
    if not np.all((votes >= 1) & (votes < LARGEST_EXACT_COUNT) & (votes == np.floor(votes))):
        raise ValueError("n_votes must hold whole numbers of at least 1. Leave out items without votes.")
    votes = np.broadcast_to(votes, (n_items,)).astype(np.float64)
    exact = distributions * votes[:, None]
    counts: FloatArray = np.rint(exact)
    wrong = (np.abs(exact - counts) > WHOLE_TOLERANCE).any(axis=1) | (counts.sum(axis=1) != votes)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"n_votes does not fit distributions: in {wrong.sum()} row(s) their product is not whole (row {row}: "
            f"{exact[row].round(4).tolist()}). Check n_votes, or leave it out if the shares are rounded."
        )
    return counts.astype(np.int64)
