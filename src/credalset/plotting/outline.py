"""The boundary of a set over three classes, as polygons.

A polytope is its vertices. A convex region is the ends of rays from its centre, whose lengths the region knows in
closed form or to rounding; rays are added where the boundary bends, so corners that the edge of the simplex cuts stay
sharp. Any other region is a level set of its score: traced on a grid, then every point is moved onto the level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np

from credalset._typing import FloatArray
from credalset.credal_set import CredalSet
from credalset.scores.density import DensitySet

if TYPE_CHECKING:
    from contourpy._contourpy import FillReturn_OuterOffset

#: where classes 0, 1 and 2 lie in the plane
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
# Directions along the edges, in order round the triangle: a region that is part of an edge is hit by these only.
TURNS = np.array([[1, -1, 0], [1, 0, -1], [0, 1, -1], [-1, 1, 0], [-1, 0, 1], [0, -1, 1]], dtype=float)
RAYS_PER_TURN = 12
ROUNDS = 14
TOLERANCE = 2e-5  # largest distance of the boundary from a chord, relative to the size of the set
LONGEST = 0.02  # chord, relative to the size of the set
CELLS = 400  # of the grid on which level sets are traced, each way


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
    if isinstance(one, DensitySet):  # neither convex nor connected in general
        theta = one.prediction[0, :, 1:]
        means = theta / theta.sum(axis=1, keepdims=True)
        focus = np.concatenate([means, one.center])
        return level_set(lambda points: score_of(one, points), float(one.threshold[0]), focus)
    try:
        return [_in_order(one.vertices(0))]
    except TypeError:  # a curved boundary
        return [_ends_of_rays(one)]


def score_of(one: CredalSet, points: FloatArray) -> FloatArray:
    """Score of distributions (M, 3) against the prediction of one set."""
    return one.score.evaluate(one.prediction.T[..., None], points.T[:, None, :])[0]


def area(loops: list[FloatArray]) -> float:
    """Area inside loops, as a fraction of the triangle."""
    total = 0.0
    for loop in loops:
        x, y = to_plane(loop).T
        total += float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2
    return float(abs(total) / (np.sqrt(3) / 4))


def _in_order(corners: FloatArray) -> FloatArray:
    around = to_plane(corners - corners.mean(axis=0))
    return corners[np.argsort(np.arctan2(around[:, 1], around[:, 0]))]


def _ends_of_rays(one: CredalSet) -> FloatArray:
    """Shoot rays, and more of them wherever the boundary leaves the chord between two ends."""
    directions = _directions(one.center[0])
    points = _ends(one, directions)
    size = float(np.ptp(to_plane(points), axis=0).max())
    for _ in range(ROUNDS):
        following = np.roll(points, -1, axis=0)
        between = 0.5 * (directions + np.roll(directions, -1, axis=0))
        middle = _ends(one, between)
        bends = _distance(points, following, middle) > TOLERANCE * size
        bends |= np.linalg.norm(to_plane(following - points), axis=1) > LONGEST * size  # could hide a bend
        if not bends.any():
            break
        after = np.flatnonzero(bends) + 1
        directions = np.insert(directions, after, between[bends], axis=0)
        points = np.insert(points, after, middle[bends], axis=0)
    return points


def _directions(center: FloatArray) -> FloatArray:
    """Directions all the way round, scaled to a largest entry of one, and those toward the corners."""
    share = np.arange(RAYS_PER_TURN)[:, None] / RAYS_PER_TURN
    following = np.roll(TURNS, -1, axis=0)
    even = np.concatenate([(1 - share) * a + share * b for a, b in zip(TURNS, following, strict=True)])
    corners = np.eye(3) - center
    size = np.abs(corners).max(axis=1, keepdims=True)
    every = np.concatenate([even, (corners / np.where(size > 0, size, 1.0))[size[:, 0] > 0]])
    x, y = to_plane(every).T
    return every[np.argsort(np.arctan2(y, x))]


def _ends(one: CredalSet, directions: FloatArray) -> FloatArray:
    length = one._ray_length(directions[None])[0]
    return np.maximum(one.center[0] + length[:, None] * directions, 0.0)


def _distance(start: FloatArray, end: FloatArray, points: FloatArray) -> FloatArray:
    """Distance of points from the segments between start and end, in the plane."""
    a, b, p = to_plane(start), to_plane(end), to_plane(points)
    along = b - a
    square = (along * along).sum(axis=1)
    share = ((p - a) * along).sum(axis=1) / np.where(square > 0, square, 1.0)
    return np.linalg.norm(p - a - share.clip(0.0, 1.0)[:, None] * along, axis=1)


def level_set(
    function: Callable[[FloatArray], FloatArray], level: float, focus: FloatArray | None = None
) -> list[FloatArray]:
    """Return the boundary of {λ : function(λ) ≤ level} as loops, for any function of distributions (M, 3) → (M,).

    Parts smaller than a cell of the grid are missed, unless they lie at a point of ``focus`` (C, 3), around which the
    grid is finer the closer.

    Examples
    --------
    >>> loops = level_set(lambda points: np.abs(points - 1 / 3).sum(axis=1), 0.2)
    >>> round(area(loops), 4)
    0.06
    """
    from contourpy import FillType, contour_generator

    near = np.empty((0, 3)) if focus is None else focus
    rest = near[:, 1] + near[:, 2]
    first = _nodes(near[:, 0])[:, None]
    second = _nodes(near[:, 1][rest > 0] / rest[rest > 0])[None, :]
    points = np.stack(np.broadcast_arrays(first, (1 - first) * second, (1 - first) * (1 - second)), axis=2)
    height = _squash(function(points.reshape(-1, 3)) - level).reshape(points.shape[:2])
    x, y = np.moveaxis(to_plane(points), 2, 0)
    generator = contour_generator(x, y, height, fill_type=FillType.OuterOffset)
    polygons, offsets = cast("FillReturn_OuterOffset", generator.filled(-2.0, 0.0))
    loops: list[FloatArray] = []
    for polygon, starts in zip(polygons, offsets, strict=True):
        loops += [from_plane(part[:-1]) for part in np.split(polygon, starts[1:-1])]
    return [_thin(_onto_level(function, level, loop, 3.0 / CELLS)) for loop in loops]


def _thin(loop: FloatArray) -> FloatArray:
    """Leave out points that lie on the chord between their neighbours; every other one at a time, so that both stay."""
    size = float(np.ptp(to_plane(loop), axis=0).max())
    for turn in range(ROUNDS):
        before, after = np.roll(loop, 1, axis=0), np.roll(loop, -1, axis=0)
        idle = _distance(before, after, loop) <= 0.25 * TOLERANCE * size
        idle &= np.linalg.norm(to_plane(after - before), axis=1) <= LONGEST * size
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


def _squash(above: FloatArray) -> FloatArray:
    """Bring heights to [−1, 1] with the sign kept, so that infinite scores do not spoil the interpolation."""
    scale = max(-float(above.min()), np.finfo(float).tiny)
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(above), np.sign(above), above / (scale + np.abs(above)))


def _onto_level(
    function: Callable[[FloatArray], FloatArray], level: float, loop: FloatArray, reach: float
) -> FloatArray:
    """Move points inside the simplex along the gradient until the function is at its level (Newton's method)."""
    points, step = to_plane(np.maximum(loop, 0.0)), 1e-6
    free = loop.min(axis=1) > 10 * step  # points on an edge stay there
    for _ in range(4):
        here = points[free]
        shifts = np.array([[step, 0.0], [-step, 0.0], [0.0, step], [0.0, -step], [0.0, 0.0]])
        right, left, up, down, value = (function(np.maximum(from_plane(here + shift), 0.0)) for shift in shifts)
        slope = np.stack([right - left, up - down], axis=1) / (2 * step)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            move = ((level - value) / (slope * slope).sum(axis=1))[:, None] * slope
        sane = np.isfinite(move).all(axis=1) & (np.linalg.norm(move, axis=1) < reach)
        points[free] = here + np.where(sane[:, None], move, 0.0)
    return np.maximum(from_plane(points), 0.0)
