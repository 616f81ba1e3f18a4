"""What the page says, in words and pictures, ready for the template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from credalset._typing import IntArray
from credalset.metrics import Estimate
from credalset.reporting import pictures
from credalset.reporting.coverage import Coverage
from credalset.reporting.measures import Measures
from credalset.reporting.sizes import FEWER, MANY, Size
from credalset.sets.queue import ACTIONS
from credalset.verdict import percent

FIRST = 25  # rows of the table that are there without a script
TOP = 5  # items listed under each action
NAMED = 6  # possible labels that are named where space is short
TRACED = 40  # sets without a convex boundary whose outlines are drawn
TITLES = {action: action.capitalize() for action in ACTIONS}
ADVICE = {
    "re-annotate": "Ask for more votes: they would tell whether people agree.",
    "escalate": "Let a person decide.",
    "ambiguous": "Keep the disagreement as the label. More votes would only confirm it.",
    "settled": "Nothing to do: one label fits whatever is true.",
}
ABOUT = {
    "recorded": "For a new item, the promise is about its label distribution as it would be recorded: "
    "the shares of the votes it would get, from as many annotators as the calibration items had.",
    "true": "For a new item, the promise is about its true label distribution: the shares that endlessly many votes "
    "would show.",
}
MISSED = {0: "no", 1: "yes", 2: "no votes"}


def page_facts(
    title: str,
    measures: Measures,
    coverage: Coverage,
    sizes: Sequence[Size],
    made: dict[str, str],
    alpha: float | None,
) -> dict[str, Any]:
    """Return everything the template shows but the items, which depend on how many fit."""
    verdict, sets, items = coverage.verdict, measures.sets, measures.items
    examples = example_rows(measures)
    own = next((size for size in sizes if size.alpha == alpha), None)  # those of the page itself come first
    return {
        "title": title,
        "n": len(items),
        "n_voted": int(items.votes.there.sum()),
        "n_classes": sets.n_classes,
        "classes": items.classes,
        "score": sets.score.name,
        "shape": sets.geometry.shape,
        "alpha": alpha,
        "detail": verdict.detail[:1].upper() + verdict.detail[1:] + ".",
        "verdict": verdict,
        "headline": verdict.headline if len(items) else "There are no items to report on",
        "about": None if verdict.promise is None else ABOUT[verdict.promise.about],
        "reused": coverage.reused,
        "truth": coverage.truth,
        "gauge": pictures.gauge(verdict) if verdict.observed.n else None,
        "curve": pictures.curve(coverage.curve, alpha) if coverage.curve else None,
        "curve_rows": [point for point in coverage.curve if round(20 * point.alpha, 6) % 1 == 0],
        "features": _features(coverage, alpha),
        "n_slices": len(coverage.slices),
        "with_before": bool(coverage.before),
        "worst": _worst(coverage, alpha),
        "actions": _actions(measures),
        "marks": pictures.MARKS,
        "rules": measures.queue.rules,
        "envelopes": _envelopes(measures),
        "example_rows": examples,
        "examples": [_example(measures, coverage, row) for row in examples],
        "sizes": [{"size": size, "is_own": size is own} for size in sizes],
        "sizes_of": min(len(items), MANY),
        "volumes_of": min(len(items), FEWER),
        "with_volume": any(size.volume is not None for size in sizes),
        "with_empty": any(size.empty > 0 for size in sizes),
        "remarks": _remarks(measures),
        "made": made,
    }


def example_rows(measures: Measures) -> list[int]:
    """Return one item of each action, the middle one of its list."""
    found = []
    for action in ACTIONS:
        mine = measures.queue.order(action)
        if len(mine):
            found.append(int(mine[len(mine) // 2]))
    return found


def table_rows(measures: Measures, coverage: Coverage, rows: IntArray) -> list[Any]:
    """Return the cells of the first rows of the table."""
    items, queue, votes = measures.items, measures.queue, measures.items.votes
    n_votes = votes.n_votes
    return [
        {
            "name": items.names[i],
            "text": "" if items.texts is None else pictures.shorten(items.texts[i], 160),
            "action": str(queue.action[i]),
            "title": TITLES[str(queue.action[i])],
            "predicted": items.classes[int(measures.sets.center[i].argmax())],
            "possible": _possible(measures, i),
            "aleatoric": float(queue.aleatoric[i]),
            "epistemic": float(queue.epistemic[i]),
            "width": float(measures.width[i]),
            "votes": None if n_votes is None else int(n_votes[i]),
            "covered": MISSED[int(coverage.covered[i]) if votes.there[i] else 2],
        }
        for i in rows[:FIRST].tolist()
    ]


def _possible(measures: Measures, row: int) -> str:
    """Name the possible labels of an item, the likeliest first."""
    found = np.flatnonzero(measures.queue.possible[row])
    found = found[np.argsort(-measures.sets.center[row, found], kind="stable")]
    names = ", ".join(measures.items.classes[k] for k in found[:NAMED]) or "none"
    return f"{names} and {len(found) - NAMED} more" if len(found) > NAMED else names


def _features(coverage: Coverage, alpha: float | None) -> list[dict[str, Any]]:
    """Group slices by feature, with a picture for each row on one common scale."""
    promised = None if alpha is None else 1.0 - alpha
    ends = [float(s.coverage.low) for s in coverage.slices if s.coverage.n >= 10] + [promised or 1.0]
    least = float(np.clip(np.floor(10 * min(ends)) / 10, 0.0, 0.8))
    found: dict[str, list[dict[str, Any]]] = {}
    before: list[Estimate | None] = [part.coverage for part in coverage.before]
    before = before or [None] * len(coverage.slices)
    for part, is_low, earlier in zip(coverage.slices, coverage.low, before, strict=True):
        row = {"value": pictures.shorten(part.value, 60), "seen": part.coverage, "low": is_low, "before": earlier}
        row["picture"] = pictures.interval(part.coverage, promised, least)
        found.setdefault(part.feature, []).append(row)
    return [{"name": name, "rows": rows, "least": least} for name, rows in found.items()]


def _worst(coverage: Coverage, alpha: float | None) -> dict[str, Any] | None:
    worst = coverage.worst
    if worst is None:
        return None
    promised = None if alpha is None else 1.0 - alpha
    least = float(np.clip(np.floor(10 * min(worst.measured.low, worst.found.low)) / 10, 0.0, 0.8))
    return {
        "words": " and ".join(f"{feature}: {value}" for feature, value in worst.conditions),
        "measured": worst.measured,
        "found": worst.found,
        "n_candidates": worst.n_candidates,
        "is_low": promised is not None and worst.measured.n > 0 and worst.measured.high < promised,
        "picture": pictures.interval(worst.measured, promised, least),
        "least": least,
    }


def _actions(measures: Measures) -> list[dict[str, Any]]:
    items, queue = measures.items, measures.queue
    words, counts = queue.rules.describe(), queue.counts()
    parts = {"re-annotate": ("epistemic", queue.epistemic), "ambiguous": ("aleatoric", queue.aleatoric)}
    found = []
    for action in ACTIONS:
        name, values = parts.get(action, ("total", queue.aleatoric + queue.epistemic))
        top = [
            {
                "name": items.names[i],
                "text": "" if items.texts is None else pictures.shorten(items.texts[i], 120),
                "possible": _possible(measures, i),
                "value": float(values[i]),
            }
            for i in queue.order(action)[:TOP].tolist()
        ]
        found.append(
            {
                "key": action,
                "title": "Ambiguous by nature" if action == "ambiguous" else TITLES[action],
                "advice": ADVICE[action],
                "rule": words[action],
                "count": counts[action],
                "share": percent(counts[action] / len(items)) if len(items) else "",
                "part": name,
                "top": [] if action == "settled" else top,
            }
        )
    return found


def _envelopes(measures: Measures) -> str | None:
    """Mean envelopes of the classes: what the sets say about the average item."""
    sets, items = measures.sets, measures.items
    full = np.isfinite(measures.width)
    if sets.n_classes == 3 or not full.any():
        return None
    there = items.votes.there
    return pictures.bars(
        items.classes,
        measures.lower[full].mean(axis=0),
        measures.upper[full].mean(axis=0),
        sets.center[full].mean(axis=0),
        items.votes.shares[there].mean(axis=0) if there.any() else None,
        label="Mean envelope of each class, with the mean prediction and the mean share of votes",
        most=20,
        name="envelopes",
    )


def _example(measures: Measures, coverage: Coverage, row: int) -> dict[str, Any]:
    (cells,) = table_rows(measures, coverage, np.array([row]))
    items = measures.items
    share = items.votes.shares[row] if items.votes.there[row] else None
    label = f"Item {items.names[row]}: envelopes, prediction and votes by class"
    picture = pictures.bars(
        items.classes, measures.lower[row], measures.upper[row], measures.sets.center[row], share, label=label, most=6
    )
    return cells | {"reason": str(measures.queue.reason[row]), "picture": picture}


def _remarks(measures: Measures) -> list[str]:
    """What a careful reader should know, in sentences."""
    sets, items = measures.sets, measures.items
    n, found = len(items), []
    missing = n - int(items.votes.there.sum())
    if 0 < missing < n:
        found.append(f"{missing:,} of {n:,} items have no votes: they are in the map and the table, not in coverage.")
    if items.votes.unmatched:
        found.append(f"{items.votes.unmatched:,} items with votes are not among the predictions and were left out.")
    empty = int(sets.is_empty().sum())
    if empty:
        found.append(
            f"{empty:,} sets are empty: at this level no distribution fits the prediction. They count as not covered."
        )
    whole = int(np.isposinf(sets.radius).sum())
    if whole:
        found.append(
            f"{whole:,} sets are the whole simplex: too few calibration items for this level, or a score that is "
            "infinite. They cover everything and say nothing."
        )
    if measures.queue.remark:
        found.append(measures.queue.remark)
    bounds = measures.queue.entropies
    if bounds.method == "outer":
        found.append(
            "These sets have no convex shape: envelopes, entropies and possible labels are those of a larger set that "
            "holds them. Coverage is exact."
        )
    gap = float(np.nanmax(bounds.lower_gap + bounds.upper_gap, initial=0.0))
    if gap > 0.005 and bounds.method == "bracket":
        found.append(
            f"For this score entropies are certified bounds: the aleatoric part may be larger and the epistemic part "
            f"smaller, by {gap:.2f} at most."
        )
    return found
