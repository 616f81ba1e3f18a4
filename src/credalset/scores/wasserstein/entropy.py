r"""Greatest entropy over a W₁ ball on a line: a Lipschitz log-density.

Maximise H(λ) subject to Σ_k gap_k |F_k − G_k| ≤ r. With a price ν on the distance, stationarity in F_k reads

.. math:: \log λ_{k+1} − \log λ_k = ν\, gap_k\, s_k, \qquad s_k ∈ \operatorname{sign}(F_k − G_k),

so log λ is ν-Lipschitz along the line: steepest where F ≠ G, free where F = G. For a fixed price, go through the
classes and carry the message h_k(y) = F_k − G_k as a function of y = λ_k, everything before class k being optimal. It
starts as y − g_1. Where its root y* says F_k = G_k, the next class may be anything between y* e^{−ν gap} and y* e^{ν
gap}; above, λ_k follows at e^{−ν gap} times the next mass, below at e^{ν gap} times. So the next message is the old
one with its positive part stretched by e^{ν gap}, its negative part shrunk by e^{−ν gap}, zero between, plus y −
g_{k+1}: increasing and *piecewise linear in y*, hence exact. The last root is λ_K, and λ_k = clip(y*_k, λ_{k+1} e^{−ν
gap}, λ_{k+1} e^{ν gap}) leads back.

The cost W₁(ν) falls continuously from W₁(uniform, g) at ν = 0; within blocks between places where F = G, of mass M_b
and λ ∝ e^{ν c}, its derivative is −Σ_b M_b Var_b(c), which gives Newton's method for the price of cost r.

The budget is met to the rounding of the cumulative sums, about 1e-15, and the entropy therefore to ν times that.

The certificate used by the tests is the dual: H_max = min over p of log Σ e^{p_k} − ⟨g, p⟩ + r·Lip(p).
"""

from __future__ import annotations

import numpy as np

from credalset._parallel import in_blocks
from credalset._typing import FloatArray
from credalset.scores.wasserstein.geometry import transport_cost, within_reach
from credalset.sets.roots import newton
from credalset.simplex import precise_entropy

FAR = 1e100  # of masses, which no root comes near
VANISHING = 1e-280  # a mass below this says nothing about its neighbour: it may have lost its digits to underflow


