r"""W₁ balls on a line {λ ∈ Δ : Σ_k (x_{k+1} − x_k) |F_k − G_k| ≤ r}: envelopes, expectations, rays, vertices.

F and G are the cumulative sums of λ and of the centre g, and x₁ < … < x_K the places of the classes. The distance is
the least cost of transporting g into λ when mass pays for the distance it travels, so a member is what a transport
plan of cost at most r can reach:

* The most that class k can hold is a fractional knapsack: fetch mass from the nearest classes first. The least: send
  its mass to the nearest class.
* The greatest ⟨u, λ⟩ is a linear programme over plans. For a price ν on distance every source j goes where u_i − ν|x_i
  − x_j| is greatest; the pairs (cost, expected utility) so reached are the corners of a concave frontier, and the
  answer is the frontier at cost r, a mixture of the two corners around it.
* Along a ray from the centre the distance is linear.
* A radius beyond x_K − x_1 reaches everything.

Rows are worked through in blocks; large batches take the compiled kernels, which give the same answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, kron
from scipy.spatial import cKDTree

from credalset._compiled import kernels
from credalset._parallel import for_each_block
from credalset._typing import BoolArray, FloatArray, IntArray

KERNELS = "credalset.scores.wasserstein.geometry_kernels"
PEAK_EFFORT = 16  # evaluations per class, about, of a search for the smallest peak
MAX_VERTEX_CLASSES = 12  # their number grows like 2.6^K
LP_ROWS = 32  # sets per linear programme
HEAVY = 64  # work per class of the searches, in units of what a plain pass over the row costs


def places(gaps: FloatArray) -> FloatArray:
    """Return where the classes sit, the first at 0: (K,)."""
    return np.concatenate([[0.0], np.cumsum(gaps)])


def within_reach(radius: FloatArray, gaps: FloatArray) -> FloatArray:
    """Return the radius, at most the length of the line: no two distributions are further apart."""
    return np.minimum(radius, gaps.sum())


def divergence(center: FloatArray, gaps: FloatArray, points: FloatArray) -> FloatArray:
    """W₁ of points (N, M, K) from the centres, class after class as the score itself adds."""
    excess = points[..., 0] - center[:, None, 0]
    total = gaps[0] * np.abs(excess)
    for k in range(1, len(gaps)):
        excess = excess + (points[..., k] - center[:, None, k])
        total += gaps[k] * np.abs(excess)
    return np.asarray(total)


def ray_length(center: FloatArray, radius: FloatArray, gaps: FloatArray, directions: FloatArray) -> FloatArray:
    """Largest t with center + t·d in the ball and the simplex: min(r / W₁(d), min over d_k < 0 of g_k / −d_k)."""
    speed = divergence(np.zeros_like(center), gaps, directions)
    reach = np.broadcast_to(within_reach(radius, gaps)[:, None], speed.shape)
    length = np.full(speed.shape, np.inf)
    with np.errstate(over="ignore"):
        np.divide(reach, speed, out=length, where=speed > 0.0)
        for k in range(center.shape[1]):
            falling = directions[..., k] < 0.0
            exits = np.full(speed.shape, np.inf)
            held = np.broadcast_to(center[:, None, k], speed.shape)
            np.divide(held, -directions[..., k], out=exits, where=falling)
            np.minimum(length, exits, out=length)
    return length


def envelope(center: FloatArray, radius: FloatArray, gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Least and greatest mass of each class: (N, K) each."""
    lower, upper = np.empty_like(center), np.empty_like(center)
    reach, at = within_reach(radius, gaps), places(gaps)
    compiled = kernels(KERNELS, center.size)

    def one_block(rows: slice) -> None:
        if compiled is not None:
            compiled.envelope(center[rows], reach[rows], at, lower[rows], upper[rows])
            return
        mass, budget = center[rows], reach[rows, None]
        for k in range(len(at)):
            distance = np.abs(at - at[k])
            order = np.argsort(distance, kind="stable")[1:]
            cost = mass[:, order] * distance[order]
            spent = np.concatenate([np.zeros((len(mass), 1)), cost.cumsum(axis=1)[:, :-1]], axis=1)
            fetched = np.minimum(mass[:, order], np.maximum(budget - spent, 0.0) / distance[order])
            upper[rows, k] = np.minimum(mass[:, k] + fetched.sum(axis=1), 1.0)
            lower[rows, k] = np.maximum(mass[:, k] - reach[rows] / distance[order[0]], 0.0)

    for_each_block(one_block, *center.shape)
    return lower, upper


