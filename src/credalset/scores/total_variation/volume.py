r"""Exact volume of total-variation balls, free of the cancellation its alternating sum is known for.

A member λ loses a_k = (g_k − λ_k)₊ on the classes S it lowers and gains on the others; both add up to the same
t ≤ r. The gains fill a simplex of size t, the losses a slice of the box ∏_{k∈S} [0, g_k], whose volume is an
alternating sum over the sides T ⊆ S that are cut off. With C(K−|T|, c−|T|) sets S ⊇ T of size c,

$$
\frac{V}{\mathrm{vol}\,\Delta} = (K-1)! \sum_{T:\, g(T)<r,\, |T|<K} (-1)^{|T|} \sum_{c=\max(1,|T|)}^{K-1}
\binom{K-|T|}{c-|T|} \int_{g(T)}^{r} \frac{t^{K-c-1}}{(K-c-1)!} \frac{(t-g(T))^{c-1}}{(c-1)!}\, dt.
$$

In units of r, with x = g(T)/r < 1 and m = max(1, |T|), the inner sum is (1 − x)^m Q_{|T|}(x), where Q is a polynomial
of degree K − 1 − m that depends on K and |T| only.

**How much can cancel.** The ball contains (1−r)g + rΔ, so V/vol(Δ) ≥ r^{K−1}, while the terms add up to at most
r^{K−1} Σ_c C(K−2, c−1) C(K, c) 2^c in absolute value: 2·10⁶ times as much at K = 10, 10¹⁰ at K = 15, whatever the
centre and the radius. Double-double arithmetic therefore keeps every digit of a double.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import comb

import numpy as np

from credalset._compiled import kernels
from credalset._parallel import for_each_block
from credalset._typing import FloatArray
from credalset.scores.total_variation import double_double as dd

MAX_CLASSES = 15  # the sum has up to 2^K terms


def log_fraction(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Logarithm of the volume of each ball, as a fraction of the simplex; K ≤ `MAX_CLASSES`.

    Parameters
    ----------
    center : ndarray of shape (N, K)
    radius : ndarray of shape (N,)
        Non-negative.

    Returns
    -------
    ndarray of shape (N,)
        ``-inf`` for radius 0, exactly 0 where the ball covers the simplex (radius ≥ 1 − min center).

    Examples
    --------
    >>> np.exp(log_fraction(np.array([[0.3, 0.7], [1.0, 0.0]]), np.array([0.1, 0.25]))).round(12)
    array([0.2 , 0.25])
    """
    n_rows, n_classes = center.shape
    if n_classes > MAX_CLASSES:
        raise ValueError(f"the exact volume is for at most {MAX_CLASSES} classes, but there are {n_classes}.")
    result = np.zeros(n_rows)
    result[radius == 0.0] = -np.inf
    partial = np.flatnonzero((radius > 0.0) & (radius < 1.0 - center.min(axis=1)))
    if len(partial):
        ratio = _volume_over_power(center[partial], radius[partial])
        # The ratio is at least one; a ball that all but covers the simplex may round to more than all of it.
        result[partial] = np.minimum((n_classes - 1) * np.log(radius[partial]) + np.log(ratio), 0.0)
    return result


def _volume_over_power(center: FloatArray, radius: FloatArray) -> FloatArray:
    """V / (vol(Δ) r^{K−1}), between 1 and C(2K−2, K−1)."""
    n_rows, n_classes = center.shape
    compiled = kernels("credalset.scores.total_variation.kernels", n_rows << n_classes)
    head, tail = _polynomials(n_classes)
    result = np.empty(n_rows)

    def one_block(rows: slice) -> None:
        sides, sides_low = _sides_in_units_of_radius(center[rows], radius[rows])
        if compiled is not None:
            compiled.volume_over_power(sides, sides_low, head, tail, result[rows])
        else:
            result[rows] = _alternating_sum(sides.T, sides_low.T, head, tail)

    for_each_block(one_block, n_rows, 1 << n_classes, block_size=1 << (15 if compiled is None else 18))
    return result


