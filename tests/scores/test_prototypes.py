"""Prototypes: the law over several of them, one as the base's own ball, and what calibration may ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import credalset as cs
from credalset.scores import InnerProduct, KullbackLeibler, PrototypePrediction, Prototypes, RelativeLikelihood
from credalset.simplex import grid
from credalset.testing import check_score
from tests.conftest import SCORES

BASES = ["kl", "tv", "inner", "so", "hellinger", "normalized-kl"]


def prototypes(n: int, c: int, k: int, seed: int = 0, base: str = "kl") -> np.ndarray:
    """Prototypes of mixed precision, (n, c, k + 2)."""
    rng = np.random.default_rng(seed)
    centers = rng.dirichlet(np.ones(k), (n, c))
    if base == "so":
        centers = 1.0 + 10.0 * centers
    return np.concatenate([centers, rng.gamma(2.0, 2.0, (n, c, 1)) + 0.1, rng.normal(size=(n, c, 1))], axis=-1)


def score_of(base: str, offsets: bool = True) -> Prototypes:
    return Prototypes("kl" if base == "kl" else SCORES[base], offsets)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("n_components", [1, 3])
def test_laws(base: str, n_components: int) -> None:
    for k in (2, 3, 5):
        check_score(score_of(base), prototypes(6, n_components, k, base=base))


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 30), c=st.integers(1, 4), base=st.sampled_from(BASES))
def test_score_and_region_agree_to_the_last_bit(seed: int, k: int, c: int, base: str) -> None:
    rng, score = np.random.default_rng(seed), score_of(base, bool(seed % 2))
    prediction = prototypes(1, c, k, seed, base)
    label = rng.dirichlet(np.full(k, 0.3))[None]
    value = float(score(prediction, label)[0])
    assert score.region(prediction, value).contains(label).all()
    if np.isfinite(value):
        assert not score.region(prediction, np.nextafter(value, -np.inf)).contains(label).any()
    best = score.best_fit(score.check_prediction(prediction))
    least = float(score(prediction, best)[0])
    assert least <= value + 1e-9 * max(1.0, abs(least))
    assert not score.region(prediction, least).is_empty()[0]
    assert score.region(prediction, least - 1e-6 * max(1.0, abs(least))).is_empty()[0]
    assert score.region(prediction, np.inf).contains(label).all()


def test_formula() -> None:
    prediction = prototypes(5, 3, 4)
    labels = np.random.default_rng(1).dirichlet(np.ones(4), 5)
    divergence = (labels[:, None] * np.log(labels[:, None] / prediction[..., :4])).sum(axis=-1)
    scaled = prediction[..., 4] * divergence
    assert Prototypes()(prediction, labels) == pytest.approx((scaled + prediction[..., 5]).min(axis=1), rel=1e-12)
    assert Prototypes(offsets=False)(prediction, labels) == pytest.approx(scaled.min(axis=1), rel=1e-12)
    assert Prototypes(KullbackLeibler(2.0), offsets=False)(prediction, labels) == pytest.approx(
        scaled.min(axis=1) / np.log(2), rel=1e-12
    )


@pytest.mark.parametrize("base", BASES)
def test_one_prototype_is_a_ball_of_the_base(base: str) -> None:
    score = score_of(base)
    prediction = prototypes(6, 1, 4, base=base)
    threshold = score(prediction, np.full((6, 4), 0.25))
    sets = score.region(prediction, threshold)
    alone = score.distance.region(prediction[:, 0, :4], (threshold - prediction[:, 0, 5]) / prediction[:, 0, 4])
    assert np.array_equal(sets.is_empty(), alone.is_empty())
    assert sets.envelope()[1] == pytest.approx(alone.envelope()[1], abs=1e-12)
    assert sets.shape == alone.shape
    assert sets.answers() == alone.answers()
    assert score.is_convex_at(score.check_prediction(prediction)) == score.distance.is_convex


def test_plain_distributions_are_one_prototype_each() -> None:
    g, labels = np.random.default_rng(0).dirichlet(np.ones(3), (2, 50))
    natural = KullbackLeibler(float(np.e))
    assert np.array_equal(Prototypes()(g, labels), natural(g, labels))
    assert not Prototypes().is_convex_at(Prototypes().check_prediction(prototypes(2, 2, 3)))


def test_sets_against_a_dense_grid() -> None:
    score, points = Prototypes(), grid(3, 0.01)
    prediction = prototypes(8, 4, 3, seed=2)
    sets = score.region(
        prediction, np.quantile(score.evaluate_pairs(score.check_prediction(prediction), points[None]), 0.2, axis=1)
    )
    held = sets.contains(points, broadcast=True)
    lower, upper = sets.envelope()
    tops = sets.decide()
    for i in range(8):
        found = points[held[i]]
        assert (found.max(axis=0) <= upper[i] + 1e-9).all()
        assert (upper[i] <= found.max(axis=0) + 0.03).all()
        assert (lower[i] <= found.min(axis=0) + 1e-9).all()
        assert (found.min(axis=0) - 0.03 <= lower[i]).all()
        seen = (found == found.max(axis=1, keepdims=True)).any(axis=0)
        near = (found.max(axis=1, keepdims=True) - found).min(axis=0) < 0.03
        assert (seen <= tops[i]).all()
        assert (tops[i] <= near).all()


@pytest.mark.parametrize("n_components", [1, 3])
def test_what_calibration_asks_bounds_the_score(n_components: int) -> None:
    score, rng = Prototypes(), np.random.default_rng(4)
    prediction = score.check_prediction(prototypes(20, n_components, 4))
    lower = 0.5 * rng.dirichlet(np.ones(4), 20)
    inside = lower[:, None] + 0.5 * rng.dirichlet(np.ones(4), (20, 300))
    inside = np.concatenate([inside, lower[:, None] + 0.5 * np.eye(4)], axis=1)
    bound, found = score.largest_above(prediction, lower), score.evaluate_pairs(prediction, inside).max(axis=1)
    assert (found <= bound + 1e-9).all()
    if n_components == 1:
        assert found == pytest.approx(bound, rel=1e-9)
    ball = cs.scores.TotalVariation().region(rng.dirichlet(np.ones(4), 20), 0.1)
    within = score.largest_within(prediction, ball, np.full(20, 0.1))
    assert (score.evaluate_pairs(prediction, ball.sample(200, random_state=0)).max(axis=1) <= within + 1e-9).all()


@pytest.mark.parametrize("n_components", [1, 3])
def test_calibration_covers_saves_and_crosses(n_components: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    prediction = prototypes(900, n_components, 3)
    means = Prototypes().check_prediction(prediction).mean()
    counts = rng.multinomial(50, 0.7 * means + 0.3 * rng.dirichlet(np.ones(3), 900))
    calibration = cs.conformalize(prediction[:500], counts[:500], "prototypes", noise=cs.BoundedNoise(0.02, 0.02))
    sets = calibration.predict_set(prediction[500:], 0.2)
    assert sets.contains(counts[500:]).mean() > 0.75
    calibration.save(tmp_path / "saved")
    again: Any = cs.load(tmp_path / "saved")
    assert np.array_equal(again.predict_set(prediction[500:], 0.2).threshold, sets.threshold)
    folds = np.arange(500) % 3
    crossed = cs.cross_conformalize(prediction[:500], counts[:500], folds, "prototypes", exact=True)
    models = np.stack([prediction[500:520]] * 3)
    members = crossed.predict_set(models, 0.2)
    there = ~members.is_empty()
    assert there.mean() > 0.5
    lower, upper = members[there].envelope()
    assert (lower <= upper).all()
    assert np.array_equal(members.decide().any(axis=1), there)


def test_values() -> None:
    prediction = Prototypes().check_prediction(prototypes(3, 2, 4))
    assert isinstance(prediction, PrototypePrediction)
    assert np.array_equal(np.asarray(prediction), prototypes(3, 2, 4))
    assert prediction.mean().sum(axis=1) == pytest.approx(1.0)
    assert np.asarray(prediction, dtype=np.float32).dtype == np.float32
    assert (prediction.n_components, prediction.n_classes, len(prediction[:2])) == (2, 4, 2)


def _broken(entry: tuple[int, int, int], value: float) -> np.ndarray:
    array = prototypes(2, 2, 3)
    array[entry] = value
    return array


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Prototypes(Prototypes()), "base must be a score with convex regions"),
        (lambda: Prototypes(offsets="no"), "offsets must be True or False"),  # type: ignore[arg-type]
        (
            lambda: Prototypes().region(np.ones((2, 1, 3)), 1.0),
            r"must hold prototypes of shape \(N, prototypes, classes",
        ),
        (lambda: Prototypes().region(_broken((0, 0, 3), 0.0), 1.0), "finite precisions above 0"),
        (lambda: Prototypes().region(_broken((0, 0, 4), np.inf), 1.0), "NaN or infinity|finite offsets"),
        (lambda: Prototypes().region(_broken((1, 1, 0), 3.0), 1.0), "do not sum to one"),
        (lambda: Prototypes(RelativeLikelihood()).region(prototypes(1, 1, 3), 1.0), "at least 1"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_base_with_sets_that_can_be_empty() -> None:
    score = Prototypes(InnerProduct())
    prediction = np.array([[[0.4, 0.3, 0.3, 1.0, 0.0], [0.2, 0.7, 0.1, 1.0, 0.0]]])
    sets = score.region(prediction, 0.35)
    assert not sets.is_empty()[0]
    assert [part.is_empty()[0] for part in sets._parts()] == [True, False]
    assert score.region(prediction, 0.2).is_empty()[0]
