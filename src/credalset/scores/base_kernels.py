"""One-pass kernels that check and score large arrays at the speed of memory.

Each adds class after class, as the formula of its score does on the arrays it is given, so both give the same bits, and
reports whether any row needs a second look (negative, NaN, not summing to one). They take a third to a quarter of the
time that checks and formula take in NumPy, and are read only for arrays of a million numbers or more.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from credalset._logarithm import BIAS, FRACTION, FRACTION_BITS, LOG_2, ROOT_HALF, SHIFT, TWO_TO_52, R
from credalset._typing import FloatArray
from credalset.simplex import SMALLEST_DIVISOR

R1, R2, R3, R4, R5, R6, R7 = R
ROWS = 64  # whose logarithms are taken at a time


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
def ws(p: FloatArray, q: FloatArray, gaps: FloatArray, tolerance: float, out: FloatArray) -> bool:
    """Σ gap_k |Q_k − P_k| over the cumulative sums."""
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
                total += gaps[k] * abs(cumulative)
            sum_p += x
            sum_q += y
            least = min(least, x, y)
        out[i] = total
        unusual |= not (least >= 0.0 and abs(sum_p - 1.0) <= tolerance and abs(sum_q - 1.0) <= tolerance)
    return unusual


@nb.njit(cache=True, nogil=True, error_model="numpy")
def kl(p: FloatArray, q: FloatArray, log_base: FloatArray, tolerance: float, out: FloatArray) -> bool:
    """Σ q log(q / p) / log(base); predictions close to zero need a second look too."""
    n_classes = p.shape[1]
    terms, powers = np.empty(ROWS * n_classes), np.empty(ROWS * n_classes)
    unusual = False
    for start in range(0, p.shape[0], ROWS):
        n_rows = min(ROWS, p.shape[0] - start)
        for i in range(n_rows):
            for k in range(n_classes):
                terms[i * n_classes + k] = q[start + i, k] / p[start + i, k]
        _log(terms, powers, n_rows * n_classes)
        for i in range(n_rows):
            total = 0.0
            sum_p = 0.0
            sum_q = 0.0
            least_p, least_q = np.inf, np.inf
            for k in range(n_classes):
                x, y = p[start + i, k], q[start + i, k]
                total += y * terms[i * n_classes + k]
                sum_p += x
                sum_q += y
                least_p, least_q = min(least_p, x), min(least_q, y)
            out[start + i] = max(total, 0.0) / log_base[0]
            exact = abs(sum_p - 1.0) <= tolerance and abs(sum_q - 1.0) <= tolerance
            unusual |= not (exact and least_p >= SMALLEST_DIVISOR and least_q >= 0.0)
    return unusual


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _log(x: FloatArray, power: FloatArray, n: int) -> None:
    """`credalset._logarithm.log_in_place` of the first n numbers; two loops, which the compiler can vectorise."""
    bits, power_bits = x.view(np.uint64), power.view(np.uint64)
    for j in range(n):
        shifted = bits[j] + SHIFT
        power_bits[j] = (shifted >> FRACTION_BITS) | TWO_TO_52
        bits[j] = (shifted & FRACTION) + ROOT_HALF
    for j in range(n):
        s = (x[j] - 1.0) / (x[j] + 1.0)
        z = s * s
        series = z * (R1 + z * (R2 + z * (R3 + z * (R4 + z * (R5 + z * (R6 + z * R7))))))
        x[j] = (power[j] - BIAS) * LOG_2 + (series + 2.0) * s
