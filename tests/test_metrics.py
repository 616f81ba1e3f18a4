from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import credalset as cs
from credalset import metrics
from credalset.metrics import Estimate
from credalset.scores import InnerProduct, KullbackLeibler, TotalVariation


def batch(n: int = 60, threshold: float = 0.3, n_classes: int = 3, seed: int = 0) -> tuple[cs.CredalSet, np.ndarray]:
    rng = np.random.default_rng(seed)
    prediction = rng.dirichlet(np.ones(n_classes), n)
    return TotalVariation().region(prediction, threshold), rng.multinomial(20, np.full(n_classes, 1 / n_classes), n)


# --- estimates ---


def test_estimate_is_a_float_with_an_interval() -> None:
    estimate = Estimate(0.25, 0.1, 0.4, 8)
    assert isinstance(estimate, float)
    assert (estimate, estimate.low, estimate.high, estimate.n) == (0.25, 0.1, 0.4, 8)
    assert repr(estimate) == str(estimate) == "0.2500 [0.1000, 0.4000] (n=8)"
    assert f"{estimate:.1%}" == "25.0%"
    assert json.dumps(estimate) == "0.25"
    assert type(estimate + 1) is float
    assert hash(estimate) == hash(0.25)
    assert sorted([Estimate(0.9, 0, 1, 1), 0.5, estimate]) == [0.25, 0.5, 0.9]
    assert np.mean([estimate, 0.75]) == 0.5


def test_small_estimates_show_their_digits() -> None:
    assert repr(Estimate(1.23456e-10, -4.5e-11, 3.1e-9, 8)) == "1.235e-10 [-4.500e-11, 3.100e-09] (n=8)"
    assert repr(Estimate(0.0004321, 0.0, 0.25, 8)) == "4.321e-04 [0.0000, 0.2500] (n=8)"
    assert repr(Estimate(math.nan, -math.inf, math.inf, 0)) == "nan [-inf, inf] (n=0)"
    sets = TotalVariation().region([[0.4, 0.3, 0.3], [0.3, 0.3, 0.4]], threshold=1e-5)
    assert "0.0000" not in repr(metrics.mean_volume(sets))


