"""`ConformalCredalClassifier`: a scikit-learn estimator that predicts credal sets."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _num_samples

from credalset._splits import fold_numbers, take
from credalset._typing import FloatArray, IntArray
from credalset.calibration import Calibration, CrossCalibration, conformalize, cross_conformalize
from credalset.calibration.noise import Noise
from credalset.calibration.thresholds import as_noise
from credalset.exceptions import CredalSetWarning, warn
from credalset.predictors.labels import (
    NOTED,
    SoftScoring,
    accepts_sparse,
    class_array,
    note_features,
    read_labels,
)
from credalset.predictors.protocol import (
    estimator_classes,
    fit_estimator,
    is_fitted,
    predict_array,
    predict_for,
    prepare,
    refuse_frozen,
    takes_predictions_of,
)
from credalset.scores import Score, get_score
from credalset.sets.credal_set import CredalSet
from credalset.votes.names import Labels, as_names

if TYPE_CHECKING:
    from credalset.evaluation import Evaluation

#: scores that `compare` uses by default: those without parameters, for classes without an order
USUAL_SCORES = ("tv", "kl", "hellinger", "brier", "inner", "so", "density")


class ConformalCredalClassifier(SoftScoring, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Classifier that predicts credal sets with a coverage guarantee.

    ``fit`` trains the estimator on label distributions, ``conformalize`` calibrates the score on
    items that the estimator was not trained on, and ``predict_set`` predicts credal sets at any
    level α. An estimator that is already fitted needs no ``fit``.

    For a new item that is exchangeable with the calibration items, the set contains the *recorded*
    label distribution λ (the shares of the votes that would be recorded for the item) with
    probability at least 1 − α, $P(\lambda_{n+1} \in C_\alpha(x_{n+1})) \ge 1 - \alpha$ [1]_. With a
    noise model, the set contains the *true* label distribution with this probability under the
    assumption of that model; for `AnnotatorSampling`, for example, the assumption is that votes are
    independent draws from the true distribution. After ``cross_conformalize``, the proven
    probability is about 1 − 2α. ``calibration_.guarantee`` states the guarantee.

    Parameters
    ----------
    estimator : estimator, optional
        An estimator with ``predict_proba`` for a first-order score, or ``predict_concentration``
        for a second-order one. A plain scikit-learn classifier is wrapped in `SoftLabelClassifier`,
        so that it learns from label distributions. The default is the network whose predictions the
        score needs: `FirstOrderNetwork`, `SecondOrderNetwork` or `IntervalNetwork` (extra
        ``torch``).
    nonconformity : str or Score
        The nonconformity score. First order: ``"kl"``, ``"tv"``, ``"ws"``, ``"inner"``,
        ``"brier"``, ``"hellinger"``, ``"normalized"``; second order: ``"so"``, ``"density"``;
        intervals: ``"intervals"``. Or an object from `credalset.scores`.
    noise : BoundedNoise, AnnotatorSampling, UnbiasedVotes or FewVotes, optional
        Noise model: the assumption on the votes under which the true label distribution is covered.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    estimators_ : list of estimators
        The estimators of the folds. Set by ``cross_conformalize``, instead of ``estimator_``.
    calibration_ : Calibration or CrossCalibration
        The calibrated score.
    classes_ : ndarray of shape (K,)
        Class names in column order.
    items_ : tuple or None
        Names of the items passed to ``fit``, if they have names. ``evaluate`` reports "not tested"
        for these items.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if they have names.
    text_name_in_ : str or None
        Name of the column, if X is a column of texts.

    References
    ----------
    .. [1] Javanmardi, Stutz and Hüllermeier, "Conformalized Credal Set Predictors", NeurIPS 2024.

    Examples
    --------
    >>> import credalset as cs
    >>> from sklearn.linear_model import LogisticRegression
    >>> data = cs.datasets.make_synthetic(1500, n_classes=3, random_state=0)
    >>> X_train, X_calib, X_test, Y_train, Y_calib, Y_test = cs.train_conformalize_test_split(
    ...     data.X, data.counts, train_size=500, conformalize_size=500, test_size=500,
    ...     random_state=0)
    >>> clf = cs.ConformalCredalClassifier(LogisticRegression(), "kl")
    >>> clf = clf.fit(X_train, Y_train).conformalize(X_calib, Y_calib)
    >>> sets = clf.predict_set(X_test, alpha=0.1)
    >>> len(sets), sets.n_classes
    (500, 3)
    """

    def __init__(
        self, estimator: Any = None, nonconformity: str | Score = "kl", noise: Noise | None = None
    ) -> None:
        self.estimator = estimator
        self.nonconformity = nonconformity
        self.noise = noise

    def fit(self, X: Any, y: Any) -> Self:
        """Train the estimator; an earlier calibration is discarded.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of any kind that the estimator accepts.
        y : array of shape (n, K), Annotations, or array of n labels
            Label distributions, annotation counts, or one label per item (read as one vote). Rows
            are matched with those of X by name if both have names. If y has names, X must have
            names.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        estimator = prepare(self.estimator, get_score(self.nonconformity))
        labels = read_labels(y, X)
        classes = class_array(labels)
        fitted = fit_estimator(estimator, X, labels, classes)
        self._forget("calibration_", "estimators_")
        note_features(self, X, reset=True)
        self.estimator_ = fitted
        self.classes_ = classes
        self.items_ = labels.items
        return self

    def conformalize(self, X: Any, Y: Any, groups: Any = None, weights: Any = None) -> Self:
        """Calibrate the score on items that the estimator was not trained on.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the calibration items, as in ``fit``.
        Y : array of shape (n, K), Annotations, or array of n labels
            Labels of the calibration items, as in ``fit`` and over the same classes.
        groups : sequence of n keys, Conditional, or "predicted", optional
            Groups within which coverage is guaranteed; see `credalset.conformalize`.
        weights : array of shape (n,), optional
            Likelihood ratios under covariate shift; see `credalset.conformalize`.

        Returns
        -------
        self : object
            The calibrated classifier.
        """
        score = get_score(self.nonconformity)
        estimator = self._fitted_estimator()
        is_known = any(hasattr(self, name) for name in NOTED)
        if is_known:
            note_features(self, X, reset=False)
        labels = self._labels(Y, X, estimator if score.is_ordinal else None)
        prediction: Any = predict_for(score, estimator, X, labels.classes)
        n_classes = score.n_classes(prediction.prediction)
        if n_classes != labels.n_classes:
            raise ValueError(
                f"the estimator predicts {n_classes} classes, but Y has {labels.n_classes} columns."
            )
        _warn_of_training_items(getattr(self, "items_", None), labels.items)
        made = conformalize(
            prediction, labels, score, noise=self.noise, groups=groups, weights=weights
        )
        if not is_known:
            note_features(self, X, reset=True)
        self._forget("estimators_")
        self.estimator_ = estimator
        self.classes_ = class_array(labels)
        self.calibration_: Calibration | CrossCalibration = made
        return self

    def cross_conformalize(
        self,
        X: Any,
        Y: Any,
        folds: Any = 5,
        random_state: int | None = None,
        groups: Any = None,
        weights: Any = None,
    ) -> Self:
        """Train one estimator per fold on the other folds, and calibrate it on its fold.

        Every item is used for training and for calibration, which helps if data are scarce. All
        estimators predict each new item. The guaranteed coverage is about 1 − 2α
        (``calibration_.guaranteed_coverage(alpha)``); the coverage is typically close to 1 − α.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features, as in ``fit``.
        Y : array of shape (n, K), Annotations, or array of n labels
            Labels, as in ``fit``.
        folds : int, splitter or sequence of n whole numbers
            Number of random folds, a scikit-learn splitter that holds out every item once, such as
            ``KFold``, or the fold of each item, 0, …, F − 1.
        random_state : int or None
            Seed of the random folds if ``folds`` is a number.
        groups, weights
            As in `credalset.cross_conformalize`.

        Returns
        -------
        self : object
            The calibrated classifier.

        Examples
        --------
        >>> import credalset as cs
        >>> from sklearn.linear_model import LogisticRegression
        >>> data = cs.datasets.make_synthetic(200, random_state=0)
        >>> clf = cs.ConformalCredalClassifier(LogisticRegression())
        >>> clf.cross_conformalize(data.X[:100], data.counts[:100], random_state=0).calibration_
        CrossCalibration: score kl, 100 items in 5 folds, 3 classes
        >>> len(clf.predict_set(data.X[100:], alpha=0.1))
        100
        """
        score = get_score(self.nonconformity)
        refuse_frozen(self.estimator)
        labels = read_labels(Y, X)
        labels = (
            labels.in_scale_order(labels.classes is not None, "Y") if score.is_ordinal else labels
        )
        if _num_samples(X) != len(labels):
            raise ValueError(f"X has {_num_samples(X)} items, but Y has {len(labels)}.")
        codes = fold_numbers(folds, len(labels), random_state)
        classes = class_array(labels)
        options = {"noise": self.noise, "groups": groups, "weights": weights}
        with (
            warnings.catch_warnings()
        ):  # a placeholder prediction finds wrong arguments before training
            warnings.simplefilter("ignore", CredalSetWarning)
            level = 1.0 / labels.n_classes if score.order == "first" else 2.0
            cross_conformalize(
                np.full(labels.distributions.shape, level), labels, codes, score, **options
            )
        estimators, prediction = self._fit_folds(score, X, labels, codes)
        made = cross_conformalize(prediction, labels, codes, score, **options)
        self._forget("estimator_", "items_")
        note_features(self, X, reset=True)
        self.estimators_ = estimators
        self.classes_ = classes
        self.calibration_ = made
        return self

    def _fit_folds(
        self, score: Score, X: Any, labels: Labels, folds: IntArray
    ) -> tuple[list[Any], FloatArray]:
        """Fit an estimator without each fold; return them and their predictions for the folds."""
        estimators = []
        blocks = []
        classes = class_array(labels)
        for fold in range(int(folds.max()) + 1):
            train = np.flatnonzero(folds != fold)
            held_out = np.flatnonzero(folds == fold)
            estimator = fit_estimator(
                prepare(self.estimator, score), take(X, train), labels[train], classes
            )
            block = predict_array(score, estimator, take(X, held_out))[0]
            if block.shape[-1] != labels.n_classes and block.ndim == 2:
                raise ValueError(
                    f"the estimator trained without fold {fold} predicts {block.shape[-1]} "
                    f"classes, but Y has {labels.n_classes}. Use an estimator that predicts "
                    "classes without training items."
                )
            estimators.append(estimator)
            blocks.append(block)
        in_order = np.argsort(np.argsort(folds, kind="stable"), kind="stable")
        return estimators, np.concatenate(blocks)[in_order]

    def predict_set(
        self, X: Any, alpha: float = 0.1, groups: Any = None, weights: Any = None
    ) -> CredalSet:
        """Predict one credal set per item.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.
        alpha : float
            Miscoverage rate in (0, 1).
        groups : sequence of n keys, or array of shape (n, d), optional
            Group of each item if the calibration has groups by keys, or its features if it uses
            `Conditional`.
        weights : array of shape (n,), optional
            Likelihood ratio of each item if the calibration is weighted.

        Returns
        -------
        CredalSet
            A batch of n sets, some of which may be empty.
        """
        return self._calibrated().predict_set(
            self._predict(X), alpha, groups=groups, weights=weights
        )

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict label distributions.

        A second-order prediction is replaced by its mean. After ``cross_conformalize``, the result
        is the average over the estimators of the folds.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        ndarray of shape (n, K)
            Predicted distributions.
        """
        score = get_score(self.nonconformity)
        prediction = self._predict(X)
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
        volume: bool = False,
    ) -> Evaluation:
        """Measure coverage and size of sets on labelled items that the classifier has not seen.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the test items.
        Y : array of shape (n, K), Annotations, or array of n labels
            Labels of the test items.
        alpha : float or sequence of floats
            Miscoverage rates.
        groups, weights
            Groups and weights of the test items, as in ``predict_set``.
        volume : bool
            Whether to compute mean volumes, which takes long for many classes.

        Returns
        -------
        Evaluation
            One row per level; it prints as a table.
        """
        from credalset.evaluation import evaluate

        return evaluate(self, X, self._labels(Y, X), alpha, groups, weights, volume)

    def compare(
        self,
        X: Any,
        Y: Any,
        scores: Sequence[str | Score] | None = None,
        alpha: float | Sequence[float] = 0.1,
        *,
        random_state: int | None = 0,
    ) -> Evaluation:
        """Calibrate several scores on the estimator and compare coverage and size of their sets.

        Every score is calibrated on a random half of the items and measured on the other half. The
        classifier does not change. Calibrate the score that you choose on other items.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of items that the estimator was not trained on.
        Y : array of shape (n, K), Annotations, or array of n labels
            Labels of these items.
        scores : sequence of str or Score, optional
            Nonconformity scores. By default the score of the classifier and those of ``"tv"``,
            ``"kl"``, ``"hellinger"``, ``"brier"``, ``"inner"``, ``"so"`` and ``"density"`` for
            which the estimator makes predictions.
        alpha : float or sequence of floats
            Miscoverage rates.
        random_state : int or None
            Seed of the split into halves.

        Returns
        -------
        Evaluation
            The rows of ``evaluate`` for every score and level.

        Examples
        --------
        >>> import credalset as cs
        >>> from sklearn.linear_model import LogisticRegression
        >>> data = cs.datasets.make_synthetic(900, n_votes=50, random_state=0)
        >>> clf = cs.ConformalCredalClassifier(LogisticRegression())
        >>> clf = clf.fit(data.X[:300], data.counts[:300])
        >>> rows = clf.compare(data.X[300:], data.counts[300:], ["tv", "kl", "inner"], alpha=0.1)
        >>> [row["verdict"] for row in rows]
        ['valid', 'valid', 'valid']
        """
        from credalset.evaluation import Evaluation, evaluate

        if hasattr(self, "estimators_"):
            raise NotFittedError(
                "compare needs one estimator, but cross_conformalize has trained one per fold."
            )
        estimator = self._fitted_estimator()
        chosen = self._scores_to_compare(scores)
        is_ordinal = any(score.is_ordinal for score in chosen.values())
        labels = self._labels(Y, X, estimator if is_ordinal else None)
        if len(labels) < 2:
            raise ValueError(
                f"X has {len(labels)} items, but compare needs one to calibrate and one to measure."
            )
        _warn_of_training_items(getattr(self, "items_", None), labels.items)
        order = np.random.default_rng(random_state).permutation(len(labels))
        calib, test = (np.sort(half) for half in np.split(order, [len(labels) // 2]))
        table = Evaluation()
        for name, score in chosen.items():
            known, new = (
                predict_for(score, estimator, take(X, rows), labels.classes)
                for rows in (calib, test)
            )
            made = conformalize(known, labels[calib], score, noise=self.noise)
            table.extend_as(name, evaluate(made, new, labels[test], alpha))
        return table

    def _scores_to_compare(self, scores: Sequence[str | Score] | None) -> dict[str, Score]:
        """Return scores by name; scores of the same name by their full representation."""
        if isinstance(scores, str | Score):
            raise TypeError(
                f"scores must be a list of scores, but is {scores!r}. Write [{scores!r}]."
            )
        if scores is None:
            own = get_score(self.nonconformity)
            others = [get_score(name) for name in USUAL_SCORES if name != own.name]
            scores = [
                own,
                *(
                    score
                    for score in others
                    if takes_predictions_of(score, self._fitted_estimator())
                ),
            ]
        chosen = [get_score(score) for score in scores]
        times = Counter(score.name for score in chosen)
        return {score.name if times[score.name] == 1 else repr(score): score for score in chosen}

    def save(self, path: str | Path) -> None:
        """Write the classifier to a folder, without pickle; read it with `credalset.load`.

        Parameters
        ----------
        path : str or Path
            Folder to write to.
        """
        from credalset.io.store import save

        if hasattr(self, "calibration_"):
            self._calibrated()
        save(self, path)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether predictions can be made."""
        return hasattr(self, "estimator_") or hasattr(self, "estimators_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = accepts_sparse(self.estimator)
        return tags

    def _fitted_estimator(self) -> Any:
        if hasattr(self, "estimator_"):
            return self.estimator_
        if self.estimator is None or not is_fitted(self.estimator):
            raise NotFittedError(
                "This ConformalCredalClassifier has no fitted estimator. Call fit first, or pass "
                "an estimator that is already fitted."
            )
        return self.estimator

    def _labels(self, Y: Any, X: Any, ordinal: Any = None) -> Labels:
        """Read labels of any kind over the classes of the classifier, in the order of X.

        For an ordinal score, pass the estimator: the classes are put into the order of the scale.
        """
        known: Any = getattr(self, "classes_", None)
        known = getattr(self._fitted_estimator(), "classes_", None) if known is None else known
        labels = read_labels(Y, X, classes=known)
        return (
            labels
            if ordinal is None
            else labels.in_scale_order(estimator_classes(ordinal) is not None, "Y")
        )

    def _predict(self, X: Any) -> Any:
        """Return predictions that the score takes, or a list of those of each fold's estimator."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                "This ConformalCredalClassifier is not fitted yet. Call fit first."
            )
        note_features(self, X, reset=False)
        score = get_score(self.nonconformity)
        if hasattr(self, "estimators_"):
            return [predict_for(score, estimator, X) for estimator in self.estimators_]
        return predict_for(score, self.estimator_, X, as_names(self.classes_))

    def _calibrated(self) -> Calibration | CrossCalibration:
        if not hasattr(self, "calibration_"):
            raise NotFittedError(
                "This ConformalCredalClassifier is not calibrated yet. Call conformalize(X, Y) "
                "with items that the estimator was not trained on."
            )
        made = self.calibration_
        score = get_score(self.nonconformity).on_scale(made.score.positions)
        noise = as_noise(self.noise)
        for name, own, made_with in (
            ("nonconformity", score, made.score),
            ("noise", noise, made.noise),
        ):
            if own != made_with:
                raise NotFittedError(
                    f"{name} is {own!r}, but the calibration was made with {made_with!r}. "
                    "Calibrate again."
                )
        return made

    def _forget(self, *names: str) -> None:
        for name in names:
            self.__dict__.pop(name, None)


def _warn_of_training_items(trained: tuple[Any, ...] | None, items: tuple[Any, ...] | None) -> None:
    both = set(trained or ()) & set(items or ())
    if both:
        warn(
            f"{len(both)} of {len(items or ())} items were used in fit (first: "
            f"{min(map(str, both))!r}). The guarantee "
            "needs calibration items that were not: pass other items, or use cross_conformalize."
        )
