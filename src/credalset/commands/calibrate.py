"""``credalset calibrate``: predictions and votes in files to a calibration folder."""

from __future__ import annotations

from typing import Annotated

import typer

from credalset.calibration import conformalize
from credalset.calibration.thresholds import NOISES as MODELS
from credalset.commands import shared
from credalset.commands.inputs import Pair, Predictions, Votes
from credalset.commands.shared import ShowPython

NOISES = tuple(name for name in MODELS if name != "bounded")


@shared.guarded
def calibrate(
    predictions: Annotated[str, typer.Argument(help="Predictions: an id column and one column per class.")],
    votes: Votes,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder for the calibration.")],
    table: Predictions,
    score: Annotated[str, typer.Option(help="Nonconformity score, by name.")] = "kl",
    noise: Annotated[str, typer.Option(help=f"Cover the truth behind the votes: {', '.join(NOISES)}.")] = "none",
    show_python: ShowPython = False,
) -> None:
    """Calibrate predictions of a model on votes it has not seen."""
    if noise not in NOISES:
        raise ValueError(f"--noise must be one of {', '.join(NOISES)}, but is {noise!r}.")
    pair, model = Pair(predictions, table, votes), None if noise == "none" else noise
    if show_python:
        how = "" if model is None else f", noise={model!r}"
        made = f"cs.conformalize({pair.asked}, both.votes, {score!r}{how}{pair.arguments()})"
        shared.show_python(*pair.python(), f"{made}.save({out!r})")
        return
    shared.check_output(out, folder=True)
    asked, matched, carried = pair.read()
    votes.note_order(score, matched.votes.classes)
    calibration = conformalize(asked, matched.votes, score, noise=model, **carried)
    calibration.save(out)
    shared.stderr().print(f"{calibration!r}\nWrote {out}")
