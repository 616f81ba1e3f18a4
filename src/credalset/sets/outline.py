"""Boundaries of sets over three classes, as polygons within a given tolerance.

The corners are the members furthest in given directions. Directions are added where the boundary
bends, so the polygon of a polytope has its vertices, and corners at the edge of the simplex stay
sharp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from credalset._typing import FloatArray, IntArray

if TYPE_CHECKING:
    from credalset.sets.credal_set import CredalSet

#: positions of classes 0, 1 and 2 in the plane
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
ROUNDS = 14
TOLERANCE = 2e-5  # largest distance of the boundary from a chord, relative to the size of the set
START = 12  # directions at the start


def to_plane(points: FloatArray) -> FloatArray:
    """Map distributions (…, 3) to the plane, (…, 2).

    Examples
    --------
    >>> to_plane(np.array([0.5, 0.5, 0.0])).tolist()
    [0.5, 0.0]
    """
    return points @ CORNERS


def outline(one: CredalSet) -> list[FloatArray]:
    """Return the boundary of a batch of one set as closed loops of distributions (M, 3).

    An empty set has no loop, every other set has one, as sets are convex.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> loops = outline(TotalVariation().region([[0.4, 0.3, 0.3]], 0.1))
    >>> len(loops), loops[0].shape, round(area(loops), 6)
    (1, (6, 3), 0.06)
    """
    if one.is_empty()[0]:
        return []
    if np.isposinf(one.radius[0]):
        return [np.eye(3)]
    lower, upper = one.envelope()
    return outlines(one, TOLERANCE * float((upper - lower).max()))[0]


def outlines(sets: CredalSet, tolerance: float = 1e-3) -> list[list[FloatArray]]:
    """Return the boundaries of many sets, each a list of loops as in `outline`, within a tolerance.

    Every corner of a polygon is on the boundary. Between two corners, the boundary is inside the
    triangle of the chord and the two support lines. A chord whose triangle is higher than the
    tolerance (in units of the sides of the simplex) gets a further corner (the sandwich algorithm:
    Rote 1992, Computing 48).

    Examples
    --------
    >>> from credalset.scores import KullbackLeibler
    >>> sets = KullbackLeibler().region([[0.4, 0.3, 0.3], [0.8, 0.1, 0.1]], 0.1)
    >>> [round(area(loops), 3) for loops in outlines(sets)], sets.volume().round(3)
    ([0.16, 0.074], array([0.16 , 0.074]))
    """
    there = np.flatnonzero(~sets.is_empty())
    result: list[list[FloatArray]] = [[] for _ in range(len(sets))]
    if len(there) == 0:
        return result
    angle = np.tile(np.arange(START) * (2 * np.pi / START), len(there))
    row = np.repeat(there, START)
    point = _furthest(sets, row, angle)
    for _ in range(ROUNDS):
        chord = _open_chords(row, angle, point, tolerance)
        if len(chord[0]) == 0:
            break
        row = np.concatenate([row, chord[0]])
        angle = np.concatenate([angle, chord[1]])
        point = np.concatenate([point, _furthest(sets, *chord)])
        order = np.lexsort((angle, row))
        row = row[order]
        angle = angle[order]
        point = point[order]
    for i, loop in zip(there, np.split(point, np.flatnonzero(np.diff(row)) + 1), strict=True):
        apart = np.abs(loop - np.roll(loop, 1, axis=0)).max(axis=1) > 1e-12
        result[i] = [loop[apart] if apart.any() else loop[:1]]
    return result


def _furthest(sets: CredalSet, row: IntArray, angle: FloatArray) -> FloatArray:
    """Return the members furthest in directions of the plane, (M, 3)."""
    direction = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return sets[row]._support(direction @ CORNERS.T)[1]


def _open_chords(
    row: IntArray, angle: FloatArray, point: FloatArray, tolerance: float
) -> tuple[IntArray, FloatArray]:
    """Return sets and outward directions of chords further from the boundary than tolerated."""
    start = np.flatnonzero(np.diff(row, prepend=-1))
    following = np.arange(1, len(row) + 1)
    following[np.append(start[1:], len(row)) - 1] = (
        start  # the last corner of a set is followed by its first
    )
    along = to_plane(point[following] - point)
    length = np.linalg.norm(along, axis=1)
    outward = np.arctan2(-along[:, 0], along[:, 1])
    turn = np.mod(angle[following] - angle, 2 * np.pi)
    before = np.mod(outward - angle + np.pi, 2 * np.pi) - np.pi
    before = np.clip(before, 0.0, turn)
    height = length * np.sin(before) * np.sin(turn - before) / np.maximum(np.sin(turn), 1e-300)
    wide = height > tolerance
    return row[wide], np.mod(angle + before, 2 * np.pi)[wide]


def area(loops: list[FloatArray]) -> float:
    """Return the area inside loops, as a fraction of the simplex."""
    total = 0.0
    for loop in loops:
        x, y = to_plane(loop).T
        total += float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2
    return float(abs(total) / (np.sqrt(3) / 4))


def grid_lines(levels: Sequence[float] = (0.25, 0.5, 0.75)) -> FloatArray:
    """Return the ends of the lines on which one class has a given probability, (3 · levels, 2, 3).

    Examples
    --------
    >>> grid_lines([0.25])[0].tolist()
    [[0.25, 0.75, 0.0], [0.25, 0.0, 0.75]]
    """
    lines = []
    for level in levels:
        for k in range(3):
            ends = np.zeros((2, 3))
            ends[:, k] = level
            ends[0, (k + 1) % 3] = ends[1, (k + 2) % 3] = 1 - level
            lines.append(ends)
    return np.array(lines)
