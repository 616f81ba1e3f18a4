"""Compiled geometry of reverse-KL balls: the row-by-row twins of ``credalset.scores.dirichlet.geometry``.

The derivations live there. Every kernel takes rows of centres and radii (finite, not negative) and writes rows.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from credalset._typing import FloatArray

TINY = 2.2250738585072014e-308  # smallest normal number: a positive mass never rounds to zero
MAX_STEPS = 100


@nb.njit(cache=True, nogil=True, error_model="numpy")
def phi_series(x: float) -> float:
    """φ(x) = x − log(1 + x) for |x| ≤ 0.15, through log(1 + x) = 2 artanh(x / (2 + x))."""
    t = x / (2.0 + x)
    s = t * t
    tail = 1 / 3 + s * (1 / 5 + s * (1 / 7 + s * (1 / 9 + s * (1 / 11 + s * (1 / 13 + s / 15)))))
    return x * t - 2.0 * t * s * tail


@nb.njit(cache=True, nogil=True, error_model="numpy")
def divergence_term(center: float, point: float, excess: float, log_ratio: float) -> float:
    """Return m log(m/λ) − m + λ from σ = λ/m − 1 and log(λ/m), without cancellation for λ near m."""
    if abs(excess) < 0.1:
        return center * phi_series(excess)
    return point - center - center * log_ratio


@nb.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def shrink(a: float, b: float, radius: float) -> tuple[float, float]:
    """Return e^(−s) and 1 − e^(−s) with d(a ‖ a·e^(−s)) = radius, b = 1 − a; two steps of order four do."""
    if b <= TINY or radius > 750.0 * a:  # e^(−s) is below every floating-point number
        return math.exp(-radius / a), -math.expm1(-radius / a)
    inverse_b = 1.0 / b
    limit = radius / a
    y = math.sqrt(2.0 * b * limit)
    z = y * (1.0 + 2.0 * b) * inverse_b
    s = max(y, limit + 3.0 * y / math.sqrt(9.0 + z * z))
    for _ in range(12):
        if s < 0.02:
            loss = s * (1.0 - s * (1 / 2 - s * (1 / 6 - s * (1 / 24 - s * (1 / 120 - s * (1 / 720 - s / 5040))))))
            kept = 1.0 - loss
            value = a * phi_series(-loss) - radius
        else:
            kept = math.exp(-s)
            loss = 1.0 - kept
            value = a * (s - loss) - radius
        moved = a * loss
        rest = b + moved
        if moved < 0.02 * b:
            value += b * phi_series(moved * inverse_b)
        else:
            value += moved - b * math.log(rest * inverse_b)
        per_moved, per_rest = 1.0 / moved, 1.0 / rest
        newton = value * per_moved * rest
        second = 0.5 * (b * per_rest) * (a * kept * per_moved * newton)  # from F''
        third = second * (newton * per_rest) * (1.0 + a * kept) * (1 / 3)  # from F'''
        step = newton * (1.0 - second) / (1.0 - 2.0 * second - third)
        s -= step
        if abs(step) < 1e-4 * s:
            break
    if abs(step) > 0.01:
        return math.exp(-s), -math.expm1(-s)
    growth = step * (1.0 + step * (1 / 2 + step * (1 / 6 + step * (1 / 24 + step * (1 / 120 + step / 720)))))
    return kept * (1.0 + growth), loss - kept * growth


@nb.njit(cache=True, nogil=True, error_model="numpy")
def envelope(center: FloatArray, radius: FloatArray, lower: FloatArray, upper: FloatArray) -> None:
    """Smallest and largest probability of every class."""
    for i in range(center.shape[0]):
        r = radius[i]
        for k in range(center.shape[1]):
            a = center[i, k]
            b = 1.0 - a
            if r <= 0.0:
                lower[i, k] = a
                upper[i, k] = a
            elif a <= 0.0:
                lower[i, k] = 0.0
                upper[i, k] = -math.expm1(-r)
            elif b <= 0.0:
                lower[i, k] = math.exp(-r)
                upper[i, k] = 1.0
            else:
                kept, _ = shrink(a, b, r)
                lower[i, k] = a * kept
                _, lost = shrink(b, a, r)
                upper[i, k] = min(a + b * lost, 1.0)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def newton_step(divergence: float, slope: float, radius: float) -> float:
    """Newton's step towards divergence = radius, on the logarithm for small radii (see ``geometry``'s ``solve``)."""
    if radius < 1.0:
        return math.log(divergence / radius) * divergence / slope
    return (divergence - radius) / slope


@nb.njit(cache=True, nogil=True, error_model="numpy")
def is_last_step(x: float, newton: float, divergence: float, radius: float) -> bool:
    """Tell whether only rounding is left after this Newton step."""
    close = abs(newton) <= 1e-9 * abs(x) + 1e-15 * max(math.expm1(-x), 0.0)
    return close and abs(divergence - radius) < 0.01 * radius


@nb.njit(cache=True, nogil=True, error_model="numpy")
def next_iterate(x: float, newton: float, low: float, high: float, previous: float) -> float:
    """One Newton step if it stays strictly inside the bracket and shrinks, otherwise the midpoint."""
    candidate = x - newton
    if low < candidate < high and abs(newton) < 0.75 * previous:
        return candidate
    return 0.5 * (low + high)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def support_curve(center: FloatArray, gap: FloatArray, t: float, point: FloatArray) -> tuple[float, float]:
    """Write λ ∝ m/(t + gap); return KL(m ‖ λ) and −t · dKL/dt."""
    missing, kept = 0.0, 0.0
    for k in range(center.size):
        missing += center[k] * gap[k] / (t + gap[k])
        kept += center[k] * (t / (t + gap[k]))
    scale = 1.0 / kept
    top_excess = scale * missing
    log_scale = math.log(scale)
    divergence = 0.0
    slope = 0.0
    for k in range(center.size):
        m = center[k]
        if m <= 0.0:
            point[k] = 0.0
            continue
        ratio = t / (t + gap[k])
        excess = top_excess * ratio - gap[k] / (t + gap[k])
        point[k] = max(m * scale * ratio, TINY)
        log_ratio = 0.0 if abs(excess) < 0.1 else log_scale + math.log(ratio)
        divergence += divergence_term(m, m * scale * ratio, excess, log_ratio)
        slope += m * excess * excess
    return divergence, slope / scale


@nb.njit(cache=True, nogil=True, error_model="numpy")
def support_on_positive(center: FloatArray, gap: FloatArray, radius: float, point: FloatArray) -> None:
    """Write the maximiser among distributions on the support of the centre; gaps lie in [0, 1]."""
    mean = 0.0
    square = 0.0
    for k in range(center.size):
        mean += center[k] * gap[k]
        square += center[k] * gap[k] * gap[k]
    spread = math.sqrt(max(square - mean * mean, 0.0) / (2.0 * radius))
    low = 0.5 * math.log(8.0 * radius)
    high = 690.0
    x = -math.log(max(spread, 1e-300))
    x = min(max(x, low), high)
    previous = math.inf
    for _ in range(MAX_STEPS):
        divergence, slope = support_curve(center, gap, math.exp(-x), point)
        if divergence < radius:
            low = x
        else:
            high = x
        newton = newton_step(divergence, slope, radius)
        if is_last_step(x, newton, divergence, radius):
            x -= newton
            break
        if high - low <= 4e-16 * abs(x):
            break
        following = next_iterate(x, newton, low, high, previous)
        previous = abs(following - x)
        x = following
    support_curve(center, gap, math.exp(-x), point)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def support(center: FloatArray, radius: FloatArray, utility: FloatArray, value: FloatArray, point: FloatArray) -> None:
    """Largest expected utility and a maximiser of every row."""
    gap = np.empty(center.shape[1])
    for i in range(center.shape[0]):
        m, u, r = center[i], utility[i], radius[i]
        best = -math.inf
        best_spare = -math.inf
        spare = -1
        for k in range(m.size):
            if m[k] > 0.0:
                best = max(best, u[k])
            elif u[k] > best_spare:
                best_spare = u[k]
                spare = k
        scale = 0.0
        for k in range(m.size):
            gap[k] = max(best - u[k], 0.0) if m[k] > 0.0 else 0.0
            scale = max(scale, gap[k])
        if scale > 0.0:
            for k in range(m.size):
                gap[k] /= scale
        kept = 1.0
        if r <= 0.0:
            point[i] = m
        elif best_spare > best:
            t = (best_spare - best) / (scale if scale > 0.0 else 1.0)
            divergence, _ = support_curve(m, gap, t, point[i])
            if divergence <= r:
                kept = math.exp(divergence - r)
                for k in range(m.size):
                    point[i, k] *= kept
                point[i, spare] = -math.expm1(divergence - r)
            else:
                support_on_positive(m, gap, r, point[i])
        elif scale > 0.0:
            support_on_positive(m, gap, r, point[i])
        else:
            point[i] = m
        total = 0.0
        for k in range(m.size):
            total += u[k] * point[i, k]
        value[i] = total


@nb.njit(cache=True, nogil=True, error_model="numpy")
def ray_curve(center: FloatArray, direction: FloatArray, end: float, w: float) -> tuple[float, float]:
    """KL(m ‖ m + t d) at t = end · (1 − e^(−w)), and its derivative in w."""
    left = math.exp(-w)
    loss = -math.expm1(-w)
    value, slope = 0.0, 0.0
    for k in range(center.size):
        m, d = center[k], direction[k]
        if m > 0.0:
            share = min(-d * end / m, 1.0)
            excess = -share * loss
            ratio = 1.0 + excess if excess > -0.1 else 1.0 - share + share * left
            log_ratio = 0.0 if abs(excess) < 0.1 else math.log(ratio)
            value += divergence_term(m, m * ratio, excess, log_ratio)
            slope += d * excess / ratio
        else:
            value += d * end * loss
            slope += d
    return value, slope * end * left


@nb.njit(cache=True, nogil=True, error_model="numpy")
def ray_root(center: FloatArray, radius: float, direction: FloatArray, end: float, ender: float) -> float:
    """Distance along one ray that leaves the simplex at ``end``, where a class of mass ``ender`` vanishes."""
    leak, squares = 0.0, 0.0
    for k in range(center.size):
        if center[k] > 0.0:
            squares += direction[k] * direction[k] / center[k]
        else:
            leak += direction[k]
    guess = 2.0 * radius / (leak + math.sqrt(leak * leak + 2.0 * radius * squares))
    low, high = 0.0, min(1.0 + radius / ender, 45.0)
    w = min(-math.log1p(-guess / end), high) if guess < end else 0.5 * high
    previous = math.inf
    for _ in range(MAX_STEPS):
        value, slope = ray_curve(center, direction, end, w)
        if value > radius:
            high = w
        else:
            low = w
        newton = newton_step(value, slope, radius) if slope > 0.0 else math.inf
        if is_last_step(w, newton, value, radius):
            w -= newton
            break
        if high - low <= 4e-16 * w:
            break
        following = next_iterate(w, newton, low, high, previous)
        previous = abs(following - w)
        w = following
    return -end * math.expm1(-w)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def ray_length(center: FloatArray, radius: FloatArray, direction: FloatArray, out: FloatArray) -> None:
    """Largest t with center + t · direction in the ball, for every row."""
    for i in range(center.shape[0]):
        end, ender = math.inf, 0.0
        blocked = False
        for k in range(center.shape[1]):
            m, d = center[i, k], direction[i, k]
            if d < 0.0:
                blocked = blocked or m <= 0.0
                if -m / d < end:
                    end, ender = -m / d, m
        if blocked or end == 0.0 or (radius[i] <= 0.0 and end < math.inf):
            out[i] = 0.0
        elif end == math.inf:
            out[i] = math.inf
        else:
            out[i] = ray_root(center[i], radius[i], direction[i], end, ender)