def support(
    center: FloatArray, radius: FloatArray, gaps: FloatArray, utility: FloatArray, attaining: bool
) -> tuple[FloatArray, FloatArray | None]:
    """Greatest ⟨u, λ⟩ per row, and where.

    The frontier is walked from both ends: price the chord between an affordable corner and one that is not, send every
    class to its best place at that price, and replace the end on the same side of the budget, until the chord is itself
    on the frontier. Each step finds a new corner, so the walk ends with the exact answer.
    """
    value = np.empty(len(center))
    points = np.empty_like(center) if attaining else np.empty((len(center), 0))
    reach, at = within_reach(radius, gaps), places(gaps)
    compiled = kernels(KERNELS, center.size)

    def one_block(rows: slice) -> None:
        if compiled is not None:
            compact = np.ascontiguousarray(utility[rows])
            compiled.support(center[rows], reach[rows], compact, at, attaining, value[rows], points[rows])
            return
        value[rows], found = _walk_to_budget(center[rows], reach[rows], utility[rows], at)
        if attaining:
            points[rows] = found

    for_each_block(one_block, *center.shape)
    return value, points if attaining else None


def _walk_to_budget(
    center: FloatArray, budget: FloatArray, utility: FloatArray, at: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Frontier of (cost, expected utility) at the budget, and a mixture of its corners there."""
    greatest = utility.max(axis=1)
    relative = utility - greatest[:, None]
    tolerance = 1e-15 * -relative.min(axis=1)
    near = np.broadcast_to(np.arange(len(at)), center.shape).copy()
    near_cost, near_value = np.zeros(len(center)), (center * relative).sum(axis=1)
    far_cost, far_value, far = _best_targets(center, relative, at, np.zeros(len(center)))
    walking = np.flatnonzero(far_cost > budget)
    while len(walking):
        w = walking
        price = (far_value[w] - near_value[w]) / (far_cost[w] - near_cost[w])
        cost, reached, target = _best_targets(center[w], relative[w], at, price)
        better = reached - near_value[w] - price * (cost - near_cost[w]) > tolerance[w]
        better &= (near_cost[w] < cost) & (cost < far_cost[w])
        affordable = better & (cost <= budget[w])
        beyond = better & (cost > budget[w])
        near_cost[w[affordable]], near_value[w[affordable]] = cost[affordable], reached[affordable]
        near[w[affordable]] = target[affordable]
        far_cost[w[beyond]], far_value[w[beyond]], far[w[beyond]] = cost[beyond], reached[beyond], target[beyond]
        walking = w[better]
    weight = np.ones(len(center))
    np.divide(budget - near_cost, far_cost - near_cost, out=weight, where=far_cost > budget)
    points = np.zeros_like(center)
    row = np.arange(len(center))
    for j in range(len(at)):
        points[row, near[:, j]] += (1.0 - weight) * center[:, j]
        points[row, far[:, j]] += weight * center[:, j]
    return greatest + (1.0 - weight) * near_value + weight * far_value, points


def _best_targets(
    center: FloatArray, utility: FloatArray, at: FloatArray, price: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Send every class where utility − price · distance is greatest: the cost, the expected utility and the targets."""
    row = np.arange(len(center))
    target = np.empty(center.shape, dtype=np.int64)
    best = np.zeros(len(center), dtype=np.int64)
    for j in range(len(at)):
        best = np.where(utility[:, j] >= utility[row, best] - price * (at[j] - at[best]), j, best)
        target[:, j] = best
    best[:] = len(at) - 1
    for j in range(len(at) - 1, -1, -1):
        best = np.where(utility[:, j] >= utility[row, best] - price * (at[best] - at[j]), j, best)
        behind = target[:, j]
        net_ahead = utility[row, best] - price * (at[best] - at[j])
        net_behind = utility[row, behind] - price * (at[j] - at[behind])
        nearer = (net_ahead == net_behind) & (at[best] - at[j] < at[j] - at[behind])
        target[:, j] = np.where((net_ahead > net_behind) | nearer, best, behind)
    cost = (center * np.abs(at[target] - at)).sum(axis=1)
    value = (center * np.take_along_axis(utility, target, axis=1)).sum(axis=1)
    return cost, value, target


def closest_with_top(center: FloatArray, gaps: FloatArray) -> FloatArray:
    """For each class, the least W₁ distance of a distribution in which no class has more mass: (N, K).

    With the level t = λ_a fixed, the best F is a shortest path in one dimension, F_k − F_{k−1} ∈ [0, t], solved
    exactly by carrying the breakpoints of its convex message along; the least cost is convex and piecewise linear in
    t, and its tangents, intersected, lead to the exact minimum. It lies between g_a and max g: below, undoing a part
    of what left class a helps, and above, where nothing else needs to grow, so does undoing a part of what came.
    Without the compiled kernel each class of each row is a small linear programme, about a millisecond.
    """
    closest = np.empty_like(center)
    compiled = kernels(KERNELS, center.size, at_least=1 << 8)

    def one_block(rows: slice) -> None:
        if compiled is not None:
            compiled.closest_with_top(center[rows], gaps, closest[rows])
            return
        for top in range(center.shape[1]):
            closest[rows, top] = _closest_by_programme(center[rows], gaps, top)

    # Hundreds of operations per class: threads pay from a few hundred rows on.
    work = HEAVY * center.shape[1]
    for_each_block(one_block, len(center), work, block_size=(256 if compiled is not None else LP_ROWS) * work)
    return closest


def _closest_by_programme(center: FloatArray, gaps: FloatArray, top: int) -> FloatArray:
    """Minimise Σ gaps · d with |F_k − G_k| ≤ d_k and λ_b ≤ λ_top, for a few rows in one sparse linear programme."""
    n_rows, n_classes = center.shape
    sums = np.tril(np.ones((n_classes, n_classes)))[:-1]
    slack = np.eye(n_classes - 1)
    order = np.delete(np.eye(n_classes), top, axis=0)
    order[:, top] = -1.0
    one = np.block([[sums, -slack], [-sums, -slack], [order, np.zeros_like(slack)]])
    cumulative = center.cumsum(axis=1)[:, :-1]
    bound = np.concatenate([cumulative, -cumulative, np.zeros((n_rows, n_classes - 1))], axis=1)
    whole = csr_array(np.concatenate([np.ones(n_classes), np.zeros(n_classes - 1)])[None])
    inequalities: Any = kron(eye_array(n_rows), csr_array(one), format="csr")
    equalities: Any = kron(eye_array(n_rows), whole, format="csr")
    solved: Any = linprog(
        np.tile(np.concatenate([np.zeros(n_classes), gaps / gaps.max()]), n_rows),  # solvers expect costs of order one
        A_ub=inequalities,
        b_ub=bound.ravel(),
        A_eq=equalities,
        b_eq=center.sum(axis=1),
        bounds=(0.0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    found = solved.x.reshape(n_rows, -1)[:, None, :n_classes]
    distance = divergence(center, gaps, found)[:, 0]
    return np.where(center[:, top] >= center.max(axis=1), 0.0, distance)


def vertices(center: FloatArray, radius: float, gaps: FloatArray) -> FloatArray:
    """Corners of the ball about one centre (K,): (V, K).

    In terms of F, a step function with one step per class that holds mass, a corner of the ball is a corner of the
    simplex within reach, or a point at distance r where every level of F but one equals G somewhere along it. (At
    distance r, F_k = G_k is the meeting of two faces of the distance, so it counts as a constraint; so do the budget
    and every class without mass.) Choosing the levels before and after the free one leaves one equation for it, convex
    and piecewise linear, with at most two solutions.
    """
    n_classes = len(center)
    if n_classes > MAX_VERTEX_CLASSES:
        raise ValueError(
            f"the vertices of a Wasserstein ball are listed for at most {MAX_VERTEX_CLASSES} classes, but there are "
            f"{n_classes}: their number grows like 2.6 to the power of the number of classes."
        )
    if radius == 0.0:
        return center[None].copy()
    radius = float(within_reach(np.asarray(radius), gaps))
    cumulative = np.minimum(center.cumsum(), 1.0)
    cumulative[-1] = 1.0
    heads = _level_choices(cumulative[:-1], gaps)
    tails = _level_choices(1.0 - cumulative[-2::-1], gaps[::-1])
    corners = np.eye(n_classes)
    found = [corners[divergence(center[None], gaps, corners[None])[0] <= radius]]
    for first in range(n_classes - 1):
        for second in range(first + 1, n_classes):
            tail_cost, tail_level, tail = tails[n_classes - 1 - second]
            between = slice(first, second)
            found += _free_levels(
                heads[first],
                (tail_cost, 1.0 - tail_level, tail[:, ::-1]),
                first,
                second,
                radius,
                cumulative[between],
                gaps[between],
            )
    return _distinct(np.concatenate(found))


Choices = tuple[FloatArray, FloatArray, FloatArray]


def _level_choices(cumulative: FloatArray, gaps: FloatArray) -> list[Choices]:
    """For each class, the ways to fix all levels of F before it: (cost so far, last level, masses placed so far)."""
    n_classes = len(gaps) + 1
    opening = np.concatenate([[0.0], np.cumsum(gaps * cumulative)])
    choices: list[Choices] = []
    for last in range(n_classes):
        cost, level, masses = [opening[last : last + 1]], [np.zeros(1)], [np.zeros((1, n_classes))]
        for earlier in range(last):
            spent, before, placed = choices[earlier]
            along = slice(earlier, last)
            for value in np.unique(cumulative[along]):
                rising = value > before
                cost.append(spent[rising] + (gaps[along] * np.abs(value - cumulative[along])).sum())
                level.append(np.full(int(rising.sum()), value))
                added = placed[rising].copy()
                added[:, earlier] += value - before[rising]
                masses.append(added)
        choices.append((np.concatenate(cost), np.concatenate(level), np.concatenate(masses)))
    return choices


def _free_levels(
    head: Choices, tail: Choices, first: int, second: int, radius: float, cumulative: FloatArray, gaps: FloatArray
) -> list[FloatArray]:
    """Solve for the free level between two classes that hold mass, for every choice before and after."""
    budget = radius - head[0][:, None] - tail[0][None, :]
    below, above = np.broadcast_arrays(head[1][:, None], tail[1][None, :])
    nodes = np.unique(cumulative)
    cost = (gaps * np.abs(nodes[:, None] - cumulative)).sum(axis=1)
    stretch = 2.0 + budget.max(initial=0.0) / gaps.sum()
    nodes = np.concatenate([nodes[:1] - stretch, nodes, nodes[-1:] + stretch])
    cost = np.concatenate([cost[:1] + stretch * gaps.sum(), cost, cost[-1:] + stretch * gaps.sum()])
    least = cost.min()
    lowest = np.flatnonzero(cost <= least * (1.0 + 1e-14))
    found = []
    for level in (
        np.interp(budget, cost[lowest[-1] :], nodes[lowest[-1] :]),
        np.interp(budget, cost[lowest[0] :: -1], nodes[lowest[0] :: -1]),
    ):
        kept: BoolArray = (budget >= least - 1e-15) & (level >= below) & (level <= above)
        before, after = np.nonzero(kept)
        point = head[2][before] + tail[2][after]
        point[:, first] += level[kept] - below[kept]
        point[:, second] += above[kept] - level[kept]
        found.append(point)
    return found


def _distinct(points: FloatArray) -> FloatArray:
    """Keep one of each bunch of points that differ by rounding only."""
    points = np.unique(points, axis=0)
    pairs = cKDTree(points).query_pairs(1e-13, output_type="ndarray")
    kept = np.ones(len(points), dtype=bool)
    kept[pairs[:, 1]] = False
    return points[kept]


def smallest_peak(center: FloatArray, radius: FloatArray, gaps: FloatArray) -> FloatArray:
    """Return min max λ_k over W1 balls.

    The least cost of transporting g below a cap t is convex, falling and piecewise linear in t, and a shortest path in
    one dimension gives it with its slope (`geometry.closest_with_top`). Newton's method from 1/K
    upwards follows the tangents to the exact t at which the cost is r.
    """
    result = np.empty(len(center))
    compiled = kernels(KERNELS, center.size, at_least=1 << 8)

    def one_block(rows: slice) -> None:
        if compiled is None:
            result[rows] = _peak_by_program(center[rows], radius[rows], gaps)
        else:
            compiled.smallest_peak(center[rows], radius[rows], gaps, result[rows])

    for_each_block(one_block, len(center), PEAK_EFFORT * center.shape[1])
    return result


def _peak_by_program(center: FloatArray, radius: FloatArray, gaps: FloatArray) -> FloatArray:
    """The same by one small linear program per ball, without the compiled kernel."""
    from scipy.optimize import linprog

    k = center.shape[1]
    lower = np.tril(np.ones((k, k)))[:-1]  # cumulative sums
    # Variables: λ (K), |F − G| (K − 1), peak (1).
    move = np.block([[lower, -np.eye(k - 1), np.zeros((k - 1, 1))], [-lower, -np.eye(k - 1), np.zeros((k - 1, 1))]])
    budget = np.concatenate([np.zeros(k), gaps / gaps.sum(), [0.0]])[None]  # solvers expect numbers of order one
    below = np.hstack([np.eye(k), np.zeros((k, k - 1)), -np.ones((k, 1))])
    equal = np.concatenate([np.ones(k), np.zeros(k)])[None]
    cost = np.zeros(2 * k)
    cost[-1] = 1.0
    peaks = np.empty(len(center))
    for i, (g, r) in enumerate(zip(center, np.minimum(radius / gaps.sum(), 1.0), strict=True)):
        target = lower @ g
        limits = np.concatenate([target, -target, [r], np.zeros(k)])
        solution = linprog(cost, np.vstack([move, budget, below]), limits, equal, [1.0], method="highs")
        # The centre is always feasible; a solver that gives up on rounding leaves its peak as the answer.
        peaks[i] = solution.x[-1] if solution.x is not None else g.max()
    return np.clip(peaks, 1.0 / k, center.max(axis=1))
