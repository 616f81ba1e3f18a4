"""Networks are saved as plain values and safetensors, and come back to the bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import credalset as cs
from credalset.exceptions import FileFormatError, MissingExtraError
from credalset.persistence.bundle import MANIFEST
from credalset.predictors.saved import ESTIMATOR_FILE, WEIGHTS_FILE

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from credalset.predictors import (  # noqa: E402
    DirichletMixtureNetwork,
    FirstOrderNetwork,
    IntervalNetwork,
    PrototypeNetwork,
    SecondOrderNetwork,
    TorchPredictor,
)
from credalset.predictors.torch.saving import dump_weights  # noqa: E402

from .saved_objects import DATA, classify, forge  # noqa: E402

SMALL: dict[str, Any] = {"epochs": 2, "random_state": 3}


def module() -> nn.Sequential:
    return nn.Sequential(nn.Linear(10, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 3))


def network(**options: Any) -> FirstOrderNetwork:
    return FirstOrderNetwork((5, 4), **{**SMALL, **options})


ESTIMATORS: dict[str, tuple[Any, str]] = {
    "first order": (network(), "kl"),
    "second order": (SecondOrderNetwork((5,), link="softplus", **SMALL), "density"),
    "mixture": (DirichletMixtureNetwork((5,), n_components=2, **SMALL), "density"),
    "three mixtures": (DirichletMixtureNetwork((5,), n_components=2, n_networks=3, **SMALL), "density"),
    "prototypes": (PrototypeNetwork((5,), n_components=2, offsets=True, **SMALL), "prototypes"),
    "intervals": (IntervalNetwork((5,), **SMALL), "intervals"),
    "three of one prototype": (PrototypeNetwork((5,), n_networks=3, **SMALL), "prototypes"),
    "pipeline, mixture of counts": (
        make_pipeline(StandardScaler(), DirichletMixtureNetwork((5,), n_components=3, likelihood="counts", **SMALL)),
        "density",
    ),
    "softmax regression": (FirstOrderNetwork((), **SMALL), "tv"),
    "pipeline": (make_pipeline(StandardScaler(), network()), "tv"),
    "pipeline, second order": (make_pipeline(StandardScaler(), SecondOrderNetwork((5,), **SMALL)), "so"),
    "pipeline of one": (make_pipeline(network()), "tv"),
    "own module": (TorchPredictor(module(), "first", "logits", **SMALL), "ws"),
    "pipeline with own module": (
        make_pipeline(StandardScaler(), TorchPredictor(module(), "second", "exp", **SMALL)),
        "so",
    ),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_classifier_round_trip(name: str, tmp_path: Path) -> None:
    estimator, score = ESTIMATORS[name]
    classifier = classify(estimator, score)
    classifier.save(tmp_path / "c")
    loaded: Any = cs.load(tmp_path / "c", module=module() if "own" in name else None)
    assert loaded.predict_proba(DATA.X).tobytes() == classifier.predict_proba(DATA.X).tobytes()
    assert np.array_equal(loaded.predict_set(DATA.X, 0.2).center, classifier.predict_set(DATA.X, 0.2).center)
    assert type(loaded.estimator_) is type(classifier.estimator_)
    loaded.save(tmp_path / "d")
    for file in sorted((tmp_path / "c").iterdir()):
        if file.name != ESTIMATOR_FILE and file.name != MANIFEST:
            assert file.read_bytes() == (tmp_path / "d" / file.name).read_bytes()


def test_network_round_trip(tmp_path: Path) -> None:
    frame = pd.DataFrame(DATA.X, columns=[f"größe {i}" for i in range(10)])
    votes = cs.Annotations.from_counts(DATA.counts, classes=["a", "b", "c"])
    own = network(early_stopping=True, learning_rate=np.float64(1e-3), warm_start=True).fit(frame, votes)
    own.save(tmp_path / "n")
    assert sorted(file.name for file in (tmp_path / "n").iterdir()) == [MANIFEST, WEIGHTS_FILE]
    loaded: Any = cs.load(tmp_path / "n")
    assert type(loaded) is FirstOrderNetwork
    assert loaded.get_params() == own.get_params()
    assert loaded.predict_proba(frame).tobytes() == own.predict_proba(frame).tobytes()
    assert loaded.classes_.tolist() == ["a", "b", "c"]
    assert (loaded.loss_curve_, loaded.validation_curve_) == (own.loss_curve_, own.validation_curve_)
    assert loaded.feature_names_in_.tolist() == list(frame.columns)
    goes_on = [model.fit(frame, votes).predict_proba(frame) for model in (own, loaded)]
    assert np.array_equal(*goes_on), "a warm start goes on as if nothing had happened"
    with pytest.raises(NotFittedError):
        network().save(tmp_path / "unfitted")


def test_a_generator_for_a_seed_is_forgotten(tmp_path: Path) -> None:
    network(random_state=np.random.default_rng(0)).fit(DATA.X, DATA.counts).save(tmp_path / "n")
    assert cs.load(tmp_path / "n").get_params()["random_state"] is None  # type: ignore[union-attr]


def test_own_modules_are_loaded_into_a_module_that_is_passed(tmp_path: Path) -> None:
    own = TorchPredictor(module(), "first", "logits", **SMALL).fit(DATA.X, DATA.counts)
    own.save(tmp_path / "n")
    loaded: Any = cs.load(tmp_path / "n", module=module())
    assert loaded.predict_proba(DATA.X).tobytes() == own.predict_proba(DATA.X).tobytes()
    prefit = TorchPredictor(own.module_, "first", "logits", prefit=True)
    prefit.save(tmp_path / "p")
    again: Any = cs.load(tmp_path / "p", module=module())
    assert again.predict_proba(DATA.X).tobytes() == own.predict_proba(DATA.X).tobytes()
    with pytest.raises(ValueError, match=r"a module of your own\. Pass an object of the same class"):
        cs.load(tmp_path / "n")
    for wrong, message in [
        (nn.Sequential(nn.Linear(10, 4)), r"do not fit the module: '1\..*' is not part of it"),
        (nn.Sequential(*module(), nn.Linear(3, 3)), r"do not fit the module: '4\.bias' is missing"),
        (
            nn.Sequential(nn.Linear(10, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)),
            r"\(4, 10\) instead of \(5, 10\)",
        ),
        (module().double(), r"torch.float32 instead of torch.float64"),
    ]:
        with pytest.raises(FileFormatError, match=message):
            cs.load(tmp_path / "n", module=wrong)


def test_a_module_where_none_is_needed(tmp_path: Path) -> None:
    network().fit(DATA.X, DATA.counts).save(tmp_path / "n")
    with pytest.raises(ValueError, match=r"builds its own network\. Load it without module"):
        cs.load(tmp_path / "n", module=module())
    classifier = classify()
    classifier.save(tmp_path / "c")
    classifier.calibration_.save(tmp_path / "k")
    for path in ("c", "k"):
        with pytest.raises(ValueError, match="Load it without module"):
            cs.load(tmp_path / path, module=module())


def test_a_new_process_predicts_the_same(tmp_path: Path) -> None:
    classifier = classify(make_pipeline(StandardScaler(), SecondOrderNetwork((6,), link="exp", **SMALL)), "density")
    classifier.save(tmp_path / "c")
    np.save(tmp_path / "X.npy", DATA.X)
    script = (
        "import sys, numpy as np, credalset as cs\n"
        "clf = cs.load(sys.argv[1] + '/c')\n"
        "sets = clf.predict_set(np.load(sys.argv[1] + '/X.npy'), alpha=0.2)\n"
        "np.savez(sys.argv[1] + '/out.npz', center=sets.center, radius=sets.radius)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=120)
    sets, out = classifier.predict_set(DATA.X, alpha=0.2), np.load(tmp_path / "out.npz")
    assert out["center"].tobytes() == sets.center.tobytes()
    assert out["radius"].tobytes() == sets.radius.tobytes()


# --- what cannot be saved ---


class OwnKind(FirstOrderNetwork):
    """A subclass that credalset does not know."""


def test_what_cannot_be_saved_names_the_way_out(tmp_path: Path) -> None:
    for estimator in (OwnKind((3,), **SMALL), FrozenEstimator(network().fit(DATA.X, DATA.counts))):
        classifier = classify(estimator)
        with pytest.raises(TypeError, match=r"cannot be saved.*calibration_\.save"):
            classifier.save(tmp_path / "c")
    assert not list(tmp_path.iterdir())


class Odd(nn.Linear):
    def get_extra_state(self) -> str:
        return "not a tensor"

    def set_extra_state(self, state: str) -> None:
        """Never called."""


def test_modules_that_keep_more_than_tensors(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="which is not a tensor"):
        TorchPredictor(Odd(10, 3), "first", "logits", prefit=True).save(tmp_path / "c")


def test_tied_weights_are_written_apart(tmp_path: Path) -> None:
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    TorchPredictor(tied, "first", "logits", prefit=True).save(tmp_path / "c")
    twin = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    twin[1].weight = twin[0].weight
    loaded: Any = cs.load(tmp_path / "c", module=twin)
    assert torch.equal(loaded.module[1].weight, tied[0].weight)


def test_missing_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = network().fit(DATA.X, DATA.counts)
    own.save(tmp_path / "n")
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    for action in (lambda: own.save(tmp_path / "m"), lambda: cs.load(tmp_path / "n")):
        with pytest.raises(MissingExtraError, match=r"'safetensors', which is not installed.*credalset\[torch\]"):
            action()


# --- damaged and forged files ---


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    network().fit(DATA.X, DATA.counts).save(tmp_path / "saved")
    return tmp_path / "saved"


def test_newer_formats_are_refused(saved: Path) -> None:
    forge(saved, lambda manifest: manifest.update(format_version=2))
    with pytest.raises(FileFormatError, match=r"has format version 2, but this credalset .* Upgrade"):
        cs.load(saved)


def test_damaged_weights(saved: Path) -> None:
    data = (saved / WEIGHTS_FILE).read_bytes()
    (saved / WEIGHTS_FILE).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(FileFormatError, match="checksum"):
        cs.load(saved)
    for forged in (b"", b"\0" * 8, data[:40], data[:-4], b"\xff" * 200, (10**15).to_bytes(8, "little") + data[8:]):
        forge(saved, **{WEIGHTS_FILE: forged})
        with pytest.raises(FileFormatError, match="weights"):
            cs.load(saved)


def renamed(state: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if name == old else name: value for name, value in state.items()}


def test_weights_that_do_not_fit(saved: Path) -> None:
    state = dict(cs.load(saved).module_.state_dict())  # type: ignore[union-attr]
    for change, message in [
        ({**state, "0.weight": torch.zeros(5, 9)}, r"'0.weight' has shape \(5, 9\) instead of \(5, 10\)"),
        ({**state, "0.weight": torch.zeros(5, 10, dtype=torch.float64)}, "torch.float64 instead of torch.float32"),
        ({**state, "0.bias": torch.full((5,), torch.nan)}, "'0.bias' contains NaN"),
        (renamed(state, "0.bias", "0.bios"), r"'0\.bi.s' is"),
        ({**state, "more": torch.zeros(1)}, "does not have the weights of 2 hidden layers"),
    ]:
        holder = type("Holder", (), {"state_dict": lambda self, change=change: change})()
        forge(saved, **{WEIGHTS_FILE: dump_weights(holder)})
        with pytest.raises(FileFormatError, match=message):
            cs.load(saved)


WRONG = [None, True, 0, -1, 1.5, "x", "", [], ["x"], {}, {"x": {}}, 10**400, [10**400, 1], [10**12, 10**12]]
LEGAL: dict[str, list[Any]] = {
    "type": [],
    "random_state": [None, 0, 10**400],
    "early_stopping": [True],
    "warm_start": [True],
    "verbose": [True],
    "epochs": [10**400],
    "batch_size": [10**400],
    "n_iter_no_change": [10**400],
    "momentum": [0],
    "weight_decay": [0, 1.5],
    "learning_rate": [1.5],
    "dropout": [0],
    "tol": [0, 1.5],
    "device": ["x", ""],  # told by name when it is used
    "loss_curve": [[]],
}


@pytest.mark.parametrize(
    "keys",
    [
        *[("type",), ("params",), ("classes",), ("classes_dtype",), ("n_features_in",), ("loss_curve",)],
        *[("params", name) for name in FirstOrderNetwork().get_params()],
    ],
    ids=".".join,
)
def test_wrong_values_in_the_manifest(keys: tuple[str, ...], saved: Path) -> None:
    for wrong in WRONG:
        if any(wrong == legal and type(wrong) is type(legal) for legal in LEGAL.get(keys[-1], [])):
            continue

        def change(manifest: dict[str, Any], wrong: Any = wrong) -> None:
            values = manifest["values"] if len(keys) == 1 else manifest["values"]["params"]
            values[keys[-1]] = wrong

        forge(saved, change)
        with pytest.raises(FileFormatError):
            cs.load(saved)


OTHER_LEGAL = LEGAL | {
    "output_l2": [0, 1.5],
    "label_clip": [],
    "pull": [1.5],
    "offsets": [True],
    "max_precision": [1.5],
    "width": [0, 1.5],
    "labels": [0, 1.5],
    "epistemic": [0, 1.5],
    "n_networks": [],
    "n_components": [],
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *[(SecondOrderNetwork, name) for name in ("link", "label_clip", "output_l2")],
        *[(DirichletMixtureNetwork, name) for name in ("n_components", "n_networks", "pull", "likelihood", "hidden")],
        *[
            (PrototypeNetwork, name)
            for name in ("n_components", "offsets", "likelihood", "max_precision", "floor", "width")
        ],
        *[(IntervalNetwork, name) for name in ("width", "labels", "epistemic")],
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_wrong_parameters_of_other_networks(kind: Any, name: str, tmp_path: Path) -> None:
    kind((5,), **SMALL).fit(DATA.X, DATA.counts).save(tmp_path / "n")
    for wrong in WRONG:
        if any(wrong == legal and type(wrong) is type(legal) for legal in OTHER_LEGAL.get(name, [])):
            continue
        forge(tmp_path / "n", lambda manifest, wrong=wrong: manifest["values"]["params"].update({name: wrong}))  # type: ignore[misc]
        with pytest.raises(FileFormatError):
            cs.load(tmp_path / "n")


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_networks_and_their_classifier_must_agree(in_pipeline: bool, tmp_path: Path) -> None:
    estimator = make_pipeline(StandardScaler(), network()) if in_pipeline else network()
    path = tmp_path / "c"

    def refuse(values: dict[str, Any], message: str) -> None:
        forge(path, lambda manifest: manifest["values"].update(values))
        with pytest.raises(FileFormatError, match=message):
            cs.load(path)

    classify(estimator).save(path)
    refuse({"n_features_in": 11}, "differ in the number of features")
    classify(estimator, calibrated=False).save(path)
    refuse({"classes": [0, 1]}, "the classifier and its estimator differ in classes")
    clf = cs.ConformalCredalClassifier(estimator)
    for change in ({"classes": [0, 2, 1]}, {"classes": ["a", "b", "c"], "classes_dtype": "str"}):
        clf.cross_conformalize(DATA.X, DATA.counts, 2, random_state=0).save(path)
        forge(path, lambda manifest, change=change: manifest["values"]["folds"][1].update(change))  # type: ignore[misc]
        with pytest.raises(FileFormatError, match="estimators of its folds differ in classes"):
            cs.load(path)
    clf.cross_conformalize(DATA.X, DATA.counts, 2, random_state=0).save(path)
    refuse({"n_features_in": 9}, "differ in the number of features")


def test_missing_parts(saved: Path, tmp_path: Path) -> None:
    forge(saved, lambda manifest: manifest["values"]["params"].pop("tol"))
    with pytest.raises(FileFormatError, match="does not have the parameters of a FirstOrderNetwork"):
        cs.load(saved)
    classify(make_pipeline(StandardScaler(), network())).save(tmp_path / "c")
    forge(tmp_path / "c", lambda manifest: manifest["values"]["network"].update(step="other"))
    with pytest.raises(FileFormatError, match="no pipeline that its network fits into"):
        cs.load(tmp_path / "c")
    forge(tmp_path / "c", lambda manifest: manifest["files"].pop(WEIGHTS_FILE))
    with pytest.raises(FileFormatError, match="no saved network"):
        cs.load(tmp_path / "c")
    forge(tmp_path / "c", lambda manifest: manifest["values"].update(network=3))
    with pytest.raises(FileFormatError, match="no saved network"):
        cs.load(tmp_path / "c")
