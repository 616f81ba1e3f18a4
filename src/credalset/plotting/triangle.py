"""Credal sets over three classes in the triangle of distributions, and Dirichlet densities over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch, Polygon
from matplotlib.path import Path

from credalset._guessing import explained
from credalset._typing import ArrayLike, FloatArray
from credalset.plotting import style
from credalset.plotting.fitting import break_names, points_of
from credalset.scores import NegativeLogDensity, RelativeLikelihood
from credalset.sets.credal_set import CredalSet
from credalset.sets.outline import CORNERS, area, density_level_sets, outline, to_plane

SIMPLEX = "simplex"  # marks the triangle among the patches of axes, so that it is drawn once
FLAT = 1e-7  # fraction of the triangle below which a set is drawn as the point or the line it is
HEIGHT = float(CORNERS[2, 1])
MARGIN = 0.03  # around the triangle
GAP = 4.0  # points between the triangle and a legend
MANY = 200  # sets beyond which their predictions are not marked
LEVELS = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)


@explained
def ternary(
    sets: CredalSet,
    *,
    truth: ArrayLike | None = None,
    votes: ArrayLike | None = None,
    prediction: bool = True,
    classes: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    title: str | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw credal sets over three classes with their exact boundaries.

    Parameters
    ----------
    sets : CredalSet
        One set, or several that are drawn over each other from the largest to the smallest. Empty ones are counted, or
        listed in the legend if they have labels.
    truth, votes : array of shape (3,) or (n, 3), optional
        Distributions or counts to mark: the ground truth (orange squares) and noisy labels (blue triangles).
    prediction : bool
        Whether to mark the predicted distributions, or the modes of predicted Dirichlets (black circles; crosses for
        empty sets). Beyond 200 sets they would hide the picture and are left out.
    classes : sequence of three names, optional
        Names at the corners (left, right, top); those the sets know, or 0, 1, 2.
    labels : sequence of str, optional
        One name per set: each gets a colour of its own and an entry in the legend, in the order given.
    title : str, optional
        Title above the triangle.
    legend : bool
        Whether to add a legend.
    ax : matplotlib axes, optional
        Where to draw; axes that hold a triangle already are drawn over.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from credalset.scores import KullbackLeibler
    >>> sets = KullbackLeibler().region([[0.5, 0.3, 0.2]], threshold=0.1)
    >>> ax = ternary(sets, truth=[0.4, 0.4, 0.2], ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['credal set', 'prediction', 'truth']
    """
    style.check_sets(sets, n_classes=3)
    corners, names = style.class_names(classes, sets), style.check_names(labels, "labels", len(sets), "sets")
    marks = style.given_marks(lambda points, name: style.check_points(points, name, sets), truth, votes)
    if prediction and len(sets) <= MANY:
        marks = [*_predictions(sets), *marks]
    is_new = ax is None
    ax = style.axes_or_new(ax, height=3.0)
    draw_simplex(ax, corners)
    entries = draw_sets(ax, sets, names)
    for points, name, look in marks:
        ax.plot(*to_plane(points).T, label=name, **style.mark(look))
    if title is not None:
        ax.set_title(title, fontsize=style.SMALL, pad=style.SMALL + 6)
    if legend:
        legend_beside(ax, entries, is_new=is_new)
    return ax


def _predictions(sets: CredalSet) -> list[style.Mark]:
    """Centres to mark: those of empty sets are crossed out, unless there are no others."""
    empty = sets.is_empty()
    if empty.all():
        return [(np.unique(sets.center, axis=0), "prediction", style.PREDICTION)]
    there = np.unique(sets.center[~empty], axis=0)
    shown = [(there, "prediction", style.PREDICTION)]
    gone = [row for row in np.unique(sets.center[empty], axis=0) if not (row == there).all(axis=1).any()]
    if gone:
        shown.append((np.array(gone), "prediction, empty set", style.CROSSED))
    return shown


