"""How uncertain sets are: intervals of entropy, and maps of aleatoric against epistemic uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator, MaxNLocator

from credalset._guessing import explained
from credalset._typing import AnyArray, ArrayLike, BoolArray, FloatArray
from credalset._validation import check_choice
from credalset.annotations.labels import in_item_order
from credalset.plotting import style
from credalset.plotting.fitting import break_names, legend_above, points_of
from credalset.plotting.notes import write_notes
from credalset.sets.credal_set import CredalSet
from credalset.sets.results import EntropyBounds
from credalset.simplex import entropy, log_base

MANY = 2_000  # marks beyond which vector graphics would grow heavy: they are kept as pixels
VERY_MANY = 20_000  # points beyond which a cloud hides its own density
TOTALS = (0.25, 0.5, 0.75, 1.0)  # of the largest entropy, drawn as diagonals
FEW = 8  # sets that are numbered one by one
LONG = 24  # letters of a name beyond which a narrow picture has no room for intervals
FAINT = 0.005  # gap, of the largest entropy, that no eye would see
HIDDEN = 0.04  # length of an interval, of the largest entropy, that a mark can hide


@explained
def entropy_intervals(
    sets: CredalSet,
    *,
    truth: ArrayLike | None = None,
    order: str | None = "center",
    base: float | str | None = "K",
    labels: Sequence[Any] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the interval from the smallest to the largest entropy in each set, with those of prediction and truth.

    Where a bound is certified but not attained, the interval is pale from the bound to the best member found.

    Parameters
    ----------
    sets : CredalSet
        N sets over any number of classes. Where one is empty, only its prediction is shown, crossed out.
    truth : array of shape (N, K), optional
        True distributions, one per set.
    order : {"center", None}
        Whether to sort the sets by the entropy of their centre (the prediction, or the mode of a Dirichlet).
    base : None, "K" or float
        Unit of entropy, as in `CredalSet.entropy_bounds`.
    labels : sequence of N names, optional
        Names of the sets: intervals then lie on their side, named on the left, the first on top. Without names they
        stand upright in a row.
    legend : bool
        Whether to add a legend.
    ax : matplotlib axes, optional
        Where to draw.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.5, 0.3, 0.1, 0.1], [0.9, 0.1, 0.0, 0.0]], threshold=0.1)
    >>> entropy_intervals(sets, ax=Figure().subplots()).get_ylabel()
    'normalised entropy'
    """
    style.check_sets(sets)
    check_choice(order, "order", ("center", None))
    names = style.check_names(labels, "labels", len(sets), "sets")
    true_entropy = None if truth is None else entropy(style.check_rows(truth, "truth", sets), base)
    center = entropy(sets.center, base)
    bounds = sets.entropy_bounds(base)
    rank = np.argsort(center, kind="stable") if order == "center" else np.arange(len(sets))
    place = np.argsort(rank).astype(np.float64)
    is_new, lying = ax is None, names is not None
    wide = style.DOUBLE if names is not None and max(map(len, names)) > LONG else style.SINGLE
    ax = style.axes_or_new(ax, width=wide, height=2.3 if names is None else 0.7 + 0.2 * len(sets))
    largest = float(np.log(sets.n_classes) / log_base(base, sets.n_classes))
    _draw_intervals(ax, place, bounds, lying, largest)
    empty = sets.is_empty()
    _draw_marks(ax, place[~empty], center[~empty], lying, len(sets), "prediction", style.PREDICTION)
    _draw_marks(ax, place[empty], center[empty], lying, len(sets), "prediction, empty set", style.CROSSED)
    if true_entropy is not None:
        _draw_marks(ax, place, true_entropy, lying, len(sets), "truth", style.TRUTH)
    _finish_intervals(ax, names, place, largest, _unit_name(base), order)
    if legend:
        legend_above(ax, 2 if empty.any() else 3, is_new=is_new, flush_right=lying)
    return ax


