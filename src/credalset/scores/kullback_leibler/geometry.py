r"""Mathematics of the Kullback–Leibler ball {λ : KL(λ ‖ g) ≤ r}, r in nats.

Questions take rows ``center`` (N, K) and ``radius`` (N,), finite and not negative; inside, classes come first, (K, n),
so that sums over them run along memory. Classes with g_k = 0 have λ_k = 0 throughout the ball.

**Tilting.** For a utility u, any member and any β ≥ 0, Jensen's inequality gives
β⟨u, λ⟩ ≤ KL(λ‖g) + log Σ g exp(βu) with equality at λ_β ∝ g·exp(βu). So λ_β maximises ⟨u, λ⟩ over the ball whose radius
is D(β) = KL(λ_β‖g), and D rises from 0 to −log g(M), M the classes with the largest u: one root per row. For
r ≥ −log g(M), g conditioned on M is a member and attains max u.

**Entropies are tilts by ±log g.** H(λ) = −KL(λ‖g) − ⟨log g, λ⟩.

* Smallest: H ≥ −r − max ⟨log g, λ⟩ over the ball, and λ_β ∝ g^(1+β) attains it, because it lies on the sphere
  KL = r. This holds for the whole non-convex problem: no support other than that of g needs to be tried. When
  r > −log g(M), M the classes with the largest g, the bound −r − log max g is attained on the face of M by any λ with
  KL(λ‖g) = r, until a corner is a member (r ≥ −log max g) and the entropy is 0.
* Largest: H is concave, so the stationary point λ ∝ g^τ with 0 ≤ τ ≤ 1 on the sphere is the maximum, or the uniform
  distribution on the support of g if that is a member.

**Envelope.** With u the indicator of class k the tilt keeps the other classes in proportion, and λ_k solves the binary
equation d(λ_k‖g_k) = r.

**Volume, K = 3.** By the chain rule KL(λ‖g) = d(p‖g_a) + (1 − p)·d(w‖g_b/(1 − g_a)) for λ = (p, (1−p)w, (1−p)(1−w)):
each chord at λ_a = p is a binary ball of radius (r − d(p‖g_a))/(1 − p), and the area is one integral over p.

**Nearest distribution with class a on top.** Multipliers μ_b ≥ 0 of λ_b ≤ λ_a give λ_b = C·g_b·exp(−μ_b) and
λ_a = C·g_a·exp(Σ μ): a and the classes above it are pooled at C times their geometric mean γ, as long as they exceed γ,
the others stay proportional to g, and the divergence is log C = −log(|P|·γ + g(outside P)).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from credalset._parallel import in_blocks
from credalset._typing import BoolArray, FloatArray
from credalset.sets.roots import among, newton
from credalset.simplex import precise_entropy

SMALL = 0.05  # ratio below which a power series replaces the difference
SERIES = [1.0 / (2 * n + 3) for n in range(5)]
SMALL_RADIUS = 0.05  # below, tilts are measured from the mean advantage
SMALLEST_RADIUS = 1e-280  # doubles hold its divergences; the ball is larger than the one asked for by less than 1e-140
ROUNDING = 1e-14  # predictions may miss the sum one by more than this, and the geometry is exact about it
TIE = 1e-200  # advantages closer than this to the best, relative to their range, count as ties


def bregman(mass: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (mass + shift)·log(1 + shift/mass) − shift, free of cancellation, and that logarithm.

    The first is never negative and is the class's share in KL(mass + shift ‖ mass), since shifts sum to zero. With
    s = x/(2 + x), x = shift/mass, the logarithm is 2·artanh(s).
    """
    with np.errstate(all="ignore"):
        ratio, total = shift / mass, mass + shift
        logarithm = np.log1p(ratio)
        excess = total * logarithm - shift
        small = np.abs(ratio) < SMALL
        if small.any():
            x = ratio[small]
            s = x / (2.0 + x)
            z = s * s
            tail = np.full_like(z, SERIES[-1])
            for coefficient in SERIES[-2::-1]:
                tail *= z
                tail += coefficient
            excess[small] = (
                np.broadcast_to(mass, ratio.shape)[small] * 2.0 * z * (1.0 + (1.0 + s) * s * tail) / (1.0 - s)
            )
        unusual = ~((ratio > -1.0) & (ratio < 1e300))
        if unusual.any():
            logarithm = np.where(ratio >= 1e300, np.log(total) - np.log(mass), logarithm)
            excess = np.where(ratio >= 1e300, total * logarithm - shift, np.where(total > 0, excess, mass))
            excess = np.where(shift == 0, 0.0, np.where(mass > 0, excess, np.inf))
            logarithm = np.where(shift == 0, 0.0, logarithm)
    return excess, logarithm


