"""Cross-conformal calibration: the ball holds the CV+ set, and the guarantee holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import credalset as cs
from credalset.scores import Normalized, Score
from credalset.scores.normalized import ScaledPrediction
from tests.conftest import SCORES, random_predictions

#: scores with known enclosing balls
NAMES = [name for name, score in SCORES.items() if score.is_metric or score.has_enclosing_balls]


def models_for(score: Score, n_folds: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Predictions of fold models that differ a little."""
    base = random_predictions(score, n, 3, rng)
    noise = np.stack([random_predictions(score, n, 3, rng) for _ in range(n_folds)])
    return 0.8 * base + 0.2 * noise


def votes(
    calibration: Any, bounds: np.ndarray, new: np.ndarray, candidates: np.ndarray
) -> np.ndarray:
    """Which items let each candidate in, (n, N, M), straight from the definition."""
    score = calibration.score
    of_folds = np.empty((len(new), new.shape[1], len(candidates)))
    for k, model in enumerate(new):
        for j in range(new.shape[1]):
            of_folds[k, j] = score(np.repeat(model[j : j + 1], len(candidates), axis=0), candidates)
    return bounds[:, None, None] >= of_folds[calibration.folds]


@pytest.mark.parametrize("name", NAMES)
def test_balls_enclose_balls(name: str) -> None:
    score, rng = SCORES[name], np.random.default_rng(0)
    models = models_for(score, 3, 15, rng)
    center = score.common_center(list(models))
    candidates = np.vstack(
        [rng.dirichlet(np.ones(3), 300), rng.dirichlet(np.full(3, 0.2), 100), np.eye(3)]
    )
    for model in models:
        for i in range(15):
            own = score(np.tile(model[i], (len(candidates), 1)), candidates)
            other = score(np.tile(center[i], (len(candidates), 1)), candidates)
            bound = score.enclosing_threshold(model[i : i + 1], center[i : i + 1], own)
            assert (other <= bound + 1e-9 * (1 + np.abs(bound))).all()


@pytest.mark.filterwarnings("ignore::credalset.CredalSetWarning")
@pytest.mark.parametrize("name", NAMES)
def test_no_member_of_the_cross_conformal_set_is_lost(name: str) -> None:
    """At every level, and above all where sets are called empty: none of these has a member."""
    score, rng, n = SCORES[name], np.random.default_rng(1), 40
    calibration = cs.cross_conformalize(
        random_predictions(score, n, 3, rng), rng.dirichlet(np.ones(3), n), np.arange(n) % 4, score
    )
    new = models_for(score, 4, 12, rng)
    candidates = np.vstack(
        [rng.dirichlet(np.ones(3), 300), *score.best_fit(score.check_prediction(new[0]))]
    )
    count = votes(calibration, calibration.scores, new, candidates).sum(axis=0)
    for alpha in (0.1, 0.2, 0.5, 0.9):
        sets, member = calibration.predict_set(new, alpha), 1 + count > alpha * (n + 1)
        assert not member[sets.is_empty()].any()
        assert sets.contains(candidates, broadcast=True)[member].all()


def test_one_model_for_all_is_split_conformal() -> None:
    rng = np.random.default_rng(3)
    g, labels = rng.dirichlet(np.ones(3), 50), rng.dirichlet(np.ones(3), 50)
    calibration = cs.cross_conformalize(g, labels, np.arange(50) % 2)
    plain = cs.conformalize(g, labels)
    assert calibration.thresholds([g, g], 0.1) == pytest.approx(np.full(50, plain.threshold(0.1)))
    assert calibration.score.name == "kl"


