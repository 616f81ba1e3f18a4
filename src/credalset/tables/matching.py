"""Predictions and votes from files, matched by the names of items and classes, never by position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from credalset._typing import AnyArray, FloatArray
from credalset.annotations.labels import shown
from credalset.annotations.table import is_number_text, positions
from credalset.exceptions import need, warn
from credalset.tables.arrow import (
    PREDICTION,
    Reading,
    check_text,
    class_prefix,
    columns_to_read,
    is_list,
    is_text,
    matrix,
    prediction_columns,
    say_which,
    unrounded,
)
from credalset.tables.files import read_table
from credalset.votes import Annotations

if TYPE_CHECKING:
    import pyarrow as pa

NOTHING: Mapping[str, str] = MappingProxyType({})
WORDS = ("groups", "texts")  # what columns are used for that hold words


@dataclass(frozen=True)
class NumberTable:
    """Items with numbers: predictions, one column per class, or features; or with a text each.

    Attributes
    ----------
    items : tuple of str
        Names of the rows.
    values : ndarray of shape (n, number of columns), or of n str
        The numbers, or the texts.
    names : tuple of str or None
        Names of the columns; None if they came as lists.
    extra : dict of arrays (n,)
        Further columns that were asked for, by what they are used for, such as groups and weights.
    """

    items: tuple[str, ...]
    values: FloatArray
    names: tuple[str, ...] | None
    extra: dict[str, AnyArray]

    def __len__(self) -> int:
        return len(self.items)

    def beginning_with(self, start: str) -> NumberTable:
        """Return the columns whose names begin so, under the rest of their names."""
        columns = [k for k, name in enumerate(self.names or ()) if name.startswith(start)]
        names = tuple((self.names or ())[k].removeprefix(start) for k in columns)
        return replace(self, values=self.values[:, columns], names=names)

    @property
    def probabilities(self) -> FloatArray:
        """The numbers as probabilities of classes, which may have been rounded in their file."""
        return unrounded(self.values)

    def features(self) -> Any:
        """Return what a model is trained on and asked about: a frame, or a series of texts, with all names."""
        if self.names is None:
            return self.values
        if self.values.ndim == 1:
            pandas = need("pandas", "A model of named texts")
            return pandas.Series(self.values, self.items, name=self.names[0], dtype=object)
        return named_frame(self.values, self.names, self.items)


def named_frame(values: FloatArray, names: Sequence[Any], items: Sequence[Any] | None = None) -> Any:
    """Name columns, and rows, so that a model can tell whether they are what it was trained with."""
    return need("pandas", "A model of named features").DataFrame(values, items, names)


def read_numbers(
    path: str,
    format: str | None = None,
    *,
    id: str = "task",
    columns: Sequence[str] | None = None,
    logits: bool = False,
    extra: Mapping[str, str] = NOTHING,
    classes: Sequence[Hashable] | None = None,
    what: str = "predictions",
    texts: bool | str | None = False,
    encoding: str | None = None,
) -> NumberTable:
    """Read a table of items with one numeric column per class (or feature), or one column of lists, into memory.

    Of a table that ``predict`` wrote, the columns ``prediction_…`` are read; where the ``classes`` of a calibration
    are known, theirs, in their order. ``extra`` names further columns by what they are used for; groups and texts are
    text even where they look like numbers. With ``texts``, one column of texts is read, for a model that takes these,
    the one of that name if it is there; with None, if there is nothing else. ``encoding`` is that of a text file which
    is not UTF-8.
    """
    known = [texts] if isinstance(texts, str) else []
    words = [id, *(column for role, column in extra.items() if role in WORDS), *known]
    table = read_table(path, format, text=words, encoding=encoding)
    batches = iter(table.batches)
    first = next(batches, None)
    shown_beside = [column for role, column in extra.items() if role == "texts"]
    taken = [id, *(column for role, column in extra.items() if role != "texts")]
    wanted, are_texts = columns_to_read(table.schema, texts, columns, classes, taken, shown_beside)
    if columns is None:
        say_which(Reading(wanted, are_texts), texts)
        if not are_texts and classes is None and first is not None:
            wanted = _without_words(first, wanted, path)
    _check_present(table.schema, [id, *wanted], extra, path)
    check_text(table.schema, [id, *extra.values()])
    if not wanted:
        raise ValueError(f"{path} has no columns with {what} beside {id!r}.")
    items: list[str] = []
    blocks: list[FloatArray] = []
    kept: dict[str, list[Any]] = {role: [] for role in extra}
    for batch in () if first is None else chain([first], batches):
        ids = batch.column(batch.schema.get_field_index(id))
        if ids.null_count:
            raise ValueError(f"{path} has rows without an id in the column {id!r}. Every item needs a name.")
        items += map(str, ids.to_pylist())
        blocks.append(matrix(batch, wanted, what, texts=are_texts))
        for role, name in extra.items():
            kept[role] += batch.column(batch.schema.get_field_index(name)).to_pylist()
    if not items:
        raise ValueError(f"{path} has no rows.")
    _check_distinct(items, path, id)
    written = prediction_columns(table.schema.names)
    start = class_prefix(table.schema.names, classes or ()) or (PREDICTION if set(wanted) <= set(written) else "")
    lists = len(wanted) == 1 and is_list(table.schema.field(wanted[0]).type)
    values = np.concatenate(blocks)
    return NumberTable(
        tuple(items),
        softmax(values, axis=1) if logits else values,
        None if lists else tuple(name.removeprefix(start) for name in wanted),
        {role: np.array(values) for role, values in kept.items()},
    )


def _check_present(schema: pa.Schema, columns: Sequence[str], extra: Mapping[str, str], path: str) -> None:
    for role, name in extra.items():
        if name not in schema.names:
            raise ValueError(
                f"{role} names the column {name!r}, which {path} does not have; it has {shown(schema.names, 12)}. Such "
                "columns are looked for in this table, not among the votes."
            )
    for name in [*columns, *extra.values()]:
        if schema.get_field_index(name) < 0:
            seen = "no column" if name not in schema.names else f"{schema.names.count(name)} columns"
            raise ValueError(
                f"{path} has {seen} {name!r}; it has {', '.join(map(repr, schema.names[:12]))}. "
                "Say which column names the items (id=...) and which hold the numbers (columns=...)."
            )


def _without_words(batch: pa.RecordBatch, names: list[str], path: str) -> list[str]:
    """Leave out columns of texts none of which is a number; numbers with a slip among them are for others to refuse."""
    at = {name: batch.schema.get_field_index(name) for name in names}
    texts = {
        name: batch.column(i).drop_null().to_pylist()
        for name, i in at.items()
        if i >= 0 and is_text(batch.schema.types[i])
    }
    words = [name for name, values in texts.items() if not any(map(is_number_text, values))]
    if words:
        warn(f"{shown(words)} of {path} hold words, not numbers, and are not read.")
    return [name for name in names if name not in words]


def _check_distinct(items: list[str], path: str, id: str) -> None:
    twice = [item for item, n in Counter(items).items() if n > 1]
    if twice:
        raise ValueError(
            f"{path} names {len(twice)} items more than once in the column {id!r} (first: {shown(twice)}). "
            "Each item needs one row."
        )


@dataclass(frozen=True)
class Matched:
    """Items that both tables know, in the order of the first.

    Attributes
    ----------
    table : NumberTable
        Their predictions or features.
    votes : Annotations
        Their votes, over the classes in the order of the predictions.
    notes : list of str
        What was left out, in sentences.
    """

    table: NumberTable
    votes: Annotations
    notes: list[str]


def match(table: NumberTable, votes: Annotations, *, by_class: bool = True, keep_unvoted: bool = False) -> Matched:
    """Match items, and with ``by_class`` the columns of predictions to the classes of the votes, by name.

    Items of the table without votes are left out, or with ``keep_unvoted`` kept with none.
    """
    votes = votes.drop_empty()
    votes = replace(votes, items=tuple(map(str, votes.items)))
    rows = positions(table.items, votes.items)
    here = rows >= 0
    notes = []
    if not here.all():
        without = [item for item, found in zip(table.items, here, strict=True) if not found]
        fate = "yet" if keep_unvoted else "left out"
        notes.append(f"{_count(len(without), 'item')} without votes {fate} (first: {shown(without)}).")
    asked = set(table.items)
    idle = [item for item in votes.items if item not in asked]
    if idle:
        notes.append(f"{_count(len(idle), 'voted item')} without a row left out (first: {shown(idle)}).")
    if not here.any():
        nothing = (
            f"no item is in both tables: {_count(len(table), 'row')} such as {shown(table.items[:2])}, votes on "
            f"{_count(len(votes), 'item')} such as {shown(votes.items[:2])}. Check the columns that name the items"
        )
        if {item.lstrip("0") for item in table.items} & {item.lstrip("0") for item in map(str, votes.items)}:
            nothing += "; without leading zeros they agree, so write both alike"
        if not keep_unvoted:
            raise ValueError(f"{nothing}.")
        notes = [f"{nothing}, unless all of them are new."]
    chosen = np.arange(len(table)) if keep_unvoted else np.flatnonzero(here)
    extra = {role: values[chosen] for role, values in table.extra.items()}
    items = tuple(table.items[i] for i in chosen)
    kept = NumberTable(items, table.values[chosen], table.names, extra)
    found = votes[rows[chosen]]
    start = class_prefix(table.names or (), votes.classes) if by_class else ""
    if start:
        notes.append(f"the columns that begin with {start!r} are read as predictions of the classes.")
        kept = kept.beginning_with(start)
    if keep_unvoted:
        found = (
            votes.align(items)
            if here.any()
            else Annotations.from_counts(np.zeros((len(items), votes.n_classes)), classes=votes.classes, items=items)
        )
    return Matched(kept, _as_predicted(found, kept) if by_class else found, notes)


def as_calibrated(groups: Sequence[Any], calibration: Any) -> list[Any]:
    """Return groups as the calibration calls them: one table has 1 where another has the text ``1``."""
    known = calibration.groups or ()
    own = {str(key): key for key in known} | {key: key for key in known}
    return [own.get(group, group if group is None else own.get(str(group), group)) for group in groups]


def _as_predicted(votes: Annotations, table: NumberTable) -> Annotations:
    """Put the classes of the votes into the order of the predictions."""
    names: tuple[Hashable, ...] | None = table.names
    own = [str(name) for name in votes.classes]
    if names is None:
        if len(own) != table.values.shape[1]:
            raise ValueError(
                f"predictions come as lists of {table.values.shape[1]} numbers, but votes name {len(own)} classes "
                f"({shown(own)}). Give one column per class, so that they can be matched by name."
            )
        return votes
    unknown = [name for name in own if name not in names]
    if unknown:
        raise ValueError(
            f"votes name {_count(len(unknown), 'class', 'classes')} that the predictions have no column for "
            f"({shown(unknown)}); the predictions have {shown(names)}. Rename the columns, or labels as they are read: "
            f"rename={{{unknown[0]!r}: ...}}."
        )
    return replace(votes, classes=tuple(own)).reorder(names)


def _count(n: int, singular: str, plural: str | None = None) -> str:
    return f"{n} {singular if n == 1 else plural or singular + 's'}"
