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

from credalset._batch import Names
from credalset._display import join_names, plural
from credalset._typing import AnyArray, FloatArray, IntArray
from credalset._validation import as_names
from credalset.exceptions import warn
from credalset.votes.tables import LongTable, is_missing

__all__ = [
    "NUMBER",
    "Ballots",
    "LabelOptions",
    "Options",
    "Several",
    "as_iso",
    "as_seconds",
    "count_votes",
    "find_classes",
    "positions_of",
    "settle",
    "sort_labels",
    "spell",
    "texts",
]

NUMBER = re.compile(r"-?\d+(\.\d+)?")
DAY = r"(\d{1,2})[./-](\d{1,2})[./-](\d{4})"
CLOCK = r"[ ,T]+(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?"
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
        for what in ("classes", "scale", "empty"):
            given = getattr(self, what)
            if isinstance(given, str):
                raise TypeError(f"{what} must be a list, but is {given!r}.")
            if not isinstance(given, bool | Mapping | None):
                object.__setattr__(self, what, as_names(given))
        for what, names in (("classes", self.classes), ("scale", self.levels)):
            if names is not None and (len(set(names)) < len(names) or len(names) < 2):
                raise ValueError(
                    f"{what} must be at least two different labels, but is {join_names(names)}."
                )
        levels = self.levels
        if None not in (levels, self.classes) and set(levels or ()) != set(self.classes):
            raise ValueError(
                f"scale ({join_names(levels or ())}) and classes name different labels."
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
    labels, declared, n_respelled = spell(table.label, table.classes, options)
    classes, scale = find_classes(labels, declared, table.ordered, options)
    rows, column, dropped = _countable(table, labels, classes, options)
    items, item = _items(table, rows)
    workers, worker = _workers(table, rows)
    time = None if table.time is None else [as_iso(value, options.dayfirst) for value in table.time]
    kept = settle(item, worker, time, rows)
    n_overruled = len(rows) - len(kept)
    kept = kept[np.argsort(item[kept], kind="stable")]
    codes = np.stack([item, worker, column[rows]], axis=1)[kept]

    notes = list(table.notes)
    if n_respelled:
        notes.append(f"{plural(n_respelled, 'vote')} renamed or tidied")
    notes += _note_on_spelling(column[rows], classes, options)
    if workers is not None and (worker < 0).any():
        unnamed = plural(int((worker < 0).sum()), "vote")
        notes.append(f"{unnamed} without a worker, counted as votes of different workers")
    notes += _note_on_repetition(table, time, rows)
    notes += _note_on_lost_items(table, items)
    losses = _losses(
        dropped, n_overruled, "by the order of the rows" if time is None else "by time"
    )
    if losses:
        warn(f"some votes were not counted: {'; '.join(losses)}.")

    shape = (len(items), len(classes))
    cells = codes[:, 0] * shape[1] + codes[:, 2]
    times = None if time is None else np.array([*time, None], dtype=object)[rows[kept]]
    return {
        "counts": np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape),
        "classes": classes,
        "items": items if table.has_names else None,
        "workers": workers,
        "scale": scale,
        "notes": (*notes, *losses),
        "ballots": Ballots(codes, times),
    }


def _countable(
    table: LongTable, labels: list[Any], classes: Names, options: Options
) -> tuple[IntArray, IntArray, Counter[str]]:
    """Return the rows that are votes, the class of each row, and the other rows by reason."""
    dropped = Counter(table.dropped)
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
        distinct = join_names(dict.fromkeys(names))
        dropped[f"for labels not among the classes ({distinct})"] += len(names)
    return np.flatnonzero(task & label & ~odd), column, dropped


def _note_on_spelling(column: IntArray, classes: Names, options: Options) -> list[str]:
    """Count the votes for classes that differ from a more frequent one by case or spaces only."""
    if options.tidy:
        return []
    tidied = [_tidied(name) for name in classes]
    often = Counter(tidied)
    alike = [k for k, name in enumerate(tidied) if often[name] > 1]
    if not alike:
        return []
    # The most frequent spelling of a label is taken for the right one.
    votes = np.bincount(column, minlength=len(classes))
    usual = {tidied[k]: k for k in sorted(alike, key=lambda k: votes[k])}
    number = int(votes[[k for k in alike if usual[tidied[k]] != k]].sum())
    names = join_names([classes[k] for k in alike])
    return [
        f"{plural(number, 'vote')} for labels that differ from others by case or spaces only "
        f"({names}), counted as different classes; --tidy (tidy=True) merges them"
    ]


def _note_on_repetition(table: LongTable, time: Sequence[Any] | None, rows: IntArray) -> list[str]:
    """Count rows that are repeated in a long table without workers: they may be one vote."""
    # Lists of labels by item, which have `items`, name no workers either, and repeat by right.
    if table.worker is not None or table.items is not None:
        return []
    times: Sequence[Any] = [None] * len(table.task) if time is None else time
    votes = [(table.task[row], str(table.label[row]), times[row]) for row in map(int, rows)]
    again = len(votes) - len(set(votes))
    if not again:
        return []
    return [
        f"{plural(again, 'row')} repeated exactly, counted as votes of different workers, who have "
        "no column"
    ]


