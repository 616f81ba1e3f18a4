"""Double-double arithmetic: a number as an unevaluated sum of two doubles, about 32 significant digits.

Alternating sums lose digits; carried out in double-double they can lose fifteen and still be right to a double's last
digit.

References
----------
T. J. Dekker, A floating-point technique for extending the available precision, Numerische Mathematik 18 (1971).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

Pair = tuple[Any, Any]


def two_sum(a: Any, b: Any) -> Pair:
    """A + b rounded, and what rounding lost, exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def split(a: Any) -> Pair:
    """Two halves of 26 bits that add up to a, |a| below 1e290: their products are exact."""
    shifted = 134217729.0 * a  # 2²⁷ + 1
    head = shifted - (shifted - a)
    return head, a - head


def two_product(a: Any, halves_of_a: Pair, b: Any, halves_of_b: Pair) -> Pair:
    """A · b rounded, and what rounding lost, exactly."""
    (a_head, a_tail), (b_head, b_tail) = halves_of_a, halves_of_b
    product = a * b
    return product, ((a_head * b_head - product) + a_head * b_tail + a_tail * b_head) + a_tail * b_tail


def add(a: Any, a_low: Any, b: Any, b_low: Any) -> Pair:
    """(a + a_low) + (b + b_low), relative error about 2⁻¹⁰⁴ of |a| + |b|."""
    total, rest = two_sum(a, b)
    rest = rest + (a_low + b_low)
    result = total + rest
    return result, rest - (result - total)


def multiply(a: Any, a_low: Any, b: Any, b_low: Any) -> Pair:
    """(a + a_low) · (b + b_low), relative error about 2⁻¹⁰²; |a|, |b| below 1e290."""
    product, rest = two_product(a, split(a), b, split(b))
    rest = rest + (a * b_low + a_low * b)
    result = product + rest
    return result, rest - (result - product)


def divide(a: Any, b: Any) -> Pair:
    """A / b for doubles of ordinary size, b > 0."""
    quotient = a / b
    product, product_low = multiply(quotient, 0.0, b, 0.0)
    return quotient, ((a - product) - product_low) / b


def total(a: Any, a_low: Any) -> Pair:
    """Sum over the first axis, in pairs, pairs of pairs and so on."""
    while len(a) > 1:
        half = len(a) // 2
        pairs = add(a[:half], a_low[:half], a[half : 2 * half], a_low[half : 2 * half])
        a, a_low = (np.concatenate([part, whole[2 * half :]]) for part, whole in zip(pairs, (a, a_low), strict=True))
    return a[0], a_low[0]


def from_fraction(value: Fraction) -> tuple[float, float]:
    """Round an exact rational to the nearest double and the double nearest to what is left."""
    head = float(value)
    return head, float(value - Fraction(head))
