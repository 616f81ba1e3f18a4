"""Cross-conformal calibration (CV+): every item both trains and calibrates, when data are scarce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from credalset._guessing import explained
from credalset._parallel import row_blocks
from credalset._typing import ArrayLike, FloatArray, IntArray
from credalset._validation import Checked, as_numbers
from credalset.calibration.base import BaseCalibration, as_level, per_item, read_items
from credalset.calibration.conditional import Conditional
from credalset.calibration.groups import Pool, is_predicted
from credalset.calibration.models import as_noise
from credalset.calibration.noise import Noise
from credalset.calibration.part import ROUNDING, Part
from credalset.calibration.quantile import conformal_rank
from credalset.calibration.rule import Rule
from credalset.persistence.bundle import Bundle
from credalset.persistence.plain import refusing
from credalset.scores import Score, get_score
from credalset.sets.credal_set import CredalSet

ELEMENTS = 1 << 20  # radii held at once


@dataclass(frozen=True, eq=False)
class Ballot:
    """Which calibration items vote on each new item, what a vote of each fold counts, and how much a member needs.

    Attributes
    ----------
    pools : tuple of tuples of Part
        Items that vote together, those of each fold apart; one pool unless there are groups.
    which : ndarray of shape (N,)
        Position in ``pools`` for each new item.
    share : ndarray of shape (N, F)
        What a unit of weight in each fold counts.
    needed : ndarray of shape (N,)
        A candidate is a member if its votes count more than this; negative where everything is a member.
    is_weighted : bool
        Whether items count unequally.
    """

    pools: tuple[tuple[Part, ...], ...]
    which: IntArray
    share: FloatArray
    needed: FloatArray
    is_weighted: bool = False

    def rows_by_pool(self) -> list[tuple[int, IntArray]]:
        """Return the new items of each pool."""
        return [(int(i), np.flatnonzero(self.which == i)) for i in np.unique(self.which)]

    def reach(self, values: Sequence[FloatArray], i: int, rows: IntArray) -> FloatArray:
        """Return the smallest t above which the items of pool i do not count enough to let anything in, (R,).

        ``values`` holds one block (m_k, R) or (m_k, 1) per fold: up to where each item's vote reaches.
        """
        blocks = [np.broadcast_to(block, (len(block), len(rows))) for block in values]
        stacked, needed = np.concatenate(blocks), self.needed[rows]
        if len(stacked) == 0:
            return np.full(len(rows), np.inf)
        if not self.is_weighted:
            above = int(max(needed[0], 0.0))  # the same for all rows of a pool
            found = np.partition(stacked, len(stacked) - 1 - above, axis=0)[len(stacked) - 1 - above]
            return np.where(needed < 0, np.inf, found)
        mass = np.concatenate([fold.each[:, None] * self.share[rows, k] for k, fold in enumerate(self.pools[i])])
        order = np.argsort(-stacked, axis=0, kind="stable")
        reached = np.take_along_axis(mass, order, axis=0).cumsum(axis=0) > needed
        first = np.take_along_axis(order, reached.argmax(axis=0)[None], axis=0)
        found = np.take_along_axis(stacked, first, axis=0)[0]
        # Sums are rounded: votes that never count enough, all together, may still be meant to.
        return np.where(needed < 0, np.inf, np.where(reached.any(axis=0), found, stacked.min(axis=0)))


@dataclass(frozen=True, eq=False, repr=False)
class CrossCalibration(BaseCalibration):
    r"""Scores of items under models that were trained without them. Made by `cross_conformalize`.

    With folds k(i), models $g_k$ trained without fold k and $s_i = f(g_{k(i)}(x_i), \lambda_i)$, the cross-conformal
    (CV+) set of a new item holds all λ for which

    $$1 + \#\{ i : s_i \ge f(g_{k(i)}(x), \lambda) \} > \alpha (n + 1) .$$

    It has as many centres as folds. `predict_set` returns a ball of the score around one centre that provably holds it:
    each $\{\lambda : f(g_k(x), \lambda) \le s_i\}$ lies in a ball around that centre, and the threshold is the
    ⌈(n + 1)(1 − α)⌉-th smallest of their n radii.

    The sets contain the label distribution of a new item with a probability of about $1 - 2\alpha$ for certain, see
    `guaranteed_coverage`, and in practice close to $1 - \alpha$.

    With weights, folds do not pool: λ belongs to the set if the average over the folds of its weighted p-values,
    $(w_{new} + \sum_{i \in k, s_i \ge f_k} w_i) / (w_{new} + \sum_{i \in k} w_i)$, exceeds α.

    Attributes
    ----------
    score : Score
        The nonconformity score.
    scores : ndarray of shape (n,)
        Out-of-fold scores, in the order of the items.
    folds : ndarray of shape (n,)
        Fold of each item, 0, …, F − 1.
    n_classes : int
        Number of classes K.
    classes : tuple or None
        Names of the classes in column order, when they are known.
    rule : Rule
        Noise, groups and weights, as in `Calibration`.
    mixtures : bool or None
        As in `Calibration`.
    n_folds : int
        Number of folds F.
    """

    kind: ClassVar[str] = "cross-calibration"
    #: what a split calibration has and this one has not, and what to ask instead
    _hints: ClassVar[dict[str, str]] = BaseCalibration._hints | {
        "threshold": "There is no single threshold: each item has its own, as the folds' models differ. Use "
        "thresholds(predictions, alpha).",
        "p_values": "There are no p-values: an average of p-values over folds is none. Use "
        "predict_set(predictions, alpha).contains(distribution), or thresholds(predictions, alpha).",
        "coverage_distribution": "It is not known for cross-conformal sets. Use guaranteed_coverage(alpha), a bound "
        "below the coverage on average.",
        "pac_threshold": "None is known for cross-conformal sets. Use thresholds(predictions, alpha), or split the "
        "data and conformalize.",
    }

    folds: IntArray = field(kw_only=True)
    n_folds: int = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "n_folds", int(self.folds.max()) + 1)

    def guaranteed_coverage(self, alpha: float = 0.1) -> float:
        r"""Return the proven lower bound of coverage, about 1 − 2α; with groups, that of the worst group.

        For n items in F folds of any sizes it is $1 - 2 (\alpha (n+1) + F - 1) / (n + F)$, as twice an average of
        p-values is a p-value (Vovk and Wang, 2020). For folds of equal size, without groups, it is at least
        $1 - 2\alpha - (1 - F/n) / (F + 1)$ too (Barber, Candès, Ramdas, Tibshirani: *Predictive inference with the
        jackknife+*, 2021). With weights it is $1 - 2\alpha$. `BoundedNoise` spends its δ twice on top of level α − δ;
        `AnnotatorSampling` divides the misses at level α (1 − δ) by 1 − δ. Proofs are in the guide "Which guarantee do
        I have?".

        Examples
        --------
        >>> import numpy as np, credalset as cs
        >>> g = np.full((200, 3), 1 / 3)
        >>> calibration = cs.cross_conformalize(g, np.eye(3)[np.arange(200) % 3], np.arange(200) % 10)
        >>> round(calibration.guaranteed_coverage(0.05), 3)
        0.819
        """
        noise, level = self.rule.noise, float(self._level(as_level(alpha)))
        spent = (2.0 if noise.fails_by_fold else 1.0) * float(noise.spent)
        if self.rule.weights is not None:
            return max(1.0 - 2.0 * level / float(noise.kept) - spent, 0.0)
        keys = [None] if self.rule.groups is None else self.rule.groups.keys
        misses = []
        for key in keys:
            pool = None if key is None else self.rule.pool(key, as_level(alpha))
            folds = self.folds[self.rule.members(pool)]
            n, f = len(folds), len(np.unique(folds))
            misses.append(2.0 * (level * (n + 1) + f - 1) / (n + f))
        sizes = np.bincount(self.folds)
        if len(misses) == 1 and (sizes == sizes[0]).all() and not noise.fails_by_fold:
            n, f = len(self), self.n_folds
            misses[0] = min(misses[0], 2.0 * level + (1 - f / n) / (f + 1))
        return max(1.0 - max(misses) / float(noise.kept) - spent, 0.0)

    def thresholds(
        self, predictions: Any, alpha: float = 0.1, *, groups: Any = None, weights: Any = None
    ) -> FloatArray:
        """Return the threshold of each new item's set, (N,).

        Parameters
        ----------
        predictions, alpha, groups, weights
            As in `predict_set`.
        """
        return self._sets(predictions, as_level(alpha), groups, weights).threshold

    def predict_set(
        self, predictions: Any, alpha: float = 0.1, *, groups: Any = None, weights: Any = None
    ) -> CredalSet:
        """Predict one credal set per new item.

        Parameters
        ----------
        predictions : array of shape (F, N, K)
            What each fold's model predicts for the N new items, in the order of the folds; (F, N, C, K + 1) for
            mixtures of densities.
        alpha : float
            Level in (0, 1); see `guaranteed_coverage` for what it promises.
        groups : sequence of N keys, optional
            Group of each item, if the calibration has groups.
        weights : array of shape (N,), optional
            Likelihood ratio of each item, if the calibration is weighted.
        """
        sets = self._sets(predictions, as_level(alpha), groups, weights)
        return self._named(sets, predictions[0])

    def check_models(self, predictions: ArrayLike) -> list[FloatArray]:
        """Return the valid predictions of each fold's model."""
        is_list = hasattr(predictions, "__len__") and getattr(predictions, "ndim", 1) > 0
        blocks = list(predictions) if is_list else []  # type: ignore[arg-type]
        shapes = [b.shape if isinstance(b, Checked) else as_numbers(b, "predictions").shape for b in blocks]
        if len(blocks) != self.n_folds or len(set(shapes)) > 1 or len(shapes[0]) < 2:
            raise ValueError(
                f"predictions must have shape ({self.n_folds}, n_items, {self.n_classes}), one block per fold's model, "
                f"but has {_describe_shapes(shapes)}."
            )
        return [self.check(block, name="predictions") for block in blocks]

    def to_bundle(self) -> Bundle:
        """Return the calibration as plain values and arrays."""
        bundle = super().to_bundle()
        return Bundle(self.kind, bundle.values, bundle.arrays | {"folds": self.folds})

    @classmethod
    def _own_fields(cls, bundle: Bundle, rule: Rule) -> dict[str, Any]:
        with refusing("contradicts itself"):
            folds = check_folds(bundle.arrays.pop("folds", None), len(rule))
            check_options(rule.noise, "predicted" if rule.groups is not None and rule.groups.predicted else None)
        return {"folds": folds}

    def _sets(self, predictions: Any, alpha: Fraction, groups: Any, weights: Any) -> CredalSet:
        models = self.check_models(predictions)
        check_balls(self.score, models[0])
        ballot = self._ballot(models[0], alpha, *per_item(predictions[0], groups, weights))
        center = self.score.common_center(models)
        sets = self.score._region(center, _ball_thresholds(self.score, models, center, ballot))
        self.rule.warn_infinite(sets.threshold, alpha)
        return sets

    def _level(self, alpha: Fraction) -> Fraction:
        return self.rule.noise.level(alpha, len(self))

    def _folds_of(self, pool: Pool | None) -> tuple[Part, ...]:
        """Return the items of a pool by folds, with what a new item's scores are compared with."""
        rule, members = self.rule, self.rule.members(pool)
        rows = [members & (self.folds == fold) for fold in range(self.n_folds)]
        bounds, none = rule.bounds + rule.noise.margin, np.empty((1, 0))
        return tuple(Part(bounds[:, r], none, None if rule.weights is None else rule.weights[r]) for r in rows)

    def _ballot(self, prediction: FloatArray, alpha: Fraction, groups: Any, weights: Any) -> Ballot:
        """Say which items vote on each new item, what votes count and how many are needed."""
        level, new_weights = self._level(alpha), self.rule.new_weights(weights, len(prediction))
        which, pools = self.rule.assign(alpha, self.score, prediction, groups)
        by_fold = tuple(self._folds_of(pool) for pool in pools)
        if new_weights is None:
            # More than α (n + 1) − 1 votes, in whole numbers: at least n − rank + 1.
            sizes = [sum(map(len, folds)) for folds in by_fold]
            needed = np.array([n - conformal_rank(n, level) + 0.5 for n in sizes])
            return Ballot(by_fold, which, np.ones((len(which), self.n_folds)), needed[which])
        return _weighted_ballot(by_fold, which, level, new_weights)

    def __repr__(self) -> str:
        text = f"CrossCalibration: score {self.score.name}, {len(self)} items in {self.n_folds} folds, "
        text += f"{self.n_classes} classes"
        return text + self.rule.describe()


