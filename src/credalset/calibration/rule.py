"""How a calibration turns its scores into thresholds, beyond the plain conformal quantile."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.calibration.groups import Groups, item_keys
from credalset.calibration.noise import Noise, NoNoise, Part
from credalset.calibration.shift import as_weights
from credalset.exceptions import CredalSetWarning
from credalset.scores import Score


@dataclass(frozen=True, eq=False)
class Rule:
    """What each calibration item brings to a threshold: bounds, a weight, a group. Arrays are in item order.

    Attributes
    ----------
    bounds : ndarray of shape (J, n)
        Scores as the noise model wants them.
    tuning : ndarray of shape (n,)
        Items set aside to choose a parameter of the noise model.
    noise : Noise
        How labels relate to what is covered.
    weights : ndarray of shape (n,) or None
        Likelihood ratios.
    groups : Groups or None
        Groups with a threshold each.
    """

    bounds: FloatArray
    tuning: BoolArray
    noise: Noise = field(default_factory=NoNoise)
    weights: FloatArray | None = None
    groups: Groups | None = None

    @property
    def is_uniform(self) -> bool:
        """Whether every prediction gets the same threshold."""
        return self.weights is None and self.groups is None and not self.noise.varies

    def thresholds(
        self, alpha: float, score: Score, prediction: FloatArray, groups: Any = None, weights: Any = None
    ) -> FloatArray:
        """Return one threshold per prediction, (N,)."""
        n = len(prediction)
        new = self.new_weights(weights, n)
        if self.groups is None:
            if groups is not None:
                raise ValueError("groups was given, but the calibration knows none. Pass groups to conformalize too.")
            return self.noise.thresholds(self._part(None), alpha, score, prediction, new)
        keys = item_keys(self.new_groups(groups), score, prediction)
        result = np.empty(n)
        pooled = []
        for key, rows in rows_by_key(keys).items():
            codes, is_pool = self.groups.pool(key, self.noise.min_items(alpha), ~self.tuning)
            pooled += [key] * is_pool
            part = self._part(np.isin(self.groups.codes, codes))
            result[rows] = self.noise.thresholds(
                part, alpha, score, prediction[rows], None if new is None else new[rows]
            )
        if pooled:
            warn_pooled(pooled, alpha)
        return result

    def p_values(
        self, values: FloatArray, score: Score, prediction: FloatArray, groups: Any = None, weights: Any = None
    ) -> FloatArray:
        """Return the share of the items, the new one included, that score at least these values, (N,)."""
        new = self.new_weights(weights, len(values))
        each = np.ones(len(values)) if new is None else new
        if self.groups is None:
            if groups is not None:
                raise ValueError("groups was given, but the calibration knows none. Pass groups to conformalize too.")
            return self._share_above(values, each, slice(None))
        position = {key: code for code, key in enumerate(self.groups.keys)}
        result = np.empty(len(values))
        for key, rows in rows_by_key(item_keys(self.new_groups(groups), score, prediction)).items():
            result[rows] = self._share_above(values[rows], each[rows], self.groups.codes == position.get(key, -1))
        return result

    def _share_above(self, values: FloatArray, new: FloatArray, members: Any) -> FloatArray:
        scores = self.bounds[0, members]
        old = np.ones(len(scores)) if self.weights is None else self.weights[members]
        order = np.argsort(scores, kind="stable")
        mass = np.append(np.cumsum(old[order][::-1])[::-1], 0.0)
        at_least = mass[np.searchsorted(scores[order], values, side="left")]
        total = new + mass[0]
        return np.where(total > 0, (new + at_least) / np.where(total > 0, total, 1.0), 1.0)

    def size_of_group(self, key: Any, alpha: float) -> int:
        """Return how many items set the threshold of a group that stands alone at this level."""
        if self.groups is None or self.weights is not None or not isinstance(self.noise, NoNoise):
            raise ValueError(
                "coverage_distribution is defined for plain split calibration and within groups, without noise or "
                "weights. Calibrate without them."
            )
        codes, is_pool = self.groups.pool(key, self.noise.min_items(alpha), ~self.tuning)
        if is_pool:
            raise ValueError(
                f"group {key!r} is too small for alpha={alpha} and shares a threshold with others, so its coverage "
                f"follows no known distribution. Raise alpha, or choose one of the groups {list(self.groups.keys)}."
            )
        return int(np.isin(self.groups.codes, codes).sum())

    def describe(self) -> str:
        """Return what the rule adds to the description of a calibration."""
        noise = "" if isinstance(self.noise, NoNoise) else f", noise {self.noise!r}"
        groups = "" if self.groups is None else f", {len(self.groups.keys)} groups"
        return noise + groups + (", weighted" if self.weights is not None else "")

    def _part(self, members: BoolArray | None) -> Part:
        kept = ~self.tuning if members is None else members & ~self.tuning
        aside = self.tuning if members is None else members & self.tuning
        if not aside.any():
            aside = self.tuning  # what other groups say about a parameter is better than nothing, and as independent
        weights = None if self.weights is None else self.weights[kept]
        return Part(self.bounds[:, kept], self.bounds[:, aside], weights)

    def new_weights(self, weights: Any, n: int) -> FloatArray | None:
        """Check the weights of n new items: none, if the calibration has none."""
        if self.weights is None:
            if weights is not None:
                raise ValueError("weights was given, but the calibration has none. Pass weights to conformalize too.")
            return None
        if weights is None:
            raise ValueError(
                "weights is missing: this calibration is weighted, and the weight of each new item counts too. "
                "Pass the likelihood ratios of the items to predict for."
            )
        return as_weights(weights, n) if n else np.empty(0)

    def new_groups(self, groups: Any) -> Any:
        """Check the groups of new items against those of the calibration."""
        assert self.groups is not None
        if self.groups.predicted:
            if groups is not None and not (isinstance(groups, str) and groups == "predicted"):
                raise ValueError("groups are predicted classes here and follow from the prediction. Leave groups out.")
            return "predicted"
        if groups is None:
            raise ValueError("groups is missing: this calibration has a threshold per group. Pass one key per item.")
        return groups


def noise_of(rule: Rule | None) -> Noise | None:
    """Return the noise model of a rule, None if there is none."""
    return None if rule is None or isinstance(rule.noise, NoNoise) else rule.noise


def rows_by_key(keys: list[Any]) -> dict[Any, IntArray]:
    """Return the rows of each key."""
    rows: dict[Any, list[int]] = {}
    for row, key in enumerate(keys):
        rows.setdefault(key, []).append(row)
    return {key: np.array(found) for key, found in rows.items()}


def set_aside(n: int, share: float) -> BoolArray:
    """Mark every (1 / share)-th item; which ones does not depend on the data.

    Examples
    --------
    >>> set_aside(10, 0.2).nonzero()[0]
    array([4, 9])
    """
    position = np.arange(n + 1)
    return np.diff(np.floor(position * share + 1e-9)) > 0


def warn_pooled(keys: list[Any], alpha: float, stacklevel: int = 4) -> None:
    """Warn that groups share a threshold."""
    shown = ", ".join(repr(key) for key in keys[:3]) + (", …" if len(keys) > 3 else "")
    warnings.warn(
        f"{len(keys)} groups are too small for alpha={alpha} and share one threshold with other small groups: {shown}. "
        "The guarantee holds for them together, not one by one.",
        CredalSetWarning,
        stacklevel=stacklevel,
    )
