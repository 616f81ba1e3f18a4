r"""Volumes of 1-Wasserstein balls on a line, by draws from a tilted chain.

In cumulative sums, a ball is $\{0 \le F_1 \le \dots \le F_{K-1} \le 1 : C(F) \le r\}$ with the cost
$C(F) = \sum_j gap_j |F_j - G_j|$, and the simplex has volume $1 / (K-1)!$ there. Under the density
$\propto e^{-s C(F)}$ on monotone F, the $F_j$ are a Markov chain, so that it can be drawn from the
left to the right once the integrals over everything to the right are known. These are computed from
the right to the left on a grid. Draws with weights

$$w = 1[C(F) \le r] \prod_j \frac{1}{q_j(F_j \mid F_{j-1})}$$

are unbiased for any grid and any s, because q is the exact density of the draws (constant in each
cell of the grid). On a fine grid w is close to $Z(s) e^{s C(F)} 1[C(F) \le r] \le Z(s) e^{s r}$.
With s such that the mean cost of the draws is r, a few hundred draws are enough and their weights
are bounded, so that the standard error can be trusted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from credalset._blocks import row_blocks
from credalset._typing import FloatArray, IntArray
from credalset.sets.volume import LARGEST_ERROR, log_mean

PILOT_DRAWS = 96
PILOT_ROUNDS = 5  # to find the tilt, a fixed point that is reached quickly
EVEN_CELLS = 64  # of the grid, besides those around cumulative sums
MOST_CELLS = 2048  # around cumulative sums, as long as these have six each on either side
ELEMENTS = 1 << 20  # numbers held at a time


def log_volume(
    center: FloatArray, radius: FloatArray, gaps: FloatArray, n: int, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return log shares of the simplex (N,) and their relative standard errors, from n draws each.

    The error is infinite where a few draws dominate.
    """
    k = center.shape[1]
    value = np.full(len(center), -np.inf)
    error = np.zeros(len(center))
    proper = np.flatnonzero(radius > 0)
    for block in row_blocks(len(proper), (MOST_CELLS + n) * k, ELEMENTS):
        rows = proper[block]
        sums = np.clip(np.cumsum(center[rows], axis=1)[:, :-1], 0.0, 1.0)
        r = radius[rows]
        tilt = (k - 1) / r
        for _ in range(PILOT_ROUNDS):
            _, cost = _Chain.of(sums, gaps, tilt).draw(PILOT_DRAWS, generator)
            tilt *= np.clip(cost.mean(axis=1) / r, 0.05, 1.0)
        logs, cost = _Chain.of(sums, gaps, tilt).draw(n, generator)
        logs = np.where(cost <= r[:, None], logs, -np.inf) + gammaln(k)
        value[rows], error[rows] = log_mean(logs)
    lost = np.isinf(value) | np.isnan(error) | (error > LARGEST_ERROR)  # also without any member
    error = np.where(lost, np.inf, error)
    return np.minimum(value, 0.0), np.where(radius > 0, error, 0.0)


class _Chain(NamedTuple):
    """The density ∝ exp(−tilt · cost) of monotone F, approximated on cells for each of n balls.

    ``edges`` of cells are (n, C + 1). For each class but the last, ``height`` is the unnormalised
    density of F_j in each cell, (K − 1, n, C), and ``tail`` its integral from each edge to one.
    """

    sums: FloatArray
    gaps: FloatArray
    edges: FloatArray
    height: FloatArray
    tail: FloatArray

    @staticmethod
    def of(sums: FloatArray, gaps: FloatArray, tilt: FloatArray) -> _Chain:
        """Integrate from the right to the left."""
        n, free = sums.shape
        edges = _edges(sums, gaps, tilt)
        middle = 0.5 * (edges[:, 1:] + edges[:, :-1])
        width = np.diff(edges, axis=1)
        height = np.zeros((free, n, middle.shape[1]))
        tail = np.zeros((free, n, middle.shape[1] + 1))
        onward = np.ones_like(middle)  # integral over all that follows, up to a factor per ball
        for j in range(free - 1, -1, -1):
            fall = tilt[:, None] * gaps[j] * np.abs(middle - sums[:, j, None])
            height[j] = np.exp(fall.min(axis=1, keepdims=True) - fall) * onward
            tail[j, :, :-1] = np.cumsum((height[j] * width)[:, ::-1], axis=1)[:, ::-1]
            scale = tail[j, :, :1]
            height[j] /= scale
            tail[j] /= scale
            onward = tail[j, :, 1:] + 0.5 * height[j] * width
        return _Chain(sums, gaps, edges, height, tail)

    def draw(self, n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw from the left to the right; return minus log densities and costs, (N, n) each."""
        shape = (len(self.sums), n)
        at = np.zeros(shape)
        cell = np.zeros(shape, dtype=np.int64)
        logs = np.zeros(shape)
        cost = np.zeros(shape)
        for j, gap in enumerate(self.gaps):
            height = self.height[j]
            tail = self.tail[j]
            # Integral from here to one.
            left = _pick(tail, cell + 1) + _pick(height, cell) * (_pick(self.edges, cell + 1) - at)
            goal = left * (1.0 - generator.random(shape))  # what is to be left beyond the draw
            found = _last_at_least(tail, goal)
            density = _pick(height, found)
            with np.errstate(divide="ignore", invalid="ignore"):
                back = (goal - _pick(tail, found + 1)) / density
                logs += np.log(left) - np.log(density)
            drawn = _pick(self.edges, found + 1) - np.where(density > 0, back, 0.0)
            at = np.maximum(at, drawn)
            cell = np.maximum(cell, found)
            cost += gap * np.abs(at - self.sums[:, j, None])
        return logs, cost


def _edges(sums: FloatArray, gaps: FloatArray, tilt: FloatArray) -> FloatArray:
    """Return cells that are fine around each cumulative sum, on the scale of its gap and the tilt.

    A wide gap makes the density fall steeply, even where the others are far from steep.
    """
    n, free = sums.shape
    per_side = int(np.clip(MOST_CELLS // (2 * free), 6, 3 * free + 12))
    fall = np.maximum(tilt[:, None] * gaps, gaps)
    reach = np.geomspace(0.05, 40.0, per_side) / fall[:, :, None]
    offsets = np.concatenate([-reach, np.zeros((n, free, 1)), reach], axis=2)
    around = (sums[:, :, None] + offsets).reshape(n, -1)
    even = np.broadcast_to(np.linspace(0.0, 1.0, EVEN_CELLS + 1), (n, EVEN_CELLS + 1))
    return np.sort(np.concatenate([np.clip(around, 0.0, 1.0), even], axis=1), axis=1)


def _pick(array: FloatArray, column: IntArray) -> FloatArray:
    return np.take_along_axis(array, column, axis=1)


def _last_at_least(tail: FloatArray, goal: FloatArray) -> IntArray:
    """Return for each goal the last cell from whose left edge at least as much is left."""
    last = tail.shape[1] - 2
    found = [
        len(row) - 1 - np.searchsorted(row[::-1], some, side="left")
        for row, some in zip(tail, goal, strict=True)
    ]
    return np.clip(np.stack(found), 0, last)
