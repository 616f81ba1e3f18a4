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
# The largest ridge is taken whose loss is within this number of standard errors of the best one: a
# judge without bias is left alone.
TOLERATED = 0.5
N_FOLDS = 5
RESEMBLANCE = 0.25  # how much the votes on an item resemble each other, in `vote_weights`
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
    is_free_shared, is_free_own : ndarray of shape (R,) and (P,), booleans
        Which coefficients are nearly free. The others have the ridge of the fit.
    centre : ndarray of shape (R,)
        Values to which the coefficients of shared features are shrunk. Those of own features are
        shrunk to zero.
    """

    shared: FloatArray
    own: Any
    is_free_shared: BoolArray
    is_free_own: BoolArray
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
        Ridge of the coefficients that are not nearly free.
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
    coefficients c with centres $c_0$, where ρ is the ridge, and a part of it, `NEARLY_FREE`, for
    coefficients that are nearly free.

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
    rho_shared = np.where(features.is_free_shared, NEARLY_FREE * ridge, ridge)
    rho_own = np.where(features.is_free_own, NEARLY_FREE * ridge, ridge)[:, None]
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
    folds : ndarray of shape (n,)
        Fold of each item, of at least two.
    ridges : sequence of float
        What to choose from.

    Returns
    -------
    CrossValidated
    """
    outside = [folds == fold for fold in np.unique(folds)]
    laws: list[LogLinear | None] = [None] * len(outside)
    predicted: dict[float, FloatArray] = {}
    losses: dict[float, FloatArray] = {}
    for ridge in sorted(ridges, reverse=True):  # each search starts where the smoother one ended
        logits = np.empty_like(target)
        for number, rows in enumerate(outside):
            law = fit_log_linear(features[~rows], target[~rows], ridge, start=laws[number])
            logits[rows] = law.logits(features[rows])
            laws[number] = law
        log_q = log_softmax(logits, axis=1)
        predicted[ridge] = log_q
        losses[ridge] = cross_entropy(target, log_q)
    best = min(losses, key=lambda ridge: float(losses[ridge].sum()))
    chosen = next(ridge for ridge in losses if _is_as_good(losses[ridge] - losses[best]))
    per_vote = {r: float(loss.sum() / target.sum()) for r, loss in losses.items()}
    law = fit_log_linear(features, target, chosen)
    return CrossValidated(law, np.exp(predicted[chosen]), per_vote)


def _is_as_good(more: FloatArray) -> bool:
    """Tell whether a sum of additional losses is within the tolerated number of standard errors."""
    return bool(more.sum() <= TOLERATED * np.sqrt(len(more)) * more.std())


def cross_entropy(target: FloatArray, log_q: FloatArray) -> FloatArray:
    """Return minus the sum of target · log q for each item, in nats; 0 · (−∞) is 0."""
    return -np.where(target > 0, target * log_q, 0.0).sum(axis=1)


def random_folds(
    n: int, generator: np.random.Generator, clusters: AnyArray | None = None
) -> IntArray:
    """Return a fold 0 … `N_FOLDS` − 1 for each of n items, the same for items of one cluster."""
    if clusters is None:
        return generator.permutation(n) % N_FOLDS
    _, numbers = np.unique(clusters, return_inverse=True)
    return (generator.permutation(numbers.max(initial=-1) + 1) % N_FOLDS)[numbers]


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
    is_free = np.array([True])
    return Features(centred_logs(prediction)[None], constant, is_free, ~is_free, np.ones(1))


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
    folds = random_folds(len(prediction), generator, clusters)
    return fit_cross_validated(bias_features(prediction), vote_weights(counts), folds)
