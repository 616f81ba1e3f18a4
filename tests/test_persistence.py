from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import credalset as cs
from credalset.exceptions import FileFormatError, MissingExtraError
from credalset.persistence import bundle as _bundle
from credalset.persistence.bundle import ARRAYS, MANIFEST
from credalset.scores import REGISTRY, KullbackLeibler, Normalized, TotalVariation, Wasserstein

from .conftest import SCORES
from .saved_objects import DATA, assert_same, calibrate, classify, save_calibration, save_classifier

TREE = "sklearn.tree._tree.Tree"
NESTED = {
    "ws-positions": Wasserstein(positions=(0.0, 0.1, 7.5)),
    "normalized-ws-positions": Normalized(Wasserstein(positions=(-1, 1 / 3, 2)), offset=1e-300),
    "normalized-kl-nats": Normalized(KullbackLeibler(base=np.e), offset=0.1),
}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_calibration(tmp_path / "saved")


@pytest.fixture
def saved_classifier(tmp_path: Path) -> Path:
    return save_classifier(tmp_path / "classifier")


# --- round trips ---


def test_every_registered_score_is_tried() -> None:
    assert {score.name for score in SCORES.values()} == set(REGISTRY)


@pytest.mark.parametrize("name", [*SCORES, *NESTED])
def test_calibration_round_trip(name: str, tmp_path: Path) -> None:
    calibration = calibrate({**SCORES, **NESTED}[name])
    calibration.save(tmp_path / "c")
    assert_same(cs.load(tmp_path / "c"), calibration)


@pytest.mark.parametrize(
    "classes",
    [["b", "a", "c"], [3, 1, 2], [0.5, 1.5, -2.0], [True, False, 2], ["", "naïve\n", "猫 🐈"], ["a", 1, 2.5]],
    ids=repr,
)
def test_class_names_keep_value_type_and_order(classes: list[Any], tmp_path: Path) -> None:
    calibration = calibrate(classes=classes)
    calibration.save(str(tmp_path / "c"))
    assert_same(cs.load(str(tmp_path / "c")), calibration)


def test_numpy_names_come_back_plain(tmp_path: Path) -> None:
    calibrate(classes=np.array([10, 20, 30])).save(tmp_path / "c")  # type: ignore[arg-type]
    loaded = cs.load(tmp_path / "c")
    assert loaded.classes == (10, 20, 30)  # type: ignore[union-attr]
    assert type(loaded.classes[0]) is int  # type: ignore[union-attr, index]


def test_extreme_scores_keep_their_bits(tmp_path: Path) -> None:
    scores = np.array([-1e300, -0.0, 5e-324, 0.1 + 0.2, np.nextafter(1, 2), 1.7e308, np.inf, np.inf])
    calibration = cs.Calibration(cs.get_score("density"), scores, n_classes=4, mixtures=False)
    calibration.save(tmp_path / "c")
    assert_same(cs.load(tmp_path / "c"), calibration)


def test_scores_of_another_dtype_are_saved_as_float64(tmp_path: Path) -> None:
    scores = np.array([0.1, 0.2], dtype=np.float32)
    cs.Calibration(TotalVariation(), scores, n_classes=2).save(tmp_path / "c")  # type: ignore[arg-type]
    assert cs.load(tmp_path / "c").scores.tolist() == scores.tolist()  # type: ignore[union-attr]


ESTIMATORS = {
    "soft-label": cs.SoftLabelClassifier(LogisticRegression(C=0.3)),
    "plain": LogisticRegression(),
    "pipeline": make_pipeline(StandardScaler(), cs.SoftLabelClassifier()),
    "inner-pipeline": cs.SoftLabelClassifier(make_pipeline(StandardScaler(), LogisticRegression())),
    "forest": RandomForestClassifier(5, random_state=0),
}


