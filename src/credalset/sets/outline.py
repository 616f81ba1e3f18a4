"""The boundary of a set over three classes, as polygons as precise as they are asked for.

Convex sets are asked for their furthest members in directions that are added where the boundary bends, so a polytope is
its vertices, and corners that the edge of the simplex cuts stay sharp. Sets that need be neither convex nor connected
are traced on a grid, every point then bisected onto the boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.sets.membership import contains_pairs
from credalset.sets.roots import bisect

if TYPE_CHECKING:
    from contourpy._contourpy import FillReturn_OuterOffset

    from credalset.sets.credal_set import CredalSet

#: where classes 0, 1 and 2 lie in the plane
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
ROUNDS = 14
TOLERANCE = 2e-5  # largest distance of the boundary from a chord, relative to the size of the set
LONGEST = 0.02  # chord of a traced boundary, relative to the size of the set
CELLS = 400  # of the grid on which level sets are traced, each way
BISECTIONS = 40
START = 12  # directions in which `outlines` begins


def to_plane(points: FloatArray) -> FloatArray:
    """Map distributions (…, 3) to the plane, (…, 2).

    Examples
    --------
    >>> to_plane(np.array([0.5, 0.5, 0.0])).tolist()
    [0.5, 0.0]
    """
    return points @ CORNERS


def from_plane(points: FloatArray) -> FloatArray:
    """Map points (…, 2) of the plane back to distributions (…, 3)."""
    third = points[..., 1] / CORNERS[2, 1]
    second = points[..., 0] - 0.5 * third
    return np.stack([1.0 - second - third, second, third], axis=-1)


def outline(one: CredalSet) -> list[FloatArray]:
    """Return the boundary of a batch of one set as closed loops of distributions (M, 3).

    No loop for an empty set; holes run the other way round than what they are holes of.

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
    if is_convex(one):
        lower, upper = one.envelope()
        return outlines(one, TOLERANCE * float((upper - lower).max()))[0]
    return trace(lambda points: contains_pairs(one, points[None])[0], focus(one))


def outlines(sets: CredalSet, tolerance: float = 1e-3) -> list[list[FloatArray]]:
    """Return the boundaries of many sets, each a list of loops as in `outline`, within a tolerance of the exact ones.

    Convex sets are asked for their furthest members in more and more directions, all sets at once. Every corner of a
    polygon lies on the boundary, and between two corners the boundary stays within the triangle of the chord and the
    two support lines; a chord whose triangle is higher than the tolerance (in sides of the triangle) gets a corner in
    its own direction (the sandwich algorithm: Rote 1992, Computing 48). Sets that need not be convex are traced one by
    one.

    Examples
    --------
    >>> from credalset.scores import KullbackLeibler
    >>> sets = KullbackLeibler().region([[0.4, 0.3, 0.3], [0.8, 0.1, 0.1]], 0.1)
    >>> [round(area(loops), 3) for loops in outlines(sets)], sets.volume().round(3)
    ([0.16, 0.074], array([0.16 , 0.074]))
    """
    if not is_convex(sets):
        return [outline(one) for one in sets]
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
        row, angle = np.concatenate([row, chord[0]]), np.concatenate([angle, chord[1]])
        point = np.concatenate([point, _furthest(sets, *chord)])
        order = np.lexsort((angle, row))
        row, angle, point = row[order], angle[order], point[order]
    for i, loop in zip(there, np.split(point, np.flatnonzero(np.diff(row)) + 1), strict=True):
        apart = np.abs(loop - np.roll(loop, 1, axis=0)).max(axis=1) > 1e-12
        result[i] = [loop[apart] if apart.any() else loop[:1]]
    return result


def is_convex(sets: CredalSet) -> bool:
    """Tell whether sets know their own furthest members, so that their boundary need not be traced."""
    return not sets.geometry.is_outer


def _furthest(sets: CredalSet, row: IntArray, angle: FloatArray) -> FloatArray:
    """Members of sets that lie furthest in directions of the plane, (M, 3)."""
    direction = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return sets[row].support(direction @ CORNERS.T)[1]


def _open_chords(row: IntArray, angle: FloatArray, point: FloatArray, tolerance: float) -> tuple[IntArray, FloatArray]:
    """Sets and outward directions of the chords that the boundary may leave by more than the tolerance."""
    start = np.flatnonzero(np.diff(row, prepend=-1))
    following = np.arange(1, len(row) + 1)
    following[np.append(start[1:], len(row)) - 1] = start  # the last corner of a set is followed by its first
    along = to_plane(point[following] - point)
    length = np.linalg.norm(along, axis=1)
    outward = np.arctan2(-along[:, 0], along[:, 1])
    turn = np.mod(angle[following] - angle, 2 * np.pi)
    before = np.mod(outward - angle + np.pi, 2 * np.pi) - np.pi
    before = np.clip(before, 0.0, turn)
    height = length * np.sin(before) * np.sin(turn - before) / np.maximum(np.sin(turn), 1e-300)
    wide = height > tolerance
    return row[wide], np.mod(angle + before, 2 * np.pi)[wide]


