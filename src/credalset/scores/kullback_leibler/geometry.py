r"""Mathematics of the Kullback–Leibler ball {λ : KL(λ ‖ g) ≤ r}, r in nats.

Every function takes a block of rows and writes into the arrays it is given; `geometry_kernels` holds
compiled functions of the same names. Rows of ``center`` sum to one up to rounding; classes with g_k = 0 have λ_k = 0
throughout the ball.

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

import numpy as np
from scipy.special import entr

from credalset._typing import BoolArray, FloatArray

SMALL = 0.2  # ratio below which a power series replaces the logarithm
SMALL_RADIUS = 0.05
SERIES = [1.0 / (2 * n + 3) for n in range(9)]
MAX_STEPS = 200
TIE = 1e-200  # advantages closer than this to the best, relative to their range, count as ties


def bregman(mass: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (mass + shift)·log(1 + shift/mass) − shift, free of cancellation, and that logarithm.

    The first is never negative and is the class's share in KL(mass + shift ‖ mass), since shifts sum to zero. With
    s = x/(2 + x), x = shift/mass, the logarithm is 2·artanh(s).
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        ratio = shift / mass
        total = mass + shift
        logarithm = np.where(ratio < 1e300, np.log1p(ratio), np.log(total) - np.log(mass))
        excess = np.where(total > 0, total * logarithm - shift, mass)
        s = ratio / (2 + ratio)
        z = s * s
        tail = np.polynomial.polynomial.polyval(z, SERIES)
        small = np.abs(ratio) < SMALL
        excess = np.where(small, mass * 2 * z * (1 + (1 + s) * s * tail) / (1 - s), excess)
        logarithm = np.where(small, 2 * s * (1 + z * tail), logarithm)
    still = shift == 0
    return np.where(still, 0.0, np.where(mass > 0, excess, np.inf)), np.where(still, 0.0, logarithm)


def divergence(center: FloatArray, points: FloatArray) -> FloatArray:
    """KL(points ‖ center) for (n, K) rows; +inf where a point uses a class that the centre rules out."""
    return bregman(center, points - center)[0].sum(axis=-1)


def rise(mass: FloatArray, rest: FloatArray, radius: FloatArray) -> FloatArray:
    """Largest δ ≤ rest with d(mass + δ ‖ mass) ≤ radius, for arrays of one shape, mass + rest = 1: a ray for K = 2."""
    center = np.stack([mass.ravel(), rest.ravel()], axis=1)
    length = np.empty(len(center))
    ray_length(center, radius.ravel(), np.broadcast_to([1.0, -1.0], center.shape), length)
    return length.reshape(mass.shape)


def ray_length(center: FloatArray, radius: FloatArray, direction: FloatArray, length: FloatArray) -> None:
    """How far each ray center + t·direction stays in the ball and the simplex.

    The divergence along the ray is convex and grows about as a power of t: Newton's method between logarithms.
    """
    moving = direction != 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        reach = np.where(direction < 0, -center / direction, np.inf).min(axis=1)
        curvature = np.where(moving, direction * direction / center, 0.0).sum(axis=1)
        start = np.sqrt(2 * radius) / np.sqrt(curvature)
    blocked = (moving & (center <= 0)).any(axis=1) | (radius <= 0)
    length[:] = np.where(moving.any(axis=1), np.where(blocked, 0.0, reach), np.inf)
    rows = np.nonzero(moving.any(axis=1) & ~blocked)[0]
    rows = rows[_along(center[rows], direction[rows], reach[rows])[0] > radius[rows]]
    g, d, r, reach = center[rows], direction[rows], radius[rows], reach[rows]
    low, high = np.zeros(len(rows)), reach.copy()
    t = np.where(start[rows] < high, start[rows], 0.5 * high)
    active = np.arange(len(rows))
    for _ in range(MAX_STEPS):
        if len(active) == 0:
            break
        now = t[active]
        value, slope = _along(g[active], d[active], now)
        below = value < r[active]
        low[active] = np.where(below, now, low[active])
        high[active] = np.where(below, high[active], now)
        with np.errstate(all="ignore"):
            new = now * np.exp(np.log(r[active] / value) * value / (now * slope))
        inside = (new >= low[active]) & (new <= high[active]) & (new < reach[active])
        t[active] = np.where(inside, new, 0.5 * (low[active] + high[active]))
        close = inside & (np.abs(new - now) <= 1e-9 * np.minimum(now, reach[active] - now))
        active = active[~close & (high[active] - low[active] > 2e-16 * high[active])]
    length[rows] = t


def _along(center: FloatArray, direction: FloatArray, length: FloatArray) -> tuple[FloatArray, FloatArray]:
    """KL(center + length·direction ‖ center) and its derivative in ``length``."""
    shift = np.maximum(length[:, None] * direction, -center)
    excess, logarithm = bregman(center, shift)
    with np.errstate(invalid="ignore"):
        slope = np.where(direction != 0, direction * logarithm, 0.0).sum(axis=1)
    return excess.sum(axis=1), slope


def _remaining(center: FloatArray) -> FloatArray:
    """1 − center, from the other classes where 1 − center would round them away."""
    top = center.argmax(axis=1)
    rows = np.arange(len(center))
    rest = 1 - center
    others = center.copy()
    others[rows, top] = 0
    rest[rows, top] = np.where(center[rows, top] > 0.5, others.sum(axis=1), rest[rows, top])
    return rest


def envelope(center: FloatArray, radius: FloatArray, lower: FloatArray, upper: FloatArray) -> None:
    """Smallest and largest probability of each class."""
    rest = _remaining(center)
    radii = np.broadcast_to(radius[:, None], center.shape)
    up = rise(center, rest, radii)
    upper[:] = np.where((up == rest) & (center > 0), 1.0, np.minimum(center + up, 1.0))
    lower[:] = center - rise(rest, center, radii)


def _tilted(
    center: FloatArray, logs: FloatArray, advantage: FloatArray, strength: FloatArray, radius: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """λ ∝ g·exp(strength·advantage) with KL(λ‖g), mean and variance of the advantage, and the mass off the top."""
    with np.errstate(under="ignore"):
        # Small radii keep their digits if everything is measured from g: from its mean advantage, and as λ − g.
        # Large strengths keep theirs if the best classes stay at zero.
        origin = (center * advantage).sum(axis=1, keepdims=True)
        exponent = strength[:, None] * (advantage - origin)
        far = ((logs + exponent).max(axis=1) > 1) | (radius >= SMALL_RADIUS)
        exponent[far] = (strength[:, None] * advantage)[far]
        peak = (logs + exponent).max(axis=1, keepdims=True)
        exponent -= peak + np.log(np.exp(logs + exponent - peak).sum(axis=1, keepdims=True))
        near = np.abs(exponent) < 1
        gain = center * np.expm1(np.where(near, exponent, 0.0))
        point = np.where(near, center + gain, np.exp(logs + exponent))
        excess = np.where(near, gain, point - center).sum(axis=1, keepdims=True)
        exponent -= np.log1p(excess)
        point /= 1 + excess
        mean = (point * advantage).sum(axis=1)
        variance = (point * (advantage - mean[:, None]) ** 2).sum(axis=1)
        below = np.where(advantage < 0, point, 0.0).sum(axis=1)
        return point, (point * exponent).sum(axis=1), mean, variance, below


def _face(center: FloatArray, best: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mass of the best classes, mass of the others, and −log of the former: the radius that reaches their face."""
    top = np.where(best, center, 0.0).sum(axis=1)
    rest = np.where(best, 0.0, center).sum(axis=1)
    return top, rest, np.where(rest < 0.5, -np.log1p(-np.minimum(rest, 0.5)), -np.log(top))


