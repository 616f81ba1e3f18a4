"""The Kullback–Leibler ball against independent oracles: 50-digit arithmetic, duality, grids, SLSQP, quadrature."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import entr, logsumexp, xlogy

from credalset.scores import KullbackLeibler
from credalset.scores.kullback_leibler import volume
from credalset.simplex import grid

NATS = KullbackLeibler(base=math.e)


def regions(g, radius):
    g = np.atleast_2d(np.asarray(g, dtype=float))
    return NATS.region(g, np.broadcast_to(np.asarray(radius, dtype=float), len(g)))


def random_batch(n_sets, n_classes, seed, smallest=-3.0, largest=0.7):
    """Flat to peaked centres, radii from 10^smallest to 10^largest nats; some zeros and some ties."""
    rng = np.random.default_rng(seed)
    shape = 10 ** rng.uniform(-0.7, 1.5, (n_sets, 1))
    g = rng.gamma(np.broadcast_to(shape, (n_sets, n_classes))) + 1e-12
    g[::6] = np.ceil(g[::6] / g[::6].max(axis=1, keepdims=True) * 3)
    g[1::9, 0] = 0.0
    g /= g.sum(axis=1, keepdims=True)
    return regions(g, 10 ** rng.uniform(smallest, largest, n_sets))


def extreme_batch(n_classes):
    """Every degenerate case of centre and radius, all combined."""
    eye, flat = np.eye(n_classes), np.full(n_classes, 1 / n_classes)
    tiny, tied, mixed, close = flat.copy(), flat.copy(), flat.copy(), flat.copy()
    tiny[0], tied[: n_classes // 2], mixed[-1], close[0] = 1e-300, 0.5, 0.0, np.nextafter(flat[0], 1)
    subnormal = np.concatenate([[1.0], np.full(n_classes - 1, 5e-324)])
    far = np.concatenate([[1.0], 10.0 ** -np.linspace(20, 300, n_classes - 1)])
    centers = [c / c.sum() for c in (eye[0], eye[-1], flat, tiny, tied, mixed, close, subnormal, far)]
    radii = [0.0, 1e-300, 1e-20, 1e-12, 1e-6, 0.01, 0.3, math.log(2), 1.0, 5.0, 700.0, 1e6]
    return regions(np.repeat(centers, len(radii), axis=0), np.tile(radii, len(centers)))


def plain_kl(points, g):
    # Not rel_entr: before SciPy 1.15 its ratio overflows beside shares as small as 5e-324.
    return (xlogy(points, points) - xlogy(points, g)).sum(axis=-1)


def plain_entropy(points):
    return entr(points).sum(axis=-1)


def decimal_kl(points, g):
    """KL divergence of floats, taken exactly, in 60-digit arithmetic; both are normalised first."""
    with localcontext() as context:
        context.prec = 60
        p, q = [Decimal(float(x)) for x in points], [Decimal(float(x)) for x in g]
        p, q = [x / sum(p) for x in p], [x / sum(q) for x in q]
        return float(sum((x * (x / y).ln() for x, y in zip(p, q, strict=True) if x > 0), Decimal(0)))


def assert_members(sets, points):
    """Rows of ``points`` lie on the simplex and in the set of the same row, by the plain formula."""
    assert np.all(points >= 0.0)
    np.testing.assert_allclose(points.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert np.all(points[sets.center == 0] == 0)
    assert np.all(plain_kl(points, sets.center) <= sets.radius * (1 + 1e-9) + 1e-12)
    assert np.all(sets._divergence(points[:, None])[:, 0] <= sets.radius * (1 + 1e-9) + 1e-12)


def random_members(center, radius, n, rng):
    """Members on the boundary of the set, in every direction, and inside it."""
    ends = rng.dirichlet(np.full(len(center), 0.3), n) * (center > 0)
    ends = ends[ends.sum(axis=1) > 0]
    ends /= ends.sum(axis=1, keepdims=True)
    low, high = np.zeros(len(ends)), np.ones(len(ends))
    for _ in range(60):
        middle = (low + high) / 2
        inside = plain_kl(center + middle[:, None] * (ends - center), center) <= radius
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return center + low[:, None] * (ends - center)


def local_search(center, radius, start, objective, gradient):
    """Minimise over the ball from one member by SLSQP; returns a member's value, or +inf."""
    positive = center > 0
    g, x0 = center[positive], np.maximum(start[positive], 1e-9)

    def spread(x):
        full = np.zeros(len(center))
        full[positive] = x
        return full

    found = minimize(
        lambda x: objective(spread(x)),
        x0 / x0.sum(),
        jac=lambda x: gradient(spread(x))[positive],
        bounds=[(1e-15, 1.0)] * len(g),
        constraints=[
            {"type": "eq", "fun": lambda x: x.sum() - 1, "jac": lambda x: np.ones(len(g))},
            {"type": "ineq", "fun": lambda x: radius - plain_kl(x, g), "jac": lambda x: -np.log(x / g) - 1},
        ],
        options={"maxiter": 150, "ftol": 1e-13},
    )
    x = np.maximum(found.x, 0) / np.maximum(found.x, 0).sum()
    return objective(spread(x)) if plain_kl(x, g) <= radius + 1e-9 else np.inf


