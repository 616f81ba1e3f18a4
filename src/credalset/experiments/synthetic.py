"""Synthetic votes with a known truth: coverage, thresholds and volumes over classes, votes and training-set sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from credalset.datasets import SyntheticData, load_synthetic, make_synthetic
from credalset.experiments.batch import Batch, Outcome, seed_groups, span
from credalset.experiments.published import train_one
from credalset.experiments.runs import WITH_FEW_VOTES, Items, Task, learners, run_tasks

NAME = "synthetic"
EXACT = 0  # number of votes that stands for labels without noise


def settings(quick: bool = False, published_data: bool = False) -> dict[str, Any]:
    """Return what all batches share: the paper's grid, or a small one that shows that everything works."""
    full = {
        "quick": quick,
        "classes": [3, 4, 6, 8, 10],
        "votes": [1, 5, 10, 100],
        "alphas": [0.05, 0.1, 0.2],
        "n_part": 500,
        "epochs": 100,
        "sizes": [10, 50, 100, 500, 1000],
        "n_size_part": 1000,
        "offset": 0.0,
        "volume_sets": 50,
        "volume_rays": 128,
        "shown_alpha": 0.05,
        "published_data": published_data,
    }
    small = {
        "classes": [3, 4],
        "votes": [5, 100],
        "alphas": [0.1, 0.2],
        "n_part": 60,
        "epochs": 2,
        "sizes": [10, 50],
        "n_size_part": 60,
        "volume_sets": 10,
        "volume_rays": 32,
    }
    return full | small if quick else full


def batches(shared: dict[str, Any], n_seeds: int) -> list[Batch]:
    """List the batches: the timing of the plain loop, first order for every K, second order and sizes for K = 3."""
    result = [Batch(NAME, "one-at-a-time", "one-at-a-time", {**shared, "n_classes": 3}, 0, alone=True)]
    n_votes = len(shared["votes"])
    for part in WITH_FEW_VOTES:
        for n_classes in shared["classes"] if part == "first-order" else [3]:
            for seeds in seed_groups(n_seeds):
                options = {**shared, "n_classes": n_classes, "seeds": seeds}
                name = f"{part}-{n_classes}-classes-{span(seeds)}"
                result.append(Batch(NAME, part, name, options, len(seeds) * n_votes))
    if not shared["published_data"]:  # the authors' files have too few points to vary the size of the training set
        for seeds in seed_groups(n_seeds):
            options = {**shared, "n_classes": 3, "seeds": seeds}
            n_runs = 2 * len(seeds) * len(shared["sizes"])
            result.append(Batch(NAME, "training-size", f"training-size-{span(seeds)}", options, n_runs))
    return result


def run(batch: Batch, data_dir: Path | None = None) -> Outcome:
    """Compute a batch."""
    outcome = Outcome()
    if batch.part == "one-at-a-time":
        train_one(outcome, _data(0, 3, 100, batch.options, data_dir), batch.options)
        return outcome
    is_size = batch.part == "training-size"
    tasks = _size_tasks(batch) if is_size else _vote_tasks(batch, data_dir)
    run_tasks(outcome, learners()["first-order" if is_size else batch.part], tasks, batch.options)
    return outcome


def _vote_tasks(batch: Batch, data_dir: Path | None) -> list[Task]:
    """Three equal parts, every number of votes; labels for training, calibration and test are shares of votes."""
    options = batch.options
    n, tasks = options["n_part"], []
    for seed in options["seeds"]:
        for n_votes in options["votes"]:
            data = _data(seed, options["n_classes"], n_votes, options, data_dir)
            head = _head(batch, seed, n_votes, n)
            shown = _shown(data.distributions[2 * n : 3 * n]) if seed == 0 and options["n_classes"] == 3 else ()
            train, calibration, test = (_items(data, slice(i * n, (i + 1) * n)) for i in range(3))
            tasks.append(Task(head, train, calibration, test, shown))
    return tasks


def _size_tasks(batch: Batch) -> list[Task]:
    """More and more training items beside the same calibration and test items; labels of 100 votes, and exact ones."""
    options = batch.options
    n, tasks = options["n_size_part"], []
    for seed in options["seeds"]:
        data = make_synthetic(3 * n, 3, n_votes=100, random_state=np.random.default_rng([seed, 3, n]))
        for n_votes in (100, EXACT):
            parts = [_items(data, slice(i * n, (i + 1) * n), exact=n_votes == EXACT) for i in range(3)]
            for size in options["sizes"]:
                train = Items(parts[0].X[:size], parts[0].labels[:size])
                tasks.append(Task(_head(batch, seed, n_votes, size), train, parts[1], parts[2]))
    return tasks


def _head(batch: Batch, seed: int, n_votes: int, n_train: int) -> dict[str, Any]:
    run = {"seed": seed, "n_classes": batch.options["n_classes"], "n_votes": n_votes, "n_train": n_train}
    return {"experiment": NAME, "part": batch.part, **run}


def _data(seed: int, n_classes: int, n_votes: int, options: dict[str, Any], data_dir: Path | None) -> SyntheticData:
    """Generate the data of a seed; the points and their truth are the same for every number of votes."""
    if not options["published_data"]:
        generator = np.random.default_rng([seed, n_classes])
        return make_synthetic(3 * options["n_part"], n_classes, n_votes=n_votes, random_state=generator)
    data = load_synthetic(n_classes, n_votes, data_dir)
    order = np.random.default_rng(seed).permutation(len(data.X))
    return SyntheticData(data.X[order], data.distributions[order], data.counts[order])


def _items(data: SyntheticData, rows: slice, exact: bool = False) -> Items:
    counts, truth = data.counts[rows], data.distributions[rows]
    labels = truth if exact else counts / counts.sum(axis=1, keepdims=True)
    return Items(data.X[rows], labels, truth, counts)


def _shown(truth: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Choose a certain, a middling and an ambiguous item."""
    order = np.argsort(truth.max(axis=1))[::-1]
    return tuple(int(order[int(share * (len(order) - 1))]) for share in (0.1, 0.5, 0.95))
