"""Compiled forms of `credalset.scores.wasserstein.geometry`, row by row."""

from __future__ import annotations

import numba as nb
import numpy as np

from credalset._typing import FloatArray, IntArray

TIE = 1e-14  # cumulative masses closer than this are the same breakpoint


@nb.njit(cache=True, nogil=True)
def envelope(
    center: FloatArray, radius: FloatArray, positions: FloatArray, lower: FloatArray, upper: FloatArray
) -> None:
    """Gather mass from the nearest classes first; lose it to the nearest class."""
    n_classes = center.shape[1]
    for i in range(center.shape[0]):
        for k in range(n_classes):
            left, right = k - 1, k + 1
            mass, budget = center[i, k], radius[i]
            nearest = np.inf
            while budget > 0.0 and (left >= 0 or right < n_classes):
                to_left = positions[k] - positions[left] if left >= 0 else np.inf
                to_right = positions[right] - positions[k] if right < n_classes else np.inf
                distance = min(to_left, to_right)
                nearest = min(nearest, distance)
                if to_left <= to_right:
                    available = center[i, left]
                    left -= 1
                else:
                    available = center[i, right]
                    right += 1
                if available * distance <= budget:
                    mass += available
                    budget -= available * distance
                else:
                    mass += budget / distance
                    budget = 0.0
            upper[i, k] = min(mass, 1.0)
            lower[i, k] = max(center[i, k] - radius[i] / nearest, 0.0)


@nb.njit(cache=True, nogil=True)
def _best_targets(
    center: FloatArray, utility: FloatArray, positions: FloatArray, price: float, target: IntArray
) -> tuple[float, float]:
    """Send every class where utility − price · distance is greatest; return the cost and the gain of doing so."""
    n_classes = center.shape[0]
    best = 0
    for j in range(n_classes):
        if utility[j] >= utility[best] - price * (positions[j] - positions[best]):
            best = j
        target[j] = best
    cost, value = 0.0, 0.0
    best = n_classes - 1
    for j in range(n_classes - 1, -1, -1):
        if utility[j] >= utility[best] - price * (positions[best] - positions[j]):
            best = j
        other = target[j]
        ahead, behind = positions[best] - positions[j], positions[j] - positions[other]
        net_ahead, net_behind = utility[best] - price * ahead, utility[other] - price * behind
        if net_ahead > net_behind or (net_ahead == net_behind and ahead < behind):
            target[j] = best
        cost += center[j] * abs(positions[target[j]] - positions[j])
        value += center[j] * utility[target[j]]
    return cost, value


@nb.njit(cache=True, nogil=True)
def support(
    center: FloatArray,
    radius: FloatArray,
    utility: FloatArray,
    positions: FloatArray,
    attaining: bool,
    value: FloatArray,
    points: FloatArray,
) -> None:
    """Walk the concave frontier of (cost, expected utility) to the budget; see the NumPy form."""
    n_classes = center.shape[1]
    near, far, trial = np.empty((3, n_classes), np.int64)
    relative = np.empty(n_classes)
    for i in range(center.shape[0]):
        greatest, least = utility[i].max(), utility[i].min()
        near_value = 0.0
        for k in range(n_classes):
            near[k] = k
            relative[k] = utility[i, k] - greatest
            near_value += center[i, k] * relative[k]
        near_cost = 0.0
        far_cost, far_value = _best_targets(center[i], relative, positions, 0.0, far)
        weight = 1.0
        if far_cost > radius[i]:
            tolerance = 1e-15 * (greatest - least)
            while True:
                price = (far_value - near_value) / (far_cost - near_cost)
                cost, reached = _best_targets(center[i], relative, positions, price, trial)
                better = reached - near_value - price * (cost - near_cost) > tolerance
                if not (better and near_cost < cost < far_cost):
                    break
                if cost <= radius[i]:
                    near_cost, near_value = cost, reached
                    near[:] = trial
                else:
                    far_cost, far_value = cost, reached
                    far[:] = trial
            weight = (radius[i] - near_cost) / (far_cost - near_cost)
        value[i] = greatest + (1.0 - weight) * near_value + weight * far_value
        if attaining:
            points[i] = 0.0
            for k in range(n_classes):
                points[i, near[k]] += (1.0 - weight) * center[i, k]
                points[i, far[k]] += weight * center[i, k]


