"""Uniform draws from regions: rejection for large regions, pairwise exchanges for others.

With two classes, a region is a segment. Beyond, a region that covers a few per cent of the simplex
is sampled by rejection, which is exact. In other regions each draw is the end of its own Markov
chain, which starts on a random ray from the centre and moves mass between two classes at a time.
Such a move leaves the other classes alone, so a class near zero does not shorten the moves of the
others, as it does along a direction in which all classes change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from credalset._blocks import row_blocks
from credalset._typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from credalset.sets.geometry import Geometry

PILOT_POINTS = 256
WIDE = 0.03  # share of the simplex from which rejection is faster than chains
PROPOSALS, MAX_ROUNDS = 16, 100  # of rejection, per draw
SWEEPS = 16  # moves of a chain, per class
TRIES = 6  # proposals per move
ELEMENTS = 1 << 21  # numbers held at a time


def sample(geometry: Geometry, n: int, generator: np.random.Generator) -> FloatArray:
    """Draw n members of each region, (N, n, K)."""
    k = geometry.n_classes
    # a ball of radius zero is its centre.
    result = np.repeat(geometry.center[:, None, :], n, axis=1)
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
        result[rest] = _by_exchange(geometry[rest], n, generator)
    return result


def _inside(geometry: Geometry, points: FloatArray) -> BoolArray:
    return np.asarray(geometry.divergence(points) <= geometry.radius[:, None])


def accept(
    result: FloatArray, propose: Callable[[IntArray], tuple[FloatArray, BoolArray]], rows: IntArray
) -> IntArray:
    """Fill rows of a result (N, n, K) with accepted proposals, and return the rows that are full.

    ``propose`` draws points for incomplete rows, (R, M, K), and returns which of them are accepted,
    (R, M).
    """
    n = result.shape[1]
    filled = np.zeros(len(result), dtype=np.int64)
    for _ in range(MAX_ROUNDS):
        open_rows = rows[filled[rows] < n]
        if len(open_rows) == 0:
            break
        for row, points, good in zip(open_rows, *propose(open_rows), strict=True):
            found = points[good][: n - filled[row]]
            result[row, filled[row] : filled[row] + len(found)] = found
            filled[row] += len(found)
    return rows[filled[rows] == n]


def _by_exchange(geometry: Geometry, n: int, generator: np.random.Generator) -> FloatArray:
    """Run a chain per draw in which every class in turn exchanges mass with another one.

    The other one is the next class, any class, or one chosen by its probability under the centre,
    equally often. Large classes thus meet each other although there may be many small ones, and a
    move between neighbours changes a single cumulative sum, the coordinate that separates in a
    Wasserstein ball.
    """
    k = geometry.n_classes
    box = geometry.envelope()
    state = _start(geometry, n, box[1] - box[0], generator)
    for i in generator.permuted(np.tile(np.arange(k), (SWEEPS, 1)), axis=1).ravel():
        share = geometry.center + 1.0 / k
        share[:, (i + 1) % k] += 1.0
        share[:, i] = 0.0
        ends = np.cumsum(share, axis=1)[:, None, :]
        picks = generator.random(state.shape[:2]) * ends[..., -1]
        state = _exchange(
            geometry, state, i, (picks[..., None] >= ends[..., :-1]).sum(axis=-1), box, generator
        )
    return state


def _start(
    geometry: Geometry, n: int, width: FloatArray, generator: np.random.Generator
) -> FloatArray:
    """Return points on rays toward random points, to which classes contribute by width.

    The points are those of the simplex.
    """
    toward = width[:, None, :] * generator.standard_exponential(
        (len(geometry), n, geometry.n_classes)
    )
    size = toward.sum(axis=-1, keepdims=True)
    center = geometry.center[:, None, :]
    toward = toward / np.maximum(size, np.finfo(float).tiny) - np.where(size > 0, center, 0.0)
    length = geometry._ray_length(toward) * generator.random(size.shape[:2]) ** (
        1.0 / (geometry.n_classes - 1)
    )
    points = np.maximum(center + length[..., None] * toward, 0.0)
    # Rounding may move a point outside.
    return np.where(_inside(geometry, points)[..., None], points, center)


def _exchange(
    geometry: Geometry,
    state: FloatArray,
    i: int,
    j: IntArray,
    box: tuple[FloatArray, FloatArray],
    generator: np.random.Generator,
) -> FloatArray:
    """Move mass between class i and classes j (N, n), by slice sampling (Neal 2003).

    Proposals are uniform on the part of the line that lies in the box around the region. One
    outside the region cuts the interval, on its side of the state. A state without a proposal
    inside stays. Forth and back are equally probable, hence the uniform distribution is preserved,
    whatever the number of tries.
    """
    at = (*np.ogrid[: state.shape[0], : state.shape[1]], j)
    lower, upper = (side[:, None, :] for side in box)
    now = state[..., i]
    total = state[..., i] + state[at]
    low = np.minimum(np.maximum(lower[..., i], total - upper[at[0], 0, j]), now)
    high = np.maximum(np.minimum(upper[..., i], total - lower[at[0], 0, j]), now)
    moved = state.copy()
    good = np.zeros(now.shape, dtype=bool)
    for _ in range(TRIES):
        moved[..., i] = np.where(
            good, moved[..., i], low + (high - low) * generator.random(now.shape)
        )
        moved[at] = np.maximum(total - moved[..., i], 0.0)
        good = _inside(geometry, moved)
        if good.all():
            break
        below = moved[..., i] < now
        low = np.where(below, moved[..., i], low)
        high = np.where(below, high, moved[..., i])
    return np.where(good[..., None], moved, state)