def _sides_in_units_of_radius(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    """min(g, r)/r in double-double. A class with g_k ≥ r is in no T, so it may as well have g_k = r."""
    mantissa, exponent = np.frexp(radius)  # powers of two are exact: no radius is too small
    shortened = np.ldexp(np.minimum(center, radius[:, None]), -exponent[:, None])
    with np.errstate(under="ignore"):
        quotient, rest = dd.divide(shortened, mantissa[:, None])
    return np.ascontiguousarray(quotient), np.ascontiguousarray(rest)


@cache
def _polynomials(n_classes: int) -> tuple[FloatArray, FloatArray]:
    """Coefficients of Q_{|T|} in double-double: row |T|, column the power of x."""
    head, tail = np.zeros((2, n_classes, n_classes))
    for size in range(n_classes):
        for power, value in enumerate(_exact_polynomial(n_classes, size)):
            head[size, power], tail[size, power] = dd.from_fraction(value)
    head.flags.writeable = tail.flags.writeable = False
    return head, tail


def _exact_polynomial(n_classes: int, size: int) -> list[Fraction]:
    """Q_{size}: substitute t = x + v in the integral, expand, take out (1−x)^m, and expand what is left in x.

    ∫₀^{1−x} (x+v)^{K−c−1} v^{c−1} dv = Σ_j C(K−c−1, j) x^j (1−x)^{K−1−j} / (K−1−j).
    """
    smallest = max(1, size)
    degree = n_classes - 1 - smallest
    result = [Fraction(0)] * (degree + 1)
    for j in range(degree + 1):
        weight = sum(
            comb(n_classes - size, c - size) * comb(n_classes - 2, c - 1) * comb(n_classes - c - 1, j)
            for c in range(smallest, n_classes - j)
        )
        bernstein = Fraction((n_classes - 1) * weight, n_classes - 1 - j)
        for i in range(degree - j + 1):
            result[i + j] += (-1) ** i * comb(degree - j, i) * bernstein
    return result


def _alternating_sum(sides: FloatArray, sides_low: FloatArray, head: FloatArray, tail: FloatArray) -> FloatArray:
    """Σ_T (−1)^{|T|} (1−x)^m Q_{|T|}(x) for class-major sides (K, n), every subset at once."""
    n_classes, n_rows = sides.shape
    sums, sums_low = np.zeros((2, 1 << n_classes, n_rows))
    sizes = np.zeros(1 << n_classes, dtype=np.int64)
    for k in range(n_classes):
        old, new = slice(0, 1 << k), slice(1 << k, 2 << k)
        sums[new], sums_low[new] = dd.add(sums[old], sums_low[old], sides[k], sides_low[k])
        sizes[new] = sizes[old] + 1
    total = total_low = np.zeros(n_rows)
    for size in range(n_classes):
        x, x_low = sums[sizes == size], sums_low[sizes == size]
        rest, rest_low = dd.add(1.0, 0.0, -x, -x_low)
        inside = rest > 0.0
        rest, rest_low = np.where(inside, rest, 0.0), np.where(inside, rest_low, 0.0)
        degree = n_classes - 1 - max(1, size)
        value, value_low = _horner(x, x_low, head[size, : degree + 1], tail[size, : degree + 1])
        with np.errstate(under="ignore"):
            for _ in range(max(1, size)):
                value, value_low = dd.multiply(value, value_low, rest, rest_low)
        sign = -1.0 if size % 2 else 1.0
        for term, term_low in zip(value, value_low, strict=True):
            total, total_low = dd.add(total, total_low, sign * term, sign * term_low)
    return total + total_low


def _horner(x: FloatArray, x_low: FloatArray, head: FloatArray, tail: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Σ_p (head + tail)[p] · x^p."""
    value, value_low = np.full_like(x, head[-1]), np.full_like(x, tail[-1])
    with np.errstate(under="ignore"):
        for power in range(len(head) - 2, -1, -1):
            value, value_low = dd.multiply(value, value_low, x, x_low)
            value, value_low = dd.add(value, value_low, head[power], tail[power])
    return value, value_low
