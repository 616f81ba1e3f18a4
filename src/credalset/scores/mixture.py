r"""Predicted mixtures of Dirichlets, and the level sets of their densities, $\{\lambda : p(\lambda) \ge c\}$.

Distributions are read a little off the boundary, at $y = (\lambda + \epsilon) / (1 + K\epsilon)$, which keeps
$p(\lambda) = \sum_j w_j \, \mathrm{Dir}(y \mid \theta_j)$ finite though concentrations may fall below one. Such a set
need be neither convex nor connected. Membership is exact. Envelopes are certified: no member goes beyond them.
Expectations, entropies and modes are those of the box between the envelopes, which holds the set; volumes and samples
come from uniform draws in that box.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp, xlogy

from credalset._parallel import gather_blocks
from credalset._predictions import PredictionBatch
from credalset._typing import ArrayLike, FloatArray
from credalset._validation import as_numbers
from credalset.scores.intervals import IntervalSet
from credalset.scores.power import bracketed
from credalset.sets import box
from credalset.sets.geometry import Entropies, Geometry
from credalset.simplex import entropy_of_valid

SUM_TOLERANCE = 1e-6
SMALLEST, LARGEST = 1e-8, 1e10  # concentrations whose densities doubles can tell
MAX_ASCENTS = 60
MAX_STARTS = 8  # components whose own peak an ascent starts from
CELLS, LEVELS = 32, 4  # into which an interval is cut, and how often the outermost one is cut again
DRAWS_PER_RAY = 16
FEWEST = 100  # members that a volume rests on
MAX_ROUNDS = 64  # of draws, in search of members that are rare in their box
ELEMENTS = 1 << 18


@dataclass(frozen=True, eq=False)
class DirichletMixture(PredictionBatch):
    """N mixtures of C Dirichlets over K classes: weights (N, C) that sum to one, concentrations (N, C, K) > 0.

    ``np.asarray(mixture)`` is the array (N, C, K + 1) that `DirichletMixtureNetwork.predict_density` returns, with the
    weights first.

    Examples
    --------
    >>> mixture = DirichletMixture(np.array([[0.5, 0.5]]), np.array([[[3.0, 1.0], [1.0, 1.0]]]))
    >>> len(mixture), mixture.n_classes, mixture.mean()
    (1, 2, array([[0.625, 0.375]]))
    """

    weights: FloatArray
    concentrations: FloatArray

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.concentrations.shape[-1])

    def mean(self) -> FloatArray:
        """Return the means of the mixtures, (N, K)."""
        theta = self.concentrations
        means = (self.weights[..., None] * (theta / theta.sum(axis=-1, keepdims=True))).sum(axis=-2)
        return np.asarray(means / means.sum(axis=-1, keepdims=True))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        both = np.concatenate([self.weights[..., None], self.concentrations], axis=-1)
        return both if dtype is None else both.astype(dtype)

    @classmethod
    def check(cls, value: ArrayLike | DirichletMixture, name: str, n_classes: int | None) -> DirichletMixture:
        """Check mixtures, or an array of them (N, C, K + 1): weights sum to one, concentrations are positive."""
        if not isinstance(value, cls):
            array = as_numbers(value, name)
            if array.ndim != 3 or array.shape[1] < 1 or array.shape[2] < 3:
                raise ValueError(
                    f"{name} must hold mixtures of shape (N, components, 1 + classes) with at least 1 component and "
                    f"2 classes, but has shape {array.shape}."
                )
            value = cls(array[..., 0], array[..., 1:])
        weights, theta = value.weights, value.concentrations
        if n_classes is not None and value.n_classes != n_classes:
            raise ValueError(f"{name} has mixtures over {value.n_classes} classes, but {n_classes} are expected.")
        if not (np.isfinite(weights).all() and np.isfinite(theta).all()):
            raise ValueError(f"{name} contains NaN or infinity.")
        sums = weights.sum(axis=1)
        bad = (weights < 0).any(axis=1) | (np.abs(sums - 1.0) > SUM_TOLERANCE)
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(
                f"{name} must have weights (its entries [:, :, 0]) that are not negative and sum to one, but those of "
                f"row {row} sum to {sums[row]:.6g} and the smallest is {weights[row].min():.6g}."
            )
        if theta.min(initial=1.0) < SMALLEST or theta.max(initial=1.0) > LARGEST:
            raise ValueError(
                f"{name} must have concentrations (its entries [:, :, 1:]) from {SMALLEST:g} to {LARGEST:g}, but they "
                f"go from {theta.min():.6g} to {theta.max():.6g}. Clip them: densities beyond are lost to rounding."
            )
        return value


def log_density(weights: FloatArray, theta: FloatArray, pull: float, points: FloatArray) -> FloatArray:
    """Return log p of distributions (…, K) under weights (…, C) and concentrations (…, C, K) that broadcast: (…)."""
    return np.asarray(logsumexp(_component_logs(weights, theta, _pulled(points, pull)), axis=-1))


def _pulled(points: FloatArray, pull: float) -> FloatArray:
    return (points + pull) / (1.0 + points.shape[-1] * pull)


def _released(y: FloatArray, pull: float) -> FloatArray:
    """Undo `_pulled`, up to rounding."""
    points = np.maximum(y * (1.0 + y.shape[-1] * pull) - pull, 0.0)
    return np.asarray(points / points.sum(axis=-1, keepdims=True))


def _component_logs(weights: FloatArray, theta: FloatArray, y: FloatArray) -> FloatArray:
    """Return log w_j Dir(y | θ_j) of pulled points, (…, C): a component at a time, which takes less memory."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(y)
        parts = []
        for j in range(weights.shape[-1]):
            powers = np.where(theta[..., j, :] == 1.0, 0.0, (theta[..., j, :] - 1.0) * logs).sum(axis=-1)
            parts.append(_log_norms(weights[..., j], theta[..., j, :]) + powers)
        return np.stack(np.broadcast_arrays(*parts), axis=-1)


