"""Predictions and votes from tables, matched by names of columns, items and classes.

They are never matched by position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import softmax

from credalset._typing import AnyArray, FloatArray, IntArray
from credalset.exceptions import need, warn
from credalset.io.tables import Table, as_texts, is_list, is_text, read_table
from credalset.votes.names import join_names, plural
from credalset.votes.tables import SYNONYMS

if TYPE_CHECKING:
    import pyarrow as pa

    from credalset.votes import Annotations

LOOKED_AT = 100  # cells that tell whether a column of texts holds numbers
#: columns of every table that ``predict`` writes, whose predictions begin with ``prediction_``
WRITTEN = {"alpha", "threshold", "empty"}
PREDICTION = "prediction_"


# --- which columns are read ---


class Reading(NamedTuple):
    """Columns to read, what they are called, and whether they hold texts.

    Attributes
    ----------
    columns : list of str
        As the table calls them.
    labels : tuple of str or None
        Classes or features that they stand for; None for a column of lists.
    texts : bool
        Whether the one column holds texts.
    """

    columns: list[str]
    labels: tuple[str, ...] | None
    texts: bool = False


def find_id(names: Sequence[str]) -> str:
    """Return the column that names the items: the first of a task's usual names in the table."""
    plain = {"".join(filter(str.isalnum, name.lower())): name for name in reversed(names)}
    known = ["".join(filter(str.isalnum, synonym)) for synonym in SYNONYMS["task"]]
    found = [plain[name] for name in known if name in plain]
    if not found:
        raise ValueError(
            "the table has no column with a usual name of the items "
            f"({', '.join(SYNONYMS['task'])}); it has "
            f"{join_names(names, 12)}. Name the column with id."
        )
    return found[0]


def choose_columns(
    schema: pa.Schema,
    taken: Collection[str | None] = (),
    columns: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    texts: bool | str | None = False,
) -> Reading:
    """Return the columns that hold predictions, features or texts.

    Parameters
    ----------
    schema : pyarrow schema
        Of the table.
    taken : names of columns
        Ids, groups, weights and others that are not to be read.
    columns : sequence of str, optional
        The columns, or the object of which each field is a column.
    classes : sequence, optional
        Classes of a calibration: their columns are read in their order. Without, all columns that
        are not taken.
    texts : bool or str
        Whether the model reads texts, and the name of their column where that is known; None if all
        are features.

    Examples
    --------
    >>> import pyarrow as pa
    >>> names = ["task", "probs.no", "probs.yes", "length"]
    >>> schema = pa.schema([(name, pa.float64()) for name in names])
    >>> choose_columns(schema, ["task"], classes=["yes", "no"])
    Reading(columns=['probs.yes', 'probs.no'], labels=('yes', 'no'), texts=False)
    """
    known = set(schema.names)
    free = [name for name in schema.names if name not in taken]
    starting = Counter(name.rpartition(".")[0] + "." for name in free if "." in name)
    objects = [
        start for start, n_fields in starting.items() if n_fields > 1
    ]  # a class may be called 0.5
    own = ["", *([PREDICTION] if known >= WRITTEN else []), *objects]
    starts = own if columns is None else [f"{name}." for name in columns]
    lists = [
        name
        for name in free
        if f"{name}.".startswith(tuple(starts)) and is_list(schema.field(name).type)
    ]
    wanted = [str(label) for label in classes or ()]
    start = ""
    if columns is not None and (len(starts) > 1 or starts[0] not in objects):
        found = list(columns)
    elif texts and columns is None:
        words = [name for name in free if is_text(schema.field(name).type)]
        found = [texts] if isinstance(texts, str) and texts in known else words
        if len(found) != 1:
            held = f"{len(found)} columns hold texts ({join_names(found)})"
            raise ValueError(
                f"the model reads texts, and {held}. Name the one to read with columns."
            )
    elif wanted:
        fitting = [each for each in starts if known.issuperset(each + label for label in wanted)]
        start = (fitting or starts)[0]
        found = lists if len(lists) == 1 and not fitting else [start + label for label in wanted]
    else:
        start = starts[-1] if len(starts) <= 2 and texts is not None else ""
        found = lists if len(lists) == 1 else [name for name in free if name.startswith(start)]
    missing = [name for name in found if name not in known]
    if missing or not found:
        raise ValueError(
            f"{len(missing)} of {len(found)} columns to read are missing (first: "
            f"{join_names(missing, 1)}); the table has {join_names(schema.names, 12)}. Rename its "
            "columns, or name those to read with columns."
        )
    labels = None if found == lists else tuple(name.removeprefix(start) for name in found)
    return Reading(found, labels, bool(texts))


