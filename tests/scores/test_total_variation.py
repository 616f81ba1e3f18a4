"""Total-variation balls against brute force: linear programs, Qhull, exact rationals, grids and random members."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from scipy.spatial import ConvexHull, HalfspaceIntersection

from credalset.scores import TotalVariation
from credalset.scores.total_variation import TotalVariationBall, double_double
from credalset.scores.total_variation import volume as total_variation_volume
from credalset.simplex import grid

SOLVER = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
LP_ERROR = 1e-8  # the solver drops coefficients below 1e-9
RADII = (0.0, 1e-12, 1e-6, 0.03, 0.2, 0.5, 0.85, 0.999, 1.0, 1e6)


def ball(center: object, radius: object) -> TotalVariationBall:
    sets = TotalVariation().region(np.atleast_2d(np.asarray(center, dtype=float)), radius)
    assert isinstance(sets, TotalVariationBall)
    return sets


def special_centers(n_classes: int) -> np.ndarray:
    """Uniform, one-hot, zeros, ties, tiny entries, and a few random rows."""
    rng = np.random.default_rng(n_classes)
    half = np.r_[0.5, 0.5, np.zeros(n_classes - 2)]
    tiny = np.r_[1.0, np.full(n_classes - 1, 1e-300)]
    small = np.r_[1.0 - 1e-9 * (n_classes - 1), np.full(n_classes - 1, 1e-9)]
    steps = np.arange(n_classes) / np.arange(n_classes).sum()
    fixed = [np.full(n_classes, 1 / n_classes), np.eye(n_classes)[-1], half, tiny, small, steps]
    return np.vstack([*fixed, rng.dirichlet(np.ones(n_classes), 3), rng.dirichlet(np.full(n_classes, 0.2), 3)])


def special_balls(n_classes: int) -> TotalVariationBall:
    centers = special_centers(n_classes)
    return ball(np.repeat(centers, len(RADII), axis=0), np.tile(RADII, len(centers)))


def random_members(sets: TotalVariationBall, n: int, rng: np.random.Generator) -> np.ndarray:
    """(N, n, K) members: towards random points and corners, as far as the ball goes, halfway, or a little."""
    n_classes = sets.n_classes
    targets = rng.dirichlet(np.full(n_classes, 0.4), (len(sets), n))
    directions = targets - sets.center[:, None]
    distance = 0.5 * np.abs(directions).sum(axis=2)
    reach = np.minimum(1.0, sets.radius[:, None] / np.maximum(distance, 1e-300))
    return sets.center[:, None] + rng.choice([1.0, 0.5, 0.05], (len(sets), n, 1)) * reach[:, :, None] * directions


def entropy(points: np.ndarray) -> np.ndarray:
    safe = np.where(points > 0, points, 1.0)
    return -(points * np.log(safe)).sum(axis=-1)


def assert_members(sets: TotalVariationBall, points: np.ndarray) -> None:
    assert (points >= 0).all()
    np.testing.assert_allclose(points.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    distance = 0.5 * np.abs(points - sets.center).sum(axis=1)
    assert (distance <= sets.radius * (1 + 1e-9) + 1e-12).all()


def linear_program(center: np.ndarray, radius: float, objective: np.ndarray) -> float:
    """min ⟨c, λ⟩ over the ball, with λ = center + gain − loss."""
    n = len(center)
    identity = np.eye(n)
    a_eq = np.vstack([np.hstack([identity, -identity, identity]), np.r_[np.ones(n), np.zeros(2 * n)]])
    solution = linprog(
        np.r_[objective, np.zeros(2 * n)],
        A_ub=np.r_[np.zeros(n), np.ones(n), np.zeros(n)][None],
        b_ub=[min(radius, 2.0)],
        A_eq=a_eq,
        b_eq=np.r_[center, 1.0],
        bounds=[(0, None)] * (3 * n),
        options=SOLVER,
    )
    assert solution.status == 0
    return float(solution.fun)


def exact_fraction(center: np.ndarray, radius: float) -> Fraction:
    """The alternating sum of the module's docstring in exact rational arithmetic; equal subset sums are grouped."""
    n = len(center)
    r = Fraction(float(radius))
    subsets = {(0, Fraction(0)): 1}
    for g in (Fraction(float(g)) for g in center):
        for (size, mass), count in list(subsets.items()):
            if mass + g < r:
                subsets[size + 1, mass + g] = subsets.get((size + 1, mass + g), 0) + count
    denominator = 1
    for _, mass in subsets:
        denominator = max(denominator, mass.denominator)  # powers of two: the largest is a common one
    denominator = max(denominator, r.denominator)
    r_int = int(r * denominator)
    total = Fraction(0)
    for size in range(n):
        weights = [
            sum(
                Fraction(
                    comb(n - size, c - size) * comb(n - c - 1, j),
                    factorial(n - c - 1) * factorial(c - 1) * (n - 1 - j),
                )
                for c in range(max(1, size), n - j)
            )
            for j in range(n)
        ]
        moments = [0] * n
        for (s, mass), count in subsets.items():
            if s == size:
                x = int(mass * denominator)
                rest = r_int - x
                for j in range(n):
                    moments[j] += count * x**j * rest ** (n - 1 - j)
        total += (-1) ** size * sum((w * m for w, m in zip(weights, moments, strict=True)), Fraction(0))
    return total * factorial(n - 1) / Fraction(denominator) ** (n - 1)


