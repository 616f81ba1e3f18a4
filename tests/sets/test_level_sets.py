"""Scores that say no more than their formula: certified answers, kept ties,
and the checks for authors of scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pytest

import credalset as cs
from credalset.scores import Score, TotalVariation
from credalset.sets import CredalSet
from credalset.simplex import entropy_of_valid
from credalset.testing import check_score
from tests.sets.oracle import make_sets, members, nearest_with_top

EPS = 1e-6


@dataclass(frozen=True)
class ChiSquare(Score):
    """Smooth, infinite where the prediction is zero."""

    name: ClassVar[str] = "chi-square"
    order: ClassVar[Literal["first", "second"]] = "first"

    def formula(self, prediction: np.ndarray, distribution: np.ndarray) -> np.ndarray:
        terms = np.where(
            distribution == prediction, 0.0, (distribution - prediction) ** 2 / prediction
        )
        return terms.sum(axis=-1)


@dataclass(frozen=True)
class Largest(Score):
    """Kinks wherever two classes are equally far off."""

    name: ClassVar[str] = "largest"
    order: ClassVar[Literal["first", "second"]] = "first"

    def formula(self, prediction: np.ndarray, distribution: np.ndarray) -> np.ndarray:
        return np.abs(distribution - prediction).max(axis=-1)


@dataclass(frozen=True)
class Plain(Score):
    """Total variation without its geometry."""

    name: ClassVar[str] = "plain"
    order: ClassVar[Literal["first", "second"]] = "first"

    def formula(self, prediction: np.ndarray, distribution: np.ndarray) -> np.ndarray:
        return 0.5 * np.abs(distribution - prediction).sum(axis=-1)


each = pytest.mark.parametrize(
    "score", [ChiSquare(), Largest(), Plain()], ids=lambda score: score.name
)


@each
def test_answers_do_not_depend_on_other_sets(score: Score) -> None:
    """Searches and cuts stop where each set has converged by itself."""
    rng = np.random.default_rng(0)
    sets = score.region(rng.dirichlet(np.ones(3), 4), rng.uniform(0.02, 0.4, 4))
    utility = rng.normal(size=(4, 3))
    together = (*sets.envelope(), *sets.entropy_bounds(), *sets.support(utility))
    for i in (0, 3):
        one = score.region(sets.prediction[[i]], sets.threshold[[i]])
        alone = (*one.envelope(), *one.entropy_bounds(), *one.support(utility[[i]]))
        for found, expected in zip(alone, together, strict=True):
            np.testing.assert_array_equal(found[0], expected[i])


@each
@pytest.mark.parametrize("n_classes", [2, 4])
def test_certified_answers(score: Score, n_classes: int) -> None:
    sets = make_sets(score, n_classes, 0.3)
    found = members(sets, 200)
    lower, upper = sets.envelope()
    assert (found >= lower[:, None] - EPS).all()
    assert (found <= upper[:, None] + EPS).all()
    bounds, entropy = sets.entropy_bounds(), entropy_of_valid(found)
    assert (entropy >= bounds.lower[:, None] - EPS).all()
    assert (entropy <= bounds.upper[:, None] + EPS).all()
    assert (entropy.max(axis=1) <= bounds.upper + EPS).all()
    kept = sets.decide()
    for k in range(n_classes):
        assert (kept[:, k] >= (nearest_with_top(sets, k) <= sets.threshold)).all()


@pytest.mark.parametrize("n_classes", [3])
def test_the_same_answers_as_a_closed_form(n_classes: int) -> None:
    sets = make_sets(Plain(), n_classes, 0.2)
    exact = TotalVariation().region(sets.prediction, sets.threshold)
    tolerance = 2 * sets.geometry.tolerance
    np.testing.assert_allclose(sets.lower(), exact.lower(), atol=tolerance)
    np.testing.assert_allclose(sets.upper(), exact.upper(), atol=tolerance)
    for utility in np.random.default_rng(0).normal(size=(3, n_classes)):
        np.testing.assert_allclose(
            sets.upper_expectation(utility),
            exact.upper_expectation(utility),
            atol=tolerance * np.ptp(utility),
        )
    bounds, known = sets.entropy_bounds(), exact.entropy_bounds()
    assert (bounds.lower <= known.lower + EPS).all()
    assert (known.lower <= bounds.lower + bounds.lower_gap + EPS).all()
    assert (bounds.upper >= known.upper - EPS).all()
    assert (known.upper >= bounds.upper - bounds.upper_gap - EPS).all()


def tied() -> CredalSet:
    return ChiSquare().region([[0.4, 0.4, 0.2]], threshold=0.05)


def test_ties_are_kept_where_answers_have_a_tolerance() -> None:
    for rule in ("gamma-maximin", "gamma-maximax", "e-admissible", "maximal", "interval-dominance"):
        np.testing.assert_array_equal(tied().decide(rule), [[True, True, False]])


def test_brackets_are_not_called_exact() -> None:
    bounds = tied().entropy_bounds()
    assert bounds.method == "bracket"
    assert tied().geometry.tolerance > 0


@each
def test_formulas_pass_the_checks(score: Score) -> None:
    predictions = np.random.default_rng(0).dirichlet(np.ones(3), 3)
    assert "answers" in check_score(score, predictions).checks


def test_a_formula_alone_serves_calibration_and_sampling() -> None:
    sets = ChiSquare().region([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]], threshold=0.1)
    assert sets.contains(sets.sample(50, random_state=0)).all()
    value, error = sets.volume(return_error=True)
    assert (value > 0).all()
    assert (error < 0.2 * value).all()


def test_five_items_calibrate_a_formula() -> None:
    """So few items give infinite thresholds: every set is the whole simplex."""
    rng = np.random.default_rng(0)
    predictions = rng.dirichlet([1.0, 1.0, 1.0], 5)
    votes = rng.multinomial(10, predictions)
    calibration = cs.conformalize(predictions, votes, ChiSquare())
    with pytest.warns(cs.CredalSetWarning, match="infinite"):
        sets = calibration.predict_set(predictions, alpha=0.1)
    assert sets.width().tolist() == [1.5] * 5
    assert sets.labels() == [[0, 1, 2]] * 5
    with pytest.warns(cs.CredalSetWarning, match="infinite"):
        row = cs.evaluate(calibration, predictions, votes, 0.1, volume=True)[0]
    assert (row["coverage"], row["volume"], row["empty"]) == (1.0, 1.0, 0)


def test_formulas_that_are_not_convex_need_a_geometry() -> None:
    @dataclass(frozen=True)
    class Bent(Plain):
        is_convex: ClassVar[bool] = False

    with pytest.raises(NotImplementedError, match="geometry"):
        Bent().region([[0.5, 0.5]], 0.1)
