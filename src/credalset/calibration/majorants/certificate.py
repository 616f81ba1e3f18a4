r"""Is E[φ | λ] ≥ 1{f(x, λ) > t} for *every* λ and every prediction? Yes, by how much, or what mends it.

Take a cell of the mesh with predictions $v_1, \dots, v_K$ at its corners and tables $\varphi_j$ there, and a piece S of
the simplex with corners $P_1, \dots, P_K$. On S let $b_{j\gamma}$ be the Bernstein coefficients of the polynomial of
$\varphi_j$, and $l_{j\gamma} = \sum_k (\gamma_k / d) f(v_j, P_k) - t$ those of the linear function that equals f − t in
the corners. If

$$ b_{j\gamma} \ge \kappa + \sigma \, l_{j\gamma} \quad \text{for all } j, \gamma, \text{ with one } \sigma \ge 0, $$

then for every $g = \sum_j w_j v_j$ in the cell and every λ in S the mixed table has $p = \sum_j w_j p_j(\lambda) \ge
\kappa + \sigma \sum_j w_j (f(v_j, \lambda) - t) \ge \kappa + \sigma (f(g, \lambda) - t)$, because f is convex in λ (the
linear function lies above it on S) and convex in g. So p ≥ κ wherever f(g, λ) ≥ t, and φ / κ is a majorant once p ≥ 0
everywhere, which smallest coefficients tell as well. Both σ and κ are found per piece; κ of a cell is the smallest over
all pieces that reach beyond t. Any σ proves what it proves, so nothing depends on the search.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.calibration.majorants.mesh import Mesh
from credalset.calibration.majorants.polynomials import count_vectors, restriction, subdivision
from credalset.scores import Score

FIRST_CUT = {2: 16, 3: 8, 4: 4}  # pieces along an edge before any is cut further
MOST_CUTS = {2: 8, 3: 4, 4: 3}  # times that a piece may be halved
ENOUGH = 1e-3  # what a proof may miss by before it is refined
ROUNDING = 1e-9
#: slopes that are tried, relative to 1 / t
SLOPES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 25.0)
AT_A_TIME = 10_000  # pieces, of any number of cells

#: what is known of pieces (rows, coefficients (N, J, C), corners (N, K, K)): a bound, and whether it will do
Judge = Callable[[IntArray, FloatArray, FloatArray], tuple[FloatArray, BoolArray]]


def shifts(tables: FloatArray, mesh: Mesh, degree: int) -> FloatArray:
    """Return constants that make the polynomials of tables at the nodes (V, C) non-negative in each cell, (P,)."""

    def judge(rows: IntArray, coefficients: FloatArray, corners: FloatArray) -> tuple[FloatArray, BoolArray]:
        smallest = coefficients[:, 0].min(axis=1)
        return smallest, smallest >= -ENOUGH

    smallest = _lower_bounds(tables[:, None], degree, mesh.n_classes, judge)
    return np.maximum(-smallest[mesh.cells].min(axis=1), 0.0) + ROUNDING


def floors(score: Score, tables: FloatArray, mesh: Mesh, degree: int, threshold: float) -> FloatArray:
    """Return what the polynomials of mixed tables are proven not to fall below where f ≥ t, for each cell, (P,).

    Infinite for cells in which f reaches the threshold nowhere.
    """
    lift = count_vectors(degree, mesh.n_classes).T / degree  # from corners to coefficients of a linear function
    nodes = mesh.nodes[mesh.cells]

    def judge(rows: IntArray, coefficients: FloatArray, corners: FloatArray) -> tuple[FloatArray, BoolArray]:
        n, k = len(rows), mesh.n_classes
        pairs = np.broadcast_to(nodes[rows][:, :, None], (n, k, k, k)), np.broadcast_to(corners[:, None], (n, k, k, k))
        values = score.evaluate_rows(*(np.ascontiguousarray(side).reshape(-1, k) for side in pairs)).reshape(n, k, k)
        highest, lowest = values.max(axis=(1, 2)), values.min(axis=(1, 2))
        kappa = np.where(highest < threshold, np.inf, coefficients.min(axis=(1, 2)))
        mixed = np.flatnonzero((highest >= threshold) & (lowest < threshold) & np.isfinite(highest))
        b, slack = coefficients[mixed], (values[mixed] / threshold - 1.0) @ lift
        for slope in SLOPES:
            kappa[mixed] = np.maximum(kappa[mixed], (b - slope * slack).min(axis=(1, 2)))
        return kappa, kappa >= 1.0 - ENOUGH

    return _lower_bounds(tables[mesh.cells], degree, mesh.n_classes, judge) * (1.0 - ROUNDING) - ROUNDING


def _lower_bounds(tables: FloatArray, degree: int, n_classes: int, judge: Judge) -> FloatArray:
    """Cut the simplex into pieces, for each of N groups of tables (N, J, C), until each piece's bound will do; (N,).

    Bounds only rise when a piece is cut. One that is no lower than what its group is settled for already need not be,
    so the worst piece of each group goes first, all the way down, and most others are never cut.
    """
    lowest = np.full(len(tables), np.inf)
    stack: list[tuple[_Pieces, FloatArray]] = []
    corners, matrices = _cut(n_classes, degree, FIRST_CUT[n_classes])
    halves = _cut(n_classes, degree, 2)

    def settle(pieces: _Pieces) -> None:
        bound, will_do = judge(pieces.row, pieces.coefficients, pieces.corners)
        done = will_do | (pieces.cuts == MOST_CUTS[n_classes])
        np.minimum.at(lowest, pieces.row[done], bound[done])
        left = np.flatnonzero(~done)
        left = left[np.lexsort((bound[left], pieces.row[left]))]
        worst = np.diff(pieces.row[left], prepend=-1) > 0
        stack.extend((pieces.only(some), bound[some]) for some in (left[~worst], left[worst]))

    step = max(AT_A_TIME // len(corners), 1)
    for start in range(0, len(tables), step):
        part = tables[start : start + step]
        row, which = (index.ravel() for index in np.indices((len(part), len(corners))))
        coefficients = np.einsum("pgc,njc->npjg", matrices, part, optimize=True).reshape(-1, *part.shape[1:])
        settle(_Pieces(start + row, coefficients, corners[which], 0))
        while stack:
            pieces, bound = stack.pop()
            left = np.flatnonzero(bound < lowest[pieces.row])
            for first in range(0, len(left), AT_A_TIME // len(halves[0])):
                settle(pieces.only(left[first : first + AT_A_TIME // len(halves[0])]).halved(*halves))
    return lowest


class _Pieces(NamedTuple):
    """Pieces of the simplex: the group of each, its coefficients (N, J, C), corners (N, K, K), and how often cut."""

    row: IntArray
    coefficients: FloatArray
    corners: FloatArray
    cuts: int

    def only(self, rows: IntArray) -> _Pieces:
        return _Pieces(self.row[rows], self.coefficients[rows], self.corners[rows], self.cuts)

    def halved(self, halves: FloatArray, matrices: FloatArray) -> _Pieces:
        finer = np.einsum("hgc,njc->nhjg", matrices, self.coefficients, optimize=True)
        smaller = np.einsum("hab,nbk->nhak", halves, self.corners)
        return _Pieces(
            np.repeat(self.row, len(halves)),
            finer.reshape(-1, *finer.shape[2:]),
            smaller.reshape(-1, *smaller.shape[2:]),
            self.cuts + 1,
        )


@cache
def _cut(n_classes: int, degree: int, pieces: int) -> tuple[FloatArray, FloatArray]:
    corners = subdivision(n_classes, pieces)
    return corners, restriction(corners, degree)
