"""Sets of labels, for systems that need labels rather than distributions.

`conformalize` calibrates label sets that contain the label of an annotator asked at random, or the
majority label, with probability at least 1 − α. `majority_labels` and `annotator_labels` derive
label sets from credal sets, whose guarantee they inherit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from credalset._batch import Batch, Names, read, take_names
from credalset._display import join_names
from credalset._predictions import Named
from credalset._typing import ArrayLike, BoolArray, FloatArray, IntArray, RandomState
from credalset._validation import as_distributions, as_generator, as_names, as_probability
from credalset.acceptance.cases import Cases, Seen, evaluate_cases
from credalset.acceptance.losses import Beliefs, Loss
from credalset.acceptance.rule import AcceptRule, Claim, keys_of, make_rule, read_codes
from credalset.calibration.base import Inputs, ScoreCalibration, Support, read_items
from credalset.calibration.noise import (
    COVERED,
    ROUNDING,
    Columns,
    Fit,
    Guarantee,
    NoNoise,
    Quantile,
)
from credalset.calibration.thresholds import Thresholds
from credalset.exceptions import need, warn
from credalset.scores import Score, get_score
from credalset.sets.columns import label_lists
from credalset.sets.credal_set import CredalSet

__all__ = [
    "LabelCalibration",
    "LabelSets",
    "accept",
    "annotator_labels",
    "conformalize",
    "majority_labels",
]


def __dir__() -> list[str]:
    return list(__all__)


Target = Literal["annotator", "majority"] | float
TIE = 1e-9  # tolerance in comparisons with the wanted share


@dataclass(frozen=True, eq=False, repr=False)
class LabelSets(Named):
    """N sets of labels over K classes.

    Attributes
    ----------
    members : ndarray of shape (N, K)
        Whether each label is in the set.
    classes : tuple or None
        Names of the classes in column order, if they are known.
    items : tuple or None
        Names of the items, if they are known.

    Examples
    --------
    >>> import numpy as np
    >>> from credalset.labels import LabelSets
    >>> mask = np.array([[True, True, False], [False, True, False]])
    >>> sets = LabelSets(mask, ("fine", "rude", "hateful"))
    >>> sets
    LabelSets: 2 sets over 3 classes, 1.5 labels on average
    >>> sets.names()
    [['fine', 'rude'], ['rude']]
    >>> sets.contains(["hateful", "rude"])
    array([False,  True])
    >>> sets.share([[5, 3, 2], [1, 8, 1]])  # of each item's votes
    array([0.8, 0.8])
    """

    members: BoolArray
    classes: Names | None = None
    items: Names | None = None

    def __len__(self) -> int:
        """Number of sets."""
        return len(self.members)

    def __getitem__(self, rows: Any) -> LabelSets:
        """Return some of the sets; one set is a batch of one."""
        which: Any = [rows] if isinstance(rows, int | np.integer) else rows
        return replace(self, members=self.members[which], items=take_names(self.items, which))

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.members.shape[1])

    def sizes(self) -> IntArray:
        """Return the number of labels in each set, (N,)."""
        return self.members.sum(axis=1)

    def is_empty(self) -> BoolArray:
        """Return which sets have no labels, (N,)."""
        return np.asarray(~self.members.any(axis=1))

    def names(self) -> list[list[Any]]:
        """Return the names of the labels in each set.

        Returns
        -------
        list of N lists
            Class numbers 0, 1, …, K − 1 if the classes have no names.
        """
        return label_lists(self.members, self._names())

    def contains(self, labels: Any) -> BoolArray:
        """Return whether the label of each item is in its set, (N,).

        Parameters
        ----------
        labels : sequence of N labels
            Names of classes, or their numbers if classes have no names.
        """
        wanted = self._batch.column(labels, "labels")
        position = {name: k for k, name in enumerate(self._names())}
        unknown = [name for name in dict.fromkeys(as_names(wanted)) if name not in position]
        if unknown:
            raise ValueError(
                f"labels holds {join_names(unknown)}, but the classes are {join_names(position)}."
            )
        columns = np.array([position[name] for name in as_names(wanted)], dtype=np.int64)
        return self.members[np.arange(len(self)), columns]

    def share(self, votes: Any) -> FloatArray:
        """Return the share of each item's votes that its set contains, (N,).

        The mean over items is the coverage of the label of an annotator asked at random.

        Parameters
        ----------
        votes : array or data frame of shape (N, K), or Annotations
            Annotation counts or label distributions; classes and items are matched by name.
        """
        return (self._batch.votes(votes).distributions * self.members).sum(axis=1)

    @property
    def _batch(self) -> Batch:
        """The items and classes, for whatever is compared with the sets."""
        return Batch(self, self.n_classes, self.items, self.classes, name="the sets")

    def to_frame(self) -> Any:
        """Return a data frame, a row per set: the item, names of its labels, and their number."""
        items = list(range(len(self))) if self.items is None else self.items
        return need("pandas").DataFrame(
            {"item": items, "labels": self.names(), "n_labels": self.sizes()}
        )

    def _names(self) -> tuple[Any, ...]:
        return tuple(range(self.n_classes)) if self.classes is None else self.classes

    def __repr__(self) -> str:
        text = f"LabelSets: {len(self)} sets over {self.n_classes} classes"
        n_empty = int(self.is_empty().sum())
        text += f", {self.sizes().mean():.3g} labels on average" if len(self) else ""
        return text + (f", {n_empty} empty" if n_empty else "")


@dataclass(frozen=True, eq=False, repr=False)
class LabelCalibration(ScoreCalibration):
    """Calibrated thresholds for label sets at any level, as `labels.conformalize` returns.

    For a new item that is exchangeable with the calibration items, the set at level α contains what
    ``target`` names with probability at least 1 − α: the label of an annotator drawn at random from
    the recorded votes, the label with most recorded votes, or the labels of at least the wanted
    share of the recorded votes. If votes are unbiased given all other items, the first of these
    also holds for a label drawn from the true distribution.

    Attributes
    ----------
    score : Score
        The nonconformity score. The score of label k is that of the distribution with all mass on
        k.
    scores : ndarray of shape (n,)
        Mean score of the labels of each calibration item.
    n_classes : int
        Number of classes K.
    classes : tuple or None
        Names of the classes in column order, if they are known.
    items : tuple or None
        Names of the calibration items, if they are known.
    guarantee : Guarantee
        What predicted sets contain, for which items, and under which assumptions.
    target : "annotator", "majority" or float
        Whose label the sets contain with probability at least 1 − α; a number is a share of the
        item's annotators.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(200, n_classes=3, random_state=0)
    >>> calibration = cs.labels.conformalize(data.distributions, data.counts)
    >>> calibration
    LabelCalibration: score kl, 200 items, 3 classes, for the label of an annotator asked at random
    >>> print(calibration.guarantee)
    Sets contain the label of an annotator asked at random with probability at least 1 - alpha
    on average over calibration sets. Assumptions: items are exchangeable.
    """

    target: Target = field(default="annotator", kw_only=True)
    predicts: ClassVar[Literal["distributions", "labels"]] = "labels"

    def __post_init__(self) -> None:
        super().__post_init__()
        as_target(self.target)
        if not all(
            isinstance(fit, Quantile) and fit.weights is not None for fit in self.fitted.fits
        ):
            raise ValueError(
                "fitted must hold quantiles of the scores of labels, weighted by their shares."
            )

    @property
    def guarantee(self) -> Guarantee:
        """What predicted sets contain, for which items, and under which assumptions."""
        known = replace(
            self.fitted.guarantee, covers=self.target if isinstance(self.target, str) else "share"
        )
        return replace(known, votes="") if self.target == "annotator" else known

    @property
    def supports(self) -> frozenset[Support]:
        """What the calibration takes or computes beyond predictions and a level."""
        found: set[Support] = {"groups", "weights"}
        if self.features is None:
            found.add("p_values")
        return frozenset(found)

    def _sets(self, inputs: Inputs, thresholds: FloatArray) -> LabelSets:
        members = self.score.label_scores(inputs.prediction) <= thresholds[:, None]
        return LabelSets(members, self.classes, inputs.batch.items)

    def p_values(self, predictions: Any, *, groups: Any = None, weights: Any = None) -> FloatArray:
        r"""Return the p-value of each label, (N, K): one above α puts it into the set at level α.

        $p_k(x) = (1 + \sum_i \sum_y \lambda_{iy} 1\{ s(x_i, y) \ge s(x, k) \}) / (n + 1)$ is
        the expected p-value if one label per calibration item is drawn from its votes.

        Parameters
        ----------
        predictions, groups, weights
            As in `predict_set`.

        Examples
        --------
        >>> import credalset as cs
        >>> data = cs.datasets.make_synthetic(99, random_state=0)
        >>> calibration = cs.labels.conformalize(data.distributions, data.counts)
        >>> calibration.p_values([[0.7, 0.2, 0.1]]).round(2)
        array([[0.35, 0.08, 0.03]])
        """
        if self.features is not None:
            raise ValueError(
                "p_values has no meaning with features. Ask predict_set at the level you need."
            )
        inputs = self._read(predictions, groups=groups, weights=weights)
        values = self.score.label_scores(inputs.prediction)
        return self.fitted.p_values(values, inputs.codes, inputs.columns)

    def __repr__(self) -> str:
        covered = COVERED[self.guarantee.covers].replace(
            "the wanted share", f"a share {self.target}"
        )
        return f"{super().__repr__()}, for {covered}"


def conformalize(
    predictions: Any,
    votes: Any,
    score: str | Score = "kl",
    *,
    target: Target = "annotator",
    classes: Sequence[Any] | None = None,
    groups: Any = None,
    weights: ArrayLike | None = None,
) -> LabelCalibration:
    r"""Calibrate label sets on predictions and votes that the model has not been trained on.

    $P(Y \in C(x)) \ge 1 - \alpha$ for a new item that is exchangeable with the calibration items,
    with Y drawn from its recorded votes. If votes are unbiased given all other items,
    $E[\tilde\lambda | x, \lambda] = \lambda$, it holds for Y drawn from the true distribution too.
    Each label of a calibration item is weighted by its share of the votes, which is the limit of
    Monte Carlo conformal prediction [1]_ for many draws per item.

    Parameters
    ----------
    predictions, votes, classes, groups, weights
        As in `credalset.conformalize`.
    score : str or Score
        First-order score, as in `credalset.conformalize`. Most scores, such as ``"kl"``, prefer
        labels with a large predicted probability; ``"ws"`` those at a small expected distance.
    target : "annotator", "majority" or float
        Whose label the sets contain: that of an annotator asked at random; the label with most
        votes (one of them at random if several have); or, for a number such as 0.8, the labels of
        at least this share of the item's annotators, for a share 1 − α of the items.

    Returns
    -------
    LabelCalibration

    References
    ----------
    .. [1] Stutz, Roy, Matejovicova, Strachan, Cemgil and Doucet, "Conformal prediction under
           ambiguous ground truth",
       2023.

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
    wanted = as_target(target)
    found = read_items(
        get_score(score), predictions, votes, classes, groups=groups, weights=weights
    )
    scores = found.score.label_scores(found.prediction)
    shares = labels_that_count(found.labels.distributions, scores, wanted)
    scores = np.where(shares > 0.0, scores, 0.0)
    fit = partial(_fit_quantile, shares, scores)
    fitted = Thresholds.build(found.options, found.score, found.prediction, fit)
    mean = (shares * scores).sum(axis=1)
    names = (found.batch.classes, found.batch.items)
    return LabelCalibration(found.score, mean, found.n_classes, fitted, *names, target=wanted)


