"""Squared Hellinger distance, and the ball it induces: what it takes to add a score.

The file holds a score (three short methods) and its region (the two answers that every other one follows from). With
its line in the registry it is calibrated, tested against the laws, and answers envelopes, entropies, volumes, samples
and decisions through the defaults in `credalset.sets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.special import wrightomega

from credalset._typing import BoolArray, FloatArray, IntArray, Prediction
from credalset.scores.base import Score
from credalset.scores.dirichlet.entropy import phi_inverse
from credalset.scores.dirichlet.geometry import phi, relative_to
from credalset.scores.pooling import pooled_spread
from credalset.sets.magnify import magnified
from credalset.sets.old_set import CredalSet
from credalset.sets.roots import bisect, newton
from credalset.sets.smallest_peak import capped_peak
from credalset.simplex import corners, precise_entropy

# Where `least_entropy` looks for a fold of its curve; beyond the end the point is a corner to all digits.
STEPS = np.r_[0.0, np.geomspace(1e-6, 60.0, 64)]
TINY_RADIUS = 1e-16  # below, the first order in the root of the radius is exact to rounding


@dataclass(frozen=True)
class Hellinger(Score):
    r"""Squared Hellinger distance $f = 1 - \sum_k \sqrt{\lambda_k g_k}$, between 0 and 1.

    Finite where Kullback–Leibler is not, and gentler than total variation on rare classes.

    Examples
    --------
    >>> import numpy as np
    >>> Hellinger()(np.array([[1.0, 0.0]]), np.array([[0.25, 0.75]]))
    array([0.5])
    """

    name: ClassVar[str] = "hellinger"
    order: ClassVar[Literal["first", "second"]] = "first"
    is_convex_in_prediction: ClassVar[bool] = True
    treats_classes_alike: ClassVar[bool] = True

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """½ Σ (√λ_k − √g_k)²: the same number, and exactly zero for a perfect fit."""
        return 0.5 * ((np.sqrt(distribution) - np.sqrt(prediction)) ** 2).sum(axis=-1)

    def _old_region(self, prediction: FloatArray, threshold: FloatArray) -> HellingerBall:
        return HellingerBall(self, prediction, threshold, center=prediction, radius=threshold)

    def has_enclosing_balls(self, prediction: Prediction) -> bool:
        """Tell that every prediction has them."""
        return True

    def largest_gap(self, model: FloatArray, center: FloatArray) -> FloatArray:
        r"""The largest $\sum_k \sqrt{\lambda_k} (\sqrt{g_k} - \sqrt{c_k})$: the norm of the positive differences."""
        return np.sqrt((np.maximum(np.sqrt(model) - np.sqrt(center), 0.0) ** 2).sum(axis=1))


@dataclass(frozen=True, eq=False, repr=False)
class HellingerBall(CredalSet):
    """{λ : 1 − Σ √(λ_k center_k) ≤ radius}."""

    shape: ClassVar[str] = "Hellinger ball"

    def _smallest_peak(self) -> FloatArray:
        return capped_peak(self.center, self.radius, share=_share)

    def _divergence(self, points: FloatArray) -> FloatArray:
        return 0.5 * ((np.sqrt(points) - np.sqrt(self.center[:, None, :])) ** 2).sum(axis=-1)

    def _envelope(self) -> tuple[FloatArray, FloatArray]:
        """As for two classes: the others stay in proportion, √λ_k is the sine of an angle, and so is the distance."""
        angle = np.arcsin(np.sqrt(np.minimum(self.center, 1.0)))
        reach = self._reach()[:, None]
        return np.sin(np.maximum(angle - reach, 0.0)) ** 2, np.sin(np.minimum(angle + reach, 0.5 * np.pi)) ** 2

    def _reach(self) -> FloatArray:
        """The angle whose cosine is 1 − radius."""
        return 2.0 * np.arcsin(np.sqrt(0.5) * np.sqrt(np.minimum(self.radius, 1.0)))

    def _closest_with_top(self) -> FloatArray:
        return self._in_blocks(lambda sets: closest_with_top(sets.center))

    def _max_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        point = self._in_blocks(lambda sets: largest_entropy(sets.center, sets.radius))
        return precise_entropy(point.T), point

    def _min_entropy(self, attaining: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        point = self._in_blocks(lambda sets: least_entropy(sets.center, sets.radius))
        least = precise_entropy(point.T)
        return least, least, point

    def _log_volume(self, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, str] | None:
        """Two classes: √λ runs along an arc, λ = sin² θ, and the distance is 1 − cos of an angle."""
        if self.n_classes > 2:
            return None
        angle, reach = np.arcsin(np.sqrt(self.center.min(axis=1))), self._reach()
        down, up = np.minimum(reach, angle), np.minimum(reach, 0.5 * np.pi - angle)
        with np.errstate(divide="ignore"):
            width = np.log(np.sin(2.0 * angle + up - down)) + np.log(np.sin(up + down))
        return np.minimum(width, 0.0), np.zeros(len(self)), "exact"

    def _estimate_log_volume(self, generator: np.random.Generator, n_rays: int) -> tuple[FloatArray, FloatArray]:
        """Distances this small drown in the rounding of the points themselves: measure a larger ball."""
        balls, log_factor = magnified(self, below=1e-14, ratio=1e7)
        value, error = super(HellingerBall, balls)._estimate_log_volume(generator, n_rays)
        return value + log_factor, error

    def _support(self, utility: FloatArray, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
        r"""Maximise ⟨u, λ⟩: stationary points are $\lambda_k \propto g_k / (\eta - u_k)^2$ with η above every utility.

        The affinity Σ √(λ g) rises with η, so η is a root. Where even η → max u leaves affinity to spare, the spare
        mass goes to the best class: the set reaches its face, or a class that the centre rules out.
        """
        top = utility.max(axis=1, keepdims=True)
        depth = top - utility  # ≥ 0, zero for the best classes
        span = depth.max(axis=1, keepdims=True)
        depth = depth / np.where(span > 0, span, 1.0)
        needed = 1.0 - self.radius
        low, high = bisect(
            lambda x: self._tilted(depth, np.exp(x))[1] >= needed,
            np.full(len(depth), -700.0),
            np.full(len(depth), 60.0),
            steps=90,
        )
        point, affinity = self._tilted(depth, np.exp(high))
        share = (
            np.minimum(np.where(affinity > 0, np.maximum(needed, 0.0) / np.maximum(affinity, 1e-300), 0.0), 1.0) ** 2
        )
        share = np.where(low == -700.0, share, 1.0)  # only at the bottom of the bracket is there mass to spare
        best = corners(utility.argmax(axis=1), self.n_classes)
        point = share[:, None] * point + (1.0 - share)[:, None] * best
        return (utility * point).sum(axis=1), point if attaining else None

    def _tilted(self, depth: FloatArray, offset: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return λ ∝ g / (offset + depth)² and its affinity with the centre."""
        ratio = np.where(self.center > 0, 1.0 / (offset[:, None] + depth), 0.0)
        ratio /= ratio.max(axis=1, keepdims=True)
        mass = self.center * ratio**2
        total = mass.sum(axis=1)
        safe = np.where(total > 0, total, 1.0)
        return mass / safe[:, None], (self.center * ratio).sum(axis=1) / np.sqrt(safe)


