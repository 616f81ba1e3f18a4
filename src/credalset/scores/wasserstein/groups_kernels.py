"""Compiled least entropy over a Wasserstein ball: branch and bound over the ways to gather classes in groups.

The mathematics is in `credalset.scores.wasserstein.groups`. A partition of the classes 0..n−1 is the increasing row
of its boundaries, 0 and n included; ``cost[a, b]`` and ``disorder[a, b]`` are the cost of gathering classes a..b−1 at
their weighted median ``median[a, b]``, and their share −M log M of the entropy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba as nb
import numpy as np

from credalset._typing import FloatArray, IntArray
from credalset.scores.wasserstein.entropy_kernels import entropy

ROUNDS, WITHOUT_ROUNDS = 4, 12  # levels of the search, and the number of classes up to which one will do
NEGLIGIBLE = 1e-20  # with many classes, those below this stay where they are: together less than 1e-16 of entropy
SLACK = 1e-13  # partitions that could improve the entropy by less than this are not looked at


class Row(NamedTuple):
    """One ball, restricted to the n classes that hold mass, with its tables."""

    n: int
    radius: float
    mass: FloatArray
    place: FloatArray
    cost: FloatArray
    disorder: FloatArray
    median: IntArray


@nb.njit(cache=True, nogil=True)
def _collect(
    center: FloatArray, positions: FloatArray, above: float, mass: FloatArray, place: FloatArray, classes: IntArray
) -> int:
    """List the classes that hold more mass than ``above``."""
    n = 0
    for k in range(center.shape[0]):
        if center[k] > above:
            mass[n], place[n], classes[n] = center[k], positions[k], k
            n += 1
    return n


@nb.njit(cache=True, nogil=True)
def _cost_of_gathering(center: FloatArray, positions: FloatArray, at: int) -> float:
    """Cost of moving everything to one class."""
    total = 0.0
    for k in range(center.shape[0]):
        total += center[k] * abs(positions[k] - positions[at])
    return total


@nb.njit(cache=True, nogil=True)
def _disorder(mass: float) -> float:
    return -mass * math.log(mass) if mass > 0.0 else 0.0


@nb.njit(cache=True, nogil=True)
def _tabulate(row: Row) -> None:
    """Fill the tables, moving the median right while more mass lies beyond it than up to it."""
    n, mass, place = row.n, row.mass, row.place
    for a in range(n + 1):
        row.cost[a, a], row.disorder[a, a], row.median[a, a] = 0.0, 0.0, min(a, n - 1)
    for a in range(n):
        middle, spent, total, upto = a, 0.0, 0.0, mass[a]
        for b in range(a, n):
            total += mass[b]
            spent += mass[b] * (place[b] - place[middle])
            while middle < b and total - upto > upto:
                spent -= (place[middle + 1] - place[middle]) * (total - 2.0 * upto)
                middle += 1
                upto += mass[middle]
            row.cost[a, b + 1] = max(spent, 0.0)
            row.disorder[a, b + 1] = _disorder(total)
            row.median[a, b + 1] = middle


@nb.njit(cache=True, nogil=True)
def _totals(row: Row, bounds: IntArray, size: int) -> tuple[float, float]:
    """Cost and entropy of a partition."""
    cost, disorder = 0.0, 0.0
    for g in range(size - 1):
        cost += row.cost[bounds[g], bounds[g + 1]]
        disorder += row.disorder[bounds[g], bounds[g + 1]]
    return cost, disorder


@nb.njit(cache=True, nogil=True)
def _cheapest_partition(row: Row, price: float, ahead: FloatArray, bounds: IntArray) -> int:
    """Minimise Σ disorder + price · cost over all partitions; ``ahead[b]`` is the least for the classes from b on."""
    n = row.n
    ahead[n] = 0.0
    for a in range(n - 1, -1, -1):
        least = np.inf
        for b in range(a + 1, n + 1):
            least = min(least, row.disorder[a, b] + price * row.cost[a, b] + ahead[b])
        ahead[a] = least
    a, size = 0, 1
    bounds[0] = 0
    while a < n:
        b = a + 1
        while b < n and row.disorder[a, b] + price * row.cost[a, b] + ahead[b] > ahead[a]:
            b += 1
        bounds[size] = b
        size += 1
        a = b
    return size


@nb.njit(cache=True, nogil=True)
def _frontier(
    row: Row, ahead: FloatArray, near: IntArray, far: IntArray, trial: IntArray
) -> tuple[float, float, int, int]:
    """Walk the convex frontier of (cost, disorder) over partitions to the budget.

    Returns the bound, its price, and the sizes of the two partitions ``near`` (affordable) and ``far`` (not) that span
    the frontier there; ``ahead`` is left at that price.
    """
    n = row.n
    for a in range(n + 1):
        near[a] = a
    far[0], far[1] = 0, n
    n_near, n_far = n + 1, 2
    near_cost, near_disorder = _totals(row, near, n_near)
    far_cost, far_disorder = _totals(row, far, n_far)
    while True:
        price = (near_disorder - far_disorder) / (far_cost - near_cost)
        size = _cheapest_partition(row, price, ahead, trial)
        cost, disorder = _totals(row, trial, size)
        better = disorder + price * cost < near_disorder + price * near_cost - 1e-15 * near_disorder
        if not (better and near_cost < cost < far_cost):
            return near_disorder + price * (near_cost - row.radius), price, n_near, n_far
        if cost <= row.radius:
            near_cost, near_disorder, n_near = cost, disorder, size
            near[:size] = trial[:size]
        else:
            far_cost, far_disorder, n_far = cost, disorder, size
            far[:size] = trial[:size]


@nb.njit(cache=True, nogil=True)
def _gather(row: Row, a: int, b: int, at: int) -> float:
    """Cost of moving classes a..b−1 to the place of class ``at``."""
    total = 0.0
    for j in range(a, b):
        total += row.mass[j] * abs(row.place[j] - row.place[at])
    return total


@nb.njit(cache=True, nogil=True)
def _affordable_move(row: Row, a: int, c: int, j: int, rightwards: bool, budget: float) -> float:
    """Mass of class j that may change sides between the groups a..j and j..c within the budget.

    The largest mass at which one of the rising lines, one per pair of meeting places, reaches the budget. Only places
    between the medians at both ends of the way can be best.
    """
    place = row.place
    split = j + 1 if rightwards else j  # the way starts with class j on the left, or on the right
    first_left = j if j == a else row.median[a, j]
    last_right = j if j == c - 1 else row.median[j + 1, c]
    most = 0.0
    for left in range(first_left, max(row.median[a, j + 1], first_left) + 1):
        base = _gather(row, a, split, left)
        for right in range(row.median[j, c], max(last_right, row.median[j, c]) + 1):
            slope = (place[j] - place[left]) - (place[right] - place[j])
            if rightwards:
                slope = -slope
            if slope > 0.0:
                most = max(most, (budget - base - _gather(row, split, c, right)) / slope)
    return min(most, row.mass[j])


@nb.njit(cache=True, nogil=True)
def _try_edge(row: Row, cost: float, disorder: float, a: int, b: int, c: int, j: int, best: FloatArray) -> bool:
    """Split class j between the groups a..j and j..c so that the budget is spent; keep it if the entropy is less.

    The partition at hand, of the given cost and disorder, has the boundary b in a..c (b = c: one group). ``best`` holds
    (entropy, a, c, j, mass of class j that goes left).
    """
    budget = row.radius - (cost - row.cost[a, b] - row.cost[b, c])
    on_left, on_right = row.cost[a, j + 1] + row.cost[j + 1, c], row.cost[a, j] + row.cost[j, c]  # class j is
    rightwards = on_left <= budget
    if rightwards == (on_right <= budget):
        return False
    start, end = row.disorder[a, j] + row.disorder[j, c], row.disorder[a, j + 1] + row.disorder[j + 1, c]
    near, far = on_right, on_left
    if rightwards:
        start, end, near, far = end, start, far, near
    rest = disorder - row.disorder[a, b] - row.disorder[b, c]
    share = (budget - near) / (far - near)  # cost is concave, so no more than this share can move
    if rest + start + share * min(end - start, 0.0) >= best[0]:
        return False
    moved = _affordable_move(row, a, c, j, rightwards, budget)
    to_left = row.mass[j] - moved if rightwards else moved
    left, right = to_left, row.mass[j] - to_left
    for k in range(a, j):
        left += row.mass[k]
    for k in range(j + 1, c):
        right += row.mass[k]
    reached = rest + _disorder(left) + _disorder(right)
    if reached >= best[0]:
        return False
    best[0], best[1], best[2], best[3], best[4] = reached, a, c, j, to_left
    return True


@nb.njit(cache=True, nogil=True)
def _try_partition(row: Row, bounds: IntArray, size: int, best: FloatArray, best_bounds: IntArray) -> None:
    """Try a partition and every way to spend the budget exactly by moving part of one class over a boundary."""
    cost, disorder = _totals(row, bounds, size)
    better = False
    if cost <= row.radius and disorder < best[0]:
        better = True
        best[0], best[1], best[2], best[3], best[4] = disorder, -1.0, -1.0, -1.0, 0.0
    for g in range(size - 1):
        a, b = bounds[g], bounds[g + 1]
        if b - a > 1:  # the first or the last class of a group breaks away
            better |= _try_edge(row, cost, disorder, a, b, b, a, best)
            better |= _try_edge(row, cost, disorder, a, b, b, b - 1, best)
        if b < row.n:  # a class next to the boundary b changes sides
            better |= _try_edge(row, cost, disorder, a, b, bounds[g + 2], b - 1, best)
            better |= _try_edge(row, cost, disorder, a, b, bounds[g + 2], b, best)
    if better:
        best_bounds[:size] = bounds[:size]


@nb.njit(cache=True, nogil=True)
def _search(
    row: Row,
    ahead: FloatArray,
    price: float,
    level: float,
    max_partitions: int,
    bounds: IntArray,
    so_far: FloatArray,
    best: FloatArray,
    best_bounds: IntArray,
) -> bool:
    """Look at every partition whose Lagrangian is below the level and the best entropy; False if there are too many.

    Depth first over the boundaries; ``ahead`` makes the bound of a beginning the least over all its endings.
    """
    n, tried, depth = row.n, 0, 0
    bounds[0], bounds[1], so_far[0] = 0, 0, -price * row.radius
    while depth >= 0:
        a = bounds[depth]
        bounds[depth + 1] += 1
        b = bounds[depth + 1]
        if b > n:
            depth -= 1
            continue
        reached = so_far[depth] + row.disorder[a, b] + price * row.cost[a, b]
        if reached + ahead[b] >= min(best[0] - SLACK, level):
            continue
        if b == n:
            tried += 1
            if tried > max_partitions:
                return False
            _try_partition(row, bounds, depth + 2, best, best_bounds)
            continue
        depth += 1
        so_far[depth] = reached
        bounds[depth + 1] = b
    return True


@nb.njit(cache=True, nogil=True)
def _build(row: Row, best: FloatArray, bounds: IntArray, classes: IntArray, point: FloatArray) -> None:
    """Put every group's mass at its weighted median; classes that were left out keep theirs."""
    a, c, j, to_left = int(best[1]), int(best[2]), int(best[3]), best[4]
    for k in range(row.n):
        point[classes[k]] = 0.0
    start, start_part = 0, 0.0  # a group starts in this class, after this much of its mass
    g = 0
    split_done = a < 0
    while start < row.n:
        if not split_done and start == a:
            end, end_part = j, to_left
            split_done = True
        else:
            while bounds[g] <= start or (a >= 0 and a < bounds[g] < c):
                g += 1
            end, end_part = bounds[g], 0.0
        total = 0.0
        for sweep in range(2):  # the group's mass first, then the class where half of it is reached
            upto = 0.0
            for k in range(start, min(end + 1, row.n)):
                piece = row.mass[k] if k < end else end_part
                upto += piece - start_part if k == start else piece
                if sweep == 1 and 2.0 * upto >= total:
                    point[classes[k]] += total
                    break
            total = upto
        start, start_part = end, end_part
    point /= point.sum()


