"""``credalset agree``: how much annotators agree, overall, per class and per annotator."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from credalset.commands import shared
from credalset.commands.inputs import Votes
from credalset.commands.shared import Json, ShowPython
from credalset.votes import Annotations


@shared.guarded
def agree(
    votes: Votes,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    resamples: Annotated[int, typer.Option(min=0, help="Resamples behind the intervals; 0 leaves them out.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resamples.")] = 0,
    as_json: Json = False,
    show_python: ShowPython = False,
) -> None:
    """Measure how much annotators agree.

    Percent agreement, Fleiss' kappa, Krippendorff's alpha and Gwet's AC1, overall, per class and per annotator.
    """
    options: dict[str, Any] = {"level": level, "n_resamples": resamples, "random_state": seed}
    if show_python:
        shared.show_python(votes.python(), f"print({shared.call('votes.agreement', Annotations.agreement, **options)})")
        return
    agreement = votes.read().agreement(**options)
    if as_json:
        values = agreement.to_dict()
        values.pop("schema_version", None)
        shared.print_json("agreement", **values)
    else:
        typer.echo(agreement)