# --- divergence -----------------------------------------------------------------------------------------------------


def test_divergence_is_the_score_in_nats():
    sets = random_batch(60, 5, seed=0)
    points = np.random.default_rng(1).dirichlet(np.full(5, 0.4), (60, 7))
    expected = np.stack([NATS(sets.prediction, points[:, m]) for m in range(7)], axis=1)
    np.testing.assert_allclose(sets._divergence(points), expected, rtol=1e-12, atol=1e-13)
    assert np.isinf(sets._divergence(points)[1]).all()


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9, 1e-12])
def test_divergence_keeps_its_digits_close_to_the_centre(size):
    rng = np.random.default_rng(2)
    g = rng.dirichlet(np.ones(4))
    direction = rng.normal(size=4)
    point = g + size * (direction - direction.mean()) * g.min()
    # The point's own rounding moves the divergence by ε·√(2·KL): compare with the exact value for these very bits.
    found = regions(g, 1.0)._divergence(point[None, None])[0, 0]
    np.testing.assert_allclose(found, decimal_kl(point, g), rtol=1e-14 / size + 1e-13)


# --- envelope -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
def test_envelope_solves_the_binary_equation(n_classes):
    sets = random_batch(40, n_classes, seed=3, smallest=-12)
    lower, upper = sets._envelope()
    for i, k in np.ndindex(len(sets), min(n_classes, 4)):
        g, r = sets.center[i, k], sets.radius[i]
        if g == 0 or g > 0.999999:
            continue
        for end, sign in ((upper[i, k], 1), (lower[i, k], -1)):
            shift = abs(end - g)
            full = 1 - g if sign > 0 else g
            rest = 1 - g
            if shift >= full * (1 - 1e-13):
                limit = -math.log(g) if sign > 0 else -math.log1p(-g)
                assert r >= limit * (1 - 1e-9)
                continue
            slack = 1e-10 * min(shift, full - shift) + 4e-16 * max(g, end)
            inner, outer = g + sign * (shift - slack), g + sign * (shift + slack)
            assert decimal_kl([inner, 1 - inner], [g, rest]) <= r * (1 + 1e-12)
            if 0 < outer < 1:
                assert decimal_kl([outer, 1 - outer], [g, rest]) >= r * (1 - 1e-12)


def test_envelope_contains_random_members_and_is_reached_by_supports():
    sets = random_batch(25, 4, seed=4)
    lower, upper = sets._envelope()
    rng = np.random.default_rng(5)
    for i in range(len(sets)):
        members = random_members(sets.center[i], sets.radius[i], 500, rng)
        assert np.all(members >= lower[i] - 1e-12)
        assert np.all(members <= upper[i] + 1e-12)
    for k in range(4):
        unit = np.broadcast_to(np.eye(4)[k], sets.center.shape)
        np.testing.assert_allclose(sets._support(unit, False)[0], upper[:, k], rtol=1e-10, atol=1e-15)
        np.testing.assert_allclose(-sets._support(-unit, False)[0], lower[:, k], rtol=1e-10, atol=1e-14)


