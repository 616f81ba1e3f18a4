"""``credalset plan``: where the next votes should go, what to expect of them, and which items are done."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from credalset.commands import shared
from credalset.commands.inputs import Model, Pair, Predictions, Votes
from credalset.commands.shared import Alpha, Json, ShowPython
from credalset.planning import plan as make_plan
from credalset.planning.result import task_format


@shared.guarded
def plan(
    calibration: Model,
    predictions: Annotated[str, typer.Argument(help="Predictions (features for a model) of the items to plan for.")],
    votes: Votes,
    table: Predictions,
    budget: Annotated[
        float, typer.Option("--budget", "--n-votes", min=0.0, help="What may be spent: votes, or units of --cost.")
    ],
    out: Annotated[str | None, typer.Option("--out", "-o", help="Table with advice for each item, or -.")] = None,
    out_format: Annotated[str | None, typer.Option(help="Format of that table, where its name does not say.")] = None,
    tasks: Annotated[str | None, typer.Option(help="List of the items to ask about: .csv or .jsonl.")] = None,
    alpha: Alpha = 0.1,
    delta: Annotated[float, typer.Option(help="What the regions of the votes add to the error.")] = 0.01,
    goal: Annotated[str, typer.Option(help="label: settled items get no more votes. width: all do.")] = "label",
    most: Annotated[int, typer.Option(min=1, help="Votes that may be asked for at most on one item.")] = 100,
    cost: Annotated[str | None, typer.Option(help="Column of the predictions with the cost of a vote.")] = None,
    texts: Annotated[str | None, typer.Option(help="Column of the predictions with texts, for --tasks.")] = None,
    compare: Annotated[str, typer.Option(help="uniform, random, entropy, activelab.")] = "uniform,random,entropy",
    as_json: Json = False,
    show_python: ShowPython = False,
) -> None:
    """Say which items need more votes, how many, and which are done."""
    _check_outputs(out, out_format, tasks, as_json)
    if texts is not None and tasks is None:
        raise ValueError("--texts is for the list of tasks. Name a file for it: --tasks tasks.csv.")
    model = calibration.load()
    pair = Pair(predictions, table, votes, model, {"cost": cost, "texts": texts}, keep_unvoted=True)
    options: dict[str, Any] = {"budget": budget, "alpha": alpha, "delta": delta, "goal": goal, "most": most}
    options["compare"] = tuple(shared.split_names(compare) or ())
    if show_python:
        given = (pair.asked, "both.votes", f"items=both.table.items{pair.arguments('texts')}")
        said = shared.call("cs.plan", make_plan, "model", *given, **options)
        shared.show_python(
            *pair.python(), calibration.python(), f"plan = {said}", *_as_python(pair.id, out, out_format, tasks, texts)
        )
        return
    asked, matched, carried = pair.read()
    shown = carried.pop("texts", None)
    made = make_plan(model, asked, matched.votes, items=matched.table.items, **carried, **options)
    if out is not None:
        whole = made.to_frame("pyarrow", id=pair.id)
        shared.write_table(out, out_format, whole.schema, whole.to_batches(), "Writing")
    if tasks is not None:
        made.write_tasks(tasks, id=pair.id, texts=shown)
    if as_json:
        shared.print_json("plan", **made.describe())
    else:
        typer.echo(made.summary(), err=out == "-")


def _check_outputs(out: str | None, out_format: str | None, tasks: str | None, as_json: bool) -> None:
    if out is not None:
        shared.check_table(out, out_format)
    if tasks is not None:
        shared.check_output(tasks)
        task_format(tasks)
    if as_json and out == "-":
        raise ValueError("--json and --out - both write to standard output. Give --out a file.")


def _as_python(id: str, out: str | None, out_format: str | None, tasks: str | None, texts: str | None) -> list[str]:
    """Write down what is written of the plan."""
    lines = ["print(plan.summary())"]
    if out is not None:
        lines += ["from credalset.tables.files import table_writer", f"whole = plan.to_frame('pyarrow', id={id!r})"]
        lines += shared.writing(out, out_format, "whole.schema", "whole.to_batches()")
    shown = "" if texts is None else ", texts=both.table.extra['texts']"
    return lines if tasks is None else [*lines, f"plan.write_tasks({tasks!r}, id={id!r}{shown})"]
