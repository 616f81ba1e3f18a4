"""``credalset check``: whether the promised coverage holds on items that were kept aside."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from credalset import metrics
from credalset._text import number_text, table_text
from credalset.calibration import Calibration, CrossCalibration
from credalset.commands import shared
from credalset.commands.shared import Columns, Format, Id, Json, Label, Logits, ShowPython, Task, Votes, Worker
from credalset.persistence.load import load
from credalset.tables.matching import Matched, read_numbers
from credalset.verdict import judge


@shared.guarded
def check(
    calibration: Annotated[str, typer.Argument(help="Folder of a calibration or a calibrated model.")],
    predictions: Annotated[str, typer.Argument(help="Held-out predictions (features for a model).")],
    votes: Votes,
    alpha: Annotated[list[float] | None, typer.Option("--alpha", help="Level; may be given several times.")] = None,
    level: Annotated[float, typer.Option(help="Probability of the band that coverage should fall into.")] = 0.99,
    groups: Annotated[str | None, typer.Option(help="Column of the predictions with a group for each item.")] = None,
    weights: Annotated[str | None, typer.Option(help="Column of the predictions with a weight for each item.")] = None,
    id: Id = "task",
    columns: Columns = None,
    logits: Logits = False,
    format: Format = None,
    task: Task = None,
    worker: Worker = None,
    label: Label = None,
    as_json: Json = False,
    show_python: ShowPython = False,
) -> None:
    """Compare promised and observed coverage; exit code 1 if the observed one lies below its band."""
    if show_python:
        shared.show_python(
            f"sets = cs.load({calibration!r}).predict_set(predictions, alpha={(alpha or [0.1])[0]})",
            "cs.metrics.coverage(sets, votes)",
        )
        return
    model = load(calibration)
    extra = [name for name in (groups, weights) if name is not None]
    table = read_numbers(predictions, format, id=id, columns=shared.split_names(columns), logits=logits, extra=extra)
    by_class = isinstance(model, Calibration)
    matched = shared.read_matched(table, shared.read_votes(votes, task, worker, label), by_class=by_class)
    options = {
        name: matched.table.extra[column]
        for name, column in (("groups", groups), ("weights", weights))
        if column is not None
    }
    rows = [_row(model, matched, a, level, options) for a in alpha or [0.1]]
    failed = any(row["verdict"] == "short" for row in rows)
    if as_json:
        shared.print_json("check", n=len(matched.table), rows=rows, passed=not failed)
    else:
        _print(rows, len(matched.table), level)
    if failed:
        raise typer.Exit(shared.CHECK_FAILED)


def _row(model: Any, matched: Matched, alpha: float, level: float, options: dict[str, Any]) -> dict[str, Any]:
    sets = model.predict_set(matched.table.values, alpha=alpha, **options)
    fitted = model._calibrated() if hasattr(model, "_calibrated") else model
    is_cross = isinstance(fitted, CrossCalibration)
    keys = None if is_cross else fitted.rule.new_keys(options.get("groups"), fitted.score, sets.prediction)
    verdict = judge(fitted, sets.contains(matched.votes), alpha, groups=keys, level=level)
    low, high = verdict.band or (None, None)
    return {
        "alpha": alpha,
        "promised": 1.0 - alpha,
        "observed": float(verdict.observed),
        "band_low": low,
        "band_high": high,
        "verdict": verdict.status,
        **{name: float(value) for name, value in metrics.mean_sizes(sets).items()},
        "empty": int(sets.is_empty().sum()),
    }


def _print(rows: list[dict[str, Any]], n: int, level: float) -> None:
    sizes = ["width", "epistemic", "labels", "decided"]
    headings = ["alpha", "promised", "observed", "band", "verdict", *sizes, "empty"]
    lines = []
    for row in rows:
        band = "-" if row["band_low"] is None else f"{row['band_low']:.3f}-{row['band_high']:.3f}"
        promised, observed, *measured = (
            number_text(row[name], decimals=3) for name in ("promised", "observed", *sizes)
        )
        lines.append([f"{row['alpha']:g}", promised, observed, band, row["verdict"], *measured, str(row["empty"])])
    typer.echo(f"Coverage of {n} held-out items, and the {level:.0%} band in which it should fall:\n")
    typer.echo(table_text(headings, lines))
