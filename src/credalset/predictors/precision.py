"""How closely labels keep to the predictions of a classifier that is already trained."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from credalset._typing import AnyArray, FloatArray
from credalset._validation import as_distributions, as_finite, as_probability, check_choice
from credalset.annotations.labels import Labels
from credalset.predictors.labels import read_labels
from credalset.predictors.scoring import SoftScoring
from credalset.scores import Prototypes, Score

INPUTS = ("predictions", "features", "both")
SMALLEST_DISTANCE = 1e-4  # that is believed, relative to the mean distance


class PrecisionHead(SoftScoring, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Learn how far off a trained classifier is, item by item, and predict prototypes from it.

    The classifier stays as it is. On items with label distributions λ, which it may have been trained on only if it
    did not memorise them, a regressor learns the distance $d(\lambda, g(x))$, d the base score of `Prototypes`; with
    $\bar d$ the mean distance, the precision is $s(x) = 1 / (\hat d(x) + \beta \bar d)$. With the score `Prototypes`
    its sets are then balls around the classifier's own predictions that are small where it tends to be close: what
    others call a difficulty estimate, or a normalised nonconformity score. Coverage holds whatever the regressor
    learns.

    Parameters
    ----------
    estimator : classifier
        With ``predict_proba``, fitted, over the same classes as the labels and in the same order. Wrap it in
        scikit-learn's ``FrozenEstimator`` where the head will be cloned, as `ConformalCredalClassifier` does.
    regressor : estimator, optional
        Any scikit-learn regressor; by default the mean distance of the 50 nearest items, on standardised inputs.
    inputs : {"predictions", "features", "both"}
        What the regressor sees: the logarithms of the predicted probabilities and their entropy, the features X, or
        all of these.
    base : Score or str
        d, as in `Prototypes`, which must have the same: ``"kl"`` in nats by default.
    beta : float
        β, how far precisions are drawn toward each other; 0 trusts the regressor entirely.
    floor : float
        Predicted probabilities are kept above ``floor`` / K, so that no label distribution has an infinite score.

    Attributes
    ----------
    regressor_ : estimator
        The fitted regressor.
    mean_distance_ : float
        Mean distance of the items it was fitted to.
    classes_ : ndarray of shape (K,)
        Class names, in the column order of Y.

    See Also
    --------
    PrototypeNetwork : learns the predictions, too.

    Examples
    --------
    >>> import credalset as cs
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = cs.datasets.make_synthetic(900, n_classes=3, random_state=0)
    >>> trained = LogisticRegression().fit(data.X[:300], data.counts[:300].argmax(axis=1))
    >>> clf = cs.ConformalCredalClassifier(PrecisionHead(FrozenEstimator(trained)), nonconformity="prototypes")
    >>> clf = clf.fit(data.X[:300], data.counts[:300]).conformalize(data.X[300:600], data.counts[300:600])
    >>> clf.predict_set(data.X[600:], alpha=0.1)[0].shape
    'Kullback–Leibler ball'
    """

    #: tells `ConformalCredalClassifier` that ``fit`` takes label distributions
    accepts_label_distributions = True

    def __init__(
        self,
        estimator: Any,
        regressor: Any = None,
        *,
        inputs: str = "predictions",
        base: Score | str = "kl",
        beta: float = 0.1,
        floor: float = 1e-3,
    ) -> None:
        self.estimator = estimator
        self.regressor = regressor
        self.inputs = inputs
        self.base = base
        self.beta = beta
        self.floor = floor

    def fit(self, X: Any, Y: Any) -> Self:
        """Learn the precision from label distributions, counts or Annotations; the classifier is not touched.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features, of any kind the classifier takes.
        Y : array of shape (n, K) or Annotations
            What people said.
        """
        check_choice(self.inputs, "inputs", INPUTS)
        as_probability(self.floor, "floor")
        as_finite(self.beta, "beta", minimum=0.0)
        distance = Prototypes(self.base, offsets=False).distance
        labels: Labels = read_labels(Y, X)
        predicted = self._predictions(X)
        if predicted.shape != labels.distributions.shape:
            raise ValueError(
                f"the estimator predicts {predicted.shape[1]} classes for {len(predicted)} items, but Y has shape "
                f"{labels.distributions.shape}; both need one row per item and one column per class."
            )
        raw = distance(predicted, labels.distributions)
        if not np.isfinite(raw).all():
            raise ValueError(f"the base score {distance.name!r} is infinite for some labels. Raise floor.")
        regressor = _default_regressor(len(raw)) if self.regressor is None else clone(self.regressor)
        self.regressor_ = regressor.fit(self._inputs(X, predicted), raw)
        self.mean_distance_ = float(raw.mean())
        self.classes_ = labels.class_names()
        return self

    def predict_prototypes(self, X: Any) -> FloatArray:
        """Predict one prototype each, (n, 1, K + 2): the classifier's distribution, its precision, offset 0."""
        check_is_fitted(self, "regressor_")
        predicted = self._predictions(X)
        guess = np.asarray(self.regressor_.predict(self._inputs(X, predicted)), dtype=float)
        distance = np.maximum(guess, 0.0) + self.beta * self.mean_distance_
        precision = 1.0 / np.maximum(distance, SMALLEST_DISTANCE * max(self.mean_distance_, SMALLEST_DISTANCE))
        return np.column_stack([predicted, precision, np.zeros(len(predicted))])[:, None]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the classifier's own distributions, (n, K), off the boundary by ``floor``."""
        return self._predictions(X)

    def predict(self, X: Any) -> AnyArray:
        """Predict the most probable class."""
        check_is_fitted(self, "regressor_")
        return np.asarray(self.classes_[self._predictions(X).argmax(axis=1)])

    def _predictions(self, X: Any) -> FloatArray:
        try:
            raw = self.estimator.predict_proba(X)
        except NotFittedError:
            raise NotFittedError(
                "PrecisionHead needs a classifier that is already trained. Train it first, and wrap it in "
                "scikit-learn's FrozenEstimator where the head is cloned."
            ) from None
        rows = as_distributions(raw, "the output of predict_proba")
        return (1.0 - self.floor) * rows + self.floor / rows.shape[1]

    def _inputs(self, X: Any, predicted: FloatArray) -> FloatArray:
        """What the regressor sees: logarithms of probabilities and their entropy, or features, or both."""
        if self.inputs == "features":
            return np.asarray(X, dtype=float)
        logs = np.log(predicted)
        own = np.column_stack([logs, -np.sort(-logs, axis=1)[:, :3], -(predicted * logs).sum(axis=1)])
        return own if self.inputs == "predictions" else np.column_stack([own, np.asarray(X, dtype=float)])


def _default_regressor(n: int) -> Any:
    """Nearest neighbours by brute force: nothing but arrays, which can be saved and loaded without trusting types."""
    return make_pipeline(StandardScaler(), KNeighborsRegressor(max(1, min(50, n // 4)), algorithm="brute"))
