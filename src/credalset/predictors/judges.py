"""Read the answers of several judges: labels, probabilities or both, some of them missing.

Answers and votes are read once, together, and matched by the rule of `credalset._batch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credalset._batch import (
    Batch,
    Labels,
    Names,
    class_names,
    item_names,
    match_names,
    name_array,
    read_votes,
)
from credalset._display import join_names, plural
from credalset._predictions import Named
from credalset._typing import AnyArray, BoolArray, FloatArray
from credalset._validation import as_distributions, as_names, as_numbers, unmasked
from credalset.exceptions import warn
from credalset.predictors.labels import read_labels
from credalset.votes import Annotations
from credalset.votes.tables import is_missing


@dataclass(frozen=True, eq=False)
class Answers(Named):
    """The answers of J judges on N items.

    Attributes
    ----------
    values : ndarray of shape (N, J, L)
        Probability of each label, 1 for a label that a judge gives; NaN where it gives no answer.
        The first K labels are the classes, the others are no classes.
    names : tuple
        Names of the judges.
    labels : tuple
        The L labels.
    n_classes : int
        Number of classes K.
    gives_labels : ndarray of shape (J,), booleans
        Judges that give labels; the others give probabilities.
    items, classes : tuple or None
        Names of the items and of the classes.
    """

    values: FloatArray
    names: Names
    labels: Names
    n_classes: int
    gives_labels: BoolArray
    items: Names | None = None
    classes: Names | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_answered(self) -> BoolArray:
        """Whether a judge answers on an item, (N, J)."""
        return np.asarray(~np.isnan(self.values[:, :, 0]))

    @property
    def distributions(self) -> FloatArray:
        """Probabilities of the classes, (N, J, K).

        NaN where there is no answer, zeros for a label that is no class.
        """
        return np.asarray(self.values[:, :, : self.n_classes])

    @property
    def choices(self) -> AnyArray:
        """Position of the label, or of the most probable class, (N, J); −1 without an answer."""
        best = np.where(np.isnan(self.values), -1.0, self.values).argmax(axis=2)
        return np.where(self.is_answered, best, -1)

    def keep(self, judges: Sequence[int]) -> Answers:
        """Return the answers of some judges, by position."""
        rows = list(judges)
        return replace(
            self,
            values=self.values[:, rows],
            names=tuple(self.names[judge] for judge in rows),
            gives_labels=self.gives_labels[rows],
        )

    def take(self, rows: AnyArray) -> Answers:
        """Return the answers on some items, by position."""
        items = None if self.items is None else tuple(self.items[row] for row in rows)
        return replace(self, values=self.values[rows], items=items)

    def batch(self) -> Batch:
        """Return the items and classes, which match what belongs to them."""
        nothing = np.empty((len(self), 0))
        return Batch(nothing, self.n_classes, self.items, self.classes, name="judges")


def read_judged(judges: Any, votes: Any) -> tuple[Answers, Labels]:
    """Read answers and votes on the same items.

    Items without votes have rows of zeros; votes on further items are not used.
    """
    is_single = np.ndim(votes) == 1 and not isinstance(votes, Named)
    labels = read_labels(votes, name="votes") if is_single else read_votes(votes)
    parts = _split(judges)
    classes = labels.classes
    if classes is None:
        named = [class_names(part, f"judges[{name!r}]") for name, part in parts]
        orders = list(dict.fromkeys(names for names in named if names is not None))
        if len(orders) > 1:
            raise ValueError(
                "votes has no names of classes, and judges have their classes in different orders. "
                "Name the classes of votes: a data frame with classes as columns, or Annotations."
            )
        classes = orders[0] if orders else None
    answers = _read_parts(parts, classes, labels.n_classes)
    found = answers.batch().votes(labels, "votes", partial=True)
    if not found.has_votes.any():
        raise ValueError(
            "votes has no vote on the items of judges. Pass people's votes on some of the items "
            "that the judges answered."
        )
    _note_what_is_odd(answers)
    return answers, found


def read_answers(judges: Any, names: Names, labels: Names, n_classes: int) -> Answers:
    """Read answers of judges that are known already, in their order, with known labels."""
    parts = _split(judges)
    own = [name for name, _ in parts]
    missing = [name for name in names if name not in own]
    unknown = [name for name in own if name not in names]
    if missing or unknown:
        lacks = [f"judges has no {join_names(missing)}"] if missing else []
        lacks += [f"{join_names(unknown)} was not there"] if unknown else []
        raise ValueError(
            f"judges must be those that the pool was fitted with ({join_names(names, 8)}), but "
            f"{' and '.join(lacks)}. A judge that gave no answer on any item is a column of None."
        )
    classes = labels[:n_classes]
    by_name = dict(parts)
    known = None if classes == tuple(range(n_classes)) else classes
    ordered = [(name, by_name[name]) for name in names]
    return _read_parts(ordered, known, n_classes, labels, is_new=True)


def _split(judges: Any) -> list[tuple[Any, Any]]:
    """Return the name of each judge and its answers."""
    unmasked(judges, "judges")
    if isinstance(judges, Annotations):
        table = judges.table
        found: dict[Any, dict[Any, Any]] = {}
        for item, judge, label in zip(table["task"], table["worker"], table["label"], strict=True):
            found.setdefault(judge, {})[item] = label
        judges = found
    if isinstance(judges, Mapping):
        parts = list(judges.items())
    elif hasattr(judges, "columns") and hasattr(judges, "iloc"):
        if getattr(judges.columns, "nlevels", 1) > 1:
            parts = [(name, judges[name]) for name in dict.fromkeys(judges.columns.droplevel(-1))]
        else:
            parts = [(name, judges.iloc[:, i]) for i, name in enumerate(judges.columns)]
    else:
        array = as_numbers(judges, "judges", "Pass labels as a dict or data frame.")
        if array.ndim != 3:
            raise ValueError(
                "judges must be an array of shape (items, judges, classes), a data frame with one "
                "column of labels per judge, or a dict of labels or probabilities by judge, but "
                f"has shape {array.shape}."
            )
        parts = [(f"judge {j + 1}", array[:, j]) for j in range(array.shape[1])]
    if not parts:
        raise ValueError("judges has no judge. Pass the answers of at least one.")
    names = as_names([name for name, _ in parts])
    if len(set(names)) < len(names):
        raise ValueError(f"judges names a judge twice: {join_names(names, 8)}.")
    return [(name, part) for name, (_, part) in zip(names, parts, strict=True)]


def _read_parts(
    parts: list[tuple[Any, Any]],
    classes: Names | None,
    n_classes: int,
    labels: Names | None = None,
    *,
    is_new: bool = False,
) -> Answers:
    known = tuple(range(n_classes)) if classes is None else classes
    codes = {label: number for number, label in enumerate(known if labels is None else labels)}
    rows = [_rows(name, part) for name, part in parts]
    items = _all_items([(name, names) for (name, _), (names, _) in zip(parts, rows, strict=True)])
    if items is None and len({len(values) for _, values in rows}) > 1:
        sizes = ", ".join(
            f"{name}: {len(values)}" for (name, _), (_, values) in zip(parts, rows, strict=True)
        )
        raise ValueError(
            f"judges have different numbers of items ({sizes}). Name the items (a series or a "
            "dict by item), or give each judge one entry per item, None where it has no answer."
        )
    position = None if items is None else {item: row for row, item in enumerate(items)}
    n_items = len(rows[0][1]) if items is None else len(items)
    read = []
    for (name, _), (_, values) in zip(parts, rows, strict=True):
        if getattr(values, "ndim", 1) == 2:
            where = f"judges[{name!r}]"
            if labels is None and classes is not None and class_names(values, where) is None:
                raise ValueError(
                    f"{where} has no names of classes, but votes names them "
                    f"({join_names(classes, 8)}), so that they cannot be matched. Pass "
                    "probabilities as a data frame with the classes as columns, or votes without "
                    "names in the same order."
                )
            read.append(_read_probabilities(values, classes, n_classes, where))
        else:
            read.append(_read_labels(values, codes, len(known), name, is_new=is_new))
    n_labels = len(codes)
    found = np.full((n_items, len(parts), n_labels), np.nan)
    for judge, (one, (own, _)) in enumerate(zip(read, rows, strict=True)):
        places: Any = slice(None)
        if position is not None:
            places = np.fromiter((position[item] for item in own or ()), np.int64)
        if one.ndim == 1:
            answered = one >= 0
            block = np.full((len(one), n_labels), np.nan)
            block[answered] = 0.0
            block[np.flatnonzero(answered), one[answered]] = 1.0
        else:
            block = np.zeros((len(one), n_labels))
            block[:, :n_classes] = one
            block[np.isnan(one[:, 0])] = np.nan
        found[places, judge] = block
    gives_labels = np.array([one.ndim == 1 for one in read])
    names = tuple(name for name, _ in parts)
    return Answers(found, names, tuple(codes), n_classes, gives_labels, items, classes)


def _rows(name: Any, part: Any) -> tuple[Names | None, Any]:
    """Return the names of the items of one judge, or None, and its answers in that order."""
    where = f"judges[{name!r}]"
    unmasked(part, where)
    if isinstance(part, Mapping):
        return as_names(part), list(part.values())
    if isinstance(part, str) or not hasattr(part, "__len__"):
        raise TypeError(
            f"{where} must hold labels or probabilities, one entry per item, but is {part!r}."
        )
    items = item_names(part, where)
    if items is not None and len(set(items)) < len(items):
        raise ValueError(f"{where} names an item twice. Keep one answer of each item.")
    if getattr(part, "ndim", 1) == 2 or (isinstance(part, list) and part and _is_row(part[0])):
        return items, part if hasattr(part, "ndim") else np.asarray(part, dtype=np.float64)
    return items, part.tolist() if hasattr(part, "tolist") else list(part)


def _is_row(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray)


def _all_items(names: list[tuple[Any, Names | None]]) -> Names | None:
    """Return the items of all judges in order of first appearance; None if they have no names."""
    given = [items for _, items in names]
    if all(items is None for items in given):
        return None
    nameless = [name for name, items in names if items is None]
    if nameless:
        raise ValueError(
            f"judges[{nameless[0]!r}] has no names of items, but other judges have. Name the "
            "items of all judges (a series or a dict by item), or of none."
        )
    return tuple(dict.fromkeys(item for items in given for item in items or ()))


def _read_probabilities(
    values: Any, classes: Names | None, n_classes: int, where: str
) -> FloatArray:
    """Return probabilities (n, K), columns in the order of the classes; NaN without an answer."""
    own = class_names(values, where)
    array = as_numbers(values, where)
    if array.shape[1] != n_classes and own is None:
        raise ValueError(
            f"{where} has {array.shape[1]} classes (columns), but votes has {n_classes}."
        )
    if own is not None and classes is not None:
        missing = [label for label in classes if label not in own]
        if missing and not set(own) - set(classes):  # a class that the judge never gives
            array = np.hstack([array, np.zeros((len(array), len(missing)))])
            array[np.isnan(array[:, 0])] = np.nan
            own = (*own, *missing)
        order = match_names(own, classes, "classes", where, "votes")
        array = array if order is None else array[:, order]
    is_empty = np.isnan(array).all(axis=1)
    partly = np.isnan(array).any(axis=1) & ~is_empty
    if partly.any():
        raise ValueError(
            f"{where} has probabilities for some of the classes only in row "
            f"{np.flatnonzero(partly)[0]}. Fill in all classes, or none where there is no answer."
        )
    found = np.full(array.shape, np.nan)
    if not is_empty.all():
        rows = np.flatnonzero(~is_empty)
        try:
            found[rows] = as_distributions(array[rows], where)
        except ValueError as error:
            if is_empty.any():
                hint = " (rows are counted among those with an answer)"
                raise ValueError(f"{error}{hint}") from None
            raise
    return found


def _read_labels(
    values: Sequence[Any], codes: dict[Any, int], n_classes: int, name: Any, *, is_new: bool
) -> AnyArray:
    """Return the positions of labels, −1 for missing ones; labels that are new get a position.

    A label that is new only when the pool predicts counts as an answer that is missing.
    """
    plain = as_names(name_array(values))
    found = np.full(len(plain), -1, dtype=np.int64)
    strange = 0
    first = None
    for row, label in enumerate(plain):
        if label.__class__ is not str and is_missing(label):
            continue
        if label == "":
            continue
        code = codes.get(label)
        if code is None and is_new:
            strange += 1
            first = label if first is None else first
            continue
        found[row] = codes.setdefault(label, len(codes)) if code is None else code
    known = list(codes)[:n_classes]
    if (found >= 0).any() and not (found < n_classes)[found >= 0].any():
        given = [label for label in plain if not is_missing(label)]
        raise ValueError(
            f"judges[{name!r}] never gives a class of the votes: it says "
            f"{join_names(list(dict.fromkeys(given)), 4)}, the classes are {join_names(known, 8)}. "
            "Spell the labels alike; votes without names have the classes 0, 1, 2, …"
        )
    if strange:
        from_where = f"judges[{name!r}]"
        warn(
            f"{from_where} gives {plural(strange, 'label')} that it did not give when the pool was "
            f"fitted (first: {first!r}). They count as missing answers."
        )
    return found


def _note_what_is_odd(answers: Answers) -> None:
    """Warn of judges that cannot help, and of labels that are no classes."""
    is_answered = answers.is_answered
    choices = answers.choices
    answered = np.any(is_answered, axis=0).tolist()
    silent = [name for name, some in zip(answers.names, answered, strict=True) if not some]
    constant = [
        name
        for name, chosen, is_label in zip(
            answers.names, choices.T, answers.gives_labels, strict=True
        )
        if is_label and len(set(chosen[chosen >= 0].tolist())) == 1
    ]
    same: list[str] = []
    for later in range(1, len(answers.names)):
        for earlier in range(later):
            if answers.names[later] in silent:
                continue
            both = answers.values[:, [earlier, later]]
            if np.array_equal(both[:, 0], both[:, 1], equal_nan=True):
                same.append(f"{answers.names[earlier]!r} and {answers.names[later]!r}")
                break
    notes = []
    if silent:
        notes.append(f"{join_names(silent)} never answers and is not used")
    if constant:
        notes.append(f"{join_names(constant)} always gives the same label, and tells nothing")
    if same:
        notes.append(f"{'; '.join(same)} give the same answers")
    if len(answers.labels) > answers.n_classes:
        more = answers.labels[answers.n_classes :]
        notes.append(
            f"the labels {join_names(more, 4)} are no classes of the votes: they are used as "
            "hints, and never predicted"
        )
    if notes:
        warn(f"judges: {'; '.join(notes)}.")
