r"""Kullback–Leibler divergence from the prediction, and the ball that it induces.

The ball is {λ : KL(λ ‖ g) ≤ r}, with r in nats.

Classes with g_k = 0 have λ_k = 0 throughout the ball.

**Tilting.** For a utility u, any member and any β ≥ 0, Jensen's inequality gives β⟨u, λ⟩ ≤ KL(λ‖g)
+ log Σ g exp(βu) with equality at λ_β ∝ g·exp(βu). So λ_β maximises ⟨u, λ⟩ over the ball whose
radius is D(β) = KL(λ_β‖g), and D rises from 0 to −log g(M), M the classes with the largest u: one
root per row. For r ≥ −log g(M), g conditioned on M is a member and attains max u.

**Entropies are tilts by ±log g.** H(λ) = −KL(λ‖g) − ⟨log g, λ⟩.

* Smallest: H ≥ −r − max ⟨log g, λ⟩ over the ball, and λ_β ∝ g^(1+β) attains it, because it lies on
  the sphere KL = r. When r > −log g(M), M the classes with the largest g, the bound −r − log max g
  is attained on the face of M, until a corner is a member (r ≥ −log max g) and the entropy is 0.
* Largest: H is concave, so the stationary point λ ∝ g^τ with 0 ≤ τ ≤ 1 on the sphere is the
  maximum, or the uniform distribution on the support of g if that is a member.

**Envelope.** With u the indicator of class k the tilt keeps the other classes in proportion, and
λ_k solves the binary equation d(λ_k‖g_k) = r.

**Nearest distribution with class a on top.** Multipliers μ_b ≥ 0 of λ_b ≤ λ_a give λ_b =
C·g_b·exp(−μ_b) and λ_a = C·g_a·exp(Σ μ): a and the classes above it are pooled at C times their
geometric mean γ, as long as they exceed γ, the others stay proportional to g, and the divergence is
log C = −log(|P|·γ + g(outside P)).

**Volume, K = 3.** By the chain rule KL(λ‖g) = d(p‖g_a) + (1 − p)·d(w‖g_b/(1 − g_a)) for λ = (p,
(1−p)w, (1−p)(1−w)): each chord at λ_a = p is a binary ball of radius (r − d(p‖g_a))/(1 − p), and
the area is one integral over p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np
from scipy.special import rel_entr

from credalset._blocks import in_blocks
from credalset._typing import FloatArray
from credalset._validation import as_finite
from credalset.scores.base import Score
from credalset.scores.registry import register_score
from credalset.sets.geometry import Geometry
from credalset.sets.results import Entropies
from credalset.sets.roots import among, newton
from credalset.sets.volume import smooth_quadrature
from credalset.simplex import entropy_of_valid, sum_classes

SMALL_RADIUS = 1e-12  # below, balls are ellipsoids to seven digits
SCALE_OFFSET = 0.1  # bits, measured by benchmarks/votes_in_hand.py
NODES, WEIGHTS = smooth_quadrature(32)


@final
@register_score
@dataclass(frozen=True)
class KullbackLeibler(Score):
    r"""Kullback–Leibler divergence $f = \sum_k \lambda_k \log(\lambda_k / g_k)$ (paper name: KL).

    The score is ``+inf`` if λ is positive for a class with predicted probability zero.

    Parameters
    ----------
    base : float
        Base of the logarithm; 2 (bits) as in the published experiments. The sets do not depend on
        it.

    Examples
    --------
    >>> import numpy as np
    >>> KullbackLeibler()(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]))
    array([1.])
    """

    base: float = 2.0
    name: ClassVar[str] = "kl"
    order: ClassVar[Literal["first", "second"]] = "first"
    has_enclosing_balls: ClassVar[bool] = True

    def __post_init__(self) -> None:
        base = as_finite(self.base, "base")
        if base <= 1.0:
            raise ValueError(
                f"base must be above 1, but is {self.base!r}. Use 2 for bits or math.e for nats."
            )
        object.__setattr__(self, "base", base)

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """Return Σ λ_k log(λ_k / g_k), in units of log(base)."""
        return np.maximum(rel_entr(distribution, prediction).sum(axis=-1), 0.0) / math.log(
            self.base
        )

    def geometry(self, prediction: FloatArray, threshold: FloatArray) -> KullbackLeiblerBall:
        """Return balls around the predictions."""
        return KullbackLeiblerBall(prediction, threshold * math.log(self.base))

    def scale_offset(self, n_classes: int) -> float:
        """Return 0.1 bits."""
        return SCALE_OFFSET / math.log2(self.base)

    def label_scores(self, prediction: FloatArray) -> FloatArray:
        """Return minus the logarithm of the predicted probability."""
        with np.errstate(divide="ignore"):
            return np.maximum(-np.log(prediction), 0.0) / math.log(self.base)

    def largest_gap(self, model: FloatArray, center: FloatArray) -> FloatArray:
        """Return the largest log-ratio of the two predictions, at the corner of its class."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(model > 0, np.log(model) - np.log(center), -np.inf)
        return np.asarray(ratio.max(axis=1) / math.log(self.base))


