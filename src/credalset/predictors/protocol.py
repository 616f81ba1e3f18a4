"""What credalset asks of an estimator, and how it reads predictions from one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _num_samples, check_is_fitted

from credalset._typing import AnyArray, FloatArray
from credalset._validation import Checked
from credalset.annotations.labels import Labels, row_names
from credalset.exceptions import MissingExtraError, warn
from credalset.predictors.scoring import SoftScoring
from credalset.predictors.soft_label import SoftLabelClassifier
from credalset.scores import Score


def default_estimator(score: Score) -> Any:
    """Return the network that fits a score, the paper's for its own, which is used when the user names no estimator."""
    try:
        from credalset.predictors.torch import FirstOrderNetwork, IntervalNetwork, PrototypeNetwork, SecondOrderNetwork
    except MissingExtraError:
        method = "predict_proba" if score.order == "first" else "predict_concentration"
        alternative = f"or pass an estimator of your own with {method}"
        raise MissingExtraError("The default estimator, a neural network,", "torch", "torch", alternative) from None
    if "predict_prototypes" in score.prediction_methods:
        return PrototypeNetwork()
    if "predict_intervals" in score.prediction_methods:
        return IntervalNetwork()
    return FirstOrderNetwork() if score.order == "first" else SecondOrderNetwork()


def accepts_label_distributions(estimator: Any) -> bool:
    """Tell whether ``estimator.fit`` understands (n, K) label distributions."""
    return any(
        isinstance(part, FrozenEstimator) or getattr(part, "accepts_label_distributions", False)
        for part in _parts(estimator)
    )


def targets_for(estimator: Any, labels: Labels) -> FloatArray:
    """Return what an estimator is fitted to: distributions, or the votes behind them if it makes use of those."""
    takes_counts = bool(getattr(_parts(estimator)[-1], "accepts_counts", False))
    return labels.counts if takes_counts and labels.counts is not None else labels.distributions


def prepare(estimator: Any, score: Score) -> Any:
    """Return a fresh estimator that learns from label distributions."""
    if estimator is None:
        return default_estimator(score)
    fresh = clone(estimator)
    if accepts_label_distributions(fresh):
        return fresh
    return _soft_search(fresh) if isinstance(fresh, BaseSearchCV) else SoftLabelClassifier(fresh)


def _soft_search(search: Any) -> Any:
    """Let a search over the parameters of a plain classifier learn from label distributions.

    The classifier is wrapped, rather than the search: rows of one item must not be in two of its folds.
    """
    if search.scoring is not None and not callable(search.scoring):
        raise ValueError(
            f"the search has scoring={search.scoring!r}, which compares class labels, but learns from label "
            "distributions. Leave scoring out (soft cross-entropy), or use credalset.metrics.soft_log_loss, soft_brier "
            "or WidthScorer(alpha)."
        )
    for name in ("param_grid", "param_distributions"):
        grid = getattr(search, name, None)
        if grid is not None:
            grids = [grid] if isinstance(grid, Mapping) else grid
            renamed = [{f"base__{key}": values for key, values in one.items()} for one in grids]
            search.set_params(**{name: renamed[0] if isinstance(grid, Mapping) else renamed})
    search.estimator = SoftLabelClassifier(search.estimator)
    return search


def refuse_frozen(estimator: Any) -> None:
    """Refuse to train anew, fold by fold, what has a part that stays as it is: it may have seen the items held out."""
    parts = [estimator]
    if hasattr(estimator, "get_params") and not isinstance(estimator, type):
        parts += estimator.get_params(deep=True).values()
    for part in parts:
        is_prefit = getattr(part, "prefit", False) is True or _equals(getattr(part, "cv", None), "prefit")
        if isinstance(part, FrozenEstimator) or is_prefit:
            what = "estimator is" if part is estimator else f"estimator has a part ({type(part).__name__}) that is"
            raise ValueError(
                f"{what} frozen or prefit, but cross_conformalize trains one per fold that must not have seen the "
                "items of its fold. Use conformalize with items it was not trained on."
            )


def _equals(value: Any, text: str) -> bool:
    return isinstance(value, str) and value == text


def warn_of_pull(estimator: Any, score: Score) -> None:
    """Warn that a density was trained off the boundary by one amount and would be read by another."""
    last = _parts(estimator)[-1]
    trained, read = getattr(last, "pull", None), getattr(score, "pull", None)
    if not hasattr(last, "predict_density") or not isinstance(trained, Real) or not isinstance(read, Real):
        return
    if trained != read and getattr(last, "likelihood", "density") == "density":  # counts are learned without a pull
        warn(
            f"the estimator has pull={float(trained)!r}, but the score reads its densities with pull={float(read)!r}: "
            "coverage holds, but the sets may be larger than need be. "
            f"Use nonconformity={type(score).__name__}(pull={float(trained)!r})."
        )


