"""Read the answers of several judges from one table: labels, probabilities, or both.

A judge is a column of labels, or an object of probabilities by class, which the reader of tables
turns into one column per class: ``judges.gpt.probs.yes``. An object of judges, each with an object
of labels by item, and a log of Inspect are read, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from credalset._display import join_names
from credalset.exceptions import need
from credalset.io.items import Records, find_id, refuse_repeated
from credalset.io.tables import read_records, read_table
from credalset.votes import Annotations
from credalset.votes.exports import TOOLS

#: exports that hold labels by judge and item, and the suffixes of their files
BY_JUDGE = ("inspect", "by-worker")
FILES_OF_LABELS = (".json", ".json.gz")
TOP = "judges."  # the object that holds the judges, if they are not named
LABELS = ("label", "answer", "choice", "rating", "verdict")  # a judge's field with its label


@dataclass(frozen=True)
class JudgedTable:
    """Answers of judges by name, as `JudgePool.fit` reads them, and further columns.

    Attributes
    ----------
    answers : dict
        A series of labels, or a data frame of probabilities, of each judge, by item.
    extra : dict of series
        Further columns by what they are used for.
    id : str
        Column that names the items.
    kinds : dict of series, or None
        Columns with kinds of items, by their names.
    """

    answers: dict[str, Any]
    extra: dict[str, Any]
    id: str = "item"
    kinds: dict[str, Any] | None = None


def read_judges(
    path: str,
    judges: str | None = None,
    *,
    id: str | None = None,
    kinds: Sequence[str] = (),
    extra: Mapping[str, str | None] | None = None,
) -> JudgedTable:
    """Read the answers of judges, and further columns, from a table.

    Parameters
    ----------
    path : str
        The table, or a JSON object ``{judge: {item: label}}``, or a log of Inspect as JSON.
    judges : str, optional
        ``name=column`` for each judge, separated by commas, where the column holds labels, or is an
        object of probabilities. By default the fields of the object ``judges``.
    id : str, optional
        Column that names the items.
    kinds : sequence of str, optional
        Columns with kinds of items.
    extra : mapping, optional
        Further columns by what they are used for; ``weights`` holds numbers, others texts.
    """
    wanted = {role: name for role, name in (extra or {}).items() if name is not None}
    if str(path).endswith(FILES_OF_LABELS) and judges is None:
        records = [record for _, found in read_records(path).files for record in found]
        kind = next((kind for kind in BY_JUDGE if records and TOOLS[kind].recognise(records)), None)
        if kind is not None:
            used = [*(["kinds"] if kinds else []), *wanted]
            return _by_judge(path, kind, used)
    table = read_table(path, whole=True)
    id = find_id(table.schema.names) if id is None else id
    names = table.schema.names
    roles = [("id", id), *(("kinds", name) for name in kinds), *wanted.items()]
    for role, name in roles:
        if name not in names:
            raise ValueError(
                f"{role} names the column {name!r}, which {path} does not have; it has "
                f"{join_names(names, 12)}."
            )
    chosen = _named(judges, names, path) if judges is not None else _found(names, path)
    whole = need("pyarrow").Table.from_batches(list(table.batches), table.schema)
    batch = whole.combine_chunks().to_batches()
    if not batch:
        raise ValueError(f"{path} has no rows.")
    rows = Records(batch[0], [id], path)
    items = [str(item) for item in rows.texts(id)]
    refuse_repeated(items, path, id)
    pandas = need("pandas", "Reading judges")
    answers: dict[str, Any] = {}
    for judge, columns in chosen.items():
        if isinstance(columns, str):
            answers[judge] = pandas.Series(rows.texts(columns), items, dtype=object)
        else:
            values = rows.numbers(list(columns.values()), optional=True)
            answers[judge] = pandas.DataFrame(values, items, list(columns))
    more = {role: pandas.Series(rows.extra(name, role), items) for role, name in wanted.items()}
    found = {name: pandas.Series(rows.extra(name, "kinds"), items) for name in kinds}
    return JudgedTable(answers, more, id, found or None)


def _by_judge(path: str, kind: str, used: Sequence[str]) -> JudgedTable:
    """Return labels that an export holds by judge and item."""
    if used:
        raise ValueError(
            f"{path} holds labels by judge and item, and no other columns: leave out "
            f"--{used[0]}, or write a table with one row per item."
        )
    table = Annotations.read(path, kind).table
    answers: dict[str, Any] = {}
    for item, judge, label in zip(table["task"], table["worker"], table["label"], strict=True):
        answers.setdefault(str(judge), {})[item] = label
    return JudgedTable(answers, {})


def _named(judges: str, names: Sequence[str], path: str) -> dict[str, Any]:
    """Return the columns of judges that are given as ``name=column``."""
    found: dict[str, Any] = {}
    for part in (part.strip() for part in judges.split(",")):
        if not part:
            continue
        name, sign, column = part.partition("=")
        column = column if sign else part
        name = name if sign else part.removeprefix(TOP).partition(".")[0]
        if name in found:
            raise ValueError(f"judges names {name!r} twice. Give each judge a name of its own.")
        found[name] = _columns_of(column, names, path)
    if not found:
        raise ValueError("judges names no judge. Give name=column, separated by commas.")
    return found


def _columns_of(column: str, names: Sequence[str], path: str) -> Any:
    """Return a column of labels, or the columns of an object by class."""
    if column in names:
        return column
    start = f"{column}."
    fields = {name.removeprefix(start): name for name in names if name.startswith(start)}
    if not fields:
        raise ValueError(
            f"judges names the column {column!r}, which {path} does not have; it has "
            f"{join_names(names, 12)}."
        )
    nested = [field for field in fields if "." in field]
    if nested:
        raise ValueError(
            f"judges names {column!r}, which holds several objects ({join_names(fields, 6)}). Name "
            "the one with the probabilities, or the column of labels."
        )
    return fields


def _found(names: Sequence[str], path: str) -> dict[str, Any]:
    """Return the judges in the object ``judges``."""
    inside = [name for name in names if name.startswith(TOP)]
    if not inside:
        raise ValueError(
            f"{path} has no object named judges, so that it is not clear which columns are judges. "
            "Name them: --judges gpt=column,claude=column, where a column holds labels, or is an "
            f"object of probabilities by class. It has {join_names(names, 12)}."
        )
    found: dict[str, Any] = {}
    for judge in dict.fromkeys(name.removeprefix(TOP).partition(".")[0] for name in inside):
        column = TOP + judge
        own = [name for name in inside if name == column or name.startswith(f"{column}.")]
        objects = list(
            dict.fromkeys(
                name.removeprefix(f"{column}.").partition(".")[0]
                for name in own
                if name.count(".") > column.count(".") + 1
            )
        )
        labels = [f"{column}.{name}" for name in LABELS if f"{column}.{name}" in own]
        if own == [column]:
            found[judge] = column
        elif len(objects) == 1:
            found[judge] = _columns_of(f"{column}.{objects[0]}", names, path)
        elif not objects and labels:
            found[judge] = labels[0]
        elif not objects:
            found[judge] = _columns_of(column, names, path)
        else:
            raise ValueError(
                f"judges.{judge} holds several objects ({join_names(objects)}). Name the columns "
                f"of all judges: --judges {judge}={column}.{objects[0]},…"
            )
    return found