@nb.njit(cache=True, nogil=True)
def _before(a: float, slope_a: float, b: float, slope_b: float) -> bool:
    """Order of two breakpoints a + slope·ε for a vanishing ε > 0; the slopes decide ties."""
    return slope_a < slope_b if abs(a - b) <= TIE else a < b


@nb.njit(cache=True, nogil=True)
def _insert(stack: FloatArray, size: int, place: float, slope: float, weight: float, side: float, sense: float) -> int:
    """Insert a breakpoint into a stack whose top is next to the minimum (side +1: left of it, −1: right).

    The first entry, of infinite weight, is the end of the domain; a breakpoint beyond it acts from there.
    """
    at = size
    while at > 0 and _before(
        side * place, side * sense * slope, side * stack[at - 1, 0], side * sense * stack[at - 1, 1]
    ):
        at -= 1
    if at == 0:
        place, slope, at = stack[0, 0], stack[0, 1], 1
    for j in range(size, at, -1):
        stack[j] = stack[j - 1]
    stack[at, 0], stack[at, 1], stack[at, 2] = place, slope, weight
    return size + 1


@nb.njit(cache=True, nogil=True)
def _add_hinge(
    near: FloatArray, n_near: int, far: FloatArray, n_far: int, place: float, weight: float, side: float, sense: float
) -> tuple[int, int]:
    """Add a hinge that rises away from stack ``near`` towards stack ``far``, and rebalance the two.

    On the far side of the minimum the hinge is one more breakpoint there. Otherwise the minimum moves towards ``near``:
    breakpoints of the same weight change sides.
    """
    top = n_near - 1
    if not _before(side * place, 0.0, side * near[top, 0], side * sense * near[top, 1]):
        return n_near, _insert(far, n_far, place, 0.0, weight, -side, sense)
    n_near = _insert(near, n_near, place, 0.0, weight, side, sense)
    while weight > 0.0:
        top = n_near - 1
        taken = min(weight, near[top, 2])
        far[n_far, 0], far[n_far, 1], far[n_far, 2] = near[top, 0], near[top, 1], taken
        n_far += 1
        near[top, 2] -= taken
        if near[top, 2] <= 0.0:
            n_near -= 1
        weight -= taken
    return n_near, n_far


@nb.njit(cache=True, nogil=True)
def _cost_at_level(
    cumulative: FloatArray,
    gaps: FloatArray,
    top: int,
    level: float,
    sense: float,
    left: FloatArray,
    right: FloatArray,
    flat: FloatArray,
) -> tuple[float, float]:
    """Least W₁ with λ_top = level and no class above it, and its one-sided derivative in the level.

    The message of class k, the least cost of the classes before it as a function of F_k, is convex and piecewise
    linear. ``left`` and ``right`` hold its breakpoints (place, d place / d level, jump of the slope) on both sides of
    the minimum; a class may take between 0 and ``level``, which shifts the right side by the level, and class ``top``
    takes the level exactly, which shifts both. ``flat`` keeps where each message is least, for the way back.
    """
    n_gaps = gaps.shape[0]
    left[0, 0], left[0, 1], left[0, 2] = 0.0, 0.0, np.inf  # F = 0 before the first class
    right[0, 0], right[0, 1], right[0, 2] = 0.0, 0.0, np.inf
    n_left, n_right = 1, 1
    for k in range(n_gaps):
        for j in range(n_right):
            right[j, 0] += level
            right[j, 1] += 1.0
        if k == top:
            for j in range(n_left):
                left[j, 0] += level
                left[j, 1] += 1.0
        n_left, n_right = _add_hinge(left, n_left, right, n_right, cumulative[k], gaps[k], 1.0, sense)
        n_right, n_left = _add_hinge(right, n_right, left, n_left, cumulative[k], gaps[k], -1.0, sense)
        flat[k, 0], flat[k, 1] = left[n_left - 1, 0], left[n_left - 1, 1]
        flat[k, 2], flat[k, 3] = right[n_right - 1, 0], right[n_right - 1, 1]
    place, slope = 1.0, 0.0
    cost, derivative = 0.0, 0.0
    for k in range(n_gaps - 1, -1, -1):
        lowest, lowest_slope = place - level, slope - 1.0
        if k + 1 == top or _before(flat[k, 2], sense * flat[k, 3], lowest, sense * lowest_slope):
            place, slope = lowest, lowest_slope
        elif not _before(place, sense * slope, flat[k, 0], sense * flat[k, 1]):
            place, slope = flat[k, 0], flat[k, 1]
            if _before(place, sense * slope, lowest, sense * lowest_slope):
                place, slope = lowest, lowest_slope
        off = place - cumulative[k]
        cost += gaps[k] * abs(off)
        derivative += gaps[k] * (sense * abs(slope) if abs(off) <= TIE else np.sign(off) * slope)
    return cost, derivative


