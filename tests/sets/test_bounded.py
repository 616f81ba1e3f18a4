"""Thousands of classes: every question takes little memory, or is refused in a sentence that says what to ask."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import credalset as cs
from credalset import _compiled, _parallel
from credalset.evaluation import evaluate
from credalset.sets import decisions, sampling
from credalset.sets.credal_set import CredalSet
from credalset.sets.questions import ELEMENTS, Questions
from tests.conftest import SCORES
from tests.sets.makers import mixtures

LIMIT = 300e6  # bytes

QUESTIONS: dict[str, Callable[[CredalSet], Any]] = {
    "envelope": lambda sets: sets.envelope(),
    "expectation": lambda sets: sets.upper_expectation(np.arange(sets.n_classes), return_distribution=True),
    "entropy": lambda sets: sets.uncertainty(),
    "zero-one": lambda sets: sets.uncertainty(family="zero-one"),
    "labels": lambda sets: sets.decide(),
    "maximal": lambda sets: sets.decide("maximal"),
    "interval-dominance": lambda sets: sets.decide("interval-dominance"),
    "gamma-maximin": lambda sets: sets.decide("gamma-maximin"),
    "volume": lambda sets: sets.log_volume(n_rays=40),
    "table": lambda sets: sets.to_dict(),
    "members": lambda sets: sets.contains(sets.center[:1], broadcast=True),
}
REFUSED = {
    ("ws", "zero-one", 5000): "smallest peak is answered for Wasserstein balls over at most 1000 classes.*entropy",
    ("ws", "labels", 1000): "which class can come out on top is answered for .* at most 300 classes.*interval-domin",
    ("ws", "maximal", 1000): "which class can come out on top is answered for .* at most 300 classes.*interval-domin",
}
REFUSED["so", "maximal", 5000] = "comparing 5000 actions in pairs takes more than 20000 expectations.*interval-domin"
SLOW = {("ws", "entropy"), ("ws", "zero-one"), ("inner", "maximal"), ("so", "maximal")}  # many seconds, little memory


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled forms need less memory, and time to be compiled."""
    plain = _compiled.kernels
    for name, module in list(sys.modules.items()):
        if name.startswith("credalset.") and getattr(module, "kernels", None) is plain:
            monkeypatch.setattr(module, "kernels", lambda *_, **__: None)


def make(name: str, n_classes: int, n: int = 1) -> CredalSet:
    score, centers = SCORES[name], np.random.default_rng(0).dirichlet(np.ones(n_classes), n)
    prediction = centers if score.order == "first" else 1.0 + 50.0 * centers
    slack = {"ws": 0.02 * n_classes, "inner": 0.5 / n_classes}.get(name, 0.05)
    return score.region(prediction, score(prediction, score.best_fit(score.check_prediction(prediction))) + slack)


