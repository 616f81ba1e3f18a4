"""Credal sets over three classes in the triangle of distributions, and Dirichlet densities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import PathPatch, Polygon
from matplotlib.path import Path

from credalset._typing import AnyArray, ArrayLike, FloatArray
from credalset._validation import check_choice
from credalset.plotting import style
from credalset.scores import RelativeLikelihood
from credalset.sets.credal_set import CredalSet
from credalset.sets.outline import CORNERS, area, grid_lines, outline, outlines, to_plane

SIMPLEX = "simplex"  # marks the triangle among the patches of axes, so that it is drawn once
FLAT = 1e-7  # share of the triangle below which a set is drawn as a point or a line
HEIGHT = float(CORNERS[2, 1])
MAX_PREDICTIONS = 200  # predictions of more sets are not marked
CELL_LABEL = 6.5  # font size of class names in a grid, in points
TOLERANCE = 2e-4  # of outlines, relative to the side of the triangle


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
    """Draw credal sets over three classes with their exact boundaries in a triangle.

    Parameters
    ----------
    sets : CredalSet
        One or several sets, which are drawn from the largest to the smallest. The number of empty
        sets is written in the upper left corner; with ``labels``, empty sets are listed in the
        legend instead.
    truth : array of shape (3,) or (n, 3), optional
        True distributions, marked by orange squares.
    votes : array of shape (3,) or (n, 3), optional
        Distributions or counts of votes, marked by blue triangles.
    prediction : bool
        Whether to mark the predicted distributions, or the modes of predicted Dirichlets, by black
        circles, and those of empty sets by crosses. They are left out if there are more than 200
        sets.
    classes : sequence of three names, optional
        Names at the corners (left, right, top); by default those of the sets, or 0, 1, 2.
    labels : sequence of str, optional
        One name per set. Each set then has its own colour and an entry in the legend, in the given
        order.
    title : str, optional
        Title above the triangle.
    legend : bool
        Whether to add a legend below the triangle.
    ax : matplotlib axes, optional
        Axes to draw on, which may already hold a triangle. By default a new figure is created.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

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
    corners = style.class_names(classes, sets)
    names = style.check_names(labels, "labels", len(sets))
    marks = style.given_marks(sets, truth, votes)
    if prediction and len(sets) <= MAX_PREDICTIONS:
        marks = [*_predictions(sets), *marks]
    is_new = ax is None
    ax = style.axes_or_new(ax, height=2.9)
    draw_simplex(ax, corners)
    entries = _draw_sets(ax, sets, names)
    for points, name, look in marks:
        ax.plot(*to_plane(points).T, label=name, **style.mark(look))
    if title is not None:
        ax.set_title(title, fontsize=style.SMALL, pad=style.SMALL + 6)
    if legend:
        style.add_legend(ax, is_new=is_new, below=True, first=entries)
    return ax


def _predictions(sets: CredalSet) -> list[style.Mark]:
    """Return the predictions to mark, those of empty sets as crosses unless all sets are empty."""
    empty = sets.is_empty()
    if empty.all():
        return [(np.unique(sets.center, axis=0), "prediction", style.PREDICTION)]
    there = np.unique(sets.center[~empty], axis=0)
    shown: list[style.Mark] = [(there, "prediction", style.PREDICTION)]
    gone = [
        row for row in np.unique(sets.center[empty], axis=0) if not (row == there).all(axis=1).any()
    ]
    return [*shown, (np.array(gone), "prediction, empty set", style.CROSSED)] if gone else shown


def draw_simplex(
    ax: Axes, corners: Sequence[str] = ("", "", ""), size: float = style.SMALL
) -> None:
    """Prepare axes: a triangle with a light grid and named corners, unless it is there."""
    if any(patch.get_gid() == SIMPLEX for patch in ax.patches):
        return
    for ends in to_plane(grid_lines()):
        ax.plot(*ends.T, color=style.LIGHT_GREY, linewidth=0.6, zorder=0)
    ax.add_patch(
        Polygon(
            CORNERS,
            closed=True,
            fill=False,
            edgecolor=style.GREY,
            linewidth=0.9,
            zorder=4,
            gid=SIMPLEX,
        )
    )
    # Offsets in points keep names at the same distance from the corners in figures of any size. The
    # lower names extend inward, so that they need no margin.
    for corner, name, shift, where in zip(
        CORNERS, corners, (-4, 4, 0), ("left", "right", "center"), strict=True
    ):
        rise, va = (3, "bottom") if where == "center" else (-3, "top")
        ha = where if len(name) > 2 else "center"
        style.write(ax, name, corner, (shift, rise), ha=ha, va=va, fontsize=size, color=style.GREY)
    # The limits adapt and not the size of the axes, which layout engines need to know.
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.03)
    ax.axis("off")


