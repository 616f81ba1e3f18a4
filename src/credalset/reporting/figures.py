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
from credalset.evaluation.verdict import Verdict
from credalset.evaluation.views import RangeStrip, ShareCalibration
from credalset.reporting.items import shorten
from credalset.sets.outline import to_plane

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
    steps = [s * 10.0**p for p in range(-4, 9) for s in (1, 2, 5)]
    step = next(s for s in steps if (high - low) / s <= count + 1e-9)
    first = int(np.ceil(low / step - 1e-9))
    return [round(step * i, 6) for i in range(first, int(np.floor(high / step + 1e-9)) + 1)]


def curve(verdicts: Sequence[Verdict], alpha: float | None) -> str:
    """Observed coverage against the level, with the expected band and 1 − α."""
    shown = [(float(each.alpha or 0.0), each) for each in verdicts]
    ends = [float(each.observed) for _, each in shown]
    ends += [end for _, each in shown for end in each.band or ()]
    low = max(0.0, float(np.floor(10 * min(0.5, *ends)) / 10))
    frame = Frame((0.0, 0.5), (low, 1.0))
    parts = [frame.axes("miscoverage rate α", "coverage", ticks(0, 0.5), ticks(low, 1.0))]
    banded = [(level, each.band) for level, each in shown if each.band is not None]
    if banded:
        upper = [frame.at(level, band[1]) for level, band in banded]
        lower = [frame.at(level, band[0]) for level, band in banded]
        parts.append(f'<path class="band" d="M{"L".join(upper + lower[::-1])}z"/>')
    parts.append(f'<path class="promised" d="M{frame.at(0, 1)}L{frame.at(0.5, 0.5)}"/>')
    line = "L".join(frame.at(level, each.observed) for level, each in shown)
    parts.append(f'<path class="curve" d="M{line}"/>')
    for level, each in shown:
        if level == alpha:
            place = f'cx="{frame.across(level):.1f}" cy="{frame.up(each.observed):.1f}"'
            parts.append(f'<circle class="observed" {place} r="5"/>')
    label = "Observed coverage against the miscoverage rate α, beside 1 − α"
    return picture("".join(parts), 284, label)


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


STRIP = Frame((0.0, 1.0), (0.0, 1.0), left=38.0, top=8.0, width=1034.0, height=190.0)
MOST_DRAWN = 1_200  # items of the strip without JavaScript: at least one pixel each


def range_strip(strip: RangeStrip) -> str:
    """Ranges of the labels that the items would get, sorted by the lower bound.

    Without JavaScript, at most `MOST_DRAWN` items are drawn, evenly spread.
    """
    rows = strip.order
    if len(rows) > MOST_DRAWN:
        rows = rows[np.linspace(0, len(rows) - 1, MOST_DRAWN).astype(np.int64)]
    frame = STRIP
    bottom = frame.top + frame.height
    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = frame.up(tick)
        parts.append(f'<path class="grid" d="M{frame.left} {y:.1f}h{frame.width}"/>')
        parts.append(text(frame.left - 6, y + 4, f"{tick:g}", "tick", "end"))
    place = frame.left + frame.width * np.arange(len(rows) + 1) / max(len(rows), 1)
    lower = frame.up(np.nan_to_num(strip.lower[rows]))
    upper = frame.up(np.nan_to_num(strip.upper[rows]))
    parts.append(f'<path id="strip-band" class="band" d="{_steps_between(place, lower, upper)}"/>')
    # Without risers, which would hide everything where predictions jump.
    predicted = frame.up(strip.predicted[rows])
    wide = frame.width / max(len(rows), 1)
    line = "".join(
        f"M{x:.1f} {y:.1f}h{wide:.1f}" for x, y in zip(place[:-1], predicted, strict=True)
    )
    parts.append(f'<path id="strip-predicted" class="predicted" d="{line}"/>')
    middle = 0.5 * (place[1:] + place[:-1])
    share = frame.up(strip.share[rows])
    known = np.isfinite(share)
    for kind, mine in (("seen", strip.covered[rows]), ("missed", ~strip.covered[rows])):
        dots = np.flatnonzero(known & mine).tolist()
        marks = "".join(f"M{middle[i]:.1f} {share[i]:.1f}h0" for i in dots)
        parts.append(f'<path id="strip-{kind}" class="dots {kind}" d="{marks}"/>')
    parts.append(f'<path id="strip-cursor" class="cursor" d="M0 {frame.top}V{bottom}" hidden=""/>')
    label = (
        "Ranges of the share of the label that each item would get, sorted by the lower bound. The "
        "table below has the same items."
    )
    return (
        f'<svg id="strip" class="strip" viewBox="0 0 1080 206" role="img" '
        f'aria-label="{label}">{"".join(parts)}</svg>'
    )


def _steps(place: FloatArray, y: FloatArray) -> str:
    """Write a line of steps at heights y between n + 1 places."""
    if not len(y):
        return ""
    line = "".join(f"V{b:.1f}H{x:.1f}" for x, b in zip(place[1:], y, strict=True))
    return f"M{place[0]:.1f} {y[0]:.1f}{line}"


