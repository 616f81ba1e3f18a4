"""Columns of Arrow tables as names, numbers and texts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credalset._typing import FloatArray, IntArray
from credalset.votes.names import join_names

if TYPE_CHECKING:
    import pyarrow as pa


def as_texts(column: pa.Array, where: str = "a column") -> list[str | None]:
    """Return names of items, groups or labels: texts as they stand, numbers as they are written; None where missing."""
    import pyarrow as pa

    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        raise ValueError(f"{where} holds bytes, not texts. Save the table with texts in UTF-8.")
    found: list[str | None] = column.cast(pa.string()).to_pylist()
    return [text or None for text in found]


def drop_missing(
    batch: pa.RecordBatch, needed: Sequence[str], where: str, *, first_row: int = 0, strict: bool = False
) -> tuple[pa.RecordBatch, IntArray]:
    """Return the rows in which no such column is null, and their numbers in the table; refuse others if ``strict``."""
    missing = np.zeros(batch.num_rows, dtype=bool)
    position = {name: i for i, name in enumerate(batch.schema.names)}
    for name in needed:
        column = batch.column(position[name])
        if column.null_count:
            missing |= np.asarray(column.is_null())
            if strict:
                row = first_row + int(np.argmax(missing)) + 1
                raise ValueError(f"{where} has no value in the column {name!r} in row {row}. Fill or drop it.")
    rows = first_row + np.flatnonzero(~missing)
    return batch.filter(~missing) if missing.any() else batch, rows


def matrix(
    batch: pa.RecordBatch, names: Sequence[str], where: str = "the table", rows: IntArray | None = None
) -> FloatArray:
    """Read columns without nulls, or one column of lists, as numbers (N, number of columns).

    Texts are parsed, with a decimal point or comma. ``where`` and ``rows`` (their numbers in the table) are for
    messages.
    """
    position = {name: i for i, name in enumerate(batch.schema.names)}
    columns = [batch.column(position[name]) for name in names]
    if len(columns) == 1 and is_list(columns[0].type):
        lengths = np.asarray(columns[0].value_lengths()) if batch.num_rows else np.zeros(0, dtype=int)
        if len(set(lengths.tolist())) > 1:
            raise ValueError(
                f"column {names[0]!r} of {where} must hold lists of one length, but has lengths {lengths.min()} to "
                f"{lengths.max()}."
            )
        values = _numbers(columns[0].flatten(), names[0], where, rows, max(1, int(lengths.max(initial=0))))
        return values.reshape(batch.num_rows, -1 if batch.num_rows else 0)
    result = np.empty((batch.num_rows, len(columns)))
    for k, (name, column) in enumerate(zip(names, columns, strict=True)):
        result[:, k] = _numbers(column, name, where, rows)
    return result


def _numbers(column: pa.Array, name: str, where: str, rows: IntArray | None, per_row: int = 1) -> FloatArray:
    import pyarrow as pa
    from pyarrow import compute

    kind = column.type
    if column.null_count:
        raise ValueError(f"column {name!r} of {where} has lists with missing numbers. Fill or drop such rows.")
    if is_text(kind):
        texts = compute.utf8_trim_whitespace(column.cast(pa.string()))
        with suppress(pa.ArrowInvalid):
            return np.asarray(texts.cast(pa.float64()).to_numpy(zero_copy_only=False))
        texts = compute.replace_substring(texts, ",", ".")
        with suppress(pa.ArrowInvalid):
            return np.asarray(texts.cast(pa.float64()).to_numpy(zero_copy_only=False))
        place, text = next((i, t) for i, t in enumerate(column.to_pylist()) if not is_number(t))
        row = place // per_row if rows is None else rows[place // per_row]
        raise ValueError(
            f"column {name!r} of {where} must hold numbers, but holds {text!r} in row {row + 1}. "
            "Correct it, or name the columns to read (columns=...) and the one that names the items (id=...)."
        )
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        raise ValueError(
            f"column {name!r} of {where} must hold numbers, but holds {kind}. Name the columns to read (columns=...), "
            "or the one that names the items (id=...)."
        )
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def is_number(text: str) -> bool:
    """Tell whether a text is a number, with a decimal point or comma."""
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return "_" not in text


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column holds texts."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):  # categories
        return is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a column holds lists."""
    import pyarrow as pa

    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


