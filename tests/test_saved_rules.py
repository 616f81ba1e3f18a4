"""Noise models, groups and weights: through the classifier, and through save and load."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.calibration.noise import Noise
from credalset.exceptions import FileFormatError
from credalset.persistence.bundle import ARRAYS, MANIFEST, _pack_arrays

from .conftest import SCORES, random_predictions
from .saved_objects import forge

NOISES: list[Noise] = [
    cs.BoundedNoise(0.1, 0.02, rule="paper"),
    cs.AnnotatorSampling(),
    cs.AnnotatorSampling(0.01, "kl"),
    cs.UnbiasedVotes(),
    cs.UnbiasedVotes(s=0.1),
]
TWINS = ("kl-nats", "normalized-ws", "normalized-inner", "normalized-brier")  # others go the same ways
DATA = cs.datasets.make_synthetic(300, n_votes=10, random_state=0)


@pytest.mark.parametrize("noise", [None, *NOISES], ids=repr)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in TWINS else name for name in SCORES]
)
def test_calibrations_come_back(name: str, noise: Any, tmp_path: Path) -> None:
    score = SCORES[name]
    if isinstance(noise, cs.UnbiasedVotes) and not score.is_convex:
        return
    rng = np.random.default_rng(0)
    prediction, counts = random_predictions(score, 120, 3, rng), rng.multinomial(9, [0.3, 0.3, 0.4], 120)
    keys = [("site", 1), ("site", 2), "x"] * 40
    weights = rng.random(120)
    options: dict[str, Any] = {"groups": keys, "weights": weights}
    for chosen in ({}, {"groups": keys}, {"weights": weights}, options):
        saved = cs.conformalize(prediction, counts, score, noise=noise, **chosen)
        saved.save(tmp_path / "c")
        loaded: Any = cs.load(tmp_path / "c")
        assert repr(loaded) == repr(saved)
        expected = saved.thresholds(prediction, 0.2, **chosen)
        assert loaded.thresholds(prediction, 0.2, **chosen).tobytes() == expected.tobytes()


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("labels", ["counts", "annotations"])
def test_classifiers_take_noise_and_come_back(noise: Noise, labels: str, tmp_path: Path) -> None:
    Y: Any = DATA.counts if labels == "counts" else cs.Annotations.from_counts(DATA.counts)
    clf = cs.ConformalCredalClassifier(LogisticRegression(), "kl", noise=noise).fit(DATA.X[:100], Y[:100])
    clf.conformalize(DATA.X[100:], Y[100:], groups="predicted")
    direct = cs.conformalize(clf.predict_proba(DATA.X[100:]), DATA.counts[100:], "kl", noise=noise, groups="predicted")
    expected = direct.thresholds(clf.predict_proba(DATA.X), 0.2)
    assert np.array_equal(clf.predict_set(DATA.X, 0.2).threshold, expected)
    clf.save(tmp_path / "c")
    loaded: Any = cs.load(tmp_path / "c")
    assert loaded.noise == noise
    assert loaded.predict_set(DATA.X, 0.2).threshold.tobytes() == expected.tobytes()


def test_classifier_with_weights_and_keys() -> None:
    clf = cs.ConformalCredalClassifier(LogisticRegression()).fit(DATA.X[:100], DATA.counts[:100])
    keys, weights = np.arange(200) % 2, np.linspace(0.5, 1.5, 200)
    clf.conformalize(DATA.X[100:], DATA.counts[100:], groups=keys, weights=weights)
    sets = clf.predict_set(DATA.X[100:], 0.1, groups=keys, weights=weights)
    assert len(np.unique(sets.threshold)) > 1
    rows = clf.evaluate(DATA.X[100:], DATA.counts[100:], alpha=0.2, groups=keys, weights=weights)
    assert rows[0]["coverage"] > 0.7


def test_groups_and_weights_are_split_with_the_items() -> None:
    clf = cs.ConformalCredalClassifier(LogisticRegression())
    keys, weights = np.arange(300) % 2, np.arange(300.0)
    clf.fit_conformalize(DATA.X, DATA.counts, random_state=0, groups=keys, weights=weights)
    rule = clf.calibration_.rule
    assert rule.groups is not None
    assert rule.weights is not None
    assert len(rule.weights) == 75
    assert [rule.groups.keys[code] for code in rule.groups.codes] == (rule.weights % 2).tolist()
    clf.fit_conformalize(DATA.X, DATA.counts, random_state=0, groups="predicted")
    assert len(clf.predict_set(DATA.X, 0.2)) == 300


def test_a_column_of_labels_is_one_vote_each() -> None:
    column = np.array(["a", "b", "c"])[DATA.counts.argmax(axis=1)][:, None]
    clf = cs.ConformalCredalClassifier(LogisticRegression(), noise=cs.AnnotatorSampling())
    with pytest.warns(UserWarning, match="column-vector"):
        clf.fit_conformalize(DATA.X, column, random_state=0)
    assert len(clf.calibration_) == 75


@pytest.mark.parametrize("labels", ["counts", "names"])
def test_votes_reach_the_noise_model_from_every_kind_of_label(labels: str) -> None:
    Y: Any = DATA.counts if labels == "counts" else np.array(["a", "b", "c"])[DATA.counts.argmax(axis=1)]
    clf = cs.ConformalCredalClassifier(LogisticRegression(), noise=cs.AnnotatorSampling())
    clf.fit_conformalize(DATA.X, Y, random_state=0)
    assert len(clf.predict_set(DATA.X[:5], 0.2)) == 5
    with pytest.raises(ValueError, match="needs annotation counts"):
        clf.conformalize(DATA.X, DATA.distributions)


# --- files that do not fit ---


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    calibration = cs.conformalize(
        DATA.distributions,
        DATA.counts,
        noise=cs.UnbiasedVotes(),
        groups=["a", "b", "c"] * 100,
        weights=np.ones(300),
    )
    calibration.save(tmp_path / "c")
    return tmp_path / "c"


def rule_of(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["values"]["rule"]  # type: ignore[no-any-return]


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no rule": (lambda m: m["values"].pop("rule"), "how thresholds are found"),
    "rule is a list": (lambda m: m["values"].update(rule=[]), "how thresholds are found"),
    "unknown noise": (lambda m: rule_of(m)["noise"].update(name="hope"), "noise model 'hope', which is not registered"),
    "noise is text": (lambda m: rule_of(m).update(noise="hope"), "description of its noise"),
    "odd parameter": (lambda m: rule_of(m)["noise"]["params"].update(tuning=7.0), "unusable parameters"),
    "parameter as text": (lambda m: rule_of(m)["noise"]["params"].update(s="0.1"), "unusable parameters"),
    "missing parameter": (lambda m: rule_of(m)["noise"]["params"].pop("s"), "does not write"),
    "unfit score": (lambda m: m["values"].update(score={"name": "so", "params": {}}), "contradicts itself"),
    "no groups": (lambda m: rule_of(m).update(groups=None), "do not belong to it: rule_groups"),
    "too few keys": (lambda m: rule_of(m)["groups"]["keys"].pop(), "do not match"),
    "a key twice": (lambda m: rule_of(m)["groups"].update(keys=["a", "a", "b"]), "twice"),
    "odd key": (lambda m: rule_of(m)["groups"].update(keys=["a", {}, "b"]), "group names"),
    "more bounds wanted": (
        lambda m: rule_of(m).update(
            noise={"name": "annotator-sampling", "params": {"delta": None, "region": "exact", "tuning": 0.2}}
        ),
        "calibration bounds",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_forged_rules_are_refused(name: str, saved: Path) -> None:
    change, message = BROKEN[name]
    forge(saved, change)
    with pytest.raises(FileFormatError, match=message):
        cs.load(saved)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("rule_bounds", np.zeros((11, 300)), "do not belong to it: rule_bounds"),
        ("scores", np.full(300, np.nan), "calibration scores"),
        ("scores", np.zeros((300, 1)), "calibration scores"),
        ("rule_weights", np.full(300, -1.0), "finite and not negative"),
        ("rule_groups", np.full(300, 9), "do not match"),
        ("rule_groups", np.zeros(7, dtype=np.int64), "groups of its items"),
    ],
)
def test_forged_arrays_are_refused(name: str, array: np.ndarray, message: str, saved: Path) -> None:
    arrays = dict(np.load(saved / ARRAYS)) | {name: array}
    forge(saved, **{ARRAYS: _pack_arrays(arrays)})
    with pytest.raises(FileFormatError, match=message):
        cs.load(saved)


@pytest.mark.parametrize("array", [None, np.zeros((1, 300)), np.zeros((11, 7)), np.full((11, 300), np.nan)], ids=str)
def test_forged_bounds_are_refused(array: Any, tmp_path: Path) -> None:
    calibration = cs.conformalize(DATA.distributions, DATA.counts, noise=cs.AnnotatorSampling())
    calibration.save(tmp_path / "c")
    arrays = dict(np.load(tmp_path / "c" / ARRAYS)) | {"rule_bounds": array}
    forge(tmp_path / "c", **{ARRAYS: _pack_arrays({key: value for key, value in arrays.items() if value is not None})})
    with pytest.raises(FileFormatError, match="calibration bounds"):
        cs.load(tmp_path / "c")


def test_a_plain_calibration_is_a_rule_like_any_other(tmp_path: Path) -> None:
    cs.conformalize(DATA.distributions, DATA.counts).save(tmp_path / "c")
    manifest = json.loads((tmp_path / "c" / MANIFEST).read_text())
    assert manifest["values"]["rule"] == {"noise": {"name": "none", "params": {}}, "groups": None}
    assert list(np.load(tmp_path / "c" / ARRAYS)) == ["scores", "seen"]
    rule = cs.load(tmp_path / "c").rule  # type: ignore[union-attr]
    assert rule.is_plain
    assert rule.describe() == ""


def test_keys_that_cannot_be_saved(tmp_path: Path) -> None:
    calibration = cs.conformalize(DATA.distributions, DATA.counts, groups=[frozenset({i % 2}) for i in range(300)])
    with pytest.raises(TypeError, match="group keys must be text, finite numbers or tuples"):
        calibration.save(tmp_path / "c")


def test_foreign_noise_cannot_be_saved(tmp_path: Path) -> None:
    class Own(cs.BoundedNoise):
        """Somebody's own model."""

    calibration = cs.conformalize(DATA.distributions, DATA.counts, noise=Own(0.1, 0.01))
    with pytest.raises(TypeError, match="Own is not one of credalset's noise models"):
        calibration.save(tmp_path / "c")