def focus(one: CredalSet) -> FloatArray:
    """Points around which the boundary of one set may be small, (C, 3): the centre, and the means of a mixture."""
    theta = getattr(one.prediction, "concentrations", None)
    if theta is None:
        return one.center
    return np.concatenate([theta[0] / theta[0].sum(axis=1, keepdims=True), one.center])


def area(loops: list[FloatArray]) -> float:
    """Area inside loops, as a fraction of the triangle."""
    total = 0.0
    for loop in loops:
        x, y = to_plane(loop).T
        total += float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2
    return float(abs(total) / (np.sqrt(3) / 4))


def _distance(start: FloatArray, end: FloatArray, points: FloatArray) -> FloatArray:
    """Distance of points from the segments between start and end, in the plane."""
    a, b, p = to_plane(start), to_plane(end), to_plane(points)
    along = b - a
    square = (along * along).sum(axis=1)
    share = ((p - a) * along).sum(axis=1) / np.where(square > 0, square, 1.0)
    return np.linalg.norm(p - a - share.clip(0.0, 1.0)[:, None] * along, axis=1)


def trace(is_member: Callable[[FloatArray], BoolArray], focus: FloatArray) -> list[FloatArray]:
    """Return the boundary of the set of points (M, 3) that are members, as loops.

    The grid tells between which neighbours the boundary passes, bisection where. Parts smaller than a cell of the grid
    are missed, unless they lie at a point of ``focus`` (C, 3), around which the grid is finer the closer.

    Examples
    --------
    >>> loops = trace(lambda points: np.abs(points - 1 / 3).sum(axis=1) <= 0.2, np.full((1, 3), 1 / 3))
    >>> round(area(loops), 4)
    0.06
    """
    from contourpy import FillType, contour_generator

    rest = focus[:, 1] + focus[:, 2]
    first = _nodes(focus[:, 0])[:, None]
    second = _nodes(focus[:, 1][rest > 0] / rest[rest > 0])[None, :]
    grid = np.stack(np.broadcast_arrays(first, (1 - first) * second, (1 - first) * (1 - second)), axis=2)
    member = is_member(grid.reshape(-1, 3)).reshape(grid.shape[:2])
    # In units of the grid, a point of the contour lies on a node or halfway between two, one in and one out.
    generator = contour_generator(z=np.where(member, -1.0, 1.0), fill_type=FillType.OuterOffset)
    polygons, offsets = cast("FillReturn_OuterOffset", generator.filled(-2.0, 0.0))
    loops: list[FloatArray] = []
    for polygon, starts in zip(polygons, offsets, strict=True):
        for part in np.split(polygon[:, ::-1], starts[1:-1]):
            ends = [tuple(rounded(part[:-1]).astype(np.int64).T) for rounded in (np.floor, np.ceil)]
            swap = member[ends[1]][:, None]
            low, high = (grid[end] for end in ends)
            loops.append(_thin(_last_members(is_member, np.where(swap, high, low), np.where(swap, low, high))))
    return loops


def _last_members(is_member: Callable[[FloatArray], BoolArray], member: FloatArray, other: FloatArray) -> FloatArray:
    """Return the last member on the way from members to others, (M, 3); members that are others stay."""

    def at(t: FloatArray) -> FloatArray:
        return member + t[:, None] * (other - member)

    ends = np.zeros(len(member)), np.ones(len(member))
    return at(bisect(lambda t: ~is_member(at(t)), *ends, BISECTIONS)[0])


def _thin(loop: FloatArray) -> FloatArray:
    """Leave out points that lie on the chord between their neighbours; every other one at a time, so that both stay."""
    size = float(np.ptp(to_plane(loop), axis=0).max())
    for turn in range(ROUNDS):
        before, after = np.roll(loop, 1, axis=0), np.roll(loop, -1, axis=0)
        idle = _distance(before, after, loop) <= 0.5 * TOLERANCE * size
        idle &= np.linalg.norm(to_plane(after - before), axis=1) <= 4 * LONGEST * size
        idle[turn % 2 :: 2] = False
        if len(loop) - idle.sum() >= 3:
            loop = loop[~idle]
    return loop


def _nodes(focus: FloatArray) -> FloatArray:
    """Lines of the grid: closer together toward both ends, where densities rise steeply, and around the focus."""
    base = np.sin(0.5 * np.pi * np.linspace(0.0, 1.0, CELLS + 1)) ** 2
    offsets = np.geomspace(1e-4, 0.1, 20)
    around = (focus[:, None] + np.concatenate([-offsets, [0.0], offsets])).ravel()
    return np.unique(np.concatenate([base, around[(around > 0.0) & (around < 1.0)]]))


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
