"""Features to train on: which columns of a table are numbers, categories or texts.

What the Arrow type of a column says counts: numbers are numbers, Booleans and dictionaries are
categories. The cells of text files are texts, of which these rules decide, in this order:

1. The same value in all rows, no value at all, dates, and whole numbers that count the rows: left
   out.
2. Numbers in all cells: a number, unless some have leading zeros as codes do, such as 0012.
3. At most `MAX_CATEGORIES` values, each of which occurs `REPEATS` times on average: a category.
4. Single words that hardly ever repeat, such as further ids: left out.
5. Anything else: a text.

A column with numbers in most cells and words in others is refused, because it may be either. A
column that is named is never left out, and ``header=kind`` says what it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from credalset._display import join_names, plural, table_text
from credalset.io.items import Select, Selection, refuse_missing
from credalset.io.tables import as_texts, is_list, is_number

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("number", "category", "text")
MAX_CATEGORIES = 50
REPEATS = 3
MOST = 0.9  # share of cells that are single words, and different, in a column of further ids
#: 31.12.2024, 2024-12-31, 12/31/24, each also with a time
DATE = re.compile(r"\s*(\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./]\d{2,4})([ T].*)?")
CODE = re.compile(r"\s*[+-]?0\d")
WORD = re.compile(r"\w\w")


class Feature(NamedTuple):
    """A column, what it is read as (None if it is left out), and what is done with it."""

    name: str
    kind: str | None
    remark: str


def select_training(columns: Sequence[str] | None = None) -> Select:
    """Return what selects columns to train on: those that are named, or all that are not taken.

    Parameters
    ----------
    columns : sequence of str, optional
        Names of columns, or ``name=kind`` with one of `KINDS`.
    """

    def select(schema: pa.Schema, taken: Collection[str | None]) -> Selection:
        known = set(schema.names)
        if columns is None:
            given: dict[str, str | None] | None = None
            names = [name for name in schema.names if name not in taken]
        else:
            given = dict(_name_and_kind(column, known) for column in columns)
            names = list(given)
        refuse_missing(schema, names)
        return Selection(names, tuple(names), decide=partial(choose_features, given=given))

    return select


def _name_and_kind(column: str, known: Collection[str]) -> tuple[str, str | None]:
    name, sign, kind = column.rpartition("=")
    if not sign or column in known:
        return column, None
    if kind not in KINDS:
        raise ValueError(
            f"columns has {column!r}, but a column is one of {', '.join(KINDS)}: {name}=category."
        )
    return name, kind


def choose_features(
    data: Sequence[pa.RecordBatch],
    selection: Selection,
    path: str,
    given: Mapping[str, str | None] | None = None,
) -> tuple[Selection, list[str]]:
    """Decide what the selected columns of a table are read as, and say so for each.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = {"says": ["a good day", "a bad day"] * 9, "age": ["7", "8,5", None] * 6}
    >>> batch = pa.RecordBatch.from_pydict(rows)
    >>> selection, notes = choose_features([batch], Selection(["says", "age"], None), "f.csv",
    ...                                    {"says": "text", "age": None})
    >>> print(notes[0])
    f.csv, column by column:
    column  read as  what is done
    ------  -------  ------------------------------------------
    says    text     TF-IDF weights of its words
    age     number   scaled; 6 missing values become the median
    """
    import pyarrow as pa

    table = pa.Table.from_batches(data)
    features = []
    for name in selection.columns:
        kind = (given or {}).get(name)
        features.append(_read_as(name, table.column(name), kind, is_named=given is not None))
    used = [feature for feature in features if feature.kind is not None]
    rows = [(each.name, each.kind or "-", each.remark) for each in features]
    note = f"{path}, column by column:\n" + table_text(
        ("column", "read as", "what is done"), rows, left=3
    )
    mixed = [feature for feature in features if feature.kind == ""]
    if mixed:
        wanted = ",".join(f"{f.name}=category" if f in mixed else f.name for f in used)
        raise ValueError(
            f"column {mixed[0].name!r} of {path} {mixed[0].remark} If these mean that there is no "
            f"number, empty them; otherwise say what the column is: --columns {wanted} (or =text)."
        )
    if not used:
        raise ValueError(
            f"no feature is left to train on. {note}\nName columns to read them all the same: "
            f"--columns {features[0].name}=text."
        )
    names = [feature.name for feature in used]
    kinds = tuple(str(feature.kind) for feature in used)
    return Selection(names, tuple(names), kinds=kinds, optional=True), [note]


def _read_as(name: str, column: pa.ChunkedArray, kind: str | None, *, is_named: bool) -> Feature:
    """Decide what a column is read as; the kind is "" where a caller has to say it."""
    from pyarrow import types

    own = column.type
    if is_list(own) or types.is_struct(own) or types.is_binary(own) or types.is_large_binary(own):
        if is_named:
            raise ValueError(f"column {name!r} holds {own}, which is no feature. Leave it out.")
        return Feature(name, None, f"left out: it holds {own}")
    is_numeric = types.is_integer(own) or types.is_floating(own) or types.is_decimal(own)
    cells = [text or None for text in as_texts(column)]
    filled = [text for text in cells if text is not None]
    n_missing = len(cells) - len(filled)
    found = kind
    if kind is None and (not is_named or not filled):
        reason = _reason_to_leave_out(filled, own)
        if reason:
            return Feature(name, None, f"left out: {reason}")
    if found is None and types.is_temporal(own):
        found = "category"
    if found is None and (types.is_boolean(own) or types.is_dictionary(own)):
        found = "category"
    if found is None and is_numeric:
        found = "number"
    if found is None:
        numbers = [is_number(text) for text in filled]
        if 2 * sum(numbers) > len(numbers) > sum(numbers):
            row, odd = next((i, c) for i, c in enumerate(cells, 1) if c and not is_number(c))
            n_odd = plural(len(numbers) - sum(numbers), "cell")
            return Feature(name, "", f"holds numbers, but not in {n_odd} (row {row}: {odd!r}).")
        found = _kind_of_texts(filled)
    if found is None:
        if not is_named:
            return Feature(name, None, "left out: hardly any value repeats, as in ids")
        found = "text"
    return Feature(name, found, _remark(found, filled, n_missing))


def _reason_to_leave_out(filled: list[str], own: Any) -> str:
    """Return why a column says nothing about the items, or an empty text."""
    from pyarrow import types

    if not filled:
        return "no values"
    if types.is_temporal(own) or all(map(DATE.fullmatch, filled)):
        return "dates"
    if len(set(filled)) == 1:
        return "the same value in all rows"
    if all(text.isdecimal() for text in filled):
        numbers = list(map(int, filled))
        if all(second - first == 1 for first, second in pairwise(numbers)):
            return "it counts the rows"
    return ""


def _kind_of_texts(filled: list[str]) -> str | None:
    """Return what a column of texts is read as; None if its values look like ids."""
    if all(map(is_number, filled)) and not any(map(CODE.match, filled)):
        return "number"
    n_values = len(set(filled))
    if n_values <= MAX_CATEGORIES and REPEATS * n_values <= len(filled):
        return "category"
    n_words = sum(len(text.split()) == 1 for text in filled)
    if min(n_words, n_values) >= MOST * len(filled) or not any(map(WORD.search, filled)):
        return None
    return "text"


def _remark(kind: str, filled: list[str], n_missing: int) -> str:
    missing = plural(n_missing, "missing value")
    if kind == "number":
        become = "becomes" if n_missing == 1 else "become"
        return "scaled" + (f"; {missing} {become} the median" if n_missing else "")
    if kind == "text":
        has = "has" if n_missing == 1 else "have"
        return "TF-IDF weights of its words" + (f"; {missing} {has} none" if n_missing else "")
    counted = Counter(filled)
    values = join_names([value for value, _ in counted.most_common()], 3)
    own = f"; {missing} as one more" if n_missing else ""
    return f"one-hot, {plural(len(counted), 'value')}: {values}{own}"
