r"""Probability intervals with predicted half-widths above and below the predicted probabilities.

The sets are the probability intervals of de Campos, Huete and Moral (1994): the intersection of a
box and the simplex, the largest sets with given envelopes. All results follow from the largest
changes of each class, down and up, which are limited by its side, by its probability and by the
changes of the other classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import entr, gammaln

from credalset._batch import read
from credalset._blocks import gather_blocks, row_blocks
from credalset._predictions import PredictionBatch
from credalset._typing import ArrayLike, BoolArray, FloatArray, Prediction
from credalset._validation import as_numbers
from credalset.scores.base import Score
from credalset.scores.power import BLOCK, bracketed
from credalset.scores.registry import register_score
from credalset.sets import box
from credalset.sets.geometry import Geometry
from credalset.sets.modes import TIE
from credalset.sets.results import Entropies
from credalset.sets.roots import bisect
from credalset.simplex import entropy_of_valid

MAX_LISTED = 4  # classes up to which the smallest entropy is found by listing all corners
MAX_SUBSETS = 10  # classes up to which volumes are sums over all sets of classes
N_TERMS = 400  # of the Fourier series of a volume
DRAWS_PER_RAY = 16  # of a volume estimate


@dataclass(frozen=True, eq=False)
class IntervalPrediction(PredictionBatch):
    """Predicted distributions and intervals around them, for the score `Intervals`.

    ``np.asarray(prediction)`` is the array (N, 3, K) that `IntervalNetwork.predict_intervals`
    returns: distributions, half-widths below, half-widths above.

    Parameters
    ----------
    distributions : array or data frame of shape (N, K)
        Predicted distributions.
    below : array or data frame of shape (N, K)
        Half-widths of the intervals below the predicted probabilities.
    above : array or data frame of shape (N, K)
        Half-widths of the intervals above the predicted probabilities.
    items, classes : tuple, optional
        Names of the rows and columns; by default those of the data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from credalset.scores import IntervalPrediction
    >>> one = IntervalPrediction(np.array([[0.7, 0.3]]), np.array([[0.2, 0.1]]),
    ...                          np.array([[0.1, 0.2]]))
    >>> len(one), one.n_classes, np.asarray(one).shape
    (1, 2, (1, 3, 2))
    """

    distributions: FloatArray
    below: FloatArray
    above: FloatArray

    def __post_init__(self) -> None:
        if all(type(array) is np.ndarray for array in self.arrays()):
            return
        batch = read(self.distributions, self.classes, name="distributions")
        found = {
            "distributions": batch.values,
            "below": batch.matrix(self.below, "below"),
            "above": batch.matrix(self.above, "above"),
            "items": batch.items or self.items,
            "classes": batch.classes,
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.distributions.shape[-1])

    def mean(self) -> FloatArray:
        """Return the distributions, (N, K)."""
        return self.distributions

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        whole = np.stack(self.arrays(), axis=-2)
        return whole if dtype is None else whole.astype(dtype)


@register_score
@dataclass(frozen=True)
class Intervals(Score):
    r"""Largest difference over its half-width.

    It is $f = \max_k \max \{(\lambda_k - g_k) / a_k, (g_k - \lambda_k) / b_k\}$.

    The half-widths $a_k > 0$ above and $b_k > 0$ below $g_k$ are predicted for each item and class.
    The sets are probability intervals, $g_k - t b_k \le \lambda_k \le g_k + t a_k$ for every class,
    within the simplex.

    Predictions are an `IntervalPrediction` or an array (N, 3, K) of distributions, half-widths
    below and half-widths above, as `IntervalNetwork` predicts them. Plain distributions (N, K) have
    half-widths 1, and f is then the largest difference.

    References
    ----------
    de Campos, Huete and Moral (1994), Probability intervals: a tool for uncertain reasoning.
    International Journal of Uncertainty, Fuzziness and Knowledge-Based Systems 2.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.array([[[0.7, 0.2, 0.1], [0.4, 0.1, 0.1], [0.1, 0.2, 0.1]]])
    >>> Intervals()(one, np.array([[0.5, 0.4, 0.1]]))
    array([1.])
    >>> Intervals().region(one, threshold=1.0).envelope()
    (array([[0.4, 0.1, 0. ]]), array([[0.8, 0.4, 0.2]]))
    """

    name: ClassVar[str] = "intervals"
    order: ClassVar[Literal["first", "second"]] = "first"

    @property
    def prediction_methods(self) -> tuple[str, ...]:
        """Intervals if the estimator predicts them, otherwise distributions, with half-widths 1."""
        return ("predict_intervals", "predict_proba")

    def check_prediction(
        self, prediction: ArrayLike, name: str = "prediction", n_classes: int | None = None
    ) -> IntervalPrediction:
        """Validate intervals, or plain distributions, which have half-widths 1."""
        if not isinstance(prediction, IntervalPrediction):
            if np.ndim(prediction) != 3:
                rows = super().check_prediction(prediction, name, n_classes)
                return IntervalPrediction(rows, np.ones_like(rows), np.ones_like(rows))
            array = as_numbers(prediction, name)
            if array.shape[1] != 3:
                raise ValueError(
                    f"{name} must hold intervals of shape (N, 3, K), that is distributions, "
                    f"half-widths below and half-widths above, but has shape {array.shape}."
                )
            prediction = IntervalPrediction(*(np.ascontiguousarray(array[:, i]) for i in range(3)))
        rows = super().check_prediction(prediction.distributions, name, n_classes)
        for sides in (prediction.below, prediction.above):
            if sides.shape != rows.shape or not (np.isfinite(sides).all() and (sides > 0).all()):
                raise ValueError(
                    f"{name} must have finite half-widths above 0 for each of its {rows.shape[0]} "
                    f"items and {rows.shape[1]} classes, but their shape is {sides.shape}, the "
                    f"smallest {sides.min(initial=np.inf):.4g}."
                )
        return IntervalPrediction(rows, prediction.below, prediction.above)

    def formula(self, prediction: Prediction, distribution: FloatArray) -> FloatArray:
        """Return the largest difference relative to its side."""
        gap = distribution - prediction.distributions
        return np.asarray(np.maximum(gap / prediction.above, -gap / prediction.below).max(axis=-1))

    def best_fit(self, prediction: Prediction) -> FloatArray:
        """Return the predicted distribution."""
        return np.asarray(prediction.distributions)

    def geometry(self, prediction: Prediction, threshold: FloatArray) -> IntervalSet:
        """Return the intersections of boxes and the simplex."""
        return IntervalSet(prediction.distributions, threshold, prediction.below, prediction.above)


@dataclass(frozen=True, eq=False)
class IntervalSet(Geometry):
    """{λ : center − radius · below ≤ λ ≤ center + radius · above}.

    All results are exact except the smallest entropy beyond four classes, which is a bracket, and
    volumes for which neither formula is precise enough.
    """

    shape: ClassVar[str] = "probability interval"

    below: FloatArray
    above: FloatArray

    def reach(self) -> tuple[FloatArray, FloatArray]:
        """Return the largest decrease and increase of each class, (N, K).

        The other classes must compensate it.
        """
        with np.errstate(over="ignore"):
            down = np.minimum(self.radius[:, None] * self.below, self.center)
            up = np.minimum(self.radius[:, None] * self.above, 1.0)
        return np.minimum(down, _of_others(up)), np.minimum(up, _of_others(down))

    def divergence(self, points: FloatArray) -> FloatArray:
        """Return the largest difference relative to its side, (N, M)."""
        gap = points - self.center[:, None]
        return np.asarray(
            np.maximum(gap / self.above[:, None], -gap / self.below[:, None]).max(axis=2)
        )

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the intervals that members attain."""
        down, up = self.reach()
        return self.center - down, np.minimum(self.center + up, 1.0)

    def support(self, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return largest expectations and maximisers: the best classes are filled first."""
        return box.support(*self.envelope(), utility)

    def entropies(self) -> Entropies:
        r"""Return the exact largest entropy and a bracket of the smallest.

        The entropy of each class, $h(\lambda_k)$, lies above its chord between the ends, so the
        smallest sum of chords is a lower bound. At its minimiser all classes but one are at an end,
        where the bound is tight. Majorisation gives another bound.
        """

        def one_block(rows: slice) -> tuple[FloatArray, FloatArray, FloatArray]:
            lower, upper = (end[rows] for end in ends)
            width = upper - lower
            slope = np.divide(
                entr(upper) - entr(lower), width, out=np.zeros_like(width), where=width > 0
            )
            value, point = box.support(lower, upper, -slope)
            least = np.maximum(
                (entr(lower) - slope * lower).sum(axis=1) - value,
                box.majorization_bound(lower, upper),
            )
            found = entropy_of_valid(point)
            if self.n_classes <= MAX_LISTED:
                corners, there = _corners(lower, upper, self.center[rows].sum(axis=1))
                exact = np.where(there, entropy_of_valid(corners), np.inf).min(axis=0)
                # Where rounding hides every corner, the set is a point, and the bracket stays.
                least = np.where(np.isfinite(exact), exact, least)
                found = np.where(np.isfinite(exact), exact, found)
            else:
                for start in (
                    upper,
                    np.log(np.maximum(point, 1e-300)),
                ):  # the largest ends first, or the gradient
                    for _ in range(2):
                        point = box.support(lower, upper, start)[1]
                        found = np.minimum(found, entropy_of_valid(point))
                        start = np.log(np.maximum(point, 1e-300))
            most = entropy_of_valid(box.most_even(lower, upper))
            return least, found, np.maximum(most, found)

        ends = self.envelope()
        least, found, most = gather_blocks(one_block, len(self), self.n_classes, BLOCK)
        return Entropies(*bracketed(least, found), most, np.zeros(len(self)))

    def mode_radius(self) -> FloatArray:
        """Return the radius for classes that can be the mode, ``+inf`` for the others.

        A class can be the mode, at its upper end, if no lower end is above it and the other
        classes, clipped there, can take the remaining mass.
        """
        lower, upper = self.envelope()
        order = np.argsort(upper, axis=1)
        ranked = np.take_along_axis(upper, order, axis=1)
        most = np.empty_like(upper)
        # A class and those with a larger end, cut at its end.
        above = ranked * np.arange(self.n_classes, 0, -1)
        np.put_along_axis(most, order, np.cumsum(ranked, axis=1) - ranked + above, axis=1)
        slack = TIE * (upper - lower) + 4e-16 * self.n_classes
        can = (most >= 1.0 - slack) & (lower.max(axis=1, keepdims=True) <= upper + slack)
        return np.where(can, self.radius[:, None], np.inf)

    def _ray_length(self, directions: FloatArray) -> FloatArray:
        """Return the distance to the first side that a ray meets."""
        down, up = (reach[:, None] for reach in self.reach())
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ends = np.where(directions > 0, up, down) / np.abs(directions)
        return np.asarray(np.where(directions != 0, ends, np.inf).min(axis=2))

    def vertices(self, i: int) -> FloatArray:
        """Return the corners of region i, where all classes but one are at an end."""
        if self.n_classes > MAX_SUBSETS + 2:
            raise ValueError(
                f"vertices are listed for at most {MAX_SUBSETS + 2} classes, but there are "
                f"{self.n_classes}. Use upper_expectation or sample."
            )
        found, there = _corners(*self[[i]].envelope(), self.center[[i]].sum(axis=1))
        return np.unique(found[there[:, 0], 0].round(15), axis=0)

    def log_volume(
        self, generator: np.random.Generator, n_rays: int
    ) -> tuple[FloatArray, FloatArray, str]:
        """Return the log share of the simplex, an estimate where no formula is precise enough."""
        frame = Frame.of(*self.reach())
        value = np.full(len(self), np.nan)
        error = np.zeros(len(self))
        for formula in (Frame.by_subsets, Frame.by_series):
            rows = np.flatnonzero(np.isnan(value))
            for part in row_blocks(len(rows), N_TERMS * self.n_classes):
                value[rows[part]] = formula(frame.select(rows[part]))
        rows = np.flatnonzero(np.isnan(value))
        for i in rows:
            value[i], error[i] = frame.select([i]).by_draws(DRAWS_PER_RAY * n_rays, generator)
        return np.minimum(value, 0.0), error, "estimate" if len(rows) else "exact"

    def sample(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Draw independent uniform members."""
        down, up = self.reach()
        frame = Frame.of(down, up)
        result = np.empty((len(self), n, self.n_classes))
        order = np.argsort(-(down + up), axis=1, kind="stable")
        for i, lower in enumerate(self.center - down):
            moves = frame.select([i]).draw(n, generator)
            result[i][:, order[i]] = lower[order[i]] + moves
        return result


class Frame(NamedTuple):
    """Boxes 0 ≤ x ≤ ``width``, (n, K) with the widest class first, cut by Σ x = ``total``.

    ``tilt`` is c such that independent x_k with densities ∝ exp(−c x_k) on their intervals have a
    sum of mean ``total``. Given their sum they are uniform; volume and draws use this.
    """

    width: FloatArray
    total: FloatArray
    tilt: FloatArray

    @staticmethod
    def of(down: FloatArray, up: FloatArray) -> Frame:
        """Build frames from the largest decreases and increases of the classes."""
        width = -np.sort(-(down + up), axis=1)
        total = down.sum(axis=1)
        rest = up.sum(axis=1)

        def is_beyond(c: FloatArray) -> BoolArray:
            t = c[:, None] * width
            safe = np.where(np.abs(t) > 1e-4, t, 1.0)
            mean = np.where(np.abs(t) > 1e-4, 1.0 / safe - 1.0 / np.expm1(safe), 0.5 - t / 12.0)
            return np.asarray((width * mean).sum(axis=1) <= total)

        with np.errstate(divide="ignore", over="ignore"):
            k = width.shape[1]
            ends = -k / np.maximum(rest, 1e-300), k / np.maximum(total, 1e-300)
            low, high = bisect(is_beyond, *ends, steps=60)
        return Frame(width, total, 0.5 * (low + high))

    def select(self, rows: Any) -> Frame:
        """Return some of the frames."""
        return Frame(*(array[rows] for array in self))

    def _log_norms(self) -> FloatArray:
        """Return log ∫ exp(−c x) dx over each interval, (n, K)."""
        t = self.tilt[:, None] * self.width
        safe = np.where(np.abs(t) > 1e-9, t, 1.0)
        return np.asarray(
            np.log(self.width)
            + np.where(np.abs(t) > 1e-9, np.log(-np.expm1(-safe) / safe), -0.5 * t)
        )

    def by_subsets(self) -> FloatArray:
        """Return log Σ_T (−1)^|T| (s − w(T))₊^(K−1) over sets T of classes, NaN if imprecise."""
        k = self.width.shape[1]
        if k > MAX_SUBSETS:
            return np.full(len(self.total), np.nan)
        chosen = _subsets(k)
        # The volume is symmetric in these.
        total = np.minimum(self.total, self.width.sum(axis=1) - self.total)
        with np.errstate(all="ignore"):
            terms = np.maximum(1.0 - (self.width @ chosen.T) / total[:, None], 0.0) ** (k - 1)
            value = terms @ (-1.0) ** chosen.sum(axis=1)
            result = np.log(value) + (k - 1) * np.log(total)
            flat = (self.width <= 0).any(axis=1)
            return np.where(
                flat, -np.inf, np.where(value > 1e-6 * terms.sum(axis=1), result, np.nan)
            )

    def by_series(self) -> FloatArray:
        """Return the log volume by a Fourier series of the density of Σ x, NaN unless converged.

        The density is zero outside [0, Σ w], so the series with that period is exact.
        """
        k = self.width.shape[1]
        period = self.width.sum(axis=1)
        with np.errstate(all="ignore"):
            y = 2.0 * np.pi * np.arange(1, N_TERMS + 1) / period[:, None]
            rate = self.tilt[:, None] - 1j * y
            logs = np.zeros_like(rate)
            for width in self.width.T:
                logs += np.log(-np.expm1(-rate * width[:, None]) / rate)
            logs -= self._log_norms().sum(axis=1)[:, None]
            series = 1.0 + 2.0 * np.exp(logs - 1j * y * self.total[:, None]).real.sum(axis=1)
            left = N_TERMS * np.exp(logs.real[:, -16:].max(axis=1))
            value = (
                self.tilt * self.total
                + self._log_norms().sum(axis=1)
                + np.log(series / period)
                + gammaln(k)
            )
        return np.asarray(np.where(left < 1e-9 * series, value, np.nan))

    def by_draws(self, n: int, generator: np.random.Generator) -> tuple[float, float]:
        """Estimate the volume of one frame, and the relative standard error."""
        x, first = self._propose(n, generator)
        inside = (first >= 0) & (first <= self.width[0, 0])
        weight = np.where(inside, np.exp(-self.tilt[0] * (first - self._nearest_end())), 0.0)
        log_scale = (
            self.tilt[0] * (self.total[0] - self._nearest_end()) + self._log_norms()[0, 1:].sum()
        )
        mean = weight.mean()
        with np.errstate(divide="ignore", invalid="ignore"):
            error = weight.std(ddof=1) / math.sqrt(n) / mean
            return float(np.log(mean) + log_scale + gammaln(len(x.T) + 1)), float(error)

    def draw(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Draw n points of one frame uniformly, (n, K), by rejection."""
        found = []
        missing = n
        while missing > 0:
            x, first = self._propose(4 * missing + 64, generator)
            chance = np.exp(-self.tilt[0] * (first - self._nearest_end()))
            kept = (
                (first >= 0)
                & (first <= self.width[0, 0])
                & (generator.random(len(first)) <= chance)
            )
            found.append(np.column_stack([first, x])[kept])
            missing -= int(kept.sum())
        return np.concatenate(found)[:n]

    def _nearest_end(self) -> float:
        """Return the end of the first class at which its density is highest."""
        return 0.0 if self.tilt[0] > 0 else float(self.width[0, 0])

    def _propose(self, n: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw all classes but the first independently, (n, K − 1); it has the rest, (n,)."""
        uniform = generator.random((n, self.width.shape[1] - 1))
        width = self.width[0, 1:]
        c = self.tilt[0]
        t = c * width
        safe = np.where(np.abs(t) > 1e-9, t, 1.0)
        x = width * np.where(np.abs(t) > 1e-9, -np.log1p(uniform * np.expm1(-safe)) / safe, uniform)
        return x, self.total[0] - x.sum(axis=1)


def _corners(
    lower: FloatArray, upper: FloatArray, total: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return all corners between envelopes (n, K), some twice, and which exist.

    The shapes are (number, n, K) and (number, n). The entries of members add up to ``total``, (n,),
    one up to the rounding of the prediction, which may be larger than the set.
    """
    k = lower.shape[1]
    found = []
    there = []
    for free in range(k):
        for ends in _subsets(k - 1) > 0:
            points = np.where(np.insert(ends, free, False), upper, lower)
            points[:, free] = 0.0
            points[:, free] = total - points.sum(axis=1)
            inside = (points[:, free] >= lower[:, free] - 1e-15) & (
                points[:, free] <= upper[:, free] + 1e-15
            )
            points[:, free] = np.clip(points[:, free], lower[:, free], upper[:, free])
            found.append(points)
            there.append(inside)
    return np.stack(found), np.stack(there)


def _subsets(k: int) -> FloatArray:
    """Return all sets of k classes as rows of zeros and ones."""
    return ((np.arange(1 << k)[:, None] >> np.arange(k)) & 1).astype(float)


def _of_others(values: FloatArray) -> FloatArray:
    """Return Σ_{j≠k} values_j, (N, K), without differences."""
    before = np.zeros_like(values)
    after = np.zeros_like(values)
    np.cumsum(values[:, :-1], axis=1, out=before[:, 1:])
    np.cumsum(values[:, :0:-1], axis=1, out=after[:, -2::-1])
    return before + after
