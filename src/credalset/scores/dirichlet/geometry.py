"""Geometry of the reverse-KL ball {λ : KL(m ‖ λ) ≤ r}: envelope, support function, rays, order constraints.

Everything rests on one identity. With σ_k = λ_k/m_k − 1 and φ(x) = x − log(1 + x) ≥ 0,

    KL(m ‖ λ) = Σ_{m_k > 0} m_k φ(σ_k) + Σ_{m_k = 0} λ_k,

a sum of terms that are never negative: no cancellation, however small the ball. Optima have the form
λ_k = Z m_k / y_k with one unknown y per class that depends on a single scalar, so each question is one scalar root.
Questions take rows ``center`` (N, K) and ``radius`` (N,), finite and not negative; inside, classes come first, (K, n),
so that sums over them run along memory.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlog1py

from credalset._parallel import in_blocks
from credalset._typing import FloatArray
from credalset.scores.pooling import pool
from credalset.sets.roots import among, newton

TINY = float(np.finfo(np.float64).tiny)  # a positive mass never rounds to zero: the point would leave the ball


def phi_series(x: FloatArray) -> FloatArray:
    """φ(x) = x − log(1 + x) for |x| ≤ 0.15, through log(1 + x) = 2 artanh(x / (2 + x))."""
    t = x / (2.0 + x)
    s = t * t
    tail = 1 / 3 + s * (1 / 5 + s * (1 / 7 + s * (1 / 9 + s * (1 / 11 + s * (1 / 13 + s / 15)))))
    return x * t - 2.0 * t * s * tail


def phi(x: FloatArray) -> FloatArray:
    """φ(x) = x − log(1 + x), accurate near zero."""
    with np.errstate(all="ignore"):
        return np.where(np.abs(x) < 0.1, phi_series(x), x - np.log(1.0 + x))


def divergence_terms(center: FloatArray, point: FloatArray, excess: FloatArray, log_ratio: FloatArray) -> FloatArray:
    """Return m φ(σ) per class from σ = λ/m − 1 and log(λ/m); λ where m = 0."""
    with np.errstate(all="ignore"):
        terms = np.where(np.abs(excess) < 0.1, center * phi_series(excess), point - center - center * log_ratio)
        return np.where(center > 0, terms, point)


def share(mass: FloatArray, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What a class adds to the divergence, and its derivative in the probability; +inf where that is zero."""
    with np.errstate(all="ignore"):
        log_ratio = np.log(probability) - np.log(mass)
        value = divergence_terms(mass, probability, (probability - mass) / mass, log_ratio)
        return value, np.where(mass > 0, (probability - mass) / probability, 1.0)


@in_blocks()
def divergence(points: FloatArray, center: FloatArray) -> FloatArray:
    """KL(m ‖ λ) of points (N, M, K); +inf where λ misses a class of m."""
    return share(center[:, None, :], points)[0].sum(axis=-1)


