"""``credalset calibrate``: from predictions and votes to a calibration folder."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from typer import Argument, Option

from credalset.calibration import conformalize
from credalset.calibration.thresholds import named_noises
from credalset.cli import shared
from credalset.crowd import CrowdCalibration, DirichletCrowd, VotingPolicy

FIT_SIZE = 0.3  # share of the items that fit the crowd model; the others calibrate


def calibrate(
    predictions: Annotated[str, Argument(help="Predictions: an id and one column per class.")],
    votes: shared.VotesFile,
    out: Annotated[str, Option("--out", "-o", help="Folder for the calibration.")],
    score: Annotated[str, Option(help="Distance that shapes the sets: kl, tv, ws, …")] = "kl",
    hold_out: shared.HoldOut = 0.0,
    noise: Annotated[
        str | None, Option(help=f"Cover the true distribution: {', '.join(named_noises())}.")
    ] = None,
    in_hand: Annotated[
        str | None, Option(help="Votes that new items have: 0,1,2, or auto.")
    ] = None,
    method: Annotated[
        str, Option(help="For --in-hand: panel, or imputed if no item has many votes.")
    ] = "panel",
    lead: Annotated[float | None, Option(help="Calibrate a voting policy with this lead.")] = None,
    max_votes: shared.MaxVotes = None,
    futility: shared.Futility = None,
    initial_votes: shared.InitialVotes = None,
    groups: shared.Groups = None,
    weights: shared.Weights = None,
    id: shared.Id = None,
    columns: shared.Columns = None,
    logits: shared.Logits = False,
    random_state: shared.Seed = 0,
    strict: shared.Strict = False,
    overwrite: shared.Overwrite = False,
) -> None:
    """Calibrate the predictions of a model on votes.

    Use items that were not used to train the model.
    """
    shared.check_output(out, overwrite, folder=True)
    if noise is not None and noise not in named_noises():
        raise ValueError(f"--noise must be one of {', '.join(named_noises())}, but is {noise!r}.")
    policy = (
        shared.given(lead=lead, max_votes=max_votes, futility=futility, initial_votes=initial_votes)
        or None
    )
    if lead is None and policy:
        raise ValueError(
            "--max-votes, --futility and --initial-votes belong to a policy: give --lead too."
        )
    extra = {"groups": groups, "weights": weights}
    source = shared.TableSource(predictions, id, columns, extra, logits, strict)
    pair = shared.read_training(
        source, votes, features=False, hold_out=hold_out, random_state=random_state
    )
    calibration: Any
    if in_hand is None and lead is None:
        calibration = conformalize(pair.inputs, pair.votes, score, noise=noise, **pair.extra)
        calibration.thresholds(pair.inputs, **pair.extra)  # warns of infinite ones
    elif noise is not None or weights is not None:
        raise ValueError(
            "--noise and --weights cannot be combined with --in-hand or --lead. Leave them out."
        )
    else:
        numbers: Any = in_hand
        if in_hand not in (None, "auto"):
            numbers = shared.split_numbers(in_hand, "in-hand", int)
        calibration = calibrate_in_hand(pair, score, numbers, method, policy, random_state)
    calibration.save(out)
    shared.say(f"{calibration!r}\n{calibration.guarantee}\nWrote {out}")
    again = shared.said_again(id=id, columns=columns, logits=logits, groups=groups)
    tested = [predictions, votes] if hold_out else ["held-out.csv", votes]
    shared.say_next(
        ("Test it on items kept aside", ["check", out, *tested, *again]),
        ("Sets for new items", ["predict", out, "new.csv", "-o", "sets.csv", *again]),
    )


def calibrate_in_hand(
    pair: shared.Pair,
    score: str,
    in_hand: Any,
    method: Any,
    policy: dict[str, Any] | None,
    random_state: int,
) -> CrowdCalibration:
    """Fit a crowd model to some items and calibrate votes in hand, or a policy, on the others."""
    order = np.random.default_rng(random_state).permutation(len(pair.items))
    some, others = np.split(order, [int(FIT_SIZE * len(order))])
    if method == "imputed":  # approximate, so it needs no other items
        some = others = np.arange(len(order))
    fitted = pair.take(some)
    crowd = DirichletCrowd(random_state=random_state).fit(fitted.inputs, fitted.votes)
    rest = pair.take(others)
    items = (rest.inputs, rest.votes, score)
    options: dict[str, Any] = {"groups": rest.extra.get("groups"), "random_state": random_state}
    if policy is None:
        return crowd.conformalize(*items, in_hand=in_hand, method=method, **options)
    if in_hand is not None:
        raise ValueError(
            "--lead calibrates a policy as a whole and cannot be combined with --in-hand."
        )
    return VotingPolicy(crowd, **policy).conformalize(*items, **options)
