"""From Arrow to NumPy: columns of numbers as matrices."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credalset._typing import FloatArray
from credalset._validation import DEFAULT_SUM_TOLERANCE, ROUNDED
from credalset.annotations.labels import shown
from credalset.annotations.naming import candidates, plain
from credalset.exceptions import warn

if TYPE_CHECKING:
    import pyarrow as pa


PREDICTION = "prediction_"
#: what columns of texts are called, where there are others
TEXT_NAMES = {"text", "texts", "comment", "content", "body", "sentence", "document", "message", "review", "question"}
WRITTEN = {"alpha", "threshold", "empty"}  # columns of every table that predict writes


def prediction_columns(names: Sequence[str]) -> list[str]:
    """Return the columns with predictions of a table that ``predict`` wrote; none for other tables."""
    return [name for name in names if name.startswith(PREDICTION)] if set(names) >= WRITTEN else []


def class_prefix(names: Sequence[str], labels: Sequence[Any]) -> str:
    """Return what the columns of the classes begin with, where they are not called like the classes themselves.

    Examples
    --------
    >>> class_prefix(["id", "prob_no", "prob_yes"], ["no", "yes"]), class_prefix(["id", "no", "yes"], ["no", "yes"])
    ('prob_', '')
    """
    wanted, known = [str(label) for label in labels], set(names)
    if not wanted or known.issuperset(wanted):
        return ""
    tried = dict.fromkeys(name.removesuffix(wanted[0]) for name in names if name.endswith(wanted[0]))
    found = [start for start in tried if known.issuperset(start + label for label in wanted)]
    return PREDICTION if PREDICTION in found else found[0] if len(found) == 1 else ""


def id_column(schema: pa.Schema, taken: Container[str | None] = (), like: str | None = None) -> str:
    """Return the column that names the items: the one called as elsewhere, else found as the task of votes is.

    Shares, lists and columns that are taken name nothing; if one column of texts is left, that is it. ``task`` where it
    is not clear.
    """
    import pyarrow as pa

    left = [each.name for each in schema if each.name not in taken and not pa.types.is_floating(each.type)]
    left = [name for name in left if schema.names.count(name) == 1 and not is_list(schema.field(name).type)]
    if like in left or "task" in left:
        return like if like is not None and like in left else "task"
    found = candidates(left, "task") or [name for name in left if is_text(schema.field(name).type)]
    return str(found[0]) if len(found) == 1 < len(schema) else "task"


def number_columns(names: Sequence[str], classes: Sequence[Any] | None, others: set[str | None]) -> list[str]:
    """Return the columns with predictions or features: all but some others, or those that ``predict`` wrote.

    Where classes are known, these are theirs, in their order; unless all numbers are in one column of lists.
    """
    rest = prediction_columns(names) or [name for name in names if name not in others]
    start = class_prefix(names, classes or ())
    named = [f"{start}{label}" for label in classes or ()]
    return named if named and (len(rest) != 1 or rest == named) else rest


class Reading(NamedTuple):
    """Columns that a model reads, and whether they hold texts."""

    names: list[str]
    texts: bool


def columns_to_read(
    schema: pa.Schema,
    texts: bool | str | None,
    columns: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    taken: Collection[str | None] = (),
    used: Collection[str | None] = (),
) -> Reading:
    """Return the columns that a model is meant to read.

    Parameters
    ----------
    schema : pyarrow schema
        Of the table.
    texts : bool, str or None
        Whether the model reads texts; the name of their column, if it is known; None for a model that does not say:
        texts, if there is nothing else.
    columns : sequence of str, optional
        Those that were named.
    classes : sequence, optional
        Classes of a calibration, which reads predictions of these.
    taken : names of columns
        Ids, groups and weights, which are nothing to read.
    used : names of columns
        To be kept or shown: no numbers to read, but maybe the texts.
    """
    numbers = list(columns) if columns is not None else number_columns(schema.names, classes, {*taken, *used})
    if texts is None and not all(is_text(schema.field(name).type) for name in numbers if schema.names.count(name) == 1):
        texts = False
    if columns is not None or texts is False:
        return Reading(numbers, texts is not False)
    if isinstance(texts, str) and texts in schema.names:
        return Reading([texts], True)
    found = [each.name for each in schema if each.name not in taken and is_text(each.type)]
    if len(found) > 1:
        found = [name for name in found if plain(name) in TEXT_NAMES] or found
    if len(found) > 1:
        raise ValueError(f"several columns hold texts: {shown(found)}. Name the one to read (columns=...).")
    if texts is not None and not found:
        raise ValueError(
            f"this model reads texts, but the table has no column of texts: it has {shown(schema.names)}. "
            "Pass a table with a column of texts, or name it (columns=...)."
        )
    return Reading(found or numbers, bool(found))


def say_which(reading: Reading, texts: bool | str | None) -> None:
    """Say from which column texts are read, where the model does not know it by name."""
    if reading.texts and texts is not None and reading.names != [texts]:
        why = f": the table has no {texts!r}, which the model was fitted with" if isinstance(texts, str) else ""
        warn(f"the texts are read from the column {reading.names[0]!r}{why} (columns=... names another).")


def unrounded(values: FloatArray) -> FloatArray:
    """Divide rows of probabilities by their sums where these miss one as numbers in a file do that were rounded.

    Examples
    --------
    >>> unrounded(np.array([[0.333, 0.333, 0.333], [0.5, 0.25, 0.25]])).round(4)
    array([[0.3333, 0.3333, 0.3333],
           [0.5   , 0.25  , 0.25  ]])
    """
    sums = values.sum(axis=1)
    missed = np.abs(sums - 1.0)
    rows = (missed > DEFAULT_SUM_TOLERANCE) & (missed <= ROUNDED) & (values >= 0.0).all(axis=1)
    if not rows.any():
        return values
    warn(
        f"{int(rows.sum())} rows of predictions sum to one only roughly, as rounded numbers do: divided by their sums."
    )
    return np.where(rows[:, None], values / sums[:, None], values)


def matrix(
    batch: pa.RecordBatch, names: Sequence[str], what: str = "predictions", *, texts: bool = False
) -> FloatArray:
    """Read numeric columns, or one column of lists, as a matrix (N, number of columns).

    With ``texts``, read one column of texts, for a model that takes these: an array of N str.
    """
    import pyarrow as pa

    columns = [batch.column(batch.schema.get_field_index(name)) for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.null_count:
            row = np.flatnonzero(np.asarray(column.is_null()))[0]
            raise ValueError(f"column {name!r} of the {what} has no value in row {row}. Fill or drop such rows.")
    if texts:
        if len(columns) != 1 or not is_text(columns[0].type):
            seen = (
                f"{len(columns)} columns were named" if len(columns) != 1 else f"{names[0]!r} holds {columns[0].type}"
            )
            raise ValueError(f"this model reads texts, but {seen}. Name the one column that holds texts (columns=...).")
        return np.array(columns[0].to_pylist(), dtype=object)
    if len(columns) == 1 and is_list(columns[0].type):
        return _unpack_lists(columns[0], names[0], what)
    for name, column in zip(names, columns, strict=True):
        if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
            raise ValueError(
                f"column {name!r} of the {what} must hold numbers, but holds {column.type}. Name the columns to read "
                "(columns=...), or the one that holds the ids (id=...)."
            )
    result = np.empty((batch.num_rows, len(columns)))
    for k, column in enumerate(columns):
        result[:, k] = column.to_numpy(zero_copy_only=False)
    return result


def check_text(schema: pa.Schema, names: Sequence[str | None]) -> None:
    """Refuse bytes where names or words are wanted: that is how text which is not UTF-8 arrives."""
    import pyarrow as pa

    for name in names:
        at = -1 if name is None else schema.get_field_index(name)
        if at >= 0 and (pa.types.is_binary(schema.types[at]) or pa.types.is_large_binary(schema.types[at])):
            raise ValueError(
                f"column {name!r} does not hold text in UTF-8. Save the table in that encoding, or name its own: "
                "encoding='cp1252' for a spreadsheet saved on Windows."
            )


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column holds texts."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):  # categories
        return is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_list(kind: pa.DataType) -> bool:
    """Tell whether a column holds lists."""
    import pyarrow as pa

    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _unpack_lists(column: pa.Array, name: str, what: str) -> FloatArray:
    values = column.flatten()
    n, total = len(column), len(values)
    lengths = np.asarray(column.value_lengths()) if n else np.zeros(0)
    if n and (total % n or (lengths != total // n).any()):
        found = sorted(set(lengths.tolist()))
        raise ValueError(
            f"column {name!r} of the {what} must hold lists of one length, but has lengths {found[0]} to {found[-1]}."
        )
    if values.null_count:
        raise ValueError(f"column {name!r} of the {what} has lists with missing numbers. Fill or drop such rows.")
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64).reshape(n, -1 if n else 0)
