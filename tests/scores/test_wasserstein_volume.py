"""Estimated volumes of Wasserstein balls against the exact ones there are: few classes, small, large, one-hot."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from credalset.scores.inner_product import volume as half_space_volume
from credalset.scores.wasserstein import WassersteinBall
from credalset.scores.wasserstein import rays as wasserstein_rays
from credalset.sets import rays
from credalset.simplex import sample_uniform
from tests.scores.test_wasserstein import ball, special_balls, special_centers

slow = pytest.mark.slow  # other sizes, which take the same ways
RARE = 2e-3  # what a thousand rays may miss without any of them telling


def places(n_classes: int, decades: float, rng: np.random.Generator) -> tuple[float, ...]:
    """Where the classes sit, with gaps that range over so many powers of ten."""
    gaps = 10.0 ** rng.uniform(-0.5 * decades, 0.5 * decades, n_classes - 1)
    return tuple(np.r_[0.0, np.cumsum(gaps)])


def mixed_balls(n: int, n_classes: int, seed: int, decades: float = 3.0, smallest: float = 1e-3) -> WassersteinBall:
    """Balls of all sizes about flat, rough, sparse and one-hot centres."""
    rng = np.random.default_rng(seed)
    centers = np.vstack([rng.dirichlet(np.full(n_classes, a)) for a in rng.choice([0.1, 0.3, 1.0, 3.0, 10.0], n)])
    centers[::5] = rng.multinomial(5, np.full(n_classes, 1 / n_classes), len(centers[::5])) / 5
    centers[::17] = np.eye(n_classes)[rng.integers(n_classes, size=len(centers[::17]))]
    positions = places(n_classes, decades, rng)
    return ball(centers, positions[-1] * smallest ** rng.uniform(0.1, 1.0, n), positions)


def estimate(sets: WassersteinBall, seed: int, n_rays: int = 1024) -> tuple[np.ndarray, np.ndarray]:
    return rays.estimate_log_volume(sets, np.random.default_rng(seed), n_rays)


def deviations(value: np.ndarray, error: np.ndarray, expected: np.ndarray, noise: float = 0.0) -> np.ndarray:
    return (value - expected) / np.sqrt(error**2 + noise**2)


@pytest.fixture
def always_tilted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw in the shape of the ball even where uniform rays would do."""
    monkeypatch.setattr(rays, "UNIFORM_FROM", 2.0)


# Against exact volumes


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("decades", [0.0, 3.0])
def test_few_classes(n_classes, decades, always_tilted):
    sets = mixed_balls(80, n_classes, n_classes, decades)
    value, error = estimate(sets, 0)
    exact, _, _ = sets._log_volume(np.random.default_rng(0))
    z = deviations(value, error, exact, RARE)
    assert np.abs(z).max() < 5
    assert np.sqrt(np.mean(z**2)) < 1.2
    assert error.max() < 0.04


@pytest.mark.parametrize("n_classes", [5, pytest.param(10, marks=slow), 30, pytest.param(100, marks=slow)])
@pytest.mark.parametrize("decades", [0.0, 3.0, 12.0])
def test_one_hot_centres_make_half_spaces(n_classes, decades, always_tilted):
    """W₁ from a class is linear: Σ λ_k |x_k − x_class|. Half-spaces have exact volumes for any number of classes."""
    rng = np.random.default_rng(n_classes)
    positions = np.array(places(n_classes, decades, rng))
    n = 30 if n_classes < 100 else 6
    label = np.r_[0, n_classes - 1, rng.integers(n_classes, size=n - 2)]
    radius = positions[-1] * 10.0 ** rng.uniform(-3, -0.4, n)
    value, error = estimate(ball(np.eye(n_classes)[label], radius, tuple(positions)), 1)
    nearness = 1.0 - np.abs(positions[label][:, None] - positions) / positions[-1]
    exact = half_space_volume.log_fraction(nearness, radius / positions[-1])
    z = deviations(value, error, exact, RARE)
    assert np.abs(z).max() < 4.5
    assert np.sqrt(np.mean(z**2)) < 1.4
    assert error.max() < 0.08


@pytest.mark.parametrize("n_classes", [5, 10, 30, 100])
def test_balls_inside_the_simplex_are_cross_polytopes(n_classes):
    rng = np.random.default_rng(n_classes)
    gaps = rng.uniform(0.5, 2.0, n_classes - 1)
    center = rng.dirichlet(np.full(n_classes, 20.0), 2)
    inner = 0.4 * center.min() * gaps.min()
    for radius in (inner, 1e-12, 1e-150, 1e-300):
        sets = ball(center, radius, tuple(np.r_[0.0, np.cumsum(gaps)]))
        value, error = estimate(sets, 2)
        expected = (n_classes - 1) * np.log(2 * radius) - np.log(sets.gaps).sum()
        assert error.max() < 0.01
        assert np.abs(value - expected).max() < 5 * error.max() + 1e-10 * np.abs(expected).max()