def halfspaces(center: np.ndarray, radius: float) -> np.ndarray:
    """Rows (a, b) with a·x + b ≤ 0 for the first K − 1 coordinates x of the members."""
    n = len(center)
    rows = [np.r_[-np.eye(n)[k, :-1], 0.0] for k in range(n - 1)]
    rows.append(np.r_[np.ones(n - 1), -1.0])
    for signs in itertools.product((-1.0, 1.0), repeat=n):
        sign = np.array(signs)
        # Σ sign_k (λ_k − g_k) ≤ 2r with λ_K = 1 − Σ x
        if 0 < (sign > 0).sum() < n:
            rows.append(np.r_[sign[:-1] - sign[-1], sign[-1] - sign @ center - 2 * radius])
    return np.array(rows)


def hull_points(center: np.ndarray, radius: float) -> np.ndarray:
    n = len(center)
    inside = center + 0.5 * min(radius, 1.0) * (1 / n - center)
    return HalfspaceIntersection(halfspaces(center, radius), inside[:-1]).intersections


def distinct(points: np.ndarray, digits: int = 9) -> set[tuple[float, ...]]:
    return {tuple(row) for row in np.round(points, digits) + 0.0}


# --- basics


def test_divergence_is_the_score():
    rng = np.random.default_rng(0)
    sets = ball(rng.dirichlet(np.ones(7), 20), 0.3)
    points = rng.dirichlet(np.ones(7), (20, 11))
    expected = [
        [TotalVariation()(g[None], p[None])[0] for p in row] for g, row in zip(sets.center, points, strict=True)
    ]
    np.testing.assert_allclose(sets._divergence(points), expected, rtol=1e-14)


@pytest.mark.parametrize("n_classes", [2, 3, 4, 6])
def test_envelope_solves_the_linear_programs(n_classes):
    sets = special_balls(n_classes)[::7]
    lower, upper = sets._envelope()
    for i, (g, r) in enumerate(zip(sets.center, sets.radius, strict=True)):
        for k in range(n_classes):
            unit = np.eye(n_classes)[k]
            assert lower[i, k] == pytest.approx(linear_program(g, r, unit), abs=LP_ERROR)
            assert upper[i, k] == pytest.approx(-linear_program(g, r, -unit), abs=LP_ERROR)


@pytest.mark.parametrize("n_classes", [2, 3, 5, 6, 12])
def test_support_solves_the_linear_program(n_classes):
    rng = np.random.default_rng(n_classes)
    sets = special_balls(n_classes)[::2]
    utility = rng.normal(size=sets.center.shape)
    utility[::4] = np.round(utility[::4])  # ties
    value, point = sets._support(utility, True)
    assert point is not None
    assert_members(sets, point)
    np.testing.assert_allclose((utility * point).sum(axis=1), value, rtol=1e-12, atol=1e-13)
    for g, r, u, v in zip(sets.center, sets.radius, utility, value, strict=True):
        assert v == pytest.approx(-linear_program(g, r, -u), abs=LP_ERROR)
    np.testing.assert_array_equal(sets._support(utility, False)[0], value)


