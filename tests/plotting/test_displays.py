"""Displays of many items: what is drawn is what the sets and the votes say."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import credalset as cs
from credalset import plotting
from credalset.evaluation.views import RangeStrip, Rejection, ShareCalibration

DATA = cs.datasets.make_synthetic(500, n_classes=4, n_votes=30, random_state=1)
P = DATA.distributions
COUNTS = DATA.counts
SETS = cs.conformalize(P[:300], COUNTS[:300]).predict_set(P[300:], 0.1)
CROWD = cs.DirichletCrowd(n_consensus=1, max_iter=15).fit(P[:100], COUNTS[:100])
PANEL = CROWD.conformalize(P[100:300], COUNTS[100:300], in_hand=(0, 2, 5))


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(4.0, 3.0), layout="constrained").subplots()


def line(ax: Axes, name: str) -> Any:
    (found,) = [each for each in ax.lines if each.get_label() == name]
    return found


def test_the_strip_is_sorted_and_holds_the_ranges_of_the_sets(ax: Axes) -> None:
    votes = COUNTS[300:] / COUNTS[300:].sum(axis=1, keepdims=True)
    strip = RangeStrip.of(SETS, SETS._batch.votes(COUNTS[300:]))
    rows = np.arange(200)
    label = P[300:].argmax(axis=1)
    np.testing.assert_array_equal(strip.label, label)
    np.testing.assert_allclose(strip.lower, SETS.lower()[rows, label])
    np.testing.assert_allclose(strip.upper, SETS.upper()[rows, label])
    np.testing.assert_allclose(strip.share, votes[rows, label])
    np.testing.assert_array_equal(strip.covered, SETS.contains(votes))
    np.testing.assert_array_equal(np.diff(strip.lower[strip.order].round(3)) >= 0, True)
    tied = np.diff(strip.lower[strip.order].round(3)) == 0
    assert (np.diff(strip.predicted[strip.order])[tied] >= 0).all()
    plotting.range_strip(SETS, votes=COUNTS[300:], ax=ax)
    shown = len(line(ax, "votes").get_xdata()), len(line(ax, "votes, not covered").get_xdata())
    assert shown == (strip.covered.sum(), (~strip.covered).sum())
    np.testing.assert_allclose(
        line(ax, "prediction").get_ydata()[::3], strip.predicted[strip.order]
    )


def test_a_strip_without_votes_and_with_given_labels(ax: Axes) -> None:
    other = P[300:].argmin(axis=1)
    plotting.range_strip(SETS, label=other, ax=ax)
    shown = np.sort(line(ax, "prediction").get_ydata()[::3])
    np.testing.assert_allclose(shown, np.sort(P[300:].min(axis=1)))
    assert not [each for each in ax.lines if "votes" in str(each.get_label())]
    with pytest.raises(ValueError, match="label must hold one column"):
        plotting.range_strip(SETS, label=np.full(200, 4), ax=ax)


def test_ribbons_are_the_bounds_at_the_end_of_the_votes(ax: Axes) -> None:
    counts = np.array([5, 0, 0, 0])
    plotting.votes_coming_in(PANEL, P[300], counts, numbers=(0, 2, 5), ax=ax)
    sets = PANEL.predict_set(np.tile(P[300], (3, 1)), 0.1, votes=[[0] * 4, [2, 0, 0, 0], counts])
    ribbon = ax.collections[0].get_paths()[0].vertices
    assert ribbon[:, 1].max() == pytest.approx(sets.upper()[:, 0].max())
    assert ribbon[:, 1].min() == pytest.approx(sets.lower()[:, 0].min())
    ticks = [each for each in ax.lines if each.get_marker() == "|"]
    drawn = np.flatnonzero((sets.center.max(axis=0) >= 0.05) | (counts > 0))
    assert [list(each.get_xdata()) for each in ticks] == [
        [1, 2, 3, 4, 5] if k == 0 else [] for k in drawn
    ]
    left_out = np.setdiff1d(np.arange(4), drawn)
    assert len(left_out) == 1
    assert f"(1 more class: at most {sets.upper()[-1, left_out].max():.2f})" in ax.get_xlabel()


def test_votes_of_frames_are_matched_by_name(ax: Axes) -> None:
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(P, columns=names)
    crowd = cs.DirichletCrowd(n_consensus=1, max_iter=15).fit(
        frame[:100], pd.DataFrame(COUNTS[:100], columns=names)
    )
    panel = crowd.conformalize(
        frame[100:300].reset_index(drop=True),
        pd.DataFrame(COUNTS[100:300], columns=names),
        in_hand=(0, 5),
    )
    one = pd.DataFrame([[0, 0, 0, 5]], columns=names)[names[::-1]]
    plotting.votes_coming_in(panel, frame.iloc[[300]].reset_index(drop=True), one, ax=ax)
    ticks = {
        each.get_label(): list(mark.get_xdata())
        for each, mark in zip(ax.lines[::2], ax.lines[1::2], strict=True)
    }
    assert ticks.pop("d") == [1, 2, 3, 4, 5]
    assert not any(ticks.values())
    with pytest.raises(ValueError, match="prediction must be that of one item"):
        plotting.votes_coming_in(PANEL, P[:2], COUNTS[:2], ax=ax)
    with pytest.raises(ValueError, match="does not use votes in hand"):
        plotting.votes_coming_in(cs.conformalize(P, COUNTS), P[0], COUNTS[0], ax=ax)


def test_calibration_of_shares_covers_a_calibrated_model() -> None:
    generator = np.random.default_rng(0)
    inside = []
    for _ in range(40):
        p = generator.dirichlet([0.5, 1.0, 1.5], 400)
        observed = generator.multinomial(5, p) / 5
        found = ShareCalibration.of(p, observed)
        assert found.n.sum() == p.size
        inside.append((found.low <= found.predicted) & (found.predicted <= found.high))
    # 40 × 10 intervals of 95 %, a few of small bins.
    assert 0.9 < np.concatenate(inside).mean() < 0.99


def test_rejection_keeps_the_least_uncertain_and_ties_together() -> None:
    found = Rejection.of(np.array([0.3, 0.1, 0.1, 0.2]), np.array([1.0, 1.0, 0.0, 0.0]))
    np.testing.assert_allclose(found.loss, [0.5, 0.5, 1 / 3, 0.5])
    np.testing.assert_allclose(found.kept, [0.25, 0.5, 0.75, 1.0])
    assert found.area == pytest.approx(np.mean([0.5, 0.5, 1 / 3, 0.5]))


def test_coverage_by_level_and_by_difficulty_show_the_numbers_of_evaluate(ax: Axes) -> None:
    calibration = cs.conformalize(P[:300], COUNTS[:300])
    rows = cs.evaluate(calibration, P[300:], COUNTS[300:], (0.2, 0.1))
    plotting.coverage_curve(rows, ax=ax)
    drawn = line(ax, "kl")
    assert drawn.get_xdata().tolist() == [0.1, 0.2]
    assert drawn.get_ydata().tolist() == [float(rows[1]["coverage"]), float(rows[0]["coverage"])]
    other = Figure().subplots()
    plotting.coverage_by_difficulty(SETS, COUNTS[300:], 0.1, ax=other)
    (points,) = [each for each in other.lines if each.get_marker() == "o"]
    assert np.mean(points.get_ydata()) == pytest.approx(float(rows[1]["coverage"]))
    with pytest.raises(ValueError, match="alpha"):
        plotting.coverage_curve([{"coverage": 0.9}], ax=ax)


def test_sizes_and_scores_are_counted_and_marked() -> None:
    first = plotting.sizes(SETS, ax=Figure().subplots())
    assert sum(bar.get_height() for bar in first.patches) == len(SETS)
    calibration = cs.conformalize(P[:300], COUNTS[:300], "tv")
    second = plotting.scores(calibration, 0.2, ax=Figure().subplots())
    assert sum(bar.get_height() for bar in second.patches) == 300
    (mark,) = second.lines
    assert mark.get_xdata()[0] == pytest.approx(calibration.threshold(0.2))
    with pytest.raises(ValueError, match="measure must be one of"):
        plotting.sizes(SETS, "area", ax=Figure().subplots())


def test_slices_take_slices_only(ax: Axes) -> None:
    with pytest.raises(TypeError, match="slice_coverage"):
        plotting.slices([], ax=ax)