@nb.njit(cache=True, nogil=True)
def min_entropy(
    center: FloatArray,
    radius: FloatArray,
    positions: FloatArray,
    max_partitions: int,
    low: FloatArray,
    high: FloatArray,
    points: FloatArray,
) -> None:
    """Bracket the least entropy of every row; ``low`` equals ``high`` where the search was complete."""
    n_classes = center.shape[1]
    cost, disorder = np.empty((2, n_classes + 1, n_classes + 1))
    median = np.empty((n_classes + 1, n_classes + 1), np.int64)
    ahead, so_far = np.empty((2, n_classes + 2))
    near, far, trial, best_bounds = np.empty((4, n_classes + 2), np.int64)
    mass, place = np.empty((2, n_classes))
    classes = np.empty(n_classes, np.int64)
    best = np.empty(5)
    for i in range(center.shape[0]):
        n = _collect(center[i], positions, 0.0, mass, place, classes)
        if n > WITHOUT_ROUNDS:
            n = _collect(center[i], positions, NEGLIGIBLE, mass, place, classes)
        row = Row(n, radius[i], mass, place, cost, disorder, median)
        _tabulate(row)
        if cost[0, n] <= radius[i]:
            middle = classes[median[0, n]]
            if n < n_classes and _cost_of_gathering(center[i], positions, middle) > radius[i]:
                points[i] = center[i]  # all but a few negligible classes can be gathered
            else:
                points[i] = 0.0
            for k in range(n):
                points[i, classes[k]] = 0.0
            points[i, middle] = 1.0
            low[i] = high[i] = 0.0
            continue
        bound, price, n_near, n_far = _frontier(row, ahead, near, far, trial)
        best[0] = np.inf
        _try_partition(row, near, n_near, best, best_bounds)
        _try_partition(row, far, n_far, best, best_bounds)
        # Partitions of low Lagrangian first: they tend to be the good ones, and every finished level is a lower bound.
        first = bound
        for step in range(ROUNDS - 1 if n > WITHOUT_ROUNDS else 0, -1, -1):
            level = first + (best[0] - first) * 0.5**step
            if not _search(row, ahead, price, level, max_partitions, trial, so_far, best, best_bounds):
                break
            bound = level
            if best[0] - SLACK <= level:
                break
        points[i] = center[i]
        _build(row, best, best_bounds, classes, points[i])
        high[i] = entropy(points[i])
        low[i] = high[i] if best[0] - SLACK <= bound else min(max(bound, 0.0), high[i])
