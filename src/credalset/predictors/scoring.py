"""What estimators of label distributions have in common: ``predict`` and ``score``."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy

from credalset._typing import AnyArray, ArrayLike
from credalset.predictors.labels import read_labels

SMALLEST_PROBABILITY = float(np.finfo(np.float64).eps)  # below it a loss grows no more, as in scikit-learn's log_loss


class SoftScoring:
    """Gives an estimator with ``predict_proba`` the methods ``predict`` and ``score``."""

    def predict(self, X: Any) -> AnyArray:
        """Predict the most probable class, by its name where names are known."""
        best: AnyArray = self.predict_proba(X).argmax(axis=1)  # type: ignore[attr-defined]
        return np.asarray(self.classes_[best]) if hasattr(self, "classes_") else best

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        r"""Return minus the mean soft cross-entropy, $\frac1n \sum_i \sum_k \lambda_{ik} \log g(x_i)_k$, in nats.

        Greater is better: `GridSearchCV` and `cross_val_score` maximise it by default. It depends on predictions alone;
        for searches over ``nonconformity`` use ``scoring=credalset.metrics.WidthScorer(alpha)``.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.
        y : array of shape (n, K), Annotations, or array of n labels
            Label distributions, annotation counts, or one label per item.
        sample_weight : array of shape (n,), optional
            Weight of each item.
        """
        prediction = np.maximum(self.predict_proba(X), SMALLEST_PROBABILITY)  # type: ignore[attr-defined]
        labels = read_labels(y, X, classes=getattr(self, "classes_", None))
        logs = xlogy(labels.distributions, prediction).sum(axis=1)
        return float(np.average(logs, weights=None if sample_weight is None else np.asarray(sample_weight)))
