"""``credalset check``: whether sets cover what is guaranteed, on items that were kept aside."""

from __future__ import annotations

import typer

from credalset.cli import shared
from credalset.evaluation import evaluate

CHECK_FAILED = 1


def check(
    calibration: shared.Model,
    predictions: shared.HeldOut,
    votes: shared.VotesFile,
    alpha: shared.Alphas = "0.1",
    in_hand: shared.InHand = None,
    groups: shared.Groups = None,
    weights: shared.Weights = None,
    id: shared.Id = None,
    columns: shared.Columns = None,
    logits: shared.Logits = False,
    trusted: shared.Trusted = None,
    strict: shared.Strict = False,
    as_json: shared.Json = False,
) -> None:
    """Compare guaranteed and observed coverage on items that were kept aside.

    The exit code is 1 if sets cover too little, or if the items were used before.
    """
    model = shared.load_model(calibration, trusted)
    reading = shared.Reading(predictions, id, columns, {"groups": groups, "weights": weights}, logits, strict)
    pair = shared.read_pair(reading, votes, model, in_hand=in_hand)
    result = evaluate(model, pair.inputs, pair.votes, shared.split_numbers(alpha, "alpha"), **pair.extra)
    if as_json:
        shared.print_json("check", passed=result.passed, rows=list(result), groups=list(result.groups))
    else:
        typer.echo(result)
    if not result.passed:
        raise typer.Exit(CHECK_FAILED)