def _draw_intervals(ax: Axes, place: FloatArray, bounds: EntropyBounds, lying: bool, largest: float) -> None:
    there = ~np.isnan(bounds.lower)
    low, high = bounds.lower + bounds.lower_gap, bounds.upper - bounds.upper_gap  # by members; certain beyond these
    draw = ax.hlines if lying else ax.vlines
    options: dict[str, Any] = {"zorder": 2, "rasterized": len(place) > MANY}
    width = float(np.clip(150.0 / len(place), 0.6, 6.0))
    for start, end, rows, opacity, label in (
        (low, high, there & (low <= high), 0.55, "credal set"),
        (bounds.lower, np.minimum(low, high), there & (bounds.lower_gap > 0), 0.2, "not ruled out"),
        (np.maximum(low, high), bounds.upper, there & (bounds.upper_gap > 0), 0.2, "_nolegend_"),
    ):
        if rows.any():
            look: dict[str, Any] = {"colors": [(style.GREEN, opacity)], "linewidths": width, "capstyle": "butt"}
            draw(place[rows], start[rows], end[rows], label=label, **look, **options)
    short = there & (low <= high) & (high - low < HIDDEN * largest)
    middle = place[short], 0.5 * (low + high)[short]
    # The dot of the prediction would hide these: a bar across it, wider than any mark.
    bar: dict[str, Any] = {"marker": "|" if lying else "_", "color": style.GREEN, "linestyle": "none"}
    size = 1.8 * _size(len(place), style.TRUTH)
    ax.plot(*(middle[::-1] if lying else middle), markersize=size, markeredgewidth=1.6, **bar, **options)


def _size(total: int, look: Mapping[str, Any]) -> float:
    return float(np.clip(150.0 / total, 1.5, look["markersize"]))


def _draw_marks(
    ax: Axes, place: FloatArray, values: FloatArray, lying: bool, total: int, name: str, look: Mapping[str, Any]
) -> None:
    if len(place):
        points = (values, place) if lying else (place, values)
        ax.plot(*points, label=name, rasterized=total > MANY, **style.mark(look, _size(total, look)))


def _finish_intervals(
    ax: Axes, names: list[str] | None, place: FloatArray, largest: float, unit: str, order: str | None
) -> None:
    total = len(place)
    if names is None:
        ax.set_xlim(-0.7, total - 0.3)
        ax.set_ylim(-0.02 * largest, 1.03 * largest)
        ax.set(xlabel="set, by entropy of the prediction" if order == "center" else "set", ylabel=unit)
        ax.xaxis.set_major_locator(FixedLocator(range(total)) if total <= FEW else MaxNLocator(integer=True))
    else:
        ax.set_ylim(total - 0.4, -0.6)
        ax.set_xlim(-0.02 * largest, 1.03 * largest)
        width, height = points_of(ax)
        lines = int(0.6 * height / (total * style.TINY))  # less than the height: layout makes room for a legend
        ax.set_yticks(place, break_names(names, 0.55 * width, lines))
        ax.set_xlabel(unit)
    style.tidy(ax)


def _unit_name(base: float | str | None) -> str:
    if base is None:
        return "entropy (nats)"
    if base == "K":
        return "normalised entropy"
    return "entropy (bits)" if base == 2 else f"entropy (base {base:g})"


