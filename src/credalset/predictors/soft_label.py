"""Let any scikit-learn classifier learn from label distributions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_is_fitted,
    has_fit_parameter,
)

from credalset._typing import ArrayLike, FloatArray
from credalset.predictors.labels import (
    SoftScoring,
    accepts_sparse,
    class_array,
    match_rows,
    note_features,
    read_labels,
)


class SoftLabelClassifier(SoftScoring, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Fit a scikit-learn classifier to label distributions by weighting each item's classes.

    An item with label distribution λ becomes up to K training rows, one per class with weight λ_k >
    0. A classifier that minimises the cross-entropy then minimises the soft cross-entropy $-\sum_i
    \sum_k \lambda_{ik} \log g(x_i)_k$.

    Parameters
    ----------
    base : estimator, optional
        A classifier with ``predict_proba`` whose ``fit`` accepts ``sample_weight``, or a pipeline
        that ends in such a classifier. The default is logistic regression.

    Attributes
    ----------
    base_ : estimator
        The fitted clone of ``base``.
    classes_ : ndarray of shape (K,)
        Class names, in the column order of Y.

    Notes
    -----
    If labels have names, they are matched with the rows of X by name; if X has no names, such
    labels are refused. scikit-learn's meta-estimators (``VotingClassifier``, ``BaggingClassifier``,
    ``StackingClassifier``, ``CalibratedClassifierCV``) turn a series of labels into an array, which
    loses the names without a warning. Before you use them, put the labels into the order of X with
    ``votes.align(X.index).counts`` or ``y.loc[X.index]``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> Y = np.array([[9, 1], [5, 5], [1, 9]])  # ten votes per item
    >>> SoftLabelClassifier(LogisticRegression()).fit(X, Y).predict_proba([[1.0]]).round(2)
    array([[0.5, 0.5]])
    """

    #: tells `ConformalCredalClassifier` that ``fit`` takes label distributions
    accepts_label_distributions = True

    def __init__(self, base: Any = None) -> None:
        self.base = base

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier to label distributions, counts or class labels.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of any kind that the base classifier accepts.
        y : array of shape (n, K), Annotations, or array of n labels
            Label distributions, annotation counts, or one label per item. By default all items have
            the same weight, whatever their number of votes.
        sample_weight : array of shape (n,), optional
            Weight of each item, such as its number of votes.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        base = LogisticRegression() if self.base is None else clone(self.base)
        weight_name = _sample_weight_name(base)
        note_features(self, X, reset=True)
        labels = read_labels(y, X)
        distributions = labels.distributions
        self.classes_ = class_array(labels)
        n_items = _num_samples(X)
        if n_items != len(distributions):
            raise ValueError(f"X has {n_items} items, but y has {len(distributions)}.")
        if sparse.issparse(X):
            X = X.tocsr()  # type: ignore[attr-defined]  # the other formats cannot be indexed by rows
        elif not hasattr(X, "shape") and not isinstance(X, list):
            X = np.asarray(X)
        items, codes = np.nonzero(distributions)
        weights = distributions[items, codes]
        if sample_weight is not None:
            given = np.asarray(match_rows(sample_weight, X, "sample_weight"))
            weights = weights * _check_sample_weight(given, np.empty((n_items, 1)))[items]
        self.base_ = base.fit(_safe_indexing(X, items), codes, **{weight_name: weights})
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict label distributions; a class without training votes gets probability zero.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        ndarray of shape (n, K)
            Predicted distributions.
        """
        check_is_fitted(self)
        note_features(self, X, reset=False)
        predicted = self.base_.predict_proba(X)
        if predicted.shape[1] == len(self.classes_):
            return np.asarray(predicted)
        result = np.zeros((len(predicted), len(self.classes_)))
        result[:, np.asarray(self.base_.classes_, dtype=int)] = predicted
        return result

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = accepts_sparse(
            LogisticRegression() if self.base is None else self.base
        )
        return tags


def _sample_weight_name(base: Any) -> str:
    """Return the keyword for weights in ``base.fit``, also of pipelines."""
    if isinstance(base, Pipeline):
        step, last = base.steps[-1]
        return f"{step}__{_sample_weight_name(last)}"
    if not hasattr(base, "predict_proba") and not hasattr(type(base), "predict_proba"):
        raise TypeError(
            f"base must be a classifier with predict_proba, but {type(base).__name__} has none."
        )
    if not has_fit_parameter(base, "sample_weight"):
        raise TypeError(
            f"base must accept sample_weight in fit, but {type(base).__name__} does not. Use a "
            "classifier that does, such as LogisticRegression or HistGradientBoostingClassifier."
        )
    return "sample_weight"
