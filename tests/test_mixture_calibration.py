"""Predictions that are mixtures of Dirichlets go through every option of calibration."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import credalset as cs
from credalset.calibration.noise import Noise
from credalset.scores.confidence import REGIONS, largest_score, lower_limits

DENSITY = cs.get_score("density")


def mixtures(n: int, rng: np.random.Generator, n_classes: int = 3, smallest: float = 0.4) -> np.ndarray:
    weights = rng.dirichlet(np.ones(2), n)
    theta = smallest + rng.gamma(2.0, 3.0, (n, 2, 1)) * rng.dirichlet(np.ones(n_classes), (n, 2))
    return np.concatenate([weights[..., None], theta], axis=2)


def draw(n: int, rng: np.random.Generator, votes: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions that are right: the truth comes from the predicted mixture."""
    g = mixtures(n, rng)
    component = (rng.random(n) > g[:, 0, 0]).astype(int)
    truth = np.stack([rng.dirichlet(g[i, component[i], 1:]) for i in range(n)])
    return g, truth, rng.multinomial(votes, truth)


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("smallest", [0.4, 1.0])
def test_bounds_hold_all_over_the_confidence_region(region: str, smallest: float) -> None:
    rng = np.random.default_rng(0)
    g = mixtures(40, rng, smallest=smallest)
    counts = rng.multinomial(12, rng.dirichlet(np.ones(3), 40))
    bound = largest_score(DENSITY, DENSITY.check_prediction(g), counts.astype(float), 0.1, region)
    corners = np.vstack([rng.dirichlet(np.full(3, 0.3), 3000), np.eye(3)])
    lower = lower_limits(counts.astype(float), 0.1)
    for i in range(40):
        points = lower[i] + (1 - lower[i].sum()) * corners if region == "exact" else ball(counts[i], region, corners)
        scores = DENSITY(np.repeat(g[i : i + 1], len(points), axis=0), points)
        assert scores.max() <= bound[i] + 1e-9


@pytest.mark.parametrize("n_classes", [3, 5])
def test_pieces_bring_the_bound_closer(n_classes: int) -> None:
    rng = np.random.default_rng(7)
    g = mixtures(60, rng, n_classes)
    counts = rng.multinomial(50, DENSITY.mean(DENSITY.check_prediction(g))).astype(float)
    lower = lower_limits(counts, 0.1)
    corners = np.vstack([rng.dirichlet(np.full(n_classes, 0.3), 3000), np.eye(n_classes)])
    spare = 1 - lower.sum(axis=1)
    found = [DENSITY(np.repeat(g[i : i + 1], len(corners), 0), lower[i] + spare[i] * corners).max() for i in range(60)]
    whole, pieces = (
        DENSITY.bound_above(DENSITY.check_prediction(g), lower),
        largest_score(DENSITY, DENSITY.check_prediction(g), counts, 0.1, "exact"),
    )
    assert (pieces >= np.array(found) - 1e-9).all()
    assert (pieces <= whole + 1e-9).all()
    assert np.mean(pieces - found) < {3: 0.4, 5: 0.85}[n_classes] * np.mean(whole - found)


def test_bounds_are_attained_where_components_agree() -> None:
    rng = np.random.default_rng(0)
    g = mixtures(40, rng, smallest=1.0)
    g[:, 1, 1:] = g[:, 0, 1:]
    counts = rng.multinomial(12, rng.dirichlet(np.ones(3), 40)).astype(float)
    lower = lower_limits(counts, 0.1)
    corners = [lower + (1 - lower.sum(axis=1, keepdims=True)) * np.eye(3)[k] for k in range(3)]
    largest = np.max([DENSITY(g, corner) for corner in corners], axis=0)
    assert largest_score(DENSITY, DENSITY.check_prediction(g), counts, 0.1, "exact") == pytest.approx(largest, rel=1e-9)


def ball(counts: np.ndarray, region: str, points: np.ndarray) -> np.ndarray:
    """Those of the points, pulled towards the votes, that lie in the confidence region."""
    from credalset.scores.anytime import anytime_radius
    from credalset.scores.confidence import relative_entropy_radius, total_variation_radius

    shares, votes = counts / counts.sum(), np.array([float(counts.sum())])
    near = np.vstack([shares + step * (points - shares) for step in (1.0, 0.5, 0.2)])
    if region == "tv":
        return near[0.5 * np.abs(near - shares).sum(axis=1) <= total_variation_radius(votes, 3, 0.1)[0]]
    kept = shares > 0
    with np.errstate(divide="ignore"):
        divergence = (shares[kept] * (np.log(shares[kept]) - np.log(near[:, kept]))).sum(axis=1)
    fixed = relative_entropy_radius(votes, 3, 0.1)
    return near[divergence <= (fixed if region == "kl" else anytime_radius(counts[None].astype(float), 0.1))[0]]


@pytest.mark.parametrize(
    "noise",
    [
        None,
        cs.AnnotatorSampling(),
        pytest.param(cs.AnnotatorSampling(0.02, "tv"), marks=pytest.mark.slow),
        pytest.param(cs.AnnotatorSampling(0.02, "kl"), marks=pytest.mark.slow),
        "epsilon",
    ],
    ids=repr,
)
def test_coverage_of_what_is_promised(noise: Any) -> None:
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(8):
        g, truth, counts = draw(400, rng)
        target = counts / 20 if noise is None else truth
        chosen: Noise | None = (
            cs.epsilon_from_counts(counts[:200], 0.05, "density", prediction=g[:200]) if noise == "epsilon" else noise
        )
        calibration = cs.conformalize(g[:200], counts[:200], "density", noise=chosen)
        covered.append(calibration.predict_set(g[200:], 0.1).contains(target[200:]).mean())
    assert np.mean(covered) >= 0.9 - 3 * math.sqrt(0.09 / 1600 + 0.09 / 1600)
    if noise is None:
        assert np.mean(covered) <= 0.9 + 3 * math.sqrt(0.09 / 1600 + 0.09 / 1600) + 1 / 201


