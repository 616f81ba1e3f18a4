"""Charts: envelopes of sets over any number of classes, and violins of repeated runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from credalset._typing import AnyArray, ArrayLike, FloatArray
from credalset.plotting import style
from credalset.plotting.style import BLUE, DOUBLE, GREEN
from credalset.sets.credal_set import CredalSet

SPREAD = 0.72  # share of the space of a class that bars take
MAX_SETS = 50  # bars of more sets would be thinner than their edges
VIOLINS = 0.8  # width of all violins at one tick
DASHED: dict[str, Any] = {"linestyle": (0, (4, 2)), "linewidth": 1.0}
NICE_NAMES = {
    "alpha": "α",
    "n_classes": "number of classes K",
    "n_votes": "votes per item m",
    "coverage_true": "coverage of the truth",
}


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
    """Draw the smallest and largest probability of every class as bars, for sets side by side.

    A set is smaller than the box of these intervals, because its probabilities sum to one.

    Parameters
    ----------
    sets : CredalSet
        At most 50 sets over any number of classes. Empty sets are listed in the legend and have no
        bars.
    truth : array of shape (K,) or (N, K), optional
        True distribution, for all sets or for each set, marked by orange squares.
    votes : array of shape (K,) or (N, K), optional
        Distribution or counts of votes, for all sets or for each set, marked by blue triangles.
    prediction : bool
        Whether to mark the predictions, or the modes of predicted Dirichlets, by black circles.
    classes : sequence of K names, optional
        Names of the classes; by default those of the sets, or numbers.
    labels : sequence of N names, optional
        Names of the sets in the legend; by default those of the items, or numbers.
    legend : bool
        Whether to add a legend above the plot.
    ax : matplotlib axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

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
    n = len(sets)
    k = sets.n_classes
    if n > MAX_SETS:
        raise ValueError(
            f"sets holds {n} sets, but at most {MAX_SETS} can be told apart. Select a few: "
            "sets[:5]."
        )
    names = style.class_names(classes, sets)
    known = [f"set {i}" for i in range(n)] if sets.items is None else list(map(str, sets.items))
    entries = style.check_names(labels, "labels", n) or (["credal set"] if n == 1 else known)
    marks = style.given_marks(sets, truth, votes, per_set=True)
    is_new = ax is None
    ax = style.axes_or_new(ax, width=style.SINGLE if k * n <= 16 else style.DOUBLE, height=2.3)
    highest = _draw_envelopes(ax, sets, entries, marks, prediction)
    _finish_envelopes(ax, names, highest)
    if legend:
        style.add_legend(ax, is_new=is_new, first=entries)
    return ax


def _draw_envelopes(
    ax: Axes, sets: CredalSet, entries: list[str], marks: Sequence[style.Mark], prediction: bool
) -> float:
    """Draw bars and marks, and note empty sets in the legend; return the highest probability."""
    n = len(sets)
    k = sets.n_classes
    lower, upper = sets.envelope()
    size = float(np.clip(260.0 * SPREAD / (k * n), 2.0, 6.0))
    highest = [np.nan_to_num(upper).max(), *(points.max() for points, _, _ in marks)]
    for i, (colour, is_empty) in enumerate(zip(style.colors(n), sets.is_empty(), strict=True)):
        places = np.arange(k) + (i - (n - 1) / 2) * SPREAD / n
        if is_empty:
            entries[i] = style.note_empty(ax, entries[i], colour)
        else:
            look: dict[str, Any] = {
                "color": (colour, 0.4),
                "edgecolor": colour,
                "linewidth": 0.8,
                "zorder": 2,
            }
            ax.bar(
                places, upper[i] - lower[i], 0.86 * SPREAD / n, lower[i], label=entries[i], **look
            )
        if prediction:
            kind, name = (
                (style.CROSSED, "prediction, empty set")
                if is_empty
                else (style.PREDICTION, "prediction")
            )
            ax.plot(places, sets.center[i], label=name, **style.mark(kind, 0.7 * size))
            highest.append(sets.center[i].max())
        for points, name, kind in marks:
            ax.plot(places, points[i % len(points)], label=name, **style.mark(kind, size))
    return float(max(highest))


def _finish_envelopes(ax: Axes, names: Sequence[str], highest: float) -> None:
    k = len(names)
    for edge in np.arange(0.5, k - 1) if k <= 40 else ():
        ax.axvline(edge, color=style.LIGHT_GREY, linewidth=0.6, zorder=0)
    top = (
        1.0 if highest > 0.5 or highest <= 0 else 1.1 * highest
    )  # with many classes every probability is small
    ax.set_xlim(-0.5, k - 0.5)
    ax.set_ylim(-0.02 * top, 1.02 * top)
    ax.set_ylabel("probability")
    style.tidy(ax)
    every = int(np.ceil(k / 40))  # more names would overlap
    style.name_ticks(ax, range(0, k, every), names[::every])
    ax.tick_params(axis="x", length=0)