def _draw_sets(ax: Axes, sets: CredalSet, names: Sequence[str] | None = None) -> list[str]:
    """Draw sets from the largest on, write how many are empty; return legend entries in order."""
    shapes = [outline(sets)] if len(sets) == 1 else outlines(sets, TOLERANCE)
    sizes = [area(loops) for loops in shapes]
    alpha = 0.35 if len(shapes) == 1 else 0.25 if names is None else 0.15
    colours = style.colors(len(shapes))
    entries = ["credal set"] if names is None else list(names)
    for i in sorted(range(len(shapes)), key=lambda i: -sizes[i]):
        colour, edge = (
            (style.GREEN, style.DARK_GREEN) if names is None else (colours[i], colours[i])
        )
        label = "credal set" if names is None else names[i]
        if not shapes[i]:
            if names is not None:
                entries[i] = style.note_empty(ax, label, colour)
        elif sizes[i] < FLAT:  # a point or a part of an edge, which a filled shape would not show
            points = to_plane(np.concatenate(shapes[i]))
            ax.plot(
                *points.T,
                color=colour,
                linewidth=4.0,
                solid_capstyle="round",
                zorder=3,
                label=label,
                clip_on=False,
            )
        else:
            look: dict[str, Any] = {
                "facecolor": (colour, alpha),
                "edgecolor": edge,
                "linewidth": 1.1,
                "zorder": 3,
            }
            ax.add_patch(PathPatch(_as_path(shapes[i]), label=label, **look))
    n_empty = shapes.count([])
    if n_empty and (names is None or n_empty == len(shapes)):
        text = "empty" if n_empty == len(shapes) else f"{n_empty} of {len(shapes)} empty"
        italic: dict[str, Any] = {"fontsize": style.SMALL, "style": "italic", "color": style.GREY}
        ax.text(
            0.02, 0.98, text, ha="left", va="top", transform=ax.transAxes, **italic
        )  # outside the triangle
    return entries


def _as_path(loops: list[FloatArray]) -> Path:
    """Return closed loops as one matplotlib path in the plane."""
    closed = (Path(to_plane(np.concatenate([loop, loop[:1]])), closed=True) for loop in loops)
    return Path.make_compound_path(*closed)


