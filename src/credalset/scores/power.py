r"""Balls of divergences with $dD / d\lambda_k = c - (m_k / \lambda_k)^{1/p} / p$.

These are reverse KL (p = 1) and Hellinger (2).

`pool` finds the nearest distribution in which a class is a most probable one: the class is pooled
with larger ones.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from credalset._blocks import gather_blocks
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.sets.geometry import Geometry
from credalset.sets.results import Entropies
from credalset.sets.roots import newton
from credalset.simplex import entropy_of_valid, sum_classes


def pool(values: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return how many of the largest values each value (N, K) is pooled with, and their mean.

    The pool of x holds x and the largest others, as long as each exceeds the average of those
    before it, as in isotonic regression. The j-th largest belongs to it if j times its value minus
    the sum of the larger ones exceeds x. That limit falls with j, so the size of the pool is found
    by binary search.

    Examples
    --------
    >>> size, average = pool(np.array([[0.6, 0.4, 0.0]]))
    >>> size.tolist(), average.round(3).tolist()
    ([[0, 1, 2]], [[0.6, 0.5, 0.333]])
    """
    n, k = values.shape
    ranked = -np.sort(-values, axis=1)
    sums = np.zeros((n, k + 1))
    np.cumsum(ranked, axis=1, out=sums[:, 1:])
    limits = np.arange(1, k + 1) * ranked - sums[:, :-1]
    # Entry j of row i is taken from the flat arrays, which is faster than indexing with pairs.
    row_of_limits = np.arange(n)[:, None] * k
    row_of_sums = np.arange(n)[:, None] * (k + 1)
    size = np.zeros((n, k), dtype=np.int64)
    for step in 2 ** np.arange(int(k).bit_length())[::-1]:
        trial = np.minimum(size + step, k)
        belongs = limits.take(row_of_limits + trial - 1) > values
        size = np.where(belongs, trial, size)
    average = (values + sums.take(row_of_sums + size)) / (size + 1)
    return size, average


def pooled_spread(values: FloatArray) -> FloatArray:
    """Return Σ (x − x̄)² over the pool of each value, (N, K).

    Examples
    --------
    >>> pooled_spread(np.array([[0.6, 0.4, 0.0]])).round(4)
    array([[0.    , 0.02  , 0.1867]])
    """
    shifted = values - values.max(axis=1, keepdims=True)  # more precise for near ties
    size, average = pool(shifted)
    # Sums of squares of the largest values, which are the smallest squares.
    squares = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(np.sort(shifted**2, axis=1), axis=1, out=squares[:, 1:])
    # Σ (x − x̄)² = Σ x² − (number) x̄², over the value itself and the others of its pool.
    total = shifted**2 + np.take_along_axis(squares, size, axis=1) - (size + 1) * average**2
    return np.where(size > 0, np.maximum(total, 0.0), 0.0)


BLOCK = 1 << 16  # numbers in a block
FARTHEST = 1e4  # of −log y of the largest class, where the point is a corner to rounding
GRID = 7  # intervals of log x from 1e-6 to the corner, and again around the best of them
TOLERANCE = 1e-7  # of the last Newton step; the remaining error is about its square
TINIEST = 1e-290  # modes and radii below count as zero, because quotients with them overflow


