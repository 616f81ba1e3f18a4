r"""What credal sets become when votes on their items arrive: their intersection with the region of the votes.

A set C of level α was made without the item's own votes n. An anytime-valid region R(n) holds the distribution behind
the votes with probability at least 1 − δ at all numbers of votes at once (`credalset.scores.anytime`). So whenever
voting stops, $P(\lambda \notin C \cap R(n)) \le \alpha + \delta$.

Membership of the intersection is exact. Everything else is certified from outside, by what each of the two and the box
between both envelopes allow: the intersection lies in all three, so no member goes beyond the tightest of their
answers. Whether there are members at all is settled by search: Frank–Wolfe steps bring a point λ of C close to the
votes, until it lies in R or until the gap proves that no point of C does. Over C the convex $KL(\hat\lambda \| \cdot)$
is at least its value at λ less $\max_{v \in C} \langle \hat\lambda / \lambda, v - \lambda \rangle$.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from credalset._typing import BoolArray, FloatArray, IntArray
from credalset._validation import as_counts, as_probability
from credalset.annotations.labels import column_names, order_by_name, plain_names, row_names, shown
from credalset.sets import box
from credalset.sets.credal_set import CredalSet
from credalset.sets.generic import majorization_bound
from credalset.sets.region import TIE
from credalset.sets.results import Volume
from credalset.sets.roots import bisect
from credalset.sets.sampling import accept_or_repeat, middle
from credalset.simplex import entropy_of_valid
from credalset.votes.annotations import Annotations

MAX_STEPS = 200  # of the search for a member
MAX_ROUNDS = 100  # of rejection, before a sample is filled up with the members found

#: from votes (N, K), δ and what was predicted, (N, K), to the region of the votes
VoteRegion = Callable[[FloatArray, float, FloatArray], CredalSet]
_vote_region: list[VoteRegion] = []


def provide_region(region: VoteRegion) -> None:
    """Say how the region of votes is made: the balls are those of a score, and sets know of none."""
    _vote_region[:] = [region]


def meet(first: tuple[FloatArray, FloatArray], second: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return the envelope of all distributions between two pairs of envelopes; NaN where there are none."""
    lower, upper = np.maximum(first[0], second[0]), np.minimum(first[1], second[1])
    low, high = lower.sum(axis=-1, keepdims=True), upper.sum(axis=-1, keepdims=True)
    none = (lower > upper + TIE).any(axis=-1, keepdims=True) | (low > 1.0 + TIE) | (high < 1.0 - TIE)
    reached = np.maximum(lower, 1.0 - (high - upper)), np.minimum(upper, 1.0 - (low - lower))
    upper = np.maximum(*reached)  # to rounding
    return np.where(none, np.nan, reached[0]), np.where(none, np.nan, upper)


def update(sets: CredalSet, votes: Any, delta: float) -> UpdatedSet:
    """Intersect sets with the regions of votes; see `CredalSet.update`."""
    counts = _read(sets, votes)
    if isinstance(sets, UpdatedSet):
        if delta != sets.delta:
            raise ValueError(
                f"delta must stay the same from update to update, but was {sets.delta:g} and is {delta!r}. All votes "
                "of an item share one region."
            )
        return update(sets.before, sets.votes + counts, delta)
    level = as_probability(delta, "delta")
    region = _vote_region[0](counts, level, foreseen(sets))
    region = replace(region, classes=sets.classes, items=sets.items)
    center, found, empty = _search(sets, region)
    whole = np.isposinf(sets.radius) & np.isposinf(region.radius)
    radius = np.where(empty, -1.0, np.where(whole, np.inf, 1.0))
    made = UpdatedSet(
        *(sets.score, sets.prediction, sets.threshold),
        center=center,
        radius=radius,
        before=sets,
        region=region,
        votes=counts,
        delta=level,
        found=found,
    )
    return replace(made, classes=sets.classes, items=sets.items)


