"""Synthetic votes with a known truth.

Coverage, thresholds and volumes over classes, votes and training-set sizes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from credalset.datasets import SyntheticData, make_synthetic
from reproduction.batch import Batch, by_seeds
from reproduction.measure import Part
from reproduction.runs import COMMON, QUICK, TRAINED, Task, shown_items

NAME = "synthetic"
EXACT = 0  # number of votes that stands for labels without noise


def settings(quick: bool = False, data_dir: Path | None = None) -> dict[str, Any]:
    """Return what all batches share: the paper's grid, or a small one that shows that all works."""
    full = {
        "classes": [3, 4, 6, 8, 10],
        "votes": [1, 5, 10, 100],
        "alphas": [0.05, 0.1, 0.2],
        "n_part": 500,
    }
    full |= {
        "epochs": 100,
        "sizes": [10, 50, 100, 500, 1000],
        "n_size_part": 1000,
        "shown_alpha": 0.05,
    }
    small = {"classes": [3, 4], "votes": [5, 100], "alphas": [0.1, 0.2], "n_part": 60}
    small |= {"epochs": 2, "sizes": [10, 50], "n_size_part": 60, **QUICK}
    return {**COMMON, "quick": quick, **full, **(small if quick else {})}


def batches(shared: dict[str, Any], n_seeds: int) -> list[Batch]:
    """List the batches: first order for every K, second order and sizes for K = 3."""
    result = []
    for part in TRAINED:
        for n_classes in shared["classes"] if part == "first-order" else [3]:
            options = {**shared, "n_classes": n_classes, "learner": part}
            result += by_seeds(
                NAME, part, f"{part}-{n_classes}-classes", options, n_seeds, len(shared["votes"])
            )
    options = {**shared, "n_classes": 3, "learner": "first-order"}
    n_runs = 2 * len(shared["sizes"])
    return result + by_seeds(NAME, "training-size", "training-size", options, n_seeds, n_runs)


def tasks(batch: Batch, data_dir: Path | None = None) -> list[Task]:
    """Return the runs of a seed."""
    return _size_tasks(batch) if batch.part == "training-size" else _vote_tasks(batch)


def _vote_tasks(batch: Batch) -> list[Task]:
    """Three equal parts, every number of votes.

    Labels for training, calibration and test are shares of votes.
    """
    options = batch.options
    found = []
    n = options["n_part"]
    n_classes = options["n_classes"]
    seed = options["seed"]
    for n_votes in options["votes"]:
        # The points and their truth are the same for every number of votes.
        generator = np.random.default_rng([seed, n_classes])
        data = make_synthetic(3 * n, n_classes, n_votes=n_votes, random_state=generator)
        shown = (
            shown_items(data.distributions[2 * n : 3 * n], 0.95)
            if seed == 0 and n_classes == 3
            else ()
        )
        found.append(Task(batch.head(n_classes, n_votes, n), *_thirds(data, n), shown))
    return found


def _size_tasks(batch: Batch) -> list[Task]:
    """More and more training items beside the same calibration and test items.

    Labels of 100 votes, and exact ones.
    """
    n = batch.options["n_size_part"]
    found = []
    seed = np.random.default_rng([batch.options["seed"], 3, n])
    data = make_synthetic(3 * n, 3, n_votes=100, random_state=seed)
    for n_votes in (100, EXACT):
        train, calibration, test = _thirds(data, n, exact=n_votes == EXACT)
        for size in batch.options["sizes"]:
            some = Part(train.inputs[:size], train.labels[:size])
            found.append(Task(batch.head(3, n_votes, size), some, calibration, test))
    return found


def _thirds(data: SyntheticData, n: int, exact: bool = False) -> tuple[Part, Part, Part]:
    """Split into training, calibration and test items, n each."""
    labels = data.distributions if exact else data.counts / data.counts.sum(axis=1, keepdims=True)
    rows = (slice(start, start + n) for start in (0, n, 2 * n))
    train, calibration, test = (
        Part(data.X[r], labels[r], data.distributions[r], data.counts[r]) for r in rows
    )
    return train, calibration, test
