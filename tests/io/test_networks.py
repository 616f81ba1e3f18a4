"""Networks are saved as parameters and arrays; shapes,
types and devices are checked before anything is built.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

torch = pytest.importorskip("torch")

import credalset as cs  # noqa: E402
from credalset.exceptions import FileFormatError  # noqa: E402
from credalset.io.folders import MANIFEST  # noqa: E402
from credalset.predictors import (  # noqa: E402
    FirstOrderNetwork,
    IntervalNetwork,
    SecondOrderNetwork,
)

from .forging import DATA, classify, forge, forge_arrays  # noqa: E402

SMALL: dict[str, Any] = {"epochs": 2, "batch_size": 32, "random_state": 0}


ESTIMATORS: dict[str, tuple[Any, str]] = {
    "first order": (FirstOrderNetwork((5, 4), **SMALL), "kl"),
    "second order": (SecondOrderNetwork((5,), recovers=False, **SMALL), "so"),
    "intervals": (IntervalNetwork((5,), **SMALL), "intervals"),
    "pipeline": (make_pipeline(StandardScaler(), FirstOrderNetwork((), **SMALL)), "tv"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_classifiers(name: str, tmp_path: Path) -> None:
    classifier = classify(*ESTIMATORS[name])
    classifier.save(tmp_path / "c")
    loaded: Any = cs.load(tmp_path / "c")
    assert loaded.predict_proba(DATA.X).tobytes() == classifier.predict_proba(DATA.X).tobytes()
    assert (
        loaded.predict_set(DATA.X, 0.2).lower().tobytes()
        == classifier.predict_set(DATA.X, 0.2).lower().tobytes()
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    FirstOrderNetwork((5, 4), **SMALL).fit(DATA.X, DATA.counts).save(tmp_path / "n")
    return tmp_path / "n"


def test_networks(tmp_path: Path) -> None:
    own = FirstOrderNetwork((5,), **SMALL).fit(DATA.X, DATA.counts)
    own.save(tmp_path / "n")
    loaded: Any = cs.load(tmp_path / "n")
    assert loaded.get_params() == own.get_params()
    assert loaded.loss_curve_ == own.loss_curve_
    with pytest.raises(NotFittedError):
        FirstOrderNetwork().save(tmp_path / "unfitted")


def test_forged_weights_are_refused(saved: Path) -> None:
    original = {file.name: file.read_bytes() for file in saved.iterdir()}
    names = list(np.load(saved / "arrays.npz"))
    weights = next(name for name in names if name.endswith("0.weight"))
    for wrong in (
        np.zeros((5, 9), np.float32),
        np.zeros((5, 10)),
        np.full((5, 10), np.nan, np.float32),
    ):
        forge_arrays(saved, **{weights: wrong})
        with pytest.raises(FileFormatError):
            cs.load(saved)
        for name, data in original.items():
            (saved / name).write_bytes(data)
    forge_arrays(saved, more=np.zeros(1))
    with pytest.raises(FileFormatError):
        cs.load(saved)


WRONG: dict[str, list[Any]] = {
    "hidden": [None, True, 5, "x", [10**12, 10**12], [10**400, 1], [-1], ["x"]],
    "device": ["x", "", 3, None, "cuda:-7", "meta:x", "meta", "hpu", "privateuseone"],
    "early_stopping": [1, "yes", None, []],
    "verbose": [0, "no", None],
    "epochs": [-1, 1.5, "x", None, True],
    "batch_size": [0, -3, "8", True],
    "learning_rate": [-1.0, "x", None],
    "random_state": [-1, 1.5, "x"],
    "dropout": [2.0, "x", None],
}


@pytest.mark.parametrize("name", WRONG)
def test_forged_parameters_devices_and_flags_are_refused(name: str, saved: Path) -> None:
    assert name in json.loads((saved / MANIFEST).read_text())["object"]["state"]
    for wrong in WRONG[name]:
        forge(
            saved, lambda manifest, wrong=wrong: manifest["object"]["state"].update({name: wrong})
        )  # type: ignore[misc]
        with pytest.raises(FileFormatError):
            cs.load(saved)
