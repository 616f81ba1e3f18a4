"""Split-conformal calibration: from predictions and labels to thresholds and credal sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NoReturn

import numpy as np

from credalset._guessing import explained
from credalset._typing import ArrayLike, FloatArray
from credalset.annotations.labels import shown
from credalset.calibration.base import ThresholdCalibration, as_level, per_item, read_items
from credalset.calibration.noise import Noise
from credalset.calibration.promise import Promise
from credalset.calibration.quantile import CoverageDistribution, conformal_rank, pac_rank, score_at_rank
from credalset.calibration.rule import Rule
from credalset.exceptions import warn
from credalset.scores import Score, get_score
from credalset.sets.credal_set import CredalSet


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(ThresholdCalibration[CredalSet]):
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
    rule : Rule
        How thresholds are found: what noise, groups and weights make of the scores.
    mixtures : bool or None
        Whether predictions are mixtures of densities, for scores that take both; None if there is one kind only.
    seen : ndarray of uint64
        Digests of the names of the items that trained and calibrated, by which they are known again where coverage is
        observed; without names, one of all rows together.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(200, n_classes=3, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts, score="tv")
    >>> calibration
    Calibration: score tv, 200 items, 3 classes
    """

    kind: ClassVar[str] = "calibration"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "scores", np.sort(self.scores))

    def threshold(self, alpha: float = 0.1) -> float:
        """Return the ⌈(n + 1)(1 − α)⌉-th smallest calibration score.

        It is ``+inf``, with a warning, when n is too small for the level: the only set with the guarantee is then the
        whole simplex.

        Parameters
        ----------
        alpha : float
            Miscoverage rate in (0, 1).
        """
        level = as_level(alpha)
        if not self.rule.is_uniform:
            raise ValueError(
                "thresholds differ from item to item in this calibration, so there is no single one. "
                "Use thresholds(prediction, alpha), with the groups and weights of the items if it has them."
            )
        return float(self.rule.thresholds(level, self.score, np.full((1, self.n_classes), 1.0 / self.n_classes))[0])

    def _sets_within(self, checked: FloatArray, thresholds: FloatArray, prediction: Any) -> CredalSet:
        return self._named(self.score._region(checked, thresholds), prediction)

    @property
    def promise(self) -> Promise:
        """What predicted sets contain, how surely, and what is assumed for it.

        Examples
        --------
        >>> import credalset as cs
        >>> data = cs.datasets.make_synthetic(200, random_state=0)
        >>> cs.conformalize(data.distributions, data.counts).promise
        Promise(covers='votes', delta=None, items='exchangeable', votes='', within='')
        """
        return self.rule.promise

    def p_values(
        self, prediction: ArrayLike, distribution: Any, *, groups: Any = None, weights: Any = None
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
        distribution : array of shape (N, K) or Annotations
            One candidate label distribution per prediction, or annotation counts.
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
        if self.rule.is_noisy:
            self._refuse("p_values", "without noise")
        checked = self.check(prediction)
        candidates = self.read_labels(distribution, "distribution", prediction).distributions
        self.score.check_pairs(checked, candidates, "distribution")
        values = self.score.evaluate_rows(checked, candidates)
        return self.rule.p_values(values, self.score, checked, *per_item(prediction, groups, weights))

    def coverage_distribution(self, alpha: float = 0.1, *, group: Any = None) -> CoverageDistribution:
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
        level = as_level(alpha)
        if (group is None) != (self.rule.groups is None):
            missing = (
                "is missing: coverage differs between the groups" if group is None else "was given, but there are none"
            )
            raise ValueError(f"group {missing} of this calibration. Name a group if, and only if, it has groups.")
        if self.rule.is_noisy or self.rule.weights is not None or self.rule.conditional is not None:
            self._refuse("coverage_distribution", "and within groups, without noise or weights")
        n = len(self) if group is None else self._size_of(group, level)
        return CoverageDistribution(min(conformal_rank(n, level), n + 1), n)

    def _size_of(self, group: Any, alpha: Fraction) -> int:
        pool = self.rule.pool(group, alpha)
        if pool.small:
            verb = "is" if len(pool.small) == 1 else "are"
            raise ValueError(
                f"group {group!r} has no threshold of its own at alpha={float(alpha):g}: {shown(pool.small)} {verb} "
                "too small for one, so its coverage follows no known law. Raise alpha, or ask for another group."
            )
        return int(self.rule.members(pool).sum())

    def pac_threshold(self, alpha: float, delta: float) -> float:
        """Return a threshold whose coverage is at least 1 − α for all but a share δ of calibration sets.

        The ordinary threshold covers 1 − α on average over calibration sets; about half of them fall short by a
        little. This one is larger and falls short with probability at most δ. Use it with
        ``calibration.score.region(prediction, threshold)``.
        """
        if not self.rule.is_plain:
            self._refuse("pac_threshold", "without noise, groups or weights")
        rank = pac_rank(len(self), alpha, delta)
        value = score_at_rank(self.scores, rank)
        if rank > len(self):
            warn(
                f"The threshold is infinite: {len(self)} calibration items are too few for alpha={alpha} with "
                f"confidence 1 - delta = {1 - delta:g}. Add calibration data, or raise alpha or delta."
            )
        else:
            self.rule.warn_infinite(np.array([value]), as_level(alpha))
        return value

    def _refuse(self, what: str, where: str) -> NoReturn:
        raise ValueError(
            f"{what} is defined for plain split calibration, {where}. "
            "Calibrate without, or ask predict_set(...).contains(...) at the level you need."
        )

    def __repr__(self) -> str:
        text = f"Calibration: score {self.score.name}, {len(self)} items, {self.n_classes} classes"
        return text + self.rule.describe()


@explained
def conformalize(
    prediction: Any,
    labels: Any,
    score: str | Score = "tv",
    *,
    classes: Sequence[Any] | None = None,
    noise: Noise | str | None = None,
    groups: Any = None,
    weights: ArrayLike | None = None,
) -> Calibration:
    """Calibrate a score on predictions and labels that the model has not been trained on.

    Parameters
    ----------
    prediction : array of shape (n, K)
        Predicted distributions, or Dirichlet concentrations (≥ 1) for a second-order score.
    labels : array of shape (n, K) or Annotations
        Label distributions (rows sum to one) or annotation counts (whole numbers). Rows and columns are matched with
        those of the predictions by name where both have names (the index and the columns of a frame, the items and
        classes of `Annotations`), else by position.
    score : str or Score
        ``"tv"``, ``"ws"``, ``"kl"``, ``"inner"``, ``"so"``, ``"density"``, or an object from `credalset.scores`.
    classes : sequence, optional
        Names of the classes in column order. Taken from data frame columns or from `Annotations` when not given, and
        matched again at prediction time.
    noise : FewVotes, AnnotatorSampling, UnbiasedVotes or BoundedNoise, optional
        Cover the distribution behind the votes rather than their shares.
    groups : sequence of n keys, "predicted" or Conditional, optional
        Hold the guarantee within each group. ``"predicted"`` groups by the class with the largest prediction; any other
        keys are passed to ``predict_set`` for the new items too. Groups too small for α share a threshold. Groups that
        overlap, and features, are passed as ``Conditional(features)``.
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
    checked, found = read_items(chosen, prediction, labels, classes)
    rule = Rule.build(chosen, checked, found, noise, *per_item(prediction, groups, weights))
    return Calibration.from_rule(chosen, checked, found, rule)
