r"""Least entropy over a W₁ ball on a line: gather contiguous groups of classes, and split one class.

The entropy is concave, so it is least at a corner of the ball. There (see `geometry.vertices`)
every level of the step function F but one equals G somewhere along it. Levels on G cut the line into contiguous groups
of classes, each gathered in one place; the entropy Σ −M log M sees the groups' masses M only, so the best place is the
weighted median. The free level lies in the mass of one class j, whose parts go to the two groups beside it.

Call (C, D) the cost and the entropy of a partition into groups. Moving class j over a boundary, bit by bit, leads from
one partition P to a neighbour P' (possibly emptying a group). On the way the cost is *concave*, the least of linear
functions, one per pair of meeting places; so is the entropy. Hence:

* the budget is met on the way exactly when one end is affordable and the other is not, and only once; the mass moved
  is the greatest (r − α)/β over the lines α + β t with β > 0;
* D + ν C is concave on the way, so it is at least the smaller of its two ends. Every candidate therefore has an end
  with D + ν (C − r) ≤ its entropy, for any price ν ≥ 0.

Up to ``EXACT_CLASSES`` classes, all partitions and neighbours are compared. For any number of classes, min over
partitions of D + ν (C − r), a shortest path, is a lower bound (Lagrangian duality), greatest at the price of the
convex frontier of (C, D) at cost r. The compiled search looks at all partitions with D + ν (C − r) below the best
entropy found, which closes the bracket unless there are too many; the NumPy form stops at the frontier's bound and the
best neighbour of its corner.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import entr

from credalset._compiled import kernels
from credalset._parallel import for_each_block
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.scores.wasserstein.entropy import entropy
from credalset.scores.wasserstein.geometry import HEAVY, places, within_reach

KERNELS = "credalset.scores.wasserstein.groups_kernels"
EXACT_CLASSES = 10
ELEMENTS = 1 << 20  # of a table, at a time
MAX_PARTITIONS = 3000  # looked at per set and level of the compiled search; all there are up to 12 classes


def min_entropy(
    center: FloatArray, radius: FloatArray, gaps: FloatArray, attaining: bool
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Bracket the least entropy in nats of each ball: (low, high, a member of entropy high).

    ``low`` equals ``high`` up to ``EXACT_CLASSES`` classes with mass, and beyond wherever the compiled search finishes.
    """
    n_classes = center.shape[1]
    low, high, points = np.empty(len(center)), np.empty(len(center)), np.empty_like(center)
    reach, at = within_reach(radius, gaps), places(gaps)
    # Beyond the exact range only the compiled search is tight: use it for small batches too.
    compiled = kernels(KERNELS, center.size, at_least=1 << 10 if n_classes <= EXACT_CLASSES else 0)

    def one_block(rows: slice) -> None:
        if compiled is not None:
            compiled.min_entropy(center[rows], reach[rows], at, MAX_PARTITIONS, low[rows], high[rows], points[rows])
            return
        tables = Tables.of(center[rows], at)
        if n_classes <= EXACT_CLASSES:
            points[rows] = _build(center[rows], at, *_best_of_all(center[rows], reach[rows], at, tables))
            low[rows] = high[rows] = entropy(points[rows])
            return
        bound, corner = _frontier(reach[rows], tables)
        points[rows] = _build(center[rows], at, *_best_neighbour(center[rows], reach[rows], at, tables, corner))
        high[rows] = entropy(points[rows])
        low[rows] = np.clip(bound, 0.0, high[rows])

    work = HEAVY * n_classes
    # The tables of a row hold a few numbers for each pair of classes.
    n_rows = max(1, min(64 if compiled is not None else 256, ELEMENTS // n_classes**2))
    for_each_block(one_block, len(center), work, block_size=work * n_rows)
    return low, high, points if attaining else None


@dataclass(frozen=True)
class Tables:
    """Cost, entropy share and weighted median of every group of classes a..b−1: (N, K + 1, K + 1) each."""

    cost: FloatArray
    disorder: FloatArray
    median: IntArray

    @staticmethod
    def of(mass: FloatArray, at: FloatArray) -> Tables:
        """Tabulate all groups of each row."""
        n_rows, n_classes = mass.shape
        cost = np.zeros((n_rows, n_classes + 1, n_classes + 1))
        disorder, median = np.zeros_like(cost), np.zeros(cost.shape, dtype=np.int64)
        for a in range(n_classes):
            upto = mass[:, a:].cumsum(axis=1)
            for b in range(a + 1, n_classes + 1):
                total = upto[:, b - a - 1]
                middle = a + (2.0 * upto[:, : b - a] < total[:, None]).sum(axis=1)
                median[:, a, b] = middle
                cost[:, a, b] = (mass[:, a:b] * np.abs(at[a:b] - at[middle][:, None])).sum(axis=1)
                disorder[:, a, b] = entr(total)
        return Tables(cost, disorder, median)


@dataclass(frozen=True)
class Chains:
    """All partitions of a run of classes: which boundaries (S, K + 1), at which cost and entropy (N, S)."""

    bounds: BoolArray
    cost: FloatArray
    disorder: FloatArray


def _chains(tables: Tables, forwards: bool) -> list[Chains]:
    """Partitions of the classes before each boundary (forwards) or after it."""
    n_rows, size, _ = tables.cost.shape
    marks = np.eye(size, dtype=bool)
    start = 0 if forwards else size - 1
    found = {start: Chains(marks[start : start + 1], np.zeros((n_rows, 1)), np.zeros((n_rows, 1)))}
    for b in range(1, size) if forwards else range(size - 2, -1, -1):
        earlier = [(a, (a, b) if forwards else (b, a)) for a in found]
        found[b] = Chains(
            np.concatenate([found[a].bounds | marks[b] for a, _ in earlier]),
            np.concatenate([found[a].cost + tables.cost[:, i, j, None] for a, (i, j) in earlier], axis=1),
            np.concatenate([found[a].disorder + tables.disorder[:, i, j, None] for a, (i, j) in earlier], axis=1),
        )
    return [found[b] for b in range(size)]


Choice = tuple[
    BoolArray, IntArray, FloatArray
]  # boundaries (N, K + 1), split class or −1 (N,), its mass going left (N,)


def _best_of_all(mass: FloatArray, budget: FloatArray, at: FloatArray, tables: Tables) -> Choice:
    """Compare every partition and every class split between two neighbouring groups."""
    n_rows, n_classes = mass.shape
    heads, tails = _chains(tables, True), _chains(tables, False)
    whole = heads[n_classes]
    affordable = np.where(whole.cost <= budget[:, None], whole.disorder, np.inf)
    best = affordable.min(axis=1)
    bounds = whole.bounds[affordable.argmin(axis=1)]
    split, to_left = np.full(n_rows, -1), np.zeros(n_rows)
    for a in range(n_classes - 1):
        for c in range(a + 2, n_classes + 1):
            n_tails = tails[c].cost.shape[1]
            left_over = budget[:, None, None] - heads[a].cost[:, :, None] - tails[c].cost[:, None, :]
            rest = (heads[a].disorder[:, :, None] + tails[c].disorder[:, None, :]).reshape(n_rows, -1)
            for j, rightwards in product(range(a, c), (False, True)):
                value, goes_left = _spend(mass, at, tables, a, c, j, rightwards, left_over.reshape(n_rows, -1))
                value += rest
                chosen = value.argmin(axis=1)[:, None]
                reached = np.take_along_axis(value, chosen, axis=1)[:, 0]
                better = reached < best
                pick = chosen[better, 0]
                best[better] = reached[better]
                bounds[better] = heads[a].bounds[pick // n_tails] | tails[c].bounds[pick % n_tails]
                split[better] = j
                to_left[better] = np.take_along_axis(goes_left, chosen, axis=1)[better, 0]
    return bounds, split, to_left


def _spend(
    mass: FloatArray, at: FloatArray, tables: Tables, a: int, c: int, j: int, rightwards: bool, budget: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Move as much of class j over its boundary between a and c as each budget (N, S) allows.

    Returns the entropy of the two groups, inf where the budget is not met on the way, and the mass of j going left.
    """
    start, end = (j + 1, j) if rightwards else (j, j + 1)
    pair_cost = tables.cost[:, a, :] + tables.cost[:, :, c]
    met = (pair_cost[:, start, None] <= budget) & (pair_cost[:, end, None] > budget)
    moved = np.zeros_like(budget)
    if met.any():
        for left, right in product(range(a, j + 1), range(j, c)):
            slope = (2.0 * at[j] - at[left] - at[right]) * (-1.0 if rightwards else 1.0)
            if slope > 0.0:
                spent = mass[:, a:start] @ np.abs(at[a:start] - at[left])
                spent = spent + mass[:, start:c] @ np.abs(at[start:c] - at[right])
                np.maximum(moved, (budget - spent[:, None]) / slope, out=moved)
    own = mass[:, j, None]
    moved = np.minimum(moved, own)
    to_left = own - moved if rightwards else moved
    left_mass = mass[:, a:j].sum(axis=1, keepdims=True) + to_left
    right_mass = mass[:, j + 1 : c].sum(axis=1, keepdims=True) + (own - to_left)
    return np.where(met, entr(left_mass) + entr(right_mass), np.inf), to_left


def _frontier(budget: FloatArray, tables: Tables) -> tuple[FloatArray, BoolArray]:
    """Lower convex frontier of (cost, entropy) over partitions at the budget, and its affordable corner.

    Walked like the frontier of `geometry.support`: price the chord, find the best partition at
    that price as a shortest path, replace the end on its side of the budget.
    """
    n_rows, size, _ = tables.cost.shape
    n_classes = size - 1
    near = np.ones((n_rows, size), dtype=bool)
    steps = np.arange(n_classes)
    near_cost, near_disorder = np.zeros(n_rows), tables.disorder[:, steps, steps + 1].sum(axis=1)
    far_cost, far_disorder = tables.cost[:, 0, -1].copy(), tables.disorder[:, 0, -1].copy()
    at_once = far_cost <= budget
    near[at_once, 1:-1] = False
    near_cost[at_once], near_disorder[at_once] = far_cost[at_once], far_disorder[at_once]
    bound = near_disorder.copy()
    walking = np.flatnonzero(~at_once)
    while len(walking):
        w = walking
        price = (near_disorder[w] - far_disorder[w]) / (far_cost[w] - near_cost[w])
        bound[w] = near_disorder[w] + price * (near_cost[w] - budget[w])
        trial, cost, disorder = _cheapest_partition(price, tables.cost[w], tables.disorder[w])
        better = disorder + price * cost < (near_disorder[w] + price * near_cost[w]) - 1e-15 * near_disorder[w]
        better &= (near_cost[w] < cost) & (cost < far_cost[w])
        affordable, beyond = better & (cost <= budget[w]), better & (cost > budget[w])
        i, k = w[affordable], w[beyond]
        near[i], near_cost[i], near_disorder[i] = trial[affordable], cost[affordable], disorder[affordable]
        far_cost[k], far_disorder[k] = cost[beyond], disorder[beyond]
        walking = w[better]
    return bound, near


def _cheapest_partition(
    price: FloatArray, cost: FloatArray, disorder: FloatArray
) -> tuple[BoolArray, FloatArray, FloatArray]:
    """Minimise Σ disorder + price · cost over partitions, from the last class to the first."""
    n_rows, size, _ = cost.shape
    row = np.arange(n_rows)
    ahead = np.zeros((n_rows, size))
    step = np.zeros((n_rows, size), dtype=np.int64)
    for a in range(size - 2, -1, -1):
        total = disorder[:, a, a + 1 :] + price[:, None] * cost[:, a, a + 1 :] + ahead[:, a + 1 :]
        step[:, a] = a + 1 + total.argmin(axis=1)
        ahead[:, a] = total.min(axis=1)
    bounds = np.zeros((n_rows, size), dtype=bool)
    bounds[:, 0] = bounds[:, -1] = True
    spent, left = np.zeros(n_rows), np.zeros(n_rows)
    for a in range(size - 1):
        b = step[:, a]
        here = bounds[:, a]
        bounds[row[here], b[here]] = True
        spent += np.where(here, cost[row, a, b], 0.0)
        left += np.where(here, disorder[row, a, b], 0.0)
    return bounds, spent, left


def _best_neighbour(mass: FloatArray, budget: FloatArray, at: FloatArray, tables: Tables, bounds: BoolArray) -> Choice:
    """Spend what an affordable partition leaves by moving part of one class over a boundary, as far as the first line.

    The cost on the way is concave, so it stays below its first line: what that affords is affordable.
    """
    n_rows, n_classes = mass.shape
    row, index = np.arange(n_rows), np.arange(n_classes + 1)
    last_bound = np.maximum.accumulate(np.where(bounds, index, 0), axis=1)
    next_bound = np.minimum.accumulate(np.where(bounds, index, n_classes)[:, ::-1], axis=1)[:, ::-1]
    spent = np.zeros(n_rows)
    for a in range(n_classes):
        spent += np.where(bounds[:, a], tables.cost[row, a, next_bound[:, a + 1]], 0.0)
    gain, split, to_left = np.zeros(n_rows), np.full(n_rows, -1), np.zeros(n_rows)
    pair = np.zeros((n_rows, 2), dtype=np.int64)
    upto = np.concatenate([np.zeros((n_rows, 1)), mass.cumsum(axis=1)], axis=1)
    for b, rightwards in product(range(1, n_classes), (False, True)):
        start, end = last_bound[:, b - 1], next_bound[:, b + 1]
        j = b - 1 if rightwards else b
        slope = 2.0 * at[j] - at[tables.median[row, start, b]] - at[tables.median[row, b, end]]
        slope = -slope if rightwards else slope
        moved = np.full(n_rows, np.inf)
        np.divide(budget - spent, slope, out=moved, where=slope > 0.0)
        moved = np.minimum(moved, mass[:, j])
        gone_left = -moved if rightwards else moved
        left = upto[:, b] - upto[row, start] + gone_left
        right = upto[row, end] - upto[:, b] - gone_left
        before = tables.disorder[row, start, b] + tables.disorder[row, b, end]
        gained = before - entr(np.maximum(left, 0.0)) - entr(np.maximum(right, 0.0))
        better = bounds[:, b] & (gained > gain)
        gain[better], split[better] = gained[better], j
        to_left[better] = (mass[:, j] - moved if rightwards else moved)[better]
        pair[better] = np.stack([start, end], axis=1)[better]
    inside = (index > pair[:, :1]) & (index < pair[:, 1:])
    return bounds & ~inside, split, to_left


def _build(mass: FloatArray, at: FloatArray, bounds: BoolArray, split: IntArray, to_left: FloatArray) -> FloatArray:
    """Put every group's mass at its weighted median; the split class counts as two pieces."""
    n_rows, n_classes = mass.shape
    row, piece = np.arange(n_rows), np.arange(n_classes + 1)
    last = np.where(split < 0, n_classes - 1, split)
    of_class = np.where(piece <= last[:, None], piece, piece - 1)
    pieces = np.take_along_axis(mass, of_class, axis=1)
    part = np.where(split < 0, pieces[row, last], to_left)
    pieces[row, last + 1] = pieces[row, last] - part
    pieces[row, last] = part
    starts = np.take_along_axis(bounds, of_class, axis=1)
    starts[row, last + 1] = split >= 0
    group = starts.cumsum(axis=1) - 1
    points = np.zeros_like(mass)
    for g in range(n_classes + 1):
        upto = np.where(group == g, pieces, 0.0).cumsum(axis=1)
        total = upto[:, -1]
        middle = ((group == g) & (2.0 * upto >= total[:, None])).argmax(axis=1)
        points[row, of_class[row, middle]] += np.where((group == g).any(axis=1), total, 0.0)
    return points / points.sum(axis=1, keepdims=True)
