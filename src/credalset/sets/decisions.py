"""Decisions under a credal set: which actions survive, by the classical rules of imprecise probability.

With u_a the utility of action a in each class and E̲, E̅ the lower and upper expectation over the set:

- ``gamma-maximin``: the actions with the largest E̲ u_a; ``gamma-maximax``: the largest E̅ u_a.
- ``interval-dominance``: E̅ u_a ≥ max_b E̲ u_b.
- ``maximal``: no b has E̲(u_b − u_a) > 0.
- ``e-admissible``: some member of the set makes a optimal.

e-admissible ⊆ maximal ⊆ interval-dominance (Troffaes 2007, International Journal of Approximate Reasoning 45).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from credalset._typing import BoolArray, FloatArray
from credalset._validation import as_numbers
from credalset.sets.max_min import max_min, worst_mixture
from credalset.sets.region import TIE

if TYPE_CHECKING:
    from credalset.sets.questions import Questions


#: from sets and a matrix of utilities, or None for labels that are worth 1 when right, to the actions kept
Rule = Callable[..., BoolArray]
#: most expectations that one call asks for
MAX_EXPECTATIONS = 20_000


def as_utility(utility: Any, n_classes: int) -> FloatArray:
    """Check a utility matrix (actions × classes), and take out its origin and unit, on which no rule depends."""
    array = as_numbers(utility, "utility")
    if array.ndim != 2 or array.shape[1] != n_classes or len(array) == 0:
        raise ValueError(
            f"utility must have shape (n_actions, {n_classes}), one row per action and one column per class, "
            f"but has shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError("utility contains NaN or infinity.")
    matrix = np.ldexp(array, -np.frexp(np.abs(array).max())[1])  # so that no difference overflows
    matrix = matrix - matrix.min()
    return np.asarray(matrix / (float(matrix.max()) or 1.0))


def decide(sets: Questions, rule: str, utility: Any) -> BoolArray:
    """Return (N, A) booleans: the actions that a rule keeps. An empty set supports no action."""
    rules: dict[str, tuple[Rule, Rule]] = {
        "e-admissible": (_e_admissible, _possible_tops),
        "maximal": (_maximal, _maximal_labels),
        "interval-dominance": (_interval_dominance, _interval_dominance),
        "gamma-maximin": (_gamma_maximin, _gamma_maximin),
        "gamma-maximax": (_gamma_maximax, _gamma_maximax),
    }
    if rule not in rules:
        raise ValueError(f"rule must be one of {', '.join(rules)}, but is {rule!r}.")
    matrix = None if utility is None else as_utility(utility, sets.n_classes)
    if matrix is not None and matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix))):
        matrix = None  # one action per class, worth 1 when right: most rules have a shorter way
    kept = np.zeros((len(sets), sets.n_classes if matrix is None else len(matrix)), dtype=bool)
    full = ~sets.is_empty()
    if full.any():
        some = sets if full.all() else sets[full]
        of_actions, of_labels = rules[rule]
        kept[full] = of_labels(some, None) if matrix is None else of_actions(some, matrix)
    return kept


def _expectations(sets: Questions, matrix: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    if matrix is None:
        return sets.envelope()
    upper = np.column_stack([sets.upper_expectation(row) for row in matrix])
    lower = np.column_stack([sets.lower_expectation(row) for row in matrix])
    return lower, upper


def _gamma_maximin(sets: Questions, matrix: FloatArray | None) -> BoolArray:
    lower, _ = _expectations(sets, matrix)
    return lower >= lower.max(axis=1, keepdims=True) - TIE


def _gamma_maximax(sets: Questions, matrix: FloatArray | None) -> BoolArray:
    _, upper = _expectations(sets, matrix)
    return upper >= upper.max(axis=1, keepdims=True) - TIE


def _interval_dominance(sets: Questions, matrix: FloatArray | None) -> BoolArray:
    lower, upper = _expectations(sets, matrix)
    return upper >= lower.max(axis=1, keepdims=True) - TIE


def _maximal(sets: Questions, matrix: FloatArray) -> BoolArray:
    _check_effort(len(matrix) ** 2, len(matrix))
    kept = np.ones((len(sets), len(matrix)), dtype=bool)
    for a, of_a in enumerate(matrix):
        for b, of_b in enumerate(matrix):
            if a != b:
                kept[:, a] &= sets.upper_expectation(of_a - of_b) >= -TIE
    return kept


def _maximal_labels(sets: Questions, _: None) -> BoolArray:
    """As `_maximal`: labels out of reach of another's lower probability are not, possible tops are, pairs decide."""
    lower, upper = sets.envelope()
    kept = upper >= lower.max(axis=1, keepdims=True) - TIE
    sure = _known_tops(sets)
    to_ask = kept if sure is None else kept & ~sure
    n_asked = 0
    for a in np.flatnonzero(to_ask.any(axis=0)):
        advantage = np.zeros(sets.n_classes)
        advantage[a] = 1.0
        rows = np.flatnonzero(to_ask[:, a])
        best = sets[rows].upper_expectation(advantage, return_distribution=True)[1]
        ahead = best > best[:, [a]]  # where a has most, every other label is no rival
        for b in np.flatnonzero(ahead.any(axis=0)):
            asked = np.flatnonzero(ahead[:, b] & kept[rows, a])
            n_asked += len(asked) > 0
            _check_effort(n_asked, sets.n_classes)
            if len(asked):
                advantage[b] = -1.0
                kept[rows[asked], a] = sets[rows[asked]].upper_expectation(advantage) >= -TIE
                advantage[b] = 0.0
    return kept if sure is None else kept | sure


