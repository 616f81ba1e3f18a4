"""``credalset check``: whether sets cover what is guaranteed, on items that were kept aside."""

from __future__ import annotations

import typer

from credalset.cli.shared import (
    Alphas,
    Columns,
    Groups,
    HeldOut,
    Id,
    InHand,
    Json,
    Logits,
    Model,
    Reading,
    Strict,
    Trusted,
    VotesFile,
    Weights,
    load_model,
    print_json,
    read_pair,
    split_numbers,
)
from credalset.evaluation import evaluate

CHECK_FAILED = 1


def check(
    calibration: Model,
    predictions: HeldOut,
    votes: VotesFile,
    alpha: Alphas = "0.1",
    in_hand: InHand = None,
    groups: Groups = None,
    weights: Weights = None,
    id: Id = None,
    columns: Columns = None,
    logits: Logits = False,
    trusted: Trusted = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Compare guaranteed and observed coverage on items that were kept aside.

    The exit code is 1 if sets cover too little, or if the items were used before.
    """
    model = load_model(calibration, trusted)
    reading = Reading(predictions, id, columns, {"groups": groups, "weights": weights}, logits, strict)
    pair = read_pair(reading, votes, model, in_hand=in_hand)
    result = evaluate(model, pair.inputs, pair.votes, split_numbers(alpha, "alpha"), **pair.extra)
    if as_json:
        print_json("check", passed=result.passed, rows=list(result), groups=list(result.groups))
    else:
        typer.echo(result)
    if not result.passed:
        raise typer.Exit(CHECK_FAILED)
