"""Total, aleatoric and epistemic uncertainty of credal sets, in three families."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from credalset._typing import FloatArray
from credalset.simplex import log_base

if TYPE_CHECKING:
    from credalset.sets.credal_set import CredalSet


@dataclass(frozen=True)
class Uncertainty:
    """Uncertainty of each set and its two parts, arrays (N,); total = aleatoric + epistemic."""

    total: FloatArray
    aleatoric: FloatArray
    epistemic: FloatArray


def uncertainty(sets: CredalSet, base: float | str | None, family: str) -> Uncertainty:
    """Dispatch on the family of measures; see `CredalSet.uncertainty`."""
    families = {"entropy": _entropy, "zero-one": _zero_one, "hartley": _hartley}
    if family not in families:
        raise ValueError(f"family must be one of {', '.join(families)}, but is {family!r}.")
    return families[family](sets, base)


def _entropy(sets: CredalSet, base: float | str | None) -> Uncertainty:
    lower, upper = sets.entropy_bounds(base)
    return Uncertainty(upper, lower, upper - lower)


def _zero_one(sets: CredalSet, base: float | str | None) -> Uncertainty:
    largest, least = sets.upper().max(axis=1), sets.smallest_peak()
    return Uncertainty(1.0 - least, 1.0 - largest, largest - least)


def _hartley(sets: CredalSet, base: float | str | None) -> Uncertainty:
    upper = sets.entropy_bounds(base)[1]
    nonspecificity = sets.generalized_hartley() * np.log(2.0) / log_base(base, sets.n_classes)
    return Uncertainty(upper, upper - nonspecificity, nonspecificity)
