"""``credalset import`` and ``credalset agree``: from an export to votes, and their agreement."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer
from typer import Argument, Option

from credalset._validation import check_choice
from credalset.cli import shared
from credalset.exceptions import CredalSetWarning
from credalset.io.tables import read_votes, write_smoothed, write_votes
from credalset.votes import Annotations
from credalset.votes.exports import KINDS
from credalset.votes.names import join_names, plural


def agree(
    votes: shared.VotesFile,
    level: Annotated[float, Option(help="Confidence level of the intervals.")] = 0.95,
    n_resamples: Annotated[
        int, Option(min=0, help="Number of bootstrap resamples; 0 for no intervals.")
    ] = 1000,
    random_state: shared.Seed = 0,
    as_json: shared.Json = False,
) -> None:
    """Measure how much annotators agree."""
    agreement = read_votes(votes).agreement(
        level=level, n_resamples=n_resamples, random_state=random_state
    )
    if as_json:
        shared.print_json("agreement", **agreement.to_dict())
    else:
        typer.echo(shared.visible(agreement))


def import_votes(
    export: Annotated[
        str, Argument(help="Export or table of votes: a file, folder, pattern or archive.")
    ],
    out: Annotated[
        str, Option("--out", "-o", help="Table to write: .parquet, .csv, .tsv or .jsonl.")
    ],
    kind: Annotated[
        str | None, Option(help=f"Format, if it is not recognised: {', '.join(KINDS)}.")
    ] = None,
    task: Annotated[str | None, Option(help="Column or field that names the items.")] = None,
    worker: Annotated[
        str | None, Option(help="Column with the annotators; if wide, all their columns: a,b,c.")
    ] = None,
    label: Annotated[
        str | None, Option(help="Column with the labels, or the question of an export.")
    ] = None,
    time: Annotated[
        str | None, Option(help="Column with times: a worker's latest vote on an item counts.")
    ] = None,
    dayfirst: Annotated[bool | None, Option(help="Whether 02.01.2025 is in January.")] = None,
    scale: Annotated[
        str | None, Option(help="Labels in their order, if they are ordinal: low,medium,high.")
    ] = None,
    classes: Annotated[
        str | None, Option(help="All labels, as spelled in the predictions: yes,no.")
    ] = None,
    unknown: Annotated[
        str, Option(help="What to do with votes for other labels: error or drop.")
    ] = "error",
    rename: Annotated[
        list[str] | None, Option(help="Rename or merge labels: old=new. May be repeated.")
    ] = None,
    tidy: Annotated[
        bool, Option("--tidy", help="Ignore case and spaces: 'Yes ' is 'yes', or as in classes.")
    ] = False,
    empty: Annotated[str | None, Option(help="Labels that mean a missing vote: n/a,?")] = None,
    encoding: Annotated[str | None, Option(help="Encoding of the file, such as cp1252.")] = None,
    delimiter: Annotated[str | None, Option(help="Separator of the columns of a CSV file.")] = None,
    values: Annotated[
        str, Option(help="What to write: votes, or smoothed shares of judges as predictions.")
    ] = "votes",
    overwrite: shared.Overwrite = False,
) -> None:
    """Turn an annotation export into one long table of votes.

    The other commands read the table that it writes. It says how many votes were dropped, renamed
    or overruled. Check the classes that it prints: spellings of one label are merged with --tidy or
    --rename.
    """
    shared.check_output(out, overwrite)
    workers = shared.split(worker) or None if kind == "wide" else worker
    with warnings.catch_warnings(
        action="ignore", category=CredalSetWarning
    ):  # the notes say what this would
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
    check_choice(values, "values", ("votes", "smoothed"))
    (write_votes if values == "votes" else write_smoothed)(votes, out)
    for sentence in votes.notes:
        shared.note(f"{sentence}.")
    first = join_names(votes.items or range(len(votes)), 3)
    wrote = (
        plural(int(votes.n_votes.sum()), "vote")
        if values == "votes"
        else plural(len(votes), "item")
    )
    shared.say(f"{votes.origin}: {first}\n{votes!r}\nWrote {wrote} to {out}")


def read_pairs(pairs: list[str] | None) -> dict[str, str] | None:
    """Return new names by old ones, from texts old=new."""
    found = {}
    for pair in pairs or ():
        old, equals, new = pair.rpartition("=")
        if not (old and equals and new):
            raise ValueError(f"--rename must be old=new, but is {pair!r}.")
        found[old] = new
    return found or None
