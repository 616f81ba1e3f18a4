"""The natural logarithm of a ratio, with the same bits everywhere.

Scores are compared exactly, so one pair of distributions must not have two scores. The logarithms of NumPy, of the
compiler and of other machines differ in the last bit now and then; this one is made of operations that IEEE 754 rounds
in one way only, and is written twice, here and in `credalset.scores.base_kernels`, operation by operation.

The bits of a positive double count up with its logarithm, so their difference tells the power of two 2^e closest to
p / q, but for the bend between powers: p 2^−e / q lies between 0.666 and 1.502. With s = (p 2^−e − q) / (p 2^−e + q),
one division and no rounding above it where p and q are close, log(p / q) = e log 2 + 2 s + s z R(z), z = s² ≤ 0.0402,
as in FreeBSD's ``e_log.c``; R interpolates at Chebyshev points, and 2 + z R(z) is off by at most 6e-17 of itself.
Within three units in the last place of the true value.
"""

from __future__ import annotations

import numpy as np

from credalset._typing import FloatArray

LOG_2 = 0.6931471805599453
R = (
    0.6666666666666694,
    0.3999999999933029,
    0.28571428837799656,
    0.22222182566522491,
    0.1818462148281011,
    0.15283429670005966,
    0.15120973021522874,
)
FRACTION_BITS = np.uint64(52)
POWERS = np.uint64(1024 << 52)  # that keep the differences positive
HALF_WAY = np.uint64((1024 << 52) + (1 << 51))  # and round them to the nearest power
WHOLE = np.uint64(0xFFF0000000000000)  # the bits of the power
TWO_TO_52 = np.uint64(0x4330000000000000)  # the bits of 2^52, whose last bits count in ones
BIAS = 2.0**52 + 1024.0


def log_ratio(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return log(p / q) of numbers up to two, q not too small. Where p is zero, some finite number or other.

    Examples
    --------
    >>> log_ratio(np.array([1.0, 0.5, 1e-300]), np.array([1.0, 0.25, 1.0])).round(6).tolist()
    [0.0, 0.693147, -690.775528]
    """
    p_bits, q_bits = p.view(np.uint64), q.view(np.uint64)
    power_bits = (p_bits + HALF_WAY) - q_bits
    scaled = ((p_bits + POWERS) - (power_bits & WHOLE)).view(np.float64)
    power_bits >>= FRACTION_BITS
    power_bits |= TWO_TO_52
    power = power_bits.view(np.float64)
    power -= BIAS
    power *= LOG_2
    s = scaled + q
    scaled -= q
    np.divide(scaled, s, out=s)
    z = np.multiply(s, s, out=scaled)
    series = z * R[-1]
    for coefficient in R[-2::-1]:
        series += coefficient
        series *= z
    series += 2.0
    series *= s
    return np.add(power, series, out=power)