# --- batches as names and numbers ---


class Batch:
    """A record batch without the rows that lack a needed value; ``strict`` refuses such rows."""

    def __init__(
        self,
        batch: pa.RecordBatch,
        needed: Sequence[str],
        where: str,
        first: int = 0,
        strict: bool = False,
    ):
        self.position = {name: i for i, name in enumerate(batch.schema.names)}
        missing = np.zeros(batch.num_rows, dtype=bool)
        for name in needed:
            column = batch.column(self.position[name])
            missing |= np.asarray(column.is_null()) if column.null_count else False
            if strict and missing.any():
                row = first + int(np.argmax(missing)) + 1
                raise ValueError(
                    f"{where} has no value in the column {name!r} in row {row}. Fill or drop it."
                )
        # rows and where are for messages
        self.rows = first + np.flatnonzero(~missing)
        self.where = where
        self.data = batch.filter(~missing) if missing.any() else batch

    def __len__(self) -> int:
        return int(self.data.num_rows)

    def column(self, name: str) -> pa.Array:
        """Return a column as it is."""
        return self.data.column(self.position[name])

    def read(self, reading: Reading) -> AnyArray:
        """Return the texts (N,) or numbers (N, number of columns) to read."""
        return (
            np.array(self.texts(reading.columns[0]), object)
            if reading.texts
            else self.numbers(reading.columns)
        )

    def extra(self, name: str, role: str) -> AnyArray:
        """Return weights as numbers, and groups or anything else as texts, (N,)."""
        return (
            self.numbers([name])[:, 0]
            if role == "weights"
            else np.array(self.texts(name), dtype=object)
        )

    def texts(self, name: str) -> list[str | None]:
        """Return names of items, groups or labels: texts as is, numbers as texts, None if empty."""
        import pyarrow as pa

        column = self.column(name)
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            raise ValueError(
                f"column {name!r} of {self.where} holds bytes. Save the table with texts in UTF-8."
            )
        return [text or None for text in as_texts(column)]

    def numbers(self, names: Sequence[str]) -> FloatArray:
        """Return columns, or one column of lists, as numbers (N, n_columns); texts are parsed."""
        columns = [self.column(name) for name in names]
        if len(columns) == 1 and is_list(columns[0].type):
            lengths = set(columns[0].value_lengths().to_pylist()) or {0}
            if len(lengths) > 1:
                raise ValueError(
                    f"column {names[0]!r} of {self.where} must hold lists of one length, but has "
                    f"lengths {min(lengths)} to {max(lengths)}."
                )
            (length,) = lengths
            return self._parse(columns[0].flatten(), names[0], max(1, length)).reshape(
                len(self), length
            )
        result = np.empty((len(self), len(columns)))
        for k, (name, column) in enumerate(zip(names, columns, strict=True)):
            result[:, k] = self._parse(column, name)
        return result

    def _parse(self, column: pa.Array, name: str, per_row: int = 1) -> FloatArray:
        import pyarrow as pa
        from pyarrow import compute

        kind = column.type
        what = f"column {name!r} of {self.where}"
        if column.null_count:
            raise ValueError(f"{what} has lists with missing numbers. Fill or drop such rows.")
        if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        seen = str(kind)
        if is_text(kind):
            texts = compute.utf8_trim_whitespace(column.cast(pa.string()))
            for each in (texts, compute.replace_substring(texts, ",", ".")):
                with suppress(pa.ArrowInvalid):
                    return np.asarray(each.cast(pa.float64()).to_numpy(zero_copy_only=False))
            place, text = next(
                (i, text) for i, text in enumerate(column.to_pylist()) if not is_number(text)
            )
            seen = f"{text!r} in row {self.rows[place // per_row] + 1}"
        raise ValueError(
            f"{what} must hold numbers, but holds {seen}. Correct it, or name the columns to read "
            "with columns, and the one that names the items with id."
        )


def is_number(text: str) -> bool:
    """Tell whether a text is a number, with a decimal point or comma."""
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return "_" not in text


