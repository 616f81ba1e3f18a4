"""Compiled forms of `credalset.scores.total_variation.geometry`, row by row.

Sorting is left to NumPy, which is as quick, so both forms break ties between classes alike.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from credalset._typing import FloatArray, IntArray
from credalset.scores.total_variation import double_double

_add = nb.njit(cache=True, nogil=True)(double_double.add)
_multiply = nb.njit(cache=True, nogil=True)(double_double.multiply)


@nb.njit(cache=True, nogil=True)
def _entropy_of_ascending(point: FloatArray) -> float:
    """−Σ λ log λ with the largest entry last, whose logarithm comes from the others where it is close to one."""
    rest = 0.0
    total = 0.0
    for k in range(point.shape[0] - 1):
        if point[k] > 0.0:
            rest += point[k]
            total -= point[k] * math.log(point[k])
    top = point[-1]
    return total - top * (math.log1p(-rest) if rest < 0.5 else math.log(top))


@nb.njit(cache=True, nogil=True)
def max_entropy(
    center: FloatArray,
    ascending: FloatArray,
    radius: FloatArray,
    attaining: bool,
    entropy: FloatArray,
    points: FloatArray,
) -> None:
    """Clip at two water levels found from prefix sums; ``ascending`` is overwritten."""
    n_classes = center.shape[1]
    for i in range(center.shape[0]):
        low = high = 1.0 / n_classes
        lowest = 0.0
        highest = 0.0
        for j in range(n_classes):
            lowest += ascending[i, j]
            highest += ascending[i, n_classes - 1 - j]
            low = min(low, (radius[i] + lowest) / (j + 1))
            high = max(high, (highest - radius[i]) / (j + 1))
        for k in range(n_classes):
            ascending[i, k] = min(max(ascending[i, k], low), high)
        entropy[i] = min(_entropy_of_ascending(ascending[i]), math.log(n_classes))
        if attaining:
            for k in range(n_classes):
                points[i, k] = min(max(center[i, k], low), high)


@nb.njit(cache=True, nogil=True)
def min_entropy(
    ascending: FloatArray,
    radius: FloatArray,
    order: IntArray,
    attaining: bool,
    entropy: FloatArray,
    points: FloatArray,
) -> None:
    """Move the radius from the smallest classes to the largest; ``ascending`` is overwritten."""
    n_classes = ascending.shape[1]
    for i in range(ascending.shape[0]):
        left = radius[i]
        moved = 0.0
        for j in range(n_classes - 1):
            taken = min(ascending[i, j], left)
            left -= taken
            moved += taken
            ascending[i, j] -= taken
        ascending[i, -1] = min(ascending[i, -1] + moved, 1.0)
        entropy[i] = max(_entropy_of_ascending(ascending[i]), 0.0)
        if attaining:
            for j in range(n_classes):
                points[i, order[i, j]] = ascending[i, j]


@nb.njit(cache=True, nogil=True)
def support(
    center: FloatArray,
    radius: FloatArray,
    utility: FloatArray,
    order: IntArray,
    attaining: bool,
    value: FloatArray,
    points: FloatArray,
) -> None:
    """Move the radius from the classes of least utility to one of greatest utility; ``order`` sorts the utility."""
    n_classes = center.shape[1]
    for i in range(center.shape[0]):
        left = radius[i]
        moved = 0.0
        total = 0.0
        for j in range(n_classes - 1):
            k = order[i, j]
            taken = min(center[i, k], left)
            left -= taken
            moved += taken
            total += utility[i, k] * (center[i, k] - taken)
            if attaining:
                points[i, k] = center[i, k] - taken
        top = order[i, -1]
        share = min(center[i, top] + moved, 1.0)
        value[i] = total + utility[i, top] * share
        if attaining:
            points[i, top] = share


@nb.njit(cache=True, nogil=True)
def closest_with_top(center: FloatArray, ascending: FloatArray, result: FloatArray) -> None:
    """Lower the classes above a common level, the greatest first, until raising the class at hand meets it."""
    n_classes = center.shape[1]
    for i in range(center.shape[0]):
        for k in range(n_classes):
            excess = 0.0
            best = 0.0
            for j in range(1, n_classes):
                excess += ascending[i, n_classes - j] - center[i, k]
                distance = excess / (j + 1)
                if distance <= best:  # it rises while the next class stands above the level reached, then falls
                    break
                best = distance
            result[i, k] = best


@nb.njit(cache=True, nogil=True)
def volume_over_power(
    sides: FloatArray, sides_low: FloatArray, head: FloatArray, tail: FloatArray, result: FloatArray
) -> None:
    """Σ_T (−1)^{|T|} (1−x)^m Q_{|T|}(x) over the subsets with x = Σ_{k∈T} sides_k < 1, in double-double.

    The subsets are listed by size, and each size is worked through in plain loops that the compiler vectorises.
    """
    n_classes = sides.shape[1]
    widest = 1
    for k in range(n_classes // 2):
        widest = widest * (n_classes - k) // (k + 1)
    sums, sums_low = np.empty((n_classes, widest)), np.empty((n_classes, widest))
    value, value_low = np.empty(widest), np.empty(widest)
    count = np.empty(n_classes, dtype=np.int64)
    for i in range(sides.shape[0]):
        _subset_sums(sides[i], sides_low[i], sums, sums_low, count)
        total = 0.0
        total_low = 0.0
        for size in range(n_classes):
            n = count[size]
            if n == 0:
                break
            _terms(sums[size, :n], sums_low[size, :n], size, head[size], tail[size], value[:n], value_low[:n])
            sign = -1.0 if size % 2 else 1.0
            for s in range(n):
                total, total_low = _add(total, total_low, sign * value[s], sign * value_low[s])
        result[i] = total + total_low


@nb.njit(cache=True, nogil=True)
def _subset_sums(
    sides: FloatArray, sides_low: FloatArray, sums: FloatArray, sums_low: FloatArray, count: IntArray
) -> None:
    """Sums below one of all proper subsets, one row of ``sums`` per size."""
    n_classes = sides.shape[0]
    count[:] = 0
    count[0] = 1
    sums[0, 0] = sums_low[0, 0] = 0.0
    for k in range(n_classes):
        for size in range(min(k, n_classes - 2), -1, -1):
            n = count[size + 1]
            for s in range(count[size]):
                x, x_low = _add(sums[size, s], sums_low[size, s], sides[k], sides_low[k])
                if x < 1.0 or (x == 1.0 and x_low < 0.0):
                    sums[size + 1, n] = x
                    sums_low[size + 1, n] = x_low
                    n += 1
            count[size + 1] = n


@nb.njit(cache=True, nogil=True)
def _terms(
    x: FloatArray,
    x_low: FloatArray,
    size: int,
    head: FloatArray,
    tail: FloatArray,
    value: FloatArray,
    value_low: FloatArray,
) -> None:
    """(1−x)^m Q(x) for every subset of one size, m = max(1, size)."""
    m = max(1, size)
    degree = head.shape[0] - 1 - m
    n = x.shape[0]
    for s in range(n):
        value[s] = head[degree]
        value_low[s] = tail[degree]
    for power in range(degree - 1, -1, -1):
        for s in range(n):
            v, v_low = _multiply(value[s], value_low[s], x[s], x_low[s])
            value[s], value_low[s] = _add(v, v_low, head[power], tail[power])
    for s in range(n):
        rest, rest_low = _add(1.0, 0.0, -x[s], -x_low[s])
        v, v_low = value[s], value_low[s]
        for _ in range(m):
            v, v_low = _multiply(v, v_low, rest, rest_low)
        value[s] = v
        value_low[s] = v_low
