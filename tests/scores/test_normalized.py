"""Scores divided by how hard an item is: the same sets as those of the inner score,
to the last bit.
"""

from __future__ import annotations

import numpy as np
import pytest

from credalset.scores import (
    InnerProduct,
    KullbackLeibler,
    Normalized,
    RelativeLikelihood,
    ScaledPrediction,
    TotalVariation,
)
from credalset.simplex import entropy


def test_values() -> None:
    rng = np.random.default_rng(0)
    g, y = rng.dirichlet(np.ones(4), 30), rng.dirichlet(np.ones(4), 30)
    expected = TotalVariation()(g, y) / (entropy(g, base="K") + 0.1)
    np.testing.assert_allclose(Normalized("tv", offset=0.1)(g, y), expected, rtol=1e-13)


def test_a_certain_prediction_accepts_itself_only() -> None:
    score = Normalized("tv")
    assert score([[1.0, 0.0]], [[1.0, 0.0]])[0] == 0.0
    assert score([[1.0, 0.0]], [[0.9, 0.1]])[0] == np.inf
    sets = score.region([[1.0, 0.0]], 5.0)
    np.testing.assert_array_equal(sets.upper(), [[1.0, 0.0]])
    assert np.isposinf(score.region([[1.0, 0.0]], np.inf).radius[0])


@pytest.mark.parametrize("inner", [TotalVariation(), KullbackLeibler(), InnerProduct()], ids=repr)
def test_thresholds_are_rounded_to_the_same_members(inner: object) -> None:
    """The region is that of the largest inner score whose quotient is at most the threshold."""
    rng = np.random.default_rng(1)
    score = Normalized(inner, offset=0.07)  # type: ignore[arg-type]
    g, y = rng.dirichlet(np.ones(3), 500), rng.dirichlet(np.ones(3), 500)
    sets = score.region(g, score(g, y))
    assert sets.contains(y).all()
    raw = score.score(g, y)
    unit = np.log(2.0) if isinstance(inner, KullbackLeibler) else 1.0
    assert (raw * unit <= sets.radius * (1 + 4e-16)).all()
    below = score.region(g, np.nextafter(score(g, y), -np.inf))
    assert not below.contains(y).any()


def test_whole_simplices_of_saturated_scores_have_the_answers_of_whole_simplices() -> None:
    """Threshold × scale may round to just below the largest score:
    membership and geometry must still agree.
    """
    concentration = 1.0 + 40.0 * np.array([[0.6, 0.3, 0.1]])
    score = Normalized(RelativeLikelihood(), scale="predicted")
    points = np.concatenate([np.eye(3), np.full((1, 3), 1 / 3), [[0.02, 0.08, 0.9]]])
    for scale in (0.1, 0.3, 0.7, 1.1, 3.0):
        prediction = ScaledPrediction(concentration, np.array([scale]))
        for threshold in (1.0 / scale, np.nextafter(1.0 / scale, 0.0)):
            sets = score.region(prediction, threshold)
            inside = sets.contains(points, broadcast=True)[0]
            lower, upper = sets.envelope()
            assert (points[inside] <= upper + 1e-6).all()
            assert (points[inside] >= lower - 1e-6).all()


def test_a_scale_per_item() -> None:
    rows = np.array([[0.5, 0.5], [0.5, 0.5]])
    score = Normalized("tv", offset=0.0, scale="predicted")
    prediction = ScaledPrediction(rows, np.array([0.1, 1.0]))
    np.testing.assert_allclose(score(prediction, [[1.0, 0.0], [1.0, 0.0]]), [5.0, 0.5])
    sets = score.region(prediction, 0.25)
    np.testing.assert_allclose(sets.upper(), [[0.525, 0.525], [0.75, 0.75]])
    np.testing.assert_allclose(sets[1:].upper(), [[0.75, 0.75]])


@pytest.mark.parametrize(
    ("build", "argument"),
    [
        (lambda: Normalized("tv", scale="guessed"), "scale"),
        (lambda: Normalized(Normalized("tv")), "score"),
        (lambda: Normalized("so"), "score"),
        (lambda: Normalized("tv", offset=-1.0), "offset"),
        (lambda: Normalized("tv", scale="predicted").region([[0.5, 0.5]], 0.1), "prediction"),
        (
            lambda: Normalized("tv", scale="predicted").region(
                ScaledPrediction(np.eye(2), np.array([1.0, -1.0])), 0.1
            ),
            "scale",
        ),
    ],
)
def test_messages(build: object, argument: str) -> None:
    with pytest.raises((TypeError, ValueError), match=argument):
        build()  # type: ignore[operator]


def test_it_is_what_the_inner_score_is() -> None:
    assert Normalized("ws").is_ordinal
    assert not Normalized("tv").is_ordinal
    assert Normalized("so", scale="predicted").order == "second"
