"""Sets over any number of classes: the interval of probabilities of every class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from credalset._guessing import explained
from credalset._typing import ArrayLike, FloatArray
from credalset.plotting import style
from credalset.plotting.fitting import legend_above, name_ticks
from credalset.sets.credal_set import CredalSet

SPREAD = 0.72  # of the room of a class that the bars of all sets share
MOST = 50  # sets side by side; bars of more are thinner than their edges


@explained
def envelopes(
    sets: CredalSet,
    *,
    truth: ArrayLike | None = None,
    votes: ArrayLike | None = None,
    prediction: bool = True,
    classes: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the smallest and largest probability of every class in one or several sets, side by side.

    The intervals are exact, but a set is smaller than the box they span: its probabilities sum to one.

    Parameters
    ----------
    sets : CredalSet
        One set or a few, 50 at most, over any number of classes. Empty ones have an entry in the legend, but no bars.
    truth, votes : array of shape (K,) or (N, K), optional
        True distribution (orange squares) and what annotators said (blue triangles), shared or per set.
    prediction : bool
        Whether to mark the centres: predictions, or the modes of predicted Dirichlets (black circles).
    classes : sequence of K names, optional
        Names of the classes; those the sets know, or their numbers.
    labels : sequence of N names, optional
        Names of the sets for the legend; by default those of the items, or numbers.
    legend : bool
        Whether to add a legend.
    ax : matplotlib axes, optional
        Where to draw.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.5, 0.3, 0.1, 0.1]], threshold=0.1)
    >>> ax = envelopes(sets, classes=["cat", "dog", "deer", "frog"], ax=Figure().subplots())
    >>> [bar.get_height().round(2).item() for bar in ax.patches]
    [0.2, 0.2, 0.2, 0.2]
    """
    style.check_sets(sets)
    if len(sets) > MOST:
        raise ValueError(
            f"sets holds {len(sets)} sets, but no more than {MOST} can be told apart side by side. Select a few, "
            "such as sets[:5], or show all with plotting.uncertainty_map."
        )
    names = style.class_names(classes, sets)
    given = style.check_names(labels, "labels", len(sets), "sets")
    known = [f"set {i}" for i in range(len(sets))] if sets.items is None else list(map(str, sets.items))
    entries = given or (["credal set"] if len(sets) == 1 else known)
    marks = style.given_marks(lambda value, name: style.check_points(value, name, sets), truth, votes)
    for points, name, _ in marks:
        if len(points) not in {1, len(sets)}:
            raise ValueError(
                f"{name} has {len(points)} rows, but there are {len(sets)} sets. Pass one row, or one per set."
            )
    n, is_new = len(sets), ax is None
    ax = style.axes_or_new(ax, width=style.SINGLE if sets.n_classes * n <= 16 else style.DOUBLE, height=2.3)
    highest, shown = _draw_bars(ax, sets, entries)
    _finish(ax, names, max(highest, _draw_marks(ax, sets, marks, prediction)))
    if legend:
        legend_above(ax, max(min(4, n + 2), n // 6), is_new=is_new, first=shown)
    return ax


def _draw_marks(ax: Axes, sets: CredalSet, marks: Sequence[style.Mark], prediction: bool) -> float:
    """Mark predictions, truth and votes; the highest of them."""
    k, n = sets.n_classes, len(sets)
    size = float(np.clip(260.0 * SPREAD / (k * n), 2.0, 6.0))
    for i, is_empty in enumerate(sets.is_empty()):
        if prediction:
            look = style.CROSSED if is_empty else style.PREDICTION
            name = "prediction, empty set" if is_empty else "prediction"
            ax.plot(_places(k, n, i), sets.center[i], label=name, **style.mark(look, 0.7 * size))
        for points, name, look in marks:
            ax.plot(_places(k, n, i), points[i % len(points)], label=name, **style.mark(look, size))
    shown = [sets.center] * prediction + [points for points, _, _ in marks]
    return max((float(points.max()) for points in shown), default=0.0)


def _places(k: int, n: int, i: int) -> FloatArray:
    return np.arange(k, dtype=np.float64) + (i - (n - 1) / 2) * SPREAD / n


def _draw_bars(ax: Axes, sets: CredalSet, entries: Sequence[str]) -> tuple[float, list[str]]:
    """Draw the intervals; the highest end of all, and the entries of the legend. Empty sets have no bars."""
    lower, upper = sets.envelope()
    k, n = sets.n_classes, len(sets)
    shown = list(entries)
    for i, colour in enumerate(style.colors(n)):
        if np.isnan(lower[i]).any():
            shown[i] = style.note_empty(ax, entries[i], colour)
            continue
        look: dict[str, Any] = {"color": (colour, 0.4), "edgecolor": colour, "linewidth": 0.8, "zorder": 2}
        ax.bar(_places(k, n, i), upper[i] - lower[i], 0.86 * SPREAD / n, lower[i], label=entries[i], **look)
    return float(np.max(upper, initial=0.0, where=~np.isnan(upper))), shown


def _finish(ax: Axes, names: Sequence[str], highest: float) -> None:
    k = len(names)
    for edge in np.arange(0.5, k - 1) if k <= 40 else ():
        ax.axvline(edge, color=style.LIGHT_GREY, linewidth=0.6, zorder=0)
    top = 1.0 if highest > 0.5 or highest <= 0 else 1.1 * highest  # with many classes every probability is small
    ax.set_xlim(-0.5, k - 0.5)
    ax.set_ylim(-0.02 * top, 1.02 * top)
    ax.set_ylabel("probability")
    style.tidy(ax)
    every = int(np.ceil(k / 40))  # names beyond would run into each other
    name_ticks(ax, range(0, k, every), names[::every])
    ax.tick_params(axis="x", length=0)
