"""Read vote tables and name lists: the untidy half of `credalset.annotations`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from credalset._typing import ArrayLike, BoolArray, FloatArray, IntArray

Names = Iterable[Hashable]

# Recovered counts may miss a whole number by this much. A wrong n_votes misses by at least 1 / (true votes),
# so mistakes are noticed up to a thousand votes per item, while float32 frequencies still pass.
WHOLE_TOLERANCE = 1e-3
LARGEST_EXACT_COUNT = 2.0**53
TABLES = "a pandas, polars or pyarrow table, a dict of columns, or a list of (task, worker, label) tuples"


@dataclass(frozen=True)
class Column:
    """A column as codes into its distinct values, which stand in order of first appearance."""

    name: str
    codes: IntArray
    values: list[Any]

    @classmethod
    def encode(cls, name: str, column: Any) -> Column:
        """Number the values of a column in order of first appearance."""
        entries = as_list(column)
        try:
            code = {value: number for number, value in enumerate(dict.fromkeys(entries))}
        except TypeError as error:
            raise TypeError(f"{name} holds values that do not hash ({error}). Use numbers or strings.") from None
        return cls(name, np.fromiter(map(code.__getitem__, entries), np.int64, len(entries)), list(code))

    @property
    def missing(self) -> BoolArray:
        """Which rows hold no value."""
        absent = np.fromiter(map(is_missing, self.values), np.bool_, len(self.values))
        return absent[self.codes]

    def present(self) -> list[Any]:
        """Return the values that occur, in order of first appearance."""
        return [value for value in self.values if not is_missing(value)]

    def filter(self, kept: BoolArray, bad: BoolArray, option: str, fault: str, advice: str) -> BoolArray:
        """Drop the bad rows, or report them if the option says so; rows already dropped are not reported."""
        if option == "error" and (kept & bad).any():
            row = int((kept & bad).argmax())
            raise ValueError(
                f"The {self.name} column has {(kept & bad).sum()} value(s) {fault} (first: "
                f"{self.values[self.codes[row]]!r} in row {row}). {advice}='drop' to leave these rows out."
            )
        return kept & ~bad


def check_option(value: object, name: str, options: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the options."""
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, but is {value!r}.")


def find_columns(table: Any, task: Hashable, worker: Hashable | None, label: Hashable) -> dict[str, Any]:
    """Pick the columns under the names task, worker (if there is one) and label."""
    if isinstance(table, str) or not hasattr(table, "__len__"):
        raise TypeError(f"table cannot be a {type(table).__name__}. Pass {TABLES}; collect a lazy frame first.")
    if not (isinstance(table, Mapping) or hasattr(table, "columns")):
        table = columns_of_rows(table, task, worker, label)
    available = list(table if isinstance(table, Mapping) else getattr(table, "column_names", table.columns))
    wanted = {"task": task, "worker": worker, "label": label}
    if worker is None or (worker == "worker" and worker not in available):
        del wanted["worker"]
    for argument, name in wanted.items():
        if name not in available:
            raise ValueError(f"table has no column {name!r}, only {available}. Name the right one: {argument}=...")
    columns = {argument: table[name] for argument, name in wanted.items()}
    for argument, column in columns.items():
        if getattr(column, "ndim", 1) != 1:
            raise ValueError(f"{argument}={wanted[argument]!r} must name one column with one value per row.")
    lengths = {argument: len(column) for argument, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"table must have columns of one length, but they have {lengths}.")
    return columns


def columns_of_rows(rows: Any, *names: Hashable) -> dict[Hashable, Any]:
    """Turn a list of tuples into columns."""
    widths = {len(row) if isinstance(row, tuple | list | np.ndarray) else 0 for row in rows} or {3}
    if widths not in ({2}, {3}):
        raise ValueError(
            f"table is a {type(rows).__name__} whose elements are not all rows of 3 (or 2, without worker) values. "
            f"Pass {TABLES}."
        )
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return dict(zip(names if len(columns) == 3 else names[::2], columns, strict=True))


def as_list(column: Any) -> list[Any]:
    """Turn a column of any library into a list of Python values; nulls become None, NaN, NaT or NA."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "mM":
        return list(column)  # tolist would turn nanosecond times into bare integers
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(column, method):
            values: list[Any] = getattr(column, method)()
            return values
    return list(column)


def is_missing(value: Any) -> bool:
    """Tell whether a value is None, NaN, NaT or another stand-in for no value."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # only pandas.NA refuses to say whether it differs from itself
        return True


def default_classes(raw: Any, column: Column) -> list[Any]:
    """Return the category order that the label column carries, else its labels sorted."""
    categories = getattr(getattr(raw, "dtype", None), "categories", None)
    if categories is not None and hasattr(categories, "__len__"):
        return as_list(categories)
    if getattr(getattr(raw, "type", None), "ordered", False) and len(raw):
        unified = raw.unify_dictionaries().chunk(0) if hasattr(raw, "unify_dictionaries") else raw
        return as_list(unified.dictionary)
    try:
        return sorted(column.present())
    except TypeError:
        kinds = ", ".join(sorted({type(value).__name__ for value in column.present()}))
        raise TypeError(
            f"The label column mixes types that have no common order ({kinds}). "
            "Convert the labels to one type, or pass classes=[...] in the order you want."
        ) from None


def as_names(names: Names, argument: str) -> tuple[Hashable, ...]:
    """Check that names are distinct and present."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise TypeError(f"{argument} must be a list of names, but is {names!r}.")
    column = Column.encode(argument, names if hasattr(names, "__len__") else list(names))
    if column.missing.any():
        raise ValueError(f"{argument} contains a missing value (None or NaN). Give every one of them a name.")
    if len(column.values) < len(column.codes):
        repeated = column.values[int(np.argmax(np.bincount(column.codes) > 1))]
        raise ValueError(f"{argument} must be distinct, but {repeated!r} occurs more than once.")
    return tuple(column.values)


def positions(values: Iterable[Any], names: Iterable[Hashable]) -> IntArray:
    """Place each value among the names, at -1 where it is none of them."""
    position = {name: number for number, name in enumerate(names)}
    return np.array([position.get(value, -1) for value in values], dtype=np.int64)


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


def align(own: Names | None, wanted: Names | None, argument: str, size: int) -> tuple[tuple[Hashable, ...], IntArray]:
    """Settle on names, and on the order that brings the names a table has into theirs."""
    default = tuple(range(size))
    own_names = default if own is None else tuple(as_list(own))
    names = as_names(own_names if wanted is None else wanted, argument)
    if len(names) != size:
        raise ValueError(f"{argument} holds {len(names)} names, but {size} are needed.")
    if own is not None and set(names) == set(own_names):
        return names, positions(names, own_names)
    if own_names == default:
        return names, np.arange(size)
    raise ValueError(
        f"{argument} {list(names[:6])} do not match the names in the table, {list(own_names[:6])}. "
        "Pass the same names in the order you want, or rename them first."
    )
