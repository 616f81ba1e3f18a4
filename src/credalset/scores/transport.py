r"""Entropies and modes of 1-Wasserstein balls on a line, for `credalset.scores.wasserstein`.

Masses g have classes first, (K, n), for n balls with radii (n,).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations_with_replacement, pairwise, product
from typing import NamedTuple

import numpy as np
from scipy.special import entr

from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.simplex import entropy_of_valid, sum_classes

MAX_STEPS = 40  # of the interior-point method, which needs 15 to 25
SIGMA = 0.1  # target factor for the duality gap in one step
CLOSE = 1e-8  # nats at which it has converged
MAX_PRICES = 12  # on distance, for partitions into groups
MAX_LEVELS = 60  # of the mode's probability, per item
NUDGE = 1e-10  # between two levels for a slope
BLOCK_SIZES = (2, 4, 8, 16)  # of classes that are gathered


def transport_cost(excess: FloatArray, gaps: FloatArray) -> FloatArray:
    """Return Σ gap_k |F_k − G_k| of differences λ − g, (…, K), added class by class."""
    cumulative = total = np.zeros(excess.shape[:-1])
    for k, gap in enumerate(gaps):
        cumulative = cumulative + excess[..., k]
        total = total + gap * np.abs(cumulative)
    return total


def flattest(
    mass: FloatArray, radius: FloatArray, gaps: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""Return a bound on the largest entropy, and the entropy of a member close to it, (n,).

    As $H(\lambda) = \min_p \sum_k e^{p_k} - 1 - \langle \lambda, p \rangle$, the dual problem is
    $\min_{p, \nu} \sum_k e^{p_k} - 1 - \langle g, p \rangle + r \nu$ subject to $|p_{k+1} - p_k|
    \le \nu \, gap_k$: log λ is ν-Lipschitz along the line. Any p gives a bound, with the smallest
    ν that it allows.
    """
    k = len(mass)
    length = gaps.sum()
    most = np.full(mass.shape[1], np.log(k))
    reached = most.copy()
    outside = transport_cost((1.0 / k - mass).T, gaps) > radius
    still = outside & (radius <= 1e-14 * length)  # a point, to rounding
    most[still] = entropy_of_valid(mass.T)[still]
    reached[still] = most[still]

    rows = np.flatnonzero(outside & ~still)
    g = mass[:, rows]
    r = radius[rows] / length
    d = (gaps / length)[:, None]
    p = _potentials(g, r, d)
    point = np.exp(p)
    total = sum_classes(point)
    # For a distribution e^p / total the sum is one, and log total takes the place of Σ e^p − 1.
    smallest_nu = (np.abs(np.diff(p, axis=0)) / d).max(axis=0)
    most[rows] = np.log(total) - sum_classes(g * p) + r * smallest_nu

    # On the way from the centre to e^p / total, the last member.
    point = point / total
    cost = transport_cost((point - g).T, d[:, 0])
    share = np.minimum(1.0, r / np.maximum(cost, 1e-300))
    member = g + share * (point - g)
    reached[rows] = entropy_of_valid(np.maximum(member, 0.0).T)
    return np.minimum(most, np.log(k)), np.minimum(reached, most)


