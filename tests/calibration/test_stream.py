"""Streams: the level adapts, the alarm keeps its promise,
and a saved stream goes on where it stopped.
"""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import credalset as cs
from credalset.scores import Score
from tests.conftest import random_predictions


def draw(n: int, rng: np.random.Generator, error: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    truth = rng.dirichlet(np.ones(3), n)
    return (1 - error) * truth + error * rng.dirichlet(np.ones(3), n), rng.multinomial(10, truth)


def calibrated(rng: np.random.Generator, n: int = 200, **options: Any) -> cs.Calibration:
    return cs.conformalize(*draw(n, rng), "tv", **options)


def test_misses_stay_near_alpha_whatever_happens() -> None:
    rng = np.random.default_rng(0)
    stream = cs.Stream(calibrated(rng), alpha=0.1, gamma=0.05)
    for error in (0.3, 1.0, 0.0, 0.6):
        stream.update(*draw(250, rng, error))
        bound = (0.9 + 0.05) / (0.05 * stream.n_items)
        assert abs(stream.n_missed / stream.n_items - 0.1) <= bound


def test_the_level_follows_its_formula() -> None:
    rng = np.random.default_rng(1)
    stream = cs.Stream(calibrated(rng), alpha=0.2, gamma=0.1)
    level = 0.2
    for step in stream.update(*draw(100, rng)):
        level += 0.1 * (0.2 - (not step.covered))
    assert stream.level == pytest.approx(level)


def test_covered_means_a_member_of_the_set_in_force() -> None:
    rng = np.random.default_rng(2)
    stream = cs.Stream(calibrated(rng), alpha=0.2, gamma=0.2)
    prediction, counts = draw(60, rng, 0.8)
    for i in range(60):
        sets = stream.predict_set(prediction[i : i + 1])
        step = stream.update(prediction[i : i + 1], counts[i : i + 1])[0]
        assert step.covered == sets.contains(counts[i : i + 1] / 10)[0]


def test_extreme_levels() -> None:
    rng = np.random.default_rng(3)
    stream = cs.Stream(calibrated(rng), alpha=0.5, gamma=5.0)
    prediction, counts = draw(20, rng)
    stream.level = -0.1
    assert stream.predict_set(prediction).contains(counts / 10).all()
    stream.level = 1.0
    assert stream.predict_set(prediction).is_empty().all()


@pytest.mark.parametrize(
    "options",
    [
        {"noise": cs.BoundedNoise(0.1, 0.05)},
        {"noise": cs.AnnotatorSampling()},
        {"noise": cs.UnbiasedVotes()},
        {"groups": "predicted"},
    ],
    ids=str,
)
def test_streams_take_any_calibration(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(4)
    stream = cs.Stream(calibrated(rng, **options), alpha=0.1, gamma=0.1)
    assert len(stream.update(*draw(50, rng, 1.0))) == 50
    stream.level = 0.01
    assert len(stream.predict_set(draw(3, rng)[0])) == 3


@pytest.mark.parametrize("votes", [1, 1000])
def test_p_values_are_uniform_and_independent(votes: int) -> None:
    """Ties included: with one vote and a constant model scores take three values."""
    rng = np.random.default_rng(votes)
    g = np.tile([0.5, 0.3, 0.2], (1500, 1))
    counts = rng.multinomial(votes, [0.4, 0.4, 0.2], 1500)
    stream = cs.Stream(cs.conformalize(g[:20], counts[:20]), 0.1)
    p = np.array([step.p_value for step in stream.update(g[20:], counts[20:])])
    assert stats.kstest(p, "uniform").pvalue > 1e-3
    assert abs(stats.spearmanr(p[1:], p[:-1]).statistic) < 4 / np.sqrt(len(p))


def uniform(rng: np.random.Generator) -> cs.Calibration:
    """Fifty uniform total-variation scores."""
    scores = rng.random(50)
    return cs.conformalize(
        np.tile([1.0, 0.0], (50, 1)), np.column_stack([1 - scores, scores]), "tv"
    )


def alarms(n_streams: int, n_items: int, false_alarm: float) -> int:
    rng = np.random.default_rng(5)
    count = 0
    for seed in range(n_streams):
        calibration = uniform(rng)
        stream = cs.Stream(calibration, 0.1, false_alarm=false_alarm, random_state=seed)
        one = calibration._read(np.full((1, 2), 0.5))
        for score in rng.random(n_items).tolist():
            stream._step(one, score)
        count += stream.alarm
    return count


def test_false_alarms_are_rare() -> None:
    assert alarms(100, 100, 0.05) <= stats.binom.ppf(0.999, 100, 0.05)


@pytest.mark.slow
def test_false_alarms_are_at_their_nominal_rate() -> None:
    assert alarms(1000, 500, 0.05) <= stats.binom.ppf(0.999, 1000, 0.05)


@pytest.mark.parametrize("error", [0.0, 0.9], ids=["better", "worse"])
def test_a_change_is_noticed(error: float) -> None:
    rng = np.random.default_rng(6)
    stream = cs.Stream(calibrated(rng, 500), false_alarm=0.001)
    stream.update(*draw(200, rng))
    assert not stream.alarm
    steps = stream.update(*draw(400, rng, error))
    assert stream.alarm
    assert steps[-1].alarm
    assert "alarm" in repr(stream)


def test_resumed_streams_go_on_to_the_bit(score: Score, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    prediction = random_predictions(score, 120, 3, rng)
    labels = rng.dirichlet(np.ones(3), 120)
    stream = cs.Stream(
        cs.conformalize(prediction[:60], labels[:60], score), 0.2, gamma=0.03, random_state=9
    )
    stream.update(prediction[60:90], labels[60:90])
    stream.save(tmp_path / "s")
    resumed: Any = cs.load(tmp_path / "s")
    assert repr(resumed) == repr(stream)
    assert resumed.update(prediction[90:], labels[90:]) == stream.update(
        prediction[90:], labels[90:]
    )
    assert (resumed.level, resumed.capital, resumed.peak) == (
        stream.level,
        stream.capital,
        stream.peak,
    )


def test_a_stream_keeps_its_noise_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    stream = cs.Stream(calibrated(rng, noise=cs.UnbiasedVotes()))
    stream.save(tmp_path / "s")
    loaded: Any = cs.load(tmp_path / "s")
    prediction = draw(5, rng)[0]
    assert (
        loaded.predict_set(prediction).threshold.tobytes()
        == stream.predict_set(prediction).threshold.tobytes()
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_missed": 1},
        {"stakes": np.full(3, -1.0)},
        {"stakes": np.ones(2)},
        {"level": math.nan},
        {"peak": 0.5},
    ],
    ids=str,
)
def test_a_state_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    state: dict[str, Any] = {
        "level": 0.1,
        "n_missed": 0,
        "peak": 1.0,
        "stakes": np.ones(3),
        "seen": np.empty(0),
    } | wrong
    with pytest.raises(ValueError, match=next(iter(wrong))):
        cs.Stream(calibrated(np.random.default_rng(9)))._resume(**state)


def test_few_votes_cost_a_stream_nothing_per_item() -> None:
    """The bound on the mean is found once; every level is a division,
    and nothing is kept per level.
    """
    rng = np.random.default_rng(11)
    prediction, counts = draw(400, rng)
    calibration = cs.conformalize(prediction, counts, "brier", noise=cs.FewVotes(0.05))
    stream = cs.Stream(calibration, 0.2)
    before = set(pickled_sizes(calibration))
    stream.update(*draw(50, rng))
    assert set(pickled_sizes(calibration)) == before


def pickled_sizes(thing: Any) -> dict[str, int]:
    """The size of what each part of a calibration holds, caches included."""
    return {repr(fit): len(pickle.dumps(vars(fit))) for fit in thing.fitted.fits} | {
        "all": len(pickle.dumps(thing))
    }


def test_refusals() -> None:
    rng = np.random.default_rng(10)
    calibration = calibrated(rng)
    with pytest.raises(ValueError, match="gamma must be above 0"):
        cs.Stream(calibration, gamma=0.0)
    with pytest.raises(ValueError, match="false_alarm must lie"):
        cs.Stream(calibration, false_alarm=0.0)
    with pytest.raises(TypeError, match="random_state must be a whole number"):
        cs.Stream(calibration, random_state=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must not have weights"):
        cs.Stream(calibrated(rng, weights=np.ones(200)))


def test_cross_conformal_calibrations_are_refused() -> None:
    g = np.full((4, 2), 0.5)
    cross = cs.cross_conformalize(g, np.eye(2)[[0, 1, 0, 1]], [0, 1, 0, 1])
    with pytest.raises(TypeError, match="calibration"):
        cs.Stream(cross)  # type: ignore[arg-type]
