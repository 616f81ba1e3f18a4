"""From items and results to HTML: facts of the template, data of its script, and origin."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy

from credalset._display import number_text
from credalset._typing import AnyArray, FloatArray, IntArray
from credalset._version import __version__
from credalset.acting.steps import MEANS, STEPS
from credalset.evaluation.slices import Slice, WorstSlice
from credalset.evaluation.verdict import Verdict, percent
from credalset.exceptions import need
from credalset.reporting import figures
from credalset.reporting.items import Items, shorten

TEMPLATES = Path(__file__).parent / "templates"
SCRIPTS = ("data.js", "pictures.js", "item.js", "table.js", "map.js", "start.js")
FIRST_ROWS = 25  # of the table, which are shown without JavaScript
TOP = 5  # items listed under each step
NAMED_LABELS = 6  # possible labels that are named where space is short
MAX_FEATURES = 20  # for which coverage is shown
FINE, COARSE = 10_000, 1_000  # steps of an entropy between 0 and 1, and of a probability
COVERS = {
    "recorded": "The label distribution of a new item as it would be recorded: the shares of the "
    "votes of as many annotators as the calibration items had. Nothing is guaranteed about what "
    "very many votes would show.",
    "further": "The distribution of the votes of a new item that are not in hand.",
    "true": "The true label distribution of a new item: the shares that very many votes "
    "would show.",
}
COVERED = ("no", "yes", "not known")


class Findings(NamedTuple):
    """What was measured.

    Attributes
    ----------
    verdict : Verdict
        Of the level of the page.
    covered : ndarray of shape (N,)
        1 for items that are covered, 0 for those that are not, 2 for those without votes.
    curve : list of (level, Estimate, band)
        Coverage at each level.
    slices, low : lists of Slice and of bool
        Coverage by slice, and whether it is certainly below the guarantee.
    worst : WorstSlice or None
        The slice whose coverage is least compatible with that of all items.
    sizes : list of dict
        Coverage and sizes by score and level.
    """

    verdict: Verdict
    covered: IntArray
    curve: list[Any]
    slices: list[Slice]
    low: list[bool]
    worst: WorstSlice | None
    sizes: list[dict[str, Any]]


class Headline(NamedTuple):
    """What the page of a review says at the top, in place of a verdict on sets.

    Attributes
    ----------
    headline, detail : str
        One sentence each.
    sentences : tuple of str
        What is certified, what is assumed, and what is not.
    is_certified : bool
        Whether something is certified.
    """

    headline: str
    detail: str
    sentences: tuple[str, ...]
    is_certified: bool


def page_facts(
    title: str,
    items: Items,
    calibration: Any,
    found: Findings,
    made: Mapping[str, str],
    words: Headline | None = None,
) -> dict[str, Any]:
    """Return what the template shows, except the items, which depend on how many fit."""
    verdict, _, curve, slices, low, worst, sizes = found
    alpha = verdict.alpha
    sets = items.sets
    own = next(
        (row for row in sizes if row["alpha"] == alpha), None
    )  # rows of the page's own score come first
    return {
        "title": shorten(title, 200),
        "n": len(items),
        "n_voted": int(items.votes.has_votes.sum()),
        "with_votes": bool(items.shown_votes.has_votes.any()),
        "votes_name": "votes" if items.shown_votes is items.votes else "votes in hand",
        "n_classes": sets.n_classes,
        "classes": items.classes,
        "score": sets.score.title,
        "shape": sets.geometry.shape,
        "alpha": alpha,
        "verdict": verdict,
        **_top(verdict, words, len(items)),
        "n_calibration": None if calibration is None else len(calibration),
        "guarantee": None if calibration is None else _guarantee(calibration.guarantee),
        "gauge": figures.gauge(verdict) if verdict.observed.n else None,
        "curve": figures.curve(curve, alpha) if curve else None,
        "curve_rows": curve,
        "features": _features(slices, low, alpha),
        "n_slices": len(slices),
        "worst": _worst(worst, alpha),
        "steps": _steps_of(items),
        "marks": figures.MARKS,
        "rules": items.queue.rules,
        "certified": items.queue.certified,
        "envelopes": _envelopes(items),
        "example_rows": _example_rows(items),
        "examples": [_example(items, row) for row in _example_rows(items)],
        "sizes": [{"size": row, "is_own": row is own} for row in sizes],
        "with_volume": any(row["volume"] is not None for row in sizes),
        "with_empty": any(row["empty"] for row in sizes),
        "remarks": _remarks(items),
        "made": made,
    }


def _guarantee(known: Any) -> dict[str, Any]:
    """Return what is covered and what is assumed, in sentences."""
    assumed = [
        f"New items and calibration items are {known.items}, and the model was trained on neither."
    ]
    assumed += [f"{known.votes[:1].upper()}{known.votes[1:]}."] if known.votes else []
    assumed += [f"The guarantee holds within {known.within}."] if known.within else []
    if known.delta is not None:
        assumed.append(
            f"With probability {1 - known.delta:g} over calibration sets, it holds for the "
            "one that was used."
        )
    assumed += [] if known.is_exact else ["Coverage is approximate and not guaranteed."]
    return {
        "covers": COVERS.get(known.covers, COVERS["recorded"]),
        "assumptions": assumed,
        "within": known.within,
    }


def _top(verdict: Verdict, words: Headline | None, n_items: int) -> dict[str, Any]:
    """Return what stands at the top of the page, and its colour."""
    if words is not None:
        return {
            "headline": words.headline,
            "detail": words.detail,
            "sentences": words.sentences,
            "tone": "good" if words.is_certified else "warn",
        }
    return {
        "headline": verdict.headline if n_items else "There are no items to report on",
        "detail": verdict.detail,
        "sentences": (),
        "tone": _tone(verdict) if n_items else "untested",
    }


def _tone(verdict: Verdict) -> str:
    """Return the colour of the verdict; only sets that are tested and informative are green."""
    if verdict.status == "valid":
        return "good" if verdict.informative is not False else "warn"
    return {"undercovers": "bad", "overcovers": "warn", "not tested": "untested"}[verdict.status]


def _example_rows(items: Items) -> list[int]:
    """Return one item of each step, the middle one of its list."""
    lists = [items.queue.order(step) for step in STEPS]
    return [int(mine[len(mine) // 2]) for mine in lists if len(mine)]


def table_rows(items: Items, covered: IntArray, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Return the cells of some rows of the table."""
    queue = items.queue
    totals = items.shown_votes.n_votes
    return [
        {
            "name": items.names[i],
            "text": "" if items.texts is None else shorten(items.texts[i], 160),
            "step": str(queue.step[i]),
            "title": str(queue.step[i]).capitalize(),
            "predicted": items.classes[int(items.sets.center[i].argmax())],
            "possible": _possible(items, i),
            "aleatoric": float(queue.aleatoric[i]),
            "epistemic": float(queue.epistemic[i]),
            "width": float(items.width[i]),
            "votes": None if totals is None else int(totals[i]),
            "covered": COVERED[int(covered[i])],
        }
        for i in rows
    ]


