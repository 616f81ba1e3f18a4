"""Sets on disk come back to the last bit; what is not made of plain numbers is refused, forged files too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.exceptions import FileFormatError
from tests.conftest import random_predictions
from tests.saved_objects import forge


def sets_of(score: Any, n: int = 6, n_classes: int = 3) -> cs.CredalSet:
    rng = np.random.default_rng(0)
    found = cs.get_score(score)
    return found.region(random_predictions(found, n, n_classes, rng), rng.uniform(0.1, 0.6, n))


@pytest.mark.parametrize("score", sorted(cs.scores.REGISTRY))
@pytest.mark.parametrize("n_classes", [3, 4])
def test_sets_come_back_to_the_last_bit(score: str, n_classes: int, tmp_path: Path) -> None:
    sets = sets_of(score, n_classes=n_classes)
    sets.save(tmp_path / "sets")
    again: Any = cs.load(tmp_path / "sets")
    assert type(again) is type(sets)
    assert again.score == sets.score
    for name in ("threshold", "center", "radius"):
        assert getattr(again, name).tobytes() == getattr(sets, name).tobytes()
    assert repr(again) == repr(sets)
    for ours, theirs in zip(again.envelope(), sets.envelope(), strict=True):
        assert np.array_equal(ours, theirs, equal_nan=True)
    assert (again.classes, again.items) == (None, None)


def test_mixtures_infinite_thresholds_and_parameters(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(2), 4)[..., None]
    mixtures = np.concatenate([weights, rng.uniform(1.0, 9.0, (4, 2, 3))], axis=-1)
    sets = cs.get_score("density").region(mixtures, [0.5, np.inf, -1.0, -np.inf])
    sets.save(tmp_path / "mixtures")
    again: Any = cs.load(tmp_path / "mixtures")
    points = rng.dirichlet(np.ones(3), 50)
    assert np.array_equal(again.contains(points, broadcast=True), sets.contains(points, broadcast=True))
    normalised = cs.scores.Normalized(cs.scores.Wasserstein((0, 1, 5)), offset=0.25).region([[0.2, 0.3, 0.5]], 0.4)
    normalised.save(tmp_path / "normalised")
    assert cs.load(tmp_path / "normalised").score == normalised.score  # type: ignore[union-attr]


def test_names_come_back(tmp_path: Path) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).dirichlet(np.ones(3), 40), columns=["no", "maybe", "yes"])
    frame.index = pd.Index([f"item {i // 2}" for i in range(40)])
    sets = cs.conformalize(frame, frame.to_numpy(), "kl").predict_set(frame, 0.2)
    sets.save(tmp_path / "sets")
    again: Any = cs.load(tmp_path / "sets")
    assert again.classes == ("no", "maybe", "yes")
    assert again.items.tolist() == frame.index.tolist()
    assert again.to_frame().equals(sets.to_frame())
    pairs = replace(sets[:2], items=np.fromiter([("a", 1), ("b", 2)], dtype=object, count=2))
    pairs.save(tmp_path / "pairs")
    assert cs.load(tmp_path / "pairs").items.tolist() == [("a", 1), ("b", 2)]  # type: ignore[union-attr]
    with pytest.raises(TypeError, match="item names must be text"):
        replace(sets[:1], items=np.array([object()])).save(tmp_path / "odd")


def test_no_sets_at_all(tmp_path: Path) -> None:
    sets_of("tv")[:0].save(tmp_path / "none")
    assert len(cs.load(tmp_path / "none")) == 0  # type: ignore[arg-type]


def test_balls_of_folds_are_saved_and_cross_conformal_sets_are_not(tmp_path: Path) -> None:
    data = cs.datasets.make_synthetic(80, random_state=0)
    clf = cs.ConformalCredalClassifier(LogisticRegression(), "tv")
    clf.cross_conformalize(data.X, data.counts, 3, random_state=0)
    clf.predict_set(data.X[:5], 0.2).save(tmp_path / "balls")
    assert len(cs.load(tmp_path / "balls")) == 5  # type: ignore[arg-type]
    clf.cross_conformalize(data.X, data.counts, 3, random_state=0)
    with pytest.raises(TypeError, match="a cross-conformal set is not made of a score, predictions"):
        clf.predict_set(data.X[:5], 0.2).save(tmp_path / "exact")


def test_a_score_that_nobody_registered(tmp_path: Path) -> None:
    class Mine(cs.scores.TotalVariation):
        pass

    with pytest.raises(TypeError, match="Mine is not a registered score"):
        Mine().region([[0.5, 0.5]], 0.1).save(tmp_path / "mine")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m["values"].update(n_classes=4), "no valid predictions"),
        (lambda m: m["values"].update(n_classes="3"), "no valid number of classes"),
        (lambda m: m["values"].update(score={"name": "so", "params": {}}), "no valid predictions"),
        (lambda m: m["values"].update(score={"name": "os", "params": {}}), "not registered"),
        (lambda m: m["values"].update(classes=["a", "b"]), "no valid class names"),
        (lambda m: m["values"].update(classes=["a", "b", "b"]), "no valid class names"),
        (lambda m: m["values"].update(items=["a"]), "no valid item names"),
        (lambda m: m["values"].update(items=[{}] * 6), "no valid item names"),
        (lambda m: m["files"].clear(), "no valid predictions"),
    ],
)
def test_forged_files(change: Any, words: str, tmp_path: Path) -> None:
    sets_of("tv").save(tmp_path / "sets")
    forge(tmp_path / "sets", change)
    with pytest.raises(FileFormatError, match=words):
        cs.load(tmp_path / "sets")


def test_arrays_that_do_not_fit(tmp_path: Path) -> None:
    from credalset.persistence.bundle import ARRAYS, _pack_arrays

    sets = sets_of("tv")
    p, t = np.asarray(sets.prediction), sets.threshold
    for arrays, words in (
        ({"prediction": p, "threshold": t[:-1]}, "no valid thresholds"),
        ({"prediction": p, "threshold": np.full(6, np.nan)}, "no valid thresholds"),
        ({"prediction": 2 * p, "threshold": t}, "no valid predictions"),
        ({"prediction": p[:, 0], "threshold": t}, "no valid predictions"),
        ({"prediction": p.astype(np.float32), "threshold": t}, "no valid predictions"),
    ):
        sets.save(tmp_path / "sets")
        forge(tmp_path / "sets", **{ARRAYS: _pack_arrays(arrays)})
        with pytest.raises(FileFormatError, match=words):
            cs.load(tmp_path / "sets")
