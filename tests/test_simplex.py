from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from credalset import simplex


def test_paper_grid_has_every_point() -> None:
    points = simplex.grid(3, 0.005)
    assert points.shape == (20301, 3)
    assert len(np.unique(np.rint(points * 200).astype(int), axis=0)) == 20301
    assert np.abs(points.sum(axis=1) - 1).max() < 1e-12


@given(n_classes=st.integers(2, 6), steps=st.integers(1, 12))
def test_grid_is_complete(n_classes: int, steps: int) -> None:
    points = np.rint(simplex.grid(n_classes, 1 / steps) * steps).astype(int)
    brute = (
        [p for p in np.ndindex(*[steps + 1] * n_classes) if sum(p) == steps]
        if n_classes < 5
        else None
    )
    assert len(points) == math.comb(steps + n_classes - 1, n_classes - 1)
    assert (points >= 0).all()
    assert (points.sum(axis=1) == steps).all()
    if brute is not None:
        assert [tuple(p) for p in points] == brute


@pytest.mark.parametrize("resolution", [0.0, -0.1, 0.3, 2.0, math.nan])
def test_grid_refuses_steps_that_do_not_divide_one(resolution: float) -> None:
    with pytest.raises(ValueError, match="resolution must be"):
        simplex.grid(3, resolution)


def test_grid_refuses_to_fill_memory() -> None:
    with pytest.raises(ValueError, match="coarser resolution"):
        simplex.grid(10, 0.005)


def test_uniform_sampling_has_beta_margins() -> None:
    sample = simplex.sample_uniform(20_000, 4, random_state=0)
    assert sample.sum(axis=1) == pytest.approx(1.0)
    for k in range(4):
        assert stats.kstest(sample[:, k], stats.beta(1, 3).cdf).pvalue > 1e-4


@pytest.mark.parametrize(("base", "expected"), [(None, math.log(4)), ("K", 1.0), (2, 2.0)])
def test_entropy_bases(base: float | str | None, expected: float) -> None:
    assert simplex.entropy(np.full((1, 4), 0.25), base)[0] == pytest.approx(expected)
    assert simplex.entropy(np.eye(4)[:1], base)[0] == 0.0


@pytest.mark.parametrize("base", ["k", 1.0, 0.5, -2])
def test_entropy_refuses_odd_bases(base: float | str) -> None:
    with pytest.raises(ValueError, match="base must be"):
        simplex.entropy(np.eye(3), base)