@explained
def cross_conformalize(
    prediction: Any,
    labels: Any,
    folds: Sequence[int] | IntArray,
    score: str | Score = "tv",
    *,
    classes: Sequence[Any] | None = None,
    noise: Noise | str | None = None,
    groups: Any = None,
    weights: ArrayLike | None = None,
) -> CrossCalibration:
    """Calibrate on out-of-fold predictions.

    Parameters
    ----------
    prediction : array of shape (n, K)
        For each item the prediction of a model that was trained without its fold.
    labels : array of shape (n, K) or Annotations
        Label distributions or annotation counts.
    folds : sequence of n whole numbers
        Fold of each item, 0, …, F − 1; at least two folds, of equal size as far as possible, and chosen without looking
        at the items.
    score, classes, weights
        As in `conformalize`.
    noise : BoundedNoise or AnnotatorSampling, optional
        Cover the distribution behind the votes. `AnnotatorSampling` needs a δ, `BoundedNoise` the rule ``"union"``.
    groups : sequence of n keys, optional
        Hold the guarantee within each group. The predicted class is not a group here: folds' models may differ in it.

    Examples
    --------
    >>> import credalset as cs, numpy as np
    >>> from sklearn.model_selection import KFold
    >>> data = cs.datasets.make_synthetic(150, n_votes=20, random_state=0)
    >>> X, Y, X_new, Y_new = data.X[:100], data.counts[:100], data.X[100:], data.counts[100:]
    >>> folds, out_of_fold, new = np.empty(100, int), np.empty((100, 3)), []
    >>> for k, (train, held_out) in enumerate(KFold(5).split(X)):
    ...     model = cs.SoftLabelClassifier().fit(X[train], Y[train])
    ...     folds[held_out], out_of_fold[held_out] = k, model.predict_proba(X[held_out])
    ...     new.append(model.predict_proba(X_new))
    >>> calibration = cs.cross_conformalize(out_of_fold, Y, folds)
    >>> calibration
    CrossCalibration: score tv, 100 items in 5 folds, 3 classes
    >>> bool(calibration.predict_set(new, alpha=0.1).contains(Y_new).mean() > 0.8)
    True
    """
    chosen = get_score(score)
    checked, found = read_items(chosen, prediction, labels, classes)
    codes = check_folds(folds, len(checked))
    check_balls(chosen, checked)
    check_options(noise, groups)
    rule = Rule.build(chosen, checked, found, noise, *per_item(prediction, groups, weights))
    return CrossCalibration.from_rule(chosen, checked, found, rule, folds=codes)


