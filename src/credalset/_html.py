"""HTML of results in notebooks: static tables and bars of intervals, without any script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

MOST_ROWS = 10  # of a table in a notebook
BAR = 90.0  # pixels of a bar from 0 to 1


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
