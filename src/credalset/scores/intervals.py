r"""Probability intervals whose sides are predicted: how far each class may lie above and below its probability.

The sets are the classical probability intervals (de Campos, Huete and Moral, 1994): a box, cut by the simplex. Of all
sets with the same envelopes they are the largest: any other could be exchanged for them without getting wider or losing
a member. Everything follows from how far each class can go down and up from the centre: no more than its side, than
what is there, and than what the other classes can take or give.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import xlogy

from credalset._predictions import PredictionBatch
from credalset._typing import ArrayLike, BoolArray, FloatArray, Prediction
from credalset._validation import as_numbers
from credalset.scores.base import Score
from credalset.sets import box
from credalset.sets.old_set import CredalSet
from credalset.sets.region import TIE
from credalset.simplex import entropy_of_valid

MAX_CLASSES = 12  # up to which all 2^(K-1) K candidates for a vertex are looked at


@dataclass(frozen=True, eq=False)
class IntervalPrediction(PredictionBatch):
    """A distribution for each of N items over K classes, and how far down and up each probability may lie: (N, K) each.

    ``np.asarray(prediction)`` is the array (N, 3, K) that `IntervalNetwork.predict_intervals` returns: distributions,
    sides below, sides above.

    Examples
    --------
    >>> one = IntervalPrediction(np.array([[0.7, 0.3]]), np.array([[0.2, 0.1]]), np.array([[0.1, 0.2]]))
    >>> len(one), one.n_classes, np.asarray(one).shape
    (1, 2, (1, 3, 2))
    """

    distributions: FloatArray
    below: FloatArray
    above: FloatArray

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


@dataclass(frozen=True)
class Intervals(Score):
    r"""The largest difference in units of its side, $\max_k \max \{(\lambda_k - g_k) / a_k, (g_k - \lambda_k) / b_k\}$.

    The sides $a_k > 0$ above and $b_k > 0$ below the probability $g_k$ are predicted for each item and class. The
    sets are probability intervals, $g_k - t b_k \le \lambda_k \le g_k + t a_k$ for every class, cut by the simplex.

    Predictions are an `IntervalPrediction` or an array (N, 3, K): distribution, sides below, sides above. Plain
    distributions (N, K) get sides 1: f is then the largest difference of any class. `IntervalNetwork` predicts
    intervals.

    References
    ----------
    de Campos, Huete and Moral (1994), Probability intervals: a tool for uncertain reasoning. International Journal of
    Uncertainty, Fuzziness and Knowledge-Based Systems 2.

    Examples
    --------
    >>> one = np.array([[[0.7, 0.2, 0.1], [0.4, 0.1, 0.1], [0.1, 0.2, 0.1]]])
    >>> Intervals()(one, np.array([[0.5, 0.4, 0.1]]))
    array([1.])
    >>> Intervals().region(one, threshold=1.0).envelope()
    (array([[0.4, 0.1, 0. ]]), array([[0.8, 0.4, 0.2]]))
    """

    name: ClassVar[str] = "intervals"
    order: ClassVar[Literal["first", "second"]] = "first"
    has_plain_predictions: ClassVar[bool] = False

    @property
    def prediction_methods(self) -> tuple[str, ...]:
        """Intervals where the estimator has them; otherwise sides 1 around each prediction."""
        return ("predict_intervals", "predict_proba")

    def check_prediction(
        self, prediction: ArrayLike, name: str = "prediction", n_classes: int | None = None
    ) -> IntervalPrediction:
        """Validate intervals, or plain distributions, which get sides 1."""
        if not isinstance(prediction, IntervalPrediction):
            if np.ndim(prediction) != 3:
                rows = super().check_prediction(prediction, name, n_classes)
                return IntervalPrediction(rows, np.ones_like(rows), np.ones_like(rows))
            array = as_numbers(prediction, name)
            if array.shape[1] != 3:
                raise ValueError(
                    f"{name} must hold intervals of shape (N, 3, classes): distributions, sides below and sides above; "
                    f"but has shape {array.shape}."
                )
            prediction = IntervalPrediction(*(np.ascontiguousarray(array[:, i]) for i in range(3)))
        rows = super().check_prediction(prediction.distributions, name, n_classes)
        for sides in (prediction.below, prediction.above):
            if sides.shape != rows.shape or not (np.isfinite(sides).all() and (sides > 0).all()):
                raise ValueError(
                    f"{name} must have finite sides above 0 for each of its {rows.shape[0]} items and {rows.shape[1]} "
                    f"classes, but has sides of shape {sides.shape}, the smallest {sides.min(initial=np.inf):.4g}."
                )
        return IntervalPrediction(rows, prediction.below, prediction.above)

    def formula(self, prediction: Prediction, distribution: FloatArray) -> FloatArray:
        """The largest difference, in units of its side."""
        gap = distribution - prediction.distributions
        return np.asarray(np.maximum(gap / prediction.above, -gap / prediction.below).max(axis=-1))

    def best_fit(self, prediction: Prediction) -> FloatArray:
        """The predicted distribution."""
        return np.asarray(prediction.distributions)

    def _old_region(self, prediction: Prediction, threshold: FloatArray) -> IntervalSet:
        return IntervalSet(self, prediction, threshold, center=prediction.distributions, radius=threshold)


@dataclass(frozen=True, eq=False, repr=False)
class IntervalSet(CredalSet):
    """{λ : center − radius · below ≤ λ ≤ center + radius · above}.

    Envelopes, expectations, the largest entropy, the smallest peak and the labels that can be the most probable one are
    exact for any number of classes; the least entropy and the vertices up to 12, the volume up to three.
    """

    shape: ClassVar[str] = "probability interval"
    exact_volume_up_to: ClassVar[float] = 3

    prediction: IntervalPrediction

    @cached_property
    def _reach(self) -> tuple[FloatArray, FloatArray]:
        """How far each class can go down and up, (N, K): what one loses, others must gain."""
        with np.errstate(over="ignore"):
            down = np.minimum(self.radius[:, None] * self.prediction.below, self.center)
            up = np.minimum(self.radius[:, None] * self.prediction.above, 1.0)
        return np.minimum(down, _of_others(up)), np.minimum(up, _of_others(down))

    def _divergence(self, points: FloatArray) -> FloatArray:
        gap = points - self.center[:, None]
        sides = np.where(gap > 0, self.prediction.above[:, None], self.prediction.below[:, None])
        return np.asarray((np.abs(gap) / sides).max(axis=2))

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        down, up = self._reach
        return self.center - down, np.minimum(self.center + up, 1.0)

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        return box.support(*self._envelope(), utility)

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        point = box.most_even(*self._envelope())
        return entropy_of_valid(point), point

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """By majorisation wherever wider classes lie higher; elsewhere all vertices are looked at."""
        low, high, point = super()._min_entropy(attaining)
        assert point is not None
        if self.n_classes > MAX_CLASSES:
            return low, high, point
        rows = np.flatnonzero(low < high - 1e-14)
        lower, upper = self._envelope()
        for some in np.array_split(rows, max(1, (len(rows) << self.n_classes) >> 20)):
            found = least_entropy_vertex(lower[some], upper[some])
            least = entropy_of_valid(found)
            better = least < high[some]
            high[some[better]], point[some[better]] = least[better], found[better]
        return high, high, point

    def _has_exact_entropies(self) -> bool:
        return self.n_classes <= MAX_CLASSES

    def _smallest_peak(self) -> FloatArray:
        return np.asarray(box.most_even(*self._envelope()).max(axis=1))

    def _can_be_top(self) -> BoolArray:
        """A class can, at its upper end, if no other must lie above it and the others, cut there, have enough."""
        lower, upper = self._envelope()
        slack = TIE * (upper - lower) + 4e-16 * self.n_classes
        enough = np.empty(upper.shape, dtype=bool)
        for k in range(self.n_classes):
            enough[:, k] = np.minimum(upper, upper[:, k : k + 1]).sum(axis=1) >= 1.0 - slack[:, k]
        return enough & (lower.max(axis=1, keepdims=True) <= upper + slack)

    def _vertices(self) -> FloatArray:
        down, up = self._reach
        return np.unique(vertices(self.center[0], down[0], up[0]).round(15), axis=0)

    def _ray_length(self, directions: FloatArray) -> FloatArray:
        down, up = (reach[:, None] for reach in self._reach)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ends = np.where(directions > 0, up, down) / np.abs(directions)
        return np.asarray(np.where(directions != 0, ends, np.inf).min(axis=2))

    def _log_volume(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, str] | None:
        """Three classes: the rectangle of the two with the least room, without the corners the third cuts off.

        These corners' sides add up to no more than the lesser room, so that next to nothing cancels.
        """
        if self.n_classes != 3:
            return super()._log_volume(generator)
        order = np.argsort(self._reach[0] + self._reach[1], axis=1)
        down, up = (np.take_along_axis(reach, order, axis=1).T for reach in self._reach)
        at_bottom = np.maximum(down[0] + down[1] - up[2], 0.0)
        at_top = np.maximum(up[0] + up[1] - down[2], 0.0)
        area = 2.0 * (down[0] + up[0]) * (down[1] + up[1]) - at_bottom**2 - at_top**2
        with np.errstate(divide="ignore"):
            return np.minimum(np.log(area), 0.0), np.zeros(len(self)), "exact"


def least_entropy_vertex(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the vertex between reachable envelopes (N, K) that has the least entropy, (N, K), by looking at all."""
    n_classes = lower.shape[1]
    at_top = ((np.arange(1 << n_classes)[:, None] >> np.arange(n_classes)) & 1).astype(float)
    room, spare = upper - lower, 1.0 - lower.sum(axis=1, keepdims=True)
    rest = spare - room @ at_top.T  # what is left for the class that is at neither end
    entropy = (_entropy_term(upper) - _entropy_term(lower)) @ at_top.T
    best, point, rows = np.full(len(lower), np.inf), np.full_like(lower, np.nan), np.arange(len(lower))
    for free in range(n_classes):
        others = np.flatnonzero(at_top[:, free] == 0)
        share = rest[:, others]
        there = (share >= -1e-14) & (share <= room[:, [free]] + 1e-14)
        own = np.clip(lower[:, [free]] + share, lower[:, [free]], upper[:, [free]])
        value = np.where(there, entropy[:, others] + _entropy_term(own) - _entropy_term(lower[:, [free]]), np.inf)
        at = value.argmin(axis=1)
        better = value[rows, at] < best
        chosen = np.where(at_top[others[at]] == 1, upper, lower)
        chosen[:, free] = own[rows, at]
        best, point = np.where(better, value[rows, at], best), np.where(better[:, None], chosen, point)
    return point