def closest_with_top(center: FloatArray) -> FloatArray:
    r"""Return, for each class, the smallest distance of a distribution in which no class has more, (N, K).

    The class is pooled with all those that exceed it, each at the square of the pool's average $\bar s$ of
    $s = \sqrt g$, and the others stay in proportion: an affinity of $\sqrt{|P| \bar s^2 + g(\text{outside } P)}$, so a
    distance of about half of what the pool lies away from its average, $\sum_P (s - \bar s)^2$.
    """
    spread = pooled_spread(np.sqrt(center))
    return spread / (1.0 + np.sqrt(np.maximum(1.0 - spread, 0.0)))


def largest_entropy(center: FloatArray, radius: FloatArray) -> FloatArray:
    r"""Return the member of each ball that has the largest entropy, (N, K).

    Uniform if that is a member. Otherwise stationarity says $\lambda_k \propto g_k / s_k^2$ with
    $s_k + \log s_k = \tau + \tfrac12 \log g_k$ (Wright's omega), hence $\lambda_k \propto e^{2 s_k}$ for every class,
    those with g_k = 0 included (s_k = 0). The distance falls from that of the uniform distribution to zero as τ grows:
    one root, found by bisection. Along the root of the radius, τ is of the order of log g over that root.
    """
    with np.errstate(divide="ignore"):
        half_log = 0.5 * np.log(center)
    root, largest = np.sqrt(center), center.max(axis=1, keepdims=True)

    def at(log_price: FloatArray) -> tuple[FloatArray, FloatArray]:
        s = np.where(center > 0, wrightomega(np.exp(log_price)[:, None] - 40.0 + half_log), 0.0)
        top, faint = s.max(axis=1, keepdims=True), s < 1e-3
        # Two forms of one ratio: differences of large s have no digits, quotients of small ones underflow.
        mass = np.where(faint, np.exp(2.0 * (s - top)), center / largest * (top / np.where(faint, 1.0, s)) ** 2)
        point = mass / mass.sum(axis=1, keepdims=True)
        return point, 0.5 * ((np.sqrt(point) - root) ** 2).sum(axis=1)

    low, high = np.zeros(len(center)), np.full(len(center), 60.0)
    flat = at(low)[1] <= radius
    _, high = bisect(lambda x: at(x)[1] <= radius, low, high, steps=60)
    point = np.where((radius > 0)[:, None], at(high)[0], center)
    return np.where(flat[:, None], 1.0 / center.shape[1], point)


