"""The map of aleatoric against epistemic uncertainty."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke

from credalset._typing import ArrayLike, BoolArray, FloatArray
from credalset.plotting import style
from credalset.sets.credal_set import CredalSet
from credalset.simplex import log_base

MAX_VECTORS = 2_000  # more marks are stored as pixels in vector graphics
MAX_MARKS = 20_000  # more points are counted in hexagons
TOTALS = (0.25, 0.5, 0.75, 1.0)  # diagonals, as shares of the largest entropy
FAINT = 0.005  # smaller gaps, as shares of the largest entropy, are not drawn


def uncertainty_map(
    sets: CredalSet,
    *,
    base: float | str | None = "K",
    color: ArrayLike | str | None = None,
    color_label: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Plot epistemic against aleatoric uncertainty of sets, with lines of equal total uncertainty.

    Aleatoric uncertainty is the smallest entropy in a set, total uncertainty is the largest, and
    epistemic uncertainty is their difference. Empty sets are left out, and their number is written
    above the plot. If entropies are certified bounds instead of exact values, a thin line leads
    from each mark to the other end of its bounds, and the largest gap is written above the plot.

    Parameters
    ----------
    sets : CredalSet
        N sets over any number of classes. If there are more than 20 000 sets and no ``color``,
        hexagons show the number of sets.
    base : None, "K" or float
        Base of the entropy, as in `CredalSet.uncertainty`.
    color : str or array of shape (N,), optional
        One colour for all sets, or one value per set. Numbers are shown on a colour scale, and in
        grey if they are NaN or infinite. Names of groups are listed in a legend. A series is
        matched by the names of the items.
    color_label : str
        Title of the colour scale, if ``color`` holds numbers.
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
    >>> sets = TotalVariation().region([[0.5, 0.3, 0.2], [0.9, 0.1, 0.0]], threshold=0.1)
    >>> uncertainty_map(sets, ax=Figure().subplots()).get_xlabel()
    'aleatoric: smallest normalised entropy'
    """
    style.check_sets(sets)
    values = None
    if color is not None and not isinstance(color, str):
        values = np.asarray(sets._batch.per_item(color, "color"))
        if values.shape != (len(sets),):
            raise ValueError(
                f"color must be one colour or one value per set ({len(sets)}), but has shape "
                f"{values.shape}."
            )
    parts = sets.uncertainty(base)
    largest = float(np.log(sets.n_classes) / log_base(base, sets.n_classes))
    ax = style.axes_or_new(ax, height=2.9)
    _draw_totals(ax, largest)
    known = ~np.isnan(parts.total)
    x = parts.aleatoric[known]
    y = parts.epistemic[known]
    if color is None and len(x) > MAX_MARKS:
        _draw_hexagons(ax, x, y, largest)
    else:
        _draw_cloud(ax, x, y, color if values is None else values[known], color_label)
        _draw_gaps(ax, x, y, parts.aleatoric_gap[known], parts.epistemic_gap[known], largest)
    ax.set_title(_remarks(known, parts.epistemic_gap, largest), loc="right", fontsize=style.TINY)
    limits = (-0.02 * largest, 1.02 * largest)
    units: dict[Any, str] = {None: "entropy (nats)", "K": "normalised entropy", 2: "entropy (bits)"}
    unit = units.get(base, f"entropy (base {base})")
    labels = {"xlabel": f"aleatoric: smallest {unit}", "ylabel": "epistemic: largest − smallest"}
    ax.set(xlim=limits, ylim=limits, aspect="equal", **labels)
    style.tidy(ax)
    return ax


def _remarks(known: BoolArray, gaps: FloatArray, largest: float) -> str:
    """Return the text above a map: the number of empty sets and the largest gap of bounds."""
    farthest = np.nanmax(gaps, initial=0.0)
    remarks = [] if known.all() else [f"{(~known).sum()} empty, not shown"]
    remarks += [f"bounds, off by up to {farthest:.2g}"] if farthest >= FAINT * largest else []
    return "; ".join(remarks)


