"""Quantiles of calibration scores whose items count unequally: conformal prediction under covariate shift."""

from __future__ import annotations

import numpy as np

from credalset._typing import ArrayLike, FloatArray
from credalset.calibration.quantile import conformal_rank, exact_level, score_at_rank

# Sums of weights are rounded; a share that misses the level by no more than this reaches it.
ROUNDING = 1e-12


def as_weights(value: ArrayLike, n: int, name: str = "weights") -> FloatArray:
    """Check likelihood ratios: n finite numbers, none negative."""
    try:
        weights = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be one number per item, but is {value!r}.") from None
    if weights.shape != (n,):
        raise ValueError(f"{name} must hold one number per item ({n}), but has shape {weights.shape}.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            f"{name} must be finite and not negative, but lies between {weights.min():.6g} and {weights.max():.6g}. "
            "Pass likelihood ratios: the density of x where you predict over its density where you calibrate."
        )
    return weights


def quantiles(
    scores: FloatArray, level: float, n_rows: int, weights: FloatArray | None, new_weights: FloatArray | None
) -> FloatArray:
    r"""Return the conformal threshold at miscoverage ``level``, one per new item, (N,).

    Without weights: the ⌈(n + 1)(1 − level)⌉-th smallest score. With weights, the smallest q with

    $$\sum_{i : s_i \le q} w_i \; \ge \; (1 - \text{level}) \, (w_1 + \dots + w_n + w_{new})$$

    and +inf if there is none (Tibshirani, Foygel Barber, Candès, Ramdas: *Conformal prediction under covariate
    shift*, 2019). The weight of the new item counts as an infinite score.

    Examples
    --------
    >>> s = np.array([0.1, 0.2, 0.3, 0.4])
    >>> quantiles(s, 0.4, 2, None, None)
    array([0.3, 0.3])
    >>> quantiles(s, 0.4, 2, np.array([1.0, 1.0, 1.0, 1.0]), np.array([1.0, 9.0]))
    array([0.3, inf])
    """
    if weights is None or new_weights is None:
        return np.full(n_rows, score_at_rank(np.sort(scores), conformal_rank(len(scores), level)))
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weights[order])
    total = reached[-1] if len(reached) else 0.0
    needed = float(1 - exact_level(level)) * (total + new_weights) * (1.0 - ROUNDING)
    where = np.searchsorted(reached, needed, side="left")
    # Without any weight nothing is known.
    return np.where(total + new_weights > 0, np.append(scores[order], np.inf)[where], np.inf)
