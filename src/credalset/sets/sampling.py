"""Uniform draws from regions: rejection for large regions, weighted rays and hit-and-run for others.

With two classes, a region is a segment. Beyond, a region that covers a few per cent of the simplex is sampled by
rejection, which is exact. Other regions use the rays of the volume estimate (`credalset.sets.volume`): a ray chosen by
its weight and cut at U^{1/(K−1)} of its length ends in a uniform point. Where weights are uneven, hit-and-run steps
follow, which preserve the uniform distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from credalset._blocks import row_blocks
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.sets.roots import bisect
from credalset.sets.volume import edge_distance, weighted_rays

if TYPE_CHECKING:
    from credalset.sets.geometry import Geometry

PILOT_POINTS = 256
WIDE = 0.03  # share of the simplex from which rejection is faster than rays
PROPOSALS, MAX_ROUNDS = 16, 100  # of rejection, per draw
RAYS_PER_DRAW, MIN_RAYS = 8, 256
EFFECTIVE = 64.0  # effective number of rays below which hit-and-run follows; at least one per draw
STEPS = 4  # of the chain, per class
ELEMENTS = 1 << 21  # numbers held at a time


def sample(geometry: Geometry, n: int, generator: np.random.Generator) -> FloatArray:
    """Draw n members of each region, (N, n, K)."""
    k = geometry.n_classes
    result = np.repeat(geometry.center[:, None, :], n, axis=1)  # a ball of radius zero is its centre
    proper = np.flatnonzero(geometry.radius > 0)
    for block in row_blocks(len(proper), max(PROPOSALS * n, PILOT_POINTS) * k, ELEMENTS):
        rows = proper[block]
        result[rows] = _sample(geometry[rows], n, generator)
    return result


def _sample(geometry: Geometry, n: int, generator: np.random.Generator) -> FloatArray:
    k = geometry.n_classes
    if k == 2:
        lower, upper = geometry.envelope()
        first = lower[:, :1] + (upper - lower)[:, :1] * generator.random((len(geometry), n))
        return np.stack([first, 1.0 - first], axis=-1)
    result = np.empty((len(geometry), n, k))

    def propose(rows: IntArray) -> tuple[FloatArray, BoolArray]:
        points = generator.standard_exponential((len(rows), max(PROPOSALS * n, PILOT_POINTS), k))
        points /= points.sum(axis=-1, keepdims=True)
        return points, _inside(geometry[rows], points)

    wide = propose(np.arange(len(geometry)))[1].mean(axis=1) >= WIDE
    done = accept(result, propose, np.flatnonzero(wide))
    rest = np.setdiff1d(np.arange(len(geometry)), done)
    if len(rest):
        result[rest] = _by_rays(geometry[rest], n, generator)
    return result


def _inside(geometry: Geometry, points: FloatArray) -> BoolArray:
    return np.asarray(geometry.divergence(points) <= geometry.radius[:, None])


def accept(result: FloatArray, propose: Callable[[IntArray], tuple[FloatArray, BoolArray]], rows: IntArray) -> IntArray:
    """Fill rows of a result (N, n, K) with accepted proposals, and return the rows that are full.

    ``propose`` draws points for incomplete rows, (R, M, K), and returns which of them are accepted, (R, M).
    """
    n, filled = result.shape[1], np.zeros(len(result), dtype=np.int64)
    for _ in range(MAX_ROUNDS):
        open_rows = rows[filled[rows] < n]
        if len(open_rows) == 0:
            break
        for row, points, good in zip(open_rows, *propose(open_rows), strict=True):
            found = points[good][: n - filled[row]]
            result[row, filled[row] : filled[row] + len(found)] = found
            filled[row] += len(found)
    return rows[filled[rows] == n]


def choose_by_weight(weights: FloatArray, n: int, generator: np.random.Generator) -> IntArray:
    """Choose n columns of each row of weights (N, M), systematically: a share w is chosen ⌊nw⌋ or ⌈nw⌉ times."""
    total = np.cumsum(weights, axis=1)
    total /= total[:, -1:]
    ticks = np.floor(n * total + generator.random((len(weights), 1)))
    copies = np.diff(ticks, axis=1, prepend=0.0).astype(np.int64)
    return np.repeat(np.tile(np.arange(weights.shape[1]), len(weights)), copies.ravel()).reshape(-1, n)


def _by_rays(geometry: Geometry, n: int, generator: np.random.Generator) -> FloatArray:
    """Choose rays by weight and cut them; continue by hit-and-run where weights are uneven or all zero."""
    k = geometry.n_classes
    rays = weighted_rays(geometry, max(RAYS_PER_DRAW * n, MIN_RAYS), generator)
    top = rays.log_weights.max(axis=1, keepdims=True)
    flat = ~np.isfinite(top[:, 0])
    weights = np.where(flat[:, None], 1.0, np.exp(rays.log_weights - np.where(flat[:, None], 0.0, top)))
    effective = np.where(flat, 0.0, weights.sum(axis=1) ** 2 / (weights**2).sum(axis=1))
    chosen = generator.permuted(choose_by_weight(weights, n, generator), axis=1)  # copies lie side by side
    length = np.take_along_axis(rays.reach, chosen, axis=1) * generator.random(chosen.shape) ** (1.0 / (k - 1))
    step = length[..., None] * np.take_along_axis(rays.directions, chosen[..., None], axis=1)
    # A point that rounding moves outside is moved toward the centre, which is a member.
    points = np.repeat(geometry.center[:, None, :], n, axis=1)
    for share in (0.9, 0.999, 1.0 - 1e-9, 1.0):
        moved = np.maximum(geometry.center[:, None, :] + share * step, 0.0)
        moved /= moved.sum(axis=-1, keepdims=True)
        points = np.where(_inside(geometry, moved)[..., None], moved, points)
    uneven = np.flatnonzero(effective < max(n, EFFECTIVE))
    if len(uneven):
        points[uneven] = _hit_and_run(geometry[uneven], points[uneven], generator)
    return points


def _hit_and_run(geometry: Geometry, state: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Move every point to a uniform point of a random chord, several times per class.

    Directions are Gaussian with the widths of the envelope as scales, so classes that the region excludes stay at zero.
    """
    lower, upper = geometry.envelope()
    scale = (upper - lower)[:, None, :]
    share = scale / np.maximum(scale.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
    for _ in range(STEPS * geometry.n_classes):
        noise = scale * generator.standard_normal(state.shape)
        direction = noise - share * noise.sum(axis=-1, keepdims=True)
        ahead, behind = _chord(geometry, state, direction), _chord(geometry, state, -direction)
        t = generator.random(state.shape[:2]) * (ahead + behind) - behind
        moved = np.maximum(state + t[..., None] * direction, 0.0)
        moved /= moved.sum(axis=-1, keepdims=True)
        state = np.where(_inside(geometry, moved)[..., None], moved, state)
    return state


def _chord(geometry: Geometry, state: FloatArray, direction: FloatArray) -> FloatArray:
    """Return the distance from each state to the edge of its region along a direction, (N, n)."""

    def outside(t: FloatArray) -> BoolArray:
        points = np.maximum(state + t[..., None] * direction, 0.0)
        return np.asarray(geometry.divergence(points) > geometry.radius[:, None])

    edge = edge_distance(state, direction)
    return bisect(outside, np.where(outside(edge), 0.0, edge), edge, steps=26)[0]
