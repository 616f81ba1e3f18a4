"""``credalset check``: whether the promised coverage holds on items that were kept aside."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from credalset import metrics
from credalset._text import number_text, table_text
from credalset.calibration import Calibration, CoverageDistribution, conformal_rank
from credalset.commands import shared
from credalset.commands.shared import Columns, Format, Id, Json, Label, Logits, ShowPython, Task, Votes, Worker
from credalset.persistence.load import load
from credalset.sets.columns import columns as answers
from credalset.tables.matching import Matched, read_numbers


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
    failed = any(row["verdict"] == "too low" for row in rows)
    if as_json:
        shared.print_json("check", n=len(matched.table), rows=rows, passed=not failed)
    else:
        _print(rows, len(matched.table), level)
    if failed:
        raise typer.Exit(shared.CHECK_FAILED)


def _row(model: Any, matched: Matched, alpha: float, level: float, options: dict[str, Any]) -> dict[str, Any]:
    sets = model.predict_set(matched.table.values, alpha=alpha, **options)
    observed = metrics.coverage(sets, matched.votes)
    fitted = model if isinstance(model, Calibration) else model._calibrated()
    n = len(fitted)
    band = CoverageDistribution(min(conformal_rank(n, alpha), n + 1), n).observed_interval(len(sets), level)
    found = answers(sets, ["width", "labels"])
    verdict = "too low" if observed < band[0] else "more than asked" if observed > band[1] else "as promised"
    return {
        "alpha": alpha,
        "promised": 1.0 - alpha,
        "observed": float(observed),
        "band_low": band[0],
        "band_high": band[1],
        "verdict": verdict,
        "width": float(metrics.mean(found["width"])),
        "labels": float(metrics.mean(found["n_labels"])),
        "empty": int(found["empty"].sum()),
    }


def _print(rows: list[dict[str, Any]], n: int, level: float) -> None:
    headings = ["alpha", "promised", "observed", "band", "verdict", "width", "labels", "empty"]
    lines = []
    for row in rows:
        names = ("promised", "observed", "band_low", "band_high", "width", "labels")
        promised, observed, low, high, *sizes = (number_text(row[name], decimals=3) for name in names)
        lines.append(
            [f"{row['alpha']:g}", promised, observed, f"{low}-{high}", row["verdict"], *sizes, str(row["empty"])]
        )
    typer.echo(f"Coverage of {n} held-out items, and the {level:.0%} band in which it should fall:\n")
    typer.echo(table_text(headings, lines))
