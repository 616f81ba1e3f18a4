"""The scikit-learn face: an estimator that predicts credal sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing

from credalset._guessing import Guessing, Hinting
from credalset._splits import fold_numbers, part_size, with_rows
from credalset._typing import FloatArray, Prediction
from credalset.annotations.labels import Labels, in_item_order, row_names
from credalset.annotations.seen import digests
from credalset.calibration import Calibration, CrossCalibration, conformalize, cross_conformalize
from credalset.calibration.cross import check_balls
from credalset.calibration.noise import Noise, check_supported
from credalset.calibration.thresholds import Options, as_noise
from credalset.classifier.comparing import compare_scores
from credalset.classifier.folds import fit_folds
from credalset.classifier.guesses import ATTRIBUTES, PARAMETERS
from credalset.classifier.reuse import names_of, warn_of_training, with_seen
from credalset.classifier.safety import all_or_nothing, check_made_with
from credalset.evaluation import Evaluation, evaluate
from credalset.predictors.labels import accepts_sparse, knows_features, note_features, read_labels
from credalset.predictors.protocol import (
    fit_learner,
    is_fitted,
    name_classes,
    predict_for,
    prepare,
    refuse_frozen,
    warn_of_pull,
)
from credalset.predictors.scoring import SoftScoring
from credalset.scores import Score, get_score
from credalset.sets.credal_set import CredalSet


class ConformalCredalClassifier(Hinting, Guessing, SoftScoring, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Predict credal sets that contain the true label distribution with probability at least 1 − α.

    ``fit`` trains the estimator on label distributions, ``conformalize`` calibrates the score on data the estimator
    has not seen, ``predict_set`` answers at any level. An estimator that is already fitted needs no ``fit``.

    Parameters
    ----------
    estimator : estimator, optional
        First-order scores need ``predict_proba``, second-order ones ``predict_concentration``. A plain scikit-learn
        classifier is wrapped in `SoftLabelClassifier` so that it learns from distributions, and so is what a
        `GridSearchCV` tries out. By default the paper's network that fits the score, `FirstOrderNetwork` or
        `SecondOrderNetwork` (extra ``torch``).
    nonconformity : str or Score
        The nonconformity score: ``"tv"``, ``"ws"``, ``"kl"``, ``"inner"``, ``"so"``, ``"density"``, or an object from
        `credalset.scores`. (``score`` is the method by which scikit-learn compares models.)
    noise : FewVotes, AnnotatorSampling, UnbiasedVotes, BoundedNoise or "auto", optional
        Cover the distribution behind the votes rather than their shares.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    estimators_ : list of estimators
        The estimators of the folds, after ``cross_conformalize`` and instead of ``estimator_``.
    calibration_ : Calibration or CrossCalibration
        The calibrated score, after ``conformalize`` or ``cross_conformalize``.
    classes_ : ndarray of shape (K,)
        Class names in column order.
    text_name_in_ : str or None
        What the column of texts was called that it was fitted with, if it was.

    Examples
    --------
    >>> import credalset as cs
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = cs.datasets.make_synthetic(1500, n_classes=3, random_state=0)
    >>> X_train, X_calib, X_test, Y_train, Y_calib, Y_test = cs.train_conformalize_test_split(
    ...     data.X, data.counts, train_size=500, conformalize_size=500, test_size=500, random_state=0)
    >>> clf = cs.ConformalCredalClassifier(LogisticRegression(), nonconformity="kl")
    >>> sets = clf.fit(X_train, Y_train).conformalize(X_calib, Y_calib).predict_set(X_test, alpha=0.1)
    >>> len(sets), sets.n_classes
    (500, 3)
    """

    _hints: ClassVar[dict[str, str]] = ATTRIBUTES
    _meant: ClassVar[dict[str, str]] = PARAMETERS

    def __init__(
        self, estimator: Any = None, nonconformity: str | Score = "tv", noise: Noise | str | None = None
    ) -> None:
        self.estimator = estimator
        self.nonconformity = nonconformity
        self.noise = noise

    @all_or_nothing
    def fit(self, X: Any, Y: Any) -> Self:
        """Train the estimator.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.
        Y : array of shape (n, K), Annotations, or array of n labels
            Label distributions, annotation counts, or one label per item (read as one vote).
        """
        score = get_score(self.nonconformity)
        estimator = prepare(self.estimator, score)
        warn_of_pull(estimator, score)
        note_features(self, X, reset=True)
        labels = read_labels(Y, X)
        self.estimator_ = fit_learner(estimator, X, labels)
        self._seen = digests(names_of(X, labels), X)
        self.classes_ = labels.class_names()
        name_classes(self.estimator_, self.classes_)
        # A new model needs a new calibration: a stale one would carry a guarantee that no longer holds.
        self._forget("calibration_", "estimators_")
        return self

    @all_or_nothing
    def conformalize(self, X: Any, Y: Any, groups: Any = None, weights: Any = None) -> Self:
        """Calibrate the score on items that the estimator was not trained on.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the calibration items.
        Y : array of shape (n, K), Annotations, or array of n labels
            Their labels, over the same classes in the same order as in ``fit``.
        groups : sequence of n keys, or "predicted", optional
            Hold the guarantee within each group; see `credalset.conformalize`.
        weights : array of shape (n,), optional
            Likelihood ratios under covariate shift; see `credalset.conformalize`.
        """
        score = get_score(self.nonconformity)
        self._adopt_fitted_estimator()
        warn_of_pull(self.estimator_, score)
        prediction = self._predict_one(X)
        labels = self._labels(Y, X)
        warn_of_training(self, X, labels)
        names = row_names(prediction)
        groups, weights = (
            in_item_order(v, names, n, "prediction") for n, v in (("groups", groups), ("weights", weights))
        )
        n_classes = score.n_classes(prediction.prediction)
        if n_classes != labels.n_classes:
            raise ValueError(
                f"the estimator predicts {n_classes} classes, but Y has {labels.n_classes} columns. "
                "Calibrate with the classes the estimator was trained on."
            )
        self._forget("estimators_")
        self.classes_ = labels.class_names()
        made = conformalize(prediction, labels, score, noise=self.noise, groups=groups, weights=weights)
        self.calibration_: Calibration | CrossCalibration = with_seen(self, made, X, labels)
        return self

    calibrate = conformalize  # the name of the command

    @all_or_nothing
    def cross_conformalize(
        self,
        X: Any,
        Y: Any,
        folds: Any = 5,
        random_state: int | None = None,
        groups: Any = None,
        weights: Any = None,
    ) -> Self:
        """Train one estimator per fold on the other folds, and calibrate on the items each has not seen.

        For scarce data: every item trains and calibrates. New items are predicted by every fold's estimator. The proven
        coverage is about 1 − 2α, ``calibration_.guaranteed_coverage(alpha)``, the typical one 1 − α.

        Parameters
        ----------
        X, Y
            As in ``fit``.
        folds : int, splitter or sequence of n whole numbers
            Number of folds, drawn at random and as equal as possible; a scikit-learn splitter that holds out every item
            once and looks at neither features nor labels, such as ``KFold``; or the fold of each item, 0, …, F − 1.
        random_state : int or None
            Seed of the draw, if ``folds`` is a number.
        groups, weights
            As in `credalset.cross_conformalize`.

        Examples
        --------
        >>> import credalset as cs
        >>> from sklearn.linear_model import LogisticRegression
        >>> data = cs.datasets.make_synthetic(200, random_state=0)
        >>> clf = cs.ConformalCredalClassifier(LogisticRegression())
        >>> clf.cross_conformalize(data.X[:100], data.counts[:100], random_state=0).calibration_
        CrossCalibration: score tv, 100 items in 5 folds, 3 classes
        >>> len(clf.predict_set(data.X[100:], alpha=0.1))
        100
        """
        score = get_score(self.nonconformity)
        check_supported(as_noise(self.noise), cross=True)
        refuse_frozen(self.estimator)
        labels = read_labels(Y, X)
        codes = fold_numbers(folds, len(labels), random_state)
        X = with_rows(X, len(labels))
        names = row_names(X)
        groups, weights = (in_item_order(v, names, n, "X") for n, v in (("groups", groups), ("weights", weights)))
        check_balls(score, self._check_items(score, labels, groups, weights))
        warn_of_pull(self.estimator, score)
        note_features(self, X, reset=True)
        estimators, prediction = fit_folds(self.estimator, score, X, labels, codes)
        self._forget("estimator_")
        self.estimators_, self.classes_ = estimators, labels.class_names()
        made = cross_conformalize(prediction, labels, codes, score, noise=self.noise, groups=groups, weights=weights)
        self._forget("_seen")
        self.calibration_ = with_seen(self, made, X, labels)
        return self

    @all_or_nothing
    def fit_conformalize(
        self,
        X: Any,
        Y: Any,
        calibration_size: float | int = 0.25,
        random_state: int | None = None,
        groups: Any = None,
        weights: Any = None,
    ) -> Self:
        """Split the data at random, fit on one part and conformalize on the other.

        Parameters
        ----------
        X, Y
            As in ``fit``.
        calibration_size : float or int
            Share or number of items kept for calibration.
        random_state : int or None
            Seed of the split.
        groups, weights
            As in ``conformalize``, for all items; those of the calibration part are used.
        """
        labels = read_labels(Y, X)
        X = with_rows(X, len(labels))
        names = row_names(X)
        groups, weights = (in_item_order(v, names, n, "X") for n, v in (("groups", groups), ("weights", weights)))
        indices = np.arange(len(labels))
        taken = part_size(calibration_size, len(indices), "calibration_size")
        if max(taken, np.ceil(calibration_size * len(indices)) if calibration_size < 1 else 0) >= len(indices):
            raise ValueError(
                f"calibration_size {calibration_size!r} leaves none of the {len(indices)} items to fit on."
            )
        train, calib = train_test_split(indices, test_size=calibration_size, random_state=random_state)
        self._check_items(get_score(self.nonconformity), labels, groups, weights)
        self.fit(_safe_indexing(X, train), labels[train])
        own_groups = groups if groups is None or isinstance(groups, str) else _safe_indexing(groups, calib)
        own_weights = None if weights is None else _safe_indexing(weights, calib)
        return self.conformalize(_safe_indexing(X, calib), labels[calib], groups=own_groups, weights=own_weights)

    def predict_set(self, X: Any, alpha: float = 0.1, groups: Any = None, weights: Any = None) -> CredalSet:
        """Predict one credal set per item, at miscoverage rate ``alpha``; groups and weights as in calibration."""
        return self._calibrated().predict_set(self._predict(X), alpha, groups=groups, weights=weights)

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict label distributions (n, K), the mean for a second-order score; averaged over folds if there are."""
        score, prediction = get_score(self.nonconformity), self._predict(X)
        blocks = prediction if isinstance(prediction, list) else [prediction]
        return np.asarray(np.mean([score.mean(block.prediction) for block in blocks], axis=0))

    def evaluate(
        self,
        X: Any,
        Y: Any,
        alpha: float | Sequence[float] = (0.05, 0.1, 0.2),
        groups: Any = None,
        weights: Any = None,
        *,
        volume: bool | None = None,
    ) -> Evaluation:
        """Compare promised and observed coverage on labelled items, and say how much the sets leave open.

        Parameters
        ----------
        X, Y
            Test items and their labels.
        alpha : float or sequence of floats
            Miscoverage rates.
        groups, weights
            Those of the test items, if the calibration has them.
        volume : bool, optional
            Whether to compute the mean volume of the sets; up to 20 classes by default, beyond which it takes long.

        Returns
        -------
        Evaluation
            One row per level, which print as a table; ``pandas.DataFrame(rows)`` makes a frame of them. ``coverage`` is
            the observed share, ``coverage_low`` and ``coverage_high`` its exact binomial interval, that of these very
            sets. ``band_low`` and ``band_high`` are what chance leaves of 1 − α for so many calibration and test items
            (beta-binomial, 99 %), None where no law is known, and ``verdict`` is that of `credalset.verdict.judge`:
            ``"kept"`` within the band, ``"short"`` below, ``"generous"`` above. ``width``, ``epistemic``, ``labels``,
            ``decided``, ``volume`` and ``efficiency`` (three classes) are the means of `credalset.metrics` and carry
            their intervals (``row["width"].low``); of many sets, a selection spread evenly is measured. ``threshold``
            is the mean where it differs from item to item, ``empty`` the number of empty sets, ``n`` that of items.
            With groups, ``rows.groups`` has the coverage of each.
        """
        return evaluate(self, X, Y, alpha, groups, weights, volume)

    def compare(
        self,
        X: Any,
        Y: Any,
        scores: Sequence[str | Score] | None = None,
        alpha: float | Sequence[float] = 0.1,
        *,
        calibration_size: float | int = 0.5,
        random_state: int | None = 0,
        volume: bool | None = None,
    ) -> Evaluation:
        """Calibrate several scores on the fitted model, and measure their sets: one table to choose from.

        Every score is calibrated on a random part of the items and measured on the rest; the classifier stays as it is.

        Parameters
        ----------
        X, Y
            Labelled items that the estimator was not trained on.
        scores : sequence of str or Score, optional
            Nonconformity scores, all of them for predictions that the estimator makes; by default its own and those of
            the package that need no parameters.
        alpha : float or sequence of floats
            Miscoverage rates.
        calibration_size : float or int
            Share or number of items to calibrate on.
        random_state : int or None
            Seed of the split.
        volume
            As in ``evaluate``.

        Returns
        -------
        Evaluation
            The rows of ``evaluate`` for every score and level. Calibrate the score that you choose on other items: the
            best of many looks better than it is.

        Examples
        --------
        >>> import credalset as cs
        >>> from sklearn.linear_model import LogisticRegression
        >>> data = cs.datasets.make_synthetic(900, n_votes=50, random_state=0)
        >>> clf = cs.ConformalCredalClassifier(LogisticRegression()).fit(data.X[:300], data.counts[:300])
        >>> rows = clf.compare(data.X[300:], data.counts[300:], ["tv", "kl", "inner"], alpha=0.1)
        >>> [row["verdict"] for row in rows]
        ['kept', 'kept', 'kept']
        """
        return compare_scores(self, X, Y, scores, alpha, calibration_size, random_state, volume)

    def save(self, path: str | Path) -> None:
        """Write the classifier to a directory without pickle; read it with `credalset.load`."""
        from credalset.io.store import save

        save(self, path)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether predictions can be made."""
        return hasattr(self, "estimator_") or hasattr(self, "estimators_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = accepts_sparse(self.estimator)
        return tags

    def _adopt_fitted_estimator(self) -> None:
        if hasattr(self, "estimator_"):
            return
        if self.estimator is None or not is_fitted(self.estimator):
            raise NotFittedError(
                "This ConformalCredalClassifier has no fitted estimator. Call fit first, or pass an estimator that is "
                "already fitted."
            )
        self.estimator_ = self.estimator

    def _labels(self, Y: Any, X: Any) -> Labels:
        known: Any = self.classes_ if hasattr(self, "classes_") else getattr(self.estimator_, "classes_", None)
        return read_labels(Y, X, classes=known)

    def _forget(self, *names: str) -> None:
        for name in names:
            self.__dict__.pop(name, None)

    def _check_items(self, score: Score, labels: Labels, groups: Any, weights: Any) -> Prediction:
        """Check what calibration will want of the items before anything is trained; return a stand-in prediction."""
        stand_in = np.ones((len(labels), 2))
        model = Options.read(len(labels), self.noise, groups, weights).noise
        model.check_score(score)
        if model.needs_counts:
            labels.votes("Y", type(model).__name__)
        return stand_in

    def _predict(self, X: Any) -> Any:
        """Return the valid predictions that the score takes, or a list of those of every fold's estimator."""
        if hasattr(self, "estimators_"):
            note_features(self, X, reset=False)
            return [predict_for(get_score(self.nonconformity), estimator, X) for estimator in self.estimators_]
        if not hasattr(self, "estimator_"):
            advice = "Call fit (and conformalize for credal sets) first."
            raise NotFittedError(f"This ConformalCredalClassifier is not fitted yet. {advice}")
        return self._predict_one(X)

    def _predict_one(self, X: Any) -> Any:
        """Return the valid predictions of the one estimator."""
        is_known = knows_features(self)
        if is_known:
            note_features(self, X, reset=False)
        prediction = predict_for(get_score(self.nonconformity), self.estimator_, X)
        if not is_known:  # only what the estimator could make sense of is worth remembering
            note_features(self, X, reset=True)
        return prediction

    def _calibrated(self) -> Calibration | CrossCalibration:
        if not hasattr(self, "calibration_"):
            raise NotFittedError(
                "This ConformalCredalClassifier is not calibrated yet. Call conformalize(X, Y) with items that the "
                "estimator was not trained on."
            )
        check_made_with(self.calibration_, get_score(self.nonconformity), as_noise(self.noise))
        return self.calibration_