def accept(
    predictions: Any,
    votes: Any,
    *,
    error: float | Sequence[float] = 0.05,
    confidence: float = 0.9,
    loss: Any = "annotator",
    groups: Any = None,
    clusters: Any = None,
    random_state: RandomState = 0,
) -> AcceptRule:
    """Certify which predicted labels can be accepted, with a bound on the error among them.

    Predictions are taken as they are, without votes in hand and without a model of the crowd. A
    random quarter of the items chooses which thresholds of the risk are tested on the others. See
    `DirichletCrowd.accept` for decisions from votes in hand.

    Parameters
    ----------
    predictions : array or data frame of shape (n, K)
        Predicted distributions of items not used to train the model.
    votes : array or data frame of shape (n, K), or Annotations
        Votes per item and class; one vote is enough. Votes on further items are not used.
    error, confidence, loss, groups, clusters
        As in `DirichletCrowd.accept`.
    random_state : int, Generator or None
        Seed of the random quarter.

    Returns
    -------
    AcceptRule

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(2000, n_classes=3, n_votes=1, random_state=0)
    >>> rule = cs.labels.accept(data.distributions, data.counts, error=0.1)
    >>> rule
    AcceptRule: loss annotator, error 0.1 at confidence 0.9, 1500 items, 56% accepted
    """
    batch = read(predictions)
    batch = batch.with_values(as_distributions(batch.values, "predictions"))
    counts = batch.votes(votes, empty=True).votes("votes", "a bound on the error")
    claim = Claim.read(loss, error, confidence, batch)
    rows = np.flatnonzero(counts.sum(axis=1) >= claim.loss.n_held_back)
    if len(rows) < len(batch):
        warn(
            f"{len(batch) - len(rows)} of {len(batch)} items have fewer than "
            f"{claim.loss.n_held_back} votes and were left out: the bound is not about them."
        )
    keys = None if clusters is None else read_codes(batch, clusters, "clusters")[0]
    unit = np.arange(len(batch)) if keys is None else keys
    drawn = as_generator(random_state).permutation(int(unit.max(initial=-1)) + 1)
    is_first = np.isin(unit[rows], drawn[: len(drawn) // 4])
    first = rows[is_first]
    others = rows[~is_first]
    if not len(first) or not len(others):
        raise ValueError(
            f"votes has {len(rows)} items with enough votes, which cannot be divided into those "
            "that choose thresholds and those that certify. Pass more items."
        )
    fitted = _predicted_cases(batch.values[first], counts[first], claim.loss)
    cases = _predicted_cases(batch.values[others], counts[others], claim.loss)
    seen = replace(fitted, expected=fitted.loss, variance=np.zeros(len(fitted.loss)))
    return make_rule(
        None,
        batch[others],
        cases,
        seen,
        claim,
        counts[others].sum(axis=1).astype(np.int64),
        in_hand=0,
        groups=keys_of(batch, groups, "groups", others),
        clusters=None if keys is None else keys[others],
    )


def _predicted_cases(prediction: FloatArray, counts: FloatArray, loss: Loss) -> Cases:
    """Return items with all their votes held back, as a prediction sees them."""
    everything = np.arange(len(counts))
    seen = Seen(everything, np.ones(len(counts)), np.zeros_like(counts), counts)
    return evaluate_cases(lambda own, _: Beliefs.certain(own), loss, prediction, seen, len(counts))


def _fit_quantile(shares: FloatArray, scores: FloatArray, rows: Any, own: Columns) -> Fit:
    """Fit the quantile of the scores of all labels of some items, weighted by shares."""
    each = shares[rows] if own.weights is None else shares[rows] * own.weights[:, None]
    repeated = None if own.features is None else np.repeat(own.features, shares.shape[1], axis=0)
    return Quantile(scores[rows].ravel(), NoNoise(), each.ravel(), repeated)


def as_target(target: Any) -> Target:
    """Return a valid target."""
    if not isinstance(target, str):
        return as_probability(target, "target")
    if target not in ("annotator", "majority"):
        raise ValueError(
            f"target must be 'annotator', 'majority' or a share such as 0.8, but is {target!r}."
        )
    return target  # type: ignore[return-value]


def labels_that_count(shares: FloatArray, scores: FloatArray, target: Target) -> FloatArray:
    """Return the weight of each label of an item, (n, K), rows that sum to one.

    For an annotator asked at random it is the share of the votes, for the majority one for the
    label with most votes, and for a share of the annotators one for the label at whose score a set
    contains that share of the votes.
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


def majority_labels(sets: CredalSet) -> LabelSets:
    """Return the labels that are most probable under some member of each set (E-admissible labels).

    If the set contains λ with probability at least 1 − α, its labels contain every most probable
    label of λ with at least that probability. The label of a single annotator need not be among
    them: the set {(0.6, 0.4)} has one label, and four of ten annotators give the other.

    Parameters
    ----------
    sets : CredalSet
        Predicted sets. With plain calibration the labels contain the majority label of the recorded
        votes; with a noise model, the most probable label of the true distribution.

    Returns
    -------
    LabelSets

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> majority_labels(TotalVariation().region([[0.6, 0.4, 0.0], [0.5, 0.4, 0.1]], 0.08)).names()
    [[0], [0, 1]]
    """
    return LabelSets(sets.decide("e-admissible"), sets.classes, sets.items)


def annotator_labels(sets: CredalSet, share: float = 0.9) -> LabelSets:
    r"""Return labels that have together at least a share of votes under *every* member.

    If the set contains λ with probability at least 1 − α, then with at least that probability the
    labels have ``share`` or more of the mass of λ, for all shares at once. An annotator asked at
    random gives one of the labels with probability at least $(1 - \alpha) \cdot \text{share}$.
    ``labels.conformalize(..., target=share)`` has smaller sets for a single share of the recorded
    votes.

    Labels are added in the order of lower plus upper probability until the lower probability of all
    together reaches the share. This gives the fewest labels for total-variation balls.

    Parameters
    ----------
    sets : CredalSet
        Predicted sets. An empty set has no labels.
    share : float
        Share of the annotators, in (0, 1).

    Returns
    -------
    LabelSets

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.6, 0.4, 0.0], [0.95, 0.05, 0.0]], 0.03)
    >>> annotator_labels(sets).names()
    [[0, 1], [0]]
    """
    wanted = as_probability(share, "share") - TIE
    members = np.zeros((len(sets), sets.n_classes), dtype=bool)
    asked = np.flatnonzero(~sets.is_empty())
    lower, upper = sets[asked].envelope()
    order = np.argsort(-(lower + upper), axis=1, kind="stable")
    for place in range(sets.n_classes):
        if not len(asked):
            break
        members[asked, order[:, place]] = True
        short = sets[asked].lower_expectation(members[asked].astype(float)) < wanted
        asked = asked[short]
        order = order[short]
    return LabelSets(members, sets.classes, sets.items)
