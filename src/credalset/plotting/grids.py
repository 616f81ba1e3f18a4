"""Many small triangles: instances down, scores across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from credalset._guessing import explained
from credalset._typing import AnyArray, ArrayLike
from credalset._validation import check_choice
from credalset.plotting import style
from credalset.plotting.triangle import HEIGHT, dirichlet_contours, draw_sets, draw_simplex
from credalset.sets.credal_set import CredalSet
from credalset.sets.outline import to_plane

LABEL = 6.5  # points; class names in a cell of an inch


@explained
def ternary_grid(
    columns: Mapping[str, CredalSet],
    *,
    truth: ArrayLike | None = None,
    votes: ArrayLike | None = None,
    row_labels: Sequence[Any] | None = None,
    classes: Sequence[Any] | None = None,
    measure: str = "efficiency",
    density: bool = True,
    legend: bool = True,
    figsize: tuple[float, float] | None = None,
    figure: Figure | None = None,
) -> AnyArray:
    """Draw the sets that several scores give to the same instances, each with its size beneath, and return the axes.

    Parameters
    ----------
    columns : mapping of str to CredalSet
        Title of a column to its sets over three classes, one per row.
    truth, votes : array of shape (N, 3), optional
        Ground truth and noisy label of each instance, marked in every cell of its row.
    row_labels : sequence of N names, optional
        What to write to the left of each row.
    classes : sequence of three names, optional
        Names at the corners; long ones are written in the first cell only.
    measure : {"efficiency", "volume"}
        Size beneath each cell: the paper's grid fraction, or the exact volume.
    density, legend : bool
        Whether to draw the density contours of second-order predictions, and a legend beneath the grid.
    figsize, figure : (float, float) and matplotlib figure, optional
        Size in inches, by default 6.8 wide for five columns; an empty figure to draw into, by default a new one.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from credalset.scores import InnerProduct, TotalVariation
    >>> prediction = [[0.5, 0.3, 0.2], [0.8, 0.1, 0.1]]
    >>> columns = {"TV": TotalVariation().region(prediction, 0.2), "Inner": InnerProduct().region(prediction, 0.6)}
    >>> ternary_grid(columns, row_labels=["first", "second"], figure=Figure()).shape
    (2, 2)
    """
    n_rows, first = _check_columns(columns)
    check_choice(measure, "measure", ("efficiency", "volume"))
    labels = style.check_names(row_labels, "row_labels", n_rows, "rows")
    corners = style.class_names(classes, first)
    marks = style.given_marks(lambda points, name: style.check_rows(points, name, first), truth, votes)
    has_long_names = max(map(len, corners)) > 2
    axes = _new_grid(figure, figsize, n_rows, len(columns), legend, has_long_names)
    for j, (title, sets) in enumerate(columns.items()):
        sizes = sets.efficiency() if measure == "efficiency" else np.asarray(sets.volume())
        axes[0, j].set_title(title, fontsize=style.SMALL + 1, pad=LABEL + 6)
        for i, ax in enumerate(axes[:, j]):
            draw_simplex(ax, corners if not has_long_names or i == j == 0 else ["", "", ""], LABEL)
            _draw_cell(ax, sets[i], [(points[i], name, look) for points, name, look in marks], density)
            _write_size(ax, float(sizes[i]), has_long_names)
    _name_rows(axes[:, 0], labels or [])
    if legend:
        _legend(axes)
    return axes


def _check_columns(columns: Mapping[str, CredalSet]) -> tuple[int, CredalSet]:
    if not isinstance(columns, Mapping) or not columns:
        raise TypeError(
            f"columns must map titles to credal sets, at least one, but is a {type(columns).__name__} of "
            f"{len(columns) if hasattr(columns, '__len__') else 'unknown'} entries. "
            'Write {"TV": sets_of_tv, "KL": sets_of_kl}.'
        )
    for title, sets in columns.items():
        style.check_sets(sets, f"columns[{title!r}]", n_classes=3)
    lengths = {title: len(sets) for title, sets in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns must hold the same instances, but their numbers of sets differ: {lengths}.")
    first = next(iter(columns.values()))
    return len(first), first


def _new_grid(
    figure: Figure | None,
    figsize: tuple[float, float] | None,
    n_rows: int,
    n_columns: int,
    legend: bool,
    has_long_names: bool,
) -> AnyArray:
    cell = (style.DOUBLE - 0.2) / 5
    row = (cell - 0.24) * HEIGHT + (0.48 if has_long_names else 0.4)
    size = figsize or (cell * n_columns + 0.2, row * n_rows + 0.25 + (0.2 if n_columns > 3 else 0.35) * legend)
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=size)
    elif not isinstance(figure, Figure):
        raise TypeError(f"figure must be a matplotlib figure or None, but is a {type(figure).__name__}.")
    else:
        figure.set_size_inches(*size)
    if figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")
    axes: AnyArray = figure.subplots(n_rows, n_columns, squeeze=False)
    return axes


def _draw_cell(ax: Axes, one: CredalSet, marks: list[style.Mark], density: bool) -> None:
    draw_sets(ax, one)
    if density and one.score.order == "second":
        dirichlet_contours(one.prediction[0], levels=(0.1, 0.3, 0.5, 0.7, 0.9), ax=ax)
    for point, name, look in [(one.center[0], "prediction", style.PREDICTION), *marks]:
        ax.plot(*to_plane(point)[:, None], label=name, **style.mark(look, 0.8 * look["markersize"]))


def _write_size(ax: Axes, size: float, below_names: bool) -> None:
    """Beneath the triangle, between short class names or a line below long ones."""
    shift = (0.0, -4 - LABEL if below_names else -4)
    style.write(ax, f"{size:.2f}", (0.5, 0.0), shift, va="top", fontsize=style.TINY + 0.5)


def _name_rows(axes: AnyArray, labels: Sequence[str]) -> None:
    look: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "rotation": 90, "fontsize": style.SMALL}
    for ax, label in zip(axes, labels, strict=False):
        style.write(ax, label, (0.0, 0.45), (-4, 0), **look)


def _legend(axes: AnyArray) -> None:
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