def foreseen(sets: CredalSet) -> FloatArray:
    """Return what sets expect of votes before they see any, (N, K): the predicted distribution, or else the centre."""
    is_cross = isinstance(sets.prediction, np.ndarray) and sets.prediction.ndim != 2
    mean = sets.center if is_cross else sets.score.mean(sets.prediction)
    return mean if mean.shape == sets.center.shape else sets.center


def _read(sets: CredalSet, votes: Any) -> FloatArray:
    """Return the votes on each item, (N, K): by name where both sides have names; items without votes have none."""
    values = votes.counts if isinstance(votes, Annotations) else votes
    counts = as_counts(values, "votes", n_classes=sets.n_classes, may_be_none=True)
    columns = order_by_name(column_names(votes, "votes"), sets.classes, "votes", "the sets", "classes")
    counts = counts if columns is None else np.ascontiguousarray(counts[:, columns])
    own = row_names(votes)
    if sets.items is None or own is None or isinstance(own, range):
        if len(counts) != len(sets):
            raise ValueError(f"votes has {len(counts)} rows, but there are {len(sets)} sets. Pass one row per set.")
        return counts
    row_of = {name: row for row, name in enumerate(plain_names(sets.items))}
    unknown = [name for name in plain_names(own) if name not in row_of]
    if unknown:
        raise ValueError(
            f"votes is about {len(unknown)} items that there are no sets for (first: {shown(unknown, 3)}). Leave them "
            "out, votes.select(names), or predict their sets, unless they were calibrated or trained on."
        )
    result = np.zeros((len(sets), sets.n_classes))
    np.add.at(result, [row_of[name] for name in plain_names(own)], counts)
    return result


def _search(before: CredalSet, region: CredalSet) -> tuple[FloatArray, BoolArray, BoolArray]:
    """Look for a member of both: points (N, K), whether they are members, and which intersections have none."""
    empty = before.is_empty() | np.isnan(meet(before.envelope(), region.envelope())[0]).any(axis=1)
    point, found = before.center.copy(), np.zeros(len(before), dtype=bool)
    for look in (lambda a, b: 0.5 * (a.center + b.center), lambda a, _: a.center, _between):
        rows = np.flatnonzero(~found & ~empty)
        if len(rows) == 0:
            return point, found, empty
        point[rows] = look(before[rows], region[rows])
        found[rows] = before[rows]._contains_rows(point[rows]) & region[rows]._contains_rows(point[rows])
    rows = np.flatnonzero(~found & ~empty)
    if len(rows):
        _approach(before[rows], region[rows], rows, point, found, empty)
    return point, found, empty


def _between(before: CredalSet, region: CredalSet) -> FloatArray:
    """Return, on the way from the votes to the best fit, the middle of what lies in both sets, if they are convex."""
    start, step = region.center, before.center - region.center

    def at(t: FloatArray) -> FloatArray:
        return _on_simplex(start + t[:, None] * step)

    zeros, ones = np.zeros(len(before)), np.ones(len(before))
    enters = bisect(lambda t: before._contains_rows(at(t)), zeros, ones, steps=40)[1]
    leaves = bisect(lambda t: ~region._contains_rows(at(t)), zeros, ones, steps=40)[0]
    return at(0.5 * (enters + leaves))


def _on_simplex(points: FloatArray) -> FloatArray:
    points = np.maximum(points, 0.0)
    return points / points.sum(axis=1, keepdims=True)


