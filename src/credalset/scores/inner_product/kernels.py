"""Compiled forms of `credalset.scores.inner_product.geometry` and `half_space_volume`, one row after the other.

The formulas and their derivations are in those modules; the names are the same here.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from credalset._typing import FloatArray, IntArray
from credalset.scores.inner_product.geometry import NEWTON_STEPS, NEWTON_TOLERANCE, ROUNDING, WHOLE_SIMPLEX

# Numbers below the range of doubles are kept as mantissa · 2^(256 · exponent).
UNIT = 2.0**256
LARGE_MANTISSA = 2.0**128
SMALL_MANTISSA = 2.0**-128
# The recursion in plain doubles is right to a few ulp unless its result is close to the underflow threshold.
PLAIN_FROM = 1e-280


@nb.njit(cache=True, nogil=True)
def _margins(center: FloatArray, radius: float, out: FloatArray) -> int:
    """Fill ``out`` with g_k + r − 1 and return the class where it is largest."""
    best = 0
    radius = min(radius, WHOLE_SIMPLEX)
    for k in range(len(center)):
        g = center[k]
        total = g + radius
        rounded = total - g
        margin = (total - 1.0) + ((g - (total - rounded)) + (radius - rounded))
        out[k] = max(margin, 0.0) if 1.0 - g <= radius else min(margin, 0.0)
        if out[k] > out[best]:
            best = k
    if out[best] < 0.0:
        out -= out[best]
    return best


@nb.njit(cache=True, nogil=True)
def envelope(center: FloatArray, radius: FloatArray, lower: FloatArray, upper: FloatArray) -> None:
    """Smallest and largest probability of each class."""
    margin = np.empty(center.shape[1])
    for i in range(center.shape[0]):
        best = _margins(center[i], radius[i], margin)
        top = margin[best]
        second = -np.inf
        for k in range(len(margin)):
            if k != best:
                second = max(second, margin[k])
            lower[i, k] = 0.0
            upper[i, k] = 1.0 if margin[k] >= 0.0 else top / (top - margin[k])
        if second < 0.0:
            lower[i, best] = -second / (top - second)


@nb.njit(cache=True, nogil=True)
def support(
    center: FloatArray, radius: FloatArray, utility: FloatArray, values: FloatArray, points: FloatArray
) -> None:
    """Largest expected utility; fills ``points`` with a maximiser unless it is empty."""
    margin = np.empty(center.shape[1])
    for i in range(center.shape[0]):
        _margins(center[i], radius[i], margin)
        inside, outside = _best_edge(margin, utility[i])
        share = 0.0
        if margin[outside] < 0.0:
            share = margin[inside] / (margin[inside] - margin[outside])
        values[i] = (1.0 - share) * utility[i, inside] + share * utility[i, outside]
        if len(points) > 0:
            points[i, :] = 0.0
            points[i, inside] = 1.0 - share
            points[i, outside] += share


@nb.njit(cache=True, nogil=True)
def _best_edge(margin: FloatArray, utility: FloatArray) -> tuple[int, int]:
    inside, outside = 0, 0
    for k in range(len(margin)):
        d, u = margin[k], utility[k]
        if d > margin[inside] or (d == margin[inside] and u > utility[inside]):
            inside = k
        if u > utility[outside] or (u == utility[outside] and d > margin[outside]):
            outside = k
    if margin[outside] >= 0.0:
        return outside, outside
    while True:
        d_in, d_out, u_in = margin[inside], margin[outside], utility[inside]
        run, rise = d_in - d_out, utility[outside] - u_in
        cut, height = -1, 0.0
        for k in range(len(margin)):
            if d_out < margin[k] < d_in:
                above_line = (utility[k] - u_in) * run - rise * (d_in - margin[k])
                if above_line > height:
                    cut, height = k, above_line
        if cut < 0:
            return inside, outside
        if margin[cut] >= 0.0:
            inside = cut
        else:
            outside = cut


@nb.njit(cache=True, nogil=True)
def max_entropy(center: FloatArray, radius: FloatArray, values: FloatArray, points: FloatArray) -> None:
    """Largest entropy; fills ``points`` with the distribution that has it unless it is empty."""
    n_classes = center.shape[1]
    margin = np.empty(n_classes)
    weights = np.empty(n_classes)
    for i in range(center.shape[0]):
        best = _margins(center[i], radius[i], margin)
        top = margin[best]
        positive, negative = 0.0, 0.0
        for k in range(n_classes):
            if margin[k] >= 0.0:
                positive += margin[k]
            else:
                negative -= margin[k]
        is_cut = positive < negative
        tilt = _tilt(margin, top) if is_cut and top > 0.0 else 0.0
        others = 0.0
        for k in range(n_classes):
            weights[k] = 0.0 if is_cut and top == 0.0 and margin[k] < 0.0 else math.exp(-tilt * (top - margin[k]))
            if k != best:
                others += weights[k]
        values[i] = math.log1p(others) + tilt * top
        if len(points) > 0:
            for k in range(n_classes):
                points[i, k] = weights[k] / (1.0 + others)


@nb.njit(cache=True, nogil=True)
def _tilt(margin: FloatArray, top: float) -> float:
    """Solve Σ d_k exp(β d_k) = 0 for a row with Σ d_k < 0 < max d_k."""
    nearest = np.inf
    for d in margin:
        if d < 0.0:
            nearest = min(nearest, -d)
    low, high, tilt = 0.0, 1e300, 0.0
    for _ in range(NEWTON_STEPS):
        p, q, p_mean, q_mean = 0.0, 0.0, 0.0, 0.0
        for d in margin:
            if d > 0.0:
                term = d * math.exp(-tilt * (top - d))
                p += term
                p_mean += term * d
            elif d < 0.0:
                term = -d * math.exp(tilt * (d + nearest))
                q += term
                q_mean -= term * d
        value = tilt * (top + nearest) + math.log(p) - math.log(q)
        if abs(value) <= ROUNDING * (1.0 + tilt * (top + nearest)):
            return tilt
        if value < 0.0:
            low = tilt
        else:
            high = tilt
        step = tilt - value / (p_mean / p + q_mean / q)
        if low <= step <= high:
            if abs(step - tilt) <= NEWTON_TOLERANCE * step:
                return step
            tilt = step
        else:
            tilt = math.sqrt(low) * math.sqrt(high) if high > 4.0 * low else 0.5 * (low + high)
    return tilt


@nb.njit(cache=True, nogil=True)
def _split(margin: FloatArray, x: FloatArray, y: FloatArray) -> tuple[int, int]:
    """Collect the positive margins in ``x`` and, last class first, the sizes of the negative ones in ``y``."""
    n_inside, n_outside = 0, 0
    for d in margin:
        if d > 0.0:
            x[n_inside] = d
            n_inside += 1
    for d in margin[::-1]:
        if d < 0.0:
            y[n_outside] = -d
            n_outside += 1
    return n_inside, n_outside


@nb.njit(cache=True, nogil=True)
def log_fraction(center: FloatArray, radius: FloatArray, out: FloatArray) -> None:
    """Logarithm of the fraction of the simplex inside."""
    n_classes = center.shape[1]
    margin, x, y = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    scratch = np.empty(n_classes + 1)
    exponents = np.empty(n_classes + 1, dtype=np.int64)
    for i in range(center.shape[0]):
        _margins(center[i], radius[i], margin)
        n_inside, n_outside = _split(margin, x, y)
        if n_outside == 0:
            out[i] = 0.0
        elif n_inside == 0:
            out[i] = -np.inf
        else:
            fraction = _recursion(x[:n_inside], y[:n_outside], scratch)
            if fraction > 0.5:
                out[i] = math.log1p(-_recursion(y[:n_outside], x[:n_inside], scratch)) + 0.0  # never −0
            elif fraction >= PLAIN_FROM:
                out[i] = math.log(fraction)
            else:
                out[i] = _scaled_log_recursion(x[:n_inside], y[:n_outside], scratch, exponents)


@nb.njit(cache=True, nogil=True)
def _recursion(x: FloatArray, y: FloatArray, f: FloatArray) -> float:
    """f(H, Y) in plain doubles; ``f[k]`` holds f(h, k)."""
    f[0] = 1.0
    f[1 : len(y) + 1] = 0.0
    for x_h in x:
        left = 1.0
        for k in range(len(y)):
            scale = 1.0 / (x_h + y[k])
            left = x_h * scale * left + y[k] * scale * f[k + 1]
            f[k + 1] = left
    return f[len(y)]


@nb.njit(cache=True, nogil=True)
def _add(left: float, left_exponent: int, above: float, above_exponent: int) -> tuple[float, int, float]:
    """Add two scaled numbers; return the sum (mantissa and exponent) and the share of the first."""
    exponent = max(left_exponent, above_exponent) if above > 0.0 else left_exponent
    if left_exponent < exponent:
        left *= UNIT ** max(left_exponent - exponent, -4)
    if above_exponent < exponent:
        above *= UNIT ** max(above_exponent - exponent, -4)
    total = left + above
    share = left / total
    while total < SMALL_MANTISSA:
        total *= UNIT
        exponent -= 1
    while total > LARGE_MANTISSA:
        total /= UNIT
        exponent += 1
    return total, exponent, share


@nb.njit(cache=True, nogil=True)
def _step(
    x: float, y: float, left: float, left_exponent: int, above: float, above_exponent: int
) -> tuple[float, int, float]:
    """One step of the recursion on scaled numbers: their sum, weighted x : y, and the share of the first.

    Weights as small as doubles go are scaled before they meet a mantissa, or the product would vanish.
    """
    total = x + y
    if x < SMALL_MANTISSA * total:
        x *= UNIT
        left_exponent -= 1
    if y < SMALL_MANTISSA * total:
        y *= UNIT
        above_exponent -= 1
    return _add(x / total * left, left_exponent, y / total * above, above_exponent)


@nb.njit(cache=True, nogil=True)
def _scaled_log_recursion(x: FloatArray, y: FloatArray, f: FloatArray, exponents: IntArray) -> float:
    """Log f(H, Y) where plain doubles underflow."""
    f[: len(y) + 1] = 0.0
    exponents[: len(y) + 1] = 0
    for x_h in x:
        left, exponent = 1.0, 0
        for k in range(len(y)):
            left, exponent, _ = _step(x_h, y[k], left, exponent, f[k + 1], exponents[k + 1])
            f[k + 1], exponents[k + 1] = left, exponent
    return math.log(f[len(y)]) + exponents[len(y)] * math.log(UNIT)


@nb.njit(cache=True, nogil=True)
def sample(
    center: FloatArray, radius: FloatArray, exponentials: FloatArray, uniforms: FloatArray, out: FloatArray
) -> None:
    """Uniform draws, from the given exponential and uniform random numbers."""
    n_classes = center.shape[1]
    margin, x, y = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    f = np.empty(n_classes + 1)
    exponents = np.empty(n_classes + 1, dtype=np.int64)
    inside = np.empty(n_classes, dtype=np.int64)
    outside = np.empty(n_classes, dtype=np.int64)
    splits = np.empty((n_classes // 2 + 1) ** 2)
    for i in range(center.shape[0]):
        _margins(center[i], radius[i], margin)
        n_inside, n_outside = _split(margin, x, y)
        inside[:n_inside] = np.flatnonzero(margin > 0.0)
        outside[:n_outside] = np.flatnonzero(margin < 0.0)[::-1]
        split = splits[: n_inside * n_outside].reshape((n_inside, n_outside))
        _fill_splits(x[:n_inside], y[:n_outside], f, exponents, split)
        for j in range(exponentials.shape[1]):
            _draw(margin, inside, outside, split, exponentials[i, j], uniforms[i, j], out[i, j])


@nb.njit(cache=True, nogil=True)
def _fill_splits(x: FloatArray, y: FloatArray, f: FloatArray, exponents: IntArray, split: FloatArray) -> None:
    """Share of f(h, k) that comes from f(h, k−1), for h, k counted from 0."""
    f[: len(y) + 1] = 0.0
    exponents[: len(y) + 1] = 0
    for h in range(len(x)):
        left, exponent = 1.0, 0
        for k in range(len(y)):
            left, exponent, split[h, k] = _step(x[h], y[k], left, exponent, f[k + 1], exponents[k + 1])
            f[k + 1], exponents[k + 1] = left, exponent


@nb.njit(cache=True, nogil=True)
def _draw(
    margin: FloatArray,
    inside: IntArray,
    outside: IntArray,
    split: FloatArray,
    exponentials: FloatArray,
    uniforms: FloatArray,
    out: FloatArray,
) -> None:
    h, k = split.shape
    for c in range(len(margin)):
        out[c] = exponentials[c] if margin[c] == 0.0 else 0.0
    step = 0
    while h > 0 and k > 0:
        i, j = inside[h - 1], outside[k - 1]
        replaces_outside = uniforms[step] < split[h - 1, k - 1]
        weight = exponentials[j] if replaces_outside else exponentials[i]
        gap = margin[i] - margin[j]
        out[i] += weight * (-margin[j] / gap)
        out[j] += weight * (margin[i] / gap)
        if replaces_outside:
            k -= 1
        else:
            h -= 1
        step += 1
    for c in range(h):
        out[inside[c]] += exponentials[inside[c]]
    out /= out.sum()


@nb.njit(cache=True, nogil=True)
def closest_with_top(center: FloatArray, largest: FloatArray, out: FloatArray) -> None:
    """Smallest 1 − ⟨λ, g⟩ with each class on top, given the rows of ``center`` in descending order.

    Adding classes raises the mean as long as the next one lies above it, so the best j is found by bisection.
    """
    n_classes = center.shape[1]
    prefix = np.zeros(n_classes + 1)
    for i in range(center.shape[0]):
        for j in range(n_classes):
            prefix[j + 1] = prefix[j] + largest[i, j]
        for a in range(n_classes):
            low, high = 0, n_classes
            while low < high:
                j = (low + high) // 2
                if largest[i, j] * (j + 1) <= center[i, a] + prefix[j]:
                    high = j
                else:
                    low = j + 1
            out[i, a] = 1.0 - (center[i, a] + prefix[low]) / (low + 1)
