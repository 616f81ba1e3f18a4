"""Split-conformal calibration: from predictions and votes to thresholds and credal sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from credalset._display import join_names
from credalset._typing import AnyArray, ArrayLike, FloatArray, Prediction
from credalset._validation import freeze
from credalset.calibration.base import (
    CalibrationItems,
    Inputs,
    ScoreCalibration,
    as_level,
    read_items,
)
from credalset.calibration.levels import (
    CoverageDistribution,
    conformal_rank,
    exact_level,
    pac_rank,
    score_at_rank,
)
from credalset.calibration.noise import Columns, Fit, Noise, NoNoise
from credalset.calibration.thresholds import Thresholds
from credalset.exceptions import warn
from credalset.scores import Score, get_score
from credalset.sets.credal_set import CredalSet


@dataclass(frozen=True, eq=False, repr=False)
class SplitCalibration(ScoreCalibration):
    """Calibrated score that predicts sets at any miscoverage rate α; returned by `conformalize`.

    For a new item that is exchangeable with the calibration items, the set at level α contains the
    *recorded* label distribution (the shares of the votes that would be recorded for the item) with
    probability at least 1 − α, for any model and any distribution of the data. With a noise model,
    the set contains the *true* label distribution with probability at least 1 − α under the
    assumptions of that model. The attribute ``guarantee`` states what is covered and under which
    assumptions.

    Attributes
    ----------
    score : Score
        The nonconformity score.
    scores : ndarray of shape (n,)
        Calibration scores in increasing order.
    n_classes : int
        Number of classes K.
    classes : tuple or None
        Names of the classes in column order, if they are known.
    items : tuple or None
        Names of the calibration items, if they are known.
    guarantee : Guarantee
        What predicted sets contain, for which items, and under which assumptions.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(200, n_classes=3, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts)
    >>> calibration
    SplitCalibration: score kl, 200 items, 3 classes
    >>> print(calibration.guarantee)
    Sets contain the recorded label distribution with probability at least 1 - alpha on average
    over calibration sets. Assumptions: items are exchangeable; new items get as many votes as
    calibration items.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "scores", np.sort(self.scores))
        freeze(self, "scores")

    def threshold(self, alpha: float = 0.1) -> float:
        """Return the ⌈(n + 1)(1 − α)⌉-th smallest calibration score, or the model's threshold.

        The threshold is ``+inf``, with a warning, if n is too small for this level. The set is then
        the whole simplex. A calibration with groups, weights or `UnbiasedVotes` has no single
        threshold and raises a ``ValueError``.

        Parameters
        ----------
        alpha : float
            Miscoverage rate in (0, 1).

        Returns
        -------
        float
            The threshold that all items share.
        """
        level = as_level(alpha)
        if not self.fitted.is_uniform:
            raise ValueError(
                "thresholds differ between items in this calibration. Use "
                "thresholds(predictions, alpha), with the groups and weights of the items if it "
                "has them."
            )
        # A threshold that all items share depends on no prediction.
        stand_in = np.full((1, self.n_classes), 1.0 / self.n_classes)
        codes = np.zeros(1, dtype=np.int64)
        found = self.fitted.thresholds(level, stand_in, codes)
        self.fitted.warn_infinite(found, codes, level, self.score)
        return float(found[0])

    def _sets(self, inputs: Inputs, thresholds: FloatArray) -> CredalSet:
        sets = self.score._region(inputs.prediction, thresholds)
        return replace(sets, classes=self.classes, items=inputs.batch.items)

    def p_values(
        self, predictions: Any, distributions: Any, *, groups: Any = None, weights: Any = None
    ) -> FloatArray:
        r"""Return the conformal p-value of each candidate distribution.

        p = (1 + #{calibration scores ≥ score}) / (n + 1). A distribution belongs to the set at
        level α if and only if its p-value exceeds α. The level is read as a decimal fraction: both
        ``0.1`` and ``1 - 0.9`` mean exactly 1/10.

        With groups, n is the number of items of the same group. With weights, $p = (w_{new} +
        \sum_{i : s_i \ge s} w_i) / (w_{new} + \sum_i w_i)$. Calibrations with a noise model or
        with `Conditional` have no p-values.

        Parameters
        ----------
        predictions : array or data frame of shape (N, K)
            Predictions, as in `predict_set`.
        distributions : array or data frame of shape (N, K), or Annotations
            One candidate per prediction: a distribution, or counts of votes.
        groups, weights
            As in `predict_set`.

        Returns
        -------
        ndarray of shape (N,)
            The p-values.

        Examples
        --------
        >>> import credalset as cs
        >>> data = cs.datasets.make_synthetic(99, random_state=0)
        >>> calibration = cs.conformalize(data.distributions, data.counts)
        >>> shares = [[0.5, 0.3, 0.2]]
        >>> calibration.p_values(shares, shares)  # nothing fits better than the prediction
        array([1.])
        """
        if not self.fitted.has_p_values:
            self._refuse("p_values", "noise model or features")
        inputs = self._read(predictions, groups=groups, weights=weights)
        candidates = inputs.batch.votes(distributions, "distributions").distributions
        found = self._p_of_scores(inputs, self.score.evaluate_rows(inputs.prediction, candidates))
        assert found is not None
        return found

    def _p_of_scores(self, inputs: Inputs, scores: FloatArray) -> FloatArray | None:
        if not self.fitted.has_p_values:
            return None
        return self.fitted.p_values(scores[:, None], inputs.codes, inputs.columns)[:, 0]

    def coverage_distribution(
        self, alpha: float = 0.1, *, group: Any = None
    ) -> CoverageDistribution:
        """Return the distribution of the coverage over calibration sets, Beta(k, n + 1 − k).

        Items must be independent and scores must have no ties; with ties the coverage is larger.
        With groups, n is the number of calibration items in ``group``. Calibrations with a noise
        model, weights or `Conditional` raise a ``ValueError``.

        Parameters
        ----------
        alpha : float
            Miscoverage rate in (0, 1).
        group : key, optional
            Key of one group; required if the calibration has groups.

        Returns
        -------
        CoverageDistribution
            The distribution of the coverage, with mean, quantiles and intervals.

        Examples
        --------
        >>> import credalset as cs
        >>> data = cs.datasets.make_synthetic(500, n_classes=3, random_state=0)
        >>> calibration = cs.conformalize(data.distributions, data.counts)
        >>> [round(x, 3) for x in calibration.coverage_distribution(0.1).interval(0.95)]
        [0.873, 0.925]
        """
        level = as_level(alpha)
        return self._coverage_distribution(level, group)

    def _coverage_distribution(self, level: Fraction, group: Any) -> CoverageDistribution:
        if group is None and self.groups is not None:
            raise ValueError(
                "group is missing, and coverage differs between groups. Pass the key of one group."
            )
        if group is not None and group not in (self.groups or ()):
            raise ValueError(
                f"group must be one of {join_names(self.groups or ())}, but is {group!r}."
            )
        if not self._knows_coverage:
            self._refuse("coverage_distribution", "noise model, weights or features")
        n = self.fitted.size(0 if self.groups is None else self.groups.index(group))
        return CoverageDistribution(min(conformal_rank(n, level), n + 1), n)

    @property
    def _knows_coverage(self) -> bool:
        plain = isinstance(self.noise, NoNoise) and not self.fitted.weighted
        return plain and self.features is None

    def _coverage_of(
        self, inputs: Inputs, alpha: float, rows: AnyArray
    ) -> list[tuple[CoverageDistribution, int]] | None:
        if not self._knows_coverage:
            return None
        level = exact_level(alpha)
        if self.groups is None:
            return [(self._coverage_distribution(level, None), len(rows))]
        codes = inputs.codes[rows]
        if (codes < 0).any():  # whole simplices, which cover everything
            return None
        numbers = Counter(codes.tolist())
        return [
            (self._coverage_distribution(level, self.groups[code]), number)
            for code, number in sorted(numbers.items())
        ]

    def pac_threshold(self, alpha: float, delta: float) -> float:
        """Return a threshold of coverage at least 1 − α with probability at least 1 − δ.

        The probability is over calibration sets.

        The threshold that `threshold` returns covers 1 − α on average over calibration sets, and
        slightly less for about half of them. This threshold is larger. Use it with
        ``calibration.score.region(prediction, threshold)``. Calibrations with a noise model,
        groups, weights or `Conditional` raise a ``ValueError``.

        Parameters
        ----------
        alpha : float
            Miscoverage rate in (0, 1).
        delta : float
            Largest probability, over calibration sets, that the coverage is below 1 − α.

        Returns
        -------
        float
            The threshold; ``+inf``, with a warning, if there are too few calibration items.
        """
        if not isinstance(self.noise, NoNoise) or not self.fitted.is_uniform:
            self._refuse("pac_threshold", "noise model, groups, weights or features")
        value = score_at_rank(self.scores, pac_rank(len(self), alpha, delta))
        if np.isinf(value):
            warn(
                f"the threshold is infinite, because {len(self)} calibration items are too few "
                f"for alpha={alpha} and "
                f"delta={delta}, or have infinite scores. Add data, or raise alpha or delta."
            )
        return value

    def _refuse(self, what: str, uses: str) -> NoReturn:
        raise ValueError(
            f"{what} is defined for calibrations without {uses}. Use "
            "predict_set(...).contains(...) instead."
        )