@nb.njit(cache=True, nogil=True)
def closest_with_top(center: FloatArray, gaps: FloatArray, closest: FloatArray) -> None:
    """Minimise `_cost_at_level`, convex and piecewise linear in the level, by intersecting its tangents."""
    n_classes = center.shape[1]
    cumulative = np.empty(n_classes)
    left, right = np.empty((4 * n_classes + 4, 3)), np.empty((4 * n_classes + 4, 3))
    flat = np.empty((n_classes, 4))
    tolerance = 1e-14 * gaps.sum()
    for i in range(center.shape[0]):
        total = 0.0
        for k in range(n_classes):
            total += center[i, k]
            cumulative[k] = total
        most = center[i].max()
        for top in range(n_classes):
            if center[i, top] >= most:
                closest[i, top] = 0.0
                continue
            low, high = max(1.0 / n_classes, center[i, top]), most
            low_cost, low_slope = _cost_at_level(cumulative, gaps, top, low, 1.0, left, right, flat)
            high_cost, high_slope = _cost_at_level(cumulative, gaps, top, high, -1.0, left, right, flat)
            best = min(low_cost, high_cost)
            while low_slope < 0.0 < high_slope:
                level = (high_cost - low_cost + low_slope * low - high_slope * high) / (low_slope - high_slope)
                if not low < level < high:
                    break
                bound = low_cost + low_slope * (level - low)
                cost, slope = _cost_at_level(cumulative, gaps, top, level, 1.0, left, right, flat)
                best = min(best, cost)
                if cost - bound <= tolerance or slope == 0.0:
                    break
                if slope < 0.0:
                    low, low_cost, low_slope = level, cost, slope
                else:
                    high, high_cost, high_slope = level, cost, slope
            closest[i, top] = best


@nb.njit(cache=True, nogil=True)
def smallest_peak(center: FloatArray, radius: FloatArray, gaps: FloatArray, peak: FloatArray) -> None:
    """Follow the tangents of the least cost below a cap, convex and falling in it, from 1/K up to cost r."""
    n_classes = center.shape[1]
    cumulative = np.empty(n_classes)
    left, right = np.empty((4 * n_classes + 4, 3)), np.empty((4 * n_classes + 4, 3))
    flat = np.empty((n_classes, 4))
    tolerance = 1e-15 * gaps.sum()
    for i in range(center.shape[0]):
        total, most = 0.0, 0.0
        for k in range(n_classes):
            total += center[i, k]
            cumulative[k] = total
            most = max(most, center[i, k])
        cap = 1.0 / n_classes
        while cap < most:
            # No class has to reach the cap: there is no class number −1.
            cost, slope = _cost_at_level(cumulative, gaps, -1, cap, 1.0, left, right, flat)
            if cost <= radius[i] + tolerance or slope >= 0.0:
                break
            following = cap + (cost - radius[i]) / -slope
            if following <= cap:
                break
            cap = following
        peak[i] = min(cap, most)