# --- tables of items ---


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
    id : str
        Column that names the items.
    """

    items: tuple[str, ...]
    values: FloatArray
    names: tuple[str, ...] | None
    extra: dict[str, AnyArray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    id: str = "task"

    def __len__(self) -> int:
        return len(self.items)

    def take(self, rows: IntArray) -> ItemTable:
        """Return some of the rows."""
        extra = {role: column[rows] for role, column in self.extra.items()}
        return replace(
            self,
            items=tuple(self.items[row] for row in rows),
            values=self.values[rows],
            extra=extra,
        )

    def features(self) -> Any:
        """Return what a model is trained on and asked about, with names: a frame or a series.

        The series holds texts.
        """
        pandas = need("pandas", "A model of named features")
        if self.values.ndim == 1:
            return pandas.Series(
                self.values, self.items, name=(self.names or (None,))[0], dtype=object
            )
        return pandas.DataFrame(self.values, self.items, self.names)


def read_items(
    path: str,
    *,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    logits: bool = False,
    extra: Mapping[str, str] | None = None,
    classes: Sequence[Any] | None = None,
    texts: bool | str | None = False,
    strict: bool = False,
) -> ItemTable:
    """Read a table of items into memory, see `read_table`: predictions, features, or texts.

    Parameters
    ----------
    id : str, optional
        Column that names the items; by default the first that has a usual name of a task.
    columns, classes, texts
        As in `choose_columns`. Where neither columns nor classes are given, columns of words are
        left out; with ``texts=None`` the only one is read as texts, if there are no numbers.
    logits : bool
        Whether to apply a softmax.
    extra : dict
        Further columns by what they are used for: ``groups``, ``weights`` (numbers), or anything
        else (texts).
    strict : bool
        Refuse rows without a value that is needed, instead of leaving them out.
    """
    table = read_table(path)
    extra = extra or {}
    id = find_id(table.schema.names) if id is None else id
    for role, name in {"id": id, **extra}.items():
        if name not in table.schema.names:
            has = join_names(table.schema.names, 12)
            raise ValueError(
                f"{role} names the column {name!r}, which {path} does not have; it has {has}."
            )
    taken = [id, *(column for role, column in extra.items() if role != "texts")]
    try:
        reading = choose_columns(table.schema, taken, columns, classes, texts)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    data = list(table.batches)
    notes = []
    if data and columns is None and classes is None and not reading.texts:
        free = reading.columns
        reading = _without_words(Batch(data[0], (), path), reading, may_be_texts=texts is None)
        kept = set(reading.columns)
        words = [name for name in free if name not in kept]
        notes = [f"columns of words were left out: {join_names(words)}."] if words else []
    needed = [
        id,
        *reading.columns,
        *(column for role, column in extra.items() if role in ("groups", "weights")),
    ]
    starts = list(accumulate((each.num_rows for each in data), initial=0))
    batches = [
        Batch(each, needed, path, first, strict) for each, first in zip(data, starts, strict=False)
    ]
    items = tuple(str(item) for batch in batches for item in batch.texts(id))
    if not items:
        raise ValueError(f"{path} has no rows with values in {join_names(needed)}.")
    n_empty = starts[-1] - len(items)
    notes += [f"{plural(n_empty, 'row')} of {path} without a value left out."] if n_empty else []
    twice = [item for item, n in Counter(items).items() if n > 1]
    if twice:
        which = (
            f"{plural(len(twice), 'item')} more than once in the column {id!r} (first: "
            f"{join_names(twice)})"
        )
        raise ValueError(f"{path} names {which}. Each item needs one row.")
    values = np.concatenate([batch.read(reading) for batch in batches])
    more = {
        role: np.concatenate([batch.extra(name, role) for batch in batches])
        for role, name in extra.items()
    }
    return ItemTable(
        items, softmax(values, axis=1) if logits else values, reading.labels, more, tuple(notes), id
    )


def _without_words(batch: Batch, reading: Reading, may_be_texts: bool) -> Reading:
    """Leave out columns of texts of which none is a number.

    If no other is left, the only one is what is read.
    """
    some = {name: batch.column(name).drop_null()[:LOOKED_AT] for name in reading.columns}
    words = [
        n
        for n, cells in some.items()
        if is_text(cells.type) and not any(map(is_number, cells.to_pylist()))
    ]
    if len(words) < len(some):
        labels = zip(reading.columns, reading.labels or (), strict=False)
        left_out = set(words)
        kept = {name: label for name, label in labels if name not in left_out}
        return Reading(list(kept), tuple(kept.values())) if words else reading
    if may_be_texts and len(words) == 1:
        return Reading(words, tuple(words), texts=True)
    raise ValueError(
        f"no column holds numbers: {join_names(words)} hold words. Name the columns with columns."
    )


# --- votes beside them ---


@dataclass(frozen=True)
class Matched:
    """Items that both tables know, in the order of the first.

    Attributes
    ----------
    table : ItemTable
        Their predictions, features or texts.
    votes : Annotations
        Their votes, over the classes in the order of the predictions, with scale, workers and
        origin as they were.
    notes : list of str
        What was left out, in sentences.
    """

    table: ItemTable
    votes: Annotations
    notes: list[str]


def match(
    table: ItemTable, votes: Annotations, *, by_class: bool = True, keep_unvoted: bool = False
) -> Matched:
    """Match items by name, and with ``by_class`` prediction columns with classes of the votes.

    Items of the table without votes are left out, or with ``keep_unvoted`` kept with none. What
    does not match is counted and named in the notes; it is an error only if nothing is left.
    """
    if votes.items is None:
        raise ValueError(
            "votes have no names of items, so they cannot be matched with a table. Give "
            "them names (items)."
        )
    votes = votes.drop_empty()
    voted = tuple(map(str, votes.items or ()))
    known = set(voted)
    asked = set(table.items)
    here = np.flatnonzero([item in known for item in table.items])
    without = [item for item in table.items if item not in known]
    idle = [item for item in voted if item not in asked]
    fate = "kept" if keep_unvoted else "left out"
    notes = [*table.notes]
    notes += (
        [f"{plural(len(without), 'item')} without votes {fate} (first: {join_names(without)})."]
        if without
        else []
    )
    notes += [_without_row(idle)] if idle else []
    if not len(here):
        raise ValueError(
            f"no item is in both tables: {plural(len(table), 'row')} such as "
            f"{join_names(table.items, 2)}, votes on {plural(len(votes), 'item')} such as "
            f"{join_names(voted, 2)}. Check which columns name the items: id, and task of the "
            "votes."
        )
    table = table if keep_unvoted else table.take(here)
    found = replace(replace(votes, items=voted).align(table.items), notes=votes.notes)
    return Matched(table, _in_class_order(found, table) if by_class else found, notes)


def _without_row(idle: Sequence[str]) -> str:
    return (
        f"votes on {plural(len(idle), 'item')} without a row left out (first: {join_names(idle)})."
    )


def _in_class_order(votes: Annotations, table: ItemTable) -> Annotations:
    own = tuple(map(str, votes.classes or range(votes.n_classes)))
    votes = replace(votes, classes=own)
    if table.names is None and len(own) != table.values.shape[1]:
        raise ValueError(
            f"predictions are lists of {table.values.shape[1]} numbers, but votes name "
            f"{len(own)} classes "
            f"({join_names(own)}). Give one column per class, so that they can be matched by name."
        )
    return votes.reorder(table.names or own)


def with_votes(table: Table, votes: Annotations, id: str, classes: Any, name: str) -> Table:
    """Add a column with the counts of each item, a list in the order of the classes.

    Items without votes have zeros.
    """
    import pyarrow as pa

    if name in table.schema.names:
        raise ValueError(f"the predictions have a column {name!r} already. Rename it.")
    if classes is None:
        raise ValueError(
            "the calibration has no names of classes, so votes cannot be matched. Calibrate "
            "with names."
        )
    ordered = votes.reorder([str(c) for c in classes])
    counts = dict(zip(map(str, ordered.items or ()), ordered.counts.tolist(), strict=True))
    idle = set(counts)
    nothing = [0] * len(classes)
    schema = table.schema.append(pa.field(name, pa.list_(pa.int64())))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.batches:
            items = Batch(batch, (), "the predictions").texts(id)
            lists = [counts.get(item or "", nothing) for item in items]
            idle.difference_update(items)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(lists, schema.types[-1])], schema=schema
            )
        if len(idle) == len(counts):
            raise ValueError(
                f"no item of the votes is among the predictions (first: {join_names(counts)})."
            )
        if idle:
            warn(_without_row(sorted(idle)))

    return Table(schema, batches())
