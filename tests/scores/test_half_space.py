"""The half-space region against independent oracles: linear programmes, Qhull, exact arithmetic, grids, dual bounds."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize, minimize_scalar
from scipy.spatial import ConvexHull, HalfspaceIntersection
from scipy.special import logsumexp, xlogy

from credalset.scores import InnerProduct, Normalized
from credalset.scores.inner_product import geometry as half_space
from credalset.scores.inner_product import volume as half_space_volume
from credalset.simplex import grid

TINY = np.nextafter(0.5, 1.0) - 0.5


def regions(g, radius):
    g = np.atleast_2d(np.asarray(g, dtype=float))
    return InnerProduct().region(g, np.broadcast_to(np.asarray(radius, dtype=float), len(g)))


def random_batch(n_sets, n_classes, seed, concentration=0.5):
    """Non-empty sets from nearly a corner to nearly everything."""
    rng = np.random.default_rng(seed)
    g = rng.dirichlet(np.full(n_classes, concentration), n_sets)
    g /= g.sum(axis=1, keepdims=True)
    level = g.min(axis=1) + (g.max(axis=1) - g.min(axis=1)) * rng.beta(0.7, 0.7, n_sets)
    return regions(g, 1.0 - level)


def entropy(points):
    return -xlogy(points, points).sum(axis=-1)


def exact_margins(g, radius):
    return [Fraction(float(p)) + Fraction(float(radius)) - 1 for p in g]


def assert_members(sets, points):
    """Rows of ``points`` lie on the simplex and in the set of the same row."""
    assert points.shape == sets.center.shape
    assert np.all(points >= 0.0)
    np.testing.assert_allclose(points.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    divergence = sets._divergence(points[:, None, :])[:, 0]
    assert np.all(divergence <= sets.radius * (1 + 1e-9) + 1e-12)


def maximum_by_lp(center, radius, utility, a_ub=None, b_ub=None):
    """Max ⟨u, λ⟩ over the half-space, or over the simplex with the given constraints, by HiGHS."""
    if a_ub is None:
        a_ub, b_ub = -center[None], [radius - 1.0]
    found = linprog(-utility, A_ub=a_ub, b_ub=b_ub, A_eq=np.ones((1, len(utility))), b_eq=[1.0], bounds=(0, 1))
    assert found.status == 0, found.message
    return -found.fun


# The batches below hold, row by row, the corner cases of the region. All rows are non-empty and have a finite radius.
THIRD = 1.0 / 3.0
DEGENERATE = {
    "radius 0 at a one-hot centre": ([1.0, 0.0, 0.0, 0.0], 0.0),
    "tiny radius at a one-hot centre": ([0.0, 1.0, 0.0], 1e-12),
    "everything but a corner": ([1.0, 0.0, 0.0], 1.0 - 1e-15),
    "whole simplex, exactly": ([1.0, 0.0, 0.0], 1.0),
    "whole simplex, generously": ([0.2, 0.3, 0.5], 7.0),
    "whole simplex, enormous radius": ([0.2, 0.3, 0.5], 1e308),
    "uniform centre on the plane": ([0.25] * 4, 0.75),
    "uniform centre inside": ([0.25] * 4, 0.8),
    "uniform thirds, rounded": ([THIRD] * 3, 1.0 - THIRD),
    "only the best corner": ([0.5, 0.25, 0.25], 0.5),
    "only the face of two tied corners": ([0.375, 0.375, 0.25], 0.625),
    "corner on the plane beside one inside": ([0.5, 0.25, 0.125, 0.125], 0.75),
    "ties inside and outside": ([0.3, 0.3, 0.1, 0.1, 0.1, 0.1], 0.75),
    "two classes": ([0.7, 0.3], 0.5),
    "two classes, one-hot": ([1.0, 0.0], 0.25),
    "two classes, touching": ([0.5, 0.5], 0.5),
    "entries far below rounding": ([1.0 - 1e-15, 1e-15, 1e-300, 0.0], 1e-12),
    "entries far below rounding, wide": ([1.0, 1e-300, 1e-310, 0.0], 1.0 - TINY),
    "nearly touching": ([0.5, 0.3, 0.2], np.nextafter(0.5, 1.0)),
    "touching up to rounding": ([0.4, 0.3, 0.3], np.nextafter(0.6, 0.0)),
    "near tie across the plane": ([0.25 + TINY, 0.25 - TINY, 0.5], 0.75),
    "near tie on top": ([0.375 + TINY, 0.375 - TINY, 0.25], 0.625),
    "fifty classes": (np.r_[0.5, np.full(49, 0.5 / 49)], 0.75),
    "hundred classes, one-hot": (np.eye(100)[7], 1e-12),
}
degenerate = pytest.mark.parametrize("case", DEGENERATE.values(), ids=DEGENERATE.keys())


class TestMargins:
    def test_right_to_the_last_bit(self):
        sets = random_batch(300, 6, seed=1)
        radius = sets.radius.copy()
        radius[::3] = 1.0 - sets.center[::3, 2] + 1e-14  # margins that plain subtraction gets wrong
        margin = half_space.margins(sets.center, radius)
        for row, g, r in zip(margin, sets.center, radius, strict=True):
            for got, want in zip(row, exact_margins(g, r), strict=True):
                if abs(want) > 2.0**-53:
                    assert abs(Fraction(float(got)) - want) <= abs(want) * Fraction(2) ** -51

    def test_sides_agree_with_the_score(self):
        rng = np.random.default_rng(2)
        g = rng.dirichlet(np.ones(5), 2000)
        radius = (1.0 - g.max(axis=1)) + rng.integers(0, 3, 2000) * 2.0**-54
        inside_by_score = InnerProduct().region(g, radius).contains(np.eye(5), broadcast=True)
        margin = half_space.margins(g, radius)
        assert not np.any(inside_by_score & (margin < 0.0))
        assert not np.any(~inside_by_score & (margin > 0.0))

    def test_plane_beyond_the_best_corner_is_moved_to_touch_it(self):
        g = np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2]])
        margin = half_space.margins(g, np.array([np.nextafter(0.5, 0.0), np.nextafter(0.6, 0.0) - 2**-53]))
        assert margin.max(axis=1).tolist() == [0.0, 0.0]
        assert (margin == 0.0).sum(axis=1).tolist() == [1, 2]


class TestEnvelope:
    @pytest.mark.parametrize("n_classes", [2, 3, 6])
    def test_against_linear_programmes(self, n_classes):
        sets = random_batch(25, n_classes, seed=n_classes)
        lower, upper = sets._envelope()
        for i in range(len(sets)):
            for k, e in enumerate(np.eye(n_classes)):
                assert upper[i, k] == pytest.approx(maximum_by_lp(sets.center[i], sets.radius[i], e), abs=1e-9)
                assert lower[i, k] == pytest.approx(-maximum_by_lp(sets.center[i], sets.radius[i], -e), abs=1e-9)

    def test_agrees_with_the_support_function_in_many_classes(self):
        sets = random_batch(40, 50, seed=3)
        lower, upper = sets._envelope()
        for k, e in enumerate(np.eye(50)):
            utility = np.broadcast_to(e, (40, 50))
            np.testing.assert_allclose(upper[:, k], sets._support(utility, False)[0], rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(lower[:, k], -sets._support(-utility, False)[0], rtol=1e-12, atol=1e-15)


class TestSupport:
    @pytest.mark.parametrize("n_classes", [2, 3, 6, 20])
    def test_against_linear_programmes(self, n_classes):
        sets = random_batch(60, n_classes, seed=10 + n_classes)
        utility = np.random.default_rng(4).normal(size=sets.center.shape)
        values, points = sets._support(utility, True)
        assert_members(sets, points)
        np.testing.assert_allclose((points * utility).sum(axis=1), values, rtol=1e-12, atol=1e-14)
        for i in range(len(sets)):
            best = maximum_by_lp(sets.center[i], sets.radius[i], utility[i])
            assert values[i] == pytest.approx(best, abs=1e-8)

    @pytest.mark.parametrize("n_classes", [3, 10, 60])
    def test_is_the_best_vertex(self, n_classes):
        sets = random_batch(80, n_classes, seed=20 + n_classes)
        utility = np.random.default_rng(5).integers(-2, 3, size=sets.center.shape).astype(float)  # many ties
        values, _ = sets._support(utility, False)
        for i in range(len(sets)):
            assert values[i] == pytest.approx((sets[i]._vertices() @ utility[i]).max(), rel=1e-12, abs=1e-13)

    def test_utility_along_the_normal(self):
        sets = random_batch(50, 8, seed=6)
        values, _ = sets._support(-sets.center, False)
        np.testing.assert_allclose(-values, 1.0 - sets.radius, rtol=1e-12)


class TestMaxEntropy:
    @pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
    def test_optimality_conditions(self, n_classes):
        sets = random_batch(200, n_classes, seed=30 + n_classes)
        values, points = sets._max_entropy(True)
        assert_members(sets, points)
        np.testing.assert_allclose(entropy(points), values, rtol=1e-12, atol=1e-14)
        slack = sets.radius - sets._divergence(points[:, None, :])[:, 0]
        for p, g, s in zip(points, sets.center, slack, strict=True):
            assert np.all(p > 0.0)
            # log λ_k = β g_k + constant with β ≥ 0, and β = 0 unless the constraint holds with equality
            design = np.stack([g, np.ones_like(g)], axis=1)
            weight = np.sqrt(p)[:, None]
            (beta, constant), *_ = np.linalg.lstsq(design * weight, np.log(p) * weight[:, 0], rcond=None)
            assert np.max(np.abs(p * (np.log(p) - beta * g - constant))) < 1e-8
            assert beta >= -1e-8
            assert abs(beta * s) < 1e-8

    @pytest.mark.parametrize("n_classes", [2, 5, 40])
    def test_meets_the_dual_bound(self, n_classes):
        """Any β ≥ 0 bounds the entropy of every member by log Σ exp(β d_k)."""
        sets = random_batch(60, n_classes, seed=40 + n_classes)
        values, _ = sets._max_entropy(False)
        for value, g, r in zip(values, sets.center, sets.radius, strict=True):
            d = g + r - 1.0
            bound = minimize_scalar(lambda t, d=d: logsumexp(np.exp(t) * d), bounds=(-20, 12), method="bounded").fun
            assert value <= bound + 1e-12
            assert value == pytest.approx(min(bound, np.log(n_classes)), abs=1e-7)

    def test_against_a_grid(self):
        points = grid(3, 0.005)
        sets = random_batch(40, 3, seed=7)
        values, _ = sets._max_entropy(False)
        inside = sets.contains(points, broadcast=True)
        best = np.where(inside, entropy(points), -np.inf).max(axis=1)
        assert np.all(values >= best - 1e-12)
        enough = inside.sum(axis=1) > 50
        np.testing.assert_allclose(values[enough], best[enough], atol=0.03)

    def test_against_slsqp(self):
        sets = random_batch(12, 5, seed=8)
        values, _ = sets._max_entropy(False)
        for value, g, r in zip(values, sets.center, sets.radius, strict=True):
            start = np.eye(5)[g.argmax()] * 0.9 + 0.02
            found = minimize(
                lambda p: xlogy(p, p).sum(),
                start,
                jac=lambda p: np.log(np.maximum(p, 1e-300)) + 1.0,
                bounds=[(1e-12, 1)] * 5,
                constraints=[
                    {"type": "eq", "fun": lambda p: p.sum() - 1.0},
                    {"type": "ineq", "fun": lambda p, g=g, r=r: p @ g + r - 1.0},
                ],
                options={"ftol": 1e-12, "maxiter": 500},
            )
            assert value == pytest.approx(-found.fun, abs=1e-5)

    def test_tiny_entropy_keeps_its_digits(self):
        # K = 2: λ_2 = d_1/(d_1 − d_2) exactly
        g, r = np.array([[1.0, 0.0]]), np.array([1e-14])
        p = Fraction(1e-14)
        expected = float(p) * (1.0 - np.log(float(p)))
        assert regions(g, r)._max_entropy(False)[0][0] == pytest.approx(expected, rel=1e-12)

    def test_near_degenerate_planes_converge(self):
        rng = np.random.default_rng(9)
        g = rng.dirichlet(np.full(6, 0.4), 3000)
        g[:, 1] = g[:, 0] + rng.integers(-3, 4, 3000) * 2.0**-53  # ties up to rounding
        g[g < 0.0] = 0.0
        g /= g.sum(axis=1, keepdims=True)
        radius = (1.0 - g.max(axis=1)) * (1.0 + 10.0 ** rng.uniform(-16, -1, 3000))
        sets = regions(g, radius)
        values, points = sets._max_entropy(True)
        assert_members(sets, points)
        np.testing.assert_allclose(entropy(points), values, rtol=1e-9, atol=1e-14)
        margin = half_space.margins(sets.center, sets.radius)
        binding = values < np.log(6) - 1e-9
        residual = np.abs((points * margin).sum(axis=1))[binding]
        assert np.all(residual <= 1e-14)


def test_min_entropy_is_zero_at_a_member_corner():
    sets = random_batch(50, 4, seed=11)
    low, high, points = sets._min_entropy(True)
    assert not low.any()
    assert not high.any()
    assert_members(sets, points)
    assert np.all(sets.contains(points))
    assert np.all(points.max(axis=1) == 1.0)


def log_fraction_by_partial_fractions(margin, digits):
    """Σ_{d_i > 0} d_i^{K−1} / Π_{j≠i} (d_i − d_j): another formula, far from stable, in very long decimals."""
    with localcontext() as context:
        context.prec = digits
        d = [Decimal(m.numerator) / Decimal(m.denominator) for m in margin]
        total = Decimal(0)
        for i, a in enumerate(d):
            if a > 0:
                product = Decimal(1)
                for j, b in enumerate(d):
                    if j != i:
                        product *= a - b
                total += a ** (len(d) - 1) / product
        return float(total.ln()), float((1 - total).ln()) if total < 1 else -np.inf


def separated(margin, step):
    """Pull ties apart by a relative amount far below double precision."""
    return [m * (1 + k * step) + k * step * Fraction(1, 10**20) for k, m in enumerate(margin)]


class TestVolume:
    @pytest.mark.parametrize("n_classes", [2, 3, 5, 12])
    def test_against_exact_rational_arithmetic(self, n_classes):
        sets = random_batch(60, n_classes, seed=50 + n_classes)
        got, error, how = sets._log_volume(np.random.default_rng(0))
        assert how == "exact"
        assert not error.any()
        for value, g, r in zip(got, sets.center, sets.radius, strict=True):
            d = exact_margins(g, r)
            total = Fraction(0)
            for i, a in enumerate(d):
                if a > 0:
                    product = Fraction(1)
                    for j, b in enumerate(d):
                        product *= a - b if j != i else 1
                    total += a ** (n_classes - 1) / product
            exact = float(total)
            assert np.exp(value) == pytest.approx(exact, rel=1e-12)
            assert -np.expm1(value) == pytest.approx(float(1 - total), rel=1e-10)

    @pytest.mark.parametrize("n_inside", [1, 2, 7, 40, 98])
    def test_hundred_classes(self, n_inside):
        g = np.random.default_rng(n_inside).dirichlet(np.ones(100))
        r = 1.0 - np.sort(g)[::-1][n_inside - 1 : n_inside + 1].mean()
        got = regions(g, r)._log_volume(np.random.default_rng(0))[0][0]
        expected, complement = log_fraction_by_partial_fractions(exact_margins(g, r), digits=600)
        assert got == pytest.approx(expected, abs=1e-11)
        if expected > -0.5:
            assert np.log(-np.expm1(got)) == pytest.approx(complement, abs=1e-9)

    @pytest.mark.parametrize("n_inside", [2, 10])
    def test_thousand_classes(self, n_inside):
        g = np.random.default_rng(n_inside).dirichlet(np.full(1000, 0.5))
        r = 1.0 - np.sort(g)[::-1][n_inside - 1 : n_inside + 1].mean()
        expected, _ = log_fraction_by_partial_fractions(exact_margins(g, r), digits=1500)
        assert expected < -700.0  # below the smallest double
        assert regions(g, r)._log_volume(np.random.default_rng(0))[0][0] == pytest.approx(expected, abs=1e-9)

    def test_thousand_classes_one_corner_inside(self):
        """The set is a simplex: the fraction is the product of the crossings' shares."""
        g = np.r_[0.6, np.full(999, 0.4 / 999)]
        d = exact_margins(g, 0.41)
        expected = sum(float(np.log(float(d[0] / (d[0] - b)))) for b in d[1:])
        got = regions(g, 0.41)._log_volume(np.random.default_rng(0))[0][0]
        assert expected < -3000
        assert got == pytest.approx(expected, rel=1e-13)

    def test_ties(self):
        rng = np.random.default_rng(12)
        for n_classes in (4, 9):
            counts = rng.integers(0, 3, size=(12, n_classes)) + np.eye(n_classes)[0]
            g = counts / counts.sum(axis=1, keepdims=True)
            for row in g:
                for level in (0.5 * row.max(), row.max() - 1e-9, np.unique(row)[:2].mean()):
                    if not row.min() < level < row.max():
                        continue
                    got = regions(row, 1.0 - level)._log_volume(rng)[0][0]
                    d = separated(exact_margins(row, 1.0 - level), Fraction(1, 10**30))
                    assert got == pytest.approx(log_fraction_by_partial_fractions(d, digits=700)[0], abs=1e-12)

    def test_nearly_equal_values(self):
        g = np.full(12, 1.0 / 12) + np.linspace(-5, 5, 12) * 2.0**-52
        r = 1.0 - (1.0 / 12 + 2.0**-53)
        d = half_space.margins(g[None], np.array([r]))[0]
        assert (d > 0).any()
        assert (d < 0).any()
        expected = log_fraction_by_partial_fractions(
            separated([Fraction(float(v)) for v in d], Fraction(1, 10**40)), digits=900
        )[0]
        got = regions(g, r)._log_volume(np.random.default_rng(0))[0][0]
        assert got == pytest.approx(expected, abs=1e-12)

    def test_corners_on_the_plane_do_not_count(self):
        without = regions([[0.5, 0.125, 0.375]], 0.75)._log_volume(np.random.default_rng(0))[0]
        # the same margins (0.25, −0.125, 0.125) and two zeros
        margin = np.array([[0.25, 0.0, -0.125, 0.0, 0.125]])
        np.testing.assert_allclose(half_space_volume._log_fraction(margin), without, rtol=1e-15)

    def test_against_monte_carlo(self):
        rng = np.random.default_rng(13)
        sets = random_batch(20, 7, seed=13)
        points = rng.dirichlet(np.ones(7), 100_000)
        share = (points @ sets.center.T >= 1.0 - sets.radius).mean(axis=0)
        fraction = np.exp(sets._log_volume(rng)[0])
        assert np.all(np.abs(share - fraction) <= 5.0 * np.sqrt(fraction * (1 - fraction) / 100_000) + 1e-4)
        assert np.all((fraction >= 0.0) & (fraction <= 1.0))

    def test_area_of_the_polygon(self):
        for single in random_batch(30, 3, seed=14):
            hull = ConvexHull(single._vertices()[:, :2])
            assert np.exp(single._log_volume(np.random.default_rng(0))[0][0]) == pytest.approx(
                2 * hull.volume, rel=1e-9
            )


