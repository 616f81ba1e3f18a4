"""``credalset plan`` with the folder of a review: whom to ask, audits, and new items."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from credalset._display import plural
from credalset.acting.audit import draw_sample
from credalset.acting.folder import CASCADE, MODEL, QUEUE, load_rule, write_record
from credalset.acting.record import RECORD, Record
from credalset.cli import shared
from credalset.cli.judges import columns_of, items_of, read_answers
from credalset.cli.tasks import Wanted
from credalset.crowd.cascades import PERSON
from credalset.io.items import ItemTable, select_voted
from credalset.io.store import load
from credalset.io.tables import read_table, table_writer
from credalset.predictors import JudgePool
from credalset.votes import Annotations
from credalset.votes.files import read_vote_table

WHY_SENT = "the cascade asks a person"


def is_review(folder: str) -> bool:
    """Tell whether a folder is that of a review."""
    return (Path(folder) / RECORD).is_file()


def plan_reviewed(
    folder: str, out: str, audit: int | None, seed: int, wanted: Wanted, *, as_json: bool
) -> None:
    """List the items of a review that are to be asked, and those of an audit among them.

    Items that a cascade sends to a person are asked, too.
    """
    rows = _read_rows(Path(folder) / QUEUE)
    sent = _sent_to_people(Path(folder))
    id = next(iter(rows[0])) if rows else "item"
    asked = [row for row in rows if row["step"] == "ask"]
    kept = (id, "risk", "votes", "further_votes", "why")
    size = 0
    record = Record.read(Path(folder))
    if audit is None:
        tasks = [{name: row[name] for name in kept} for row in asked]
        more = {"votes": "0", "further_votes": "1", "why": WHY_SENT}
        tasks += [{id: row[id], "risk": row["risk"]} | more for row in sent]
    else:
        record = _with_audit(record, folder, audit, seed)
        assert record.last is not None
        last = record.last
        sample = [last.items[row] for row in np.flatnonzero(last.audited)]
        size = len(sample)
        names = [row[id] for row in [*asked, *sent]] + sample
        # In random order and without other columns, so that nobody can tell them apart.
        order = np.random.default_rng([seed, 5, len(record)]).permutation(len(names))
        tasks = [{id: names[place]} for place in order]
    classes = record.classes
    wanted.check(names_of(tasks), classes)
    if audit is not None:
        write_record(record, folder)
    _write(out, tasks, [id] if audit is not None else list(kept))
    if as_json:
        counts = {"n_to_ask": len(asked), "n_audited": size, "n_of_cascade": len(sent)}
        shared.print_json("plan", n_items=len(rows), **counts)
        wanted.write(names_of(tasks), classes)
        return
    words = f"{len(asked)} of {plural(len(rows), 'item')} to ask"
    if sent:
        words += f", and {len(sent)} of {CASCADE} that go to a person"
    if audit is not None:
        words += f", and {size} to audit among them: one vote each"
    shared.say(
        f"{words}\nWrote {plural(len(tasks), 'item')} to {out}\n"
        f"When their votes are in your file, review again in {folder} with --overwrite."
    )
    wanted.write(names_of(tasks), classes)


def names_of(rows: list[dict[str, Any]]) -> list[str]:
    """Return the names of items, which are in the first column."""
    return [str(next(iter(row.values()))) for row in rows]


def _with_audit(record: Record, folder: str, size: int, seed: int) -> Record:
    """Return the record with an audit; the same one if it was drawn already."""
    if record.last is None:
        raise ValueError(f"{folder} has no rounds. Review the items first.")
    about = record.about[-1]
    if about.audit_size:
        if about.audit_size != size:
            raise ValueError(
                f"an audit of {plural(about.audit_size, 'item')} was drawn for this round. Ask for "
                f"--audit {about.audit_size} to get its list again, or review first."
            )
        return record
    accepted = np.flatnonzero(record.last.step == "accept")
    if not len(accepted):
        raise ValueError("no label would be accepted now, so that there is nothing to audit.")
    if size > len(accepted):
        shared.note(f"only {plural(len(accepted), 'label')} would be accepted: all are audited.")
    rows = draw_sample(accepted, size, np.random.default_rng([seed, 6, len(record)]))
    return record.with_audit(rows, 1.0 - about.confidence)


def _read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a queue or of next steps of a cascade, as texts."""
    table = read_table(path)
    return [row for batch in table.batches for row in batch.to_pylist()]


