"""Calibrations come back as they were, with every noise model and option;
contradictions are refused.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import credalset as cs
from credalset.calibration.noise import NoNoise, Quantile
from tests.conftest import SCORES, random_predictions

N = 40
NOISES = [
    None,
    cs.BoundedNoise(0.05, 0.02),
    cs.AnnotatorSampling(),
    cs.AnnotatorSampling(0.02),
    cs.UnbiasedVotes(),
]
KEYS, WEIGHTS = np.array(["a", "b"] * (N // 2)), np.linspace(0.5, 2.0, N)
OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "predicted": ({"groups": "predicted"}, {}),
    "groups and weights": (
        {"groups": KEYS, "weights": WEIGHTS},
        {"groups": KEYS[:5], "weights": WEIGHTS[:5]},
    ),
    "features": (
        {"groups": cs.Conditional(WEIGHTS[:, None], names=["size"])},
        {"groups": WEIGHTS[:5, None]},
    ),
}


def data(score: Any = "tv", seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return random_predictions(cs.get_score(score), N, 3, rng), rng.multinomial(
        30, np.full(3, 1 / 3), N
    )


def assert_same(made: Any, folder: Path, *new: Any, **asked: Any) -> Any:
    made.save(folder / "c")
    loaded = cs.load(folder / "c")
    assert repr(loaded) == repr(made)
    assert loaded.guarantee == made.guarantee
    assert (loaded.classes, loaded.items) == (made.classes, made.items)
    assert (
        loaded.thresholds(*new, 0.3, **asked).tobytes()
        == made.thresholds(*new, 0.3, **asked).tobytes()
    )
    return loaded


@pytest.mark.filterwarnings("ignore::credalset.CredalSetWarning")
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_split_calibrations_come_back(noise: Any, option: str, tmp_path: Path) -> None:
    prediction, counts = data()
    chosen, asked = OPTIONS[option]
    if isinstance(noise, cs.UnbiasedVotes) and option == "features":
        return
    made = cs.conformalize(prediction, counts, "tv", noise=noise, classes=["x", "y", "z"], **chosen)
    assert_same(made, tmp_path, prediction[:5], **asked)


@pytest.mark.filterwarnings("ignore::credalset.CredalSetWarning")
@pytest.mark.parametrize("name", SCORES)
def test_every_score_comes_back(name: str, tmp_path: Path) -> None:
    score = SCORES[name]
    prediction, counts = data(score)
    loaded = assert_same(cs.conformalize(prediction, counts, score), tmp_path, prediction[:5])
    assert loaded.score == score


@pytest.mark.filterwarnings("ignore::credalset.CredalSetWarning")
def test_other_calibrations_come_back(tmp_path: Path) -> None:
    prediction, counts = data("brier")
    assert_same(
        cs.conformalize(prediction, counts, "brier", noise=cs.FewVotes(0.1)),
        tmp_path,
        prediction[:5],
    )
    chosen, asked = OPTIONS["groups and weights"]
    cross = cs.cross_conformalize(
        prediction, counts, np.arange(N) % 2, noise=cs.AnnotatorSampling(0.1), **chosen
    )
    loaded = assert_same(cross, tmp_path, [prediction[:5]] * 2, **asked)
    assert loaded.guaranteed_coverage(0.2) == cross.guaranteed_coverage(0.2)
    for target in ("annotator", "majority", 0.8):
        labels = cs.labels.conformalize(prediction, counts, target=target, **chosen)
        assert assert_same(labels, tmp_path, prediction[:5], **asked).target == target


def test_contradictions_are_refused() -> None:
    made = cs.conformalize(*data(), "tv", classes=["x", "y", "z"], groups=KEYS)
    fitted = made.fitted
    for change in (
        {"scores": made.scores[1:]},
        {"scores": np.full(N, np.nan)},
        {"classes": ("x", "y")},
        {"items": ("one",)},
        {"fitted": replace(fitted, codes=fitted.codes[1:])},
    ):
        with pytest.raises(ValueError, match=next(iter(change))):
            replace(made, **change)
    for change in (
        {"groups": ("a",)},
        {"groups": ("a", "a")},
        {"fits": fitted.fits[:1]},
        {"codes": fitted.codes + 1},
        {"features": ("size",)},
    ):
        with pytest.raises(ValueError, match=r"agree|features"):
            replace(fitted, **change)
    for change in (
        {"scores": np.full(3, np.nan)},
        {"weights": np.full(3, -1.0)},
        {"features": np.ones((2, 1))},
    ):
        with pytest.raises(ValueError, match=next(iter(change))):
            Quantile(**({"scores": np.ones(3), "noise": NoNoise()} | change))
    cross = cs.cross_conformalize(*data(), np.arange(N) % 2, "tv")
    with pytest.raises(ValueError, match="folds"):
        replace(cross, folds=np.zeros(N, dtype=np.int64))
    with pytest.raises(ValueError, match="fitted"):
        replace(cross, fitted=cs.conformalize(*data(), "tv", groups="predicted").fitted)
    few = cs.conformalize(*data("brier"), "brier", noise=cs.FewVotes()).fitted.fits[0]
    with pytest.raises(ValueError, match="mean"):
        replace(few, mean=-1.0)  # type: ignore[type-var]
