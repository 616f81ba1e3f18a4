"""From the model of a page to HTML: facts of the template, and what it is made from."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from credalset._display import number_text
from credalset._version import __version__
from credalset.acting.steps import STEPS
from credalset.evaluation.verdict import percent
from credalset.exceptions import need
from credalset.reporting import figures
from credalset.reporting.items import Items, shorten
from credalset.reporting.model import Feature, Outcome, PageModel, Standing

TEMPLATES = Path(__file__).parent / "templates"
SCRIPTS = ("data.js", "state.js", "pictures.js", "panel.js", "table.js", "levels.js", "start.js")
FIRST_ROWS = 8  # of each step in the table, which are shown without JavaScript
MOST_CARDS = 12  # of items where model and people differ


def facts_of(page: PageModel) -> dict[str, Any]:
    """Return what the template shows, except what depends on how many items fit."""
    items = page.items
    first = page.standings[0]
    sets = items.sets
    own = next((row for row in page.sizes if row["alpha"] == page.alpha), None)
    alphas = [] if page.levels is None else page.levels.alphas
    return {
        "page": page,
        "title": shorten(page.title, 200),
        "n": len(items),
        "n_classes": sets.n_classes,
        "score": sets.score.title,
        "shape": sets.geometry.shape,
        "alpha": page.alpha,
        "first": first,
        "errors": [each.bound for each in page.standings],
        "marks": figures.MARKS,
        "words": items.queue.describe(),
        "has_hand": items.hand is not None and bool(items.hand.has_votes.any()),
        "has_later": bool(items.votes.has_votes.any()),
        "has_means": items.mean_bounds is not None,
        "has_risk": items.queue.risk is not None,
        "frontier": _frontier(first),
        "strip": figures.range_strip(page.strip) if len(items) else "",
        "table": [_rows_of(page, step) for step in STEPS],
        "cards": _cards(page),
        "features": [_feature(each, page.outcome) for each in page.features],
        "slice_number": _numbered(page.features),
        "n_low": sum(sum(each.low) for each in page.features),
        "n_slices": sum(len(each.values) for each in page.features),
        "worst": _worst(page),
        "curve": None if page.levels is None else figures.curve(page.levels.verdicts, page.alpha),
        "curve_rows": [] if page.levels is None else page.levels.verdicts[4::5],
        "slider": alphas.index(page.alpha) if page.alpha in alphas else 0,
        "n_levels": len(alphas),
        "shares": None if page.shares is None else figures.share_calibration(page.shares),
        "sizes": [{"size": row, "is_own": row is own} for row in page.sizes],
        "with_volume": any(row["volume"] is not None for row in page.sizes),
        "with_empty": any(row["empty"] for row in page.sizes),
    }


def _frontier(first: Standing) -> str | None:
    """Draw what votes would lead to, if there are votes to buy."""
    if first.policy is None or first.even is None or first.policy[-1, 0] < 1:
        return None
    return figures.frontier(first.policy, first.even)


def _rows_of(page: PageModel, step: str) -> dict[str, Any]:
    """Return the first rows of the table with one step."""
    items = page.items
    rows = items.queue.order(step)[:FIRST_ROWS].tolist()
    return {"step": step, "rows": [_row(page, row) for row in rows]}


def _row(page: PageModel, row: int) -> dict[str, Any]:
    """Return the cells of one row of the table."""
    items = page.items
    nothing = np.full(items.sets.n_classes, np.nan)
    hand = nothing if items.hand is None else items.hand.distributions[row]
    risk = items.queue.risk
    means = items.mean_bounds
    ends = None if means is None else (float(means[0][row]), float(means[1][row]))
    return {
        "name": items.names[row],
        "text": "" if items.texts is None else shorten(items.texts[row], 160),
        "label": items.queue.choices[int(items.queue.label[row])],
        "mini": figures.mini(
            items.classes,
            items.lower[row],
            items.upper[row],
            hand,
            items.votes.distributions[row],
            ("hand", "hand" if items.hand is None else "later"),
        ),
        "votes": _votes(items, row),
        "step": str(items.queue.step[row]),
        "why": str(items.queue.why[row]),
        "risk": None if risk is None else float(risk[row]),
        "mean": ends,
        "outcome": "" if page.outcome.hit[row] != 0 else page.outcome.no,
    }


def _votes(items: Items, row: int) -> str:
    """Return the numbers of votes on an item, in hand and later."""
    found = [
        f"{labels.counts[row].sum():.0f}"
        for labels in (items.hand, items.votes)
        if labels is not None and labels.counts is not None and labels.has_votes[row]
    ]
    return " + ".join(found) or "–"


def _cards(page: PageModel) -> list[dict[str, Any]]:
    """Return the items where model and people differ most."""
    if page.wrong is None:
        return []
    items = page.items
    found = []
    for row in page.wrong.rows[:MOST_CARDS].tolist():
        labels = items.votes if items.votes.has_votes[row] else items.known
        shares = labels.distributions[row]
        said = int(items.predicted[row].argmax())
        top = np.argsort(-shares, kind="stable")[:2].tolist()
        said_by = shares if labels.counts is None else labels.counts[row]
        digits = 2 if labels.counts is None else 0
        people = [(items.classes[k], f"{said_by[k]:.{digits}f}") for k in top if shares[k] > 0]
        total = "" if labels.counts is None else f"of {said_by.sum():.0f}"
        link = "" if items.links is None else items.links[row]
        found.append(
            {
                "name": items.names[row],
                "text": "" if items.texts is None else items.texts[row],
                "image": link if link.startswith("data:") else "",
                "model": items.classes[said],
                "model_share": float(items.predicted[row, said]),
                "people": people,
                "total": total,
                "p": float(page.wrong.p_values[row]),
                "missed": page.outcome.hit[row] == 0,
            }
        )
    return found


def _feature(each: Feature, outcome: Outcome) -> dict[str, Any]:
    """Return the rows of a feature, with a figure for each on one common scale."""
    rows = [
        {
            "value": value,
            "seen": seen,
            "low": is_low,
            "picture": figures.interval(seen, outcome.target, each.least),
        }
        for value, seen, is_low in zip(each.values, each.shares, each.low, strict=True)
    ]
    return {"name": each.name, "rows": rows, "least": each.least}


def _numbered(features: Sequence[Feature]) -> list[int]:
    """Return the number of the first slice of each feature among all slices."""
    sizes = [len(each.values) for each in features]
    return [sum(sizes[:place]) for place in range(len(sizes))]


def _worst(page: PageModel) -> dict[str, Any] | None:
    worst = page.worst
    if worst is None:
        return None
    target = page.outcome.target
    measured = worst.measured
    is_low = target is not None and measured.n > 0 and measured.high < target
    words = " and ".join(f"{name}: {shorten(value, 60)}" for name, value in worst.conditions)
    return {
        "words": words,
        "measured": measured,
        "found": worst.found,
        "n_candidates": worst.n_candidates,
        "is_low": is_low,
    }


def provenance(calibration: Any, items: Items, command: str) -> dict[str, str]:
    """Return what a reader needs to make the page again, by heading."""
    shown = items.votes if items.votes.has_votes.any() else items.known
    votes = shown.distributions if shown.counts is None else shown.counts
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