def predicts_mixtures(estimator: Any, score: Score) -> bool:
    """Tell whether the predictions that a score will read from an estimator are mixtures."""
    return "predict_density" in score.prediction_methods and _find_method(estimator, "predict_density") is not None


def _parts(estimator: Any) -> list[Any]:
    """Return an estimator and what is inside: the end of a pipeline, what is frozen, what a search has found."""
    parts = [estimator]
    while isinstance(outer := parts[-1], Pipeline | FrozenEstimator | BaseSearchCV):
        is_pipeline = isinstance(outer, Pipeline)
        parts.append(outer.steps[-1][1] if is_pipeline else getattr(outer, "best_estimator_", outer.estimator))
    return parts


def is_fitted(estimator: Any) -> bool:
    """Tell whether an estimator can predict; objects without ``fit`` are taken to be ready."""
    if not hasattr(estimator, "fit"):
        return True
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return True


def takes_predictions_of(score: Score, estimator: Any) -> bool:
    """Tell whether an estimator makes predictions that a score takes."""
    return any(_find_method(estimator, method) is not None for method in score.prediction_methods)


def predict_for(score: Score, estimator: Any, X: Any) -> Checked:
    """Return the predictions that a score takes, validated: distributions, or densities for a second-order score."""
    for method in score.prediction_methods:
        predict = _find_method(estimator, method)
        if predict is not None:
            break
    else:
        other = "first-order score (tv, ws, kl, inner)" if score.order == "second" else "second-order score"
        raise TypeError(
            f"score {score.name!r} needs an estimator with {score.prediction_methods[-1]}, but "
            f"{type(estimator).__name__} has none. Use another estimator or a {other}."
        )
    try:
        prediction = predict(X)
    except AttributeError as error:  # what a model of texts makes of numbers
        raise TypeError(f"the estimator cannot read X: {error}. Pass what it was trained with.") from error
    _check_rows(prediction, X)
    return Checked(score.check_prediction(prediction, f"the output of {method}"), row_names(X))


def _check_rows(prediction: Any, X: Any) -> None:
    """Refuse predictions that are not one per row: what reads texts takes a frame to be a list of its columns."""
    try:
        n, found = _num_samples(X), len(prediction)
    except TypeError:  # whatever has no length is between the estimator and its owner
        return
    if n != found:
        raise ValueError(f"X has {n} rows, but the estimator returned {found} predictions. {_text_advice(X)}")


def _text_advice(X: Any) -> str:
    """Say which column of a frame a model that reads texts probably wants: that with the longest texts."""
    if not (hasattr(X, "columns") and hasattr(X, "iloc") and len(X.columns)):
        return "Pass features as the estimator takes them."
    longest = max(X.columns, key=lambda name: sum(len(v) for v in X[name].head(50) if isinstance(v, str)))
    listed = ", ".join(map(str, X.columns[:5]))
    return f"X is a frame with columns {listed}: pass a model that reads texts its column of texts, X[{longest!r}]."


def fit_learner(estimator: Any, X: Any, labels: Labels) -> Any:
    """Fit an estimator to labels of any kind it takes; a frame that it took for a list of texts is called that."""
    try:
        return estimator.fit(X, targets_for(estimator, labels))
    except ValueError as error:
        if "inconsistent numbers of samples" in str(error) and hasattr(X, "iloc") and hasattr(X, "columns"):
            raise ValueError(f"the estimator does not see {len(X)} items in X. {_text_advice(X)}") from error
        raise


def name_classes(estimator: Any, names: AnyArray) -> None:
    """Tell a fitted learner of ours the names of the classes that it knows by number: it may be passed on."""
    learner = _parts(estimator)[-1]
    own: Any = getattr(learner, "classes_", None)
    if isinstance(learner, SoftScoring) and own is not None and list(own) == list(range(len(names))):
        learner.classes_ = names  # type: ignore[attr-defined]


def _find_method(estimator: Any, method: str) -> Callable[[Any], Any] | None:
    """Find a method, also behind pipelines and searches, which pass on only the methods that scikit-learn knows."""
    if isinstance(estimator, BaseSearchCV) and not hasattr(estimator, method):
        return _find_method(getattr(estimator, "best_estimator_", estimator.estimator), method)
    if isinstance(estimator, Pipeline) and not hasattr(estimator, method) and len(estimator.steps) > 0:
        last = _find_method(estimator.steps[-1][1], method)
        return None if last is None else lambda X: last(estimator[:-1].transform(X) if len(estimator) > 1 else X)
    return getattr(estimator, method, None)
