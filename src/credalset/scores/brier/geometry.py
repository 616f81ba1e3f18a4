r"""Balls of a weighted squared distance, {λ ∈ Δ : Σ_k v_k (λ_k − g_k)² ≤ r}: expectations, entropies, peaks.

Everything here is a projection. The member that is best for a utility u is the projection of g + η u / v onto the
simplex, λ_k = (g_k + (η u_k − θ) / v_k)₊, for the step η at which the ball ends. With the classes that it keeps ("in")
and those that it sets to zero ("out"), its squared distance from g is a + b η²,

    a = Σ_{out} v_k g_k² + (Σ_{out} g_k)² / S,     b = Σ_{in} (u_k − ū)² / v_k,     S = Σ_{in} 1 / v_k,

and ū the mean of u over the classes that are in, weighted by 1 / v. A class that is out stays out as η grows, because ū
rises. So the step for too many classes is too short, every class it makes negative is out for good, and striking these
out until none is negative ends at the answer after a few rounds (as Michelot's projection does, 1986).
"""

from __future__ import annotations

import numpy as np
from scipy.special import wrightomega

from credalset._typing import BoolArray, FloatArray
from credalset.scores.pooling import pooled_spread
from credalset.sets.roots import bisect, false_position

MAX_STEPS = 100
SMALLEST = 1e-24  # squared distance below which entropy changes by less than 1e-10


def divergence(center: FloatArray, weights: FloatArray, points: FloatArray) -> FloatArray:
    """Σ_k v_k (λ_k − g_k)² of points (N, M, K)."""
    return (points - center[:, None]) ** 2 @ weights


