"""Judges beside people: agreement, and the advantage of the alternative annotator test."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from credalset.judges import CONSTANT, POOL, Comparison
from credalset.plotting import style
from credalset.plotting.style import BLUE, GREEN


def judges(comparison: Comparison, *, ax: Axes | None = None) -> Axes:
    """Draw the agreement of judges with a random person, beside that of two people.

    Circles are agreements with 95 % intervals; diamonds are the advantages ρ of the alternative
    annotator test, if there is one. The band is the agreement of two people with its interval; the
    dashed line is the agreement of a constant that never reads the item, and a judge that is not
    beyond it has learned nothing.

    Parameters
    ----------
    comparison : Comparison
        What `credalset.judges.compare` returns.
    ax : matplotlib axes, optional
        Axes to draw into.

    Returns
    -------
    Axes
    """
    rows = list(comparison.rows)
    height = 0.9 + 0.34 * len(rows)
    is_new = ax is None
    ax = style.axes_or_new(ax, style.DOUBLE, height)
    two = comparison.people["agreement"]
    if two is not None:
        ax.axvspan(two.low, two.high, color="0.88", linewidth=0)
        ax.axvline(two, color="0.45", linewidth=1.0, label="two people")
    constant = rows[-1]["agreement"]
    ax.axvline(constant, color="0.25", linestyle=(0, (4, 2)), linewidth=1.0, label="constant")
    for place, row in enumerate(reversed(rows)):
        value = row["agreement"]
        colour: Any = GREEN if row["judge"] == POOL else BLUE
        colour = "0.25" if row["judge"] == CONSTANT else colour
        if value is not None:
            ax.plot([value.low, value.high], [place, place], color=colour, linewidth=1.6)
            label = "agreement" if place == len(rows) - 1 else None
            ax.plot([float(value)], [place], "o", color=colour, markersize=5.5, label=label)
        if row["advantage"] is not None:
            label = "advantage ρ" if place == len(rows) - 1 else None
            ax.plot(
                [row["advantage"]],
                [place],
                "D",
                color=colour,
                markerfacecolor="white",
                markersize=5.0,
                label=label,
            )
    ax.set_yticks(range(len(rows)), [str(row["judge"]) for row in reversed(rows)])
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.set_xlabel("agreement with a random person; advantage over a person")
    style.tidy(ax)
    style.add_legend(ax, is_new=is_new)
    return ax
