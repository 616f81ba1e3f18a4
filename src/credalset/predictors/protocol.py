"""Train estimators on label distributions, and get the predictions that a score needs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _num_samples, check_is_fitted

from credalset._batch import Batch, Labels, Names, is_default, item_names, take_columns
from credalset._typing import AnyArray, FloatArray
from credalset._validation import as_names
from credalset.exceptions import MissingExtraError
from credalset.predictors.labels import SoftScoring
from credalset.predictors.soft_label import SoftLabelClassifier
from credalset.scores import Score

#: where the networks are, which are imported when one is made: PyTorch takes seconds
NETWORKS = "credalset.predictors.torch"


def default_estimator(score: Score) -> Any:
    """Return the network that makes the predictions a score needs."""
    try:
        networks = import_module(NETWORKS)
    except MissingExtraError:
        methods = " or ".join(score.prediction_methods)
        alternative = f"or pass an estimator of your own with {methods}"
        raise MissingExtraError(
            "The default estimator, a neural network,", "torch", "torch", alternative
        ) from None
    if "predict_intervals" in score.prediction_methods:
        return networks.IntervalNetwork()
    return networks.FirstOrderNetwork() if score.order == "first" else networks.SecondOrderNetwork()


def prepare(estimator: Any, score: Score) -> Any:
    """Return a fresh estimator that learns from label distributions."""
    if estimator is None:
        return default_estimator(score)
    fresh = clone(estimator)
    if any(
        isinstance(p, FrozenEstimator) or getattr(p, "accepts_label_distributions", False)
        for p in _parts(fresh)
    ):
        return fresh
    if isinstance(fresh, BaseSearchCV):
        raise ValueError(
            f"estimator is a {type(fresh).__name__} over a classifier that does not learn "
            "from label distributions. "
            "Wrap that classifier: GridSearchCV(SoftLabelClassifier(LogisticRegression()), "
            "{'base__C': [0.1, 1]})."
        )
    return SoftLabelClassifier(fresh)


def fit_estimator(estimator: Any, X: Any, labels: Labels, classes: AnyArray) -> Any:
    """Fit an estimator to aligned labels, passed as an array of distributions."""
    estimator.fit(X, labels.distributions)
    learner: Any = _parts(estimator)[-1]
    if isinstance(learner, SoftScoring) and list(learner.classes_) == list(range(len(classes))):  # type: ignore[attr-defined]
        learner.classes_ = classes  # type: ignore[attr-defined]
    return estimator


def refuse_frozen(estimator: Any) -> None:
    """Refuse parts that are already fitted: they may have been trained on the held-out items."""
    parts = [estimator]
    if hasattr(estimator, "get_params") and not isinstance(estimator, type):
        parts += estimator.get_params(deep=True).values()
    for part in parts:
        cv = getattr(part, "cv", None)
        if (
            isinstance(part, FrozenEstimator)
            or getattr(part, "prefit", False) is True
            or (type(cv), cv) == (str, "prefit")
        ):
            raise ValueError(
                f"estimator is or has a {type(part).__name__} that is already fitted, but "
                "cross_conformalize trains one estimator per fold, which must not have seen its "
                "items. Use conformalize with held-out items."
            )


def is_fitted(estimator: Any) -> bool:
    """Return whether an estimator can predict; objects without ``fit`` count as fitted."""
    if not hasattr(estimator, "fit"):
        return True
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return True


def takes_predictions_of(score: Score, estimator: Any) -> bool:
    """Return whether an estimator makes predictions of the kind that a score needs."""
    return any(_find_method(estimator, method) is not None for method in score.prediction_methods)


def predict_batch(score: Score, estimator: Any, X: Any, classes: Names | None = None) -> Batch:
    """Return valid predictions of the kind that a score needs, with the names of the items of X.

    The columns are put into the order of the classes, if the estimator has the same ones in
    ``classes_``.
    """
    prediction, method = predict_array(score, estimator, X)
    valid = score.check_prediction(prediction, f"the output of {method}")
    own = estimator_classes(estimator)
    if own is not None and own != classes and set(own) == set(classes or ()):
        columns = np.array([own.index(name) for name in classes or ()], dtype=np.int64)
        valid = take_columns(valid, columns)
    return Batch(valid, score.n_classes(valid), item_names(X, "X"), classes, name="X")


def estimator_classes(estimator: Any) -> Names | None:
    """Return the names in the attribute ``classes_`` of an estimator, or None."""
    own = getattr(estimator, "classes_", None)
    if own is None or np.ndim(own) != 1:
        return None
    names = as_names(own)
    return None if is_default(names) else names


def predict_array(score: Score, estimator: Any, X: Any) -> tuple[FloatArray, str]:
    """Return predictions of the first prediction method that the estimator has, and its name.

    The methods are those of ``score.prediction_methods``.
    """
    found = {method: _find_method(estimator, method) for method in score.prediction_methods}
    method, predict = next(((m, p) for m, p in found.items() if p is not None), ("", None))
    if predict is None:
        raise TypeError(
            f"score {score.name!r} needs an estimator with "
            f"{' or '.join(found) or 'predictions of its own kind'}, but "
            f"{type(estimator).__name__} has none. Use another estimator or score, or "
            "conformalize predictions."
        )
    try:
        prediction = np.asarray(predict(X))
    except AttributeError as error:  # such as numbers for a model of texts
        raise TypeError(
            f"the estimator cannot read X: {error}. Pass what it was trained with."
        ) from error
    if (hasattr(X, "__len__") or hasattr(X, "shape")) and _num_samples(X) != len(prediction):
        raise ValueError(
            f"X has {_num_samples(X)} rows, but the estimator returned {len(prediction)} "
            "predictions. A model that reads texts takes one column of texts, not a frame."
        )
    return prediction, method


def _parts(estimator: Any) -> list[Any]:
    """Return an estimator and those inside: a pipeline's last step, a frozen one, a best one."""
    parts = [estimator]
    while isinstance(outer := parts[-1], Pipeline | FrozenEstimator | BaseSearchCV):
        if isinstance(outer, Pipeline):
            parts.append(outer.steps[-1][1])
        else:
            parts.append(getattr(outer, "best_estimator_", outer.estimator))
    return parts


def _find_method(estimator: Any, method: str) -> Callable[[Any], Any] | None:
    """Find a method, also inside pipelines and searches, which only have scikit-learn's own."""
    if isinstance(estimator, BaseSearchCV) and not hasattr(estimator, method):
        return _find_method(getattr(estimator, "best_estimator_", estimator.estimator), method)
    if (
        isinstance(estimator, Pipeline)
        and not hasattr(estimator, method)
        and len(estimator.steps) > 0
    ):
        last = _find_method(estimator.steps[-1][1], method)
        if last is None or len(estimator) == 1:
            return last
        return lambda X: last(estimator[:-1].transform(X))
    return getattr(estimator, method, None)
