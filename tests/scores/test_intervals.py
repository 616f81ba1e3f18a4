"""Probability intervals with predicted sides: brute force for every closed form,
and what is refused.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb, log
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import entropy

import credalset as cs
from credalset.scores import IntervalPrediction, Intervals, TotalVariation
from credalset.scores.intervals import Frame
from credalset.simplex import entropy_of_valid, sample_uniform
from credalset.testing import check_score


def intervals(n: int, k: int, seed: int = 0, spread: float = 1.0) -> np.ndarray:
    """Sharp and flat centres, sides of different size: (n, 3, k)."""
    rng = np.random.default_rng(seed)
    centers = rng.dirichlet(np.full(k, 0.6), n)
    return np.stack([centers, *np.exp(rng.normal(-2.0, spread, (2, n, k)))], axis=1)


@pytest.mark.parametrize("k", [2, 3, 4, 7])
def test_laws(k: int) -> None:
    assert check_score(Intervals(), intervals(6, k))


def test_formula() -> None:
    prediction, labels = intervals(8, 4), np.random.default_rng(1).dirichlet(np.ones(4), 8)
    g, below, above = np.moveaxis(prediction, 1, 0)
    expected = [
        max(max((y - m) / a, (m - y) / b) for y, m, b, a in zip(*rows, strict=True))
        for rows in zip(labels, g, below, above, strict=True)
    ]
    assert Intervals()(prediction, labels) == pytest.approx(np.array(expected), rel=1e-14)
    assert Intervals()(g, labels) == pytest.approx(np.abs(labels - g).max(axis=1), rel=1e-14)


@pytest.mark.parametrize("k", [2, 3, 5, 9])
def test_envelopes_and_expectations_are_those_of_a_linear_programme(k: int) -> None:
    prediction, rng = intervals(8, k, seed=k), np.random.default_rng(2)
    sets = Intervals().region(prediction, rng.gamma(2.0, 0.5, 8))
    lower, upper = sets.envelope()
    utility = rng.normal(size=(8, k))
    largest, at = sets.support(utility)
    assert sets.contains(0.999999 * at + 0.000001 * prediction[:, 0]).all()
    for i in range(8):
        g, below, above = prediction[i]
        ends = np.stack([g - sets.radius[i] * below, g + sets.radius[i] * above], axis=1).clip(
            0.0, 1.0
        )

        def least(cost: np.ndarray, ends: np.ndarray = ends) -> float:
            return float(
                linprog(cost, A_eq=np.ones((1, k)), b_eq=[1.0], bounds=ends, method="highs").fun
            )

        for j in range(k):
            assert lower[i, j] == pytest.approx(least(np.eye(k)[j]), abs=1e-9)
            assert upper[i, j] == pytest.approx(-least(-np.eye(k)[j]), abs=1e-9)
        assert largest[i] == pytest.approx(-least(-utility[i]), abs=1e-9)


@pytest.mark.parametrize("k", [2, 3, 4, 6])
@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_entropies_and_modes_by_the_vertices(k: int, spread: float) -> None:
    rng = np.random.default_rng(k)
    sets = Intervals().region(intervals(15, k, k, spread), rng.gamma(1.0, 1.0, 15) + 1e-3)
    bounds, kept = sets.entropy_bounds(), sets.decide()
    for i in range(len(sets)):
        corners = sets.vertices(i)
        least = entropy_of_valid(corners).min()
        assert bounds.lower[i] <= least + 1e-9
        assert bounds.lower[i] + bounds.lower_gap[i] >= least - 1e-9
        if k <= 4:
            assert bounds.lower[i] == pytest.approx(least, abs=1e-9)
        mixed = rng.dirichlet(np.ones(len(corners)), 300) @ corners
        assert entropy_of_valid(mixed).max() <= bounds.upper[i] + 1e-9
        for label, possible in enumerate(kept[i]):
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


@pytest.mark.parametrize("k", [2, 3, 4, 6])
@pytest.mark.parametrize("threshold", [0.0, 1e-320, 1e-17, 1e-12])
def test_entropies_of_tiny_sets_are_those_of_the_centre(k: int, threshold: float) -> None:
    """Also where the rounding of predictions, here in single precision, exceeds the set."""
    rng = np.random.default_rng(k)
    centers = np.concatenate([rng.dirichlet(np.full(k, c), 200) for c in (0.05, 0.3, 3.0)])
    expected = entropy(centers, axis=1)
    for rounded in (centers, centers.astype(np.float32).astype(float)):
        bounds = Intervals().region(rounded, threshold).entropy_bounds()
        assert bounds.lower == pytest.approx(expected, abs=2e-6)
        assert bounds.upper == pytest.approx(expected, abs=2e-6)
        assert (bounds.lower <= bounds.upper).all()


def test_brackets_of_ten_classes_are_narrow() -> None:
    for spread in (0.5, 1.5):
        sets = Intervals().region(
            intervals(300, 10, 1, spread), np.random.default_rng(0).uniform(0.1, 3.0, 300)
        )
        bounds = sets.entropy_bounds(base="K")
        assert bounds.lower_gap.mean() < 0.01


@pytest.mark.parametrize("k", [3, 4, 6])
def test_volumes_are_exact_and_samples_uniform(k: int) -> None:
    """On earlier versions volumes beyond three classes were estimates, some of them far off."""
    centers = np.stack(
        [np.eye(k)[0], np.full(k, 1 / k), np.r_[0.5, 0.5, np.zeros(k - 2)], *intervals(3, k)[:, 0]]
    )
    sides = np.random.default_rng(0).uniform(0.05, 0.9, (2, 6, k))
    sets = Intervals().region(np.stack([centers, *sides], axis=1), 1.0)
    volume = sets.volume(return_error=True)
    assert volume.method == "exact"
    share = sets.contains(sample_uniform(200_000, k, 0), broadcast=True).mean(axis=1)
    noise = np.sqrt(share * (1 - share) / 2e5)
    assert (np.abs(np.asarray(volume[0]) - share) <= 5 * noise + 1e-9).all()
    draws = sets.sample(4000, random_state=1)
    assert sets.contains(draws).all()
    pool = sample_uniform(200_000, k, 2)
    for i, inside in enumerate(sets.contains(pool, broadcast=True)):
        expected, spread = pool[inside].mean(axis=0), pool[inside].std(axis=0)
        noise = spread * np.hypot(1 / np.sqrt(4000), 1 / np.sqrt(max(inside.sum(), 1)))
        assert (np.abs(draws[i].mean(axis=0) - expected) <= 5 * noise + 1e-9).all()


@pytest.mark.parametrize(
    ("k", "width"),
    [(5, Fraction(1, 4)), (12, Fraction(1, 5)), (40, Fraction(1, 10)), (60, Fraction(1, 15))],
)
def test_volume_of_equal_boxes_in_exact_arithmetic(k: int, width: Fraction) -> None:
    """P(all K spacings ≤ w) = Σ_j (−1)^j C(K, j) (1 − j w)₊^(K−1), in fractions."""
    expected = sum(
        (-1) ** j * comb(k, j) * max(1 - j * width, Fraction(0)) ** (k - 1) for j in range(k + 1)
    )
    center = np.full(k, 1.0 / k)
    prediction = np.stack([center, center, np.full(k, float(width) - 1.0 / k)])[None]
    volume = Intervals().region(prediction, 1.0).log_volume()
    assert volume.method == "exact"
    assert np.asarray(volume.value)[0] == pytest.approx(log(expected), abs=1e-8)


@pytest.mark.parametrize("k", [7, 20, 40])
def test_three_ways_to_a_volume_agree(k: int) -> None:
    prediction = intervals(8, k, seed=k, spread=1.0)
    geometry = Intervals().region(prediction, np.random.default_rng(0).gamma(2.0, 0.5, 8)).geometry
    frame, generator = Frame.of(*geometry.reach()), np.random.default_rng(0)
    series = frame.by_series()
    drawn = np.array([frame.select([i]).by_draws(50_000, generator) for i in range(8)])
    assert (np.abs(series - drawn[:, 0]) <= 5 * drawn[:, 1] + 1e-6).all()
    if k <= 10:
        assert frame.by_subsets() == pytest.approx(series, abs=1e-8)


def test_equal_sides_over_three_classes_are_total_variation() -> None:
    g = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    ours, theirs = Intervals().region(g, 0.2), TotalVariation().region(g, 0.2)
    assert ours.envelope()[0] == pytest.approx(theirs.envelope()[0], abs=1e-12)
    assert np.asarray(ours.volume()) == pytest.approx(np.asarray(theirs.volume()), rel=1e-9)
    assert ours.entropy_bounds()[0] == pytest.approx(theirs.entropy_bounds()[0], abs=1e-12)


def test_vertices() -> None:
    one = np.stack([[0.5, 0.3, 0.2], np.full(3, 0.1), np.full(3, 0.1)])[None]
    found = Intervals().region(one, 1.0).vertices(0)
    assert len(found) == 6
    assert found.sum(axis=1) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="at most 12 classes"):
        Intervals().region(intervals(1, 13), 1.0).vertices(0)


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        (np.full((2, 2, 3), 1 / 3), r"intervals of shape"),
        (np.array([[[0.5, 0.5], [0.1, 0.0], [0.1, 0.1]]]), "finite half-widths above 0"),
        (np.array([[[0.5, 0.5], [0.1, 0.1], [0.1, np.inf]]]), "finite half-widths above 0"),
        (np.array([[[0.5, 0.9], [0.1, 0.1], [0.1, 0.1]]]), "sum"),
        (
            IntervalPrediction(np.full((1, 2), 0.5), np.ones((1, 3)), np.ones((1, 2))),
            "finite half-widths above 0",
        ),
    ],
)
def test_refusals(prediction: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Intervals().region(prediction, 1.0)


def test_named_and_plain_predictions_are_the_same(tmp_path: Any) -> None:
    array = intervals(5, 3)
    named = IntervalPrediction(*np.moveaxis(array, 1, 0))
    assert np.array_equal(np.asarray(named), array)
    sets = Intervals().region(named, 0.7)
    assert np.array_equal(sets.upper(), Intervals().region(array, 0.7).upper())
    assert cs.scores.get_score("intervals") == Intervals()
