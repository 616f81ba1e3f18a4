"""Wasserstein balls against linear programmes, dual certificates and their own corners."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from credalset.scores import InnerProduct, Wasserstein
from credalset.scores.transport import entropy_of_blocks, flattest, gathered, largest_sums
from credalset.scores.wasserstein import WassersteinBall
from credalset.sets.box import majorization_bound
from credalset.simplex import entropy_of_valid, grid, sample_uniform
from tests.scores.search import spread_centers

LP_ERROR = 1e-8
spacing = pytest.mark.parametrize("equal", [True, False], ids=["equal", "unequal"])


def gaps_of(k: int, equal: bool) -> np.ndarray:
    return np.ones(k - 1) if equal else np.random.default_rng(k).uniform(0.2, 2.0, k - 1)


def balls(n: int, k: int, equal: bool = True, seed: int = 0) -> WassersteinBall:
    gaps = gaps_of(k, equal)
    radius = np.random.default_rng(seed).permutation(np.geomspace(1e-4, 0.6 * gaps.sum(), n))
    return WassersteinBall(spread_centers(n, k, seed), radius, tuple(gaps))


def optimum(
    sets: WassersteinBall, row: int, objective: np.ndarray | None = None, top: int | None = None
) -> float:
    """Minimise ⟨objective, λ⟩ over the ball, or the distance over all λ in which no
    class exceeds ``top``.
    """
    g, gaps, k = sets.center[row], np.array(sets.gaps), sets.n_classes
    sums, cumulative = np.tril(np.ones((k, k)))[:-1], np.cumsum(g)[:-1]
    upper = np.block([[sums, -np.eye(k - 1)], [-sums, -np.eye(k - 1)]])
    bound = np.concatenate([cumulative, -cumulative])
    if objective is not None:
        upper, bound = np.vstack([upper, np.r_[np.zeros(k), gaps]]), np.r_[bound, sets.radius[row]]
    if top is not None:
        order = np.hstack([np.delete(np.eye(k), top, axis=0), np.zeros((k - 1, k - 1))])
        order[:, top] = -1
        upper, bound = np.vstack([upper, order]), np.r_[bound, np.zeros(k - 1)]
    weights = np.r_[np.zeros(k), gaps] if objective is None else np.r_[objective, np.zeros(k - 1)]
    whole = np.r_[np.ones(k), np.zeros(k - 1)][None]
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    return float(
        linprog(weights, upper, bound, whole, [1.0], (0, None), "highs", options=options).fun
    )


def corners(sets: WassersteinBall, row: int) -> np.ndarray:
    """Every intersection of K − 1 facets that belongs to the ball,
    from all sign patterns of F − G.
    """
    gaps, radius, cumulative = (
        np.array(sets.gaps),
        sets.radius[row],
        np.cumsum(sets.center[row])[:-1],
    )
    n = len(gaps)
    monotone = np.vstack([np.eye(n), np.zeros((1, n))]) - np.vstack([np.zeros((1, n)), np.eye(n)])
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=n))) * gaps
    sides = np.vstack([monotone, signs])
    offset = np.r_[np.zeros(n), -1.0, signs @ cumulative + radius]
    found = []
    for chosen in itertools.combinations(range(len(sides)), n):
        matrix = sides[list(chosen)]
        if abs(np.linalg.det(matrix)) > 1e-9:
            found.append(np.linalg.solve(matrix, offset[list(chosen)]))
    points = np.diff(np.array(found), prepend=0.0, append=1.0, axis=1)
    member = (points.min(axis=1) > -1e-10) & (
        np.abs(np.array(found) - cumulative) @ gaps <= radius + 1e-10
    )
    return points[member].clip(0.0)


def test_formula() -> None:
    score = Wasserstein(positions=(0.0, 1.0, 3.0))
    assert score(np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 0.0, 1.0]]))[0] == 3.0
    assert score(np.array([[0.5, 0.0, 0.5]]), np.array([[0.0, 1.0, 0.0]]))[0] == pytest.approx(1.5)
    assert score.region([[1.0, 0.0, 0.0]], 0.6).upper()[0] == pytest.approx([1.0, 0.6, 0.2])


@spacing
@pytest.mark.parametrize("k", [2, 3, 6])
def test_envelopes_and_expectations_are_those_of_a_linear_programme(k: int, equal: bool) -> None:
    sets = balls(9, k, equal)
    lower, upper = sets.envelope()
    utility = np.random.default_rng(1).normal(size=(9, k)).round(1)
    value, member = sets.support(utility)
    assert (sets.divergence(member[:, None])[:, 0] <= sets.radius + 1e-12).all()
    assert (utility * member).sum(axis=1) == pytest.approx(value, abs=1e-12)
    for row in range(9):
        assert value[row] == pytest.approx(-optimum(sets, row, -utility[row]), abs=LP_ERROR)
        for c in range(k):
            assert upper[row, c] == pytest.approx(-optimum(sets, row, -np.eye(k)[c]), abs=LP_ERROR)
            assert lower[row, c] == pytest.approx(optimum(sets, row, np.eye(k)[c]), abs=LP_ERROR)


def test_support_of_a_hundred_classes_is_the_envelope() -> None:
    sets = balls(6, 100)
    upper = sets.envelope()[1]
    for c in (0, 31, 99):
        assert sets.support(np.tile(np.eye(100)[c], (6, 1)))[0] == pytest.approx(
            upper[:, c], abs=1e-12
        )


@spacing
@pytest.mark.parametrize("k", [2, 3, 10, 60])
def test_largest_entropy_is_bracketed_to_rounding(k: int, equal: bool) -> None:
    """The upper end is a dual bound, log Σ e^p − ⟨g, p⟩ + r Lip(p),
    the lower one the entropy of a member.
    """
    sets = balls(30, k, equal)
    bounds = sets.entropies()
    assert (bounds.upper_gap < 1e-7).all()
    flat = sets.divergence(np.full((30, 1, k), 1.0 / k))[:, 0] <= sets.radius
    assert bounds.upper[flat] == pytest.approx(np.log(k))
    pool = sample_uniform(2000, k, 0)
    ends = sets.center[:, None] + np.minimum(sets._ray_length(pool - sets.center[:, None]), 1.0)[
        ..., None
    ] * (pool - sets.center[:, None])
    assert (entropy_of_valid(np.maximum(ends, 0.0)) <= bounds.upper[:, None] + 1e-9).all()


def test_largest_entropy_of_extreme_balls() -> None:
    k = 8
    center = np.tile(np.r_[1.0 - 7e-12, np.full(7, 1e-12)], (4, 1))
    radius = np.array([0.0, 1e-12, 1e-3, 3.4])
    most, reached = flattest(np.ascontiguousarray(center.T), radius, np.ones(k - 1))
    assert (most - reached <= 1e-6).all()
    assert most[0] == pytest.approx(entropy_of_valid(center[0]))
    assert np.diff(most).min() > 0


@spacing
@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_smallest_entropy_is_that_of_the_best_corner(k: int, equal: bool) -> None:
    sets = balls(9, k, equal, seed=k)
    bounds = sets.entropies()
    for row in range(9):
        found = corners(sets, row)
        assert bounds.lower[row] == pytest.approx(entropy_of_valid(found).min(), abs=1e-11)
        expected = np.unique(found.round(9), axis=0)
        assert np.unique(sets.vertices(row).round(9), axis=0) == pytest.approx(expected, abs=1e-8)
    assert (bounds.lower_gap == 0).all()


@pytest.mark.parametrize("k", [3, 4, 5])
def test_brackets_agree_with_the_listed_corners(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The method for more classes brackets the exact smallest entropy."""
    sets = balls(300, k, equal=False)
    exact = sets.entropies().lower
    monkeypatch.setattr("credalset.scores.wasserstein.MAX_LISTED", 1)
    bounds = sets.entropies()
    assert (bounds.lower <= exact + 1e-11).all()
    assert (bounds.lower + bounds.lower_gap >= exact - 1e-11).all()


