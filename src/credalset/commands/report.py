"""``credalset report``: one page that says whether sets keep their promise, where annotators disagree, what to do."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from credalset.calibration import Calibration
from credalset.commands import shared
from credalset.commands.shared import Alpha, Columns, Format, Id, Label, Logits, ShowPython, Task, Votes, Worker
from credalset.persistence.load import load
from credalset.reporting import report as write_report


@shared.guarded
def report(
    calibration: Annotated[str, typer.Argument(help="Folder of a calibration or a calibrated model.")],
    predictions: Annotated[str, typer.Argument(help="Held-out predictions (features for a model).")],
    votes: Votes,
    out: Annotated[str, typer.Option("--out", "-o", help="HTML file to write.")] = "report.html",
    alpha: Alpha = 0.1,
    texts: Annotated[str | None, typer.Option(help="Column of the predictions with the text of each item.")] = None,
    groups: Annotated[str | None, typer.Option(help="Column of the predictions with a group for each item.")] = None,
    weights: Annotated[str | None, typer.Option(help="Column of the predictions with a weight for each item.")] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    id: Id = "task",
    columns: Columns = None,
    logits: Logits = False,
    format: Format = None,
    task: Task = None,
    worker: Worker = None,
    label: Label = None,
    show_python: ShowPython = False,
) -> None:
    """Write one HTML page to send round: verdict, coverage by slice, map, items, what to do."""
    if show_python:
        shared.show_python(
            "from credalset.tables import match, read_numbers",
            "votes = " + shared.call("cs.Annotations.read", votes, task=task, worker=worker, label=label),
            *shared.read_as(calibration, predictions, format, id=id, columns=columns, logits=logits),
            f"cs.report(made, predictions, both.votes, {out!r}, alpha={alpha}, items=both.table.items)",
        )
        return
    shared.check_output(out)
    model: Any = load(calibration)
    extra = [name for name in (texts, groups, weights) if name is not None]
    table = shared.read_for(model, predictions, format, id=id, columns=columns, logits=logits, extra=extra)
    by_class = isinstance(model, Calibration)
    matched = shared.read_matched(table, shared.read_votes(votes, task, worker, label), by_class=by_class)
    options: dict[str, Any] = {
        name: matched.table.extra[column].tolist()
        for name, column in (("texts", texts), ("groups", groups), ("weights", weights))
        if column is not None
    }
    if title is not None:
        options["title"] = title
    command = f"credalset {shared.quoted(*sys.argv[1:])}"
    made = write_report(
        model,
        matched.table.values if by_class else matched.table.features(),
        matched.votes,
        out,
        alpha=alpha,
        items=matched.table.items,
        command=command,
        **options,
    )
    shared.stderr().print(f"{made.verdict.sentence}\nWrote {out}")
