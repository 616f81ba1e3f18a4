"""Volume of the reverse-KL ball as a fraction of the simplex, exact for any number of classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, loggamma

from credalset._parallel import in_blocks
from credalset._typing import BoolArray, FloatArray
from credalset.scores.dirichlet.geometry import binary_log_width
from credalset.sets.magnify import magnify
from credalset.sets.roots import bisect

N_NODES = 32  # 24 give 5e-13, 32 reach rounding
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)

ComplexArray = NDArray[np.complex128]


def _gamma_excess(z: ComplexArray) -> ComplexArray:
    """Return log Γ(1 + z) − z log z + z, zero at z = 0: what remains of Γ once the part that cancels is taken out."""
    result = np.zeros_like(z)
    size = np.abs(z)
    far, near = size >= 10.0, (size < 10.0) & (size > 0.0)
    w = 1.0 / z[far]
    series = np.zeros_like(w)
    for coefficient in reversed(_STIRLING):
        series = series * w * w + coefficient
    result[far] = 0.5 * np.log(2.0 * np.pi * z[far]) + series * w
    result[near] = loggamma(1.0 + z[near]) - z[near] * (np.log(z[near]) - 1.0)
    return result


def _log_transform(center: FloatArray, radius: FloatArray, s: ComplexArray) -> ComplexArray:
    """Log of e^(s r) E[e^(−s KL)] / s at nodes s (N, Q), classes added one at a time."""
    n_classes = center.shape[1]
    total = s * radius[:, None] - _gamma_excess(s) - np.log(s) + gammaln(n_classes)
    for k in range(n_classes):
        total += _gamma_excess(s * center[:, k, None])
        if k > 0:
            total -= np.log(s + k)
    return total


def _saddle(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Near-minimiser of the integrand on the positive axis, which lies in [1/r, (K + ½)/r]; need not be exact."""
    order = np.arange(1, center.shape[1])

    def elasticity(x: FloatArray) -> FloatArray:  # x (ψ(1 + x) − log x), between 0 and ½
        safe = np.where((x > 0) & (x < 1e4), x, 1.0)
        near = np.where(x > 0, safe * (digamma(1.0 + safe) - np.log(safe)), 0.0)
        return np.where(x < 1e4, near, 0.5)  # the difference of logarithms has no digits left far out

    low, high = -np.log(radius), np.log(center.shape[1] + 0.5) - np.log(radius)

    def is_right(log_s: FloatArray) -> BoolArray:
        s = np.exp(log_s)[:, None]
        decay = 1.0 + (s / (s + order)).sum(axis=1) + elasticity(s[:, 0]) - elasticity(s * center).sum(axis=1)
        return s[:, 0] * radius >= decay

    low, high = bisect(is_right, low, high, steps=10)
    return np.exp(0.5 * (low + high))


@in_blocks(lambda size: 2 * N_NODES)
def log_volume(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Log of the fraction of the simplex with KL(m ‖ λ) ≤ r; −inf for r = 0.

    For λ uniform on the simplex, D = KL(m ‖ λ) = −H(m) − Σ m_k log λ_k has the Laplace transform of a Dirichlet moment,

        E[e^(−sD)] = e^(s H(m)) Γ(K) Π Γ(1 + s m_k) / Γ(K + s),

    and P(D ≤ r) is its Bromwich integral (1/2πi) ∫ e^(sr) E[e^(−sD)] ds/s. All singularities lie on s ≤ 0, so the path
    may bend to the left: a hyperbola through the saddle point, at 45° far out, on which the integrand neither
    oscillates nor leaves much to cancel; the trapezoidal rule converges geometrically. The factors that cancel,
    s H(m) against the logarithms of Γ, are removed by hand (`_gamma_excess`), so tiny balls keep full accuracy.
    Two classes have a closed form, the width of the envelope.
    """
    center, radius, log_factor = magnify(center, radius, below=1e-60, ratio=1e17)
    if center.shape[1] == 2:
        return binary_log_width(center, radius) + log_factor
    result = np.full(len(center), -np.inf)
    rows = np.flatnonzero(radius > 0)
    if rows.size == 0:
        return result
    m, r = center[rows], radius[rows]
    saddle = _saddle(m, r)
    reach = 1.5 * saddle  # matches the curvature of the path of steepest descent of e^s s^(−a)
    step = np.arccosh(1.0 + 40.0 / (reach * r)) / N_NODES
    v = (np.arange(N_NODES) + 0.5) * step[:, None]
    s = saddle[:, None] - reach[:, None] * (np.cosh(v) - 1.0 - 1j * np.sinh(v))
    direction = reach[:, None] * (1j * np.cosh(v) - np.sinh(v))
    peak = _log_transform(m, r, saddle[:, None].astype(np.complex128)).real
    integrand = np.exp(_log_transform(m, r, s) - peak) * (direction / saddle[:, None])
    total = integrand.imag.sum(axis=1) * step / np.pi
    result[rows] = np.minimum(peak[:, 0] + np.log(total) + np.log(saddle) + log_factor[rows], 0.0)
    return result
