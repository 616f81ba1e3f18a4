"""Draw the pictures of the region pages: ``python docs/figures.py`` writes ``docs/regions/img/*.svg``.

Outlines are exact: the vertices of polytopes, and the ends of rays from the centre for curved regions. Before a set is
drawn, the area inside its outline is compared with `CredalSet.volume`. Matplotlib (extra ``docs``) is imported only
when something is drawn.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import credalset as cs
from credalset.credal_set import CredalSet

IMAGES = Path(__file__).parent / "regions" / "img"

# Okabe and Ito's palette, told apart with any colour vision; markers differ in shape as well.
GREEN, DARK_GREEN, ORANGE, BLUE = "#009E73", "#00523C", "#D55E00", "#0072B2"
GREY, LIGHT_GREY = "#4D4D4D", "#DADADA"

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])  # of classes 1, 2 and 3


@dataclass(frozen=True)
class Panel:
    """One triangle: a title, and sets that are drawn over each other from the largest to the smallest."""

    title: str
    sets: CredalSet


def first_order(title: str, score: str | cs.Score, prediction: list[float], thresholds: list[float]) -> Panel:
    """The same prediction at several thresholds."""
    rows = np.tile(prediction, (len(thresholds), 1))
    return Panel(title, cs.get_score(score).region(rows, thresholds))


def dirichlets(title: str, mode: list[float], weights: list[float], threshold: float) -> Panel:
    """Dirichlet predictions with one mode and several weights, at one threshold of the relative likelihood."""
    return Panel(title, cs.get_score("so").region(1.0 + np.outer(weights, mode), threshold))


def figures() -> dict[str, list[Panel]]:
    """Every picture of the region pages, by file name."""
    inside, edge = [0.5, 0.3, 0.2], [0.75, 0.2, 0.05]
    spread = cs.scores.Wasserstein(positions=(0, 1, 5))
    return {
        "total-variation": [
            first_order("r = 0.05, 0.1, 0.2", "tv", inside, [0.05, 0.1, 0.2]),
            first_order("near an edge, same radii", "tv", edge, [0.05, 0.1, 0.2]),
            first_order("r = 0.35 holds the centroid", "tv", inside, [0.35]),
        ],
        "wasserstein": [
            first_order("positions 0, 1, 2;  r = 0.1, 0.2, 0.4", "ws", inside, [0.1, 0.2, 0.4]),
            first_order("near an edge, same radii", "ws", edge, [0.1, 0.2, 0.4]),
            first_order("positions 0, 1, 5;  r = 0.2, 0.5, 1", spread, inside, [0.2, 0.5, 1.0]),
        ],
        "kullback-leibler": [
            first_order("t = 0.015, 0.06, 0.3 bits", "kl", inside, [0.015, 0.06, 0.3]),
            first_order("near an edge, same thresholds", "kl", edge, [0.015, 0.06, 0.3]),
            first_order("one class ruled out, t = 0.08", "kl", [0.6, 0.4, 0.0], [0.08]),
        ],
        "half-space": [
            first_order("t = 0.55, 0.61, 0.68", "inner", inside, [0.55, 0.61, 0.68]),
            first_order("confident, same thresholds", "inner", edge, [0.55, 0.61, 0.68]),
            first_order("ambiguous, same: one is empty", "inner", [0.41, 0.35, 0.24], [0.55, 0.61, 0.68]),
        ],
        "reverse-kullback-leibler": [
            dirichlets("W = 10, 50, 200;  t = 0.9", inside, [10.0, 50.0, 200.0], 0.9),
            dirichlets("near an edge, same weights", edge, [10.0, 50.0, 200.0], 0.9),
            dirichlets("a concentration of one, W = 10, 50", [0.6, 0.4, 0.0], [10.0, 50.0], 0.9),
        ],
        "hellinger": [
            first_order("t = 0.003, 0.02, 0.08", "hellinger", inside, [0.003, 0.02, 0.08]),
            first_order("near an edge, same thresholds", "hellinger", edge, [0.003, 0.02, 0.08]),
            first_order("one class ruled out, t = 0.02, 0.08", "hellinger", [0.6, 0.4, 0.0], [0.02, 0.08]),
        ],
    }


def directions(n_each: int = 50) -> np.ndarray:
    """Directions that sum to zero, all the way round; those along the edges have an exact zero."""
    turns = np.array([[1, -1, 0], [1, 0, -1], [0, 1, -1], [-1, 1, 0], [-1, 0, 1], [0, -1, 1]], dtype=float)
    share = np.arange(n_each)[:, None] / n_each
    return np.concatenate([(1 - share) * a + share * b for a, b in zip(turns, np.roll(turns, -1, axis=0), strict=True)])


def outline(one: CredalSet) -> np.ndarray:
    """Boundary of a single set over three classes, points (M, 3) in order."""
    try:
        corners = one.vertices(0)
    except TypeError:  # a curved boundary
        rays = directions()
        length = one._ray_length(rays[None])[0]
        return one.center[0] + length[:, None] * rays
    around = corners @ CORNERS - corners.mean(axis=0) @ CORNERS
    return corners[np.argsort(np.arctan2(around[:, 1], around[:, 0]))]


def area(points: np.ndarray) -> float:
    """Area inside a polygon as a fraction of the triangle."""
    x, y = (points @ CORNERS).T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2 / (np.sqrt(3) / 4))


def draw_triangle(axes: Any) -> None:
    """The simplex with a light grid and the numbers of its classes."""
    for level in (0.25, 0.5, 0.75):
        for k in range(3):
            ends = np.zeros((2, 3))
            ends[:, k] = level
            ends[0, (k + 1) % 3] = ends[1, (k + 2) % 3] = 1 - level
            axes.plot(*(ends @ CORNERS).T, color=LIGHT_GREY, linewidth=0.7, zorder=0)
    axes.fill(*CORNERS.T, facecolor="none", edgecolor=GREY, linewidth=1.2, zorder=1)
    for k, (x, y) in enumerate(CORNERS + np.array([(-0.045, -0.035), (0.045, -0.035), (0, 0.05)])):
        axes.text(x, y, str(k + 1), ha="center", va="center", fontsize=10, color=GREY)


def draw_set(axes: Any, one: CredalSet) -> None:
    """Fill one set and mark where its entropy is smallest and largest."""
    points = outline(one)
    size, error = one.volume(return_error=True)
    assert abs(area(points) - size[0]) < 2e-4 + 5 * error[0], "outline and volume disagree"
    x, y = (points @ CORNERS).T
    axes.fill(x, y, facecolor=GREEN, alpha=0.30, linewidth=0, zorder=2)
    is_flat = area(points) < 1e-9
    colour, width = (GREEN, 4.0) if is_flat else (DARK_GREEN, 1.3)
    axes.plot(np.append(x, x[0]), np.append(y, y[0]), color=colour, linewidth=width, zorder=3)
    bounds = one.entropy_bounds(return_distributions=True)
    assert bounds.lower_distribution is not None
    assert bounds.upper_distribution is not None
    for point, marker, colour in (
        (bounds.lower_distribution[0], "v", ORANGE),
        (bounds.upper_distribution[0], "s", BLUE),
    ):
        where = point @ CORNERS
        axes.plot(*where, marker, color=colour, markersize=6.5, markeredgecolor="white", markeredgewidth=0.8, zorder=5)


def draw(panels: list[Panel], path: Path) -> None:
    """One picture: a row of triangles with a common key."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure = Figure(figsize=(8.4, 3.15), facecolor="white")
    for axes, panel in zip(figure.subplots(1, len(panels)), panels, strict=True):
        draw_triangle(axes)
        there = panel.sets[~panel.sets.is_empty()]
        for i in np.argsort(-there.volume()):
            draw_set(axes, there[int(i)])
        axes.plot(*(panel.sets.center[0] @ CORNERS), "o", color="black", markersize=5, zorder=6)
        axes.set_title(panel.title, fontsize=9.5, pad=5)
        axes.set_xlim(-0.1, 1.1)
        axes.set_ylim(-0.09, 0.97)
        axes.set_aspect("equal")
        axes.axis("off")
    key = [
        Patch(facecolor=GREEN, alpha=0.45, edgecolor=DARK_GREEN, label="members"),
        Line2D([], [], marker="o", linestyle="none", color="black", markersize=5, label="centre"),
        Line2D([], [], marker="v", linestyle="none", color=ORANGE, markersize=6.5, label="smallest entropy"),
        Line2D([], [], marker="s", linestyle="none", color=BLUE, markersize=6.5, label="largest entropy"),
    ]
    figure.legend(handles=key, loc="lower center", ncols=4, frameon=False, fontsize=9.5, handletextpad=0.5)
    figure.subplots_adjust(left=0.01, right=0.99, top=0.92, bottom=0.1, wspace=0.04)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)


def main() -> None:
    """Draw all pictures, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="which pictures; all by default")
    parser.add_argument("--out", type=Path, default=IMAGES)
    parser.add_argument("--format", default="svg", choices=["svg", "png"])
    options = parser.parse_args()
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "credalset"  # the same file every time
    for name, panels in figures().items():
        if not options.names or name in options.names:
            draw(panels, options.out / f"{name}.{options.format}")


if __name__ == "__main__":
    main()
