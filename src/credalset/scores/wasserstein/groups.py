r"""Least entropy over a W₁ ball on a line: gather contiguous groups of classes, and split one class.

The entropy is concave, so it is least at a corner of the ball. There (see `vertices`)
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

min over partitions of D + ν (C − r), a shortest path, is a lower bound (Lagrangian duality), greatest at the price of
the convex frontier of (C, D) at cost r. From there a search looks at all partitions with D + ν (C − r) below the best
entropy found, which closes the bracket unless there are too many: never up to `EXACT_CLASSES` classes with mass.

Inside, balls come last, (…, n), and a partition of m classes is the set of its boundaries, m + 1 booleans, or a list of
them; a group of classes is a..b − 1.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import entr

from credalset._parallel import in_blocks
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.scores.wasserstein.geometry import places, walk_frontier, within_reach
from credalset.sets.roots import among
from credalset.simplex import precise_entropy

EXACT_CLASSES = 12
MAX_PARTITIONS = 3000  # looked at per set and round of the search; all there are up to 12 classes
ROUNDS = 4  # of the search beyond that many classes, each of which makes a lower bound
NEGLIGIBLE = 1e-20  # with many classes, those below this stay where they are: together less than 1e-16 of entropy
SLACK = 1e-13  # partitions that could improve the entropy by less than this are not looked at


class Balls(NamedTuple):
    """Balls over m classes that hold mass, (m, n), and what groups of them cost and weigh, (m + 1, m + 1, n).

    ``before`` and ``moment`` are the sums of mass, and of mass times place, up to each boundary, (m + 1, n).
    """

    radius: FloatArray
    mass: FloatArray
    place: FloatArray
    before: FloatArray
    moment: FloatArray
    cost: FloatArray
    disorder: FloatArray
    median: IntArray

    @staticmethod
    def of(radius: FloatArray, mass: FloatArray, place: FloatArray) -> Balls:
        """Tabulate all groups, wider ones later: the median moves right while more mass lies beyond than up to it."""
        m, n = mass.shape
        cost, total = np.zeros((2, m + 1, m + 1, n))
        median = np.zeros(cost.shape, dtype=np.int64)
        middle = np.repeat(np.arange(m)[:, None], n, axis=1)
        whole, spent, upto = np.zeros_like(mass), np.zeros_like(mass), mass.copy()
        for width in range(1, m + 1):
            last = np.arange(width - 1, m)[:, None]
            middle = middle[: len(last)]
            whole, spent, upto = whole[: len(last)], spent[: len(last)], upto[: len(last)]
            whole = whole + mass[last[:, 0]]
            spent = spent + mass[last[:, 0]] * (place[last[:, 0]] - np.take_along_axis(place, middle, axis=0))
            while True:
                moves = (middle < last) & (whole - upto > upto)
                if not moves.any():
                    break
                following = np.minimum(middle + 1, m - 1)
                step = np.take_along_axis(place, following, axis=0) - np.take_along_axis(place, middle, axis=0)
                spent = spent - np.where(moves, step * (whole - 2.0 * upto), 0.0)
                upto = upto + np.where(moves, np.take_along_axis(mass, following, axis=0), 0.0)
                middle = np.where(moves, following, middle)
            group = np.arange(len(last)), last[:, 0] + 1
            cost[group], total[group], median[group] = np.maximum(spent, 0.0), whole, middle
        before, moment = (
            np.concatenate([np.zeros((1, n)), np.cumsum(array, axis=0)]) for array in (mass, mass * place)
        )
        return Balls(radius, mass, place, before, moment, cost, entr(total), median)

    def group(self, a: IntArray, b: IntArray, ball: IntArray) -> IntArray:
        """Where the tables, laid out flat, keep the group a..b − 1 of a ball."""
        return (a * len(self.before) + b) * len(self.radius) + ball

    def pair(self, table: FloatArray, a: IntArray, b: IntArray, c: IntArray, ball: IntArray) -> FloatArray:
        """Cost or disorder of the groups a..b − 1 and b..c − 1 together."""
        return table.take(self.group(a, b, ball)) + table.take(self.group(b, c, ball))

    def moving_cost(self, first: IntArray, last: IntArray, to: IntArray, ball: IntArray) -> FloatArray:
        """Cost of gathering the classes first..last − 1 of some balls at the place of class ``to``."""
        x, middle = self.place[to, ball], np.clip(to, first, last)
        sums = (
            2.0 * array[middle, ball] - array[first, ball] - array[last, ball] for array in (self.before, self.moment)
        )
        return x * next(sums) - next(sums)

    def select(self, rows: IntArray | BoolArray) -> Balls:
        """Some of the balls."""
        return Balls(*among(rows, *self))


class Partitions(NamedTuple):
    """A list of partitions: the ball of each, (p,), and its boundaries, (p, m + 1)."""

    ball: IntArray
    bounds: BoolArray


class Best(NamedTuple):
    """The best found for each ball: its entropy and groups.

    The groups are told by boundaries (n, m + 1), the class that is split between the groups on its two sides, −1 for
    none, and the mass of it that goes to the left group.
    """

    entropy: FloatArray
    bounds: BoolArray
    split: IntArray
    to_left: FloatArray


@in_blocks(lambda size: size * size if size <= EXACT_CLASSES else max(size * size, MAX_PARTITIONS), block_size=1 << 17)
def min_entropy(
    center: FloatArray, radius: FloatArray, *, gaps: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bracket the least entropy in nats of each ball: (low, high, a member of entropy high)."""
    reach, at, points = within_reach(radius, gaps), places(gaps), center.copy()
    held = center > 0
    held &= (center > NEGLIGIBLE) | (held.sum(axis=1) <= EXACT_CLASSES)[:, None]
    low = np.zeros(len(center))
    exact = np.ones(len(center), dtype=bool)
    for m in np.unique(held.sum(axis=1)):
        rows = np.flatnonzero(held.sum(axis=1) == m)
        classes = np.nonzero(held[rows])[1].reshape(-1, m).T
        balls = Balls.of(reach[rows], center[rows, classes], at[classes])
        found, low[rows], exact[rows] = _gathered(balls)
        points[rows, classes] = found
        everywhere = found.max(axis=0) >= balls.mass.sum(axis=0) * (1.0 - 1e-15)
        _sweep(points, center, rows[everywhere], reach, at)
    points /= points.sum(axis=1, keepdims=True)
    high = precise_entropy(np.ascontiguousarray(points.T))
    return np.where(exact, high, np.clip(low, 0.0, high)), high, points


