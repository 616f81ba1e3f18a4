"""Geometry of the reverse-KL ball {λ : KL(m ‖ λ) ≤ r}: envelope, support function, rays, order constraints.

Everything rests on one identity. With σ_k = λ_k/m_k − 1 and φ(x) = x − log(1 + x) ≥ 0,

    KL(m ‖ λ) = Σ_{m_k > 0} m_k φ(σ_k) + Σ_{m_k = 0} λ_k,

a sum of terms that are never negative: no cancellation, however small the ball. Optima have the form
λ_k = Z m_k / y_k with one unknown y per class that depends on a single scalar, so each question is one scalar root.
All functions work on rows: ``center`` (N, K), ``radius`` (N,), finite and not negative.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from credalset._typing import BoolArray, FloatArray

TINY = float(np.finfo(np.float64).tiny)  # a positive mass never rounds to zero: the point would leave the ball
MAX_STEPS = 100

Curve = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


def phi_series(x: FloatArray) -> FloatArray:
    """φ(x) = x − log(1 + x) for |x| ≤ 0.15, through log(1 + x) = 2 artanh(x / (2 + x))."""
    t = x / (2.0 + x)
    s = t * t
    tail = 1 / 3 + s * (1 / 5 + s * (1 / 7 + s * (1 / 9 + s * (1 / 11 + s * (1 / 13 + s / 15)))))
    return x * t - 2.0 * t * s * tail


def phi(x: FloatArray) -> FloatArray:
    """φ(x) = x − log(1 + x), accurate near zero."""
    small = np.abs(x) < 0.1
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(small, phi_series(np.where(small, x, 0.0)), x - np.log1p(x))


def divergence_terms(center: FloatArray, point: FloatArray, excess: FloatArray, log_ratio: FloatArray) -> FloatArray:
    """Return m φ(σ) per class from σ = λ/m − 1 and log(λ/m); λ where m = 0."""
    small = np.abs(excess) < 0.1
    series = center * phi_series(np.where(small, excess, 0.0))
    terms = np.where(small, series, point - center - center * log_ratio)
    return np.where(center > 0, terms, point)


def divergence(center: FloatArray, point: FloatArray) -> FloatArray:
    """KL(m ‖ λ) of arrays that broadcast against each other, classes last; +inf where λ misses a class of m."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_ratio = np.log(point) - np.log(center)
        return divergence_terms(center, point, (point - center) / center, log_ratio).sum(axis=-1)


def solve(
    curve: Curve, radius: FloatArray, low: FloatArray, high: FloatArray, start: FloatArray, branch: int = 0
) -> FloatArray:
    """Solve divergence(x) = radius per row by Newton steps that a shrinking bracket keeps safe.

    Parameters
    ----------
    curve : callable
        Maps x (N,) to the divergence and its derivative; the divergence rises from ``low`` to ``high``. Newton runs on
        its logarithm where the radius is below one: small divergences grow like exp(2x), large ones like x.
    radius, low, high, start : ndarray of shape (N,)
    branch : int
        0: the divergence rises throughout. −1 (+1): it falls near ``high`` (``low``), and that stretch counts as
        beyond (before) the root.
    """
    x = np.clip(start, low, high)
    previous = np.full_like(x, np.inf)
    done = np.zeros(len(x), dtype=bool)
    for _ in range(MAX_STEPS):
        value, slope = curve(x)
        falling = (slope < 0) & (x > 0)
        beyond = value > radius
        if branch:
            beyond = beyond | falling if branch < 0 else beyond & ~falling
        high = np.where(beyond & ~done, x, high)
        low = np.where(beyond | done, low, x)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            miss = np.where(radius < 1.0, np.log(value / radius) * value, value - radius)
            newton = np.where(slope > 0, miss / slope, np.inf)
            rounding = np.abs(newton) <= 1e-9 * np.abs(x) + 1e-15 * np.maximum(np.expm1(-x), 0.0)
        rounding = rounding & (np.abs(value - radius) < 0.01 * radius)
        collapsed = high - low <= 4e-16 * np.abs(x)
        inside = (x - newton > low) & (x - newton < high) & (np.abs(newton) < 0.75 * previous)
        following = np.where(inside | rounding, x - newton, 0.5 * (low + high))
        following = np.where(done | (collapsed & ~rounding), x, following)
        previous = np.abs(following - x)
        x = following
        done = done | rounding | collapsed
        if done.all():
            break
    return x


