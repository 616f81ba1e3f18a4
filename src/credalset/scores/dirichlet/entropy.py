"""Entropy bounds of the reverse-KL ball {λ : KL(m ‖ λ) ≤ r}, both exact.

Both optima are stationary points of the entropy on the surface KL = r, and both families have one parameter:
λ_k = Z m_k / y_k with y + log y (largest entropy) or y − log y (smallest) equal to a constant plus or minus log m_k.
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr, wrightomega

from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.scores.dirichlet.geometry import TINY, divergence, divergence_terms, phi, solve


def entropy_of(point: FloatArray) -> FloatArray:
    """−Σ λ log λ, with the largest λ taken as one minus the others: relatively accurate near a corner."""
    others = point.copy()
    others[np.arange(len(point)), point.argmax(axis=1)] = 0.0
    rest = others.sum(axis=1)
    return entr(others).sum(axis=1) - (1.0 - rest) * np.log1p(-rest)


def _log_ratios(center: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Largest mass (N, 1) and log(m_max/m_k) ≥ 0, accurate for near-ties; 0 where m_k = 0."""
    largest = center.max(axis=1, keepdims=True)
    safe = np.where(center > 0, center, largest)
    with np.errstate(over="ignore"):
        near = np.log1p((largest - safe) / safe)
    return largest, np.where(np.isfinite(near), near, np.log(largest) - np.log(safe))


