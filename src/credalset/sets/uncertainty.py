"""Total, aleatoric and epistemic uncertainty of credal sets, in three families."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from credalset._typing import FloatArray
from credalset.sets.results import Uncertainty
from credalset.simplex import log_base

if TYPE_CHECKING:
    from credalset.sets.questions import Questions


def uncertainty(sets: Questions, base: float | str | None, family: str) -> Uncertainty:
    """Dispatch on the family of measures; see `CredalSet.uncertainty`."""
    families = {"entropy": _entropy, "zero-one": _zero_one, "hartley": _hartley}
    if family not in families:
        raise ValueError(f"family must be one of {', '.join(families)}, but is {family!r}.")
    return replace(families[family](sets, base), items=getattr(sets, "items", None))


def _entropy(sets: Questions, base: float | str | None) -> Uncertainty:
    bounds = sets.entropy_bounds(base)
    lower, upper = bounds
    return Uncertainty(upper, lower, upper - lower, bounds.upper_gap, bounds.lower_gap, bounds.method)


def _zero_one(sets: Questions, base: float | str | None) -> Uncertainty:
    largest, least = sets.upper().max(axis=1), sets.smallest_peak()
    total_gap, aleatoric_gap = np.zeros(len(sets)), np.zeros(len(sets))
    if sets.hull is not None:

        def of_members(some: Questions, _: Any) -> tuple[FloatArray, FloatArray]:
            peaks = some._known_members().max(axis=2)
            return peaks.min(axis=1), peaks.max(axis=1)

        lowest, highest = sets._measure([(), ()], of_members, lambda _: (1.0 / sets.n_classes, 1.0))
        total_gap, aleatoric_gap = np.maximum(lowest - least, 0.0), np.maximum(largest - highest, 0.0)
    method = sets.answers()["smallest_peak"]
    return Uncertainty(1.0 - least, 1.0 - largest, largest - least, total_gap, aleatoric_gap, method)


def _hartley(sets: Questions, base: float | str | None) -> Uncertainty:
    upper = sets.entropy_bounds(base)[1]
    nonspecificity = sets.generalized_hartley() * np.log(2.0) / log_base(base, sets.n_classes)
    none = np.zeros(len(sets))
    return Uncertainty(upper, upper - nonspecificity, nonspecificity, none, none, "exact")
