"""Probability intervals with predicted sides: brute force for every closed form, and what is refused."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import credalset as cs
from credalset.scores import IntervalPrediction, Intervals, Normalized, Prototypes, TotalVariation
from credalset.scores.intervals import MAX_CLASSES, vertices
from credalset.simplex import entropy_of_valid, grid
from credalset.testing import check_score


def intervals(n: int, k: int, seed: int = 0, spread: float = 1.0) -> np.ndarray:
    """Sharp and flat centres, sides of different size: (n, 3, k)."""
    rng = np.random.default_rng(seed)
    centers = rng.dirichlet(np.full(k, 0.6), n)
    return np.stack([centers, *np.exp(rng.normal(-2.0, spread, (2, n, k)))], axis=1)


@pytest.mark.parametrize("k", [2, 3, 4, 7])
def test_laws(k: int) -> None:
    assert check_score(Intervals(), intervals(6, k))


def test_formula_and_ends() -> None:
    prediction, labels = intervals(8, 4), np.random.default_rng(1).dirichlet(np.ones(4), 8)
    g, below, above = np.moveaxis(prediction, 1, 0)
    expected = [
        max(max((y - m) / a, (m - y) / b) for y, m, b, a in zip(*rows, strict=True))
        for rows in zip(labels, g, below, above, strict=True)
    ]
    assert Intervals()(prediction, labels) == pytest.approx(np.array(expected), rel=1e-14)
    plain = Intervals()(g, labels)
    assert plain == pytest.approx(np.abs(labels - g).max(axis=1), rel=1e-14)


@pytest.mark.parametrize("k", [2, 3, 5, 9])
def test_envelopes_and_expectations_are_those_of_a_linear_programme(k: int) -> None:
    prediction, rng = intervals(12, k, seed=k), np.random.default_rng(2)
    sets = Intervals().region(prediction, rng.gamma(2.0, 0.5, 12))
    lower, upper = sets.envelope()
    utility = rng.normal(size=(12, k))
    largest, at = sets.upper_expectation(utility, return_distribution=True)
    assert sets.contains(0.999999 * at + 0.000001 * prediction[:, 0]).all()
    for i in range(12):
        g, below, above = prediction[i]
        ends = np.stack([g - sets.radius[i] * below, g + sets.radius[i] * above], axis=1).clip(0.0, 1.0)

        def least(cost: np.ndarray, ends: np.ndarray = ends) -> float:
            return float(linprog(cost, A_eq=np.ones((1, k)), b_eq=[1.0], bounds=ends, method="highs").fun)

        for j in range(k):
            assert lower[i, j] == pytest.approx(least(np.eye(k)[j]), abs=1e-9)
            assert upper[i, j] == pytest.approx(-least(-np.eye(k)[j]), abs=1e-9)
        assert largest[i] == pytest.approx(-least(-utility[i]), abs=1e-9)


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 6))
def test_entropies_peaks_and_labels_by_the_vertices(seed: int, k: int) -> None:
    """The least entropy is a vertex's; no member, mixed from vertices, has a larger one or a smaller peak."""
    rng = np.random.default_rng(seed)
    sets = Intervals().region(intervals(1, k, seed, spread=2.0), float(rng.gamma(1.0, 1.0)) + 1e-3)
    corners = sets.vertices(0)
    least, most = sets.entropy_bounds()
    assert sets.entropy_bounds().method == "exact"
    assert least[0] == pytest.approx(entropy_of_valid(corners).min(), abs=1e-9)
    mixed = rng.dirichlet(np.ones(len(corners)), 300) @ corners
    assert entropy_of_valid(mixed).max() <= most[0] + 1e-9
    assert mixed.max(axis=1).min() >= sets.smallest_peak()[0] - 1e-9
    for label, possible in enumerate(sets.decide()[0]):
        others = np.delete(np.eye(k)[label] - np.eye(k), label, axis=0)
        lead = linprog(
            np.r_[np.zeros(len(corners)), -1.0],
            A_ub=np.column_stack([-(others @ corners.T), np.ones(k - 1)]),
            b_ub=np.zeros(k - 1),
            A_eq=np.r_[np.ones(len(corners)), 0.0][None],
            b_eq=[1.0],
            bounds=[(0, None)] * len(corners) + [(None, None)],
        )
        if abs(lead.fun) > 1e-7:
            assert possible == (-lead.fun > 0)


