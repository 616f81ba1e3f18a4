"""Certified brackets of the entropies of any convex region, from its support function.

They hold for the smallest and the largest entropy.

The envelopes bound the smallest entropy by majorisation, and the largest by that of the most even
distribution between them. Frank–Wolfe steps raise the entropy of a member and improve the upper
bound. Members at the peaks of the likeliest classes, moved along the gradient, come close to the
smallest entropy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from credalset._blocks import gather_blocks
from credalset._typing import BoolArray, FloatArray
from credalset.sets.box import majorization_bound, most_even
from credalset.sets.results import Entropies
from credalset.sets.roots import bisect
from credalset.simplex import entropy_of_valid

if TYPE_CHECKING:
    from credalset.sets.geometry import Geometry

CLIMBS = 40  # steps up
DESCENTS = 4  # steps down
PEAKS = 3  # number of classes whose peaks are starts
CLOSE = 1e-9  # nats below which a bracket is tight enough
FLOOR = 1e-10  # of probabilities in gradients
TINY = np.finfo(float).tiny


def bracket(geometry: Geometry) -> Entropies:
    """Bracket the smallest and the largest entropy of each region."""

    def one_block(rows: slice) -> tuple[FloatArray, ...]:
        part = geometry[rows]
        lower, upper = part.envelope()
        most, reached = climb(part, lower, upper)
        least = majorization_bound(lower, upper)
        found = np.minimum(descend(part), reached)
        return least, np.maximum(found - least, 0.0), most, np.maximum(most - reached, 0.0)

    return Entropies(*gather_blocks(one_block, len(geometry), CLIMBS * geometry.n_classes))


def climb(
    geometry: Geometry, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return a bound on the largest entropy, and the entropy of a member close to it, (N,).

    Steps go toward the member v that maximises the tangent plane at λ, or move weight to v from the
    worst member of which λ is a mixture (Lacoste-Julien and Jaggi, 2015). The tangent plane bounds
    the entropy from above.
    """
    n, k = geometry.center.shape
    uniform = np.full((n, k), 1.0 / k)
    share = np.minimum(geometry._ray_length((uniform - geometry.center)[:, None])[:, 0], 1.0)
    share = np.where(np.isfinite(share), share, 0.0)
    point = geometry.center + share[:, None] * (uniform - geometry.center)
    bound = entropy_of_valid(most_even(lower, upper))
    members = np.zeros((CLIMBS + 1, n, k))
    weights = np.zeros((CLIMBS + 1, n))
    members[0] = point
    weights[0] = 1.0
    close = CLOSE + 4.0 * geometry.tolerance
    active = np.flatnonzero(bound - entropy_of_valid(point) > close)
    for step in range(1, CLIMBS + 1):
        if len(active) == 0:
            break
        current = point[active]
        # H(v) ≤ Σ (−v log x − v + x) for any x > 0, tangents of −v log v.
        raised = np.maximum(current, FLOOR)
        slope = -np.log(raised)
        value, vertex = geometry[active].support(slope)
        bound[active] = np.minimum(bound[active], value + raised.sum(axis=1) - 1.0)
        used = members[:step, active]
        weight = weights[:step, active]
        worth = np.where(weight > 0, (used * slope).sum(axis=2), np.inf)
        worst = worth.argmin(axis=0)
        rows = np.arange(len(active))
        toward = vertex - current
        swap = weight[worst, rows][:, None] * (vertex - used[worst, rows])
        t = _line_search(current, toward)
        s = _line_search(current, swap)
        moved, swapped = (
            np.maximum(current + a[:, None] * d, 0.0) for a, d in ((t, toward), (s, swap))
        )
        swaps = entropy_of_valid(swapped) > entropy_of_valid(moved)
        taken = s * weight[worst, rows]
        weights[:step, active] = weight * np.where(swaps, 1.0, 1.0 - t)
        weights[worst, active] -= np.where(swaps, taken, 0.0)
        members[step, active] = vertex
        weights[step, active] = np.where(swaps, taken, t)
        point[active] = np.where(swaps[:, None], swapped, moved)
        active = active[bound[active] - entropy_of_valid(point[active]) > close]
    return bound, np.minimum(entropy_of_valid(point), bound)


def _line_search(point: FloatArray, step: FloatArray) -> FloatArray:
    """Return t in [0, 1] that maximises H(point + t·step), by bisection on the derivative."""

    def falls(t: FloatArray) -> BoolArray:
        return np.asarray(
            (step * np.log(np.maximum(point + t[:, None] * step, TINY))).sum(axis=1) >= 0
        )

    low, high = bisect(falls, np.zeros(len(point)), np.ones(len(point)), steps=40)
    return np.asarray(0.5 * (low + high))


def descend(geometry: Geometry) -> FloatArray:
    """Return the entropy of the best of a few members, (N,), at peaks of the likeliest classes.

    Entropy is concave, so the minimiser of its linearisation over the region never has more
    entropy.
    """
    n, k = geometry.center.shape
    likely = np.argsort(-geometry.center, axis=1, kind="stable")
    best = np.full(n, np.inf)
    for rank in range(min(k, PEAKS)):
        slope = np.zeros((n, k))
        slope[np.arange(n), likely[:, rank]] = 1.0
        for _ in range(DESCENTS):
            point = geometry._attain(slope)
            best = np.minimum(best, entropy_of_valid(point))
            slope = np.log(np.maximum(point, FLOOR))
    return best