def least_entropy(center: FloatArray, radius: FloatArray) -> FloatArray:
    r"""Return the member of each ball that has the smallest entropy, (N, K).

    *Stationary points.* A class that the centre rules out gives its mass to the largest one: less entropy, and closer.
    With a multiplier on the affinity Σ √(λ g), stationarity says $\lambda_k \propto g_k / s_k^2$ with
    $s_k - \log s_k = \tau - \tfrac12 \log g_k$, hence also $\lambda_k \propto e^{-2 s_k}$.
    *One curve.* If g_i > g_j then λ_i ≥ λ_j, else swapping them leaves affinity to spare. But λ falls with g among
    classes with s < 1, and two such classes of equal g admit a descent direction: at most one class has s < 1, and it
    is a largest one. So x = −log s of the largest class, which sets τ, runs through all candidates, from the centre
    (x → −∞) to the corner (x → ∞).
    *Folds.* The distance rises for x < 0. For x > 0 its slope has the sign of 1 − E[s − 1] E[1 / (s − 1)], E the mean
    under λ, which is negative on at most one stretch in everything tried (flat centres over many classes). The entropy
    falls as the distance rises, so a minimum is at the first or at the last x where the distance reaches the radius.
    """
    point = np.where((radius > 0)[:, None], _near_center(center, radius), center)
    reaches_corner = 1.0 - np.sqrt(center.max(axis=1)) <= radius
    point[reaches_corner] = corners(center.argmax(axis=1), center.shape[1])[reaches_corner]
    rows = np.flatnonzero((radius >= TINY_RADIUS) & ~reaches_corner)
    if len(rows) == 0:
        return point
    curve, r = _StationaryCurve(center[rows]), radius[rows]
    # Hoeffding: log(λ / g) spans at most log(g_max / g_min) / (s − 1), and the distance is below its square over 16.
    low, high = -np.log1p(curve.log_ratio.max(axis=1) / np.sqrt(16.0 * r)), np.full(len(rows), STEPS[-1])
    single = ~curve.may_fold()
    if single.any():
        part = curve.center[single], r[single]
        start, tolerance = 0.5 * low[single], np.full(np.count_nonzero(single), 1e-9)
        x = newton(_excess, (part[0].T, part[1]), low[single], high[single], start, tolerance)
        point[rows[single]] = _StationaryCurve(part[0]).at(x)[0]
    folded = np.flatnonzero(~single)
    if len(folded):
        point[rows[folded]] = curve.select(folded).best_of_two(r[folded], low[folded])
    return point


