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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credalset._parallel import in_blocks
from credalset._typing import FloatArray, IntArray
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
    if len(partial) == 0:
        return result
    partial = partial[np.argsort(radius[partial])]  # small balls have many terms, and large balls few
    ratio = _volume_over_power(center[partial], radius[partial])
    # The ratio is at least one; a ball that all but covers the simplex may round to more than all of it.
    result[partial] = np.minimum((n_classes - 1) * np.log(radius[partial]) + np.log(ratio), 0.0)
    return result


@in_blocks(lambda size: 1 + (1 << size) // 16)
def _volume_over_power(center: FloatArray, radius: FloatArray) -> FloatArray:
    """V / (vol(Δ) r^{K−1}), between 1 and C(2K−2, K−1): Σ_T (−1)^{|T|} (1−x)^m Q_{|T|}(x) over the T with x < 1."""
    n_classes = center.shape[1]
    head, tail = _polynomials(n_classes)
    row, sizes, x, x_low = _subset_sums(*_sides_in_units_of_radius(np.sort(center, axis=1).T[::-1], radius))
    value, value_low = np.empty_like(x), np.empty_like(x)
    with np.errstate(under="ignore"):
        rest, rest_low = dd.add(1.0, 0.0, -x, -x_low)
        for size in range(sizes[-1] + 1):
            part = slice(*np.searchsorted(sizes, [size, size + 1]))
            power, sign = max(1, size), -1.0 if size % 2 else 1.0
            coefficients = sign * head[size, : n_classes - power], sign * tail[size, : n_classes - power]
            terms, factor = _horner(x[part], x_low[part], *coefficients), (rest[part], rest_low[part])
            while power:  # by repeated squares
                terms = dd.multiply(*terms, *factor) if power % 2 else terms
                factor = dd.multiply(*factor, *factor) if power > 1 else factor
                power //= 2
            value[part], value_low[part] = terms
    # One column per ball, padded with zeros, and a sum over each.
    order = np.argsort(row, kind="stable")
    count = np.bincount(row)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    columns = np.zeros((2, count.max(initial=0), len(radius)))
    columns[:, place, row[order]] = value[order], value_low[order]
    total, total_low = dd.total(*columns)
    return total + total_low


def _subset_sums(sides: FloatArray, sides_low: FloatArray) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """List the sums of at most one, but for rounding, of the sides (K, n) of each ball, the largest side first.

    Returns the rows of the balls, the sizes of the subsets, and the sums, in order of size; the set of all classes is
    left out.
    """
    n_classes, n_rows = sides.shape
    row: NDArray[Any] = np.arange(n_rows, dtype=np.int16)  # short integers sort quickly
    sizes: NDArray[Any] = np.zeros_like(row)
    x, x_low = np.zeros((2, n_rows))
    for k in range(n_classes):
        kept = np.flatnonzero((x + sides[k, row] <= 1.0) & (sizes < n_classes - 1))
        with_k = row[kept]
        grown, grown_low = dd.add(x[kept], x_low[kept], sides[k, with_k], sides_low[k, with_k])
        row, sizes = np.concatenate([row, with_k]), np.concatenate([sizes, sizes[kept] + 1])
        x, x_low = np.concatenate([x, grown]), np.concatenate([x_low, grown_low])
    order = np.argsort(sizes, kind="stable")
    return row[order], sizes[order], x[order], x_low[order]


def _sides_in_units_of_radius(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    """min(g, r)/r in double-double, classes first. A class with g_k ≥ r is in no T: it may as well have g_k = r."""
    mantissa, exponent = np.frexp(radius)  # powers of two are exact: no radius is too small
    with np.errstate(under="ignore"):
        return dd.divide(np.ldexp(np.minimum(center, radius), -exponent), mantissa)


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


def _horner(x: FloatArray, x_low: FloatArray, head: FloatArray, tail: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Σ_p (head + tail)[p] · (x + x_low)^p, by Horner's rule with the rounding errors carried along in a second sum."""
    value, errors = np.full_like(x, head[-1]), np.full_like(x, tail[-1])
    halves_of_x = dd.split(x)
    for power in range(len(head) - 2, -1, -1):
        product, lost = dd.two_product(value, dd.split(value), x, halves_of_x)
        errors = errors * x + value * x_low + (lost + tail[power])
        value, lost = dd.two_sum(product, head[power])
        errors += lost
    return dd.two_sum(value, errors)