class TestVertices:
    @pytest.mark.parametrize("n_classes", [3, 4, 6])
    def test_against_qhull(self, n_classes):
        for single in random_batch(15, n_classes, seed=60 + n_classes, concentration=2.0):
            found = single._vertices()
            # the region in the first K − 1 coordinates, a·p + c ≤ 0
            g, free = single.center[0], n_classes - 1
            halfspaces = np.vstack(
                [
                    np.c_[-np.eye(free), np.zeros(free)],
                    np.r_[np.ones(free), -1.0],
                    np.r_[g[-1] - g[:-1], 1.0 - single.radius[0] - g[-1]],
                ]
            )
            interior = found.mean(axis=0)[:-1]
            expected = np.unique(HalfspaceIntersection(halfspaces, interior).intersections.round(9), axis=0)
            got = np.unique(found[:, :-1].round(9), axis=0)
            assert len(got) == len(found)
            np.testing.assert_allclose(got + 0.0, expected + 0.0, atol=2e-9)

    def test_corners_on_the_plane_appear_once(self):
        found = regions([[0.5, 0.25, 0.125, 0.125]], 0.75)._vertices()
        expected = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [1 / 3, 0, 2 / 3, 0], [1 / 3, 0, 0, 2 / 3]])
        np.testing.assert_allclose(found, expected, rtol=1e-15)

    def test_every_direction_is_maximised_by_a_vertex(self):
        rng = np.random.default_rng(15)
        for single in random_batch(10, 5, seed=15):
            found = single._vertices()
            assert_members(single[np.zeros(len(found), dtype=int)], found)
            for utility in rng.normal(size=(10, 5)):
                best = maximum_by_lp(single.center[0], single.radius[0], utility)
                assert (found @ utility).max() == pytest.approx(best, abs=1e-8)


