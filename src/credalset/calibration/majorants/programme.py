r"""Tables with the smallest mean and spread whose polynomials are majorants, at finitely many points.

    minimise  E φ + (ρ/2) E φ²     subject to  p(λ) ≥ 1 where f ≥ t,  p(λ) ≥ 0 elsewhere,  smallest ≤ φ ≤ largest.

The square matters as much as the mean: how far φ scatters decides how many items it takes to measure its mean. What
lies between the points is left to `certificate`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from credalset._typing import BoolArray, FloatArray, IntArray

MAX_STEPS = 60
PRECISION = 3e-4  # of the objective
NEARLY = 0.995  # of the way to the boundary


def smallest_tables(
    mean: FloatArray, square: FloatArray, rows: FloatArray, own: FloatArray, bounds: FloatArray, start: float
) -> FloatArray:
    r"""Minimise ⟨mean_v, φ⟩ + ½ φᵀ square_v φ subject to rows φ ≥ bounds_v, for many v at once; (V, C).

    A primal-dual interior-point method with Mehrotra's corrector (Nocedal and Wright, *Numerical Optimization*, chapter
    16). It starts inside and stays inside: whenever it stops, all constraints hold.

    Parameters
    ----------
    mean, square : arrays of shape (V, C) and (V, C, C)
        The objectives, strictly convex.
    rows : array of shape (G, C)
        Constraints that all problems share.
    own : array of shape (V, X, C)
        Constraints of each problem; rows of zeros where it has fewer.
    bounds : array of shape (V, G + X)
        Right-hand sides, negative for rows of zeros.
    start : float
        A constant table that satisfies every constraint strictly.
    """
    result = np.full(mean.shape, start)
    upper = np.triu_indices(mean.shape[1])
    products = rows[:, upper[0]] * rows[:, upper[1]]
    slack = _apply(rows, own, result) - bounds
    inside = _Inside(mean, square, rows, own, result, slack, 1.0 / slack)
    todo = np.arange(len(mean))
    for _ in range(MAX_STEPS):
        result[todo] = inside.tables
        unsettled = inside.gap.sum(axis=1) > PRECISION * (1.0 + np.abs((inside.mean * inside.tables).sum(axis=1)))
        if not unsettled.any():
            break
        if not unsettled.all():
            todo, inside = todo[unsettled], inside.only(unsettled)
        inside = inside.improved(products, upper)
    return result


def _apply(rows: FloatArray, own: FloatArray, x: FloatArray) -> FloatArray:
    return np.concatenate([x @ rows.T, (own @ x[..., None])[..., 0]], axis=1)


@dataclass(frozen=True, eq=False)
class _Inside:
    """Points inside many polyhedra, with prices for their constraints."""

    mean: FloatArray
    square: FloatArray
    rows: FloatArray
    own: FloatArray
    tables: FloatArray
    slack: FloatArray
    price: FloatArray

    def only(self, keep: BoolArray) -> _Inside:
        names = ("mean", "square", "own", "tables", "slack", "price")
        return replace(self, **{name: getattr(self, name)[keep] for name in names})

    @property
    def gap(self) -> FloatArray:
        return self.slack * self.price

    def adjoint(self, y: FloatArray) -> FloatArray:
        n = len(self.rows)
        return y[:, :n] @ self.rows + (y[:, None, n:] @ self.own)[:, 0]

    def improved(self, products: FloatArray, upper: tuple[IntArray, ...]) -> _Inside:
        """Take one step."""
        n, weights = len(self.rows), self.price / self.slack
        matrix = self.square + (self.own * weights[:, n:, None]).transpose(0, 2, 1) @ self.own
        packed = weights[:, :n] @ products
        matrix[:, upper[0], upper[1]] += packed
        off = upper[0] != upper[1]
        matrix[:, upper[1][off], upper[0][off]] += packed[:, off]
        slope = (self.square @ self.tables[..., None])[..., 0] + self.mean - self.adjoint(self.price)

        def direction(target: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            right = -slope - self.adjoint(target / self.slack)
            dx = np.asarray(np.linalg.solve(matrix, right[..., None])[..., 0], dtype=np.float64)
            ds = _apply(self.rows, self.own, dx)
            return dx, ds, -(target + self.price * ds) / self.slack

        def reach(ds: FloatArray, dp: FloatArray) -> FloatArray:
            worst = np.minimum((ds / self.slack).min(axis=1), (dp / self.price).min(axis=1))
            return np.minimum(-1.0 / np.minimum(worst, -1e-12), 1.0)[:, None]

        _, ds, dp = direction(self.gap)
        length = reach(ds, dp)
        now = self.gap.mean(axis=1, keepdims=True)
        ahead = ((self.slack + length * ds) * (self.price + length * dp)).mean(axis=1, keepdims=True)
        dx, ds, dp = direction(self.gap + ds * dp - (ahead / now) ** 3 * now)
        length = NEARLY * reach(ds, dp)
        return replace(
            self,
            tables=self.tables + length * dx,
            slack=self.slack + length * ds,
            price=self.price + length * dp,
        )