def _check_effort(n_expectations: int, n_actions: int) -> None:
    if n_expectations > MAX_EXPECTATIONS:
        raise ValueError(
            f"comparing {n_actions} actions in pairs takes more than {MAX_EXPECTATIONS} expectations. Use "
            "rule='interval-dominance', which takes two for each action, or pass a utility with fewer actions."
        )


def _e_admissible(sets: Questions, matrix: FloatArray) -> BoolArray:
    parts = sets._parts()
    if parts is not None:
        return _in_any(sets, parts, lambda part: _e_admissible(part, matrix), len(matrix))
    kept = _maximal(sets, matrix)  # the necessary condition leaves little to decide
    return _settle(sets, matrix, kept)


def _settle(sets: Questions, matrix: FloatArray, kept: BoolArray) -> BoolArray:
    """Ask of each action that may be e-admissible whether some member makes it best."""
    certain = _optimal_somewhere(sets, matrix)
    for i, a in np.argwhere(kept & ~certain):
        others = np.delete(matrix, a, axis=0)
        kept[i, a] = _can_be_best(sets[int(i)], matrix[a] - others)
    return kept


def _possible_tops(sets: Questions, _: None) -> BoolArray:
    known = _known_tops(sets)
    return _settle(sets, np.eye(sets.n_classes), _maximal_labels(sets, None)) if known is None else known


def _known_tops(sets: Questions) -> BoolArray | None:
    """Labels that are most probable in some member, where that is known without a search."""
    parts = sets._parts()
    if parts is not None:
        return _in_any(sets, parts, lambda part: _possible_tops(part, None), sets.n_classes)
    return sets._can_be_top()


def _in_any(
    sets: Questions, parts: Sequence[Questions], ask: Callable[[Questions], BoolArray], n_actions: int
) -> BoolArray:
    """Keep what some part keeps: a member of the union that makes an action best is a member of a part."""
    kept = np.zeros((len(sets), n_actions), dtype=bool)
    for part in parts:
        there = ~part.is_empty()
        if there.any():
            kept[there] |= ask(part[there])
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
        return worst_mixture(advantages.T)[1] >= -TIE
    # What no certificate excludes stays, also where a support function is good for a few digits only.
    _, high = max_min(one, advantages, sign_only=True)
    return high >= -TIE