def legend_beside(ax: Axes, first: Sequence[str], *, is_new: bool) -> None:
    """Add a legend in the upper right corner; where it would cover the triangle, that makes room."""
    handles, labels = style.legend_entries(ax, first)
    figure = ax.get_figure(root=True)
    if not labels or figure is None:
        return
    width, height = points_of(ax)
    labels = break_names(labels, 0.6 * width)
    place: dict[str, Any] = {"loc": "upper right", "ncols": int(np.ceil(10.5 * len(labels) / height))}
    wide, high = points_of(style.draw_legend(ax, handles, labels, bbox_to_anchor=(1.04, 1.04), **place))
    span = 1 + 2 * MARGIN
    scale = min(width, height / HEIGHT) / span  # points per side of the triangle, which is in the middle of the axes
    climb = max(1.04 * height - high - 0.5 * (height - scale * HEIGHT), 0.0)  # of the legend's lower edge
    if 1.04 * width - wide > 0.5 * (width + scale - climb / HEIGHT):
        return
    style.draw_legend(ax, handles, labels, bbox_to_anchor=(1.0, 1.0), **place)
    # With the triangle in the lower left corner, its right side passes the legend's lower left corner at this scale.
    free = max(height - high, 0.0) / (2 * HEIGHT) - wide - GAP
    steep = 1 + MARGIN + MARGIN / (2 * HEIGHT)
    if is_new:
        figure.set_figwidth(figure.get_figwidth() + max(scale * steep - free - width, 0.0) / 72.0)
        width = points_of(ax)[0]
    scale = float(np.clip((width + free) / steep, 0.3 * scale, scale))
    ax.update_datalim([(max(width / scale - 2 * MARGIN, 1.0), max(height / scale - 2 * MARGIN, HEIGHT))])
    ax.autoscale_view()


def draw_simplex(ax: Axes, corners: Sequence[str] = ("", "", ""), size: float = style.SMALL) -> None:
    """Prepare axes: the triangle with a light grid and the names of its corners, unless it is there already."""
    if any(patch.get_gid() == SIMPLEX for patch in ax.patches):
        return
    for level in (0.25, 0.5, 0.75):
        for k in range(3):
            ends = np.zeros((2, 3))
            ends[:, k] = level
            ends[0, (k + 1) % 3] = ends[1, (k + 2) % 3] = 1 - level
            ax.plot(*to_plane(ends).T, color=style.LIGHT_GREY, linewidth=0.6, zorder=0)
    ax.add_patch(Polygon(CORNERS, closed=True, fill=False, edgecolor=style.GREY, linewidth=0.9, zorder=4, gid=SIMPLEX))
    # In points rather than data units: names keep their distance from the corners in pictures of any size. The lower
    # ones grow inward, which leaves no margin to either side.
    for corner, name, shift, where in zip(CORNERS, corners, (-4, 4, 0), ("left", "right", "center"), strict=True):
        rise, va = (3, "bottom") if where == "center" else (-3, "top")
        ha = where if len(name) > 2 else "center"
        style.write(ax, name, corner, (shift, rise), ha=ha, va=va, fontsize=size, color=style.GREY)
    # Axes that keep their size, so that layout engines can foresee it: the limits give way instead.
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(MARGIN)
    ax.axis("off")


def draw_sets(ax: Axes, sets: CredalSet, names: Sequence[str] | None = None) -> list[str]:
    """Fill sets over three classes, the largest first, and say how many are empty; entries of the legend, in order."""
    shapes = [outline(one) for one in sets]
    sizes = [area(loops) for loops in shapes]
    alpha = 0.35 if len(shapes) == 1 else 0.25 if names is None else 0.15
    colours = style.colors(len(shapes))
    entries = ["credal set"] if names is None else list(names)
    for i in sorted(range(len(shapes)), key=lambda i: -sizes[i]):
        colour = style.GREEN if names is None else colours[i]
        edge = style.DARK_GREEN if names is None else colour
        label = "credal set" if names is None else names[i]
        if shapes[i]:
            _draw_loops(ax, shapes[i], is_flat=sizes[i] < FLAT, color=colour, edge=edge, alpha=alpha, label=label)
        elif names is not None:
            entries[i] = style.note_empty(ax, label, colour)
    n_empty = shapes.count([])
    if n_empty and (names is None or n_empty == len(shapes)):
        text = "empty" if n_empty == len(shapes) else f"{n_empty} of {len(shapes)} empty"
        look: dict[str, Any] = {"fontsize": style.SMALL, "style": "italic", "color": style.GREY}
        ax.text(0.02, 0.98, text, ha="left", va="top", transform=ax.transAxes, **look)  # where no mark can be
    return entries


def _draw_loops(
    ax: Axes, loops: list[FloatArray], *, is_flat: bool, color: Any, edge: Any, alpha: float, label: str
) -> None:
    if is_flat:  # a point or a part of an edge, which a filled shape would not show
        flat = to_plane(np.concatenate(loops))
        ax.plot(*flat.T, color=color, linewidth=4.0, solid_capstyle="round", zorder=3, label=label, clip_on=False)
        return
    patch = PathPatch(as_path(loops), facecolor=(color, alpha), edgecolor=edge, linewidth=1.1, zorder=3, label=label)
    ax.add_patch(patch)


