"""Exact geometry of {λ : ⟨λ, g⟩ ≥ 1 − r}, the simplex cut by one hyperplane: bounds, entropy, vertices.

Everything is written in the margins d_k = g_k + r − 1. Since Σ λ_k = 1, membership reads Σ λ_k d_k ≥ 0: corners with
d_k ≥ 0 are inside, corners with d_k < 0 outside, and the edge between an inside corner i and an outside corner j
crosses the plane where λ_j = d_i/(d_i − d_j). Volume and sampling are in `credalset.scores.inner_product.volume`.
"""

from __future__ import annotations

import numpy as np

from credalset._compiled import kernels
from credalset._parallel import for_each_block
from credalset._typing import FloatArray, IntArray

KERNELS = "credalset.scores.inner_product.kernels"

# Shared with the compiled form.
WHOLE_SIMPLEX = 2.0  # any radius from 1 on contains every corner; larger ones would only overflow
NEWTON_STEPS = 100  # a handful suffices; near-degenerate planes take a few dozen
NEWTON_TOLERANCE = 1e-9  # relative size of the last step; convergence is quadratic, so the error is its square
ROUNDING = 4.0 * float(np.finfo(float).eps)


def margins(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Return d_k = g_k + r − 1 for each corner: non-negative inside, negative outside.

    The sum is compensated (Knuth's two-sum), so that even a margin far below the rounding error of 1 − r is right to
    the last bit: a set's tiny volume is a product of such margins. A corner whose side the score decides by rounding
    is put on the plane. If rounding leaves no corner inside although the score calls the set non-empty, the plane is
    moved to touch the best corner.

    Parameters
    ----------
    center : ndarray of shape (N, K)
    radius : ndarray of shape (N,)

    Returns
    -------
    ndarray of shape (N, K)
        Every row has a non-negative entry.
    """
    r = np.minimum(radius, WHOLE_SIMPLEX)[:, None]
    total = center + r
    rounded = total - center
    error = (center - (total - rounded)) + (r - rounded)
    margin = (total - 1.0) + error
    inside = 1.0 - center <= r
    margin = np.where(inside, np.maximum(margin, 0.0), np.minimum(margin, 0.0))
    return margin - np.minimum(margin.max(axis=1, keepdims=True), 0.0)


def envelope(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Return the smallest and the largest probability of each class, arrays of shape (N, K).

    Let m be the class with the largest margin. Mass on class k with $d_k < 0$ is paid for best by mass on m, so
    $\max \lambda_k = d_m/(d_m - d_k)$ there and 1 where $d_k \ge 0$. A class can be avoided altogether unless it is m
    and every other corner lies outside; then the runner-up s is the cheapest alternative and
    $\min \lambda_m = -d_s/(d_m - d_s)$.
    """
    lower, upper = np.empty(center.shape), np.empty(center.shape)
    compiled = kernels(KERNELS, center.size)

    def one_block(rows: slice) -> None:
        if compiled is not None:
            compiled.envelope(center[rows], radius[rows], lower[rows], upper[rows])
        else:
            lower[rows], upper[rows] = _envelope(margins(center[rows], radius[rows]))

    for_each_block(one_block, *center.shape)
    return lower, upper


def _envelope(margin: FloatArray) -> tuple[FloatArray, FloatArray]:
    best = margin.argmax(axis=1)
    second, top = np.partition(margin, -2, axis=1)[:, -2:].T[:, :, None]
    upper = np.divide(top, top - margin, out=np.ones_like(margin), where=margin < 0.0)
    share = np.divide(-second, top - second, out=np.zeros_like(second), where=second < 0.0)
    lower = np.zeros_like(margin)
    np.put_along_axis(lower, best[:, None], share, axis=1)
    return lower, upper


def support(
    center: FloatArray, radius: FloatArray, utility: FloatArray, attaining: bool
) -> tuple[FloatArray, FloatArray | None]:
    r"""Return $\max \langle u, \lambda\rangle$ over each set, shape (N,), and a maximiser (N, K) if asked.

    A linear programme with one constraint besides the simplex: the optimum is the height at d = 0 of the upper hull of
    the points $(d_k, u_k)$. It is the corner of largest utility if that lies inside. Otherwise it is on the hull edge
    that crosses d = 0, found by cutting: start from the line between the corner of largest margin and the corner of
    largest utility; while some corner lies above the line, the one furthest above replaces the end on its own side.
    Each cut strictly narrows the range of margins, so there are at most K of them (three or four as a rule).
    """
    values = np.empty(len(center))
    points = np.empty(center.shape) if attaining else None
    compiled = kernels(KERNELS, center.size)

    def one_block(rows: slice) -> None:
        if compiled is not None:
            target = np.empty((0, 0)) if points is None else points[rows]
            compiled.support(center[rows], radius[rows], utility[rows], values[rows], target)
            return
        inside, outside, share = _best_edge(margins(center[rows], radius[rows]), utility[rows])
        block = np.arange(len(share))
        u = utility[rows]
        values[rows] = (1.0 - share) * u[block, inside] + share * u[block, outside]
        if points is not None:
            points[rows] = 0.0
            points[rows][block, inside] = 1.0 - share
            points[rows][block, outside] += share

    for_each_block(one_block, *center.shape)
    return values, points


def _best_edge(margin: FloatArray, utility: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the ends of the optimal edge and the share of its second end (0 if the optimum is a corner)."""
    rows = np.arange(len(margin))
    nearest = np.where(margin == margin.max(axis=1, keepdims=True), utility, -np.inf).argmax(axis=1)
    richest = np.where(utility == utility.max(axis=1, keepdims=True), margin, -np.inf).argmax(axis=1)
    inside = np.where(margin[rows, richest] >= 0.0, richest, nearest)
    outside = richest
    for _ in range(margin.shape[1]):
        d_in, d_out = margin[rows, inside][:, None], margin[rows, outside][:, None]
        u_in, u_out = utility[rows, inside][:, None], utility[rows, outside][:, None]
        above_line = (utility - u_in) * (d_in - d_out) - (u_out - u_in) * (d_in - margin)
        above_line = np.where((d_out < margin) & (margin < d_in), above_line, -np.inf)
        cut = above_line.argmax(axis=1)
        improves = above_line[rows, cut] > 0.0
        if not improves.any():
            break
        cut_is_inside = margin[rows, cut] >= 0.0
        inside = np.where(improves & cut_is_inside, cut, inside)
        outside = np.where(improves & ~cut_is_inside, cut, outside)
    d_in, d_out = margin[rows, inside], margin[rows, outside]
    share = np.divide(d_in, d_in - d_out, out=np.zeros(len(rows)), where=d_out < 0.0)
    return inside, outside, share


def max_entropy(center: FloatArray, radius: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
    r"""Return the largest entropy in each set (nats), shape (N,), and the distribution (N, K) that has it if asked.

    The uniform distribution if it is inside. Otherwise $\lambda_k \propto e^{\beta d_k}$ with $\beta > 0$ such that
    $\sum_k \lambda_k d_k = 0$ (stationarity of the Lagrangian), and by duality the entropy is
    $\log \sum_k e^{\beta d_k}$. Newton's method solves $h(\beta) = \log P - \log Q = 0$ with
    $P = \sum_{d_k > 0} d_k e^{\beta d_k}$ and $Q = \sum_{d_k < 0} |d_k| e^{-\beta |d_k|}$, which is close to a
    straight line: its slope is the mean of $d$ under the terms of P plus the mean of $|d|$ under those of Q. A bracket
    guards the steps. When the plane only touches the simplex ($\max d = 0$), the touching face is all there is.
    """
    values = np.empty(len(center))
    points = np.empty(center.shape) if attaining else None
    compiled = kernels(KERNELS, center.size)

    def one_block(rows: slice) -> None:
        if compiled is not None:
            target = np.empty((0, 0)) if points is None else points[rows]
            compiled.max_entropy(center[rows], radius[rows], values[rows], target)
            return
        values[rows], weights = _max_entropy(margins(center[rows], radius[rows]))
        if points is not None:
            points[rows] = weights

    for_each_block(one_block, *center.shape)
    return values, points


def _max_entropy(margin: FloatArray) -> tuple[FloatArray, FloatArray]:
    top = margin.max(axis=1)
    tilt = np.zeros(len(margin))
    cut = np.where(margin > 0.0, margin, 0.0).sum(axis=1) < np.where(margin < 0.0, -margin, 0.0).sum(axis=1)
    solvable = np.flatnonzero(cut & (top > 0.0))
    if len(solvable):
        tilt[solvable] = _tilt(margin[solvable])
    below_top = top[:, None] - margin
    weights = np.exp(-tilt[:, None] * below_top)
    touching = cut & (top == 0.0)
    weights[touching] = margin[touching] == 0.0
    # One weight is exactly 1; adding up the others apart keeps the digits of a tiny entropy.
    others = np.where(np.arange(margin.shape[1]) == margin.argmax(axis=1)[:, None], 0.0, weights).sum(axis=1)
    return np.log1p(others) + tilt * top, weights / (1.0 + others[:, None])


def _tilt(margin: FloatArray) -> FloatArray:
    """Solve Σ d_k exp(β d_k) = 0 for rows with Σ d_k < 0 < max d_k."""
    result = np.empty(len(margin))
    rows = np.arange(len(margin))  # those still moving
    size = np.abs(margin)
    top = margin.max(axis=1)
    nearest = np.where(margin < 0.0, size, np.inf).min(axis=1)  # distance of the nearest outside corner
    low, high, tilt = np.zeros(len(rows)), np.full(len(rows), 1e300), np.zeros(len(rows))
    for _ in range(NEWTON_STEPS):
        below_best = np.where(margin > 0.0, top[:, None], -nearest[:, None]) - margin  # keeps exponents ≤ 0
        terms = size * np.exp(-tilt[:, None] * below_best)
        positive, negative = np.where(margin > 0.0, terms, 0.0), np.where(margin < 0.0, terms, 0.0)
        p, q = positive.sum(axis=1), negative.sum(axis=1)
        value = tilt * (top + nearest) + np.log(p) - np.log(q)
        slope = (positive * size).sum(axis=1) / p + (negative * size).sum(axis=1) / q
        low, high = np.where(value <= 0.0, tilt, low), np.where(value >= 0.0, tilt, high)
        step = tilt - value / slope
        middle = np.where(high > 4.0 * low, np.sqrt(low) * np.sqrt(high), 0.5 * (low + high))
        is_newton = (low <= step) & (step <= high)
        following = np.where(is_newton, step, middle)
        is_rounding = np.abs(value) <= ROUNDING * (1.0 + tilt * (top + nearest))
        done = is_rounding | (is_newton & (np.abs(step - tilt) <= NEWTON_TOLERANCE * step))
        result[rows] = np.where(is_rounding, tilt, following)
        if done.all():
            break
        rows, margin, size, top, nearest, low, high, tilt = (
            array[~done] for array in (rows, margin, size, top, nearest, low, high, following)
        )
    return result


def vertices(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the vertices of one set (center of shape (1, K)), each once: shape (V, K).

    They are the corners with d_k ≥ 0 and one point on each edge from a corner with d_i > 0 to one with d_j < 0.
    Corners on the plane are vertices themselves, so edges that start there add nothing.
    """
    margin = margins(center, radius)[0]
    corners = np.eye(len(margin))[margin >= 0.0]
    i, j = (index.ravel() for index in np.meshgrid(*map(np.flatnonzero, (margin > 0.0, margin < 0.0)), indexing="ij"))
    crossings = np.zeros((len(i), len(margin)))
    rows = np.arange(len(i))
    crossings[rows, i] = -margin[j] / (margin[i] - margin[j])
    crossings[rows, j] = margin[i] / (margin[i] - margin[j])
    return np.concatenate([corners, crossings])


def closest_with_top(center: FloatArray) -> FloatArray:
    r"""Return, for each class a, the smallest $1 - \langle\lambda, g\rangle$ with $\lambda_a \ge \lambda_b$ for all b.

    The extreme points of $\{\lambda : \lambda_a = \max\}$ are the uniform distributions on the sets S that contain a,
    so the optimum is one minus the largest mean of g over such an S: a together with the j classes of largest g, for
    the best j. (Counting a twice, when it is among these j, adds an element below the mean and never helps.)

    Returns
    -------
    ndarray of shape (N, K)
    """
    result = np.empty(center.shape)
    compiled = kernels(KERNELS, center.size)

    def one_block(rows: slice) -> None:
        g = center[rows]
        descending = np.sort(g, axis=1)[:, ::-1]
        if compiled is not None:
            compiled.closest_with_top(g, descending, result[rows])
            return
        mean = g.copy()
        prefix = np.zeros(len(g))
        for j, largest in enumerate(descending.T, start=1):
            prefix = prefix + largest
            np.maximum(mean, (g + prefix[:, None]) / (j + 1), out=mean)
        result[rows] = 1.0 - mean

    for_each_block(one_block, *center.shape)
    return result


def smallest_peak(center: FloatArray, level: FloatArray) -> FloatArray:
    """Return min max λ_k subject to ⟨λ, g⟩ ≥ level: fill the largest classes up to the cap, by bisection on the cap."""
    n, k = center.shape
    ranked = -np.sort(-center, axis=1)
    sums = np.concatenate([np.zeros((n, 1)), np.cumsum(ranked, axis=1)], axis=1)
    ranked = np.concatenate([ranked, np.zeros((n, 1))], axis=1)
    low, high = np.full(n, 1.0 / k), np.ones(n)
    rows = np.arange(n)

    def reach(cap: FloatArray) -> FloatArray:
        full = np.minimum((1.0 / cap + 1e-12).astype(np.int64), k)
        return cap * sums[rows, full] + np.maximum(1.0 - full * cap, 0.0) * ranked[rows, full]

    flat = reach(low) >= level
    for _ in range(55):
        middle = 0.5 * (low + high)
        good = reach(middle) >= level
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    return np.where(flat, 1.0 / k, high)
