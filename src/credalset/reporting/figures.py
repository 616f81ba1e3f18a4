"""Vector figures of the report as SVG, coloured by the style sheet of the page.

Each function returns markup that is safe to insert: numbers are formatted here, and every text is
escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from credalset._display import Estimate
from credalset._typing import AnyArray, FloatArray
from credalset.acting.steps import STEPS as NEXT_STEPS
from credalset.evaluation.verdict import Verdict, percent
from credalset.reporting.items import shorten
from credalset.sets import Queue
from credalset.sets.outline import grid_lines, to_plane

WIDTH = 360
#: marks of the steps, which differ in shape as well as in colour: cross, triangle, square, dot
MARKS = {
    "ask": "m-3 0h6m-3-3v6",
    "expert": "m-3 2h6l-3-5z",
    "divided": "m-2-2h4v4h-4z",
    "accept": "h0",
}
SIDE, CORNER_X, CORNER_Y = 300.0, 30.0, 284.0  # of the triangle: side and lower left corner
STEPS = 4  # of an outline per unit of the figure, which is about a pixel


@dataclass(frozen=True)
class Frame:
    """Axes of a figure: from numbers to positions."""

    x: tuple[float, float]
    y: tuple[float, float]
    left: float = 42.0
    top: float = 12.0
    width: float = WIDTH - 54.0
    height: float = 230.0

    def across(self, value: Any) -> Any:
        """Place a number, or an array of them, on the horizontal axis."""
        low, high = self.x
        return self.left + self.width * (value - low) / (high - low)

    def up(self, value: Any) -> Any:
        """Place a number, or an array of them, on the vertical axis."""
        low, high = self.y
        return self.top + self.height * (high - value) / (high - low)

    def at(self, x: float, y: float) -> str:
        """Write a point."""
        return f"{self.across(x):.1f} {self.up(y):.1f}"

    def axes(
        self, x_label: str, y_label: str, x_ticks: Sequence[float], y_ticks: Sequence[float]
    ) -> str:
        """Draw both axes with grid lines, numbers and names."""
        bottom = self.top + self.height
        right = self.left + self.width
        parts = []
        for tick in x_ticks:
            x = self.across(tick)
            parts.append(f'<path class="grid" d="M{x:.1f} {self.top:.1f}V{bottom:.1f}"/>')
            parts.append(text(x, bottom + 15, f"{tick:g}", "tick"))
        for tick in y_ticks:
            y = self.up(tick)
            parts.append(f'<path class="grid" d="M{self.left:.1f} {y:.1f}H{right:.1f}"/>')
            parts.append(text(self.left - 6, y + 4, f"{tick:g}", "tick", "end"))
        parts.append(text(self.left + self.width / 2, bottom + 32, x_label, "axis"))
        middle = self.top + self.height / 2
        parts.append(
            f'<g transform="translate(11 {middle:.1f}) '
            f'rotate(-90)">{text(0, 0, y_label, "axis")}</g>'
        )
        return "".join(parts)


def text(x: float, y: float, words: str, kind: str, anchor: str = "middle") -> str:
    """Write words at a position."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


