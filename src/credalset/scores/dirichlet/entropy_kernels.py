"""Compiled entropy bounds of reverse-KL balls: twins of ``credalset.scores.dirichlet.entropy``."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from credalset._typing import FloatArray
from credalset.scores.dirichlet.geometry_kernels import (
    MAX_STEPS,
    TINY,
    divergence_term,
    is_last_step,
    newton_step,
    next_iterate,
    phi_series,
)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def entropy_of(point: FloatArray) -> float:
    """−Σ λ log λ, with the largest λ taken as one minus the others: relatively accurate near a corner."""
    top = np.argmax(point)
    total, rest = 0.0, 0.0
    for k in range(point.size):
        if k != top and point[k] > 0.0:
            total -= point[k] * math.log(point[k])
            rest += point[k]
    return total - (1.0 - rest) * math.log1p(-rest)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def wright_omega(l: float) -> float:
    """ω > 0 with ω + log ω = l (Fritsch, Shafer and Crowley's fourth-order step)."""
    if l < -40.0:
        return math.exp(l)
    if l < -1.5:
        w = math.exp(l)
        w /= 1.0 + w
    elif l < 4.0:
        w = 1.0 + 0.5 * (l - 1.0) + 0.0625 * (l - 1.0) * (l - 1.0)
    else:
        log_l = math.log(l)
        w = l - log_l + log_l / l
    for _ in range(8):
        z = l - w - math.log(w)
        q = 2.0 * (1.0 + w) * (1.0 + w + 2.0 * z / 3.0)
        step = z / (1.0 + w) * (q - z) / (q - 2.0 * z)
        w *= 1.0 + step
        if abs(step) < 1e-4:
            break
    return w


@nb.njit(cache=True, nogil=True, error_model="numpy")
def max_entropy_curve(
    center: FloatArray, log_ratio: FloatArray, top: int, theta: float, omega: FloatArray, point: FloatArray
) -> tuple[float, float]:
    """Write λ ∝ exp ω(l_k), l_k = θ + log θ + log(m_k/m_top); return KL(m ‖ λ) and its slope in log(1 + θ)."""
    log_theta = math.log(theta)
    tail = center[top] * math.exp(-theta)
    extra = 0.0
    for k in range(center.size):
        if center[k] <= 0.0:
            extra += tail
            continue
        w = theta if k == top else wright_omega(theta + log_theta + log_ratio[k])
        omega[k] = w
        if w < 1e-3:
            extra += center[top] * math.exp(w - theta) - center[k]
        else:
            extra += center[k] * (theta - w) / w
    scale = 1.0 / (1.0 + extra)
    top_excess = -scale * extra
    log_scale = math.log(scale)
    divergence = 0.0
    slope = 0.0
    for k in range(center.size):
        m = center[k]
        if m <= 0.0:
            point[k] = scale * tail
            divergence += point[k]
            continue
        w = omega[k]
        if w < 1e-3:
            point[k] = scale * center[top] * math.exp(w - theta)
            excess = point[k] / m - 1.0
        else:
            point[k] = scale * m * theta / w
            excess = (top_excess * theta + (theta - w)) / w
        divergence += divergence_term(m, point[k], excess, log_scale + w - theta - log_ratio[k])
        slope += (m * excess if abs(excess) < 0.1 else point[k] - m) * w / (1.0 + w)
    return divergence, slope * (1.0 + theta) * (1.0 + theta) / theta


@nb.njit(cache=True, nogil=True, error_model="numpy")
def max_entropy_row(
    center: FloatArray, radius: float, log_ratio: FloatArray, omega: FloatArray, point: FloatArray
) -> int:
    """Write the member of largest entropy; return the number of steps taken."""
    n = center.size
    top = int(np.argmax(center))
    n_positive = 0
    span = 0.0
    uniform_divergence = 0.0
    for k in range(n):
        m = center[k]
        if m > 0.0:
            n_positive += 1
            log_ratio[k] = math.log(m / center[top])
            span = max(span, -log_ratio[k])
            uniform_divergence += divergence_term(m, 1.0 / n, 1.0 / n / m - 1.0, -math.log(m * n))
        else:
            uniform_divergence += 1.0 / n
    if uniform_divergence <= radius:
        point[:] = 1.0 / n
        return 0
    if radius <= 0.0:
        point[:] = center
        return 0
    if n_positive == 1:
        point[:] = -math.expm1(-radius) / (n - 1)
        point[top] = math.exp(-radius)
        return 0
    theta = max(2.0 * span, 0.7 * span / math.sqrt(radius))
    if n_positive < n:
        theta = max(theta, math.log(2.0 * (n - n_positive) / radius))
    low, high = 0.0, math.log1p(theta)
    u = min(0.5 * math.log(uniform_divergence / radius), high)
    previous = math.inf
    steps = 0
    while steps < MAX_STEPS:
        steps += 1
        theta = math.expm1(u)
        divergence, slope = max_entropy_curve(center, log_ratio, top, theta, omega, point)
        if divergence > radius:
            low = u
        else:
            high = u
        newton = math.log(divergence / radius) * divergence / slope
        if is_last_step(-u, newton, divergence, radius):
            u -= newton
            break
        if high - low <= 4e-16 * u:
            break
        following = next_iterate(u, newton, low, high, previous)
        previous = abs(following - u)
        u = following
    max_entropy_curve(center, log_ratio, top, math.expm1(u), omega, point)
    return steps


@nb.njit(cache=True, nogil=True, error_model="numpy")
def max_entropy(center: FloatArray, radius: FloatArray, value: FloatArray, point: FloatArray) -> None:
    """Largest entropy and the member that has it, for every row."""
    log_ratio = np.zeros(center.shape[1])
    omega = np.zeros(center.shape[1])
    for i in range(center.shape[0]):
        max_entropy_row(center[i], radius[i], log_ratio, omega, point[i])
        value[i] = entropy_of(point[i])


@nb.njit(cache=True, nogil=True, error_model="numpy")
def phi_inverse(q: float) -> float:
    """Return d ≥ 0 with d − log(1 + d) = q ≥ 0."""
    s = math.sqrt(2.0 * q)
    if s < 1.5:
        c = 1 / 4320 + s * (1 / 17010 + s * (-139 / 5443200 + s / 204120))
        d = s * (1.0 + s * (1 / 3 + s * (1 / 36 + s * (-1 / 270 + s * c))))
        if s < 0.01:
            return d
    else:
        log_q = math.log1p(q)
        d = q + math.log(1.0 + q + log_q)
    for _ in range(8):
        z = q - (phi_series(d) if d < 0.15 else d - math.log1p(d))
        p = 2.0 * d * (d + 2.0 * z / 3.0)
        step = z * (1.0 + d) / d * (p + z) / (p + 2.0 * z)
        d += step
        if abs(step) < 1e-4 * d:
            break
    return d


@nb.njit(cache=True, nogil=True, error_model="numpy")
def min_entropy_curve(
    center: FloatArray, log_ratio: FloatArray, top: int, x: float, d: FloatArray, point: FloatArray
) -> tuple[float, float]:
    """Write λ ∝ m/(1 + d) of the stationary curve at x = −log(1 + d_top); return KL(m ‖ λ) and dKL/dx."""
    d_top = math.expm1(-x)
    y_top = math.exp(-x)
    q_top = phi_series(d_top) if abs(d_top) < 0.1 else d_top + x
    missing = 0.0
    for k in range(center.size):
        if k != top and center[k] > 0.0:
            d[k] = phi_inverse(q_top + log_ratio[k])
            missing += center[k] * (d[k] - d_top) / (1.0 + d[k])
    scale = 1.0 / (1.0 - missing)
    top_excess = scale * missing
    log_scale = math.log(scale)
    divergence = divergence_term(center[top], scale * center[top], top_excess, log_scale)
    slope = 0.0
    point[top] = scale * center[top]
    for k in range(center.size):
        m = center[k]
        if m <= 0.0:
            point[k] = 0.0
        elif k != top:
            y = 1.0 + d[k]
            excess = (top_excess * y_top - (d[k] - d_top)) / y
            mass = m * scale * y_top / y
            log_y = d[k] - q_top - log_ratio[k]
            divergence += divergence_term(m, mass, excess, log_scale - x - log_y)
            if d[k] > 0.0:
                slope += m * excess / d[k]
            point[k] = max(mass, TINY)
    return divergence, center[top] * top_excess + d_top * slope


@nb.njit(cache=True, nogil=True, error_model="numpy")
def fold_sums(center: FloatArray, log_ratio: FloatArray, top: int, x: float) -> tuple[float, float, float]:
    """Σ m/d, Σ m/(1 + d) and Σ m (g² + g³), g = 1/d, over all classes but the top one, at x = −log(1 + d_top)."""
    d_top = math.expm1(-x)
    q_top = phi_series(d_top) if abs(d_top) < 0.1 else d_top + x
    pull, harmonic, motion = 0.0, 0.0, 0.0
    for k in range(center.size):
        if k != top and center[k] > 0.0:
            d = phi_inverse(q_top + log_ratio[k])
            part = center[k] / d
            pull += part
            harmonic += center[k] / (1.0 + d)
            motion += part * (1.0 + d) / (d * d)
    return pull, harmonic, motion


@nb.njit(cache=True, nogil=True, error_model="numpy")
def find_fold(center: FloatArray, log_ratio: FloatArray, top: int, pull: float) -> float:
    """Return x inside the stretch where KL falls along the stationary curve, 0 when it never does."""
    m = center[top]
    if m >= 0.5 or pull <= m + m / (1.0 - m):
        return 0.0
    low, high = max(0.5 * m / pull, 1e-9), -math.log(m)
    pull_low, harmonic_high = pull, 0.0
    for _ in range(30):
        x = math.sqrt(low * high)
        others, harmonic, motion = fold_sums(center, log_ratio, top, x)
        g = 1.0 / math.expm1(-x)
        mean = others + m * g
        if mean > 0.0 and mean * (1.0 - harmonic - m * math.exp(x)) > harmonic + m * math.exp(x):
            return x
        if motion + m * g * g * (1.0 + g) < (mean * mean * (1.0 + mean) if mean > 0.0 else 0.0):
            low, pull_low = x, others
        else:
            high, harmonic_high = x, harmonic
        # Both sums fall with x, so these ends bound the slope over the whole bracket.
        most = pull_low + m / math.expm1(-high)
        least = harmonic_high + m * math.exp(low)
        if most * (1.0 - least) <= least:
            return 0.0
    return 0.0


@nb.njit(cache=True, nogil=True, error_model="numpy")
def min_entropy_root(
    center: FloatArray,
    radius: float,
    log_ratio: FloatArray,
    top: int,
    bracket: tuple[float, float],
    start: float,
    branch: int,
    d: FloatArray,
    point: FloatArray,
) -> float:
    """Solve KL = radius on the inner (branch −1), outer (+1) or only (0) rising stretch; return the KL reached."""
    low, high = bracket
    x = min(max(start, low), high)
    previous = math.inf
    divergence = 0.0
    for _ in range(MAX_STEPS):
        divergence, slope = min_entropy_curve(center, log_ratio, top, x, d, point)
        falling = slope < 0.0 and x > 0.0
        beyond = divergence > radius
        if branch < 0:
            beyond = beyond or falling
        elif branch > 0:
            beyond = beyond and not falling
        if beyond:
            high = x
        else:
            low = x
        newton = newton_step(divergence, slope, radius) if slope > 0.0 else math.inf
        if is_last_step(x, newton, divergence, radius):
            x -= newton
            break
        if high - low <= 4e-16 * abs(x):
            break
        following = next_iterate(x, newton, low, high, previous)
        previous = abs(following - x)
        x = following
    divergence, _ = min_entropy_curve(center, log_ratio, top, x, d, point)
    return divergence


@nb.njit(cache=True, nogil=True, error_model="numpy")
def min_entropy_row(
    center: FloatArray,
    radius: float,
    log_ratio: FloatArray,
    d: FloatArray,
    other: FloatArray,
    point: FloatArray,
) -> float:
    """Write the member of smallest entropy; return that entropy."""
    top = int(np.argmax(center))
    rest = 0.0
    span = 0.0
    mean = 0.0
    square = 0.0
    for k in range(center.size):
        m = center[k]
        if k != top and m > 0.0:
            log_ratio[k] = math.log1p((center[top] - m) / m)
            rest += m
            span = max(span, log_ratio[k])
            mean += m * log_ratio[k]
            square += m * log_ratio[k] * log_ratio[k]
    if radius <= 0.0 or rest <= 0.0:
        point[:] = center
        return entropy_of(point)
    low = -math.log1p(span / math.sqrt(8.0 * radius))
    high = min((radius - math.log(center[top])) / rest, 1e4)
    at_fork, _ = min_entropy_curve(center, log_ratio, top, 0.0, d, point)
    pull = 0.0
    for k in range(center.size):
        if k != top and center[k] > 0.0:
            pull += center[k] / d[k]
    fold = find_fold(center, log_ratio, top, pull)
    if radius < at_fork:
        growth = math.sqrt(2.0 * at_fork / (square - mean * mean))
        start = -math.log1p((math.sqrt(at_fork / radius) - 1.0) / growth)
    else:
        spare = radius - at_fork
        start = max(math.sqrt(spare / (2.0 * center[top] * rest)), spare / rest)
    if fold == 0.0:
        min_entropy_root(center, radius, log_ratio, top, (low, high), start, 0, d, point)
        return entropy_of(point)
    min_entropy_root(center, radius, log_ratio, top, (low, fold), start, -1, d, point)
    inner = entropy_of(point)
    reached = min_entropy_root(center, radius, log_ratio, top, (fold, high), start, 1, d, other)
    if reached <= radius * (1.0 + 1e-12):
        outer = entropy_of(other)
        if outer < inner:
            point[:] = other
            return outer
    return inner


@nb.njit(cache=True, nogil=True, error_model="numpy")
def min_entropy(center: FloatArray, radius: FloatArray, value: FloatArray, point: FloatArray) -> None:
    """Smallest entropy and a member that has it, for every row."""
    log_ratio = np.zeros(center.shape[1])
    d = np.zeros(center.shape[1])
    other = np.zeros(center.shape[1])
    for i in range(center.shape[0]):
        value[i] = min_entropy_row(center[i], radius[i], log_ratio, d, other, point[i])