def test_support_takes_broadcast_utilities():
    sets = ball(np.random.default_rng(0).dirichlet(np.ones(10), 5000), 0.1)
    u = np.linspace(-1, 1, 10)
    value, _ = sets._support(np.broadcast_to(u, (5000, 10)), False)
    np.testing.assert_array_equal(value, sets._support(np.tile(u, (5000, 1)), False)[0])


def test_ray_length_ends_where_membership_ends():
    rng = np.random.default_rng(3)
    sets = ball(special_centers(5), rng.uniform(0.01, 0.9, len(special_centers(5))))
    directions = rng.normal(size=(len(sets), 30, 5))
    directions -= directions.mean(axis=2, keepdims=True)
    length = sets._ray_length(directions)
    low, high = np.zeros_like(length), np.full_like(length, 100.0)
    for _ in range(100):
        middle = 0.5 * (low + high)
        points = sets.center[:, None] + middle[:, :, None] * directions
        inside = (points >= 0).all(axis=2) & (
            0.5 * np.abs(points - sets.center[:, None]).sum(axis=2) <= sets.radius[:, None]
        )
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    np.testing.assert_allclose(length, low, rtol=1e-9, atol=1e-12)
    assert np.isinf(sets._ray_length(np.zeros((len(sets), 1, 5)))).all()
    assert (ball(np.eye(3)[:1], 0.0)._ray_length(np.array([[[-1.0, 1.0, 0.0]]])) == 0).all()


# --- entropies


