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
from scipy.special import entr

from credalset._compiled import kernels
from credalset._parallel import for_each_block
from credalset._typing import BoolArray, FloatArray
from credalset.scores.wasserstein.geometry import HEAVY, divergence, within_reach

KERNELS = "credalset.scores.wasserstein.entropy_kernels"
MAX_ROOT_STEPS = 100
VANISHING = 1e-280  # a mass below this says nothing about its neighbour: it may have lost its digits to underflow


def entropy(points: FloatArray) -> FloatArray:
    """−Σ λ log λ of rows; the largest entry's logarithm comes from the others, so small entropies keep their digits."""
    largest = points.argmax(axis=1)[:, None]
    top = np.take_along_axis(points, largest, axis=1)[:, 0]
    others = points.copy()
    np.put_along_axis(others, largest, 0.0, axis=1)
    rest = others.sum(axis=1)
    log_top = np.where(rest < 0.5, np.log1p(-np.minimum(rest, 0.5)), np.log(top))
    return np.maximum(entr(others).sum(axis=1) - top * log_top, 0.0)


def max_entropy(
    center: FloatArray, radius: FloatArray, gaps: FloatArray, attaining: bool
) -> tuple[FloatArray, FloatArray | None]:
    """Greatest entropy in nats of each ball, and the distribution that has it."""
    value = np.empty(len(center))
    points = np.empty_like(center) if attaining else np.empty((len(center), 0))
    length = gaps.sum()
    reach, unit_gaps = within_reach(radius, gaps) / length, gaps / length
    compiled = kernels(KERNELS, center.size, at_least=1 << 12)

    def one_block(rows: slice) -> None:
        if compiled is not None:
            compiled.max_entropy(center[rows], reach[rows], unit_gaps, attaining, value[rows], points[rows])
            return
        found = _smooth_to_budget(center[rows], reach[rows], unit_gaps)
        value[rows] = np.minimum(entropy(found), np.log(center.shape[1]))
        if attaining:
            points[rows] = found

    work = HEAVY * center.shape[1]
    for_each_block(one_block, len(center), work, block_size=HEAVY << 14)
    return value, points if attaining else None


def _smooth_to_budget(center: FloatArray, budget: FloatArray, gaps: FloatArray) -> FloatArray:
    """Raise the price until the smoothest distribution costs the budget: Newton on log cost, kept in a bracket."""
    points = np.full_like(center, 1.0 / center.shape[1])
    active = np.flatnonzero(divergence(center, gaps, points[:, None])[:, 0] > budget)
    points[budget == 0.0] = center[budget == 0.0]
    active = active[budget[active] > 0.0]
    solved = active
    low, high, price = np.zeros(len(center)), np.full(len(center), np.inf), np.zeros(len(center))
    for _ in range(MAX_ROOT_STEPS):
        if not len(active):
            break
        g, r, now = center[active], budget[active], price[active]
        found, cost, slope = smoothest(g, gaps, now)
        points[active] = found
        low[active] = np.where(cost > r, now, low[active])
        high[active] = np.where(cost > r, high[active], now)
        lo, hi = low[active], high[active]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            trial = now - cost / slope * np.log(cost / r)
            straight = now - (cost - r) / slope
            trial = np.where((lo < trial) & (trial < hi), trial, straight)
            halfway = np.where(hi < np.inf, 0.5 * (lo + hi), 2.0 * np.maximum(lo, 1.0))
            price[active] = np.where((lo < trial) & (trial < hi), trial, halfway)
            done = (np.abs(cost - r) <= 1e-15 * r) | ((hi < np.inf) & (hi - lo <= 4e-16 * hi))
        active = active[~done]
    points[solved] /= points[solved].sum(axis=1, keepdims=True)
    cost = divergence(center, gaps, points[:, None])[:, 0]
    excess = np.zeros(len(center))
    np.divide(cost - budget, cost, out=excess, where=cost > budget)
    return np.asarray(points + excess[:, None] * (center - points))