@explained
def uncertainty_map(
    sets: CredalSet,
    *,
    base: float | str | None = "K",
    color: ArrayLike | str | None = None,
    color_label: str = "",
    annotate: Mapping[Any, str] | Sequence[Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Scatter the aleatoric against the epistemic uncertainty of sets, with lines of constant total.

    Aleatoric is the smallest entropy in a set, total the largest, epistemic their difference. Empty sets have neither
    and are left out; their number is written above the picture. Where these are bounds (`Uncertainty` carries gaps), a
    thin line leads from each mark to where the set could lie at the other end, and a note above says how far off the
    farthest may be.

    Parameters
    ----------
    sets : CredalSet
        N sets over any number of classes; beyond 20 000 without ``color`` they are counted in hexagons.
    base : None, "K" or float
        Unit of entropy, as in `CredalSet.uncertainty`.
    color : str or array of shape (N,), optional
        One colour for all; or numbers, shown on a colour scale with the title ``color_label``, and grey where they are
        NaN or infinite; or names of groups, listed in a legend. A series is matched by the names of the items.
    annotate : mapping to str, or sequence, optional
        Sets to point out, by index or by the name of their item, with a text or with their index or name.
    ax : matplotlib axes, optional
        Where to draw.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.5, 0.3, 0.2], [0.9, 0.1, 0.0]], threshold=0.1)
    >>> uncertainty_map(sets, annotate={1: "sure"}, ax=Figure().subplots()).get_xlabel()
    'aleatoric: smallest normalised entropy'
    """
    style.check_sets(sets)
    if sets.items is not None and not isinstance(color, str | None):
        color = in_item_order(color, sets.items, "color", "the sets")
    groups = _check_color(color, len(sets))
    notes = _check_notes(annotate, sets)
    parts = sets.uncertainty(base)
    largest = float(np.log(sets.n_classes) / log_base(base, sets.n_classes))
    ax = style.axes_or_new(ax, height=2.9)
    _draw_totals(ax, largest)
    known = ~np.isnan(parts.total)
    x, y = parts.aleatoric[known], parts.epistemic[known]
    if color is None and len(x) > VERY_MANY:
        _draw_hexagons(ax, x, y, largest)
    else:
        _draw_cloud(ax, x, y, color if groups is None else groups[known], color_label)
        _draw_gaps(ax, x, y, parts.aleatoric_gap[known], parts.epistemic_gap[known], largest)
    ax.set_title(_remarks(known, parts.epistemic_gap, largest), loc="right", fontsize=style.TINY)
    limits = (-0.02 * largest, 1.02 * largest)
    labels = {"xlabel": f"aleatoric: smallest {_unit_name(base)}", "ylabel": "epistemic: largest − smallest"}
    ax.set(xlim=limits, ylim=limits, aspect="equal", **labels)
    style.tidy(ax)
    shown = [index for index in notes if known[index]]
    places = np.stack([parts.aleatoric[shown], parts.epistemic[shown]], axis=1)
    texts = [notes[index] for index in shown]
    write_notes(ax, places, texts, _places_of_totals(largest), np.stack([x, y], axis=1)[:MANY])
    return ax


def _remarks(known: BoolArray, gaps: FloatArray, largest: float) -> str:
    """What to write above a map: how many sets are empty, and how far off bounds may be."""
    farthest = np.nanmax(gaps, initial=0.0)
    remarks = [] if known.all() else [f"{(~known).sum()} empty, not shown"]
    remarks += [f"bounds, off by up to {farthest:.2g}"] if farthest >= FAINT * largest else []
    return "; ".join(remarks)


def _places_of_totals(largest: float) -> FloatArray:
    """Where the numbers at the diagonals are: middles, and half widths and heights in points."""
    middle = 0.5 * largest * np.array(TOTALS)
    half = 0.5 * style.TINY * np.array([1.0, 1.0, 1.0, 3.0])  # the last says "total"
    return np.stack([middle, middle, half + 3.0, half + 3.0], axis=1)


def _draw_totals(ax: Axes, largest: float) -> None:
    """Diagonals on which the total is a quarter, a half, three quarters and all of the largest entropy."""
    for share in TOTALS:
        total = share * largest
        ax.plot([0.0, total], [total, 0.0], color=style.LIGHT_GREY, linewidth=0.8, zorder=1)
        text = f"total {total:.2g}" if share == 1.0 else f"{total:.2g}"
        turn: dict[str, Any] = {"rotation": -45, "rotation_mode": "anchor", "va": "bottom", "fontsize": style.TINY - 1}
        rim = [withStroke(linewidth=1.5, foreground="white")]
        style.write(ax, text, (0.5 * total, 0.5 * total), color=style.GREY, zorder=3, path_effects=rim, **turn)


def _draw_hexagons(ax: Axes, x: FloatArray, y: FloatArray, largest: float) -> None:
    extent = (0.0, largest, 0.0, largest)  # of the picture rather than of the data: regular hexagons
    bins = ax.hexbin(x, y, gridsize=70, extent=extent, bins="log", mincnt=1, cmap="viridis", linewidths=0.2, zorder=2)
    bins.set_rasterized(True)
    _colorbar(ax, bins, "sets")


def _draw_cloud(ax: Axes, x: FloatArray, y: FloatArray, color: Any, color_label: str) -> None:
    size = float(np.clip(4e3 / max(len(x), 1), 2.0, 16.0))
    options: dict[str, Any] = {"s": size, "linewidths": 0, "zorder": 2, "rasterized": len(x) > MANY, "alpha": 0.8}
    if color is None or isinstance(color, str):
        ax.scatter(x, y, color=color or style.GREEN, **options)
    elif color.dtype.kind in "fiu":
        known = np.isfinite(color)
        if known.any():
            shades = ax.scatter(x[known], y[known], c=color[known], cmap="viridis", **options)
            _colorbar(ax, shades, color_label)
        if not known.all():
            ax.scatter(
                x[~known], y[~known], color=style.LIGHT_GREY, **options | {"linewidths": 0.5, "edgecolor": style.GREY}
            )
    else:
        markers = "osD^vPX"
        different = list(dict.fromkeys(color.tolist()))
        for i, (group, colour) in enumerate(zip(different, style.colors(len(different)), strict=True)):
            rows = color == group
            look = {"color": [colour], "marker": markers[i % len(markers)]}
            ax.scatter(x[rows], y[rows], label=str(group), **options | look)
        style.add_legend(ax, loc="upper right", markerscale=max(1.0, 4.0 / np.sqrt(size)))


def _draw_gaps(ax: Axes, x: FloatArray, y: FloatArray, right: FloatArray, down: FloatArray, largest: float) -> None:
    """Lines from marks to the other end of what they may be; along a diagonal where the total is exact."""
    wide = down >= FAINT * largest
    if wide.any():
        ends = np.stack([np.stack([x, y], axis=1), np.stack([x + right, y - down], axis=1)], axis=1)[wide]
        look: dict[str, Any] = {"colors": [(style.GREY, 0.4)], "linewidths": 0.5, "zorder": 1.5}
        ax.add_collection(LineCollection(list(ends), rasterized=len(x) > MANY, **look))


def _colorbar(ax: Axes, mappable: Any, label: str) -> None:
    figure = ax.get_figure()
    assert figure is not None
    bar = figure.colorbar(mappable, ax=ax, shrink=0.8, pad=0.02, aspect=25)
    bar.set_label(label, size=style.TINY)
    bar.ax.tick_params(labelsize=style.TINY, length=2.5, width=0.6)
    bar.outline.set_linewidth(0.6)


def _check_color(color: ArrayLike | str | None, n: int) -> AnyArray | None:
    if color is None or isinstance(color, str):
        return None
    array = np.asarray(color)
    if array.shape != (n,):
        raise ValueError(f"color must be one colour or one value per set ({n}), but has shape {array.shape}.")
    return array


def _check_notes(annotate: Mapping[Any, str] | Sequence[Any] | None, sets: CredalSet) -> dict[int, str]:
    if annotate is None:
        return {}
    n, items = len(sets), [] if sets.items is None else list(sets.items)
    places: dict[Any, int] = {name: place for place, name in enumerate(items)}
    given = annotate if isinstance(annotate, Mapping) else {i: str(i) for i in annotate}
    unknown = [name for name in given if name not in places and not isinstance(name, int | np.integer)]
    if unknown:
        raise ValueError(f"annotate names {unknown[0]!r}, but no set has an item of that name. Use names or indices.")
    notes = {places[name] if name in places else int(name): text for name, text in given.items()}
    outside = [i for i in notes if not -n <= i < n]
    if outside:
        raise ValueError(f"annotate names set {outside[0]}, but there are {n} sets. Use indices below {n}.")
    return notes