@pytest.mark.parametrize("n_classes", [2, 3, 4, 10, 50, 100])
def test_entropy_points_are_members_and_attain_the_bounds(n_classes):
    sets = special_balls(n_classes)
    upper, top = sets._max_entropy(True)
    low, high, bottom = sets._min_entropy(True)
    assert top is not None
    assert bottom is not None
    assert_members(sets, top)
    assert_members(sets, bottom)
    np.testing.assert_allclose(entropy(top), upper, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(entropy(bottom), high, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(low, high)
    assert (low >= 0).all()
    assert (upper <= np.log(n_classes)).all()
    members = random_members(sets, 300, np.random.default_rng(0))
    assert (entropy(members) <= upper[:, None] + 1e-12).all()
    assert (entropy(members) >= low[:, None] - 1e-12).all()
    covers = sets.radius >= 1
    np.testing.assert_array_equal(low[covers], 0.0)
    np.testing.assert_allclose(upper[covers], np.log(n_classes), rtol=1e-15)
    still = sets.radius == 0
    np.testing.assert_array_equal(top[still], sets.center[still])
    np.testing.assert_array_equal(bottom[still], sets.center[still])


@pytest.mark.parametrize("n_classes", [2, 3, 5, 10, 40])
def test_max_entropy_meets_the_kkt_conditions(n_classes):
    """−log λ_k − 1 = μ + ν/2·s_k with s_k the sign of λ_k − g_k (anything in [−1, 1] where equal), ν ≥ 0."""
    sets = special_balls(n_classes)
    _, point = sets._max_entropy(True)
    assert point is not None
    with np.errstate(divide="ignore"):
        gradient = -np.log(point)
    for g, r, p, slope in zip(sets.center, sets.radius, point, gradient, strict=True):
        if r < 1e-6:
            continue
        distance = 0.5 * np.abs(p - g).sum()
        gaining, losing = p > g + 1e-13, p < g - 1e-13
        if distance < r * (1 - 1e-9):  # inside: unconstrained optimum
            np.testing.assert_allclose(p, 1 / n_classes, rtol=1e-12)
            continue
        assert gaining.any()
        assert losing.any()
        assert np.ptp(slope[gaining]) < 1e-8
        assert np.ptp(slope[losing]) < 1e-8
        assert slope[losing].max() <= slope.min() + 1e-8
        assert slope[gaining].min() >= slope.max() - 1e-8


@pytest.mark.parametrize("n_classes", [3, 4, 5, 6])
def test_min_entropy_is_that_of_the_best_vertex(n_classes):
    """Entropy is concave, so its minimum over a polytope is at one of the corners Qhull finds."""
    rng = np.random.default_rng(n_classes)
    centers = rng.dirichlet(np.ones(n_classes), 12)
    radii = rng.uniform(0.02, 0.7, 12)
    low, _, _ = ball(centers, radii)._min_entropy(False)
    for g, r, value in zip(centers, radii, low, strict=True):
        x = hull_points(g, r)
        corners = np.column_stack([x, 1 - x.sum(axis=1)]).clip(0)
        assert value == pytest.approx(entropy(corners).min(), abs=1e-8)


def test_entropy_bounds_on_the_grid():
    points = grid(3, 0.005)
    values = entropy(points)
    sets = ball([[0.7, 0.2, 0.1], [0.34, 0.33, 0.33], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], [0.2, 0.1, 0.3, 0.25])
    upper, (low, _, _) = sets._max_entropy(False)[0], sets._min_entropy(False)
    for i in range(len(sets)):
        inside = values[0.5 * np.abs(points - sets.center[i]).sum(axis=1) <= sets.radius[i] + 1e-12]
        assert inside.max() <= upper[i] + 1e-12
        assert inside.max() == pytest.approx(upper[i], abs=2e-3)
        assert inside.min() >= low[i] - 1e-12
        assert inside.min() == pytest.approx(low[i], abs=0.03)


@pytest.mark.parametrize("n_classes", [3, 6])
def test_local_search_does_not_beat_the_bounds(n_classes):
    rng = np.random.default_rng(n_classes)
    sets = ball(rng.dirichlet(np.ones(n_classes), 4), [0.05, 0.15, 0.3, 0.5])
    upper, (low, _, _) = sets._max_entropy(False)[0], sets._min_entropy(False)
    starts = random_members(sets, 6, rng)
    ones = np.ones(n_classes)
    for i in range(len(sets)):
        g, r = sets.center[i], sets.radius[i]
        constraints = [
            {"type": "eq", "fun": lambda z: z[:n_classes].sum() - 1},
            {"type": "ineq", "fun": lambda z, r=r: r - z[n_classes:].sum() / 2},
            {"type": "ineq", "fun": lambda z, g=g: z[n_classes:] - (z[:n_classes] - g)},
            {"type": "ineq", "fun": lambda z, g=g: z[n_classes:] + (z[:n_classes] - g)},
        ]
        best = {}
        for sign in (1.0, -1.0):
            found = []
            for start in starts[i]:
                solution = minimize(
                    lambda z, sign=sign: sign * entropy(z[:n_classes].clip(1e-300)),
                    np.r_[start, np.abs(start - g)],
                    constraints=constraints,
                    bounds=[(0, 1)] * n_classes + [(0, 1)] * n_classes,
                    method="SLSQP",
                )
                point = solution.x[:n_classes].clip(0)
                point /= point @ ones
                if 0.5 * np.abs(point - g).sum() <= r + 1e-9:
                    found.append(sign * entropy(point))
            best[sign] = sign * min(found)
        assert best[1.0] >= low[i] - 1e-7
        assert best[-1.0] <= upper[i] + 1e-7
        assert best[-1.0] == pytest.approx(upper[i], abs=1e-4)


def test_nearly_certain_sets_keep_their_relative_precision():
    eps = 1e-12
    sets = ball([[1.0 - eps, eps / 2, eps / 2]], [eps / 4])
    low, _, _ = sets._min_entropy(False)
    expected = -(eps / 4) * np.log(eps / 4) - (eps / 2) * np.log(eps / 2) - (1 - 0.75 * eps) * np.log1p(-0.75 * eps)
    np.testing.assert_allclose(low, expected, rtol=1e-12)


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=9).filter(lambda weights: sum(weights) > 0.01),
    st.floats(0, 1.2),
    st.randoms(use_true_random=False),
)
def test_bounds_hold_for_any_center(weights, radius, random):
    g = np.array(weights) / sum(weights)
    sets = ball(g, radius)
    lower, upper = sets._envelope()
    most, (least, _, _) = sets._max_entropy(False)[0], sets._min_entropy(False)
    members = random_members(sets, 50, np.random.default_rng(random.randrange(2**32)))[0]
    assert (members >= lower - 1e-12).all()
    assert (members <= upper + 1e-12).all()
    values = entropy(members.clip(0))
    assert (values <= most + 1e-9).all()
    assert (values >= least - 1e-9).all()


# --- volume


