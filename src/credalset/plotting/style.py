"""Colours, sizes and checks that all pictures share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

from credalset._typing import ArrayLike, FloatArray
from credalset.annotations.labels import Labels
from credalset.sets.credal_set import CredalSet

# Okabe and Ito's palette; credal sets green, truth orange and predictions black as in the paper.
GREEN, DARK_GREEN = "#009E73", "#00523C"
ORANGE, BLUE, BLACK = "#D55E00", "#0072B2", "#000000"
GREY, LIGHT_GREY = "#4D4D4D", "#DADADA"
PALETTE = (GREEN, BLUE, "#E69F00", "#CC79A7", "#56B4E9", ORANGE, BLACK)

# Inches and points at which the pictures are read: the column of a paper.
SINGLE, DOUBLE = 3.3, 6.8
SMALL, TINY = 8.0, 7.0

#: truth, votes and predictions differ in shape as well as in colour
TRUTH: dict[str, Any] = {"marker": "s", "color": ORANGE, "markersize": 6.5, "zorder": 5}
VOTES: dict[str, Any] = {"marker": "^", "color": BLUE, "markersize": 6.5, "zorder": 5}
#: the smallest mark lies on top, so that what it coincides with shows around it
PREDICTION: dict[str, Any] = {"marker": "o", "color": BLACK, "markersize": 4.5, "zorder": 6}
#: the prediction of an empty set
CROSSED = PREDICTION | {"marker": "x", "color": GREY, "markeredgecolor": GREY, "markeredgewidth": 1.0}
#: points, the name they have in a legend, and how they look
Mark = tuple[FloatArray, str, dict[str, Any]]
MARK: dict[str, Any] = {"linestyle": "none", "markeredgecolor": "white", "markeredgewidth": 0.7, "clip_on": False}


def colors(n: int) -> list[Any]:
    """Colours for n things: the palette, or steps from dark to bright where it does not suffice."""
    if n <= len(PALETTE):
        return list(PALETTE[:n])
    return list(colormaps["viridis"](np.linspace(0.0, 0.95, n)))


def mark(look: Mapping[str, Any], size: float | None = None) -> dict[str, Any]:
    """Options of ``plot`` for a kind of mark; small ones have no white rim, which would hide them."""
    options = MARK | dict(look) | ({} if size is None else {"markersize": size})
    if options["markersize"] < 3.5 and options["markeredgecolor"] == "white":
        options["markeredgewidth"] = 0.0
    return options


def axes_or_new(ax: Axes | None, width: float = SINGLE, height: float = 2.6) -> Axes:
    """Return the axes given, or those of a new pyplot figure; never pyplot's current axes."""
    if ax is None:
        import matplotlib.pyplot as plt

        return plt.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be matplotlib axes or None, but is a {type(ax).__name__}. Pass figure.subplots().")
    return ax


def check_sets(sets: object, name: str = "sets", *, n_classes: int | None = None) -> CredalSet:
    """Check for a batch of at least one set, over a given number of classes if the picture needs it."""
    if not isinstance(sets, CredalSet):
        raise TypeError(
            f"{name} must be a CredalSet, but is a {type(sets).__name__}. Use calibration.predict_set or score.region."
        )
    if len(sets) == 0:
        raise ValueError(f"{name} is a batch without sets. Select at least one.")
    if n_classes is not None and sets.n_classes != n_classes:
        raise ValueError(
            f"{name} has {sets.n_classes} classes, but a triangle shows {n_classes}. Use plotting.envelopes."
        )
    return sets


def check_points(value: Any, name: str, sets: CredalSet) -> FloatArray:
    """Turn one distribution (K,) or several (n, K), also given as counts, into distributions (n, K).

    Classes, and items where there is a row per set, are matched by name.
    """
    named = hasattr(value, "distributions") or hasattr(value, "columns")
    rows = value if named else np.atleast_2d(np.asarray(value))
    found = Labels.read(rows, name, classes=sets.classes, like="the sets", n_classes=sets.n_classes)
    return (found.matching(sets.items, name, "the sets") if len(found) == len(sets) else found).distributions