def log_shrinkage(a: FloatArray, b: FloatArray, radius: FloatArray) -> FloatArray:
    """Return s ≥ 0 with d(a ‖ a·e^(−s)) = radius, where b = 1 − a and d is the binary KL divergence.

    F(s) = a φ(e^(−s) − 1) + b φ(a(1 − e^(−s))/b) is convex, between (a/2b) s² for small and a s + b log b for large s.
    The guess joins both; Householder steps of order four, whose derivatives cost nothing, finish.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        limit = radius / a
        y = np.sqrt(2.0 * b * limit)
        z = y * (1.0 + b + 4.0 * np.sqrt(b)) / b
        s = np.maximum(y, limit + 6.0 * y / np.sqrt(36.0 + z * z))
        for _ in range(4):
            loss = -np.expm1(-s)
            moved = a * loss
            rest = b + moved
            small = s < 0.15
            value = a * np.where(small, phi_series(np.where(small, -loss, 0.0)), s - loss) - radius
            value += b * phi(moved / b)
            newton = value / moved * rest
            second = 0.5 * (b / rest) * ((1.0 - loss) / loss * newton)  # from F''
            third = second * (newton / rest) * (1.0 + a * (1.0 - loss)) / 3.0  # from F'''
            s = s - newton * (1.0 - second) / (1.0 - 2.0 * second - third)
        s = np.where((b <= TINY) | (radius > 750.0 * a), limit, s)
    return np.where(radius > 0, s, 0.0)


def envelope(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest probability of every class.

    For fixed λ_k the other classes do best in proportion to m, which leaves the binary divergence
    d(m_k ‖ λ_k) = m_k log(m_k/λ_k) + (1 − m_k) log((1 − m_k)/(1 − λ_k)) ≤ r. Written λ_k = m_k e^(−s) below and
    1 − λ_k = (1 − m_k) e^(−s) above, both ends are `log_shrinkage` and keep their relative accuracy.
    A class of zero mode has [0, 1 − e^(−r)].
    """
    rest = 1.0 - center
    r = np.broadcast_to(radius[:, None], center.shape)
    shrinkage = log_shrinkage(np.where(center > 0, center, 1.0), np.where(center > 0, rest, 0.0), r)
    growth = log_shrinkage(np.where(rest > 0, rest, 1.0), np.where(rest > 0, center, 0.0), r)
    return center * np.exp(-shrinkage), np.minimum(center - rest * np.expm1(-growth), 1.0)