def relative_to(radius: FloatArray, value: FloatArray, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What a divergence misses the radius by, and the slope of that: on logarithms where the radius is below one.

    Small divergences grow like exp(2x) along the curves of this module, large ones like x.
    """
    small = radius < 1.0
    return np.where(small, np.log(value / radius), value - radius), np.where(small, slope / value, slope)


def log_shrinkage(a: FloatArray, b: FloatArray, radius: FloatArray) -> FloatArray:
    """Return s ≥ 0 with d(a ‖ a·e^(−s)) = radius, where b = 1 − a and d is the binary KL divergence.

    F(s) = a φ(e^(−s) − 1) + b φ(a(1 − e^(−s))/b) is convex, between (a/2b) s² for small and a s + b log b for large s.
    The guess joins both; Householder steps of order four, whose derivatives cost nothing, finish: two as a rule.
    """
    shape = np.broadcast_shapes(a.shape, radius.shape)
    a, b, radius = (np.broadcast_to(array, shape).ravel() for array in (a, b, radius))
    with np.errstate(all="ignore"):
        limit = radius / a
        y = np.sqrt(2.0 * b * limit)
        z = y * (1.0 + 2.0 * b) / b
        s = np.maximum(y, limit + 3.0 * y / np.sqrt(9.0 + z * z))
        beyond = (b <= TINY) | (radius > 750.0 * a)  # e^(−s) is below every floating-point number
        s = np.where(radius > 0, np.where(beyond, limit, s), 0.0)
        rows = np.flatnonzero((radius > 0) & ~beyond)
        a, b, radius, now = a[rows], b[rows], radius[rows], s[rows]
        for _ in range(12):
            step = _shrinkage_step(now, a, b, radius)
            s[rows] = now = now - step
            open_rows = np.flatnonzero(~(np.abs(step) < 1e-4 * now))
            if not len(open_rows):
                break
            rows, a, b, radius, now = among(open_rows, rows, a, b, radius, now)
    return s.reshape(shape)


def _shrinkage_step(s: FloatArray, a: FloatArray, b: FloatArray, radius: FloatArray) -> FloatArray:
    """One step towards F(s) = radius; its second and third parts come from the second and third derivative of F."""
    loss = -np.expm1(-s)
    moved = a * loss
    rest = b + moved
    value = a * np.where(s < 0.1, phi_series(-loss), s - loss) + b * phi(moved / b) - radius
    first = value / moved * rest
    second = 0.5 * (b / rest) * ((1.0 - loss) / loss * first)
    third = second * (first / rest) * (1.0 + a * (1.0 - loss)) / 3.0
    return first * (1.0 - second) / (1.0 - 2.0 * second - third)


@in_blocks(lambda size: 2 * size)
def envelope(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest probability of every class.

    For fixed λ_k the other classes do best in proportion to m, which leaves the binary divergence
    d(m_k ‖ λ_k) = m_k log(m_k/λ_k) + (1 − m_k) log((1 − m_k)/(1 − λ_k)) ≤ r. Written λ_k = m_k e^(−s) below and
    1 − λ_k = (1 − m_k) e^(−s) above, both ends are `log_shrinkage` and keep their relative accuracy.
    A class of zero mode has [0, 1 − e^(−r)].
    """
    m = np.ascontiguousarray(center.T)
    rest = 1.0 - m
    shrinkage = log_shrinkage(np.where(m > 0, m, 1.0), np.where(m > 0, rest, 0.0), radius)
    growth = log_shrinkage(np.where(rest > 0, rest, 1.0), np.where(rest > 0, m, 0.0), radius)
    return (m * np.exp(-shrinkage)).T, np.minimum(m - rest * np.expm1(-growth), 1.0).T


def binary_log_width(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Logarithm of the length of the interval of λ_1 for two classes, accurate for the smallest radius."""
    a, b = center[:, 0], center[:, 1]
    down = log_shrinkage(np.where(a > 0, a, 1.0), np.where(a > 0, b, 0.0), radius)
    up = log_shrinkage(np.where(b > 0, b, 1.0), np.where(b > 0, a, 0.0), radius)
    with np.errstate(divide="ignore"):
        return np.minimum(np.log(-a * np.expm1(-down) - b * np.expm1(-up)), 0.0)


def _support_curve(t: FloatArray, m: FloatArray, gap: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """λ ∝ m/(t + gap), KL(m ‖ λ) and −t · dKL/dt = Σ m σ² · t Σ m/(t + gap)."""
    total = t + gap
    ratio, missing = t / total, gap / total
    scale = 1.0 / (m * ratio).sum(axis=0)
    excess = (scale * (m * missing).sum(axis=0)) * ratio - missing
    grown = scale * ratio
    value = divergence_terms(m, m * grown, excess, np.log(grown)).sum(axis=0)
    return m * grown, value, (m * excess * excess).sum(axis=0) / scale


def _support_on_positive(m: FloatArray, gap: FloatArray, radius: FloatArray) -> FloatArray:
    """Maximiser on the support of the centre, x = −log t; gaps lie in [0, 1] and differ.

    log(λ/m) spans less than 1/t, so by Hoeffding's lemma KL ≤ 1/(8t²): the lower end of the bracket.
    """

    def curve(x: FloatArray, m: FloatArray, gap: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
        return relative_to(radius, *_support_curve(np.exp(-x), m, gap)[1:])

    low, high = 0.5 * np.log(8.0 * radius), np.full_like(radius, 690.0)
    x = newton(curve, (m, gap, radius), low, high, low, np.full_like(radius, 1e-7))
    return np.where(m > 0, np.maximum(_support_curve(np.exp(-x), m, gap)[0], TINY), 0.0)


@in_blocks(lambda size: 2 * size)
def support(
    center: FloatArray, radius: FloatArray, utility: FloatArray, *, attaining: bool
) -> tuple[FloatArray, FloatArray | None]:
    """Largest expected utility and a maximiser.

    Stationarity gives λ_k = ν m_k/(η − u_k) where m_k > 0, with η = max u + t above every such u_k; KL(m ‖ λ) falls
    from +inf to 0 as t grows, one root. A class of zero mode takes part only if its utility reaches η: then η is that
    utility, the others keep the shape λ(η) with mass exp(KL(m ‖ λ(η)) − r), and the best such class gets the rest.
    """
    m, u = np.ascontiguousarray(center.T), np.ascontiguousarray(utility.T)
    positive = m > 0
    best = np.where(positive, u, -np.inf).max(axis=0)
    spare_utility = np.where(positive, -np.inf, u)
    lead = spare_utility.max(axis=0) - best
    gap = np.where(positive, np.maximum(best - u, 0.0), 0.0)
    width = gap.max(axis=0)
    unit = np.where(width > 0, width, 1.0)
    gap = gap / unit
    point = m.copy()
    open_rows = (radius > 0) & ((width > 0) | (lead > 0))
    rows = np.flatnonzero(open_rows & (lead > 0))
    shape, value, _ = _support_curve(lead[rows] / unit[rows], m[:, rows], gap[:, rows])
    beyond = value - radius[rows]
    full = beyond <= 0
    rows, beyond, shape = rows[full], beyond[full], shape[:, full]
    point[:, rows] = np.where(positive[:, rows], np.maximum(np.exp(beyond) * shape, TINY), 0.0)
    point[spare_utility[:, rows].argmax(axis=0), rows] = -np.expm1(beyond)
    open_rows[rows] = False
    rows = np.flatnonzero(open_rows & (width > 0))
    point[:, rows] = _support_on_positive(m[:, rows], gap[:, rows], radius[rows])
    return (u * point).sum(axis=0), point.T if attaining else None


@in_blocks(lambda size: 2 * size)
def ray_length(directions: FloatArray, center: FloatArray, radius: FloatArray) -> FloatArray:
    """Largest t with center + t · direction in the ball, for directions (N, M, K) that sum to zero: (N, M).

    KL(m ‖ m + t d) = Σ m φ(t d/m) + t Σ_{m=0} d is convex in t and infinite at T = min m/(−d), where the ray leaves the
    simplex. With t = T(1 − e^(−w)) the class that ends the ray keeps the mass m e^(−w): no cancellation. Above w = 45,
    t equals T in double precision.
    """
    n, n_each, k = directions.shape
    d = np.ascontiguousarray(directions.reshape(-1, k).T)
    m, r = np.ascontiguousarray(np.repeat(center, n_each, axis=0).T), np.repeat(radius, n_each)
    with np.errstate(all="ignore"):
        limits = np.where((m > 0) & (d < 0), -m / d, np.inf)
    end, blocked = limits.min(axis=0), ((m <= 0) & (d < 0)).any(axis=0)
    result = np.where(blocked | (r <= 0), np.where(np.isinf(end) & ~blocked, np.inf, 0.0), end)
    rows = np.flatnonzero(~blocked & (r > 0) & np.isfinite(end) & (end > 0))
    m, d, r, end, limits = m[:, rows], d[:, rows], r[rows], end[rows], limits[:, rows]
    leak = np.where(m > 0, 0.0, d).sum(axis=0)
    with np.errstate(all="ignore"):
        lost = np.where(m > 0, np.minimum(-d * end / m, 1.0), 0.0)  # share of each class that is gone at the end
        squares = np.where(m > 0, d * d / m, 0.0).sum(axis=0)
        guess = 2.0 * r / (leak + np.sqrt(leak * leak + 2.0 * r * squares))
        high = np.minimum(1.0 + r / np.where(limits == end, m, 0.0).max(axis=0), 45.0)
        start = np.where(guess < end, -np.log1p(-guess / end), 0.5 * high)
    w = newton(_ray_curve, (m, lost, leak * end, r), np.zeros_like(r), high, start, 1e-9 * np.minimum(start, 1.0))
    result[rows] = -end * np.expm1(-w)
    return result.reshape(n, n_each)


def _ray_curve(
    w: FloatArray, m: FloatArray, lost: FloatArray, leak: FloatArray, radius: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """KL at t = T(1 − e^(−w)) and its derivative in w, relative to the radius."""
    loss, left = -np.expm1(-w), np.exp(-w)
    gone = lost * loss
    ratio = np.where(gone < 0.1, 1.0 - gone, 1.0 - lost + lost * left)
    value = np.where(m > 0, divergence_terms(m, m * ratio, -gone, np.log(ratio)), 0.0).sum(axis=0) + leak * loss
    return relative_to(radius, value, ((m * lost * gone / ratio).sum(axis=0) + leak) * left)


@in_blocks(lambda size: 2 * size)
def closest_with_top(center: FloatArray) -> FloatArray:
    """Smallest KL(m ‖ λ) over λ whose largest class is a, for every class a (ties allowed).

    The maximum-likelihood point under λ_a ≥ λ_b: class a is pooled with the largest classes, at their arithmetic
    mean t, as long as the next larger class exceeds t; all other classes keep m. Hence KL = Σ_pool m log(m/t).
    Masses are written m_max (1 − δ), so near-ties keep their relative accuracy.
    """
    largest = center.max(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        size, kept, cost = pool((center - largest) / largest, np.positive, lambda x: xlog1py(1.0 + x, x))
    return np.maximum(largest * (cost - (size + kept) * np.log1p(kept / size)), 0.0)
