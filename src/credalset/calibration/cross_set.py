"""The cross-conformal set itself: candidates that enough calibration items let in, each by its own fold's model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from credalset._parallel import row_blocks
from credalset._predictions import map_arrays, stacked
from credalset._typing import BoolArray, FloatArray, IntArray, Prediction
from credalset.calibration.part import Part
from credalset.scores import Score
from credalset.sets.old_set import CredalSet
from credalset.sets.union import ELEMENTS, InUnion
from credalset.simplex import corners, entropy_of_valid

SHARES = np.array([1.0, 0.95, 0.9, 0.8, 0.6, 0.3])  # of the way from the centre out at which to look for members


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

    def __getitem__(self, rows: Any) -> Ballot:
        return replace(self, which=self.which[rows], share=self.share[rows], needed=self.needed[rows])

    def count(self, scores: FloatArray) -> FloatArray:
        """Return the votes for candidates whose scores under each fold's model are given, (N, M, F) → (N, M)."""
        total = np.zeros(scores.shape[:2])
        for i, rows in self.rows_by_pool():
            for k, fold in enumerate(self.pools[i]):
                total[rows] += self.share[rows, k, None] * fold.weight_from(scores[rows, :, k])
        return total

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

    def thresholds(self) -> FloatArray:
        """Return for each new item the score that a member keeps to under at least one fold's model, (N,)."""
        result = np.empty(len(self.which))
        for i, rows in self.rows_by_pool():
            for block in row_blocks(len(rows), sum(map(len, self.pools[i])) if self.is_weighted else 0, ELEMENTS):
                some = rows[block]
                few = some if self.is_weighted else some[:1]
                result[some] = self.reach([fold.bounds[0][:, None] for fold in self.pools[i]], i, few)
        return result