# --- which columns are read ---

#: columns of every table that ``predict`` writes, whose predictions begin with ``prediction_``
WRITTEN = {"alpha", "threshold", "empty"}
PREDICTION = "prediction_"


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
    """Return the column that names the items: the first of the usual names of a task that the table has."""
    from credalset.votes.tables import SYNONYMS

    plain = {"".join(filter(str.isalnum, name.lower())): name for name in reversed(names)}
    known = ["".join(filter(str.isalnum, synonym)) for synonym in SYNONYMS["task"]]
    found = next((plain[name] for name in known if name in plain), None)
    if found is None:
        raise ValueError(
            f"no column is known to name the items; the table has {join_names(names, 12)}. Name it: id=... (found "
            f"without: {', '.join(SYNONYMS['task'])})."
        )
    return found


def choose_columns(
    schema: pa.Schema,
    taken: Collection[str | None] = (),
    columns: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    texts: bool | str = False,
) -> Reading:
    """Return the columns that hold predictions, features or texts.

    Parameters
    ----------
    schema : pyarrow schema
        Of the table.
    taken : names of columns
        Ids, groups, weights and others that are not to be read.
    columns : sequence of str, optional
        Those that were named; an object with a column per class is named by its own name.
    classes : sequence, optional
        Classes of a calibration: their columns are read in their order. Without, all columns that are not taken.
    texts : bool or str
        Whether the model reads texts, and the name of their column where that is known.

    Examples
    --------
    >>> import pyarrow as pa
    >>> schema = pa.schema([(name, pa.float64()) for name in ("task", "probs.no", "probs.yes", "length")])
    >>> choose_columns(schema, ["task"], classes=["yes", "no"])
    Reading(columns=['probs.yes', 'probs.no'], labels=('yes', 'no'), texts=False)
    """
    names = schema.names
    known, free = set(names), [name for name in names if name not in taken]
    nested = list(dict.fromkeys(name.rpartition(".")[0] + "." for name in free if "." in name))
    if columns is not None:
        found = [inner for name in columns for inner in ([name] if name in known else _inside(name, free) or [name])]
        start = f"{columns[0]}." if len(columns) == 1 and columns[0] not in known else ""
    elif texts:
        free = [name for name in free if is_text(schema.field(name).type)]
        found, start = ([texts] if isinstance(texts, str) and texts in known else free), ""
        if len(found) != 1:
            raise ValueError(
                f"the model reads texts, and {len(found)} columns hold texts ({join_names(found)}). Name the one to "
                "read: columns=..."
            )
    else:
        starts = ["", *([PREDICTION] if known >= WRITTEN else []), *nested]
        wanted = [str(label) for label in classes or ()]
        fitting = [each for each in starts if known.issuperset(each + label for label in wanted)]
        lists = [name for name in free if is_list(schema.field(name).type)]
        if wanted and fitting:
            found, start = [fitting[0] + label for label in wanted], fitting[0]
        elif len(lists) == 1:
            found, start = lists, ""
        elif wanted:
            found, start = wanted, ""
        else:
            start = PREDICTION if known >= WRITTEN else nested[0] if len(nested) == 1 else ""
            found = [name for name in free if name.startswith(start)]
    missing = [name for name in found if name not in known]
    if missing or not found:
        raise ValueError(
            f"{len(missing)} of {len(found)} columns to read are missing (first: {join_names(missing, 1)}); the table "
            f"has {join_names(names, 12)}. Rename its columns, or name those to read: columns=..."
        )
    if len(found) == 1 and is_list(schema.field(found[0]).type):
        return Reading(found, None)
    return Reading(found, tuple(name.removeprefix(start) for name in found), bool(texts))


def _inside(name: str, free: Sequence[str]) -> list[str]:
    return [inner for inner in free if inner.startswith(f"{name}.")]
