"""The compiled one-pass scores give the same bits as the readable ones, and hand odd input over to them."""

from __future__ import annotations

import numpy as np
import pytest

import credalset as cs
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
    assert score._kernel(prediction.size) is not None, "a batch of this size must take the compiled way"
    expected = score.evaluate_rows(prediction, labels)
    assert np.array_equal(score(prediction, labels), expected)
    strided = np.asfortranarray(prediction), np.repeat(labels, 2, axis=1)[:, ::2]
    assert np.array_equal(score(*strided), expected), "the layout in memory does not matter"


def test_divergence_is_infinite_on_classes_the_prediction_rules_out() -> None:
    prediction, labels = large()
    prediction[5] = labels[5] = np.eye(10)[0]
    prediction[6], labels[6] = np.eye(10)[0], np.eye(10)[1]
    scores = KullbackLeibler()(prediction, labels)
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
    assert score._kernel(1000) is None
    single = prediction.astype(np.float32)
    assert score(single, labels) == pytest.approx(score(prediction, labels), abs=1e-6)
    with pytest.raises(ValueError, match="shape"):
        score(prediction, labels[:-1])


@pytest.mark.parametrize("parent", [TotalVariation, InnerProduct, Wasserstein, KullbackLeibler])
def test_a_formula_of_ones_own_is_never_scored_by_the_kernel_of_its_parent(parent: type[Score]) -> None:
    """Otherwise large batches are calibrated on another score than they are predicted with."""

    class Squared(parent):  # type: ignore[misc, valid-type]
        def formula(self, prediction: np.ndarray, distribution: np.ndarray) -> np.ndarray:
            return super().formula(prediction, distribution) ** 2

    class Renamed(parent):  # type: ignore[misc, valid-type]
        name = "np"

    prediction, labels = large()
    own, inherited = Squared(), Renamed()
    assert np.array_equal(own(prediction, labels), own.evaluate_rows(prediction, labels))
    assert np.array_equal(own(prediction, labels), parent()(prediction, labels) ** 2)
    assert np.array_equal(inherited(prediction, labels), parent()(prediction, labels))


def test_coverage_does_not_depend_on_the_size_of_the_batch() -> None:
    class Squared(TotalVariation):
        name = "squared"

        def formula(self, prediction: np.ndarray, distribution: np.ndarray) -> np.ndarray:
            return super().formula(prediction, distribution) ** 2

        def _region(self, prediction: np.ndarray, threshold: np.ndarray) -> cs.CredalSet:
            return super()._region(prediction, np.sqrt(threshold)).rescored(self, threshold)

    rng = np.random.default_rng(1)
    prediction = rng.dirichlet(np.ones(10), 120_000)
    labels = rng.multinomial(20, prediction) / 20
    for n in (5_000, 118_000):
        sets = cs.conformalize(prediction[:n], labels[:n], Squared()).predict_set(prediction[-2_000:], 0.1)
        assert 0.87 <= sets.contains(labels[-2_000:]).mean() <= 0.93