def _entropy_term(share: FloatArray) -> FloatArray:
    return np.asarray(-xlogy(share, share))


def vertices(center: FloatArray, down: FloatArray, up: FloatArray) -> FloatArray:
    """Return the extreme points of one set, some of them twice, (V, K): all classes at an end of theirs, but for one.

    Parameters
    ----------
    center, down, up : ndarray of shape (K,)
        A member, and how far each class can go down and up from it; at most `MAX_CLASSES` classes.
    """
    n_classes = len(center)
    if n_classes > MAX_CLASSES:
        raise ValueError(
            f"vertices are listed for at most {MAX_CLASSES} classes, but there are {n_classes}: there can be thousands "
            "for each class. Ask for expectations (upper_expectation) or sample instead."
        )
    at_top = (np.arange(1 << (n_classes - 1))[:, None] >> np.arange(n_classes - 1)) & 1 == 1
    found = []
    for free in range(n_classes):
        moves = np.where(np.insert(at_top, free, False, axis=1), up, -down)
        moves[:, free] = 0.0
        rest = -moves.sum(axis=1)
        slack = 4e-16 * n_classes * (down + up).max()
        inside = (rest >= -down[free] - slack) & (rest <= up[free] + slack)
        moves[inside, free] = np.clip(rest[inside], -down[free], up[free])
        found.append(center + moves[inside])
    return np.clip(np.concatenate(found), 0.0, 1.0)


def _of_others(values: FloatArray) -> FloatArray:
    """Σ_{j≠k} values_j, (N, K), without taking differences."""
    zero = np.zeros_like(values[:, :1])
    before = np.cumsum(np.hstack([zero, values[:, :-1]]), axis=1)
    after = np.cumsum(np.hstack([zero, values[:, :0:-1]]), axis=1)[:, ::-1]
    return before + after
