"""Tasks for annotation tools: what people see of the items to ask, and what judges say of them.

Label Studio reads a list of tasks as JSON, each with its ``data`` and with ``predictions``, one per
judge: https://labelstud.io/guide/tasks. The name of the item is kept in ``data``, so that votes on
the tasks are matched again: ``credalset import export.json --task data.item``. The labelling setup
that belongs to the tasks is XML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from credalset._display import join_names
from credalset._files import write_file
from credalset.io.items import Records, find_id, refuse_repeated
from credalset.io.judged import TOP, read_judges
from credalset.io.tables import read_table
from credalset.votes.tables import is_missing

__all__ = ["TaskItems", "label_studio", "read_task_items", "write_label_studio"]

QUESTION = "label"  # the name of the choices in the setup
SHOWN = "shown"  # the names of what is shown: shown, shown2, …


@dataclass(frozen=True)
class TaskItems:
    """What is known about items, by name.

    Attributes
    ----------
    id : str
        The column that names the items.
    columns : tuple of str
        The columns that people see.
    texts : dict
        The texts in these columns, of each item.
    answers : dict
        The labels, or probabilities, of each judge, by item: series or data frames.
    """

    id: str = "item"
    columns: tuple[str, ...] = ()
    texts: dict[str, list[str]] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)


def read_task_items(
    path: str,
    *,
    judges: str | None = None,
    id: str | None = None,
    shown: Sequence[str] | None = None,
) -> TaskItems:
    """Read what people should see of items, and the answers of judges, from a table.

    Parameters
    ----------
    path : str
        The table, one row per item.
    judges : str, optional
        Columns of judges, as for `read_judges`. By default those of the object ``judges``, if the
        table has one.
    id : str, optional
        Column that names the items.
    shown : sequence of str, optional
        The columns that people see, by default all that are of no judge.
    """
    table = read_table(path, whole=True)
    names = list(table.schema.names)
    id = find_id(names) if id is None else id
    answers: dict[str, Any] = {}
    if judges is not None or any(name.startswith(TOP) for name in names):
        answers = read_judges(path, judges, id=id).answers
    named = _columns_of_judges(judges, names)
    columns = [name for name in names if name != id and name not in named]
    if shown is not None:
        missing = [name for name in shown if name not in names]
        if missing:
            raise ValueError(
                f"{path} has no column {missing[0]!r} to show; it has {join_names(names, 12)}."
            )
        columns = list(shown)
    texts: dict[str, list[str]] = {}
    for batch in table.batches:
        rows = Records(batch, [id], path)
        found = [rows.texts(name) for name in columns]
        items = [str(item) for item in rows.texts(id)]
        refuse_repeated([*texts, *items], path, id)
        for row, item in enumerate(items):
            texts[item] = ["" if is_missing(cells[row]) else str(cells[row]) for cells in found]
    return TaskItems(id, tuple(columns), texts, answers)


def _columns_of_judges(judges: str | None, names: Sequence[str]) -> set[str]:
    """Return the columns that hold answers of judges."""
    starts = [TOP]
    for part in (judges or "").split(","):
        name, sign, column = part.strip().partition("=")
        starts.append(column if sign else name)
    return {
        name
        for name in names
        for start in starts
        if start and (name == start or name.startswith(start if start == TOP else f"{start}."))
    }


def label_studio(
    items: Sequence[str], classes: Sequence[str], known: TaskItems
) -> tuple[list[dict[str, Any]], str]:
    """Return tasks for items, in their order, and the labelling setup.

    Parameters
    ----------
    items : sequence of str
        Items to ask.
    classes : sequence of str
        Labels that people may give.
    known : TaskItems
        What people see of the items, and the answers of judges.
    """
    missing = [item for item in items if known.columns and item not in known.texts]
    if missing:
        raise ValueError(
            f"the table of items has no row for {join_names(missing)}, which are to be asked."
        )
    keys = {name: re.sub(r"\W", "_", name) for name in known.columns}
    if len({known.id, *keys.values()}) <= len(keys):
        raise ValueError(
            f"the columns {join_names(known.columns)} have one name in Label Studio, or that of "
            f"the items ({known.id}). Rename one of them."
        )
    tasks = []
    for item in items:
        data = {known.id: item}
        data |= dict(zip(keys.values(), known.texts.get(item, []), strict=False))
        task: dict[str, Any] = {"data": data}
        predictions = [
            made
            for judge, answers in known.answers.items()
            if (made := _prediction(judge, answers, item, classes)) is not None
        ]
        if predictions:
            task["predictions"] = predictions
        tasks.append(task)
    return tasks, _setup(list(keys.values()) or [known.id], classes)


def _prediction(
    judge: str, answers: Any, item: str, classes: Sequence[str]
) -> dict[str, Any] | None:
    """Return the answer of a judge as a prediction; None without an answer that is a class."""
    known = answers if isinstance(answers, Mapping) else answers.index
    if item not in known:
        return None
    found: dict[str, Any] = {"model_version": str(judge)}
    if getattr(answers, "ndim", 1) == 2:
        shares = answers.loc[item].to_numpy(dtype=np.float64)
        if np.isnan(shares).any():
            return None
        label = str(answers.columns[int(shares.argmax())])
        found["score"] = round(float(shares.max()), 6)
    else:
        cell = answers[item]
        label = "" if is_missing(cell) else str(cell)
    if label not in classes:
        return None
    found["result"] = [
        {
            "from_name": QUESTION,
            "to_name": SHOWN,
            "type": "choices",
            "value": {"choices": [label]},
        }
    ]
    return found


def _setup(keys: Sequence[str], classes: Sequence[str]) -> str:
    """Return the labelling setup: what is shown, and one choice among the classes."""
    shown = []
    for number, key in enumerate(keys):
        name = SHOWN if number == 0 else f"{SHOWN}{number + 1}"
        shown += [f"  <Header value={quoteattr(key)}/>"] if len(keys) > 1 else []
        shown.append(f'  <Text name="{name}" value="${escape(key)}"/>')
    choices = [f"    <Choice value={quoteattr(label)}/>" for label in classes]
    head = f'  <Choices name="{QUESTION}" toName="{SHOWN}" choice="single" required="true">'
    return "\n".join(["<View>", *shown, head, *choices, "  </Choices>", "</View>", ""])


def write_label_studio(
    path: str, items: Sequence[str], classes: Sequence[str], known: TaskItems
) -> str:
    """Write tasks, and the labelling setup beside them; return the path of the setup."""
    tasks, setup = label_studio(items, classes, known)
    beside = Path(path).with_suffix(".xml")
    write_file(beside, setup.encode())
    write_file(Path(path), json.dumps(tasks, ensure_ascii=False, indent=1).encode() + b"\n")
    return str(beside)
