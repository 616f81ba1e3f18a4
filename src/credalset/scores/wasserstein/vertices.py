"""Corners of W₁ balls on a line."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from credalset._typing import BoolArray, FloatArray
from credalset.scores.wasserstein.geometry import transport_cost, within_reach

MAX_VERTEX_CLASSES = 12  # their number grows like 2.6^K


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
    found = [corners[transport_cost(corners - center, gaps) <= radius]]
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
