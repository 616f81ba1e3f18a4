"""ChaosNLI: votes on sentence pairs; 500 items to test, 500 to calibrate, the rest to train."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import IntArray
from credalset.datasets import ChaosNLI, load_chaosnli
from credalset.datasets.published import FEATURES
from reproduction.batch import Batch, by_seeds, fingerprint, plain_name
from reproduction.published import INTRO_PAIRS, SHOWN_PAIRS
from reproduction.runs import COMMON, QUICK, TRAINED, Task, parts_of

NAME = "chaosnli"


def settings(quick: bool = False, data_dir: Path | None = None) -> dict[str, Any]:
    """Return what all batches share: the features that the data folder has, and sizes of parts.

    Features are standardised on the training items. There are many MiniLM features, and they carry
    little information: a network memorises the training items within ten epochs, so it is not
    trained longer.
    """
    folder = Path(data_dir or os.environ.get("CREDALSET_DATA") or "")
    inputs = [name for name, (file, _) in FEATURES.items() if (folder / file).is_file()] or [
        *FEATURES
    ][:1]
    loaded = {name: load(name, data_dir) for name in inputs}
    data = {name: fingerprint(one.features, one.distributions) for name, one in loaded.items()}
    full = {
        "quick": quick,
        "data": data,
        "alphas": [0.05, 0.1, 0.2, 0.25, 0.3],
        "n_test": 500,
        "n_calibration": 500,
    }
    full |= {
        "n_train": None,
        "epochs": {name: 10 if name == "minilm" else 100 for name in inputs},
        "shown_alpha": 0.2,
    }
    small = {"alphas": [0.1, 0.25], "n_test": 60, "n_calibration": 60, "n_train": 200}
    small |= {"epochs": dict.fromkeys(inputs, 2), **QUICK}
    return {**COMMON, **full, **(small if quick else {})}


def batches(shared: dict[str, Any], n_seeds: int) -> list[Batch]:
    """List the batches: every kind of features, every learner."""
    result = []
    for name in shared["data"]:
        for learner in TRAINED:
            options = {
                **shared,
                "epochs": shared["epochs"][name],
                "features": name,
                "learner": learner,
            }
            result += by_seeds(
                NAME, f"{name} {learner}", f"{plain_name(name)}-{learner}", options, n_seeds
            )
    return result


@lru_cache(maxsize=2)
def load(features: str, data_dir: Path | None) -> ChaosNLI:
    """Load ChaosNLI with features by their name."""
    return load_chaosnli(features, data_dir)


def tasks(batch: Batch, data_dir: Path | None = None) -> list[Task]:
    """Return the split of a seed, and for the first seed one that has the paper's pairs to test."""
    options = batch.options
    data = load(options["features"], data_dir)
    order = np.random.default_rng(options["seed"]).permutation(len(data))
    tasks = [_split(batch, data, order)]
    if options["seed"] == 0:
        # The pairs that the paper shows are tested in a split of their own, which is not measured.
        found = {uid: row for row, uid in enumerate(data.uid.tolist())}
        pairs = [uid for uid in (*INTRO_PAIRS, *SHOWN_PAIRS) if uid in found]
        rows = np.array([found[uid] for uid in pairs], dtype=np.int64)
        first = np.concatenate([rows, order[~np.isin(order, rows)]])
        tasks.append(
            replace(
                _split(batch, data, first),
                shown=tuple(range(len(pairs))),
                names=tuple(pairs),
                measured=False,
            )
        )
    return tasks


def _split(batch: Batch, data: ChaosNLI, order: IntArray) -> Task:
    """Split the pairs in the given order: the first to test, the next to calibrate."""
    options = batch.options
    X = data.features
    assert X is not None
    test, calibration, rest = np.split(
        order, np.cumsum([options["n_test"], options["n_calibration"]])
    )
    train = rest[: options["n_train"]]
    mean = X[train].mean(axis=0)
    spread = X[train].std(axis=0)
    parts = parts_of(
        (X - mean) / np.where(spread > 0, spread, 1.0), data.counts, (train, calibration, test)
    )
    return Task(batch.head(3, 100, len(train)), *parts)