def conformalize(
    predictions: Any,
    votes: Any,
    score: str | Score = "kl",
    *,
    classes: Sequence[Any] | None = None,
    noise: Noise | str | None = None,
    groups: Any = None,
    weights: ArrayLike | None = None,
) -> SplitCalibration:
    """Calibrate a score on items that the model was not trained on.

    For a new item that is exchangeable with these items, the predicted set contains the recorded
    label distribution (the shares of the votes that would be recorded) with probability at least
    1 − α. With a noise model, the set contains the true label distribution with this probability
    under the assumptions of the model.

    Parameters
    ----------
    predictions : array or data frame of shape (n, K)
        Predicted distributions, or Dirichlet concentrations (≥ 1) for a second-order score.
    votes : array or data frame of shape (n, K), or Annotations
        Annotation counts (whole numbers) or label distributions (rows sum to one). Names of items
        and classes (the index and columns of a data frame, or those of `Annotations`) are matched
        with those of the predictions. Without names, rows and columns are in the order in which
        the predictions are passed.
    score : str or Score
        Name of a score (`get_score` lists them), or an object from `credalset.scores`.
    classes : sequence, optional
        Names of the classes: of the columns of an array, or the order wanted for those of a data
        frame. The columns of later predictions are matched with these names.
    noise : FewVotes, AnnotatorSampling, UnbiasedVotes or BoundedNoise, optional
        Noise model, to cover the true label distribution, from which the votes are drawn, instead
        of the recorded one.
    groups : sequence of n keys, "predicted" or Conditional, optional
        Groups within which coverage is guaranteed. ``"predicted"`` groups items by the class with
        the largest predicted probability. Other keys must also be passed to ``predict_set`` for new
        items. The sets of a group with fewer than about 1 / α items are the whole simplex, with a
        warning. Pass overlapping groups or numeric features as ``Conditional(features)``.
    weights : array of shape (n,), optional
        Likelihood ratios, for new items with a different distribution of features (covariate
        shift).

    Returns
    -------
    SplitCalibration
        The calibrated score, which predicts credal sets.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(300, n_classes=3, n_votes=20, random_state=0)
    >>> calibration = cs.conformalize(data.distributions[:200], data.counts[:200])
    >>> sets = calibration.predict_set(data.distributions[200:], alpha=0.1)
    >>> sets.contains(data.counts[200:] / 20).mean() >= 0.8
    np.True_
    >>> noise = cs.UnbiasedVotes()
    >>> cs.conformalize(data.distributions, data.counts, "tv", noise=noise, groups="predicted")
    SplitCalibration: score tv, 300 items, 3 classes, noise UnbiasedVotes(s=None, tuning=0.2), \
3 groups
    """
    found = read_items(
        get_score(score), predictions, votes, classes, noise=noise, groups=groups, weights=weights
    )
    return calibrate(found)


def calibrate(found: CalibrationItems) -> SplitCalibration:
    """Calibrate on items that are read and valid."""
    scores = found.score.evaluate_rows(found.prediction, found.labels.distributions)
    return SplitCalibration(
        found.score,
        scores,
        found.n_classes,
        fit_thresholds(found, scores),
        classes=found.batch.classes,
        items=found.batch.items,
    )


def fit_thresholds(found: CalibrationItems, scores: FloatArray) -> Thresholds:
    """Fit the noise model to valid items with these scores, separately in each group."""
    score = found.score
    prediction: Prediction = found.prediction
    noise = found.options.noise
    noise.check_score(score, prediction)

    def fit(rows: Any, columns: Columns) -> Fit:
        return noise.fit(score, prediction[rows], found.labels[rows], scores[rows], columns)

    return Thresholds.build(found.options, score, prediction, fit)