def test_coverage_of_scarce_data() -> None:
    rng = np.random.default_rng(2)
    observed, promised = [], 0.0
    for _ in range(25):
        data = cs.datasets.make_synthetic(260, n_features=3, n_votes=20, random_state=rng)
        X, Y = data.X, data.counts / 20
        folds, out, new = np.arange(60) % 6, np.empty((60, 3)), []
        for k in range(6):
            held = folds == k
            solve = np.linalg.lstsq(
                np.c_[X[:60][~held], np.ones((~held).sum())], Y[:60][~held], rcond=None
            )[0]
            g = np.clip(np.c_[X, np.ones(260)] @ solve, 0.02, None)
            g /= g.sum(axis=1, keepdims=True)
            out[held] = g[:60][held]
            new.append(g[60:])
        calibration = cs.cross_conformalize(out, Y[:60], folds, "tv")
        promised = calibration.guaranteed_coverage(0.1)
        observed.append(calibration.predict_set(new, 0.1).contains(Y[60:]).mean())
    assert np.mean(observed) >= promised
    assert 0.88 <= np.mean(observed) <= 0.99
    assert promised == pytest.approx(1 - 0.2 - min(2 * (5 / 6) / 11, (1 - 0.1) / 7))
    assert "1 - 2 alpha" in str(calibration.guarantee)


def test_groups_are_calibrated_on_their_own() -> None:
    rng = np.random.default_rng(8)
    g, labels, folds = (
        rng.dirichlet(np.ones(3), 60),
        rng.dirichlet(np.ones(3), 60),
        np.arange(60) % 4,
    )
    keys, new = np.repeat(["a", "b"], [20, 40]), models_for(SCORES["tv"], 4, 6, rng)
    together = cs.cross_conformalize(g, labels, folds, "tv", groups=keys)
    for key in ("a", "b"):
        own = keys == key
        alone = cs.cross_conformalize(g[own], labels[own], folds[own], "tv")
        expected = alone.thresholds(new, 0.1)
        assert np.array_equal(together.thresholds(new, 0.1, groups=[key] * 6), expected)
    assert len(np.unique(together.predict_set(new, 0.1, groups=["a", "b"] * 3).threshold)) > 1
    assert together.guaranteed_coverage(0.1) == pytest.approx(1 - 2 * (0.1 * 21 + 3) / 24)


@pytest.mark.parametrize("name", ["tv", "kl", "so"])
def test_weighted_balls_hold_the_average_of_weighted_p_values(name: str) -> None:
    rng, score = np.random.default_rng(9), SCORES[name]
    g, labels = random_predictions(score, 30, 3, rng), rng.dirichlet(np.ones(3), 30)
    folds, weights = np.arange(30) % 3, rng.random(30) + 0.1
    calibration = cs.cross_conformalize(g, labels, folds, score, weights=weights)
    new, new_weights, candidates = (
        models_for(score, 3, 4, rng),
        rng.random(4),
        rng.dirichlet(np.ones(3), 100),
    )
    ballots, p = votes(calibration, calibration.scores, new, candidates), np.zeros((4, 100))
    for k in range(3):
        own = weights[folds == k]
        mass = np.einsum("i,ijm->jm", own, ballots[folds == k])
        p += (new_weights[:, None] + mass) / (new_weights[:, None] + own.sum()) / 3
    for alpha in (0.15, 0.3):
        held = calibration.predict_set(new, alpha, weights=new_weights).contains(
            candidates, broadcast=True
        )
        assert held[p > alpha].all()
    same = [g[:4]] * 3  # one model: the ball is the set itself
    ballots, q = (
        votes(calibration, calibration.scores, np.stack(same), candidates),
        np.zeros((4, 100)),
    )
    for k in range(3):
        own = weights[folds == k]
        q += (1 + np.einsum("i,ijm->jm", own, ballots[folds == k])) / (1 + own.sum()) / 3
    found = calibration.predict_set(same, 0.3, weights=np.ones(4)).contains(
        candidates, broadcast=True
    )
    assert np.array_equal(found, q > 0.3)
    assert calibration.guaranteed_coverage(0.1) == pytest.approx(0.8)


