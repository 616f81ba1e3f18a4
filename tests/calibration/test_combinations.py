"""Every noise model with groups, weights and features: what is supported covers each group,
the rest is refused.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import credalset as cs

ALPHA, N_TEST = 0.2, 300


def items(
    n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One item in five is hard: its prediction is far off,
    and it has fewer votes than the others.
    """
    hard = rng.random(n) < 0.2
    truth = rng.dirichlet(np.ones(2), n)
    share = np.where(hard, 0.8, 0.1)[:, None]
    g = (1 - share) * truth + share * rng.dirichlet(np.ones(2), n)
    return g, truth, rng.multinomial(np.where(hard, 300, 1000), truth), hard


def noise_models(score: str, g: np.ndarray, counts: np.ndarray) -> dict[str, Any]:
    models: dict[str, Any] = {
        "assumed": cs.BoundedNoise(0.1, 0.05),  # true of nearly every item, easy or hard
        "sampling": cs.AnnotatorSampling(),
        "sampling-fixed": cs.AnnotatorSampling(0.3),
        "anytime": cs.AnnotatorSampling(0.3, "anytime"),
        "unbiased": cs.UnbiasedVotes(),
        "votes": cs.epsilon_from_counts(counts, 0.1, "tv"),
        "predictions": cs.epsilon_from_counts(counts, 0.1, score, predictions=g),
    }
    return models | ({"few": cs.FewVotes(0.05)} if score == "brier" else {})


REFUSED = {
    ("votes", "groups"),
    ("votes", "features"),
    ("votes", "weights"),
    ("predictions", "groups"),
    ("predictions", "features"),
    ("predictions", "weights"),
    ("unbiased", "features"),
    ("few", "features"),
    ("few", "weights"),
}


def options(kind: str, hard: np.ndarray, as_new: bool) -> dict[str, Any]:
    if kind == "groups":
        return {"groups": hard.astype(int)}
    if kind == "features":
        return {"groups": hard[:, None] if as_new else cs.Conditional(hard[:, None])}
    return {
        "weights": np.where(hard, 4.0, 0.25)
    }  # as many hard items as easy ones where we predict


def coverage(score: str, model: str, kind: str, n: int, repetitions: int) -> np.ndarray:
    """Coverage of the truth among hard and easy items; under weights, in the shifted population."""
    rng, covered = np.random.default_rng(0), []
    for _ in range(repetitions):
        g, truth, counts, hard = items(n + N_TEST, rng)
        noise = noise_models(score, g[:n], counts[:n])[model]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cs.CredalSetWarning)
            made = cs.conformalize(
                g[:n], counts[:n], score, noise=noise, **options(kind, hard[:n], False)
            )
            inside = made.predict_set(g[n:], ALPHA, **options(kind, hard[n:], True)).contains(
                truth[n:]
            )
        parts = inside[hard[n:]].mean(), inside[~hard[n:]].mean()
        covered.append([0.5 * sum(parts)] * 2 if kind == "weights" else parts)
    return np.mean(covered, axis=0)


CASES = [
    (score, model, kind)
    for score in ("tv", "brier")
    for model in noise_models(score, np.full((40, 2), 0.5), np.full((40, 2), 3))
    for kind in ("groups", "weights", "features")
]


@pytest.mark.parametrize(("score", "model", "kind"), CASES)
def test_each_group_is_covered_or_the_combination_is_refused(
    score: str, model: str, kind: str
) -> None:
    n, repetitions = 250, 8
    if (model, kind) in REFUSED:
        g, _, counts, hard = items(n, np.random.default_rng(0))
        with pytest.raises(ValueError, match=f"not supported with {kind}"):
            cs.conformalize(
                g,
                counts,
                score,
                noise=noise_models(score, g, counts)[model],
                **options(kind, hard, False),
            )
        return
    found = coverage(score, model, kind, n, repetitions)
    spread = math.sqrt(
        ALPHA * (1 - ALPHA) / repetitions * (1 / 60 + 1 / 50)
    )  # of the smaller group
    assert (found >= 1 - ALPHA - 3 * spread).all()


def test_one_threshold_for_all_fails_hard_items() -> None:
    """What the tests here would see if groups, features or weights were ignored."""
    rng, covered = np.random.default_rng(0), []
    for _ in range(8):
        g, truth, counts, hard = items(500, rng)
        for noise in (cs.AnnotatorSampling(0.3), cs.BoundedNoise(0.1, 0.05)):
            sets = cs.conformalize(g[:250], counts[:250], "tv", noise=noise).predict_set(
                g[250:], ALPHA
            )
            covered.append(sets.contains(truth[250:])[hard[250:]].mean())
    assert np.mean(covered) < 0.6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("score", "model", "kind"), [case for case in CASES if case[1:] not in REFUSED]
)
def test_each_group_is_covered_over_many_repetitions(score: str, model: str, kind: str) -> None:
    found = coverage(score, model, kind, 500, 150)
    spread = math.sqrt(ALPHA * (1 - ALPHA) / 150 * (1 / 60 + 1 / 100))
    assert (found >= 1 - ALPHA - 3 * spread).all()


def test_an_epsilon_for_the_average_item_fails_a_group_of_single_votes() -> None:
    """Why it is refused: one item in twenty has a single vote,
    which hides how far its truth is from the prediction.
    """
    rng = np.random.default_rng(0)
    hard = rng.random(4000) < 0.05
    truth = np.where(hard[:, None], [0.97, 0.03], rng.dirichlet(np.ones(2), 4000))
    g = np.where(hard[:, None], [1.0, 0.0], truth)
    counts = rng.multinomial(np.where(hard, 1, 20_000), truth)
    for options in ({}, {"predictions": g[:2000]}):
        average = cs.epsilon_from_counts(counts[:2000], 0.15, "tv", **options)
        with pytest.raises(ValueError, match="not supported with groups"):
            cs.conformalize(g[:2000], counts[:2000], "tv", noise=average, groups=hard[:2000])
        made = cs.conformalize(g[:2000], counts[:2000], "tv", noise=average)
        assert made.predict_set(g[2000:], ALPHA).contains(truth[2000:]).mean() >= 1 - ALPHA, (
            "it holds on average"
        )
        believed = cs.BoundedNoise(average.epsilon, average.delta)
        made = cs.conformalize(g[:2000], counts[:2000], "tv", noise=believed, groups=hard[:2000])
        inside = made.predict_set(g[2000:], ALPHA, groups=hard[2000:]).contains(truth[2000:])
        assert inside[hard[2000:]].mean() == 0.0