def _possible(items: Items, row: int) -> str:
    """Name the possible labels of an item, the likeliest first."""
    found = np.flatnonzero(items.queue.possible[row])
    found = found[np.argsort(-items.sets.center[row, found], kind="stable")]
    names = ", ".join(items.classes[k] for k in found[:NAMED_LABELS]) or "none"
    return f"{names} and {len(found) - NAMED_LABELS} more" if len(found) > NAMED_LABELS else names


def _features(
    slices: Sequence[Slice], low: Sequence[bool], alpha: float | None
) -> list[dict[str, Any]]:
    """Group slices by feature, with a figure for each row on one common scale."""
    guaranteed = None if alpha is None else 1.0 - alpha
    ends = [float(part.coverage.low) for part in slices if part.coverage.n >= 10] + [
        guaranteed or 1.0
    ]
    least = float(np.clip(np.floor(10 * min(ends)) / 10, 0.0, 0.8))
    found: dict[str, list[dict[str, Any]]] = {}
    for part, is_low in zip(slices, low, strict=True):
        row = {"value": shorten(part.value, 60), "seen": part.coverage, "low": is_low}
        row["picture"] = figures.interval(part.coverage, guaranteed, least)
        found.setdefault(part.feature, []).append(row)
    return [
        {"name": name, "rows": rows, "least": least}
        for name, rows in list(found.items())[:MAX_FEATURES]
    ]


def _worst(worst: WorstSlice | None, alpha: float | None) -> dict[str, Any] | None:
    if worst is None:
        return None
    guaranteed = None if alpha is None else 1.0 - alpha
    least = float(np.clip(np.floor(10 * min(worst.measured.low, worst.found.low)) / 10, 0.0, 0.8))
    return {
        "words": " and ".join(
            f"{feature}: {shorten(value, 60)}" for feature, value in worst.conditions
        ),
        "measured": worst.measured,
        "found": worst.found,
        "n_candidates": worst.n_candidates,
        "is_low": guaranteed is not None
        and worst.measured.n > 0
        and worst.measured.high < guaranteed,
        "picture": figures.interval(worst.measured, guaranteed, least),
    }


