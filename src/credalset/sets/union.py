r"""Unions of sets: exact wherever their parts are.

The largest expectation over a union is the largest of its parts', and so are envelopes, entropies and zero-one losses.
Volumes and draws follow Karp and Luby (1983, FOCS 24): choose a part in proportion to its volume $v_c$, draw from it
uniformly, and count the point by one over the number of parts that hold it. With n draws the relative error is at most
$\sqrt{(C - 1) / n}$, whatever the parts, beyond the error of the parts' own volumes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from credalset._parallel import row_blocks
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.sets.old_set import CredalSet
from credalset.sets.results import Volume
from credalset.sets.old_sampling import accept_or_repeat
from credalset.simplex import entropy_of_valid, log_sum_exp

ELEMENTS = 1 << 22  # numbers held at a time
MAX_ROUNDS = 100  # of rejection, before a sample is filled up with the members found

#: of an extreme entropy: a bound, what the best member known attains, and that member
Extreme = tuple[FloatArray, FloatArray, FloatArray | None]


@dataclass(frozen=True, eq=False, repr=False)
class InUnion(CredalSet):
    """Sets that lie in a union of convex sets, and the answers of that union.

    The centre is a member. A subclass names the parts, and how a point of a part counts.
    """

    @abstractmethod
    def _parts(self) -> Sequence[CredalSet]:
        """Batches of convex sets whose union holds the sets; some may be empty."""

    @abstractmethod
    def _chances(self, points: FloatArray) -> FloatArray:
        """Return 1 / (number of parts that hold a point) for members, 0 for others, of points (N, M, K): (N, M)."""

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        lower, upper = self.center.copy(), self.center.copy()
        for part in self._parts():
            low, high = part.envelope()
            np.fmin(lower, low, out=lower)  # empty parts are NaN
            np.fmax(upper, high, out=upper)
        return lower, upper

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        value, point = (self.center * utility).sum(axis=1), self.center
        for part in self._parts():
            if attaining:
                other, at = part.upper_expectation(utility, return_distribution=True)
                point = np.where((other > value)[:, None], at, point)
            else:
                other = part.upper_expectation(utility)
            value = np.fmax(value, other)
        return value, point if attaining else None

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        value, _, point = self._extreme_entropy(lambda part: part._most_entropy(attaining), np.fmax)
        return value, point

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        return self._extreme_entropy(lambda part: part._least_entropy(attaining), np.fmin)

    def _extreme_entropy(self, ask: Callable[[CredalSet], Sequence[FloatArray]], better: Any) -> Extreme:
        """Take the best of the parts' bounds, and of what their members attain."""
        known = bound = entropy_of_valid(self.center)
        point = self.center
        for part in self._parts():
            answer = ask(part)
            bound, reached = better(bound, answer[0]), better(known, answer[1])
            if len(answer) == 3:
                point = np.where((reached != known)[:, None], answer[2], point)
            known = reached
        return bound, known, point

    def _smallest_peak(self) -> FloatArray:
        result = self.center.max(axis=1)
        for part in self._parts():
            result = np.fmin(result, part.smallest_peak())
        return result

    def _vertices(self) -> FloatArray:
        raise TypeError(f"a {self.shape} is no polytope and has no vertices; use contains, sample or envelope.")

    def _log_volume(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, str] | None:
        return None

    def _estimate_log_volume(self, generator: np.random.Generator, n_rays: int) -> tuple[FloatArray, FloatArray]:
        r"""Estimate $\sum_c v_c E_{U_c}[chance]$ from at least ``n_rays`` draws, shared out by volume."""
        value, error = np.empty(len(self)), np.empty(len(self))
        for rows in self._blocks(n_rays):
            value[rows], error[rows] = self[rows]._block_log_volume(generator, n_rays)
        return value, error

    def _block_log_volume(self, generator: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
        parts = self._parts()
        logs, errors = self._part_volumes(parts, generator)
        share, top = _shares(logs)
        numbers = np.where(share > 0, np.maximum(np.ceil(n * share), 2), 0).astype(np.int64)
        total, variance = np.zeros(len(self)), np.zeros(len(self))
        for c, part in enumerate(parts):
            rows = np.flatnonzero(numbers[:, c])
            if len(rows) == 0:
                continue
            own = numbers[rows, c]
            points = part[rows].sample(int(own.max()), generator)
            used = np.arange(points.shape[1]) < own[:, None]
            chance = np.where(used, self[rows]._chances(points), 0.0)
            mean = chance.sum(axis=1) / own
            spread = (np.where(used, chance - mean[:, None], 0.0) ** 2).sum(axis=1) / (own - 1) / own
            total[rows] += share[rows, c] * mean
            variance[rows] += share[rows, c] ** 2 * (spread + (mean * errors[rows, c]) ** 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            return top + np.log(total), np.where(total > 0, np.sqrt(variance) / total, 0.0)

    def _part_volumes(
        self, parts: Sequence[CredalSet], generator: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Logarithms of the parts' volumes and their relative errors, (N, C) each."""
        found = [cast(Volume, part.log_volume(return_error=True, random_state=generator)) for part in parts]
        return np.stack([log.value for log in found], axis=1), np.stack([log.standard_error for log in found], axis=1)

    def _sample(self, n: int, generator: np.random.Generator) -> FloatArray | None:
        result = np.empty((len(self), n, self.n_classes))
        for rows in self._blocks(4 * n):
            result[rows] = self[rows]._sample_block(n, generator)
        return result

    def _sample_block(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Draw from the parts in proportion to their volumes, and accept by chance."""
        parts = self._parts()
        share = _shares(self._part_volumes(parts, generator)[0])[0]
        flat = share.sum(axis=1) == 0  # no part has any volume: each that is there counts the same
        there = np.stack([~part.is_empty() for part in parts], axis=1)
        share[flat] = there[flat] / np.maximum(there[flat].sum(axis=1, keepdims=True), 1)

        def propose(rows: IntArray) -> tuple[FloatArray, BoolArray]:
            uniform, upto = generator.random((len(rows), 4 * n, 1)), np.cumsum(share[rows], axis=1)
            chosen = (uniform > upto[:, None, :-1]).sum(axis=-1)
            points = np.repeat(self.center[rows, None], 4 * n, axis=1)
            for c, part in enumerate(parts):
                mine = (chosen == c) & (share[rows, c, None] > 0)
                some = np.flatnonzero(mine.any(axis=1))
                if len(some):
                    place = np.maximum(np.cumsum(mine[some], axis=1) - 1, 0)
                    drawn = part[rows[some]].sample(int(place.max()) + 1, generator)
                    drawn = np.take_along_axis(drawn, place[..., None], axis=1)
                    points[some] = np.where(mine[some, :, None], drawn, points[some])
            return points, generator.random(points.shape[:2]) < self[rows]._chances(points)

        return accept_or_repeat(np.repeat(self.center[:, None], n, axis=1), propose, MAX_ROUNDS, generator)

    def _blocks(self, n_points: int) -> list[slice]:
        return row_blocks(len(self), n_points * len(self._parts()) * self.n_classes, ELEMENTS)


@dataclass(frozen=True, eq=False, repr=False)
class UnionSet(InUnion):
    r"""The union of batches of convex sets, row by row: $\bigcup_c \{\lambda : d_c(\lambda) \le r_c\}$.

    Envelopes, expectations, entropies, zero-one losses and every rule of decision are those of the union itself, exact
    wherever the parts' are, and members that attain them are returned with them. A union need not be convex. An action
    is e-admissible if some *member* makes it best, that is, if it is in some part; members of the convex hull that lie
    in no part do not count. `volume` (beyond two classes) and `sample` are by Karp and Luby's method
    (`credalset.sets.union`). Parts may be empty, and a union of nothing is.

    Build one with `UnionSet.of`. ``radius`` is that of the largest part; a point that lies
    $\min_c (d_c - r_c)$ outside is that much further out.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> left, right = (TotalVariation().region([g], 0.05) for g in ([0.8, 0.1, 0.1], [0.1, 0.8, 0.1]))
    >>> both = UnionSet.of(left, right)
    >>> both
    CredalSet: 1 union over 3 classes, threshold 0.05 (score tv)
    >>> both.upper().round(2), both.decide("e-admissible"), both.contains([[0.45, 0.45, 0.1]])
    (array([[0.85, 0.85, 0.15]]), array([[ True,  True, False]]), array([False]))
    """

    shape: ClassVar[str] = "union"

    parts: tuple[CredalSet, ...] = field(kw_only=True)

    @classmethod
    def of(cls, *parts: CredalSet) -> CredalSet:
        """Return the union, row by row, of batches of convex sets of the same length over the same classes.

        ``score``, ``prediction`` and ``threshold`` of the result are those of the first; the union of one batch is
        that batch.
        """
        if not parts:
            raise ValueError("a union needs at least one batch of sets.")
        first = parts[0]
        for part in parts:
            if part.hull is not None or part._parts() is not None:
                raise ValueError(f"the parts of a union must be convex sets, but a {part.shape} need not be convex.")
            if part.center.shape != first.center.shape:
                raise ValueError(
                    f"the parts of a union must hold the same number of sets over the same classes, but one has "
                    f"{len(part)} sets over {part.n_classes} classes and another {len(first)} over {first.n_classes}."
                )
        if len(parts) == 1:
            return first
        radius, largest = largest_radius(parts)
        fits = np.stack([part.score.best_fit(part.prediction) for part in parts], axis=1)
        center = fits[np.arange(len(first)), largest]
        made = UnionSet(first.score, first.prediction, first.threshold, center=center, radius=radius, parts=parts)
        return replace(made, classes=first.classes, items=first.items)

    @property
    def tolerance(self) -> float:  # type: ignore[override]
        """That of the worst part."""
        return max(part.tolerance for part in self.parts)

    def _take(self, rows: Any) -> Self:
        picked = super()._take(rows)
        return replace(picked, parts=tuple(part[rows] for part in self.parts))

    def _parts(self) -> Sequence[CredalSet]:
        return self.parts

    def _contains_rows(self, candidates: FloatArray) -> BoolArray:
        return np.logical_or.reduce([part._contains_rows(candidates) for part in self.parts])

    def _membership(self, rows: slice, candidates: FloatArray) -> BoolArray:
        return np.logical_or.reduce([part._membership(rows, candidates) for part in self.parts])

    def _divergence(self, points: FloatArray) -> FloatArray:
        return self._excesses(points).min(axis=0) + self.radius[:, None]

    def _excesses(self, points: FloatArray) -> FloatArray:
        """How far points (N, M, K) lie outside of each part, (C, N, M): negative inside, infinite for empty parts."""
        result = np.full((len(self.parts), *points.shape[:2]), np.inf)
        for excess, part in zip(result, self.parts, strict=True):
            there = ~part.is_empty()
            if there.any():
                excess[there] = part[there]._divergence(points[there]) - part.radius[there, None]
        return result

    def _bounded_max_entropy(self, attaining: bool) -> Extreme:
        return self._extreme_entropy(lambda part: part._most_entropy(attaining), np.fmax)

    def _has_exact_entropies(self) -> bool:
        return all(part._has_exact_entropies() for part in self.parts)

    def _chances(self, points: FloatArray) -> FloatArray:
        holders = (self._excesses(points) <= 0.0).sum(axis=0)
        return np.where((holders > 0) & self._contains_pairs(points), 1.0 / np.maximum(holders, 1), 0.0)

    def _log_volume(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, str] | None:
        return (self._log_length(), np.zeros(len(self)), "exact") if self.n_classes == 2 else None

    def _log_length(self) -> FloatArray:
        """Two classes: go through the intervals from left to right, and add what each goes beyond those before."""
        ends = [part.envelope() for part in self.parts]
        low, high = (np.stack([end[i][:, 0] for end in ends], axis=1) for i in (0, 1))
        order = np.argsort(low, axis=1)  # empty parts, which are NaN, come last
        low, high = np.take_along_axis(low, order, axis=1), np.take_along_axis(high, order, axis=1)
        length, reached = np.zeros(len(self)), np.zeros(len(self))
        for c in range(len(self.parts)):
            length += np.fmax(high[:, c] - np.maximum(low[:, c], reached), 0.0)
            reached = np.fmax(reached, high[:, c])
        with np.errstate(divide="ignore"):
            return np.log(length)


def largest_radius(parts: Sequence[CredalSet]) -> tuple[FloatArray, Any]:
    """Return the radius of the largest part of each set, −1 where all are empty, and which part that is."""
    radii = np.stack([np.where(part.is_empty(), -np.inf, part.radius) for part in parts], axis=1)
    largest = radii.argmax(axis=1)
    radius = radii[np.arange(len(radii)), largest]
    return np.where(np.isneginf(radius), -1.0, radius), largest


def _shares(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Turn log-volumes (N, C) into shares of their sum, and return the logarithm of that; zeros where all are."""
    total = log_sum_exp(logs)
    return np.exp(logs - np.where(np.isfinite(total), total, 0.0)[:, None]), total
