"""``credalset report``: one HTML page with the verdict, every item, and what to do."""

from __future__ import annotations

from typing import Annotated

import typer

from credalset.cli.check import CHECK_FAILED
from credalset.cli.shared import (
    Alpha,
    Columns,
    Groups,
    HeldOut,
    Id,
    InHand,
    Logits,
    Model,
    Overwrite,
    Reading,
    Strict,
    Trusted,
    VotesFile,
    Weights,
    check_output,
    command_line,
    load_model,
    options_given,
    read_pair,
    say,
)
from credalset.reporting import report as write_report


def report(
    calibration: Model,
    predictions: HeldOut,
    votes: VotesFile,
    out: Annotated[str, typer.Option("--out", "-o", help="HTML file to write.")] = "report.html",
    alpha: Alpha = 0.1,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    texts: Annotated[str | None, typer.Option(help="Column with the text of each item, to show it.")] = None,
    in_hand: InHand = None,
    groups: Groups = None,
    weights: Weights = None,
    id: Id = None,
    columns: Columns = None,
    logits: Logits = False,
    trusted: Trusted = None,
    strict: Strict = False,
    overwrite: Overwrite = False,
) -> None:
    """Write one HTML page: the verdict, coverage by slice, every item, and what to do.

    The exit code is 1 if the items were used for training or calibration.
    """
    check_output(out, overwrite)
    model = load_model(calibration, trusted)
    extra = {"groups": groups, "weights": weights, "texts": texts}
    pair = read_pair(Reading(predictions, id, columns, extra, logits, strict), votes, model, in_hand=in_hand)
    made = write_report(
        model,
        pair.inputs,
        pair.votes,
        out,
        alpha=alpha,
        items=pair.items,
        command=command_line(),
        **pair.extra,
        **options_given(title=title),
    )
    say(f"{made.verdict.sentence}\nWrote {out}")
    if made.verdict.used:
        raise typer.Exit(CHECK_FAILED)