def _sweep(points: FloatArray, center: FloatArray, rows: IntArray, reach: FloatArray, at: FloatArray) -> None:
    """Where all but negligible classes are gathered in one place, gather those too if that is affordable."""
    top = points[rows].argmax(axis=1)
    affordable = (center[rows] * np.abs(at - at[top][:, None])).sum(axis=1) <= reach[rows]
    points[rows[affordable]] = np.eye(points.shape[1])[top[affordable]]


def _gathered(balls: Balls) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Search for the least entropy: a point (m, n), a lower bound, and whether the point attains the least."""
    m, n = balls.mass.shape
    whole = np.zeros((n, m + 1), dtype=bool)
    whole[:, [0, -1]] = True
    best = Best(np.full(n, np.inf), whole, np.full(n, -1), np.zeros(n))
    low, exact = np.zeros(n), np.ones(n, dtype=bool)
    rows = np.flatnonzero(balls.cost[0, m] > balls.radius)
    if len(rows):
        hard = balls.select(rows)
        bound, price, ahead, near, far = _frontier(hard)
        found = Best(best.entropy[rows], best.bounds[rows], best.split[rows], best.to_left[rows])
        for bounds in (near, far):
            found = _improve(hard, found, Partitions(np.arange(len(rows)), bounds))
        low[rows], found = _search(hard, found, bound, price, ahead)
        exact[rows] = found.entropy - SLACK <= low[rows]
        for array, part in zip(best, found, strict=True):
            array[rows] = part
    return _build(balls, best), low, exact


def _frontier(balls: Balls) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray, BoolArray]:
    """Walk the lower convex frontier of (cost, entropy) over partitions to the budget: corners are shortest paths.

    Returns the bound, its price, what the classes from each boundary on add at that price, (m + 1, n), and the
    partitions at both ends, (n, m + 1), one affordable and one not.
    """
    m, n = balls.mass.shape
    steps = np.arange(m)
    single, whole = np.ones((n, m + 1), dtype=bool), np.zeros((n, m + 1), dtype=bool)
    whole[:, [0, -1]] = True
    near = np.zeros(n), -balls.disorder[steps, steps + 1].sum(axis=0), single
    far = balls.cost[0, m].copy(), -balls.disorder[0, m], whole
    price, ahead = np.zeros(n), np.zeros((m + 1, n))

    def corner(rows: IntArray, prices: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        price[rows] = prices
        part = balls.select(rows) if len(rows) < n else balls
        bounds, cost, disorder, ahead[:, rows] = _cheapest_partition(part, prices)
        return cost, -disorder, bounds

    walk_frontier(near, far, balls.radius, -1e-15 * near[1], corner)
    return price * (near[0] - balls.radius) - near[1], price, ahead, near[2], far[2]


def _cheapest_partition(balls: Balls, price: FloatArray) -> tuple[BoolArray, FloatArray, FloatArray, FloatArray]:
    """Minimise Σ disorder + price · cost over partitions, from the last class to the first."""
    m, n = balls.mass.shape
    column = np.arange(n)
    ahead, step = np.zeros((m + 1, n)), np.zeros((m + 1, n), dtype=np.int64)
    for a in range(m - 1, -1, -1):
        total = balls.disorder[a, a + 1 :] + price * balls.cost[a, a + 1 :] + ahead[a + 1 :]
        step[a] = a + 1 + total.argmin(axis=0)
        ahead[a] = total.min(axis=0)
    bounds = np.zeros((n, m + 1), dtype=bool)
    bounds[:, [0, -1]] = True
    cost, disorder = np.zeros(n), np.zeros(n)
    for a in range(m):
        here, b = bounds[:, a], step[a]
        bounds[column[here], b[here]] = True
        cost += np.where(here, balls.cost[a, b, column], 0.0)
        disorder += np.where(here, balls.disorder[a, b, column], 0.0)
    return bounds, cost, disorder, ahead


def _search(
    balls: Balls, best: Best, bound: FloatArray, price: FloatArray, ahead: FloatArray
) -> tuple[FloatArray, Best]:
    """Look at every partition whose Lagrangian is below the best entropy, in rounds of rising levels; return a bound.

    Partitions of low Lagrangian first: they tend to be the good ones, and every finished round is a lower bound.
    """
    n_rounds = 1 if len(balls.mass) <= EXACT_CLASSES else ROUNDS
    first, low, rows = bound, bound.copy(), np.arange(len(bound))
    for halvings in range(n_rounds - 1, -1, -1):
        rows = rows[best.entropy[rows] - SLACK > low[rows]]
        if not len(rows):
            break
        level = first + (best.entropy - first) * 0.5**halvings
        listed, finished = _partitions_below(balls, rows, np.minimum(level, best.entropy - SLACK), price, ahead)
        best = _improve(balls, best, listed)
        rows = rows[finished]
        low[rows] = level[rows]
    return low, best


def _partitions_below(
    balls: Balls, rows: IntArray, level: FloatArray, price: FloatArray, ahead: FloatArray
) -> tuple[Partitions, BoolArray]:
    """List the partitions whose Lagrangian D + price · (C − r) is below the level, unless there are too many.

    Groups are added one at a time; ``ahead`` makes the bound of a beginning the least over all its endings, so that
    every beginning that is kept has one.
    """
    m = len(balls.mass)
    ball, a, reached = rows, np.zeros(len(rows), dtype=np.int64), -price[rows] * balls.radius[rows]
    bounds = np.zeros((len(rows), m + 1), dtype=bool)
    bounds[:, 0] = True
    done: list[Partitions] = []
    count, too_many = np.zeros(len(level), dtype=np.int64), np.zeros(len(level), dtype=bool)
    while len(ball):
        parent = np.repeat(np.arange(len(ball)), m - a)
        b = np.arange(len(parent)) - np.repeat(np.cumsum(m - a) - (m - a), m - a) + a[parent] + 1
        row = ball[parent]
        group = balls.group(a[parent], b, row)
        total = reached[parent] + balls.disorder.take(group) + price[row] * balls.cost.take(group)
        kept = np.flatnonzero(total + ahead[b, row] < level[row])
        ball, a, reached, bounds = row[kept], b[kept], total[kept], bounds[parent[kept]]
        bounds[np.arange(len(kept)), a] = True
        ended = a == m
        done.append(Partitions(ball[ended], bounds[ended]))
        count += np.bincount(ball, minlength=len(level))
        too_many |= count > MAX_PARTITIONS
        going = ~ended & ~too_many[ball]
        count -= np.bincount(ball[~ended], minlength=len(level))
        ball, a, reached, bounds = ball[going], a[going], reached[going], bounds[going]
    listed = Partitions(*(np.concatenate(column) for column in zip(*done, strict=True)))
    return listed, ~too_many[rows]


def _improve(balls: Balls, best: Best, listed: Partitions) -> Best:
    """Try partitions, and every way to spend the budget exactly by moving part of one class over a boundary."""
    which, bound = np.nonzero(listed.bounds)
    group = np.flatnonzero(which[1:] == which[:-1])  # from this boundary to the next one
    p, a, b, c = which[group], bound[group], bound[group + 1], bound[np.minimum(group + 2, len(bound) - 1)]
    row, n_listed = listed.ball[p], len(listed.ball)
    cost, disorder = (
        np.bincount(p, weights=table.take(balls.group(a, b, row)), minlength=n_listed).astype(float)
        for table in (balls.cost, balls.disorder)
    )
    plain = np.flatnonzero(cost <= balls.radius[listed.ball])
    best = _keep(best, listed, plain, disorder[plain], np.full((3, len(plain)), -1), np.zeros(len(plain)))
    # The first or the last class of a group breaks away; a class next to a boundary changes sides.
    wide, inner = np.flatnonzero(b - a > 1), np.flatnonzero(b < len(balls.mass))
    edge = np.concatenate([wide, wide, inner, inner])
    j = np.concatenate([a[wide], b[wide] - 1, b[inner] - 1, b[inner]])
    c = np.concatenate([b[wide], b[wide], c[inner], c[inner]])
    p, a, b, row = p[edge], a[edge], b[edge], row[edge]
    # Both groups as they are, with class j on the right, and with class j on the left.
    now, on_right, on_left = (balls.pair(balls.cost, a, k, c, row) for k in (b, j, j + 1))
    budget = balls.radius[row] - (cost[p] - now)
    met = np.flatnonzero((on_left <= budget) != (on_right <= budget))
    p, a, b, c, j, row = among(met, p, a, b, c, j, row)
    budget, on_left, on_right = among(met, budget, on_left, on_right)
    now, right, left = (balls.pair(balls.disorder, a, k, c, row) for k in (b, j, j + 1))
    rightwards, rest = on_left <= budget, disorder[p] - now
    start, end = np.where(rightwards, left, right), np.where(rightwards, right, left)
    near, far = np.minimum(on_left, on_right), np.maximum(on_left, on_right)
    share = (budget - near) / (far - near)  # cost is concave, so no more than this share can move
    kept = np.flatnonzero(rest + start + share * np.minimum(end - start, 0.0) < best.entropy[row])
    p, a, c, j, row, budget, rightwards, rest = among(kept, p, a, c, j, row, budget, rightwards, rest)
    moved, own = _affordable_move(balls, row, a, c, j, rightwards, budget), balls.mass[j, row]
    to_left = np.where(rightwards, own - moved, moved)
    mass_left = balls.before[j, row] - balls.before[a, row] + to_left
    mass_right = balls.before[c, row] - balls.before[j + 1, row] + (own - to_left)
    value = rest + entr(np.maximum(mass_left, 0.0)) + entr(np.maximum(mass_right, 0.0))
    return _keep(best, listed, p, value, np.stack([a, c, j]), to_left)


def _affordable_move(
    balls: Balls, row: IntArray, a: IntArray, c: IntArray, j: IntArray, rightwards: BoolArray, budget: FloatArray
) -> FloatArray:
    """Mass of class j that may change sides between the groups a..j and j..c within the budget.

    The largest mass at which one of the rising lines, one per pair of meeting places, reaches the budget. Only places
    between the medians at both ends of the way can be best.
    """
    split = j + rightwards  # the way starts with class j on the left, or on the right
    left, right = np.where(j == a, j, balls.median[a, j, row]), balls.median[j, c, row]
    n_left = balls.median[a, j + 1, row] - left
    n_right = np.where(j == c - 1, j, balls.median[np.minimum(j + 1, c), c, row]) - right
    most, sign = np.zeros(len(row)), np.where(rightwards, -1.0, 1.0)
    for l, r in product(range(n_left.max(initial=0) + 1), range(n_right.max(initial=0) + 1)):
        e = np.flatnonzero((l <= n_left) & (r <= n_right)) if l or r else np.arange(len(row))
        to_left, to_right, own = left[e] + l, right[e] + r, row[e]
        slope = sign[e] * (2.0 * balls.place[j[e], own] - balls.place[to_left, own] - balls.place[to_right, own])
        spent = balls.moving_cost(a[e], split[e], to_left, own) + balls.moving_cost(split[e], c[e], to_right, own)
        reached = np.divide(budget[e] - spent, slope, out=np.zeros_like(slope), where=slope > 0.0)
        most[e] = np.maximum(most[e], reached)
    return np.minimum(most, balls.mass[j, row])


def _keep(best: Best, listed: Partitions, p: IntArray, value: FloatArray, edge: IntArray, to_left: FloatArray) -> Best:
    """Keep the best candidate of each ball: partitions p, with a class j split between the groups a..j and j..c."""
    row, before = listed.ball[p], best.entropy.copy()
    np.minimum.at(best.entropy, row, value)
    least = np.flatnonzero((value < before[row]) & (value == best.entropy[row]))
    (a, c, j), row, index = edge[:, least], row[least], np.arange(listed.bounds.shape[1])
    best.bounds[row] = listed.bounds[p[least]] & ~((index > a[:, None]) & (index < c[:, None]))
    best.split[row], best.to_left[row] = j, to_left[least]
    return best


def _build(balls: Balls, best: Best) -> FloatArray:
    """Put every group's mass at its weighted median; the split class counts as two pieces: (m, n)."""
    m, n = balls.mass.shape
    column, piece = np.arange(n), np.arange(m + 1)[:, None]
    last = np.where(best.split < 0, m - 1, best.split)
    of_class = np.where(piece <= last, piece, piece - 1)
    pieces = np.take_along_axis(balls.mass, of_class, axis=0)
    part = np.where(best.split < 0, pieces[last, column], best.to_left)
    pieces[last + 1, column] = pieces[last, column] - part
    pieces[last, column] = part
    starts = np.take_along_axis(best.bounds.T, of_class, axis=0)
    starts[last + 1, column] = best.split >= 0
    group = starts.cumsum(axis=0) - 1
    points = np.zeros((m, n))
    for g in range(group.max() + 1):
        upto = np.where(group == g, pieces, 0.0).cumsum(axis=0)
        middle = ((group == g) & (2.0 * upto >= upto[-1])).argmax(axis=0)
        points[of_class[middle, column], column] += np.where((group == g).any(axis=0), upto[-1], 0.0)
    return points