@pytest.mark.parametrize("n_classes", [5, 6])
def test_small_balls_are_the_hulls_of_their_vertices(n_classes):
    sets = mixed_balls(24, n_classes, 70 + n_classes, decades=0.0, smallest=3e-2)
    value, error = estimate(sets, 3)
    hulls = []
    for one in sets:
        offsets = ((one._vertices() - one.center) / one.radius)[:, :-1]
        size = ConvexHull(offsets, qhull_options="QJ").volume
        hulls.append(np.log(factorial(n_classes - 1) * size) + (n_classes - 1) * np.log(one.radius[0]))
    z = deviations(value, error, np.array(hulls), RARE)
    assert np.abs(z).max() < 4.5
    assert np.sqrt(np.mean(z**2)) < 1.4


@pytest.mark.parametrize("n_classes", [5, 6, 7, 8])
def test_large_balls_by_counting(n_classes, always_tilted):
    sets = mixed_balls(16, n_classes, n_classes, smallest=0.03)
    points = sample_uniform(300_000, n_classes, 8)
    share = np.array([(one._divergence(points[None]) <= one.radius).mean() for one in sets])
    value, error = estimate(sets, 4)
    seen = share > 1e-3
    assert seen.sum() >= 8
    noise = np.sqrt((1 - share) / (share + 1e-300) / len(points) + error**2 + RARE**2)
    assert np.all(np.abs(value - np.log(share + 1e-300))[seen] < 4.5 * noise[seen])


# Against itself


@pytest.mark.parametrize(
    ("n_classes", "n", "decades"),
    [
        (6, 100, 3.0),
        pytest.param(10, 80, 0.0, marks=slow),
        (10, 80, 12.0),
        (30, 30, 3.0),
        pytest.param(100, 12, 3.0, marks=slow),
    ],
)
def test_standard_errors_are_small_and_true(n_classes, n, decades):
    sets = mixed_balls(n, n_classes, n_classes, decades)
    (one, error), (other, other_error) = estimate(sets, 5), estimate(sets, 6)
    assert error.max() < 0.1
    assert np.median(error) < 0.07
    noise = np.sqrt(error**2 + other_error**2)
    z = deviations(one, noise, other, RARE)
    assert np.abs(z).max() < 5
    clear = noise > RARE
    assert clear.mean() > 0.5
    assert 0.6 < np.sqrt(np.mean(z[clear] ** 2)) < 1.4


@pytest.mark.parametrize("n_classes", [5, 15])
def test_draws_follow_the_tilted_density(n_classes):
    """The factor that sets the knots right hardly varies, whichever way a ray goes."""
    rng = np.random.default_rng(n_classes)
    sets = mixed_balls(6, n_classes, 30 + n_classes)
    mass = wasserstein_rays.in_units_of_radius(sets.center, sets.radius, sets.gaps)
    pilot, uniforms = rng.random((6, 64, n_classes - 1, 2)), rng.random((6, 200, n_classes - 1, 2))
    tilt, cost, edge, log_ratio, offsets = wasserstein_rays.draw(mass, sets.gaps, pilot, uniforms)
    assert np.all((tilt > 0) & (tilt <= n_classes - 1))
    assert np.std(log_ratio, axis=1).max() < 0.1
    assert np.ptp(log_ratio, axis=1).max() < 1.0
    assert np.all(edge >= 1)
    assert np.all(cost > 0)
    assert cost == pytest.approx(np.abs(offsets) @ sets.gaps)


def test_the_mirror_image_is_as_large():
    """The chain is drawn from left to right, but the ball does not care."""
    sets = mixed_balls(30, 9, 4)
    mirrored = ball(sets.center[:, ::-1], sets.radius, tuple(np.r_[0.0, np.cumsum(sets.gaps[::-1])]))
    (there, error), (back, other_error) = estimate(sets, 8), estimate(mirrored, 9)
    z = deviations(there, np.sqrt(error**2 + other_error**2), back, RARE)
    assert np.abs(z).max() < 4.5


# At the edges


@pytest.mark.parametrize("n_classes", [5, 8, 40])
def test_nothing_breaks_at_the_edges(n_classes, always_tilted):
    rng = np.random.default_rng(n_classes)
    positions = None if n_classes == 5 else tuple(np.cumsum(10.0 ** rng.uniform(-4, 4, n_classes)))
    sets = special_balls(n_classes, positions)
    value, error = estimate(sets, 10, 64)
    assert np.all(value[sets.radius == 0] == -np.inf)
    assert not error[sets.radius == 0].any()
    assert np.all(np.isfinite(value[sets.radius > 0]))
    assert np.all(value < 6 * error + 0.1)
    assert np.all(np.abs(value[sets.radius > 1e100]) < 6 * error[sets.radius > 1e100] + 0.1)


def test_volumes_grow_with_the_radius():
    radii = np.geomspace(1e-6, 10.0, 20)
    for center in special_centers(8):
        value, error = estimate(ball(np.tile(center, (20, 1)), radii), 11)
        assert np.all(np.diff(value) > -6 * np.hypot(error[1:], error[:-1]) - RARE)
        assert value[-1] == 0.0


def test_the_ball_asks_this_estimator():
    sets = mixed_balls(5, 7, 12)
    volume = sets.log_volume(return_error=True, random_state=3)
    value, error = estimate(sets, 3)
    assert volume.method == "estimate"
    np.testing.assert_array_equal(volume.value, value)
    np.testing.assert_array_equal(volume.standard_error, error)