def _max_entropy_curve(
    center: FloatArray, largest: FloatArray, log_ratio: FloatArray, theta: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """λ, KL(m ‖ λ) and −dKL/d log(1 + θ) at the point where ω = θ for the largest class."""
    theta = theta[:, None]
    omega = np.where(log_ratio > 0, wrightomega(theta + np.log(theta) - log_ratio), theta)
    faint = (omega < 1e-3) | (center <= 0)
    omega = np.where(center > 0, omega, 0.0)
    safe = np.where(faint, 1.0, omega)
    weight = np.where(faint, largest * np.exp(omega - theta), center * theta / safe)
    extra = np.where(faint, weight - center, center * (theta - safe) / safe).sum(axis=1, keepdims=True)
    scale = 1.0 / (1.0 + extra)
    point = scale * weight
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        excess = np.where(faint, point / center - 1.0, (theta - safe - scale * extra * theta) / safe)
    value = divergence_terms(center, point, excess, np.log(scale) + omega - theta + log_ratio).sum(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        change = np.where(np.abs(excess) < 0.1, center * excess, point - center) * omega / (1.0 + omega)
    theta = theta[:, 0]
    return point, value, -change.sum(axis=1) * (1.0 + theta) ** 2 / theta


def max_entropy(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Largest entropy and the member that has it.

    Uniform if it is a member. Otherwise −log λ_k − 1 + ν m_k/λ_k = μ; with y_k = ν m_k/λ_k this reads
    y_k + log y_k = log(s m_k), so y_k = ω(log s + log m_k) (Wright's omega) and λ_k ∝ e^(y_k) for every class, zero
    modes included (y = 0). KL(m ‖ λ) falls as s grows, and KL^(−1/2) is nearly linear in θ = y of the largest class.
    The bracket: y differs by at most L = log(m_max/m_min) between classes, so Hoeffding's lemma bounds KL by
    ¼ L²/θ² for θ ≥ 2L, and n zero-mode classes add at most n e^(−θ).
    """
    n_classes = center.shape[1]
    point = np.full(center.shape, 1.0 / n_classes)
    uniform_divergence = divergence(center, point)
    n_positive = (center > 0).sum(axis=1)
    outside = uniform_divergence > radius
    point[outside & (radius <= 0)] = center[outside & (radius <= 0)]
    one_hot = np.flatnonzero(outside & (radius > 0) & (n_positive == 1))
    point[one_hot] = -np.expm1(-radius[one_hot, None]) / (n_classes - 1)
    point[one_hot, center[one_hot].argmax(axis=1)] = np.exp(-radius[one_hot])
    rows = np.flatnonzero(outside & (radius > 0) & (n_positive > 1))
    if rows.size:
        m, r = center[rows], radius[rows]
        largest, log_ratio = _log_ratios(m)
        span = log_ratio.max(axis=1)
        theta = np.maximum(2.0 * span, 0.7 * span / np.sqrt(r))
        n_zero = n_classes - n_positive[rows]
        theta = np.maximum(theta, np.where(n_zero > 0, np.log(2.0 * np.maximum(n_zero, 1) / r), 0.0))
        start = -0.5 * np.log(uniform_divergence[rows] / r)
        x = solve(  # x = −log(1 + θ), along which the divergence rises
            lambda x: _max_entropy_curve(m, largest, log_ratio, np.maximum(np.expm1(-x), TINY))[1:],
            r,
            -np.log1p(theta),
            np.zeros_like(r),
            start,
        )
        point[rows] = _max_entropy_curve(m, largest, log_ratio, np.maximum(np.expm1(-x), TINY))[0]
    return entropy_of(point), point


def phi_inverse(q: FloatArray) -> FloatArray:
    """Return d ≥ 0 with d − log(1 + d) = q: series or asymptotic start, then Fritsch, Shafer and Crowley's steps."""
    s = np.sqrt(2.0 * q)
    near = np.minimum(s, 1.5)
    tail = 1 / 4320 + near * (1 / 17010 + near * (-139 / 5443200 + near / 204120))
    d = near * (1.0 + near * (1 / 3 + near * (1 / 36 + near * (-1 / 270 + near * tail))))
    d = np.where(s < 1.5, d, q + np.log(1.0 + q + np.log1p(q)))
    refine = s >= 0.01
    safe = np.where(refine, d, 1.0)
    for _ in range(3):
        z = np.where(refine, q - phi(safe), 0.0)
        p = 2.0 * safe * (safe + 2.0 * z / 3.0)
        safe = safe + z * (1.0 + safe) / safe * (p + z) / (p + 2.0 * z)
    return np.where(refine, safe, d)


class _StationaryCurve:
    """Stationary points of the entropy for rows of centres, by x = −log(1 + d) of the largest class.

    Class k has y_k = 1 + d_k with φ(d_k) = φ(d_top) + log(m_max/m_k) and d_k ≥ 0; only the largest class may have
    d < 0 (x > 0). See `min_entropy`.
    """

    def __init__(self, center: FloatArray) -> None:
        rows = np.arange(len(center))
        self.center = center
        self.top = center.argmax(axis=1)
        self.largest, self.log_ratio = _log_ratios(center)
        self.is_top = np.zeros(center.shape, dtype=bool)
        self.is_top[rows, self.top] = True
        self.is_rest: BoolArray = (center > 0) & ~self.is_top
        self.rest = np.where(self.is_rest, center, 0.0)

    def select(self, rows: IntArray | BoolArray) -> _StationaryCurve:
        return _StationaryCurve(self.center[rows])

    def offsets(self, x: FloatArray) -> FloatArray:
        """Return d, shape (N, K)."""
        d_top = np.expm1(-x)[:, None]
        q_top = np.where(np.abs(d_top) < 0.1, phi(d_top), d_top + x[:, None])
        return np.where(self.is_top, d_top, phi_inverse(q_top + self.log_ratio))

    def point_value_slope(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """λ, KL(m ‖ λ) and dKL/dx = Σ m σ d_top/d."""
        d = self.offsets(x)
        d_top, y_top = np.expm1(-x)[:, None], np.exp(-x)[:, None]
        above = (d - d_top) / np.where(self.is_rest, 1.0 + d, 1.0)
        missing = (self.rest * above).sum(axis=1, keepdims=True)
        scale = 1.0 / (1.0 - missing)
        relative = np.where(self.is_rest, y_top / (1.0 + np.where(self.is_rest, d, 0.0)), 1.0)
        excess = np.where(self.is_rest, scale * missing * relative - above, scale * missing)
        point = np.where(self.center > 0, self.center * scale * relative, 0.0)
        log_y = d - self.log_ratio - np.where(np.abs(d_top) < 0.1, phi(d_top), d_top + x[:, None])
        log_ratio = np.log(scale) - np.where(self.is_rest, x[:, None] + log_y, 0.0)
        value = divergence_terms(self.center, point, excess, log_ratio).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(self.is_rest & (d > 0), self.rest * excess * d_top / d, 0.0)
        slope = (self.largest * scale * missing)[:, 0] + part.sum(axis=1)
        return np.where(self.center > 0, np.maximum(point, TINY), 0.0), value, slope

    def value_slope(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.point_value_slope(x)[1:]

    def sums(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Σ m/d, Σ m/(1 + d) and Σ m (g² + g³), g = 1/d, over all classes but the largest."""
        d = np.where(self.is_rest, self.offsets(x), 1.0)
        with np.errstate(divide="ignore"):
            pull = self.rest / d
        return pull.sum(axis=1), (self.rest / (1.0 + d)).sum(axis=1), (pull * (1.0 + d) / (d * d)).sum(axis=1)


def _find_fold(curve: _StationaryCurve) -> FloatArray:
    """Return x > 0 where KL falls along the curve, 0 for rows where it never does.

    Bisects on the one sign change of Σ m θ(g) − θ(Σ m g) (see `min_entropy`), which any falling stretch contains, and
    stops when the slope is seen or bounded there: Σ m/d and Σ m/(1 + d) fall with x.
    """
    m = curve.largest[:, 0]
    fold = np.zeros(len(m))
    d = np.where(curve.is_rest, curve.offsets(np.zeros(len(m))), 1.0)
    with np.errstate(divide="ignore"):
        pull = (curve.rest / d).sum(axis=1)
        possible = (m < 0.5) & (pull > m + m / np.maximum(1.0 - m, 0.5))
    rows = np.flatnonzero(possible)
    low, high = np.maximum(0.5 * m[rows] / pull[rows], 1e-9), -np.log(m[rows])
    pull_low, harmonic_high = pull[rows], np.zeros(len(rows))
    for _ in range(30):
        if rows.size == 0:
            break
        x, top = np.sqrt(low * high), m[rows]
        others, harmonic, motion = curve.select(rows).sums(x)
        g = 1.0 / np.expm1(-x)
        mean = others + top * g
        inverse_scale = harmonic + top * np.exp(x)
        falls = (mean > 0) & (mean * (1.0 - inverse_scale) > inverse_scale)
        fold[rows[falls]] = x[falls]
        before = motion + top * g * g * (1.0 + g) < np.where(mean > 0, mean * mean * (1.0 + mean), 0.0)
        low, pull_low = np.where(before, x, low), np.where(before, others, pull_low)
        high, harmonic_high = np.where(before, high, x), np.where(before, harmonic_high, harmonic)
        most = pull_low + top / np.expm1(-high)
        least = harmonic_high + top * np.exp(low)
        with np.errstate(invalid="ignore"):
            keep = ~falls & ~(most * (1.0 - least) <= least)
        rows, low, high = rows[keep], low[keep], high[keep]
        pull_low, harmonic_high = pull_low[keep], harmonic_high[keep]
    return fold


def min_entropy(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Smallest entropy and a member that has it: the global minimum of a concave function, exact.

    *Stationary points.* Mass on a zero-mode class does better on a positive one, so λ lives where m > 0, and KL = r.
    There log λ_k + ν m_k/λ_k = c; y_k = ν m_k/λ_k solves y_k − log y_k = τ − log m_k, and λ_k ∝ e^(−y_k).
    *One curve.* If m_i > m_j then λ_i ≥ λ_j, else swapping them leaves slack in KL. But λ falls with m among classes
    with y < 1, and two such classes of equal m admit a descent direction: at most one class has y < 1, its λ is the
    largest, so its m is. The curve x = −log y_max ∈ ℝ holds every candidate.
    *Rising stretches.* With g = 1/(y − 1), G = Σ m g and ν = 1/Σ(m/y), dKL/dτ = D = 1 − (ν − 1)G, and the bordered
    Hessian has determinant −νD. KL rises for x < 0; for x > 0 a minimum needs D > 0, i.e. a stretch where KL rises.
    *At most two.* D = 0 means E ψ(g) = ψ(E g), ψ(g) = g/(1 + g), E the mean under m, and there D' has the sign of
    Q = E θ(g) − θ(E g), θ(g) = g² + g³. Where Q = 0 < G, Q' > 0: by Taylor remainders this follows from
    3g_k² + 2g_k ≤ 3g_max² + 2g_max, true because φ(−δ) ≥ φ(3δ/(3 − 2δ)) on (0, 1). So Q changes sign once, from − to
    +, and D is negative on at most one stretch, which contains that change. The inner and the outer rising stretch each
    hold at most one root of KL = r; the smaller entropy wins. Without a fold (D > 0 throughout) there is one root.
    """
    point = center.copy()
    rows = np.flatnonzero((radius > 0) & ((center > 0).sum(axis=1) > 1))
    if rows.size == 0:
        return entropy_of(point), point
    curve, r = _StationaryCurve(center[rows]), radius[rows]
    rest = curve.rest.sum(axis=1)
    span = curve.log_ratio.max(axis=1)
    low = -np.log1p(span / np.sqrt(8.0 * r))  # Hoeffding: log(λ/m) spans at most span/d_top
    with np.errstate(over="ignore"):
        high = np.minimum((r - np.log(curve.largest[:, 0])) / rest, 1e4)  # KL ≥ x Σ_rest m + log m_max
    start = _start(curve, r, rest)
    fold = _find_fold(curve)
    single = fold == 0
    branch = np.where(single, high, fold)
    x = np.empty_like(r)
    for rising, code in ((single, 0), (~single, -1)):
        if rising.any():
            part = curve.select(rising)
            x[rising] = solve(part.value_slope, r[rising], low[rising], branch[rising], start[rising], code)
    best = curve.point_value_slope(x)[0]
    if not single.all():
        part = curve.select(~single)
        outer = solve(part.value_slope, r[~single], fold[~single], high[~single], start[~single], 1)
        other, value, _ = part.point_value_slope(outer)
        better = (value <= r[~single] * (1.0 + 1e-12)) & (entropy_of(other) < entropy_of(best[~single]))
        best[np.flatnonzero(~single)[better]] = other[better]
    point[rows] = best
    return entropy_of(point), point


def _start(curve: _StationaryCurve, radius: FloatArray, rest: FloatArray) -> FloatArray:
    """First guess of x: power law on the near side of the fork x = 0, square root or line on the far side."""
    _, at_fork, _ = curve.point_value_slope(np.zeros_like(radius))
    mean = (curve.rest * curve.log_ratio).sum(axis=1)
    spread = (curve.rest * curve.log_ratio**2).sum(axis=1) - mean**2
    spare = np.maximum(radius - at_fork, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        growth = np.sqrt(2.0 * at_fork / spread)
        near = -np.log1p((np.sqrt(at_fork / radius) - 1.0) / growth)
        far = np.maximum(np.sqrt(spare / (2.0 * curve.largest[:, 0] * rest)), spare / rest)
    start = np.where(radius < at_fork, near, far)
    return np.where(np.isfinite(start), start, 0.0)
