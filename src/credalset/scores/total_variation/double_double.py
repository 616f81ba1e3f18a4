"""Double-double arithmetic: a number as an unevaluated sum of two doubles, about 32 significant digits.

Alternating sums lose digits; carried out in double-double they can lose fifteen and still be right to a double's last
digit. The functions work on NumPy arrays as they stand, and on scalars inside compiled kernels (each is self-contained
so that it compiles by itself).

References
----------
T. J. Dekker, A floating-point technique for extending the available precision, Numerische Mathematik 18 (1971).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

Pair = tuple[Any, Any]


def add(a: Any, a_low: Any, b: Any, b_low: Any) -> Pair:
    """(a + a_low) + (b + b_low), relative error about 2⁻¹⁰⁴ of |a| + |b|."""
    total = a + b
    part = total - a
    rest = (a - (total - part)) + (b - part) + (a_low + b_low)
    result = total + rest
    return result, rest - (result - total)


def multiply(a: Any, a_low: Any, b: Any, b_low: Any) -> Pair:
    """(a + a_low) · (b + b_low), relative error about 2⁻¹⁰²; |a|, |b| below 1e290."""
    product = a * b
    shifted = 134217729.0 * a  # 2²⁷ + 1 splits 53 bits into 26 + 26 and a sign
    a_head = shifted - (shifted - a)
    a_tail = a - a_head
    shifted = 134217729.0 * b
    b_head = shifted - (shifted - b)
    b_tail = b - b_head
    rest = ((a_head * b_head - product) + a_head * b_tail + a_tail * b_head) + a_tail * b_tail
    rest = rest + (a * b_low + a_low * b)
    result = product + rest
    return result, rest - (result - product)


def divide(a: Any, b: Any) -> Pair:
    """A / b for doubles of ordinary size, b > 0."""
    quotient = a / b
    product, product_low = multiply(quotient, 0.0, b, 0.0)
    return quotient, ((a - product) - product_low) / b


def from_fraction(value: Fraction) -> tuple[float, float]:
    """Round an exact rational to the nearest double and the double nearest to what is left."""
    head = float(value)
    return head, float(value - Fraction(head))
