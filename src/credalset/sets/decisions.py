"""Decisions under a credal set by the classical rules of imprecise probability.

With u_a the utility of action a in each class, and E̲ and E̅ the lower and the upper expectation
over the set, a rule keeps these actions a:

- ``gamma-maximin``: those with the largest E̲ u_a.
- ``gamma-maximax``: those with the largest E̅ u_a.
- ``interval-dominance``: those with E̅ u_a ≥ max_b E̲ u_b.
- ``maximal``: those for which no b has E̲(u_b − u_a) > 0.
- ``e-admissible``: those that are optimal under some member of the set.

e-admissible ⊆ maximal ⊆ interval-dominance (Troffaes 2007, International Journal of Approximate
Reasoning 45).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credalset._typing import BoolArray, FloatArray
from credalset.sets.geometry import Part, answer
from credalset.sets.modes import TIE, best_somewhere

if TYPE_CHECKING:
    from credalset.sets.credal_set import CredalSet

RULES = ("e-admissible", "maximal", "interval-dominance", "gamma-maximin", "gamma-maximax")
#: largest number of expectations that one call computes
MAX_EXPECTATIONS = 20_000


def as_utility(sets: CredalSet, utility: Any) -> FloatArray:
    """Check a utility matrix (actions × classes) and scale it to [0, 1]; decisions stay."""
    n_classes = sets.n_classes
    array = sets._batch.per_class(utility, "utility")
    if array.ndim != 2 or array.shape[1] != n_classes or len(array) == 0:
        raise ValueError(
            f"utility must have shape (n_actions, {n_classes}), one row per action and one column "
            f"per class, but has shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError("utility contains NaN or infinity. Pass finite numbers.")
    matrix = array / (np.abs(array).max() or 1.0)  # so that no difference overflows
    matrix = matrix - matrix.min()
    return np.asarray(matrix / (matrix.max() or 1.0))


def decide(sets: CredalSet, rule: str, utility: Any) -> BoolArray:
    """Return (N, A) booleans: the actions that a rule keeps; see `CredalSet.decide`."""
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, but is {rule!r}.")
    matrix = None if utility is None else as_utility(sets, utility)
    if matrix is not None and np.array_equal(matrix, np.eye(sets.n_classes)):
        matrix = None  # one action per class, with utility 1 for the correct class
    kept = np.zeros((len(sets), sets.n_classes if matrix is None else len(matrix)), dtype=bool)
    rows = np.flatnonzero(~sets.is_empty())
    if len(rows):
        kept[rows] = _survivors(sets if len(rows) == len(sets) else sets[rows], rule, matrix)
    return kept


def _survivors(sets: CredalSet, rule: str, matrix: FloatArray | None) -> BoolArray:
    if rule == "e-admissible":
        if matrix is None:
            return possible_modes(sets)
        candidates = _maximal(sets, matrix)  # the necessary condition leaves few cases
        return best_somewhere(
            lambda rows, u: sets[rows]._support(u), matrix, candidates, _tie(sets)
        )
    if rule == "maximal":
        return _maximal(sets, matrix)
    if matrix is None:
        lower, upper = sets.envelope()
    else:
        lower = np.column_stack([0.0 - sets._support(-row)[0] for row in matrix])
        upper = np.column_stack([sets._support(row)[0] for row in matrix])
    tie = _tie(sets)
    if rule == "gamma-maximin":
        return np.asarray(lower >= lower.max(axis=1, keepdims=True) - tie)
    if rule == "gamma-maximax":
        return np.asarray(upper >= upper.max(axis=1, keepdims=True) - tie)
    return np.asarray(upper >= lower.max(axis=1, keepdims=True) - tie)


def _tie(sets: CredalSet) -> float:
    """Return the difference below which expectations count as equal: rounding and tolerance."""
    return TIE + sets.geometry.tolerance


def possible_modes(sets: CredalSet) -> BoolArray:
    """Tell which classes are the most probable one, alone or tied, for some member, (N, K)."""
    (nearest,) = answer(
        sets.geometry,
        lambda geometry, _: [geometry.mode_radius()],
        Part((sets.n_classes,), -np.inf),
    )
    reach = sets.radius[:, None]
    # Relative, with an absolute part at the level of rounding: divergences are quadratic near zero,
    # so a larger slack would admit classes whose probability is too small by its square root.
    slack = np.where(np.isfinite(reach), TIE * np.abs(reach) + 4e-16, 0.0)
    return np.asarray(nearest <= reach + slack)


def _maximal(sets: CredalSet, matrix: FloatArray | None) -> BoolArray:
    """Compare actions in pairs.

    Labels that can be the mode are maximal; labels whose upper probability is below the lower
    probability of another are not. An action needs no comparison with those that are not better for
    the member that is best for it.
    """
    tie = _tie(sets)
    n_asked = 0
    if matrix is None:
        matrix = np.eye(sets.n_classes)
        lower, upper = sets.envelope()
        sure = possible_modes(sets)
        kept = sure | (upper >= lower.max(axis=1, keepdims=True) - tie)
    else:
        kept = np.ones((len(sets), len(matrix)), dtype=bool)
        sure = ~kept
    for a in np.flatnonzero((kept & ~sure).any(axis=0)):
        rows = np.flatnonzero(kept[:, a] & ~sure[:, a])
        worth = sets[rows]._support(matrix[a])[1] @ matrix.T
        ahead = worth > worth[:, [a]]
        for b in np.flatnonzero(ahead.any(axis=0)):
            asked = rows[ahead[:, b] & kept[rows, a]]
            if not len(asked):
                continue
            n_asked += 1
            if n_asked > MAX_EXPECTATIONS:
                raise ValueError(
                    f"comparing {len(matrix)} actions in pairs takes more than {MAX_EXPECTATIONS} "
                    "expectations. Use rule='interval-dominance', which takes two per action, or "
                    "pass a utility with fewer actions."
                )
            kept[asked, a] = sets[asked]._support(matrix[a] - matrix[b])[0] >= -tie
    return kept
