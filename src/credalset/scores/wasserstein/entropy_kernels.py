"""Compiled forms of `credalset.scores.wasserstein.entropy`, row by row."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from credalset._typing import FloatArray

MAX_ROOT_STEPS = 100
VANISHING = 1e-280  # a mass below this says nothing about its neighbour: it may have lost its digits to underflow


@nb.njit(cache=True, nogil=True)
def entropy(point: FloatArray) -> float:
    """−Σ λ log λ; the logarithm of the largest entry comes from the others, so small entropies keep their digits."""
    largest = 0
    for k in range(1, point.shape[0]):
        if point[k] > point[largest]:
            largest = k
    rest, total = 0.0, 0.0
    for k in range(point.shape[0]):
        if k != largest and point[k] > 0.0:
            rest += point[k]
            total -= point[k] * math.log(point[k])
    log_largest = math.log1p(-rest) if rest < 0.5 else math.log(point[largest])
    return max(total - point[largest] * log_largest, 0.0)


@nb.njit(cache=True, nogil=True)
def _cost(a: FloatArray, b: FloatArray, gaps: FloatArray) -> float:
    """W₁ between two rows."""
    total, excess = 0.0, 0.0
    for k in range(gaps.shape[0]):
        excess += a[k] - b[k]
        total += gaps[k] * abs(excess)
    return total


@nb.njit(cache=True, nogil=True)
def _smoothest(
    center: FloatArray,
    gaps: FloatArray,
    price: float,
    mass: FloatArray,
    excess: FloatArray,
    stay: FloatArray,
    point: FloatArray,
) -> tuple[float, float]:
    """Maximise H(λ) − price · W₁(λ, center); return W₁ and its derivative in the price.

    ``mass``, ``excess`` hold the knots of the message h_k(λ_k) = F_k − G_k and ``stay`` its root, where F_k = G_k.
    """
    n_classes = center.shape[0]
    mass[0], mass[1] = 0.0, 1.0
    excess[0], excess[1] = -center[0], 1.0 - center[0]
    size = 2
    for k in range(n_classes):
        first = 0
        while first < size and excess[first] < 0.0:
            first += 1
        if first == 0:
            root = mass[0]
        elif first == size:
            root = mass[size - 1]
        else:
            share = -excess[first - 1] / (excess[first] - excess[first - 1])
            root = mass[first - 1] + (mass[first] - mass[first - 1]) * share
        stay[k] = root
        if k == n_classes - 1:
            break
        decay = math.exp(-price * gaps[k])
        cap = 0.0  # the message at mass 1 after the shift
        if decay > root:
            j = first
            while j < size and mass[j] <= decay:
                j += 1
            if j == size:
                cap = excess[size - 1]
            else:
                share = (decay - mass[j - 1]) / (mass[j] - mass[j - 1])
                cap = max(excess[j - 1] + share * (excess[j] - excess[j - 1]), 0.0)
            size = min(size, j + 1)
        elif first < size:
            size = first + 1
            mass[first] = 1.0  # everything above the root leaves the range
        gain = center[k + 1]
        for j in range(size - 1, first - 1, -1):
            shifted = mass[j] / decay if mass[j] < decay else 1.0
            mass[j + 2] = shifted
            excess[j + 2] = min(excess[j], cap) + shifted - gain
        mass[first + 1] = min(1.0, root / decay) if decay > 0.0 else (1.0 if root > 0.0 else 0.0)
        mass[first] = root * decay
        excess[first + 1], excess[first] = mass[first + 1] - gain, mass[first] - gain
        for j in range(first):
            mass[j] *= decay
            excess[j] += mass[j] - gain
        size += 2
    return _trace_back(center, gaps, price, stay, point)


@nb.njit(cache=True, nogil=True)
def _trace_back(
    center: FloatArray, gaps: FloatArray, price: float, stay: FloatArray, point: FloatArray
) -> tuple[float, float]:
    """Read λ off the roots from the last class to the first; blocks end where F_k = G_k."""
    n_classes = center.shape[0]
    point[n_classes - 1] = stay[n_classes - 1]
    cost, spread, off, height = 0.0, 0.0, 0.0, 0.0
    total, first_moment, second_moment = point[n_classes - 1], 0.0, 0.0
    for k in range(n_classes - 2, -1, -1):
        decay = math.exp(-price * gaps[k])
        least, most = point[k + 1] * decay, np.inf
        if decay > 0.0 and point[k + 1] > VANISHING:
            most = point[k + 1] / decay
        off -= point[k + 1] - center[k + 1]
        if stay[k] < least:
            point[k] = least
            height -= gaps[k]
        elif stay[k] > most:
            point[k] = most
            height += gaps[k]
        else:
            point[k] = stay[k]
            off, height = 0.0, 0.0
            spread += second_moment - first_moment * first_moment / total if total > 0.0 else 0.0
            total, first_moment, second_moment = 0.0, 0.0, 0.0
        cost += gaps[k] * abs(off)
        total += point[k]
        first_moment += point[k] * height
        second_moment += point[k] * height * height
    spread += second_moment - first_moment * first_moment / total if total > 0.0 else 0.0
    return cost, -spread


@nb.njit(cache=True, nogil=True)
def max_entropy(
    center: FloatArray, radius: FloatArray, gaps: FloatArray, attaining: bool, value: FloatArray, points: FloatArray
) -> None:
    """Find the price at which the smoothest distribution costs the radius: Newton on log cost, bracketed."""
    n_classes = center.shape[1]
    mass, excess = np.empty(2 * n_classes + 4), np.empty(2 * n_classes + 4)
    stay = np.empty(n_classes)
    point = np.empty(n_classes)
    for i in range(center.shape[0]):
        point[:] = 1.0 / n_classes
        cost = _cost(point, center[i], gaps)
        if radius[i] == 0.0:
            point[:] = center[i]
        elif cost > radius[i]:
            low, high, price = 0.0, np.inf, 0.0
            cost, slope = _smoothest(center[i], gaps, price, mass, excess, stay, point)
            for _ in range(MAX_ROOT_STEPS):
                if abs(cost - radius[i]) <= 1e-15 * radius[i]:
                    break
                if cost > radius[i]:
                    low = price
                else:
                    high = price
                if high < np.inf and high - low <= 4e-16 * high:
                    break
                trial = -1.0
                if slope < 0.0 and cost > 0.0:
                    trial = price - cost / slope * math.log(cost / radius[i])
                    if not low < trial < high:
                        trial = price - (cost - radius[i]) / slope
                if not low < trial < high:
                    trial = 0.5 * (low + high) if high < np.inf else 2.0 * max(low, 1.0)
                price = trial
                cost, slope = _smoothest(center[i], gaps, price, mass, excess, stay, point)
            point /= point.sum()
            cost = _cost(point, center[i], gaps)
            if cost > radius[i]:
                point += (1.0 - radius[i] / cost) * (center[i] - point)
        value[i] = min(entropy(point), math.log(n_classes))
        if attaining:
            points[i] = point
