"""Read vote tables and name lists: the untidy half of `credalset.annotations`."""

from __future__ import annotations

import re
from array import array
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from credalset._typing import BoolArray, IntArray

Names = Iterable[Hashable]

TABLES = "a pandas, polars or pyarrow table, a dict of columns, or a list of (task, worker, label) tuples or dicts"
NUMBER_TEXT = re.compile(r"-?\d+(\.\d+)?")
SEVERAL = (list, set, frozenset, np.ndarray)


@dataclass(frozen=True)
class Column:
    """A column as codes into its distinct values, which stand in order of first appearance."""

    name: str
    codes: IntArray
    values: list[Any]

    @classmethod
    def encode(cls, name: str, column: Any) -> Column:
        """Number the values of a column in order of first appearance."""
        growing = GrowingColumn(name)
        growing.add(as_list(column))
        return growing.finish()

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
            others = [self.values[i] for i in dict.fromkeys(self.codes[kept & bad].tolist())][1:]
            more = f", then {', '.join(map(repr, others[:4]))}{', …' if len(others) > 4 else ''}" if others else ""
            raise ValueError(
                f"The {self.name} column has {(kept & bad).sum()} value(s) {fault} (first: "
                f"{self.values[self.codes[row]]!r} in row {row}{more}). {advice}='drop' to leave these rows out."
            )
        return kept & ~bad


class GrowingColumn:
    """A column that arrives in pieces: what is kept is a number per row and every distinct value once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.codes = array("q")
        self.code: dict[Any, int] = {}

    def add(self, values: list[Any]) -> None:
        """Append rows."""
        code = self.code
        try:
            for value in dict.fromkeys(values):
                code.setdefault(value, len(code))
        except TypeError as error:
            raise TypeError(f"{self.name} holds values that do not hash ({error}). Use numbers or strings.") from None
        self.codes.extend(map(code.__getitem__, values))

    def finish(self) -> Column:
        """Return the whole column."""
        return Column(self.name, np.array(self.codes, dtype=np.int64), list(self.code))


def as_list(column: Any) -> list[Any]:
    """Turn a column of any library into a list of Python values; nulls become None, NaN, NaT or NA."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "mM":
        return list(column)  # tolist would turn nanosecond times into bare integers
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(column, method):
            values: list[Any] = getattr(column, method)()
            return values
    return list(column)


def without(column: Any, marks: Iterable[Any]) -> Any:
    """Put None where a column holds one of the marks; the column as it is if there are none.

    Examples
    --------
    >>> without(["yes", "?", ["no"]], ["?"])
    ['yes', None, ['no']]
    """
    if isinstance(marks, str):
        raise TypeError(f"empty must be a list of values that mark a missing label, but is {marks!r}: [{marks!r}].")
    given = set(marks)
    if not given:
        return column
    return [None if isinstance(value, Hashable) and value in given else value for value in as_list(column)]


def is_missing(value: Any) -> bool:
    """Tell whether a value is None, NaN, NaT or another stand-in for no value."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # only pandas.NA refuses to say whether it differs from itself
        return True


def is_number_text(value: Any) -> bool:
    """Tell whether a value is a plain decimal number written as text."""
    return isinstance(value, str) and NUMBER_TEXT.fullmatch(value) is not None


def categories_of(raw: Any) -> list[Any] | None:
    """Return the categories that a label column declares, in their order; None if it declares none."""
    categories = getattr(getattr(raw, "dtype", None), "categories", None)
    if categories is not None and hasattr(categories, "__len__"):
        return as_list(categories)
    if getattr(getattr(raw, "type", None), "ordered", False) and len(raw):
        unified = raw.unify_dictionaries().chunk(0) if hasattr(raw, "unify_dictionaries") else raw
        return as_list(unified.dictionary)
    return None


def default_classes(column: Column) -> list[Any]:
    """Return the labels of a column, sorted; number texts as numbers."""
    labels = column.present()
    try:
        return sorted(labels, key=float) if all(map(is_number_text, labels)) else sorted(labels)
    except TypeError:
        kinds = ", ".join(sorted({type(value).__name__ for value in labels}))
        raise TypeError(
            f"The label column mixes types that have no common order ({kinds}). "
            "Convert the labels to one type, or pass classes=[...] in the order you want."
        ) from None


def has_ordered_categories(raw: Any) -> bool:
    """Tell whether a column says that its categories are ordered: pandas categories, Arrow dictionaries."""
    dtype = getattr(raw, "dtype", None)
    return bool(getattr(dtype, "ordered", False) or getattr(getattr(raw, "type", None), "ordered", False))


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


def rows_of(names: Names, items: tuple[Hashable, ...], what: str) -> IntArray:
    """Return the rows of items that are given by name, in the order given; ``what`` they are rows of."""
    if len(set(items)) < len(items):
        raise ValueError(f"items repeat here, so names do not tell them apart. Take positions: {what}[...].")
    wanted = as_names(names, "items")
    rows = positions(wanted, items)
    if (rows < 0).any():
        alike = str(wanted[int(rows.argmin())]).lstrip("0") in {str(name).lstrip("0") for name in items}
        kept = f"Take those that are there: [name for name in names if name in {what}.items]."
        advice = "Names count as they are: '7' is neither 7 nor '07'." if alike else kept
        raise ValueError(
            f"items has {(rows < 0).sum()} name(s) that are not among the {len(items)} known items "
            f"(first: {wanted[int(rows.argmin())]!r}). {advice}"
        )
    return rows


def is_text(key: Any) -> bool:
    """Tell whether an index can only be a name: a text, or a list or array of texts."""
    if isinstance(key, str) or not hasattr(key, "__len__"):
        return isinstance(key, str)
    return len(key) > 0 and not isinstance(key, tuple) and all(isinstance(name, str) for name in key)


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
