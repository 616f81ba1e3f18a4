"""One-pass kernels that check and score large arrays at the speed of memory.

Each adds class after class, as the formula of its score does on the arrays it is given, so both give the same bits, and
reports whether any row needs a second look (negative, NaN, not summing to one). They take a third to a quarter of the
time that checks and formula take in NumPy, and are read only for arrays of a million numbers or more.
"""

from __future__ import annotations

from functools import partial

import numba as nb
import numpy as np

from credalset._logarithm import BIAS, FRACTION_BITS, HALF_WAY, LOG_2, POWERS, TWO_TO_52, WHOLE, R
from credalset._typing import FloatArray
from credalset.simplex import SMALLEST_DIVISOR

R1, R2, R3, R4, R5, R6, R7 = R
HALF_DIFFERENCES, PRODUCTS, CUMULATIVE_DIFFERENCES = 0, 1, 2  # what is added up over the classes
ROWS = 64  # whose logarithms are taken at a time
LEAST_BITS, HIGHEST_BIT = np.float64(SMALLEST_DIVISOR).view(np.uint64), np.uint64(1 << 63)


@nb.njit(cache=True, nogil=True)
def _one_pass(kind: int, p: FloatArray, q: FloatArray, weights: FloatArray, tolerance: float, out: FloatArray) -> bool:
    """Σ |q − p| / 2, 1 − Σ p q, or Σ weights · |Q − P| over the cumulative sums, as the kind says."""
    unusual = False
    for i in range(p.shape[0]):
        total, cumulative, sum_p, sum_q, least = 0.0, 0.0, 0.0, 0.0, np.inf
        for k in range(p.shape[1]):
            x, y = p[i, k], q[i, k]
            cumulative += y - x
            if kind == HALF_DIFFERENCES:
                total += abs(y - x)
            elif kind == PRODUCTS:
                total += x * y
            elif k < p.shape[1] - 1:
                total += weights[k] * abs(cumulative)
            sum_p += x
            sum_q += y
            least = min(least, x, y)
        out[i] = 0.5 * total if kind == HALF_DIFFERENCES else max(1.0 - total, 0.0) if kind == PRODUCTS else total
        unusual |= not (least >= 0.0 and abs(sum_p - 1.0) <= tolerance and abs(sum_q - 1.0) <= tolerance)
    return unusual


tv, inner, ws = (partial(_one_pass, kind) for kind in (HALF_DIFFERENCES, PRODUCTS, CUMULATIVE_DIFFERENCES))


@nb.njit(cache=True, nogil=True, error_model="numpy")
def kl(p: FloatArray, q: FloatArray, log_base: FloatArray, tolerance: float, out: FloatArray) -> bool:
    """Σ q log(q / p) / log(base); predictions close to zero need a second look too."""
    n_classes = p.shape[1]
    terms, scaled, power = np.empty((3, ROWS * n_classes))
    terms_bits, scaled_bits, power_bits = terms.view(np.uint64), scaled.view(np.uint64), power.view(np.uint64)
    p_bits, q_bits = p.view(np.uint64), q.view(np.uint64)
    unusual, seen = False, np.uint64(0)
    for start in range(0, p.shape[0], ROWS):
        n_rows = min(ROWS, p.shape[0] - start)
        # `credalset._logarithm.log_ratio`, in loops that the compiler can vectorise.
        for i in range(n_rows):
            for k in range(n_classes):
                a, b, j = q_bits[start + i, k], p_bits[start + i, k], i * n_classes + k
                seen |= (b - LEAST_BITS) | a  # its highest bit tells that some b is too small, or some a negative
                shifted = (a + HALF_WAY) - b
                scaled_bits[j] = (a + POWERS) - (shifted & WHOLE)
                power_bits[j] = (shifted >> FRACTION_BITS) | TWO_TO_52
                terms_bits[j] = b
        for j in range(n_rows * n_classes):
            s = (scaled[j] - terms[j]) / (scaled[j] + terms[j])
            z = s * s
            series = z * (R1 + z * (R2 + z * (R3 + z * (R4 + z * (R5 + z * (R6 + z * R7))))))
            terms[j] = (power[j] - BIAS) * LOG_2 + (series + 2.0) * s
        for i in range(n_rows):
            total, sum_p, sum_q = 0.0, 0.0, 0.0
            for k in range(n_classes):
                total += q[start + i, k] * terms[i * n_classes + k]
                sum_p += p[start + i, k]
                sum_q += q[start + i, k]
            out[start + i] = max(total, 0.0) / log_base[0]
            unusual |= not (abs(sum_p - 1.0) <= tolerance and abs(sum_q - 1.0) <= tolerance)
    return unusual or bool(seen >= HIGHEST_BIT)