@pytest.mark.parametrize("calibrated", [True, False], ids=["calibrated", "fitted"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_classifier_round_trip(name: str, calibrated: bool, tmp_path: Path) -> None:
    classifier = classify(ESTIMATORS[name], Normalized("kl", 0.1), calibrated)
    classifier.save(tmp_path / "c")
    loaded: Any = cs.load(tmp_path / "c", trusted=[TREE])
    assert loaded.nonconformity == classifier.nonconformity
    assert loaded.classes_.dtype == classifier.classes_.dtype
    assert loaded.n_features_in_ == classifier.n_features_in_
    assert loaded.predict_proba(DATA.X).tobytes() == classifier.predict_proba(DATA.X).tobytes()
    assert np.array_equal(loaded.predict(DATA.X), classifier.predict(DATA.X))
    if calibrated:
        assert_same(loaded.calibration_, classifier.calibration_)
    else:
        with pytest.raises(NotFittedError, match="not calibrated"):
            loaded.predict_set(DATA.X)
        loaded.conformalize(DATA.X[45:], DATA.counts[45:])


@pytest.mark.parametrize("labels", [["no", "yes"], [7, 3], np.array([1, 2], dtype=np.int8), np.array(["x", "yy"], "O")])
def test_classes_keep_their_dtype(labels: Any, tmp_path: Path) -> None:
    classifier = cs.ConformalCredalClassifier(LogisticRegression()).fit(DATA.X[:40], np.tile(labels, 20))
    classifier.save(tmp_path / "c")
    loaded: Any = cs.load(tmp_path / "c")
    assert loaded.classes_.dtype == classifier.classes_.dtype
    assert loaded.predict(DATA.X).tolist() == classifier.predict(DATA.X).tolist()


def test_feature_names_are_still_checked(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(DATA.X, columns=[f"größe {i}" for i in range(DATA.X.shape[1])])
    cs.ConformalCredalClassifier(LogisticRegression()).fit(frame, DATA.counts).save(tmp_path / "c")
    loaded: Any = cs.load(tmp_path / "c")
    assert loaded.predict(frame).shape == (90,)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"größe 0": "other"}))


