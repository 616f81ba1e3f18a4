"""The compiled one-pass scores give the same bits as the readable ones, and hand odd input over to them."""

from __future__ import annotations

import numpy as np
import pytest

from credalset.scores import InnerProduct, KullbackLeibler, Score, TotalVariation, Wasserstein

pytest.importorskip("numba", reason="compiled kernels need the extra 'fast'")

N_ROWS = 110_000


def large(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(10), N_ROWS), rng.multinomial(5, np.full(10, 0.1), N_ROWS) / 5


SCORES = [
    TotalVariation(),
    InnerProduct(),
    Wasserstein(),
    Wasserstein(tuple(np.arange(10) ** 2)),
    KullbackLeibler(),
    KullbackLeibler(base=10),
]


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_same_bits(score: Score) -> None:
    prediction, labels = large()
    fused = score._fused_scores(prediction, labels)
    assert fused is not None, "a batch of this size must take the compiled way"
    assert np.array_equal(fused, score.evaluate_rows(prediction, labels))
    assert np.array_equal(score(prediction, labels), fused)


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_memory_layout_does_not_matter(score: Score) -> None:
    prediction, labels = large()
    strided = np.asfortranarray(prediction), np.repeat(labels, 2, axis=1)[:, ::2]
    fused = score._fused_scores(*strided)
    assert fused is not None
    assert np.array_equal(fused, score.evaluate_rows(prediction, labels))


def test_divergence_is_infinite_on_classes_the_prediction_rules_out() -> None:
    prediction, labels = large()
    prediction[5] = labels[5] = np.eye(10)[0]
    prediction[6], labels[6] = np.eye(10)[0], np.eye(10)[1]
    scores = KullbackLeibler()._fused_scores(prediction, labels)
    assert scores is not None
    assert (scores[5], scores[6]) == (0.0, np.inf)


@pytest.mark.parametrize("score", [TotalVariation(), KullbackLeibler()], ids=repr)
@pytest.mark.parametrize("bad", [-0.1, np.nan, np.inf, 0.9])
def test_bad_rows_still_raise(bad: float, score: Score) -> None:
    prediction, labels = large()
    labels[77_777, 3] += bad
    with pytest.raises(ValueError, match="distribution"):
        score(prediction, labels)


def test_nearly_normalised_rows_are_normalised() -> None:
    prediction, labels = large()
    scaled = labels * (1 + 1e-7)
    assert TotalVariation()(prediction, scaled) == pytest.approx(TotalVariation()(prediction, labels), abs=1e-12)


def test_small_or_odd_arrays_take_the_ordinary_way() -> None:
    prediction, labels = large()
    score = TotalVariation()
    assert score._fused_scores(prediction[:100], labels[:100]) is None
    assert score._fused_scores(prediction.astype(np.float32), labels) is None
    assert score._fused_scores(prediction, labels[:-1]) is None