@dataclass(frozen=True, eq=False)
class KullbackLeiblerBall(Geometry):
    """{λ : KL(λ ‖ center) ≤ radius} in nats. All is exact, the volume up to three classes."""

    shape: ClassVar[str] = "Kullback–Leibler ball"

    def divergence(self, points: FloatArray) -> FloatArray:
        """Return KL(λ ‖ g), which is +inf where λ_k > 0 = g_k."""
        return np.asarray(np.maximum(rel_entr(points, self.center[:, None]).sum(axis=-1), 0.0))

    def support(self, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return largest expectations and maximisers: tilts of the centre by the utility."""
        return _support(self.center, self.radius, utility)

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Return both roots of the binary equation d(λ_k‖g_k) = r."""
        return _envelope(self.center, self.radius)

    def entropies(self) -> Entropies:
        """Return the entropies of the tilts by ±log g."""
        return Entropies.exact(*_entropies(self.center, self.radius))

    def mode_radius(self) -> FloatArray:
        """Return the divergence of pooling classes with the larger ones, +inf where g_k = 0."""
        return _mode_radius(self.center)

    def log_volume(
        self, generator: np.random.Generator, n_rays: int
    ) -> tuple[FloatArray, FloatArray, str]:
        """Return an integral over chords for three classes, which is exact to rounding."""
        if self.n_classes != 3:
            return super().log_volume(generator, n_rays)
        least = self.center.min(axis=1)
        with np.errstate(divide="ignore"):
            # The whole simplex, or no interior.
            value = np.where(self.radius >= -np.log(least), 0.0, -np.inf)
        rows = np.flatnonzero((least > 0) & (self.radius > 0) & (value < 0))
        value[rows] = _log_area(self.center[rows], self.radius[rows])
        return value, np.zeros(len(self)), "exact"


def _rise(mass: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the largest δ ≤ 1 − mass with d(mass + δ ‖ mass) ≤ radius.

    Newton's method on the logarithms of δ and of the divergence, whose slope is between one and two
    except near δ = 1 − mass, starts from the expansion of δ in √radius to second order.
    """
    mass, radius = (
        np.ascontiguousarray(array).ravel() for array in np.broadcast_arrays(mass, radius)
    )
    rest = 1.0 - mass
    with np.errstate(divide="ignore"):
        result = np.where((mass > 0) & (radius >= -np.log(mass)), rest, 0.0)
    start = np.sqrt(2.0 * radius * mass * rest) + np.maximum(1.0 - 2.0 * mass, 0.0) * radius / 3.0
    start = np.minimum(start, 0.9 * rest)
    rows = np.flatnonzero((mass > 0) & (radius > 0) & (result == 0.0) & (rest > 0))
    few = rows[radius[rows] < SMALL_RADIUS]
    result[few] = start[few]
    rows = rows[radius[rows] >= SMALL_RADIUS]

    def curve(
        x: FloatArray, mass: FloatArray, rest: FloatArray, log_r: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        delta = np.exp(x)
        up = np.log1p(delta / mass)
        down = np.log1p(-delta / rest)
        value = (mass + delta) * up + (rest - delta) * down
        return np.log(value) - log_r, delta * (up - down) / value

    q = mass[rows]
    room = rest[rows]
    log_r = np.log(radius[rows])
    high = np.log(room) - 1e-15
    low = np.full(len(rows), -800.0)
    x = newton(curve, (q, room, log_r), low, high, np.log(start[rows]), np.full(len(rows), 1e-7))
    result[rows] = np.minimum(np.exp(x), room)
    return result


@in_blocks(lambda size: 4 * size)
def _envelope(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    top = center.argmax(axis=1)
    rows = np.arange(len(center))
    others = center.copy()
    others[rows, top] = 0.0
    rest = 1.0 - center
    rest[rows, top] = others.sum(axis=1)  # more precise than 1 − g
    up, down = _rise(np.stack([center, rest]), radius[:, None]).reshape(2, *center.shape)
    return np.maximum(center - down, 0.0), np.where(center > 0, np.minimum(center + up, 1.0), 0.0)


def _tilt(g: FloatArray, advantage: FloatArray, radius: FloatArray) -> FloatArray:
    """Return members λ ∝ g·exp(β·advantage) with KL = radius, classes first.

    Advantages lie in [−1, 0], zero for the best classes. The root in β is found by Newton's method
    between the logarithms of β and of −log(1 − D(β)/D(∞)), which is quadratic in β at first and
    linear in the end. The bracket: D' = β·Var ≤ β/4, so D ≤ β²/8; and with d the smallest non-zero
    |advantage| and βd ≥ 1, −log g(M) − D(β) ≤ (rest/top)·(1 + βd)·exp(−βd). Weights are computed
    from logarithms, relative to the largest one: quotients with a tiny g overflow.
    """
    best = (advantage == 0) & (g > 0)
    top = sum_classes(np.where(best, g, 0.0))
    rest = sum_classes(np.where(best, 0.0, g))
    with np.errstate(all="ignore"):
        logs = np.log(g)
        log_top = np.log(top)
        limit = np.where(rest < 0.5, -np.log1p(-np.minimum(rest, 0.5)), -log_top)
        mean = sum_classes(g * advantage)
        ahead = advantage - mean
        variance = sum_classes(g * ahead * ahead)
        gauss = np.minimum(np.sqrt(2.0 * radius / variance), 1e150)
        skew = sum_classes(g * ahead * ahead * ahead) / variance
        full = radius >= limit * (1.0 - 1e-12)
        point = np.where(
            full,
            np.exp(np.where(best, logs - log_top, -np.inf)),
            g * (1.0 + np.minimum(gauss, 1.0) * ahead),
        )
        rows = np.flatnonzero(~full & (radius >= SMALL_RADIUS))
        if (radius <= 0).any():
            point[:, radius <= 0] = g[:, radius <= 0]
        goal = -np.log1p(-radius / limit)
        nearest = np.where(best | (g <= 0), 1.0, -advantage).min(axis=0)
        level = np.maximum(np.log(rest) - log_top - np.log(limit - radius), 0.0)
        high = np.maximum(level + np.log1p(level + 2.0 * np.log1p(level) + 1.0), 1.0) / nearest
        low = np.sqrt(8.0 * radius)
        start = gauss / (1.0 + np.maximum(gauss * skew / 3.0, -0.5))
        start = np.where(np.isnan(start), low, start)  # where the moments vanish by rounding
        high = np.maximum(high, low)
        start = np.log(np.clip(start, low, high))
        low = np.log(low)
        high = np.log(high)

    def curve(
        x: FloatArray,
        logs: FloatArray,
        advantage: FloatArray,
        log_top: FloatArray,
        limit: FloatArray,
        goal: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        strength = np.exp(x)
        weight = strength * advantage
        weight += logs
        shift = weight.max(axis=0)
        weight -= shift
        np.exp(weight, out=weight)
        total = sum_classes(weight)
        log_total = np.log(total) + shift
        weight *= advantage
        mean = sum_classes(weight) / total
        weight *= advantage
        variance = sum_classes(weight) / total - mean * mean
        value = strength * mean - log_total
        left = np.where(value < 0.5 * limit, limit - value, log_total - log_top - strength * mean)
        progress = np.where(value < 0.5 * limit, -np.log1p(-value / limit), -np.log(left / limit))
        return np.log(progress / goal), strength * strength * variance / (left * progress)

    data = among(rows, logs, advantage, log_top, limit, goal)
    x = newton(
        curve, data, low[rows] - 1e-9, high[rows] + 1e-9, start[rows], np.full(len(rows), 1e-7)
    )
    weight = np.exp(x) * data[1] + data[0]
    weight = np.exp(weight - weight.max(axis=0, initial=-np.inf))
    weight /= sum_classes(weight)
    for k, row in enumerate(weight):
        point[k, rows] = row
    return point


@in_blocks(lambda size: 2 * size)
def _support(
    center: FloatArray, radius: FloatArray, utility: FloatArray
) -> tuple[FloatArray, FloatArray]:
    g = np.ascontiguousarray(center.T)
    u = utility.T
    possible = g > 0
    best = np.where(possible, u, -np.inf).max(axis=0)
    worst = np.where(possible, u, np.inf).min(axis=0)
    span = best - worst
    advantage = np.where(possible, (u - best) / np.where(span > 0, span, 1.0), -1.0)
    point = _tilt(g, advantage, np.where(span > 0, radius, 0.0))
    return best + span * sum_classes(point * np.maximum(advantage, -1.0)), np.ascontiguousarray(
        point.T
    )


@in_blocks(lambda size: 4 * size)
def _entropies(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    g = np.ascontiguousarray(center.T)
    possible = g > 0
    with np.errstate(divide="ignore"):
        logs = np.log(g)
    low = np.where(possible, logs, np.inf).min(axis=0)
    high = logs.max(axis=0)
    spread = np.where(high > low, high - low, 1.0)
    sharp = np.where(possible, np.maximum((logs - high) / spread, -1.0), -1.0)
    most_likely = high + spread * sum_classes(_tilt(g, sharp, radius) * sharp)
    least = np.where(
        radius > 0, np.maximum(-radius - most_likely, 0.0), entropy_of_valid(g, axis=0)
    )
    uniform = possible / possible.sum(axis=0)
    flat = (high == low) | (radius >= sum_classes(rel_entr(uniform, np.where(possible, g, 1.0))))
    even = np.where(possible, np.maximum((low - logs) / spread, -1.0), -1.0)
    point = np.where(flat, uniform, _tilt(g, even, np.where(flat, 0.0, radius)))
    return least, np.maximum(entropy_of_valid(point, axis=0), least)


@in_blocks(lambda size: 4 * size)
def _mode_radius(center: FloatArray) -> FloatArray:
    """Pool each class with the largest others that exceed the geometric mean before them."""
    g = np.ascontiguousarray(center.T)
    top = g.max(axis=0)
    with np.errstate(divide="ignore"):
        # The result of these classes is replaced below.
        own = np.where(g > 0, np.log(g / top), -1e4)
    ranked = -np.sort(-own, axis=0)
    before = np.zeros_like(top)  # sum of the larger ones
    size = np.ones_like(own)
    logs = own.copy()
    mass = np.exp(own)
    joins = np.ones(own.shape, dtype=bool)
    for j, log in enumerate(ranked, start=1):
        joins &= j * log - before > own
        if not joins.any():
            break
        before = before + log
        size += joins
        logs += log * joins
        mass += np.exp(log) * joins
    loss = top * (mass - size * np.exp(logs / size))  # of total mass by pooling
    left = size * top * np.exp(logs / size) + np.maximum(1.0 - top * mass, 0.0)
    with np.errstate(divide="ignore"):
        cost = np.where(loss < 0.5, -np.log1p(-np.clip(loss, 0.0, 0.5)), -np.log(left))
    return np.ascontiguousarray(np.where(g > 0, cost, np.inf).T)


def _edge_cuts(a: FloatArray, b: FloatArray, c: FloatArray, radius: FloatArray) -> list[FloatArray]:
    """Return λ_a of the first, the nearest and the last point of the ball on the edge λ_c = 0.

    On that edge the divergence is −log(1 − c) + d(p‖a/(a + b)). The nearest point is needed even if
    the ball does not reach the edge, because the length of the chords bends sharply close to it.
    """
    mass = a / (a + b)
    beyond = np.maximum(radius + np.log1p(-c), 0.0)
    return [mass - _rise(b / (a + b), beyond), mass, mass + _rise(mass, beyond)]


@in_blocks(lambda size: 16 * len(NODES))
def _log_area(center: FloatArray, radius: FloatArray) -> FloatArray:
    r"""Return the log share of the simplex of three classes, by chords parallel to an edge.

    Let a be the largest class. With λ_a = p, the other two share 1 − p in parts x and 1 − x, and by
    the chain rule

    $$d(g \| \lambda) = d(a \| p) + (1 - a)\, d(b / (1 - a) \| x).$$

    So a chord holds the x with $d(b / (1 - a) \| x) \le (r - d(a \| p)) / (1 - a)$: its ends are
    roots of a binary divergence (`_rise`). Their distance times 1 − p is integrated over p by a
    Gauss rule on pieces between the points where the ball meets an edge, where it bends.
    """
    g = center.T
    rows = np.arange(len(radius))
    first = g.argmax(axis=0)
    a, b, c = (g[(first + k) % 3, rows] for k in range(3))
    rest = b + c  # more precise than 1 − a
    start = a - _rise(rest, radius)
    stop = a + _rise(a, radius)
    cuts = np.stack([start, a, stop, *_edge_cuts(a, b, c, radius), *_edge_cuts(a, c, b, radius)])
    cuts = np.sort(np.clip(cuts, start, stop), axis=0)
    half = 0.5 * np.diff(cuts, axis=0)[..., None]
    p = 0.5 * (cuts[1:] + cuts[:-1])[..., None] + half * NODES
    left = np.maximum(1.0 - p, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = radius[:, None] - rel_entr(p, a[:, None]) - rel_entr(left, rest[:, None])
        inner = np.where(left > 0, np.clip(beyond, 0.0, radius[:, None]) / left, 0.0)
    width = sum(_rise((share / rest)[:, None], inner).reshape(p.shape) for share in (b, c))
    area = (half * WEIGHTS * left * width).sum(axis=(0, 2))
    with np.errstate(divide="ignore"):
        return np.minimum(np.log(2.0 * area), 0.0)
