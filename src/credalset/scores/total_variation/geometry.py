r"""Total-variation balls {λ ∈ Δ : ½‖λ − g‖₁ ≤ r}: envelopes, expectations, entropies, vertices, Hartley measure.

A member moves mass t ≤ r of the centre g from some classes to others. Everything here follows from that picture:

* A class loses at most min(r, g_k) and gains at most min(r, 1 − g_k): the envelope.
* A linear functional is largest when the mass moves from the classes of least utility to the best one.
* The sum of the j largest entries grows by at most r, so moving r from the smallest classes upward to the largest
  *majorises* every member: the least value of every Schur-concave function, entropy included.
* The greatest entropy lies at clip(g, a, b) with Σ (a − g)₊ = r = Σ (g − b)₊: the classes that gain share one level,
  those that lose share another, the rest keep g_k (the KKT conditions), and beyond TV(g, uniform) it is uniform. With
  P_j and S_j the sums of the j smallest and j largest entries, Σ (a − g)₊ = max_j (j·a − P_j), so the levels are
  a = min_j (r + P_j)/j and b = max_j (S_j − r)/j.
* The ball is the core of the 2-monotone lower probability max(0, g(A) − r), 1 for A = Ω.

Inside, classes come first, (K, n), so that sums over them run along memory.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import cache
from math import comb

import numpy as np

from credalset._parallel import in_blocks
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.scores.pooling import pool
from credalset.simplex import precise_entropy

MAX_HARTLEY_CLASSES = 15  # the measure is a sum over all 2^K events
MAX_VERTICES = 1_000_000


def divergence(center: FloatArray, points: FloatArray) -> FloatArray:
    """½ Σ_k |λ_k − g_k| of points (N, M, K)."""
    return np.abs(points - center[:, None]) @ np.full(center.shape[1], 0.5)


@in_blocks()
def envelope(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[max(0, g_k − r), min(1, g_k + r)]: with two classes or more, the mass has somewhere to go to and come from."""
    return np.maximum(center - radius[:, None], 0.0), np.minimum(center + radius[:, None], 1.0)


@in_blocks()
def support(
    center: FloatArray, radius: FloatArray, utility: FloatArray, *, attaining: bool
) -> tuple[FloatArray, FloatArray | None]:
    """Greatest ⟨u, λ⟩ per row: move r from the classes of least utility to one of greatest utility.

    Write λ = g + gains − losses, of at most r each: a gain is worth at most max u, and the cheapest losses are those of
    the classes with least utility, each good for g_k.
    """
    order = np.argsort(utility, axis=1)
    moved = _move_to_last(np.take_along_axis(center, order, axis=1).T, radius)
    value = (np.take_along_axis(utility, order, axis=1).T * moved).sum(axis=0)
    return value, _put_back(moved, order) if attaining else None


