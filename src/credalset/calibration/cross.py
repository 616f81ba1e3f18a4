"""Cross-conformal calibration (CV+): every item both trains and calibrates, when data are scarce."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from credalset._typing import ArrayLike, FloatArray, IntArray
from credalset._validation import as_label_distributions, as_probability
from credalset.calibration.quantile import conformal_rank, exact_level
from credalset.credal_set import CredalSet
from credalset.exceptions import CredalSetWarning
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
    get_score,
)


@dataclass(frozen=True, eq=False, repr=False)
class CrossCalibration:
    r"""Scores of items under models that were trained without them. Made by `cross_conformalize`.

    With folds k(i), models $g_k$ trained without fold k and $s_i = f(g_{k(i)}(x_i), \lambda_i)$, the cross-conformal
    (CV+) set of a new item holds all λ for which

    $$1 + \#\{ i : s_i \ge f(g_{k(i)}(x), \lambda) \} > \alpha (n + 1) .$$

    It has as many centres as folds. `predict_set` returns a ball of the score around one centre that
    provably holds it: each $\{\lambda : f(g_k(x), \lambda) \le s_i\}$ lies in a ball around that centre, and the
    threshold is the ⌈(n + 1)(1 − α)⌉-th smallest of their n radii.

    For F folds of equal size the sets contain the label distribution of a new item with probability at least
    $1 - 2\alpha - \min( \frac{2 (1 - 1/F)}{n/F + 1}, \frac{1 - F/n}{F + 1} )$ (Barber, Candès, Ramdas, Tibshirani:
    *Predictive inference with the jackknife+*, 2021), which `guaranteed_coverage` computes. In practice it is close to
    1 − α.

    Attributes
    ----------
    score : Score
        The nonconformity score.
    scores : ndarray of shape (n,)
        Out-of-fold scores, in the order of the items.
    folds : ndarray of shape (n,)
        Fold of each item, 0, …, F − 1.
    n_classes : int
        Number of classes K.
    """

    score: Score
    scores: FloatArray
    folds: IntArray
    n_classes: int
    n_folds: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_folds", int(self.folds.max()) + 1)

    def __len__(self) -> int:
        """Number of calibration items."""
        return len(self.scores)

    def guaranteed_coverage(self, alpha: float) -> float:
        """Return the proven lower bound of coverage, about 1 − 2α; it assumes folds of equal size.

        Examples
        --------
        >>> import numpy as np, credalset as cs
        >>> g = np.full((200, 3), 1 / 3)
        >>> calibration = cs.cross_conformalize(g, np.eye(3)[np.arange(200) % 3], np.arange(200) % 10)
        >>> round(calibration.guaranteed_coverage(0.05), 3)
        0.814
        """
        level, n, f = float(exact_level(as_probability(alpha, "alpha"))), len(self), self.n_folds
        slack = min(2 * (1 - 1 / f) / (n / f + 1), (1 - f / n) / (f + 1))
        return max(1 - 2 * level - slack, 0.0)

    def thresholds(self, predictions: ArrayLike, alpha: float) -> FloatArray:
        """Return the threshold of each new item's ball, (N,).

        Parameters
        ----------
        predictions, alpha
            As in `predict_set`.
        """
        return self._center_and_thresholds(predictions, alpha)[1]

    def predict_set(self, predictions: ArrayLike, alpha: float) -> CredalSet:
        """Predict one credal set per new item.

        Parameters
        ----------
        predictions : array of shape (F, N, K)
            What each fold's model predicts for the N new items, in the order of the folds.
        alpha : float
            Level in (0, 1); see `guaranteed_coverage` for what it promises.
        """
        center, thresholds = self._center_and_thresholds(predictions, alpha)
        return self.score.region(center, thresholds)

    def save(self, path: str | Path) -> None:
        """Write the calibration to a directory; read it with `credalset.load`."""
        from credalset.persistence import save_cross_calibration

        save_cross_calibration(self, path)

    def _center_and_thresholds(self, predictions: ArrayLike, alpha: float) -> tuple[FloatArray, FloatArray]:
        rank = conformal_rank(len(self), alpha)
        array = np.asarray(predictions, dtype=np.float64)
        if array.ndim != 3 or len(array) != self.n_folds:
            raise ValueError(
                f"predictions must have shape ({self.n_folds}, n_items, {self.n_classes}), one block per fold's model, "
                f"but has shape {array.shape}."
            )
        models = [self.score.check_prediction(block, "predictions", self.n_classes) for block in array]
        center = common_center(self.score, models)
        n_rows = len(center)
        if rank > len(self):
            warnings.warn(
                f"The thresholds are infinite and every set is the whole simplex: {len(self)} items are too few for "
                f"alpha={alpha}. Add data or raise alpha.",
                CredalSetWarning,
                stacklevel=4,
            )
            return center, np.full(n_rows, math.inf)
        radii = np.empty((len(self), n_rows))
        for fold, model in enumerate(models):
            rows = self.folds == fold
            radii[rows] = enclosing_threshold(self.score, model, center, self.scores[rows][:, None])
        return center, np.partition(radii, rank - 1, axis=0)[rank - 1]

    def __repr__(self) -> str:
        return (
            f"CrossCalibration: score {self.score.name}, {len(self)} items in {self.n_folds} folds, "
            f"{self.n_classes} classes"
        )


def cross_conformalize(
    prediction: ArrayLike, labels: Any, folds: Sequence[int] | IntArray, score: str | Score = "tv"
) -> CrossCalibration:
    """Calibrate on out-of-fold predictions.

    Parameters
    ----------
    prediction : array of shape (n, K)
        For each item the prediction of a model that was trained without its fold.
    labels : array of shape (n, K) or Annotations
        Label distributions or annotation counts.
    folds : sequence of n whole numbers
        Fold of each item, 0, …, F − 1; at least two folds, of equal size as far as possible.
    score : str or Score
        Any score of the package.

    Returns
    -------
    CrossCalibration

    Examples
    --------
    >>> import credalset as cs, numpy as np
    >>> from sklearn.model_selection import KFold
    >>> data = cs.datasets.make_synthetic(150, n_votes=20, random_state=0)
    >>> X, Y, X_new, Y_new = data.X[:100], data.counts[:100], data.X[100:], data.counts[100:]
    >>> folds, out_of_fold, new = np.empty(100, int), np.empty((100, 3)), []
    >>> for k, (train, held_out) in enumerate(KFold(5).split(X)):
    ...     model = cs.SoftLabelClassifier().fit(X[train], Y[train])
    ...     folds[held_out], out_of_fold[held_out] = k, model.predict_proba(X[held_out])
    ...     new.append(model.predict_proba(X_new))
    >>> calibration = cs.cross_conformalize(out_of_fold, Y, folds)
    >>> calibration
    CrossCalibration: score tv, 100 items in 5 folds, 3 classes
    >>> sets = calibration.predict_set(new, alpha=0.1)
    >>> bool(sets.contains(Y_new / 20).mean() > 0.8)
    True
    """
    chosen = get_score(score)
    _check_supported(chosen)
    checked = chosen.check_prediction(prediction)
    distributions = as_label_distributions(labels, "labels")
    chosen.check_pairs(checked, distributions)
    codes = np.asarray(folds)
    if codes.shape != (len(checked),) or codes.dtype.kind not in "iu":
        raise ValueError(f"folds must hold one whole number per item ({len(checked)}), but is {folds!r}.")
    if len(codes) == 0 or not np.array_equal(np.unique(codes), np.arange(max(codes.max() + 1, 2))):
        raise ValueError(
            f"folds must be numbered 0, 1, … without gaps, at least two of them, but holds {np.unique(codes).tolist()}."
        )
    return CrossCalibration(chosen, chosen(checked, distributions), codes.astype(np.int64), chosen.n_classes(checked))


def common_center(score: Score, models: Sequence[FloatArray]) -> FloatArray:
    """Return the mean prediction; for Dirichlet concentrations the smallest, which no model's density exceeds much."""
    stacked = np.stack(models)
    return stacked.min(axis=0) if score.order == "second" else stacked.mean(axis=0)


