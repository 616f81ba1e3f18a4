"""How well predicted distributions fit label distributions, item by item, and the ``score`` of our estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy

from credalset._typing import AnyArray, ArrayLike, FloatArray
from credalset.annotations.labels import Labels
from credalset.predictors.labels import read_labels

SMALLEST = float(
    np.finfo(np.float64).eps
)  # probability below which a loss grows no more, as in scikit-learn's log_loss


def cross_entropies(prediction: FloatArray, distributions: FloatArray) -> FloatArray:
    r"""Return $-\sum_k \lambda_k \log g_k$ of each item, (n,), in nats; no probability is taken to be below 2.2e-16.

    Examples
    --------
    >>> cross_entropies(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([[0.3, 0.7], [1.0, 0.0]])).round(4)
    array([0.6931, 0.    ])
    """
    return np.asarray(0.0 - xlogy(distributions, np.maximum(prediction, SMALLEST)).sum(axis=1))


def squared_distances(prediction: FloatArray, distributions: FloatArray) -> FloatArray:
    r"""Return $\sum_k (\lambda_k - g_k)^2$ of each item, (n,).

    Examples
    --------
    >>> squared_distances(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]))
    array([0.5])
    """
    return np.asarray(((prediction - distributions) ** 2).sum(axis=1))


def labels_like(estimator: Any, X: Any, Y: Any) -> Labels:
    """Read labels of any kind over the classes that an estimator was fitted with, in the order of the items of X."""
    return read_labels(Y, X, classes=getattr(estimator, "classes_", None))


class SoftScoring:
    """Gives an estimator of label distributions ``predict``, and the ``score`` by which scikit-learn compares."""

    def predict(self, X: Any) -> AnyArray:
        """Predict the most probable class, by its name where names are known."""
        best: AnyArray = self.predict_proba(X).argmax(axis=1)  # type: ignore[attr-defined]
        return np.asarray(self.classes_[best]) if hasattr(self, "classes_") else best

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the mean soft cross-entropy of `predict_proba`; greater is better.

        It is the log-likelihood of one vote per item, which `GridSearchCV` and `cross_val_score` maximise unless they
        are told otherwise. It looks at predictions alone: for searches over ``nonconformity``, which only sets depend
        on, use ``scoring=credalset.metrics.WidthScorer(alpha)``.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.
        y : array of shape (n, K), Annotations, or array of n labels
            Label distributions, annotation counts, or one label per item; in lower case, as scikit-learn passes it.
        sample_weight : array of shape (n,), optional
            Weight of each item.
        """
        prediction = self.predict_proba(X)  # type: ignore[attr-defined]
        losses = cross_entropies(prediction, labels_like(self, X, y).distributions)
        return -float(np.average(losses, weights=None if sample_weight is None else np.asarray(sample_weight)))