def _steps_between(place: FloatArray, lower: FloatArray, upper: FloatArray) -> str:
    """Write the outline of bars from lower to upper."""
    if not len(lower):
        return ""
    back = "".join(f"V{b:.1f}H{x:.1f}" for x, b in zip(place[-2::-1], lower[::-1], strict=True))
    return f"{_steps(place, upper)}{back}z"


def frontier(policy: AnyArray, even: AnyArray) -> str:
    """Share of items that is accepted against votes that are bought: where it is asked, or evenly.

    ``policy`` and ``even`` hold votes and shares, (A, 2).
    """
    most = max(float(policy[-1, 0]) * 1.6, 1.0)
    top = max(float(policy[:, 1].max()), float(even[:, 1].max()))
    low = max(0.0, float(np.floor(10 * policy[0, 1]) / 10))
    high = min(1.0, max(float(np.ceil(10 * top) / 10), low + 0.1))
    frame = Frame((0.0, most), (low, high), left=46, width=WIDTH - 62, height=120)
    parts = [frame.axes("votes bought", "accepted", ticks(0, most, 4)[1:], ticks(low, high, 4))]
    inside = np.searchsorted(even[:, 0], most)
    if inside < len(even):
        first, second = even[inside - 1], even[inside]
        share = (most - first[0]) / (second[0] - first[0])
        even = np.vstack([even[:inside], first + share * (second - first)])
    for points, kind in ((even, "promised"), (policy, "curve")):
        line = "L".join(frame.at(votes, share) for votes, share in points)
        parts.append(f'<path class="{kind}" d="M{line}"/>')
    for votes, share in policy:
        place = f'cx="{frame.across(votes):.1f}" cy="{frame.up(share):.1f}"'
        parts.append(f'<circle class="observed" {place} r="3.5"/>')
    label = "Share of items accepted against votes bought, by this queue and evenly over all items"
    return picture("".join(parts), 176, label)


def share_calibration(found: ShareCalibration) -> str:
    """Observed against predicted shares, in bins."""
    frame = Frame((0.0, 1.0), (0.0, 1.0), left=52.0, width=WIDTH - 64.0, height=190.0)
    tick = [0.0, 0.25, 0.5, 0.75, 1.0]
    parts = [frame.axes("predicted share", "share of the votes", tick, tick)]
    parts.append(f'<path class="promised" d="M{frame.at(0, 0)}L{frame.at(1, 1)}"/>')
    for p, seen, low, high in zip(
        found.predicted, found.observed, found.low, found.high, strict=True
    ):
        x = frame.across(p)
        parts.append(
            f'<path class="whisker" d="M{x:.1f} {frame.up(low):.1f}V{frame.up(high):.1f}"/>'
            f'<circle class="observed" cx="{x:.1f}" cy="{frame.up(seen):.1f}" r="4"/>'
        )
    return picture("".join(parts), 244, "Observed against predicted shares of the labels")


MINI_LABELS = 3  # of an item in the table, if there are more than a few
MINI_LETTERS = 13


def mini(
    classes: Sequence[str],
    lower: FloatArray,
    upper: FloatArray,
    hand: FloatArray,
    later: FloatArray,
    kinds: tuple[str, str] = ("hand", "later"),
) -> str:
    """Bounds of the likeliest labels of one item, with a tick for votes in hand and later ones."""
    rows = likeliest(upper, np.fmax(hand, later), MINI_LABELS)
    parts = []
    for place, k in enumerate(rows.tolist()):
        y = 13 * place + 7
        parts.append(text(84, y + 4, shorten(classes[k], MINI_LETTERS), "tick", "end"))
        parts.append(f'<path class="grid" d="M90 {y}h110"/>')
        if np.isfinite(lower[k]):
            wide = max(110 * float(upper[k] - lower[k]), 1.0)
            parts.append(
                f'<rect class="envelope" x="{90 + 110 * lower[k]:.1f}" y="{y - 3}" '
                f'width="{wide:.1f}" height="6" rx="1"/>'
            )
        for share, kind in zip((hand[k], later[k]), kinds, strict=True):
            if np.isfinite(share):
                x = 90 + 110 * float(share)
                parts.append(f'<path class="vote-tick {kind}" d="M{x:.1f} {y - 6}v12"/>')
    high = 13 * len(rows) + 1
    body = "".join(parts)
    return f'<svg class="mini" viewBox="0 0 206 {high}" aria-hidden="true">{body}</svg>'


def likeliest(upper: FloatArray, share: FloatArray, most: int) -> AnyArray:
    """Return the classes of one item that matter most, in their own order."""
    rows = np.arange(len(upper))
    if len(rows) <= max(most, 5):
        return rows
    worth = -np.nan_to_num(upper) - np.nan_to_num(share)
    return np.sort(np.argsort(worth, kind="stable")[:most])