def check_rows(value: ArrayLike, name: str, sets: CredalSet) -> FloatArray:
    """Turn one distribution per set into an array (N, K)."""
    points = check_points(value, name, sets)
    if len(points) != len(sets):
        raise ValueError(f"{name} has {len(points)} rows, but there are {len(sets)} sets. Pass one row per set.")
    return points


def check_names(value: Sequence[Any] | None, name: str, count: int, what: str) -> list[str] | None:
    """Turn one name per thing into strings; None stays None."""
    if value is None:
        return None
    if isinstance(value, str) or len(value) != count:
        raise ValueError(f"{name} must hold one name for each of the {count} {what}, but is {value!r}.")
    return [str(item) for item in value]


def class_names(classes: Sequence[Any] | None, sets: CredalSet) -> list[str]:
    """Names of the classes: those given, those the sets know, or the numbers of their columns."""
    given = check_names(classes, "classes", sets.n_classes, "classes")
    if given is None:
        given = [str(item) for item in (sets.classes if sets.classes is not None else range(sets.n_classes))]
    return given


def legend_entries(ax: Axes, first: Sequence[str] = ()) -> tuple[list[Any], list[str]]:
    """Everything labelled, once however often it was drawn: the names given, other sets, then marks."""
    rank = {label: i for i, label in enumerate(first)}
    handles, labels = ax.get_legend_handles_labels()
    pairs = sorted(
        zip(labels, handles, strict=True),
        key=lambda pair: rank.get(pair[0], len(rank) + isinstance(pair[1], Line2D)),
    )
    unique = dict(pairs)
    return list(unique.values()), list(unique)


def draw_legend(ax: Axes, handles: Sequence[Any], labels: Sequence[str], **options: Any) -> Legend:
    """Add a small legend without a frame, its marks large enough to be recognised."""
    defaults = {"frameon": False, "fontsize": TINY, "handletextpad": 0.4, "borderaxespad": 0.1, "labelspacing": 0.3}
    legend = ax.legend(handles, labels, **defaults | options)
    for handle in legend.legend_handles:  # marks of crowded pictures are too small
        if isinstance(handle, Line2D):
            handle.set_markersize(max(handle.get_markersize(), 4.0))
            handle.set_linewidth(max(handle.get_linewidth(), 4.0))
    return legend


def write(ax: Axes, text: str, place: ArrayLike, shift: tuple[float, float] = (0.0, 0.0), **options: Any) -> None:
    """Write a text at a place of a picture, moved by some points; it may stand outside the axes."""
    x, y = np.asarray(place, dtype=np.float64).tolist()
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": TINY, "annotation_clip": False} | options
    ax.annotate(text, (x, y), xytext=shift, textcoords="offset points", **look)


def given_marks(
    check: Callable[[ArrayLike, str], FloatArray], truth: ArrayLike | None, votes: ArrayLike | None
) -> list[Mark]:
    """Check the truth and the votes that are there; what to mark, with its name and looks."""
    both = ((truth, "truth", TRUTH), (votes, "votes", VOTES))
    return [(check(points, name), name, look) for points, name, look in both if points is not None]


def note_empty(ax: Axes, name: str, colour: Any) -> str:
    """Give a set without members a hollow entry in the legend; the name it has there."""
    label = f"{name} (empty)"
    look: dict[str, Any] = {"marker": "s", "markerfacecolor": "none", "markeredgecolor": colour, "markersize": 6.0}
    ax.plot([], [], linestyle="none", label=label, **look)
    return label


def add_legend(ax: Axes, **options: Any) -> None:
    """List everything labelled once, however often it was drawn: sets first, then marks."""
    handles, labels = legend_entries(ax)
    if labels:
        draw_legend(ax, handles, labels, **options)


def tidy(ax: Axes) -> None:
    """Small ticks and two spines, for pictures with ordinary axes."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=TINY, length=2.5, width=0.6)
    ax.xaxis.label.set_fontsize(SMALL)
    ax.yaxis.label.set_fontsize(SMALL)
