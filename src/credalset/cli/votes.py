"""``credalset import`` and ``credalset agree``: votes in, a long table and agreement out."""

from __future__ import annotations

from typing import Annotated

import typer

from credalset.cli import shared
from credalset.io.tables import read_votes, write_votes
from credalset.votes import Annotations
from credalset.votes.exports import KINDS


def agree(
    votes: shared.VotesFile,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    n_resamples: Annotated[int, typer.Option(min=0, help="Bootstrap resamples; 0: no intervals.")] = 1000,
    random_state: shared.Seed = 0,
    as_json: shared.Json = False,
) -> None:
    """Measure how much annotators agree: overall, per class and per worker."""
    agreement = read_votes(votes).agreement(level=level, n_resamples=n_resamples, random_state=random_state)
    if as_json:
        shared.print_json("agreement", **agreement.to_dict())
    else:
        typer.echo(shared.visible(agreement))


def import_votes(
    export: Annotated[str, typer.Argument(help="Export or table of votes: file, folder, pattern, archive.")],
    out: Annotated[str, typer.Option("--out", "-o", help="Table to write: .parquet, .csv, .tsv or .jsonl.")],
    kind: Annotated[str | None, typer.Option(help=f"If it is not recognised: {', '.join(KINDS)}.")] = None,
    task: Annotated[str | None, typer.Option(help="Column or field that names the items.")] = None,
    worker: Annotated[str | None, typer.Option(help="Column of the annotators; all of a wide table: a,b,c.")] = None,
    label: Annotated[str | None, typer.Option(help="Column with the labels, or question of the export.")] = None,
    time: Annotated[str | None, typer.Option(help="Column with times: a worker's later vote counts.")] = None,
    dayfirst: Annotated[bool | None, typer.Option(help="How to read dates such as 02.01.2025.")] = None,
    scale: Annotated[str | None, typer.Option(help="Labels in their order, if they are levels: low,high.")] = None,
    classes: Annotated[str | None, typer.Option(help="Labels to expect, separated by commas.")] = None,
    unknown: Annotated[str, typer.Option(help="Votes for other labels: error, or drop.")] = "error",
    rename: Annotated[list[str] | None, typer.Option(help="Rename or merge labels: old=new; repeat it.")] = None,
    tidy: Annotated[bool, typer.Option("--tidy", help="Lower case, single spaces: 'Yes ' is 'yes'.")] = False,
    empty: Annotated[str | None, typer.Option(help="Further marks of a missing label: 'n/a,?'.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Encoding of text files, such as cp1252.")] = None,
    delimiter: Annotated[str | None, typer.Option(help="What separates the columns of a CSV file.")] = None,
    overwrite: shared.Overwrite = False,
) -> None:
    """Turn an annotation export into one long table of votes.

    Everything that is dropped, merged or overruled is counted. The other commands take the table that this one writes.
    """
    shared.check_output(out, overwrite)
    workers = shared.split(worker) if kind == "wide" else worker
    votes = Annotations.read(
        export,
        kind,
        tidy=tidy,
        unknown=unknown,
        empty=shared.split(empty),
        rename=read_pairs(rename),
        task=task,
        worker=workers,
        label=label,
        time=time,
        dayfirst=dayfirst,
        scale=shared.split(scale) or None,
        classes=shared.split(classes) or None,
        encoding=encoding,
        delimiter=delimiter,
    )
    write_votes(votes, out)
    shared.say(f"{votes.origin}\n{votes!r}\nWrote {int(votes.n_votes.sum())} votes to {out}")


def read_pairs(pairs: list[str] | None) -> dict[str, str] | None:
    """Read new names by old ones, old=new."""
    found = {}
    for pair in pairs or ():
        old, equals, new = pair.rpartition("=")
        if not (old and equals and new):
            raise ValueError(f"--rename must be old=new, but is {pair!r}.")
        found[old] = new
    return found or None
