"""Uniform samples from regions: exact for two and three classes, hit-and-run beyond.

Hit-and-run repeatedly draws a direction and moves to a uniform point of the chord in that direction. Directions are
scaled by the widths of the envelope, so that thin sets mix as fast as round ones. Its stationary law is uniform
whatever the set. Up to 64 chains share the samples. Each starts on a ray from the centre, drawn by weight, which is
nearly uniform already where the rays fit the set; it takes 10·K steps before its first sample and K between samples.
Theory bounds the mixing of well-rounded bodies by about K³ steps (Lovász and Vempala 2006). Samples of one chain are
correlated: for demanding uses draw more than needed and thin them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from credalset._typing import BoolArray, FloatArray
from credalset.geometry.rays import PILOT_RAYS, choose_sharpness, draw_rays, edge_distance

if TYPE_CHECKING:
    from credalset.geometry.region import Region

MAX_CHAINS = 64
STARTING_RAYS = 16  # per chain
MAX_REJECTIONS = 200
ELEMENTS_PER_BLOCK = 1 << 21


def sample_members(sets: Region, n: int, generator: np.random.Generator) -> FloatArray:
    """Draw n members of each set, (N, n, K)."""
    result = np.empty((len(sets), n, sets.n_classes))
    rays = STARTING_RAYS * min(n, MAX_CHAINS)
    step = max(1, ELEMENTS_PER_BLOCK // (max(n, rays, PILOT_RAYS) * sets.n_classes))
    for start in range(0, len(sets), step):
        rows = slice(start, min(start + step, len(sets)))
        result[rows] = _sample_block(sets[rows], n, generator)
    return result


def _sample_block(sets: Region, n: int, generator: np.random.Generator) -> FloatArray:
    own = sets._sample(n, generator)
    if own is not None:
        return own
    if sets.n_classes == 2:
        return _sample_segment(sets, n, generator)
    if sets.n_classes == 3:
        accepted = _sample_triangle(sets, n, generator)
        if accepted is not None:
            return accepted
    return _hit_and_run(sets, n, generator)


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
    result, filled = np.empty((len(sets), n, 3)), np.zeros(len(sets), dtype=int)
    for _ in range(MAX_REJECTIONS):
        open_rows = np.flatnonzero(filled < n)
        if len(open_rows) == 0:
            return result
        part = sets[open_rows]
        two = corner[open_rows, None, :2] + size[open_rows, None, :2] * generator.random((len(part), 4 * n, 2))
        points = np.concatenate([two, 1.0 - two.sum(axis=-1, keepdims=True)], axis=-1)
        points = np.take_along_axis(points, back[open_rows, None, :], axis=2)
        good = (points >= 0).all(axis=-1) & _inside(part, np.maximum(points, 0.0))
        for i, row in enumerate(open_rows):
            found = points[i, good[i]][: n - filled[row]]
            result[row, filled[row] : filled[row] + len(found)] = found
            filled[row] += len(found)
    return None


def _inside(sets: Region, points: FloatArray) -> BoolArray:
    return np.asarray(sets._divergence(points) <= sets.radius[:, None])


def _hit_and_run(sets: Region, n: int, generator: np.random.Generator) -> FloatArray:
    k = sets.n_classes
    lower, upper = sets._envelope()
    scale = (upper - lower)[:, None, :]
    chains = min(n, MAX_CHAINS)
    state = _starting_points(sets, chains, generator)
    burn_in, thinning = 10 * k, k
    samples = []
    for block in range(-(-n // chains)):
        for _ in range(burn_in if block == 0 else thinning):
            state = _one_step(sets, state, scale, generator)
        samples.append(state)
    return np.concatenate(samples, axis=1)[:, :n]


def _starting_points(sets: Region, chains: int, generator: np.random.Generator) -> FloatArray:
    """Points of the set, spread about as uniform points are: rays by weight, and U^{1/(K−1)} of their length."""
    rays = draw_rays(sets, choose_sharpness(sets, generator), STARTING_RAYS * chains, generator)
    noise = generator.gumbel(size=(len(sets), chains, rays.log_weights.shape[1]))
    chosen = (rays.log_weights[:, None, :] + noise).argmax(axis=-1)
    directions = np.take_along_axis(rays.directions, chosen[..., None], axis=1)
    length = np.take_along_axis(rays.reach, chosen, axis=1) * generator.random(chosen.shape) ** (
        1 / (sets.n_classes - 1)
    )
    points = np.maximum(sets.center[:, None, :] + 0.999 * length[..., None] * directions, 0.0)
    points /= points.sum(axis=-1, keepdims=True)
    return np.where(_inside(sets, points)[..., None], points, _interior_point(sets)[:, None, :])


def _one_step(sets: Region, state: FloatArray, scale: FloatArray, generator: np.random.Generator) -> FloatArray:
    noise = scale * generator.standard_normal(state.shape)
    total = scale.sum(axis=-1, keepdims=True)
    direction = noise - np.divide(scale, total, where=total > 0, out=np.zeros_like(scale)) * noise.sum(
        -1, keepdims=True
    )
    forward, backward = _chord(sets, state, direction), _chord(sets, state, -direction)
    t = generator.random(state.shape[:2]) * (forward + backward) - backward
    moved = np.maximum(state + t[..., None] * direction, 0.0)
    # A chord end is found from inside, so the move stays inside but for the last bits: undo it where those matter.
    good = _inside(sets, moved)[..., None]
    return np.where(good, moved / moved.sum(axis=-1, keepdims=True), state)


def _chord(sets: Region, state: FloatArray, direction: FloatArray) -> FloatArray:
    """Distance from each state to the edge of its set along a direction.

    The divergence is convex along the chord, so false position (Illinois variant) closes in from both sides; the end
    returned is the one inside.
    """
    limit = sets.radius[:, None]

    def excess(t: FloatArray) -> FloatArray:
        return sets._divergence(np.maximum(state + t[..., None] * direction, 0.0)) - limit

    high = edge_distance(state, direction)
    low, f_high = np.zeros_like(high), excess(high)
    f_low = np.minimum(excess(low), -np.finfo(float).tiny)
    low = np.where(f_high <= 0, high, low)
    side = np.zeros_like(low)
    for _ in range(16):
        with np.errstate(invalid="ignore", over="ignore"):
            t = (low * f_high - high * f_low) / (f_high - f_low)
        # Infinite divergence at the far end, or rounding, makes the secant useless: halve instead.
        t = np.where((t > low) & (t < high), t, 0.5 * (low + high))
        f = excess(t)
        inside = f <= 0
        f_high = np.where(inside & (side > 0), 0.5 * f_high, f_high)
        f_low = np.where(~inside & (side < 0), 0.5 * f_low, f_low)
        low, f_low = np.where(inside, t, low), np.where(inside, np.minimum(f, -np.finfo(float).tiny), f_low)
        high, f_high = np.where(inside, high, t), np.where(inside, f_high, f)
        side = np.where(inside, 1.0, -1.0)
    return low


def _interior_point(sets: Region) -> FloatArray:
    """Average the members with the largest probability of each class, (N, K): inside, away from flat faces."""
    n, k = sets.center.shape
    total = np.zeros((n, k))
    for c in range(k):
        unit = np.zeros((n, k))
        unit[:, c] = 1.0
        point = sets._support(unit, True)[1]
        assert point is not None
        total += point
    return total / k