def dirichlet_contours(
    concentration: ArrayLike,
    *,
    levels: Sequence[float] = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95),
    color: str = style.GREY,
    classes: Sequence[Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw contours of a Dirichlet density over three classes, at given fractions of its maximum.

    The contours are exact: they are the boundaries of relative-likelihood sets. A uniform density
    has no contours; the word "uniform" is written instead.

    Parameters
    ----------
    concentration : array of shape (3,)
        Parameters of the Dirichlet distribution, each at least 1.
    levels : sequence of float
        Fractions of the maximum of the density, strictly between 0 and 1.
    color : str
        Colour of the lines.
    classes : sequence of three names, optional
        Names at the corners. They are not used if the axes already hold a triangle.
    ax : matplotlib axes, optional
        Axes to draw on, such as those that `ternary` returns. By default a new figure is created.

    Returns
    -------
    matplotlib axes
        The axes with the plot.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = dirichlet_contours([4.0, 3.0, 2.0], levels=[0.5, 0.9], ax=Figure().subplots())
    >>> len(ax.patches)  # the triangle and two contours
    3
    """
    theta = np.asarray(concentration, dtype=np.float64)
    if theta.shape != (3,) or not (np.isfinite(theta).all() and (theta >= 1.0).all()):
        raise ValueError(
            f"concentration must hold three finite numbers of at least 1, but is {concentration!r}."
        )
    fractions = sorted(float(level) for level in levels)
    if not fractions or not all(0.0 < level < 1.0 for level in fractions):
        raise ValueError(
            f"levels must be fractions of the highest density between 0 and 1, but are {levels!r}."
        )
    corners = style.check_names(classes, "classes", 3) or ["0", "1", "2"]
    ax = style.axes_or_new(ax, height=3.0)
    draw_simplex(ax, corners)
    if (theta == 1.0).all():  # there is no contour
        italic: dict[str, Any] = {
            "fontsize": style.SMALL,
            "style": "italic",
            "color": color,
            "zorder": 3.5,
        }
        ax.annotate("uniform", (0.5, 0.1), ha="center", **italic)
        return ax
    for fraction in fractions:
        region = RelativeLikelihood().region(theta[None], -np.log(fraction))
        look: dict[str, Any] = {
            "edgecolor": (color, 0.35 + 0.65 * fraction),
            "linewidth": 0.8,
            "zorder": 3.5,
        }
        ax.add_patch(PathPatch(_as_path(outline(region)), fill=False, **look))
    return ax


def ternary_grid(
    columns: Mapping[str, CredalSet],
    *,
    truth: ArrayLike | None = None,
    votes: ArrayLike | None = None,
    row_labels: Sequence[Any] | None = None,
    classes: Sequence[Any] | None = None,
    measure: str = "efficiency",
    legend: bool = True,
    figure: Figure | None = None,
) -> AnyArray:
    """Draw sets of several scores for the same items as a grid of triangles.

    The size of each set is written below it.

    Second-order predictions are drawn with the contours of their density.

    Parameters
    ----------
    columns : mapping of str to CredalSet
        Title of each column, and its N sets over three classes.
    truth : array of shape (N, 3), optional
        True distribution of each item, marked in every cell of its row.
    votes : array of shape (N, 3), optional
        Distribution or counts of the votes of each item, marked in every cell of its row.
    row_labels : sequence of N names, optional
        Text to the left of each row.
    classes : sequence of three names, optional
        Names at the corners; long names are written in the first cell only.
    measure : {"efficiency", "volume"}
        Size to write below each cell: the share of grid points of the paper, or the volume.
    legend : bool
        Whether to add a legend below the grid.
    figure : matplotlib figure, optional
        Empty figure to draw into, which is resized. By default a new figure is created.

    Returns
    -------
    ndarray of Axes
        The axes of the cells, one row per item and one column per score.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from credalset.scores import InnerProduct, TotalVariation
    >>> prediction = [[0.5, 0.3, 0.2], [0.8, 0.1, 0.1]]
    >>> columns = {"TV": TotalVariation().region(prediction, 0.2),
    ...            "Inner": InnerProduct().region(prediction, 0.6)}
    >>> ternary_grid(columns, row_labels=["first", "second"], figure=Figure()).shape
    (2, 2)
    """
    first = _check_columns(columns)
    check_choice(measure, "measure", ("efficiency", "volume"))
    names = style.check_names(row_labels, "row_labels", len(first))
    corners = style.class_names(classes, first)
    marks = style.given_marks(first, truth, votes, per_set=True)
    is_long = max(map(len, corners)) > 2
    axes = _new_grid(figure, len(first), len(columns), legend, is_long)
    for j, (title, sets) in enumerate(columns.items()):
        sizes = sets.efficiency() if measure == "efficiency" else np.asarray(sets.volume())
        axes[0, j].set_title(title, fontsize=style.SMALL + 1, pad=CELL_LABEL + 6)
        for i, ax in enumerate(axes[:, j]):
            draw_simplex(ax, corners if not is_long or i == j == 0 else ["", "", ""], CELL_LABEL)
            _draw_cell(
                ax, sets[i], [(points[i % len(points)], name, look) for points, name, look in marks]
            )
            below = (
                0.0,
                -4 - CELL_LABEL if is_long else -4,
            )  # between short class names, or a line below long ones
            style.write(
                ax, f"{sizes[i]:.2f}", (0.5, 0.0), below, va="top", fontsize=style.TINY + 0.5
            )
    for ax, label in zip(axes[:, 0], names or (), strict=False):
        place: dict[str, Any] = {
            "xycoords": "axes fraction",
            "ha": "right",
            "rotation": 90,
            "fontsize": style.SMALL,
        }
        style.write(ax, label, (0.0, 0.45), (-4, 0), **place)
    if legend:
        _grid_legend(axes)
    return axes


def _check_columns(columns: Mapping[str, CredalSet]) -> CredalSet:
    if not isinstance(columns, Mapping) or not columns:
        raise TypeError(
            'columns must map titles to credal sets, such as {"TV": sets_of_tv, "KL": sets_of_kl}.'
        )
    for title, sets in columns.items():
        style.check_sets(sets, f"columns[{title!r}]", n_classes=3)
    lengths = {title: len(sets) for title, sets in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"columns must hold the same items, but their numbers of sets differ: {lengths}."
        )
    return next(iter(columns.values()))


def _new_grid(
    figure: Figure | None, n_rows: int, n_columns: int, legend: bool, is_long: bool
) -> AnyArray:
    cell = (style.DOUBLE - 0.2) / 5
    row = (cell - 0.24) * HEIGHT + (0.48 if is_long else 0.4)
    size = (cell * n_columns + 0.2, row * n_rows + 0.25 + (0.2 if n_columns > 3 else 0.35) * legend)
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=size)
    elif not isinstance(figure, Figure):
        raise TypeError(
            f"figure must be a matplotlib figure or None, but is a {type(figure).__name__}."
        )
    else:
        figure.set_size_inches(*size)
    if figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")
    axes: AnyArray = figure.subplots(n_rows, n_columns, squeeze=False)
    return axes


def _draw_cell(ax: Axes, one: CredalSet, marks: list[style.Mark]) -> None:
    _draw_sets(ax, one)
    if one.score.order == "second" and np.shape(one.prediction) == (1, 3):
        dirichlet_contours(one.prediction[0], levels=(0.1, 0.3, 0.5, 0.7, 0.9), ax=ax)
    for point, name, look in [(one.center[0], "prediction", style.PREDICTION), *marks]:
        ax.plot(*to_plane(point)[:, None], label=name, **style.mark(look, 0.8 * look["markersize"]))


def _grid_legend(axes: AnyArray) -> None:
    entries: dict[str, Any] = {}
    for ax in axes.flat:
        handles, labels = ax.get_legend_handles_labels()
        entries = dict(zip(labels, handles, strict=True)) | entries
    figure = axes[0, 0].get_figure()
    is_constrained = isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine)
    columns = min(len(entries), max(1, int(figure.get_figwidth())))  # an inch each
    look = {"ncols": columns, "frameon": False, "fontsize": style.TINY + 0.5, "handletextpad": 0.3}
    place = "outside lower center" if is_constrained else "lower center"
    figure.legend(entries.values(), entries.keys(), loc=place, **look)
