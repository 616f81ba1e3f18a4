"""Exact geometry of {λ : ⟨λ, g⟩ ≥ 1 − r}, the simplex cut by one hyperplane: bounds, entropy, vertices.

Everything is written in the margins d_k = g_k + r − 1. Since Σ λ_k = 1, membership reads Σ λ_k d_k ≥ 0: corners with
d_k ≥ 0 are inside, corners with d_k < 0 outside, and the edge between an inside corner i and an outside corner j
crosses the plane where λ_j = d_i/(d_i − d_j). Volume and sampling are in `credalset.scores.inner_product.volume`.
"""

from __future__ import annotations

import numpy as np

from credalset._parallel import in_blocks
from credalset._typing import FloatArray, IntArray
from credalset.scores.pooling import pool
from credalset.sets.roots import newton

WHOLE_SIMPLEX = 2.0  # any radius from 1 on contains every corner; larger ones would only overflow


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
    return _margins(center, radius).T


def _margins(center: FloatArray, radius: FloatArray) -> FloatArray:
    """The same, classes first: (K, n)."""
    g, r = np.ascontiguousarray(center.T), np.minimum(radius, WHOLE_SIMPLEX)
    total = g + r
    rounded = total - g
    error = (g - (total - rounded)) + (r - rounded)
    margin = (total - 1.0) + error
    inside = 1.0 - g <= r
    margin = np.where(inside, np.maximum(margin, 0.0), np.minimum(margin, 0.0))
    return margin - np.minimum(margin.max(axis=0), 0.0)


