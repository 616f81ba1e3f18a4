"""The reverse-KL ball against independent oracles: bisection, enumeration, SLSQP, searches, quadrature, counting."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal, localcontext
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq, minimize
from scipy.special import entr, gammaln, rel_entr

from credalset.scores import RelativeLikelihood
from credalset.scores.dirichlet import geometry, volume
from credalset.scores.dirichlet.entropy import Stationary, find_fold, stationary_point
from credalset.simplex import grid

GENERATOR = np.random.default_rng(0)


def balls(center, radius):
    """A batch with these very centres and radii: a Dirichlet would round tiny modes away."""
    center = np.atleast_2d(np.asarray(center, dtype=float))
    radius = np.broadcast_to(np.asarray(radius, dtype=float), len(center)).copy()
    sets = RelativeLikelihood().region(1.0 + center, 0.5)
    return dataclasses.replace(sets, center=center, radius=radius)


def random_batch(n_sets, n_classes, seed, smallest=-4.0, largest=0.7):
    """Flat to peaked modes, radii from 10^smallest to 10^largest nats; some zeros, ties and near-ties."""
    rng = np.random.default_rng(seed)
    m = rng.gamma(np.broadcast_to(10 ** rng.uniform(-0.7, 1.5, (n_sets, 1)), (n_sets, n_classes))) + 1e-12
    m[::5] = np.ceil(m[::5] / m[::5].max(axis=1, keepdims=True) * 3)
    m[1::7, 0] = 0.0
    m[2::7, : n_classes // 2] = 0.0
    m[3::7] = 1.0 + 1e-3 * rng.random(m[3::7].shape)
    m[4::7, 1:] *= 1e-9
    m /= m.sum(axis=1, keepdims=True)
    return balls(m, 10 ** rng.uniform(smallest, largest, n_sets))


def members(sets, n, seed):
    """n members per set, found by bisection along random chords from the centre; half of them on the surface."""
    rng = np.random.default_rng(seed)
    targets = rng.dirichlet(np.full(sets.n_classes, 0.5), (len(sets), n))
    low, high = np.zeros((len(sets), n, 1)), np.ones((len(sets), n, 1))
    for _ in range(60):
        middle = 0.5 * (low + high)
        point = sets.center[:, None] + middle * (targets - sets.center[:, None])
        inside = (rel_entr(sets.center[:, None], point).sum(axis=2) <= sets.radius[:, None])[..., None]
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    low[:, ::2] *= rng.random((len(sets), len(low[0, ::2]), 1))
    return sets.center[:, None] + low * (targets - sets.center[:, None])


def assert_member(sets, point, atol=1e-12):
    assert (point >= 0).all()
    np.testing.assert_allclose(point.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    kl = rel_entr(sets.center, point).sum(axis=1)
    assert (kl <= sets.radius * (1 + 1e-9) + atol).all()


def exact_divergence(center, point):
    """KL(m ‖ λ) in 60 digits, both rows normalised exactly."""
    with localcontext() as context:
        context.prec = 60
        m, x = [Decimal(float(v)) for v in center], [Decimal(float(v)) for v in point]
        m, x = [v / sum(m) for v in m], [v / sum(x) for v in x]
        return float(sum(a * (a / b).ln() for a, b in zip(m, x, strict=True) if a > 0))


# --- the divergence itself


def test_divergence_agrees_with_scipy_and_keeps_its_digits_for_close_points():
    sets = random_batch(60, 5, seed=1)
    points = members(sets, 20, seed=2)
    expected = rel_entr(sets.center[:, None], points).sum(axis=2)
    np.testing.assert_allclose(sets._divergence(points), expected, rtol=1e-9, atol=1e-14)
    m = np.array([0.5, 0.25, 0.125, 0.125])
    close = m + 1e-7 * np.array([1.0, -2.0, 0.5, 0.5])
    np.testing.assert_allclose(
        geometry.divergence(close[None, None], m[None])[0, 0], exact_divergence(m, close), rtol=1e-8
    )


def test_divergence_is_infinite_where_a_class_of_the_mode_is_missing():
    sets = balls([[0.5, 0.5, 0.0]], 1.0)
    got = sets._divergence(np.array([[[1.0, 0.0, 0.0], [0.25, 0.25, 0.5], [0.5, 0.5, 0.0]]]))
    np.testing.assert_allclose(got, [[np.inf, math.log(2), 0.0]], atol=1e-15)


# --- envelopes


def binary_bound(a, radius, upper):
    """Bisect d(a ‖ p) = radius in the logarithm of the mass that shrinks."""
    if upper:
        return 1.0 if a >= 1 else a - (1 - a) * math.expm1(-_log_shrinkage(1 - a, a, radius))
    return 0.0 if a <= 0 else a * math.exp(-_log_shrinkage(a, 1 - a, radius))


def _log_shrinkage(a, b, radius):
    if b == 0:
        return radius
    return brentq(
        lambda s: a * s - b * math.log1p(-a / b * math.expm1(-s)) - radius,
        0.0,
        (radius + 1.0) / a,
        xtol=1e-300,
        rtol=1e-14,
    )


def test_envelope_solves_the_binary_divergence():
    sets = random_batch(80, 4, seed=3)
    lower, upper = sets._envelope()
    for i in range(len(sets)):
        for k in range(4):
            low = binary_bound(sets.center[i, k], sets.radius[i], upper=False)
            high = binary_bound(sets.center[i, k], sets.radius[i], upper=True)
            np.testing.assert_allclose(lower[i, k], low, rtol=1e-8, atol=1e-300)
            np.testing.assert_allclose(upper[i, k], high, rtol=1e-8)


def test_envelope_is_sharp_on_a_grid():
    sets = balls([[0.6, 0.3, 0.1], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]], [0.1, 0.3, 0.5, 0.02])
    lower, upper = sets._envelope()
    points = grid(3, 0.002)
    for i in range(len(sets)):
        inside = points[rel_entr(sets.center[i], points).sum(axis=1) <= sets.radius[i]]
        assert (inside >= lower[i] - 1e-12).all()
        assert (inside <= upper[i] + 1e-12).all()
        np.testing.assert_allclose(inside.min(axis=0), lower[i], atol=0.006)
        np.testing.assert_allclose(inside.max(axis=0), upper[i], atol=0.006)


@pytest.mark.parametrize("radius", [1e-12, 1e-9, 1e-4])
@pytest.mark.parametrize("a", [0.5, 0.03, 1e-5])
def test_small_envelopes_keep_their_width(a, radius):
    """The width of a tiny ball is right to many digits, not only its ends."""
    sets = balls([[a, 1 - a]], radius)
    for shrunk, kept in ((a, 1 - a), (1 - a, a)):
        s = geometry.log_shrinkage(np.array([shrunk]), np.array([kept]), np.array([radius]))[0]
        with localcontext() as context:
            context.prec = 60
            x, y, p = Decimal(shrunk), 1 - Decimal(shrunk), Decimal(shrunk) * (-Decimal(float(s))).exp()
            value = x * (x / p).ln() + y * (y / (1 - p)).ln()
        assert abs(float(value) / radius - 1) < 1e-9
    lower, upper = sets._envelope()
    np.testing.assert_allclose(
        math.exp(geometry.binary_log_width(sets.center, sets.radius)[0]), upper[0, 0] - lower[0, 0], rtol=1e-8
    )


# --- expectations


def test_support_of_an_indicator_is_the_envelope():
    sets = random_batch(120, 5, seed=4)
    lower, upper = sets._envelope()
    for k in range(5):
        unit = np.zeros_like(sets.center)
        unit[:, k] = 1.0
        np.testing.assert_allclose(sets._support(unit, False)[0], upper[:, k], rtol=1e-10)
        np.testing.assert_allclose(-sets._support(-unit, False)[0], lower[:, k], rtol=1e-9, atol=1e-200)


def test_support_point_is_a_member_that_no_member_beats():
    sets = random_batch(200, 5, seed=5)
    utility = np.random.default_rng(6).standard_normal(sets.center.shape)
    utility[::4] = np.round(utility[::4])
    value, point = sets._support(utility, True)
    assert_member(sets, point)
    np.testing.assert_allclose((utility * point).sum(axis=1), value, rtol=0, atol=1e-12)
    others = np.einsum("nmk,nk->nm", members(sets, 300, seed=7), utility)
    assert (others <= value[:, None] + 1e-12).all()
    assert sets._support(utility, False)[1] is None


def test_support_meets_its_dual_bound():
    """max <u, λ> ≤ η − exp(Σ m log(η − u) − r) for every η above all u (weak duality); equality at the best η."""
    sets = random_batch(100, 6, seed=8)
    utility = np.random.default_rng(9).standard_normal(sets.center.shape)
    value = sets._support(utility, False)[0]
    for m, u, r, v in zip(sets.center, utility, sets.radius, value, strict=True):

        def bounds(log_t, m=m, u=u, r=r):
            t = np.exp(log_t)[:, None]
            return u.max() + t[:, 0] - np.exp((m * np.log(u.max() - u + t)).sum(axis=1) - r)

        log_t = np.linspace(-60, 14, 6000)
        best = int(bounds(log_t).argmin())
        least = bounds(np.linspace(log_t[max(best - 1, 0)], log_t[min(best + 1, 5999)], 400)).min()
        assert v <= least + 1e-9
        np.testing.assert_allclose(v, least, rtol=0, atol=1e-5)


# --- largest entropy


def test_max_entropy_is_stationary_feasible_and_unbeaten():
    sets = random_batch(150, 6, seed=10)
    value, point = sets._max_entropy(True)
    assert_member(sets, point)
    np.testing.assert_allclose(entr(point).sum(axis=1), value, rtol=1e-12)
    assert (entr(members(sets, 300, seed=11)).sum(axis=2) <= value[:, None] + 1e-12).all()
    uniform = np.full(6, 1 / 6)
    is_inside = rel_entr(sets.center, uniform).sum(axis=1) <= sets.radius
    assert is_inside.any()
    assert (~is_inside).any()
    np.testing.assert_array_equal(point[is_inside], np.broadcast_to(uniform, (is_inside.sum(), 6)))
    for m, lam, r in zip(sets.center[~is_inside], point[~is_inside], sets.radius[~is_inside], strict=True):
        np.testing.assert_allclose(rel_entr(m, lam).sum(), r, rtol=1e-9, atol=1e-13)
        # −log λ − 1 + ν m/λ = μ, linear in (ν, μ), with ν ≥ 0
        design = np.column_stack([m / lam, -np.ones_like(m)])
        (nu, _), *_ = np.linalg.lstsq(design, np.log(lam) + 1, rcond=None)
        residual = design @ np.linalg.lstsq(design, np.log(lam) + 1, rcond=None)[0] - np.log(lam) - 1
        assert nu >= 0
        assert np.abs(residual).max() < 1e-8 * max(1.0, nu)


def test_max_entropy_of_a_corner_has_a_closed_form():
    sets = balls(np.eye(4)[:1].repeat(4, axis=0), [1e-12, 0.1, 1.0, 10.0])
    rest = np.minimum(-np.expm1(-sets.radius), 0.75)
    expected = -(1 - rest) * np.log1p(-rest) + 3 * entr(rest / 3)
    np.testing.assert_allclose(sets._max_entropy(False)[0], expected, rtol=1e-9)


# --- smallest entropy


def surface_entropy(m, radius, log_tilt):
    """Entropy of the points λ ∝ m·exp(t·z) with KL(m ‖ λ) = radius: every surface point for some z."""
    z = log_tilt - (m * log_tilt).sum(axis=-1, keepdims=True)
    low, high = np.zeros(z.shape[:-1]), np.full(z.shape[:-1], 1e-3)

    def kl(t):
        top = (t[..., None] * z).max(axis=-1)
        return top + np.log((m * np.exp(t[..., None] * z - top[..., None])).sum(axis=-1))

    for _ in range(60):
        high = np.where(kl(high) < radius, 2 * high, high)
    for _ in range(60):
        middle = 0.5 * (low + high)
        inside = kl(middle) <= radius
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    w = low[..., None] * z
    lam = m * np.exp(w - w.max(axis=-1, keepdims=True))
    return entr(lam / lam.sum(axis=-1, keepdims=True)).sum(axis=-1)


def best_by_search(m, radius, seed, n_starts=16, n_steps=250):
    """Best entropy of a stochastic descent over surface directions, (B, K) modes and (B,) radii at once."""
    rng = np.random.default_rng(seed)
    n, k = m.shape
    z = rng.standard_normal((n, n_starts, k))
    z[:, :k] = 0.05 * z[:, :k] + np.eye(k)
    centers, radii = m[:, None], radius[:, None]
    best = surface_entropy(centers, radii, z)
    step = np.full((n, n_starts, 1), 0.5)
    for _ in range(n_steps):
        size = np.sqrt((z * z).mean(axis=2, keepdims=True))
        trial = z + step * size * rng.standard_normal(z.shape)
        value = surface_entropy(centers, radii, trial)
        better = (value < best)[..., None]
        best, z = np.minimum(value, best), np.where(better, trial, z)
        step = np.clip(np.where(better, 1.4 * step, 0.93 * step), 1e-7, 1.0)
    return best.min(axis=1)


def near_ties(n_sets, seed, classes=(3, 4, 5)):
    """Modes whose largest classes nearly tie, padded with nothing: lists by number of classes."""
    rng = np.random.default_rng(seed)
    for k in classes:
        base = np.exp(-rng.exponential(10 ** rng.uniform(-1, 0.7, (n_sets, 1)), (n_sets, k)))
        tied = np.arange(k) < rng.integers(2, k + 1, (n_sets, 1))
        close = 1.0 + 10 ** rng.uniform(-8, -0.5, (n_sets, 1)) * rng.random((n_sets, k))
        base = np.where(tied, np.where(rng.random((n_sets, 1)) < 0.2, 1.0, close), base)
        m = rng.permuted(base / base.sum(axis=1, keepdims=True), axis=1)
        modes, _ = Stationary.of(m.T)
        at_fork = stationary_point(np.zeros(n_sets), modes)[1]
        radius = np.where(rng.random(n_sets) < 0.7, at_fork * (1 + rng.uniform(-0.2, 0.2, n_sets)), 0.0)
        yield m, np.where(radius > 1e-6, radius, 10 ** rng.uniform(-3, 0.3, n_sets)), find_fold(modes)


def test_min_entropy_is_never_above_a_local_search_with_many_starts():
    n_folds, gaps = 0, []
    for m, radius, fold in near_ties(18, seed=12):
        sets = balls(m, radius)
        low, high, point = sets._min_entropy(True)
        assert_member(sets, point)
        np.testing.assert_array_equal(low, high)
        np.testing.assert_allclose(entr(point).sum(axis=1), high, rtol=1e-11)
        gap = best_by_search(m, radius, seed=13) - high
        assert (gap > -1e-12).all()
        n_folds += int((fold > 0).sum())
        gaps.append(gap)
    assert n_folds >= 5  # the hard rows are among them
    assert np.median(np.concatenate(gaps)) < 1e-4  # and the search does find the minimum


@pytest.mark.slow
def test_min_entropy_against_a_long_search():
    for m, radius, _ in near_ties(150, seed=14, classes=(3, 4, 5, 6)):
        gap = best_by_search(m, radius, seed=15, n_starts=24, n_steps=600) - balls(m, radius)._min_entropy(False)[0]
        assert (gap > -1e-12).all()
        assert np.quantile(gap, 0.9) < 1e-6


def test_min_entropy_on_a_dense_scan_of_the_surface_of_three_classes():
    rng = np.random.default_rng(16)
    m = np.concatenate([rng.dirichlet(np.ones(3), 20), rng.dirichlet(np.full(3, 300.0), 20), np.full((2, 3), 1 / 3)])
    radius = 10 ** rng.uniform(-3, 0, len(m))
    angle = np.linspace(0, 2 * np.pi, 4001)
    tilt = np.column_stack([np.cos(angle), np.cos(angle - 2 * np.pi / 3), np.cos(angle + 2 * np.pi / 3)])
    scan = surface_entropy(m[:, None], radius[:, None], np.broadcast_to(tilt, (len(m), *tilt.shape))).min(axis=1)
    value = balls(m, radius)._min_entropy(False)[0]
    assert (value <= scan + 1e-12).all()
    np.testing.assert_allclose(value, scan, rtol=0, atol=1e-5)


def test_min_entropy_satisfies_first_and_second_order_conditions():
    """log λ + ν m/λ constant, one class at most on the upper branch, that of the largest mode, others not above it."""
    sets = random_batch(200, 6, seed=17)
    _, _, point = sets._min_entropy(True)
    for m, lam, r in zip(sets.center, point, sets.radius, strict=True):
        on = m > 0
        np.testing.assert_array_equal(lam[~on], 0.0)
        if on.sum() < 2 or lam[on].min() < 1e-290:
            continue
        np.testing.assert_allclose(rel_entr(m, lam).sum(), r, rtol=1e-9, atol=1e-13)
        design = np.column_stack([m[on] / lam[on], -np.ones(on.sum())])
        solution = np.linalg.lstsq(design, -np.log(lam[on]), rcond=None)[0]
        residual = design @ solution + np.log(lam[on])
        assert np.abs(residual).max() < 1e-8 * max(1.0, abs(solution[0]))
        upper = lam[on] > solution[0] * m[on] * (1 + 1e-7)
        assert upper.sum() <= 1
        if upper.any():
            assert m[on][upper][0] == m.max()


def test_both_branches_of_the_smallest_entropy_are_needed():
    """With a fold, the outer root beats the inner one for some radii and loses for others."""
    m = np.array([[1.0] * 6 + [0.3] * 3]) / 6.9
    modes, _ = Stationary.of(m.T)
    fold = find_fold(modes)
    assert fold[0] > 0
    at_fork = stationary_point(np.zeros(1), modes)[1][0]
    radius = at_fork * np.linspace(0.9, 1.02, 41)
    _, _, point = balls(m.repeat(41, axis=0), radius)._min_entropy(True)
    lead = point[:, :6].max(axis=1) - np.median(point[:, :6], axis=1)
    assert lead[0] < 1e-9
    assert lead[-1] > 0.03
    assert np.diff(lead).max() > 0.02  # the minimiser jumps
    found = best_by_search(m.repeat(11, axis=0), radius[::4], seed=18, n_steps=150)
    assert (found > entr(point[::4]).sum(axis=1) - 1e-12).all()


def test_divergence_along_the_stationary_curve_falls_on_at_most_one_stretch():
    """The theorem behind the exact minimum, on modes built to break it."""
    rng = np.random.default_rng(19)
    x = np.concatenate([np.linspace(-3, 0, 40), 10 ** np.linspace(-7, 0.8, 400)])
    n_folds = 0
    for k in (3, 5, 12, 40):
        levels = np.concatenate([np.zeros((60, 1)), 10 ** rng.uniform(-9, 1, (60, k - 1))], axis=1)
        levels[::2] = np.minimum(levels[::2], levels[::2, rng.integers(1, k, k)])
        m = np.exp(-levels)
        m /= m.sum(axis=1, keepdims=True)
        modes, _ = Stationary.of(m.T)
        slopes = np.column_stack([stationary_point(np.full(60, at), modes)[2] for at in x])
        scale = np.abs(slopes).max(axis=1, keepdims=True)
        signs = np.where(np.abs(slopes) > 1e-13 * scale, np.sign(slopes), np.nan)
        fold = find_fold(modes)
        for row, at in zip(signs, fold, strict=True):
            changes = np.diff(row[np.isfinite(row)])
            assert np.count_nonzero(changes) <= 2
            assert (row[np.isfinite(row) & (x < 0)] > 0).all()
            if np.count_nonzero(changes):
                n_folds += 1
                assert x[row < 0][0] * 0.99 <= at <= x[row < 0][-1] * 1.01
            else:
                assert at == 0 or (x[np.searchsorted(x, at)] / x[np.searchsorted(x, at) - 1]) < 1.1
    assert n_folds > 20


def test_inequality_behind_the_theorem():
    delta = np.linspace(1e-3, 1 - 1e-9, 100_000)
    d = 3 * delta / (3 - 2 * delta)
    assert (-delta - np.log1p(-delta) >= d - np.log1p(d)).all()


# --- volume


def slice_area(m, radius):
    """Fraction of the triangle by integrating exact widths of slices; sine substitution for the square-root ends."""
    a = int(np.argmax(m))
    rest = np.delete(m, a)
    b = rest.sum()
    low, high = binary_bound(m[a], radius, upper=False), binary_bound(m[a], radius, upper=True)

    def width(t):
        p = 0.5 * (low + high) + 0.5 * (high - low) * math.sin(t)
        left = radius - float(rel_entr(m[a], p) + rel_entr(b, 1 - p))
        if left <= 0:
            return 0.0
        share = rest[0] / b
        inner = binary_bound(share, left / b, upper=True) - binary_bound(share, left / b, upper=False)
        return 2 * (1 - p) * inner * 0.5 * (high - low) * math.cos(t)

    return quad(width, -math.pi / 2, math.pi / 2, epsabs=1e-13, epsrel=1e-11, limit=400)[0]


@pytest.mark.parametrize(
    ("mode", "radius"),
    [
        ([0.5, 0.3, 0.2], 0.1),
        ([0.5, 0.3, 0.2], 2.0),
        ([1 / 3, 1 / 3, 1 / 3], 0.01),
        ([0.7, 0.3, 0.0], 0.2),
        ([0.5, 0.5, 0.0], 3.0),
        ([0.9, 0.09, 0.01], 0.05),
        ([0.98, 0.01, 0.01], 0.5),
    ],
)
def test_volume_of_three_classes_equals_quadrature(mode, radius):
    got = balls([mode], radius)._log_volume(GENERATOR)
    np.testing.assert_allclose(math.exp(got[0][0]), slice_area(np.array(mode), radius), rtol=3e-9)
    assert got[1][0] == 0
    assert got[2] == "exact"


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100, 1000])
def test_volume_at_a_corner_has_a_closed_form(n_classes):
    """m one-hot: λ_1 ≥ e^(−r), a scaled copy of the simplex."""
    radius = np.array([1e-12, 1e-3, 0.5, 3.0, 20.0])
    sets = balls(np.eye(n_classes)[:1].repeat(5, axis=0), radius)
    expected = (n_classes - 1) * np.log(-np.expm1(-radius))
    np.testing.assert_allclose(sets._log_volume(GENERATOR)[0], expected, rtol=1e-12, atol=1e-12)


def test_volume_of_two_classes_is_the_width_and_both_formulas_agree():
    rng = np.random.default_rng(20)
    a = rng.random(50)
    sets = balls(np.column_stack([a, 1 - a]), 10 ** rng.uniform(-6, 1, 50))
    lower, upper = sets._envelope()
    np.testing.assert_allclose(np.exp(sets._log_volume(GENERATOR)[0]), upper[:, 0] - lower[:, 0], rtol=1e-9)
    # A third class of zero mode leaves a triangle of slices: compare the contour with a 1-D integral of widths.
    m = np.array([[0.3, 0.7, 0.0]])
    r = 0.4

    def slices(z):
        left = np.array([r + math.log1p(-z)])
        return 2 * (1 - z) * math.exp(geometry.binary_log_width(m[:, :2], left)[0])

    area = quad(slices, 0, -math.expm1(-r), epsabs=1e-12, epsrel=1e-12)[0]
    np.testing.assert_allclose(math.exp(volume.log_volume(m, np.array([r]))[0]), area, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [3, 10, 100])
def test_volume_of_a_tiny_ball_is_that_of_an_ellipsoid(n_classes):
    """KL ≈ ½ Σ (λ − m)²/m, whose determinant in K − 1 coordinates is 1/Π m."""
    m = np.random.default_rng(21).dirichlet(np.full(n_classes, 20.0))[None]
    radius, n = 1e-12, n_classes - 1
    ball = 0.5 * n * math.log(2 * math.pi * radius) - gammaln(0.5 * n + 1)
    expected = gammaln(n_classes) + ball + 0.5 * np.log(m).sum()
    np.testing.assert_allclose(balls(m, radius)._log_volume(GENERATOR)[0], expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("n_classes", [3, 4, 6, 10])
def test_volume_matches_counting(n_classes):
    rng = np.random.default_rng(22)
    points = rng.dirichlet(np.ones(n_classes), 200_000)
    m = rng.dirichlet(np.ones(n_classes), 4)
    m[1, 0] = 0.0
    m[2, : n_classes - 2] = 0.0
    m /= m.sum(axis=1, keepdims=True)
    for mode in m:
        kl = rel_entr(mode, points).sum(axis=1)
        radius = float(np.quantile(kl[:1000], 0.3))
        fraction = math.exp(balls(mode[None], radius)._log_volume(GENERATOR)[0][0])
        sigma = math.sqrt(fraction * (1 - fraction) / len(points))
        assert abs((kl <= radius).mean() - fraction) < 5 * sigma


def test_volume_does_not_depend_on_the_number_of_nodes(monkeypatch):
    sets = random_batch(60, 8, seed=23, smallest=-12, largest=2)
    coarse = sets._log_volume(GENERATOR)[0]
    monkeypatch.setattr(volume, "N_NODES", 90)
    np.testing.assert_allclose(coarse, sets._log_volume(GENERATOR)[0], rtol=1e-12, atol=1e-12)


# --- order constraints and rays


def pooled_by_enumeration(m, a):
    """Best pool {a} ∪ B over all subsets B of the other classes that leaves a on top."""
    others = [k for k in range(len(m)) if k != a]
    best = np.inf
    for size in range(len(m)):
        for pool in combinations(others, size):
            members_of_pool = [a, *pool]
            level = m[members_of_pool].mean()
            left = [m[k] for k in others if k not in pool]
            if level > 0 and all(level >= v for v in left):
                best = min(best, rel_entr(m[members_of_pool], level).sum())
    return best


def test_closest_with_top_equals_enumeration():
    sets = random_batch(80, 5, seed=24)
    got = sets._closest_with_top()
    expected = np.array([[pooled_by_enumeration(m, a) for a in range(5)] for m in sets.center])
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-14)
    assert (got[np.arange(80), sets.center.argmax(axis=1)] == 0).all()


def test_closest_with_top_is_not_beaten_by_slsqp():
    m = np.array([0.45, 0.35, 0.15, 0.05])
    got = balls(m[None], 1.0)._closest_with_top()[0]
    for a in range(4):
        order = [{"type": "ineq", "fun": lambda z, a=a, b=b: z[a] - z[b]} for b in range(4) if b != a]
        total = {"type": "eq", "fun": lambda z: z.sum() - 1}
        found = minimize(
            lambda z: -(m * np.log(np.maximum(z, 1e-300))).sum(),
            np.full(4, 0.25),
            method="SLSQP",
            bounds=[(1e-9, 1)] * 4,
            constraints=[total, *order],
            options={"ftol": 1e-15, "maxiter": 500},
        )
        np.testing.assert_allclose(got[a], found.fun - entr(m).sum(), atol=1e-8)


def test_closest_with_top_keeps_its_digits_for_near_ties():
    m = np.array([[0.5 + 1e-7, 0.5 - 1e-7]])
    np.testing.assert_allclose(balls(m, 1.0)._closest_with_top()[0, 1], exact_divergence(m[0], [0.5, 0.5]), rtol=1e-7)


def test_ray_length_ends_on_the_surface():
    sets = random_batch(100, 5, seed=25)
    rng = np.random.default_rng(26)
    towards = rng.dirichlet(np.full(5, 0.4), (100, 12))
    directions = towards - sets.center[:, None]
    length = sets._ray_length(directions)
    assert (length > 0).all()
    for i in range(100):
        for d, t in zip(directions[i], length[i], strict=True):
            shrinking = (d < 0) & (sets.center[i] > 0)
            end = (sets.center[i][shrinking] / -d[shrinking]).min()
            assert t <= end * (1 + 1e-12)
            if t < end * (1 - 1e-6):
                kl = exact_divergence(sets.center[i], sets.center[i] + t * d)
                np.testing.assert_allclose(kl, sets.radius[i], rtol=1e-6, atol=1e-12)


def test_rays_that_leave_the_simplex_at_once_or_never():
    sets = balls([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], [0.3, 0.0, 1e9])
    directions = np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0], [0.0, 0.0, 0.0]])
    got = sets._ray_length(np.broadcast_to(directions, (3, 3, 3)))
    np.testing.assert_array_equal(got[:, 1], 0.0)
    np.testing.assert_array_equal(got[:, 2], np.inf)
    assert got[1, 0] == 0.0
    np.testing.assert_allclose(got[2, 0], 0.5, rtol=1e-12)


# --- degenerate batches, random batches, both implementations


def degenerate(n_classes):
    modes = [np.full(n_classes, 1 / n_classes), np.eye(n_classes)[-1]]
    for tail in (1e-300, 1e-16, 1e-5, 0.0):
        m = np.full(n_classes, tail)
        m[0], m[1] = 0.5, 0.5
        modes.append(m / m.sum())
        m = np.full(n_classes, tail)
        m[-1] = 1.0
        modes.append(m / m.sum())
    radii = [0.0, 1e-300, 1e-12, 1e-3, 1.0, 40.0, 1e6, 1e300]
    return balls(np.repeat(modes, len(radii), axis=0), np.tile(radii, len(modes)))


@pytest.mark.parametrize("n_classes", [2, 3, 50, 100])
def test_degenerate_sets_are_answered_consistently(n_classes):
    sets = degenerate(n_classes)
    check_consistency(sets)
    still = sets.radius == 0
    lower, upper = sets._envelope()
    np.testing.assert_array_equal(lower[still], sets.center[still])
    np.testing.assert_array_equal(upper[still], sets.center[still])
    assert np.isneginf(sets._log_volume(GENERATOR)[0][still]).all()
    everything = sets.radius >= 1e6
    np.testing.assert_allclose(sets._max_entropy(False)[0][everything], math.log(n_classes), rtol=1e-12)
    np.testing.assert_allclose(sets._min_entropy(False)[0][everything], 0.0, atol=1e-200)
    np.testing.assert_allclose(sets._log_volume(GENERATOR)[0][everything], 0.0, atol=1e-11)


def check_consistency(sets):
    """What must hold of any batch: nesting of answers, members that attain them, nothing but numbers."""
    lower, upper = sets._envelope()
    least, same, low_point = sets._min_entropy(True)
    most, high_point = sets._max_entropy(True)
    utility = np.linspace(-1.0, 2.0, sets.n_classes) * np.ones_like(sets.center)
    value, best_point = sets._support(utility, True)
    volume = sets._log_volume(GENERATOR)[0]
    top = sets._closest_with_top()
    for array in (lower, upper, least, most, value, top, low_point, high_point, best_point):
        assert np.isfinite(array).all()
    assert not np.isnan(volume).any()
    assert (volume <= 0).all()
    assert (lower <= sets.center * (1 + 1e-12)).all()
    assert (upper >= sets.center * (1 - 1e-12)).all()
    np.testing.assert_array_equal(least, same)
    center_entropy = entr(sets.center).sum(axis=1)
    assert (least <= center_entropy + 1e-12).all()
    assert (most >= center_entropy - 1e-12).all()
    for point, attained, expected in (
        (low_point, entr(low_point).sum(axis=1), least),
        (high_point, entr(high_point).sum(axis=1), most),
        (best_point, (utility * best_point).sum(axis=1), value),
    ):
        assert_member(sets, point)
        np.testing.assert_allclose(attained, expected, rtol=0, atol=1e-12)
        assert (point >= lower * (1 - 1e-6) - 1e-300).all()
        assert (point <= upper * (1 + 1e-6) + 1e-300).all()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.just(0.0), st.just(1.0), st.floats(1e-12, 1.0)), min_size=2, max_size=7).filter(any),
    st.floats(-12, 3),
)
@example([1.0, 1.0, 1.0, 1e-12], -11.0)
@example([1.0, 0.0], 2.5)
def test_any_mode_and_radius_is_answered_consistently(weights, log_radius):
    m = np.array(weights)
    check_consistency(balls(m[None] / m.sum(), 10.0**log_radius))


def test_answers_grow_with_the_radius():
    m = np.random.default_rng(27).dirichlet(np.ones(5), 1).repeat(60, axis=0)
    sets = balls(m, np.logspace(-8, 2, 60))
    lower, upper = sets._envelope()
    assert (np.diff(upper, axis=0) >= -1e-14).all()
    assert (np.diff(lower, axis=0) <= 1e-14).all()
    assert (np.diff(sets._max_entropy(False)[0]) >= -1e-13).all()
    assert (np.diff(sets._min_entropy(False)[0]) <= 1e-13).all()
    assert (np.diff(sets._log_volume(GENERATOR)[0]) >= -1e-12).all()


def test_large_batches_agree_with_small_ones():
    sets = random_batch(4000, 10, seed=32)
    few = sets[:50]
    utility = np.random.default_rng(33).standard_normal(sets.center.shape)
    directions = utility[:, None] - utility.mean(axis=1)[:, None, None]
    for question in (
        lambda s: np.stack(s._envelope()),
        lambda s: s._support(utility[: len(s)], True)[1][None],
        lambda s: np.stack(s._min_entropy(False)[:2]),
        lambda s: s._max_entropy(True)[1][None],
        lambda s: s._log_volume(GENERATOR)[0][None],
        lambda s: s._closest_with_top()[None],
        lambda s: s._ray_length(directions[: len(s)])[None],
        lambda s: s._divergence(np.full((len(s), 1, 10), 0.1))[None],
    ):
        np.testing.assert_allclose(question(sets)[:, :50], question(few), rtol=1e-9, atol=1e-12)