def binary_log_width(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Logarithm of the length of the interval of λ_1 for two classes, accurate for the smallest radius."""
    a, b = center[:, 0], center[:, 1]
    down = log_shrinkage(np.where(a > 0, a, 1.0), np.where(a > 0, b, 0.0), radius)
    up = log_shrinkage(np.where(b > 0, b, 1.0), np.where(b > 0, a, 0.0), radius)
    with np.errstate(divide="ignore"):
        return np.minimum(np.log(-a * np.expm1(-down) - b * np.expm1(-up)), 0.0)


def _support_curve(center: FloatArray, gap: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """λ ∝ m/(t + gap), KL(m ‖ λ) and −t · dKL/dt = Σ m σ² · t Σ m/(t + gap)."""
    total = t[:, None] + gap
    ratio = t[:, None] / total
    scale = 1.0 / (center * ratio).sum(axis=1)
    excess = (scale * (center * gap / total).sum(axis=1))[:, None] * ratio - gap / total
    point = center * scale[:, None] * ratio
    value = divergence_terms(center, point, excess, np.log(scale[:, None] * ratio)).sum(axis=1)
    return point, value, (center * excess * excess).sum(axis=1) / scale


def _support_on_positive(center: FloatArray, gap: FloatArray, radius: FloatArray) -> FloatArray:
    """Maximiser on the support of the centre, x = −log t; gaps lie in [0, 1] and differ.

    log(λ/m) spans less than 1/t, so by Hoeffding's lemma KL ≤ 1/(8t²): the lower end of the bracket.
    """
    mean = (center * gap).sum(axis=1)
    spread = (center * gap * gap).sum(axis=1) - mean * mean
    start = -np.log(np.maximum(np.sqrt(np.maximum(spread, 0.0) / (2.0 * radius)), 1e-300))
    x = solve(
        lambda x: _support_curve(center, gap, np.exp(-x))[1:],
        radius,
        0.5 * np.log(8.0 * radius),
        np.full_like(radius, 690.0),
        start,
    )
    return np.where(center > 0, np.maximum(_support_curve(center, gap, np.exp(-x))[0], TINY), 0.0)


def support(center: FloatArray, radius: FloatArray, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Largest expected utility and a maximiser.

    Stationarity gives λ_k = ν m_k/(η − u_k) where m_k > 0, with η = max u + t above every such u_k; KL(m ‖ λ) falls
    from +inf to 0 as t grows, one root. A class of zero mode takes part only if its utility reaches η: then η is that
    utility, the others keep the shape λ(η) with mass exp(KL(m ‖ λ(η)) − r), and the best such class gets the rest.
    """
    positive = center > 0
    best = np.where(positive, utility, -np.inf).max(axis=1)
    spare_utility = np.where(positive, -np.inf, utility)
    spare = spare_utility.argmax(axis=1)
    lead = spare_utility.max(axis=1) - best
    gap = np.where(positive, np.maximum(best[:, None] - utility, 0.0), 0.0)
    width = gap.max(axis=1)
    gap = gap / np.where(width > 0, width, 1.0)[:, None]
    point = center.copy()
    open_rows = (radius > 0) & ((width > 0) | (lead > 0))
    reaches = np.zeros(len(center), dtype=bool)
    rows = np.flatnonzero(open_rows & (lead > 0))
    if rows.size:
        shape, value, _ = _support_curve(
            center[rows], gap[rows], lead[rows] / np.where(width[rows] > 0, width[rows], 1.0)
        )
        excess = value - radius[rows]
        reaches[rows] = excess <= 0
        full = excess <= 0
        rows, excess, shape = rows[full], excess[full], shape[full]
        point[rows] = np.where(positive[rows], np.maximum(np.exp(excess)[:, None] * shape, TINY), 0.0)
        point[rows, spare[rows]] = -np.expm1(excess)
    rows = np.flatnonzero(open_rows & (width > 0) & ~reaches)
    if rows.size:
        point[rows] = _support_on_positive(center[rows], gap[rows], radius[rows])
    return (utility * point).sum(axis=1), point


def ray_length(center: FloatArray, radius: FloatArray, direction: FloatArray) -> FloatArray:
    """Largest t with center + t · direction in the ball, per row; directions sum to zero.

    KL(m ‖ m + t d) = Σ m φ(t d/m) + t Σ_{m=0} d is convex in t and infinite at T = min m/(−d), where the ray leaves the
    simplex. With t = T(1 − e^(−w)) the class that ends the ray keeps the mass m e^(−w): no cancellation. Above w = 45,
    t equals T in double precision.
    """
    positive = center > 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        limits = np.where(positive & (direction < 0), -center / direction, np.inf)
    end = limits.min(axis=1)
    blocked = np.any(~positive & (direction < 0), axis=1)
    result = np.where(blocked | (radius <= 0), np.where(np.isinf(end) & ~blocked, np.inf, 0.0), end)
    rows = np.flatnonzero(~blocked & (radius > 0) & np.isfinite(end) & (end > 0))
    if rows.size == 0:
        return result
    m, d, r, end = center[rows], direction[rows], radius[rows], end[rows]
    leak = np.where(m > 0, 0.0, d).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.where(m > 0, np.minimum(-d * end[:, None] / m, 1.0), 0.0)
        squares = np.where(m > 0, d * d / m, 0.0).sum(axis=1)
        guess = 2.0 * r / (leak + np.sqrt(leak * leak + 2.0 * r * squares))

    def curve(w: FloatArray) -> tuple[FloatArray, FloatArray]:
        loss = -np.expm1(-w)[:, None]
        left = 1.0 - share + share * np.exp(-w)[:, None]
        left = np.where(share * loss < 0.1, 1.0 - share * loss, left)
        value = divergence_terms(m, m * left, -share * loss, np.log(left))
        value = np.where(m > 0, value, d * (end[:, None] * loss))
        slope = np.where(m > 0, d * -share * loss / left, d).sum(axis=1) * end * np.exp(-w)
        return value.sum(axis=1), slope

    ender = np.where(limits[rows] == end[:, None], m, 0.0).max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        high = np.minimum(1.0 + r / ender, 45.0)
        start = np.where(guess < end, -np.log1p(-guess / end), 0.5 * high)
    w = solve(curve, r, np.zeros_like(r), high, start)
    result[rows] = -end * np.expm1(-w)
    return result


def closest_with_top(center: FloatArray) -> FloatArray:
    """Smallest KL(m ‖ λ) over λ whose largest class is a, for every class a (ties allowed).

    The maximum-likelihood point under λ_a ≥ λ_b: class a is pooled with the largest classes, at their arithmetic
    mean t, as long as the next larger class exceeds t; all other classes keep m. Hence KL = Σ_pool m log(m/t).
    Masses are written m_max (1 − δ), so near-ties keep their relative accuracy.
    """
    n_classes = center.shape[1]
    largest = center.max(axis=1, keepdims=True)
    deficit = (largest - center) / largest
    ordered = np.sort(deficit, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = np.where(deficit < 1, (1.0 - deficit) * np.log1p(-deficit), 0.0)
        ordered_cost = np.where(ordered < 1, (1.0 - ordered) * np.log1p(-ordered), 0.0)
    pooled_deficit, pooled_cost, size = deficit.copy(), cost, np.ones_like(center)
    growing: BoolArray = np.ones(center.shape, dtype=bool)
    for j in range(n_classes):
        candidate = ordered[:, j : j + 1]
        growing = growing & (candidate < pooled_deficit / size)
        if not growing.any():
            break
        pooled_deficit = np.where(growing, pooled_deficit + candidate, pooled_deficit)
        pooled_cost = np.where(growing, pooled_cost + ordered_cost[:, j : j + 1], pooled_cost)
        size = np.where(growing, size + 1.0, size)
    level = pooled_deficit / size
    return np.maximum(largest * (pooled_cost - (size - pooled_deficit) * np.log1p(-level)), 0.0)