def test_envelope_on_a_grid():
    points = grid(3, 0.005)
    for g, r in (([0.5, 0.3, 0.2], 0.1), ([0.9, 0.07, 0.03], 0.5), ([0.4, 0.4, 0.2], 1.2)):
        lower, upper = (side[0] for side in regions(g, r)._envelope())
        inside = points[plain_kl(points, np.array(g)) <= r]
        assert np.all((inside.min(axis=0) >= lower - 1e-12) & (inside.min(axis=0) <= lower + 0.03))
        assert np.all((inside.max(axis=0) <= upper + 1e-12) & (inside.max(axis=0) >= upper - 0.03))


def test_envelope_sees_classes_that_one_minus_g_rounds_away():
    g = np.array([[1.0, 1e-20]])
    lower, upper = regions(g, 0.5)._envelope()
    expected = brentq(lambda p: p * math.log(p / 1e-20) + (1 - p) * math.log1p(-p) - 0.5, 1e-9, 0.5, xtol=1e-16)
    np.testing.assert_allclose(upper[0, 1], expected, rtol=1e-12)
    np.testing.assert_allclose(lower[0, 0], 1 - expected, rtol=1e-12)


# --- support --------------------------------------------------------------------------------------------------------


def dual_bound(g, r, utility):
    """Smallest (r + log Σ g exp(βu))/β over β > 0, an upper bound of the support by weak duality at every β."""
    g, utility = g[g > 0], utility[g > 0]
    mean, scale = (g * utility).sum(), np.ptp(utility)
    if r == 0 or scale == 0:
        return mean
    y = (utility - mean) / scale

    def bound(log_beta):
        z = np.exp(np.atleast_1d(log_beta))[:, None] * y
        near = np.log1p((g * np.expm1(np.minimum(z, 1.0))).sum(axis=1))
        log_mean = np.where(z.max(axis=1) < 1, near, logsumexp(z, b=g, axis=1))
        return mean + scale * (r + log_mean) / np.exp(np.atleast_1d(log_beta))

    coarse = np.linspace(-22, 45, 1341)
    start = coarse[bound(coarse).argmin()]
    found = minimize_scalar(
        lambda x: bound(x)[0], bounds=(start - 0.06, start + 0.06), method="bounded", options={"xatol": 1e-12}
    )
    return min(found.fun, utility.max())


@pytest.mark.parametrize("n_classes", [2, 3, 10, 60])
def test_support_meets_its_dual_bound(n_classes):
    sets = random_batch(60, n_classes, seed=6, smallest=-8)
    utility = np.random.default_rng(7).normal(size=sets.center.shape)
    utility[::4] = np.round(utility[::4])
    value, point = sets._support(utility, True)
    assert_members(sets, point)
    np.testing.assert_allclose((point * utility).sum(axis=1), value, rtol=1e-12, atol=1e-13)
    expected = [dual_bound(g, r, u) for g, r, u in zip(sets.center, sets.radius, utility, strict=True)]
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-10)
    assert sets._support(utility, False)[1] is None


@settings(max_examples=80)
@given(
    weights=st.lists(st.sampled_from([0.0, 1e-300, 1e-12, 0.01, 0.5, 1.0, 1.0000001, 3.0]), min_size=2, max_size=6),
    radius=st.one_of(st.floats(0, 5), st.sampled_from([0.0, 1e-15, 1e-9, 30.0])),
    seed=st.integers(0, 1000),
)
@example(weights=[1.0, 1.0000001, 1e-12], radius=0.7, seed=0)
def test_support_and_entropies_for_any_input(weights, radius, seed):
    if sum(weights) == 0:
        weights = [1.0, *weights[1:]]
    g = np.array(weights) / sum(weights)
    utility = np.random.default_rng(seed).choice([-1e6, -1.0, 0.0, 1e-9, 0.3, 2.0], size=len(g))
    sets = regions(g, radius)
    value, point = sets._support(utility[None], True)
    assert_members(sets, point)
    scale = np.ptp(utility[g > 0]) + 1e-12
    assert (point[0] * utility).sum() == pytest.approx(value[0], rel=1e-12, abs=1e-12 * scale)
    assert value[0] == pytest.approx(dual_bound(g, radius, utility), rel=1e-8, abs=1e-8 * scale)
    high, high_point = sets._max_entropy(True)
    low, _, low_point = sets._min_entropy(True)
    assert_members(sets, np.concatenate([high_point]))
    assert_members(sets, np.concatenate([low_point]))
    centre = plain_entropy(g)
    assert low[0] <= centre + 1e-12 <= high[0] + 2e-12
    assert low[0] >= max(-radius - dual_bound(g, radius, np.log(np.where(g > 0, g, 1.0))), 0.0) - 1e-8


