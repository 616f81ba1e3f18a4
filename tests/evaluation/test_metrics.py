"""Metrics against direct computation, SciPy and sets whose sizes are known."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import credalset as cs
from credalset import metrics
from credalset.metrics import Estimate
from credalset.scores import InnerProduct, KullbackLeibler, TotalVariation


def batch(
    n: int = 60, threshold: float = 0.3, n_classes: int = 3, seed: int = 0
) -> tuple[cs.CredalSet, np.ndarray]:
    rng = np.random.default_rng(seed)
    prediction = rng.dirichlet(np.ones(n_classes), n)
    return TotalVariation().region(prediction, threshold), rng.multinomial(
        20, np.full(n_classes, 1 / n_classes), n
    )


def same(first: Estimate, second: Estimate) -> bool:
    return (first, first.low, first.high, first.n) == (second, second.low, second.high, second.n)


# --- estimates ---


def test_an_estimate_is_a_float_with_an_interval() -> None:
    estimate = Estimate(0.25, 0.1, 0.4, 8)
    assert isinstance(estimate, float)
    assert repr(estimate) == "0.2500 [0.1000, 0.4000] (n=8)"
    assert json.dumps(estimate) == "0.25"
    assert type(estimate + 1) is float
    for again in (pickle.loads(pickle.dumps(estimate)), copy.deepcopy(estimate)):
        assert type(again) is Estimate
        assert same(again, estimate)
    assert (
        repr(Estimate(1.23456e-10, -4.5e-11, 3.1e-9, 8))
        == "1.235e-10 [-4.500e-11, 3.100e-09] (n=8)"
    )


@given(n=st.integers(1, 400), share=st.floats(0, 1), level=st.sampled_from([0.5, 0.95, 0.999]))
def test_a_proportion_has_the_clopper_pearson_interval(n: int, share: float, level: float) -> None:
    successes, tail = round(share * n), (1 - level) / 2
    low = stats.beta.ppf(tail, successes, n - successes + 1) if successes > 0 else 0.0
    high = stats.beta.ppf(1 - tail, successes + 1, n - successes) if successes < n else 1.0
    estimate = metrics.proportion(successes, n, level)
    assert (estimate, estimate.low, estimate.high) == pytest.approx(
        (successes / n, low, high), rel=1e-9, abs=1e-11
    )


def test_a_mean_has_the_t_interval() -> None:
    values = np.random.default_rng(0).gamma(2.0, size=25)
    low, high = stats.t.interval(0.9, 24, values.mean(), stats.sem(values))
    estimate = metrics.mean(values, 0.9)
    assert (estimate, estimate.low, estimate.high, estimate.n) == pytest.approx(
        (values.mean(), low, high, 25)
    )
    one, none = metrics.mean([0.3]), metrics.mean([])
    assert (one, one.low, one.high, none.n) == (0.3, -math.inf, math.inf, 0)
    assert math.isnan(none)
    assert math.isnan(metrics.proportion(0, 0))


@pytest.mark.parametrize("level", [0.0, 95, math.nan])
def test_levels_out_of_range(level: float) -> None:
    with pytest.raises(ValueError, match="level"):
        metrics.proportion(0, 10, level)
    with pytest.raises(ValueError, match="level"):
        metrics.mean([0.1, 0.2], level)


# --- coverage ---


def test_coverage_counts_members() -> None:
    sets, counts = batch()
    inside = 0.5 * np.abs(sets.prediction - counts / 20).sum(axis=1) <= 0.3
    assert 0 < inside.sum() < 60
    for labels in (counts, counts / 20, cs.Annotations.from_counts(counts)):
        assert same(
            metrics.coverage(sets, labels, level=0.9),
            metrics.proportion(int(inside.sum()), 60, 0.9),
        )
    everything, nothing = batch(threshold=math.inf), batch(threshold=-1.0)
    assert (metrics.coverage(*everything), metrics.coverage(*nothing)) == (1.0, 0.0)
    assert metrics.coverage(sets[:0], counts[:0]).n == 0


@pytest.mark.parametrize("wrong", [lambda c: c[:-1], lambda c: c[:, :2], lambda c: c * 0.3])
def test_labels_of_the_wrong_kind(wrong: Any) -> None:
    sets, counts = batch()
    with pytest.raises(ValueError, match="votes"):
        metrics.coverage(sets, wrong(counts))


def test_sets_and_labels_in_the_wrong_order() -> None:
    sets, _ = batch()
    with pytest.raises(TypeError, match="votes"):
        metrics.coverage(sets, sets)


def test_labels_are_matched_by_name() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        rng.dirichlet(np.ones(3), 40), index=[f"m{i}" for i in range(40)], columns=list("abc")
    )
    votes = pd.DataFrame(
        rng.multinomial(9, np.full(3, 1 / 3), 40), index=frame.index, columns=list("abc")
    )
    sets = cs.conformalize(frame, votes, "tv").predict_set(frame, 0.5)
    expected = metrics.coverage(sets, votes.to_numpy())
    shuffled = votes.sample(frac=1.0, random_state=0)[["c", "a", "b"]]
    assert metrics.coverage(sets, shuffled) == expected
    assert metrics.soft_brier(shuffled, frame) == metrics.soft_brier(
        votes.to_numpy(), frame.to_numpy()
    )
    groups = pd.Series(np.arange(40) % 3, index=frame.index)
    assert metrics.coverage_by_group(sets, votes, groups[::-1]) == metrics.coverage_by_group(
        sets, votes, groups
    )


def test_groups_partition_the_items() -> None:
    sets, counts = batch()
    groups = np.where(np.arange(60) % 3 == 0, "third", "rest")
    by_group = metrics.coverage_by_group(sets, counts, groups)
    assert list(by_group) == ["rest", "third"]
    for key, estimate in by_group.items():
        own = np.flatnonzero(groups == key)
        assert same(estimate, metrics.coverage(sets[own], counts[own]))
    mixed = metrics.coverage_by_group(
        sets[:4], counts[:4], np.array(["b", None, "a", None], dtype=object)
    )
    assert list(mixed) == ["b", None, "a"]
    with pytest.raises(ValueError, match="groups"):
        metrics.coverage_by_group(sets, counts, groups[1:])


# --- sizes ---


def test_sizes_of_intervals() -> None:
    """Total-variation balls over two classes are intervals of the probability of the first."""
    p = np.random.default_rng(0).random(200)
    sets = TotalVariation().region(np.column_stack([p, 1 - p]), 0.2)
    low, high = np.maximum(p - 0.2, 0.0), np.minimum(p + 0.2, 1.0)
    straddles = (low <= 0.5) & (high >= 0.5)
    ends = [stats.bernoulli(end).entropy() / np.log(2) for end in (low, high)]
    epistemic = np.where(straddles, 1.0, np.maximum(*ends)) - np.minimum(*ends)
    for measure, values in (
        (metrics.mean_width, high - low),
        (metrics.mean_epistemic, epistemic),
        (metrics.mean_labels, 1.0 + straddles),
    ):
        expected, estimate = metrics.mean(values, 0.8), measure(sets, level=0.8)
        assert (estimate, estimate.low, estimate.n) == pytest.approx(
            (expected, expected.low, 200), rel=1e-7
        )
    assert same(
        metrics.decided(sets, level=0.8), metrics.proportion(int((~straddles).sum()), 200, 0.8)
    )


def test_sizes_together_are_the_same() -> None:
    sets = KullbackLeibler().region(np.random.default_rng(0).dirichlet(np.ones(4), 60), 0.3)
    together = metrics.mean_sizes(sets, level=0.9)
    for name in ("width", "epistemic", "labels"):
        assert same(together[name], getattr(metrics, f"mean_{name}")(sets, 0.9))
    assert same(together["decided"], metrics.decided(sets, 0.9))
    assert metrics.mean_sizes(sets, max_sets=25)["width"] == metrics.mean_width(sets[::3])
    with pytest.raises(ValueError, match="max_sets"):
        metrics.mean_sizes(sets, max_sets=0)


def test_empty_sets_leave_nothing_open_and_whole_ones_everything() -> None:
    sets = InnerProduct().region([[0.4, 0.3, 0.3], [0.9, 0.1, 0.0]], 0.3)
    assert sets.is_empty().tolist() == [True, False]
    assert metrics.mean_width(sets) == pytest.approx(sets.width()[1] / 2)
    assert metrics.mean_epistemic(sets) == pytest.approx(sets.uncertainty().epistemic[1] / 2)
    assert (metrics.mean_labels(sets), metrics.decided(sets)) == (0.5, 1.0)
    whole = metrics.mean_sizes(TotalVariation().region(np.full((3, 4), 0.25), math.inf))
    assert [float(whole[name]) for name in ("width", "epistemic", "labels", "decided")] == [
        2.0,
        1.0,
        4.0,
        0.0,
    ]
    assert all(math.isnan(value) for value in metrics.mean_sizes(sets[:0]).values())


def test_volume_and_efficiency() -> None:
    exact = TotalVariation().region(np.random.default_rng(0).dirichlet(np.ones(4), 300), 0.2)
    assert metrics.mean_volume(exact) == pytest.approx(np.mean(exact.volume()), rel=1e-12)
    assert metrics.mean_volume(exact).n == 300
    sets, _ = batch(30)
    shares = sets.efficiency(0.02)
    low, high = stats.t.interval(0.8, 29, shares.mean(), stats.sem(shares))
    estimate = metrics.mean_efficiency(sets, 0.02, level=0.8)
    assert (estimate, estimate.low, estimate.high) == pytest.approx((shares.mean(), low, high))


def test_estimated_volumes_are_of_a_spread_of_sets() -> None:
    sets = KullbackLeibler().region(np.random.default_rng(0).dirichlet(np.ones(5), 120), 0.2)
    quick, full = (
        metrics.mean_volume(sets, max_sets=40),
        metrics.mean_volume(sets, max_sets=120, n_rays=1024),
    )
    if not metrics.has_exact_volumes(sets):
        assert quick.n == 40
    assert abs(quick - full) < 3 * (quick.high - quick.low)
    assert math.isnan(metrics.mean_volume(sets[:0]))


# --- losses ---


def test_losses_by_hand() -> None:
    prediction, counts = np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([[3, 7], [1, 0]])
    log_loss = -np.mean([0.3 * np.log(0.5) + 0.7 * np.log(0.5), np.log(0.9)])
    assert metrics.soft_log_loss(counts, prediction) == pytest.approx(log_loss, rel=1e-12)
    assert metrics.soft_brier(counts, prediction) == pytest.approx((0.08 + 0.02) / 2, rel=1e-12)
    certain = metrics.soft_log_loss([[0, 1]], [[1.0, 0.0]])
    assert certain == pytest.approx(-np.log(np.finfo(float).eps), rel=1e-12)
    with pytest.raises(ValueError, match="votes"):
        metrics.soft_brier(counts[:1], prediction)