def _approach(
    before: CredalSet, region: CredalSet, rows: IntArray, point: FloatArray, found: BoolArray, empty: BoolArray
) -> None:
    """Bring points of one set close to the votes, and note which became members and which never will."""
    x = middle(before)
    active = np.arange(len(rows))
    for _ in range(MAX_STEPS):
        a, b, here = before[active], region[active], _on_simplex(x[active])
        member = a._contains_rows(here) & b._contains_rows(here)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(b.center > 0, b.center / np.maximum(here, 1e-300), 0.0)
        best, vertex = a.upper_expectation(slope, return_distribution=True)
        gap = best - (slope * here).sum(axis=1)
        never = b._divergence(here[:, None])[:, 0] - gap > b.radius * (1.0 + TIE) + TIE
        point[rows[active[member]]] = here[member]
        found[rows[active[member]]], empty[rows[active[never]]] = True, True
        x[active] = here + _step(here, vertex - here, b.center)[:, None] * (vertex - here)
        active = active[~(member | never)]
        if len(active) == 0:
            break


def _step(x: FloatArray, toward: FloatArray, shares: FloatArray) -> FloatArray:
    """Return t in [0, 1] that minimises KL(shares ‖ x + t·toward), by bisection on the rising derivative."""

    def rises(t: FloatArray) -> BoolArray:
        y = np.maximum(x + t[:, None] * toward, 1e-300)
        return np.asarray(np.where(shares > 0, shares * toward / y, 0.0).sum(axis=1) <= 0)

    return 0.5 * np.sum(bisect(rises, np.zeros(len(x)), np.ones(len(x)), steps=50), axis=0)


