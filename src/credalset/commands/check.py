"""``credalset check``: whether the guaranteed coverage holds on items that were kept aside."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from credalset.commands import shared
from credalset.commands.inputs import Model, Pair, Predictions, Votes
from credalset.commands.shared import Json
from credalset.evaluation import evaluate
from credalset.evaluation.table import cell

COLUMNS = ["alpha", "coverage", "band", "verdict", "width", "constant_width", "labels", "empty"]


@shared.guarded
def check(
    calibration: Model,
    predictions: Annotated[str, typer.Argument(help="Held-out predictions (features for a model).")],
    votes: Votes,
    table: Predictions,
    alpha: Annotated[list[str] | None, typer.Option("--alpha", help="Levels: 0.05,0.1 or --alpha twice.")] = None,
    as_json: Json = False,
) -> None:
    """Compare guaranteed and observed coverage.

    The exit code is 1 if the observed coverage lies below its band, or if items were used for training or calibration.
    """
    model = calibration.load()
    asked, matched, carried = Pair(predictions, table, votes, model).read()
    rows = evaluate(model, asked, matched.votes, shared.split_levels(alpha or ["0.1"]), volume=False, **carried)
    if as_json:
        groups = [_plain(row) for row in rows.groups]
        shared.print_json(
            "check", n=len(matched.table), rows=[_plain(row) for row in rows], groups=groups, passed=rows.passed
        )
    else:
        typer.echo(f"{rows}\n")
        for row, verdict in zip(rows, rows.verdicts, strict=True):
            typer.echo(f"alpha {row['alpha']:g}: {verdict.sentence}")
    if not rows.passed:
        raise typer.Exit(shared.CHECK_FAILED)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: float(value) if isinstance(value, float) else value for name, value in row.items()}


def cells(row: dict[str, Any]) -> list[str]:
    """Write a row of the table, a text for each of COLUMNS."""
    return [cell(name, row) for name in COLUMNS]