def share(mass: FloatArray, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What a class adds to the divergence, and its derivative in the probability; +inf where the mass is zero."""
    return bregman(mass, probability - mass)


def normalised(center: FloatArray) -> FloatArray:
    """Centres (n, K) whose rows sum to one up to rounding; rows that already do keep their bits."""
    total = center.sum(axis=1, keepdims=True)
    off = np.abs(total - 1.0) > ROUNDING
    return np.where(off, center / total, center) if off.any() else center


def _class_major(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Normalised centres (K, n), and radii whose divergences doubles can hold."""
    radius = np.where(radius > 0, np.maximum(radius, SMALLEST_RADIUS), radius)
    return np.ascontiguousarray(normalised(center).T), radius


@in_blocks()
def divergence(points: FloatArray, center: FloatArray) -> FloatArray:
    """KL(points ‖ center) of points (N, M, K); +inf where a point uses a class that the centre rules out."""
    g = normalised(center)[:, None, :]
    return bregman(g, points - g)[0].sum(axis=-1)


@in_blocks(lambda size: 2 * size)
def ray_length(directions: FloatArray, center: FloatArray, radius: FloatArray) -> FloatArray:
    """How far each ray center + t·direction, directions (N, M, K), stays in the ball and the simplex: (N, M)."""
    n, m, k = directions.shape
    g = np.repeat(normalised(center), m, axis=0).T
    return _reach(np.ascontiguousarray(g), np.repeat(radius, m), directions.reshape(-1, k).T).reshape(n, m)


def _reach(center: FloatArray, radius: FloatArray, direction: FloatArray) -> FloatArray:
    """Length of rays, classes first.

    The divergence along a ray is convex and grows about as a power of t: Newton's method between its logarithm and
    the log-odds of t, as a share of the way to the edge of the simplex. Up to half-way it is at most curvature·t².
    """
    moving = direction != 0
    with np.errstate(all="ignore"):
        edge = np.where(direction < 0, -center / direction, np.inf).min(axis=0)
        curvature = np.where(moving, direction * direction / center, 0.0).sum(axis=0)
        share = np.sqrt(radius) / np.sqrt(curvature) / edge
    moves = moving.any(axis=0)
    blocked = (moving & (center <= 0)).any(axis=0) | (radius <= 0)
    length = np.where(moves, np.where(blocked, 0.0, edge), np.inf)
    rows = np.flatnonzero(moves & ~blocked)
    rows = rows[_along(center[:, rows], direction[:, rows], edge[rows])[0] > radius[rows]]
    g, d, r, edge = center[:, rows], direction[:, rows], radius[rows], edge[rows]

    def curve(x: FloatArray, g: FloatArray, d: FloatArray, r: FloatArray, edge: FloatArray) -> Any:
        growth = np.exp(x)
        t = edge * (growth / (1.0 + growth))
        value, slope = _along(g, d, t)
        return np.log(value / r), slope * t / (1.0 + growth) / value

    share = np.clip(share[rows], np.finfo(float).tiny, 0.5)
    low, start = (np.log(part) - np.log1p(-part) for part in (share, np.minimum(np.sqrt(2.0) * share, 0.6)))
    tolerance = np.full(len(rows), 1e-9)
    x = newton(curve, (g, d, r, edge), low - 1e-9, np.full(len(rows), 40.0), start, tolerance)
    length[rows] = edge / (1.0 + np.exp(-x))
    return length


def _along(center: FloatArray, direction: FloatArray, length: FloatArray) -> tuple[FloatArray, FloatArray]:
    """KL(center + length·direction ‖ center) and its derivative in ``length``, classes first."""
    shift = np.maximum(length * direction, -center)
    excess, logarithm = bregman(center, shift)
    with np.errstate(invalid="ignore"):
        slope = np.where(direction != 0, direction * logarithm, 0.0).sum(axis=0)
    return excess.sum(axis=0), slope


def rise(mass: FloatArray, rest: FloatArray, radius: FloatArray) -> FloatArray:
    """Largest δ ≤ rest with d(mass + δ ‖ mass) ≤ radius, the binary divergence; mass + rest = 1.

    One or two steps of fourth order from a good guess; what they do not settle is a ray for two classes.
    """
    mass, rest, radius = np.broadcast_arrays(mass, rest, radius)
    with np.errstate(all="ignore"):
        full = np.where(mass < 0.5, mass >= np.exp(-radius), rest <= -np.expm1(-radius))
        full = np.where(radius > 600.0, radius >= -np.log(mass), full)  # where the exponential has lost its digits
    result = np.where((mass > 0) & (radius > 0) & full, rest, 0.0)
    todo = (mass > 0) & (radius > 0) & ~full
    m, q, r = mass[todo], rest[todo], radius[todo]
    shift, settled = _raised(m, q, r, _first_rise(m, q, r))
    again = np.flatnonzero(~settled)
    shift[again], settled[again] = _raised(m[again], q[again], r[again], shift[again])
    again = np.flatnonzero(~settled & (shift > 0.5 * q))
    shift[again] = q[again] - _left_over(m[again], q[again], r[again])
    again = np.flatnonzero(~settled & (shift <= 0.5 * q))
    ends = np.stack([m[again], q[again]])
    shift[again] = _reach(ends, r[again], np.broadcast_to(np.array([[1.0], [-1.0]]), ends.shape))
    result[todo] = shift
    return result


def _left_over(mass: FloatArray, rest: FloatArray, radius: FloatArray) -> FloatArray:
    """What the largest rise leaves of ``rest`` when that is little: Newton's method between logarithms."""
    with np.errstate(all="ignore"):
        log_mass = np.where(mass < 0.5, np.log(mass), np.log1p(-rest))
        log_odds = np.where(rest < 0.5, np.log(rest), np.log1p(-mass)) - log_mass
        spare = np.maximum(-log_mass - radius, np.finfo(float).tiny)
        level = np.maximum(1.0 + log_odds - np.log(spare), 1.0)
        start = np.log(spare) - np.log(level + np.log(level))

    def curve(x: FloatArray, log_odds: FloatArray, spare: FloatArray) -> tuple[FloatArray, FloatArray]:
        left = np.exp(x)
        log_kept = np.log1p(-left)
        value = left * (log_odds - x) - (1.0 - left) * log_kept
        return np.log(value / spare), left * (log_odds - x + log_kept) / value

    high = np.log(rest)
    x = newton(curve, (log_odds, spare), np.minimum(start, high) - 20.0, high, start, np.full(len(mass), 1e-8))
    return np.minimum(np.exp(x), rest)


def _first_rise(mass: FloatArray, rest: FloatArray, radius: FloatArray) -> FloatArray:
    """Guess the rise: a power law that matches variance and skewness, damped in the tail, or a Poisson tail."""
    with np.errstate(all="ignore"):
        variance, lean = mass * rest, rest - mass
        scaled = np.sqrt(2.0 * radius / variance)
        skew = lean * scaled
        root = np.sqrt(np.maximum(1.0 + (2.0 / 3.0) * skew, 0.0))
        third = scaled * scaled * (lean * lean / (216.0 + 7.5 * skew * skew) - variance / 12.0)
        shift = variance * scaled * ((2.0 / 3.0) * (root * root + root + 1.0) / (root + 1.0) + third)
        tail = np.flatnonzero(radius > 20.0 * mass)  # x log x − x = radius/mass
        level = np.log(radius[tail] / mass[tail]) - 1.0
        level -= np.log(level) * (1.0 - 1.0 / level)
        far = radius[tail] / level
        shift[tail] = far - (mass[tail] + 0.5 * far * far / (level + 1.0))
        return np.where(shift > 0, np.minimum(shift, 0.9 * rest), 0.5 * rest)


def _raised(mass: FloatArray, rest: FloatArray, radius: FloatArray, shift: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Expand δ about a guess in s = √(2d) to fourth order, and tell whether that was enough.

    The derivative is dδ/ds = s/θ, with θ the log-odds ratio.
    """
    up, log_up = bregman(mass, shift)
    down, log_down = bregman(rest, -shift)
    with np.errstate(all="ignore"):
        s = np.sqrt(2.0 * (up + down))
        per_theta = 1.0 / (log_up - log_down)
        p, q = mass + shift, rest - shift
        lean, curvature = p - q, 1.0 / (p * q)
        first = s * per_theta
        theta_1 = first * curvature
        second = (1.0 - first * theta_1) * per_theta
        theta_2 = lean * theta_1 * theta_1 + curvature * second
        third = -(2.0 * theta_1 * second + theta_2 * first) * per_theta
        theta_3 = first * theta_1 * curvature * first * (2.0 + 2.0 * lean * lean * curvature)
        theta_3 += 3.0 * lean * theta_1 * curvature * second + curvature * third
        fourth = -(3.0 * (theta_1 * third + theta_2 * second) + theta_3 * first) * per_theta
        ds = np.sqrt(2.0 * radius) - s
        change = ds * (first + ds * (0.5 * second + ds * (third / 6.0 + ds * fourth / 24.0)))
        settled = (np.abs(change) < 7e-3 * shift) & (np.abs(change) < 2e-3 * q)
        moved = shift + change
        return np.where((moved > 0) & (moved < 0.98 * rest), moved, 0.5 * (shift + rest)), settled


@in_blocks(lambda size: 2 * size)
def envelope(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest probability of each class."""
    g, r = _class_major(center, radius)
    rest = 1.0 - g
    top, rows = g.argmax(axis=0), np.arange(len(r))
    others = g.copy()
    others[top, rows] = 0.0  # 1 − g would round small classes away
    rest[top, rows] = np.where(g[top, rows] > 0.5, others.sum(axis=0), rest[top, rows])
    up = rise(g, rest, r)
    upper = np.where((up == rest) & (g > 0), 1.0, np.minimum(g + up, 1.0))
    return (g - rise(rest, g, r)).T, upper.T


def _face(g: FloatArray, best: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mass of the best classes, mass of the others, and −log of the former: the radius that reaches their face."""
    top, rest = np.where(best, g, 0.0).sum(axis=0), np.where(best, 0.0, g).sum(axis=0)
    return top, rest, np.where(rest < 0.5, -np.log1p(-np.minimum(rest, 0.5)), -np.log(top))


def _progress(value: FloatArray, left: FloatArray, limit: FloatArray) -> FloatArray:
    """−log(1 − value/limit), from whichever of value and left = limit − value is the smaller."""
    return np.where(value < 0.5 * limit, -np.log1p(-np.minimum(value / limit, 0.5)), -np.log(left / limit))


class _Tilts(NamedTuple):
    """What λ ∝ g·exp(strength·advantage) depends on, advantages being at most 0, and the divergence that is asked for.

    Near g everything is measured from g: advantages from their mean, the origin, and masses by what they gain. Far from
    it the origin is zero, and masses count in full, lifted into the range of doubles. The best classes stand apart.
    """

    others: FloatArray  # masses, (K, n), zero for the best classes
    offset: FloatArray  # advantages less the origin, (K, n)
    top: FloatArray  # mass of the best classes, (n,), as all that follows
    rest: FloatArray  # mass of the others; zero, as the next two, where masses count in full
    drift: FloatArray  # Σ g·offset, zero but for rounding
    square: FloatArray  # Σ g·offset²
    origin: FloatArray
    lift: FloatArray
    limit: FloatArray
    goal: FloatArray
    tolerance: FloatArray

    def gains(self, strength: FloatArray, near: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return what the others (K, n) gain, or have, the sum of that, and what the best classes gain, or have."""
        grow = np.expm1 if near else np.exp
        gain = strength * self.offset
        gain += self.lift
        grow(gain, out=gain)
        gain *= self.others
        return gain, gain.sum(axis=0), self.top * grow(self.lift - strength * self.origin)

    def curve(self, x: FloatArray, near: bool) -> tuple[FloatArray, FloatArray]:
        """Logarithm of the progress towards the face, relative to the goal, and its slope in x = log strength."""
        strength = np.exp(x)
        gain, of_others, of_top = self.gains(strength, near)
        total = of_others + of_top
        whole, log_whole = (1.0 + total, np.log1p(total)) if near else (total, np.log(total) - self.lift)
        below = np.minimum((self.rest + of_others) / whole, 0.5)
        gain *= self.offset
        mean = (gain.sum(axis=0) - of_top * self.origin + self.drift) / whole
        gain *= self.offset
        variance = (gain.sum(axis=0) + of_top * self.origin**2 + self.square) / whole - mean * mean
        value = strength * mean - log_whole
        late = (value >= 0.5 * self.limit) & (below < 0.5)
        left = np.where(late, -np.log1p(-below) - strength * (mean + self.origin), self.limit - value)
        level = _progress(value, left, self.limit)
        miss, slope = np.log(level / self.goal), strength * strength * variance / (left * level)
        # A short step counts only with a small miss: rounding can inflate a tiny variance.
        short = (np.abs(miss) <= self.tolerance * slope) & (np.abs(miss) > 1e3 * self.tolerance)
        return miss, np.where(short, np.nan, slope)


def tilt(g: FloatArray, advantage: FloatArray, radius: FloatArray, cap: FloatArray | float) -> FloatArray:
    """Return the members with the largest mean advantage, classes first.

    ``advantage`` lies in [−1, 0] with 0 for the best classes, −1 for those ruled out; ``cap`` bounds the strength.
    """
    best = (advantage == 0) & (g > 0)
    top, rest, limit = _face(g, best)
    face = radius >= limit
    point = np.where(face, np.where(best, g, 0.0) / top, g)
    rows, data = np.flatnonzero(~face & (radius > 0)), (g, advantage, best, top, rest, limit, radius)
    small = radius[rows] < SMALL_RADIUS
    near = rows[small]
    point[:, near], found = _tilt_some(*among(near, *data, np.broadcast_to(cap, face.shape)), near=True)
    far = np.concatenate([rows[~small], near[~found]])
    point[:, far], _ = _tilt_some(*among(far, *data, np.broadcast_to(cap, face.shape)), near=False)
    return point


def _tilt_some(
    g: FloatArray,
    advantage: FloatArray,
    best: BoolArray,
    top: FloatArray,
    rest: FloatArray,
    limit: FloatArray,
    radius: FloatArray,
    cap: FloatArray,
    *,
    near: bool,
) -> tuple[FloatArray, BoolArray]:
    """Return the points, and whether they were found: near g, strengths end where differences from g say nothing.

    The root is found by Newton's method between the logarithms of β and of −log(1 − D(β)/D(∞)), which is quadratic
    in β at first and linear in the end. The bracket: D' = β·Var ≤ β/4, so D ≤ β²/8; and with d the smallest non-zero
    |advantage| and βd ≥ 1, −log g(M) − D(β) ≤ (rest/top)·(1 + βd)·exp(−βd).
    """
    others, zero = np.where(best, 0.0, g), np.zeros_like(radius)
    with np.errstate(all="ignore"):
        mean = (g * advantage).sum(axis=0)
        ahead = advantage - mean
        square = (g * ahead * ahead).sum(axis=0)
        nearest = np.where(others > 0, -advantage, 1.0).min(axis=0)
        level = np.maximum(np.log(rest) - np.log(top) - np.log(limit - radius), 0.0)
        decay = np.maximum(level + np.log1p(level + 2.0 * np.log1p(level) + 1.0), 1.0)
        high, start = np.minimum(decay / nearest, cap), np.sqrt(2.0 * radius) / np.sqrt(square)
        start /= 1.0 + np.maximum(start * (g * ahead * ahead * ahead).sum(axis=0) / (3.0 * square), -0.5)
        goal = _progress(radius, limit - radius, limit)
        tolerance = np.minimum(1e-7 + 2e-15 / np.sqrt(radius), 1e-4)  # rounding sets the latter part
        if near:
            # No class may grow beyond e times the whole.
            until = np.where(ahead > 0, np.minimum(1.0 - np.log(g), 700.0) / ahead, np.inf).min(axis=0, initial=np.inf)
            high, drift = np.minimum(high, until), (g * ahead).sum(axis=0)
            tilts = _Tilts(others, ahead, top, rest, drift, square, mean, zero, limit, goal, tolerance)
        else:
            lift = np.where(top < 1e-200, np.minimum(-np.log(top), 700.0), 0.0)
            tilts = _Tilts(others, advantage, top, zero, zero, zero, zero, lift, limit, goal, tolerance)
        low = np.minimum(np.sqrt(8.0 * radius), high)
        found = tilts.curve(np.log(high), near)[0] >= 0 if near else np.ones(len(radius), dtype=bool)
    low, high, start = np.log(low), np.log(high), np.log(np.clip(start, low, high))
    strength = np.exp(newton(lambda x, *data: _Tilts(*data).curve(x, near), tilts, low, high, start, tolerance))
    with np.errstate(all="ignore"):
        gain, of_others, of_top = tilts.gains(strength, near)
        point = np.where(best, g * np.exp(tilts.lift - strength * tilts.origin), gain + others if near else gain)
        return point / (of_others + of_top + (1.0 if near else 0.0)), found


@in_blocks(lambda size: 2 * size)
def support(
    center: FloatArray, radius: FloatArray, utility: FloatArray, *, attaining: bool
) -> tuple[FloatArray, FloatArray | None]:
    """Largest expected utility and a member that attains it."""
    (g, r), u = _class_major(center, radius), utility.T
    possible = g > 0
    best, worst = np.where(possible, u, -np.inf).max(axis=0), np.where(possible, u, np.inf).min(axis=0)
    half_range = 0.5 * best - 0.5 * worst  # halves, because the range itself may overflow
    scale = np.where(half_range > 0, half_range, 1.0)
    advantage = np.where(possible, (0.5 * np.where(possible, u, 0.0) - 0.5 * best) / scale, -1.0)
    advantage = np.where(advantage < -TIE, advantage, 0.0)
    point = tilt(g, advantage, np.where(half_range > 0, r, 0.0), np.inf)
    return best + 2.0 * half_range * (point * advantage).sum(axis=0), point.T if attaining else None


def _log_range(g: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Logarithms of the centre, their smallest and largest finite values, and the range of these, one if zero."""
    with np.errstate(divide="ignore"):
        logs = np.log(g)
    low, high = np.where(g > 0, logs, np.inf).min(axis=0), logs.max(axis=0)
    return logs, low, high, np.where(high > low, high - low, 1.0)


@in_blocks(lambda size: 2 * size)
def max_entropy(center: FloatArray, radius: FloatArray, *, attaining: bool) -> tuple[FloatArray, FloatArray | None]:
    """Largest entropy and the member g^τ, 0 ≤ τ ≤ 1, that attains it."""
    g, r = _class_major(center, radius)
    logs, low, high, spread = _log_range(g)
    advantage = np.where(g > 0, (low - logs) / spread, -1.0)
    uniform = np.where(g > 0, 1.0 / (g > 0).sum(axis=0), 0.0)
    flat = (high == low) | (r >= bregman(g, uniform - g)[0].sum(axis=0))
    point = np.where(flat, uniform, tilt(g, advantage, np.where(flat, 0.0, r), spread))
    return precise_entropy(point), point.T if attaining else None


@in_blocks(lambda size: 2 * size)
def min_entropy(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Smallest entropy and a member that attains it: g^τ, τ ≥ 1, or one of several tied classes favoured."""
    g, r = _class_major(center, radius)
    logs, _, high, spread = _log_range(g)
    best = logs == high
    advantage = np.where(best, 0.0, np.maximum((logs - high) / spread, -1.0))
    limit = _face(g, best)[2]
    on_face = r >= limit
    point = tilt(g, advantage, np.where(on_face, 0.0, r), np.inf)
    rows = np.flatnonzero(on_face)
    best, size = best[:, rows], best[:, rows].sum(axis=0)
    others = (size - 1.0) / size
    raised = rise(1.0 / size, others, r[rows] - limit[rows])
    shared = np.where(best, np.maximum(others - raised, 0.0) / np.maximum(size - 1, 1), 0.0)
    shared[best.argmax(axis=0), np.arange(len(rows))] = 1.0 / size + raised
    point[:, rows] = shared
    return precise_entropy(point), point.T
