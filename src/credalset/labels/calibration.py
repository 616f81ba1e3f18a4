"""Label sets by conformal calibration on every vote: Monte Carlo conformal prediction, and its limit without chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from credalset._typing import ArrayLike, FloatArray, RandomState
from credalset._validation import as_generator, as_positive_int, as_probability
from credalset.annotations.labels import name_array, row_names
from credalset.calibration.base import ThresholdCalibration, per_item, read_items
from credalset.calibration.conditional import with_constant
from credalset.calibration.groups import Pool
from credalset.calibration.noise import NoNoise
from credalset.calibration.part import ROUNDING, Part
from credalset.calibration.promise import COVERED, Promise
from credalset.calibration.rule import Rule
from credalset.labels.label_sets import LabelSets
from credalset.scores import Score, get_score

Target = Literal["annotator", "majority"] | float
LABEL_SCORES, SHARES = "label_scores", "shares"


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelRule(Rule):
    """A rule to which each item brings the scores of all its labels, and each label counts by its share of the votes.

    A new item brings the weight of one item, at an infinite score: it is not known which label it will get.

    Attributes
    ----------
    label_scores, shares : ndarray of shape (n, K)
        Score of each label, and its share of the item's votes.
    """

    everything: ClassVar[str] = "all labels"

    label_scores: FloatArray
    shares: FloatArray

    def part(self, pool: Pool | None) -> Part:
        """Return the labels of the items of a pool, each with its share as its weight."""
        key = None if pool is None else pool.codes
        if key not in self._parts:
            kept = self.members(pool)
            shares = self.shares[kept] if self.weights is None else self.shares[kept] * self.weights[kept, None]
            features = None
            if self.conditional is not None:
                features = np.repeat(with_constant(self.conditional.features[kept]), shares.shape[1], axis=0)
            scores = self.label_scores[kept].reshape(1, -1)
            self._parts[key] = Part(scores, np.empty((1, 0)), shares.ravel(), features)
        return self._parts[key]

    def new_weights(self, weights: Any, n: int) -> FloatArray | None:
        """Return what each of n new items counts: one, unless there are likelihood ratios."""
        found = super().new_weights(weights, n)
        return np.ones(n) if found is None else found


@dataclass(frozen=True, eq=False, repr=False)
class LabelCalibration(ThresholdCalibration[LabelSets]):
    """A score and the calibration scores of every label: what is needed to predict label sets at any level.

    Made by `credalset.labels.conformalize`.

    Attributes
    ----------
    score : Score
        The nonconformity score; that of label k is the score of the distribution in which k is certain.
    scores : ndarray of shape (n,)
        Mean score of the labels of each calibration item, in item order.
    n_classes, classes, rule, mixtures
        As in `Calibration`.
    label_scores, shares : ndarray of shape (n, K)
        Scores of all labels of the calibration items, zero where a label has no share, and their shares of the votes.
    target : "annotator", "majority" or float
        Whose label the sets contain with probability 1 − α; a number is a share of the item's annotators.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(200, n_classes=3, random_state=0)
    >>> cs.labels.conformalize(data.distributions, data.counts)
    LabelCalibration: score tv, 200 items, 3 classes, for the label of an annotator asked at random
    """

    kind: ClassVar[str] = "label calibration"

    label_scores: FloatArray = None  # type: ignore[assignment]
    shares: FloatArray = None  # type: ignore[assignment]
    target: Target = "annotator"

    def __post_init__(self) -> None:
        super().__post_init__()
        fields = {name: value for name, value in vars(self.rule).items() if not name.startswith("_")}
        fields |= {"label_scores": self.label_scores, "shares": self.shares}
        object.__setattr__(self, "rule", LabelRule(**fields))

    @property
    def promise(self) -> Promise:
        """What predicted sets contain, how surely, and what is assumed for it.

        Examples
        --------
        >>> import credalset as cs
        >>> data = cs.datasets.make_synthetic(200, random_state=0)
        >>> print(cs.labels.conformalize(data.distributions, data.counts).promise)
        the label of an annotator asked at random, with probability at least 1 - alpha on average over calibration \