@dataclass(frozen=True, eq=False, repr=False)
class UpdatedSet(CredalSet):
    """Credal sets of level α in the light of votes: members of the set that also lie in the region of the votes.

    The distribution behind an item's votes is a member with probability at least 1 − α − δ, whenever and why ever its
    voting stopped. Membership is exact; `volume` and `sample` work by rejection from the smaller of the two. All other
    answers are certified from outside (`answers` says ``"outer"``): no member goes beyond them, and none need reach
    them. With two classes envelopes and expectations are exact.

    Attributes
    ----------
    before : CredalSet
        The sets without the votes.
    region : CredalSet
        The regions of the votes alone; the whole simplex without votes.
    votes : ndarray of shape (N, K)
        All votes so far.
    delta : float
        Probability with which a region may miss the distribution behind its votes.
    found : ndarray of N bool
        Whether ``center`` is a member; where it is not and the set is not empty, the search for one was in vain.
    """

    hull: ClassVar[str | None] = "the tightest of the set, the region of the votes and the box between both"
    exact_volume_up_to: ClassVar[float] = 0

    before: CredalSet = field(kw_only=True)
    region: CredalSet = field(kw_only=True)
    votes: FloatArray = field(kw_only=True)
    delta: float = field(kw_only=True)
    found: BoolArray = field(kw_only=True)

    @property
    def shape(self) -> str:  # type: ignore[override]
        """What one such set is called."""
        return f"vote-cut {self.before.shape}"

    @property
    def tolerance(self) -> float:  # type: ignore[override]
        """That of the sets without votes."""
        return self.before.tolerance

    def _take(self, rows: Any) -> Self:
        picked = super()._take(rows)
        rows = np.atleast_1d(np.arange(len(self))[rows])
        cut = {name: getattr(self, name)[rows] for name in ("before", "region", "votes", "found")}
        return replace(picked, **cut)

    def __repr__(self) -> str:
        return f"{super().__repr__()}; {self.votes.sum():.0f} votes, error alpha + {self.delta:g}"

    def _contains_rows(self, candidates: FloatArray) -> BoolArray:
        return self.before._contains_rows(candidates) & self.region._contains_rows(candidates)

    def _membership(self, rows: slice, candidates: FloatArray) -> BoolArray:
        return self.before._membership(rows, candidates) & self.region._membership(rows, candidates)

    def _divergence(self, points: FloatArray) -> FloatArray:
        """Return 0 for members, 2 for others: the radius is 1."""
        return np.where(self._contains_pairs(points), 0.0, 2.0)

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        return meet(self.before.envelope(), self.region.envelope())

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        answers = [sets.upper_expectation(utility, return_distribution=True) for sets in (self.before, self.region)]
        return _tightest([*answers, box.support(*self._envelope(), utility)], np.argmin)

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        even = box.most_even(*self._envelope())
        answers = [sets._most_entropy(True) for sets in (self.before, self.region)]
        return _tightest([*((a[0], a[2]) for a in answers), (entropy_of_valid(even), even)], np.argmin)

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        point = self._known_members()[:, 0]
        bounds = [sets._least_entropy(False)[0] for sets in (self.before, self.region)]
        value = np.maximum.reduce([*bounds, majorization_bound(*self._envelope())])
        known = entropy_of_valid(point)
        return np.fmin(value, known), known, point

    def _known_members(self) -> FloatArray:
        return np.where(self.found[:, None], self.center, np.nan)[:, None]

    def _can_be_top(self) -> BoolArray:
        """Rule out what one of the two rules out, or the box: at λ_a = upper_a the others need room below it."""
        lower, upper = self.envelope()
        room = np.stack([np.minimum(upper, upper[:, [a]]).sum(axis=1) for a in range(self.n_classes)], axis=1)
        fits = (upper >= lower.max(axis=1, keepdims=True) - TIE) & (room >= 1.0 - TIE)
        return fits & self.before.decide() & self.region.decide()

    def _smallest_peak(self) -> FloatArray:
        even = box.most_even(*self._envelope()).max(axis=1)
        return np.maximum.reduce([self.before.smallest_peak(), self.region.smallest_peak(), even])

    def _log_volume(self, generator: np.random.Generator) -> None:
        return None

    def _estimate_log_volume(self, generator: np.random.Generator, n_rays: int) -> tuple[FloatArray, FloatArray]:
        """Take the smaller of the two, and the share of its members that lie in the other."""
        small, logs, errors = self._smaller(generator)
        hits = self._draw(small, np.arange(len(self)), n_rays, generator)[1].sum(axis=1)
        share = np.maximum(hits, 1.0) / n_rays  # one that just was not hit, where none was: the error says as much
        return logs + np.log(share), np.sqrt(errors**2 + (1.0 - share) / (share * n_rays))

    def _smaller(self, generator: np.random.Generator) -> tuple[BoolArray, FloatArray, FloatArray]:
        """Tell where the set is smaller than the region of the votes; log-volumes of the smaller and their errors."""
        first, second = (
            cast(Volume, sets.log_volume(return_error=True, random_state=generator))
            for sets in (self.before, self.region)
        )
        small = first.value <= second.value
        logs = np.where(small, first.value, second.value)
        return small, logs, np.where(small, first.standard_error, second.standard_error)

    def _draw(
        self, small: BoolArray, rows: IntArray, n: int, generator: np.random.Generator
    ) -> tuple[FloatArray, BoolArray]:
        """Draw from the smaller of the two, and tell which draws the other holds."""
        points, inside = np.empty((len(rows), n, self.n_classes)), np.empty((len(rows), n), dtype=bool)
        for one, other, is_smaller in ((self.before, self.region, small), (self.region, self.before, ~small)):
            some = np.flatnonzero(is_smaller[rows])
            if len(some):
                points[some] = one[rows[some]].sample(n, generator)
                inside[some] = other[rows[some]]._contains_pairs(points[some])
        return points, inside

    def _sample(self, n: int, generator: np.random.Generator) -> FloatArray:
        small = self._smaller(generator)[0]
        result = np.repeat(self._known_members(), n, axis=1)
        return accept_or_repeat(result, lambda rows: self._draw(small, rows, 4 * n, generator), MAX_ROUNDS, generator)


def _tightest(answers: list[Any], pick: Callable[..., Any]) -> tuple[FloatArray, FloatArray]:
    """Choose per row among answers, each values (N,) and points (N, K)."""
    values, points = np.stack([a[0] for a in answers]), np.stack([a[1] for a in answers])
    best = pick(values, axis=0), np.arange(values.shape[1])
    return values[best], points[best]