def _steps_of(items: Items) -> list[dict[str, Any]]:
    """Return what the page says about each step, and the first items of its list."""
    queue = items.queue
    words = queue.describe()
    counts = queue.counts()
    parts = {"ask": ("epistemic", queue.epistemic), "divided": ("aleatoric", queue.aleatoric)}
    found = []
    for step in STEPS:
        name, values = parts.get(step, ("total", queue.aleatoric + queue.epistemic))
        top = [] if step == "accept" else queue.order(step)[:TOP].tolist()
        cells = table_rows(items, np.zeros(len(items), dtype=np.int64), top)
        found.append(
            {
                "key": step,
                "title": step.capitalize(),
                "advice": MEANS[step],
                "rule": words[step],
                "count": counts[step],
                "share": percent(counts[step] / len(items)) if len(items) else "",
                "part": name,
                "top": [
                    cell | {"value": float(values[i])} for i, cell in zip(top, cells, strict=True)
                ],
            }
        )
    return found


def _envelopes(items: Items) -> str | None:
    """Draw the mean envelopes of the classes, unless a triangle shows three of them."""
    full = np.isfinite(items.width)
    there = items.shown_votes.has_votes
    if items.sets.n_classes == 3 or not full.any():
        return None
    return figures.bars(
        items.classes,
        items.lower[full].mean(axis=0),
        items.upper[full].mean(axis=0),
        items.sets.center[full].mean(axis=0),
        items.shown_votes.distributions[there].mean(axis=0)
        if there.any()
        else np.full(len(items.classes), np.nan),
        label="Mean envelope of each class, with the mean prediction and the mean share of votes",
        most=20,
        name="envelopes",
    )


def _example(items: Items, row: int) -> dict[str, Any]:
    (cells,) = table_rows(items, np.zeros(len(items), dtype=np.int64), [row])
    label = f"Item {items.names[row]}: envelopes, prediction and votes by class"
    of_item = (
        items.lower[row],
        items.upper[row],
        items.sets.center[row],
        items.shown_votes.distributions[row],
    )
    figure = figures.bars(items.classes, *of_item, label=label, most=6)
    return cells | {
        "reason": str(items.queue.why[row]),
        "picture": figure,
    }


def _remarks(items: Items) -> list[str]:
    """Return remarks on missing votes and special sets, in sentences."""
    sets = items.sets
    n = len(items)
    found = []
    missing = n - int(items.votes.has_votes.sum())
    if 0 < missing < n:
        found.append(
            f"{missing:,} of {n:,} items have no votes. They are in the map and the table, "
            "but not in the coverage."
        )
    if items.votes.n_unmatched:
        found.append(
            f"{items.votes.n_unmatched:,} items with votes are not among the predictions and "
            "were left out."
        )
    if empty := int(sets.is_empty().sum()):
        found.append(
            f"{empty:,} sets are empty: no distribution scores below the threshold. They "
            "count as not covered."
        )
    if whole := int(np.isposinf(sets.radius).sum()):
        found.append(
            f"{whole:,} sets are the whole simplex: there are too few calibration items for this "
            "level, or infinite scores. They contain every distribution."
        )
    bounds = items.queue.entropies
    gap = float(np.nanmax(bounds.lower_gap + bounds.upper_gap, initial=0.0))
    if gap > 0.005:
        found.append(
            "Entropies are certified bounds for this score: the aleatoric part may be larger, "
            f"and the epistemic part smaller, by at most {gap:.2f}."
        )
    return found


