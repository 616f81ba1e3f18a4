"""``credalset calibrate``: predictions and votes in files to a calibration folder."""

from __future__ import annotations

from typing import Annotated

import typer

from credalset.calibration import AnnotatorSampling, FewVotes, UnbiasedVotes, conformalize
from credalset.calibration.noise import Noise
from credalset.commands import shared
from credalset.commands.shared import Columns, Format, Id, Label, Logits, ShowPython, Task, Votes, Worker
from credalset.tables.matching import read_numbers

NOISES: dict[str, Noise | str | None] = {
    "none": None,
    "auto": "auto",
    "few-votes": FewVotes(),
    "annotator-sampling": AnnotatorSampling(),
    "unbiased-votes": UnbiasedVotes(),
}


@shared.guarded
def calibrate(
    predictions: Annotated[str, typer.Argument(help="Predictions: an id column and one column per class.")],
    votes: Votes,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder for the calibration.")],
    score: Annotated[str, typer.Option(help="Nonconformity score, by name.")] = "kl",
    noise: Annotated[str, typer.Option(help=f"Cover the truth behind the votes: {', '.join(NOISES)}.")] = "none",
    groups: Annotated[str | None, typer.Option(help="Column of the predictions with a group for each item.")] = None,
    weights: Annotated[str | None, typer.Option(help="Column of the predictions with a weight for each item.")] = None,
    id: Id = "task",
    columns: Columns = None,
    logits: Logits = False,
    format: Format = None,
    task: Task = None,
    worker: Worker = None,
    label: Label = None,
    show_python: ShowPython = False,
) -> None:
    """Calibrate a score on predictions and votes that the model has not been trained on."""
    if show_python:
        extra = [name for name in (groups, weights) if name is not None]
        numbers = {"format": format, "id": id, "columns": shared.split_names(columns), "logits": logits}
        model = NOISES.get(noise)
        how = "" if model is None else f", noise={model!r}" if isinstance(model, str) else f", noise=cs.{model!r}"
        for name, column in (("groups", groups), ("weights", weights)):
            how += "" if column is None else f", {name}=both.table.extra[{column!r}]"
        shared.show_python(
            "from credalset.tables import match, read_numbers",
            "votes = " + shared.call("cs.Annotations.read", votes, task=task, worker=worker, label=label),
            f"both = match({shared.call('read_numbers', predictions, **numbers, extra=extra)}, votes)",
            f"cs.conformalize(both.table.values, both.votes, {score!r}{how}).save({out!r})",
        )
        return
    if noise not in NOISES:
        raise ValueError(f"--noise must be one of {', '.join(NOISES)}, but is {noise!r}.")
    shared.check_output(out, folder=True)
    extra = [name for name in (groups, weights) if name is not None]
    table = read_numbers(predictions, format, id=id, columns=shared.split_names(columns), logits=logits, extra=extra)
    matched = shared.read_matched(table, shared.read_votes(votes, task, worker, label))
    calibration = conformalize(
        matched.table.values,
        matched.votes,
        score,
        noise=NOISES[noise],
        groups=None if groups is None else matched.table.extra[groups],
        weights=None if weights is None else matched.table.extra[weights],
    )
    calibration.save(out)
    shared.stderr().print(f"{calibration!r}\nWrote {out}")
