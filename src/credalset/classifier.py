"""`ConformalCredalClassifier`: a scikit-learn estimator that predicts credal sets."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _num_samples

from credalset._batch import Batch, Labels, take_names
from credalset._display import join_names
from credalset._splits import fold_numbers, take
from credalset._typing import FloatArray, IntArray
from credalset._validation import as_names
from credalset.calibration.base import (
    CalibrationItems,
    Inputs,
    Predictor,
    as_level,
    warn_of_empty,
)
from credalset.calibration.cross import CrossCalibration, as_folds, cross_calibrate
from credalset.calibration.noise import Noise
from credalset.calibration.split import SplitCalibration, calibrate
from credalset.calibration.thresholds import Options, as_noise
from credalset.evaluation.table import Evaluation, evaluate, evaluate_tested
from credalset.evaluation.tested import TestedItems
from credalset.exceptions import CredalSetWarning, warn
from credalset.predictors.labels import (
    NOTED,
    SoftScoring,
    accepts_sparse,
    class_array,
    note_features,
    read_labels,
)
from credalset.predictors.pipeline import frame_of_nothing, known_categories
from credalset.predictors.protocol import (
    estimator_classes,
    fit_estimator,
    is_fitted,
    predict_array,
    predict_batch,
    prepare,
    refuse_frozen,
    takes_predictions_of,
)
from credalset.scores import Score, get_score
from credalset.sets.credal_set import CredalSet

#: scores that `compare` uses by default: those without parameters, for classes without an order
USUAL_SCORES = ("tv", "kl", "hellinger", "brier", "inner", "so", "density")


class ConformalCredalClassifier(
    Predictor,
    SoftScoring,
    ClassifierMixin,  # type: ignore[misc]
    MetaEstimatorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
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
        The nonconformity score: a name (`credalset.get_score` lists them), or an object from
        `credalset.scores`.
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
    feature_kinds_in_ : tuple of str
        What the columns of X hold, number, category or text, if X is a data frame that does not
        only hold numbers.
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
        batch = predict_batch(score, estimator, X, labels.classes)
        if batch.n_classes != labels.n_classes:
            raise ValueError(
                f"the estimator predicts {batch.n_classes} classes, but Y has {labels.n_classes} "
                "columns."
            )
        _warn_of_training_items(getattr(self, "items_", None), labels.items)
        made = calibrate(self._calibration_items(score, batch, labels, groups, weights))
        if not is_known:
            note_features(self, X, reset=True)
        self._forget("estimators_")
        self.estimator_ = estimator
        self.classes_ = class_array(labels)
        self.calibration_: SplitCalibration | CrossCalibration = made
        return self

    def _calibration_items(
        self,
        score: Score,
        batch: Batch,
        labels: Labels,
        groups: Any,
        weights: Any,
        *,
        cross: bool = False,
    ) -> CalibrationItems:
        """Return what calibrates a score: valid predictions, labels and options."""
        options = Options.read(
            len(batch),
            self.noise,
            batch.per_item(groups, "groups"),
            batch.per_item(weights, "weights"),
            cross=cross,
        )
        return CalibrationItems(score.on_scale(labels.scale), batch, labels, options)

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
        if score.is_ordinal:
            labels = _in_scale_order(labels, labels.classes is not None)
        if _num_samples(X) != len(labels):
            raise ValueError(f"X has {_num_samples(X)} items, but Y has {len(labels)}.")
        rows = Batch(labels, labels.n_classes, labels.items, labels.classes, name="X")
        codes = fold_numbers(rows.per_item(folds, "folds"), len(labels), random_state)
        codes = as_folds(codes, len(labels))
        self._try_cross_options(score, rows, labels, codes, groups, weights)
        estimators, prediction = self._fit_folds(score, X, labels, codes)
        valid = score.check_prediction(prediction)
        found = self._calibration_items(
            score, rows.with_values(valid), labels, groups, weights, cross=True
        )
        made = cross_calibrate(found, codes)
        self._forget("estimator_", "items_")
        note_features(self, X, reset=True)
        self.estimators_ = estimators
        self.classes_ = class_array(labels)
        self.calibration_ = made
        return self

    def _try_cross_options(
        self, score: Score, rows: Batch, labels: Labels, codes: IntArray, groups: Any, weights: Any
    ) -> None:
        """Find wrong arguments before training, with a placeholder for the predictions."""
        level = 1.0 / labels.n_classes if score.order == "first" else 2.0
        placeholder = score.check_prediction(np.full(labels.distributions.shape, level))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CredalSetWarning)
            batch = rows.with_values(placeholder)
            found = self._calibration_items(score, batch, labels, groups, weights, cross=True)
            cross_calibrate(found, codes)

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
        inputs = self._read(X, groups=groups, weights=weights)
        sets: CredalSet = self.calibration._predict(inputs, as_level(alpha))
        warn_of_empty(sets)
        return sets

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
        means = [score.mean(batch.values) for batch in self._predict(X)]
        return np.asarray(np.mean(means, axis=0))

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
            Nonconformity scores. By default the score of the classifier, and all others without
            further parameters or an order of classes for which the estimator makes predictions.
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
            known = predict_batch(score, estimator, take(X, calib), labels.classes)
            new = predict_batch(score, estimator, take(X, test), labels.classes)
            made = calibrate(self._calibration_items(score, known, labels[calib], None, None))
            inputs = made._inputs([new], None, None)
            tested = TestedItems.of(made, inputs, labels[test])
            table.extend_as(name, evaluate_tested(tested, alpha))
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
            estimator = self._fitted_estimator()
            scores = [own, *(each for each in others if takes_predictions_of(each, estimator))]
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
        if hasattr(self, "calibration_"):
            self._calibrated()
        super().save(path)

    # --- the protocol of calibrations, for evaluation, reports and tables ---

    @property
    def calibration(self) -> SplitCalibration | CrossCalibration:
        """The calibration, after a check that it belongs to the parameters."""
        return self._calibrated()

    @property
    def reads(self) -> Literal["features", "texts"]:
        """Whether ``predict_set`` takes features or texts."""
        for part in (self, getattr(self, "estimator_", None)):
            if hasattr(part, "n_features_in_"):
                return "features"
            if hasattr(part, "text_name_in_"):
                return "texts"
        return "features"

    @property
    def text_name(self) -> str | None:
        """Name of the column of texts that ``predict_set`` takes, if it is known."""
        for part in (self, getattr(self, "estimator_", None)):
            name = getattr(part, "text_name_in_", None)
            if name is not None:
                return str(name)
        return None

    @property
    def feature_names(self) -> tuple[Any, ...] | None:
        """Names of the features that ``predict_set`` takes, if they are known."""
        known = getattr(self, "feature_names_in_", None)
        return None if known is None else as_names(known)

    @property
    def feature_kinds(self) -> tuple[str, ...] | None:
        """What the features are, number, category or text; None if all are numbers."""
        found: tuple[str, ...] | None = getattr(self, "feature_kinds_in_", None)
        return found

    def _fills_in(self) -> bool:
        """Tell whether items without a single value are predicted: pipelines that impute do.

        Estimators do not declare this reliably, so that they are asked.
        """
        names = self.feature_names or ()
        with warnings.catch_warnings(action="ignore"):
            try:
                self.predict_proba(frame_of_nothing(names, self.feature_kinds))
            except Exception:  # whatever its parts raise
                return False
        return True

    def _known_categories(self) -> dict[str, set[Any]]:
        found: dict[str, set[Any]] = {}
        for estimator in getattr(self, "estimators_", None) or [self.estimator_]:
            for name, values in known_categories(estimator).items():
                found[name] = found.get(name, set()) | values
        return found

    def _read(
        self, X: Any, *, votes: Any = None, groups: Any = None, weights: Any = None
    ) -> Inputs:
        calibration = self._calibrated()
        if votes is not None:
            raise ValueError("votes was given, but the sets of a classifier do not use votes.")
        batches = self._predict(X)
        return calibration._inputs(batches, groups, weights)

    def _used(self) -> dict[str, set[str]]:
        trained = getattr(self, "items_", None) or ()
        return {"training": set(map(str, trained)), **self.calibration._used()}

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
        if ordinal is None:
            return labels
        return _in_scale_order(labels, estimator_classes(ordinal) is not None)

    def _predict(self, X: Any) -> list[Batch]:
        """Return the predictions that the score takes, one batch per fitted estimator."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                "This ConformalCredalClassifier is not fitted yet. Call fit first."
            )
        note_features(self, X, reset=False)
        score = get_score(self.nonconformity)
        classes = as_names(self.classes_)
        estimators = getattr(self, "estimators_", None) or [self.estimator_]
        return [predict_batch(score, estimator, X, classes) for estimator in estimators]

    def _calibrated(self) -> SplitCalibration | CrossCalibration:
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


def _in_scale_order(labels: Labels, has_names: bool) -> Labels:
    """Return labels with their columns in the order of their scale.

    The columns of an estimator without names of classes cannot follow.
    """
    order = labels.scale_order()
    if order is None:
        return labels
    if not has_names:
        levels = take_names(labels.classes or tuple(range(len(order))), order)
        raise ValueError(
            f"Y are on the scale {join_names(levels or (), 8)}, but the columns of the estimator "
            "are in another order. Fit it with names of classes, or in the order of the scale."
        )
    return labels.reorder(order)


def _warn_of_training_items(trained: tuple[Any, ...] | None, items: tuple[Any, ...] | None) -> None:
    both = set(trained or ()) & set(items or ())
    if both:
        warn(
            f"{len(both)} of {len(items or ())} items were used in fit (first: "
            f"{min(map(str, both))!r}). The guarantee "
            "needs calibration items that were not: pass other items, or use cross_conformalize."
        )