def check_folds(folds: Any, n: int) -> IntArray:
    """Check one fold number per item."""
    try:
        codes = np.asarray(folds)
    except ValueError:  # rows of different lengths
        codes = np.empty((0, 0))
    if codes.shape != (n,) or codes.dtype.kind not in "iu":
        seen = f"is {folds!r}" if codes.ndim == 0 else f"is an array of shape {codes.shape} and dtype {codes.dtype}"
        raise ValueError(f"folds must hold one whole number per item ({n}), but {seen}.")
    found = np.unique(codes).tolist()  # never as many as the largest number may promise
    if len(found) < 2 or found[0] != 0 or found[-1] != len(found) - 1:
        shown = ", ".join(map(str, found[:10])) + (", …" if len(found) > 10 else "")
        raise ValueError(f"folds must be numbered 0, 1, … without gaps, at least two of them, but holds [{shown}].")
    return codes.astype(np.int64)


def check_balls(score: Score, prediction: Any) -> None:
    """Refuse a score without known balls that enclose its cross-conformal sets."""
    if not score.has_enclosing_balls(prediction):
        raise ValueError(
            f"no balls are known that enclose the cross-conformal sets of the score {score.name!r} for these "
            "predictions. Use another score, or split the data and conformalize."
        )


def check_options(noise: Any, groups: Any) -> None:
    """Refuse what has no proof for cross-conformal sets."""
    if isinstance(groups, Conditional):
        raise ValueError(
            "groups holds features, for which there is no proof with cross-conformal sets. Use conformalize, or groups "
            "with one key per item."
        )
    if is_predicted(groups):
        raise ValueError(
            "groups='predicted' has no meaning for cross-conformal sets: the folds' models may predict different "
            "classes for one item. Pass one key per item that does not depend on a model."
        )
    reason = as_noise(noise).why_not_cross_conformal()
    if reason is not None:
        raise ValueError(reason)