def _log_norms(weights: FloatArray, theta: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights) + gammaln(theta.sum(axis=-1)) - gammaln(theta).sum(axis=-1))


def largest_negative_log(weights: FloatArray, theta: FloatArray, pull: float, lower: FloatArray) -> FloatArray:
    """Bound −log p from above over {λ : λ ≥ lower}, (N,); see `NegativeLogDensity.largest_above`."""
    excess, spare = theta - 1.0, np.maximum(1.0 - lower.sum(axis=1, keepdims=True), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        least, most = (np.log(_pulled(ends, pull))[:, None] for ends in (lower, lower + spare))
        below, above = (np.where(excess > 0, excess * logs, 0.0) for logs in (least, most))
        falling = np.minimum(excess, 0.0) * most
    # At the corner of class k all others are at their least; sums from both sides, for differences of −inf are NaN.
    before, after = np.zeros_like(below), np.zeros_like(below)
    before[..., 1:] = np.cumsum(below, axis=-1)[..., :-1]
    after[..., :-1] = np.cumsum(below[..., ::-1], axis=-1)[..., -2::-1]
    smallest = _log_norms(weights, theta) + (before + above + after).min(axis=-1) + falling.sum(axis=-1)
    return np.asarray(-logsumexp(smallest, axis=-1))


def highest_points(weights: FloatArray, theta: FloatArray, pull: float) -> FloatArray:
    """Search the mode of each mixture, (N, K).

    From the peaks of the highest components, ascend by minorisation: with responsibilities r_j at the present point,
    Σ_j r_j log p_j touches log p from below there, and its maximum is `_monomial_peak` of Σ_j r_j (θ_j − 1). No step
    goes down. The highest of the ends is the mode in all but contrived cases; no bound says so.
    """
    k = theta.shape[-1]
    floor, excess, wide = pull / (1.0 + k * pull), theta - 1.0, (weights[:, None], theta[:, None])
    peaks = _monomial_peak(excess, floor)
    heights = np.where(weights > 0, logsumexp(_component_logs(*wide, peaks), axis=-1), -np.inf)
    starts = np.argsort(-heights, axis=1)[:, :MAX_STARTS]
    y, value = np.take_along_axis(peaks, starts[..., None], axis=1), np.take_along_axis(heights, starts, axis=1)
    for _ in range(MAX_ASCENTS):
        logs = _component_logs(*wide, y)
        with np.errstate(invalid="ignore", under="ignore"):
            shares = np.nan_to_num(np.exp(logs - logsumexp(logs, axis=-1, keepdims=True)))
        moved = _monomial_peak(shares @ excess, floor)
        height = logsumexp(_component_logs(*wide, moved), axis=-1)
        better = height > value + 1e-12
        if not better.any():
            break
        y, value = np.where(better[..., None], moved, y), np.where(better, height, value)
    best = y[np.arange(len(y)), value.argmax(axis=1)]
    return _released(best, pull)


def _monomial_peak(powers: FloatArray, floor: float) -> FloatArray:
    r"""Return where $\prod_k y_k^{a_k}$ is largest over $\{y : \sum y = 1, y_k \ge f\}$, for powers (…, K).

    Classes with a ≤ 0 sit at the floor: mass moved from them to a class with a > 0 raises the product twice. The
    others share what is left in proportion to a, those whose share would be below the floor staying there. Without
    any a > 0 the logarithm is convex and peaks at a corner: everything goes to the class whose power is nearest zero.
    """
    k = powers.shape[-1]
    positive = np.maximum(powers, 0.0)
    share, at_floor = np.zeros_like(positive), positive <= 0
    for _ in range(k):
        free = 1.0 - floor * at_floor.sum(axis=-1, keepdims=True)
        total = np.where(at_floor, 0.0, positive).sum(axis=-1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(at_floor, floor, free * positive / total)
        below = ~at_floor & (share < floor)
        if not below.any():
            break
        at_floor |= below
    corner = np.where(np.arange(k) == powers.argmax(axis=-1)[..., None], 1.0 - (k - 1) * floor, floor)
    return np.where((positive > 0).any(axis=-1, keepdims=True), share, corner)


@dataclass(frozen=True, eq=False)
class DensitySet(Geometry):
    """{λ : p(λ) ≥ exp(−level)} for mixtures of Dirichlets p; ``radius`` is how far log p exceeds it at its peak."""

    shape: ClassVar[str] = "density set"
    is_outer: ClassVar[bool] = True

    weights: FloatArray
    concentrations: FloatArray
    level: FloatArray
    pull: float

    def divergence(self, points: FloatArray) -> FloatArray:
        """Return by how much log p is below its peak, (N, M)."""
        weights, theta = self.weights[:, None], self.concentrations[:, None]
        return self.radius[:, None] - self.level[:, None] - log_density(weights, theta, self.pull, points)

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        r"""Bound the probabilities of the members from outside.

        On the slice $y_k = t$ the mixture is at most $\sum_j w_j M_j(t)$, with $M_j(t)$ the largest value of component
        j there, in closed form. The last t at which that sum reaches c bounds $y_k$; it is found by cutting the
        interval into cells, on each of which every $M_j$ is bounded by its largest value, and cutting the outermost
        cell that may reach c again.
        """
        k = self.n_classes

        def one_block(rows: slice) -> tuple[FloatArray, FloatArray]:
            part = self[rows]
            size = np.abs(gammaln(part.concentrations.sum(axis=-1))).max(axis=1) + np.abs(part.level)
            log_level = -part.level - 1e-12 - 8.0 * np.finfo(float).eps * size  # what rounding may cost is given
            ends = [[_Slices.of(part, c).outermost(log_level, last) for c in range(k)] for last in (False, True)]
            lower, upper = (np.stack(end, axis=1) * (1.0 + k * self.pull) - self.pull for end in ends)
            slack = 4.0 * np.finfo(float).eps
            lower, upper = np.clip(lower - slack, 0.0, 1.0), np.clip(upper + slack, 0.0, 1.0)
            return np.minimum(lower, part.center), np.maximum(upper, part.center)

        lower, upper = gather_blocks(one_block, len(self), self.weights.shape[1] * CELLS, ELEMENTS)
        return lower, upper

    def _box(self) -> IntervalSet:
        """Return the boxes between the envelopes."""
        lower, upper = self.envelope()
        return IntervalSet(self.center, np.ones(len(self)), self.center - lower, upper - self.center)

    def support(self, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the largest expectations over the box."""
        return self._box().support(utility)

    def entropies(self) -> Entropies:
        """Bracket the entropies by those of the box and of members: the peak, and those of the components."""
        lower, upper = self.envelope()
        peaks = _monomial_peak(self.concentrations - 1.0, self.pull / (1.0 + self.n_classes * self.pull))
        points = np.concatenate([_released(peaks, self.pull), self.center[:, None]], axis=1)
        entropy, inside = entropy_of_valid(points), self.divergence(points) <= self.radius[:, None]
        inside[:, -1] = True
        low, high = np.where(inside, entropy, np.inf).min(axis=1), np.where(inside, entropy, -np.inf).max(axis=1)
        most = np.maximum(entropy_of_valid(box.most_even(lower, upper)), high)
        return Entropies(*bracketed(box.majorization_bound(lower, upper), low), most, most - high)

    def mode_radius(self) -> FloatArray:
        """Return the radius for classes that are the mode somewhere in the box, ``+inf`` for the others."""
        return np.where(np.isfinite(self._box().mode_radius()), self.radius[:, None], np.inf)

    def log_volume(self, generator: np.random.Generator, n_rays: int) -> tuple[FloatArray, FloatArray, str]:
        """Estimate the volume by the share of members among uniform draws in the box."""
        value, error, _ = self._box().log_volume(generator, n_rays)
        for i in range(len(self)):
            members, n_drawn = self._members(i, FEWEST, max(DRAWS_PER_RAY * n_rays, 4096), generator)
            share = len(members) / n_drawn
            value[i] += np.log(share)
            error[i] = np.hypot(error[i], np.sqrt((1.0 - share) / len(members)))
        return value, error, "estimate"

    def sample(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Draw members: independent, and uniform in each set."""
        return np.stack([self._members(i, n, 4 * n + 64, generator)[0][:n] for i in range(len(self))])

    def _members(self, i: int, wanted: int, batch: int, generator: np.random.Generator) -> tuple[FloatArray, int]:
        """Draw batches from the box of set i until enough members are found: these, and the number of draws."""
        one, found = self[[i]], np.empty((0, self.n_classes))
        frame = one._box()
        for turn in range(1, MAX_ROUNDS + 1):
            points = frame.sample(batch, generator)[0]
            found = np.concatenate([found, points[one.divergence(points[None])[0] <= one.radius[0]]])
            if len(found) >= wanted:
                return found, turn * batch
        raise ValueError(
            f"{len(found)} of {MAX_ROUNDS * batch} draws from the box around a density set of {self.n_classes} classes "
            "are members, too few for volumes and samples. Ask for envelopes, expectations or entropy bounds."
        )


class _Slices(NamedTuple):
    """Log M_j(t) = constant + power·log t + rest·log(1 − t − taken), each (N, C, 1): t in [floor, highest]."""

    constant: FloatArray
    power: FloatArray
    rest: FloatArray
    taken: FloatArray
    floor: float
    highest: float

    @staticmethod
    def of(sets: DensitySet, k: int) -> _Slices:
        """Describe the largest value of each component among the points with a given k-th entry.

        The other classes share 1 − t as in `_monomial_peak`; leaving the floor of those with a > 0 aside only raises
        the value.
        """
        theta, n_classes = sets.concentrations, sets.n_classes
        floor = sets.pull / (1.0 + n_classes * sets.pull)
        others = np.delete(theta - 1.0, k, axis=-1)
        positive, idle, nearest = np.maximum(others, 0.0), np.minimum(others, 0.0), others.max(axis=-1)
        total = positive.sum(axis=-1)
        shared = total > 0  # otherwise the class whose power is nearest zero takes everything
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = xlogy(positive, positive / total[..., None]).sum(axis=-1)
            fixed = idle.sum(axis=-1) - np.where(shared, 0.0, nearest)
            fixed = np.where(fixed == 0, 0.0, fixed * np.log(floor))
        constant = _log_norms(sets.weights, theta) + np.where(shared, shares, 0.0) + fixed
        taken = np.where(shared, (others <= 0).sum(axis=-1), n_classes - 2) * floor
        rows = constant, theta[..., k] - 1.0, np.where(shared, total, nearest), taken
        constant, power, rest, taken = (row[..., None] for row in rows)
        return _Slices(constant, power, rest, taken, floor, 1.0 - (n_classes - 1) * floor)

    def at(self, t: FloatArray) -> FloatArray:
        """Log M_j at points (N, 1 or C, T), (N, C, T)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.log(np.maximum(1.0 - t - self.taken, 0.0))
            own = np.where(self.power == 0, 0.0, self.power * np.log(t))
            return self.constant + own + np.where(self.rest == 0, 0.0, self.rest * left)

    def outermost(self, log_level: FloatArray, last: bool) -> FloatArray:
        """Return a bound beyond which no slice reaches the level, (N,)."""
        n = len(log_level)
        low, high = np.full(n, self.floor), np.full(n, self.highest)
        with np.errstate(divide="ignore", invalid="ignore"):
            peak = np.nan_to_num(self.power / (self.power + self.rest) * (1.0 - self.taken), nan=-1.0)
        for _ in range(LEVELS):
            edges = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, CELLS + 1)
            values = self.at(edges[:, None, :])
            inside = np.clip(peak, edges[:, None, :-1], edges[:, None, 1:])
            top = np.maximum(np.maximum(values[..., :-1], values[..., 1:]), self.at(inside))
            reaches = logsumexp(top, axis=1) >= log_level[:, None]
            reaches[:, -1 if last else 0] |= ~reaches.any(axis=1)  # rounding must not lose the set altogether
            cell = CELLS - 1 - reaches[:, ::-1].argmax(axis=1) if last else reaches.argmax(axis=1)
            low, high = edges[np.arange(n), cell], edges[np.arange(n), cell + 1]
        return high if last else low
