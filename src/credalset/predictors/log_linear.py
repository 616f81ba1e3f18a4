r"""Penalised log-linear fits of label distributions: class bias, and pools of judges.

The distribution q of an item is

$$\log q_k = \sum_r \beta_r f_{rk} + \sum_p x_p \theta_{pk} - \log Z,$$

where f are *shared* features, which differ between classes and have one coefficient each (such as
the log-probabilities of a prediction), and x are *own* features, which belong to the item and have
one coefficient per class each (such as a constant, or the kind of the item). The coefficients
minimise the cross-entropy of the votes plus a ridge penalty, a convex problem that L-BFGS solves
from the analytic gradient. The ridge is chosen by cross-validation on the votes.

Everything here takes and returns plain arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from credalset._typing import AnyArray, BoolArray, FloatArray, IntArray

RIDGES = (0.5, 2.0, 8.0, 32.0, 128.0, 512.0)  # tried by cross-validation
# The ridge of coefficients that are nearly free, as a part of the ridge of the others. As a part,
# not as a number: where nothing can be gained, the search ends at the largest ridge, and everything
# stays near the centre.
NEARLY_FREE = 1 / 16
FREE = 1 / 1024  # the same for coefficients whose centre says nothing
# The largest ridge is taken whose loss is within this number of standard errors of the best one: a
# judge without bias is left alone.
TOLERATED = 0.5
N_FOLDS = 5
RESEMBLANCE = 0.25  # how much the votes on an item resemble each other, in `vote_weights`
LARGEST_SEARCH = 50_000  # items × classes by which the ridge is chosen; all items are fitted
SMALLEST_SEARCH = 1_000  # items, however many classes
TINY = 1e-300  # probabilities that underflow have a finite loss
SMALLEST = 1e-6  # probabilities below are taken for this one, whose logarithm is finite


@dataclass(frozen=True, eq=False)
class Features:
    """What a log-linear fit sees of n items over K classes.

    Attributes
    ----------
    shared : ndarray of shape (R, n, K)
        Features that differ between classes; one coefficient each.
    own : ndarray or sparse array of shape (n, P)
        Features of the item; one coefficient per class each.
    ridge_shared, ridge_own : ndarray of shape (R,) and (P,)
        Ridge of each coefficient, as a part of the ridge of the fit: 1, `NEARLY_FREE` or `FREE`.
    centre : ndarray of shape (R,)
        Values to which the coefficients of shared features are shrunk. Those of own features are
        shrunk to zero.
    """

    shared: FloatArray
    own: Any
    ridge_shared: FloatArray
    ridge_own: FloatArray
    centre: FloatArray

    def __len__(self) -> int:
        return int(self.shared.shape[1])

    def __getitem__(self, rows: Any) -> Features:
        return replace(self, shared=self.shared[:, rows], own=self.own[rows])


@dataclass(frozen=True, eq=False)
class LogLinear:
    """A fitted log-linear law.

    Attributes
    ----------
    shared : ndarray of shape (R,)
        Coefficients of shared features.
    own : ndarray of shape (P, K)
        Coefficients of own features.
    ridge : float
        Ridge of the fit.
    """

    shared: FloatArray
    own: FloatArray
    ridge: float

    def logits(self, features: Features) -> FloatArray:
        """Return the logarithms of the distributions up to a constant per item, (n, K)."""
        return np.asarray(
            np.tensordot(self.shared, features.shared, axes=1) + features.own @ self.own
        )

    def predict(self, features: Features) -> FloatArray:
        """Return the predicted distributions, (n, K)."""
        return np.asarray(softmax(self.logits(features), axis=1))


def fit_log_linear(
    features: Features,
    target: FloatArray,
    ridge: float,
    *,
    start: LogLinear | None = None,
    max_iter: int = 500,
    tolerance: float = 1e-6,
) -> LogLinear:
    r"""Fit a log-linear law to votes by penalised maximum likelihood.

    It minimises $-\sum_i \sum_k t_{ik} \log q_{ik} + \frac12 \sum_c \rho_c (c - c_0)^2$ over the
    coefficients c with centres $c_0$, where ρ is the ridge, or the part of it that the features
    declare.

    Parameters
    ----------
    features : Features
        Features of the n items.
    target : ndarray of shape (n, K)
        Votes t: counts, weighted counts or distributions. Rows may be zero.
    ridge : float
        Ridge of the coefficients.
    start : LogLinear, optional
        Where the search starts, by default at the centre.
    max_iter : int
        Largest number of L-BFGS iterations.
    tolerance : float
        The search ends when no entry of the gradient per vote, with respect to coefficients that
        are scaled by their curvature, is larger.

    Returns
    -------
    LogLinear
    """
    n_shared, n, n_classes = features.shared.shape
    n_own = features.own.shape[1]
    flat = features.shared.reshape(n_shared, -1)
    rho_shared = ridge * features.ridge_shared
    rho_own = ridge * features.ridge_own[:, None]
    n_votes = target.sum(axis=1, keepdims=True)
    scale = max(float(n_votes.sum()), 1.0)

    # The coefficients are divided by the square root of (about) their curvature, so that those of
    # rare and of frequent features move alike.
    curvature_shared = np.einsum("ri,ri->r", flat, flat) / n_classes + rho_shared
    curvature_own = np.asarray((features.own**2).sum(axis=0)).reshape(-1, 1) / n_classes + rho_own
    wide_own = np.broadcast_to(curvature_own, (n_own, n_classes))
    step = np.concatenate([curvature_shared, wide_own.ravel()]) ** -0.5
    centre = np.concatenate([features.centre, np.zeros(n_own * n_classes)])

    def objective(position: FloatArray) -> tuple[float, FloatArray]:
        theta = centre + step * position
        shared = theta[:n_shared]
        own = theta[n_shared:].reshape(n_own, n_classes)
        logits = (shared @ flat).reshape(n, n_classes) + features.own @ own
        log_q = log_softmax(logits, axis=1)
        residual = n_votes * np.exp(log_q) - target
        off = shared - features.centre
        penalty = 0.5 * (rho_shared @ off**2 + np.sum(rho_own * own**2))
        slope_shared = flat @ residual.ravel() + rho_shared * off
        slope_own = features.own.T @ residual + rho_own * own
        slope = np.concatenate([slope_shared, slope_own.ravel()])
        return float(penalty - np.vdot(target, log_q)) / scale, step * slope / scale

    begin = np.zeros(len(centre))
    if start is not None:
        begin = (np.concatenate([start.shared, start.own.ravel()]) - centre) / step
    options: Any = {"maxiter": max_iter, "ftol": 1e-12, "gtol": tolerance, "maxcor": 20}
    found = minimize(objective, begin, jac=True, method="L-BFGS-B", options=options)
    theta = centre + step * found.x
    return LogLinear(theta[:n_shared], theta[n_shared:].reshape(n_own, n_classes), float(ridge))


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """A law whose ridge was chosen by cross-validation.

    Attributes
    ----------
    law : LogLinear
        Fitted to all items.
    out_of_fold : ndarray of shape (n, K)
        Prediction of each item by a law that was fitted to the other folds, with the same ridge.
        Use these for whatever is fitted or calibrated on the same items.
    losses : dict
        Cross-validated cross-entropy per vote in nats, by ridge.
    """

    law: LogLinear
    out_of_fold: FloatArray
    losses: dict[float, float]


def fit_cross_validated(
    features: Features, target: FloatArray, folds: IntArray, ridges: Sequence[float] = RIDGES
) -> CrossValidated:
    """Choose the ridge by cross-validation on the votes, and fit all items with it.

    Parameters
    ----------
    features, target
        As in `fit_log_linear`.
        Items without votes are predicted by the law of a fold, too: all predictions out of fold
        are of laws that did not see the votes of the item.
    folds : ndarray of shape (n,)
        Fold of each item. At least two folds have votes.
    ridges : sequence of float
        What to choose from.

    Returns
    -------
    CrossValidated
    """
    voted = np.flatnonzero(target.any(axis=1))
    searched = _sample(voted, target.shape[1])
    numbers = np.unique(folds)
    laws: dict[float, list[LogLinear]] = {}
    losses: dict[float, FloatArray] = {}
    starts: list[LogLinear | None] = [None] * len(numbers)
    for ridge in sorted(ridges, reverse=True):  # each search starts where the smoother one ended
        laws[ridge] = [
            fit_log_linear(features[rows], target[rows], ridge, start=start)
            for rows, start in zip(_others(searched, folds, numbers), starts, strict=True)
        ]
        starts = [*laws[ridge]]
        predicted = _predict_folds(laws[ridge], features[searched], folds[searched], numbers)
        losses[ridge] = cross_entropy(target[searched], np.log(np.maximum(predicted, TINY)))
    best = min(losses, key=lambda ridge: float(losses[ridge].sum()))
    chosen = next(ridge for ridge in losses if _is_as_good(losses[ridge] - losses[best]))
    total = float(target[searched].sum())
    per_vote = {ridge: float(loss.sum()) / total for ridge, loss in losses.items()}
    of_folds = laws[chosen]
    if len(searched) < len(voted):
        of_folds = [
            fit_log_linear(features[rows], target[rows], chosen, start=start)
            for rows, start in zip(_others(voted, folds, numbers), of_folds, strict=True)
        ]
    law = fit_log_linear(features[voted], target[voted], chosen, start=of_folds[0])
    return CrossValidated(law, _predict_folds(of_folds, features, folds, numbers), per_vote)


def _sample(rows: IntArray, n_classes: int) -> IntArray:
    """Return at most as many rows as the search for a ridge needs."""
    size = max(LARGEST_SEARCH // n_classes, SMALLEST_SEARCH)
    if len(rows) <= size:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, size, replace=False))


def _others(rows: IntArray, folds: IntArray, numbers: IntArray) -> list[IntArray]:
    """Return, for each fold, the rows that are not in it."""
    return [rows[folds[rows] != fold] for fold in numbers]


def _predict_folds(
    laws: Sequence[LogLinear], features: Features, folds: IntArray, numbers: IntArray
) -> FloatArray:
    """Predict each item by the law that was fitted without its fold."""
    predicted = np.empty(features.shared.shape[1:])
    for law, fold in zip(laws, numbers, strict=True):
        rows = np.flatnonzero(folds == fold)
        predicted[rows] = law.predict(features[rows])
    return predicted


def _is_as_good(more: FloatArray) -> bool:
    """Tell whether a sum of additional losses is within the tolerated number of standard errors."""
    return bool(more.sum() <= TOLERATED * np.sqrt(len(more)) * more.std())


def cross_entropy(target: FloatArray, log_q: FloatArray) -> FloatArray:
    """Return minus the sum of target · log q for each item, in nats; 0 · (−∞) is 0."""
    return -np.where(target > 0, target * log_q, 0.0).sum(axis=1)


def random_folds(
    n: int,
    generator: np.random.Generator,
    clusters: AnyArray | None = None,
    is_voted: BoolArray | None = None,
) -> IntArray:
    """Return a fold 0 … `N_FOLDS` − 1 for each of n items, the same for items of one cluster.

    Items with votes, and those without, are spread evenly over the folds.
    """
    number = np.arange(n) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    voted = np.zeros(number.max(initial=-1) + 1, dtype=bool)
    voted[number if is_voted is None else number[is_voted]] = True
    order = generator.permutation(len(voted))
    order = np.concatenate([order[voted[order]], order[~voted[order]]])
    folds = np.empty(len(order), dtype=np.int64)
    folds[order] = np.arange(len(order)) % N_FOLDS
    return folds[number]


def vote_weights(counts: FloatArray) -> FloatArray:
    """Return counts times the weight of one of m votes, 1 / (1 + ρ (m − 1)).

    Votes on one item resemble each other: nine say more than one, but not nine times as much.
    """
    n_votes = counts.sum(axis=1, keepdims=True)
    return np.asarray(counts / (1.0 + RESEMBLANCE * np.maximum(n_votes - 1.0, 0.0)))


def centred_logs(prediction: FloatArray) -> FloatArray:
    """Return the logarithms of probabilities, minus their mean over the classes."""
    logs = np.log(np.maximum(prediction, SMALLEST))
    return np.asarray(logs - logs.mean(axis=-1, keepdims=True))


def bias_features(prediction: FloatArray) -> Features:
    r"""Return the features of a class bias, $\log q_k = a_k + b \log p_k$: a near 0, b near 1.

    The power b is nearly free, the biases a have the ridge.
    """
    constant = np.ones((len(prediction), 1))
    logs = centred_logs(prediction)[None]
    return Features(logs, constant, np.array([NEARLY_FREE]), np.ones(1), np.ones(1))


def fit_class_bias(
    prediction: FloatArray,
    counts: FloatArray,
    generator: np.random.Generator,
    clusters: AnyArray | None = None,
) -> CrossValidated:
    """Fit the class bias of one classifier to votes; ``law.predict(bias_features(p))`` corrects.

    Parameters
    ----------
    prediction : ndarray of shape (n, K)
        Predicted distributions.
    counts : ndarray of shape (n, K)
        Votes; rows may be zero.
    generator : Generator
        Draws the folds.
    clusters : ndarray of shape (n,), optional
        Items of one cluster are in one fold.

    Returns
    -------
    CrossValidated
        The law, and corrected predictions out of fold for the same items.
    """
    folds = random_folds(len(prediction), generator, clusters, counts.sum(axis=1) > 0)
    return fit_cross_validated(bias_features(prediction), vote_weights(counts), folds)