def test_against_a_dense_grid() -> None:
    points = grid(3, 0.004)
    sets = Intervals().region(intervals(10, 3, seed=3), np.linspace(0.3, 3.0, 10))
    lower, upper = sets.envelope()
    least, most = sets.entropy_bounds()
    for i, inside in enumerate(sets.contains(points, broadcast=True)):
        found = points[inside]
        entropies = entropy_of_valid(found)
        assert (found.min(axis=0) >= lower[i] - 1e-12).all()
        assert (found.max(axis=0) <= upper[i] + 1e-12).all()
        assert least[i] - 1e-9 <= entropies.min()
        assert entropies.max() <= most[i] + 1e-9
        assert entropies.max() >= most[i] - 0.02
        assert set(found.argmax(axis=1)) <= set(np.flatnonzero(sets.decide()[i]))
        assert sets.volume()[i] == pytest.approx(inside.mean(), abs=0.01)


@given(seed=st.integers(0, 2**32 - 1))
def test_area_of_three_classes_by_inclusion_and_exclusion(seed: int) -> None:
    """Σ_S (−1)^|S| (spare − room(S))₊² over the sets S of classes beyond their upper ends."""
    sets = Intervals().region(intervals(1, 3, seed, spread=2.0), 1.0)
    lower, upper = (end[0] for end in sets.envelope())
    room, spare = upper - lower, 1.0 - lower.sum()
    area = sum((-1) ** sum(s) * max(spare - np.dot(s, room), 0.0) ** 2 for s in product((0, 1), repeat=3))
    assert sets.volume()[0] == pytest.approx(area, rel=1e-6, abs=1e-14)


def test_equal_sides_over_three_classes_are_total_variation() -> None:
    g = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    ours, theirs = Intervals().region(g, 0.2), TotalVariation().region(g, 0.2)
    assert ours.envelope()[0] == pytest.approx(theirs.envelope()[0], abs=1e-12)
    assert ours.volume() == pytest.approx(theirs.volume(), rel=1e-10)
    assert ours.entropy_bounds()[0] == pytest.approx(theirs.entropy_bounds()[0], abs=1e-12)


def test_many_classes_bracket_the_least_entropy_and_list_no_vertices() -> None:
    sets = Intervals().region(intervals(3, MAX_CLASSES + 1), 1.0)
    assert sets.answers()["entropy_bounds"] == "bracket"
    with pytest.raises(ValueError, match="vertices are listed for at most 12 classes"):
        sets.vertices(0)


def test_vertices_of_a_box_that_the_simplex_does_not_cut() -> None:
    found = vertices(np.array([0.5, 0.3, 0.2]), np.full(3, 0.1), np.full(3, 0.1))
    assert len(np.unique(found.round(12), axis=0)) == 6
    assert found.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        (np.full((2, 2, 3), 1 / 3), r"intervals of shape \(N, 3, classes\)"),
        (np.array([[[0.5, 0.5], [0.1, 0.0], [0.1, 0.1]]]), "finite sides above 0"),
        (np.array([[[0.5, 0.5], [0.1, 0.1], [0.1, np.inf]]]), "finite sides above 0"),
        (np.array([[[0.5, 0.9], [0.1, 0.1], [0.1, 0.1]]]), "do not sum to one"),
        (IntervalPrediction(np.full((1, 2), 0.5), np.ones((1, 3)), np.ones((1, 2))), "finite sides above 0"),
    ],
)
def test_refusals(prediction: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Intervals().region(prediction, 1.0)


def test_others_do_not_build_on_it() -> None:
    with pytest.raises(ValueError, match="plain predictions"):
        Prototypes("intervals")
    with pytest.raises(ValueError, match="Normalized needs"):
        Normalized("intervals")


def test_named_and_plain_predictions_are_the_same(tmp_path: Any) -> None:
    array = intervals(5, 3)
    named = IntervalPrediction(*np.moveaxis(array, 1, 0))
    assert np.array_equal(np.asarray(named), array)
    sets = Intervals().region(named, 0.7)
    sets.save(tmp_path / "sets")
    again = cs.load(tmp_path / "sets")
    assert np.array_equal(again.upper(), Intervals().region(array, 0.7).upper())
    assert cs.get_score("intervals") == Intervals()