def enclosing_threshold(score: Score, model: FloatArray, center: FloatArray, threshold: FloatArray) -> FloatArray:
    r"""Return t with $\{f(model, \cdot) \le threshold\} \subseteq \{f(center, \cdot) \le t\}$, broadcast over rows.

    $t = threshold + \sup_\lambda (f(center, \lambda) - f(model, \lambda))$, on the scale where the supremum is known.
    """
    if isinstance(score, Normalized):
        scale, center_scale = score.scale(model.T), score.scale(center.T)
        with np.errstate(divide="ignore", invalid="ignore"):
            raw = enclosing_threshold(score.score, model, center, threshold * scale)
            return np.where((raw > 0) | np.isnan(raw), np.where(np.isnan(raw), np.inf, raw / center_scale), 0.0)
    if isinstance(score, RelativeLikelihood):
        with np.errstate(divide="ignore"):
            drop = -np.log1p(-threshold) + _density_gap(model, center, relative=True)
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


def _check_supported(score: Score) -> None:
    core = score.score if isinstance(score, Normalized) else score
    known = (TotalVariation, Wasserstein, InnerProduct, KullbackLeibler, Hellinger, NegativeLogDensity)
    if not isinstance(core, (*known, RelativeLikelihood)):
        raise TypeError(f"cross_conformalize knows no enclosing balls for the score {score.name!r}.")