def _potentials(g: FloatArray, r: FloatArray, d: FloatArray) -> FloatArray:
    r"""Return p of the dual problem of `flattest`, (K, n), by a primal-dual interior-point method.

    Multipliers a, b > 0 belong to the two sides of each constraint, with the slacks
    $\nu d - (p_{k+1} - p_k)$ and $\nu d + (p_{k+1} - p_k)$. At the optimum

    - λ = g + outflow of a − b: the difference is the mass F − G that crosses each edge,
    - Σ d (a + b) = r: all of the radius is used,
    - log λ = p,
    - each multiplier times its slack is zero. The method lets it be ``goal``, ever smaller.
    """
    k = len(g)
    p = np.full_like(g, -np.log(k))
    point = np.full_like(g, 1.0 / k)
    nu = 1.0 + 0.5 * (np.log(k) - entropy_of_valid(g.T)) / r
    a = np.repeat(0.5 * r[None], k - 1, axis=0)
    b = a.copy()
    for _ in range(MAX_STEPS):
        rise = p[1:] - p[:-1]
        room = nu * d
        up = 1.0 / (room - rise)
        down = 1.0 / (room + rise)
        gap = sum_classes(a / up + b / down)
        bent = p - np.log(point)
        unbalanced = np.abs(g - point + _outflow(a - b)).max(axis=0)
        error = unbalanced * -p.min(axis=0) + np.abs(bent * point).max(axis=0)
        # Regions that are close no longer move, so that a result does not depend on its batch.
        close = gap + error < CLOSE
        if close.all():
            break
        goal = np.maximum(SIGMA * gap, 0.1 * CLOSE) / (2 * k - 2)
        aim_a = goal * up
        aim_b = goal * down
        dp, dnu = _newton_direction(g, r, d, point, bent, a * up, b * down, aim_a, aim_b)

        # Relative changes: of the slacks, of the multipliers, and of λ.
        rise = dp[1:] - dp[:-1]
        slack_a = (d * dnu - rise) * up
        slack_b = (d * dnu + rise) * down
        da = aim_a / a - 1.0 - slack_a
        db = aim_b / b - 1.0 - slack_b
        growth = dp + bent

        # All of them stay positive: at most 99 % of the way to the first that would be zero.
        fall = np.maximum(np.maximum(-slack_a, -slack_b), np.maximum(-da, -db)).max(axis=0)
        fall = np.maximum(fall, -growth.min(axis=0))
        step = np.minimum(1.0, 0.99 / np.maximum(fall, 1e-300))
        step = np.where(np.isfinite(step + dnu) & ~close, step, 0.0)
        p = p + step * dp
        nu = nu + step * dnu
        point = point * (1.0 + step * growth)
        a = a * (1.0 + step * da)
        b = b * (1.0 + step * db)
    return p


