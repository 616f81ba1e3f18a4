"""Texts that point at places of a picture, beside one another rather than over each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from credalset._typing import FloatArray
from credalset.plotting import style
from credalset.plotting.fitting import break_names, points_of, size_of

GAP = 2.0  # points between texts
# Where a text may go from its point, the favourites first: right and up, then round the clock, then further away.
TURNS = np.radians([45, 20, 70, -30, 110, 140, 180, -60, -90, -120, -150])
ALONG = np.linspace(0.35, 0.8, 6)  # of the line from a point to its text, looked at for collisions
DISTANCES = (16.0, 26.0, 38.0, 52.0, 70.0)


def write_notes(ax: Axes, places: FloatArray, texts: Sequence[str], obstacles: FloatArray, cloud: FloatArray) -> None:
    """Circle places (n, 2) in axes with equal units and write a text beside each, joined to it by a line.

    ``obstacles`` (m, 4) are rows of x, y in the units of the axes, then half a width and half a height in points;
    points of the ``cloud`` (k, 2) are avoided where that costs little.
    """
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    scale = float(np.min(points_of(ax) / (right - left, top - bottom)))
    corner = np.array([left, bottom])
    frame = scale * (np.array([right, top]) - corner)
    points = scale * (places - corner)
    taken = [np.concatenate([scale * (row[:2] - corner), row[2:]]) for row in obstacles]
    taken += [np.append(point, [5.0, 5.0]) for point in points]
    specks = np.pad(scale * (cloud - corner), ((0, 0), (0, 2)))
    short = break_names(texts, 0.55 * float(frame[0]), lines=4)
    for place, point, text in zip(places, points, short, strict=True):
        half = 0.5 * size_of(ax, text)
        shifts = _shifts(half)
        boxes = np.column_stack([point + shifts, np.tile(half + GAP, (len(shifts), 1))])
        costs = _costs(boxes, np.array(taken), frame) + np.minimum(6 * _covered(boxes, specks), 30)
        leaders = point + ALONG[:, None, None] * shifts  # (steps, candidates, 2)
        dots = np.pad(leaders, ((0, 0), (0, 0), (0, 2)))
        costs += 100 * sum(_covered(dots[step], np.array(taken)) for step in range(len(ALONG)))
        best = int(np.argmin(costs))
        taken += [boxes[best], *dots[:, best]]
        _write(ax, text, place, shifts[best])


def _shifts(half: FloatArray) -> FloatArray:
    """Middles of a text relative to its point, so that its nearest edge is at each distance."""
    way = np.stack([np.cos(TURNS), np.sin(TURNS)], axis=1)
    return np.concatenate([distance * way + np.round(way) * half for distance in DISTANCES])


def _covered(boxes: FloatArray, things: FloatArray) -> FloatArray:
    """How many things each box covers; both are rows of a middle, half a width and half a height."""
    apart = np.abs(boxes[:, None, :2] - things[None, :, :2]) - boxes[:, None, 2:] - things[None, :, 2:]
    return (apart < 0).all(axis=2).sum(axis=1).astype(np.float64)


def _costs(boxes: FloatArray, taken: FloatArray, frame: FloatArray) -> FloatArray:
    """Rank of each box (n, 4) among its like, and much more for each thing it covers or if it leaves the frame."""
    leaves = ((boxes[:, :2] < boxes[:, 2:]) | (boxes[:, :2] > frame - boxes[:, 2:])).any(axis=1)
    return np.arange(len(boxes)) + 1e3 * (_covered(boxes, taken) + leaves)


def _write(ax: Axes, text: str, place: FloatArray, shift: FloatArray) -> None:
    ax.plot(*place, marker="o", markersize=6, markerfacecolor="none", markeredgecolor="black", zorder=4)
    line = {"arrowstyle": "-", "linewidth": 0.6, "shrinkB": 3.5, "shrinkA": 0}
    rim = [withStroke(linewidth=1.5, foreground="white")]
    style.write(ax, text, place, (shift[0], shift[1]), arrowprops=line, zorder=5, path_effects=rim)