@pytest.mark.parametrize("remake", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("value", [0.25, math.nan, -math.inf])
def test_estimate_survives_copies(remake: Any, value: float) -> None:
    again = remake(Estimate(value, 0.1, 0.4, 8))
    assert type(again) is Estimate
    assert again == value or math.isnan(value)
    assert math.isnan(again) == math.isnan(value)
    assert (again.low, again.high, again.n) == (0.1, 0.4, 8)


@given(n=st.integers(1, 400), share=st.floats(0, 1), level=st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_proportion_has_the_clopper_pearson_interval(n: int, share: float, level: float) -> None:
    """Its ends are quantiles of Beta distributions."""
    successes, tail = round(share * n), (1 - level) / 2
    low = stats.beta.ppf(tail, successes, n - successes + 1) if successes > 0 else 0.0
    high = stats.beta.ppf(1 - tail, successes + 1, n - successes) if successes < n else 1.0
    estimate = metrics.proportion(successes, n, level)
    assert estimate == successes / n
    assert (estimate.low, estimate.high) == pytest.approx((low, high), rel=1e-9, abs=1e-11)
    assert estimate.low <= estimate <= estimate.high


def test_nothing_observed_means_nothing_known() -> None:
    estimate = metrics.proportion(0, 0)
    assert math.isnan(estimate)
    assert (estimate.low, estimate.high, estimate.n) == (0.0, 1.0, 0)


def test_mean_agrees_with_the_t_interval() -> None:
    values = np.random.default_rng(0).gamma(2.0, size=25)
    low, high = stats.t.interval(0.9, 24, values.mean(), stats.sem(values))
    estimate = metrics.mean(values, 0.9)
    assert (estimate, estimate.low, estimate.high, estimate.n) == pytest.approx((values.mean(), low, high, 25))


@pytest.mark.parametrize(("values", "expected"), [([], math.nan), ([0.3], 0.3)])
def test_mean_of_too_little_has_no_bounds(values: list[float], expected: float) -> None:
    estimate = metrics.mean(values)
    assert np.array_equal([float(estimate)], [expected], equal_nan=True)
    assert (estimate.low, estimate.high, estimate.n) == (-math.inf, math.inf, len(values))


@pytest.mark.parametrize("level", [0.0, 1.0, 95, math.nan])
@pytest.mark.parametrize("n", [0, 10])
def test_levels_out_of_range(level: float, n: int) -> None:
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        metrics.proportion(0, n, level)
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        metrics.mean([0.1] * n, level)


# --- coverage ---


def test_coverage_counts_members() -> None:
    sets, counts = batch()
    inside = 0.5 * np.abs(sets.prediction - counts / 20).sum(axis=1) <= 0.3
    assert 0 < inside.sum() < 60
    for labels in (counts, counts / 20, cs.Annotations.from_counts(counts)):
        observed = metrics.coverage(sets, labels, level=0.9)
        assert observed == inside.mean()
        assert observed.low == metrics.proportion(int(inside.sum()), 60, 0.9).low


def test_coverage_of_everything_and_of_nothing() -> None:
    sets, counts = batch(threshold=math.inf)
    assert metrics.coverage(sets, counts) == metrics.coverage(sets, counts).high == 1.0
    sets, counts = batch(threshold=-1.0)
    assert metrics.coverage(sets, counts) == metrics.coverage(sets, counts).low == 0.0


def test_no_sets_at_all() -> None:
    sets, counts = batch()
    none, empty = sets[:0], counts[:0]
    assert metrics.coverage(none, empty).n == 0
    assert metrics.coverage_by_group(none, empty, []) == {}
    assert metrics.coverage_by_size(none, empty) == []
    assert metrics.coverage_by_entropy(none, empty) == []
    assert math.isnan(metrics.mean_efficiency(none))


@pytest.mark.parametrize("measure", [metrics.coverage, metrics.coverage_by_size, metrics.coverage_by_entropy])
def test_labels_of_the_wrong_shape(measure: Any) -> None:
    sets, counts = batch()
    with pytest.raises(ValueError, match="Y has 59 rows, but there are 60 sets"):
        measure(sets, counts[:-1])
    with pytest.raises(ValueError, match=r"Y has 2 classes .* but 3 are expected"):
        measure(sets, counts[:, :2])
    with pytest.raises(ValueError, match="neither"):
        measure(sets, counts * 0.3)


# --- by group ---


def test_groups_partition_the_items() -> None:
    sets, counts = batch()
    groups = np.where(np.arange(60) % 3 == 0, "third", "rest")
    by_group = metrics.coverage_by_group(sets, counts, groups)
    assert list(by_group) == ["rest", "third"]
    for key, estimate in by_group.items():
        own = np.flatnonzero(groups == key)
        expected = metrics.coverage(sets[own], counts[own])
        assert (estimate, estimate.low, estimate.high, estimate.n) == (expected, expected.low, expected.high, len(own))


@pytest.mark.parametrize(
    ("groups", "keys"),
    [
        ([2, 1, 2, 10], [1, 2, 10]),
        ([0.5, -1.0, 0.5, 2.0], [-1.0, 0.5, 2.0]),
        ([True, False, True, True], [False, True]),
        (np.array(["b", None, "a", None], dtype=object), ["b", None, "a"]),
        (np.array([("x", 1), ("a", 2), ("x", 1), ("a", 1)], dtype="O,O"), [("a", 1), ("a", 2), ("x", 1)]),
    ],
)
def test_any_key_makes_a_group(groups: Any, keys: list[Any]) -> None:
    sets, counts = batch(4)
    by_group = metrics.coverage_by_group(sets, counts, groups)
    assert list(by_group) == keys
    assert sum(estimate.n for estimate in by_group.values()) == 4


@pytest.mark.parametrize("groups", [[1, 2, 3], [[1], [2], [3], [4]], "abcd", 7])
def test_groups_of_the_wrong_shape(groups: Any) -> None:
    sets, counts = batch(4)
    with pytest.raises(ValueError, match="groups must hold one key for each of the 4 sets"):
        metrics.coverage_by_group(sets, counts, groups)


# --- by size and entropy ---


def test_bins_hold_equal_shares_in_order() -> None:
    sets, counts = batch(100)
    sizes = np.random.default_rng(5).permutation(100).astype(float)
    rows = metrics.coverage_by_size(sets, counts, n_bins=4, sizes=sizes)
    assert [row["coverage"].n for row in rows] == [25] * 4
    assert [row["low"] for row in rows] == sorted(row["low"] for row in rows)
    for row in rows:
        own = (sizes >= row["low"]) & (sizes <= row["high"])
        assert row["coverage"] == metrics.coverage(sets[own], counts[own])


@given(
    sizes=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, math.inf]), min_size=1, max_size=40), n_bins=st.integers(1, 9)
)
def test_ties_share_a_bin_and_nobody_is_lost(sizes: list[float], n_bins: int) -> None:
    sets, counts = batch(len(sizes))
    rows = metrics.coverage_by_size(sets, counts, n_bins=n_bins, sizes=sizes)
    assert 1 <= len(rows) <= n_bins
    assert sum(row["coverage"].n for row in rows) == len(sizes)
    for row in rows:
        assert row["coverage"].n == sum(row["low"] <= size <= row["high"] for size in sizes)
    assert rows[0]["low"] == min(sizes)
    assert rows[-1]["high"] == max(sizes)