def test_support_reaches_the_face_of_tied_utilities():
    sets = regions([[0.2, 0.3, 0.5]], -math.log(0.5) + 1e-12)
    value, point = sets._support(np.array([[2.0, 2.0, 1.0]]), True)
    assert value[0] == 2.0
    np.testing.assert_allclose(point, [[0.4, 0.6, 0.0]], rtol=1e-15)
    short = regions([[0.2, 0.3, 0.5]], -math.log(0.5) - 1e-6)._support(np.array([[2.0, 2.0, 1.0]]), True)
    assert 1.999999 < short[0][0] < 2.0


def test_support_of_huge_and_tiny_utilities():
    sets = regions([[0.5, 0.3, 0.2]], 0.1)
    reference = sets._support(np.array([[1.0, 0.0, -1.0]]), False)[0][0]
    for scale in (1e300, 1e-300, 1e-9):
        value = sets._support(scale * np.array([[1.0, 0.0, -1.0]]), False)[0][0]
        np.testing.assert_allclose(value, scale * reference, rtol=1e-12)
    np.testing.assert_allclose(sets._support(np.full((1, 3), 4.0), True)[1], sets.center)


# --- entropies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
def test_max_entropy_satisfies_its_optimality_conditions(n_classes):
    sets = random_batch(80, n_classes, seed=8, smallest=-9)
    value, point = sets._max_entropy(True)
    assert_members(sets, point)
    np.testing.assert_allclose(plain_entropy(point), value, rtol=1e-12, atol=1e-13)
    for i in range(len(sets)):
        g, p = sets.center[i][sets.center[i] > 0], point[i][sets.center[i] > 0]
        if np.ptp(g) < 1e-9 or np.ptp(p) < 1e-12:
            np.testing.assert_allclose(p, 1 / len(g), rtol=1e-7)
            continue
        # log λ = τ·log g + constant, 0 ≤ τ ≤ 1, and the constraint holds with equality
        tau, constant = np.polyfit(np.log(g), np.log(p), 1)
        assert -1e-9 <= tau <= 1 + 1e-9
        assert np.abs(np.log(p) - tau * np.log(g) - constant).max() < 1e-8
        assert plain_kl(p, g) == pytest.approx(sets.radius[i], rel=1e-7, abs=1e-14)


def test_max_entropy_turns_uniform_exactly_when_the_uniform_is_a_member():
    g = np.array([0.6, 0.3, 0.1])
    needed = plain_kl(np.full(3, 1 / 3), g)
    for factor in (1 - 1e-3, 1 - 1e-6, 1 + 1e-12, 2.0):
        sets = regions(g, needed * factor)
        value, point = sets._max_entropy(True)
        assert_members(sets, point)
        assert (np.ptp(point) < 1e-14) == (factor > 1)
        assert value[0] <= math.log(3) + 1e-15


@pytest.mark.parametrize("n_classes", [3, 4, 6])
def test_max_entropy_is_never_beaten(n_classes):
    sets = random_batch(25, n_classes, seed=9)
    value = sets._max_entropy(False)[0]
    rng = np.random.default_rng(10)
    for i in range(len(sets)):
        members = random_members(sets.center[i], sets.radius[i], 1000, rng)
        entropies = plain_entropy(members)
        found = local_search(
            sets.center[i],
            sets.radius[i],
            members[entropies.argmax()],
            lambda x: -plain_entropy(x),
            lambda x: np.log(np.maximum(x, 1e-300)) + 1,
        )
        best = max(entropies.max(), -found if np.isfinite(found) else 0.0)
        assert best <= value[i] + 1e-7
        assert value[i] - best < 0.05


@pytest.mark.parametrize("n_classes", [3, 4, 5])
def test_min_entropy_is_never_beaten(n_classes):
    sets = random_batch(25, n_classes, seed=11)
    low, high, point = sets._min_entropy(True)
    assert_members(sets, point)
    np.testing.assert_array_equal(low, high)
    np.testing.assert_allclose(plain_entropy(point), high, rtol=1e-12, atol=1e-13)
    rng = np.random.default_rng(12)
    for i in range(len(sets)):
        members = random_members(sets.center[i], sets.radius[i], 1000, rng)
        entropies = plain_entropy(members)
        assert entropies.min() >= low[i] - 1e-9
        for start in members[np.argsort(entropies)[[0, 1, 500]]]:
            found = local_search(
                sets.center[i],
                sets.radius[i],
                start,
                plain_entropy,
                lambda x: -np.log(np.maximum(x, 1e-300)) - 1,
            )
            assert found >= low[i] - 1e-7


