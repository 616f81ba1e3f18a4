"""Wasserstein balls against brute force: linear programs, enumerated corners, Qhull, dual bounds, random members."""

from __future__ import annotations

import itertools
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from scipy.spatial import ConvexHull

from credalset.scores import Wasserstein
from credalset.scores.wasserstein import WassersteinBall
from credalset.scores.wasserstein import groups as wasserstein_groups
from credalset.scores.wasserstein import volume as wasserstein_volume
from credalset.simplex import grid

RADII = (0.0, 1e-12, 1e-6, 0.03, 0.2, 0.7, 1.0, 2.5, 1e300)
LP_ERROR = 1e-8


def ball(center: object, radius: object, positions: tuple[float, ...] | None = None) -> WassersteinBall:
    sets = Wasserstein(positions).region(np.atleast_2d(np.asarray(center, dtype=float)), radius)
    assert isinstance(sets, WassersteinBall)
    return sets


def special_centers(n_classes: int) -> np.ndarray:
    """Uniform, one-hot, zeros, ties, tiny entries, and a few random rows."""
    rng = np.random.default_rng(n_classes)
    ends = np.zeros(n_classes)
    ends[[0, -1]] = 0.5
    tiny = np.r_[np.full(n_classes - 1, 1e-300), 1.0]
    small = np.r_[1.0 - 1e-9 * (n_classes - 1), np.full(n_classes - 1, 1e-9)]
    steps = np.arange(n_classes) / np.arange(n_classes).sum()
    fixed = [np.full(n_classes, 1 / n_classes), np.eye(n_classes)[n_classes // 2], ends, tiny, small, steps]
    tenths = rng.multinomial(10, np.full(n_classes, 1 / n_classes), 2) / 10
    return np.vstack([*fixed, tenths, rng.dirichlet(np.ones(n_classes), 2), rng.dirichlet(np.full(n_classes, 0.2), 2)])


def special_balls(n_classes: int, positions: tuple[float, ...] | None = None) -> WassersteinBall:
    centers = special_centers(n_classes)
    return ball(np.repeat(centers, len(RADII), axis=0), np.tile(RADII, len(centers)), positions)


def random_balls(n: int, n_classes: int, seed: int) -> WassersteinBall:
    """Balls of all sizes about smooth, rough and rounded centres, on an uneven line."""
    rng = np.random.default_rng(seed)
    centers = rng.dirichlet(np.full(n_classes, rng.choice([0.3, 1.0, 3.0])), n)
    centers[: n // 3] = rng.multinomial(10, np.full(n_classes, 1 / n_classes), n // 3) / 10
    positions = tuple(np.cumsum(rng.uniform(0.3, 2.0, n_classes)))
    radius = rng.uniform(0.0, 0.3 * n_classes, n) * rng.choice([0.1, 1.0], n)
    return ball(centers, radius, positions)


def distance(sets: WassersteinBall, points: np.ndarray) -> np.ndarray:
    return np.abs(np.cumsum(points - sets.center, axis=1)[:, :-1]) @ sets.gaps


def entropy(points: np.ndarray) -> np.ndarray:
    return -(points * np.log(np.where(points > 0, points, 1.0))).sum(axis=-1)


def assert_members(sets: WassersteinBall, points: np.ndarray) -> None:
    assert np.all(points >= 0)
    np.testing.assert_allclose(points.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert np.all(distance(sets, points) <= sets.radius * (1 + 1e-9) + 1e-12 * max(1.0, sets.gaps.sum()))


def random_members(sets: WassersteinBall, n: int, rng: np.random.Generator) -> np.ndarray:
    """(N, n, K) members, many of them sparse: as far towards random points as the ball goes."""
    targets = rng.dirichlet(np.full(sets.n_classes, 0.2), (len(sets), n))
    directions = targets - sets.center[:, None]
    cost = np.abs(np.cumsum(directions, axis=2)[..., :-1]) @ sets.gaps
    reach = np.minimum(1.0, sets.radius[:, None] / np.maximum(cost, 1e-300))
    return sets.center[:, None] + reach[..., None] * directions


def optimum(
    sets: WassersteinBall, row: int, objective: np.ndarray, by_cost: bool = False, top: int | None = None
) -> float:
    """Minimise ⟨objective, λ⟩ over the ball, or the distance itself over all λ (with class ``top`` on top)."""
    g, gaps, k = sets.center[row], sets.gaps, sets.n_classes
    sums = np.tril(np.ones((k, k)))[:-1]
    cumulative = np.cumsum(g)[:-1]
    upper = np.block([[sums, -np.eye(k - 1)], [-sums, -np.eye(k - 1)]])
    bound = np.concatenate([cumulative, -cumulative])
    if not by_cost:
        upper = np.vstack([upper, np.r_[np.zeros(k), gaps]])
        bound = np.r_[bound, sets.radius[row]]
    if top is not None:
        order = np.hstack([np.delete(np.eye(k), top, axis=0), np.zeros((k - 1, k - 1))])
        order[:, top] = -1
        upper, bound = np.vstack([upper, order]), np.r_[bound, np.zeros(k - 1)]
    weights = np.r_[np.zeros(k), gaps] if by_cost else np.r_[objective, np.zeros(k - 1)]
    whole = np.r_[np.ones(k), np.zeros(k - 1)][None]
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    return float(linprog(weights, upper, bound, whole, [1.0], (0, None), "highs", options=options).fun)


def brute_force_corners(sets: WassersteinBall, row: int) -> np.ndarray:
    """Every intersection of K − 1 of the ball's facets that belongs to it, from all sign patterns of F − G."""
    gaps, radius, cumulative = sets.gaps, sets.radius[row], np.cumsum(sets.center[row])[:-1]
    n = len(gaps)
    monotone = np.vstack([np.eye(n), np.zeros((1, n))]) - np.vstack([np.zeros((1, n)), np.eye(n)])
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=n))) * gaps
    rows = np.vstack([monotone, signs])
    offset = np.r_[np.zeros(n), -1.0, signs @ cumulative + radius]
    found = []
    for chosen in itertools.combinations(range(len(rows)), n):
        matrix = rows[list(chosen)]
        if abs(np.linalg.det(matrix)) > 1e-9:
            found.append(np.linalg.solve(matrix, offset[list(chosen)]))
    points = np.diff(np.array(found), prepend=0.0, append=1.0, axis=1)
    member = (points.min(axis=1) > -1e-10) & (np.abs(np.array(found) - cumulative) @ gaps <= radius + 1e-10)
    points = points[member].clip(0.0)
    return points[np.unique(points.round(9), axis=0, return_index=True)[1]]


# Membership and rays


def test_divergence_is_the_score():
    sets = random_balls(20, 6, 0)
    points = np.random.default_rng(1).dirichlet(np.ones(6), (20, 3))
    expected = [
        [sets.score(g[None], p[None])[0] for p in several] for g, several in zip(sets.center, points, strict=True)
    ]
    np.testing.assert_array_equal(sets._divergence(points), expected)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_rays_end_at_the_boundary(n_classes):
    rng = np.random.default_rng(n_classes)
    sets = special_balls(n_classes)
    targets = rng.dirichlet(np.ones(n_classes), (len(sets), 5))
    directions = targets - sets.center[:, None]
    length = sets._ray_length(directions)
    assert np.all(length >= 0)
    ends = sets.center[:, None] + length[..., None] * directions
    assert np.all(ends >= -1e-12)
    assert np.all(sets._divergence(ends) <= sets.radius[:, None] * (1 + 1e-12) + 1e-14)
    beyond = sets.center[:, None] + (length[..., None] * (1 + 1e-6) + 1e-9) * directions
    outside = (beyond.min(axis=2) < 0) | (sets._divergence(beyond) > sets.radius[:, None])
    assert np.all(outside | (np.abs(directions).sum(axis=2) < 1e-12))


def test_a_ray_that_goes_nowhere_never_ends():
    assert ball([0.5, 0.5], 0.1)._ray_length(np.zeros((1, 1, 2)))[0, 0] == np.inf


# Envelopes and expectations


@pytest.mark.parametrize("n_classes", [2, 3, 4, 6])
def test_envelope_is_the_linear_programme(n_classes):
    sets = random_balls(12, n_classes, n_classes)
    lower, upper = sets._envelope()
    for row, k in itertools.product(range(len(sets)), range(n_classes)):
        unit = np.eye(n_classes)[k]
        assert lower[row, k] == pytest.approx(optimum(sets, row, unit), abs=LP_ERROR)
        assert upper[row, k] == pytest.approx(-optimum(sets, row, -unit), abs=LP_ERROR)


@pytest.mark.parametrize("n_classes", [2, 3, 5, 8])
def test_support_is_the_linear_programme(n_classes):
    rng = np.random.default_rng(n_classes)
    sets = random_balls(40, n_classes, n_classes)
    utility = rng.normal(size=sets.center.shape)
    utility[::3] = rng.integers(-1, 2, utility[::3].shape)  # ties
    utility[7] = 2.0
    value, point = sets._support(utility, attaining=True)
    assert_members(sets, point)
    np.testing.assert_allclose((utility * point).sum(axis=1), value, atol=1e-12)
    for row in range(len(sets)):
        assert value[row] == pytest.approx(-optimum(sets, row, -utility[row]), abs=LP_ERROR)


def test_support_of_a_unit_utility_is_the_envelope():
    """Two independent exact algorithms, for many classes."""
    sets = random_balls(60, 40, 3)
    lower, upper = sets._envelope()
    for k in (0, 17, 39):
        unit = np.broadcast_to(np.eye(40)[k], sets.center.shape)
        np.testing.assert_allclose(sets._support(unit, False)[0], upper[:, k], rtol=1e-12)
        np.testing.assert_allclose(-sets._support(-unit, False)[0], lower[:, k], rtol=1e-12, atol=1e-15)


def test_support_scales_with_the_utility():
    sets = random_balls(30, 6, 4)
    utility = np.random.default_rng(0).normal(size=(30, 6))
    value = sets._support(utility, False)[0]
    np.testing.assert_allclose(sets._support(utility * 1e-200, False)[0], value * 1e-200, rtol=1e-9)
    np.testing.assert_allclose(sets._support(utility * 1e200, False)[0], value * 1e200, rtol=1e-9)


# Greatest entropy


def duality_gap(sets: WassersteinBall, points: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Upper bound log Σ e^p − ⟨g, p⟩ + r·Lip(p) at p = log λ, minus the entropy claimed: zero at the optimum only."""
    potential = np.log(points)
    price = (np.abs(np.diff(potential, axis=1)) / sets.gaps).max(axis=1)
    bound = np.log(points.sum(axis=1)) - (sets.center * potential).sum(axis=1) + price * sets.radius
    return np.where(price == 0.0, np.log(sets.n_classes), bound) - value


@pytest.mark.parametrize("n_classes", [2, 3, 5, 10, 30])
def test_greatest_entropy_has_a_dual_certificate(n_classes):
    sets = random_balls(100, n_classes, n_classes)
    sets = sets[sets.radius > 1e-3]
    value, point = sets._max_entropy(attaining=True)
    assert_members(sets, point)
    np.testing.assert_allclose(entropy(point), value, rtol=1e-10)
    gap = duality_gap(sets, point, value)
    assert np.all(np.abs(gap) < 1e-10)
    assert np.all(value <= np.log(n_classes))


@pytest.mark.parametrize("n_classes", [3, 8])
def test_greatest_entropy_meets_the_optimality_conditions(n_classes):
    sets = random_balls(100, n_classes, 10 + n_classes)
    sets = sets[sets.radius > 1e-3]
    _, point = sets._max_entropy(attaining=True)
    slope = np.diff(np.log(point), axis=1) / sets.gaps
    price = np.abs(slope).max(axis=1, keepdims=True)
    off = np.cumsum(point - sets.center, axis=1)[:, :-1]
    apart = np.abs(off) > 1e-9
    assert apart.any(axis=1)[price[:, 0] > 0].all()
    residual = np.where(apart, slope - np.sign(off) * price, 0.0)
    assert np.abs(residual).max() < 1e-8
    binding = price[:, 0] > 1e-8
    assert binding.sum() > 10
    np.testing.assert_allclose(distance(sets, point)[binding], sets.radius[binding], rtol=1e-9)


def test_greatest_entropy_on_the_grid():
    points = grid(3, 0.005)
    sets = ball([[0.7, 0.25, 0.05], [0.0, 0.0, 1.0], [0.9, 0.1, 0.0]], [0.2, 0.4, 0.05])
    value, _ = sets._max_entropy(attaining=False)
    inside = sets._divergence(np.broadcast_to(points, (3, *points.shape))) <= sets.radius[:, None] + 1e-12
    best = np.where(inside, entropy(points), -1.0).max(axis=1)
    assert np.all(value >= best - 1e-12)
    np.testing.assert_allclose(value, best, atol=5e-3)


# Least entropy


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_corners_and_least_entropy_by_brute_force(n_classes):
    sets = random_balls(30 if n_classes < 4 else 12, n_classes, n_classes)
    low, high, point = sets._min_entropy(attaining=True)
    np.testing.assert_array_equal(low, high)
    assert_members(sets, point)
    np.testing.assert_allclose(entropy(point), high, atol=1e-12)
    for row in np.flatnonzero(sets.radius > 0):
        corners = brute_force_corners(sets, row)
        assert high[row] == pytest.approx(entropy(corners).min(), abs=1e-9)
        listed = sets[row]._vertices()
        assert len(listed) == len(corners)
        apart = np.abs(listed[:, None] - corners).max(axis=2)
        assert apart.min(axis=0).max() < 1e-8
        assert apart.min(axis=1).max() < 1e-8


@pytest.mark.parametrize(("n_classes", "n"), [(5, 20), (7, 20), (10, 6)])
def test_least_entropy_is_that_of_the_best_vertex(n_classes, n):
    sets = random_balls(n, n_classes, n_classes)
    low, high, _ = sets._min_entropy(attaining=False)
    np.testing.assert_array_equal(low, high)
    for row in range(n):
        assert high[row] == pytest.approx(entropy(sets[row]._vertices()).min(), abs=1e-10)


def test_least_entropy_beats_random_members_and_local_search():
    rng = np.random.default_rng(5)
    sets = random_balls(6, 6, 77)
    _, high, _ = sets._min_entropy(attaining=False)
    members = random_members(sets, 1000, rng)
    assert np.all(high <= entropy(members).min(axis=1) + 1e-12)
    for row, best in enumerate(entropy(members).argmin(axis=1)):
        gaps, center, radius = sets.gaps, sets.center[row], sets.radius[row]
        room = [
            {"type": "eq", "fun": lambda p: p.sum() - 1},
            {"type": "ineq", "fun": lambda p, c=center, r=radius, g=gaps: r - np.abs(np.cumsum(p - c)[:-1]) @ g},
        ]
        found = minimize(
            lambda p: entropy(np.abs(p)), members[row, best], bounds=[(0, 1)] * 6, constraints=room, method="SLSQP"
        )
        violation = max(0.0, np.abs(np.cumsum(found.x - center)[:-1]) @ gaps - radius)
        if violation < 1e-9 and abs(found.x.sum() - 1) < 1e-9:
            assert high[row] <= found.fun + 1e-6


def test_least_entropy_is_exact_up_to_twelve_classes_and_bracketed_beyond(monkeypatch):
    """A search that has to stop early keeps the exact answer, that of the best vertex, between its bounds."""
    sets = random_balls(8, 12, 3)
    low, high, point = sets._min_entropy(attaining=True)
    assert_members(sets, point)
    np.testing.assert_array_equal(low, high)
    for row in (0, 5):
        assert high[row] == pytest.approx(entropy(sets[row]._vertices()).min(), abs=1e-10)
    monkeypatch.setattr(wasserstein_groups, "EXACT_CLASSES", 10)
    in_rounds = sets._min_entropy(attaining=False)
    np.testing.assert_allclose(in_rounds[:2], [low, high], rtol=1e-12)
    monkeypatch.setattr(wasserstein_groups, "MAX_PARTITIONS", 3)
    cut_low, cut_high, point = sets._min_entropy(attaining=True)
    assert_members(sets, point)
    np.testing.assert_allclose(entropy(point), cut_high, atol=1e-12)
    assert np.all(cut_low <= low + 1e-12)
    assert np.all(high <= cut_high + 1e-12)
    assert np.any(cut_low < cut_high - 1e-6)


@pytest.mark.parametrize("n_classes", [20, 60])
def test_brackets_for_many_classes(n_classes):
    sets = random_balls(12, n_classes, n_classes)
    low, high, point = sets._min_entropy(attaining=True)
    assert_members(sets, point)
    np.testing.assert_allclose(entropy(point), high, atol=1e-11)
    assert np.all(low <= high)
    members = random_members(sets, 300, np.random.default_rng(0))
    assert np.all(low <= entropy(members).min(axis=1) + 1e-12)
    assert np.mean(high - low) < 0.05


# Volume and vertices


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_volume_is_that_of_the_hull_of_the_vertices(n_classes):
    sets = random_balls(60, n_classes, 20 + n_classes)
    sets = sets[sets.radius > 1e-3]
    known = sets._log_volume(np.random.default_rng(0))
    assert known is not None
    log_volume, error, method = known
    assert method == "exact"
    assert not error.any()
    for row in range(len(sets)):
        flat = sets[row]._vertices()[:, :-1]
        size = np.ptp(flat) if n_classes == 2 else ConvexHull(flat).volume
        assert np.exp(log_volume[row]) == pytest.approx(factorial(n_classes - 1) * size, rel=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_volume_of_small_and_large_balls(n_classes):
    rng = np.random.default_rng(0)
    center = rng.dirichlet(np.full(n_classes, 5.0), 8)
    positions = tuple(np.cumsum(rng.uniform(0.5, 2.0, n_classes)))
    inner = 0.4 * center.min() * np.diff(positions).min()
    for radius in (inner, 1e-12, 1e-150, 1e-300):  # the ball does not touch the boundary: a cross-polytope
        sets = ball(center, radius, positions)
        expected = (n_classes - 1) * np.log(2 * radius) - np.log(sets.gaps).sum()
        np.testing.assert_allclose(sets._log_volume(rng)[0], expected, rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(ball(center, 1e300, positions)._log_volume(rng)[0], 0.0, atol=1e-14)
    assert np.all(ball(center, 0.0, positions)._log_volume(rng)[0] == -np.inf)


def test_volume_by_monte_carlo():
    rng = np.random.default_rng(9)
    points = rng.dirichlet(np.ones(4), 200_000)
    sets = random_balls(20, 4, 5)
    inside = (sets._divergence(np.broadcast_to(points, (20, *points.shape))) <= sets.radius[:, None]).mean(axis=1)
    fraction = np.exp(sets._log_volume(rng)[0])
    error = np.sqrt(fraction * (1 - fraction) / len(points)) + 1e-6
    assert np.all(np.abs(inside - fraction) < 5 * error)


def test_volume_beyond_four_classes_is_left_to_the_estimator():
    assert random_balls(3, 5, 0)._log_volume(np.random.default_rng(0)) is None


@pytest.mark.parametrize("n_classes", [5, 6, 8])
def test_vertices_span_the_ball(n_classes):
    """The support function in random directions is the best vertex, and no vertex is listed twice."""
    rng = np.random.default_rng(n_classes)
    sets = random_balls(6, n_classes, n_classes)
    for row in np.flatnonzero(sets.radius > 0.01):
        corners = sets[row]._vertices()
        assert_members(sets[np.full(len(corners), row)], corners)
        for utility in rng.normal(size=(25, n_classes)):
            best = -optimum(sets, row, -utility)
            assert (corners @ utility).max() == pytest.approx(best, abs=LP_ERROR)
        assert len(np.unique(corners.round(9), axis=0)) == len(corners)


@pytest.mark.parametrize("n_classes", [3, 4, 5])
def test_every_vertex_is_extreme(n_classes):
    sets = random_balls(9, n_classes, 40 + n_classes)
    for row in np.flatnonzero(sets.radius > 0.01):
        corners = sets[row]._vertices()
        hull = ConvexHull(corners[:, :-1])
        assert len(hull.vertices) == len(corners)


def test_vertices_of_degenerate_balls():
    np.testing.assert_array_equal(ball([0.2, 0.3, 0.5], 0.0)._vertices(), [[0.2, 0.3, 0.5]])
    np.testing.assert_allclose(np.sort(ball([0.2, 0.3, 0.5], 1e300)._vertices(), axis=0), np.sort(np.eye(3), axis=0))
    corner = ball([1.0, 0.0, 0.0], 0.5)._vertices()
    np.testing.assert_allclose(corner, [[0.5, 0.5, 0], [0.75, 0, 0.25], [1, 0, 0]], atol=1e-15)
    with pytest.raises(ValueError, match="at most 12 classes"):
        ball(np.full(13, 1 / 13), 0.1)._vertices()


# Classes on top


@pytest.mark.parametrize("n_classes", [2, 3, 4, 7])
def test_closest_with_top_is_the_linear_programme(n_classes):
    sets = random_balls(12, n_classes, n_classes)
    closest = sets._closest_with_top()
    for row, top in itertools.product(range(len(sets)), range(n_classes)):
        expected = optimum(sets, row, np.zeros(n_classes), by_cost=True, top=top)
        assert closest[row, top] == pytest.approx(expected, abs=LP_ERROR)


def test_closest_with_top_is_zero_for_the_modes():
    closest = ball([[0.4, 0.4, 0.2], [1 / 3, 1 / 3, 1 / 3]], 0.1)._closest_with_top()
    np.testing.assert_allclose(closest, [[0, 0, 0.2 / 3 + 0.4 / 3], [0, 0, 0]], atol=1e-12)


# Degenerate cases, many classes


@pytest.mark.parametrize("n_classes", [2, 3, 6, 10, 50, pytest.param(100, marks=pytest.mark.slow)])
def test_nothing_breaks_at_the_edges(n_classes):
    rng = np.random.default_rng(n_classes)
    positions = None if n_classes % 3 else tuple(np.cumsum(10.0 ** rng.uniform(-3, 3, n_classes)))
    sets = special_balls(n_classes, positions)
    utility = rng.normal(size=sets.center.shape)
    lower, upper = sets._envelope()
    assert np.all((lower >= 0) & (lower <= sets.center) & (sets.center <= upper) & (upper <= 1))
    value, point = sets._support(utility, True)
    assert_members(sets, point)
    np.testing.assert_allclose((utility * point).sum(axis=1), value, atol=1e-12)
    high, top = sets._max_entropy(True)
    assert_members(sets, top)
    np.testing.assert_allclose(entropy(top), high, atol=1e-12)
    low, least, bottom = sets._min_entropy(True)
    assert_members(sets, bottom)
    np.testing.assert_allclose(entropy(bottom), least, atol=1e-12)
    assert np.all((low >= 0) & (low <= least) & (least <= entropy(sets.center) + 1e-12))
    assert np.all(entropy(sets.center) <= high + 1e-12)
    still = sets.radius == 0
    for points in (point, top, bottom):
        np.testing.assert_allclose(points[still], sets.center[still], atol=1e-15)
    whole = sets.radius > 1e100
    np.testing.assert_allclose(high[whole], np.log(n_classes), rtol=1e-14)
    assert not least[whole].any()
    np.testing.assert_allclose(value[whole], utility[whole].max(axis=1), rtol=1e-14)


def test_places_twelve_orders_of_magnitude_apart():
    """Prices so high that neighbouring masses underflow, next to places that hardly differ."""
    rng = np.random.default_rng(55)
    centers = np.vstack([rng.multinomial(7, np.full(21, 1 / 21), 20) / 7, rng.dirichlet(np.full(21, 0.05), 20)])
    sets = ball(centers, 0.1, tuple(np.cumsum(10.0 ** rng.uniform(-6, 6, 21))))
    value, point = sets._max_entropy(True)
    assert_members(sets, point)
    np.testing.assert_allclose(entropy(point), value, atol=1e-12)
    low, high, least = sets._min_entropy(True)
    assert_members(sets, least)
    assert np.all(low <= high)
    assert np.all(high <= entropy(sets.center) + 1e-12)
    assert np.all(entropy(sets.center) <= value)


def test_negligible_classes_do_not_matter():
    """Many classes of next to no mass: the same least entropy as without them."""
    few = np.random.default_rng(2).dirichlet(np.ones(8), 10)
    many = np.full((10, 40), 1e-25)
    many[:, ::5] = few
    positions = tuple(np.arange(0.0, 40.0, 5.0))
    exact = ball(few, 3.0, positions)._min_entropy(False)[1]
    low, high, point = ball(many, 3.0)._min_entropy(True)
    assert_members(ball(many, 3.0), point)
    assert np.all(low <= exact + 1e-12)
    assert np.all(high >= exact - 1e-12)
    np.testing.assert_allclose(high, exact, atol=1e-12)


def test_a_row_does_not_depend_on_its_batch():
    sets = random_balls(2000, 6, 8)
    whole = [*sets._envelope(), *sets._max_entropy(True), *sets._min_entropy(True), sets._closest_with_top()]
    one = sets[1234]
    alone = [*one._envelope(), *one._max_entropy(True), *one._min_entropy(True), one._closest_with_top()]
    for batch, single in zip(whole, alone, strict=True):
        np.testing.assert_allclose(single[0], batch[1234], rtol=1e-9, atol=1e-12)


@st.composite
def balls(draw: st.DrawFn) -> WassersteinBall:
    n_classes = draw(st.integers(2, 7))
    weights = np.array(draw(st.lists(st.integers(0, 20), min_size=n_classes, max_size=n_classes)), dtype=float)
    weights[draw(st.integers(0, n_classes - 1))] += 1
    gaps = draw(st.lists(st.sampled_from([0.25, 1.0, 1.0, 3.0]), min_size=n_classes - 1, max_size=n_classes - 1))
    radius = draw(st.one_of(st.integers(0, 30).map(lambda i: i / 20), st.floats(0, 3)))
    return ball(weights / weights.sum(), radius, tuple(np.r_[0.0, np.cumsum(gaps)]))


@given(balls(), st.integers(0, 2**32 - 1))
def test_members_never_beat_the_answers(sets, seed):
    rng = np.random.default_rng(seed)
    members = random_members(sets, 50, rng)
    utility = rng.normal(size=sets.center.shape)
    lower, upper = sets._envelope()
    assert np.all(members >= lower[:, None] - 1e-12)
    assert np.all(members <= upper[:, None] + 1e-12)
    assert np.all(members @ utility[0] <= sets._support(utility, False)[0] + 1e-12)
    high, low = sets._max_entropy(False)[0], sets._min_entropy(False)[0]
    assert np.all(entropy(members) <= high + 1e-12)
    assert np.all(entropy(members) >= low - 1e-12)
    if sets.radius[0] > 1e-6:
        corners = sets._vertices()
        assert (corners @ utility[0]).max() == pytest.approx(sets._support(utility, False)[0][0], abs=1e-10)
        assert low[0] == pytest.approx(entropy(corners).min(), abs=1e-10)


@given(balls())
def test_answers_mirror_with_the_line(sets):
    """Reading the classes from right to left changes nothing, though the algorithms all go one way."""
    mirrored = ball(sets.center[:, ::-1], sets.radius, tuple(np.r_[0.0, np.cumsum(sets.gaps[::-1])]))
    for there, back in zip(sets._envelope(), mirrored._envelope(), strict=True):
        np.testing.assert_allclose(there, back[:, ::-1], atol=1e-13)
    np.testing.assert_allclose(sets._max_entropy(False)[0], mirrored._max_entropy(False)[0], rtol=1e-11)
    np.testing.assert_allclose(sets._min_entropy(False)[1], mirrored._min_entropy(False)[1], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(sets._closest_with_top(), mirrored._closest_with_top()[:, ::-1], atol=1e-9)
    if sets.n_classes <= wasserstein_volume.MAX_CLASSES:
        generator = np.random.default_rng(0)
        there, back = sets._log_volume(generator)[0], mirrored._log_volume(generator)[0]
        np.testing.assert_allclose(there, back, rtol=1e-11, atol=1e-12)