@pytest.mark.parametrize("n_classes", [3, 4])
def test_sizes_are_widths_unless_given(n_classes: int) -> None:
    prediction = np.random.default_rng(0).dirichlet(np.ones(n_classes), 40)
    sets = InnerProduct().region(prediction, 0.6)
    labels = np.random.default_rng(1).dirichlet(np.ones(n_classes), 40)
    lower, upper = sets.envelope()
    widths = np.nan_to_num(0.5 * (upper - lower).sum(axis=1))
    assert metrics.coverage_by_size(sets, labels) == metrics.coverage_by_size(sets, labels, sizes=widths)


def test_entropy_bins_go_from_sharp_to_flat() -> None:
    prediction = np.array([[1.0, 0.0, 0.0], [0.98, 0.01, 0.01], [0.4, 0.3, 0.3], [1 / 3, 1 / 3, 1 / 3]])
    sets = TotalVariation().region(prediction, 0.3)
    sharp, flat = metrics.coverage_by_entropy(sets, np.tile([1.0, 0.0, 0.0], (4, 1)), n_bins=2)
    assert (sharp["coverage"], flat["coverage"]) == (1.0, 0.0)
    assert sharp["low"] == 0.0
    assert flat["high"] == pytest.approx(1.0), "entropy is measured in base K"


@pytest.mark.parametrize("sizes", [[0.1] * 59, [[0.1]] * 60, 0.1])
def test_sizes_of_the_wrong_shape(sizes: Any) -> None:
    sets, counts = batch()
    with pytest.raises(ValueError, match="sizes must hold one number for each of the 60 sets"):
        metrics.coverage_by_size(sets, counts, sizes=sizes)


def test_sizes_that_are_no_numbers() -> None:
    sets, counts = batch()
    with pytest.raises(ValueError, match="1 of 60 are NaN"):
        metrics.coverage_by_size(sets, counts, sizes=[math.nan] + [0.1] * 59)


@pytest.mark.parametrize(("n_bins", "error"), [(0, ValueError), (-1, ValueError), (2.5, TypeError), (True, TypeError)])
def test_number_of_bins(n_bins: Any, error: type[Exception]) -> None:
    sets, counts = batch()
    with pytest.raises(error, match="n_bins"):
        metrics.coverage_by_size(sets, counts, n_bins=n_bins)


# --- efficiency ---


def test_mean_efficiency() -> None:
    sets, _ = batch(30)
    shares = sets.efficiency(0.02)
    estimate = metrics.mean_efficiency(sets, 0.02, level=0.8)
    low, high = stats.t.interval(0.8, 29, shares.mean(), stats.sem(shares))
    assert (estimate, estimate.low, estimate.high, estimate.n) == pytest.approx((shares.mean(), low, high, 30))
    assert metrics.mean_efficiency(TotalVariation().region([[0.2, 0.3, 0.5]] * 3, 1.0)) == 1.0


def test_mean_volume_is_the_average_of_exact_volumes() -> None:
    sets = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(4), 300), 0.2)
    assert float(metrics.mean_volume(sets)) == pytest.approx(sets.volume().mean(), rel=1e-12)
    assert metrics.mean_volume(sets).n == 300


def test_mean_volume_of_estimates_uses_a_spread_of_sets() -> None:
    sets = KullbackLeibler().region(np.random.default_rng(0).dirichlet(np.ones(5), 120), 0.2)
    quick = metrics.mean_volume(sets, max_sets=40)
    full = metrics.mean_volume(sets, max_sets=120, n_rays=1024)
    assert quick.n == 40
    assert full.low <= quick <= full.high or abs(quick - full) < 3 * (quick.high - quick.low)
    assert np.isnan(metrics.mean_volume(sets[:0]))


# --- what sets leave open ---