def _sent_to_people(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of items without votes that a cascade sends to a person."""
    if not (folder / CASCADE).exists():
        return []
    return [row for row in _read_rows(folder / CASCADE) if row["step"] == PERSON]


def plan_new(
    folder: str,
    source: shared.TableSource,
    judges: str | None,
    out: str,
    votes_in_hand: str | None,
    wanted: Wanted,
    *,
    as_json: bool,
) -> None:
    """Give new items their next steps, by the rule of a review; reviewed items keep theirs."""
    stored = load_rule(folder)
    rule = stored.rule
    record = Record.read(folder)
    table, predictions = _predict(Path(folder), stored, source, judges)
    votes = None
    if votes_in_hand is None:
        shared.note(shared.NO_VOTES)
    else:
        names = tuple(map(str, rule.classes or range(rule.n_classes)))
        given = read_vote_table(votes_in_hand, names)
        for sentence in select_voted(table, given, keep=True).notes:
            shared.note(sentence)
        counts = given.reorder(names).align(table.items).counts
        votes = Annotations.from_counts(counts, classes=rule.classes, items=table.items)
    queue = stored.decide(predictions, votes, table.extra.get("groups"))
    rows = _rows_of(queue, table.id)
    seen = {} if record.last is None else {name: row for row, name in enumerate(record.last.items)}
    reviewed = {str(row[next(iter(row))]): row for row in _read_rows(Path(folder) / QUEUE)}
    n_seen = 0
    for place, row in enumerate(rows):
        if str(row[table.id]) in seen:
            n_seen += 1
            old = reviewed[str(row[table.id])]
            kept = {name: _like(cell, old[name]) for name, cell in list(row.items())[1:]}
            rows[place] = {table.id: row[table.id]} | kept
    if n_seen:
        shared.note(f"{plural(n_seen, 'item')} were reviewed: their steps are those of the review.")
    to_ask = names_of([row for row in rows if row["step"] == "ask"])
    wanted.check(to_ask, record.classes)
    _write(out, rows, list(rows[0]) if rows else [table.id])
    counts_of = {step: sum(row["step"] == step for row in rows) for step in queue.counts()}
    if as_json:
        shared.print_json("plan", n_items=len(rows), steps=counts_of, certified=queue.certified)
        wanted.write(to_ask, record.classes)
        return
    words = ", ".join(f"{count} {step}" for step, count in counts_of.items())
    shared.say(f"{words}\n{queue.certified or 'Not certified.'}\nWrote {out}")
    wanted.write(to_ask, record.classes)


def _like(cell: Any, text: Any) -> Any:
    """Return a cell of the queue, which was read as a text, as a number if the other is one."""
    if isinstance(cell, bool):
        return str(text).casefold() == "true"
    if isinstance(cell, float | int):
        return type(cell)(float(text))
    return text


def _predict(
    folder: Path, stored: Any, source: shared.TableSource, judges: str | None
) -> tuple[Any, Any]:
    """Read predictions, or make them with what the review has learned."""
    classes = stored.rule.classes
    if (folder / MODEL).is_dir():
        model = load(folder / MODEL)
        if isinstance(model, JudgePool):
            return _pool(model, source, judges)
        table = source.features()
        shares = model.predict_proba(table.frame())
    elif stored.shares is not None:
        table = source.features()
        shares = np.tile(stored.shares, (len(table), 1))
    else:
        table = source.predictions()
        return table, table.frame()
    return table, replace(table, values=np.asarray(shares), names=classes).frame()


def _pool(pool: JudgePool, source: shared.TableSource, judges: str | None) -> tuple[Any, Any]:
    """Read answers of the judges that a pool knows, and pool them."""
    if source.columns is not None:
        raise ValueError("--columns is about predictions: name columns of judges with --judges.")
    kinds = ",".join(pool.kind_columns_ or ())
    groups = (source.extra or {}).get("groups")
    judged = read_answers(source.path, columns_of(judges), source.id, kinds or None, groups=groups)
    shares = pool.predict_proba(judged.answers, kinds=judged.kinds)
    items = items_of(judged)
    column = judged.extra.get("groups")
    extra = {} if column is None else {"groups": column.loc[list(items)].to_numpy()}
    names = tuple(map(str, pool.classes_.tolist()))
    table = ItemTable(items, shares, names=names, id=judged.id, extra=extra)
    return table, table.frame()


def _rows_of(queue: Any, id: str) -> list[dict[str, Any]]:
    columns = queue.to_dict()
    for name in ("possible", "aleatoric", "epistemic"):
        columns.pop(name)
    columns = {id: columns.pop("item"), **columns}
    columns["risk"] = np.round(columns["risk"], 4).tolist()
    columns["further_votes"] = np.round(columns["further_votes"], 4).tolist()
    names = list(columns)
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _write(out: str, rows: list[dict[str, Any]], names: list[str]) -> None:
    import pyarrow as pa

    columns = {name: [row[name] for row in rows] for name in names}
    batch = pa.RecordBatch.from_pydict(columns)
    with table_writer(out, batch.schema, for_spreadsheets=names[0]) as write:
        write(batch)
