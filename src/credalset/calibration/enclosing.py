"""Balls of a score around one centre that hold balls around others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln, xlogy

from credalset._predictions import PredictionBatch
from credalset._typing import FloatArray, Prediction
from credalset.scores import (
    Hellinger,
    InnerProduct,
    KullbackLeibler,
    NegativeLogDensity,
    Normalized,
    RelativeLikelihood,
    Score,
    TotalVariation,
    Wasserstein,
)

KNOWN = (TotalVariation, Wasserstein, InnerProduct, KullbackLeibler, Hellinger, NegativeLogDensity, RelativeLikelihood)


def has_enclosing_ball(score: Score, prediction: Prediction) -> bool:
    """Tell whether `enclosing_threshold` knows the score: the package's own, but for mixtures of densities."""
    core = score.score if isinstance(score, Normalized) else score
    return isinstance(core, KNOWN) and not isinstance(prediction, PredictionBatch)


def common_center(score: Score, models: Sequence[FloatArray]) -> FloatArray:
    """Return the mean prediction; for Dirichlet concentrations the smallest, which no model's density exceeds much."""
    stacked = np.stack(models)
    return stacked.min(axis=0) if score.order == "second" else stacked.mean(axis=0)


def enclosing_threshold(score: Score, model: FloatArray, center: FloatArray, threshold: FloatArray) -> FloatArray:
    r"""Return t with $\{f(model, \cdot) \le threshold\} \subseteq \{f(center, \cdot) \le t\}$, broadcast over rows.

    $t = threshold + \sup_\lambda (f(center, \lambda) - f(model, \lambda))$, on the scale where the supremum is known.
    """
    if isinstance(score, Normalized):
        scale, center_scale = score.ambiguity(model), score.ambiguity(center)
        with np.errstate(divide="ignore", invalid="ignore"):
            raw = enclosing_threshold(score.score, model, center, threshold * scale)
            return np.where((raw > 0) | np.isnan(raw), np.where(np.isnan(raw), np.inf, raw / center_scale), 0.0)
    if isinstance(score, RelativeLikelihood):
        with np.errstate(divide="ignore"):
            drop = -np.log1p(-np.minimum(threshold, 1.0)) + _density_gap(model, center, relative=True)
        return -np.expm1(-np.maximum(drop, 0.0))
    return threshold + _largest_gap(score, model, center)


def _largest_gap(score: Score, model: FloatArray, center: FloatArray) -> FloatArray:
    """Return sup over λ of f(center, λ) − f(model, λ), (N,)."""
    if isinstance(score, TotalVariation | Wasserstein):
        return score.evaluate_rows(model, center)  # the triangle inequality, attained at λ = model
    if isinstance(score, InnerProduct):
        return (model - center).max(axis=1)
    if isinstance(score, KullbackLeibler):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(model > 0, np.log(model) - np.log(center), -np.inf)
        return ratio.max(axis=1) / math.log(score.base)
    if isinstance(score, Hellinger):
        return np.sqrt((np.maximum(np.sqrt(model) - np.sqrt(center), 0.0) ** 2).sum(axis=1))
    return _density_gap(model, center, relative=False)


def _density_gap(model: FloatArray, center: FloatArray, relative: bool) -> FloatArray:
    """Return the largest fall in log-density from model to center, relative to their peaks or not.

    With b = model − center ≥ 0 it is a constant plus max Σ b log λ, attained at λ = b / Σ b.
    """
    b = model - center
    total = b.sum(axis=1)
    entropy = xlogy(b, b).sum(axis=1) - xlogy(total, total)
    if relative:
        return _peak(center) - _peak(model) + entropy
    return _log_beta(center) - _log_beta(model) + entropy


def _peak(concentration: FloatArray) -> FloatArray:
    """Return Σ a log m, the log-density at the mode up to the normaliser."""
    a = concentration - 1.0
    weight = a.sum(axis=1)
    return xlogy(a, a).sum(axis=1) - xlogy(weight, weight)


def _log_beta(concentration: FloatArray) -> FloatArray:
    return gammaln(concentration).sum(axis=1) - gammaln(concentration.sum(axis=1))