def _draw_totals(ax: Axes, largest: float) -> None:
    """Draw diagonals of constant total uncertainty."""
    for share in TOTALS:
        total = share * largest
        ax.plot([0.0, total], [total, 0.0], color=style.LIGHT_GREY, linewidth=0.8, zorder=1)
        text = f"total {total:.2g}" if share == 1.0 else f"{total:.2g}"
        turn: dict[str, Any] = {
            "rotation": -45,
            "rotation_mode": "anchor",
            "va": "bottom",
            "fontsize": style.TINY - 1,
        }
        rim = [withStroke(linewidth=1.5, foreground="white")]
        style.write(
            ax,
            text,
            (0.5 * total, 0.5 * total),
            color=style.GREY,
            zorder=3,
            path_effects=rim,
            **turn,
        )


def _draw_hexagons(ax: Axes, x: FloatArray, y: FloatArray, largest: float) -> None:
    extent = (0.0, largest, 0.0, largest)  # that of the plot gives regular hexagons
    bins = ax.hexbin(
        x,
        y,
        gridsize=70,
        extent=extent,
        bins="log",
        mincnt=1,
        cmap="viridis",
        linewidths=0.2,
        zorder=2,
    )
    bins.set_rasterized(True)
    _colorbar(ax, bins, "sets")


def _draw_cloud(ax: Axes, x: FloatArray, y: FloatArray, color: Any, color_label: str) -> None:
    size = float(np.clip(4e3 / max(len(x), 1), 2.0, 16.0))
    options: dict[str, Any] = {"s": size, "linewidths": 0, "zorder": 2, "alpha": 0.8}
    options["rasterized"] = len(x) > MAX_VECTORS
    if color is None or isinstance(color, str):
        ax.scatter(x, y, color=color or style.GREEN, **options)
    elif color.dtype.kind in "fiu":
        known = np.isfinite(color)
        if known.any():
            _colorbar(
                ax,
                ax.scatter(x[known], y[known], c=color[known], cmap="viridis", **options),
                color_label,
            )
        if not known.all():
            grey = options | {"color": style.LIGHT_GREY, "linewidths": 0.5, "edgecolor": style.GREY}
            ax.scatter(x[~known], y[~known], **grey)
    else:
        groups = list(dict.fromkeys(color.tolist()))
        for i, (group, colour) in enumerate(zip(groups, style.colors(len(groups)), strict=True)):
            rows = color == group
            ax.scatter(
                x[rows],
                y[rows],
                label=str(group),
                color=[colour],
                marker="osD^vPX"[i % 7],
                **options,
            )
        look = {"frameon": False, "fontsize": style.TINY, "handletextpad": 0.4, "labelspacing": 0.3}
        ax.legend(
            loc="upper right", markerscale=max(1.0, 4.0 / np.sqrt(size)), **look
        )  # no marks are in this corner


def _draw_gaps(
    ax: Axes, x: FloatArray, y: FloatArray, right: FloatArray, down: FloatArray, largest: float
) -> None:
    """Draw lines from marks to the other ends of their brackets."""
    wide = down >= FAINT * largest
    if wide.any():
        ends = np.stack(
            [np.stack([x, y], axis=1), np.stack([x + right, y - down], axis=1)], axis=1
        )[wide]
        look: dict[str, Any] = {"colors": [(style.GREY, 0.4)], "linewidths": 0.5, "zorder": 1.5}
        ax.add_collection(LineCollection(list(ends), rasterized=len(x) > MAX_VECTORS, **look))


def _colorbar(ax: Axes, mappable: Any, label: str) -> None:
    figure = ax.get_figure()
    assert figure is not None
    bar = figure.colorbar(mappable, ax=ax, shrink=0.8, pad=0.02, aspect=25)
    bar.set_label(label, size=style.TINY)
    bar.ax.tick_params(labelsize=style.TINY, length=2.5, width=0.6)
    bar.outline.set_linewidth(0.6)
