"""One-pass kernels that validate and score large arrays at memory speed.

Each adds class after class, exactly as the readable NumPy form in the score's own file does, so both give the same
bits, and reports whether any row was unusual (negative, NaN, not summing to one).
"""

from __future__ import annotations

import numba as nb
import numpy as np

from credalset._typing import FloatArray


@nb.njit(cache=True, nogil=True)
def tv(p: FloatArray, q: FloatArray, weights: FloatArray, tolerance: float, out: FloatArray) -> bool:
    """½ Σ |q − p|."""
    unusual = False
    for i in range(p.shape[0]):
        total = abs(q[i, 0] - p[i, 0])
        sum_p, sum_q = p[i, 0], q[i, 0]
        least = min(p[i, 0], q[i, 0])
        for k in range(1, p.shape[1]):
            x, y = p[i, k], q[i, k]
            total += abs(y - x)
            sum_p += x
            sum_q += y
            least = min(least, x, y)
        out[i] = 0.5 * total
        unusual |= not (least >= 0.0 and abs(sum_p - 1.0) <= tolerance and abs(sum_q - 1.0) <= tolerance)
    return unusual


@nb.njit(cache=True, nogil=True)
def inner(p: FloatArray, q: FloatArray, weights: FloatArray, tolerance: float, out: FloatArray) -> bool:
    """1 − Σ p q."""
    unusual = False
    for i in range(p.shape[0]):
        total = p[i, 0] * q[i, 0]
        sum_p, sum_q = p[i, 0], q[i, 0]
        least = min(p[i, 0], q[i, 0])
        for k in range(1, p.shape[1]):
            x, y = p[i, k], q[i, k]
            total += x * y
            sum_p += x
            sum_q += y
            least = min(least, x, y)
        out[i] = max(1.0 - total, 0.0)
        unusual |= not (least >= 0.0 and abs(sum_p - 1.0) <= tolerance and abs(sum_q - 1.0) <= tolerance)
    return unusual


@nb.njit(cache=True, nogil=True)
def ws(p: FloatArray, q: FloatArray, weights: FloatArray, tolerance: float, out: FloatArray) -> bool:
    """Σ gap_k |Q_k − P_k| over the cumulative sums, with ``weights`` the gaps between class positions."""
    unusual = False
    for i in range(p.shape[0]):
        cumulative = 0.0
        total = 0.0
        sum_p = 0.0
        sum_q = 0.0
        least = np.inf
        for k in range(p.shape[1]):
            x, y = p[i, k], q[i, k]
            cumulative += y - x
            if k < p.shape[1] - 1:
                total += weights[k] * abs(cumulative)
            sum_p += x
            sum_q += y
            least = min(least, x, y)
        out[i] = total
        unusual |= not (least >= 0.0 and abs(sum_p - 1.0) <= tolerance and abs(sum_q - 1.0) <= tolerance)
    return unusual


@nb.njit(cache=True, nogil=True)
def kl(
    p: FloatArray,
    q: FloatArray,
    log_p: FloatArray,
    log_q: FloatArray,
    log_base: float,
    tolerance: float,
    out: FloatArray,
) -> bool:
    """Σ q (log q − log p) / log(base), with the logarithms given."""
    unusual = False
    for i in range(p.shape[0]):
        total = 0.0
        sum_p = 0.0
        sum_q = 0.0
        least = np.inf
        for k in range(p.shape[1]):
            x, y = p[i, k], q[i, k]
            if y > 0.0:
                total += y * (log_q[i, k] - log_p[i, k])
            sum_p += x
            sum_q += y
            least = min(least, x, y)
        out[i] = max(total, 0.0) / log_base
        unusual |= not (least >= 0.0 and abs(sum_p - 1.0) <= tolerance and abs(sum_q - 1.0) <= tolerance)
    return unusual
