"""``credalset agree``: how much annotators agree, overall, per class and per annotator."""

from __future__ import annotations

from typing import Annotated

import typer

from credalset.commands import shared
from credalset.commands.shared import Json, Label, ShowPython, Task, Votes, Worker


@shared.guarded
def agree(
    votes: Votes,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    resamples: Annotated[int, typer.Option(min=0, help="Resamples behind the intervals; 0 leaves them out.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resamples.")] = 0,
    task: Task = None,
    worker: Worker = None,
    label: Label = None,
    as_json: Json = False,
    show_python: ShowPython = False,
) -> None:
    """Measure how much annotators agree: percent, Fleiss' kappa, Krippendorff's alpha, Gwet's AC1."""
    if show_python:
        read = shared.call("cs.Annotations.read", votes, task=task, worker=worker, label=label)
        shared.show_python(f"votes = {read}", "print(votes.agreement())")
        return
    found = shared.read_votes(votes, task, worker, label)
    agreement = found.agreement(level=level, n_resamples=resamples, random_state=seed)
    if as_json:
        values = agreement.to_dict()
        values.pop("schema_version", None)
        shared.print_json("agreement", **values)
    else:
        typer.echo(agreement)