def _newton_direction(
    g: FloatArray,
    r: FloatArray,
    d: FloatArray,
    point: FloatArray,
    bent: FloatArray,
    stiff_a: FloatArray,
    stiff_b: FloatArray,
    aim_a: FloatArray,
    aim_b: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the changes of p, (K, n), and of ν, (n,), in one step of `_potentials`.

    With the multipliers that the linearised products ask for, ``aim − stiff · (change of the
    slack)``, the balance of λ becomes

        point · dp − outflow(stiff · rise of dp) = rest + dν · outflow(−skew),

    where −outflow(stiff · rise) is the Laplacian of a chain with springs ``stiff``. It is solved
    for both right-hand sides, and dν follows from Σ d (a + b) = r.
    """
    stiff = stiff_a + stiff_b
    skew = d * (stiff_a - stiff_b)
    rest = g - point - bent * point + _outflow(aim_a - aim_b)
    sides = np.stack([rest, _outflow(-skew)], axis=1)
    solved = _solve_tridiagonal(point, stiff, sides)
    first = solved[:, 0]
    second = solved[:, 1]
    rise_first = first[1:] - first[:-1]
    rise_second = second[1:] - second[:-1]
    dnu = sum_classes(d * (aim_a + aim_b) + skew * rise_first) - r
    dnu /= sum_classes(d * d * stiff - skew * rise_second)
    return first + dnu * second, dnu


def _outflow(flow: FloatArray) -> FloatArray:
    """Return the change of each class, (K, n), by flows along edges (K − 1, n)."""
    result = np.empty((len(flow) + 1, *flow.shape[1:]))
    result[0] = flow[0]
    result[-1] = -flow[-1]
    np.subtract(flow[1:], flow[:-1], out=result[1:-1])
    return result


def _solve_tridiagonal(diagonal: FloatArray, stiff: FloatArray, sides: FloatArray) -> FloatArray:
    """Solve (diagonal + Laplacian of the chain ``stiff``) x = side, overwriting sides (K, 2, n)."""
    pivot = diagonal.copy()
    pivot[1:] += stiff
    pivot[:-1] += stiff
    for k, spring in enumerate(stiff):
        share = spring / pivot[k]
        pivot[k + 1] -= share * spring
        sides[k + 1] += share * sides[k]
    sides[-1] /= pivot[-1]
    for k in range(len(stiff) - 1, -1, -1):
        sides[k] += stiff[k] * sides[k + 1]
        sides[k] /= pivot[k]
    return sides


def entropy_toward_top(mass: FloatArray, radius: FloatArray, gaps: tuple[float, ...]) -> FloatArray:
    """Return the entropy after moving mass from the nearest classes to the largest, (n,)."""
    at = np.r_[0.0, np.cumsum(gaps)]
    distance = np.abs(at[:, None] - at[mass.argmax(axis=0)])
    order = np.argsort(distance, axis=0, kind="stable")
    distance = np.take_along_axis(distance, order, axis=0)
    ranked = np.take_along_axis(mass, order, axis=0)
    left = radius - np.cumsum(ranked * distance, axis=0) + ranked * distance
    ranked[1:] -= np.clip(left[1:] / distance[1:], 0.0, ranked[1:])
    ranked[0] = 1.0 - sum_classes(ranked[1:])
    return entropy_of_valid(np.maximum(ranked, 0.0).T)


def largest_sums(mass: FloatArray, radius: FloatArray, gaps: tuple[float, ...]) -> FloatArray:
    r"""Return upper bounds of the sums of the j largest entries of a member, (n, K − 1).

    For any width w, mass within w of a set J of classes and the radius bound $\sum_{k \in J}
    \lambda_k$ by $r / w + \sum_{k \in J} \sum_i g_i (1 - |x_i - x_k| / w)_+$, by duality.
    """
    at = np.r_[0.0, np.cumsum(gaps)]
    best = np.full((len(radius), len(mass) - 1), np.inf)
    n_doublings = np.ceil(np.log2(at[-1] / min(gaps))) + 1
    for width in min(gaps) * 2.0 ** np.arange(n_doublings):  # from the narrowest gap to the line
        near = mass.T @ np.maximum(1.0 - np.abs(at - at[:, None]) / width, 0.0)
        largest = np.sort(near, axis=1)[:, :0:-1]
        best = np.minimum(best, largest.cumsum(axis=1) + (radius / width)[:, None])
    return best


def entropy_of_blocks(mass: FloatArray, radius: FloatArray, gaps: tuple[float, ...]) -> FloatArray:
    """Return the smallest entropy of members with blocks of neighbours gathered, (n,).

    For each of some block sizes, blocks are gathered at their medians by decreasing gain in entropy
    per cost.
    """
    entropy = best = sum_classes(entr(mass))
    for size in (size for size in BLOCK_SIZES if size < len(mass)):
        missing = -len(mass) % size
        blocks = np.pad(mass, ((0, missing), (0, 0))).reshape(-1, size, len(radius))
        spaces = np.pad(gaps, (0, missing + 1)).reshape(-1, size, 1)
        before = blocks.cumsum(axis=1)
        # To gather at the median, the smaller side of each edge crosses it.
        cost = (spaces * np.minimum(before, before[:, -1:] - before)).sum(axis=1)
        gain = entr(blocks).sum(axis=1) - entr(before[:, -1])
        order = np.argsort(-gain / np.maximum(cost, 1e-300), axis=0)
        spent = np.take_along_axis(cost, order, axis=0).cumsum(axis=0)
        gained = np.where(spent <= radius, np.take_along_axis(gain, order, axis=0), 0.0)
        best = np.minimum(best, entropy - sum_classes(gained))
    return best


def gathered(
    mass: FloatArray, radius: FloatArray, gaps: tuple[float, ...]
) -> tuple[FloatArray, FloatArray]:
    r"""Return a bound on the smallest entropy, and the entropy of a member close to it, (n,).

    The entropy is concave, so it is smallest at a corner of the ball. There, groups of neighbouring
    classes are gathered at their weighted medians, and one class may be divided between two
    neighbouring groups. Between two such partitions both the cost C and the entropy D are concave;
    hence one of them has $D + \nu (C - r)$ of at most the entropy of the corner, for any price ν ≥
    0. The smallest $D + \nu C$ over partitions is a shortest path, and the best price is the slope
    of the lower hull of (C, D) at the cost r.
    """
    groups = _Groups.of(mass, gaps)
    n = len(radius)
    k = len(mass)
    # Two vertices of the hull, on either side of the cost r: rows are cost, entropy and price.
    # At first the centre, which costs nothing, and all mass in one group, without entropy.
    near = np.stack([np.zeros(n), entropy_of_valid(mass.T), np.full(n, np.inf)])
    far = np.stack([groups[k - 1].cost[0], np.zeros(n), np.zeros(n)])
    least = np.zeros(n)
    is_open = far[0] > radius
    for _ in range(MAX_PRICES):
        # The slope between the two; a partition below their line is a further vertex.
        slope = (near[1] - far[1]) / np.maximum(far[0] - near[0], 1e-300)
        price = np.where(is_open, slope, 0.0)
        cost, entropy, _ = _shortest(groups, price)
        least = np.maximum(least, entropy + price * (cost - radius))
        is_open &= entropy + price * cost < near[1] + price * near[0] - 1e-12
        if not is_open.any():
            break
        found = np.stack([cost, entropy, price])
        affordable = cost <= radius
        near = np.where(is_open & affordable, found, near)
        far = np.where(is_open & ~affordable, found, far)
    unlimited = far[0] <= radius  # even one group is within the radius
    share = np.where(unlimited, 1.0, (radius - near[0]) / np.maximum(far[0] - near[0], 1e-300))
    member = (1.0 - share) * _gather(groups, mass, near[2]) + share * _gather(groups, mass, far[2])
    reached = np.minimum(entropy_of_valid(member.T), np.where(unlimited, 0.0, near[1]))
    return np.where(unlimited, 0.0, least), reached


def corners(
    mass: FloatArray, radius: FloatArray, gaps: tuple[float, ...]
) -> Iterator[tuple[FloatArray, BoolArray, BoolArray]]:
    r"""Yield members (K, n) that include all corners of the balls, with masks (n,).

    The first mask tells which of them are members, the second which of these are corners.

    In cumulative sums, a corner that is not one of the simplex lies on the surface, where a block
    of neighbouring sums shares a value t and every other sum is 0, 1 or equal to that of the centre
    at its own or at a neighbour's place (`_patterns`). The cost is a convex, piecewise linear
    function of t, so that t is found by division. Cut at the neighbouring sums, it is a member
    whenever the line meets the ball.
    """
    k, n = mass.shape
    sums = np.concatenate([np.zeros((1, n)), np.clip(np.cumsum(mass, axis=0), 0.0, 1.0)])
    sums[-1] = 1.0
    gap = np.array(gaps)[:, None]
    for value in range(k):  # corners of the simplex
        point = np.zeros_like(mass)
        point[value] = 1.0
        inside = transport_cost((point - mass).T, gap[:, 0]) <= radius
        yield point, inside, inside
    for sources, first, last in _patterns(k):
        total = sums[list(sources)]  # 0, F_1, …, F_{K−1}, 1, not yet those of the block
        fixed = np.r_[1:first, last + 1 : k]
        # What the fixed sums leave of the radius is spent on the block: Σ gap |t − F| = left. Where
        # t lies above the sums before a cut and below the others, that is slope · t = left + level;
        # of all cuts, these are the lines that bound t, as the cost is convex.
        left = radius - sum_classes(gap[fixed - 1] * np.abs(total[fixed] - sums[fixed]))
        least = np.full(n, -np.inf)
        most = np.full(n, np.inf)
        for cut in range(first, last + 2):
            slope = gap[first - 1 : cut - 1].sum() - gap[cut - 1 : last].sum()
            level = sum_classes(gap[first - 1 : cut - 1] * sums[first:cut])
            level -= sum_classes(gap[cut - 1 : last] * sums[cut : last + 1])
            if slope > 0:
                most = np.minimum(most, (left + level) / slope)
            elif slope < 0:
                least = np.maximum(least, (left + level) / slope)
            else:
                most = np.where(left + level < 0, -np.inf, most)
        before = total[first - 1]
        after = total[last + 1]
        others = np.delete(total, np.s_[first : last + 1], axis=0)
        ordered = (np.diff(others, axis=0) >= 0).all(axis=0)
        member = ordered & (least <= np.minimum(most, after)) & (most >= before)
        for end in (least, most):
            t = np.clip(end, before, after)
            total[first : last + 1] = t
            point = np.maximum(np.diff(total, axis=0), 0.0)
            yield point, member, member & (np.abs(t - end) < 1e-12)


@lru_cache
def _patterns(k: int) -> tuple[tuple[tuple[int, ...], int, int], ...]:
    """List how sums of a corner repeat those of the centre, with one block left free.

    Each pattern gives, for the sums 0, F_1, …, F_{K−1}, 1 of a corner, the position of the equal
    sum of the centre, and the first and last sum of the free block.
    """
    found = []
    for first, last in combinations_with_replacement(range(1, k), 2):
        places = [range(k + 1) if not first <= j <= last else (0,) for j in range(1, k)]
        for inner in product(*places):
            sources = (0, *inner, k)
            fixed = [j for j in range(k + 1) if not first <= j <= last]
            ordered = all(sources[a] <= sources[b] for a, b in pairwise(fixed))
            # Blocks of equal sums are anchored at the place of one of them, or at an end.
            anchored = all(
                s in (0, k) or (sources[s] == s and not first <= s <= last) for s in sources
            )
            if ordered and anchored:
                found.append((sources, first, last))
    return tuple(found)


class _Groups(NamedTuple):
    """Groups of neighbouring classes a, …, b − 1 that end before b: arrays (b, n), a row per a."""

    cost: FloatArray
    entropy: FloatArray
    place: IntArray
    mass: FloatArray

    @staticmethod
    def of(mass: FloatArray, gaps: tuple[float, ...]) -> list[_Groups]:
        """Gather every group at its weighted median."""
        k, n = mass.shape
        before = np.concatenate([np.zeros((1, n)), np.cumsum(mass, axis=0)])
        # Cost of moving the classes a, …, m − 1 to m, and of moving m, …, b − 1 to m.
        rightward = np.zeros((k, k + 1, n))
        leftward = np.zeros((k, k + 1, n))
        for m in range(1, k):
            rightward[m, :m] = rightward[m - 1, :m] + gaps[m - 1] * (before[m] - before[:m])
        for m in range(k - 2, -1, -1):
            leftward[m, m + 2 :] = leftward[m + 1, m + 2 :] + gaps[m] * (
                before[m + 2 :] - before[m + 1]
            )
        groups = []
        for b in range(1, k + 1):
            cost = np.full((b, n), np.inf)
            place = np.zeros((b, n), dtype=np.int64)
            for m in range(b):
                costs = rightward[m, : m + 1] + leftward[m, b]
                better = costs < cost[: m + 1]
                np.copyto(cost[: m + 1], costs, where=better)
                place[: m + 1][better] = m
            weight = np.maximum(before[b] - before[:b], 0.0)
            entropy = -weight * np.log(np.maximum(weight, 1e-300))
            groups.append(_Groups(cost, entropy, place, weight))
        return groups


def _shortest(
    groups: list[_Groups], price: FloatArray
) -> tuple[FloatArray, FloatArray, list[IntArray]]:
    """Return cost and entropy of the partitions of least entropy + price · cost.

    The starts of the last groups are returned too.
    """
    columns = np.arange(len(price))
    begin = []
    # Of the best partition of the first b classes.
    total = np.zeros((len(groups) + 1, len(price)))
    cost = np.zeros_like(total)
    for b, group in enumerate(groups, start=1):
        worth = total[:b] + group.entropy + price * group.cost
        start = worth.argmin(axis=0)
        total[b] = worth[start, columns]
        cost[b] = cost[start, columns] + group.cost[start, columns]
        begin.append(start)
    return cost[-1], total[-1] - price * cost[-1], begin


def _gather(groups: list[_Groups], mass: FloatArray, price: FloatArray) -> FloatArray:
    """Return the distributions of the best partitions, (K, n); the centre for an infinite price."""
    begin = _shortest(groups, np.where(np.isinf(price), 0.0, price))[2]
    point = np.zeros_like(mass)
    end = np.full(len(price), len(groups))
    for b in range(len(groups), 0, -1):
        rows = np.flatnonzero(end == b)
        start = begin[b - 1][rows]
        group = groups[b - 1]
        point[group.place[start, rows], rows] += group.mass[start, rows]
        end[rows] = start
    return np.where(np.isinf(price), mass, point)


def distance_to_mode(mass: FloatArray, radius: FloatArray) -> FloatArray:
    r"""Bound the least W₁, gaps being one, of a distribution with mode a, for each a: (K, n).

    With λ_a = t and no class above t the least cost is convex and piecewise linear in t, between t
    = 1/K and max g. By linear-programming duality it is the largest $\langle q, g \rangle - t (q_a
    + \sum_{b \ne a} q_b^+)$ over q that change by at most one from class to class, and whole
    numbers suffice (`_cost_at_level`). Tangents at two levels bound the cost between them from
    below. All classes of an item use the same levels, chosen for the class with the smallest bound,
    until each class is known to be within the radius or beyond it.
    """
    k, n = mass.shape
    close = 1e-12 * (1.0 + radius)
    tie = 1e-9 * (1.0 + radius)
    rows = np.arange(n)
    bound = np.full((k, n), np.inf)
    # The ends of the brackets: level, cost and slope of each class.
    low = _tangents(np.full(n, 1.0 / k), mass)
    high = _tangents(mass.max(axis=0), mass)
    best = np.minimum(low[1], high[1])
    best[mass == mass.max(axis=0)] = 0.0
    for _ in range(MAX_LEVELS):
        with np.errstate(all="ignore"):  # where the tangents at both ends meet
            level = (high[1] - low[1] + low[2] * low[0] - high[2] * high[0]) / (low[2] - high[2])
            chord = low[1] + low[2] * (level - low[0])
        inside = (low[2] < 0) & (high[2] > 0) & (low[0] < level) & (level < high[0])
        some = best[:, rows]
        bound[:, rows] = np.where(inside, np.minimum(chord, some), some)
        is_open = (
            (some > radius[rows])
            & (bound[:, rows] <= radius[rows] + tie[rows])
            & (some - bound[:, rows] > close[rows])
        )
        kept = is_open.any(axis=0)
        if not kept.any():
            break
        rows = rows[kept]
        low = low[..., kept]
        high = high[..., kept]
        level = level[:, kept]
        is_open = is_open[:, kept]
        chosen = np.where(is_open, bound[:, rows], np.inf).argmin(axis=0)
        level = level[chosen, np.arange(len(rows))]
        found = _tangents(level, mass[:, rows])
        best[:, rows] = np.minimum(best[:, rows], found[1])
        low = np.where((found[2] < 0) & (level > low[0]), found, low)
        high = np.where((found[2] >= 0) & (level < high[0]), found, high)
    return np.where(best <= radius, best, bound)


def _tangents(level: FloatArray, mass: FloatArray) -> FloatArray:
    """Return level, cost and slope of the cost at a level of each item, (3, K, n)."""
    cost, slope = _cost_at_level(level, mass)
    return np.stack([np.broadcast_to(level, cost.shape), cost, slope])


def _cost_at_level(level: FloatArray, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Return the least W₁ with λ_a = level and no class above it, for each a, and its slope.

    With q_a = −s, the best q is −(s − |b − a|)₊ within the distance s of a. Farther away it is a
    function y ≥ 0 that starts from zero at a ± s and adds $\sum_b (g_b - t) y_b$ on either side
    (`_landscapes`).
    """
    k, n = mass.shape
    # The slope is that between this level and one slightly above, computed together.
    t = np.concatenate([level, level + NUDGE])
    twice = np.concatenate([mass, mass], axis=1)
    left = np.zeros((2 * k, 2 * n))
    right = np.zeros((2 * k, 2 * n))
    left[k:] = _landscapes(t, twice)
    right[:k] = _landscapes(t, twice[::-1])[::-1]
    before = np.concatenate([np.zeros((1, n)), np.cumsum(mass, axis=0)])
    cost = np.full((k, 2 * n), -np.inf)
    near = np.zeros((k, n))
    classes = np.arange(k)
    for s in range(k):
        gain = left[k - s : 2 * k - s] + right[s : k + s] + s * t
        gain[:, :n] -= near
        gain[:, n:] -= near
        np.maximum(cost, gain, out=cost)
        # The mass within the distance s of each class.
        end = np.minimum(classes + s, k - 1) + 1
        near = near + before[end] - before[np.maximum(classes - s, 0)]
    slope = (cost[:, n:] - cost[:, :n]) / NUDGE
    whole = np.rint(slope)  # exact unless the slope changes in between
    return cost[:, :n], np.where(np.abs(slope - whole) < 0.01, whole, slope)


def _landscapes(t: FloatArray, mass: FloatArray) -> FloatArray:
    """Return for each class the largest Σ (g_b − t) y_b over whole y ≥ 0.

    The sum is over the classes before it, and y ends at zero.

    Heights are limited, because at the best level the sum of y is at most K − 1.
    """
    k = len(mass)
    height = int(np.sqrt(2.0 * k)) + 2
    levels = np.arange(height, dtype=float)[:, None]
    result = np.zeros((k, len(t)))
    best = levels * (mass[0] - t)
    for b in range(1, k):
        step = best.copy()
        np.maximum(step[:-1], best[1:], out=step[:-1])
        np.maximum(step[1:], best[:-1], out=step[1:])
        result[b] = step[0]
        best = step + levels * (mass[b] - t)
    return result
