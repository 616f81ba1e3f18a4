"""Arrays of predictions whose columns stand in another order than the classes of the votes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

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


# --- scales ---

SCALED = cs.Annotations.from_counts(VOTES.counts, classes=CLASSES, ordered=True)
NAMED = pd.DataFrame(GOOD, columns=CLASSES)


@pytest.mark.parametrize("score", ["ws", cs.scores.Wasserstein([0, 1, 2, 5]), cs.scores.Normalized("ws")])
def test_scores_that_go_by_order_refuse_columns_in_another(score: Any) -> None:
    made = cs.conformalize(NAMED, SCALED, score)
    words = r"on the scale 'low', 'middle', 'high', 'emergency', but predictions have .* 'emergency', 'high', 'low'"
    with pytest.raises(ValueError, match=words):
        cs.conformalize(NAMED[sorted(CLASSES)], SCALED, score)
    with pytest.raises(ValueError, match=words):
        cs.conformalize(GOOD[:, ALPHABETICAL], SCALED, score, classes=sorted(CLASSES))
    again = NAMED[sorted(CLASSES)][list(SCALED.classes)]  # as the message says
    assert cs.conformalize(again, SCALED, score).threshold(0.1) == made.threshold(0.1)
    assert made.predict_set(NAMED[sorted(CLASSES)], 0.1).classes == tuple(CLASSES)


def test_a_model_fitted_elsewhere_is_refused_and_one_fitted_to_the_votes_is_not() -> None:
    labels = [CLASSES[k] for k in TRUTH.argmax(axis=1)]
    fitted = LogisticRegression().fit(GOOD[:200], labels[:200])
    with pytest.raises(ValueError, match="a classifier learns it where it is fitted to votes on that scale"):
        cs.ConformalCredalClassifier(fitted, "ws").conformalize(GOOD[200:], SCALED[200:])
    own = cs.ConformalCredalClassifier(LogisticRegression(), "ws").fit(GOOD[:200], SCALED[:200])
    assert own.conformalize(GOOD[200:], SCALED[200:]).classes_.tolist() == CLASSES


def test_other_scores_and_votes_without_a_scale_take_any_order() -> None:
    turned = NAMED[sorted(CLASSES)]
    expected = cs.conformalize(NAMED, SCALED, "kl").threshold(0.1)
    assert cs.conformalize(turned, SCALED, "kl").threshold(0.1) == pytest.approx(expected, rel=1e-12)
    assert cs.conformalize(turned, VOTES, "ws").classes == tuple(sorted(CLASSES))