def violins(
    results: Any,
    *,
    x: str = "score",
    y: str = "coverage",
    hue: str | None = "alpha",
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the distribution of a result over repetitions.

    Drawn are a violin, every run as a dot, and the mean as a line.

    If ``y`` is a coverage and ``results`` has a column ``alpha``, dashed lines show the nominal
    coverage 1 − α.

    Parameters
    ----------
    results : list of dict, data frame, or mapping of columns
        One row per run, such as the rows of `credalset.evaluate` for several seeds.
    x : str
        Column for the horizontal axis. Numbers are sorted, and names are in the order in which they
        first appear.
    y : str
        Column of the numbers to show. The number of infinite values is written at the upper edge.
    hue : str or None
        Column that determines the colour of a violin.
    legend : bool
        Whether to add a legend of the colours.
    ax : matplotlib axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> rows = [{"score": s, "alpha": 0.1, "coverage": 0.9 + 0.01 * i}
    ...         for s in ("tv", "kl") for i in range(-3, 4)]
    >>> ax = violins(rows, ax=Figure().subplots())
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['tv', 'kl']
    """
    names = [x, y] if hue is None or hue == x else [x, y, hue]
    data = columns_of(results, names, optional=["alpha"])
    values = _numbers(data[y], y)
    ticks = _levels(data[x])
    hues = _levels(data[hue]) if len(names) == 3 and hue is not None else [None]
    levels = _levels(data["alpha"]) if y.startswith("coverage") and "alpha" in data else []
    ax = style.axes_or_new(ax, width=style.DOUBLE, height=2.3)
    colours = style.colors(len(hues))
    for level in levels:
        colour = colours[hues.index(level)] if hue == "alpha" and level in hues else style.GREY
        ax.axhline(1.0 - float(level), color=colour, zorder=1, **DASHED)
    width = VIOLINS / len(hues)
    for i, tick in enumerate(ticks):
        for j, level in enumerate(hues):
            rows = (data[x] == tick) & (True if level is None else data[str(hue)] == level)
            _draw_violin(ax, i + (j - (len(hues) - 1) / 2) * width, values[rows], width, colours[j])
    ax.set_xlim(-0.5, len(ticks) - 0.5)
    ax.set(xlabel=NICE_NAMES.get(x, x), ylabel=NICE_NAMES.get(y, y))
    style.tidy(ax)
    style.name_ticks(ax, range(len(ticks)), [_text(tick) for tick in ticks])
    if legend and hues != [None]:
        _violin_legend(ax, str(hue), hues, colours, bool(levels))
    return ax


def _draw_violin(ax: Axes, position: float, values: FloatArray, width: float, colour: Any) -> None:
    """Draw one violin; its density needs three different values."""
    finite = np.sort(values[np.isfinite(values)])
    if len(np.unique(finite)) >= 3:
        parts = ax.violinplot([finite], [position], widths=0.92 * width, showextrema=False)
        for body in parts["bodies"]:  # type: ignore[attr-defined]
            body.set(facecolor=colour, edgecolor=colour, alpha=0.3, linewidth=0.7, zorder=2)
    if len(finite):
        # Values next to each other in size are shifted to different sides, so that close runs stay
        # visible.
        aside = np.resize([0.0, 0.13, -0.13], len(finite)) * width
        size = 9.0 if len(finite) <= 30 else 3.0
        ax.scatter(
            position + aside, finite, s=size, color=colour, linewidths=0, alpha=0.9, zorder=3
        )
        half = 0.3 * width
        ax.plot(
            [position - half, position + half],
            [finite.mean()] * 2,
            color="black",
            linewidth=1.2,
            zorder=4,
        )
    n_infinite = int(np.isposinf(values).sum())
    if n_infinite:
        text = "∞" if n_infinite == 1 else f"{n_infinite}×∞"
        look: dict[str, Any] = {
            "ha": "center",
            "va": "bottom",
            "fontsize": style.TINY,
            "color": colour,
        }
        ax.text(position, 1.0, text, transform=ax.get_xaxis_transform(), **look)


def _violin_legend(
    ax: Axes, hue: str, hues: Sequence[Any], colours: Sequence[Any], with_nominal: bool
) -> None:
    handles: list[Any] = [Patch(facecolor=(colour, 0.4), edgecolor=colour) for colour in colours]
    labels = [_text(level) for level in hues]
    if with_nominal:
        handles.append(ax.axhline(np.nan, color=style.GREY, **DASHED))
        labels.append("nominal")
    look: dict[str, Any] = {
        "frameon": False,
        "fontsize": style.TINY,
        "title_fontsize": style.TINY,
        "handlelength": 1.4,
    }
    place: dict[str, Any] = {
        "loc": "center left",
        "bbox_to_anchor": (1.0, 0.5),
        "handletextpad": 0.5,
    }
    ax.legend(handles, labels, title=NICE_NAMES.get(hue, hue), **place, **look)


def columns_of(results: Any, names: Sequence[str], optional: Sequence[str]) -> dict[str, AnyArray]:
    """Return columns of a data frame (pandas, polars, pyarrow), a mapping, or rows of mappings."""
    table = results
    if not isinstance(results, Mapping) and not hasattr(results, "columns"):
        rows = (
            list(results)
            if isinstance(results, Iterable) and not isinstance(results, str)
            else [results]
        )
        if not all(isinstance(row, Mapping) for row in rows):
            raise TypeError(
                "results must be a list of dicts, a data frame or a mapping of columns, not "
                f"{type(results).__name__}."
            )
        every = dict.fromkeys(title for row in rows for title in row)
        table = {title: [row.get(title) for row in rows] for title in every}
    titles = list(
        table if isinstance(table, Mapping) else getattr(table, "column_names", table.columns)
    )
    missing = [name for name in names if name not in titles]
    if missing:
        raise ValueError(
            f"results has no column {', '.join(map(repr, missing))}; it has "
            f"{', '.join(map(str, titles)) or 'none'}. Choose x, y and hue among them."
        )
    found = {
        name: np.asarray(table[name])
        for name in dict.fromkeys([*names, *optional])
        if name in titles
    }
    if len(found[names[0]]) == 0:
        raise ValueError("results has no rows. Pass at least one.")
    return found


def _numbers(column: AnyArray, name: str) -> FloatArray:
    try:
        values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"y={name!r} must be a column of numbers, but holds {column[0]!r}. Choose another y."
        ) from None
    bad = np.isnan(values) | np.isneginf(values)
    if bad.any():
        raise ValueError(
            f"y={name!r} has no number in {int(bad.sum())} of {len(bad)} rows. Drop these rows."
        )
    return values


def _levels(column: AnyArray) -> list[Any]:
    """Return the distinct entries: numbers in order, others as they first appear."""
    entries = list(dict.fromkeys(column.tolist()))
    return sorted(entries) if all(isinstance(entry, int | float) for entry in entries) else entries


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


PANELS = {"accepted": "accepted share", "decided": "decided share", "width": "mean width"}
ONE_NUMBER = "same number for all"


def voting(
    rows: Sequence[Mapping[str, Any]],
    *,
    legend: bool = True,
    axes: Sequence[Axes] | None = None,
) -> list[Axes]:
    """Draw what votes buy: results against the mean number of votes per item.

    The plot compares voting policies with equal numbers of votes for all items. The first axes show
    the share of items whose label is accepted, or the share of decided items if there is no error
    to certify; the second axes show the mean width.

    Parameters
    ----------
    rows : sequence of dict
        The rows that `credalset.VotingPolicy.compare` returns.
    legend : bool
        Whether to add a legend above the first plot.
    axes : sequence of two Axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    list of Axes
        The two axes.

    Examples
    --------
    >>> import credalset as cs
    >>> rows = [{"policy": "2 votes", "votes": 2.0, "width": 0.5, "decided": 0.7}]
    >>> rows += [{"policy": "policy", "votes": 1.2, "width": 0.4, "decided": 0.8}]
    >>> [ax.get_ylabel() for ax in cs.plotting.voting(rows)]
    ['decided share', 'mean width']
    """
    is_new = axes is None
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.subplots(1, 2, figsize=(DOUBLE, 2.4), layout="constrained")[1]
    known = "accepted" if all("accepted" in row for row in rows) else "decided"
    uniform = [row for row in rows if row["policy"].endswith(("vote", "votes"))]
    uniform.sort(key=lambda row: row["votes"])
    chosen = [row for row in rows if row not in uniform]
    for ax, measure in zip(axes, (known, "width"), strict=True):
        ax.plot(
            [row["votes"] for row in uniform],
            [row[measure] for row in uniform],
            color=BLUE,
            marker="o",
            markersize=4,
            linewidth=1.2,
            label=ONE_NUMBER,
        )
        for row, colour in zip(chosen, [GREEN, *style.colors(7)[2:]], strict=False):
            mark = {"marker": "D", "markersize": 5.5, "color": colour, "zorder": 4}
            ax.plot([row["votes"]], [row[measure]], label=row["policy"], **style.mark(mark))
        ax.set(xlabel="mean votes per item", ylabel=PANELS[measure])
        ax.set_ylim(0.0, None if measure == "width" else 1.02)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        style.tidy(ax)
    if legend:
        style.add_legend(axes[0], is_new=is_new)
    return list(axes)