@pytest.mark.slow
def test_a_new_process_predicts_the_same(tmp_path: Path) -> None:
    """So do those of `test_composition.test_another_process_predicts_the_same_bits`, and networks in a fast test."""
    classifier = classify(RandomForestClassifier(5, random_state=0), "kl")
    classifier.save(tmp_path / "c")
    np.save(tmp_path / "X.npy", DATA.X)
    script = (
        "import sys, numpy as np, credalset as cs\n"
        f"clf = cs.load(sys.argv[1] + '/c', trusted=[{TREE!r}])\n"
        "sets = clf.predict_set(np.load(sys.argv[1] + '/X.npy'), alpha=0.2)\n"
        "np.savez(sys.argv[1] + '/out.npz', center=sets.center, threshold=sets.threshold)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=60)
    sets, out = classifier.predict_set(DATA.X, alpha=0.2), np.load(tmp_path / "out.npz")
    assert out["center"].tobytes() == sets.center.tobytes()
    assert out["threshold"].tobytes() == sets.threshold.tobytes()


def test_trees_are_refused_until_they_are_trusted(tmp_path: Path) -> None:
    classify(RandomForestClassifier(2, random_state=0)).save(tmp_path / "c")
    with pytest.raises(FileFormatError, match=r"not trusted: sklearn.tree._tree.Tree.*trusted="):
        cs.load(tmp_path / "c")
    with pytest.raises(TypeError, match="trusted must be a list"):
        cs.load(tmp_path / "c", trusted=TREE)


def test_same_object_same_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        calibrate("ws").save(tmp_path / name)
    for file in (MANIFEST, ARRAYS):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


# --- what cannot be saved ---


class Unregistered(TotalVariation):
    """A score that nobody registered."""


def test_unregistered_score(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"Unregistered is not a registered score.*register_score"):
        calibrate(Unregistered()).save(tmp_path / "c")
    with pytest.raises(TypeError, match="Unregistered is not a registered score"):
        calibrate(Normalized(Unregistered())).save(tmp_path / "c")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("odd", [None, b"bytes", (1, 2), np.nan, np.inf, 1j, np.datetime64("2020-01-01"), "\ud800"])
def test_class_names_that_cannot_be_saved(odd: Any, tmp_path: Path) -> None:
    calibration = cs.Calibration(TotalVariation(), np.array([0.1]), 3, classes=("a", "b", odd))
    with pytest.raises(TypeError, match="class names must be text or finite numbers to be saved"):
        calibration.save(tmp_path / "c")
    assert not list(tmp_path.iterdir())


def test_manifest_that_could_not_be_read_again(tmp_path: Path) -> None:
    calibration = cs.Calibration(TotalVariation(), np.array([0.1]), 2, classes=("a", "b" * _bundle.MAX_MANIFEST_BYTES))
    with pytest.raises(ValueError, match="can be saved"):
        calibration.save(tmp_path / "c")


def test_unfitted_classifier(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="no fitted estimator to save"):
        cs.ConformalCredalClassifier().save(tmp_path / "c")


class Locked:
    """A prefit predictor that no file format can hold."""

    def __init__(self) -> None:
        self.rows = (row for row in [])

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.full((len(X), 3), 1 / 3)


def test_estimator_that_cannot_be_saved_names_the_way_out(tmp_path: Path) -> None:
    classifier = cs.ConformalCredalClassifier(Locked()).conformalize(DATA.X, DATA.counts)
    with pytest.raises(TypeError, match=r"Locked cannot be saved without pickle.*calibration_\.save"):
        classifier.save(tmp_path / "c")
    assert not list(tmp_path.iterdir())
    classifier.calibration_.save(tmp_path / "c")
    assert_same(cs.load(tmp_path / "c"), classifier.calibration_)


def test_missing_extra(saved: Path, saved_classifier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = classify()
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(MissingExtraError, match=r"'skops', which is not installed.*pip install 'credalset\[io\]'"):
        classifier.save(tmp_path / "c")
    with pytest.raises(MissingExtraError, match=r"credalset\[io\]"):
        cs.load(saved_classifier)
    assert isinstance(cs.load(saved), cs.Calibration), "a calibration alone needs no extra"


# --- atomicity ---


def entries(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_saving_again_replaces(saved: Path, saved_classifier: Path) -> None:
    calibration = calibrate("ws", n=7)
    for path in (saved, saved_classifier):
        calibration.save(path)
        assert_same(cs.load(path), calibration)
        assert entries(path) == [ARRAYS, MANIFEST]
    assert entries(saved.parent) == ["classifier", "saved"], "nothing is left beside"


def test_an_empty_directory_and_missing_parents_are_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    for path in (".", "a/b/c", tmp_path / "x" / "y"):
        calibrate().save(path)
        assert isinstance(cs.load(path if path != "." else tmp_path / "empty"), cs.Calibration)
        monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("failing", ["write", "first rename", "second rename"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_failure_leaves_the_old_and_no_litter(
    failing: str, error: BaseException, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: (saved / name).read_bytes() for name in entries(saved)}
    calls = []

    def fail_at(turn: int, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any) -> Any:
            calls.append(args)
            if len(calls) == turn:
                raise error
            return original(*args)

        return wrapped

    if failing == "write":
        monkeypatch.setattr(_bundle.os, "fsync", fail_at(2, os.fsync))
    else:
        monkeypatch.setattr(Path, "rename", fail_at(1 + (failing == "second rename"), Path.rename))
    with pytest.raises(type(error)):
        calibrate("ws", n=7).save(saved)
    monkeypatch.undo()
    assert calls
    assert entries(saved.parent) == ["saved"]
    assert {name: (saved / name).read_bytes() for name in entries(saved)} == before


def test_the_old_bundle_survives_even_a_failing_restore(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = Path.rename, []

    def rename(self: Path, target: Path) -> Path:
        calls.append(self)
        if len(calls) > 1:
            raise OSError("gone")
        return original(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    expected = cs.load(saved)
    with pytest.raises(OSError, match="gone"):
        calibrate("ws", n=7).save(saved)
    (kept,) = saved.parent.glob(".saved.*/old")
    assert_same(cs.load(kept), expected)  # type: ignore[arg-type]


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    calibrate().save(tmp_path / "c")
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "c").stat().st_mode == (tmp_path / "plain").stat().st_mode


def make_foreign(kind: str, path: Path) -> None:
    if kind == "file":
        path.write_text("precious")
        return
    path.mkdir()
    if kind == "symlink":
        path.rmdir()
        (path.parent / "elsewhere").mkdir()
        path.symlink_to("elsewhere")
    elif kind == "directory":
        (path / "thesis.txt").write_text("precious")
    elif kind == "other manifest":
        (path / MANIFEST).write_text('{"name": "a web page"}')
    else:
        calibrate().save(path)
        (path / "notes.txt").write_text("precious")


@pytest.mark.parametrize("kind", ["file", "symlink", "directory", "other manifest", "bundle with notes"])
def test_foreign_things_are_not_replaced(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "c"
    make_foreign(kind, path)
    before = [(p, p.read_bytes()) for p in sorted(tmp_path.rglob("*")) if p.is_file()]
    with pytest.raises(FileExistsError, match="Choose another"):
        calibrate("ws").save(path)
    assert [(p, p.read_bytes()) for p in sorted(tmp_path.rglob("*")) if p.is_file()] == before
