"""An item's answers are the same bits, whichever items it is asked about with."""

from __future__ import annotations

import numpy as np
import pytest

from credalset.scores import get_score
from credalset.sets import CredalSet
from credalset.sets.columns import QUESTIONS, columns

ASK = [name for name in QUESTIONS if name != "volume"]
SCORES = ("tv", "kl", "inner", "so", "density", "hellinger", "brier", "intervals", "ws")
N = 42


def make_sets(name: str, k: int) -> CredalSet:
    """Sets around predictions of which some have zeros; from single members to the simplex."""
    rng = np.random.default_rng(k)
    score = get_score(name)
    centers = rng.dirichlet(np.ones(k), N)
    if score.order == "first" and name != "intervals":
        centers[:5, 0] = 0.0
        centers[:5] /= centers[:5].sum(axis=1, keepdims=True)
    prediction = centers if score.order == "first" else 1.0 + 20.0 * centers
    if name == "intervals":
        prediction = np.stack([centers, *(0.05 + 0.2 * rng.random((2, N, k)))], axis=1)
    scores = score(prediction, rng.dirichlet(np.ones(k), N))
    finite = np.where(np.isfinite(scores), scores, 1.0)
    return score.region(prediction, finite * rng.choice([0.0, 0.1, 0.5, 1.0, 3.0], N))


@pytest.mark.parametrize("k", [2, 3, 8, 11])
@pytest.mark.parametrize("name", SCORES)
def test_answers_do_not_depend_on_the_batch(name: str, k: int) -> None:
    """NumPy adds the entries of one column in another order than those of many."""
    sets = make_sets(name, k)
    together = columns(sets, ASK)
    for size in (1, 2, 5):
        parts = [columns(sets[start : start + size], ASK) for start in range(0, N, size)]
        for column, values in together.items():
            found = np.concatenate([part[column] for part in parts])
            assert np.array_equal(found, values, equal_nan=values.dtype.kind == "f"), column


@pytest.mark.parametrize("name", ["so", "density"])
def test_bounds_converge_row_by_row(name: str) -> None:
    """All rows of a batch took as many steps as the slowest."""
    rng = np.random.default_rng(10)
    concentration = 1.0 + 20.0 * rng.dirichlet(np.full(10, 0.6), 60)
    score = get_score(name)
    scores = score(concentration, rng.dirichlet(np.ones(10), 60))
    sets = score.region(concentration, scores * rng.choice([0.1, 0.5, 1.0, 3.0], 60))
    alone = np.concatenate([sets[row : row + 1].lower() for row in range(60)])
    assert np.array_equal(alone, sets.lower(), equal_nan=True)
