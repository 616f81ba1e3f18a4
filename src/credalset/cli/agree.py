"""``credalset agree``: how much annotators agree."""

from __future__ import annotations

from typing import Annotated

import typer

from credalset.cli import shared
from credalset.votes import Annotations


def agree(
    votes: shared.VotesFile,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    n_resamples: Annotated[int, typer.Option(min=0, help="Bootstrap resamples; 0: no intervals.")] = 1000,
    random_state: shared.Seed = 0,
    as_json: shared.Json = False,
) -> None:
    """Measure how much annotators agree: overall, per class and per worker."""
    agreement = Annotations.read(votes).agreement(level=level, n_resamples=n_resamples, random_state=random_state)
    if as_json:
        shared.print_json("agreement", **agreement.to_dict())
    else:
        typer.echo(agreement)
