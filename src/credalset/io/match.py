"""Predictions and votes from files, matched by the names of items and classes, never by position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from credalset._typing import AnyArray, FloatArray
from credalset.exceptions import need
from credalset.io.columns import Reading, as_texts, choose_columns, drop_missing, find_id, is_number, is_text, matrix
from credalset.io.tables import read_table
from credalset.votes.names import join_names

if TYPE_CHECKING:
    import pyarrow as pa

    from credalset.votes import Annotations

NOTHING: Mapping[str, str] = MappingProxyType({})
LOOKED_AT = 100  # cells that tell whether a column of texts holds numbers


@dataclass(frozen=True)
class ItemTable:
    """Items with a prediction per class, or with features, or with a text each.

    Attributes
    ----------
    items : tuple of str
        Names of the rows.
    values : ndarray of shape (n, number of columns), or of n str
        The numbers, or the texts.
    names : tuple of str or None
        Classes or features; None if the numbers came as lists.
    extra : dict of arrays (n,)
        Further columns that were asked for, by what they are used for, such as groups and weights.
    notes : tuple of str
        What was left out.
    """

    items: tuple[str, ...]
    values: FloatArray
    names: tuple[str, ...] | None
    extra: dict[str, AnyArray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, rows: Any) -> ItemTable:
        chosen = np.arange(len(self))[rows]
        extra = {role: column[chosen] for role, column in self.extra.items()}
        return replace(self, items=tuple(self.items[i] for i in chosen), values=self.values[chosen], extra=extra)

    def features(self) -> Any:
        """Return what a model is trained on and asked about: a frame, or a series of texts, with all names."""
        pandas = need("pandas", "A model of named features")
        if self.values.ndim == 1:
            return pandas.Series(self.values, self.items, name=(self.names or (None,))[0], dtype=object)
        return pandas.DataFrame(self.values, self.items, self.names)


def read_items(
    path: str,
    format: str | None = None,
    *,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    logits: bool = False,
    extra: Mapping[str, str] = NOTHING,
    classes: Sequence[Any] | None = None,
    texts: bool | str | None = False,
    encoding: str | None = None,
    strict: bool = False,
) -> ItemTable:
    """Read a table of items into memory: predictions per class, features, or texts.

    Parameters
    ----------
    path, format, encoding
        As in `read_table`.
    id : str, optional
        Column that names the items; by default the first that has a usual name of a task.
    columns, classes, texts
        As in `choose_columns`. Where neither columns nor classes are given, columns of words are left out; with
        ``texts=None`` the only one is read as texts, if there are no numbers.
    logits : bool
        Whether to apply a softmax.
    extra : dict
        Further columns by what they are used for: ``groups``, ``weights`` (numbers), or anything else (texts).
    strict : bool
        Refuse rows without a value that is needed, instead of leaving them out.
    """
    table = read_table(path, format, encoding=encoding)
    id = find_id(table.schema.names) if id is None else id
    _check_present(table.schema, id, extra, path)
    taken = [id, *(column for role, column in extra.items() if role != "texts")]
    try:
        reading = choose_columns(table.schema, taken, columns, classes, texts or False)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    batches = iter(table.batches)
    first = next(batches, None)
    notes: list[str] = []
    if first is not None and columns is None and classes is None and not reading.texts:
        reading, notes = _without_words(first, reading, may_be_texts=texts is None)
    needed = [id, *reading.columns, *(column for role, column in extra.items() if role in ("groups", "weights"))]
    items: list[str] = []
    blocks: list[FloatArray] = []
    kept: dict[str, list[Any]] = {role: [] for role in extra}
    n_rows = 0
    for batch in () if first is None else chain([first], batches):
        whole, rows = drop_missing(batch, needed, path, first_row=n_rows, strict=strict)
        items += map(str, as_texts(_column(whole, id), f"{id!r} of {path}"))
        values = _column(whole, reading.columns[0]) if reading.texts else None
        blocks.append(
            matrix(whole, reading.columns, path, rows) if values is None else np.array(values.to_pylist(), object)
        )
        for role, name in extra.items():
            column = _column(whole, name)
            kept[role] += matrix(whole, [name], path, rows)[:, 0].tolist() if role == "weights" else as_texts(column)
        n_rows += batch.num_rows
    if not items:
        raise ValueError(f"{path} has no rows with values in {join_names(needed)}.")
    if len(items) < n_rows:
        notes.append(f"{n_rows - len(items)} rows of {path} without a value were left out.")
    _check_distinct(items, path, id)
    values = np.concatenate(blocks)
    arrays = {role: np.array(column, dtype=None if role == "weights" else object) for role, column in kept.items()}
    return ItemTable(tuple(items), softmax(values, axis=1) if logits else values, reading.labels, arrays, tuple(notes))


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_field_index(name))


def _check_present(schema: pa.Schema, id: str, extra: Mapping[str, str], path: str) -> None:
    for role, name in [("id", id), *extra.items()]:
        if name not in schema.names:
            raise ValueError(
                f"{role} names the column {name!r}, which {path} does not have; it has {join_names(schema.names, 12)}."
            )


def _without_words(batch: pa.RecordBatch, reading: Reading, may_be_texts: bool) -> tuple[Reading, list[str]]:
    """Leave out columns of texts none of which is a number; if there is nothing else, one may be what is read."""
    words = []
    for name in reading.columns:
        column = _column(batch, name)
        if is_text(column.type) and not any(map(is_number, column.drop_null()[:LOOKED_AT].to_pylist())):
            words.append(name)
    if not words:
        return reading, []
    left = [(n, label) for n, label in zip(reading.columns, reading.labels or (), strict=True) if n not in words]
    if not left and may_be_texts and len(words) == 1:
        return Reading(words, tuple(words), texts=True), []
    if not left:
        raise ValueError(f"no column holds numbers: {join_names(words)} hold words. Name the columns: columns=...")
    names, labels = zip(*left, strict=True)
    return Reading(list(names), labels), [f"columns of words were left out: {join_names(words)}."]


def _check_distinct(items: list[str], path: str, id: str) -> None:
    twice = [item for item, n in Counter(items).items() if n > 1]
    if twice:
        raise ValueError(
            f"{path} names {len(twice)} items more than once in the column {id!r} (first: {join_names(twice)}). Each "
            "item needs one row."
        )


@dataclass(frozen=True)
class Matched:
    """Items that both tables know, in the order of the first.

    Attributes
    ----------
    table : ItemTable
        Their predictions, features or texts.
    votes : Annotations
        Their votes, over the classes in the order of the predictions, with scale, workers and origin as they were.
    notes : list of str
        What was left out, in sentences.
    """

    table: ItemTable
    votes: Annotations
    notes: list[str]


def match(table: ItemTable, votes: Annotations, *, by_class: bool = True, keep_unvoted: bool = False) -> Matched:
    """Match items by name, and with ``by_class`` the columns of predictions with the classes of the votes.

    Items of the table without votes are left out, or with ``keep_unvoted`` kept with none. What does not match is
    counted and named in the notes; it is an error only if nothing is left.
    """
    if votes.items is None:
        raise ValueError("votes have no names of items, so they cannot be matched with a table. Name them: items=...")
    votes = replace(votes.drop_empty(), items=tuple(map(str, votes.drop_empty().items or ())))
    voted, asked = set(votes.items or ()), set(table.items)
    here = np.array([item in voted for item in table.items], dtype=bool)
    without = [item for item in table.items if item not in voted]
    idle = [item for item in votes.items or () if item not in asked]
    fate = "are kept" if keep_unvoted else "were left out"
    notes = [*table.notes]
    notes += [f"{len(without)} items without votes {fate} (first: {join_names(without)})."] if without else []
    notes += [f"votes on {len(idle)} items without a row were left out (first: {join_names(idle)})."] if idle else []
    if not here.any():
        raise ValueError(
            f"no item is in both tables: {len(table)} rows such as {join_names(table.items, 2)}, votes on {len(votes)} "
            f"items such as {join_names(votes.items or (), 2)}. Check which columns name the items (id=..., task=...)."
        )
    kept = table if keep_unvoted else table[here]
    found = replace(votes.align(kept.items), notes=votes.notes)
    return Matched(kept, _in_class_order(found, kept) if by_class else found, notes)


def _in_class_order(votes: Annotations, table: ItemTable) -> Annotations:
    own = tuple(map(str, votes.classes or range(votes.n_classes)))
    votes = replace(votes, classes=own)
    if table.names is None:
        if len(own) != table.values.shape[1]:
            raise ValueError(
                f"predictions are lists of {table.values.shape[1]} numbers, but votes name {len(own)} classes "
                f"({join_names(own)}). Give one column per class, so that they can be matched by name."
            )
        return votes
    unknown = [name for name in own if name not in table.names]
    if unknown:
        raise ValueError(
            f"votes name {len(unknown)} classes that the predictions have no column for ({join_names(unknown)}); the "
            f"predictions have {join_names(table.names)}. Rename the columns, or the labels as votes are read "
            f"(rename={{{unknown[0]!r}: ...}})."
        )
    return votes.reorder(table.names)
