"""What a score knows of itself, for noise and cross-conformal calibration:
bounds that hold everywhere.
"""

from __future__ import annotations

import numpy as np
import pytest

from credalset.scores import Score, get_score, register_score
from credalset.sets.membership import contains_pairs
from credalset.simplex import sample_uniform
from tests.conftest import make_predictions, random_predictions

K = 4


def predictions(score: Score, n: int = 12) -> object:
    return score.check_prediction(random_predictions(score, n, K, np.random.default_rng(0)))


def test_largest_score_above_a_lower_bound(score: Score) -> None:
    if not score.is_convex:
        pytest.skip("needs convex regions")
    prediction = predictions(score)
    lower = np.random.default_rng(1).dirichlet(np.ones(K), 12) * np.linspace(0.0, 0.9, 12)[:, None]
    bound = score.largest_above(prediction, lower)
    inside = lower[:, None] + (1.0 - lower.sum(axis=1))[:, None, None] * sample_uniform(300, K, 2)
    scores = score.evaluate_pairs(prediction, inside)
    assert (scores <= bound[:, None] * (1 + 1e-12) + 1e-12).all()
    assert (score.largest_score(prediction) >= bound - 1e-9).all()


def test_label_scores_are_those_of_certain_labels(score: Score) -> None:
    prediction = predictions(score)
    expected = score.evaluate_pairs(prediction, np.eye(K)[None])
    np.testing.assert_allclose(score.label_scores(prediction), expected, rtol=1e-12, atol=1e-12)


def test_no_score_changes_faster_than_it_says(score: Score) -> None:
    slope = score.lipschitz(K)
    if slope is None:
        pytest.skip("says nothing")
    prediction = predictions(score, 50)
    a, b = sample_uniform(50, K, 1), sample_uniform(50, K, 2)
    change = np.abs(score.evaluate_rows(prediction, a) - score.evaluate_rows(prediction, b))
    assert (change <= slope * 0.5 * np.abs(a - b).sum(axis=1) + 1e-12).all()


def test_metrics_obey_the_triangle_inequality(score: Score) -> None:
    if not score.is_metric:
        pytest.skip("not a metric")
    a, b, c = (sample_uniform(200, K, seed) for seed in range(3))
    assert (score(a, c) <= score(a, b) + score(b, c) + 1e-12).all()


def test_enclosing_balls_enclose(score: Score) -> None:
    rng = np.random.default_rng(3)
    base = rng.dirichlet(np.ones(K), 10)
    models = [
        score.check_prediction(
            make_predictions(score, 0.9 * base + 0.1 * rng.dirichlet(np.ones(K), 10))
        )
        for _ in range(2)
    ]
    if not (score.is_metric or score.has_enclosing_balls):
        pytest.skip("none are known")
    center = score.common_center(models)
    points = sample_uniform(400, K, 4)
    for model in models:
        inner = np.quantile(score.evaluate_pairs(model, points[None]), 0.3, axis=1)
        outer = score.enclosing_threshold(model, center, inner)
        held = contains_pairs(score._region(model, inner), points[None])
        assert held.any()
        around = contains_pairs(
            score._region(center, outer + 1e-12 * (1 + np.abs(outer))), points[None]
        )
        assert (held <= around).all()


def test_nan_is_refused() -> None:
    class Broken(type(get_score("tv"))):  # type: ignore[misc]
        def formula(self, prediction: np.ndarray, distribution: np.ndarray) -> np.ndarray:
            return np.full(np.broadcast_shapes(prediction.shape, distribution.shape)[:-1], np.nan)

    with pytest.raises(ValueError, match="NaN"):
        Broken()([[0.5, 0.5]], [[0.5, 0.5]])


@pytest.mark.parametrize("n_classes", [2, 9, 130])
def test_equal_inputs_tie_whatever_the_batch(score: Score, n_classes: int) -> None:
    rng = np.random.default_rng(5)
    prediction = score.check_prediction(random_predictions(score, 40, n_classes, rng))
    labels = rng.dirichlet(np.full(n_classes, 0.3), 40)
    together = score.evaluate_rows(prediction, labels)
    for rows in ([7], [7, 30], slice(3, 20), np.arange(40)[::-1]):
        np.testing.assert_array_equal(
            score.evaluate_rows(prediction[rows], labels[rows]), together[rows]
        )
        for m in (1, 3):
            points = np.repeat(labels[rows][:, None], m, axis=1)
            np.testing.assert_array_equal(
                score.evaluate_pairs(prediction[rows], points)[:, -1], together[rows]
            )


@pytest.mark.parametrize(
    "score", [3, "chi-squared", None, get_score], ids=["number", "name", "none", "function"]
)
def test_unknown_scores(score: object) -> None:
    with pytest.raises((TypeError, ValueError), match="score"):
        get_score(score)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Score"):
        register_score(score)  # type: ignore[type-var]
