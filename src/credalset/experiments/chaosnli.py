"""ChaosNLI: votes on sentence pairs; 500 items to test, 500 to calibrate, the rest to train."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import FloatArray
from credalset.datasets import ChaosNLI, load_chaosnli
from credalset.datasets.chaosnli import FEATURE_FILES
from credalset.datasets.download import DataNotFoundError, data_folder
from credalset.datasets.encoding import DEFAULT_ENCODER
from credalset.experiments.batch import Batch, Outcome, seed_groups, span
from credalset.experiments.fingerprint import fingerprint
from credalset.experiments.runs import TRAINED, Items, Task, learners, run_tasks

NAME = "chaosnli"


def settings(
    quick: bool = False, data_dir: Path | None = None, features: list[str] | None = None, encoder: str | None = None
) -> dict[str, Any]:
    """Return what all batches share; without features or an encoder, whatever the data folder has.

    Features are standardised on the training items. The MiniLM features are many and say little: a network learns
    them by heart within ten epochs, so it gets no more.
    """
    inputs = _inputs(data_dir, features, encoder)
    data = {name: fingerprint(*_arrays(name, data_dir)) for name in inputs}
    full = {
        "quick": quick,
        "data": data,
        "alphas": [0.05, 0.1, 0.2, 0.25, 0.3],
        "n_test": 500,
        "n_calibration": 500,
        "n_train": None,
        "epochs": {name: 10 if name == "minilm" else 100 for name in inputs},
        "offset": 0.0,
        "volume_sets": 50,
        "volume_rays": 128,
        "shown_alpha": 0.2,
    }
    small = {
        "alphas": [0.1, 0.25],
        "n_test": 60,
        "n_calibration": 60,
        "n_train": 200,
        "epochs": dict.fromkeys(inputs, 2),
        "volume_sets": 10,
        "volume_rays": 32,
    }
    return full | small if quick else full


def batches(shared: dict[str, Any], n_seeds: int) -> list[Batch]:
    """List the batches: every kind of features, every learner."""
    return [
        Batch(NAME, f"{name} {learner}", f"{_plain(name)}-{learner}-{span(seeds)}", options, len(seeds))
        for name in shared["data"]
        for learner in TRAINED
        for seeds in seed_groups(n_seeds)
        for options in [
            {**shared, "epochs": shared["epochs"][name], "features": name, "learner": learner, "seeds": seeds}
        ]
    ]


def run(batch: Batch, data_dir: Path | None = None) -> Outcome:
    """Compute a batch."""
    outcome, options = Outcome(), batch.options
    data = load(options["features"], data_dir)
    tasks = [_task(batch, seed, data) for seed in options["seeds"]]
    run_tasks(outcome, learners()[options["learner"]], tasks, options)
    return outcome


@lru_cache(maxsize=2)
def load(name: str, data_dir: Path | None) -> ChaosNLI:
    """Load ChaosNLI with features by the name that `settings` gives them."""
    if name.startswith("encoder "):
        return load_chaosnli(data_dir=data_dir, encoder=name.removeprefix("encoder "))
    return load_chaosnli(name, data_dir)


def _inputs(data_dir: Path | None, features: list[str] | None, encoder: str | None) -> list[str]:
    chosen = list(features or [])
    if encoder is not None:
        chosen.append(f"encoder {encoder}")
    if not chosen:
        folder = data_folder(data_dir)
        chosen = [name for name, (file, _) in FEATURE_FILES.items() if (folder / file).is_file()]
    if not chosen:
        _check_encoder(folder)
    return chosen or [f"encoder {DEFAULT_ENCODER}"]


def _check_encoder(folder: Path) -> None:
    """Say at once what is missing, votes and features, where no encoder can compute the features."""
    if find_spec("transformers") is not None:
        return
    files = " or ".join(file for file, _ in FEATURE_FILES.values())
    needed = (
        f"Features of the pairs are needed as well: put {files} into {folder}, name a file with --features, or "
        "have a model compute them with --encoder (pip install 'credalset[nli]')."
    )
    try:
        load_chaosnli(data_dir=folder)
    except DataNotFoundError as error:
        raise DataNotFoundError(f"{error} {needed}") from None
    raise DataNotFoundError(f"there are votes on ChaosNLI in {folder}, but no features. {needed}")


def _arrays(name: str, data_dir: Path | None) -> tuple[FloatArray, FloatArray]:
    data = load(name, data_dir)
    assert data.features is not None
    return data.features, data.distributions


def _task(batch: Batch, seed: int, data: ChaosNLI) -> Task:
    options, labels = batch.options, data.distributions
    assert data.features is not None
    order = np.random.default_rng(seed).permutation(len(data))
    n_test, n_calibration = options["n_test"], options["n_calibration"]
    test_rows, calibration_rows, rest = np.split(order, [n_test, n_test + n_calibration])
    train_rows = rest[: options["n_train"]]
    mean, spread = data.features[train_rows].mean(axis=0), data.features[train_rows].std(axis=0)
    X = (data.features - mean) / np.where(spread > 0, spread, 1.0)
    head = {
        "experiment": NAME,
        "part": batch.part,
        "seed": seed,
        "n_classes": 3,
        "n_votes": 100,
        "n_train": len(train_rows),
    }
    shown = _shown(labels[test_rows]) if seed == 0 else ()
    parts = (Items(X[rows], labels[rows]) for rows in (train_rows, calibration_rows, test_rows))
    train, calibration, test = parts
    return Task(head, train, calibration, test, shown)


def _shown(labels: FloatArray) -> tuple[int, ...]:
    """Choose a clear, a middling and a disputed pair."""
    order = np.argsort(labels.max(axis=1))[::-1]
    return tuple(int(order[int(share * (len(order) - 1))]) for share in (0.1, 0.5, 0.9))


def _plain(name: str) -> str:
    """Turn a name or path of features into a part of a file name."""
    return "".join(c if c.isalnum() else "-" for c in name).strip("-")
