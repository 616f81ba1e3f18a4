"""Arrays of predictions whose columns stand in another order than the classes of the votes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import credalset as cs
from credalset.exceptions import CredalSetWarning

CLASSES = ["low", "middle", "high", "emergency"]
RNG = np.random.default_rng(0)
TRUTH = RNG.dirichlet([0.5] * 4, 400)
VOTES = cs.Annotations.from_counts(RNG.multinomial(5, TRUTH), classes=CLASSES)
GOOD = 0.7 * TRUTH + 0.3 * RNG.dirichlet([1] * 4, 400)
ALPHABETICAL = np.argsort(CLASSES)  # as classes_ of scikit-learn


def said(prediction: Any, votes: Any = VOTES, **options: Any) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CredalSetWarning)
        cs.conformalize(prediction, votes, **options)
    return "".join(str(each.message) for each in caught)


@pytest.mark.parametrize("score", ["tv", "kl", "so"])
def test_alphabetical_columns_beside_a_scale(score: str) -> None:
    scale = 1.0 if score != "so" else 20.0
    found = said(scale * GOOD[:, ALPHABETICAL] + (score == "so"), score=score)
    assert (
        "taken for 'low', 'middle', 'high', 'emergency', but follow the votes far better as 'emergency', 'high',"
        in found
    )
    assert "classes=model.classes_" in found
    assert said(scale * GOOD + (score == "so"), score=score) == ""


def test_nothing_is_said_where_columns_have_names_or_votes_have_none() -> None:
    named = [CLASSES[k] for k in ALPHABETICAL]
    assert said(GOOD[:, ALPHABETICAL], classes=named) == ""
    assert said(GOOD[:, ALPHABETICAL], VOTES.counts) == ""


@pytest.mark.parametrize("seed", range(20))
def test_models_that_say_little_are_not_suspected(seed: int) -> None:
    """Random, constant, biased and very good predictions, with few items and many."""
    rng = np.random.default_rng(seed)
    n = [20, 100, 1000][seed % 3]
    truth = rng.dirichlet([0.3, 0.5, 0.5, 2.0], n)
    votes = cs.Annotations.from_counts(rng.multinomial(3, truth), classes=CLASSES)
    guess = rng.dirichlet([1.0] * 4, n)
    constant = np.tile(rng.dirichlet([5.0] * 4), (n, 1))
    for prediction in (guess, constant, 0.9 * guess + 0.1 * truth, truth):
        assert said(prediction, votes) == ""
