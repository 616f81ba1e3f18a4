"""The first few sets as a notebook shows them: intervals per class, and triangles for three classes. No scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from credalset._typing import FloatArray

if TYPE_CHECKING:
    from credalset.sets.credal_set import CredalSet

SHOWN = 4  # sets
CLASSES = 8  # per set, those with the largest upper probabilities
LONGEST = 18  # characters of a name
DIRECTIONS = 72  # in which a triangle looks for the furthest members
CORNERS = np.array([[12.0, 104.0], [128.0, 104.0], [70.0, 3.5]])  # of triangles, in pixels
ROW = 16  # pixels that a class takes
BAR = (120, 160)  # where bars begin, and how long they are


def to_html(sets: CredalSet) -> str:
    """Return a small piece of HTML: the description, and a picture of each of the first sets.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> text = to_html(TotalVariation().region([[0.7, 0.2, 0.1]], threshold=0.1))
    >>> text.startswith("<div>"), "<script" in text, text.count("<svg")
    (True, False, 2)
    """
    few = sets[:SHOWN]
    parts = [f"<p><code>{escape(repr(sets))}</code></p>"]
    lower, upper = few.envelope()
    mean = few.score.mean(few.prediction)
    for i in range(len(few)):
        name = i if sets.items is None else sets.items[i]
        if few.is_empty()[i]:
            body = "<em>empty: no distribution scores below the threshold</em>"
        else:
            triangle = _triangle(few[i], mean[i]) if sets.n_classes == 3 else ""
            body = triangle + _bars(_names(sets), lower[i], upper[i], mean[i])
        parts.append(f"<div><strong>{escape(_short(name))}</strong><br>{body}</div>")
    if len(sets) > len(few):
        parts.append(f"<p>… and {len(sets) - len(few)} more</p>")
    return f"<div>{''.join(parts)}</div>"


def _names(sets: CredalSet) -> list[str]:
    return [_short(name) for name in sets.class_names]


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _bars(names: list[str], lower: FloatArray, upper: FloatArray, mean: FloatArray) -> str:
    """A row per class: from lower to upper, and a tick at the prediction."""
    chosen = np.sort(np.argsort(-upper, kind="stable")[:CLASSES])
    start, length = BAR
    rows = []
    for row, k in enumerate(chosen):
        y = row * ROW
        left, right, at = (start + length * float(x) for x in (lower[k], upper[k], mean[k]))
        rows.append(
            f'<text x="{start - 6}" y="{y + 12}" text-anchor="end">{escape(names[k])}</text>'
            f'<rect x="{start}" y="{y + 7}" width="{length}" height="2" opacity="0.2"/>'
            f'<rect x="{left:.1f}" y="{y + 4}" width="{max(right - left, 1.0):.1f}" height="8" fill="#00b08a"/>'
            f'<rect x="{at - 1:.1f}" y="{y + 2}" width="2" height="12"/>'
            f'<text x="{start + length + 6}" y="{y + 12}">{lower[k]:.2f}–{upper[k]:.2f}</text>'
        )
    height = ROW * (len(chosen) + (len(chosen) < len(names)))
    if len(chosen) < len(names):
        rows.append(f'<text x="{start}" y="{height - 4}" opacity="0.7">{len(names) - len(chosen)} more classes</text>')
    said = "; ".join(f"{names[k]} {lower[k]:.2f} to {upper[k]:.2f}" for k in chosen)
    return _svg(350, height, f"Lower and upper probabilities: {said}", "".join(rows))


def _triangle(one: CredalSet, mean: FloatArray) -> str:
    """The simplex, the members of a set, and the prediction."""
    frame = " ".join(f"{x:g},{y:g}" for x, y in CORNERS)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in _boundary(one) @ CORNERS)
    members = f'<polygon points="{points}" fill="#00b08a" fill-opacity="0.4" stroke="#00806a"/>'
    x, y = mean @ CORNERS
    letters = "".join(
        f'<text x="{cx:g}" y="{cy:g}" text-anchor="middle" opacity="0.7">{escape(name[:3])}</text>'
        for name, (cx, cy) in zip(_names(one), ([12, 118], [128, 118], [88, 12]), strict=True)
    )
    body = f'<polygon points="{frame}" fill="none" stroke="currentColor" opacity="0.6"/>{members}'
    body += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>{letters}'
    return _svg(140, 122, "The set in the triangle of all distributions", body)


def _boundary(one: CredalSet) -> FloatArray:
    """Furthest members of a convex set in directions all around, (R, 3)."""
    angle = 2.0 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
    utility = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ (CORNERS - CORNERS.mean(axis=0)).T
    return one[np.zeros(DIRECTIONS, dtype=np.int64)].support(utility)[1]


def _svg(width: int, height: int, label: str, body: str) -> str:
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label)}" font-size="11" fill="currentColor">{body}</svg>'
    )