@dataclass(frozen=True, eq=False, repr=False)
class CrossSet(InUnion):
    r"""The cross-conformal (CV+) sets of a batch: what enough calibration items let in, by their own folds' models.

    Item i of fold k votes for λ if $f(g_k(x), \lambda) \le s_i$. ``prediction`` has shape (N, F, …), a prediction of
    each fold's model. Every member scores at most ``threshold`` under at least one of them, so the set lies in the
    union of the F regions {λ : f(g_k(x), λ) ≤ threshold}.

    Membership (`contains`, `efficiency`) is exact. `lower`, `upper`, expectations, entropies and decisions are those of
    the convex hull of that union: certified, not tight, and distributions returned with them need not be members.
    `volume` is an estimate with a standard error, `sample` uniform by rejection, both from the regions' own. There are
    no vertices and no Hartley measure. Whether a set is empty rests on a look at the models' best fits and their means.
    """

    shape: ClassVar[str] = "cross-conformal set"
    hull: ClassVar[str | None] = "the convex hull of its folds' regions"
    exact_volume_up_to: ClassVar[float] = 0
    ballot: Ballot = field(kw_only=True)

    @classmethod
    def build(cls, score: Score, models: Sequence[Prediction], ballot: Ballot) -> CrossSet:
        """Build the sets from each fold's valid predictions for the same N items."""
        fits = np.stack([score.best_fit(model) for model in models], axis=1)
        means = np.stack([score.mean(model) for model in models]).mean(axis=0)
        candidates = np.concatenate([fits, fits.mean(axis=1, keepdims=True), means[:, None]], axis=1)
        every = stacked(models)
        votes = ballot.count(_fold_scores(score, models, candidates))
        rows, best = np.arange(len(every)), votes.argmax(axis=1)
        excess = votes[rows, best] - ballot.needed
        radius = np.where(ballot.needed < 0, np.inf, np.where(excess > 0, excess, -1.0))
        return cls(score, every, ballot.thresholds(), center=candidates[rows, best], radius=radius, ballot=ballot)

    def _take(self, rows: Any) -> Self:
        picked = super()._take(rows)
        return replace(picked, ballot=self.ballot[np.atleast_1d(np.arange(len(self))[rows])])

    def _contains_rows(self, candidates: FloatArray) -> BoolArray:
        return self._contains_pairs(candidates[:, None])[:, 0]

    def fold_regions(self) -> list[CredalSet]:
        """Return the F batches of regions {λ : f(g_k(x), λ) ≤ threshold} whose union holds the sets."""
        return [self.score._old_region(map_arrays(model, np.ascontiguousarray), self.threshold) for model in self._models()]

    def to_dict(self) -> dict[str, Any]:
        """Return one column per attribute; the prediction is the mean of the folds'."""
        mean = np.stack([self.score.mean(model) for model in self._models()]).mean(axis=0)
        names = self.classes if self.classes is not None else range(self.n_classes)
        columns: dict[str, Any] = {"set": np.arange(len(self)), "score": np.full(len(self), self.score.name)}
        columns |= {f"prediction_{name}": mean[:, k] for k, name in enumerate(names)}
        return columns | {"threshold": self.threshold, "radius": self.radius}

    @property
    def _n_folds(self) -> int:
        return int(self.ballot.share.shape[1])

    def _models(self) -> list[Prediction]:
        return [self.prediction[:, k] for k in range(self._n_folds)]

    def _membership(self, rows: slice, candidates: FloatArray) -> BoolArray:
        ballot = self.ballot[rows]
        scores = _fold_scores(self.score, [model[rows] for model in self._models()], candidates)
        return np.asarray(ballot.count(scores) > ballot.needed[:, None])

    def _divergence(self, points: FloatArray) -> FloatArray:
        with_center = np.concatenate([points, self.center[:, None]], axis=1)
        votes = self.ballot.count(_fold_scores(self.score, self._models(), with_center))
        return votes[:, -1:] - votes[:, :-1]

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        points = self._known_members()
        entropies = entropy_of_valid(points)
        best = np.arange(len(self)), entropies.argmin(axis=1)
        value = entropies[best]
        for region in self.fold_regions():
            value = np.fmin(value, region._least_entropy(False)[0])
        return value, entropies[best], points[best]

    def _known_members(self) -> FloatArray:
        """The centre, and what lies between it and the extremes of the folds' regions, where that is a member."""
        found = [self.center[:, None]]
        for region in self.fold_regions():
            bounds = region.entropy_bounds(return_distributions=True)
            likely = corners(np.nan_to_num(region.upper()).argmax(axis=1), self.n_classes)
            peak = region.upper_expectation(likely, return_distribution=True)[1]
            for extreme in (bounds.lower_distribution, bounds.upper_distribution, peak):
                assert extreme is not None
                step = np.where(np.isnan(extreme), 0.0, extreme - self.center)
                points = self.center[:, None] + SHARES[:, None] * step[:, None]
                member = self._membership(slice(None), points)
                found.append(np.where(member[..., None], points, self.center[:, None]))
        return np.concatenate(found, axis=1)

    def _parts(self) -> list[CredalSet]:
        return self.fold_regions()

    def _chances(self, points: FloatArray) -> FloatArray:
        """Return 1 / (number of fold regions that hold a point) for members, 0 for others and for NaN, (N, M)."""
        missing = np.asarray(np.isnan(points).any(axis=2))
        filled = np.where(missing[..., None], self.center[:, None], points)
        scores = _fold_scores(self.score, self._models(), filled)
        member = (self.ballot.count(scores) > self.ballot.needed[:, None]) & ~missing
        holders = (scores <= self.threshold[:, None, None]).sum(axis=2)
        return np.where(member, 1.0 / np.maximum(holders, 1), 0.0)


def _fold_scores(score: Score, models: Sequence[Prediction], points: FloatArray) -> FloatArray:
    """Score points (N or 1, M, K) under the F models of each item, (N, M, F)."""
    return np.stack([score.evaluate_pairs(model, points) for model in models], axis=-1)