def test_brackets_of_ten_classes_are_narrow() -> None:
    rng = np.random.default_rng(0)
    sharp = np.exp(4.0 * rng.normal(size=(200, 10)))
    flat = rng.dirichlet(np.ones(10), 200)
    for centers, limit in ((sharp / sharp.sum(axis=1, keepdims=True), 0.015), (flat, 0.03)):
        far = Wasserstein()(centers, np.full((200, 10), 0.1))
        for share in (0.05, 0.3, 0.6):
            gap = np.asarray(
                Wasserstein().region(centers, share * far).entropy_bounds(base="K").lower_gap
            )
            assert gap.mean() < limit


@pytest.mark.parametrize("k", [2, 3, 4, 7, 12])
def test_possible_modes_are_those_of_a_linear_programme(k: int) -> None:
    sets = balls(6, k, seed=k)
    nearest = np.array([[optimum(sets, row, top=top) for top in range(k)] for row in range(6)])
    for factor in (0.5, 0.999, 1.001, 2.0):
        for top in range(k):
            radius = np.maximum(factor * nearest[:, top], 1e-6)
            found = WassersteinBall(sets.center, radius, sets.gaps).mode_radius()
            clear = np.abs(nearest - radius[:, None]) > 1e-7
            assert ((found <= radius[:, None]) == (nearest <= radius[:, None]))[clear].all()


