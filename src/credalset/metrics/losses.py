"""How well a model predicts label distributions: losses, and scorers by which scikit-learn selects models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from scipy.special import xlogy

from credalset._typing import FloatArray
from credalset._validation import as_distributions
from credalset.annotations.labels import Labels, column_names, row_names
from credalset.calibration import conformalize
from credalset.metrics.estimate import Estimate, mean
from credalset.metrics.size import mean_width
from credalset.predictors.labels import read_labels
from credalset.predictors.protocol import predict_for
from credalset.scores import Score, get_score


@dataclass(frozen=True)
class SoftLoss:
    """A loss of predicted distributions, which is a scorer for scikit-learn too.

    ``loss(prediction, Y)`` is the mean loss with its interval, small for good predictions. ``loss(estimator, X, Y)`` is
    minus the mean loss of what a fitted estimator predicts: pass the object itself as ``scoring=`` to `GridSearchCV` or
    `cross_val_score`. Labels are distributions, counts or `Annotations`, matched by name where there are names.
    """

    name: str
    formula: Callable[[FloatArray, FloatArray], FloatArray]

    @overload
    def __call__(self, prediction: Any, Y: Any, /, *, level: float = 0.95) -> Estimate: ...
    @overload
    def __call__(self, estimator: Any, X: Any, Y: Any, /, *, level: float = 0.95) -> float: ...
    def __call__(self, first: Any, second: Any, third: Any = None, /, *, level: float = 0.95) -> Any:
        """Return the mean loss of predictions, or minus that of an estimator's."""
        if third is not None:
            labels = read_labels(third, second, classes=getattr(first, "classes_", None))
            return -float(self.formula(first.predict_proba(second), labels.distributions).mean())
        checked = as_distributions(first, "prediction")
        labels = Labels.read(second, "Y", classes=column_names(first, "prediction"), n_classes=checked.shape[1])
        labels = labels.matching(row_names(first), "Y", "prediction")
        if len(labels) != len(checked):
            raise ValueError(f"Y has {len(labels)} rows, but there are {len(checked)} predictions.")
        return mean(self.formula(checked, labels.distributions), level)

    def __repr__(self) -> str:
        return f"credalset.metrics.{self.name}"


#: Soft cross-entropy, −Σ λ_k log g_k in nats: the loss that most classifiers are trained with.
soft_log_loss = SoftLoss(
    "soft_log_loss", lambda g, y: np.asarray(0.0 - xlogy(y, np.maximum(g, np.finfo(float).eps)).sum(axis=1))
)
#: Squared distance, Σ (λ_k − g_k)², which stays bounded where a prediction rules out what annotators chose.
soft_brier = SoftLoss("soft_brier", lambda g, y: np.asarray(((g - y) ** 2).sum(axis=1)))


@dataclass(frozen=True)
class WidthScorer:
    """A scorer for scikit-learn that prefers models with narrow credal sets at a level.

    On the items that the model has not seen, the score is calibrated, sets are predicted and their mean width, with its
    sign changed, is returned. The model that is selected needs a calibration on items that took no part in this.

    Parameters
    ----------
    alpha : float
        Miscoverage rate of the sets.
    score : str or Score, optional
        Nonconformity score; by default that of a `ConformalCredalClassifier`, else ``"tv"``.

    Examples
    --------
    >>> import credalset as cs
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> data = cs.datasets.make_synthetic(300, n_votes=20, random_state=0)
    >>> model = cs.SoftLabelClassifier(LogisticRegression())
    >>> search = GridSearchCV(model, {"base__C": [1e-6, 1.0]}, scoring=WidthScorer(alpha=0.1), cv=3)
    >>> search.fit(data.X, data.counts).best_params_
    {'base__C': 1.0}
    """

    alpha: float = 0.1
    score: str | Score | None = None

    def __call__(self, estimator: Any, X: Any, Y: Any) -> float:
        """Return minus the mean width of the sets that the estimator gives."""
        own = getattr(estimator, "nonconformity", "tv")
        score = get_score(own if self.score is None else self.score)
        prediction: Any = predict_for(score, getattr(estimator, "estimator_", estimator), X)
        calibration = conformalize(prediction, read_labels(Y, X, classes=getattr(estimator, "classes_", None)), score)
        return -float(mean_width(calibration.predict_set(prediction, self.alpha)))
