r"""The class bias of a model, removed from its predictions before a crowd is fitted around them.

A model may favour some classes: $\log q_k = a_k + b \log p_k - \log Z$ with a power b and a bias
$a_k$ of each class, fitted to the votes with a small ridge. The law of the crowd has powers of its
own, but treats all classes alike, so that it cannot learn $a_k$.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_softmax

from credalset._typing import FloatArray, IntArray
from credalset.predictors.log_linear import (
    N_FOLDS,
    RIDGES,
    SMALLEST,
    bias_features,
    cross_entropy,
    fit_cross_validated,
    vote_weights,
)
from credalset.simplex import entropy_of_valid

FEWEST = 50  # items from which a bias is learned


@dataclass(frozen=True, eq=False)
class ClassBias:
    """A power and a bias of each class.

    Attributes
    ----------
    power : float
        b.
    bias : ndarray of shape (K,)
        a; the mean is zero.
    """

    power: float
    bias: FloatArray

    def __post_init__(self) -> None:
        if self.bias.ndim != 1 or not np.isfinite(self.bias).all() or not np.isfinite(self.power):
            raise ValueError("a class bias must hold a finite power and one number per class.")

    def correct(self, prediction: FloatArray) -> FloatArray:
        """Return the corrected predictions, (N, K)."""
        logits = self.power * np.log(np.maximum(prediction, SMALLEST)) + self.bias
        return np.asarray(np.exp(log_softmax(logits, axis=1)))


def fit_bias(prediction: FloatArray, counts: FloatArray) -> tuple[ClassBias | None, FloatArray]:
    """Fit the class bias of predictions to votes, if cross-validation shows that it helps.

    It helps if the cross-entropy of votes on held-out items is smaller than with a power alone, by
    more than one standard error.

    Parameters
    ----------
    prediction, counts : ndarray of shape (n, K)
        Predictions and votes, at least one on each item.

    Returns
    -------
    bias : ClassBias or None
        None if it does not help, or there are too few items.
    corrected : ndarray of shape (n, K)
        The predictions, each corrected by a bias that was fitted to other items.
    """
    if len(prediction) < FEWEST:
        return None, prediction
    target = vote_weights(counts)
    folds = _folds(prediction)
    features = bias_features(prediction)
    found = fit_cross_validated(features, target, folds)
    # The same without biases: a power alone.
    no_bias = replace(features, own=np.ones((len(prediction), 0)), ridge_own=np.ones(0))
    plain = fit_cross_validated(no_bias, target, folds, RIDGES[:1])
    with np.errstate(divide="ignore"):
        loss = cross_entropy(target, np.log(plain.out_of_fold))
        gain = loss - cross_entropy(target, np.log(found.out_of_fold))
    if not gain.mean() > gain.std() / np.sqrt(len(gain)):
        return None, prediction
    bias = found.law.own[0]
    return ClassBias(float(found.law.shared[0]), bias - bias.mean()), found.out_of_fold


def _folds(prediction: FloatArray) -> IntArray:
    """Return a fold of each item, which does not depend on the order of items or classes."""
    order = np.lexsort((prediction.max(axis=1), entropy_of_valid(prediction)))
    folds = np.empty(len(prediction), dtype=np.int64)
    folds[order] = np.arange(len(prediction)) % N_FOLDS
    return folds
