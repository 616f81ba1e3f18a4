"""Train the learners of a batch together and measure what they predict."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credalset._typing import AnyArray, FloatArray, IntArray
from credalset.calibration import conformalize
from credalset.exceptions import CredalSetWarning
from reproduction.batch import Outcome, Row
from reproduction.measure import (
    ALL_FIRST_ORDER,
    SECOND_ORDER,
    Part,
    example_rows,
    measure,
    score_named,
)

#: settings that all experiments share, and how a quick run differs
COMMON = {"offset": 0.0, "volume_sets": 50, "volume_rays": 128}
QUICK = {"volume_sets": 10, "volume_rays": 32}


@dataclass(frozen=True)
class Task:
    """One run: the data of its three parts, and which test items to keep for pictures.

    A run that is not ``measured`` serves pictures only.
    """

    head: Row
    train: Part
    calibration: Part
    test: Part
    shown: tuple[int, ...] = ()
    names: tuple[str, ...] = ()  # of the items that are shown
    measured: bool = True


@dataclass(frozen=True)
class Learner:
    """A network of `credalset.predictors`, its prediction method, and the scores to calibrate."""

    network: str = ""  # none: the features are predictions already
    method: str = "predict_proba"
    scores: tuple[str, ...] = ALL_FIRST_ORDER
    options: tuple[tuple[str, Any], ...] = ()


#: learners by the name of the part of an experiment that they make up
LEARNERS = {
    "prefit": Learner(),
    "first-order": Learner("FirstOrderNetwork"),
    "second-order": Learner("SecondOrderNetwork", "predict_concentration", SECOND_ORDER),
    "second-order-published": Learner(
        "SecondOrderNetwork", "predict_concentration", SECOND_ORDER, (("recovers", False),)
    ),
}
TRAINED = ("first-order", "second-order", "second-order-published")


def run_tasks(batches: Sequence[Sequence[Task]], options: dict[str, Any]) -> list[Outcome]:
    """Train the tasks of all batches together, then predict and measure.

    Each batch gets its share of the time.
    """
    import torch

    learner = LEARNERS[options["learner"]]
    training = Outcome()
    outcomes = []
    # On one thread sums add up in the same order on every machine, and processes do not crowd each
    # other.
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        # Infinite thresholds and empty sets are columns of the result, no need to warn of them as
        # well.
        warnings.simplefilter("ignore", CredalSetWarning)
        with training.timed("training"):
            networks = iter(
                _fit(learner, [task for tasks in batches for task in tasks], options["epochs"])
            )
        for tasks in batches:
            outcomes.append(
                Outcome(
                    seconds={
                        stage: spent / len(batches) for stage, spent in training.seconds.items()
                    }
                )
            )
            with outcomes[-1].timed("measuring"):
                for task in tasks:
                    _measure_task(outcomes[-1], learner, task, next(networks), options)
    return outcomes


def parts_of(inputs: Any, counts: IntArray, rows: Iterable[AnyArray]) -> tuple[Part, Part, Part]:
    """Return the training, calibration and test items by their rows; labels are shares of votes."""
    labels = counts / counts.sum(axis=1, keepdims=True)
    train, calibration, test = (
        Part(inputs[some], labels[some], counts=counts[some]) for some in rows
    )
    return train, calibration, test


def shown_items(labels: FloatArray, last: float) -> tuple[int, ...]:
    """Choose a clear, a middling and an ambiguous item to draw.

    ``last`` is how far down the third one comes.
    """
    order = np.argsort(labels.max(axis=1))[::-1]
    return tuple(int(order[int(share * (len(order) - 1))]) for share in (0.1, 0.5, last))


def _fit(learner: Learner, tasks: Sequence[Task], epochs: int) -> list[Any]:
    """Train a network per task, those with equally many items in stacks."""
    if not learner.network:
        return [None] * len(tasks)
    from credalset import predictors
    from reproduction.stacked import fit_together

    kind = getattr(predictors, learner.network)
    networks = [
        kind(epochs=epochs, random_state=task.head["seed"], **dict(learner.options))
        for task in tasks
    ]
    stacks: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, task in enumerate(tasks):
        stacks[len(task.train.labels), len(task.train.labels.T)].append(i)
    for members in stacks.values():
        parts = [tasks[i].train for i in members]
        labels = [part.labels for part in parts]
        fit_together([networks[i] for i in members], [part.inputs for part in parts], labels)
    return networks


def _measure_task(
    outcome: Outcome, learner: Learner, task: Task, network: Any, options: dict[str, Any]
) -> None:
    parts = [task.calibration, task.test]
    if network is not None:
        parts = [
            replace(part, inputs=getattr(network, learner.method)(part.inputs)) for part in parts
        ]
    calibration, test = parts
    for name in learner.scores:
        head = {
            **task.head,
            "score": name,
            "n_calibration": len(calibration.labels),
            "n_test": len(test.labels),
        }
        calibrated = conformalize(
            calibration.inputs, calibration.labels, score_named(name, options["offset"])
        )
        effort = {"max_sets": options["volume_sets"], "n_rays": options["volume_rays"]}
        if task.measured:
            outcome.rows += measure(head, calibrated, test, options["alphas"], **effort)
        if task.shown:
            outcome.examples += example_rows(
                head, calibrated, test, options["shown_alpha"], task.shown, task.names
            )
