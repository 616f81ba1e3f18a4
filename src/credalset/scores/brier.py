r"""Weighted squared distance, $f = \sum_k v_k (\lambda_k - g_k)^2$, and the ball it induces.

The member that is best for a utility u is the projection of g + η u / v onto the simplex, λ_k =
(g_k + (η u_k − θ) / v_k)₊, for the η at which the distance equals the radius. If the classes of a
set A gain mass, they share it in inverse proportion to v, and each of the others loses min(b / v_k,
g_k) for some b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import entr

from credalset._blocks import gather_blocks
from credalset._typing import FloatArray, IntArray
from credalset._validation import as_finite
from credalset.scores.base import Score
from credalset.scores.power import BLOCK, bracketed, omega, pooled_spread
from credalset.scores.registry import register_score
from credalset.sets.geometry import Geometry
from credalset.sets.results import Entropies
from credalset.sets.roots import newton
from credalset.sets.volume import edge_distance
from credalset.simplex import corners, entropy_of_valid, sum_classes

MAX_STEPS = 60  # of Newton's method for a sum, which converges from one side
SMALLEST = 1e-24  # squared distance below which no entropy changes by 1e-9
SCALE_OFFSET = 0.0015  # measured by benchmarks/votes_in_hand.py
DUAL_STEPS = 2  # of Newton's method for the multipliers of the lower bound of the entropy
DESCENTS = 2  # steps from each start toward a member of small entropy


@register_score
@dataclass(frozen=True)
class Brier(Score):
    r"""Weighted squared Euclidean distance $f = \sum_k v_k (\lambda_k - g_k)^2$.

    It is between 0 and 2 without weights.

    For votes drawn from λ, the expected Brier score of the prediction is f plus a term that depends
    on λ only (Brier, 1950, Monthly Weather Review 78). For items with at least two votes, f has an
    unbiased estimate, which `credalset.FewVotes` uses.

    Parameters
    ----------
    weights : sequence of positive numbers, optional
        Weight v_k of each class; one by default.

    Examples
    --------
    >>> import numpy as np
    >>> Brier()(np.array([[0.5, 0.5, 0.0]]), np.array([[0.2, 0.5, 0.3]])).round(3)
    array([0.18])
    >>> Brier(weights=(1, 1, 4))(np.array([[0.5, 0.5, 0.0]]), np.array([[0.2, 0.5, 0.3]])).round(3)
    array([0.45])
    """

    weights: Sequence[float] | None = None
    name: ClassVar[str] = "brier"
    order: ClassVar[Literal["first", "second"]] = "first"
    has_enclosing_balls: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.weights is None:
            return
        weights = tuple(as_finite(weight, "weights", minimum=0.0) for weight in self.weights)
        if len(weights) < 2 or min(weights) < 1e-100 or max(weights) > 1e100:
            raise ValueError(
                "weights must hold one number from 1e-100 to 1e+100 per class, but is "
                f"{self.weights!r}. Give a class that hardly counts a small positive weight."
            )
        object.__setattr__(self, "weights", weights)

    def of_classes(self, n_classes: int) -> FloatArray:
        """Return v, (K,)."""
        return np.ones(n_classes) if self.weights is None else np.asarray(self.weights)

    def _check_classes(self, n_classes: int) -> None:
        if self.weights is not None and len(self.weights) != n_classes:
            raise ValueError(
                f"weights has {len(self.weights)} entries, but the predictions have {n_classes} "
                "classes. Pass one weight per class."
            )

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """Return Σ v_k (λ_k − g_k)²."""
        return np.asarray(
            (self.of_classes(distribution.shape[-1]) * (distribution - prediction) ** 2).sum(
                axis=-1
            )
        )

    def geometry(self, prediction: FloatArray, threshold: FloatArray) -> BrierBall:
        """Return Brier balls."""
        return BrierBall(prediction, threshold, tuple(self.of_classes(prediction.shape[1])))

    def scale_offset(self, n_classes: int) -> float:
        """Return 0.0015 times the mean weight."""
        return SCALE_OFFSET * float(self.of_classes(n_classes).mean())

    def estimate_from_votes(self, prediction: FloatArray, counts: FloatArray) -> FloatArray:
        r"""Return an estimate of f from votes, with mean f from two votes on.

        It is $\sum_k v_k [c_k (c_k - 1) / m (m - 1) - 2 g_k c_k / m + g_k^2]$.

        A single vote has no unbiased estimate of $\lambda_k^2$; the result is the score of the
        vote, whose mean is larger than f by Jensen's inequality.
        """
        weights = self.of_classes(prediction.shape[1])
        votes = counts.sum(axis=1, keepdims=True)
        share = counts / votes
        pairs = np.where(votes > 1, share * (counts - 1.0) / np.maximum(votes - 1.0, 1.0), share**2)
        return np.asarray(
            ((pairs - 2.0 * prediction * share + prediction**2) * weights).sum(axis=-1)
        )

    def lipschitz(self, n_classes: int) -> float:
        """Return twice the two largest weights.

        It holds that f(λ) − f(λ') = Σ v_k (λ_k − λ'_k)(λ_k + λ'_k − 2 g_k).
        """
        return 2.0 * float(np.sort(self.of_classes(n_classes))[-2:].sum())

    def enclosing_threshold(
        self, model: FloatArray, center: FloatArray, threshold: FloatArray
    ) -> FloatArray:
        """Return (√t + √f(model, center))², by the triangle inequality for the root of f."""
        grown = (
            np.sqrt(np.maximum(threshold, 0.0)) + np.sqrt(self.evaluate_rows(model, center))
        ) ** 2
        return np.where(threshold < 0, threshold, grown)


@dataclass(frozen=True, eq=False)
class BrierBall(Geometry):
    """{λ : Σ v_k (λ_k − center_k)² ≤ radius}.

    All results are exact except the smallest entropy, which is a bracket, and volumes beyond three
    classes.
    """

    shape: ClassVar[str] = "Brier ball"

    weights: tuple[float, ...]

    def divergence(self, points: FloatArray) -> FloatArray:
        """Return Σ v_k (λ_k − g_k)² of points (N, M, K), (N, M)."""
        return np.asarray(
            ((points - self.center[:, None]) ** 2 * np.array(self.weights)).sum(axis=-1)
        )

    def support(self, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the largest expectations and maximisers."""
        v = np.array(self.weights)
        point = gather_blocks(
            lambda rows: _projection(self.center[rows], self.radius[rows], v, utility[rows]),
            len(self),
            self.n_classes,
            BLOCK,
        )
        return (utility * point).sum(axis=1), point

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Return smallest probabilities if others share mass as 1 / v, and largest; see `Gains`."""
        v = np.array(self.weights)
        room = 1.0 / v
        lower = self.center - np.sqrt(self.radius[:, None] / (v + 1.0 / (room.sum() - room)))

        def one_block(rows: slice) -> FloatArray:
            g = self.center[rows]
            return np.minimum(
                g + Gains.of(g, v).within(self.radius[rows], room, g * v, self.n_classes), 1.0
            )

        return np.maximum(lower, 0.0), gather_blocks(one_block, len(self), self.n_classes, BLOCK)

    def entropies(self) -> Entropies:
        """Return the exact largest entropy and a bracket of the smallest.

        With equal weights, the sum of the j largest entries of a member is at most the largest sum
        of the j largest classes, because entries ordered as those of the centre are nearer to it.
        The increments of these sums majorise every member. Duality gives another lower bound, for
        any weights.
        """

        def one_block(rows: slice) -> tuple[FloatArray, FloatArray, FloatArray]:
            part = self[rows]
            v = np.array(self.weights)
            most = entropy_of_valid(_flattest(part.center, part.radius, v))
            lower, upper = part.envelope()
            least = np.zeros(len(part))
            likely = upper
            if np.ptp(v) == 0.0:
                least = entropy_of_valid(_largest_increments(part.center, part.radius, v))
                likely = part.center
            found, member = part._smallest_found(likely.argmax(axis=1))
            bound = _dual_bound(part.center, part.radius, v, member, lower, upper)
            return np.maximum(least, bound), found, most

        least, found, most = gather_blocks(one_block, len(self), self.n_classes, BLOCK)
        return Entropies(*bracketed(least, found), most, np.zeros(len(self)))

    def _smallest_found(self, top: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the smallest entropy of a few members, and its member.

        They come from minimising linearisations of the entropy.
        """
        found = np.full(len(self), np.inf)
        member = self.center
        for slope in (np.log(np.maximum(self.center, 1e-300)), corners(top, self.n_classes)):
            for _ in range(DESCENTS):
                point = self.support(slope)[1]
                entropy = entropy_of_valid(point)
                member = np.where((entropy < found)[:, None], point, member)
                found = np.minimum(found, entropy)
                slope = np.log(np.maximum(point, 1e-300))
        return found, member

    def mode_radius(self) -> FloatArray:
        """Pool each class with the larger ones if weights are equal; the others stay."""
        if max(self.weights) > min(self.weights):
            return super().mode_radius()
        return np.asarray(self.weights[0] * pooled_spread(self.center))

    def _ray_length(self, directions: FloatArray) -> FloatArray:
        """Return the distance to the surface or the edge of the simplex.

        The root of f is linear along a ray.
        """
        speed = np.sqrt(directions**2 @ np.array(self.weights))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.minimum(
                np.sqrt(self.radius)[:, None] / speed,
                edge_distance(self.center[:, None], directions),
            )

    def log_volume(
        self, generator: np.random.Generator, n_rays: int
    ) -> tuple[FloatArray, FloatArray, str]:
        """Return the area of an ellipse cut by a triangle for three classes, which is exact."""
        if self.n_classes != 3:
            return super().log_volume(generator, n_rays)
        with np.errstate(divide="ignore"):
            value = np.log(_ellipse_share(self.center, self.radius, np.array(self.weights)))
        return np.minimum(value, 0.0), np.zeros(len(self)), "exact"


def _projection(
    center: FloatArray, radius: FloatArray, v: FloatArray, utility: FloatArray
) -> FloatArray:
    r"""Return the best members (N, K) for utilities.

    With the positive classes ("in") and those at zero ("out"), the squared distance is $a + b
    \eta^2$, $a = \sum_{out} v g^2 + (\sum_{out} g)^2 / S$, $b = \sum_{in} (u - \bar u)^2 / v$, $S =
    \sum_{in} 1 / v$. A class at zero stays there as η grows, so the step computed with too many
    positive classes is too short, and every class that it makes negative is at zero in the
    solution. Setting these to zero until none is negative yields the solution (Michelot, 1986).
    """
    depth = utility - utility.max(axis=1, keepdims=True)
    slope = depth / np.where(depth.min(axis=1) < 0, -depth.min(axis=1), 1.0)[:, None]
    face = slope == 0.0  # the best classes, which many balls reach
    room = np.where(face, 1.0 / v, 0.0)
    missing = np.where(face, 0.0, center).sum(axis=1, keepdims=True)
    point = np.where(face, center, 0.0) + missing * room / room.sum(axis=1, keepdims=True)
    todo = np.flatnonzero(((point - center) ** 2 * v).sum(axis=1) > radius)
    kept = np.ones((len(todo), len(v)), dtype=bool)
    while len(todo):
        g = center[todo]
        u = slope[todo]
        room = kept / v
        total = room.sum(axis=1)
        rise = kept * (u - ((room * u).sum(axis=1) / total)[:, None])
        out = np.where(kept, 0.0, g)
        share = out.sum(axis=1) / total
        left = radius[todo] - (out**2 * v).sum(axis=1) - share**2 * total
        step = np.sqrt(np.maximum(left, 0.0) / np.maximum((room * rise**2).sum(axis=1), 1e-300))
        moved = kept * (g + room * (share[:, None] + step[:, None] * rise))
        done = (moved >= 0).all(axis=1)
        point[todo[done]] = moved[done]
        todo = todo[~done]
        kept = (kept & (moved > 0))[~done]
    return point


class Gains(NamedTuple):
    """Tables for the gain of sets of classes when each of the others loses min(b / v_k, g_k).

    Classes reach zero in the order of their prices v g. Column j of the arrays (n, K + 1) is for
    the price b of the j-th class: the sums of g and v g² over the j classes at zero, and Σ 1 / v of
    the others.
    """

    price: FloatArray
    mass: FloatArray
    squares: FloatArray
    room: FloatArray

    @staticmethod
    def of(center: FloatArray, v: FloatArray) -> Gains:
        """Sort the classes by price."""
        order = np.argsort(center * v, axis=1)
        g = np.take_along_axis(center, order, axis=1)
        weight = v[order]
        table = np.zeros((4, len(center), len(v) + 1))
        table[0, :, 1:] = g * weight
        np.cumsum(g, axis=1, out=table[1, :, 1:])
        np.cumsum(weight * g * g, axis=1, out=table[2, :, 1:])
        table[3, :, -2::-1] = np.cumsum(1.0 / weight[:, ::-1], axis=1)
        return Gains(*table)

    def within(
        self, radius: FloatArray, room: FloatArray, price: FloatArray, most: int | IntArray
    ) -> FloatArray:
        """Return the largest gains (n, C) of sets of classes with Σ 1 / v = ``room``.

        Each set has the price ``price``.

        At most ``most`` classes are at zero. The cost rises with b, which is found by binary search
        among the prices and a quadratic equation.
        """
        n, size = self.price.shape
        row = size * np.arange(n)[:, None]
        r = radius[:, None]
        count = np.zeros((n, np.size(room)), dtype=np.int64)
        for step in 2 ** np.arange(size.bit_length())[::-1]:
            trial = np.minimum(count + step, most)
            # At the price b of the trial, what the others lose is gained, at this cost.
            b = self.price.take(row + trial)
            rest = self.room.take(row + trial)
            own = np.minimum(b, price) * room
            gain = self.mass.take(row + trial) + b * rest - own
            cost = (gain**2 - own**2) / room + self.squares.take(row + trial) + b * b * rest
            count = np.where(cost <= r, trial, count)
        # Where the gaining class is cheaper, the tables count it as one at zero: taken out again.
        inside = price <= self.price.take(row + count)
        own = np.where(inside, price, 0.0) * room
        at_zero = self.mass.take(row + count) - own
        squares = self.squares.take(row + count) - own**2 / room
        rest = np.maximum(self.room.take(row + count) - np.where(inside, 0.0, room), 0.0)
        left = r - squares - at_zero**2 / room
        # gain = at_zero + rest · b, where gain² / room + squares + rest · b² = r. With x = rest · b
        # that is (rest / room + 1) x² + 2 (at_zero rest / room) x − rest · left = 0.
        half = at_zero * rest / room
        factor = rest / room + 1.0
        root = np.sqrt(np.maximum(half**2 + factor * rest * left, 0.0))
        return at_zero + np.maximum(root - half, 0.0) / factor


def _largest_increments(center: FloatArray, radius: FloatArray, v: FloatArray) -> FloatArray:
    """Return the increments of the largest sums of j entries, j = 1 … K, for equal weights."""
    k = len(v)
    j = np.arange(1, k)
    ranked = -np.sort(-center, axis=1)
    gain = Gains.of(center, v).within(radius, j / v[0], np.full(k - 1, np.inf), k - j)
    sums = np.minimum(np.cumsum(ranked, axis=1)[:, :-1] + gain, 1.0)
    return np.diff(np.maximum.accumulate(sums, axis=1), axis=1, prepend=0.0, append=1.0)


def _dual_bound(
    center: FloatArray,
    radius: FloatArray,
    v: FloatArray,
    member: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> FloatArray:
    r"""Return a lower bound on the smallest entropy, (N,), by duality.

    For any ν ≥ 0 and τ no member has less than $\sum_k \min_\lambda \phi_k(\lambda) - \nu r - \tau$
    with $\phi_k = -\lambda \log \lambda + \nu v_k (\lambda - g_k)^2 + \tau \lambda$ between the
    envelopes. Each φ is concave up to 1 / 2νv and convex beyond, so its minimum is at an end or
    where it is stationary in the convex part. The first multipliers make a member of small entropy
    nearly stationary; Newton's method improves them.
    """
    # φ' = −log λ − 1 + ν · slope + τ is zero at the member, as nearly as possible: regression of
    # log λ + 1 on the slope of the distance, with the member's probabilities as weights.
    slope = 2.0 * v * (member - center)
    logs = np.log(np.maximum(member, 1e-300)) + 1.0
    x = slope - (member * slope).sum(axis=1, keepdims=True)
    y = logs - (member * logs).sum(axis=1, keepdims=True)
    covariance = (member * x * y).sum(axis=1)
    variance = (member * x * x).sum(axis=1)
    nu = np.maximum(covariance / np.maximum(variance, 1e-300), 1e-9)
    tau = (member * (logs - nu[:, None] * slope)).sum(axis=1)
    best = np.zeros(len(center))
    for _ in range(DUAL_STEPS):
        pull = 2.0 * nu[:, None] * v
        t = tau[:, None]
        # The stationary point in the convex part, beyond the turn. Newton's method from the right
        # along a convex slope does not overshoot.
        turn = np.minimum((1.0 + 1e-9) / pull, 1.0)
        point = np.maximum(upper, turn)
        for _ in range(6):
            slope = pull * (point - center) + t - np.log(point) - 1.0
            point = np.maximum(point - slope / np.maximum(pull - 1.0 / point, 1e-9), turn)
        slope = pull * (point - center) + t - np.log(point) - 1.0
        # The tangent at the point bounds by how much the minimum may be lower.
        slack = np.maximum(slope * (point - turn), -slope * (upper - point))
        inside = (point > lower) & (point < upper)
        point = np.clip(point, lower, upper)
        ends = np.stack([lower, upper, point])
        values = entr(ends) + 0.5 * pull * (ends - center) ** 2 + t * ends
        values[2] -= np.where(inside, slack, 0.0)
        best = np.maximum(best, values.min(axis=0).sum(axis=1) - nu * radius - tau)
        # Newton's method on the multipliers, for Σ λ = 1 and distance = r. The classes at a
        # stationary point move with them, by 1 / φ''.
        chosen = values.argmin(axis=0)
        point = np.take_along_axis(ends, chosen[None], axis=0)[0]
        curvature = np.maximum(pull - 1.0 / np.maximum(point, 1e-12), 1e-6)
        give = np.where((chosen == 2) & inside, 1.0 / curvature, 0.0)
        slope = 2.0 * v * (point - center)
        excess = point.sum(axis=1) - 1.0
        miss = ((point - center) ** 2 * v).sum(axis=1) - radius
        a = give.sum(axis=1)
        b = (give * slope).sum(axis=1)
        c = (give * slope**2).sum(axis=1)
        det = np.maximum(a * c - b * b, 1e-12 * a * c + 1e-300)
        dnu = (a * miss - b * excess) / det
        step = np.minimum(1.0, 0.5 * nu / np.maximum(np.abs(dnu), 1e-300))
        nu = nu + step * dnu
        tau = tau + step * (c * excess - b * miss) / det
    return best


def _flattest(center: FloatArray, radius: FloatArray, v: FloatArray) -> FloatArray:
    r"""Return the members of largest entropy, (N, K).

    The uniform distribution if it is a member. Otherwise $\log \lambda_k + 2 \nu v_k (\lambda_k -
    g_k) = \tau$, so $\lambda_k = \omega(\log 2 \nu v_k + 2 \nu v_k g_k + \tau) / 2 \nu v_k$ with
    Wright's omega: a root in τ for the sum, nested in one in x = −log ν for the distance, which
    rises with x.
    """
    g = np.ascontiguousarray(center.T)
    weight = v[:, None]
    point = np.full_like(g, 1.0 / len(v))
    far_off = sum_classes(weight * (point - g) ** 2)
    far = far_off > radius
    tiny = radius < SMALLEST * v.min()
    point[:, far & tiny] = g[:, far & tiny]
    rows = np.flatnonzero(far & ~tiny)
    g = g[:, rows]
    r = radius[rows]
    tau = np.log(g.max(axis=0))
    # In a small ball λ − g ≈ (mean log g − log g) / 2νv; in a large one the distance tends to that
    # of the uniform.
    logs = np.log(np.maximum(g, 0.05 / len(v)))
    spread = sum_classes((logs - sum_classes(logs) / len(v)) ** 2 / weight)
    limit = far_off[rows]
    start = -np.log(np.maximum(0.5 * np.sqrt(spread / limit) * (np.sqrt(limit / r) - 1.0), 1e-12))

    def curve(
        x: FloatArray, g: FloatArray, r: FloatArray, tau: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        nu = np.exp(-x)
        # The next root in τ starts from this one.
        found, tau[:] = _tilted(g, 2.0 * nu * weight, tau)
        gap = 2.0 * weight * (found - g)
        inertia = found / (1.0 + 2.0 * nu * weight * found)
        mean = sum_classes(inertia * gap) / sum_classes(inertia)
        distance = sum_classes(weight * (found - g) ** 2)
        return np.log(distance / r), nu * sum_classes(inertia * (gap - mean) ** 2) / distance

    with np.errstate(all="ignore"):
        x = newton(
            curve, (g, r, tau.copy()), start - 30.0, start + 30.0, start, np.full(len(rows), 1e-7)
        )
        point[:, rows] = _tilted(g, 2.0 * np.exp(-x) * weight, tau)[0]
    return point.T


def _tilted(g: FloatArray, pull: FloatArray, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return λ with log λ_k + pull_k (λ_k − g_k) = τ and sum one, and τ; the sum is convex in τ."""
    shift = np.log(pull) + pull * g
    settled = np.zeros(g.shape[1], dtype=bool)  # roots that stay, whatever the others need
    for _ in range(MAX_STEPS):
        scaled = omega(shift + tau)
        excess = sum_classes(scaled / pull) - 1.0
        settled |= np.abs(excess) <= 1e-12
        if settled.all():
            break
        move = excess / sum_classes(scaled / (pull * (1.0 + scaled)))
        tau = np.where(settled, tau, tau - move)
    point = scaled / pull
    return point / sum_classes(point), tau


def _ellipse_share(center: FloatArray, radius: FloatArray, v: FloatArray) -> FloatArray:
    """Return the share of the triangle of three classes that the ellipse covers, (N,).

    In coordinates (λ_1 − g_1, λ_2 − g_2) the distance is |M x|², so y = M x turns the ellipse into
    a circle and the simplex into another triangle. Seen from the centre, the part of the circle
    before each side consists of sectors, where the side lies outside, and of a triangle, where it
    lies inside.
    """
    a, b, c = v
    matrix = np.linalg.cholesky(np.array([[a + c, c], [c, b + c]])).T
    root = np.sqrt(np.where(radius > 0, radius, 1.0))
    corners = ((np.eye(3) - center[:, None])[..., :2] @ matrix.T) / root[:, None, None]
    area = np.zeros(len(center))
    for k in range(3):
        start = corners[:, k]
        end = corners[:, (k + 1) % 3]
        along = (end - start) / np.hypot(*(end - start).T)[:, None]
        height = np.abs(start[:, 0] * along[:, 1] - start[:, 1] * along[:, 0])
        # positions, from the foot of the height
        first = (start * along).sum(axis=1)
        last = (end * along).sum(axis=1)
        half = np.sqrt(np.maximum(1.0 - height**2, 0.0))
        # the part of the side in the disc
        low = np.clip(first, -half, half)
        high = np.clip(last, -half, half)
        sector = (
            np.arctan2(low, height)
            - np.arctan2(first, height)
            + np.arctan2(last, height)
            - np.arctan2(high, height)
        )
        outside = np.arctan2(last, height) - np.arctan2(first, height)
        area += np.where(height < 1.0, 0.5 * height * (high - low) + 0.5 * sector, 0.5 * outside)
    return area * radius / (0.5 * np.linalg.det(matrix))
