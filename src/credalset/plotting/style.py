"""Colours, sizes, legends and checks that all plots share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from credalset._batch import item_names
from credalset._typing import ArrayLike, FloatArray
from credalset._validation import as_probability
from credalset.sets.credal_set import CredalSet

# Okabe and Ito's palette; credal sets green, truth orange and predictions black as in the paper.
GREEN, DARK_GREEN = "#009E73", "#00523C"
ORANGE, BLUE, BLACK = "#D55E00", "#0072B2", "#000000"
GREY = "#4D4D4D"
LIGHT_GREY = "#DADADA"
PALETTE = (GREEN, BLUE, "#E69F00", "#CC79A7", "#56B4E9", ORANGE, BLACK)

SINGLE, DOUBLE = 3.3, 6.8  # inches: the columns of a paper
SMALL, TINY = 8.0, 7.0  # points
LETTER = 0.53  # mean width of a letter relative to the font size
LONGEST_LABEL = 40  # letters of a legend entry in one line

#: truth, votes and predictions differ in shape as well as in colour
TRUTH: dict[str, Any] = {"marker": "s", "color": ORANGE, "markersize": 6.5, "zorder": 5}
VOTES: dict[str, Any] = {"marker": "^", "color": BLUE, "markersize": 6.5, "zorder": 5}
#: the smallest mark is drawn last, so that marks below it stay visible
PREDICTION: dict[str, Any] = {"marker": "o", "color": BLACK, "markersize": 4.5, "zorder": 6}
#: the prediction of an empty set
CROSSED = PREDICTION | {
    "marker": "x",
    "color": GREY,
    "markeredgecolor": GREY,
    "markeredgewidth": 1.0,
}
MARK: dict[str, Any] = {
    "linestyle": "none",
    "markeredgecolor": "white",
    "markeredgewidth": 0.7,
    "clip_on": False,
}
#: points, their name in the legend, and options of ``plot``
Mark = tuple[FloatArray, str, dict[str, Any]]


def colors(n: int) -> list[Any]:
    """Return n colours: the palette, or steps of a colour map if it is too small."""
    return (
        list(PALETTE[:n])
        if n <= len(PALETTE)
        else list(colormaps["viridis"](np.linspace(0.0, 0.95, n)))
    )


def mark(look: Mapping[str, Any], size: float | None = None) -> dict[str, Any]:
    """Return options of ``plot`` for a mark; a white rim would hide a small one."""
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
        raise TypeError(
            f"ax must be matplotlib axes or None, but is a {type(ax).__name__}. Pass "
            "figure.subplots()."
        )
    return ax


def check_sets(sets: object, name: str = "sets", *, n_classes: int | None = None) -> None:
    """Check for a batch of at least one set, over a given number of classes if needed."""
    if not isinstance(sets, CredalSet):
        raise TypeError(
            f"{name} must be a CredalSet, but is a {type(sets).__name__}. Use "
            "calibration.predict_set or score.region."
        )
    if len(sets) == 0:
        raise ValueError(f"{name} is a batch without sets. Select at least one.")
    if n_classes is not None and sets.n_classes != n_classes:
        raise ValueError(
            f"{name} has {sets.n_classes} classes, but a triangle shows {n_classes}. Use "
            "plotting.envelopes."
        )


def read_points(value: Any, name: str, sets: CredalSet, *, per_set: bool = False) -> FloatArray:
    """Return distributions (n, K) from one distribution (K,) or several (n, K), or from counts.

    Rows with names, or as many as there are sets, are those of the sets.
    """
    batch = sets._batch
    if np.ndim(value) == 1:
        return batch.candidates(batch.per_class(value, name)[None], name)
    n_rows = len(value)
    if item_names(value, name) is not None or n_rows == len(sets):
        return batch.votes(value, name).distributions
    if per_set and n_rows != 1:
        raise ValueError(
            f"{name} has {n_rows} rows, but there are {len(sets)} sets. Pass one row, or one per "
            "set."
        )
    return batch.candidates(value, name)


def given_marks(sets: CredalSet, truth: Any, votes: Any, *, per_set: bool = False) -> list[Mark]:
    """Return the marks of the truth and the votes, as far as they are given."""
    both = ((truth, "truth", TRUTH), (votes, "votes", VOTES))
    return [
        (read_points(value, name, sets, per_set=per_set), name, look)
        for value, name, look in both
        if value is not None
    ]


def check_names(value: Sequence[Any] | None, name: str, count: int) -> list[str] | None:
    """Return names as texts after checking their number; None stays None."""
    if value is None:
        return None
    if isinstance(value, str) or len(value) != count:
        raise ValueError(f"{name} must hold {count} names, but is {value!r}.")
    return [str(item) for item in value]


def class_names(classes: Sequence[Any] | None, sets: CredalSet) -> list[str]:
    """Return names of the classes: those given, those of the sets, or numbers."""
    known = range(sets.n_classes) if sets.classes is None else sets.classes
    return check_names(classes, "classes", sets.n_classes) or [str(name) for name in known]


def legend_entries(ax: Axes, first: Sequence[str] = ()) -> dict[str, Any]:
    """Return legend entries without repetition: the given names, then other sets, then marks."""
    rank = {label: i for i, label in enumerate(first)}
    handles, labels = ax.get_legend_handles_labels()
    pairs = zip(labels, handles, strict=True)
    return dict(
        sorted(pairs, key=lambda pair: rank.get(pair[0], len(rank) + isinstance(pair[1], Line2D)))
    )


def add_legend(ax: Axes, *, is_new: bool, below: bool = False, first: Sequence[str] = ()) -> None:
    """Add a legend above or below axes, in as many columns as fit; new figures grow by it."""
    entries = legend_entries(ax, first)
    figure = ax.get_figure(root=True)
    if not entries or figure is None:
        return
    names = [fill(name, LONGEST_LABEL) for name in entries]
    longest = max(min(len(name), LONGEST_LABEL) for name in names)
    room = 72.0 / figure.dpi * ax.get_window_extent().width
    columns = int(
        np.clip(room // (LETTER * TINY * longest + 3.0 * TINY), 1, max(4, len(names) // 6))
    )
    place: dict[str, Any] = {
        "loc": "lower center",
        "bbox_to_anchor": (0.5, 1.0),
        "borderaxespad": 0.3,
    }
    if below:
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "borderaxespad": 1.8}
    look: dict[str, Any] = {
        "frameon": False,
        "fontsize": TINY,
        "handletextpad": 0.4,
        "columnspacing": 1.2,
    }
    legend = ax.legend(entries.values(), names, ncols=min(columns, len(names)), **place, **look)
    for handle in legend.legend_handles:  # marks of crowded plots would be too small
        if isinstance(handle, Line2D):
            handle.set_markersize(max(handle.get_markersize(), 4.0))
            handle.set_linewidth(max(handle.get_linewidth(), 1.2))
    if is_new:
        lines = -(-sum(name.count("\n") + 1 for name in names) // columns)
        figure.set_figheight(figure.get_figheight() + (1.5 * TINY * lines + 10.0 * below) / 72.0)


def name_ticks(ax: Axes, places: Sequence[float], names: Sequence[str]) -> None:
    """Write names below the horizontal axis, rotated if they would overlap."""
    figure, (low, high) = ax.get_figure(root=True), ax.get_xlim()
    assert figure is not None
    span = float(np.min(np.diff(places), initial=high - low)) / (high - low)
    room = 72.0 / figure.dpi * ax.get_window_extent().width * span
    ax.set_xticks(places, names)
    if LETTER * TINY * max(map(len, names)) + 4.0 > room:
        # Rotated lines of height h need a distance of h / sin(angle).
        angle = next(
            (angle for angle in (30, 60) if 1.35 * TINY / np.sin(np.radians(angle)) <= room), 90
        )
        for label in ax.get_xticklabels():
            label.set(
                rotation=angle,
                ha="right",
                va="center" if angle == 90 else "top",
                rotation_mode="anchor",
            )


def write(
    ax: Axes, text: str, place: ArrayLike, shift: tuple[float, float] = (0.0, 0.0), **options: Any
) -> Any:
    """Write a text at a place, shifted by some points; it may be outside the axes."""
    x, y = np.asarray(place, dtype=np.float64).tolist()
    look: dict[str, Any] = {
        "ha": "center",
        "va": "center",
        "fontsize": TINY,
        "annotation_clip": False,
    } | options
    return ax.annotate(text, (x, y), xytext=shift, textcoords="offset points", **look)


def mark_level(ax: Axes, alpha: float | None, *, along_x: bool = False) -> None:
    """Mark the coverage 1 − α by a dashed line, which is named beside the axes."""
    if alpha is None:
        return
    nominal = 1.0 - as_probability(alpha, "alpha")
    line = ax.axvline if along_x else ax.axhline
    line(nominal, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), zorder=1)
    options: dict[str, Any] = {"fontsize": TINY, "color": GREY}
    if along_x:
        place = ax.get_xaxis_transform()
        ax.text(nominal, 1.0, "1 − α", ha="center", va="bottom", transform=place, **options)
    else:
        place = ax.get_yaxis_transform()
        ax.text(1.0, nominal, " 1 − α", ha="left", va="center", transform=place, **options)


def note_empty(ax: Axes, name: str, colour: Any) -> str:
    """Add an empty set to the legend as a hollow square; return its name there."""
    label = f"{name} (empty)"
    look: dict[str, Any] = {
        "marker": "s",
        "markerfacecolor": "none",
        "markeredgecolor": colour,
        "markersize": 6.0,
    }
    ax.plot([], [], linestyle="none", label=label, **look)
    return label


def tidy(ax: Axes) -> None:
    """Use small ticks and two spines."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=TINY, length=2.5, width=0.6)
    ax.xaxis.label.set_fontsize(SMALL)
    ax.yaxis.label.set_fontsize(SMALL)