def _excess(x: FloatArray, center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How far the stationary points of centres (K, n) lie beyond the radius, with the slope in x."""
    return relative_to(radius, *_StationaryCurve(center.T).distance_slope(x))


class _StationaryCurve:
    """The distributions λ ∝ g / s² of `least_entropy`, by x = −log s of the largest class."""

    def __init__(self, center: FloatArray) -> None:
        self.center = center
        self.top = np.arange(len(center)), center.argmax(axis=1)
        self.largest = center[self.top]
        safe = np.where(center > 0, center, self.largest[:, None])
        self.log_ratio = np.log(self.largest)[:, None] - np.log(safe)
        self.rest = center.copy()
        self.rest[self.top] = 0.0

    def select(self, rows: IntArray | BoolArray) -> _StationaryCurve:
        """Return the curves of some rows."""
        return _StationaryCurve(self.center[rows])

    def offsets(self, x: FloatArray) -> FloatArray:
        """Return s − 1 of every class as if it were not the largest, (N, K): never negative."""
        d = np.expm1(-x)[:, None]
        excess = np.where(np.abs(d) < 0.1, phi(np.maximum(d, -0.5)), d + x[:, None])
        return phi_inverse(excess + 0.5 * self.log_ratio)

    def at(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return λ and its distance from the centre."""
        share = np.exp(-x)[:, None] / (1.0 + self.offsets(x))
        share[self.top] = 1.0
        mass = self.center * share**2
        point = mass / mass.sum(axis=1, keepdims=True)
        return point, 0.5 * ((np.sqrt(point) - np.sqrt(self.center)) ** 2).sum(axis=1)

    def distance_slope(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the distance and its derivative in x.

        With u = s − 1 and E the mean under λ, the derivative is (1 − distance) (E[u] E[u_max / u] − u_max) / E[s], the
        maximum being that of the largest class. For u > 0 the second factor is E[(u − E u)² u_max / u] / E[u], which
        keeps its digits where the u hardly differ.
        """
        point, distance = self.at(x)
        u, own = self.offsets(x), np.expm1(-x)
        pull = np.divide(own[:, None], u, where=u > 0, out=np.ones_like(u))  # one where classes tie at the fork
        u[self.top], pull[self.top] = own, 1.0
        mean = (point * u).sum(axis=1)
        spread = (point * (u - mean[:, None]) ** 2 * pull).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            covariance = np.where(own > 0.1, spread / mean, mean * (point * pull).sum(axis=1) - own)
        return distance, (1.0 - distance) * covariance / (1.0 + mean)

    def may_fold(self) -> BoolArray:
        """Tell where the distance could fall for some x > 0: only if G > P² / (P − Q) ≥ P / (1 − P), P ≥ max g."""
        d = self.offsets(np.zeros(len(self.center)))
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = np.where(self.rest > 0, self.rest / d, 0.0).sum(axis=1)
        return (self.largest < 0.5) & (pull > self.largest + self.largest / (1.0 - self.largest))

    def best_of_two(self, radius: FloatArray, low: FloatArray) -> FloatArray:
        """Return the better of the first and the last point of the curve at the radius, found on a grid and halved."""
        x = np.column_stack([low, np.broadcast_to(STEPS, (len(low), len(STEPS)))])
        beyond = np.stack([self.at(column)[1] > radius for column in x.T], axis=1)
        leaves = ~beyond[:, :-1] & beyond[:, 1:]
        first, last = leaves.argmax(axis=1), leaves.shape[1] - 1 - leaves[:, ::-1].argmax(axis=1)
        best = self.last_within(radius, x, first)
        again = np.flatnonzero(last > first)
        if len(again):
            other = self.select(again).last_within(radius[again], x[again], last[again])
            better = precise_entropy(other.T) < precise_entropy(best[again].T)
            best[again[better]] = other[better]
        return best

    def last_within(self, radius: FloatArray, x: FloatArray, cell: IntArray) -> FloatArray:
        """Halve one cell of each row, whose near end is a member and whose far end is not; return the near end."""
        rows = np.arange(len(x))
        low, _ = bisect(lambda x: self.at(x)[1] > radius, x[rows, cell], x[rows, cell + 1], steps=52)
        return self.at(low)[0]


def _near_center(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the minimisers for tiny radii: λ − g ∝ g (log g − Σ g log g), at distance Σ (λ − g)² / 8g."""
    logs = np.log(np.where(center > 0, center, 1.0))
    steep = logs - (center * logs).sum(axis=1, keepdims=True)
    variance = (center * steep**2).sum(axis=1)
    size = np.zeros(len(radius))
    np.divide(8.0 * np.minimum(radius, TINY_RADIUS), variance, where=variance > TINY_RADIUS, out=size)
    point = center * np.maximum(1.0 + np.sqrt(size)[:, None] * steep, 0.0)
    return point / point.sum(axis=1, keepdims=True)


def _share(mass: FloatArray, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What a class adds to the distance, and its derivative in the probability."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        slope = np.where(mass > 0, 0.5 - 0.5 * np.sqrt(mass / probability), 0.5)
    return 0.5 * (np.sqrt(probability) - np.sqrt(mass)) ** 2, slope
