"""CIFAR-10H: a classifier's softmax calibrated as it is, and learners trained on its logits."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from credalset.datasets import CIFAR10H, load_cifar10h
from reproduction.batch import Batch, by_seeds, fingerprint
from reproduction.runs import COMMON, QUICK, TRAINED, Task, parts_of

NAME = "cifar10h"
SHOWN = 1000  # test images of the first split whose sets are kept for the maps


def settings(quick: bool = False, data_dir: Path | None = None) -> dict[str, Any]:
    """Return what all batches share.

    Parts of a split are train, calibration, test; a prefit softmax trains nothing.
    """
    data = load(data_dir)
    full = {
        "quick": quick,
        "data": fingerprint(data.logits, data.distributions),
        "alphas": [0.05, 0.1, 0.2],
    }
    full |= {
        "prefit_split": [0, 5000, 5000],
        "learner_split": [1000, 8000, 1000],
        "epochs": 10,
        "offset": 0.1,
    }
    small = {
        "alphas": [0.1],
        "prefit_split": [0, 200, 100],
        "learner_split": [100, 200, 100],
        "epochs": 2,
        **QUICK,
    }
    return {**COMMON, **full, "shown_alpha": 0.1, **(small if quick else {})}


def batches(shared: dict[str, Any], n_seeds: int) -> list[Batch]:
    """List the batches: every learner, the prefit softmax first."""
    learners = ("prefit", *TRAINED)
    return [
        b
        for learner in learners
        for b in by_seeds(NAME, learner, learner, shared | {"learner": learner}, n_seeds)
    ]


@lru_cache(maxsize=1)
def load(data_dir: Path | None) -> CIFAR10H:
    """Load the votes and the logits."""
    return load_cifar10h(data_dir)


def tasks(batch: Batch, data_dir: Path | None = None) -> list[Task]:
    """Return the one split of a seed."""
    data = load(data_dir)
    seed = batch.options["seed"]
    is_prefit = batch.part == "prefit"
    sizes = batch.options["prefit_split" if is_prefit else "learner_split"]
    order = np.random.default_rng(seed).permutation(len(data))[: sum(sizes)]
    inputs = data.probabilities if is_prefit else data.logits
    parts = parts_of(inputs, data.counts, np.split(order, np.cumsum(sizes)[:2]))
    shown = tuple(range(min(SHOWN, sizes[2]))) if is_prefit and seed == 0 else ()
    return [Task(batch.head(10, 51, sizes[0]), *parts, shown)]