@pytest.mark.parametrize(
    "g", [[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [1 / 3, 1 / 3, 1 / 3], [0.45, 0.45, 0.1], [0.8, 0.15, 0.05]]
)
@pytest.mark.parametrize("radius", [0.003, 0.05, 0.2, 0.4, 0.6, 0.9])
def test_entropies_on_a_grid(g, radius):
    sets = regions(g, radius)
    points = grid(3, 0.002)
    entropies = plain_entropy(points[plain_kl(points, np.array(g)) <= radius])
    low, high = sets._min_entropy(False)[0][0], sets._max_entropy(False)[0][0]
    assert low - 1e-12 <= entropies.min() <= low + 0.03
    assert high - 0.03 <= entropies.max() <= high + 1e-12


def best_over_supports(g, radius):
    """Smallest entropy among λ ∝ g^τ, τ ≥ 1, KL = radius, over every support; +inf if none qualifies."""
    best = np.inf
    for size in range(1, len(g) + 1):
        for chosen in combinations(range(len(g)), size):
            part = np.log(g[list(chosen)])

            def tilted(beta, part=part):
                weights = (1 + beta) * part
                logs = weights - logsumexp(weights)
                return np.exp(logs), (np.exp(logs) * (logs - part)).sum()

            if tilted(0.0)[1] > radius:
                continue
            top = tilted(1e3)
            beta = 1e3 if top[1] <= radius else brentq(lambda b: tilted(b)[1] - radius, 0, 1e3, xtol=1e-14)
            best = min(best, plain_entropy(tilted(beta)[0]))
    return best


@pytest.mark.parametrize("n_classes", [3, 4, 5])
def test_no_smaller_support_beats_the_full_one(n_classes):
    rng = np.random.default_rng(13)
    for _ in range(40):
        g = rng.dirichlet(np.ones(n_classes))
        radius = rng.uniform(0.0, -1.3 * math.log(g.max()))
        low = regions(g, radius)._min_entropy(False)[0][0]
        assert best_over_supports(g, radius) == pytest.approx(low, rel=1e-8, abs=1e-10)


def test_min_entropy_between_the_tied_face_and_its_corners():
    g = np.array([0.4, 0.4, 0.2])
    for radius in np.linspace(-math.log(0.8), -math.log(0.4), 9):
        low, _, point = regions(g, radius)._min_entropy(True)
        assert low[0] == pytest.approx(-radius - math.log(0.4), abs=1e-13)
        assert point[0, 2] < 1e-12
        assert plain_kl(point[0], g) == pytest.approx(radius, rel=1e-12)
    assert regions(g, -math.log(0.4) + 1e-9)._min_entropy(False)[0][0] == 0.0


def test_min_entropy_is_continuous_where_classes_almost_tie():
    for gap in (0.0, 1e-16, 1e-13, 1e-9, 1e-6):
        g = np.array([[0.4 + gap, 0.4, 0.2 - gap]])
        low, _, point = regions(g, 0.5)._min_entropy(True)
        assert_members(regions(g, 0.5), point)
        assert low[0] == pytest.approx(-0.5 - math.log(0.4), abs=max(20 * gap, 1e-12))


def test_tiny_entropies_keep_their_digits():
    g = np.array([1.0, 1e-20])
    for radius in (1e-12, 1e-6):
        mass = brentq(
            lambda t: t * math.log(t / 1e-20) + (1 - t) * math.log1p(-t) - radius,  # noqa: B023
            1e-19,
            0.1,
            xtol=1e-40,
            rtol=1e-15,
        )
        expected = -mass * math.log(mass) - (1 - mass) * math.log1p(-mass)
        assert regions(g, radius)._max_entropy(False)[0][0] == pytest.approx(expected, rel=1e-10)


# --- rays -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 20])
def test_rays_end_on_the_sphere_or_on_the_simplex(n_classes):
    sets = random_batch(30, n_classes, seed=14, smallest=-6)
    rng = np.random.default_rng(15)
    directions = rng.normal(size=(30, 6, n_classes)) * (sets.center > 0)[:, None]
    directions -= directions.mean(axis=2, keepdims=True, where=(sets.center > 0)[:, None]) * (sets.center > 0)[:, None]
    length = sets._ray_length(directions)
    assert length.shape == (30, 6)
    for i, m in np.ndindex(30, 6):
        g, d = sets.center[i], directions[i, m]
        if not d.any():
            assert length[i, m] == np.inf
            continue
        wall = min(-g[k] / d[k] for k in range(n_classes) if d[k] < 0)
        end = plain_kl(np.maximum(g + length[i, m] * d, 0), g)
        if length[i, m] >= wall * (1 - 1e-14):
            assert end <= sets.radius[i] * (1 + 1e-9)
        else:
            assert end == pytest.approx(sets.radius[i], rel=1e-8)


def test_rays_that_leave_the_support_or_start_in_a_point_have_no_length():
    directions = np.array([[[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, -0.5]]])
    np.testing.assert_array_equal(regions([0.0, 0.6, 0.4], 0.2)._ray_length(directions)[0] > 0, [False, True, False])
    np.testing.assert_array_equal(regions([0.3, 0.3, 0.4], 0.0)._ray_length(directions), 0.0)


# --- volume ---------------------------------------------------------------------------------------------------------


def log_volume(sets):
    value, error, kind = sets._log_volume(np.random.default_rng(0))
    assert kind == "exact"
    np.testing.assert_array_equal(error, 0.0)
    return value


def polar_area(g, radius):
    """Fraction of the triangle from ∫ ½ρ² over the angle about the centre, in plain formulas."""

    def reach(angle):
        d = np.array([math.cos(angle), math.sin(angle), -math.cos(angle) - math.sin(angle)])
        wall = min(-a / b for a, b in zip(g, d, strict=True) if b < 0)
        if plain_kl(np.maximum(g + wall * d, 0), g) <= radius:
            return wall
        return brentq(lambda t: plain_kl(np.maximum(g + t * d, 0), g) - radius, 0, wall, xtol=1e-15, rtol=1e-14)

    special = list(np.eye(3))
    for k in range(3):  # the ball meets the edge opposite to class k around its foot, up to these points
        i, j = (k + 1) % 3, (k + 2) % 3
        foot = g[i] / (1 - g[k])

        def on_edge(t, i=i, j=j):
            return np.eye(3)[i] * t + np.eye(3)[j] * (1 - t)

        def margin(t, on_edge=on_edge):
            return plain_kl(on_edge(t), g) - radius

        special.append(on_edge(foot))
        reached = [end for end in (0.0, 1.0) if margin(foot) < 0 < margin(end)]
        special += [on_edge(brentq(margin, min(end, foot), max(end, foot), xtol=1e-15)) for end in reached]
    angles = [math.atan2(p[1] - g[1], p[0] - g[0]) % (2 * math.pi) for p in special]
    pieces = [
        quad(lambda a: reach(a) ** 2 / 2, low, high, epsabs=1e-14, epsrel=1e-12, limit=200)[0]
        for low, high in pairwise(sorted({*angles, 0.0, 2 * math.pi}))
        if high - low > 1e-12
    ]
    return 2 * sum(pieces)


@pytest.mark.parametrize(
    ("g", "radius"),
    [
        ([0.5, 0.3, 0.2], 1e-4),
        ([0.5, 0.3, 0.2], 0.1),
        ([0.5, 0.3, 0.2], 0.5),
        ([0.5, 0.3, 0.2], 1.5),
        ([0.7, 0.25, 0.05], 0.0513),  # just beyond touching an edge, at −log 0.95
        ([0.7, 0.25, 0.05], 0.0512),  # and just short of it
        ([0.98, 0.01, 0.01], 0.3),
    ],
)
def test_area_agrees_with_polar_quadrature(g, radius):
    found = math.exp(log_volume(regions(g, radius))[0])
    assert found == pytest.approx(polar_area(np.array(g), radius), rel=1e-9)


def test_area_is_converged_for_any_centre_and_radius():
    rng = np.random.default_rng(16)
    g = rng.dirichlet(np.full(3, 0.3), 60) + 1e-40
    g /= g.sum(axis=1, keepdims=True)
    touching = -np.log1p(-g[np.arange(60), rng.integers(3, size=60)].clip(max=1 - 1e-9))
    radius = np.concatenate([10 ** rng.uniform(-12, 1, 30), touching[30:] * (1 + rng.choice([-1, 1], 30) * 1e-6)])
    finer = volume.log_volume(g, radius, rule=volume.tanh_sinh(step=0.05, span=3.6))
    np.testing.assert_allclose(log_volume(regions(g, radius)), finer, rtol=0, atol=1e-11)


def test_small_balls_are_ellipses():
    g = np.array([0.5, 0.3, 0.2])
    # KL ≈ ½ Σ δ²/g: area 2πr·√(g1·g2·g3) in two coordinates, as a fraction of ½
    for radius in (1e-14, 1e-10):
        expected = math.log(4 * math.pi * radius * math.sqrt(g.prod()))
        assert log_volume(regions(g, radius))[0] == pytest.approx(expected, abs=1e-8)


def test_area_against_monte_carlo():
    rng = np.random.default_rng(17)
    points = rng.dirichlet(np.ones(3), 200_000)
    for g, radius in (([0.6, 0.3, 0.1], 0.15), ([0.34, 0.33, 0.33], 0.9), ([0.99, 0.009, 0.001], 1.0)):
        fraction = math.exp(log_volume(regions(g, radius))[0])
        hits = (plain_kl(points, np.array(g)) <= radius).mean()
        assert abs(hits - fraction) < 5 * math.sqrt(fraction * (1 - fraction) / len(points))


def test_volume_of_binary_balls_is_the_width_of_the_envelope():
    sets = random_batch(200, 2, seed=18)
    lower, upper = sets._envelope()
    width = np.where((sets.center > 0).all(axis=1), upper[:, 0] - lower[:, 0], 0.0)
    np.testing.assert_allclose(np.exp(log_volume(sets)), width, rtol=1e-10)


def test_volume_degenerate_cases():
    assert log_volume(regions([0.5, 0.5, 0.0], 5.0))[0] == -np.inf
    assert log_volume(regions([0.5, 0.3, 0.2], 0.0))[0] == -np.inf
    assert log_volume(regions([0.5, 0.3, 0.2], 2.0))[0] == pytest.approx(0.0, abs=1e-13)
    assert regions(np.full(4, 0.25), 0.1)._log_volume(np.random.default_rng(0)) is None


# --- nearest distribution with a given top class ---------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5])
def test_closest_with_top_against_slsqp(n_classes):
    sets = random_batch(12, n_classes, seed=19)
    found = sets._closest_with_top()
    for i, k in np.ndindex(12, n_classes):
        g = sets.center[i]
        if g[k] == 0:
            assert found[i, k] == np.inf
            continue
        support = np.flatnonzero(g > 0)
        index = int(np.flatnonzero(support == k)[0])
        q = g[support]
        rows = np.array([np.eye(len(q))[index] - np.eye(len(q))[b] for b in range(len(q)) if b != index])
        constraints = [{"type": "eq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like}]
        if len(rows):
            constraints.append({"type": "ineq", "fun": lambda x, a=rows: a @ x, "jac": lambda x, a=rows: a})
        result = minimize(
            lambda x, q=q: plain_kl(np.maximum(x, 1e-300), q),
            np.full(len(q), 1 / len(q)),
            jac=lambda x, q=q: np.log(np.maximum(x, 1e-300) / q) + 1,
            bounds=[(1e-14, 1)] * len(q),
            constraints=constraints,
            options={"maxiter": 300, "ftol": 1e-14},
        )
        assert found[i, k] == pytest.approx(result.fun, rel=1e-6, abs=1e-9)


def test_closest_with_top_on_a_grid():
    points = grid(3, 0.004)
    for g in ([0.5, 0.3, 0.2], [0.6, 0.39, 0.01], [0.4, 0.4, 0.2]):
        found = regions(g, 1.0)._closest_with_top()[0]
        values = plain_kl(points, np.array(g))
        for k in range(3):
            best = values[points[:, k] >= points.max(axis=1) - 1e-12].min()
            assert found[k] - 1e-12 <= best <= found[k] + 0.01


def test_closest_with_top_known_values():
    g = np.array([[0.5, 0.3, 0.2, 0.0], [0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]])
    found = regions(g, 1.0)._closest_with_top()
    assert found[0, 0] == 0.0
    assert found[0, 1] == pytest.approx(-math.log(2 * math.sqrt(0.15) + 0.2), rel=1e-13)
    assert found[0, 2] == pytest.approx(-math.log(2 * math.sqrt(0.1) + 0.3), rel=1e-13)  # 0.3 stays below the pool
    pooled = regions([0.5, 0.49, 0.01], 1.0)._closest_with_top()[0, 2]
    assert pooled == pytest.approx(-math.log(3 * (0.5 * 0.49 * 0.01) ** (1 / 3)), rel=1e-13)  # here all three are
    np.testing.assert_array_equal(found[1], 0.0)
    np.testing.assert_array_equal(found[2], [0.0, np.inf, np.inf, np.inf])
    nearly = regions([0.5 + 1e-7, 0.5 - 1e-7], 1.0)._closest_with_top()[0, 1]
    assert nearly == pytest.approx(2e-14, rel=1e-5)  # ½ Σ δ²/g


# --- degenerate cases -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 5, 50])
def test_every_answer_survives_every_degenerate_case(n_classes):
    sets = extreme_batch(n_classes)
    lower, upper = sets._envelope()
    assert np.all((lower >= 0) & (lower <= sets.center) & (sets.center <= upper) & (upper <= 1))
    utility = np.random.default_rng(20).normal(size=sets.center.shape)
    value, point = sets._support(utility, True)
    high, high_point = sets._max_entropy(True)
    low, _, low_point = sets._min_entropy(True)
    for answer in (value, high, low, lower, upper):
        assert np.all(np.isfinite(answer))
    for members in (point, high_point, low_point):
        assert_members(sets, members)
    assert np.all((low >= 0) & (low <= high + 1e-14))
    assert np.all(high <= math.log(n_classes) + 1e-12)
    point_like = (sets.radius == 0) | ((sets.center > 0).sum(axis=1) == 1)
    for members in (point, high_point, low_point, lower, upper):
        np.testing.assert_allclose(members[point_like], sets.center[point_like], rtol=1e-14)
    huge = sets.radius >= 1e6
    np.testing.assert_array_equal(upper[huge], (sets.center[huge] > 0).astype(float))
    np.testing.assert_allclose(high[huge], np.log((sets.center[huge] > 0).sum(axis=1)), rtol=1e-14)
    np.testing.assert_array_equal(low[huge], 0.0)
    assert not np.isnan(sets._closest_with_top()).any()
    if n_classes <= 3:
        assert not np.isnan(log_volume(sets)).any()


def test_rows_that_almost_sum_to_one_give_points_on_the_simplex():
    g = np.array([[0.5, 0.3, 0.2]]) * (1 + 5e-11)
    sets = regions(g, 1e-3)
    assert abs(sets.center.sum() - 1) > 1e-11
    for point in (sets._max_entropy(True)[1], sets._min_entropy(True)[2], sets._support(-g, True)[1]):
        np.testing.assert_allclose(point.sum(), 1.0, rtol=0, atol=1e-14)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
def test_points_stay_in_their_balls(n_classes: int) -> None:
    """Radii from nothing to more than everything, classes that hardly matter, ties and classes that are ruled out."""
    rng = np.random.default_rng(n_classes)
    center = np.vstack([rng.dirichlet(np.full(n_classes, a), 300) for a in (0.02, 0.3, 3.0)])
    center = np.vstack([center, np.round(center[:300], 1) + 1e-9 * np.eye(n_classes)[0], np.eye(n_classes)])
    center = np.vstack([center, np.full((5, n_classes), 1.0 / n_classes)])
    center /= center.sum(axis=1, keepdims=True)
    radius = 10.0 ** rng.uniform(-12, 1.2, len(center))
    radius[::17], radius[::19] = 0.0, 1e-250
    utility = rng.normal(size=center.shape)
    sets = KullbackLeibler(base=np.e).region(center, radius)
    points = [sets._support(utility, True)[1], sets._max_entropy(True)[1], sets._min_entropy(True)[2]]
    for point in points:
        assert (sets._divergence(point[:, None])[:, 0] <= sets.radius * (1 + 1e-7) + 1e-12).all()
