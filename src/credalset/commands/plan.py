"""``credalset plan``: where the next votes should go, what to expect of them, and which items are done."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from credalset.calibration import Calibration
from credalset.commands import shared
from credalset.commands.shared import Alpha, Columns, Format, Id, Json, Label, Logits, ShowPython, Task, Votes, Worker
from credalset.persistence.load import load
from credalset.planning import plan as make_plan
from credalset.planning.result import task_format
from credalset.tables.files import kind_of, table_writer


@shared.guarded
def plan(
    calibration: Annotated[str, typer.Argument(help="Folder of a calibration or a calibrated model.")],
    predictions: Annotated[str, typer.Argument(help="Predictions (features for a model) of the items to plan for.")],
    votes: Votes,
    budget: Annotated[float, typer.Option(min=0.0, help="What may be spent: votes, or units of --cost.")],
    out: Annotated[str | None, typer.Option("--out", "-o", help="Table with advice for each item, or -.")] = None,
    out_format: Annotated[str | None, typer.Option(help="Format of that table, where its name does not say.")] = None,
    tasks: Annotated[str | None, typer.Option(help="List of the items to ask about: .csv or .jsonl.")] = None,
    alpha: Alpha = 0.1,
    delta: Annotated[float, typer.Option(help="What the regions of the votes add to the error.")] = 0.01,
    goal: Annotated[str, typer.Option(help="label: settled items get no more votes. width: every item counts.")] = (
        "label"
    ),
    most: Annotated[int, typer.Option(min=1, help="Votes that may be asked for at most on one item.")] = 100,
    cost: Annotated[str | None, typer.Option(help="Column of the predictions with the cost of a vote.")] = None,
    compare: Annotated[str, typer.Option(help="uniform, random, entropy, activelab.")] = "uniform,random,entropy",
    id: Id = "task",
    columns: Columns = None,
    logits: Logits = False,
    format: Format = None,
    task: Task = None,
    worker: Worker = None,
    label: Label = None,
    json: Json = False,
    show_python: ShowPython = False,
) -> None:
    """Say which items to ask annotators about again, how often, and which are done."""
    options: dict[str, Any] = {"budget": budget, "alpha": alpha, "delta": delta, "goal": goal, "most": most}
    options["compare"] = tuple(shared.split_names(compare) or ())
    extra = [] if cost is None else [cost]
    reading: dict[str, Any] = {"id": id, "columns": columns, "logits": logits, "extra": extra}
    if show_python:
        shared.show_python(
            "from credalset.tables import match, read_numbers",
            "votes = " + shared.call("cs.Annotations.read", votes, task=task, worker=worker, label=label),
            *shared.read_as(calibration, predictions, format, **reading, keep_unvoted=True),
            *_as_python(options, cost, out, out_format, tasks),
        )
        return
    _check_outputs(out, out_format, tasks, json)
    model: Any = load(calibration)
    table = shared.read_for(model, predictions, format, **reading)
    by_class = isinstance(model, Calibration)
    known = shared.read_votes(votes, task, worker, label)
    matched = shared.read_matched(table, known, by_class=by_class, keep_unvoted=True)
    if cost is not None:
        options["cost"] = matched.table.extra[cost]
    numbers = matched.table.values if by_class else matched.table.features()
    made = make_plan(model, numbers, matched.votes, items=matched.table.items, **options)
    if out is not None:
        _write(made.to_frame("pyarrow"), out, out_format)
    if tasks is not None:
        made.write_tasks(tasks)
    if json:
        shared.print_json("plan", **made.describe())
    else:
        typer.echo(made.summary(), err=out == "-")


def _check_outputs(out: str | None, out_format: str | None, tasks: str | None, json: bool) -> None:
    if out is not None:
        shared.check_output(out)
        kind_of(out, out_format)
    if tasks is not None:
        shared.check_output(tasks)
        task_format(tasks)
    if json and out == "-":
        raise ValueError("--json and --out - both write to standard output. Give --out a file.")


def _write(table: Any, out: str, out_format: str | None) -> None:
    with table_writer(out, table.schema, out_format) as write:
        for batch in table.to_batches():
            write(batch)


def _as_python(
    options: dict[str, Any], cost: str | None, out: str | None, out_format: str | None, tasks: str | None
) -> list[str]:
    """Write down how the plan is made and what is written of it."""
    how = ", ".join(f"{name}={value!r}" for name, value in options.items())
    how += "" if cost is None else f", cost=both.table.extra[{cost!r}]"
    lines = [
        f"plan = cs.plan(made, predictions, both.votes, {how}, items=both.table.items)",
        "print(plan.summary())",
    ]
    if out is not None:
        lines += [
            "from credalset.tables.files import table_writer",
            'table = plan.to_frame("pyarrow")',
            f"with table_writer({out!r}, table.schema{'' if out_format is None else f', {out_format!r}'}) as write:",
            "    for batch in table.to_batches():",
            "        write(batch)",
        ]
    return lines if tasks is None else [*lines, f"plan.write_tasks({tasks!r})"]