def test_possible_modes_at_ties() -> None:
    """A radius that just reaches a class counts, for every class at once."""
    centers = np.array([[0.4, 0.4, 0.2], [0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    exact = np.array([[0.0, 0.0, 0.2], [0.0, 0.1, 0.0], [0.0, 0.5, 0.0]])
    exact[1, 2], exact[2, 2] = 0.3, 1.0
    sets = Wasserstein().region(np.repeat(centers, 3, axis=0), exact.ravel())
    assert sets.decide()[np.arange(9), np.tile(np.arange(3), 3)].all()
    less = Wasserstein().region(
        np.repeat(centers, 3, axis=0), np.maximum(exact.ravel() - 1e-6, 0.0)
    )
    assert (less.decide()[np.arange(9), np.tile(np.arange(3), 3)] == (exact.ravel() == 0)).all()


def test_modes_with_unequal_gaps() -> None:
    sets = balls(6, 4, equal=False)
    nearest = np.array([[optimum(sets, row, top=top) for top in range(4)] for row in range(6)])
    found = sets.mode_radius()
    clear = np.abs(nearest - sets.radius[:, None]) > 1e-6
    assert ((found <= sets.radius[:, None]) == (nearest <= sets.radius[:, None]))[clear].all()


@spacing
def test_areas_and_vertices_of_three_classes(equal: bool) -> None:
    sets = balls(12, 3, equal)
    value, error, method = sets.log_volume(np.random.default_rng(0), 1)
    assert method == "exact"
    assert (error == 0).all()
    share = (
        sets.divergence(np.repeat(grid(3, 0.005)[None], 12, axis=0)) <= sets.radius[:, None]
    ).mean(axis=1)
    assert np.exp(value) == pytest.approx(share, abs=0.012)
    for row in range(12):
        expected = np.unique(corners(sets, row).round(9), axis=0)
        assert sets.vertices(row).round(9) == pytest.approx(expected, abs=1e-8)
    with pytest.raises(ValueError, match="at most 5 classes"):
        balls(5, 6).vertices(0)


def assert_honest(value: np.ndarray, error: np.ndarray, truth: np.ndarray) -> None:
    """Errors of estimates have the size that their standard errors say."""
    wrong = np.expm1(value - truth) / error
    assert np.isfinite(error).all()
    assert (error > 0).all()
    assert np.abs(wrong).max() < 4.5
    assert 0.75 < np.sqrt((wrong**2).mean()) < 1.3


@pytest.mark.parametrize("k", [4, 5])
@pytest.mark.parametrize("steepest", [1.0, 1000.0])
def test_volumes_of_small_and_sharp_balls_are_those_of_their_corners(
    k: int, steepest: float
) -> None:
    """Qhull computes the volume of the convex hull of the corners, which are tested above.

    One gap may be a thousand times as wide as the others.
    """
    rng = np.random.default_rng(k)
    sharp = np.concatenate([rng.dirichlet(np.full(k, c), 15) for c in (0.02, 0.1, 1.0)])
    gaps = gaps_of(k, equal=False) * np.r_[np.ones(k - 2), steepest]
    radius = rng.permutation(np.geomspace(1e-3, 0.5, len(sharp))) * gaps.sum()
    sets = WassersteinBall(sharp, radius, tuple(gaps))
    value, error, method = sets.log_volume(np.random.default_rng(0), 256)
    assert method == "estimate"
    truth = []
    for row in range(len(sharp)):
        sums = np.cumsum(sets.vertices(row), axis=1)[:, :-1]
        sides = np.ptp(sums, axis=0)
        hull = ConvexHull(sums / sides).volume * sides.prod()
        truth.append(np.log(hull * math.factorial(k - 1)))
    assert_honest(value, error, np.array(truth))


@pytest.mark.parametrize("k", [4, 10])
def test_volumes_around_an_end_of_the_line_are_those_of_half_spaces(k: int) -> None:
    """Around the first class the cost is the mean position, and the ball ⟨λ, x⟩ ≤ r."""
    gaps = gaps_of(k, equal=False)
    at = np.r_[0.0, np.cumsum(gaps)]
    radius = np.geomspace(1e-6, 0.6 * at[-1], 60)
    weights = (at[-1] - at) / (at[-1] - at).sum()
    limit = (at[-1] - radius) / (at[-1] - at).sum()
    halves = InnerProduct().region(np.tile(weights, (60, 1)), 1.0 - limit)
    ends = np.tile(np.eye(k)[0], (60, 1))
    value, error, _ = WassersteinBall(ends, radius, tuple(gaps)).log_volume(
        np.random.default_rng(1), 256
    )
    assert_honest(value, error, np.log(np.asarray(halves.volume())))


def test_volumes_that_draws_cannot_find_are_refused() -> None:
    """Thirty classes at one end: the estimate has an infinite error instead of a wrong one."""
    center = np.tile(np.eye(30)[0], (3, 1))
    _, error, _ = WassersteinBall(center, np.full(3, 1e-3), (1.0,) * 29).log_volume(
        np.random.default_rng(0), 16
    )
    assert np.isinf(error).all()


@pytest.mark.parametrize(
    ("positions", "error"),
    [
        ((0.0,), ValueError),
        ((0.0, 0.0), ValueError),
        ((0.0, np.nan), ValueError),
        ("ab", TypeError),
    ],
)
def test_refused_positions(positions: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="positions"):
        Wasserstein(positions)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="positions has 2 entries"):
        Wasserstein((0.0, 1.0)).region([[0.2, 0.3, 0.5]], 0.1)


def test_bounds_for_many_classes_agree_with_those_from_all_groups() -> None:
    rng = np.random.default_rng(0)
    gaps = tuple(rng.uniform(0.5, 2.0, 19))
    for concentration in (0.3, 1.0, 100.0):
        mass = rng.dirichlet(np.full(20, concentration), 200).T
        radius = rng.uniform(0.01, 3.0, 200)
        least, found = gathered(mass, radius, gaps)
        envelope = Wasserstein(np.cumsum([0.0, *gaps])).region(mass.T, radius).envelope()
        assert (
            majorization_bound(*envelope, largest_sums(mass, radius, gaps)) <= found + 1e-9
        ).all()
        assert (entropy_of_blocks(mass, radius, gaps) >= least - 1e-9).all()


def test_brackets_of_many_nearly_equal_classes_are_narrow() -> None:
    centers = np.random.default_rng(0).dirichlet(np.full(60, 100.0), 20)
    assert Wasserstein().region(centers, 1.0).entropy_bounds(base="K").lower_gap.max() < 0.15
