"""How far the density of one Dirichlet can fall below that of another, over all of the simplex."""

from __future__ import annotations

from scipy.special import gammaln, xlogy

from credalset._typing import FloatArray


def largest_fall(model: FloatArray, center: FloatArray, relative: bool) -> FloatArray:
    """Return the largest fall in log-density from model to center, relative to their peaks or not, (N,).

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
