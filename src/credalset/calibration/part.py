"""Calibration items that set a threshold together, counting equally or, under covariate shift, by their weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from credalset._typing import ArrayLike, FloatArray
from credalset._validation import as_numbers
from credalset.calibration.quantile import conformal_rank, exact_level, score_at_rank
from credalset.calibration.quantile_regression import conditional_quantiles

# Sums of weights are rounded; a share that misses the level by no more than this reaches it.
ROUNDING = 1e-12


def as_weights(value: ArrayLike, n: int) -> FloatArray:
    """Check likelihood ratios: n finite numbers, none negative."""
    weights = as_numbers(value, "weights", "Pass one number per item.").copy()
    if weights.shape != (n,):
        raise ValueError(f"weights must hold one number per item ({n}), but has shape {weights.shape}.")
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        raise ValueError(
            f"weights must be finite and not negative, but is {weights[bad][0]:.6g} in row {bad.argmax()}. "
            "Pass likelihood ratios: the density of x where you predict over its density where you calibrate."
        )
    return weights


@dataclass(frozen=True, eq=False)
class Part:
    """Calibration items that set a threshold together.

    Attributes
    ----------
    bounds : ndarray of shape (J, n)
        Scores of the items as the noise model wants them, one row per value of δ.
    held_out : ndarray of shape (J, n')
        The same for the items set aside, which only help to choose a parameter.
    weights : ndarray of shape (n,) or None
        Likelihood ratios of the items under covariate shift; the new items need theirs then.
    features, new_features : ndarrays of shapes (n, d) and (N, d) or None
        What thresholds follow, for the items and for the new ones that thresholds are asked for.
    """

    bounds: FloatArray
    held_out: FloatArray
    weights: FloatArray | None = None
    features: FloatArray | None = None
    new_features: FloatArray | None = None
    _sorted: dict[int, tuple[FloatArray, FloatArray]] = field(default_factory=dict, init=False, repr=False)
    #: thresholds that took long to find, by level
    memo: dict[Fraction, float] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return self.bounds.shape[1]

    def quantiles(self, level: Fraction, n_new: int, new_weights: FloatArray | None = None, row: int = 0) -> FloatArray:
        r"""Return the conformal threshold at a miscoverage level, one per new item, (N,).

        Without weights: the ⌈(n + 1)(1 − level)⌉-th smallest bound. With weights, the smallest q with

        $$\sum_{i : s_i \le q} w_i \; \ge \; (1 - \text{level}) \, (w_1 + \dots + w_n + w_{new})$$

        and +inf if there is none (Tibshirani, Foygel Barber, Candès, Ramdas: *Conformal prediction under covariate
        shift*, 2019). The weight of the new item counts as an infinite score. With features, thresholds are those of
        `credalset.calibration.quantile_regression`.

        Examples
        --------
        >>> part = Part(np.array([[0.4, 0.2, 0.3, 0.1]]), np.empty((1, 0)))
        >>> part.quantiles(Fraction(2, 5), 2)
        array([0.3, 0.3])
        >>> weighted = Part(part.bounds, part.held_out, np.ones(4))
        >>> weighted.quantiles(Fraction(2, 5), 2, np.array([1.0, 9.0]))
        array([0.3, inf])
        """
        if self.features is not None and self.new_features is not None:
            items, alpha = (self.bounds[row], self.features), float(exact_level(level))
            return conditional_quantiles(*items, alpha, self.new_features, self.weights, new_weights)
        scores, reached = self._in_order(row)
        if self.weights is None or new_weights is None:
            return np.full(n_new, score_at_rank(scores, conformal_rank(len(scores), level)))
        total = reached[-1] + new_weights
        needed = float(1 - exact_level(level)) * total * (1.0 - ROUNDING)
        where = np.searchsorted(reached[1:], needed, side="left")
        return np.where(total > 0, np.append(scores, np.inf)[where], np.inf)  # without any weight nothing is known

    def p_values(self, values: FloatArray, new_weights: FloatArray | None = None) -> FloatArray:
        """Return the share of the items, the new one included, that score at least these values, (N,)."""
        new = np.ones(len(values)) if new_weights is None else new_weights
        total = new + self._in_order(0)[1][-1]
        return np.where(total > 0, (new + self.weight_from(values)) / np.where(total > 0, total, 1.0), 1.0)

    def weight_from(self, values: FloatArray) -> FloatArray:
        """Return the weight of the items that score at least these values."""
        scores, reached = self._in_order(0)
        return reached[-1] - reached[np.searchsorted(scores, values, side="left")]

    @property
    def each(self) -> FloatArray:
        """What each item counts, (n,): one, unless there are weights."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def _in_order(self, row: int) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of a row in increasing order, and the weight of all before each and of all, (n + 1,)."""
        if row not in self._sorted:
            order = np.argsort(self.bounds[row], kind="stable")
            self._sorted[row] = self.bounds[row, order], np.append(0.0, np.cumsum(self.each[order]))
        return self._sorted[row]