def peak_memory(question: Callable[[], Any]) -> float:
    tracemalloc.start()
    try:
        question()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def cases() -> Iterator[Any]:
    for name in ("tv", "ws", "kl", "inner", "so", "hellinger"):
        for question in QUESTIONS:
            for n_classes in (1000, 5000):
                slow = (name, question) in SLOW or (question in ("volume", "maximal") and n_classes == 5000)
                slow |= name == "ws" and n_classes == 5000 and (name, question, 5000) not in REFUSED
                yield pytest.param(name, question, n_classes, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize(("name", "question", "n_classes"), list(cases()))
def test_memory_is_bounded(name: str, question: str, n_classes: int) -> None:
    sets = make(name, n_classes)
    message = REFUSED.get((name, question, n_classes)) or REFUSED.get((name, question, 1000))
    if message is None:
        assert peak_memory(lambda: QUESTIONS[question](sets)) < LIMIT
        return
    with pytest.raises(ValueError, match=message):
        QUESTIONS[question](sets)


def test_memory_of_density_sets_is_bounded() -> None:
    sets = mixtures(1, 150, drop=20.0)
    for question in QUESTIONS.keys() - {"volume"}:
        assert peak_memory(lambda: QUESTIONS[question](sets)) < LIMIT / 3  # noqa: B023
    score, few = sets.score, sets.prediction
    prediction = type(few)(few.weights, np.tile(few.concentrations, 10))
    assert peak_memory(lambda: score.largest_above(prediction, np.zeros((1, 1500)))) < LIMIT


def test_volumes_and_samples_of_density_sets_over_many_classes_are_refused() -> None:
    sets = mixtures(1, 150, drop=20.0)
    for question in (sets.volume, lambda: sets.sample(3)):
        with pytest.raises(ValueError, match=r"at most 100 classes, and there are 150.*Ask for envelopes"):
            question()


@pytest.mark.parametrize("n_classes", [3, 100, 1000, 5000])
def test_rays_by_default(n_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def estimate(self: Questions, generator: np.random.Generator, n_rays: int) -> tuple[np.ndarray, np.ndarray]:
        asked.append(n_rays)
        return np.zeros(len(self)), np.full(len(self), 0.1)

    sets = make("hellinger", n_classes)
    monkeypatch.setattr(type(sets), "_estimate_log_volume", estimate)
    error = sets.log_volume(return_error=True).standard_error
    assert sum(asked) * n_classes <= max(ELEMENTS, 256 * n_classes)
    assert max(asked) * n_classes <= ELEMENTS
    assert sum(asked) >= min(1024, ELEMENTS // n_classes)
    assert error == pytest.approx(0.1 * np.sqrt(np.square(asked).sum()) / sum(asked))


def test_rays_drawn_in_parts_estimate_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are averaged with their sizes as weights, and their errors are those of the average."""
    sets = SCORES["so"].region(1.0 + 30.0 * np.random.default_rng(0).dirichlet(np.ones(6), 4), 0.9)
    known = sets.log_volume()
    monkeypatch.setattr("credalset.sets.questions.ELEMENTS", 2 * 6 * 250)
    value, error = sets._pooled_log_volume(np.random.default_rng(0), 2100)
    whole = sets._estimate_log_volume(np.random.default_rng(0), 2100)[1]
    assert (np.abs(value - known) < 4 * error).all()
    assert error == pytest.approx(whole, rel=0.3)


def test_volume_of_a_total_variation_ball_with_many_rays() -> None:
    sets = make("tv", 2000)
    assert peak_memory(lambda: sets.log_volume(n_rays=6000)) < LIMIT


def test_many_actions_in_pairs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sets, utility = make("tv", 5), np.random.default_rng(0).normal(size=(200, 5))
    for rule in ("maximal", "e-admissible"):
        with pytest.raises(ValueError, match=r"comparing 200 actions in pairs .*Use rule='interval-dominance'"):
            sets.decide(rule, utility)
    assert sets.decide("interval-dominance", utility).any()
    monkeypatch.setattr(decisions, "MAX_EXPECTATIONS", 1)
    flat = SCORES["so"].region(np.full((1, 40), 1.5) + np.linspace(0, 0.3, 40), 0.01)
    with pytest.raises(ValueError, match="comparing 40 actions in pairs"):
        flat.decide("maximal")


def test_long_chains_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "ENOUGH", 1e9)
    monkeypatch.setattr(sampling, "WIDE", 2.0)
    monkeypatch.setattr(sampling, "MAX_CHAIN_ELEMENTS", 2 * 20 * 20 * 20)
    sets = make("kl", 20)
    sets.sample(20, random_state=0)
    with pytest.raises(ValueError, match=r"drawing n=21 members .* 20 classes takes 40 steps .*Ask for fewer"):
        sets.sample(21, random_state=0)


def test_blocks_of_tables_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wasserstein balls tabulate all groups of classes of each row: 256 rows of 300 classes took half a gigabyte."""
    blocks = []

    def note_block(_: object, n_rows: int, row_size: int, block_size: int) -> tuple[int, int, int]:
        blocks.append(block_size // row_size)
        return 0, 0, 0

    monkeypatch.setattr(_parallel, "gather_blocks", note_block)
    for n_classes in (5, 60, 300):
        SCORES["ws"].region(np.full((10_000, n_classes), 1 / n_classes), 1e-3)._min_entropy(False)
        assert max(blocks[-1], 1) * n_classes**2 <= 1 << 17
    assert blocks[0] > 1000


def test_evaluate_leaves_volumes_out_that_take_long() -> None:
    rng = np.random.default_rng(0)
    for n_classes, volume, expected in ((4, None, True), (1000, None, False), (4, False, False), (21, True, True)):
        prediction = rng.dirichlet(np.ones(n_classes), 40)
        calibration = cs.conformalize(prediction[:20], rng.dirichlet(np.ones(n_classes), 20), "kl")
        labels = rng.dirichlet(np.ones(n_classes), 20)
        rows = evaluate(calibration, prediction[20:], labels, 0.2, volume=volume)
        assert (rows[0]["volume"] is not None) == expected
        assert "-" in str(rows)