def smoothest(center: FloatArray, gaps: FloatArray, price: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Maximise H(λ) − price · W₁(λ, center) per row: the maximiser, its W₁ and the derivative of that in the price."""
    n_classes = center.shape[1]
    mass = np.broadcast_to(np.array([0.0, 1.0]), (len(center), 2))
    excess = mass - center[:, :1]
    stay = np.empty_like(center)
    for k in range(n_classes):
        stay[:, k] = root = _root(mass, excess)
        if k == n_classes - 1:
            break
        mass, excess = _next_message(mass, excess, root, np.exp(-price * gaps[k]))
        excess = excess + mass - center[:, k + 1 : k + 2]
    return _trace_back(center, gaps, price, stay)


def _root(mass: FloatArray, excess: FloatArray) -> FloatArray:
    """Where the increasing piecewise linear message through the knots (mass, excess) is zero."""
    first = (excess < 0.0).sum(axis=1)[:, None]
    left, right = np.maximum(first - 1, 0), np.minimum(first, mass.shape[1] - 1)
    x0, x1 = np.take_along_axis(mass, left, 1), np.take_along_axis(mass, right, 1)
    y0, y1 = np.take_along_axis(excess, left, 1), np.take_along_axis(excess, right, 1)
    share = np.zeros_like(x0)
    np.divide(-y0, y1 - y0, out=share, where=y1 > y0)
    return np.asarray(x0 + (x1 - x0) * share)[:, 0]


def _next_message(
    mass: FloatArray, excess: FloatArray, root: FloatArray, decay: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Shrink the negative part by ``decay``, stretch the positive part by its inverse; cut off at mass 1."""
    size = mass.shape[1]
    root, decay = root[:, None], decay[:, None]
    beyond = np.minimum((mass <= decay).sum(axis=1)[:, None], size - 1)  # first knot that leaves the range
    x0, x1 = np.take_along_axis(mass, beyond - 1, 1), np.take_along_axis(mass, beyond, 1)
    y0, y1 = np.take_along_axis(excess, beyond - 1, 1), np.take_along_axis(excess, beyond, 1)
    share = np.zeros_like(x0)
    np.divide(np.minimum(decay, x1) - x0, x1 - x0, out=share, where=x1 > x0)
    cap = np.maximum(y0 + share * (y1 - y0), 0.0)
    stretched = np.ones_like(mass)
    np.divide(mass, decay, out=stretched, where=(mass <= decay) & (decay > 0.0))
    stretched[(mass == 0.0) & (decay == 0.0)] = 0.0
    upper_root = np.where(root > 0.0, 1.0, 0.0)
    np.divide(root, decay, out=upper_root, where=(root <= decay) & (decay > 0.0))
    first = (excess < 0.0).sum(axis=1)[:, None]
    column = np.arange(size + 2)
    source = np.clip(np.where(column < first, column, column - 2), 0, size - 1)
    at_root = [column < first, column == first, column == first + 1]
    new_mass = np.select(
        at_root,
        [np.take_along_axis(mass, source, 1) * decay, root * decay, upper_root],
        np.take_along_axis(stretched, source, 1),
    )
    carried = np.take_along_axis(excess, source, 1)
    new_excess = np.select(at_root, [carried, np.zeros_like(root), np.zeros_like(root)], np.minimum(carried, cap))
    return new_mass, new_excess


def _trace_back(
    center: FloatArray, gaps: FloatArray, price: FloatArray, stay: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Read λ off the roots from the last class to the first; blocks end where F_k = G_k."""
    n_rows, n_classes = center.shape
    points = np.empty_like(center)
    points[:, -1] = stay[:, -1]
    cost, spread, off, height = np.zeros((4, n_rows))
    moments = np.stack([points[:, -1], np.zeros(n_rows), np.zeros(n_rows)])
    for k in range(n_classes - 2, -1, -1):
        following = points[:, k + 1]
        decay = np.exp(-price * gaps[k])
        most = np.full(n_rows, np.inf)
        with np.errstate(over="ignore"):  # beyond every mass there is
            np.divide(following, decay, out=most, where=(decay > 0.0) & (following > VANISHING))
        points[:, k] = np.clip(stay[:, k], following * decay, most)
        touching: BoolArray = points[:, k] == stay[:, k]
        off = np.where(touching, 0.0, off - (following - center[:, k + 1]))
        height = np.where(touching, 0.0, height + gaps[k] * np.sign(stay[:, k] - points[:, k]))
        spread += np.where(touching, _spread(moments), 0.0)
        moments = np.where(touching, 0.0, moments) + points[:, k] * np.stack([np.ones(n_rows), height, height**2])
        cost += gaps[k] * np.abs(off)
    return points, cost, -(spread + _spread(moments))


def _spread(moments: FloatArray) -> FloatArray:
    """Σ λ c² − (Σ λ c)² / Σ λ."""
    square = np.zeros_like(moments[0])
    np.divide(moments[1] ** 2, moments[0], out=square, where=moments[0] > 0.0)
    return np.asarray(moments[2] - square)