@in_blocks()
def min_entropy(center: FloatArray, radius: FloatArray, *, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
    """Least entropy in nats: move r from the smallest classes, upward, to the largest."""
    if not attaining:
        return precise_entropy(_move_to_last(np.sort(center, axis=1).T, radius)), None
    order = np.argsort(center, axis=1)
    moved = _move_to_last(np.take_along_axis(center, order, axis=1).T, radius)
    return precise_entropy(moved), _put_back(moved, order)


@in_blocks()
def max_entropy(center: FloatArray, radius: FloatArray, *, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
    """Greatest entropy in nats: clip(g, a, b) at the two water levels, uniform when they meet."""
    n_classes = center.shape[1]
    ascending, count = np.ascontiguousarray(np.sort(center, axis=1).T), np.arange(1.0, n_classes + 1)[:, None]
    low = ((radius + ascending.cumsum(axis=0)) / count).min(axis=0, initial=1.0 / n_classes)
    high = ((ascending[::-1].cumsum(axis=0) - radius) / count).max(axis=0, initial=1.0 / n_classes)
    value = np.where(low == high, np.log(n_classes), precise_entropy(ascending.clip(low, high)))
    return np.minimum(value, np.log(n_classes)), center.clip(low[:, None], high[:, None]) if attaining else None


@in_blocks()
def closest_with_top(center: FloatArray) -> FloatArray:
    """Smallest TV radius at which some λ gives class a at least as much as every other class, for each a.

    At distance d, λ_a ≤ g_a + d, so every other class must come down to θ = g_a + d, which takes
    Σ_b (g_b − θ)₊ = max_j Σ_{b ≤ j} (g_(b) − θ) ≤ d, g_(1) ≥ g_(2) ≥ … . Moving just that much to class a suffices, so
    d_a = max_j Σ_{b ≤ j} (g_(b) − g_a) / (j + 1): zero, exactly, for the largest classes.

    Returns
    -------
    ndarray of shape (N, K)

    Examples
    --------
    >>> closest_with_top(np.array([[0.5, 0.3, 0.2]])).round(3)
    array([[0.  , 0.1 , 0.15]])
    """
    size, total = pool(center, np.positive)
    return (total - size * center) / size


@in_blocks(lambda size: 1 << size, block_size=1 << 16)
def generalized_hartley(center: FloatArray, radius: FloatArray) -> FloatArray:
    """GH = Σ_A m(A) log2 |A|, with m the Möbius masses of the lower probability; K ≤ `MAX_HARTLEY_CLASSES`.

    Exchanging the sums, GH = Σ_B ν(B) w_{|B|} with w_b = Σ_i (−1)^i C(K−b, i) log2(b + i), which is negative for b < K.
    At r = 0 the masses sit on single classes and GH = 0; taking the difference from there,
    GH = Σ_{∅≠B≠Ω} |w_{|B|}| · min(g(B), r): no subtraction is left, so small values keep all their digits.

    Examples
    --------
    >>> generalized_hartley(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0.25, 2.0]))
    array([0.5, 1. ])
    """
    n_rows, n_classes = center.shape
    if n_classes > MAX_HARTLEY_CLASSES:
        raise ValueError(
            f"the generalized Hartley measure is for at most {MAX_HARTLEY_CLASSES} classes, but there are {n_classes}."
        )
    mass = np.zeros((1 << n_classes, n_rows))
    for k in range(n_classes):
        np.add(mass[: 1 << k], center[:, k], out=mass[1 << k : 2 << k])
    return _hartley_weights(n_classes) @ np.minimum(mass, radius, out=mass)


@cache
def _hartley_weights(n_classes: int) -> FloatArray:
    """|w_{|B|}| of every event B, numbered by its bits; 0 for ∅ and Ω. High differences, hence sixty digits."""
    with localcontext(prec=60):
        logarithms = [Decimal(max(b, 1)).ln() / Decimal(2).ln() for b in range(n_classes + 1)]
        by_size = [0.0] + [
            -float(sum((-1) ** i * comb(n_classes - b, i) * logarithms[b + i] for i in range(n_classes - b + 1)))
            for b in range(1, n_classes)
        ]
    sizes = [event.bit_count() for event in range((1 << n_classes) - 1)]
    weights = np.array([by_size[size] for size in sizes] + [0.0])
    weights.flags.writeable = False
    return weights


def vertices(center: FloatArray, radius: float) -> FloatArray:
    """Extreme points of one ball with centre (K,), each once, in lexicographic order: (V, K).

    Those of the core of a 2-monotone lower probability come from permutations: the classes are emptied one after the
    other until r is used up, and the last one receives it. Which classes come first matters, their order does not: a
    vertex is a set Z of emptied classes with g(Z) < r, one class p ∉ Z with g(Z) + g_p > r that loses r − g(Z) (none if
    g(Z) = r), and one class z that gains r; or the corner of z, if 1 − g_z ≤ r. Only classes with g_k > 0 can lose.

    Sums g(Z) that miss r by rounding only are taken to be equal to it.
    """
    if radius == 0.0:
        return center[None].copy()
    n_classes = len(center)
    slack = 4.0 * n_classes * np.finfo(float).eps * radius
    emptied, mass, exact = _emptied_sets(center, radius, slack)
    found = [np.eye(n_classes)[[np.delete(center, z).sum() <= radius + slack for z in range(n_classes)]]]
    for p in np.flatnonzero(center > 0.0):
        ends_here = ~emptied[:, p] & (mass + center[p] > radius + slack)
        kept = np.where(emptied[ends_here], 0.0, center)
        kept[:, p] = mass[ends_here] + center[p] - radius
        receives = ~emptied[ends_here]
        receives[:, p] = False
        found.append(_give(kept, receives, radius))
        _check_vertex_count(sum(map(len, found)))
    # Emptying every class but one leads to a corner, and those are there already.
    others_left = (~exact & (center > 0.0)).sum(axis=1, keepdims=True) - (~exact & (center > 0.0))
    found.append(_give(np.where(exact, 0.0, center), ~exact & (others_left > 0), radius))
    return np.unique(np.concatenate(found), axis=0)


def _give(kept: FloatArray, receives: BoolArray, radius: float) -> FloatArray:
    """One point per row of ``kept`` and class that may receive the radius."""
    row, receiver = np.nonzero(receives)
    points = kept[row]
    points[np.arange(len(row)), receiver] += radius
    return points


def _emptied_sets(center: FloatArray, radius: float, slack: float) -> tuple[BoolArray, FloatArray, BoolArray]:
    """List the sets Z of positive classes with g(Z) < r, their g(Z), and those with g(Z) = r."""
    sets, mass = np.zeros((1, len(center)), dtype=bool), np.zeros(1)
    exact = [sets[:0]]
    for k in np.flatnonzero(center > 0.0):
        grown = mass + center[k]
        with_k = sets.copy()
        with_k[:, k] = True
        below = grown < radius - slack
        exact.append(with_k[~below & (grown <= radius + slack)])
        sets, mass = np.concatenate([sets, with_k[below]]), np.concatenate([mass, grown[below]])
        _check_vertex_count(len(sets))
    return sets, mass, np.concatenate(exact)


def _check_vertex_count(count: int) -> None:
    if count > MAX_VERTICES:
        raise ValueError(
            f"this total-variation ball has more than {MAX_VERTICES} vertices. "
            "Use its support function (upper_expectation) or sample from it instead."
        )


def _put_back(moved: FloatArray, order: IntArray) -> FloatArray:
    """Rows (n, K) of what was put in some order, (K, n)."""
    points = np.empty(order.shape)
    np.put_along_axis(points, order, moved.T, axis=1)
    return points


def _move_to_last(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Take up to r from the first classes on and give it to the last."""
    result = np.array(center)
    before = np.cumsum(result[:-1], axis=0) - result[:-1]
    taken = np.minimum(np.maximum(radius - before, 0.0), result[:-1])
    result[:-1] -= taken
    result[-1] = np.minimum(result[-1] + taken.sum(axis=0), 1.0)
    return result


@in_blocks()
def smallest_peak(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the smallest peak of each TV ball: the t with Σ (g_k − t)₊ = r, or 1/K once that is reached."""
    k = center.shape[1]
    ranked = np.ascontiguousarray(np.sort(center, axis=1).T[::-1])
    # With the j largest classes cut to t, r = g_1 + … + g_j − j·t: the largest such t is the right one.
    level = (np.cumsum(ranked, axis=0) - radius) / np.arange(1, k + 1)[:, None]
    return np.minimum(np.maximum(level.max(axis=0), 1.0 / k), ranked[0])
