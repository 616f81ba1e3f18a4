"""Total-variation balls: vertices and volumes; everything else is in `tests.sets.test_oracles`."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from credalset.scores import TotalVariation
from credalset.sets import Geometry
from credalset.simplex import sample_uniform

SCORE = TotalVariation()


def brute_vertices(center: np.ndarray, radius: float) -> np.ndarray:
    """Corners of the hull of what moving mass from some classes to one, in any order, leads to."""
    found = [np.eye(len(center))[z] for z in range(len(center)) if 1.0 - center[z] <= radius]
    for order in permutations(range(len(center))):
        point, left = center.copy(), radius
        for k in order[:-1]:
            taken = min(point[k], left)
            point[k], left = point[k] - taken, left - taken
        point[order[-1]] += radius - left
        found.append(point)
    points = np.unique(np.round(found, 10), axis=0)
    return points[ConvexHull(points[:, :-1]).vertices] if len(points) > len(center) else points


@pytest.mark.parametrize("radius", [0.0, 0.05, 0.2, 0.45, 0.8, 1.0])
@pytest.mark.parametrize("n_classes", [3, 4, 5])
def test_vertices_are_the_corners_of_the_hull(n_classes: int, radius: float) -> None:
    rng = np.random.default_rng(n_classes)
    centers = [
        rng.dirichlet(np.ones(n_classes)),
        np.full(n_classes, 1.0 / n_classes),
        np.eye(n_classes)[0],
    ]
    sets = SCORE.region(centers, radius)
    for i, center in enumerate(centers):
        found, expected = sets.vertices(i), brute_vertices(center, radius)
        assert (SCORE(np.repeat(center[None], len(found), axis=0), found) <= radius + 1e-12).all()
        assert {tuple(point) for point in expected.round(8) + 0.0} <= {
            tuple(point) for point in found.round(8) + 0.0
        }
        for utility in rng.normal(size=(5, n_classes)):
            assert (found @ utility).max() == pytest.approx(sets[i].upper_expectation(utility)[0])


def test_too_many_vertices_are_refused() -> None:
    with pytest.raises(ValueError, match="vertices"):
        SCORE.region(np.full((1, 40), 1.0 / 40), 0.5).vertices(0)


@pytest.mark.parametrize("n_classes", [2, 3, 5, 8, 12])
def test_volume_of_balls_inside_is_that_of_a_difference_body(n_classes: int) -> None:
    radius = (
        0.5 / n_classes
    )  # no face of the simplex cuts the ball: V = C(2K−2, K−1) r^{K−1} × vol(Δ)
    sets = SCORE.region(np.full((1, n_classes), 1.0 / n_classes), radius)
    expected = np.prod([(n_classes - 1 + i) / i for i in range(1, n_classes)]) * radius ** (
        n_classes - 1
    )
    np.testing.assert_allclose(sets.volume(), expected, rtol=1e-7)


def test_volume_of_a_ball_around_a_corner_is_a_power() -> None:
    for k in (2, 4, 9):
        np.testing.assert_allclose(
            SCORE.region(np.eye(k)[:1], 0.3).volume(), 0.3 ** (k - 1), rtol=1e-8
        )


@pytest.mark.parametrize("n_classes", [4, 6, 8])
def test_volume_against_uniform_points(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    sets = SCORE.region(rng.dirichlet(np.ones(n_classes), 6), rng.uniform(0.25, 0.6, 6))
    held = sets.contains(sample_uniform(50_000, n_classes, 1), broadcast=True).mean(axis=1)
    np.testing.assert_allclose(sets.volume(), held, atol=5 * np.sqrt(0.25 / 50_000))


@pytest.mark.parametrize("n_classes", [5, 12])
@pytest.mark.parametrize("radius", [0.05, 0.2])
def test_estimates_by_rays_are_within_their_errors(n_classes: int, radius: float) -> None:
    geometry = SCORE.region(
        np.random.default_rng(1).dirichlet(np.full(n_classes, 0.5), 60), radius
    ).geometry
    exact = geometry.log_volume(np.random.default_rng(0), 2)[0]
    value, error, method = Geometry.log_volume(geometry, np.random.default_rng(0), 1024)
    assert method == "estimate"
    known = np.isfinite(error)
    assert known.mean() > 0.5
    deviations = (value - exact)[known] / error[known]
    assert np.sqrt((deviations**2).mean()) < 1.4
    assert np.abs(deviations).max() < 5.0


def test_many_classes_are_quick_or_not_known() -> None:
    value, error = SCORE.region(np.full((2, 300), 1.0 / 300), 0.1).volume(return_error=True)
    assert (np.isinf(error) | (error < value)).all()


def test_whole_and_point() -> None:
    volume = SCORE.region([[0.2, 0.3, 0.5]] * 3, [0.0, 0.8, 2.0]).volume()
    np.testing.assert_array_equal(volume, [0.0, 1.0, 1.0])