@in_blocks()
def envelope(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Return the smallest and the largest probability of each class, arrays of shape (N, K).

    Let m be the class with the largest margin. Mass on class k with $d_k < 0$ is paid for best by mass on m, so
    $\max \lambda_k = d_m/(d_m - d_k)$ there and 1 where $d_k \ge 0$. A class can be avoided altogether unless it is m
    and every other corner lies outside; then the runner-up s is the cheapest alternative and
    $\min \lambda_m = -d_s/(d_m - d_s)$.
    """
    margin = _margins(center, radius)
    best, rows = margin.argmax(axis=0), np.arange(len(radius))
    top = margin[best, rows]
    upper = np.divide(top, top - margin, out=np.ones_like(margin), where=margin < 0.0)
    margin[best, rows] = -np.inf
    second = margin.max(axis=0)
    lower = np.zeros_like(margin)
    lower[best, rows] = np.divide(-second, top - second, out=np.zeros_like(second), where=second < 0.0)
    return lower.T, upper.T


@in_blocks()
def support(
    center: FloatArray, radius: FloatArray, utility: FloatArray, *, attaining: bool
) -> tuple[FloatArray, FloatArray | None]:
    r"""Return $\max \langle u, \lambda\rangle$ over each set, shape (N,), and a maximiser (N, K) if asked.

    A linear programme with one constraint besides the simplex: the optimum is the height at d = 0 of the upper hull of
    the points $(d_k, u_k)$. It is the corner of largest utility if that lies inside. Otherwise it is on the hull edge
    that crosses d = 0, found by cutting: start from the line between the corner of largest margin and the corner of
    largest utility; while some corner lies above the line, the one furthest above replaces the end on its own side.
    Each cut strictly narrows the range of margins, so there are at most K of them (three or four as a rule).
    """
    margin, u, rows = _margins(center, radius), np.ascontiguousarray(utility.T), np.arange(len(radius))
    inside, outside, share = _best_edge(margin, u)
    value = (1.0 - share) * u[inside, rows] + share * u[outside, rows]
    if not attaining:
        return value, None
    point = np.zeros(center.shape)
    point[rows, inside] = 1.0 - share
    point[rows, outside] += share
    return value, point


def _best_edge(margin: FloatArray, utility: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the ends of the optimal edge and the share of its second end (0 if the optimum is a corner)."""
    rows = np.arange(margin.shape[1])
    nearest = np.where(margin == margin.max(axis=0), utility, -np.inf).argmax(axis=0)
    richest = np.where(utility == utility.max(axis=0), margin, -np.inf).argmax(axis=0)
    inside = np.where(margin[richest, rows] >= 0.0, richest, nearest)
    outside = richest
    for _ in range(len(margin)):
        d_in, d_out, u_in = margin[inside, rows], margin[outside, rows], utility[inside, rows]
        above_line = (utility - u_in) * (d_in - d_out) - (utility[outside, rows] - u_in) * (d_in - margin)
        above_line = np.where((d_out < margin) & (margin < d_in), above_line, -np.inf)
        cut = above_line.argmax(axis=0)
        improves = above_line[cut, rows] > 0.0
        if not improves.any():
            break
        cut_is_inside = margin[cut, rows] >= 0.0
        inside = np.where(improves & cut_is_inside, cut, inside)
        outside = np.where(improves & ~cut_is_inside, cut, outside)
    d_in, d_out = margin[inside, rows], margin[outside, rows]
    share = np.divide(d_in, d_in - d_out, out=np.zeros(len(rows)), where=d_out < 0.0)
    return inside, outside, share


@in_blocks()
def max_entropy(center: FloatArray, radius: FloatArray, *, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
    r"""Return the largest entropy in each set (nats), shape (N,), and the distribution (N, K) that has it if asked.

    The uniform distribution if it is inside. Otherwise $\lambda_k \propto e^{\beta d_k}$ with $\beta > 0$ such that
    $\sum_k \lambda_k d_k = 0$ (stationarity of the Lagrangian), and by duality the entropy is
    $\log \sum_k e^{\beta d_k}$. Newton's method solves $h(\beta) = \log P - \log Q = 0$ with
    $P = \sum_{d_k > 0} d_k e^{\beta d_k}$ and $Q = \sum_{d_k < 0} |d_k| e^{-\beta |d_k|}$, which is close to a
    straight line: its slope is the mean of $d$ under the terms of P plus the mean of $|d|$ under those of Q. A bracket
    guards the steps. When the plane only touches the simplex ($\max d = 0$), the touching face is all there is.
    """
    margin = _margins(center, radius)
    top, tilt = margin.max(axis=0), np.zeros(len(radius))
    positive, negative = np.maximum(margin, 0.0).sum(axis=0), np.maximum(-margin, 0.0).sum(axis=0)
    cut = positive < negative
    rows = np.flatnonzero(cut & (top > 0.0))
    tilt[rows] = _tilt(margin[:, rows], top[rows])
    weights = np.exp(-tilt * (top - margin))
    touching = np.flatnonzero(cut & (top == 0.0))
    weights[:, touching] = margin[:, touching] == 0.0
    # One weight is exactly 1; adding up the others apart keeps the digits of a tiny entropy.
    weights[margin.argmax(axis=0), np.arange(len(top))] = 0.0
    others = weights.sum(axis=0)
    value = np.log1p(others) + tilt * top
    if not attaining:
        return value, None
    weights[margin.argmax(axis=0), np.arange(len(top))] = 1.0
    return value, (weights / (1.0 + others)).T


def _tilt(margin: FloatArray, top: FloatArray) -> FloatArray:
    """Solve Σ d_k exp(β d_k) = 0 for sets with Σ d_k < 0 < max d_k."""
    nearest = np.where(margin < 0.0, -margin, np.inf).min(axis=0)  # distance of the nearest outside corner

    def curve(
        x: FloatArray, margin: FloatArray, top: FloatArray, nearest: FloatArray, unit: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        tilt, inside = x * unit, margin > 0.0
        terms = margin * np.exp(tilt * (margin - np.where(inside, top, -nearest)))  # exponents are at most 0
        squares = terms * margin
        p, q = np.where(inside, terms, 0.0).sum(axis=0), np.where(inside, 0.0, terms).sum(axis=0)
        p_2, q_2 = np.where(inside, squares, 0.0).sum(axis=0), np.where(inside, 0.0, squares).sum(axis=0)
        return tilt * (top + nearest) + np.log(p) - np.log(-q), unit * (p_2 / p - q_2 / q)

    one = np.ones_like(top)
    value, slope = curve(0.0 * top, margin, top, nearest, one)
    unit = -value / slope  # the first step, in units of which the root is of order one as a rule
    return unit * newton(curve, (margin, top, nearest, unit), 0.0 * one, np.inf * one, one, 1e-9 * one)


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


@in_blocks()
def closest_with_top(center: FloatArray) -> FloatArray:
    r"""Return, for each class a, the smallest $1 - \langle\lambda, g\rangle$ with $\lambda_a \ge \lambda_b$ for all b.

    The extreme points of $\{\lambda : \lambda_a = \max\}$ are the uniform distributions on the sets S that contain a,
    so the optimum is one minus the largest mean of g over such an S: a together with the j classes of largest g, for
    the best j. (Counting a twice, when it is among these j, adds an element below the mean and never helps.)

    Returns
    -------
    ndarray of shape (N, K)
    """
    size, total = pool(center, np.positive)
    return 1.0 - total / size


@in_blocks()
def smallest_peak(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Return min max λ_k subject to ⟨λ, g⟩ ≥ 1 − r: fill the largest classes up to the cap.

    Under a cap between 1/(m + 1) and 1/m the m largest classes are full and the next one takes the rest, which reaches
    g_{m+1} + cap · Σ_{k≤m} (g_k − g_{m+1}): the mean of the m largest at cap 1/m, linear in between.
    """
    k, level, rows = center.shape[1], 1.0 - radius, np.arange(len(radius))
    ranked = np.sort(center, axis=1).T[::-1]
    sums, count = np.cumsum(ranked, axis=0), np.arange(1, k + 1)[:, None]
    m = np.maximum((sums / count >= level).sum(axis=0), 1)  # the means fall
    following = np.where(m < k, ranked[np.minimum(m, k - 1), rows], 0.0)
    room = sums[m - 1, rows] - m * following
    cap = np.divide(level - following, room, out=1.0 / m, where=(m < k) & (room > 0))
    return np.clip(cap, 1.0 / np.minimum(m + 1, k), 1.0 / m)