def _note_on_lost_items(table: LongTable, items: Names) -> list[str]:
    """Count items of a table with names that have no votes; rows without names all stay."""
    if table.items is not None and not table.has_names:
        return []
    known = [item for item in set(table.items or table.task) if not is_missing(item)]
    lost = len(known) - len(items)
    return [f"{plural(lost, 'item')} without votes left out"] if lost else []


def _losses(dropped: Counter[str], n_overruled: int, how: str) -> list[str]:
    """Return a sentence for each reason why votes are not counted."""
    found = [
        f"{plural(number, 'vote')} dropped: {reason}"
        for reason, number in dropped.items()
        if number
    ]
    if n_overruled:
        found.append(
            f"{plural(n_overruled, 'vote')} replaced by the worker's later vote on the same task, "
            f"{how}"
        )
    return found


def texts(names: Any) -> Any:
    """Return the names of classes or levels as texts, as in a file."""
    if names is None or isinstance(names, bool | str):
        return names
    if isinstance(names, Mapping):
        return {str(name): position for name, position in names.items()}
    return tuple(map(str, as_names(names)))


def _workers(table: LongTable, rows: IntArray) -> tuple[Names | None, IntArray]:
    """Return the workers and the worker of each vote, −1 if unknown."""
    if table.worker is None:
        return None, np.full(len(rows), -1)
    return _encode(table.worker, rows)


def _items(table: LongTable, rows: IntArray) -> tuple[Names, IntArray]:
    """Return the items and the item of each vote.

    Items are those with votes, or every row of a table without names.
    """
    if not table.has_names:
        numbers = np.array([table.task[row] for row in rows], dtype=np.int64)
        return tuple(table.items or ()), numbers
    names, codes = _encode(table.task, rows)
    if table.items is None:
        return names, codes
    voted = set(names)
    known = dict.fromkeys([*table.items, *names])
    in_order = tuple(name for name in known if name in voted)
    position = {name: i for i, name in enumerate(in_order)}
    return in_order, np.array([position[name] for name in names], dtype=np.int64)[codes]


def _encode(values: Sequence[Any], rows: IntArray) -> tuple[Names, IntArray]:
    """Return distinct values in order of appearance, and each row's position, −1 if missing."""
    taken = [values[row] for row in rows.tolist()]
    try:
        distinct = dict.fromkeys(taken)
    except TypeError as error:
        raise TypeError(
            f"table holds tasks or workers that are not hashable ({error}). Use texts or numbers."
        ) from None
    names = tuple(value for value in distinct if not is_missing(value))
    code = dict.fromkeys(distinct, -1) | {name: number for number, name in enumerate(names)}
    return names, np.array([code[value] for value in taken], dtype=np.int64)


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

    Tidy texts are in lower case with single spaces; of texts that only differ in letters that mean
    the same, such as ß and ss, the most frequent counts. ``rename`` applies afterwards; it does not
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
        return known.get(found, usual.get(found, found))

    singles = list(map(_single, labels))
    usual = _usual_spellings([*singles, *(declared or ())]) if options.tidy else {}
    try:
        new = {label: spelled(label) for label in dict.fromkeys(singles)}
    except TypeError as error:
        raise TypeError(
            f"label holds values that are not hashable ({error}). Use numbers or texts."
        ) from None
    allowed = None
    if declared is not None:
        allowed = tuple(dict.fromkeys(x for x in map(spelled, declared) if x is not None))
    idle = [old for old in options.rename or {} if str(tidy(old)) not in used]
    if idle:
        raise ValueError(
            f"rename has {join_names(idle)}, but the labels are {join_names(new, 12)}. "
            "Correct the names."
        )
    changed = {old for old, name in new.items() if name is not None and name != old}
    n_changed = sum(label in changed for label in singles) if changed else 0
    return [new[label] for label in singles], allowed, n_changed


def _single(label: Any) -> Any:
    """Return a label; of a list the only one, None without one, `Several` for more."""
    if not isinstance(label, list | set | np.ndarray):
        return label
    values = label.tolist() if isinstance(label, np.ndarray) else label
    chosen = [value for value in values if not is_missing(value)]
    if not chosen:
        return None
    return chosen[0] if len(chosen) == 1 else Several(chosen)


def _usual_spellings(labels: Iterable[Any]) -> dict[Any, str]:
    """Return the most frequent text in lower case of those that are tidied to the same.

    Examples
    --------
    >>> _usual_spellings(["Mäßig", "mäßig ", "MÄSSIG", "gut"])
    {'mässig': 'mäßig', 'gut': 'gut'}
    """
    lower = (" ".join(label.lower().split()) for label in labels if isinstance(label, str))
    found: dict[Any, str] = {}
    for text, _ in Counter(lower).most_common():
        found.setdefault(_tidied(text), text)
    return found


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
            "find the latest of several votes by a worker. Set dayfirst (--dayfirst) as votes are "
            "imported or read, for dates such as 02.01.2025, or remove the column of times: then "
            "the last row counts."
        ) from None
