"""``credalset plan``: which items need another vote, and how many votes that will take."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from typer import Argument, Option

from credalset._display import plural
from credalset.acting.asking import items_to_ask
from credalset.cli import judges as judging
from credalset.cli import shared, tasks
from credalset.cli.plan_review import is_review, plan_new, plan_reviewed
from credalset.crowd import VotingPolicy
from credalset.io.items import select_voted
from credalset.io.scorer import as_calibrated_votes
from credalset.io.tables import table_writer
from credalset.votes import Annotations
from credalset.votes.files import read_vote_table


def plan(
    calibration: Annotated[str, Argument(help="Folder that review, calibrate or fit wrote.")],
    out: Annotated[str, Option("--out", "-o", help="Table to write: the items that need a vote.")],
    predictions: Annotated[
        str | None,
        Argument(help="Predictions: an id and one column per class. For a review, new items."),
    ] = None,
    audit: Annotated[
        int | None,
        Option(min=1, help="With a review: add so many accepted labels, drawn at random, as test."),
    ] = None,
    votes_in_hand: shared.InHand = None,
    lead: Annotated[
        float | None, Option(help="Ask until the first label leads by so many standard deviations.")
    ] = None,
    max_votes: shared.MaxVotes = None,
    futility: shared.Futility = None,
    initial_votes: shared.InitialVotes = None,
    alpha: shared.Alpha = 0.1,
    groups: shared.Groups = None,
    texts: Annotated[
        str | None, Option(help="Column with the texts of the items, copied to the table.")
    ] = None,
    id: shared.Id = None,
    columns: shared.Columns = None,
    logits: shared.Logits = False,
    random_state: shared.Seed = 0,
    strict: shared.Strict = False,
    label_studio: tasks.LabelStudio = None,
    items: tasks.Items = None,
    judges: judging.Judges = None,
    overwrite: shared.Overwrite = False,
    as_json: shared.Json = False,
) -> None:
    """List the items that need another vote.

    With the folder of a review: its items to ask, or the next steps of new items. --audit 200 adds
    a random sample of the accepted labels, whose next votes prove their error.

    Items are sorted by expected further votes. Also forecasts how many votes will be needed. The
    calibration must have --in-hand or --lead; with --lead it has its own policy. Collect one vote
    for each item of the list, add the votes to the file, and plan again. Items that are not on the
    list need no vote.
    """
    shared.check_output(out, overwrite)
    tasks.check_output(label_studio, overwrite)
    if items is not None and label_studio is None:
        raise ValueError("--items is about tasks: name their file with --label-studio.")
    if judges is not None and items is None and predictions is None:
        raise ValueError("--judges names columns of a table of items: give it with --items.")
    options = shared.given(
        lead=lead, max_votes=max_votes, futility=futility, initial_votes=initial_votes
    )
    extra = {"texts": texts, "groups": groups}
    wanted = tasks.Wanted()
    if label_studio is not None:
        named = judging.columns_of(judges)
        known = tasks.read(items or predictions, id=id, judges=named)
        wanted = tasks.Wanted(label_studio, known)
    if is_review(calibration):
        if options:
            raise ValueError(f"{calibration} is a review, which has a policy of its own.")
        if predictions is None:
            plan_reviewed(calibration, out, audit, random_state, wanted, as_json=as_json)
        elif audit is not None:
            raise ValueError("--audit is about reviewed items: leave out the predictions.")
        else:
            source = shared.TableSource(predictions, id, columns, extra, logits, strict)
            plan_new(calibration, source, judges, out, votes_in_hand, wanted, as_json=as_json)
        return
    if predictions is None or audit is not None:
        shared.load_model(calibration)
        raise ValueError(
            f"{calibration} holds no review, whose items would be known. Name predictions, and "
            f"leave out --audit: credalset plan {calibration} new.csv -o {out}"
        )
    loaded = shared.load_model(calibration)
    shared.check_in_hand(loaded, calibration)
    if loaded.policy is not None and options:
        raise ValueError(
            f"{calibration} has its own policy. Leave out --lead and the options that belong to it."
        )
    policy = loaded.policy or VotingPolicy(loaded.crowd, **options)
    source = shared.TableSource(predictions, id, columns, extra, logits, strict)
    table = source.inputs_of(loaded)
    shared.note_used(table.items, loaded)
    found = Annotations.from_counts(
        np.zeros((len(table), len(table.names or ()))), classes=table.names, items=table.items
    )
    if votes_in_hand is None:
        shared.note(shared.NO_VOTES)
    else:
        given = as_calibrated_votes(read_vote_table(votes_in_hand), loaded)
        for sentence in select_voted(table, given, keep=True).notes:
            shared.note(sentence)
        found = given.reorder(table.names or ()).align(table.items)
    asked = np.flatnonzero(
        items_to_ask(loaded, policy, table.frame(), found, alpha, table.extra.get("groups"))
    )
    forecast = policy.forecast(
        table.frame().iloc[asked],
        found.align([table.items[row] for row in asked]),
        random_state=random_state,
    )
    order = np.argsort(-forecast.votes, kind="stable")
    asked = asked[order]
    further = forecast.votes[order]
    names = [str(table.items[row]) for row in asked]
    wanted.check(names, table.names or ())
    _write_tasks(out, table, found, further, asked)
    wanted.write(names, table.names or ())
    if as_json:
        interval = dict(zip(("low", "high"), forecast.total_interval, strict=True))
        shared.print_json(
            "plan",
            n_items=len(table),
            n_to_ask=len(asked),
            votes={"mean": forecast.total, **interval},
        )
    else:
        low, high = forecast.total_interval
        shared.say(
            f"{len(asked)} of {plural(len(table), 'item')} to ask, "
            f"{forecast.total:,.0f} votes to come ({low:,.0f} to {high:,.0f})\n"
            f"Wrote {plural(len(asked), 'item')} to {out}"
        )
        again = shared.said_again(id=id, columns=columns, logits=logits, **options)
        more = ["--votes-in-hand", votes_in_hand or "votes.csv", "-o", out, "--overwrite"]
        shared.say_next(
            ("With one more vote on each", ["plan", calibration, predictions, *more, *again])
        )


def _write_tasks(out: str, table: Any, votes: Annotations, further: Any, rows: Any) -> None:
    import pyarrow as pa

    columns: dict[str, Any] = {}
    if "texts" in table.extra:
        columns["text"] = table.extra["texts"][rows].tolist()
    columns["votes"] = votes.n_votes[rows]
    columns["further_votes"] = further.round(1)
    if table.id in columns:
        raise ValueError(
            f"id names the column {table.id!r}, and the list of items has one of that name. "
            "Rename it."
        )
    batch = pa.RecordBatch.from_pydict({table.id: [table.items[row] for row in rows]} | columns)
    with table_writer(out, batch.schema, for_spreadsheets=table.id) as write:
        write(batch)