@in_blocks(block_size=1 << 15)
def max_entropy(
    center: FloatArray, radius: FloatArray, *, gaps: FloatArray, attaining: bool
) -> tuple[FloatArray, FloatArray | None]:
    """Greatest entropy in nats of each ball, and the distribution that has it.

    The price at which the smoothest distribution costs the budget is found by Newton's method on logarithms: the cost
    falls about as one over the price.
    """
    length, n_classes = gaps.sum(), center.shape[1]
    budget, gaps = within_reach(radius, gaps) / length, gaps / length
    points = np.full_like(center, 1.0 / n_classes)
    outside = transport_cost(points - center, gaps) > budget
    points[outside & (budget == 0.0)] = center[outside & (budget == 0.0)]
    rows = np.flatnonzero(outside & (budget > 0.0))
    g, r = np.ascontiguousarray(center[rows].T), budget[rows]

    def curve(x: FloatArray, g: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
        price = np.exp(x)
        _, cost, slope = smoothest(price, g, gaps)
        return np.log(r / cost), -price * slope / cost

    cost = transport_cost(points[rows] - center[rows], gaps)  # of the uniform distribution, at price zero
    with np.errstate(divide="ignore", over="ignore"):
        # The cost falls by at most a quarter per unit of price, and price times cost never exceeds what entropy gains.
        low, high = (
            np.log(4.0 * (cost - r)),
            np.log(np.maximum(np.log(n_classes) - precise_entropy(g), 1e-16)) - np.log(r),
        )
    low, high = np.clip(low - 1e-9, -700.0, 700.0), np.clip(high + 1e-9, -700.0, 700.0)
    x = newton(curve, (g, r), low, high, 0.5 * (low + high), np.full(len(rows), 1e-7))
    found = smoothest(np.exp(x), g, gaps)[0].T
    points[rows] = found / found.sum(axis=1, keepdims=True)
    # Rounding must not carry a point out of the ball.
    cost, excess = transport_cost(points - center, gaps), np.zeros(len(center))
    np.divide(cost - budget, cost, out=excess, where=cost > budget)
    points += excess[:, None] * (center - points)
    value = np.where(outside, precise_entropy(np.ascontiguousarray(points.T)), np.log(n_classes))
    return np.minimum(value, np.log(n_classes)), points if attaining else None


def smoothest(price: FloatArray, center: FloatArray, gaps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Maximise H(λ) − price · W₁(λ, center), centres (K, n): the maximiser, its W₁ and the derivative of that."""
    n_classes, n = center.shape
    column, index = np.arange(n), np.arange(2 * n_classes)[:, None]
    decays = np.maximum(np.exp(-price * gaps[:, None]), np.finfo(float).tiny)
    mass, excess, low, high = np.zeros((4, 2 * n_classes, n))  # knots of the message, and what becomes of them
    mass[1] = 1.0
    excess[:2] = mass[:2] - center[0]
    stay = np.empty_like(center)
    for k in range(n_classes):
        m = 2 * k + 2
        first = (excess[:m] < 0.0).sum(axis=0)
        left, right = np.maximum(first - 1, 0) * n + column, np.minimum(first, m - 1) * n + column
        below, above, start = excess.take(left), excess.take(right), mass.take(left)
        share = np.divide(-below, above - below, out=np.zeros(n), where=above > below)
        stay[k] = root = start + share * (mass.take(right) - start)
        if k == n_classes - 1:
            break
        # Shrink the negative part by the decay, stretch the positive part by its inverse, and put zero between them.
        shrinks = index[: m + 2] < first
        np.multiply(mass[:m], decays[k], out=low[:m])
        with np.errstate(over="ignore", divide="ignore"):
            stretched = mass[:m] / decays[k]
            end, nearer = np.minimum(root / decays[k], FAR), np.minimum(FAR / stretched, 1.0)
        np.minimum(stretched, FAR, out=high[2 : m + 2])
        mass[: m + 2] = np.where(shrinks, low[: m + 2], high[: m + 2])
        high[2 : m + 2] = nearer * excess[:m]  # a knot is brought back along the last, straight part of the message
        excess[: m + 2] = np.where(shrinks, excess[: m + 2], high[: m + 2])
        for knot, at in ((first, root * decays[k]), (first + 1, end)):
            np.put(mass, knot * n + column, at)
            np.put(excess, knot * n + column, 0.0)
        excess[: m + 2] += mass[: m + 2] - center[k + 1]
    return _trace_back(center, gaps, decays, stay)


def _trace_back(
    center: FloatArray, gaps: FloatArray, decays: FloatArray, stay: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Read λ off the roots from the last class to the first; blocks end where F_k = G_k."""
    points = stay.copy()
    cost, spread, off, height, first, second = np.zeros((6, center.shape[1]))
    total = points[-1]  # of the block, and its first two moments of height
    for k in range(len(gaps) - 1, -1, -1):
        following = points[k + 1]
        with np.errstate(over="ignore"):  # beyond every mass there is
            most = np.where(following > VANISHING, following / decays[k], np.inf)
        points[k] = np.minimum(np.maximum(stay[k], following * decays[k]), most)
        apart = points[k] != stay[k]
        spread += np.where(apart, 0.0, _spread(total, first, second))
        off = np.where(apart, off - (following - center[k + 1]), 0.0)
        height = np.where(apart, height + gaps[k] * np.sign(stay[k] - points[k]), 0.0)
        moment = points[k] * height
        total, first = np.where(apart, total, 0.0) + points[k], np.where(apart, first, 0.0) + moment
        second = np.where(apart, second, 0.0) + moment * height
        cost += gaps[k] * np.abs(off)
    return points, cost, -(spread + _spread(total, first, second))


def _spread(total: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Σ λ c² − (Σ λ c)² / Σ λ."""
    return second - np.divide(first * first, total, out=np.zeros_like(total), where=total > 0.0)
