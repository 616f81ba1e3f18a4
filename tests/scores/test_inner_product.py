"""Half-spaces: emptiness, vertices, volumes and draws;
everything else is in `tests.sets.test_oracles`.
"""

from __future__ import annotations

import numpy as np
import pytest

from credalset.scores import InnerProduct
from credalset.simplex import sample_uniform

SCORE = InnerProduct()


def test_empty_exactly_when_the_best_corner_is_outside() -> None:
    g = np.random.default_rng(0).dirichlet(np.ones(4), 50)
    least = 1.0 - g.max(axis=1)
    assert not SCORE.region(g, least).is_empty().any()
    assert SCORE.region(g, least - 1e-12).is_empty().all()
    empty = SCORE.region([[0.4, 0.3, 0.3]], 0.5)
    assert empty.volume()[0] == 0.0
    assert np.isnan(empty.lower()).all()
    assert not empty.decide().any()
    assert len(empty.vertices(0)) == 0


def test_a_member_at_rounding_makes_a_set_not_empty() -> None:
    """Mixtures of tied classes can score one bit below their corners."""
    found = 0
    for k in range(2, 40):
        flat = np.full((1, k), 1.0 / k)
        for label in (flat, np.r_[np.full(k - 1, 1.0 / (k - 1)), 0.0][None]):
            sets = SCORE.region(flat, SCORE(flat, label))
            assert sets.contains(label)[0]
            found += bool(SCORE(flat, label)[0] < 1.0 - flat.max())
            assert not sets.is_empty()[0]
            assert np.isfinite(sets.lower()).all()
    assert found


def test_vertices_are_members_and_span_the_support() -> None:
    rng = np.random.default_rng(2)
    sets = SCORE.region(rng.dirichlet(np.ones(5), 10), 0.7)
    for i in np.flatnonzero(~sets.is_empty()):
        corners = sets.vertices(int(i))
        assert (
            SCORE(np.repeat(sets.prediction[[i]], len(corners), axis=0), corners) <= 0.7 + 1e-12
        ).all()
        for utility in rng.normal(size=(5, 5)):
            assert (corners @ utility).max() == pytest.approx(
                sets[int(i)].upper_expectation(utility)[0]
            )


@pytest.mark.parametrize("n_classes", [2, 3, 6, 10])
def test_volume_against_uniform_points(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    g = rng.dirichlet(np.ones(n_classes), 8)
    threshold = np.minimum(1.0 - 1.0 / n_classes + rng.uniform(-0.05, 0.05, 8), 0.99)
    sets = SCORE.region(g, np.maximum(threshold, 1.0 - g.max(axis=1)))
    held = sets.contains(sample_uniform(100_000, n_classes, 0), broadcast=True).mean(axis=1)
    value, error = sets.volume(return_error=True)
    assert (error == 0.0).all()
    np.testing.assert_allclose(value, held, atol=5 * np.sqrt(0.25 / 100_000))


def test_volumes_far_below_the_range_of_doubles() -> None:
    k = 400
    g = np.r_[0.5, np.full(k - 1, 0.5 / (k - 1))][None]
    inside = 0.5 + 0.5 / (k - 1) - 1.0 / k  # a corner cut off: λ_1 ≥ s has the share (1 − s)^{K−1}
    threshold = 1.0 - (0.5 * 0.9 + 0.1 * 0.5 / (k - 1))
    log = SCORE.region(g, threshold).log_volume()
    assert inside > 0
    np.testing.assert_allclose(log.value, (k - 1) * np.log(0.1), rtol=1e-9)


def test_draws_are_uniform() -> None:
    g = np.array([[0.5, 0.3, 0.2], [0.34, 0.33, 0.33], [0.8, 0.15, 0.05]])
    sets = SCORE.region(g, [0.62, 0.665, 0.4])
    draws, pool = sets.sample(4000, random_state=0), sample_uniform(200_000, 3, 1)
    held = sets.contains(pool, broadcast=True)
    for i in range(3):
        inside = pool[held[i]]
        np.testing.assert_allclose(
            draws[i].mean(axis=0), inside.mean(axis=0), atol=5 * 0.3 / np.sqrt(4000)
        )
        np.testing.assert_allclose(draws[i].std(axis=0), inside.std(axis=0), atol=0.02)
