"""Exact levels and ranks, and the law of the coverage that a rank gives."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from credalset.calibration.levels import CoverageDistribution, conformal_rank, exact_level, pac_rank


@given(n=st.integers(1, 5000), numerator=st.integers(1, 999))
def test_rank_is_exact_for_every_decimal_level(n: int, numerator: int) -> None:
    exact = math.ceil((n + 1) * (1 - Fraction(numerator, 1000)))
    alpha = numerator / 1000
    assert conformal_rank(n, alpha) == exact
    assert conformal_rank(n, 1 - (1 - alpha)) == exact
    assert conformal_rank(n, np.float32(alpha)) == exact


def test_rank_where_floating_point_trips() -> None:
    assert conformal_rank(9, 0.1) == 9
    assert conformal_rank(9, 0.3) == 7, "(9 + 1) * (1 - 0.3) is 7.000000000000001 in floating point"


@pytest.mark.parametrize(
    ("level", "meant"),
    [
        (1 - 0.7, "3/10"),
        (1 - 0.9999, "1/10000"),
        (0.1 + 0.2, "3/10"),
        (1 / 3, "1/3"),
        (6e-10, "6/10000000000"),
        (1e-20, "1/100000000000000000000"),
        (np.float32(0.3), "3/10"),
        (np.float32(1) - np.float32(0.9), "1/10"),
        (np.float16(0.006), "6/1000"),
        (Fraction(3, 7), "3/7"),
        (0.12345678901234, "0.12345678901234"),
    ],
    ids=repr,
)
def test_levels_are_what_was_meant(level: float, meant: str) -> None:
    assert exact_level(level) == Fraction(meant)


@given(st.floats(1e-12, 1.0, exclude_max=True), st.sampled_from([np.float32, np.float64]))
def test_no_level_moves_by_more_than_the_rounding_of_its_complement(
    level: float, kind: Any
) -> None:
    number = kind(level)
    if number < 1:
        assert abs(exact_level(number) - Fraction(float(number))) <= Fraction(
            float(np.finfo(kind).eps)
        )


@given(
    n=st.integers(5, 800),
    alpha=st.sampled_from([0.05, 0.1, 0.3]),
    delta=st.sampled_from([0.01, 0.1, 0.5]),
)
def test_pac_rank_is_the_smallest_that_works(n: int, alpha: float, delta: float) -> None:
    rank = pac_rank(n, alpha, delta)
    if rank <= n:
        assert stats.beta(rank, n + 1 - rank).cdf(1 - alpha) <= delta
    if rank > 1:
        assert stats.beta(rank - 1, n + 2 - rank).cdf(1 - alpha) > delta


def test_coverage_distribution_is_the_beta_of_the_rank() -> None:
    coverage, beta = CoverageDistribution(451, 500), stats.beta(451, 50)
    assert coverage.mean() == pytest.approx(beta.mean())
    assert coverage.std() == pytest.approx(beta.std())
    assert coverage.interval(0.9) == pytest.approx(beta.interval(0.9))
    assert coverage.cdf(0.9) == pytest.approx(beta.cdf(0.9))
    assert coverage.ppf(0.25) == pytest.approx(beta.ppf(0.25))
    low, high = coverage.observed_interval(200, 0.9)
    assert stats.betabinom(200, 451, 50).cdf(200 * low - 1) <= 0.05
    assert stats.betabinom(200, 451, 50).cdf(200 * high) >= 0.95


def test_coverage_is_certain_when_the_threshold_is_infinite() -> None:
    coverage = CoverageDistribution(3, 2)
    assert (
        coverage.mean()
        == coverage.interval(0.9)[0]
        == coverage.ppf(0.5)
        == coverage.observed_interval(9)[0]
        == 1.0
    )
    assert (coverage.cdf(0.999), coverage.cdf(1.0), coverage.std()) == (0.0, 1.0, 0.0)