def as_path(loops: list[FloatArray]) -> Path:
    """One closed matplotlib path in the plane, holes left out."""
    closed = (Path(to_plane(np.concatenate([loop, loop[:1]])), closed=True) for loop in loops)
    return Path.make_compound_path(*closed)


@explained
def dirichlet_contours(
    concentration: ArrayLike,
    *,
    levels: Sequence[float] = LEVELS,
    color: str = style.GREY,
    classes: Sequence[Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw where the density of a Dirichlet, or of a mixture, is a given fraction of its highest value.

    Contours of one Dirichlet with concentrations of at least one are exact: they bound sets of relative likelihood.
    A uniform density has none and says so. Other densities are traced, and read a little off the edges, where they may
    be infinite: see `NegativeLogDensity`.

    Parameters
    ----------
    concentration : array of shape (3,) or (C, 4)
        Parameters of one Dirichlet, or one row per component of a mixture: its weight, then its parameters.
    levels : sequence of float
        Fractions of the highest density, strictly between 0 and 1.
    color : str
        Colour of the lines.
    classes : sequence of three names, optional
        Names at the corners, unless the axes hold a triangle already.
    ax : matplotlib axes, optional
        Where to draw, for example the axes that `ternary` returned.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = dirichlet_contours([4.0, 3.0, 2.0], levels=[0.5, 0.9], ax=Figure().subplots())
    >>> len(ax.patches)  # the triangle and two contours
    3
    """
    components = _check_components(concentration)
    fractions = _check_levels(levels)
    corners = style.check_names(classes, "classes", 3, "classes") or ["0", "1", "2"]
    ax = style.axes_or_new(ax, height=3.0)
    draw_simplex(ax, corners)
    if (components[:, 1:] == 1.0).all():  # no contour at all, which would look like a mistake
        middle = (0.5, 0.1)  # below the mode, which may be marked
        ax.annotate("uniform", middle, ha="center", fontsize=style.SMALL, style="italic", color=color, zorder=3.5)
    for fraction, loops in zip(fractions, _contours(components, fractions), strict=True):
        if loops and area(loops) < 1.0 - 1e-12:  # the outline of the whole triangle says nothing
            strength = 0.35 + 0.65 * fraction
            ax.add_patch(PathPatch(as_path(loops), fill=False, edgecolor=(color, strength), linewidth=0.8, zorder=3.5))
    return ax


def _check_components(concentration: ArrayLike) -> FloatArray:
    """Rows of weight and three concentrations."""
    array = np.asarray(concentration, dtype=np.float64)
    if array.shape == (3,):
        array = np.append(1.0, array)[None]
    if array.ndim != 2 or array.shape[1] != 4 or len(array) == 0:
        raise ValueError(
            f"concentration must have shape (3,), or (C, 4) for a mixture with the weights first, but has shape "
            f"{array.shape}. Only three classes fit into a triangle."
        )
    if not (np.isfinite(array).all() and (array[:, 1:] > 0).all() and (array[:, 0] >= 0).all() and array[:, 0].any()):
        raise ValueError("concentration must hold finite positive numbers; weights of a mixture may be 0, but not all.")
    return array[array[:, 0] > 0]


def _check_levels(levels: Sequence[float]) -> list[float]:
    fractions = sorted(float(level) for level in np.atleast_1d(np.asarray(levels, dtype=np.float64)))
    if not fractions or not all(0.0 < level < 1.0 for level in fractions):
        raise ValueError(f"levels must be fractions of the highest density between 0 and 1, but are {levels!r}.")
    return fractions


def _contours(components: FloatArray, fractions: Sequence[float]) -> list[list[FloatArray]]:
    """Outlines of where the density is at least each fraction of its highest value."""
    theta = components[:, 1:]
    if len(components) == 1 and (theta >= 1.0).all():
        score = RelativeLikelihood()
        return [outline(score.region(theta, 1.0 - fraction)) for fraction in fractions]
    weights = components[:, :1] / components[:, :1].sum()
    mixture = np.concatenate([weights, theta], axis=1)[None]
    one = NegativeLogDensity().region(mixture, np.inf)
    lowest = float(one.score.evaluate_rows(one.prediction, one.center)[0])
    return density_level_sets(one, [lowest - float(np.log(fraction)) for fraction in fractions])
