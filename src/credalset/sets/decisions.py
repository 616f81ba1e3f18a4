"""Decisions under a credal set: which actions survive, by the classical rules of imprecise probability.

With u_a the utility of action a in each class and E̲, E̅ the lower and upper expectation over the set:

- ``gamma-maximin``: the actions with the largest E̲ u_a; ``gamma-maximax``: the largest E̅ u_a.
- ``interval-dominance``: E̅ u_a ≥ max_b E̲ u_b.
- ``maximal``: no b has E̲(u_b − u_a) > 0.
- ``e-admissible``: some member of the set makes a optimal.

e-admissible ⊆ maximal ⊆ interval-dominance (Troffaes 2007, International Journal of Approximate Reasoning 45).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from credalset._typing import BoolArray, FloatArray
from credalset._validation import as_numbers
from credalset.sets.max_min import max_min
from credalset.sets.region import TIE

if TYPE_CHECKING:
    from credalset.sets.questions import Questions


def as_utility(utility: Any, n_classes: int) -> FloatArray:
    """Check a utility matrix (actions × classes); 0/1 utility, one action per class, by default."""
    if utility is None:
        return np.eye(n_classes)
    array = as_numbers(utility, "utility")
    if array.ndim != 2 or array.shape[1] != n_classes or len(array) == 0:
        raise ValueError(
            f"utility must have shape (n_actions, {n_classes}), one row per action and one column per class, "
            f"but has shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError("utility contains NaN or infinity.")
    return array


def decide(sets: Questions, rule: str, utility: Any) -> BoolArray:
    """Return (N, A) booleans: the actions that a rule keeps. An empty set supports no action."""
    rules = {
        "e-admissible": _e_admissible,
        "maximal": _maximal,
        "interval-dominance": _interval_dominance,
        "gamma-maximin": _gamma_maximin,
        "gamma-maximax": _gamma_maximax,
    }
    if rule not in rules:
        raise ValueError(f"rule must be one of {', '.join(rules)}, but is {rule!r}.")
    matrix = as_utility(utility, sets.n_classes)
    matrix = np.ldexp(matrix, -np.frexp(np.abs(matrix).max())[1])  # so that no difference overflows
    # No rule depends on the origin or the unit of utility; without them, one tolerance serves all.
    matrix = matrix - matrix.min()
    scale = float(matrix.max()) or 1.0
    kept = np.zeros((len(sets), len(matrix)), dtype=bool)
    full = ~sets.is_empty()
    if full.any():
        kept[full] = rules[rule](sets[full], matrix / scale)
    return kept


def _expectations(sets: Questions, matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    upper = np.column_stack([sets.upper_expectation(row) for row in matrix])
    lower = np.column_stack([sets.lower_expectation(row) for row in matrix])
    return lower, upper


def _gamma_maximin(sets: Questions, matrix: FloatArray) -> BoolArray:
    lower, _ = _expectations(sets, matrix)
    return lower >= lower.max(axis=1, keepdims=True) - TIE


def _gamma_maximax(sets: Questions, matrix: FloatArray) -> BoolArray:
    _, upper = _expectations(sets, matrix)
    return upper >= upper.max(axis=1, keepdims=True) - TIE


def _interval_dominance(sets: Questions, matrix: FloatArray) -> BoolArray:
    lower, upper = _expectations(sets, matrix)
    return upper >= lower.max(axis=1, keepdims=True) - TIE


def _maximal(sets: Questions, matrix: FloatArray) -> BoolArray:
    kept = np.ones((len(sets), len(matrix)), dtype=bool)
    for a, of_a in enumerate(matrix):
        for b, of_b in enumerate(matrix):
            if a != b:
                kept[:, a] &= sets.upper_expectation(of_a - of_b) >= -TIE
    return kept


def _e_admissible(sets: Questions, matrix: FloatArray) -> BoolArray:
    parts = sets._parts()
    if parts is not None:  # some member of the union makes an action best only if some member of a part does
        kept = np.zeros((len(sets), len(matrix)), dtype=bool)
        for part in parts:
            there = ~part.is_empty()
            if there.any():
                kept[there] |= _e_admissible(part[there], matrix)
        return kept
    if np.array_equal(matrix, np.eye(sets.n_classes)):
        tops = sets._can_be_top()
        if tops is not None:
            return tops
    kept = _maximal(sets, matrix)  # the necessary condition leaves little to decide
    certain = _optimal_somewhere(sets, matrix)
    for i, a in np.argwhere(kept & ~certain):
        others = np.delete(matrix, a, axis=0)
        kept[i, a] = _can_be_best(sets[int(i)], matrix[a] - others)
    return kept


def _optimal_somewhere(sets: Questions, matrix: FloatArray) -> BoolArray:
    """Tell which actions are optimal at one of a few members that come for free."""
    certain = np.zeros((len(sets), len(matrix)), dtype=bool)
    for row in matrix:
        _, point = sets.upper_expectation(row, return_distribution=True)
        values = point @ matrix.T
        certain |= values >= values.max(axis=1, keepdims=True)
    return certain


def _can_be_best(one: Questions, advantages: FloatArray) -> bool:
    if len(advantages) == 0:
        return True
    if np.isposinf(one.radius[0]):
        from credalset.sets.max_min import _worst_mixture

        return _worst_mixture(advantages.T)[1] >= -TIE
    low, _ = max_min(one, advantages, sign_only=True)
    return low >= -TIE
