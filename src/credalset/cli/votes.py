"""``credalset import`` and ``credalset agree``: from an export to votes, and their agreement."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Annotated, Any

from typer import Argument, Option

from credalset._display import join_names, plural
from credalset._validation import check_choice
from credalset.cli import judges as judging
from credalset.cli import shared
from credalset.exceptions import CredalSetWarning, need
from credalset.io.tables import read_table, with_decimal_points, write_table
from credalset.votes import Annotations
from credalset.votes.exports import KINDS
from credalset.votes.files import read_vote_table, write_smoothed, write_vote_table
from credalset.votes.tables import find_usual

__all__ = ["agree", "import_table", "import_votes", "read_pairs"]

TABLE = "table"  # the kind of predictions and features


def agree(
    tables: Annotated[
        list[str],
        Argument(
            metavar="[ANSWERS] VOTES",
            help="Answers of judges (one row per item), to compare with people, and votes.",
        ),
    ],
    judges: judging.JudgesOrTable = None,
    id: shared.Id = None,
    kinds: judging.Kinds = None,
    clusters: judging.Clusters = None,
    ratings: judging.Ratings = False,
    epsilon: Annotated[
        float,
        Option(
            help="How much worse a judge may be: 0.1 for crowds, 0.15 for skilled annotators, "
            "0.2 for experts."
        ),
    ] = 0.15,
    price: Annotated[
        list[str] | None, Option(help="Price of an answer: gpt=0.01,claude=0.02.")
    ] = None,
    plot: Annotated[str | None, Option(help="Picture of the judges: .png, .svg or .pdf.")] = None,
    overwrite: shared.Overwrite = False,
    level: Annotated[float, Option(help="Confidence level of the intervals.")] = 0.95,
    n_resamples: Annotated[
        int, Option(min=0, help="Number of bootstrap resamples; 0 for no intervals.")
    ] = 1000,
    random_state: shared.Seed = 0,
    as_json: shared.Json = False,
) -> None:
    """Measure how much annotators agree, and how judges compare with them.

    With answers of judges: agreement with people, the alternative annotator test, the same for a
    pool of all judges and for a constant that never reads the item, and what each judge adds.
    """
    if len(tables) > 2:
        raise ValueError(f"agree takes answers of judges and votes, but got {len(tables)} tables.")
    votes = tables[-1]
    if judges is not None or len(tables) == 2:
        judging.compare_judges(
            tables,
            judges,
            id=id,
            kinds=kinds,
            clusters=clusters,
            ratings=ratings,
            epsilon=epsilon,
            prices=price,
            plot=plot,
            overwrite=overwrite,
            random_state=random_state,
            as_json=as_json,
        )
        return
    agreement = read_vote_table(votes).agreement(
        level=level, n_resamples=n_resamples, random_state=random_state
    )
    if as_json:
        shared.print_json("agreement", **agreement.to_dict())
    else:
        shared.tell(agreement)
        shared.say_next(("Where all items stand", ["review", votes, "-o", "review"]))


def import_votes(
    export: Annotated[str, Argument(help="Export or table: a file, folder, pattern or archive.")],
    out: Annotated[
        str, Option("--out", "-o", help="Table to write: .parquet, .csv, .tsv or .jsonl.")
    ],
    kind: Annotated[
        str | None,
        Option(
            help=f"Format, if it is not recognised: {', '.join(KINDS)}; or {TABLE}, for "
            "predictions and features."
        ),
    ] = None,
    task: Annotated[str | None, Option(help="Column or field that names the items.")] = None,
    worker: Annotated[
        str | None,
        Option(
            help="Column with the annotators, '' if there is none; if wide, all their columns: "
            "a,b,c."
        ),
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
        list[str] | None,
        Option(
            help="Rename or merge labels, or rename columns of a table: old=new. May be repeated."
        ),
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
    """Turn an annotation export into one long table of votes, or another table into a clean one.

    The other commands read the table that it writes. It says how many votes were dropped, renamed
    or overruled. Check the classes that it prints: spellings of one label are merged with --tidy or
    --rename. With --kind table, predictions or features in another encoding, with another
    delimiter or with decimal commas become a table in UTF-8 with commas and decimal points.
    """
    check_choice(values, "values", ("votes", "smoothed"))
    shared.check_output(out, overwrite)
    about_votes: dict[str, Any] = {
        "worker": worker,
        "label": label,
        "time": time,
        "dayfirst": dayfirst,
        "scale": shared.split(scale) or None,
        "classes": shared.split(classes) or None,
        "unknown": unknown,
        "rename": read_pairs(rename),
        "tidy": tidy,
        "empty": shared.split(empty),
    }
    if kind == TABLE:
        renamed = about_votes.pop("rename") or {}
        defaults = {"unknown": "error", "tidy": False, "empty": []}
        odd = [name for name, value in about_votes.items() if value != defaults.get(name)]
        if odd or values != "votes":
            name = (odd or ["values"])[0]
            raise ValueError(f"--{name} is about votes, but --kind is {TABLE}. Leave one out.")
        import_table(export, out, task, renamed, encoding, delimiter)
        return
    if kind == "wide":
        about_votes["worker"] = shared.split(worker) or None
    # The notes of the votes say what warnings would.
    with warnings.catch_warnings(action="ignore", category=CredalSetWarning):
        votes = Annotations.read(
            export, kind, task=task, encoding=encoding, delimiter=delimiter, **about_votes
        )
    if values == "votes":
        write_vote_table(votes, out)
        wrote = plural(int(votes.n_votes.sum()), "vote")
    else:
        write_smoothed(votes, out)
        wrote = plural(len(votes), "item")
    for sentence in votes.notes:
        shared.note(f"{sentence}.")
    first = join_names(votes.items or range(len(votes)), 3)
    shared.say(f"{votes.origin}: {first}\n{votes!r}\nWrote {wrote} to {out}")
    if values == "votes":
        shared.say_next(
            ("Do annotators agree", ["agree", out]),
            ("Where all items stand", ["review", out, "-o", "review"]),
        )


def import_table(
    path: str,
    out: str,
    id: str | None,
    renamed: dict[str, str],
    encoding: str | None,
    delimiter: str | None,
) -> None:
    """Write a clean copy of a table of predictions or features.

    The column that names the items is called task there, as in votes, if it is named here.
    """
    stream = read_table(path, encoding=encoding, delimiter=delimiter, whole=True)
    whole = need("pyarrow").Table.from_batches(list(stream.batches), stream.schema)
    new = {**renamed, **({} if id in (None, "task") else {id: "task"})}
    for option, wanted in (("task", [] if id is None else [id]), ("rename", list(renamed))):
        odd = [name for name in wanted if name not in whole.schema.names]
        if odd:
            has = join_names(whole.schema.names, 12)
            raise ValueError(f"--{option} names the column {odd[0]!r}, but {path} has {has}.")
    columns = [new.get(name, name) for name in whole.schema.names]
    twice = [name for name, number in Counter(columns).items() if number > 1]
    if twice:
        raise ValueError(f"two columns of {path} would be called {twice[0]!r}. Rename one of them.")
    table, changed = with_decimal_points(whole.rename_columns(columns), find_usual(columns, "task"))
    write_table(table, out)
    if changed:
        shared.note(f"decimal commas became points in {join_names(changed)}.")
    for old, name in new.items():
        shared.note(f"the column {old!r} is called {name!r}.")
    names = join_names(table.schema.names, 12)
    shared.say(f"{path}, read as a table: {names}\nWrote {plural(len(table), 'row')} to {out}")


def read_pairs(pairs: list[str] | None) -> dict[str, str] | None:
    """Return new names by old ones, from texts old=new."""
    found = {}
    for pair in pairs or ():
        old, equals, new = pair.rpartition("=")
        if not (old and equals and new):
            raise ValueError(f"--rename must be old=new, but is {pair!r}.")
        found[old] = new
    return found or None
