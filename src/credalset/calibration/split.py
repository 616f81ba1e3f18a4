"""Split-conformal calibration: from predictions and labels to thresholds and credal sets."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import ArrayLike, FloatArray
from credalset._validation import (
    as_label_distributions,
    as_probability,
    check_classes,
    column_names,
)
from credalset.calibration.checks import as_noise, check_kind, kind_of
from credalset.calibration.groups import Groups
from credalset.calibration.noise import Noise, NoNoise
from credalset.calibration.quantile import (
    CoverageDistribution,
    conformal_rank,
    pac_rank,
    score_at_rank,
    smallest_alpha,
)
from credalset.calibration.rule import Rule, set_aside
from credalset.calibration.shift import as_weights
from credalset.calibration.votes import vote_counts
from credalset.exceptions import CredalSetWarning
from credalset.scores import Score, get_score
from credalset.sets.credal_set import CredalSet


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """A score and its calibration scores: everything needed to predict credal sets at any level.

    Made by `conformalize`. For a new item exchangeable with the calibration items, the set at level α contains its
    label distribution with probability at least 1 − α, whatever the model and whatever the data.

    Attributes
    ----------
    score : Score
        The nonconformity score.
    scores : ndarray of shape (n,)
        Calibration scores in increasing order.
    n_classes : int
        Number of classes K.
    classes : tuple or None
        Names of the classes in column order, when they are known.
    rule : Rule or None
        How thresholds are found when noise, groups or weights were given; None for plain split conformal.
    mixtures : bool or None
        Whether predictions are mixtures of densities, for scores that take both; None if there is one kind only.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(200, n_classes=3, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts, score="tv")
    >>> calibration
    Calibration: score tv, 200 items, 3 classes
    """

    score: Score
    scores: FloatArray
    n_classes: int
    classes: tuple[Any, ...] | None = field(default=None)
    rule: Rule | None = field(default=None)
    mixtures: bool | None = field(default=None)

    def __len__(self) -> int:
        """Number of calibration items."""
        return len(self.scores)

    def threshold(self, alpha: float) -> float:
        """Return the ⌈(n + 1)(1 − α)⌉-th smallest calibration score.

        It is ``+inf``, with a warning, when n is too small for the level: the only set with the guarantee is then the
        whole simplex.

        Parameters
        ----------
        alpha : float
            Miscoverage rate in (0, 1).
        """
        if self.rule is not None:
            return self._uniform_threshold(self.rule, alpha)
        value = score_at_rank(self.scores, conformal_rank(len(self), alpha))
        if math.isinf(value):
            self._warn_infinite(alpha)
        return value

    def thresholds(self, prediction: ArrayLike, alpha: float, *, groups: Any = None, weights: Any = None) -> FloatArray:
        """Return the threshold of each prediction, (N,); they differ with groups, weights or `UnbiasedVotes`.

        Parameters
        ----------
        prediction, alpha, groups, weights
            As in `predict_set`.
        """
        checked = self._check(prediction, None)
        as_probability(alpha, "alpha")
        if self.rule is None:
            refuse_unused(groups, weights)
            return np.full(len(checked), self.threshold(alpha))
        values = self.rule.thresholds(alpha, self.score, checked, groups, weights)
        _warn_infinite_rows(values, alpha)
        return values

    def predict_set(
        self,
        prediction: ArrayLike,
        alpha: float,
        *,
        classes: Sequence[Any] | None = None,
        groups: Any = None,
        weights: Any = None,
    ) -> CredalSet:
        """Predict the credal sets {λ : score(prediction, λ) ≤ threshold}.

        Parameters
        ----------
        prediction : array of shape (N, K)
            Predicted distributions, or Dirichlet concentrations for a second-order score.
        alpha : float
            Miscoverage rate in (0, 1); any level may be asked of the same calibration.
        classes : sequence, optional
            Names of the columns, checked against those seen in calibration. Read from the columns of a data frame.
        groups : sequence of N keys, optional
            Group of each item, if the calibration has groups of its own keys.
        weights : array of shape (N,), optional
            Likelihood ratio of each item, if the calibration is weighted.

        Returns
        -------
        CredalSet
            A batch of N sets.
        """
        checked = self._check(prediction, classes)
        thresholds = self.thresholds(checked, alpha, groups=groups, weights=weights)
        sets = replace(self.score.region(checked, thresholds), classes=self.classes)
        warn_empty(sets)
        return sets

    def p_values(
        self, prediction: ArrayLike, distribution: ArrayLike, *, groups: Any = None, weights: Any = None
    ) -> FloatArray:
        r"""Return the conformal p-value of each candidate distribution.

        p = (1 + #{calibration scores ≥ score}) / (n + 1). A distribution belongs to the set at level α exactly when its
        p-value exceeds the decimal fraction that α stands for: 1/10 for ``0.1`` and for ``1 - 0.9`` alike, although the
        latter is a slightly smaller number (see `credalset.calibration.quantile.exact_level`).

        With groups, n counts the items of the same group, and the law holds at levels at which the group has a
        threshold of its own; a set that is predicted with a warning of pooled groups may differ. With weights,
        $p = (w_{new} + \sum_{i : s_i \ge s} w_i) / (w_{new} + \sum_i w_i)$. Noise models have no p-values.

        Parameters
        ----------
        prediction : array of shape (N, K)
            Predictions, as in `predict_set`.
        distribution : array of shape (N, K)
            One candidate label distribution per prediction.
        groups, weights
            As in `predict_set`.

        Examples
        --------
        >>> import credalset as cs
        >>> data = cs.datasets.make_synthetic(99, random_state=0)
        >>> calibration = cs.conformalize(data.distributions, data.counts)
        >>> calibration.p_values([[0.5, 0.3, 0.2]], [[0.5, 0.3, 0.2]])  # nothing fits better than the prediction
        array([1.])
        """
        checked = self._check(prediction, None)
        scores = self.score(checked, distribution)
        if self.rule is not None:
            if not isinstance(self.rule.noise, NoNoise):
                self._only_plain("p_values", "noise")
            return self.rule.p_values(scores, self.score, checked, groups, weights)
        refuse_unused(groups, weights)
        at_least = len(self) - np.searchsorted(self.scores, scores, side="left")
        return (1 + at_least) / (len(self) + 1)

    def coverage_distribution(self, alpha: float, *, group: Any = None) -> CoverageDistribution:
        """Return the distribution of the coverage over calibration sets of this size, Beta(k, n + 1 − k).

        With groups it is that of one ``group``, given its size n; a group that shares a threshold has none.

        Examples
        --------
        >>> import credalset as cs
        >>> data = cs.datasets.make_synthetic(500, n_classes=3, random_state=0)
        >>> calibration = cs.conformalize(data.distributions, data.counts, score="tv")
        >>> [round(x, 3) for x in calibration.coverage_distribution(0.1).interval(0.95)]
        [0.873, 0.925]
        """
        if (group is None) != (self.rule is None or self.rule.groups is None):
            missing = (
                "is missing: coverage differs between the groups" if group is None else "was given, but there are none"
            )
            raise ValueError(f"group {missing} of this calibration. Name a group if, and only if, it has groups.")
        n = len(self) if self.rule is None else self.rule.size_of_group(group, alpha)
        return CoverageDistribution(min(conformal_rank(n, alpha), n + 1), n)

    def pac_threshold(self, alpha: float, delta: float) -> float:
        """Return a threshold whose coverage is at least 1 − α for all but a share δ of calibration sets.

        The ordinary threshold covers 1 − α on average over calibration sets; about half of them fall short by a
        little. This one is larger and falls short with probability at most δ. Use it with
        ``calibration.score.region(prediction, threshold)``.
        """
        self._only_plain("pac_threshold")
        value = score_at_rank(self.scores, pac_rank(len(self), alpha, delta))
        if math.isinf(value) and not np.isinf(self.scores).any():
            warnings.warn(
                f"The threshold is infinite: {len(self)} calibration items are too few for alpha={alpha} with "
                f"confidence 1 - delta = {1 - delta:g}. Add calibration data, or raise alpha or delta.",
                CredalSetWarning,
                stacklevel=2,
            )
        elif math.isinf(value):
            self._warn_infinite(alpha)
        return value

    def save(self, path: str | Path) -> None:
        """Write the calibration to a directory (JSON and ``.npz``, no pickle); read it with `credalset.load`."""
        from credalset.persistence.files import save_calibration

        save_calibration(self, path)

    def _check(self, prediction: ArrayLike, classes: Sequence[Any] | None) -> FloatArray:
        named = classes if classes is not None else column_names(prediction)
        check_classes(named, self.classes, "prediction", "the calibration data")
        checked = self.score.check_prediction(prediction, n_classes=self.n_classes)
        check_kind(checked, self.mixtures, "prediction")
        return checked

    def _thresholds_quietly(self, prediction: FloatArray, alpha: float) -> FloatArray:
        """Return the thresholds of valid predictions without warnings, for levels that no user chose."""
        if self.rule is None:
            return np.full(len(prediction), score_at_rank(self.scores, conformal_rank(len(self), alpha)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CredalSetWarning)
            return self.rule.thresholds(alpha, self.score, prediction)

    def _uniform_threshold(self, rule: Rule, alpha: float) -> float:
        if not rule.is_uniform:
            raise ValueError(
                "thresholds differ from item to item in this calibration, so there is no single one. "
                "Use thresholds(prediction, alpha), with the groups and weights of the items if it has them."
            )
        as_probability(alpha, "alpha")
        value = rule.thresholds(alpha, self.score, np.full((1, self.n_classes), 1.0 / self.n_classes))
        _warn_infinite_rows(value, alpha)
        return float(value[0])

    def _only_plain(self, what: str, without: str = "noise, groups or weights") -> None:
        if self.rule is not None:
            raise ValueError(
                f"{what} is defined for plain split calibration, without {without}. "
                f"Calibrate without, or ask predict_set(...).contains(...) at the level you need."
            )

    def _warn_infinite(self, alpha: float) -> None:
        n_infinite = int(np.isinf(self.scores).sum())
        if n_infinite and conformal_rank(len(self), alpha) <= len(self):
            reason = (
                f"{n_infinite} of {len(self)} calibration scores are infinite ({_WHY_INFINITE[self.score.order]}, "
                "or use another score"
            )
        else:
            reason = (
                f"{len(self)} calibration items are too few for alpha={alpha}; "
                f"the smallest level they support is {smallest_alpha(len(self)):.4g}. Add calibration data"
            )
        warnings.warn(
            f"The threshold is infinite and every set is the whole simplex: {reason}.", CredalSetWarning, stacklevel=3
        )

    def __repr__(self) -> str:
        text = f"Calibration: score {self.score.name}, {len(self)} items, {self.n_classes} classes"
        return text if self.rule is None else text + self.rule.describe()


def conformalize(
    prediction: ArrayLike,
    labels: Any,
    score: str | Score = "tv",
    *,
    classes: Sequence[Any] | None = None,
    noise: Noise | None = None,
    groups: Any = None,
    weights: ArrayLike | None = None,
) -> Calibration:
    """Calibrate a score on predictions and labels that the model has not been trained on.

    Parameters
    ----------
    prediction : array of shape (n, K)
        Predicted distributions, or Dirichlet concentrations (≥ 1) for a second-order score.
    labels : array of shape (n, K) or Annotations
        Label distributions (rows sum to one) or annotation counts (whole numbers).
    score : str or Score
        ``"tv"``, ``"ws"``, ``"kl"``, ``"inner"``, ``"so"``, ``"density"``, or an object from `credalset.scores`.
    classes : sequence, optional
        Names of the classes in column order. Taken from `Annotations` or from data frame columns when not given, and
        checked again at prediction time.
    noise : BoundedNoise, AnnotatorSampling or UnbiasedVotes, optional
        Cover the distribution behind the votes rather than their shares.
    groups : sequence of n keys, or "predicted", optional
        Hold the guarantee within each group. ``"predicted"`` groups by the class with the largest prediction; any other
        keys are passed to ``predict_set`` for the new items too. Groups too small for α share a threshold.
    weights : array of shape (n,), optional
        Likelihood ratios, for new items whose features are distributed differently (covariate shift).

    Returns
    -------
    Calibration

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(300, n_classes=3, n_votes=20, random_state=0)
    >>> calibration = cs.conformalize(data.distributions[:200], data.counts[:200], score="tv")
    >>> sets = calibration.predict_set(data.distributions[200:], alpha=0.1)
    >>> sets.contains(data.counts[200:] / 20).mean() >= 0.8
    np.True_
    >>> cs.conformalize(data.distributions, data.counts, noise=cs.UnbiasedVotes(), groups="predicted")
    Calibration: score tv, 300 items, 3 classes, noise UnbiasedVotes(s=None, tuning=0.2), 3 groups
    """
    chosen = get_score(score)
    named = agreed_classes(classes, prediction, labels)
    checked = chosen.check_prediction(prediction)
    distributions = as_label_distributions(labels, "labels")
    chosen.check_pairs(checked, distributions)
    if len(checked) == 0:
        raise ValueError("prediction and labels are empty: calibration needs at least one item.")
    n_classes = chosen.n_classes(checked)
    if named is not None and len(named) != n_classes:
        raise ValueError(f"classes names {len(named)} classes, but prediction has {n_classes} columns.")
    scores = np.sort(chosen(checked, distributions))
    rule = build_rule(chosen, checked, distributions, labels, noise, groups, weights)
    return Calibration(chosen, scores, n_classes, named, rule, kind_of(chosen, checked))


def build_rule(
    score: Score, prediction: FloatArray, distributions: FloatArray, labels: Any, noise: Any, groups: Any, weights: Any
) -> Rule | None:
    """Work out what noise, groups and weights make of the calibration items; None if there are none of them."""
    if noise is None and groups is None and weights is None:
        return None
    model = as_noise(noise)
    model.check_score(score, prediction)
    evidence = vote_counts(labels, "labels", type(model).__name__) if model.needs_counts else distributions
    n = len(prediction)
    return Rule(
        bounds=model.bounds(score, prediction, evidence),
        tuning=set_aside(n, model.tuning),
        noise=model,
        weights=None if weights is None else as_weights(weights, n),
        groups=None if groups is None else Groups.read(groups, score, prediction),
    )


_WHY_INFINITE = {
    "first": "labels on classes that the prediction gives probability zero). Smooth the predictions",
    "second": "labels without a vote on classes that the predicted density rules out there). Smooth the labels",
}


def agreed_classes(classes: Sequence[Any] | None, prediction: Any, labels: Any) -> tuple[Any, ...] | None:
    """Return the class names, from whichever argument knows them, refusing any two that differ."""
    of_labels = getattr(labels, "classes", None)
    sources = [
        ("classes", classes),
        ("prediction", column_names(prediction)),
        ("labels", of_labels if of_labels is not None else column_names(labels)),
    ]
    known = [(name, tuple(names)) for name, names in sources if names is not None]
    for name, names in known:
        if len(set(names)) < len(names):
            raise ValueError(f"{name} names a class twice: {list(names)}. Give each class a name of its own.")
        check_classes(names, known[0][1], name, known[0][0])
    return known[0][1] if known else None


def warn_empty(sets: CredalSet) -> None:
    """Warn of sets without members."""
    n_empty = int(sets.is_empty().sum())
    if n_empty:
        warnings.warn(
            f"{n_empty} of {len(sets)} credal sets are empty: no distribution scores below the threshold for these "
            "predictions. The coverage guarantee still holds on average; sets.is_empty() tells which they are.",
            CredalSetWarning,
            stacklevel=3,
        )


def _warn_infinite_rows(thresholds: FloatArray, alpha: float) -> None:
    n_infinite = int(np.isinf(thresholds).sum())
    if n_infinite:
        warnings.warn(
            f"{n_infinite} of {len(thresholds)} thresholds are infinite at alpha={alpha} and their sets the whole "
            "simplex: too few items for this level (in the group, or in weight), calibration scores that are infinite, "
            "or, with UnbiasedVotes, a score that is unbounded for the prediction. Add data, raise alpha, smooth the "
            "predictions, or use a bounded score.",
            CredalSetWarning,
            stacklevel=4,
        )


def refuse_unused(groups: Any, weights: Any) -> None:
    """Refuse groups and weights that a plain calibration would ignore."""
    for name, value in (("groups", groups), ("weights", weights)):
        if value is not None:
            raise ValueError(f"{name} was given, but the calibration has none. Pass {name} to conformalize too.")
