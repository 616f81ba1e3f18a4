"""The folder of a review: queue, page, record and rule appear together, or not at all."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from credalset._files import staged_folder, write_file
from credalset._typing import IntArray
from credalset.acting.record import RECORD, Record
from credalset.acting.stored import StoredRule
from credalset.crowd import DirichletCrowd
from credalset.exceptions import CredalSetWarning, need
from credalset.io.store import load, save
from credalset.io.tables import table_writer
from credalset.reporting import Report
from credalset.reporting.compose import Reviewed, write_reviewed
from credalset.reporting.items import About
from credalset.reporting.model import Check, Standing

if TYPE_CHECKING:
    from credalset.acting.review import Review

QUEUE, PAGE, RULE, MODEL = "queue.csv", "report.html", "rule", "model"
CASCADE = "cascade.csv"  # next steps of items without votes, which are not in the queue
MOST_CHECKED = 1_000  # items whose votes are hidden to test the model of the crowd
MOST_BOUNDED = 50  # classes whose bounds are in the queue; of more, they are in the rule's sets


def check_folder(path: str | Path, *, overwrite: bool) -> Record | None:
    """Return the record of a folder that may be written to; None if there is none yet."""
    folder = Path(path)
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise ValueError(f"{path} is a file. Name a folder.")
    if not (folder / RECORD).exists():
        if any(folder.iterdir()):
            raise ValueError(
                f"{path} holds other files. Name an empty or a new folder, or that of a review."
            )
        return None
    if not overwrite:
        raise ValueError(
            f"{path} holds a review already. Continue it with --overwrite, which replaces queue "
            "and page and keeps the record."
        )
    return Record.read(folder)


def write_review(
    found: Review, path: str | Path, *, id: str = "item", cascade: Any = None, **page: Any
) -> Report:
    """Write queue, page, record and rule of a review into a folder, in one step.

    With `cascade`, a batch of rows with the next steps of further items by a cascade, also these.
    Files that somebody has put there, and the rounds of the record, are kept.
    """
    folder = Path(path)
    own = {QUEUE, CASCADE, PAGE, RULE, MODEL, RECORD}
    written = make_page(found, None, **page)
    with staged_folder(folder) as staging:
        for old in folder.iterdir() if folder.exists() else ():
            if old.name not in own:
                copy = shutil.copytree if old.is_dir() else shutil.copy2
                copy(old, staging / old.name)
        for name, data in found.record.to_files().items():
            (staging / name).write_bytes(data)
        write_queue(found, staging / QUEUE, id=id)
        if cascade is not None:
            with table_writer(staging / CASCADE, cascade.schema) as write:
                write(cascade)
        (staging / PAGE).write_bytes(written.html.encode())
        save(found.stored, staging / RULE)
        if found.model is not None:
            save(found.model, staging / MODEL)
    return written


def write_queue(found: Review, path: Path, *, id: str = "item") -> None:
    """Write the queue as a table, in the order of the queue."""
    pa = need("pyarrow", "A queue")
    columns = found.to_dict(id)
    if len(found.queue.choices) > MOST_BOUNDED:
        bounds = ("lower_", "upper_")
        columns = {name: cells for name, cells in columns.items() if not name.startswith(bounds)}
    columns[id] = [str(name) for name in columns[id]]
    batch = pa.RecordBatch.from_pydict(columns)
    with table_writer(path, batch.schema) as write:
        write(batch)


def make_page(
    found: Review,
    path: str | Path | None,
    *,
    title: str = "Review",
    remarks: Sequence[str] = (),
    **given: Any,
) -> Report:
    """Write the page of a review."""
    evidence = found.evidence
    crowd = found.stored.rule.crowd
    assert isinstance(crowd, DirichletCrowd)
    some = _evenly(np.flatnonzero(found.counts.any(axis=1)), MOST_CHECKED)
    with warnings.catch_warnings(action="ignore", category=CredalSetWarning):
        assumption = crowd.check(evidence.prediction[some], found.counts[some], random_state=0)
    about = found.record.about[-1]
    confidence = 1.0 - about.delta if about.delta else about.confidence
    standings = [
        Standing(
            each.queue,
            each.error,
            int(each.certified.sum()),
            each.votes_to_come,
            each.by_votes,
            each.by_even_votes,
            confidence,
            about.loss == "cost",
        )
        for each in found.at_errors
    ]
    if not standings[0].n_certified:
        standings[0] = replace(standings[0], lacking=found.sentences[0])
    last = found.record.last
    assert last is not None
    page = Reviewed(
        sets=found.sets,
        alpha=evidence.alpha,
        standings=standings,
        counts=found.counts,
        held_back=last.held_back,
        prediction=evidence.prediction,
        p_values=evidence.p_values,
        calibration=evidence.calibration,
        inputs=evidence.inputs,
        assumption=assumption,
        checks=[Check(*each) for each in evidence.checks],
        sentences=found.sentences,
        remarks=remarks,
        scale=evidence.scale,
        commands=[
            ("Votes for the items to ask", "credalset plan review -o tasks.csv"),
            ("New items, by the same rule", "credalset plan review new.csv -o steps.csv"),
            ("To certify after buying votes", "credalset plan review --audit 200 -o tasks.csv"),
        ],
    )
    return write_reviewed(page, path, About(**given), title)


def _evenly(rows: IntArray, most: int) -> IntArray:
    """Return some of the rows, evenly spread."""
    return rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(np.int64)]


def write_record(record: Record, path: str | Path) -> None:
    """Write a record into the folder of a review: its tables first, then what names them."""
    files = record.to_files()
    for name, data in files.items():
        if name != RECORD and (Path(path) / name).read_bytes() != data:
            write_file(Path(path) / name, data)
    write_file(Path(path) / RECORD, files[RECORD])


def load_rule(path: str | Path) -> StoredRule:
    """Load the rule of a review."""
    found: StoredRule = load(Path(path) / RULE)
    return found
