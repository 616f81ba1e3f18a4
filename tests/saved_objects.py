"""What the tests of saving and loading share: objects to save, and a forger who knows the format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import credalset as cs
from credalset.persistence.bundle import MANIFEST, manifest_digest
from credalset.scores import Score

from .conftest import random_predictions

DATA = cs.datasets.make_synthetic(90, n_classes=3, random_state=0)


def calibrate(score: Score | str = "tv", n: int = 40, **options: Any) -> cs.Calibration:
    rng = np.random.default_rng(1)
    predictions = random_predictions(cs.get_score(score), n, 3, rng)
    return cs.conformalize(predictions, rng.dirichlet(np.ones(3), n), score, **options)


def classify(estimator: Any = None, score: Score | str = "tv", calibrated: bool = True) -> Any:
    classifier = cs.ConformalCredalClassifier(LogisticRegression() if estimator is None else estimator, score).fit(
        DATA.X[:45], DATA.counts[:45]
    )
    return classifier.conformalize(DATA.X[45:], DATA.counts[45:]) if calibrated else classifier


def assert_same(loaded: Any, saved: cs.Calibration) -> None:
    assert isinstance(loaded, cs.Calibration)
    assert loaded.score == saved.score
    assert loaded.scores.tobytes() == np.asarray(saved.scores, dtype=float).tobytes()
    assert (loaded.n_classes, loaded.classes) == (saved.n_classes, saved.classes)
    assert [type(c) for c in loaded.classes or ()] == [type(c) for c in saved.classes or ()]


def forge(path: Path, change: Callable[[dict[str, Any]], Any] | None = None, **files: bytes) -> None:
    """Rewrite a saved object as someone who knows the format would: with the right sizes and checksums."""
    manifest = json.loads((path / MANIFEST).read_text())
    for name, data in files.items():
        (path / name).write_bytes(data)
        manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    if change is not None:
        change(manifest)
    manifest["sha256"] = manifest_digest(manifest)
    (path / MANIFEST).write_text(json.dumps(manifest))


def save_calibration(path: Path) -> Path:
    return _write(_calibration_files(), path)


def save_classifier(path: Path) -> Path:
    return _write(_classifier_files(), path)


@cache
def _calibration_files() -> dict[str, bytes]:
    return _files_of(calibrate("kl", classes=["cat", "dog", "eel"]))


@cache
def _classifier_files() -> dict[str, bytes]:
    return _files_of(classify(LogisticRegression()))


def _files_of(saveable: Any) -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        saveable.save(f"{folder}/saved")
        return {file.name: file.read_bytes() for file in Path(folder, "saved").iterdir()}


def _write(files: dict[str, bytes], path: Path) -> Path:
    path.mkdir()
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path
