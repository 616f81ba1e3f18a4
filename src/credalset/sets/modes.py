r"""Which actions are best for some member of a convex region, computed from its support function.

Action a is best for a member if $\max_\lambda \min_b \langle u_a - u_b, \lambda\rangle \ge 0$, a
game between the region and mixtures w of the other actions. A mixture with $\max_\lambda \langle
u_a - \sum_b w_b u_b, \lambda\rangle < 0$ excludes a; a member, or a mean of members, for which a is
best proves the contrary. Multiplicative weights decide most cases for all regions at once; a linear
program over the members found decides the others. Actions that nothing excludes are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.simplex import corners

if TYPE_CHECKING:
    from credalset.sets.geometry import Geometry

#: from rows and utilities (R, K) to the largest expectations (R,) and members (R, K)
Support = Callable[[IntArray, FloatArray], tuple[FloatArray, FloatArray]]

# Ties are common (symmetric predictions, sets that touch a decision boundary); tied actions are
# kept.
TIE = 1e-10
ROUNDS = 24  # of multiplicative weights
PROGRAMS = 60  # linear programs per undecided case
RATE = 4.0  # of multiplicative weights


def separate(geometry: Geometry) -> FloatArray:
    """Return ``+inf`` for classes that are no member's mode and ``radius`` for others, (N, K)."""
    lower, upper = geometry.envelope()
    tie = TIE + geometry.tolerance
    open_ = upper >= lower.max(axis=1, keepdims=True) - tie
    support: Support = lambda rows, utility: geometry[rows].support(utility)  # noqa: E731
    kept = best_somewhere(support, np.eye(geometry.n_classes), open_, tie)
    return np.where(kept, geometry.radius[:, None], np.inf)


def best_somewhere(
    support: Support, matrix: FloatArray, candidates: BoolArray, tie: float = TIE
) -> BoolArray:
    """Tell which of the candidate actions are best for some member of each region, (N, A).

    Parameters
    ----------
    support : callable
        Maps rows and utilities to expectations and members.
    matrix : ndarray of shape (A, K)
        Utility of each action in each class, between 0 and 1.
    candidates : ndarray of shape (N, A)
        Actions that may be best; the others are skipped.
    tie : float
        Difference to the best action below which an action counts as best.
    """
    kept = candidates.copy()
    rows, action = np.nonzero(candidates)
    if len(matrix) == 1 or len(rows) == 0:
        return kept
    n_pairs = len(rows)
    n_actions = len(matrix)
    own = corners(action, n_actions).astype(bool)
    regret, last, scale = (np.zeros((n_pairs, n_actions)) for _ in range(3))
    mean = np.zeros((n_pairs, matrix.shape[1]))
    active = np.arange(n_pairs)
    for turn in range(ROUNDS):
        # Optimistic: the last payoff counts twice, as a forecast of the next one.
        logs = np.where(
            own[active],
            -np.inf,
            RATE * (regret[active] + last[active]) / np.maximum(scale[active], 1e-300),
        )
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        value, member = support(rows[active], matrix[action[active]] - weights @ matrix)
        mean[active] += (member - mean[active]) / (turn + 1)
        out = value < -tie
        kept[rows[active[out]], action[active[out]]] = False
        payoff, lead = (
            _regret(points, matrix, action[active]) for points in (member, mean[active])
        )
        certain = np.minimum(payoff.max(axis=1), lead.max(axis=1)) <= tie
        last[active] = payoff
        regret[active] += payoff
        scale[active] = np.maximum(scale[active], np.abs(payoff).max(axis=1, keepdims=True))
        active = active[~(out | certain)]
        if len(active) == 0:
            return kept
    for pair in active:
        advantage = matrix[action[pair]] - np.delete(matrix, action[pair], axis=0)
        kept[rows[pair], action[pair]] = _play(
            support, rows[pair : pair + 1], advantage, mean[pair], tie
        )
    return kept


def _regret(points: FloatArray, matrix: FloatArray, action: IntArray) -> FloatArray:
    """Return expected utilities of actions at the points minus the chosen action's, (R, A)."""
    values = points @ matrix.T
    return np.asarray(values - np.take_along_axis(values, action[:, None], axis=1))


def _play(
    support: Support, row: IntArray, advantage: FloatArray, start: FloatArray, tie: float
) -> bool:
    """Tell by cutting planes whether some member has no expectation of ``advantage`` below −tie."""
    members = [start]
    centre = np.full(len(advantage), 1.0 / len(advantage))
    for _ in range(PROGRAMS):
        weights, found = worst_mixture(np.array(members) @ advantage.T)
        if found >= -tie:
            return True
        # The solutions oscillate, and their average converges faster.
        centre = 0.5 * (centre + weights)
        value, member = support(row, (centre @ advantage)[None])
        if value[0] < -tie:
            return False
        members.append(member[0])
    return True


def worst_mixture(table: FloatArray) -> tuple[FloatArray, float]:
    """Solve min over mixtures w of max over rows ⟨table_j, w⟩."""
    n_rows, n_actions = table.shape
    solution = linprog(
        np.append(np.zeros(n_actions), 1.0),
        A_ub=np.column_stack([table, -np.ones(n_rows)]),
        b_ub=np.zeros(n_rows),
        A_eq=np.append(np.ones(n_actions), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * n_actions + [(None, None)],
        method="highs",
    )
    if solution.x is None:
        raise RuntimeError(f"the linear program of a decision was not solved: {solution.message}")
    weights = np.maximum(solution.x[:-1], 0.0)
    return weights / weights.sum(), float(solution.x[-1])