def support(
    center: FloatArray, radius: FloatArray, weights: FloatArray, utility: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Greatest ⟨u, λ⟩ per row, and the member that attains it."""
    depth = 0.5 * utility.max(axis=1, keepdims=True) - 0.5 * utility  # halved: differences of doubles overflow
    span = depth.max(axis=1, keepdims=True)
    slope = -depth / np.where(span > 0, span, 1.0)  # 0 for the best classes, −1 for the worst
    point = _onto_face(center, weights, slope == 0.0)
    far = np.flatnonzero(divergence(center, weights, point[:, None])[:, 0] > radius)
    if len(far):
        point[far] = _last_projection(center[far], radius[far], weights, slope[far])
    return (utility * point).sum(axis=1), point


def _onto_face(center: FloatArray, weights: FloatArray, face: BoolArray) -> FloatArray:
    """Project the centres onto a face: its classes share what the others hold, in inverse proportion to weight."""
    room = np.where(face, 1.0 / weights, 0.0)
    missing = np.where(face, 0.0, center).sum(axis=1, keepdims=True)
    return np.where(face, center, 0.0) + missing * room / room.sum(axis=1, keepdims=True)


def _last_projection(center: FloatArray, radius: FloatArray, weights: FloatArray, slope: FloatArray) -> FloatArray:
    """Project g + η·slope / v at the step η that reaches the edge of the ball, for balls that miss the best face."""
    point = np.empty_like(center)
    todo, kept = np.arange(len(center)), np.ones(center.shape, dtype=bool)
    while len(todo):
        g, u = center[todo], slope[todo]
        room = np.where(kept, 1.0 / weights, 0.0)
        total = room.sum(axis=1, keepdims=True)
        rise = np.where(kept, u - (room * u).sum(axis=1, keepdims=True) / total, 0.0)
        out = np.where(kept, 0.0, g)
        share = out.sum(axis=1, keepdims=True) / total
        spent = (weights * out**2).sum(axis=1) + share[:, 0] ** 2 * total[:, 0]
        steepness = (room * rise**2).sum(axis=1)
        left = np.sqrt(np.maximum(radius[todo] - spent, 0.0))
        # Only rounding can leave nothing but the best classes, which the ball misses.
        step = np.divide(left, np.sqrt(steepness), out=np.zeros_like(left), where=steepness > 0)
        moved = np.where(kept, g + room * (share + step[:, None] * rise), 0.0)
        done = (moved >= 0).all(axis=1)
        point[todo[done]] = moved[done]
        todo, kept = todo[~done], (kept & (moved > 0))[~done]
    return point


def largest_sums(center: FloatArray, radius: FloatArray, weights: FloatArray) -> FloatArray:
    """Return what the j largest entries of a member can add up to, for equal weights: (N, K), increasing to one.

    They are those of the j largest classes: exchanging two entries of a member so that they are ordered as the centre
    is brings it nearer.
    """
    rank = np.argsort(np.argsort(-center, axis=1, kind="stable"), axis=1)
    sums = [support(center, radius, weights, (rank < j).astype(float))[0] for j in range(1, center.shape[1])]
    return np.column_stack([*sums, np.ones(len(center))])


def max_entropy(center: FloatArray, radius: FloatArray, weights: FloatArray) -> FloatArray:
    r"""Return the members with the largest entropy.

    Where the uniform distribution is too far, $\log \lambda_k + 2 \nu v_k (\lambda_k - g_k) = \tau$ for every class, so
    $\lambda_k = \omega(\log 2\nu v_k + 2\nu v_k g_k + \tau) / 2\nu v_k$ with the Wright function
    $\omega(z) = W(e^z)$: a root in τ for the sum, and one in ν for the distance.
    """
    point = np.full(center.shape, 1.0 / center.shape[1])
    far = divergence(center, weights, point[:, None])[:, 0] > radius
    tiny = radius < SMALLEST * weights.min()
    point[far & tiny] = center[far & tiny]
    rows = np.flatnonzero(far & ~tiny)
    if len(rows):
        point[rows] = _flattest_on_edge(center[rows], radius[rows], weights)
    return point


def _flattest_on_edge(center: FloatArray, radius: FloatArray, weights: FloatArray) -> FloatArray:
    """Find ν, for balls that the uniform distribution lies outside of: the distance falls as ν grows."""
    tau = np.log(center.max(axis=1))
    point = center

    def excess(log_nu: FloatArray) -> FloatArray:
        nonlocal point, tau
        point, offset, tau = _tilted(center, weights, np.exp(log_nu), tau)
        with np.errstate(divide="ignore"):
            return np.log((offset**2) @ weights) - np.log(radius)

    # In a small ball λ − g is about (mean log g − log g) / 2 ν v.
    logs = np.log(np.maximum(center, np.sqrt(radius / weights.max())[:, None]))
    spread = (logs - logs.mean(axis=1, keepdims=True)) ** 2 @ (1.0 / weights)
    near = 0.5 * np.log(np.maximum(spread, 1e-300)) - 0.5 * np.log(radius) - np.log(2.0)
    excess(false_position(excess, near + 30.0, near - 30.0, steps=80))  # the last call leaves the point
    return point


def _tilted(
    center: FloatArray, weights: FloatArray, nu: FloatArray, tau: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return λ with log λ_k + 2 ν v_k (λ_k − g_k) = τ and sum one, λ − g, and τ by Newton's method from a guess.

    The sum is convex in τ, so steps from above never overshoot; log max g is above, as no λ_k is below g_k there.
    """
    pull = 2.0 * nu[:, None] * weights
    shift = np.log(pull) + pull * center
    top = np.log(center.max(axis=1))
    for _ in range(MAX_STEPS):
        scaled = wrightomega(shift + tau[:, None])
        total = (scaled / pull).sum(axis=1) - 1.0
        step = total / np.maximum((scaled / (pull * (1.0 + scaled))).sum(axis=1), 1e-300)
        tau = np.minimum(tau - step, top)
        if (np.abs(total) <= 1e-14 * len(weights)).all():
            break
    point = scaled / pull
    point /= point.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        # Two forms of one difference: the second keeps its digits where the point is close to the centre.
        offset = np.where(pull < 1.0, point - center, (tau[:, None] - np.log(point)) / pull)
    return point, offset, tau


def smallest_peak(center: FloatArray, radius: FloatArray, weights: FloatArray) -> FloatArray:
    """Return min over members of their largest entry: the nearest distribution below a cap t is min(g + θ / v, t)."""
    n, n_classes = center.shape
    uniform = np.full((n, 1, n_classes), 1.0 / n_classes)
    flat = divergence(center, weights, uniform)[:, 0] <= radius
    low, high = np.full(n, 1.0 / n_classes), center.max(axis=1)
    _, high = bisect(lambda cap: _distance_below(center, weights, cap) <= radius, low, high, steps=52)
    return np.where(flat, 1.0 / n_classes, high)


def closest_with_top(center: FloatArray) -> FloatArray:
    """Return, for each class, the squared distance of the nearest distribution in which no class has more, (N, K).

    For equal weights of one: the class is pooled with those that exceed it, each at the average of the pool, and all
    others stay where they are.
    """
    return pooled_spread(center)


def _distance_below(center: FloatArray, weights: FloatArray, cap: FloatArray) -> FloatArray:
    """Return the squared distance from g of the nearest distribution with entries up to ``cap`` (at least 1 / K).

    Classes reach the cap in the order of v_k (cap − g_k); what those beyond it give up, the others share.
    """
    price = weights * (cap[:, None] - center)
    order = np.argsort(price, axis=1)
    price = np.take_along_axis(price, order, axis=1)
    weight = weights[order]
    spare = np.cumsum(-price / weight, axis=1)  # what the first j classes at the cap give up
    room = np.cumsum((1.0 / weight)[:, ::-1], axis=1)[:, ::-1]
    room = np.column_stack([room[:, 1:], np.zeros(len(room))])  # 1 / v of the classes below the cap
    # With every class at the cap nothing is left to share: the cap is 1 / K, up to rounding.
    theta = np.divide(spare, room, out=np.zeros_like(spare), where=room > 0)
    reached = price < np.column_stack([np.zeros(len(room)), theta[:, :-1]])
    rows, last = np.arange(len(center)), np.maximum(reached.sum(axis=1), 1) - 1
    return np.cumsum(price**2 / weight, axis=1)[rows, last] + (theta**2 * room)[rows, last]
