"""Counting the votes of a long table: spelling of labels, repeated votes, dropped votes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any, TypedDict

import numpy as np

from credalset._typing import AnyArray, FloatArray, IntArray
from credalset.exceptions import warn
from credalset.votes.names import Names, as_names, join_names, plural
from credalset.votes.tables import LongTable, is_missing

NUMBER = re.compile(r"-?\d+(\.\d+)?")
DAY, CLOCK = (
    r"(\d{1,2})[./-](\d{1,2})[./-](\d{4})",
    r"[ ,T]+(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?",
)
DATE = re.compile(rf"{DAY}(?:{CLOCK})?\s*([ap]m)?", re.IGNORECASE)


class Several(tuple[Any, ...]):
    """Several labels in one vote, which counts for no class."""


class LabelOptions(TypedDict, total=False):
    """Options on labels and times that every constructor takes; see `Annotations.from_table`."""

    classes: Iterable[Hashable] | None
    scale: Any
    rename: Mapping[Any, Hashable] | None
    tidy: bool
    empty: Iterable[Any]
    unknown: str
    dayfirst: bool | None


@dataclass(frozen=True)
class Options:
    """Validated options on labels and times; see `Annotations.from_table`."""

    classes: Any = None
    scale: Any = None
    rename: Mapping[Any, Hashable] | None = None
    tidy: bool = False
    empty: Iterable[Any] = ()
    unknown: str = "error"
    dayfirst: bool | None = None

    def __post_init__(self) -> None:
        if self.unknown not in ("error", "drop"):
            raise ValueError(f"unknown must be 'error' or 'drop', but is {self.unknown!r}.")
        if not isinstance(self.rename, Mapping | None):
            raise TypeError(
                f"rename must map old names to new ones, {{'old': 'new'}}, but is {self.rename!r}."
            )
        for what, given in (
            ("classes", self.classes),
            ("scale", self.scale),
            ("empty", self.empty),
        ):
            if isinstance(given, str):
                raise TypeError(f"{what} must be a list, but is {given!r}.")
            if not isinstance(given, bool | Mapping | None):
                object.__setattr__(self, what, as_names(given))
        for what, names in (("classes", self.classes), ("scale", self.levels)):
            if names is not None and (len(set(names)) < len(names) or len(names) < 2):
                raise ValueError(
                    f"{what} must be at least two different labels, but is {join_names(names)}."
                )
        if None not in (self.levels, self.classes) and set(self.levels or ()) != set(self.classes):
            raise ValueError(
                f"scale ({join_names(self.levels or ())}) and classes name different labels."
            )

    @property
    def levels(self) -> Names | None:
        """The labels in the order of the scale, if it names them."""
        if isinstance(self.scale, Mapping):
            return tuple(sorted(self.scale, key=self.scale.__getitem__))
        return self.scale if isinstance(self.scale, tuple) else None


@dataclass(frozen=True)
class Ballots:
    """Single votes: rows (item, worker, class) of positions, sorted by item; worker −1: unknown."""

    codes: IntArray  # (votes, 3)
    times: AnyArray | None = None

    def take(self, rows: IntArray, n_items: int) -> Ballots:
        """Take items by position, in the order given."""
        start = np.searchsorted(self.codes[:, 0], np.arange(n_items + 1))
        sizes = np.diff(start)[rows]
        chosen = np.arange(sizes.sum()) + np.repeat(start[rows] - np.cumsum(sizes) + sizes, sizes)
        codes = np.column_stack([np.repeat(np.arange(len(rows)), sizes), self.codes[chosen, 1:]])
        return Ballots(codes, None if self.times is None else self.times[chosen])

    def renumber(self, rows: IntArray) -> Ballots:
        """Give each item another position; the new positions must increase."""
        return replace(self, codes=np.column_stack([rows[self.codes[:, 0]], self.codes[:, 1:]]))

    def relabel(self, columns: IntArray) -> Ballots:
        """Give each class another position."""
        return replace(self, codes=np.column_stack([self.codes[:, :2], columns[self.codes[:, 2]]]))


def count_votes(table: LongTable, options: Options) -> dict[str, Any]:
    """Return the fields of `Annotations` from a long table, warning once of lost votes.

    Votes are lost if they are dropped or overruled.
    """
    dropped = Counter(table.dropped)
    notes = []
    labels, declared, merged = spell(table.label, table.classes, options)
    notes += [f"{plural(merged, 'vote')} renamed or tidied"] * bool(merged)
    classes, scale = find_classes(labels, declared, table.ordered, options)
    task = np.array([not is_missing(value) for value in table.task], dtype=bool)
    label = np.array([value is not None for value in labels], dtype=bool)
    dropped["without a task"] += int((~task).sum())
    dropped["without a label"] += int((task & ~label).sum())
    position = {name: k for k, name in enumerate(classes)}
    column = np.array([position.get(value, -1) for value in labels], dtype=np.int64)
    odd = task & label & (column < 0)
    if odd.any():
        names = [labels[row] for row in np.flatnonzero(odd)]
        if options.unknown == "error":
            raise _unknown(names)
        dropped[f"for labels not among the classes ({join_names(dict.fromkeys(names))})"] += len(
            names
        )
    rows = np.flatnonzero(task & label & ~odd)
    items, item = _items(table, rows)
    workers, worker = (
        (None, np.full(len(rows), -1)) if table.worker is None else _encode(table.worker, rows)
    )
    unnamed = int((worker < 0).sum()) if workers is not None else 0
    notes += [
        f"{plural(unnamed, 'vote')} without a worker, counted as votes of different workers"
    ] * bool(unnamed)
    time = None if table.time is None else [as_iso(value, options.dayfirst) for value in table.time]
    if table.worker is None and table.items is None:  # a long table, not lists of labels
        again = len(rows) - len(
            {(table.task[row], str(table.label[row]), time and time[row]) for row in rows}
        )
        sentence = (
            f"{plural(again, 'row')} repeated exactly, counted as votes of different "
            "workers, who have no column"
        )
        notes += [sentence] * bool(again)
    kept = settle(item, worker, time, rows)
    overruled = len(rows) - len(kept)
    kept = kept[np.argsort(item[kept], kind="stable")]
    codes = np.stack([item, worker, column[rows]], axis=1)[kept]
    lost = 0 if table.items is not None and not table.has_names else _n_items(table) - len(items)
    if lost:
        notes.append(f"{plural(lost, 'item')} without votes left out")
    sentences = [
        f"{plural(number, 'vote')} dropped: {reason}"
        for reason, number in dropped.items()
        if number
    ]
    how = "by time" if time is not None else "by the order of the rows"
    if overruled:
        sentences.append(
            f"{plural(overruled, 'vote')} replaced by the worker's later vote on the same "
            f"task, {how}"
        )
    if sentences:
        warn(f"some votes were not counted: {'; '.join(sentences)}.")
    shape = (len(items), len(classes))
    counts = np.bincount(
        codes[:, 0] * shape[1] + codes[:, 2], minlength=shape[0] * shape[1]
    ).reshape(shape)
    times = None if time is None else np.array([*time, None], dtype=object)[rows[kept]]
    named = items if table.has_names else None
    found = {
        "counts": counts,
        "classes": classes,
        "items": named,
        "workers": workers,
        "scale": scale,
    }
    return found | {"notes": (*notes, *sentences), "ballots": Ballots(codes, times)}


def texts(names: Any) -> Any:
    """Return the names of classes or levels as texts, as in a file."""
    if names is None or isinstance(names, bool | str):
        return names
    return (
        {str(k): v for k, v in names.items()}
        if isinstance(names, Mapping)
        else tuple(map(str, as_names(names)))
    )


def _n_items(table: LongTable) -> int:
    return len({item for item in table.items or table.task if not is_missing(item)})


def _items(table: LongTable, rows: IntArray) -> tuple[Names, IntArray]:
    """Return the items and the item of each vote.

    Items are those with votes, or every row of a table without names.
    """
    if table.has_names:
        names, codes = _encode(table.task, rows)
        if table.items is None:
            return names, codes
        known = set(names)
        names_in_order = tuple(name for name in dict.fromkeys(table.items) if name in known)
        position = {name: i for i, name in enumerate(names_in_order)}
        return names_in_order, np.array([position[name] for name in names], dtype=np.int64)[codes]
    return tuple(table.items or ()), np.array([table.task[row] for row in rows], dtype=np.int64)


def _encode(values: Sequence[Any], rows: IntArray) -> tuple[Names, IntArray]:
    """Return distinct values in order of appearance, and each row's position, −1 if missing."""
    position: dict[Any, int] = {}
    taken = [values[row] for row in rows]
    try:
        codes = [
            -1 if is_missing(value) else position.setdefault(value, len(position))
            for value in taken
        ]
    except TypeError as error:
        raise TypeError(
            f"table holds tasks or workers that are not hashable ({error}). Use texts or numbers."
        ) from None
    return tuple(position), np.array(codes, dtype=np.int64)