sets; if items are exchangeable
        """
        return replace(self.rule.promise, covers=self.target if isinstance(self.target, str) else "share")

    def _sets_within(self, checked: FloatArray, thresholds: FloatArray, prediction: Any) -> LabelSets:
        items = row_names(prediction)
        members = self.score.label_scores(checked) <= thresholds[:, None]
        return LabelSets(members, self.classes, None if items is None else name_array(items))

    def p_values(self, prediction: ArrayLike, *, groups: Any = None, weights: Any = None) -> FloatArray:
        r"""Return the p-value of each label, (N, K): a label is in the set at level α if its p-value exceeds α.

        $p_k(x) = (1 + \sum_i \sum_y \lambda_{iy} 1\{ s(x_i, y) \ge s(x, k) \}) / (n + 1)$, the mean over draws of one
        label per item of the p-values that these labels give.

        Parameters
        ----------
        prediction, groups, weights
            As in `predict_set`.

        Examples
        --------
        >>> import credalset as cs
        >>> data = cs.datasets.make_synthetic(99, random_state=0)
        >>> calibration = cs.labels.conformalize(data.distributions, data.counts)
        >>> calibration.p_values([[0.7, 0.2, 0.1]]).round(2)
        array([[0.35, 0.08, 0.03]])
        """
        checked = self.check(prediction)
        columns = self.score.label_scores(checked).T
        ordered = per_item(prediction, groups, weights)
        found = [self.rule.p_values(column, self.score, checked, *ordered) for column in columns]
        return np.stack(found, axis=1)

    def __repr__(self) -> str:
        text = f"LabelCalibration: score {self.score.name}, {len(self)} items, {self.n_classes} classes"
        covered = COVERED[self.promise.covers].replace("the wanted share", f"a share {self.target}")
        return f"{text}{self.rule.describe()}, for {covered}"


def conformalize(
    prediction: Any,
    labels: Any,
    score: str | Score = "tv",
    *,
    target: Target = "annotator",
    n_samples: int | None = None,
    random_state: RandomState = None,
    classes: Sequence[Any] | None = None,
    groups: Any = None,
    weights: ArrayLike | None = None,
) -> LabelCalibration:
    r"""Calibrate label sets on predictions and votes that the model has not been trained on.

    The set at level α contains the label that an annotator gives to the new item with probability at least 1 − α,
    whatever the model: $P(Y \in C(x)) \ge 1 - \alpha$ for Y drawn from the votes of the item. If votes are fair
    ($E[\tilde\lambda | x, \lambda] = \lambda$), the same holds for Y drawn from the distribution behind them.

    Every label of a calibration item counts, by its share of the item's votes. Monte Carlo conformal prediction
    (Stutz, Roy, Matejovicova, Strachan, Cemgil, Doucet: *Conformal prediction under ambiguous ground truth*, 2023)
    draws ``n_samples`` labels per item instead; shares are what it tends to, without the chance.

    Parameters
    ----------
    prediction : array of shape (n, K)
        Predicted distributions.
    labels : array of shape (n, K) or Annotations
        Label distributions or annotation counts; names are matched as in `credalset.conformalize`.
    score : str or Score
        A score of the package; a label scores what the distribution in which it is certain does. ``"tv"`` is one minus
        its predicted probability, ``"ws"`` its expected distance on an ordinal scale.
    target : "annotator", "majority" or float
        Whose label the sets are to contain: that of an annotator asked at random; the one with most votes (drawn from
        those where several have); or, for a number such as 0.8, those of at least this share of the item's annotators:
        then all but a share α of the items have a set with which so many of their annotators agree.
    n_samples : int, optional
        Draw so many labels per item, rather than count each by its share; for ``target="annotator"`` only.
    random_state : int, Generator or None
        For the draws.
    classes, groups, weights
        As in `credalset.conformalize`.

    Returns
    -------
    LabelCalibration

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(700, n_classes=3, n_votes=20, random_state=0)
    >>> calibration = cs.labels.conformalize(data.distributions[:200], data.counts[:200])
    >>> sets = calibration.predict_set(data.distributions[200:], alpha=0.1)
    >>> sets
    LabelSets: 500 sets over 3 classes, 1.17 labels on average
    >>> round(float(sets.share(data.counts[200:]).mean()), 2)
    0.89
    """
    wanted, chosen = as_target(target), get_score(score)
    checked, found = read_items(chosen, prediction, labels, classes)
    groups, weights = per_item(prediction, groups, weights)
    label_scores = chosen.label_scores(checked)
    shares = labels_that_count(found.distributions, label_scores, wanted)
    if n_samples is not None:
        n_draws = as_positive_int(n_samples, "n_samples")
        if wanted != "annotator":
            raise ValueError(f"n_samples was given, but target={wanted!r} draws no labels. Leave n_samples out.")
        shares = as_generator(random_state).multinomial(n_draws, shares / shares.sum(axis=1, keepdims=True)) / n_draws
    label_scores = np.where(shares > 0.0, label_scores, 0.0)
    scores = (shares * label_scores).sum(axis=1)
    rule = Rule(scores, **Rule.beside_labels(chosen, checked, NoNoise(), groups, weights))
    own = {"label_scores": label_scores, "shares": shares, "target": wanted}
    return LabelCalibration.from_rule(chosen, checked, found, rule, **own)


def as_target(target: Any) -> Target:
    """Check whose label is to be covered."""
    if not isinstance(target, str):
        return as_probability(target, "target")
    names: dict[str, Target] = {"annotator": "annotator", "majority": "majority"}
    if target not in names:
        raise ValueError(f"target must be 'annotator', 'majority' or a share such as 0.8, but is {target!r}.")
    return names[target]


def labels_that_count(shares: FloatArray, scores: FloatArray, target: Target) -> FloatArray:
    """Return how much each label of an item counts, (n, K), rows that sum to one.

    For an annotator asked at random, that is its share of the votes; for the majority, one for the label with most. For
    a share of the annotators it is one for the label whose score a threshold must reach to let so many votes in.
    """
    if target == "annotator":
        return shares
    if target == "majority":
        top = shares == shares.max(axis=1, keepdims=True)
        return top / top.sum(axis=1, keepdims=True)
    order = np.argsort(scores, axis=1, kind="stable")
    reached = np.cumsum(np.take_along_axis(shares, order, axis=1), axis=1) >= target - ROUNDING
    last = np.take_along_axis(order, reached.argmax(axis=1)[:, None], axis=1)
    return (np.arange(shares.shape[1]) == last).astype(np.float64)
