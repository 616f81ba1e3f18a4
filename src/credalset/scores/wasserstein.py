r"""1-Wasserstein distance between distributions over ordered classes, and the ball it induces.

$$f = \sum_{k<K} (x_{k+1} - x_k) \, |F_k - G_k|$$ with F and G the cumulative
sums of λ and of the centre g is the least
cost of transporting g into λ, at a cost of one per unit of mass and distance. Inside, classes come
first, (K, n), and loops run over classes, for many regions at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import ClassVar, Literal

import numpy as np

from credalset._blocks import gather_blocks
from credalset._typing import FloatArray, IntArray
from credalset.scores import transport, transport_volume
from credalset.scores.base import Score
from credalset.scores.power import BLOCK, bracketed
from credalset.scores.registry import register_score
from credalset.sets.box import majorization_bound
from credalset.sets.geometry import Geometry
from credalset.sets.results import Entropies
from credalset.sets.volume import edge_distance
from credalset.simplex import entropy_of_valid, sum_classes

DRAWS_PER_RAY = 4  # of a volume estimate; draws are cheaper than rays
MIN_ROWS = 400  # of a block, because loops over classes cost the same for few regions
MAX_LISTED = 5  # classes up to which all corners are listed
SCALE_OFFSET = 0.005  # of the length of the line, measured by benchmarks/votes_in_hand.py
MAX_GROUP_CLASSES = 24  # up to which the smallest entropy uses all groups of neighbouring classes


@register_score
@dataclass(frozen=True)
class Wasserstein(Score):
    r"""1-Wasserstein distance on a line (paper name: WS).

    $$f = \sum_{k<K} (x_{k+1} - x_k) \, |F_k - G_k|$$

    with $F, G$ the cumulative sums of λ and g, and class positions $x_1 < \dots < x_K$: the
    smallest cost of transporting one distribution into the other, if moving mass costs its
    distance. Use it for ordered classes.

    Parameters
    ----------
    positions : sequence of K increasing numbers, optional
        Positions of the classes. By default calibration takes the scale of the votes, if they have
        one; otherwise positions are 0, 1, …, K − 1, as in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> Wasserstein()(np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 0.0, 1.0]]))
    array([2.])
    """

    positions: tuple[float, ...] | None = None
    name: ClassVar[str] = "ws"
    order: ClassVar[Literal["first", "second"]] = "first"
    is_metric: ClassVar[bool] = True
    is_ordinal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.positions is None:
            return
        try:
            positions = tuple(float(x) for x in self.positions)
        except (TypeError, ValueError):
            raise TypeError(
                f"positions must be increasing numbers, but is {self.positions!r}."
            ) from None
        if (
            len(positions) < 2
            or not np.isfinite(positions).all()
            or any(b <= a for a, b in pairwise(positions))
        ):
            raise ValueError(
                "positions must be at least two finite, strictly increasing numbers, but is "
                f"{list(positions)}. Sort the classes by position."
            )
        object.__setattr__(self, "positions", positions)

    def on_scale(self, positions: Sequence[float] | None) -> Wasserstein:
        """Return the score at these positions, unless it has its own."""
        return (
            self
            if positions is None or self.positions is not None
            else Wasserstein(tuple(positions))
        )

    def gaps(self, n_classes: int) -> FloatArray:
        """Return the distances between neighbouring classes, (K − 1,)."""
        return (
            np.ones(n_classes - 1) if self.positions is None else np.diff(np.array(self.positions))
        )

    def _check_classes(self, n_classes: int) -> None:
        if self.positions is not None and len(self.positions) != n_classes:
            raise ValueError(
                f"positions has {len(self.positions)} entries, but the predictions have "
                f"{n_classes} classes. Pass one position per class."
            )

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """Return Σ gap_k |F_k − G_k|."""
        return transport.transport_cost(
            distribution - prediction, self.gaps(distribution.shape[-1])
        )

    def geometry(self, prediction: FloatArray, threshold: FloatArray) -> WassersteinBall:
        """Return balls; a threshold of at least the length of the line gives the whole simplex."""
        gaps = self.gaps(prediction.shape[1])
        return WassersteinBall(
            prediction, np.where(threshold >= gaps.sum(), np.inf, threshold), tuple(gaps)
        )

    def scale_offset(self, n_classes: int) -> float:
        """Return 0.005 times the length of the line."""
        return SCALE_OFFSET * float(self.gaps(n_classes).sum())

    def lipschitz(self, n_classes: int) -> float:
        """Return the length of the line, the largest distance that mass can move."""
        return float(self.gaps(n_classes).sum())


@dataclass(frozen=True, eq=False)
class WassersteinBall(Geometry):
    """{λ : W₁(λ, center) ≤ radius} for classes on a line, ``gaps`` apart.

    Envelopes, expectations and possible modes are exact, and so is the largest entropy up to
    rounding. The smallest entropy is exact up to five classes, whose corners are listed, and a
    bracket beyond. Volumes are exact up to three classes.
    """

    shape: ClassVar[str] = "Wasserstein ball"

    gaps: tuple[float, ...]

    def divergence(self, points: FloatArray) -> FloatArray:
        """Return W₁ of points (N, M, K), (N, M)."""
        return transport.transport_cost(points - self.center[:, None], np.array(self.gaps))

    def _rows(self) -> tuple[int, int, int]:
        """Return the arguments of `gather_blocks` for these regions."""
        n, k = self.center.shape
        return n, k, max(BLOCK, MIN_ROWS * k)

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Move mass from a class to the nearest one, or from the nearest classes to it."""
        gaps = np.array(self.gaps)
        nearest = np.minimum(np.r_[gaps[0], gaps], np.r_[gaps, gaps[-1]])
        lower = np.maximum(self.center - self.radius[:, None] / nearest, 0.0)
        at = np.r_[0.0, np.cumsum(gaps)]
        distance = np.abs(at - at[:, None])
        order = np.argsort(distance, axis=1, kind="stable")
        distance = np.take_along_axis(distance, order, axis=1)

        def one_block(rows: slice) -> FloatArray:
            mass = np.ascontiguousarray(self.center[rows].T)
            upper = mass.copy()
            left = np.repeat(self.radius[None, rows], len(at), axis=0)
            for near, far in zip(order.T[1:], distance.T[1:, :, None], strict=True):
                taken = np.minimum(mass[near], left / far)
                upper += taken
                left -= taken * far
                if not (left > 0.0).any():
                    break
            return np.minimum(upper, 1.0).T

        return lower, gather_blocks(one_block, *self._rows())

    def support(self, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return largest expectations and maximisers.

        For a price on distance, the mass of each class moves to the class with the largest utility
        minus transport cost. The resulting pairs (cost, expected utility) are corners of a concave
        frontier, whose value at cost r is the largest expectation: a mixture of the two
        neighbouring corners. They are found by repeatedly using the slope of the chord between
        corners on either side of r as the price, until no corner lies above the chord.
        """

        def one_block(rows: slice) -> tuple[FloatArray, FloatArray]:
            u = np.ascontiguousarray(utility[rows].T)
            return _greatest_expectation(
                np.ascontiguousarray(self.center[rows].T), u, self.radius[rows], self.gaps
            )

        value, point = gather_blocks(one_block, *self._rows())
        return value, point

    def entropies(self) -> Entropies:
        """Return brackets of both entropies, that of the largest exact up to rounding.

        See `flattest` and `gathered`.
        """

        def one_block(rows: slice) -> tuple[FloatArray, ...]:
            mass = np.ascontiguousarray(self.center[rows].T)
            radius = self.radius[rows]
            most, reached = transport.flattest(mass, radius, np.array(self.gaps))
            if len(mass) <= MAX_LISTED:
                least = self._least_entropy(mass, radius)
                return least, np.zeros(len(least)), most, np.maximum(most - reached, 0.0)
            envelope = self[rows].envelope()
            found = transport.entropy_toward_top(mass, radius, self.gaps)
            if len(mass) <= MAX_GROUP_CLASSES:
                bound, entropy = transport.gathered(mass, radius, self.gaps)
                least = np.maximum(majorization_bound(*envelope), bound)
            else:
                least = majorization_bound(
                    *envelope, transport.largest_sums(mass, radius, self.gaps)
                )
                entropy = transport.entropy_of_blocks(mass, radius, self.gaps)
            return (
                *bracketed(least, np.minimum(found, entropy)),
                most,
                np.maximum(most - reached, 0.0),
            )

        return Entropies(*gather_blocks(one_block, *self._rows()))

    def _least_entropy(self, mass: FloatArray, radius: FloatArray) -> FloatArray:
        """Return the least entropy of all corners: entropy is concave."""
        least = entropy_of_valid(mass, axis=0)
        for point, member, _ in transport.corners(mass, radius, self.gaps):
            entropy = entropy_of_valid(point, axis=0)
            least = np.where(member, np.minimum(least, entropy), least)
        return least

    def mode_radius(self) -> FloatArray:
        """Return distances, exact near the radius and otherwise on the same side of it.

        See `distance_to_mode`.

        Unequal gaps use the default.
        """
        if np.ptp(self.gaps) > 1e-12 * self.gaps[0]:
            return super().mode_radius()

        def one_block(rows: slice) -> FloatArray:
            mass = np.ascontiguousarray(self.center[rows].T)
            unit = self.gaps[0]
            return unit * transport.distance_to_mode(mass, self.radius[rows] / unit).T

        return gather_blocks(one_block, *self._rows())

    def _ray_length(self, directions: FloatArray) -> FloatArray:
        """Return the distance to the surface, f being linear on a ray, or to the simplex's edge."""
        with np.errstate(divide="ignore", invalid="ignore"):
            surface = self.radius[:, None] / transport.transport_cost(
                directions, np.array(self.gaps)
            )
        return np.minimum(surface, edge_distance(self.center[:, None], directions))

    def log_volume(
        self, generator: np.random.Generator, n_rays: int
    ) -> tuple[FloatArray, FloatArray, str]:
        """Return the area of a polygon for three classes, which is exact, or an estimate."""
        if self.n_classes == 2:
            return super().log_volume(generator, n_rays)
        if self.n_classes > 3:
            draws = DRAWS_PER_RAY * n_rays
            found = transport_volume.log_volume(
                self.center, self.radius, np.array(self.gaps), draws, generator
            )
            return *found, "estimate"
        with np.errstate(divide="ignore"):
            value = np.log(2.0 * _polygon_area(self.center, self.radius, self.gaps))
        return np.minimum(value, 0.0), np.zeros(len(self)), "exact"

    def vertices(self, i: int) -> FloatArray:
        """Return the corners of region i, for up to five classes."""
        if self.n_classes > MAX_LISTED:
            raise ValueError(
                f"vertices of Wasserstein balls are listed for at most {MAX_LISTED} classes, but "
                f"there are {self.n_classes}. Use upper_expectation or sample."
            )
        one = (self.center[[i]].T, self.radius[[i]], self.gaps)
        found = [point[:, 0] for point, _, is_corner in transport.corners(*one) if is_corner[0]]
        return np.unique(np.array(found or [self.center[i]]).round(13), axis=0)


def _greatest_expectation(
    mass: FloatArray, u: FloatArray, budget: FloatArray, gaps: tuple[float, ...]
) -> tuple[FloatArray, FloatArray]:
    n = len(budget)
    near = np.stack([np.zeros(n), sum_classes(mass * u), np.full(n, np.inf)])  # cost, value, price
    far = np.stack([*_corner(mass, u, gaps, np.zeros(n))[:2], np.zeros(n)])
    tolerance = 1e-14 * np.ptp(u, axis=0)
    rows = np.flatnonzero(far[0] > budget)
    while len(rows):
        price = (far[1, rows] - near[1, rows]) / (far[0, rows] - near[0, rows])
        found = np.stack([*_corner(mass[:, rows], u[:, rows], gaps, price)[:2], price])
        above = (
            found[1] - price * found[0] > near[1, rows] - price * near[0, rows] + tolerance[rows]
        )
        affordable = found[0] <= budget[rows]
        near[:, rows[above & affordable]] = found[:, above & affordable]
        far[:, rows[above & ~affordable]] = found[:, above & ~affordable]
        rows = rows[above]
    share = np.ones(n)
    np.divide(budget - near[0], far[0] - near[0], out=share, where=far[0] > budget)
    point = np.zeros_like(mass)
    columns = np.arange(n)
    for part, price in ((1.0 - share, near[2]), (share, far[2])):
        target = np.where(
            np.isinf(price), np.arange(len(mass))[:, None], _corner(mass, u, gaps, price)[2]
        )
        for j, goes_to in enumerate(target):
            point[goes_to, columns] += part * mass[j]
    return sum_classes(u * point), point.T


def _corner(
    mass: FloatArray, u: FloatArray, gaps: tuple[float, ...], price: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return cost (n,), expected utility (n,) and targets of classes, (K, n), at prices (n,).

    Two sweeps are enough.
    """
    worth = u.copy()
    target = np.repeat(np.arange(len(u))[:, None], u.shape[1], axis=1)
    for sweep, step in ((range(1, len(u)), -1), (range(len(u) - 2, -1, -1), 1)):
        for k in sweep:
            offer = worth[k + step] - price * gaps[min(k, k + step)]
            better = offer > worth[k]
            worth[k] = np.where(better, offer, worth[k])
            target[k] = np.where(better, target[k + step], target[k])
    at = np.r_[0.0, np.cumsum(gaps)]
    cost = sum_classes(mass * np.abs(at[target] - at[:, None]))
    return cost, sum_classes(mass * np.take_along_axis(u, target, axis=0)), target


def _polygon_area(center: FloatArray, radius: FloatArray, gaps: tuple[float, ...]) -> FloatArray:
    """Return the area of {(F_1, F_2)} of three classes, (N,), ½ for the whole simplex.

    With w = F − G it is the integral over w_1 of the length of max(w_1 − g_2, −s / b) ≤ w_2 ≤
    min(g_3, s / b), s = r − a |w_1|: piecewise linear, so that the trapezoidal rule between its
    breakpoints is exact.
    """
    a, b = gaps
    g1, g2, g3 = center.T
    low = -np.minimum(g1, radius / a)
    high = np.minimum(g2 + g3, radius / a)
    breaks = [low, high, 0.0 * g1, (radius - b * g3) / a, (b * g3 - radius) / a]
    # w_1 − g_2 = side · (r − sign · a w_1) / b
    for side, sign in product((-1.0, 1.0), (-1.0, 1.0)):
        slope = b + side * sign * a
        if slope != 0.0:
            breaks.append((side * radius + b * g2) / slope)
    w = np.sort(np.clip(np.stack(breaks, axis=1), low[:, None], high[:, None]), axis=1)
    reach = np.maximum(radius[:, None] - a * np.abs(w), 0.0) / b
    length = np.maximum(np.minimum(g3[:, None], reach) - np.maximum(w - g2[:, None], -reach), 0.0)
    return np.asarray((0.5 * np.diff(w, axis=1) * (length[:, 1:] + length[:, :-1])).sum(axis=1))
