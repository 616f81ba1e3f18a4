"""The record of reviews: what was seen, what was decided, and what is proved.

A folder holds ``record.json`` and a table per round. Rounds are only added. Nothing in it is
executed when it is read.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import AnyArray, BoolArray, FloatArray, IntArray
from credalset.exceptions import FileFormatError, need

RECORD = "record.json"
VERSION = 1


@dataclass(frozen=True, eq=False)
class Round:
    """One review of one table.

    Attributes
    ----------
    items : tuple of str
        Names of the items.
    counts : ndarray of shape (n, K)
        Votes that were seen.
    owed : ndarray of shape (n, K)
        Votes that a later round must still have: those that were seen, and of an item that has
        lost votes, those of the round before.
    held_back : ndarray of shape (n,)
        The vote of each item that is held back as the proof, as a class; −1 without votes.
    step, label, risk : ndarray of shape (n,)
        What was decided: the next step, the label as a class, and its risk.
    certified : ndarray of shape (n,)
        Whether the label is accepted and its error is proved.
    audited : ndarray of shape (n,)
        Whether the item is in the sample of an audit that was drawn after the review.
    """

    items: tuple[str, ...]
    counts: FloatArray
    owed: FloatArray
    held_back: IntArray
    step: AnyArray
    label: IntArray
    risk: FloatArray
    certified: BoolArray
    audited: BoolArray


@dataclass(frozen=True)
class About:
    """What a round was asked for, and what came of it.

    Attributes
    ----------
    seed : int
        Seed of all that was drawn.
    errors : tuple of float
        Errors that share δ; the first decides the next step.
    confidence : float
        Probability with which the claims of this round hold.
    delta : float
        What the round has spent of the probability of a wrong claim.
    proof : {"votes", "audit", "none"}
        What proves the error of accepted labels: votes left out in turn, an audit, or nothing.
    since : int
        The round since which nothing is proved, 0 if the error is proved.
    audit_size : int
        Size of the audit that was drawn after the round, 0 for none.
    audit_delta : float
        Probability with which the audit may be wrong.
    loss : str
        What accepting a label costs.
    """

    seed: int
    errors: tuple[float, ...]
    confidence: float
    delta: float
    proof: str
    since: int
    audit_size: int = 0
    audit_delta: float = 0.0
    loss: str = "annotator"


@dataclass(frozen=True, eq=False)
class Record:
    """All reviews of a table so far.

    Attributes
    ----------
    classes : tuple of str
        Names of the classes, in the order of the columns of the rounds.
    about : tuple of About
        What each round was asked for, and what came of it.
    last : Round or None
        The last round, on which the next one builds.
    files : mapping of str to bytes
        The tables of the rounds, as they are written.
    total_rounds : int or None
        Over how many rounds δ is divided; None if each has its own.
    """

    classes: tuple[str, ...]
    about: tuple[About, ...] = ()
    last: Round | None = None
    files: Mapping[str, bytes] | None = None
    total_rounds: int | None = None

    def __len__(self) -> int:
        return len(self.about)

    @property
    def spent(self) -> float:
        """Sum of the probabilities with which the claims of all rounds may be wrong."""
        return float(sum(each.delta for each in self.about))

    def added(self, about: About, found: Round) -> Record:
        """Return the record with a further round.

        Parameters
        ----------
        about : About
            What the round was asked for, and what came of it.
        found : Round
            What was seen and decided.
        """
        number = len(self) + 1
        files = dict(self.files or {}) | {f"round-{number}.parquet": _to_parquet(found)}
        return replace(self, about=(*self.about, about), last=found, files=files)

    def with_audit(self, rows: IntArray, delta: float) -> Record:
        """Return the record with a sample that was drawn after the last round.

        Parameters
        ----------
        rows : ndarray of int
            The sampled items, as positions in the last round.
        delta : float
            Probability with which the audit may be wrong.
        """
        assert self.last is not None
        audited = np.zeros(len(self.last.items), dtype=bool)
        audited[rows] = True
        # The audit is about the labels that these votes have led to: what was lost before is past.
        last = replace(self.last, audited=audited, owed=self.last.counts)
        about = replace(self.about[-1], audit_size=len(rows), audit_delta=delta)
        files = dict(self.files or {}) | {f"round-{len(self)}.parquet": _to_parquet(last)}
        return replace(self, about=(*self.about[:-1], about), last=last, files=files)

    def to_files(self) -> dict[str, bytes]:
        """Return the files of the record by name."""
        head = {
            "version": VERSION,
            "classes": list(self.classes),
            "total_rounds": self.total_rounds,
            "rounds": [asdict(each) for each in self.about],
        }
        text = json.dumps(head, indent=1, ensure_ascii=False) + "\n"
        return {RECORD: text.encode(), **(self.files or {})}

    @classmethod
    def read(cls, folder: str | Path) -> Record:
        """Read the record of a folder.

        Parameters
        ----------
        folder : str or Path
            The folder of a review.
        """
        path = Path(folder)
        try:
            head = json.loads((path / RECORD).read_text(encoding="utf-8"))
            if head["version"] != VERSION:
                raise FileFormatError(
                    f"{path / RECORD} has version {head['version']!r}, not {VERSION}."
                )
            about = tuple(
                About(**(each | {"errors": tuple(each["errors"])})) for each in head["rounds"]
            )
            names = [f"round-{number}.parquet" for number in range(1, len(about) + 1)]
            files = {name: (path / name).read_bytes() for name in names}
            classes = tuple(map(str, head["classes"]))
            last = _from_parquet(files[names[-1]], len(classes)) if names else None
            return cls(classes, about, last, files, head["total_rounds"])
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(
                f"{path} holds a record that cannot be read ({error}). It is written by "
                "credalset review; take a copy that was not changed."
            ) from error


def _to_parquet(found: Round) -> bytes:
    pa = need("pyarrow", "A record")
    from pyarrow import parquet

    def lists(counts: FloatArray) -> Any:
        flat = pa.array(counts.astype(np.int32).ravel())
        return pa.FixedSizeListArray.from_arrays(flat, counts.shape[1])

    table = pa.table(
        {
            "item": pa.array(list(found.items), pa.string()),
            "votes": lists(found.counts),
            "owed": lists(found.owed),
            "held_back": pa.array(found.held_back.astype(np.int32)),
            "step": pa.array(found.step.tolist(), pa.string()),
            "label": pa.array(found.label.astype(np.int32)),
            "risk": pa.array(found.risk),
            "certified": pa.array(found.certified),
            "audited": pa.array(found.audited),
        }
    )
    stream = io.BytesIO()
    parquet.write_table(table, stream)
    return stream.getvalue()


def _from_parquet(data: bytes, n_classes: int) -> Round:
    parquet = need("pyarrow.parquet", "A record")
    table = parquet.read_table(io.BytesIO(data))
    column = {name: table[name] for name in table.column_names}

    def lists(name: str) -> FloatArray:
        flat = column[name].combine_chunks().flatten().to_numpy()
        return np.asarray(flat.reshape(-1, n_classes).astype(np.float64))

    return Round(
        tuple(column["item"].to_pylist()),
        lists("votes"),
        lists("owed"),
        column["held_back"].to_numpy().astype(np.int64),
        np.array(column["step"].to_pylist(), dtype=object),
        column["label"].to_numpy().astype(np.int64),
        column["risk"].to_numpy().astype(np.float64),
        np.array(column["certified"].to_pylist(), dtype=bool),
        np.array(column["audited"].to_pylist(), dtype=bool),
    )


def aligned(found: Round, items: Sequence[str], n_classes: int) -> tuple[Round, BoolArray]:
    """Return a round in the order of items, and which of them it knows."""
    place = {name: row for row, name in enumerate(found.items)}
    rows = np.array([place.get(name, -1) for name in items], dtype=np.int64)
    known = rows >= 0

    def take(column: AnyArray, empty: Any) -> AnyArray:
        shape = (len(rows), *column.shape[1:])
        taken = np.full(shape, empty, dtype=column.dtype)
        taken[known] = column[rows[known]]
        return taken

    return Round(
        tuple(items),
        take(found.counts, 0.0),
        take(found.owed, 0.0),
        take(found.held_back, -1),
        take(found.step, ""),
        take(found.label, -1),
        take(found.risk, np.inf),
        take(found.certified, False),
        take(found.audited, False),
    ), known