def bracketed(least: FloatArray, found: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a lower bound and its gap to a member's entropy; gaps like rounding are zero."""
    gap = np.maximum(found - least, 0.0)
    return np.minimum(least, found), np.where(gap > 1e-13, gap, 0.0)


def omega(z: FloatArray) -> FloatArray:
    r"""Return y > 0 with y + log y = z (Wright's omega).

    Two steps of Fritsch, Shafer and Crowley (1973), of order four; four times as fast as SciPy's.
    A step corrects y by its residual $r = z - y - \log y$:

    $$y \leftarrow y \Bigl( 1 + \frac{r}{a} \, \frac{b - r}{b - 2 r} \Bigr), \quad a = 1 + y, \quad
    b = 2 a (a + \tfrac23 r).$$
    """
    z = np.maximum(z, -700.0)  # below, y = exp(z) would underflow
    # Between exp(z) for small z and z for large z, within the reach of the steps.
    start = np.maximum(np.log1p(np.exp(np.minimum(z, 30.0))), z)
    y = start * (1.0 - np.log1p(start) / (2.0 + start))
    for _ in range(2):
        rest = z - y - np.log(y)
        a = 1.0 + y
        b = 2.0 * a * (a + 2.0 / 3.0 * rest)
        y = y * (1.0 + rest / a * (b - rest) / (b - 2.0 * rest))
    return y


def phi_inverse(q: FloatArray) -> FloatArray:
    """Return d ≥ 0 with d − log(1 + d) = q: a series or the asymptote, then two steps.

    The steps are those of `omega`, for 1 + d = −y.
    """
    # Near zero q = d² / 2 − d³ / 3 + …: the inverse is a series in s = √(2q).
    s = np.sqrt(2.0 * q)
    near = np.minimum(s, 1.5)
    tail = 1 / 4320 + near * (1 / 17010 - near * 139 / 5443200)
    d = near * (1.0 + near * (1 / 3 + near * (1 / 36 + near * (-1 / 270 + near * tail))))
    # Far away d = q + log(1 + d), inserted into itself.
    d = np.where(s < 1.5, d, q + np.log1p(q + np.log1p(q)))
    refined = np.maximum(d, 0.01)  # below, the series is exact to rounding
    for _ in range(2):
        rest = q - refined + np.log1p(refined)
        a = 2.0 * refined * (refined + 2.0 / 3.0 * rest)
        refined = refined + rest * (1.0 + refined) / refined * (a + rest) / (a + 2.0 * rest)
    return np.where(d > 0.01, refined, d)


def beyond(
    radius: FloatArray, value: FloatArray, slope: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return divergence minus radius and its slope, on logarithms where the radius is below one.

    Along the curves of this module small divergences grow like exp(2x), large ones like x.
    """
    small = radius < 1.0
    excess = np.where(small, np.log(value / radius), value - radius)
    return excess, np.where(small, slope / value, slope)


def _largest_first(center: FloatArray) -> FloatArray:
    """Return the centres, classes first, (K, n), the largest class exchanged with the first."""
    m = np.array(center.T, order="C")
    top = center.argmax(axis=1)
    columns = np.arange(len(center))
    largest = m[top, columns]
    first = m[0].copy()
    m[top, columns] = first
    m[0] = largest
    return m


@dataclass(frozen=True, eq=False)
class PowerBall(Geometry):
    """{λ : D(λ) ≤ radius} for a divergence from the centre m.

    Its derivative is $dD / dλ_k = c - (m_k / λ_k)^{1/p} / p$.
    """

    power: ClassVar[int]

    def __post_init__(self) -> None:
        is_point = (self.radius > 0) & (self.radius < TINIEST)
        object.__setattr__(self, "radius", np.where(is_point, 0.0, self.radius))
        super().__post_init__()

    @staticmethod
    @abstractmethod
    def distance(center: FloatArray, point: FloatArray) -> FloatArray:
        """Sum the divergence over the first axis."""

    @staticmethod
    @abstractmethod
    def kept_mass(value: FloatArray, radius: FloatArray) -> FloatArray:
        """Return the mass of a shape of divergence ``value`` if the rest is where m_k = 0."""

    def divergence(self, points: FloatArray) -> FloatArray:
        """Return the divergence of points (N, M, K), (N, M)."""
        return self.distance(np.moveaxis(self.center[:, None], 2, 0), np.moveaxis(points, 2, 0))

    def support(self, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return largest expectations and maximisers.

        Stationarity gives $\lambda_k \propto m_k / (\eta - u_k)^p$ where m_k > 0, with η above
        every such u_k; the divergence falls as η grows. A class with m_k = 0 is positive only if
        its utility is at least η: then η equals that utility, the other classes keep their shape,
        and the best class with m_k = 0 has the remaining mass.
        """

        def one_block(rows: slice) -> FloatArray:
            m = np.ascontiguousarray(self.center[rows].T)
            u = np.ascontiguousarray(utility[rows].T)
            return self._support(m, self.radius[rows], u).T

        point = gather_blocks(one_block, len(self), self.n_classes, BLOCK)
        return (utility * point).sum(axis=1), point

    def _support(self, m: FloatArray, radius: FloatArray, u: FloatArray) -> FloatArray:
        """Return the maximisers, (K, n), for centres and utilities (K, n).

        With best the largest utility of a class with m_k > 0, t = η − best and gap = best − u, the
        stationary shape is m (t + gap)^−p. Everything is in units of the largest gap.
        """
        positive = m > 0
        columns = np.arange(len(radius))
        best = np.where(positive, u, -np.inf).max(axis=0)
        spare = np.where(positive, -np.inf, u)
        gap = np.where(positive, best - u, 0.0)
        widest = gap.max(axis=0)
        unit = np.where(widest > 0, widest, 1.0)
        gap = gap / unit
        lead = (spare.max(axis=0) - best) / unit  # of a class with m_k = 0 over the others
        with np.errstate(all="ignore"):
            # The smallest possible η is the largest utility, of a class with m_k = 0 or on a face.
            closest = self._tilted(np.maximum(lead, 0.0), m, gap)[0]
            value = self.distance(m, closest)
            done = (value <= radius) | (radius <= 0)
            share = np.where((lead > 0) & done, self.kept_mass(value, radius), 1.0)
            closest *= share
            closest[spare.argmax(axis=0), columns] += np.where(lead > 0, 1.0 - share, 0.0)
            point = np.where(radius > 0, closest, m)
            # Elsewhere t = exp(−x) is the root of divergence = radius. log(λ / m) spans less than
            # p / t, so that Hoeffding's lemma bounds x from below.
            rows = np.flatnonzero(~done)
            low = 0.5 * np.log(4.0 * radius[rows])
            high = np.full(len(rows), 690.0)
            data = m[:, rows], gap[:, rows], radius[rows]
            tolerance = np.full(len(rows), TOLERANCE)
            x = newton(self._support_curve, data, low, high, low, tolerance)
            point[:, rows] = self._tilted(np.exp(-x), m[:, rows], gap[:, rows])[0]
        # An entry that underflows would have an infinite divergence.
        return np.where(positive & (radius > 0), np.maximum(point, TINIEST), point)

    def _tilted(
        self, t: FloatArray, m: FloatArray, gap: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return λ ∝ m (t / (t + gap))^p and the normaliser; for t = 0, where the gap is zero."""
        mass = m * np.where(t > 0, t / (t + gap), gap == 0.0) ** self.power
        total = sum_classes(mass)
        return mass / total, total

    def _support_curve(
        self, x: FloatArray, m: FloatArray, gap: FloatArray, radius: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the excess of the divergence at t = exp(−x), and its slope.

        The slope is κ t (E[T] E[1/T] − 1) with T = t + gap.
        """
        t = np.exp(-x)
        point, total = self._tilted(t, m, gap)
        tilt = t + gap
        mean = sum_classes(point * tilt)
        spread = sum_classes(point * (tilt - mean) ** 2 / tilt) / mean
        return beyond(radius, self.distance(m, point), total ** (1.0 / self.power) * spread)

    def _scale(self, m: FloatArray, point: FloatArray, y: FloatArray) -> FloatArray:
        """Return κ = (m / λ)^(1/p) / y from the y (n,) of the first class.

        It is the same for every class with m_k > 0.
        """
        return (m[0] / point[0]) ** (1.0 / self.power) / y

    def entropies(self) -> Entropies:
        """Return the exact smallest and largest entropies."""

        def one_block(rows: slice) -> tuple[FloatArray, FloatArray]:
            m = _largest_first(self.center[rows])
            radius = self.radius[rows]
            with np.errstate(all="ignore"):
                sharpest = self._sharpest(m, radius)
                flattest = self._flattest(m, radius)
            return entropy_of_valid(sharpest.T), entropy_of_valid(flattest.T)

        lower, upper = gather_blocks(one_block, len(self), self.n_classes, BLOCK)
        return Entropies.exact(lower, upper)

    def _flattest(self, m: FloatArray, radius: FloatArray) -> FloatArray:
        r"""Return the members of largest entropy, (K, n).

        The uniform distribution if it is a member. Otherwise stationarity gives $y_k + \log y_k =
        \tau + \log(m_k) / p$ and $\lambda_k \propto e^{p y_k}$ for every class, with y = 0 where
        m_k = 0. The divergence falls as θ = y of the largest class grows. For the bracket: y
        differs by at most L / p, L = log(m_max / m_min), so Hoeffding's lemma bounds the divergence
        by ¼ L² / θ² for θ ≥ 2L, and n classes with m_k = 0 add at most n exp(−θ).
        """
        point = np.full(m.shape, 1.0 / len(m))
        uniform = self.distance(m, point)
        point[:, radius <= 0] = m[:, radius <= 0]
        rows = np.flatnonzero((uniform > radius) & (radius > 0))
        m = m[:, rows]
        r = radius[rows]
        ratio = np.log(m[0] / m)
        span = np.where(m > 0, ratio, 0.0).max(axis=0)
        n_zero = (m == 0).sum(axis=0)
        # Where both bounds are about half of the radius: ¼ L² / θ², and n exp(−θ).
        of_span = np.maximum(2.0, 0.7 / np.sqrt(r)) * span
        of_zeros = np.log(2.0 * np.maximum(n_zero, 0.5) / r)
        theta = np.maximum(of_span, of_zeros) + 1.0
        data = (m, ratio / self.power, r)
        low = -np.log1p(theta)
        high = np.zeros(len(rows))
        start = -np.log1p(1.75 * (np.sqrt(uniform[rows] / r) - 1.0))
        tolerance = np.full(len(rows), TOLERANCE)
        x = newton(self._flat_curve, data, low, high, start, tolerance)
        point[:, rows] = self._flat_point(x, m, ratio / self.power)[0]
        return point

    def _flat_point(
        self, x: FloatArray, m: FloatArray, ratio: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return λ, y and θ = exp(−x) − 1."""
        theta = np.maximum(np.expm1(-x), 1e-300)
        y = omega(theta + np.log(theta) - ratio)
        # Two forms of one ratio: differences of large y are not precise, quotients of small ones
        # underflow.
        quotient = m * (theta / y) ** self.power / m[0]
        mass = np.where(y > 1e-3, quotient, np.exp(self.power * (y - theta)))
        return mass / sum_classes(mass), y, theta

    def _flat_curve(
        self, x: FloatArray, m: FloatArray, ratio: FloatArray, radius: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the divergence's excess and its slope in x.

        The slope is −κ (1 + θ)² / θ · Cov(y, 1 / (1 + y)).
        """
        point, y, theta = self._flat_point(x, m, ratio)
        mean = sum_classes(point * y)
        spread = -sum_classes(point * (y - mean) / (1.0 + y))
        slope = self._scale(m, point, theta) * (1.0 + theta) ** 2 / theta * spread
        return beyond(radius, self.distance(m, point), slope)

    def _sharpest(self, m: FloatArray, radius: FloatArray) -> FloatArray:
        r"""Return the members of smallest entropy, (K, n).

        *Stationary points.* Moving mass from a class with m_k = 0 to the largest one lowers entropy
        and divergence, so λ is positive only where m > 0. There $y_k - \log y_k = \tau - \log(m_k)
        / p$ and $\lambda_k \propto e^{-p y_k}$. *One curve.* If m_i > m_j then λ_i ≥ λ_j, as
        swapping them would leave slack. But λ falls with m among classes with y < 1, and two such
        classes of equal m admit a descent direction: at most one class has y < 1, and it is the
        largest one. So x = −log y of that class, which determines τ, parametrises all candidates,
        from centre to corner. *Folds.* With u = y − 1 and E the mean under λ, the divergence rises
        for x < 0, and for x > 0 its slope has the sign of 1 − E[u] E[1/u], which is negative on at
        most one interval (proved for p = 1, observed for p = 2; it needs a flat centre over many
        classes). The minimum is on one of the two rising parts.
        """
        best = m.copy()
        corner = np.zeros_like(m)
        corner[0] = 1.0
        certain = self.distance(m, corner) <= radius
        best[:, certain] = corner[:, certain]
        rows = np.flatnonzero(~certain & (radius > 0))
        m = m[:, rows]
        r = radius[rows]
        ratio = np.where(m > 0, np.log(m[0] / m), 0.0) / self.power
        # The ends of x: Hoeffding's lemma, and D ≥ x Σ_others m + log m_max for p = 1.
        low = -np.log1p(self.power * ratio.max(axis=0) / np.sqrt(8.0 * r))
        high = np.full(len(rows), FARTHEST)
        if self.power == 1:
            high = np.minimum(high, (r - np.log(m[0])) / (1.0 - m[0]))

        # The rising part before the fold; without a fold, the whole curve.
        fold = self._fold(m, ratio)
        folds = fold > 0
        x = self._reach(m, ratio, r, low, np.where(folds, fold, high), folds, -1)
        first = self._sharp_point(x, m, ratio)[0]
        best[:, rows] = first

        # The rising part behind it, if it reaches the radius.
        m = m[:, folds]
        ratio = ratio[:, folds]
        r = r[folds]
        first = first[:, folds]
        x = self._reach(m, ratio, r, fold[folds], high[folds], folds[folds], 1)
        other = self._sharp_point(x, m, ratio)[0]
        better = entropy_of_valid(other.T) < entropy_of_valid(first.T)
        better &= self.distance(m, other) <= r * (1.0 + 1e-9)
        best[:, rows[folds]] = np.where(better, other, first)
        return best

    def _sharp_point(
        self, x: FloatArray, m: FloatArray, ratio: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return λ and u = y − 1 of each class; only the largest one may have u < 0."""
        own = np.expm1(-x)
        # u − log(1 + u) of the largest class, of which those of the others differ by log-ratios of
        # m: own + x, whose digits cancel near the centre.
        series = own * own * (0.5 - own * (1 / 3 - own * (0.25 - own * (0.2 - own / 6))))
        u = phi_inverse(np.where(np.abs(own) < 1e-3, series, own + x) + ratio)
        u[0] = own
        mass = m * (np.exp(-x) / (1.0 + np.maximum(u, 0.0))) ** self.power
        mass[0] = m[0]
        return mass / sum_classes(mass), u

    def _reach(
        self,
        m: FloatArray,
        ratio: FloatArray,
        radius: FloatArray,
        low: FloatArray,
        high: FloatArray,
        folds: BoolArray,
        branch: int,
    ) -> FloatArray:
        """Solve D = radius on the curve; points where D falls count as above (−1) or below (1)."""

        def curve(
            x: FloatArray, m: FloatArray, ratio: FloatArray, r: FloatArray, folds: FloatArray
        ) -> tuple[FloatArray, FloatArray]:
            point, u = self._sharp_point(x, m, ratio)
            own = np.expm1(-x)
            mean = sum_classes(point * u)
            inverse = sum_classes(np.where(u != 0, point / u, 0.0))
            # E[u] E[1/u] − 1, far from the centre as a sum without cancellation.
            positive_sum = sum_classes(point * (u - mean) ** 2 / u) / mean
            spread = np.where(own > 0.1, positive_sum, mean * inverse - 1.0)
            rise = self._scale(m, point, np.exp(-x)) * own * spread
            value, slope = beyond(r, self.distance(m, point), rise)
            falling = (slope < 0) & (x > 0) & (folds > 0)
            return np.where(falling, -branch * np.inf, value), np.where(falling, np.nan, slope)

        start = 0.5 * low if branch < 0 else 0.5 * (low + high)
        tolerance = np.full(len(radius), TOLERANCE)
        return newton(curve, (m, ratio, radius, folds.astype(float)), low, high, start, tolerance)

    def _fold(self, m: FloatArray, ratio: FloatArray) -> FloatArray:
        """Return an x > 0 where D falls along the curve, 0 if it never falls.

        It is that of the smallest slope on two grids.

        D can fall only if Σ m / u > M + M / (1 − M) at x = 0 over the classes besides the largest,
        M its mode.
        """
        fold = np.zeros(m.shape[1])
        largest = m[0]
        pull = sum_classes(np.where(m[1:] > 0, m[1:] / phi_inverse(ratio[1:]), 0.0))
        rows = np.flatnonzero((largest < 0.5) & (pull > largest + largest / (1.0 - largest)))
        m = m[:, rows]
        ratio = ratio[:, rows]
        # A grid of log x from 1e-6 to the corner, then a finer one around its best interval.
        low = np.full(len(rows), np.log(1e-6))
        high = np.log(-np.log(largest[rows]))
        for _ in range(2):
            trial = low
            step = (high - low) / GRID
            least = np.full(len(rows), np.inf)
            for i in range(GRID + 1):
                point, u = self._sharp_point(np.exp(low + i * step), m, ratio)
                inverse = sum_classes(np.where(u != 0, point / u, 0.0))
                slope = 1.0 - sum_classes(point * u) * inverse
                trial = np.where(slope < least, low + i * step, trial)
                least = np.minimum(slope, least)
            low = trial - step
            high = trial + step
        fold[rows] = np.where(least < 0, np.exp(trial), 0.0)
        return fold
