"""The items of a page as JSON columns for its script; numbers are whole steps, −1 for none."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from credalset._batch import Labels
from credalset._typing import AnyArray, FloatArray, IntArray
from credalset.acting.steps import STEPS
from credalset.evaluation.verdict import percent
from credalset.reporting import figures, model
from credalset.reporting.model import PageModel

COARSE = 1_000  # steps of a probability
FINE = 100_000  # steps of a p-value
MOST_RIBBON_CLASSES = 4  # more ribbons could not be told apart


def script_data(page: PageModel, rows: IntArray, paths: Sequence[str] | None) -> str:
    """Return some items, in this order, and all results that follow the reader."""
    items = page.items
    place = {row: number for number, row in enumerate(rows.tolist())}
    hit = page.outcome.hit[rows]
    columns: dict[str, Any] = {
        "classes": items.classes,
        "queue": STEPS,
        "marks": figures.MARKS,
        "coarse": COARSE,
        "fine": FINE,
        "outline": figures.STEPS,
        "outcome": [page.outcome.no, page.outcome.yes, "not known"],
        "alpha": page.alpha,
        "name": [items.names[i] for i in rows],
        "text": None if items.texts is None else [items.texts[i] for i in rows],
        "link": None if items.links is None else [items.links[i] for i in rows],
        "hit": hit.tolist(),
        "label": page.strip.label[rows].tolist(),
        "choice": _choices(page, rows),
        "predicted": items.predicted[rows].argmax(axis=1).tolist(),
        "risk": None if items.queue.risk is None else to_steps(items.queue.risk[rows], COARSE),
        "open": [np.flatnonzero(kept).tolist() for kept in items.queue.possible[rows]],
        "choices": list(items.queue.choices),
        "entropy": [
            to_steps(end[rows], COARSE)
            for end in (items.queue.aleatoric, items.queue.aleatoric + items.queue.epistemic)
        ],
        "width": to_steps(items.width[rows], COARSE),
        "center": to_steps(items.sets.center[rows], COARSE),
        "model": None,
        "lower": to_steps(items.lower[rows], COARSE),
        "upper": to_steps(items.upper[rows], COARSE),
        "hand": None if items.hand is None else _votes(items.hand, rows),
        "later": _votes(items.votes, rows) if items.votes.has_votes.any() else None,
        "mean": _means(page, rows),
        "strip": [place[row] for row in page.strip.order.tolist() if row in place],
        "wrong": [] if page.wrong is None else [place[r] for r in page.wrong.rows if r in place],
        "p": None if page.wrong is None else to_steps(page.wrong.p_values[rows], FINE),
        "features": [
            {"name": each.name, "values": each.values, "code": each.code[rows].tolist()}
            for each in page.features
        ],
        "levels": _levels(page, rows),
        "ribbons": _ribbons(page, place),
        "outlines": None if paths is None else list(paths),
    }
    if items.predicted is not items.sets.center:
        columns["model"] = to_steps(items.predicted[rows], COARSE)
    columns |= _standings(page, rows)
    text = json.dumps(columns, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for letter in "<>&\u2028\u2029":  # so that no text can end the element or start a comment
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def to_steps(values: AnyArray, steps: int) -> list[int]:
    """Return numbers as whole steps in one list, −1 where there is none."""
    values = np.asarray(values, dtype=np.float64)
    known = np.rint(steps * np.nan_to_num(values))
    return np.where(np.isnan(values), -1, known).astype(np.int64).ravel().tolist()


def _choices(page: PageModel, rows: IntArray) -> list[int] | None:
    """Return the action of each item, if the queue is about actions instead of labels."""
    queue = page.items.queue
    if queue.possible.shape[1] == page.items.sets.n_classes:
        return None
    return queue.label[rows].tolist()


def _votes(labels: Labels, rows: IntArray) -> dict[str, Any]:
    """Return counts, or shares in whole steps, and whether they are counts."""
    known = labels.distributions
    if labels.counts is not None:
        known = np.where(labels.has_votes[:, None], labels.counts, np.nan)
    steps = COARSE if labels.counts is None else 1
    return {"counted": labels.counts is not None, "cells": to_steps(known[rows], steps)}


def _means(page: PageModel, rows: IntArray) -> dict[str, Any] | None:
    """Return positions of an ordinal scale, and the bounds of the mean of each item."""
    bounds = page.items.mean_bounds
    if bounds is None or page.items.positions is None:
        return None
    ends = [
        [None if np.isnan(each) else round(float(each), 3) for each in end[rows]] for end in bounds
    ]
    return {"positions": list(page.items.positions), "lower": ends[0], "upper": ends[1]}


def _standings(page: PageModel, rows: IntArray) -> dict[str, Any]:
    """Return steps and reasons for each error; sentences that items share are written once."""
    split = [
        [re.split(r"(?<=\.) ", why) for why in each.queue.why[rows].tolist()]
        for each in page.standings
    ]
    words = dict.fromkeys(chain(*(sentences for part in split for sentences in part)))
    code = {sentence: number for number, sentence in enumerate(words)}
    found = []
    for each, part in zip(page.standings, split, strict=True):
        statement = each.statement
        found.append(
            {
                "error": each.error,
                "headline": each.headline,
                "statement": [statement.tone, statement.text],
                "tiles": [[tile["count"], tile["share"], tile["remark"]] for tile in each.tiles],
                "step": [STEPS.index(step) for step in each.queue.step[rows].tolist()],
                "reason": [[code[sentence] for sentence in why] for why in part],
            }
        )
    return {"reasons": list(words), "errors": found}


def _levels(page: PageModel, rows: IntArray) -> dict[str, Any] | None:
    """Return coverage at each level: of all items, of each slice, and where each item is missed."""
    levels = page.levels
    if levels is None:
        return None
    sentences = [model.set_statements(each, None)[0] for each in levels.verdicts]
    hits, sizes = [], []
    for each in page.features:
        code = each.code[levels.rows]
        for number in range(len(each.values)):
            mine = code == number
            hits.append(levels.covered[:, mine].sum(axis=1))
            sizes.append(int(mine.sum()))
    slices = []
    for seen, n in zip(hits, sizes, strict=True):
        low, high = model.exact_ends(seen, np.full(len(seen), n))
        slices.append([seen.tolist(), n, to_steps(low, COARSE), to_steps(high, COARSE)])
    return {
        "alpha": levels.alphas,
        "hits": levels.covered.sum(axis=1).tolist(),
        "n": len(levels.rows),
        "observed": [percent(float(each.observed)) for each in levels.verdicts],
        "statement": [[each.tone, each.text] for each in sentences],
        "missed": levels.first_missed(len(page.items))[rows].tolist(),
        "slices": slices,
    }


def _ribbons(page: PageModel, place: dict[int, int]) -> dict[str, Any] | None:
    """Return the bounds of a few classes of some items as their votes come in."""
    if page.ribbons is None:
        return None
    found = page.ribbons.found
    several: dict[str, Any] = {}
    for number, row in enumerate(page.ribbons.rows):
        if row not in place:
            continue
        lower: FloatArray = found.lower[number]
        upper = found.upper[number]
        there = np.flatnonzero(np.isfinite(upper).all(axis=1))
        if len(there) < 2:
            continue
        order = found.order[number]
        often = np.bincount(order, minlength=upper.shape[1])
        worth = upper[there[-1]] + often / max(len(order), 1)
        shown = np.sort(np.argsort(-worth, kind="stable")[:MOST_RIBBON_CLASSES])
        several[str(place[row])] = {
            "numbers": found.numbers[there].tolist(),
            "votes": order.tolist(),
            "in_hand": page.ribbons.n_in_hand[number],
            "shown": shown.tolist(),
            "lower": to_steps(lower[np.ix_(there, shown)], COARSE),
            "upper": to_steps(upper[np.ix_(there, shown)], COARSE),
        }
    return several
