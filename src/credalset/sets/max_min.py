"""max over λ in a set of min over actions ⟨payoff_a, λ⟩, with a certificate on both sides.

The set meets the mixed actions in a zero-sum game. Against a mixture w the best member is a support point; the mixture
that does worst against the members found so far is a small linear program. The program's value bounds the game from
below (mixtures of members are members, the set being convex), the support value bounds it from above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

from credalset._typing import FloatArray

if TYPE_CHECKING:
    from credalset.sets.region import Region

MAX_ROUNDS, MAX_IDLE = 500, 20


def max_min(one: Region, payoffs: FloatArray, tolerance: float = 1e-10, sign_only: bool = False) -> tuple[float, float]:
    """Return certified bounds (low, high) on max_λ min_a ⟨payoffs_a, λ⟩ for a batch of one regular set.

    Parameters
    ----------
    one : CredalSet
        A single set.
    payoffs : ndarray of shape (A, K)
        One row per action.
    tolerance : float
        Gap at which to stop.
    sign_only : bool
        Stop as soon as the sign of the value is certain.
    """
    low, high = max_min_of_each(one, payoffs, tolerance, sign_only)
    return float(low[0]), float(high[0])


def max_min_of_each(
    sets: Region, payoffs: FloatArray, tolerance: float, sign_only: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Do the same for each of N sets at once, whose support functions are asked together."""
    n, n_actions = len(sets), len(payoffs)
    weights, best = np.full((n, n_actions), 1.0 / n_actions), np.full((n, n_actions), 1.0 / n_actions)
    low, high, gap = np.full(n, -np.inf), np.full(n, np.inf), np.full(n, np.inf)
    idle = np.zeros(n, dtype=np.int64)  # a support function that is not exact closes the gap only so far
    members: list[list[FloatArray]] = [[] for _ in range(n)]
    active = np.arange(n)
    for _ in range(MAX_ROUNDS):
        # Halfway to the best mixture so far: the program's own solution jumps about, and slows convergence down.
        trial = 0.5 * (weights[active] + best[active])
        value, points = sets[active]._support(trial @ payoffs, True)
        assert points is not None
        lower = value < high[active]
        high[active[lower]], best[active[lower]] = value[lower], trial[lower]
        for i, point in zip(active, points, strict=True):
            members[i].append(point)
        active = active[(high - low > tolerance)[active] & ~(sign_only & (high < -tolerance))[active]]
        for i in active:
            weights[i], found = worst_mixture(np.array(members[i]) @ payoffs.T)
            low[i] = max(low[i], found)
        idle = np.where(high - low < 0.99 * gap, 0, idle + 1)
        gap = np.where(idle == 0, high - low, gap)
        unfinished = (high - low > tolerance) & ~(sign_only & (low >= 0.0)) & (idle < MAX_IDLE)
        active = active[unfinished[active]]
        if len(active) == 0:
            break
    return low, high


def worst_mixture(table: FloatArray) -> tuple[FloatArray, float]:
    """Solve min over mixtures w of max over rows ⟨table_j, w⟩."""
    n_rows, n_actions = table.shape
    cost = np.zeros(n_actions + 1)
    cost[-1] = 1.0
    solution = linprog(
        cost,
        A_ub=np.column_stack([table, -np.ones(n_rows)]),
        b_ub=np.zeros(n_rows),
        A_eq=np.append(np.ones(n_actions), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * n_actions + [(None, None)],
        method="highs",
    )
    if solution.x is None:
        raise RuntimeError(f"the linear program of a decision could not be solved: {solution.message}")
    weights = np.maximum(solution.x[:-1], 0.0)
    return weights / weights.sum(), float(solution.x[-1])