def exact_cases(n_classes: int) -> list[tuple[np.ndarray, float]]:
    """Centres on a fine binary grid (so that exact arithmetic is quick), with zeros, ties and tiny entries."""
    rng = np.random.default_rng(100 + n_classes)
    centers = [np.eye(n_classes)[0], special_centers(n_classes)[3], special_centers(n_classes)[4]]
    centers.append(np.full(n_classes, 1 / n_classes))
    for concentration in (0.1, 1.0):
        weights = np.floor(rng.dirichlet(np.full(n_classes, concentration)) * 2**20)
        weights[np.argmax(weights)] += 2**20 - weights.sum()
        centers.append(weights / 2**20)
    few = n_classes > 12
    return [(g, r) for g in centers for r in ((1e-6, 0.4, 0.97) if few else (1e-6, 0.05, 0.3, 0.7, 0.97))]


@pytest.mark.parametrize("n_classes", [*range(2, 13), *(pytest.param(k, marks=pytest.mark.slow) for k in (13, 14, 15))])
def test_volume_is_right_to_the_last_digits(n_classes):
    cases = [(g, r) for g, r in exact_cases(n_classes) if r < 1 - g.min()]
    centers, radii = np.array([g for g, _ in cases]), np.array([r for _, r in cases])
    ratio = total_variation_volume._volume_over_power(centers, radii)
    logs = total_variation_volume.log_fraction(centers, radii)
    for (g, r), value, log in zip(cases, ratio, logs, strict=True):
        exact = _exact_cached(tuple(g), r)
        assert abs(Fraction(float(value)) * Fraction(r) ** (n_classes - 1) / exact - 1) < 1e-15
        assert log == pytest.approx(float(np.log(float(exact))), rel=1e-13, abs=1e-13)


_EXACT: dict[tuple[tuple[float, ...], float], Fraction] = {}


def _exact_cached(center: tuple[float, ...], radius: float) -> Fraction:
    if (center, radius) not in _EXACT:
        _EXACT[center, radius] = exact_fraction(np.array(center), radius)
    return _EXACT[center, radius]


@pytest.mark.parametrize("n_classes", [3, 4, 5, 6])
def test_volume_is_that_of_the_polytope(n_classes):
    rng = np.random.default_rng(n_classes)
    centers = np.vstack([rng.dirichlet(np.ones(n_classes), 6), special_centers(n_classes)[[0, 1, 2]]])
    radii = rng.uniform(0.05, 0.8, len(centers))
    logs, error, how = ball(centers, radii)._log_volume(rng)
    assert how == "exact"
    assert (error == 0).all()
    for g, r, log in zip(centers, radii, logs, strict=True):
        hull = ConvexHull(hull_points(g, r), qhull_options="QJ Pp")
        assert np.exp(log) == pytest.approx(hull.volume * factorial(n_classes - 1), rel=1e-6)


def test_volume_for_two_classes_is_the_length():
    g = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
    for r in (1e-9, 0.2, 0.45, 0.95):
        logs, _, _ = ball(np.column_stack([g, 1 - g]), r)._log_volume(np.random.default_rng(0))
        np.testing.assert_allclose(np.exp(logs), np.minimum(g, r) + np.minimum(1 - g, r), rtol=1e-14)


@pytest.mark.parametrize(("n_classes", "radius"), [(8, 0.45), (15, 0.55)])
def test_volume_agrees_with_monte_carlo(n_classes, radius):
    rng = np.random.default_rng(n_classes)
    g = rng.dirichlet(np.ones(n_classes))
    n = 200_000
    hits = (0.5 * np.abs(rng.dirichlet(np.ones(n_classes), n) - g).sum(axis=1) <= radius).mean()
    value = float(np.exp(ball(g, radius)._log_volume(rng)[0][0]))
    assert 0.01 < value < 0.99
    assert abs(hits - value) < 5 * np.sqrt(value * (1 - value) / n)


