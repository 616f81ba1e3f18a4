"""Sets over any number of classes: the interval of probabilities of every class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from credalset._typing import ArrayLike
from credalset.credal_set import CredalSet
from credalset.plotting import style

SPREAD = 0.72  # of the room of a class that the bars of all sets share


def envelopes(
    sets: CredalSet,
    *,
    truth: ArrayLike | None = None,
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
        One set or a few, over any number of classes.
    truth : array of shape (K,) or (N, K), optional
        True distribution, shared or per set (orange squares).
    prediction : bool
        Whether to mark the centres: predictions, or the modes of predicted Dirichlets (black circles).
    classes : sequence of K names, optional
        Names of the classes; those the sets know, or their numbers.
    labels : sequence of N names, optional
        Names of the sets for the legend; by default they are numbered.
    legend : bool
        Whether to add a legend.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes

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
    names = style.class_names(classes, sets)
    given = style.check_names(labels, "labels", len(sets), "sets")
    entries = given or (["credal set"] if len(sets) == 1 else [f"set {i}" for i in range(len(sets))])
    points = None if truth is None else style.check_points(truth, "truth", sets.n_classes)
    if points is not None and len(points) not in {1, len(sets)}:
        raise ValueError(f"truth has {len(points)} rows, but there are {len(sets)} sets. Pass one row, or one per set.")
    lower, upper = sets.envelope()
    k, n = sets.n_classes, len(sets)
    ax = style.axes_or_new(ax, width=style.SINGLE if k * n <= 16 else style.DOUBLE, height=2.3)
    room = SPREAD / n
    size = float(np.clip(260.0 * room / k, 2.0, 6.0))
    colours = style.colors(n)
    for i in range(n):
        place = np.arange(k) + (i - (n - 1) / 2) * room
        colour = colours[i]
        empty = bool(np.isnan(lower[i]).any())
        height = np.zeros(k) if empty else upper[i] - lower[i]
        bottom = np.zeros(k) if empty else lower[i]
        look: dict[str, Any] = {"color": (colour, 0.4), "edgecolor": colour, "linewidth": 0.8, "zorder": 2}
        ax.bar(place, height, 0.86 * room, bottom, label=entries[i] + (" (empty)" if empty else ""), **look)
        if prediction:
            mark = style.mark(style.PREDICTION, 0.7 * size)
            ax.plot(place, sets.center[i], label="prediction", **mark)
        if points is not None:
            mark = style.mark(style.TRUTH, size)
            ax.plot(place, points[i % len(points)], label="truth", **mark)
    shown = [upper, sets.center] if points is None else [upper, sets.center, points]
    _finish(ax, names, max(float(np.nanmax(values)) for values in shown if not np.isnan(values).all()))
    if legend:
        style.add_legend(ax, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(4, n + 2))
    return ax


def _finish(ax: Axes, names: Sequence[str], highest: float) -> None:
    k = len(names)
    for edge in np.arange(0.5, k - 1) if k <= 40 else ():
        ax.axvline(edge, color=style.LIGHT_GREY, linewidth=0.6, zorder=0)
    top = 1.0 if highest > 0.5 else 1.1 * highest  # with many classes every probability is small
    ax.set_xlim(-0.5, k - 0.5)
    ax.set_ylim(-0.02 * top, 1.02 * top)
    every = int(np.ceil(k / 40))  # names beyond would run into each other
    steep = max(map(len, names)) * k > 60
    ax.set_xticks(range(0, k, every), names[::every], rotation=60 if steep else 0, ha="right" if steep else "center")
    if steep:
        for label in ax.get_xticklabels():
            label.set_rotation_mode("anchor")
    ax.set_ylabel("probability")
    style.tidy(ax)
    ax.tick_params(axis="x", length=0)