class TestSample:
    @pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
    def test_smaller_sets_get_their_share(self, n_classes):
        """A set with the same centre and half the volume, and one with a tenth, receive that share of the draws."""
        n = 400
        sets = random_batch(40, n_classes, seed=70 + n_classes, concentration=1.0)
        points = sets._sample(n, np.random.default_rng(16))
        assert points.shape == (40, n, n_classes)
        assert np.all(points >= 0.0)
        np.testing.assert_allclose(points.sum(axis=2), 1.0, atol=1e-12)
        divergence = sets._divergence(points)
        assert np.all(divergence <= sets.radius[:, None] * (1 + 1e-9) + 1e-12)
        smallest = 1.0 - sets.center.max(axis=1)
        for part in (0.5, 0.9, 0.97):
            inner = smallest + part * (sets.radius - smallest)
            share = np.exp(half_space_volume.log_fraction(sets.center, inner) - sets._log_volume(None)[0])
            inside = (divergence <= inner[:, None]).sum(axis=1)
            assert np.all(np.abs(inside - n * share) <= 5.0 * np.sqrt(n * share * (1 - share)) + 1.0)
            total = inside.sum() - n * share.sum()
            assert abs(total) <= 4.0 * np.sqrt(n * (share * (1 - share)).sum()) + 1.0

    def test_moments_against_rejection(self):
        rng = np.random.default_rng(17)
        sets = random_batch(6, 4, seed=18, concentration=1.5)
        everywhere = rng.dirichlet(np.ones(4), 200_000)
        for i, single in enumerate(sets):
            kept = everywhere[everywhere @ single.center[0] >= 1.0 - single.radius[0]]
            if len(kept) < 5000:
                continue
            drawn = single._sample(20_000, np.random.default_rng(i))[0]
            for moment in (lambda p: p, np.square, lambda p: p[:, :1] * p[:, 1:]):
                a, b = moment(kept), moment(drawn)
                spread = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
                assert np.all(np.abs(a.mean(axis=0) - b.mean(axis=0)) <= 5.0 * spread)

    def test_mean_of_a_tiny_simplex(self):
        """One corner inside: the set is the simplex of that corner and the crossings, its mean their average."""
        single = regions(np.r_[0.5, np.full(39, 0.5 / 39)], 0.51)
        vertices = single._vertices()
        points = single._sample(20_000, np.random.default_rng(19))[0]
        spread = points.std(axis=0) / np.sqrt(20_000)
        assert np.all(np.abs(points.mean(axis=0) - vertices.mean(axis=0)) <= 5.0 * spread)

    def test_draws_come_in_chunks(self, monkeypatch):
        sets = random_batch(50, 12, seed=20)
        monkeypatch.setattr(half_space_volume, "DRAWS_PER_CHUNK", 12 * 8 * 7)
        points = sets._sample(8, np.random.default_rng(21))
        for j in range(8):
            assert_members(sets, points[:, j])

    @pytest.mark.slow
    def test_thousand_classes(self):
        sets = random_batch(4, 1000, seed=22)
        points = sets._sample(2000, np.random.default_rng(23))
        divergence = sets._divergence(points)
        smallest = 1.0 - sets.center.max(axis=1)
        inner = smallest + 0.999 * (sets.radius - smallest)
        share = np.exp(half_space_volume.log_fraction(sets.center, inner) - sets._log_volume(None)[0])
        inside = (divergence <= inner[:, None]).sum(axis=1)
        assert np.all(np.abs(inside - 2000 * share) <= 5.0 * np.sqrt(2000 * share * (1 - share)) + 1.0)