def _unknown(names: list[Any]) -> ValueError:
    several = [name for name in names if isinstance(name, Several)]
    if several:
        return ValueError(
            f"label holds several labels in {plural(len(several), 'vote')} (first: "
            f"{list(several[0])}). Set unknown to 'drop' to leave these votes out."
        )
    return ValueError(
        f"label holds {plural(len(names), 'vote')} for "
        f"{join_names(dict.fromkeys(names))}, not among the classes. "
        "Spell them alike with tidy or rename, extend classes (or scale), or set unknown to 'drop'."
    )


def spell(
    labels: Sequence[Any], declared: Names | None, options: Options
) -> tuple[list[Any], Names | None, int]:
    """Return tidied and renamed labels, the declared labels likewise, and how many changed.

    Labels that are empty become None.

    Tidy texts are in lower case with single spaces. ``rename`` applies afterwards; it does not
    distinguish 5 and "5".
    """
    tidy = _tidied if options.tidy else lambda value: value
    blank = {mark for value in options.empty for mark in (value, str(value), tidy(value))}
    rename = {str(tidy(old)): new for old, new in (options.rename or {}).items()}
    known = {tidy(name): name for name in options.levels or options.classes or ()}
    used: set[str] = set()

    def spelled(label: Any) -> Any:
        found = tidy(label)
        if is_missing(found) or not blank.isdisjoint((label, str(label), found)):
            return None
        if str(found) in rename:
            used.add(str(found))
            return rename[str(found)]
        return known.get(found, found)

    singles = [
        _single(label) if isinstance(label, list | set | np.ndarray) else label for label in labels
    ]
    try:
        new = {label: spelled(label) for label in dict.fromkeys(singles)}
    except TypeError as error:
        raise TypeError(
            f"label holds values that are not hashable ({error}). Use numbers or texts."
        ) from None
    allowed = (
        None
        if declared is None
        else tuple(dict.fromkeys(x for x in map(spelled, declared) if x is not None))
    )
    idle = [old for old in options.rename or {} if str(tidy(old)) not in used]
    if idle:
        raise ValueError(
            f"rename has {join_names(idle)}, but the labels are {join_names(new, 12)}. "
            "Correct the names."
        )
    found = [new[label] for label in singles]
    changed = {old for old, name in new.items() if name is not None and name != old}
    return found, allowed, sum(label in changed for label in singles) if changed else 0


