"""Outlines of many sets at once: on the boundary, within the tolerance,
in the order of the sets.
"""

from __future__ import annotations

import numpy as np
import pytest

from credalset.scores import (
    Hellinger,
    InnerProduct,
    KullbackLeibler,
    RelativeLikelihood,
    Score,
    TotalVariation,
    Wasserstein,
)
from credalset.sets import CredalSet
from credalset.sets.outline import area, outline, outlines, to_plane
from tests.sets.oracle import from_plane

CASES = [
    (TotalVariation(), 0.2),
    (Wasserstein(), 0.3),
    (Wasserstein(positions=(0, 1, 5)), 0.5),
    (KullbackLeibler(), 0.2),
    (Hellinger(), 0.05),
    (RelativeLikelihood(), 0.8),
]


ANGLES = np.linspace(0, 2 * np.pi, 1000, endpoint=False)
ALL_ROUND = from_plane(np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)) - from_plane(np.zeros(2))


def predictions(score: Score, n: int) -> np.ndarray:
    g = 0.95 * np.random.default_rng(0).dirichlet([0.7, 0.7, 0.7], n) + 0.05 / 3
    return 1 + 20 * g if score.order == "second" else g


def largest_distance(points: np.ndarray, polygon: np.ndarray) -> float:
    """How far the points of the plane are from the sides of a polygon, at most."""
    along, away = np.roll(polygon, -1, axis=0) - polygon, points[:, None] - polygon
    share = np.einsum("pse,se->ps", away, along) / np.maximum((along * along).sum(axis=1), 1e-300)
    away -= share.clip(0, 1)[..., None] * along
    return float(np.sqrt(np.einsum("pse,pse->ps", away, away).min(axis=1)).max())


def boundary(one: CredalSet, toward: np.ndarray) -> np.ndarray:
    """Points of the boundary by another way: the ends of rays from the centre toward
    points (M, 3).
    """
    directions = toward - one.center
    return one.center + one.geometry._ray_length(directions[None])[0][:, None] * directions


@pytest.mark.parametrize(("score", "threshold"), CASES, ids=[repr(score) for score, _ in CASES])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, None])
def test_no_further_from_the_ends_of_rays_than_the_tolerance(
    score: Score, threshold: float, tolerance: float | None
) -> None:
    sets = score.region(predictions(score, 6), threshold)
    found = [outline(one) for one in sets] if tolerance is None else outlines(sets, tolerance)
    for one, loops in zip(sets, found, strict=True):
        (corners,) = loops
        away = np.abs(corners - one.center).max(axis=1) > 1e-12
        np.testing.assert_allclose(boundary(one, corners[away]), corners[away], atol=1e-6)
        ends = to_plane(boundary(one, one.center + ALL_ROUND))
        assert largest_distance(ends, to_plane(corners)) < (
            2e-5 if tolerance is None else tolerance
        )


def test_fewer_corners_for_a_wider_tolerance() -> None:
    sets = KullbackLeibler().region(predictions(KullbackLeibler(), 20), 0.2)
    sizes = [
        sum(len(loop) for loops in outlines(sets, t) for loop in loops) for t in (1e-2, 1e-3, 1e-4)
    ]
    assert sizes[0] < sizes[1] < sizes[2]


@pytest.mark.parametrize("score", [TotalVariation(), Wasserstein(), InnerProduct()], ids=repr)
def test_polytopes_are_exact(score: Score) -> None:
    sets = score.region(predictions(score, 50), 0.6 if isinstance(score, InnerProduct) else 0.15)
    volumes = sets.volume()
    np.testing.assert_allclose(
        [area(loops) for loops in outlines(sets, 1e-3)], volumes, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose([area(outline(one)) for one in sets], volumes, rtol=1e-9, atol=1e-12)
    for corner in sets.vertices(0):
        assert np.abs(outline(sets[0])[0] - corner).max(axis=1).min() < 1e-9


def test_empty_and_whole_sets_and_none() -> None:
    sets = InnerProduct().region(
        [[0.4, 0.3, 0.3], [0.9, 0.05, 0.05], [0.4, 0.3, 0.3]], [0.5, 0.5, np.inf]
    )
    found = outlines(sets)
    assert [len(loops) for loops in found] == [0, 1, 1]
    assert area(found[2]) == pytest.approx(1.0)
    assert outlines(sets[:0]) == []


def test_points_are_points() -> None:
    (loops,) = outlines(TotalVariation().region([[0.2, 0.3, 0.5]], 0.0))
    np.testing.assert_allclose(loops[0], [[0.2, 0.3, 0.5]])
