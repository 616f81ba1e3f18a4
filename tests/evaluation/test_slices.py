"""Coverage by slice, and the search for the worst: against counts by hand, brute force,
and planted faults.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from credalset.evaluation.slices import MAX_KEYS, OTHERS, slice_coverage, worst_slice


def test_slices_by_hand() -> None:
    covered = np.array([True, True, False, True, False, False])
    parts = slice_coverage(covered, {"source": ["a", "b", "b", "a", "a", "b"]})
    assert [(s.feature, s.value, s.coverage.n) for s in parts] == [
        ("source", "a", 3),
        ("source", "b", 3),
    ]
    assert [float(s.coverage) for s in parts] == pytest.approx([2 / 3, 1 / 3])
    interval = binomtest(2, 3).proportion_ci(0.95, "exact")
    assert (parts[0].coverage.low, parts[0].coverage.high) == pytest.approx(
        (interval.low, interval.high)
    )


def test_numbers_are_cut_into_bins_of_equal_counts() -> None:
    x = np.random.default_rng(0).normal(size=1000)
    parts = slice_coverage(x < 0, {"x": x}, n_bins=4)
    assert [s.coverage.n for s in parts] == [250] * 4
    assert [float(s.coverage) for s in parts] == pytest.approx(
        [1.0, 1.0, (x < 0).mean() * 4 - 2, 0.0], abs=1e-9
    )
    assert np.array([s.members for s in parts]).sum(axis=0).tolist() == [1] * 1000


def test_equal_numbers_stay_together_and_unknown_ones_are_named() -> None:
    x = np.array([1.0] * 10 + [np.nan] * 3)
    parts = slice_coverage(np.ones(13, dtype=bool), {"x": x})
    assert [(s.value, s.coverage.n) for s in parts] == [("1", 10), ("not known", 3)]


def test_whole_numbers_of_few_values_are_keys_in_their_order() -> None:
    parts = slice_coverage(np.ones(4, dtype=bool), {"votes": np.array([10, 2, 10, 5])})
    assert [s.value for s in parts] == ["2", "5", "10"]


def test_rare_keys_share_a_slice() -> None:
    keys = [f"k{i}" for i in range(30) for _ in range(40 - i)]
    parts = slice_coverage(np.ones(len(keys), dtype=bool), {"k": keys})
    assert len(parts) == MAX_KEYS + 1
    assert parts[-1].value == OTHERS
    assert sum(s.coverage.n for s in parts) == len(keys)
    assert {s.value for s in parts[:-1]} == {f"k{i}" for i in range(MAX_KEYS)}


@pytest.mark.parametrize("seed", range(12))
def test_the_search_finds_what_brute_force_finds(seed: int) -> None:
    """Every value and every pair, one by one, on the half that is searched."""
    rng = np.random.default_rng(seed)
    covered = rng.random(300) < 0.85
    features = {
        "a": rng.integers(6, size=300).astype(str),
        "b": rng.integers(6, size=300).astype(str),
    }
    half = np.random.default_rng(0).permutation(300) < 150
    masks = {(name, v): values == v for name, values in features.items() for v in np.unique(values)}
    found = {(key,): mask for key, mask in masks.items()}
    found |= {(p, q): masks[p] & masks[q] for p, q in combinations(masks, 2) if p[0] != q[0]}
    rate = 1 - covered[half].mean()
    chance = {
        names: binom.sf((~covered & mask & half).sum() - 1, (mask & half).sum(), rate)
        for names, mask in found.items()
        if (mask & half).sum() >= 3
    }
    worst = worst_slice(covered, features, min_share=0.02)
    assert worst is not None
    assert worst.conditions == min(chance, key=lambda names: chance[names])
    assert worst.n_candidates == len(chance)
    mask = found[worst.conditions]
    np.testing.assert_array_equal(worst.members, mask)
    assert float(worst.found) == pytest.approx(covered[mask & half].mean())
    assert float(worst.measured) == pytest.approx(covered[mask & ~half].mean())
    assert (worst.found.n, worst.measured.n) == ((mask & half).sum(), (mask & ~half).sum())


def test_a_planted_pair_is_found() -> None:
    rng = np.random.default_rng(2)
    x, kind = rng.random(4000), rng.choice(["p", "q", "r"], 4000)
    bad = (x > 0.6) & (kind == "q")
    covered = rng.random(4000) < np.where(bad, 0.5, 0.95)
    worst = worst_slice(covered, {"x": x, "kind": kind, "idle": rng.random(4000)})
    assert worst is not None
    assert {feature for feature, _ in worst.conditions} == {"x", "kind"}
    assert ("kind", "q") in worst.conditions
    assert worst.measured.low < 0.55 < worst.measured.high + 0.05


def test_what_is_measured_is_fair_although_the_worst_was_picked() -> None:
    """Where coverage is 90% everywhere, the number found is too low on average and the
    number measured is not.
    """
    found, measured, missed = [], [], 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        covered = rng.random(400) < 0.9
        worst = worst_slice(
            covered, {"x": rng.random(400), "y": rng.random(400)}, random_state=seed
        )
        assert worst is not None
        found.append(float(worst.found))
        measured.append(float(worst.measured))
        missed += not worst.measured.low <= 0.9 <= worst.measured.high
    assert np.mean(found) < 0.85
    error = np.std(measured) / np.sqrt(len(measured))
    assert abs(np.mean(measured) - 0.9) < 3.5 * error
    assert missed <= binom.ppf(0.999, 120, 0.05)


def test_edges_are_chosen_on_the_half_that_is_searched() -> None:
    """Values of the other half, however far away, do not move the edges."""
    rng = np.random.default_rng(3)
    x, covered = rng.random(300), rng.random(300) < 0.8
    half = np.random.default_rng(0).permutation(300) < 150
    moved = np.where(half, x, x + 100)
    first, second = worst_slice(covered, {"x": x}), worst_slice(covered, {"x": moved})
    assert first is not None
    assert second is not None
    assert first.conditions == second.conditions
    assert first.found == second.found


@pytest.mark.parametrize(
    "covered", [np.ones(100, dtype=bool), np.zeros(100, dtype=bool), np.zeros(0, dtype=bool)]
)
def test_nothing_to_find(covered: np.ndarray) -> None:
    assert worst_slice(covered, {"x": np.arange(len(covered)) / 7}) is None


def test_messages() -> None:
    with pytest.raises(TypeError, match="covered must hold one boolean per item"):
        slice_coverage([0.5, 1.0], {})
    with pytest.raises(
        ValueError, match=r"features\['x'\] must hold one value for each of the 2 items"
    ):
        slice_coverage([True, False], {"x": [1]})
    with pytest.raises(ValueError, match="min_share"):
        worst_slice([True, False], {"x": [1, 2]}, min_share=1.5)
