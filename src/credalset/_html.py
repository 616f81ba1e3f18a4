"""HTML of results in notebooks: static tables and bars of intervals, without any script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from credalset._typing import FloatArray

MOST_ROWS = 10  # of a table in a notebook
BAR = 90.0  # pixels of a bar from 0 to 1
STRIP_WIDTH, STRIP_HEIGHT = 560.0, 110.0  # pixels
MOST_PLACES = 280  # of a strip; of more items, so many are shown at equal distances


@dataclass(frozen=True, repr=False)
class Embedded:
    """A page within a notebook, in a frame of its own.

    Attributes
    ----------
    html : str
        The page.
    height : int
        Height of the frame in pixels.
    """

    html: str
    height: int

    def _repr_html_(self) -> str:
        """Return the frame; its scripts reach neither the notebook nor its cookies."""
        look = f'style="width:100%;height:{self.height}px;border:1px solid #8884"'
        rights = 'sandbox="allow-scripts allow-downloads"'
        return f'<iframe {look} {rights} srcdoc="{escape(self.html)}"></iframe>'

    def __repr__(self) -> str:
        return f"A page of {len(self.html.encode()) / 1000:.0f} kB, which notebooks show."


@dataclass(frozen=True)
class Bar:
    """A cell that shows an interval within 0 and 1, and a point in it.

    Attributes
    ----------
    low, high : float
        Ends of the interval.
    point : float or None
        A number to mark.
    """

    low: float
    high: float
    point: float | None = None


def html_table(
    caption: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str | Bar]],
    *,
    n_rows: int | None = None,
    left: int = 1,
) -> str:
    """Return a table; the first ``left`` columns are aligned to the left, texts are escaped.

    Parameters
    ----------
    caption : str
        A line above the table.
    headings : sequence of str
        Names of the columns.
    rows : sequence of sequences of str or Bar
        The cells.
    n_rows : int, optional
        Number of all rows, if those given are the first.
    left : int
        Number of columns aligned to the left.

    Examples
    --------
    >>> print(html_table("A < B", ["item"], [["x"]]))
    <p>A &lt; B</p>
    <table><thead><tr><th style="text-align:left">item</th></tr></thead>
    <tbody><tr><td style="text-align:left">x</td></tr></tbody></table>
    """
    sides = ["left" if i < left else "right" for i in range(len(headings))]
    head = _cells("th", headings, sides)
    body = "\n".join(f"<tr>{_cells('td', row, sides)}</tr>" for row in rows)
    text = f"<p>{escape(caption)}</p>\n<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>"
    more = 0 if n_rows is None else n_rows - len(rows)
    return f"{text}</table>" + (f"\n<p>… and {more:,} more</p>" if more > 0 else "")


def _cells(tag: str, row: Sequence[str | Bar], sides: Sequence[str]) -> str:
    return "".join(
        f'<{tag} style="text-align:{side}">{_cell(cell)}</{tag}>'
        for cell, side in zip(row, sides, strict=True)
    )


def _cell(cell: str | Bar) -> str:
    if not isinstance(cell, Bar):
        return escape(str(cell))
    low, high = sorted((cell.low, cell.high))
    words = f"{low:.2f} to {high:.2f}"
    # Colours are those of the text, so that the bar is seen on light and dark pages.
    line = f'<rect y="6" width="{BAR:g}" height="2" fill="currentColor" opacity=".2"/>'
    size = f'width="{max((high - low) * BAR, 1.5):.1f}" height="8" fill="#009E73"'
    shape = f'<rect x="{low * BAR:.1f}" y="3" {size}/>'
    if cell.point is not None:
        place = f'cx="{cell.point * BAR:.1f}" cy="7" r="3" fill="currentColor"'
        shape += f"<circle {place}/>"
    return (
        f'<svg width="{BAR:g}" height="14" role="img" aria-label="{words}">{line}{shape}</svg> '
        f"<small>{low:.2f}–{high:.2f}</small>"
    )


def html_strip(lower: FloatArray, upper: FloatArray, point: FloatArray, words: str) -> str:
    """Return a picture of ranges within 0 and 1, in the order given, with a point in each.

    Parameters
    ----------
    lower, upper, point : ndarray of shape (N,)
        Ends of the ranges and the points; ranges that are NaN are left out.
    words : str
        What the picture shows.

    Examples
    --------
    >>> import numpy as np
    >>> ends = np.array([0.1, 0.2]), np.array([0.5, 0.9])
    >>> html_strip(*ends, np.array([0.3, 0.5]), "Shares").count("<path")
    2
    """
    known = np.flatnonzero(np.isfinite(lower))
    some = np.linspace(0, len(known) - 1, min(len(known), MOST_PLACES)).round().astype(np.int64)
    rows = known[some]
    wide = STRIP_WIDTH / max(len(rows), 1)
    bands = []
    points = []
    for place, row in enumerate(rows.tolist()):
        x = place * wide
        top, bottom = (STRIP_HEIGHT * (1.0 - end[row]) for end in (upper, lower))
        bands.append(f"M{x:.1f} {top:.1f}h{wide:.1f}V{max(bottom, top + 0.8):.1f}h-{wide:.1f}z")
        points.append(f"M{x:.1f} {STRIP_HEIGHT * (1.0 - point[row]):.1f}h{wide:.1f}")
    view = f'viewBox="0 -2 {STRIP_WIDTH:g} {STRIP_HEIGHT + 4:g}"'
    size = f'width="{STRIP_WIDTH:g}" style="max-width:100%"'
    return (
        f'<figure style="margin:0.5em 0"><svg {view} {size} role="img" '
        f'aria-label="{escape(words)}"><path d="{"".join(bands)}" fill="#009E73" opacity=".45"/>'
        f'<path d="{"".join(points)}" stroke="currentColor" stroke-width="1.5" fill="none"/></svg>'
        f"<figcaption><small>{escape(words)}</small></figcaption></figure>"
    )