def script_data(
    items: Items,
    covered: IntArray,
    rows: IntArray,
    paths: Sequence[str] | None,
    frame: figures.Frame,
) -> str:
    """Return the items as JSON columns for the script; numbers are whole steps, −1 for none."""
    queue = items.queue
    votes = items.shown_votes
    # Sentences that many items share are written once.
    split = [re.split(r"(?<=\.) ", why) for why in queue.why[rows].tolist()]
    sentences = {words: code for code, words in enumerate(dict.fromkeys(chain(*split)))}
    known = votes.distributions
    steps = COARSE
    if votes.counts is not None:
        known = np.where(votes.has_votes[:, None], votes.counts, np.nan)
        steps = 1
    groups = None if items.groups is None else sorted(set(items.groups))
    columns: dict[str, Any] = {
        "classes": items.classes,
        "queue": STEPS,
        "reasons": list(sentences),
        "marks": figures.MARKS,
        "coarse": COARSE,
        "fine": FINE,
        "steps": figures.STEPS,
        "map": {
            "x": [frame.left, frame.width, frame.x[1]],
            "y": [frame.top, frame.height, frame.y[1]],
        },
        "votesName": "votes" if votes is items.votes else "votes in hand",
        "name": [items.names[i] for i in rows],
        "text": None if items.texts is None else [items.texts[i] for i in rows],
        "link": None if items.links is None else [items.links[i] for i in rows],
        "step": _codes(queue.step[rows], STEPS),
        "reason": [[sentences[words] for words in why] for why in split],
        "covered": covered[rows].tolist(),
        "aleatoric": _steps(queue.aleatoric[rows], FINE),
        "epistemic": _steps(queue.epistemic[rows], FINE),
        "width": _steps(items.width[rows], COARSE),
        "predicted": items.sets.center[rows].argmax(axis=1).tolist(),
        "possible": [
            "".join("1" if kept else "0" for kept in row) for row in queue.possible[rows].tolist()
        ],
        "center": _steps(items.sets.center[rows], COARSE),
        "lower": _steps(items.lower[rows], COARSE),
        "upper": _steps(items.upper[rows], COARSE),
        "counted": votes.counts is not None,
        "votes": _steps(known[rows], steps) if votes.has_votes.any() else None,
        "groups": groups,
        "group": None
        if items.groups is None
        else _codes(np.array(items.groups, dtype=object)[rows], groups or []),
        "outlines": None if paths is None else list(paths),
    }
    text = json.dumps(columns, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for letter in "<>&\u2028\u2029":  # so that no text can end the element or start a comment
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _codes(values: AnyArray, names: Sequence[str]) -> list[int]:
    position = {name: code for code, name in enumerate(names)}
    return [position[value] for value in values.tolist()]


def _steps(values: FloatArray, steps: int) -> list[int]:
    return (
        np.where(np.isnan(values), -1, np.rint(steps * np.nan_to_num(values)))
        .astype(np.int64)
        .ravel()
        .tolist()
    )


def provenance(calibration: Any, items: Items, command: str) -> dict[str, str]:
    """Return what a reader needs to make the page again, by heading."""
    votes = items.votes.distributions if items.votes.counts is None else items.votes.counts
    # This variable sets the time, so that the same data give the same file.
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    when = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    found = {
        "made by": command,
        "from": repr(items.sets if calibration is None else calibration),
        "written": when.strftime("%Y-%m-%d %H:%M UTC"),
        "versions": f"credalset {__version__}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}",
        "sha256 of the predictions": _checksum(items.sets.center),
        "sha256 of the votes": _checksum(votes),
    }
    if not command:  # a review: the same data and seed give the same bytes
        found = {name: words for name, words in found.items() if name not in ("made by", "written")}
    if calibration is not None:
        found["sha256 of the calibration scores"] = _checksum(calibration._all_scores())
    return {name: shorten(value, 1000) for name, value in found.items()}


def _checksum(array: Any) -> str:
    numbers = np.ascontiguousarray(array, dtype=np.float64)
    return hashlib.sha256(repr(numbers.shape).encode() + numbers.tobytes()).hexdigest()[:16]


def render(facts: Mapping[str, Any]) -> str:
    """Fill the template, which escapes everything except figures, data, script and style."""
    script = "".join(_read(name) for name in SCRIPTS)
    style = _read("page.css")
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    )
    page = str(_template().render(**facts, script=script, style=style, policy=policy))
    return page.encode("utf-8", "replace").decode("utf-8")  # half characters cannot be written


@cache
def _template() -> Any:
    jinja2 = need("jinja2", "The page", extra="cli")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "tenths": tenths, "number": number}
    return environment.get_template("page.html")


def tenths(share: float) -> str:
    """Write a share as a percentage with one decimal, for columns of a table."""
    words = percent(share)
    return words if "." in words or not words.endswith("%") else f"{words[:-1]}.0%"


def number(value: float, digits: int = 2) -> str:
    """Write a number with a fixed number of decimals, a dash where there is none."""
    return number_text(float(value), digits, missing="–")


@cache
def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()