def _describe_shapes(shapes: Sequence[tuple[int, ...]]) -> str:
    if len(set(shapes)) > 1:
        return "blocks of the shapes " + ", ".join(map(str, dict.fromkeys(shapes)))
    return f"shape {(len(shapes), *shapes[0]) if shapes else ()}"


def _weighted_ballot(
    pools: tuple[tuple[Part, ...], ...], which: IntArray, level: Fraction, new_weights: FloatArray
) -> Ballot:
    """Let a fold's items vote by their weights, and the folds equally: an average of weighted p-values."""
    totals = np.array([[fold.each.sum() for fold in folds] for folds in pools])[which] + new_weights[:, None]
    taking_part = np.array([[len(fold) > 0 for fold in folds] for folds in pools])[which]
    n_taking = np.maximum(taking_part.sum(axis=1, keepdims=True), 1)
    counts = taking_part & (totals > 0)
    share = np.where(counts, 1.0 / np.where(counts, totals, 1.0), 0.0) / n_taking
    # The new item's own vote; a fold without any weight cannot speak against anything.
    own = (share * new_weights[:, None]).sum(axis=1) + ((taking_part & ~counts) / n_taking).sum(axis=1)
    needed = float(level) * (1.0 - ROUNDING) - own
    return Ballot(pools, which, share, needed, is_weighted=True)


def _ball_thresholds(score: Score, models: Sequence[FloatArray], center: FloatArray, ballot: Ballot) -> FloatArray:
    """Return the radius of a ball around each centre that holds the cross-conformal set, (N,)."""
    result = np.empty(len(center))
    for i, own in ballot.rows_by_pool():
        folds = ballot.pools[i]
        for block in row_blocks(len(own), sum(map(len, folds)), ELEMENTS):
            rows = own[block]
            radii = [
                score.enclosing_threshold(model[rows], center[rows], fold.bounds[0][:, None])
                for model, fold in zip(models, folds, strict=True)
            ]
            result[rows] = ballot.reach(radii, i, rows)
    return result
