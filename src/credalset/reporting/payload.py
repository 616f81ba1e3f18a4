"""The items of the page as compact columns for its script, and as a table for everything else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import AnyArray, BoolArray, FloatArray, IntArray
from credalset.exceptions import need
from credalset.reporting.measures import Measures
from credalset.reporting.pictures import MARKS, STEPS, Frame, shorten
from credalset.sets.columns import write_parquet as write_table
from credalset.sets.queue import ACTIONS

FINE = 10_000  # steps of an entropy between 0 and 1
COARSE = 1_000  # steps of a probability
LONGEST = 400  # letters of a text on the page


def columns(
    measures: Measures, covered: BoolArray, rows: IntArray, paths: Sequence[str] | None, frame: Frame
) -> dict[str, Any]:
    """Return what the script needs, numbers as whole steps: −1 where there is none (empty sets)."""
    sets, items, queue = measures.sets, measures.items, measures.queue
    votes = items.votes
    reasons = list(dict.fromkeys(queue.reason.tolist()))
    state = np.where(votes.there, covered.astype(np.int64), 2)
    result: dict[str, Any] = {
        "classes": items.classes,
        "actions": ACTIONS,
        "reasons": reasons,
        "marks": MARKS,
        "coarse": COARSE,
        "fine": FINE,
        "steps": STEPS,
        "map": {"x": [frame.left, frame.width, frame.x[1]], "y": [frame.top, frame.height, frame.y[1]]},
        "name": [items.names[i] for i in rows],
        "text": None if items.texts is None else [shorten(items.texts[i], LONGEST) for i in rows],
        "link": None if items.links is None else [items.links[i] for i in rows],
        "action": _codes(queue.action[rows], ACTIONS),
        "reason": _codes(queue.reason[rows], reasons),
        "covered": state[rows].tolist(),
        "aleatoric": _steps(queue.aleatoric[rows], FINE),
        "epistemic": _steps(queue.epistemic[rows], FINE),
        "width": _steps(measures.width[rows], COARSE),
        "predicted": sets.center[rows].argmax(axis=1).tolist(),
        "possible": ["".join("1" if kept else "0" for kept in row) for row in queue.possible[rows].tolist()],
        "center": _steps(sets.center[rows], COARSE),
        "lower": _steps(measures.lower[rows], COARSE),
        "upper": _steps(measures.upper[rows], COARSE),
        "counted": votes.counts is not None,
        "votes": None,
        "groups": None,
        "group": None,
        "outlines": None if paths is None else list(paths),
    }
    if votes.there.any():
        known, steps = (votes.shares, COARSE) if votes.counts is None else (votes.counts, 1)
        result["votes"] = _steps(known[rows], steps)
    if items.groups is not None:
        names = np.array([str(key) for key in items.groups], dtype=object)
        result["groups"] = sorted(set(names))
        result["group"] = _codes(names[rows], result["groups"])
    return result


def to_json(columns: dict[str, Any]) -> str:
    """Write data for a ``script`` element: nothing in it can end the element or start a comment."""
    text = json.dumps(columns, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def write_parquet(path: Path, measures: Measures, covered: BoolArray) -> None:
    """Write every item with every number, one row each."""
    arrow = need("pyarrow", "Writing Parquet")
    items, queue = measures.items, measures.queue
    votes = items.votes
    data: dict[str, Any] = {"item": items.names}
    if items.texts is not None:
        data["text"] = items.texts
    if items.groups is not None:
        data["group"] = [str(key) for key in items.groups]
    data |= {
        "action": queue.action.tolist(),
        "possible": [list(queue.labels(i)) for i in range(len(items))],
        "reason": queue.reason.tolist(),
        "covered": [bool(hit) if has else None for hit, has in zip(covered, votes.there, strict=True)],
        "aleatoric": queue.aleatoric,
        "epistemic": queue.epistemic,
        "width": measures.width,
    }
    known = votes.shares if votes.counts is None else votes.counts
    matrices = {"prediction": measures.sets.center, "lower": measures.lower, "upper": measures.upper, "votes": known}
    for kind, matrix in matrices.items():
        data |= {f"{kind}_{name}": matrix[:, k] for k, name in enumerate(items.classes)}
    write_table(arrow.table(data), path)


def _codes(values: AnyArray, names: Sequence[str]) -> list[int]:
    position = {name: code for code, name in enumerate(names)}
    return [position[value] for value in values.tolist()]


def _steps(values: FloatArray, steps: int) -> list[int]:
    return np.where(np.isnan(values), -1, np.rint(steps * np.nan_to_num(values))).astype(np.int64).ravel().tolist()
