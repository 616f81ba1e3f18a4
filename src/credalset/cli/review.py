"""``credalset review``: where all items of one table stand."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from credalset._display import join_names
from credalset.acting.folder import CASCADE, PAGE, QUEUE, check_folder, write_review
from credalset.acting.record import RECORD, Record
from credalset.acting.review import Review
from credalset.acting.review import review as review_items
from credalset.cli import judges as judging
from credalset.cli import shared, tasks
from credalset.cli.judged_review import CascadeTerms, JudgedReview
from credalset.io.items import select_voted
from credalset.io.tables import read_table
from credalset.votes import Annotations
from credalset.votes.files import read_vote_table

ASKED_BEFORE = (
    "plans are certified if items with votes are a random sample. If you have added votes where "
    "an earlier review or its cascade asked for them, they are not, and the certificates of "
    "plans do not hold."
)
CHOICES = {"certified", "all"}
MOSTLY = 0.9  # share of the cells of a column that are labels, if it holds votes


def review(
    tables: Annotated[
        list[str],
        Argument(
            metavar="[PREDICTIONS] VOTES",
            help="Predictions (an id and one column per class), if there are any, and votes.",
        ),
    ],
    out: Annotated[str, Option("--out", "-o", help="Folder for queue, page, record and rule.")],
    texts: Annotated[
        str | None,
        Option(
            help="Without predictions: table of texts to learn from. With predictions: their "
            "column with the texts, for the page."
        ),
    ] = None,
    judges: judging.JudgesOrTable = None,
    kinds: judging.Kinds = None,
    price: Annotated[
        list[str] | None,
        Option(help="Prices, for the frontier of cascades: person=0.30,gpt=0.01."),
    ] = None,
    budget: Annotated[
        float | None,
        Option(help="With --price: what may be spent on the items without votes."),
    ] = None,
    max_votes: Annotated[
        int, Option(min=0, help="With --price: most votes of people on one item.")
    ] = 1,
    error: Annotated[
        str,
        Option(help="Largest mean error of accepted labels; several share the confidence."),
    ] = "0.1",
    confidence: Annotated[float, Option(help="Probability with which all bounds hold.")] = 0.9,
    groups: Annotated[
        str | None, Option(help="Column with groups; each has a certificate of its own.")
    ] = None,
    clusters: Annotated[
        str | None, Option(help="Column with clusters of items that depend on each other.")
    ] = None,
    costs: Annotated[
        str | None,
        Option(help="Table of costs: a column label, and the cost for each vote in others."),
    ] = None,
    disagreement: Annotated[
        float, Option(help="Divided: people disagree with at least this probability.")
    ] = 0.4,
    use_votes: Annotated[
        str, Option(help="certified: decide without one vote of each item; all: not certified.")
    ] = "certified",
    previous: Annotated[
        str | None, Option(help="Folder of an earlier review of these items.")
    ] = None,
    rounds: Annotated[
        int | None, Option(min=1, help="Divide the probability of failing over so many rounds.")
    ] = None,
    id: shared.Id = None,
    columns: shared.Columns = None,
    logits: shared.Logits = False,
    seed: Annotated[int, Option("--seed", min=0, help="Seed of everything that is drawn.")] = 0,
    title: Annotated[str, Option(help="Heading of the page.")] = "Review",
    strict: shared.Strict = False,
    label_studio: tasks.LabelStudio = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace queue and page; the record is continued.")
    ] = False,
    as_json: shared.Json = False,
) -> None:
    """Tell where all items stand: accept, ask, divided or expert.

    Needs one table of votes; predictions must have been made without these votes. One vote of each
    item is held back as the proof that the accepted labels are right. Writes queue.csv,
    report.html, the rule for new items, and a record for the next review.
    """
    if len(tables) > 2:
        raise ValueError(f"review takes predictions and votes, but got {len(tables)} tables.")
    if use_votes not in CHOICES:
        raise ValueError(f"--use-votes must be certified or all, but is {use_votes!r}.")
    errors = tuple(shared.split_numbers(error, "error"))
    prices = judging.read_prices(price)
    if judges is None and (kinds, prices, budget) != (None, None, None):
        raise ValueError("--kinds, --price and --budget are about judges: name them with --judges.")
    if budget is not None and prices is None:
        raise ValueError("--budget needs --price, such as --price person=0.30,gpt=0.01.")
    tasks.check_output(label_studio, overwrite)
    record = _record(out, previous, overwrite)
    judged = None
    if judges is None:
        inputs = _read(tables, texts, groups, clusters, id, columns, logits, strict, record)
    else:
        own = {"id": id, "kinds": kinds, "groups": groups, "clusters": clusters, "texts": texts}
        terms = CascadeTerms(prices, budget, errors[0], confidence, max_votes, seed)
        judged = JudgedReview.read(tables, judges, terms, **own)
        inputs = _inputs_of(judged, record)
        if prices is not None and record is not None:
            shared.note(ASKED_BEFORE)
    named = None if judged is None else judged.items.columns
    wanted = tasks.Wanted()
    if label_studio is not None:
        shown = [texts] if texts is not None and len(tables) == 2 and judged is None else None
        known = tasks.read(inputs.path or tables[0], id=id, judges=named, shown=shown)
        wanted = tasks.Wanted(label_studio, known)
    found = review_items(
        inputs.predictions,
        inputs.votes,
        judges=inputs.judges,
        kinds=inputs.kinds,
        error=errors if len(errors) != 1 else errors[0],
        confidence=confidence,
        costs=None if costs is None else _costs(costs),
        groups=inputs.groups,
        clusters=inputs.clusters,
        texts=inputs.learned,
        decide_from=use_votes,
        disagreement=disagreement,
        previous=record,
        total_rounds=rounds,
        random_state=seed,
    )
    further = [] if judged is None else judged.to_ask
    to_ask = [*tasks.asked(found.queue), *further]
    wanted.check(to_ask, found.queue.choices)
    write_review(
        found,
        out,
        id=inputs.id,
        title=title,
        texts=inputs.texts,
        groups=inputs.groups,
        cascade=None if judged is None else judged.rows,
        remarks=() if judged is None else judged.remarks,
    )
    wanted.write(to_ask, found.queue.choices)
    if as_json:
        more = {} if judged is None else judged.as_json()
        shared.print_json("review", **_as_json(found), **more)
        return
    shared.say(found.summary())
    shared.say(f"\n{_curves(found)}")
    if judged is not None and judged.words:
        shared.say(f"\n{judged.words}")
    further_file = "" if judged is None or judged.rows is None else f"{Path(out) / CASCADE}, "
    shared.say(f"\nWrote {further_file}{Path(out) / QUEUE} and {Path(out) / PAGE}")
    again = shared.said_again(id=id, judges=named, columns=columns, logits=logits)
    shared.say_next(
        ("Which items to ask", ["plan", out, "-o", "tasks.csv"]),
        ("New items, by the same rule", ["plan", out, "new.csv", "-o", "steps.csv", *again]),
        ("To certify votes bought since", ["plan", out, "--audit", "200", "-o", "tasks.csv"]),
    )


@dataclass(frozen=True, eq=False)
class Inputs:
    """What was read from the tables, in one order of items.

    Attributes
    ----------
    predictions : data frame or None
        Predictions of the user.
    votes : Annotations
        Votes on the same items.
    groups, clusters, texts, learned : sequence or None
        One value per item; ``learned`` are texts to train a model on.
    id : str
        Column that names the items.
    judges, kinds : dict or None
        Answers of judges in place of predictions, and kinds of the items.
    path : str or None
        The table that says most about the items.
    """

    predictions: Any
    votes: Annotations
    groups: Any = None
    clusters: Any = None
    texts: Any = None
    learned: Any = None
    id: str = "item"
    judges: Any = None
    kinds: Any = None
    path: str | None = None


def _inputs_of(judged: JudgedReview, record: Record | None) -> Inputs:
    """Return the answers of judges as inputs of a review."""
    votes = judged.votes
    if record is not None:
        votes = _in_classes_of(record, votes)
    items = judged.reviewed
    return Inputs(
        None,
        votes,
        groups=items.groups,
        clusters=items.clusters,
        texts=None if items.texts is None else items.texts.tolist(),
        id=items.id,
        judges=items.answers,
        kinds=items.kinds,
        path=items.path,
    )


def _check_above(out: str) -> None:
    parent = Path(out).absolute().parent
    if not parent.is_dir():
        raise ValueError(f"{out} cannot be written: there is no folder {parent}. Create it first.")


def _record(out: str, previous: str | None, overwrite: bool) -> Record | None:
    """Return the record to continue."""
    _check_above(out)
    own = check_folder(out, overwrite=overwrite)
    if previous is None:
        return own
    if not (Path(previous) / RECORD).exists():
        raise ValueError(f"{previous} holds no {RECORD}. Give the folder of an earlier review.")
    if own is not None and Path(previous).resolve() != Path(out).resolve():
        raise ValueError(
            f"{out} has a record of its own. Leave out --previous, or write elsewhere."
        )
    return Record.read(previous)


def _read(
    tables: list[str],
    texts: str | None,
    groups: str | None,
    clusters: str | None,
    id: str | None,
    columns: str | None,
    logits: bool,
    strict: bool,
    record: Record | None,
) -> Inputs:
    """Read predictions and votes, or texts and votes, matched by the names of the items."""
    votes = read_vote_table(tables[-1])
    if record is not None:
        votes = _in_classes_of(record, votes)
    extra = {"groups": groups, "clusters": clusters}
    if len(tables) == 1 and texts is None:
        if groups or clusters:
            raise ValueError("--groups and --clusters name columns of predictions or texts.")
        shared.note("there is no model: the shares of the classes are the prediction.")
        return Inputs(None, votes)
    if len(tables) == 2:
        extra |= {"texts": texts}
        source = shared.TableSource(tables[0], id, columns, extra, logits, strict)
        table = source.predictions()
        shared.check_classes(table, votes, source)
    else:
        source = shared.TableSource(str(texts), id, columns, extra, False, strict)
        table = source.features()
        if columns is None:
            _refuse_votes(table, votes, str(texts))
        kinds = ", ".join(map(" as ".join, zip(table.names or (), table.kinds, strict=True)))
        shared.note(
            f"there is no model: one is trained on {kinds}, on one half of the items for the other."
        )
    for sentence in select_voted(table, votes, keep=True).notes:
        shared.note(sentence)
    found = Inputs(
        None,
        votes.align(table.items),
        groups=table.extra.get("groups"),
        clusters=table.extra.get("clusters"),
        id=table.id,
    )
    if len(tables) == 1:
        learned = table.frame()
        learned.attrs["kinds"] = table.kinds
        return replace(found, learned=learned, texts=_texts_of(table))
    frame = table.frame()
    if record is not None and set(map(str, frame.columns)) == set(record.classes):
        frame = frame[list(record.classes)]
    return replace(found, predictions=frame, texts=table.extra.get("texts"))


def _refuse_votes(table: Any, votes: Annotations, path: str) -> None:
    """Refuse columns that hold labels: a model that has read the votes would seem to be right.

    Cells count as labels whatever their case and spaces, since `import` may have tidied the votes.
    """
    classes = {str(name).strip().casefold() for name in votes.classes or ()}
    frame = table.frame()
    odd = []
    for name in frame.columns:
        cells = frame[name].dropna().map(_as_label)
        cells = cells[cells != ""]
        if len(cells) and cells.isin(classes).mean() > MOSTLY:
            odd.append(str(name))
    if odd:
        kept = [str(name) for name in frame.columns if str(name) not in odd]
        raise ValueError(
            f"{join_names(odd)} of {path} hold labels as the votes do. A model that has read the "
            "votes would seem to be right, and certificates would be wrong. Name the columns to "
            f"learn from: --columns {shlex.quote(','.join(kept) or '…')}"
        )


def _as_label(cell: Any) -> str:
    """Return a cell as the name of a label: 3.0 is 3."""
    text = f"{cell:g}" if isinstance(cell, float) else str(cell)
    return text.strip().casefold()


def _texts_of(table: Any) -> list[str] | None:
    """Return the first column of texts, for the page."""
    for name, kind in zip(table.names or (), table.kinds, strict=True):
        if kind == "text":
            return [str(each) for each in table.frame()[name]]
    return None


def _in_classes_of(record: Record, votes: Annotations) -> Annotations:
    """Return votes with the classes of a record, in its order."""
    unknown = [name for name in votes.classes or () if str(name) not in record.classes]
    if unknown:
        raise ValueError(
            f"votes have the class {unknown[0]!r}, which earlier rounds did not have: "
            f"{', '.join(record.classes)}. Spell it alike, or review in a new folder."
        )
    return votes.reorder(record.classes)


def _costs(path: str) -> Any:
    """Read a table of costs: a column ``label``, and a column for each class of a vote."""
    import pyarrow as pa

    table = read_table(path)
    frame = pa.Table.from_batches(list(table.batches), table.schema).to_pandas()
    if "label" not in frame:
        raise ValueError(f"{path} needs a column label, and a column for each class of a vote.")
    return frame.set_index("label").astype(float)


def _curves(found: Review) -> str:
    """Return shares of accepted items by error and by votes bought, as two short tables."""
    rows = [row for row in found.curve() if row["accepted"] > 0]
    step = max(1, len(rows) // 8)
    kept = [row for place, row in enumerate(rows) if place % step == 0 or row["certified"]]
    errors = [f"{row['error']:g}{'*' if row['certified'] else ''}" for row in kept]
    votes = found.votes_curve()
    return "\n".join(
        [
            "Accepted by error (* certified, others a forecast):",
            *_pair("error", errors, [row["accepted"] for row in kept]),
            "Accepted by votes bought where it is asked (a forecast):",
            *_pair(
                "votes",
                [f"{row['votes']:,.0f}" for row in votes],
                [row["accepted"] for row in votes],
            ),
        ]
    )


def _pair(name: str, cells: list[str], shares: list[float]) -> list[str]:
    """Return two lines of aligned cells."""
    width = max([6, *(len(cell) for cell in cells)])
    head = "".join(f"{cell:>{width + 1}}" for cell in cells)
    body = "".join(f"{share:>{width + 1}.0%}" for share in shares)
    return [f"  {name:8s}{head}", f"  accepted{body}"]


def _as_json(found: Review) -> dict[str, Any]:
    expected, low, high = found.votes_to_come
    return {
        "n_items": len(found),
        "steps": found.queue.counts(),
        "n_certified": int(found.certified.sum()),
        "errors": found.errors,
        "accepted": [found.accepted[error] for error in found.errors],
        "votes": {"mean": expected, "low": low, "high": high},
        "round": len(found.record),
        "delta_spent": found.record.spent,
        "sentences": found.sentences,
        "curve": list(found.curve()),
        "votes_curve": list(found.votes_curve()),
    }