def _single(label: Any) -> Any:
    """Return the only label of a list, None for an empty list, `Several` for a longer one."""
    chosen = [
        value
        for value in (label.tolist() if isinstance(label, np.ndarray) else label)
        if not is_missing(value)
    ]
    return (chosen[0] if len(chosen) == 1 else Several(chosen)) if chosen else None


def _tidied(label: Any) -> Any:
    return " ".join(label.casefold().split()) if isinstance(label, str) else label


def find_classes(
    labels: Iterable[Any],
    declared: Names | None,
    ordered: bool | Mapping[Any, float],
    options: Options,
) -> tuple[Names, tuple[float, ...] | None]:
    """Return the classes in column order and positions on an ordinal scale, None without."""
    scale = options.scale
    levels = options.levels
    found = levels or options.classes
    if found is None:
        seen = [
            label
            for label in dict.fromkeys(labels)
            if label is not None and not isinstance(label, Several)
        ]
        others = [label for label in seen if label not in set(declared or ())]
        found = (*(declared or ()), *sort_labels(others))
        found = sort_labels(found) if (others or ordered) and all(map(_is_number, found)) else found
        if not found:
            raise ValueError("table has no votes: no row has a label.")
        if len(found) < 2:
            raise ValueError(
                f"classes must be at least two, but the labels found are {join_names(found)}. "
                "Name all."
            )
    if levels is None and (scale is False or not (scale or ordered)):
        return found, None
    positions = ordered if levels is None else scale
    if isinstance(positions, Mapping) and set(found) <= set(positions):
        return found, tuple(float(positions[name]) for name in found)
    return found, positions_of(found)


