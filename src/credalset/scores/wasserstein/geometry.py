r"""W₁ balls on a line {λ ∈ Δ : Σ_k (x_{k+1} − x_k) |F_k − G_k| ≤ r}: envelopes, expectations, rays.

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

Inside, classes come first, (K, n), so that sums over them run along memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from credalset._parallel import in_blocks
from credalset._typing import AnyArray, FloatArray, IntArray

DISTANCES = 1 << 22  # between classes, held at a time: thousands of classes would fill gigabytes


def places(gaps: FloatArray) -> FloatArray:
    """Return where the classes sit, the first at 0: (K,)."""
    return np.concatenate([[0.0], np.cumsum(gaps)])


def to_nearest(gaps: FloatArray) -> FloatArray:
    """Return the distance of each class to the nearest other one: (K,)."""
    return np.minimum(np.r_[gaps[0], gaps], np.r_[gaps, gaps[-1]])


def within_reach(radius: FloatArray, gaps: FloatArray) -> FloatArray:
    """Return the radius, at most the length of the line: no two distributions are further apart."""
    return np.minimum(radius, gaps.sum())


def in_units_of_radius(center: FloatArray, reach: FloatArray, gaps: FloatArray) -> FloatArray:
    """Masses over the radius, (N, K), cut off where they cannot bind: members have |w_k| ≤ 1 / gap_k."""
    with np.errstate(over="ignore"):
        return np.minimum(center / reach[:, None], 4.0 / to_nearest(gaps))


def transport_cost(excess: FloatArray, gaps: FloatArray) -> FloatArray:
    """Σ gap_k |F_k − G_k| of differences λ − g, (…, K): class by class, three times as fast as `numpy.cumsum`."""
    cumulative = total = np.zeros(excess.shape[:-1])
    for k, gap in enumerate(gaps):
        cumulative = cumulative + excess[..., k]
        total = total + gap * np.abs(cumulative)
    return total


@in_blocks(lambda size: 2 * size)
def envelope(center: FloatArray, radius: FloatArray, *, gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Least and greatest mass of each class: (N, K) each."""
    mass, at = np.ascontiguousarray(center.T), places(gaps)
    reach = within_reach(radius, gaps)
    parts = np.array_split(np.arange(len(at)), -(-(len(at) ** 2) // DISTANCES))
    upper = np.concatenate([_greatest_mass(mass, reach, at, classes) for classes in parts])
    return np.maximum(mass - reach / to_nearest(gaps)[:, None], 0.0).T, np.minimum(upper, 1.0).T


def _greatest_mass(mass: FloatArray, reach: FloatArray, at: FloatArray, classes: IntArray) -> FloatArray:
    """Greatest mass of some classes, (number of classes, N): what others give, the nearest first, within the budget."""
    distance = np.abs(at - at[classes, None])
    order = np.argsort(distance, axis=1, kind="stable")
    upper, left = mass[classes], np.repeat(reach[None], len(classes), axis=0)  # left: of the budget
    for others in order.T[1:]:  # the nearest class of each, the next one, and so on
        near, far = mass[others], distance[np.arange(len(classes)), others][:, None]
        upper += np.minimum(near, left / far)
        left = np.maximum(left - near * far, 0.0)
        if not left.any():
            break
    return upper


@in_blocks(block_size=1 << 16)
def support(
    center: FloatArray, radius: FloatArray, utility: FloatArray, *, gaps: FloatArray, attaining: bool
) -> tuple[FloatArray, FloatArray | None]:
    """Greatest ⟨u, λ⟩ per row, and where.

    At a price on distance, the best that can be done sends every class to its best place: a corner of the frontier.
    """
    mass, u, at = np.ascontiguousarray(center.T), np.ascontiguousarray(utility.T), places(gaps)
    budget, greatest, n = within_reach(radius, gaps), u.max(axis=0), len(center)
    relative = u - greatest
    tolerance = 1e-15 * -relative.min(axis=0)
    near = np.zeros(n), (mass * relative).sum(axis=0), np.full(n, np.inf)
    far = (*_at_price(mass, relative, at, np.zeros(n)), np.zeros(n))

    def corner(rows: IntArray, price: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return *_at_price(mass[:, rows], relative[:, rows], at, price), price

    walk_frontier(near, far, budget, tolerance, corner)
    (near_cost, near_value, near_price), (far_cost, far_value, far_price) = near, far
    weight = np.ones(n)
    np.divide(budget - near_cost, far_cost - near_cost, out=weight, where=far_cost > budget)
    value = greatest + (1.0 - weight) * near_value + weight * far_value
    if not attaining:
        return value, None
    points, rows = np.zeros(center.shape), np.arange(n)
    for price, part in ((near_price, 1.0 - weight), (far_price, weight)):
        for j, target in enumerate(_best_targets(relative, at, price)):
            points[rows, target] += part * mass[j]
    return value, points


def walk_frontier(
    near: Sequence[AnyArray],
    far: Sequence[AnyArray],
    budget: FloatArray,
    tolerance: FloatArray,
    corner: Callable[[IntArray, FloatArray], Sequence[AnyArray]],
) -> None:
    """Bring the ends of chords together on concave frontiers of value over cost, one on either side of the budget.

    Price the chord between an affordable corner and one that is not, find the best corner at that price, and replace
    the end on the same side of the budget, until the chord is itself on the frontier. Each step finds a new corner, so
    the walk ends with the exact answer.

    Parameters
    ----------
    near, far : sequence of arrays of n rows
        Cost and value of the ends, and whatever else `corner` returns; replaced in place.
    budget, tolerance : ndarray of shape (n,)
        The latter is a rise in value that is none.
    corner : callable
        From rows and their prices to what ``near`` and ``far`` hold.
    """
    w = np.flatnonzero(far[0] > budget)
    while len(w):
        price = (far[1][w] - near[1][w]) / (far[0][w] - near[0][w])
        found = corner(w, price)
        cost, value = found[:2]
        better = value - near[1][w] - price * (cost - near[0][w]) > tolerance[w]
        better &= (near[0][w] < cost) & (cost < far[0][w])
        for side, ends in ((better & (cost <= budget[w]), near), (better & (cost > budget[w]), far)):
            for end, new in zip(ends, found, strict=True):
                end[w[side]] = new[side]
        w = w[better]


def _best_targets(utility: FloatArray, at: FloatArray, price: FloatArray) -> IntArray:
    """The place of each class where utility − price · distance is greatest, the nearest of several: (K, n).

    At an infinite price everything stays where it is.
    """
    index = np.broadcast_to(np.arange(len(at))[:, None], utility.shape)
    slide = at[:, None] * np.where(np.isinf(price), 0.0, price)
    behind, ahead = utility + slide, (utility - slide)[::-1]
    best_behind, best_ahead = np.maximum.accumulate(behind, axis=0), np.maximum.accumulate(ahead, axis=0)
    # Of equally good places the nearest: the last so far, from either side.
    place_behind = np.maximum.accumulate(np.where(behind == best_behind, index, 0), axis=0)
    place_ahead = len(at) - 1 - np.maximum.accumulate(np.where(ahead == best_ahead, index, 0), axis=0)[::-1]
    target = np.where(best_ahead[::-1] + slide > best_behind - slide, place_ahead, place_behind)
    return np.where(np.isinf(price), index, target)


def _at_price(
    mass: FloatArray, utility: FloatArray, at: FloatArray, price: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Cost and expected utility when every class goes to its best target."""
    target = _best_targets(utility, at, price)
    cost = (mass * np.abs(at[target] - at[:, None])).sum(axis=0)
    return cost, (mass * np.take_along_axis(utility, target, axis=0)).sum(axis=0)