def test_noise_moves_the_scores() -> None:
    rng = np.random.default_rng(10)
    g, folds, new = (
        rng.dirichlet(np.ones(3), 50),
        np.arange(50) % 5,
        models_for(SCORES["tv"], 5, 3, rng),
    )
    counts = rng.multinomial(20, 0.8 * g + 0.2 / 3)
    plain = cs.cross_conformalize(g, counts, folds, "tv")
    bounded = cs.cross_conformalize(g, counts, folds, "tv", noise=cs.BoundedNoise(0.07, 0.05))
    assert bounded.thresholds(new, 0.15) == pytest.approx(plain.thresholds(new, 0.1) + 0.07)
    sampled = cs.cross_conformalize(g, counts, folds, "tv", noise=cs.AnnotatorSampling(0.05))
    assert (sampled.thresholds(new, 0.15) > plain.thresholds(new, 0.1)).all()
    assert plain.guaranteed_coverage(0.1) == pytest.approx(
        1 - min(0.2 + 0.9 / 6, 2 * (5.1 + 4) / 55)
    )
    assert bounded.guaranteed_coverage(0.15) == pytest.approx(1 - 2 * (5.1 + 4) / 55 - 0.1)
    level = 0.15 * 0.95
    expected = 1 - min(2 * level + 0.9 / 6, 2 * (level * 51 + 4) / 55) / 0.95
    assert sampled.guaranteed_coverage(0.15) == pytest.approx(expected)


def test_refusals() -> None:
    g, labels = np.full((4, 2), 0.5), np.eye(2)[[0, 1, 0, 1]]
    for folds in (
        [0, 0, 0, 0],
        [0, 2, 0, 2],
        [1, 2, 1, 2],
        [0, 1],
        [0.0, 1.0, 0.0, 1.0],
        [[0], [1, 2]],
    ):
        with pytest.raises(ValueError, match="folds must"):
            cs.cross_conformalize(g, labels, folds)  # type: ignore[arg-type]
    calibration = cs.cross_conformalize(g, labels, [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"predictions must have shape \(2, n_items, 2\)"):
        calibration.predict_set(g, 0.5)
    with pytest.warns(cs.CredalSetWarning, match="4 calibration items"):
        assert (calibration.thresholds([g, g], 0.1) == math.inf).all()
    one_model = cs.BoundedNoise(0.1, 0.05, _scope="average item, one model")
    for noise in (
        cs.AnnotatorSampling(),
        cs.UnbiasedVotes(),
        cs.BoundedNoise(0.1, 0.1, "paper"),
        one_model,
    ):
        with pytest.raises(ValueError, match="not supported with cross-conformal sets"):
            cs.cross_conformalize(g, [[1, 2]] * 4, [0, 1, 0, 1], noise=noise)
    with pytest.raises(ValueError, match="groups"):
        cs.cross_conformalize(g, labels, [0, 1, 0, 1], groups="predicted")


def test_predicted_scales_go_with_each_model() -> None:
    rng = np.random.default_rng(0)
    score, labels = Normalized("tv", scale="predicted"), rng.dirichlet(np.ones(3), 60)
    g = [ScaledPrediction(rng.dirichlet(np.ones(3), 60), rng.gamma(2.0, 1.0, 60)) for _ in range(2)]
    calibration = cs.cross_conformalize(g[0], labels, np.arange(60) % 2, score)
    new, candidates = [block[:5] for block in g], rng.dirichlet(np.ones(3), 200)
    of_folds = np.stack(
        [score.evaluate_pairs(score.check_prediction(block), candidates[None]) for block in new]
    )
    count = (calibration.scores[:, None, None] >= of_folds[calibration.folds]).sum(axis=0)
    held = calibration.predict_set(new, 0.3).contains(candidates, broadcast=True)
    assert held[1 + count > 0.3 * 61].all()


def test_a_score_without_enclosing_balls_is_refused() -> None:
    """Its sets would have no known shape, and whether they are empty could only be guessed."""
    score, rng = SCORES["intervals"], np.random.default_rng(0)
    with pytest.raises(ValueError, match="'intervals'"):
        cs.cross_conformalize(
            random_predictions(score, 20, 3, rng),
            np.eye(3)[np.arange(20) % 3],
            np.arange(20) % 2,
            score,
        )
