"""``credalset report``: one page that says whether sets keep their promise, where annotators disagree, what to do."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from credalset.commands import shared
from credalset.commands.inputs import Model, Pair, Predictions, Votes
from credalset.commands.shared import Alpha, ShowPython
from credalset.exceptions import need
from credalset.reporting import report as write_report


@shared.guarded
def report(
    calibration: Model,
    predictions: Annotated[str, typer.Argument(help="Held-out predictions (features for a model).")],
    votes: Votes,
    table: Predictions,
    out: Annotated[str, typer.Option("--out", "-o", help="HTML file to write.")] = "report.html",
    alpha: Alpha = 0.1,
    texts: Annotated[str | None, typer.Option(help="Column of the predictions with the text of each item.")] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    show_python: ShowPython = False,
) -> None:
    """Write one HTML page to send round.

    The verdict, coverage by slice, the map of uncertainty, every item, and what to do.
    """
    shared.check_output(out, streams=False)
    model = calibration.load()
    pair = Pair(predictions, table, votes, model, {"texts": texts})
    options: dict[str, Any] = {"alpha": alpha} | ({} if title is None else {"title": title})
    if show_python:
        given = (pair.asked, "both.votes", repr(out), f"items=both.table.items{pair.arguments()}")
        shared.show_python(
            *pair.python(), calibration.python(), shared.call("cs.report", write_report, "model", *given, **options)
        )
        return
    asked, matched, carried = pair.read()
    if table.groups is not None:  # so that the page calls them as the table does
        carried["groups"] = need("pandas").Series(carried["groups"], matched.table.items, name=table.groups)
    command = f"credalset {shared.quoted(*sys.argv[1:])}"
    made = write_report(
        model, asked, matched.votes, out, items=matched.table.items, command=command, **options, **carried
    )
    shared.stderr().print(f"{made.verdict.sentence}\nWrote {out}")
