"""``credalset check`` and ``credalset report``: coverage on held-out items."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Argument, Option

from credalset.cli import shared
from credalset.cli.codes import CHECK_FAILED
from credalset.evaluation import evaluate
from credalset.reporting import report as write_report


def check(
    calibration: shared.Model,
    predictions: shared.HeldOut,
    votes: shared.VotesFile,
    alpha: shared.Alphas = "0.1",
    votes_in_hand: shared.InHand = None,
    groups: shared.Groups = None,
    weights: shared.Weights = None,
    id: shared.Id = None,
    columns: shared.Columns = None,
    logits: shared.Logits = False,
    trusted: shared.Trusted = None,
    strict: shared.Strict = False,
    as_json: shared.Json = False,
) -> None:
    """Test the coverage on held-out items.

    Items that were used for training or calibration are left out. The exit code is 1 if coverage is
    too low, or if no other items are left.
    """
    model = shared.load_model(calibration, trusted)
    shared.check_votes_in_hand(model, calibration, votes_in_hand)
    extra = {"groups": groups, "weights": weights}
    source = shared.TableSource(predictions, id, columns, extra, logits, strict)
    pair = shared.read_held_out(source, votes, model, votes_in_hand)
    result = evaluate(
        model, pair.inputs, pair.votes, shared.split_numbers(alpha, "alpha"), **pair.extra
    )
    if as_json:
        shared.print_json(
            "check", passed=result.passed, rows=list(result), groups=list(result.groups)
        )
    else:
        shared.tell(result)
    if not result.passed:
        raise typer.Exit(CHECK_FAILED)
    if not as_json:
        again = shared.said_again(id=id, columns=columns, logits=logits, groups=groups)
        hand = shared.said_again(votes_in_hand=votes_in_hand)
        shared.say_next(
            ("The same as a page", ["report", calibration, predictions, votes, *hand, *again]),
            ("Sets for new items", ["predict", calibration, "new.csv", "-o", "sets.csv", *again]),
        )


def report(
    calibration: shared.Model,
    predictions: shared.HeldOut,
    votes: Annotated[
        str | None,
        Argument(help="Held-out votes; without them, the page shows items and their next steps."),
    ] = None,
    out: Annotated[str, Option("--out", "-o", help="HTML file to write.")] = "report.html",
    alpha: shared.Alpha = 0.1,
    title: Annotated[str | None, Option(help="Heading of the page.")] = None,
    texts: Annotated[
        str | None, Option(help="Column with the texts of the items, which the page shows.")
    ] = None,
    votes_in_hand: shared.InHand = None,
    groups: shared.Groups = None,
    weights: shared.Weights = None,
    id: shared.Id = None,
    columns: shared.Columns = None,
    logits: shared.Logits = False,
    trusted: shared.Trusted = None,
    strict: shared.Strict = False,
    overwrite: shared.Overwrite = False,
) -> None:
    """Write an HTML page: what to do with each item, why, and whether the sets are valid.

    Items with held-out votes that were used for training or calibration are left out. The exit code
    is 1 if no others are left.
    """
    shared.check_output(out, overwrite)
    model = shared.load_model(calibration, trusted)
    shared.check_votes_in_hand(model, calibration, votes_in_hand)
    extra = {"groups": groups, "weights": weights, "texts": texts}
    source = shared.TableSource(predictions, id, columns, extra, logits, strict)
    if votes is None:
        pair = shared.read_new(source, model, votes_in_hand)
    else:
        pair = shared.read_held_out(source, votes, model, votes_in_hand)
    options = {"alpha": alpha, "items": pair.items, "_command": shared.command_line(), **pair.extra}
    if groups is not None:
        import pandas as pd

        # The page shows the name.
        options["groups"] = pd.Series(pair.extra["groups"], pair.items, name=groups)
    options |= {} if title is None else {"title": title}
    made = write_report(model, pair.inputs, pair.votes, out, **options)
    shared.say(f"{made.verdict.sentence}\nWrote {out}")
    if made.verdict.used:
        raise typer.Exit(CHECK_FAILED)
