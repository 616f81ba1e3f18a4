"""``credalset estimate``, and judges beside people for ``credalset agree``."""

from __future__ import annotations

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
from credalset.votes.files import read_vote_table

Judges = Annotated[
    str | None,
    Option(
        help="Columns of judges: gpt=judges.gpt.probs,claude=judges.claude.label; or all of the "
        "object judges: auto."
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
    columns = {f"kind {name}": name for name in shared.split(kinds)}
    named = None if judges in (None, AUTO) else judges
    return read_judges(path, named, id=id, extra={**columns, **extra})


def kinds_of(table: JudgedTable) -> Any:
    """Return the columns of kinds of a table, or None."""
    found = {
        role.removeprefix("kind "): column
        for role, column in table.extra.items()
        if role.startswith("kind ")
    }
    return found or None


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
    votes: str,
    answers: str,
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
    table = read_answers(answers, judges, id, kinds, clusters=clusters)
    found = compare(
        table.answers,
        read_vote_table(votes),
        kinds=kinds_of(table),
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
    counted = read_vote_table(votes)
    if judges is not None:
        if columns is not None or logits:
            raise ValueError("--columns and --logits are about predictions: leave out --judges.")
        table = read_answers(predictions, judges, id, kinds, **roles)
        pool = JudgePool(scale=True if ratings else None, random_state=random_state)
        kept = table.extra.get("clusters")
        pool.fit(table.answers, counted, kinds=kinds_of(table), clusters=kept)
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


def answers_of(judges: str | None, answers: str | None) -> tuple[str | None, str | None]:
    """Return the file with the answers and the columns: ``--judges`` may name either."""
    if judges is None and answers is None:
        return None, None
    if answers is None:
        if judges is None or not Path(judges).exists():
            raise ValueError(
                f"--judges names {judges!r}, which is no file. Give the file with the answers, "
                "after the votes or as --judges, and their columns with --judges "
                "gpt=column,claude=column."
            )
        return judges, None
    return answers, judges