def picture(body: str, height: float, label: str, *, name: str = "") -> str:
    """Wrap the parts of a figure with a label for screen readers."""
    identity = f' id="{name}"' if name else ""
    return (
        f'<svg{identity} class="picture" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="{escape(label, quote=True)}">{body}</svg>'
    )


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round numbers between two ends.

    Examples
    --------
    >>> ticks(0.0, 0.5), ticks(0.42, 1.0)
    ([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], [0.6, 0.8, 1.0])
    """
    steps = [s * 10.0**p for p in range(-4, 2) for s in (1, 2, 5)]
    step = next(s for s in steps if (high - low) / s <= count + 1e-9)
    first = int(np.ceil(low / step - 1e-9))
    return [round(step * i, 6) for i in range(first, int(np.floor(high / step + 1e-9)) + 1)]


def gauge(verdict: Verdict) -> str:
    """Guaranteed and observed coverage on one line, with the expected band."""
    seen = verdict.observed
    guaranteed = verdict.guaranteed
    band = verdict.band if verdict.valid is not None else None
    known = [seen.low] + ([] if guaranteed is None else [guaranteed]) + list(band or ())
    low = max(0.0, float(np.floor(20 * (min(known) - 0.015)) / 20))
    frame = Frame((low, 1.0), (0.0, 1.0), left=16, width=WIDTH - 32, top=24, height=36)
    bottom = frame.top + frame.height
    parts = [f'<path class="line" d="M{frame.at(low, 0.5)}H{frame.across(1.0):.1f}"/>']
    for tick in ticks(low, 1.0, 6):
        parts.append(text(frame.across(tick), bottom + 30, percent(tick), "tick"))
        parts.append(f'<path class="grid" d="M{frame.across(tick):.1f} {bottom + 12:.1f}v5"/>')
    if band is not None:
        left, right = (frame.across(end) for end in band)
        size = f'width="{max(right - left, 1.5):.1f}" height="{frame.height}" rx="3"'
        parts.append(f'<rect class="band" x="{left:.1f}" y="{frame.top}" {size}/>')
    if guaranteed is not None:
        x = frame.across(guaranteed)
        parts.append(f'<path class="promised" d="M{x:.1f} {frame.top - 4:.1f}V{bottom + 4:.1f}"/>')
        parts.append(_note(frame, x, frame.top - 9, f"guaranteed {percent(guaranteed)}", "note"))
    parts.append(
        f'<path class="whisker" d="M{frame.at(seen.low, 0.5)}H{frame.across(seen.high):.1f}"/>'
    )
    parts.append(
        f'<circle class="observed" cx="{frame.across(seen):.1f}" cy="{frame.up(0.5):.1f}" r="6"/>'
    )
    parts.append(
        _note(frame, frame.across(seen), bottom + 50, f"observed {percent(seen)}", "note strong")
    )
    return picture("".join(parts), bottom + 58, verdict.sentence)


def _note(frame: Frame, x: float, y: float, words: str, kind: str) -> str:
    """Write words near a position, inside the figure."""
    half = 3.4 * len(words)
    return text(
        min(max(x, frame.left - 12 + half), frame.left + frame.width + 12 - half), y, words, kind
    )


def curve(
    points: Sequence[tuple[float, Estimate, tuple[float, float] | None]], alpha: float | None
) -> str:
    """Observed coverage against the level, with the expected band and 1 − α."""
    ends = [float(seen) for _, seen, _ in points] + [
        end for _, _, band in points for end in band or ()
    ]
    low = max(0.0, float(np.floor(10 * min(0.5, *ends)) / 10))
    frame = Frame((0.0, 0.5), (low, 1.0))
    parts = [frame.axes("miscoverage rate α", "coverage", ticks(0, 0.5), ticks(low, 1.0))]
    banded = [(level, band) for level, _, band in points if band is not None]
    if banded:
        upper = [frame.at(level, band[1]) for level, band in banded]
        lower = [frame.at(level, band[0]) for level, band in banded]
        parts.append(f'<path class="band" d="M{"L".join(upper + lower[::-1])}z"/>')
    parts.append(f'<path class="promised" d="M{frame.at(0, 1)}L{frame.at(0.5, 0.5)}"/>')
    parts.append(
        f'<path class="curve" d="M{"L".join(frame.at(level, seen) for level, seen, _ in points)}"/>'
    )
    for level, seen, _ in points:
        place = (
            f'cx="{frame.across(level):.1f}" cy="{frame.up(seen):.1f}" '
            f'r="{5 if level == alpha else 2}"'
        )
        parts.append(f'<circle class="observed" {place}/>')
    return picture(
        "".join(parts), 284, "Observed coverage against the miscoverage rate α, beside 1 − α"
    )


def interval(seen: Estimate, guaranteed: float | None, least: float) -> str:
    """One row of a table of coverages: interval, value, guarantee on a line from ``least`` to 1."""
    frame = Frame((least, 1.0), (0.0, 1.0), left=4, width=152, top=1, height=16)
    parts = [f'<path class="line" d="M{frame.at(least, 0.5)}H{frame.across(1.0):.1f}"/>']
    if guaranteed is not None and guaranteed >= least:
        parts.append(f'<path class="promised" d="M{frame.across(guaranteed):.1f} 1V17"/>')
    start = frame.across(max(seen.low, least))
    parts.append(f'<path class="whisker" d="M{start:.1f} 9H{frame.across(seen.high):.1f}"/>')
    if seen >= least:  # False for NaN
        parts.append(f'<circle class="observed" cx="{frame.across(seen):.1f}" cy="9" r="4"/>')
    return f'<svg class="interval" viewBox="0 0 160 18" aria-hidden="true">{"".join(parts)}</svg>'


def map_frame(queue: Queue) -> Frame:
    """Choose axes of the map that hold every item and both rules."""
    ends = []
    for values, rule in (
        (queue.aleatoric, queue.rules.divided),
        (queue.epistemic, queue.rules.ask),
    ):
        largest = float(np.nanmax(values)) if np.isfinite(values).any() else 0.0
        ends.append(float(np.clip(np.ceil(10 * max(largest + 0.02, rule + 0.08)) / 10, 0.2, 1.0)))
    return Frame((0.0, ends[0]), (0.0, ends[1]), height=256.0)


def _marks(queue: Queue, rows: AnyArray, points: FloatArray, kind: str) -> str:
    """Draw a mark per item at its point (N, 2), by step; accepted items lie below the others."""
    parts = []
    for step in NEXT_STEPS:
        mine = rows[(queue.step[rows] == step) & np.isfinite(points[rows]).all(axis=1)]
        marks = "".join(f"M{x:.1f} {y:.1f}{MARKS[step]}" for x, y in points[mine].tolist())
        if marks:
            parts.append(f'<path class="{kind} {step}" d="{marks}"/>')
    return "".join(parts)


def uncertainty_map(frame: Frame, queue: Queue, rows: AnyArray) -> str:
    """Aleatoric against epistemic part, a mark per item."""
    x1 = frame.x[1]
    y1 = frame.y[1]
    parts = [
        frame.axes(
            "aleatoric: annotators disagree",
            "epistemic: the model does not know",
            ticks(0, x1),
            ticks(0, y1),
        )
    ]
    divided = queue.rules.divided
    ask = queue.rules.ask
    if divided < x1:
        parts.append(f'<path class="rule" d="M{frame.at(divided, 0)}V{frame.up(y1):.1f}"/>')
    if ask < y1:
        parts.append(
            f'<path class="rule" d="M{frame.at(0, ask)}H{frame.across(min(divided, x1)):.1f}"/>'
        )
    points = np.stack([frame.across(queue.aleatoric), frame.up(queue.epistemic)], axis=1)
    parts.append(_marks(queue, rows, points, "mark"))
    parts.append(
        '<g id="map-selected"></g><rect id="map-brush" class="brush" width="0" height="0"/>'
    )
    label = (
        f"Map of {len(rows)} items: aleatoric part across, epistemic part up. The table below has "
        "the same numbers, and its filters select the same items."
    )
    return picture("".join(parts), 310, label, name="map-picture")


def on_triangle(points: FloatArray) -> FloatArray:
    """Return the positions (…, 2) of distributions (…, 3) in the figure."""
    return to_plane(points) * np.array([SIDE, -SIDE]) + np.array([CORNER_X, CORNER_Y])


def outline_path(loops: Sequence[FloatArray]) -> str:
    """Write loops of distributions as a short path of whole steps."""
    parts = []
    for loop in loops:
        at = np.rint(STEPS * on_triangle(loop)).astype(np.int64)
        steps = np.diff(at, axis=0)
        steps = steps[(steps != 0).any(axis=1)]
        joined = (
            "".join(f"{x: d}{y: d}" for x, y in steps.tolist()).replace(" -", "-").removeprefix(" ")
        )
        parts.append(f"M{at[0, 0]} {at[0, 1]}{f'l{joined}' if joined else 'h0'}z")
    return "".join(parts)


def triangle(
    classes: Sequence[str], center: FloatArray, queue: Queue, rows: AnyArray, paths: Sequence[str]
) -> str:
    """All predictions in the triangle, and the exact sets of a few items."""
    parts = [
        f'<path class="grid" d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}"/>'
        for (x0, y0), (x1, y1) in on_triangle(grid_lines())
    ]
    corners = on_triangle(np.eye(3))
    parts.append(
        '<path class="frame" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + 'z"/>'
    )
    sides = zip(
        corners, classes, (-26, 26, 0), (18, 18, -8), ("start", "end", "middle"), strict=True
    )
    for (x, y), name, dx, dy, anchor in sides:
        parts.append(text(x + dx, y + dy, shorten(name, 20 if dy > 0 else 40), "axis", anchor))
    parts.append(_marks(queue, rows, on_triangle(center), "mark faint"))
    shapes = "".join(f'<path class="set" d="{path}"/>' for path in paths if path)
    parts.append(f'<g id="sets" transform="scale({1 / STEPS:g})">{shapes}</g>')
    return picture(
        "".join(parts),
        306,
        "Triangle of the three classes: predictions as marks, exact sets outlined",
    )


def bars(
    classes: Sequence[str],
    lower: FloatArray,
    upper: FloatArray,
    center: FloatArray,
    share: FloatArray,
    *,
    label: str,
    most: int = 12,
    name: str = "",
) -> str:
    """Envelopes of classes, prediction and share of votes; of many classes the likeliest ones."""
    rows = np.arange(len(classes))
    if len(rows) > most:
        rows = np.sort(
            np.argsort(-np.nan_to_num(upper) - np.nan_to_num(share), kind="stable")[:most]
        )
    left = 14.0 + 6.5 * min(16, max(len(name) for name in classes))
    frame = Frame(
        (0.0, 1.0), (0.0, 1.0), left=left, width=WIDTH - left - 14, top=6, height=26.0 * len(rows)
    )
    bottom = frame.top + frame.height
    parts = [
        f'<path class="grid" d="M{frame.across(t):.1f} {frame.top}V{bottom:.1f}"/>'
        f"{text(frame.across(t), bottom + 15, f'{t:g}', 'tick')}"
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    for place, k in enumerate(rows.tolist()):
        y = frame.top + 26.0 * place + 13
        parts.append(text(left - 8, y + 4, shorten(classes[k], 16), "label", "end"))
        if np.isfinite(share[k]):
            end = frame.across(float(share[k]))
            parts.append(
                f'<rect class="votes" x="{left}" y="{y + 2:.1f}" width="{end - left:.1f}" '
                'height="8"/>'
            )
        if np.isfinite(lower[k]):
            a = frame.across(float(lower[k]))
            b = frame.across(float(upper[k]))
            size = f'width="{max(b - a, 1):.1f}" height="8" rx="2"'
            parts.append(f'<rect class="envelope" x="{a:.1f}" y="{y - 8:.1f}" {size}/>')
        parts.append(
            f'<circle class="prediction" cx="{frame.across(float(center[k])):.1f}" '
            f'cy="{y - 4:.1f}" r="3"/>'
        )
    if len(classes) > len(rows):
        parts.append(
            text(left - 8, bottom + 15, f"+ {len(classes) - len(rows)} more", "tick", "end")
        )
    return picture("".join(parts), bottom + 22, label, name=name)