def test_volume_at_the_ends():
    rng = np.random.default_rng(0)
    sets = special_balls(6)
    logs, _, _ = sets._log_volume(rng)
    assert (logs[sets.radius == 0] == -np.inf).all()
    assert (logs[sets.radius >= 1] == 0).all()
    assert (logs <= 0).all()
    assert not np.isnan(logs).any()
    smallest, _, _ = ball(np.full((1, 15), 1 / 15), 1e-300)._log_volume(rng)
    assert smallest[0] == pytest.approx(14 * np.log(1e-300) + np.log(comb(28, 14)), rel=1e-14)
    assert ball(np.full((1, 16), 1 / 16), 0.1)._log_volume(rng) is None
    with pytest.raises(ValueError, match="at most 15 classes"):
        total_variation_volume.log_fraction(np.full((1, 16), 1 / 16), np.array([0.1]))
    # just short of everything: what is missing is the corner of the smallest class
    g = np.array([[0.2, 0.3, 0.5]])
    log, _, _ = ball(g, 0.8 - 1e-3)._log_volume(rng)
    assert -np.expm1(log[0]) == pytest.approx(1e-6, rel=1e-9)


def test_double_double_keeps_thirty_digits():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 50))
    a_low, b_low = a * rng.normal(size=50) * 1e-17, b * rng.normal(size=50) * 1e-17
    for name, exact in (("add", lambda x, y: x + y), ("multiply", lambda x, y: x * y)):
        head, tail = getattr(double_double, name)(a, a_low, b, b_low)
        for i in range(50):
            x, y = Fraction(a[i]) + Fraction(a_low[i]), Fraction(b[i]) + Fraction(b_low[i])
            scale = abs(x) + abs(y) if name == "add" else abs(x * y)
            assert abs(Fraction(head[i]) + Fraction(tail[i]) - exact(x, y)) < scale * Fraction(1, 10**30)
    head, tail = double_double.divide(np.abs(a), np.abs(b))
    for i in range(50):
        quotient = abs(Fraction(a[i])) / abs(Fraction(b[i]))
        assert abs(Fraction(head[i]) + Fraction(tail[i]) - quotient) < quotient * Fraction(1, 10**30)


# --- vertices


def permutation_vertices(center: np.ndarray, radius: float) -> set[tuple[float, ...]]:
    """Marginal vectors of the lower probability, one per permutation."""
    n = len(center)
    points = []
    for order in itertools.permutations(range(n)):
        lower = np.maximum(0.0, np.cumsum(center[list(order)]) - radius)
        lower[-1] = 1.0
        point = np.empty(n)
        point[list(order)] = np.diff(lower, prepend=0.0)
        points.append(point)
    return distinct(np.array(points))


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 6])
def test_vertices_are_the_marginal_vectors(n_classes):
    centers = np.vstack([special_centers(n_classes)[[0, 1, 2, 5, 6, 7, 9]], np.eye(n_classes)[0]])
    for g in centers:
        for r in (0.05, 0.2, 1 / 3, 0.5, 0.75, 1.0):
            found = ball(g, r)._vertices()
            assert len(distinct(found)) == len(found)
            assert distinct(found) == permutation_vertices(g, r)
            np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=0, atol=1e-14)
            assert (0.5 * np.abs(found - g).sum(axis=1) <= r + 1e-12).all()


@pytest.mark.parametrize("n_classes", [3, 4, 5, 6])
def test_vertices_are_those_of_the_halfspace_intersection(n_classes):
    rng = np.random.default_rng(n_classes)
    for g in [*rng.dirichlet(np.ones(n_classes), 5), np.eye(n_classes)[0], np.full(n_classes, 1 / n_classes)]:
        for r in (0.11, 0.37, 0.8):
            x = hull_points(g, r)
            expected = distinct(np.column_stack([x, 1 - x.sum(axis=1)]), 7)
            assert distinct(ball(g, r)._vertices(), 7) == expected


def test_vertices_in_the_degenerate_cases():
    np.testing.assert_array_equal(ball([[0.2, 0.3, 0.5]], 0.0)._vertices(), [[0.2, 0.3, 0.5]])
    assert distinct(ball([[0.2, 0.3, 0.5]], 1e3)._vertices()) == distinct(np.eye(3))
    # 0.1 + 0.2 is not 0.3 in binary, yet the corner counts once
    assert len(ball([[0.1, 0.2, 0.7]], 0.3)._vertices()) == len(permutation_vertices(np.array([0.1, 0.2, 0.7]), 0.3))
    assert len(ball(np.full((1, 50), 0.02), 0.01)._vertices()) == 50 * 49
    with pytest.raises(ValueError, match="more than 1000000 vertices"):
        ball(np.full((1, 50), 0.02), 0.3)._vertices()