def intervals(p: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Total-variation balls over two classes are intervals of the probability of the first."""
    return np.maximum(p - radius, 0.0), np.minimum(p + radius, 1.0)


def binary_entropy(p: np.ndarray) -> np.ndarray:
    return stats.bernoulli(p).entropy() / np.log(2)


def test_sizes_of_intervals() -> None:
    p = np.random.default_rng(0).random(200)
    sets = TotalVariation().region(np.column_stack([p, 1 - p]), 0.2)
    low, high = intervals(p, 0.2)
    straddles = (low <= 0.5) & (high >= 0.5)
    smallest = np.minimum(binary_entropy(low), binary_entropy(high))
    largest = np.where(straddles, 1.0, np.maximum(binary_entropy(low), binary_entropy(high)))
    for measure, values in (
        (metrics.mean_width, high - low),
        (metrics.mean_epistemic, largest - smallest),
        (metrics.mean_labels, 1.0 + straddles),
    ):
        expected = metrics.mean(values, 0.8)
        estimate = measure(sets, level=0.8)
        assert (estimate, estimate.low, estimate.high, estimate.n) == pytest.approx(
            (expected, expected.low, expected.high, 200), rel=1e-9
        )
    share = metrics.decided(sets, level=0.8)
    expected = metrics.proportion(int((~straddles).sum()), 200, 0.8)
    assert (share, share.low, share.high, share.n) == (expected, expected.low, expected.high, 200)


def test_together_they_are_the_same() -> None:
    sets = KullbackLeibler().region(np.random.default_rng(0).dirichlet(np.ones(4), 60), 0.3)
    together = metrics.mean_sizes(sets, level=0.9)
    for name in ("width", "epistemic", "labels"):
        own = getattr(metrics, f"mean_{name}")(sets, 0.9)
        assert (together[name], together[name].low, together[name].n) == (own, own.low, own.n)
    assert together["decided"] == metrics.decided(sets)
    assert {estimate.n for estimate in metrics.mean_sizes(sets, max_sets=25).values()} == {20}
    assert metrics.mean_sizes(sets, max_sets=25)["width"] == metrics.mean_width(sets[::3])
    with pytest.raises(ValueError, match="max_sets must be at least 1"):
        metrics.mean_sizes(sets, max_sets=0)


def test_empty_sets_leave_nothing_open() -> None:
    sets = InnerProduct().region([[0.4, 0.3, 0.3], [0.9, 0.1, 0.0]], 0.3)
    assert sets.is_empty().tolist() == [True, False]
    width = 0.5 * (sets.upper() - sets.lower())[1].sum()
    assert metrics.mean_width(sets) == pytest.approx(width / 2)
    assert metrics.mean_epistemic(sets) == pytest.approx(sets.uncertainty().epistemic[1] / 2)
    assert metrics.mean_labels(sets) == 0.5
    assert metrics.decided(sets) == 1.0


def test_the_whole_simplex_leaves_everything_open() -> None:
    sets = TotalVariation().region(np.full((3, 4), 0.25), math.inf)
    sizes = metrics.mean_sizes(sets)
    assert [float(sizes[name]) for name in ("width", "epistemic", "labels", "decided")] == [2.0, 1.0, 4.0, 0.0]
    none = metrics.mean_sizes(sets[:0])
    assert all(math.isnan(value) and value.n == 0 for value in none.values())


def test_volume_rewards_slivers() -> None:
    """Three spikes, one in each corner, against a ball around a clear winner with several times their volume."""
    corners = 200.0 * np.eye(3) + 10.0
    spikes = np.concatenate([np.full((3, 1), 1 / 3), corners], axis=1)[None]
    sliver = cs.get_score("density").region(spikes, -4.0)
    ball = TotalVariation().region([[0.8, 0.1, 0.1]], 0.15)
    assert 0 < metrics.mean_volume(sliver) < 0.5 * metrics.mean_volume(ball)
    assert metrics.mean_width(sliver) > 3 * metrics.mean_width(ball)
    assert (metrics.mean_labels(sliver), metrics.mean_labels(ball)) == (3.0, 1.0)
    assert (metrics.decided(sliver), metrics.decided(ball)) == (0.0, 1.0)


@pytest.mark.parametrize("measure", ["mean_width", "mean_epistemic", "mean_labels", "decided", "mean_volume"])
def test_measures_by_group(measure: str) -> None:
    sets, _ = batch(30)
    groups = np.where(np.arange(30) % 3 == 0, "third", "rest")
    found = metrics.by_group(getattr(metrics, measure), sets, groups, level=0.9)
    assert list(found) == ["rest", "third"]
    for key, estimate in found.items():
        own = getattr(metrics, measure)(sets[groups == key], level=0.9)
        assert (estimate, estimate.low, estimate.high, estimate.n) == (own, own.low, own.high, own.n)
    with pytest.raises(ValueError, match="groups must hold one key for each of the 30 sets"):
        metrics.by_group(metrics.mean_width, sets, groups[1:])