def sort_labels(labels: Iterable[Any]) -> Names:
    """Sort labels: texts that are all numbers as numbers, several types as texts, texts last.

    Examples
    --------
    >>> sort_labels(["10", "9", "1"]), sort_labels(["b", 2, 10, "a"])
    (('1', '9', '10'), (10, 2, 'a', 'b'))
    """
    names = list(labels)
    if all(map(_is_number, names)):
        return tuple(sorted(names, key=float))
    try:
        return tuple(sorted(names))
    except TypeError:
        return tuple(sorted(names, key=lambda name: (isinstance(name, str), str(name))))


def positions_of(levels: Names) -> tuple[float, ...]:
    """Return positions of the levels of a scale: their values if all are numbers, else 0, 1, ….

    Examples
    --------
    >>> positions_of(("1", "2", "5")), positions_of(("low", "high"))
    ((1.0, 2.0, 5.0), (0.0, 1.0))
    """
    if not all(map(_is_number, levels)):
        return tuple(map(float, range(len(levels))))
    numbers = tuple(float(level) for level in levels)
    if any(b <= a for a, b in pairwise(numbers)):
        raise ValueError(
            f"scale must be in increasing order, but is {join_names(levels, 8)}. Sort the levels."
        )
    return numbers


def _is_number(name: Any) -> bool:
    if isinstance(name, str):
        return NUMBER.fullmatch(name) is not None
    return isinstance(name, int | float) and not isinstance(name, bool)


def settle(
    item: IntArray, worker: IntArray, time: Sequence[Any] | None, rows: IntArray
) -> IntArray:
    """Return the votes that count: per worker and item the latest, or the last without times."""
    pairs = np.where(
        worker < 0, -1 - np.arange(len(rows)), item * (worker.max(initial=0) + 1) + worker
    )
    _, inverse, number = np.unique(pairs, return_inverse=True, return_counts=True)
    repeated = np.flatnonzero(number[inverse.reshape(-1)] > 1)
    if not len(repeated):
        return np.arange(len(rows))
    moment = np.zeros(len(rows))
    if time is not None:
        moment[repeated] = as_seconds(time[row] for row in rows[repeated])
    order = np.lexsort((np.arange(len(rows)), moment, pairs))
    last = np.append(np.diff(pairs[order]) != 0, True)
    return np.sort(order[last])


def as_iso(value: Any, dayfirst: bool | None) -> Any:
    """Return a date such as 02.01.2025 as ISO 8601 text; others as is.

    It needs ``dayfirst``, which tells the day from the month.

    Examples
    --------
    >>> as_iso("2.1.2025 2:30 PM", dayfirst=True), as_iso("2.1.2025", dayfirst=None)
    ('2025-01-02T14:30:00', '2.1.2025')
    """
    found = (
        DATE.fullmatch(value.strip()) if dayfirst is not None and isinstance(value, str) else None
    )
    if found is None:
        return value
    first, second, year, hour, minute, seconds, half = found.groups()
    day, month = (first, second) if dayfirst else (second, first)
    hours = int(hour or 0) % 12 + 12 * (half.lower() == "pm") if half else int(hour or 0)
    try:
        start = datetime(int(year), int(month), int(day), hours, int(minute or 0))
    except ValueError as error:
        raise ValueError(
            f"time holds {value!r}, but dayfirst is {dayfirst} ({error}). Change either."
        ) from None
    return (start + timedelta(seconds=float(seconds or 0))).isoformat()


def as_seconds(times: Iterable[Any]) -> FloatArray:
    """Return times as increasing numbers, from numbers, dates and ISO 8601 texts.

    Missing ones before all others.
    """
    return np.array([-np.inf if is_missing(value) else _seconds(value) for value in times])


def _seconds(value: Any) -> float:
    try:
        if isinstance(value, np.datetime64):
            return float(value.astype("datetime64[us]").astype(np.int64)) / 1e6
        moment = value
        if isinstance(value, str):
            text = value.strip()
            moment = float(text) if NUMBER.fullmatch(text) else datetime.fromisoformat(text)
        if isinstance(moment, datetime):
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        if isinstance(moment, date):
            return datetime(moment.year, moment.month, moment.day, tzinfo=UTC).timestamp()
        return float(moment)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"time holds {value!r}, which is no number, date or ISO 8601 text, and is needed to "
            "find the latest of several votes by a worker. Set dayfirst as votes are imported or "
            "read, for dates such as 02.01.2025, or remove the column of times: then the last "
            "row counts."
        ) from None
