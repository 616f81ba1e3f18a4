"""Tables of items: which columns hold predictions, features or texts, and the rows as a frame.

A column is the class that its header names, never the class at its position. Votes are matched with
the rows by `credalset._batch`, as everywhere.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import softmax

from credalset._display import join_names, plural
from credalset._typing import AnyArray, FloatArray, IntArray
from credalset.exceptions import need, warn
from credalset.io.tables import Table, as_texts, is_list, is_number, is_text, read_table
from credalset.votes import Annotations
from credalset.votes.tables import SYNONYMS, find_usual

if TYPE_CHECKING:
    import pyarrow as pa

LOOKED_AT = 100  # cells that tell whether a column of texts holds numbers
ROUNDING = 1e-5  # by which sums of 32-bit numbers are off
UNEXPLAINED = 0.1  # share of what rows lack that a column may leave, as it is rounded, too
#: columns of every table that ``predict`` writes
WRITTEN = {"alpha", "threshold", "empty"}
#: how its columns of predictions begin
PREDICTION = "prediction_"
#: a further one, if a classifier predicted: whether it was trained on the item
TRAINED = "trained"


# --- which columns are read ---


class Selection(NamedTuple):
    """Columns to read, and what they stand for.

    Attributes
    ----------
    columns : list of str
        As the table calls them.
    labels : tuple of str or None
        Classes or features that they stand for; None for a column of lists without names.
    texts : bool
        Whether the one column holds texts.
    kinds : tuple of str or None
        What each column is read as: number, category or text; None if all are numbers.
    optional : bool
        Whether the columns may have missing values, because the model fills them in.
    decide : callable or None
        What decides about the columns by their cells, as nobody said what they are: it is called
        with the batches, the selection and the path, and returns a selection and notes.
    spare : tuple of str
        Columns beside those of the classes of a calibration, among which none may be a class.
    """

    columns: list[str]
    labels: tuple[str, ...] | None
    texts: bool = False
    kinds: tuple[str, ...] | None = None
    optional: bool = False
    decide: Callable[..., tuple[Selection, list[str]]] | None = None
    spare: tuple[str, ...] = ()


#: selects columns of a table with a schema, except those that are taken
Select = Callable[["pa.Schema", Collection[str | None]], Selection]


def find_id(names: Sequence[str]) -> str:
    """Return the column that names the items: the first of the usual names that the table has."""
    found = find_usual(names, "task")
    if found is None:
        raise ValueError(
            "the table has no column with a usual name of the items "
            f"({', '.join(SYNONYMS['task'])}); it has {join_names(names, 12)}. Say which one "
            "names the items with id (--id)."
        )
    return str(found)


def select_texts(
    schema: pa.Schema, taken: Collection[str | None] = (), name: str | None = None
) -> Selection:
    """Select the column of texts that a model reads: by its name, or the only one."""
    words = [field.name for field in schema if field.name not in taken and is_text(field.type)]
    if name is not None and name in schema.names:
        words = [name]
    if len(words) != 1:
        raise ValueError(
            f"the model reads texts, and {len(words)} columns hold texts ({join_names(words)}). "
            "Name the one to read: columns=…"
        )
    return Selection(words, tuple(words), True)


def select_features(
    schema: pa.Schema,
    taken: Collection[str | None] = (),
    columns: Sequence[str] | None = None,
) -> Selection:
    """Select columns of features by name, or all that are not taken."""
    if columns is None:
        free = [name for name in schema.names if name not in taken]
        refuse_missing(schema, free)
        return Selection(free, tuple(free), decide=_without_words)
    refuse_missing(schema, columns)
    return Selection(list(columns), tuple(columns))


def select_known(
    schema: pa.Schema,
    taken: Collection[str | None] = (),
    *,
    names: Sequence[str],
    columns: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    optional: bool = False,
) -> Selection:
    """Select the features of a model by their names; ``header=feature`` is one under another name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema = pa.schema([("id", pa.string()), ("Alter", pa.int64()), ("size", pa.int64())])
    >>> select_known(schema, names=["age", "size"], columns=["Alter=age"]).columns
    ['Alter', 'size']
    """
    headers: dict[str, str] = {}
    for column in columns or ():
        header, label = _header_and_class(column, set(schema.names))
        headers[label or header] = header
    unknown = [label for label in headers if label not in names]
    if unknown:
        raise ValueError(
            f"columns names {unknown[0]!r}, which is no feature of the model. It reads "
            f"{join_names(names, 12)}; one that has another name is given as header=feature."
        )
    found = [headers.get(name, name) for name in names]
    refuse_missing(schema, found)
    return Selection(
        found, tuple(names), kinds=None if kinds is None else tuple(kinds), optional=optional
    )


def select_predictions(
    schema: pa.Schema,
    taken: Collection[str | None] = (),
    columns: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
) -> Selection:
    """Select the columns of predictions; each stands for the class that its header names.

    The class is the whole header, the last part of a dotted path, or what follows ``prediction_``
    in a table that ``predict`` wrote.

    Parameters
    ----------
    schema : pyarrow schema
        Of the table.
    taken : names of columns
        Ids, groups, weights and others that are not to be read.
    columns : sequence of str, optional
        The columns; ``header=class`` where a header names no class; an object of which each field
        is a column; or a column of lists, ``header=first|second|third`` to name its entries.
    classes : sequence, optional
        Classes of a calibration: their columns are selected in their order. Without, all columns
        that are not taken.

    Examples
    --------
    >>> import pyarrow as pa
    >>> names = ("task", "probs.no", "probs.yes", "length")
    >>> schema = pa.schema([(name, pa.float64()) for name in names])
    >>> select_predictions(schema, ["task"], classes=["yes", "no"]).columns
    ['probs.yes', 'probs.no']
    >>> select_predictions(schema, ["task"], ["length=yes", "probs.no"], ["no", "yes"]).columns
    ['probs.no', 'length']
    """
    free = [name for name in schema.names if name not in taken]
    if classes is None:
        return _select_predictions(schema, free, columns, None)
    found = _select_predictions(schema, free, columns, [str(label) for label in classes])
    return found._replace(spare=tuple(name for name in free if name not in found.columns))


def _select_predictions(
    schema: pa.Schema, free: list[str], columns: Sequence[str] | None, wanted: list[str] | None
) -> Selection:
    if columns is not None:
        return _select_named(schema, columns, wanted)
    starts = ["", *_starts(schema, free)]
    lists = [name for name in free if is_list(schema.field(name).type)]
    if wanted is not None:
        known = set(schema.names)
        for start in starts:
            if known.issuperset(start + label for label in wanted):
                return Selection([start + label for label in wanted], tuple(wanted))
        if len(lists) == 1:
            return Selection(lists, None)
        missing = [label for label in wanted if starts[0] + label not in known]
        raise ValueError(
            f"no column is called {join_names(missing)}, as the classes are; the table has "
            f"{join_names(schema.names, 12)}. Say which columns hold them: --columns "
            f"{columns_of_classes(free, wanted)}"
        )
    if len(lists) == 1:
        return Selection(lists, None)
    start = starts[-1] if len(starts) <= 2 else ""
    found = [name for name in free if name.startswith(start)]
    if not found:
        refuse_missing(schema, found)
    labels = tuple(name.removeprefix(start) for name in found)
    return Selection(found, labels, decide=_without_words)


def columns_of_classes(headers: Sequence[str], classes: Sequence[str]) -> str:
    """Return columns for an option: for each class the only header that holds its name.

    Examples
    --------
    >>> columns_of_classes(["id", "p(good)", "p(bad)"], ["bad", "good", "ugly"])
    "'p(bad)=bad,p(good)=good,…=ugly'"
    """
    found = []
    for label in classes:
        holding = [header for header in headers if label.casefold() in header.casefold()]
        header = holding[0] if len(holding) == 1 else "…"
        found.append(label if label in headers else f"{header}={label}")
    return shlex.quote(",".join(f'"{each}"' if "," in each else each for each in found))


def _starts(schema: pa.Schema, free: Sequence[str]) -> list[str]:
    """Return what headers of predictions may begin with: ``prediction_``, or objects."""
    starts = [PREDICTION] if set(schema.names) >= WRITTEN else []
    sizes = Counter(name.rpartition(".")[0] + "." for name in free if "." in name)
    # A class may be called 0.5, so that one dotted name is no object.
    return [*starts, *(start for start, n_fields in sizes.items() if n_fields > 1)]


def _select_named(schema: pa.Schema, columns: Sequence[str], wanted: list[str] | None) -> Selection:
    """Select columns that are given by their headers."""
    known = set(schema.names)
    given = [_header_and_class(column, known) for column in columns]
    if len(given) == 1:
        header, label = given[0]
        fields = [name for name in schema.names if name.startswith(f"{header}.")]
        if header not in known and fields and label is None:
            given = [(name, None) for name in fields]
        elif header in known and is_list(schema.field(header).type):
            return _select_list(header, label, wanted)
    refuse_missing(schema, [header for header, _ in given])
    labels = _classes_of(given, wanted)
    if wanted is None:
        return Selection([header for header, _ in given], tuple(labels))
    position = {label: header for (header, _), label in zip(given, labels, strict=True)}
    missing = [label for label in wanted if label not in position]
    if missing or len(labels) != len(wanted):
        twice = [label for label, number in Counter(labels).items() if number > 1]
        fault = f"none for {join_names(missing)}" if missing else f"several for {join_names(twice)}"
        raise ValueError(
            f"columns must name one column per class ({join_names(wanted, 12)}), but names "
            f"{fault}. A header that names no class is given as header=class."
        )
    return Selection([position[label] for label in wanted], tuple(wanted))


def _header_and_class(column: str, known: Collection[str]) -> tuple[str, str | None]:
    """Divide ``header=class``; a header may hold the sign itself."""
    header, sign, label = column.rpartition("=")
    if not sign or column in known:
        return column, None
    return header, label


def _select_list(header: str, label: str | None, wanted: list[str] | None) -> Selection:
    """Select a column of lists, whose entries may be named."""
    if label is None:
        return Selection([header], None)
    names = tuple(label.split("|"))
    if wanted is not None and list(names) != wanted:
        raise ValueError(
            f"columns names the entries of {header!r} {join_names(names, 12)}, but the classes of "
            f"the calibration are {join_names(wanted, 12)}, in this order. Write one column per "
            "class, which are matched by name."
        )
    return Selection([header], names)


def _classes_of(given: Sequence[tuple[str, str | None]], wanted: list[str] | None) -> list[str]:
    """Return the class of each header."""
    headers = [header for header, label in given if label is None]
    starts = {header.rpartition(".")[0] for header in headers}
    shared = f"{starts.pop()}." if len(starts) == 1 and len(headers) > 1 else ""
    if shared in ("", "."):
        shared = PREDICTION if all(name.startswith(PREDICTION) for name in headers) else ""
    labels = []
    for header, label in given:
        names = [header, header.rpartition(".")[2], header.removeprefix(PREDICTION)]
        if label is None and wanted is not None:
            fitting = [name for name in names if name in wanted]
            if not fitting:
                raise ValueError(
                    f"columns names {header!r}, which is none of the classes "
                    f"({join_names(wanted, 12)}). Write {header}=class with the class that it "
                    "holds."
                )
            label = fitting[0]
        labels.append(header.removeprefix(shared) if label is None else label)
    return labels


def refuse_missing(schema: pa.Schema, wanted: Sequence[str]) -> None:
    """Refuse columns that a table does not have."""
    known = set(schema.names)
    missing = [name for name in wanted if name not in known]
    if missing or not wanted:
        has_comma = any("," in name for name in schema.names)
        comma = " (a name with a comma in double quotes: '\"a, b\",c')" if has_comma else ""
        raise ValueError(
            f"{len(missing)} of {len(wanted)} columns to read are missing (first: "
            f"{join_names(missing, 1)}); the table has {join_names(schema.names, 12)}. Rename its "
            f"columns, or name those to read with columns{comma}."
        )


# --- batches as names and numbers ---


class Records:
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

    def read(self, selection: Selection) -> Any:
        """Return the texts (N,), the numbers (N, number of columns), or a frame of both."""
        if selection.texts:
            return np.array(self.texts(selection.columns[0]), object)
        if selection.kinds is None:
            return self.numbers(selection.columns, optional=selection.optional)
        pandas = need("pandas", "A model of named features")
        kinds = dict(zip(selection.columns, selection.kinds, strict=True))
        cells = {name: self._feature(name, kind) for name, kind in kinds.items()}
        frame = pandas.DataFrame(cells, index=range(len(self)))
        return frame.set_axis(list(selection.labels or selection.columns), axis=1)

    def _feature(self, name: str, kind: str) -> Any:
        """Return a column as a model reads it; of texts, a missing one is empty."""
        if kind == "number":
            return self.numbers([name], optional=True)[:, 0]
        texts = np.array([text or "" for text in self.texts(name)], dtype=object)
        return need("pandas").Categorical(texts) if kind == "category" else texts

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

    def numbers(self, names: Sequence[str], *, optional: bool = False) -> FloatArray:
        """Return columns, or one column of lists, as numbers (N, n_columns); texts are parsed.

        Missing numbers are NaN if they are optional.
        """
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
            result[:, k] = self._parse(column, name, optional=optional)
        return result

    def _parse(
        self, column: pa.Array, name: str, per_row: int = 1, *, optional: bool = False
    ) -> FloatArray:
        import pyarrow as pa
        from pyarrow import compute

        kind = column.type
        what = f"column {name!r} of {self.where}"
        if column.null_count and not optional:
            raise ValueError(f"{what} has lists with missing numbers. Fill or drop such rows.")
        if pa.types.is_boolean(kind):
            column = column.cast(pa.uint8())
            kind = column.type
        if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        seen = str(kind)
        if is_text(kind):
            texts = compute.utf8_trim_whitespace(column.cast(pa.string()))
            for each in (texts, compute.replace_substring(texts, ",", ".")):
                with suppress(pa.ArrowInvalid):
                    return np.asarray(each.cast(pa.float64()).to_numpy(zero_copy_only=False))
            place, text = next(
                (i, text)
                for i, text in enumerate(column.to_pylist())
                if text is not None and not is_number(text)
            )
            seen = f"{text!r} in row {self.rows[place // per_row] + 1}"
        raise ValueError(
            f"{what} must hold numbers, but holds {seen}. Correct it, or name the columns to read "
            "with columns, and the one that names the items with id."
        )


def refuse_extra_class(records: Records, selection: Selection, values: FloatArray) -> None:
    """Refuse predictions that lack what another column of the table holds: a class left out.

    Rows that sum to one within 0.02 are normalised, because people round. But if a column holds
    what the rows lack, they were not rounded: it is a class that the calibration does not know.
    """
    lacking = 1.0 - values.sum(axis=1)
    if not selection.spare or not len(values) or np.abs(lacking).max() <= ROUNDING:
        return
    unexplained = UNEXPLAINED * np.abs(lacking).sum()
    candidates: dict[str, FloatArray] = {}
    for name in selection.spare:
        with suppress(ValueError):  # not a column of numbers
            numbers = records.numbers([name])
            is_share = numbers.shape[1] == 1 and (numbers >= 0.0).all() and (numbers <= 1.0).all()
            # A class has no more than what is lacking, also where another class has the rest.
            if is_share and np.maximum(numbers[:, 0] - lacking, 0.0).sum() <= unexplained:
                candidates[name] = numbers[:, 0]
    together = sum(candidates.values(), start=np.zeros(len(values)))
    for names, mass in [
        *(([name], mass) for name, mass in candidates.items()),
        (list(candidates), together),
    ]:
        if np.abs(lacking - mass).sum() <= unexplained:
            raise ValueError(
                f"{records.where}: rows sum to one only with {join_names(names)}, but the classes "
                f"of the calibration are {join_names(selection.labels or (), 12)}. Calibrate with "
                "all classes, or add the column to the class that it belongs to."
            )


# --- tables of items ---


@dataclass(frozen=True)
class ItemTable:
    """Items with a prediction per class, or with features, or with a text each.

    Attributes
    ----------
    items : tuple of str
        Names of the rows.
    values : ndarray of shape (n, number of columns) or (n,), or data frame
        The numbers, the texts, or columns of both.
    names : tuple of str or None
        Classes or features; None if the numbers came as lists.
    extra : dict of arrays (n,)
        Further columns that were asked for, by what they are used for, such as groups and weights.
    notes : tuple of str
        What was left out.
    id : str
        Column that names the items.
    kinds : tuple of str
        What each column is, number, category or text, if the table holds features.
    headers : tuple of str
        The columns as the table calls them.
    """

    items: tuple[str, ...]
    values: Any
    names: tuple[str, ...] | None
    extra: dict[str, AnyArray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    id: str = "task"
    kinds: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def take(self, rows: IntArray) -> ItemTable:
        """Return some of the rows."""
        extra = {role: column[rows] for role, column in self.extra.items()}
        return replace(
            self,
            items=tuple(self.items[row] for row in rows),
            values=self.values.iloc[rows] if hasattr(self.values, "iloc") else self.values[rows],
            extra=extra,
        )

    def frame(self) -> Any:
        """Return what a model is trained on and asked about, with names: a frame or a series.

        The series holds texts.
        """
        pandas = need("pandas", "A model of named features")
        if hasattr(self.values, "iloc"):
            return self.values.set_axis(list(self.items))
        if self.values.ndim == 1:
            return pandas.Series(
                self.values, self.items, name=(self.names or (None,))[0], dtype=object
            )
        return pandas.DataFrame(self.values, self.items, self.names)


def read_items(
    path: str,
    select: Select = select_predictions,
    *,
    id: str | None = None,
    logits: bool = False,
    extra: Mapping[str, str] | None = None,
    strict: bool = False,
) -> ItemTable:
    """Read a table of items into memory, see `read_table`: predictions, features, or texts.

    Parameters
    ----------
    select : callable
        Selects the columns. Where nobody named those of predictions, columns of words are left out.
    id : str, optional
        Column that names the items; by default the first that has a usual name of a task.
    logits : bool
        Whether to apply a softmax.
    extra : dict
        Further columns by what they are used for: ``groups``, ``weights`` (numbers), or anything
        else (texts).
    strict : bool
        Refuse rows without a value that is needed, instead of leaving them out.
    """
    table = read_table(path, whole=True)
    extra = extra or {}
    id = find_id(table.schema.names) if id is None else id
    if {TRAINED, *WRITTEN} <= set(table.schema.names):
        extra = {**extra, TRAINED: TRAINED}
    for role, name in {"id": id, **extra}.items():
        if name not in table.schema.names:
            has = join_names(table.schema.names, 12)
            raise ValueError(
                f"{role} names the column {name!r}, which {path} does not have; it has {has}."
            )
    taken = [id, *(column for role, column in extra.items() if role != "texts")]
    try:
        selection = select(table.schema, taken)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    data = list(table.batches)
    notes: list[str] = []
    if data and selection.decide is not None:
        selection, notes = selection.decide(data, selection, path)
    needed = [id, *(() if selection.optional and not strict else selection.columns)]
    needed += [column for role, column in extra.items() if role in ("groups", "weights")]
    starts = accumulate((each.num_rows for each in data), initial=0)
    parts = [
        Records(each, needed, path, first, strict)
        for each, first in zip(data, starts, strict=False)
    ]
    items = tuple(str(item) for part in parts for item in part.texts(id))
    if not items:
        raise ValueError(f"{path} has no rows with values in {join_names(needed)}.")
    n_empty = sum(each.num_rows for each in data) - len(items)
    if n_empty:
        notes.append(f"{plural(n_empty, 'row')} of {path} without a value left out.")
    if selection.kinds is None:
        refuse_repeated(items, path, id)
    read = [part.read(selection) for part in parts]
    if selection.kinds is None:
        values: Any = np.concatenate(read)
    else:
        values = need("pandas").concat(read, ignore_index=True)
    more = {
        role: np.concatenate([part.extra(name, role) for part in parts])
        for role, name in extra.items()
    }
    if logits:
        values = softmax(values, axis=1)
    elif selection.spare:
        for part, numbers in zip(parts, read, strict=True):
            refuse_extra_class(part, selection, numbers)
    kinds = selection.kinds or ()
    headers = tuple(selection.columns)
    found = ItemTable(items, values, selection.labels, more, tuple(notes), id, kinds, headers)
    return found if selection.kinds is None else _once_each(found, path)


def _once_each(table: ItemTable, path: str) -> ItemTable:
    """Take rows that say the same of an item once; with a row per vote, texts are repeated."""
    whole = table.frame().assign(**table.extra).reset_index(names="\0item")
    is_first = ~whole.duplicated().to_numpy()
    if is_first.all():
        refuse_repeated(table.items, path, table.id)
        return table
    refuse_repeated([table.items[row] for row in np.flatnonzero(is_first)], path, table.id)
    more = plural(int((~is_first).sum()), "row")
    note = f"{more} of {path} that repeat what others say of the same item left out."
    return replace(table.take(np.flatnonzero(is_first)), notes=(*table.notes, note))


def refuse_repeated(items: Sequence[str], path: str, id: str) -> None:
    """Refuse a table that names an item twice."""
    twice = [item for item, number in Counter(items).items() if number > 1]
    if twice:
        raise ValueError(
            f"{path} names {plural(len(twice), 'item')} more than once in the column {id!r} "
            f"(first: {join_names(twice)}). Each item needs one row."
        )


def _without_words(
    data: Sequence[pa.RecordBatch], selection: Selection, path: str
) -> tuple[Selection, list[str]]:
    """Leave out columns of texts of which none is a number, and say so."""
    records = Records(data[0], (), path)
    words = [name for name in selection.columns if _holds_words(records.column(name))]
    if not words:
        return selection, []
    labels = dict(zip(selection.columns, selection.labels or (), strict=False))
    left_out = set(words)
    kept = [name for name in selection.columns if name not in left_out]
    if not kept:
        hold = "holds" if len(words) == 1 else "hold"
        raise ValueError(
            f"no column of {path} holds numbers: {join_names(words)} {hold} words. Name the "
            "columns: columns=…"
        )
    note = f"columns of words were left out: {join_names(words)}."
    return Selection(kept, tuple(labels[name] for name in kept)), [note]


def _holds_words(column: pa.Array) -> bool:
    cells = column.drop_null()[:LOOKED_AT]
    return is_text(cells.type) and not any(map(is_number, cells.to_pylist()))


# --- votes beside them ---


class Voted(NamedTuple):
    """Items that have votes, and what was left out, in sentences."""

    table: ItemTable
    notes: list[str]


def select_voted(table: ItemTable, votes: Annotations, *, keep: bool = False) -> Voted:
    """Return the items of a table that have votes, or with ``keep`` all; say what has none.

    It is an error only if no item has votes.
    """
    if votes.items is None:
        raise ValueError(
            "votes have no names of items, so they cannot be matched with a table. Give them "
            "names (items)."
        )
    voted = votes.drop_empty().items or ()
    known = set(voted)
    asked = set(table.items)
    without = [item for item in table.items if item not in known]
    idle = [item for item in voted if item not in asked]
    notes = [*table.notes]
    if without:
        fate = "kept" if keep else "left out"
        notes.append(
            f"{plural(len(without), 'item')} without votes {fate} (first: {join_names(without)})."
        )
    if idle:
        notes.append(_without_row(idle))
    if len(without) == len(table):
        raise ValueError(
            f"no item is in both tables: {plural(len(table), 'row')} such as "
            f"{join_names(table.items, 2)}, votes on {plural(len(voted), 'item')} such as "
            f"{join_names(voted, 2)}. Check which columns name the items: id, and task of the "
            "votes."
        )
    if keep:
        return Voted(table, notes)
    rows = np.flatnonzero([item in known for item in table.items])
    return Voted(table.take(rows), notes)


def _without_row(idle: Sequence[str]) -> str:
    items = plural(len(idle), "item")
    return f"votes on {items} without a row left out (first: {join_names(idle)})."


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
            items = Records(batch, (), "the predictions").texts(id)
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