def test_groups_are_the_classes_that_are_predicted() -> None:
    rng = np.random.default_rng(2)
    g, _, counts = draw(300, rng)
    calibration = cs.conformalize(g, counts, "density", groups="predicted")
    keys = DENSITY.mean(DENSITY.check_prediction(g)).argmax(axis=1)
    by_key = cs.conformalize(g, counts, "density", groups=keys)
    expected = by_key.thresholds(g, 0.1, groups=keys)
    assert len(np.unique(expected)) == 3
    assert np.array_equal(calibration.thresholds(g, 0.1), expected)


def test_weights_repeat_items() -> None:
    rng = np.random.default_rng(3)
    g, _, counts = draw(80, rng)
    times = rng.integers(0, 3, 80)
    weighted = cs.conformalize(g, counts, "density", weights=times)
    repeated = cs.conformalize(np.repeat(g, times, axis=0), np.repeat(counts, times, axis=0), "density")
    assert weighted.thresholds(g[:5], 0.1, weights=np.ones(5)).tolist() == [repeated.threshold(0.1)] * 5


def test_p_values_know_members() -> None:
    rng = np.random.default_rng(4)
    g, truth, counts = draw(200, rng)
    calibration = cs.conformalize(g[:99], counts[:99], "density")
    inside = calibration.predict_set(g[99:], 0.2).contains(truth[99:])
    assert np.array_equal(calibration.p_values(g[99:], truth[99:]) > 0.2, inside)


def test_fair_votes_are_refused_for_what_is_not_convex() -> None:
    rng = np.random.default_rng(5)
    g, _, counts = draw(60, rng)
    with pytest.raises(ValueError, match="'density' is not for these predictions"):
        cs.conformalize(g, counts, "density", noise=cs.UnbiasedVotes())
    convex = cs.conformalize(1.0 + counts, counts, "density", noise=cs.UnbiasedVotes())
    older = replace(convex, mixtures=None)  # files of old do not say what was calibrated
    with pytest.raises(ValueError, match="'density' is not for these predictions"):
        older.thresholds(g, 0.1)


def test_kinds_of_prediction_do_not_mix(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    g, truth, counts = draw(60, rng)
    theta = 1.0 + counts
    folds = np.arange(60) % 2
    for one, other, message in (
        (g, theta, r"holds concentrations of shape \(N, K\), but the calibration was made with mixtures"),
        (theta, g, r"holds mixtures of shape \(N, C, K \+ 1\), but the calibration was made with concentrations"),
    ):
        cs.conformalize(one, counts, "density").save(tmp_path / "split")
        cs.cross_conformalize(one, counts, folds, "density").save(tmp_path / "cross")
        split: Any = cs.load(tmp_path / "split")
        cross: Any = cs.load(tmp_path / "cross")
        for calibration in (split, cs.conformalize(one, counts, "density")):
            assert len(calibration.predict_set(one, 0.2)) == 60
            for ask in (
                lambda: calibration.predict_set(other, 0.2),  # noqa: B023
                lambda: calibration.thresholds(other, 0.2),  # noqa: B023
                lambda: calibration.p_values(other, truth),  # noqa: B023
                lambda: cs.Stream(calibration).update(other, counts),  # noqa: B023
            ):
                with pytest.raises(ValueError, match=message):
                    ask()
        for calibration in (cross, cs.cross_conformalize(one, counts, folds, "density")):
            assert len(calibration.predict_set([one, one], 0.2)) == 60
            with pytest.raises(ValueError, match=message):
                calibration.predict_set([other, other], 0.2)


def test_mixtures_of_different_numbers_of_components() -> None:
    rng = np.random.default_rng(10)
    g, _, counts = draw(30, rng)
    calibration = cs.cross_conformalize(g, counts, np.arange(30) % 3, "density")
    alone = np.concatenate([np.ones((30, 1, 1)), g[:, :1, 1:]], axis=2)
    with pytest.raises(ValueError, match=r"but has blocks of the shapes \(30, 2, 4\), \(30, 1, 4\)"):
        calibration.predict_set([g, g, alone], 0.2)


def test_streams_take_mixtures_and_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    g, _, counts = draw(300, rng)
    cases: list[dict[str, Any]] = [{}, {"groups": "predicted"}, {"noise": cs.AnnotatorSampling(0.02)}]
    for options in cases:
        calibration = cs.conformalize(g[:150], counts[:150], "density", **options)
        stream = cs.Stream(calibration, alpha=0.2, gamma=0.05)
        for i in range(150, 200):
            sets = stream.predict_set(g[i : i + 1])
            step = stream.update(g[i : i + 1], counts[i : i + 1])[0]
            assert step.covered == sets.contains(counts[i : i + 1] / 20)[0]
        stream.save(tmp_path / "s")
        loaded: Any = cs.load(tmp_path / "s")
        assert loaded.update(g[200:], counts[200:]) == stream.update(g[200:], counts[200:])
        assert stream.n_missed / stream.n_items == pytest.approx(0.2, abs=0.85 / (0.05 * 150))