# --- Hartley measure, top classes


def naive_hartley(center: np.ndarray, radius: float) -> float:
    n = len(center)
    events = [[k for k in range(n) if event >> k & 1] for event in range(1 << n)]
    lower = [max(0.0, center[event].sum() - radius) if event else 0.0 for event in events]
    lower[-1] = 1.0
    total = 0.0
    for a in range(1, 1 << n):
        mass = sum((-1) ** (a ^ b).bit_count() * lower[b] for b in range(1 << n) if b & a == b)
        total += mass * np.log2(a.bit_count())
    return total


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 6])
def test_hartley_measure_is_the_moebius_sum(n_classes):
    sets = special_balls(n_classes)[::3]
    expected = [naive_hartley(g, r) for g, r in zip(sets.center, sets.radius, strict=True)]
    np.testing.assert_allclose(sets._generalized_hartley(), expected, rtol=1e-10, atol=1e-12)


def test_hartley_measure_at_the_ends():
    for n_classes in (2, 9, 15):
        sets = special_balls(n_classes)
        value = sets._generalized_hartley()
        np.testing.assert_array_equal(value[sets.radius == 0], 0.0)
        np.testing.assert_allclose(value[sets.radius >= 1], np.log2(n_classes), rtol=1e-13)
        assert (np.diff(value.reshape(-1, len(RADII)), axis=1) >= -1e-13).all()
    with pytest.raises(ValueError, match="at most 15 classes"):
        ball(np.full((1, 16), 1 / 16), 0.1)._generalized_hartley()


def test_small_hartley_measures_keep_their_relative_precision():
    """Below the smallest positive probability the measure is linear in the radius."""
    g = np.random.default_rng(0).dirichlet(np.full(15, 5.0), 4)
    tiny, small = ball(g, 1e-12)._generalized_hartley(), ball(g, 1e-4)._generalized_hartley()
    np.testing.assert_allclose(tiny * 1e8, small, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 5, 8])
def test_closest_with_top_solves_the_linear_program(n_classes):
    """min d with λ_a ≥ λ_b for all b: minimise the gain over a ball of radius two."""
    centers = special_centers(n_classes)
    found = ball(centers, 0.1)._closest_with_top()
    n = n_classes
    identity = np.eye(n)
    for g, row in zip(centers, found, strict=True):
        for a in range(n):
            dominated = np.array([identity[b] - identity[a] for b in range(n) if b != a])
            solution = linprog(
                np.r_[np.zeros(n), np.ones(n), np.zeros(n)],
                A_ub=np.hstack([dominated, np.zeros((n - 1, 2 * n))]),
                b_ub=np.zeros(n - 1),
                A_eq=np.vstack([np.hstack([identity, -identity, identity]), np.r_[np.ones(n), np.zeros(2 * n)]]),
                b_eq=np.r_[g, 1.0],
                options=SOLVER,
            )
            assert solution.status == 0
            assert row[a] == pytest.approx(solution.fun, abs=LP_ERROR)


def test_the_largest_classes_are_on_top_already():
    for n_classes in (3, 6, 7, 10, 33):
        distance = ball(special_centers(n_classes), 0.0)._closest_with_top()
        largest = special_centers(n_classes) == special_centers(n_classes).max(axis=1, keepdims=True)
        np.testing.assert_array_equal(distance == 0, largest)


def test_a_row_does_not_depend_on_its_neighbours():
    rng = np.random.default_rng(0)
    sets = ball(rng.dirichlet(np.ones(10), 30_000), rng.uniform(0, 0.5, 30_000))
    part = sets[20_000:20_010]
    np.testing.assert_allclose(sets._max_entropy(False)[0][20_000:20_010], part._max_entropy(False)[0], rtol=1e-12)
    np.testing.assert_allclose(sets._min_entropy(False)[0][20_000:20_010], part._min_entropy(False)[0], rtol=1e-12)
    np.testing.assert_array_equal(sets._envelope()[0][20_000:20_010], part._envelope()[0])
    np.testing.assert_allclose(sets._generalized_hartley()[20_000:20_010], part._generalized_hartley(), rtol=1e-12)