class TestClosestWithTop:
    @pytest.mark.parametrize("n_classes", [2, 3, 6])
    def test_against_linear_programmes(self, n_classes):
        sets = random_batch(25, n_classes, seed=80 + n_classes)
        closest = sets._closest_with_top()
        for g, row in zip(sets.center, closest, strict=True):
            for a in range(n_classes):
                below_a = np.delete(np.eye(n_classes), a, axis=0) - np.eye(n_classes)[a]
                best = maximum_by_lp(g, None, g, below_a, np.zeros(n_classes - 1))
                assert row[a] == pytest.approx(1.0 - best, abs=1e-9)

    def test_ties_and_one_hot(self):
        closest = regions([[1.0, 0.0, 0.0], [0.4, 0.4, 0.2], [THIRD] * 3], 1.0)._closest_with_top()
        np.testing.assert_allclose(closest, [[0, 0.5, 0.5], [0.6, 0.6, 2 / 3], [2 / 3] * 3], rtol=1e-15)


class TestDegenerate:
    """Every hook answers, without a warning, and the answers agree with each other."""

    @degenerate
    def test_hooks_agree(self, case):
        sets = regions(*case)
        n_classes = sets.n_classes
        margin = half_space.margins(sets.center, sets.radius)[0]
        found = sets._vertices()
        assert_members(sets[np.zeros(len(found), dtype=int)], found)
        assert len(np.unique(found, axis=0)) == len(found)
        lower, upper = sets._envelope()
        np.testing.assert_allclose(upper[0], found.max(axis=0), rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(lower[0], found.min(axis=0), rtol=1e-12, atol=1e-15)
        for utility in np.random.default_rng(24).integers(-1, 2, size=(20, n_classes)).astype(float):
            value, point = sets._support(utility[None], True)
            assert_members(sets, point)
            assert value[0] == pytest.approx((found @ utility).max(), rel=1e-12, abs=1e-15)
            assert point[0] @ utility == pytest.approx(value[0], rel=1e-12, abs=1e-15)
        value, point = sets._max_entropy(True)
        assert_members(sets, point)
        assert value[0] == pytest.approx(entropy(point)[0], rel=1e-12, abs=4e-16)  # λ near 1 is rounded
        assert value[0] >= entropy(found).max() - 1e-15
        log_volume = sets._log_volume(np.random.default_rng(0))[0][0]
        assert log_volume <= 0.0
        assert (log_volume == 0.0) == bool(np.all(margin >= 0.0))
        assert (log_volume == -np.inf) == bool(margin.max() == 0.0 and margin.min() < 0.0)
        drawn = sets._sample(50, np.random.default_rng(25))[0]
        assert_members(sets[np.zeros(50, dtype=int)], drawn)
        assert np.all(drawn <= upper[0] * (1 + 1e-12))
        assert np.all(drawn >= lower[0] * (1 - 1e-12))

    def test_touching_planes_of_a_rescaled_score(self):
        """The radius of a normalised score is rounded, but no plane passes beyond the corner it should touch."""
        g = np.random.default_rng(28).dirichlet(np.ones(4), 500)
        score = Normalized(InnerProduct())
        sets = score.region(g, score(g, score.best_fit(g)))
        assert not sets.is_empty().any()
        assert not (sets.radius < 1.0 - g.max(axis=1)).any()
        touching = sets.radius == 1.0 - g.max(axis=1)
        assert touching.any()
        lower, upper = sets._envelope()
        np.testing.assert_allclose(lower, InnerProduct().best_fit(g), atol=1e-12)
        np.testing.assert_allclose(upper, InnerProduct().best_fit(g), atol=1e-12)
        values, points = sets._max_entropy(True)
        assert_members(sets, points)
        assert np.all(values < 1e-10)
        assert np.all(sets._log_volume(np.random.default_rng(0))[0][touching] < -100.0)  # a corner, up to rounding
        assert_members(sets, sets._sample(1, np.random.default_rng(0))[:, 0])

    def test_empty_batch(self):
        none = regions([0.5, 0.5], 0.6)[[]]
        assert none._sample(3, np.random.default_rng(0)).shape == (0, 3, 2)
        for name, answer in all_answers(none, np.empty((0, 2))).items():
            assert len(answer) == 0, name

    def test_known_values(self):
        rng = np.random.default_rng(0)
        touching = regions([0.375, 0.375, 0.25], 0.625)
        assert touching._max_entropy(False)[0][0] == pytest.approx(np.log(2), rel=1e-15)
        assert touching._log_volume(rng)[0][0] == -np.inf
        assert np.all(touching._sample(20, rng)[0, :, 2] == 0.0)
        np.testing.assert_array_equal(touching._envelope(), [[[0, 0, 0]], [[1, 1, 0]]])
        corner = regions([1.0, 0.0, 0.0], 0.0)
        np.testing.assert_array_equal(corner._envelope(), [[[1, 0, 0]], [[1, 0, 0]]])
        np.testing.assert_array_equal(corner._vertices(), [[1, 0, 0]])
        assert corner._max_entropy(False)[0][0] == 0.0
        half = regions([1.0, 0.0, 0.0], 0.5)
        assert half._log_volume(rng)[0][0] == pytest.approx(np.log(0.25), rel=1e-15)
        small = regions(np.eye(10)[0], 1e-12)
        assert small._log_volume(rng)[0][0] == pytest.approx(9 * np.log(1e-12), rel=1e-14)


def all_answers(sets, utility):
    lower, upper = sets._envelope()
    value, point = sets._support(utility, True)
    most, spread = sets._max_entropy(True)
    return {
        "lower": lower,
        "upper": upper,
        "support": value,
        "support point": point,
        "max entropy": most,
        "max entropy point": spread,
        "log volume": sets._log_volume(np.random.default_rng(0))[0],
        "closest with top": sets._closest_with_top(),
    }


@settings(max_examples=150, deadline=None)
@given(
    mass=st.lists(st.integers(0, 12), min_size=2, max_size=6).filter(any),
    on_class=st.integers(0, 5),
    nudge=st.sampled_from([0.0, 0.0, 2.0**-54, 1e-12, 1e-3, 0.1, 0.7]),
)
def test_any_plane(mass, on_class, nudge):
    """Few-integer centres and planes through or near corners: ties and degenerate cuts are the rule here."""
    g = np.array(mass) / sum(mass)
    radius = (1.0 - g[on_class % len(g)]) + nudge
    sets = regions(g, radius)
    if sets.is_empty()[0]:
        return
    found = sets._vertices()
    assert_members(sets[np.zeros(len(found), dtype=int)], found)
    lower, upper = sets._envelope()
    np.testing.assert_allclose(upper[0], found.max(axis=0), rtol=1e-12)
    np.testing.assert_allclose(lower[0], found.min(axis=0), rtol=1e-12, atol=1e-15)
    value, point = sets._max_entropy(True)
    assert_members(sets, point)
    assert value[0] == pytest.approx(entropy(point)[0], rel=1e-10, abs=1e-15)
    d = half_space.margins(sets.center, sets.radius)[0]
    for beta in (0.0, 0.1, 1.0, 3.0, 10.0, 100.0):
        assert value[0] <= logsumexp(beta * d) + 1e-12
    log_volume = sets._log_volume(np.random.default_rng(0))[0][0]
    if d.max() > 0.0 > d.min():
        exact = separated([Fraction(float(v)) for v in d], Fraction(1, 10**60))
        assert log_volume == pytest.approx(log_fraction_by_partial_fractions(exact, digits=700)[0], abs=1e-12)
