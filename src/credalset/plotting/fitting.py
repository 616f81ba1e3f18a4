"""Names and legends that fit the room they have: turned, broken over lines or in fewer columns."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from credalset._typing import FloatArray
from credalset.plotting import style

LETTER = 0.53  # width of a letter relative to the size of its font, on average
LINE = 1.5  # distance of two lines of a legend, likewise
ROWS = 2  # of a legend for which the usual height of a picture leaves room


def points_of(thing: Artist) -> FloatArray:
    """Width and height in points of something that is drawn; a layout engine will change those of axes a little."""
    figure = thing.get_figure(root=True)
    assert figure is not None
    box = thing.get_window_extent()
    return 72.0 / figure.dpi * np.array([box.width, box.height])


def size_of(ax: Axes, text: str) -> FloatArray:
    """Width and height of a small text in points."""
    probe = ax.text(0.0, 0.0, text, fontsize=style.TINY)
    size = points_of(probe)
    probe.remove()
    return size


def name_ticks(ax: Axes, places: Sequence[float], names: Sequence[str]) -> None:
    """Write names at places one unit apart on the horizontal axis, as steep as they must be not to touch."""
    low, high = ax.get_xlim()
    room = points_of(ax)[0] * float(np.min(np.diff(places), initial=high - low)) / (high - low)
    widest = max(float(size_of(ax, name)[0]) for name in set(names))
    ax.set_xticks(places, names)
    if widest + 4.0 <= room:
        return
    # Slanted lines of height h need a distance of h / sin(angle): the flatter, the easier to read, the more room.
    height = 1.35 * style.TINY
    angle = next((angle for angle in (30, 60) if height / np.sin(np.radians(angle)) <= room), 90)
    for label in ax.get_xticklabels():
        label.set(rotation=angle, ha="right", va="center" if angle == 90 else "top", rotation_mode="anchor")


def break_names(names: Sequence[str], room: float, lines: int = 3) -> list[str]:
    """Break names wider than the room, in points, and shorten those that take too many lines."""
    letters = max(8, int(room / (LETTER * style.TINY)))
    return [
        name if len(name) <= letters else fill(name, letters, max_lines=max(lines, 1), placeholder=" …")
        for name in names
    ]


def legend_above(ax: Axes, columns: int, *, is_new: bool, first: Sequence[str] = (), flush_right: bool = False) -> None:
    """Add a legend above axes, in as many columns as fit; the figure grows with it if it is ours.

    ``flush_right`` lets the legend reach out over the names at the left of the axes.
    """
    handles, labels = style.legend_entries(ax, first)
    figure = ax.get_figure(root=True)
    if not labels or figure is None:
        return
    room = 1.1 * points_of(ax)[0]
    names = break_names(labels, room - 3 * style.TINY)
    loc, x = ("lower right", 1.0) if flush_right else ("lower center", 0.5)
    for ncols in range(min(columns, len(names)), 0, -1):
        legend = style.draw_legend(ax, handles, names, ncols=ncols, loc=loc, bbox_to_anchor=(x, 1.0))
        if points_of(legend)[0] <= room:
            break
    if is_new:
        extra = points_of(legend)[1] - ROWS * LINE * style.TINY
        figure.set_figheight(figure.get_figheight() + max(0.0, extra) / 72.0)