def _strength_bounds(
    radius: FloatArray, spare: FloatArray, rest: FloatArray, top: FloatArray, nearest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bracket of the strength β with D(β) = radius, for advantages in [−1, 0].

    Below: D' = β·Var ≤ β/4, so D ≤ β²/8. Above: with d the smallest non-zero |advantage| and βd ≥ 1,
    −log g(M) − D(β) ≤ (rest/top)·(1 + βd)·exp(−βd).
    """
    level = np.maximum(np.log(rest) - np.log(top) - np.log(spare), 0.0)
    decay = level + np.log1p(level + 2 * np.log1p(level) + 1)
    high = np.maximum(decay, 1.0) / nearest
    return np.minimum(np.sqrt(8 * radius), high), high


def tilt(
    center: FloatArray, advantage: FloatArray, radius: FloatArray, cap: FloatArray, point: FloatArray
) -> FloatArray:
    """Write the members with the largest mean advantage and return these means.

    ``advantage`` lies in [−1, 0] with 0 for the best classes, −1 for those ruled out; ``cap`` bounds the strength.
    The root is found by Newton's method between the logarithms of β and of −log(1 − D(β)/D(∞)), which is quadratic
    in β at first and linear in the end, inside a bracket.
    """
    best = (advantage == 0) & (center > 0)
    top, rest, limit = _face(center, best)
    with np.errstate(divide="ignore"):
        logs = np.log(center)
    face = radius >= limit
    point[:] = np.where(face[:, None], np.where(best, center, 0.0) / top[:, None], center)
    todo = np.nonzero(~face & (radius > 0))[0]
    if len(todo):
        known = (center[todo], logs[todo], advantage[todo])
        nearest = np.where(best[todo] | (center[todo] == 0), 1.0, -advantage[todo]).min(axis=1)
        low, high = _strength_bounds(radius[todo], limit[todo] - radius[todo], rest[todo], top[todo], nearest)
        high = np.minimum(high, cap[todo])
        strength = _strengths(known, radius[todo], limit[todo], np.minimum(low, high), high)
        point[todo] = _tilted(*known, strength, radius[todo])[0]
    return (point * advantage).sum(axis=1)


def _strengths(
    known: tuple[FloatArray, FloatArray, FloatArray],
    radius: FloatArray,
    limit: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """Root of D(strength) = radius between ``low`` and ``high``, for rows with 0 < radius < limit."""
    center, logs, advantage = known
    mean = (center * advantage).sum(axis=1, keepdims=True)
    goal = _progress(radius, limit - radius, limit)
    with np.errstate(divide="ignore", over="ignore"):
        start = np.sqrt(2 * radius) / np.sqrt((center * (advantage - mean) ** 2).sum(axis=1))
    strength = np.clip(start, low, high)
    tolerance = np.minimum(1e-8 + 2e-15 / np.sqrt(radius), 1e-4)  # rounding sets the latter part
    active = np.arange(len(radius))
    for step in range(MAX_STEPS):
        beta = strength[active]
        _, value, average, variance, below = _tilted(
            center[active], logs[active], advantage[active], beta, radius[active]
        )
        under = value < radius[active]
        low[active] = np.where(under, beta, low[active])
        high[active] = np.where(under, high[active], beta)
        with np.errstate(all="ignore"):
            left = limit[active] - value
            late = (value >= 0.5 * limit[active]) & (below < 0.5)
            left = np.where(late, -np.log1p(-below) - beta * average, left)
            level = _progress(value, left, limit[active])
            growth = beta * beta * variance / left
            miss = np.log(goal[active] / level)
            new = beta * np.exp(miss * level / growth)
            short = np.abs(new - beta) <= tolerance[active] * beta
        # A short step counts only with a small miss: rounding can inflate a tiny variance. Bisection ends any crawl.
        inside = (new >= low[active]) & (new <= high[active]) & (step < 8 or step % 2 == 0)
        inside &= ~short | (np.abs(miss) <= 1e3 * tolerance[active])
        strength[active] = np.where(inside, new, np.sqrt(low[active]) * np.sqrt(high[active]))
        active = active[~(inside & short) & (high[active] - low[active] > 4e-16 * high[active])]
        if len(active) == 0:
            break
    return strength


def _progress(value: FloatArray, left: FloatArray, limit: FloatArray) -> FloatArray:
    """−log(1 − value/limit), from whichever of value and left = limit − value is the smaller."""
    with np.errstate(divide="ignore", invalid="ignore"):
        early = -np.log1p(-np.minimum(value / limit, 0.5))
        return np.where(value < 0.5 * limit, early, -np.log(left / limit))


def support(center: FloatArray, radius: FloatArray, utility: FloatArray, value: FloatArray, point: FloatArray) -> None:
    """Largest expected utility and a member that attains it."""
    possible = center > 0
    best = np.where(possible, utility, -np.inf).max(axis=1)
    worst = np.where(possible, utility, np.inf).min(axis=1)
    half_range = 0.5 * best - 0.5 * worst  # halves, because the range itself may overflow
    scale = np.where(half_range > 0, half_range, 1.0)[:, None]
    advantage = np.where(possible, (0.5 * np.where(possible, utility, 0.0) - 0.5 * best[:, None]) / scale, -1.0)
    advantage[advantage >= -TIE] = 0.0
    level = tilt(center, advantage, np.where(half_range > 0, radius, 0.0), np.full(len(center), np.inf), point)
    value[:] = best + 2 * half_range * level


def _log_range(center: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Logarithms of the centre with their smallest and largest finite value."""
    with np.errstate(divide="ignore"):
        logs = np.log(center)
    return logs, np.where(center > 0, logs, np.inf).min(axis=1), logs.max(axis=1)


def _entropy(point: FloatArray) -> FloatArray:
    """Entropy, with the largest entry taken from the others: near a corner its rounding would drown them."""
    others = point.copy()
    rows = np.arange(len(point))
    top = point.argmax(axis=1)
    others[rows, top] = 0.0
    rest = others.sum(axis=1)
    largest = point[rows, top]
    log_largest = np.where(rest < 0.5, np.log1p(-np.minimum(rest, 0.5)), np.log(largest))
    return entr(others).sum(axis=1) - largest * log_largest


def max_entropy(center: FloatArray, radius: FloatArray, value: FloatArray, point: FloatArray) -> None:
    """Largest entropy and the member g^τ, 0 ≤ τ ≤ 1, that attains it."""
    logs, low, high = _log_range(center)
    size = (center > 0).sum(axis=1)
    spread = np.where(high > low, high - low, 1.0)
    advantage = np.where(center > 0, (low[:, None] - logs) / spread[:, None], -1.0)
    uniform = np.where(center > 0, 1.0 / size[:, None], 0.0)
    flat = (high == low) | (radius >= divergence(center, uniform))
    tilt(center, advantage, np.where(flat, 0.0, radius), spread, point)
    point[flat] = uniform[flat]
    value[:] = _entropy(point)


def min_entropy(center: FloatArray, radius: FloatArray, value: FloatArray, point: FloatArray) -> None:
    """Smallest entropy and a member that attains it: g^τ, τ ≥ 1, or one of several tied classes favoured."""
    logs, low, high = _log_range(center)
    best = logs == high[:, None]
    spread = np.where(high > low, high - low, 1.0)
    advantage = np.where(best, 0.0, np.maximum((logs - high[:, None]) / spread[:, None], -1.0))
    limit = _face(center, best)[2]
    on_face = radius >= limit
    tilt(center, advantage, np.where(on_face, 0.0, radius), np.full(len(center), np.inf), point)
    size = best.sum(axis=1)
    others = (size - 1.0) / size
    raised = rise(1.0 / size, others, radius - limit)
    first = np.arange(center.shape[1]) == best.argmax(axis=1)[:, None]
    shared = np.maximum(others - raised, 0.0) / np.maximum(size - 1, 1)
    favoured = np.where(first, (1.0 / size + raised)[:, None], np.where(best, shared[:, None], 0.0))
    point[on_face] = favoured[on_face]
    value[:] = _entropy(point)


def closest_with_top(center: FloatArray, value: FloatArray) -> None:
    """Smallest KL(λ‖g) among the λ whose largest entry is that of the class, for each class; +inf where g_k = 0."""
    n_rows, n_classes = center.shape
    order = np.argsort(-center, axis=1)
    ordered = np.take_along_axis(center, order, axis=1)
    with np.errstate(divide="ignore"):
        logs = np.where(ordered > 0, np.log(ordered), -1e4)  # a finite stand-in, overwritten below
    total, size = np.zeros_like(center), np.ones_like(center)
    growing = np.ones_like(center, dtype=bool)
    for j in range(n_classes - 1):  # pool the j-th largest class with every smaller one whose pool it still exceeds
        above = logs[:, j, None] - logs
        growing &= (np.arange(n_classes) > j) & (above > total / size)
        if not growing.any():
            break
        total += np.where(growing, above, 0.0)
        size += growing
    level = logs + total / size
    pooled = np.exp(level)
    loss = _pooling_loss(ordered, logs, level, pooled)
    outside = np.zeros_like(center)
    for j in range(int(size.max()) - 1):
        member = size - 1 > j
        loss += np.where(member, _pooling_loss(ordered[:, j, None], logs[:, j, None], level, pooled), 0.0)
    tails = np.concatenate([np.cumsum(ordered[:, ::-1], axis=1)[:, ::-1], np.zeros((n_rows, 1))], axis=1)
    after = np.take_along_axis(tails, size.astype(np.int64) - 1, axis=1)
    outside = np.maximum(after - ordered, 0.0)
    with np.errstate(divide="ignore"):
        cost = np.where(loss < 0.5, -np.log1p(-np.minimum(loss, 0.5)), -np.log(size * pooled + outside))
    cost = np.where(ordered > 0, np.maximum(cost, 0.0), np.inf)
    np.put_along_axis(value, order, cost, axis=1)


def _pooling_loss(mass: FloatArray, log_mass: FloatArray, level: FloatArray, pooled: FloatArray) -> FloatArray:
    """Return mass − pooled − pooled·log(mass/pooled) ≥ 0: what pooling this class takes from the total mass."""
    z = log_mass - level
    near = np.abs(z) < 0.5
    return np.where(near, pooled * (np.expm1(np.where(near, z, 0.0)) - z), mass - pooled - pooled * z)
