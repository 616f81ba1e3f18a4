"""Uniform draws from regions: independent where rejection or weighted rays do it, a chain where they do not.

Two and three classes: exact, by inversion and by rejection from a box. Beyond, per set,

* a set that fills a few per cent of the simplex is met by rejection from the simplex, which is exact;
* any other is met by rays from its centre (`Region._weighted_rays`, the rays of its volume estimate). A ray's weight
  is its unbiased estimate of the volume, so a ray resampled by weight, cut at U^{1/(K−1)} of its length in the set,
  ends in a uniform point. The pool has eight rays for each draw, and where the weights hardly differ no ray is taken
  twice: the draws are independent, as if each ray had been accepted or rejected;
* a set whose weights are so uneven that the pool is worth less than one draw for each one asked for goes on from
  there by hit-and-run, which leaves the uniform law as it is: from every point along a random direction to a uniform
  point of the chord. Directions are differences of two points of the pool, which know the shape of the set, or
  scaled by the widths of its envelope. Points that started on the same ray part ways, but not completely.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from credalset._parallel import row_blocks
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.sets.rays import Rays, edge_distance
from credalset.sets.roots import false_position

if TYPE_CHECKING:
    from credalset.sets.region import Region

PILOT_POINTS = 512
WIDE = 0.03  # share of the simplex from which rejection is quicker than rays
PROPOSALS = 16  # per draw and round of rejection
MAX_REJECTIONS = 200
RAYS_PER_DRAW = 8
MIN_RAYS = 256
MIN_POOL = 64  # resampled points that directions are made of
ENOUGH = 1.0  # effective rays per draw below which the chain goes on
MIN_EFFECTIVE = 64.0  # and below which even few draws would show the unevenness of the pool
STEPS_FROM_RAYS, STEPS_FROM_THE_MIDDLE = 2, 10  # per class
MAX_CHAINS = 64
MAX_CHAIN_ELEMENTS = 1 << 25  # numbers that the chains of one set may move in all
DRAWS_PER_CHUNK = 2048
ELEMENTS_PER_BLOCK = 1 << 21


def sample_members(sets: Region, n: int, generator: np.random.Generator) -> FloatArray:
    """Draw n members of each set, (N, n, K)."""
    result = np.empty((len(sets), n, sets.n_classes))
    work = max(PROPOSALS * min(n, DRAWS_PER_CHUNK), PILOT_POINTS)
    for rows in row_blocks(len(sets), work * sets.n_classes, ELEMENTS_PER_BLOCK):
        for draws in row_blocks(n, 1, DRAWS_PER_CHUNK):
            result[rows, draws] = _sample_block(sets[rows], draws.stop - draws.start, generator)
    return result


def _sample_block(sets: Region, n: int, generator: np.random.Generator) -> FloatArray:
    own = sets._sample(n, generator)
    if own is not None:
        return own
    # A ball of radius zero is its centre.
    result = np.repeat(sets.center[:, None, :], n, axis=1)
    proper = np.flatnonzero(sets.radius > 0)
    if len(proper):
        result[proper] = _sample_proper(sets[proper], n, generator)
    return result


def _sample_proper(sets: Region, n: int, generator: np.random.Generator) -> FloatArray:
    if sets.n_classes == 2:
        return _sample_segment(sets, n, generator)
    if sets.n_classes == 3:
        accepted = _sample_triangle(sets, n, generator)
        return _sample_by_rays(sets, n, generator) if accepted is None else accepted
    pilot = _uniform_points((len(sets), PILOT_POINTS, sets.n_classes), generator)
    wide = _inside(sets, pilot).mean(axis=1) >= WIDE
    accepted = _sample_by_rejection(sets[wide], n, generator) if wide.any() else None
    if accepted is None:
        return _sample_by_rays(sets, n, generator)
    result = np.empty((len(sets), n, sets.n_classes))
    result[wide] = accepted
    if not wide.all():
        result[~wide] = _sample_by_rays(sets[~wide], n, generator)
    return result


def sample_on_faces(sets: Any, allowed: BoolArray, n: int, generator: np.random.Generator) -> FloatArray:
    """Draw from sets that rule classes out altogether: each lives on the face of the classes it allows, (N, K).

    For regions whose geometry over fewer classes is that of the centre without the others.
    """
    result = np.zeros((len(sets), n, sets.n_classes))
    faces, which = np.unique(allowed, axis=0, return_inverse=True)
    for i, face in enumerate(faces):
        rows, classes = np.flatnonzero(which.reshape(-1) == i), np.flatnonzero(face)
        part = sets[rows]
        center = part.center[:, classes]
        part = dataclasses.replace(part, prediction=center, center=center)
        drawn = np.ones((len(rows), n, 1)) if len(classes) == 1 else sample_members(part, n, generator)
        result[np.ix_(rows, np.arange(n), classes)] = drawn
    return result


def _sample_segment(sets: Region, n: int, generator: np.random.Generator) -> FloatArray:
    lower, upper = sets._envelope()
    first = lower[:, :1] + (upper - lower)[:, :1] * generator.random((len(sets), n))
    return np.stack([first, 1.0 - first], axis=-1)


def _sample_triangle(sets: Region, n: int, generator: np.random.Generator) -> FloatArray | None:
    """Accept or reject points of the tightest box over two of the three classes; None if that takes too long."""
    lower, upper = sets._envelope()
    width = upper - lower
    third = np.argmax(width, axis=1)  # the class left free: the other two have the smallest box
    order = np.stack([(third + 1) % 3, (third + 2) % 3, third], axis=1)
    corner, size = np.take_along_axis(lower, order, 1), np.take_along_axis(width, order, 1)
    back = np.argsort(order, axis=1)

    def propose(rows: IntArray) -> FloatArray:
        two = corner[rows, None, :2] + size[rows, None, :2] * generator.random((len(rows), 4 * n, 2))
        points = np.concatenate([two, 1.0 - two.sum(axis=-1, keepdims=True)], axis=-1)
        return np.take_along_axis(points, back[rows, None, :], axis=2)

    return _members_among(sets, n, propose)


def _sample_by_rejection(sets: Region, n: int, generator: np.random.Generator) -> FloatArray | None:
    """Accept or reject uniform points of the simplex."""

    def propose(rows: IntArray) -> FloatArray:
        return _uniform_points((len(rows), PROPOSALS * n, sets.n_classes), generator)

    return _members_among(sets, n, propose)


def _members_among(sets: Region, n: int, propose: Callable[[IntArray], FloatArray]) -> FloatArray | None:
    """Take n members of each set among the proposals; None if that takes too long."""

    def judge(rows: IntArray) -> tuple[FloatArray, BoolArray]:
        points = propose(rows)
        return points, (points >= 0).all(axis=-1) & _inside(sets[rows], np.maximum(points, 0.0))

    result = np.empty((len(sets), n, sets.n_classes))
    return result if (accept(result, judge, MAX_REJECTIONS) == n).all() else None


def accept(result: FloatArray, propose: Callable[[IntArray], tuple[FloatArray, BoolArray]], rounds: int) -> IntArray:
    """Fill the rows of a result (N, n, K) with accepted proposals, and return how many each has got.

    ``propose`` draws points for the rows still open, (R, M, K), and tells which of them are accepted, (R, M).
    """
    n, filled = result.shape[1], np.zeros(len(result), dtype=np.int64)
    for _ in range(rounds):
        open_rows = np.flatnonzero(filled < n)
        if len(open_rows) == 0:
            break
        for row, points, good in zip(open_rows, *propose(open_rows), strict=True):
            found = points[good][: n - filled[row]]
            result[row, filled[row] : filled[row] + len(found)] = found
            filled[row] += len(found)
    return filled


def accept_or_repeat(
    result: FloatArray,
    propose: Callable[[IntArray], tuple[FloatArray, BoolArray]],
    rounds: int,
    generator: np.random.Generator,
) -> FloatArray:
    """Do the same, and fill rows that have too few with some of theirs again; a row without any stays as it is."""
    filled, n = accept(result, propose, rounds), result.shape[1]
    for row in np.flatnonzero((filled > 0) & (filled < n)):
        result[row, filled[row] :] = result[row, generator.integers(filled[row], size=n - filled[row])]
    return result


def _uniform_points(shape: tuple[int, int, int], generator: np.random.Generator) -> FloatArray:
    exponentials = generator.standard_exponential(shape)
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def _inside(sets: Region, points: FloatArray) -> BoolArray:
    return np.asarray(sets._divergence(points) <= sets.radius[:, None])


def _sample_by_rays(sets: Region, n: int, generator: np.random.Generator) -> FloatArray:
    """Resample rays by weight; go on by hit-and-run where their weights are too uneven, or all zero."""
    rays = sets._weighted_rays(max(RAYS_PER_DRAW * n, MIN_RAYS), generator)
    top = rays.log_weights.max(axis=1, keepdims=True)
    has_rays = np.isfinite(top[:, 0])
    result = np.empty((len(sets), n, sets.n_classes))
    if not has_rays.all():
        result[~has_rays] = _from_the_middle(sets[~has_rays], n, generator)
    if not has_rays.any():
        return result
    weights = np.exp(rays.log_weights[has_rays] - top[has_rays])
    effective = weights.sum(axis=1) ** 2 / (weights**2).sum(axis=1)
    part = sets[has_rays]
    pool = _cut_rays(part, Rays(*(array[has_rays] for array in rays)), weights, max(n, MIN_POOL), generator)
    uneven = effective < max(ENOUGH * n, MIN_EFFECTIVE)
    points = pool[:, :n]
    if uneven.any():
        points[uneven] = _hit_and_run(part[uneven], points[uneven], pool[uneven], n, STEPS_FROM_RAYS, generator)
    result[has_rays] = points
    return result


def choose_by_weight(weights: FloatArray, n: int, generator: np.random.Generator) -> IntArray:
    """Choose n columns of each row of weights (N, M), systematically: one of share w is taken ⌊nw⌋ or ⌈nw⌉ times."""
    total = np.cumsum(weights, axis=1)
    total /= total[:, -1:]
    ticks = np.floor(n * total + generator.random((len(weights), 1)))
    copies = np.diff(ticks, axis=1, prepend=0.0).astype(np.int64)
    return np.repeat(np.tile(np.arange(weights.shape[1]), len(weights)), copies.ravel()).reshape(-1, n)


def _cut_rays(sets: Region, rays: Rays, weights: FloatArray, n: int, generator: np.random.Generator) -> FloatArray:
    """Choose n rays per set by weight, and cut each at U^{1/(K−1)} of its length, (N, n, K)."""
    chosen = choose_by_weight(weights, n, generator)
    length = np.take_along_axis(rays.reach, chosen, axis=1)
    length = length * generator.random(length.shape) ** (1.0 / (sets.n_classes - 1))
    step = length[..., None] * np.take_along_axis(rays.directions, chosen[..., None], axis=1)
    # A point closer to the edge than rounding can tell is drawn in a little, and the centre is a member for certain.
    settled = np.repeat(sets.center[:, None, :], n, axis=1)
    unsettled = np.ones(chosen.shape, dtype=bool)
    for share in (1.0, 1.0 - 1e-9, 0.999, 0.9):
        points = np.maximum(sets.center[:, None, :] + share * step, 0.0)
        points /= points.sum(axis=-1, keepdims=True)
        inside = unsettled & _inside(sets, points)
        settled[inside] = points[inside]
        unsettled &= ~inside
        if not unsettled.any():
            break
    return settled


def _from_the_middle(sets: Region, n: int, generator: np.random.Generator) -> FloatArray:
    """Run chains from a point inside: for sets so thin, or flat, that no ray finds any room."""
    start = np.repeat(middle(sets)[:, None, :], min(n, MAX_CHAINS), axis=1)
    return _hit_and_run(sets, start, start, n, STEPS_FROM_THE_MIDDLE, generator)


def _hit_and_run(
    sets: Region, state: FloatArray, pool: FloatArray, n: int, steps: int, generator: np.random.Generator
) -> FloatArray:
    """Take some steps per class before the first round of draws, and one per class between rounds."""
    n_steps = (steps + -(-n // state.shape[1]) - 1) * sets.n_classes
    if n_steps * state.shape[1] * sets.n_classes > MAX_CHAIN_ELEMENTS:
        raise ValueError(
            f"drawing n={n} members of a {sets.shape} over {sets.n_classes} classes takes {n_steps} steps of a chain "
            "for each set, which is too long. Ask for fewer, or for envelopes, expectations and entropy bounds."
        )
    lower, upper = sets._envelope()
    scale = (upper - lower)[:, None, :]
    samples = []
    for block in range(-(-n // state.shape[1])):
        for _ in range((steps if block == 0 else 1) * sets.n_classes):
            state = _one_step(sets, state, _directions(state.shape, scale, pool, generator), generator)
        samples.append(state)
    return np.concatenate(samples, axis=1)[:, :n]


def _directions(
    shape: tuple[int, ...], scale: FloatArray, pool: FloatArray, generator: np.random.Generator
) -> FloatArray:
    """Differences of two points of the pool, or noise scaled by the widths of the envelope, half and half."""
    noise = scale * generator.standard_normal(shape)
    total = scale.sum(axis=-1, keepdims=True)
    share = np.divide(scale, total, where=total > 0, out=np.zeros_like(scale))
    scaled = noise - share * noise.sum(axis=-1, keepdims=True)
    ends = generator.integers(pool.shape[1], size=(2, *shape[:2], 1))
    between = np.take_along_axis(pool, ends[0], axis=1) - np.take_along_axis(pool, ends[1], axis=1)
    return np.where(generator.random((*shape[:2], 1)) < 0.5, scaled, between)


def _one_step(sets: Region, state: FloatArray, direction: FloatArray, generator: np.random.Generator) -> FloatArray:
    forward, backward = _chord(sets, state, direction), _chord(sets, state, -direction)
    t = generator.random(state.shape[:2]) * (forward + backward) - backward
    moved = np.maximum(state + t[..., None] * direction, 0.0)
    # A chord end is found from inside, so the move stays inside but for the last bits: undo it where those matter.
    good = _inside(sets, moved)[..., None]
    return np.where(good, moved / moved.sum(axis=-1, keepdims=True), state)


def _chord(sets: Region, state: FloatArray, direction: FloatArray) -> FloatArray:
    """Distance from each state to the edge of its set along a direction.

    The divergence is convex along the chord, so false position closes in from both sides.
    """
    limit = sets.radius[:, None]

    def excess(t: FloatArray) -> FloatArray:
        return sets._divergence(np.maximum(state + t[..., None] * direction, 0.0)) - limit

    edge = edge_distance(state, direction)
    return false_position(excess, np.zeros_like(edge), edge, steps=16)


def middle(sets: Any) -> FloatArray:
    """Average the members with the largest probability of each class, (N, K): inside, away from flat faces."""
    return np.mean(
        [sets.upper_expectation(unit, return_distribution=True)[1] for unit in np.eye(sets.n_classes)], axis=0
    )
