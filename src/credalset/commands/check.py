"""``credalset check``: whether the promised coverage holds on items that were kept aside."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from credalset._text import number_text, table_text
from credalset._typing import AnyArray
from credalset.commands import shared
from credalset.commands.inputs import Model, Pair, Predictions, Votes
from credalset.commands.shared import Json, ShowPython
from credalset.sets.columns import columns as answers
from credalset.tables.scorer import calibration_of
from credalset.verdict import HEADLINES, LEVEL, Promise, judge, judge_groups, on_missing_bands, promise_of
from credalset.votes import Annotations

HEADINGS = ["alpha", "promised", "observed", "band", "verdict", "width", "labels", "empty"]
PROMISES = {
    "recorded": "Promised are label distributions as they are recorded: shares of votes like these.",
    "true": "Promised are the distributions behind the votes. Votes do not show these: observed is how many of the "
    "recorded ones are covered, which the promise says nothing about.",
}


@shared.guarded
def check(
    calibration: Model,
    predictions: Annotated[str, typer.Argument(help="Held-out predictions (features for a model).")],
    votes: Votes,
    table: Predictions,
    alpha: Annotated[list[str] | None, typer.Option("--alpha", help="Levels: 0.05,0.1 or --alpha twice.")] = None,
    level: Annotated[float, typer.Option(help="Probability of the band that coverage should fall into.")] = LEVEL,
    as_json: Json = False,
    show_python: ShowPython = False,
) -> None:
    """Compare promised and observed coverage.

    The exit code is 1 if the observed one lies below its band.
    """
    levels = shared.split_levels(alpha or ["0.1"])
    model = calibration.load()
    pair = Pair(predictions, table, votes, model)
    if show_python:
        shared.show_python(
            *pair.python(),
            calibration.python(),
            f"for alpha in {levels}:",
            f"    sets = model.predict_set({pair.asked}, alpha=alpha{pair.arguments()})",
            "    print(alpha, cs.metrics.coverage(sets, both.votes), cs.metrics.mean_width(sets))",
        )
        return
    asked, matched, carried = pair.read()
    if again := calibration_of(model).reuse(matched.votes.items):
        shared.note(again)
    rows = [_row(model, asked, matched.votes, a, level, carried) for a in levels]
    failed = any(row["verdict"] == "short" for row in rows)
    promise = promise_of(calibration_of(model), 0.1)
    if as_json:
        about = {"about": promise.about, "assumptions": list(promise.assumptions)}
        shared.print_json("check", n=len(matched.table), **about, rows=rows, passed=not failed)
    else:
        _print(rows, len(matched.table), level, promise)
    if failed:
        raise typer.Exit(shared.CHECK_FAILED)


def _row(
    model: Any, asked: Any, votes: Annotations, alpha: float, level: float, options: dict[str, Any]
) -> dict[str, Any]:
    made = calibration_of(model)
    groups = options.get("groups", ["all"] * len(votes))
    if made.groups is None and made.features is None:  # one threshold for all: groups only tell how it serves them
        options = {role: values for role, values in options.items() if role != "groups"}
    sets = model.predict_set(asked, alpha=alpha, **options)
    verdict = judge(calibration_of(model), sets.contains(votes), alpha, groups=options.get("groups"), level=level)
    found = answers(sets, ["width", "labels"])
    low, high = verdict.band or (None, None)
    return {
        "alpha": alpha,
        "promised": 1.0 - alpha if verdict.promise is None else verdict.promise.coverage,
        "observed": float(verdict.observed),
        "observed_low": verdict.observed.low,
        "observed_high": verdict.observed.high,
        "band_low": low,
        "band_high": high,
        "verdict": verdict.status,
        "width": _mean(found["width"][~found["empty"]]),
        "labels": _mean(found["n_labels"][~found["empty"]]),
        "empty": int(found["empty"].sum()),
        "groups": [
            _of_group(each) for each in judge_groups(calibration_of(model), sets, votes, alpha, groups, level=level)
        ],
    }


def _of_group(each: dict[str, Any]) -> dict[str, Any]:
    of = each["coverage"]
    seen = {"observed": float(of), "observed_low": of.low, "observed_high": of.high}
    judged = {name: each[name] for name in ("band_low", "band_high", "verdict")}
    return {"group": str(each["group"]), "n": of.n, **seen, **judged}


def _mean(values: AnyArray) -> float | None:
    """Return the mean over the sets that are not empty, if there are any."""
    return float(values.mean()) if len(values) else None


def cells(row: dict[str, Any]) -> list[str]:
    """Write a row of the table, a text for each of HEADINGS."""
    names = ("promised", "observed", "width", "labels")
    promised, observed, *sizes = (number_text(row[name], decimals=3) for name in names)
    return [f"{row['alpha']:g}", promised, observed, _band(row), row["verdict"], *sizes, str(row["empty"])]


def _group(alpha: str, each: dict[str, Any]) -> list[str]:
    observed, low, high = (number_text(each[n], decimals=3) for n in ("observed", "observed_low", "observed_high"))
    return [alpha, each["group"], str(each["n"]), observed, f"{low}-{high}", _band(each), each["verdict"] or "-"]


def _band(row: dict[str, Any]) -> str:
    ends = [row["band_low"], row["band_high"]]
    return "unknown" if None in ends else "-".join(number_text(end, decimals=3) for end in ends)


def _print(rows: list[dict[str, Any]], n: int, level: float, promise: Promise) -> None:
    typer.echo(f"Coverage of {n} items, and the {level:.0%} band in which it should fall:\n")
    typer.echo(table_text(HEADINGS, list(map(cells, rows))))
    typer.echo()
    if len(rows[0]["groups"]) > 1:
        lines = [_group(f"{row['alpha']:g}", each) for row in rows for each in row["groups"]]
        headings = ["alpha", "group", "items", "observed", "95% interval", "band", "verdict"]
        kept = slice(None) if rows[0]["groups"][0]["verdict"] else slice(5)  # nothing is promised of single groups
        typer.echo(table_text(headings[kept], [line[kept] for line in lines]))
        typer.echo()
    for status in dict.fromkeys(row["verdict"] for row in rows):
        typer.echo(f"{status}: {HEADLINES[status]}.")
    for sentence in on_missing_bands(rows, level):
        typer.echo(sentence)
    typer.echo(PROMISES[promise.about])
    for sentence in promise.assumptions:
        typer.echo(f"Assumed: {sentence}")
