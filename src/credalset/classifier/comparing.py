"""Several scores on one fitted model, in one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing

from credalset._splits import part_size, with_rows
from credalset.calibration import conformalize
from credalset.classifier.reuse import warn_of_training
from credalset.evaluation import Evaluation, evaluate
from credalset.predictors.protocol import predict_for, takes_predictions_of
from credalset.scores import Score, get_score

#: scores that are compared unless others are named: without parameters, and for classes in no order
USUAL = ("tv", "kl", "hellinger", "brier", "inner", "so", "density")


def compare_scores(
    classifier: Any,
    X: Any,
    Y: Any,
    scores: Sequence[str | Score] | None,
    alpha: float | Sequence[float],
    calibration_size: float | int,
    random_state: int | None,
    volume: bool | None,
) -> Evaluation:
    """Calibrate and evaluate each score on a random split of the items; see `ConformalCredalClassifier.compare`."""
    if isinstance(scores, str | Score):
        raise TypeError(f"scores must be a list of scores, but is {scores!r}. Write [{scores!r}].")
    if scores is not None and not isinstance(scores, Iterable):
        raise TypeError(f"scores must be a list of scores, but is {scores!r}. A level is passed as alpha={scores!r}.")
    if hasattr(classifier, "estimators_"):
        raise NotFittedError(
            "compare needs one fitted estimator, but cross_conformalize has trained one per fold. Call fit first."
        )
    classifier._adopt_fitted_estimator()
    if scores is None:
        own = get_score(classifier.nonconformity)
        usual = [get_score(name) for name in USUAL if name != own.name]
        scores = [own, *(score for score in usual if takes_predictions_of(score, classifier.estimator_))]
    chosen = [get_score(score) for score in scores]
    labels = classifier._labels(Y, X)
    warn_of_training(classifier, X, labels)
    X = with_rows(X, len(labels))
    taken = part_size(calibration_size, len(labels), "calibration_size")
    if taken >= len(labels):
        raise ValueError(f"calibration_size {calibration_size!r} leaves none of the {len(labels)} items to measure.")
    order = np.random.default_rng(random_state).permutation(len(labels))
    calib, test = np.sort(order[:taken]), np.sort(order[taken:])
    X_calib, X_test = _safe_indexing(X, calib), _safe_indexing(X, test)
    table = Evaluation()
    for score, name in zip(chosen, _names(chosen), strict=True):
        prediction = predict_for(score, classifier.estimator_, X_calib)
        calibration = conformalize(prediction, labels[calib], score, noise=classifier.noise)
        asked: Any = predict_for(score, classifier.estimator_, X_test)
        rows = evaluate(calibration, asked, labels[test], alpha, volume=volume)
        table.extend_as(name, rows)
    return table


def _names(scores: Sequence[Score]) -> list[str]:
    """Return the names of the scores, in full where two would have the same."""
    times = Counter(score.name for score in scores)
    return [score.name if times[score.name] == 1 else repr(score) for score in scores]
