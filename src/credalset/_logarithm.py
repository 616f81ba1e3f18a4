"""The natural logarithm with the same bits everywhere.

Scores are compared exactly, so one pair of distributions must not have two scores. The logarithms of NumPy, of the
compiler and of other machines differ in the last bit now and then; this one is made of operations that IEEE 754 rounds
in one way only, and is written twice, here and in `credalset.scores.base_kernels`, operation by operation.

With x = 2^e m, m between √½ and √2, and s = (m − 1) / (m + 1): log x = e log 2 + 2 s + s R(s²), where R is the
polynomial of FreeBSD's ``e_log.c`` (Sun Microsystems, 1993). Within three units in the last place of the true value.
"""

from __future__ import annotations

import numpy as np

from credalset._typing import FloatArray

LOG_2 = 0.6931471805599453
R = (
    0.6666666666666735,
    0.3999999999940942,
    0.2857142874366239,
    0.22222198432149784,
    0.1818357216161805,
    0.15313837699209373,
    0.14798198605116586,
)
ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # the bits of √½
SHIFT = np.uint64(0x3FF0000000000000) - ROOT_HALF  # from √½ to the next power of two
FRACTION = np.uint64(0x000FFFFFFFFFFFFF)
FRACTION_BITS = np.uint64(52)
TWO_TO_52 = np.uint64(0x4330000000000000)  # the bits of 2^52, whose last bits count in ones
BIAS = 2.0**52 + 1023.0


def log_in_place(x: FloatArray) -> FloatArray:
    """Replace positive numbers by their logarithms. Zero, infinity and NaN become some finite number or other.

    Examples
    --------
    >>> log_in_place(np.array([1.0, np.e, 1e-300])).round(6).tolist()
    [0.0, 1.0, -690.775528]
    """
    bits = x.view(np.uint64)
    bits += SHIFT
    exponent = bits >> FRACTION_BITS
    exponent |= TWO_TO_52
    power = exponent.view(np.float64)
    power -= BIAS
    power *= LOG_2
    bits &= FRACTION
    bits += ROOT_HALF  # x is m from here on
    s = x + 1.0
    x -= 1.0
    np.divide(x, s, out=s)
    np.multiply(s, s, out=x)
    series = x * R[-1]
    for coefficient in R[-2::-1]:
        series += coefficient
        series *= x
    series += 2.0
    series *= s
    np.add(power, series, out=x)
    return x
