"""Entropy bounds of the reverse-KL ball {λ : KL(m ‖ λ) ≤ r}, both exact.

Both optima are stationary points of the entropy on the surface KL = r, and both families have one parameter:
λ_k = Z m_k / y_k with y + log y (largest entropy) or y − log y (smallest) equal to a constant plus or minus log m_k.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import wrightomega

from credalset._parallel import in_blocks
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.scores.dirichlet.geometry import TINY, divergence_terms, phi, phi_series, relative_to, share
from credalset.sets.roots import newton
from credalset.simplex import precise_entropy


def _log_ratios(m: FloatArray, largest: FloatArray) -> FloatArray:
    """log(m_max/m_k) ≥ 0, accurate for near-ties; 0 where m_k = 0."""
    safe = np.where(m > 0, m, largest)
    with np.errstate(over="ignore"):
        near = np.log1p((largest - safe) / safe)
    return np.where(np.isfinite(near), near, np.log(largest) - np.log(safe))


def _max_entropy_curve(
    theta: FloatArray, m: FloatArray, largest: FloatArray, log_ratio: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """λ, KL(m ‖ λ) and −dKL/d log(1 + θ) at the point where ω = θ for the largest class."""
    omega = np.where(log_ratio > 0, wrightomega(theta + np.log(theta) - log_ratio), theta)
    faint = (omega < 1e-3) | (m <= 0)
    omega = np.where(m > 0, omega, 0.0)
    safe = np.where(faint, 1.0, omega)
    weight = np.where(faint, largest * np.exp(omega - theta), m * theta / safe)
    extra = np.where(faint, weight - m, m * (theta - safe) / safe).sum(axis=0)
    scale = 1.0 / (1.0 + extra)
    point = scale * weight
    excess = np.where(faint, point / m - 1.0, (theta - safe - scale * extra * theta) / safe)
    value = divergence_terms(m, point, excess, np.log(scale) + omega - theta + log_ratio).sum(axis=0)
    change = np.where(np.abs(excess) < 0.1, m * excess, point - m) * omega / (1.0 + omega)
    return point, value, -change.sum(axis=0) * (1.0 + theta) ** 2 / theta


@in_blocks(lambda size: 2 * size)
def max_entropy(center: FloatArray, radius: FloatArray, *, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
    """Largest entropy and the member that has it.

    Uniform if it is a member. Otherwise −log λ_k − 1 + ν m_k/λ_k = μ; with y_k = ν m_k/λ_k this reads
    y_k + log y_k = log(s m_k), so y_k = ω(log s + log m_k) (Wright's omega) and λ_k ∝ e^(y_k) for every class, zero
    modes included (y = 0). KL(m ‖ λ) falls as s grows, and KL^(−1/2) is nearly linear in θ = y of the largest class.
    The bracket: y differs by at most L = log(m_max/m_min) between classes, so Hoeffding's lemma bounds KL by
    ¼ L²/θ² for θ ≥ 2L, and n zero-mode classes add at most n e^(−θ).
    """
    m = np.ascontiguousarray(center.T)
    n_classes, n_positive = len(m), (m > 0).sum(axis=0)
    point = np.full(m.shape, 1.0 / n_classes)
    uniform = share(m, point)[0].sum(axis=0)
    outside = uniform > radius
    point = np.where(outside & (radius <= 0), m, point)
    rows = np.flatnonzero(outside & (radius > 0) & (n_positive == 1))
    point[:, rows] = -np.expm1(-radius[rows]) / (n_classes - 1)
    point[m[:, rows].argmax(axis=0), rows] = np.exp(-radius[rows])
    rows = np.flatnonzero(outside & (radius > 0) & (n_positive > 1))
    m, r, largest = m[:, rows], radius[rows], m[:, rows].max(axis=0)
    log_ratio = _log_ratios(m, largest)
    span, n_zero = log_ratio.max(axis=0), n_classes - n_positive[rows]
    theta = np.maximum(2.0 * span, 0.7 * span / np.sqrt(r))
    theta = np.maximum(theta, np.where(n_zero > 0, np.log(2.0 * np.maximum(n_zero, 1) / r), 0.0))

    def curve(
        x: FloatArray, m: FloatArray, largest: FloatArray, log_ratio: FloatArray, radius: FloatArray
    ) -> tuple[FloatArray, FloatArray]:  # x = −log(1 + θ), along which the divergence rises
        theta = np.maximum(np.expm1(-x), TINY)
        return relative_to(radius, *_max_entropy_curve(theta, m, largest, log_ratio)[1:])

    start, tolerance = -np.log1p(1.75 * (np.sqrt(uniform[rows] / r) - 1.0)), np.full_like(r, 1e-7)
    x = newton(curve, (m, largest, log_ratio, r), -np.log1p(theta), np.zeros_like(r), start, tolerance)
    with np.errstate(all="ignore"):
        point[:, rows] = _max_entropy_curve(np.maximum(np.expm1(-x), TINY), m, largest, log_ratio)[0]
    return precise_entropy(point), point.T if attaining else None


def phi_inverse(q: FloatArray) -> FloatArray:
    """Return d ≥ 0 with d − log(1 + d) = q: series or asymptotic start, then Fritsch, Shafer and Crowley's steps."""
    s = np.sqrt(2.0 * q)
    near = np.minimum(s, 1.5)
    tail = 1 / 4320 + near * (1 / 17010 + near * (-139 / 5443200 + near / 204120))
    d = near * (1.0 + near * (1 / 3 + near * (1 / 36 + near * (-1 / 270 + near * tail))))
    d = np.where(s < 1.5, d, q + np.log(1.0 + q + np.log(1.0 + q)))
    refine = s >= 0.01
    safe = np.where(refine, d, 1.0)
    for _ in range(2):
        z = np.where(refine, q - phi(safe), 0.0)
        p = 2.0 * safe * (safe + 2.0 * z / 3.0)
        safe = safe + z * (1.0 + safe) / safe * (p + z) / (p + 2.0 * z)
    return np.where(refine, safe, d)


class Stationary(NamedTuple):
    """Modes, classes first, the largest apart: its mass (n,), those of the others and log(largest / them), (K − 1, n).

    Stationary points of the entropy lie on a curve with parameter x = −log(1 + d) of the largest class: another class
    has y_k = 1 + d_k with φ(d_k) = φ(d_top) + log(m_max/m_k) and d_k ≥ 0; only the largest class may have d < 0, x > 0.
    See `min_entropy`.
    """

    top: FloatArray
    others: FloatArray
    log_ratio: FloatArray

    @staticmethod
    def of(m: FloatArray) -> tuple[Stationary, IntArray]:
        """Take the largest class of modes (K, n) apart; the order that puts it first comes along."""
        order = np.argsort(-m, axis=0, kind="stable")
        ranked = np.take_along_axis(m, order, axis=0)
        return Stationary(ranked[0], ranked[1:], _log_ratios(ranked[1:], ranked[0])), order

    def select(self, rows: IntArray | BoolArray) -> Stationary:
        """The same for some of the modes."""
        return Stationary(*(array[..., rows] for array in self))


def _offsets(x: FloatArray, modes: Stationary) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return d of the largest class and φ of it, (n,), and d of the others, (K − 1, n)."""
    d_top = np.expm1(-x)
    q_top = np.where(np.abs(d_top) < 0.1, phi_series(d_top), d_top + x)
    return d_top, q_top, phi_inverse(q_top + modes.log_ratio)


def stationary_point(x: FloatArray, modes: Stationary) -> tuple[FloatArray, FloatArray, FloatArray]:
    """λ with the largest class first, KL(m ‖ λ), and dKL/dx = Σ m σ d_top/d."""
    top, others, log_ratio = modes
    with np.errstate(all="ignore"):
        d_top, q_top, d = _offsets(x, modes)
        above = (d - d_top) / (1.0 + d)
        missing = (others * above).sum(axis=0)
        scale = 1.0 / (1.0 - missing)
        relative = np.exp(-x) / (1.0 + d)
        excess = scale * missing * relative - above
        point = others * scale * relative
        log_scale = np.log(scale)
        value = divergence_terms(others, point, excess, log_scale - x - (d - log_ratio - q_top)).sum(axis=0)
        value += divergence_terms(top, top * scale, scale * missing, log_scale)
        pull = np.where(d > 0, others * excess / d, 0.0).sum(axis=0)
    point = np.where(others > 0, np.maximum(point, TINY), 0.0)
    return np.concatenate([(top * scale)[None], point]), value, top * scale * missing + d_top * pull


def _fold_sums(x: FloatArray, modes: Stationary) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Σ m/d, Σ m/(1 + d) and Σ m (g² + g³), g = 1/d, over all classes but the largest."""
    d = _offsets(x, modes)[2]
    pull = np.where(modes.others > 0, modes.others / d, 0.0)
    return pull.sum(axis=0), (modes.others / (1.0 + d)).sum(axis=0), (pull * (1.0 + d) / (d * d)).sum(axis=0)


def find_fold(modes: Stationary) -> FloatArray:
    """Return x > 0 where KL falls along the curve, 0 for modes where it never does.

    Bisects on the one sign change of Σ m θ(g) − θ(Σ m g) (see `min_entropy`), which any falling stretch contains, and
    stops when the slope is seen or bounded there: Σ m/d and Σ m/(1 + d) fall with x.
    """
    fold = np.zeros(len(modes.top))
    with np.errstate(all="ignore"):
        pull, m = _fold_sums(fold, modes)[0], modes.top
        rows = np.flatnonzero((m < 0.5) & (pull > m + m / np.maximum(1.0 - m, 0.5)))
        low, high = np.maximum(0.5 * m[rows] / pull[rows], 1e-9), -np.log(m[rows])
        pull_low, harmonic_high, part = pull[rows], np.zeros(len(rows)), modes.select(rows)
        for _ in range(30):
            if rows.size == 0:
                break
            x, top = np.sqrt(low * high), part.top
            others, harmonic, motion = _fold_sums(x, part)
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
            keep = ~falls & ~(most * (1.0 - least) <= least)
            rows, low, high, pull_low, harmonic_high = (
                array[keep] for array in (rows, low, high, pull_low, harmonic_high)
            )
            part = part.select(keep)
    return fold


def _solve(
    modes: Stationary, radius: FloatArray, low: FloatArray, high: FloatArray, start: FloatArray, branch: int
) -> FloatArray:
    """Solve KL = radius along the curve on the inner (branch −1), outer (+1) or only (0) rising stretch.

    Where KL falls, near ``high`` (−1) or ``low`` (+1), counts as beyond, or before, the root.
    """

    def curve(x: FloatArray, *data: FloatArray) -> tuple[FloatArray, FloatArray]:
        value, slope = stationary_point(x, Stationary(*data[:3]))[1:]
        falling = (slope < 0) & (x > 0) & (branch != 0)
        miss, slope = relative_to(data[3], value, slope)
        return np.where(falling, -branch * np.inf, miss), np.where(falling, np.nan, slope)

    return newton(curve, (*modes, radius), low, high, start, np.full_like(radius, 1e-7))


@in_blocks(lambda size: 2 * size)
def min_entropy(center: FloatArray, radius: FloatArray, *, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
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
    point = np.ascontiguousarray(center.T)
    rows = np.flatnonzero((radius > 0) & ((point > 0).sum(axis=0) > 1))
    modes, order = Stationary.of(point[:, rows])
    r, rest, span = radius[rows], modes.others.sum(axis=0), modes.log_ratio.max(axis=0, initial=0.0)
    low = -np.log1p(span / np.sqrt(8.0 * r))  # Hoeffding: log(λ/m) spans at most span/d_top
    with np.errstate(over="ignore"):
        high = np.minimum((r - np.log(modes.top)) / rest, 1e4)  # KL ≥ x Σ_rest m + log m_max
    start, fold = 0.5 * low, find_fold(modes)
    x = np.empty_like(r)
    for rising, end, branch in ((fold == 0, high, 0), (fold > 0, fold, -1)):
        x[rising] = _solve(modes.select(rising), r[rising], low[rising], end[rising], start[rising], branch)
    best = stationary_point(x, modes)[0]
    folded = np.flatnonzero(fold > 0)
    part, limit = modes.select(folded), r[folded]
    other, value, _ = stationary_point(_solve(part, limit, fold[folded], high[folded], start[folded], 1), part)
    better = (value <= limit * (1.0 + 1e-12)) & (precise_entropy(other) < precise_entropy(best[:, folded]))
    best[:, folded[better]] = other[:, better]
    point = point.copy()
    point[order, rows] = best
    return precise_entropy(point), point.T if attaining else None
