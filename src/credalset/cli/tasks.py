"""Tasks for annotation tools, written by ``credalset review`` and ``credalset plan``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from credalset._display import plural
from credalset.cli import shared
from credalset.io.tasks import TaskItems, label_studio, read_task_items, write_label_studio

LabelStudio = Annotated[
    str | None,
    Option(
        help="Also write the items to ask as tasks for Label Studio, .json, and their labelling "
        "setup, .xml."
    ),
]
Items = Annotated[
    str | None,
    Option(help="With --label-studio: table with what people should see, and answers of judges."),
]


@dataclass(frozen=True)
class Wanted:
    """Tasks for Label Studio that are wanted: where, and what is known about the items.

    Attributes
    ----------
    path : str or None
        The file; None if no tasks are wanted.
    known : TaskItems
        What people see, and the answers of judges.
    """

    path: str | None = None
    known: TaskItems = field(default_factory=TaskItems)

    def check(self, items: Sequence[str], classes: Sequence[Any]) -> None:
        """Raise ValueError if tasks cannot be made, before other files are written."""
        if self.path is not None:
            label_studio(items, [str(name) for name in classes], self.known)

    def write(self, items: Sequence[str], classes: Sequence[Any]) -> None:
        """Write tasks, if they are wanted."""
        if self.path is not None:
            write(self.path, items, classes, self.known)


def check_output(path: str | None, overwrite: bool) -> None:
    """Check that tasks can be written, before anything is computed."""
    if path is None:
        return
    if Path(path).suffix != ".json":
        raise ValueError(f"--label-studio must name a file .json, but is {path!r}.")
    for each in (path, str(Path(path).with_suffix(".xml"))):
        shared.check_output(each, overwrite)


def read(
    path: str | None,
    *,
    id: str | None = None,
    judges: str | None = None,
    shown: Sequence[str] | None = None,
) -> TaskItems:
    """Read what people should see of items; without a table, only their names."""
    if path is None:
        shared.note("tasks show the names of the items only: give a table of them with --items.")
        return TaskItems()
    return read_task_items(path, id=id, judges=judges, shown=shown)


def asked(queue: Any) -> list[str]:
    """Return the items that a queue asks, in its order."""
    return [
        str(queue.items[row]) for row in queue.order().tolist() if str(queue.step[row]) == "ask"
    ]


def write(path: str, items: Sequence[str], classes: Sequence[Any], known: TaskItems) -> None:
    """Write tasks and their setup, and say how votes come back."""
    setup = write_label_studio(path, items, [str(name) for name in classes], known)
    shared.say(
        f"Wrote {plural(len(items), 'task')} for Label Studio to {path}, and their labelling setup "
        f"to {setup}\n"
        f"Votes on them:  credalset import export.json --task data.{known.id} -o votes.csv"
    )
