"""``credalset calibrate``: predictions and votes to a calibration folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from credalset.calibration import conformalize
from credalset.calibration.thresholds import NAMED
from credalset.cli import shared

if TYPE_CHECKING:
    from credalset.crowd import CrowdCalibration

FIT_SIZE = 0.3  # share of the items that the crowd is fitted to, and that calibrate nothing


def calibrate(
    predictions: Annotated[str, typer.Argument(help="Predictions: an id and one column per class.")],
    votes: shared.VotesFile,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder for the calibration.")],
    score: Annotated[str, typer.Option(help="Nonconformity score.")] = "kl",
    noise: Annotated[str | None, typer.Option(help=f"Cover the truth: {', '.join(NAMED)}.")] = None,
    in_hand: Annotated[str | None, typer.Option(help="Sets for items with votes: 0,1,2,3,5 of them.")] = None,
    method: Annotated[str | None, typer.Option(help="For --in-hand: panel or imputed.")] = None,
    lead: Annotated[float | None, typer.Option(help="Calibrate a policy: ask until this lead (see plan).")] = None,
    max_votes: Annotated[int, typer.Option(help="For --lead: most votes per item.")] = 20,
    groups: shared.Groups = None,
    weights: shared.Weights = None,
    id: shared.Id = None,
    columns: shared.Columns = None,
    logits: shared.Logits = False,
    random_state: shared.Seed = 0,
    strict: shared.Strict = False,
    overwrite: shared.Overwrite = False,
) -> None:
    """Calibrate predictions of a model on votes it has not seen."""
    shared.check_output(out, overwrite, folder=True)
    if noise is not None and noise not in NAMED:
        raise ValueError(f"--noise must be one of {', '.join(NAMED)}, but is {noise!r}.")
    pair = shared.read_pair(
        shared.Reading(predictions, id, columns, {"groups": groups, "weights": weights}, logits, strict), votes
    )
    calibration: Any
    if in_hand is None and lead is None:
        calibration = conformalize(pair.inputs, pair.votes, score, noise=noise, **pair.extra)
    elif noise is not None or weights is not None:
        raise ValueError("--in-hand and --lead take neither --noise nor --weights.")
    else:
        numbers = None if in_hand is None else shared.split_numbers(in_hand, "in-hand", int)
        calibration = calibrate_in_hand(pair, score, numbers, method, lead, max_votes, random_state)
    calibration.save(out)
    shared.say(f"{calibration!r}\n{calibration.guarantee}\nWrote {out}")


def calibrate_in_hand(
    pair: shared.Pair,
    score: str,
    in_hand: list[int] | None,
    method: str | None,
    lead: float | None,
    max_votes: int,
    random_state: int,
) -> CrowdCalibration:
    """Fit a crowd to some of the items and calibrate votes in hand, or a policy, on the others."""
    from credalset.crowd import DirichletCrowd, VotingPolicy  # imports scikit-learn, which other commands do without

    order = np.random.default_rng(random_state).permutation(len(pair.items))
    some, others = np.split(order, [int(FIT_SIZE * len(order))])
    if method == "imputed":  # has no proof that would need other items
        some = others = np.arange(len(order))
    crowd = DirichletCrowd(random_state=random_state).fit(pair.inputs.iloc[some], pair.votes[some])
    groups = pair.extra.get("groups")
    items = (pair.inputs.iloc[others], pair.votes[others], score)
    options: dict[str, Any] = {"groups": None if groups is None else groups[others], "random_state": random_state}
    if lead is not None:
        if in_hand is not None:
            raise ValueError("--lead calibrates a policy as a whole: leave out --in-hand.")
        return VotingPolicy(crowd, lead=lead, max_votes=max_votes).conformalize(*items, **options)
    return crowd.conformalize(*items, in_hand=in_hand, method=method, **options)
