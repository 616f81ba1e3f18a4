"""``credalset estimate``, and judges beside people for ``credalset agree``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from typer import Argument, Option

from credalset.cli import shared
from credalset.estimation import estimate as estimate_averages
from credalset.exceptions import need
from credalset.io.judged import JudgedTable, read_judges
from credalset.judges import compare
from credalset.predictors.pool import JudgePool
from credalset.votes import Annotations
from credalset.votes.files import read_vote_table

Judges = Annotated[
    str | None,
    Option(
        help="Columns of judges: gpt=judges.gpt.probs,claude=judges.claude.label; or all of the "
        "object judges: auto."
    ),
]
JudgesOrTable = Annotated[
    str | None,
    Option(
        help="Table with answers of judges; or, if it is given before the votes, columns of "
        "judges: gpt=judges.gpt.probs,claude=judges.claude.label, or auto."
    ),
]
Kinds = Annotated[
    str | None, Option(help="Columns with kinds of items, in which judges may be biased.")
]
Clusters = Annotated[
    str | None, Option(help="Column with what items belong to, such as their document.")
]
Ratings = Annotated[bool, Option("--ratings", help="Classes are numbers, whose mean matters.")]
AUTO = "auto"


def read_answers(
    path: str, judges: str | None, id: str | None, kinds: str | None, **extra: str | None
) -> JudgedTable:
    """Read the answers of judges, with the columns of kinds."""
    return read_judges(path, columns_of(judges), id=id, kinds=shared.split(kinds), extra=extra)


def columns_of(judges: str | None) -> str | None:
    """Return the named columns of judges; None for those of the object ``judges``."""
    return None if judges == AUTO else judges


def items_of(table: JudgedTable) -> tuple[str, ...]:
    """Return the items of all judges, in order of first appearance."""
    found: dict[str, None] = {}
    for own in table.answers.values():
        found |= dict.fromkeys(map(str, own if isinstance(own, dict) else own.index))
    return tuple(found)


def read_prices(prices: list[str] | None) -> dict[str, float] | None:
    """Return prices by name, from texts name=price."""
    found = {}
    for part in (each for text in prices or () for each in shared.split(text)):
        name, sign, price = part.rpartition("=")
        try:
            found[name] = float(price)
        except ValueError:
            sign = ""
        if not (sign and name):
            raise ValueError(f"--price must be name=number, such as gpt=0.01, but is {part!r}.")
    return found or None


def compare_judges(
    tables: Sequence[str],
    judges: str | None,
    *,
    id: str | None,
    kinds: str | None,
    clusters: str | None,
    ratings: bool,
    epsilon: float,
    prices: list[str] | None,
    plot: str | None,
    overwrite: bool,
    random_state: int,
    as_json: bool,
) -> None:
    """Compare judges with people, and print tables."""
    if plot is not None:
        shared.check_output(plot, overwrite)
    path, columns = answers_of(tables, judges)
    votes = read_votes(tables)
    table = read_answers(path, columns, id, kinds, clusters=clusters)
    found = compare(
        table.answers,
        votes,
        kinds=table.kinds,
        clusters=table.extra.get("clusters"),
        ratings=ratings or None,
        epsilon=epsilon,
        prices=read_prices(prices),
        random_state=random_state,
    )
    if plot is not None:
        write_plot(found, plot)
    if as_json:
        shared.print_json("judges", **found.to_dict())
    else:
        shared.tell(found)
    if plot is not None:
        shared.say(f"Wrote {plot}")


def write_plot(found: Any, path: str) -> None:
    """Draw the comparison into a file."""
    matplotlib = need("matplotlib", "A picture of judges", extra="plot")
    matplotlib.use("Agg")
    plotting = need("credalset.plotting")
    axes = plotting.judges(found)
    axes.figure.savefig(path, bbox_inches="tight", dpi=150)


def estimate(
    predictions: Annotated[
        str, Argument(help="Predictions for all items, or answers of judges (with --judges).")
    ],
    votes: Annotated[str, Argument(help="Votes on some of the items: task, worker, label.")],
    judges: Judges = None,
    level: Annotated[float, Option(help="Confidence level of the intervals.")] = 0.95,
    these: Annotated[
        bool, Option("--these", help="Average over these items, not over items like these.")
    ] = False,
    ratings: Ratings = False,
    kinds: Kinds = None,
    groups: shared.Groups = None,
    strata: Annotated[
        str | None, Option(help="Column within whose values voted items were drawn at random.")
    ] = None,
    clusters: Clusters = None,
    weights: Annotated[
        str | None, Option(help="Column with one over the chance of each item to get votes.")
    ] = None,
    width: Annotated[
        float | None, Option(help="Say how many items need a vote for intervals of this width.")
    ] = None,
    id: shared.Id = None,
    columns: shared.Columns = None,
    logits: shared.Logits = False,
    random_state: shared.Seed = 0,
    as_json: shared.Json = False,
) -> None:
    """Estimate averages from predictions on all items and votes on some, with intervals.

    The items with votes must be a random sample, unless --strata or --weights say how they were
    chosen. With --judges, the answers are pooled as people's votes teach, and the votes on an item
    are kept from its own prediction; other predictions must not have been trained on these votes.
    """
    roles = {"groups": groups, "strata": strata, "clusters": clusters, "weights": weights}
    counted = read_votes([predictions, votes] if judges is not None else [votes])
    if judges is not None:
        if columns is not None or logits:
            raise ValueError("--columns and --logits are about predictions: leave out --judges.")
        table = read_answers(predictions, judges, id, kinds, **roles)
        pool = JudgePool(scale=True if ratings else None, random_state=random_state)
        kept = table.extra.get("clusters")
        pool.fit(table.answers, counted, kinds=table.kinds, clusters=kept)
        frame = need("pandas").DataFrame(pool.oof_, list(pool.items_ or ()), list(pool.classes_))
        extra = {role: table.extra[role] for role in roles if role in table.extra}
    else:
        if kinds is not None:
            raise ValueError("--kinds is about judges: name them with --judges, or leave it out.")
        named = {role: column for role, column in roles.items() if column is not None}
        read = shared.TableSource(predictions, id, columns, named, logits).predictions()
        for sentence in read.notes:
            shared.note(sentence)
        frame = read.frame()
        extra = {
            role: need("pandas").Series(column, list(read.items))
            for role, column in read.extra.items()
        }
    found = estimate_averages(
        frame,
        counted,
        level,
        population="these" if these else "like",
        values=_values_of(frame.columns) if ratings else None,
        **extra,
    )
    needed = None if width is None else found.items_for(width)
    if as_json:
        shared.print_json(
            "estimate",
            population=found.population,
            level=found.level,
            n_items=found.n_items,
            n_voted=found.n_voted,
            rows=found.rows(),
            items_needed=None if needed is None else dict(zip(found.names, needed, strict=True)),
        )
        return
    shared.tell(found)
    if needed is not None:
        parts = [
            f"{name}: {'more than all' if np.isinf(number) else int(number)}"
            for name, number in zip(found.names, needed, strict=True)
        ]
        typer.echo(f"Items with one vote for a width of {width:g}: {', '.join(parts)}")


def _values_of(classes: Any) -> list[float]:
    try:
        return [float(name) for name in classes]
    except (TypeError, ValueError):
        raise ValueError(
            f"--ratings needs numbers as classes, but they are {', '.join(map(str, classes))}."
        ) from None


def answers_of(tables: Sequence[str], judges: str | None) -> tuple[str, str | None]:
    """Return the file with the answers, and the columns of judges if they are named.

    The answers come before the votes, as predictions do; or ``--judges`` names their file.
    """
    if len(tables) == 2:
        return tables[0], columns_of(judges)
    if judges is None or not Path(judges).exists():
        raise ValueError(
            f"--judges {judges} names columns, or a file that does not exist. Give the file with "
            f"the answers before the votes: answers.jsonl {tables[-1]} --judges {judges}"
        )
    return judges, None


def read_votes(tables: Sequence[str]) -> Annotations:
    """Read the votes, which are in the last of one or two tables."""
    try:
        return read_vote_table(tables[-1])
    except ValueError as error:
        if len(tables) == 1:
            raise
        raise ValueError(f"{error} The votes come last, after the answers of judges.") from None
