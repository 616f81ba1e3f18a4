"""Train the learners of a batch together and measure what they predict."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from credalset._typing import FloatArray, IntArray
from credalset.exceptions import CredalSetWarning
from credalset.experiments.batch import Outcome, Row
from credalset.experiments.measure import (
    Effort,
    Part,
    example_rows,
    first_order_scores,
    measure,
    second_order_scores,
)
from credalset.scores import Score, get_score


@dataclass(frozen=True)
class Items:
    """Features and label distributions of some items; ``truth`` and ``counts`` where votes are simulated."""

    X: FloatArray
    labels: FloatArray
    truth: FloatArray | None = None
    counts: IntArray | None = None


@dataclass(frozen=True)
class Task:
    """One run: the data of its three parts, and which test items to keep for pictures."""

    head: Row
    train: Items
    calibration: Items
    test: Items
    shown: tuple[int, ...] = ()


@dataclass(frozen=True)
class Learner:
    """How predictions come about, and the scores that take them."""

    make: Callable[[int, int], Any] | None  # from epochs and seed to an estimator; None: the features are predictions
    predict: Callable[[Any, FloatArray], Any]
    scores: Callable[[float], dict[str, Score]]
    learns_counts: bool = False


#: learners of data with many votes per item, and those that only simulated votes call for
TRAINED = ("first-order", "second-order", "mixture")
WITH_FEW_VOTES = (*TRAINED, "mixture-counts")


def learners() -> dict[str, Learner]:
    """Return the learners by the name of the part of an experiment that they make up."""
    return {
        "prefit": Learner(None, lambda _, X: X, first_order_scores),
        "first-order": Learner(_first_order, lambda network, X: network.predict_proba(X), first_order_scores),
        "second-order": Learner(
            _second_order, lambda network, X: network.predict_concentration(X), lambda _: second_order_scores()
        ),
        "mixture": Learner(
            _mixture, lambda network, X: network.predict_density(X), lambda _: {"mixture": get_score("density")}
        ),
        "mixture-counts": Learner(
            _mixture_of_counts,
            lambda network, X: network.predict_density(X),
            lambda _: {"mixture-counts": get_score("density")},
            learns_counts=True,
        ),
    }


def run_tasks(outcome: Outcome, learner: Learner, tasks: Sequence[Task], options: dict[str, Any]) -> None:
    """Train, predict and measure; rows, examples and times are added to the outcome."""
    with one_torch_thread(), warnings.catch_warnings():
        # Infinite thresholds and empty sets are columns of the result, no need to warn of them as well.
        warnings.simplefilter("ignore", CredalSetWarning)
        with outcome.timed("training"):
            fitted = _fit(learner, tasks, options["epochs"])
        with outcome.timed("measuring"):
            for task, estimator in zip(tasks, fitted, strict=True):
                _measure_task(outcome, learner, task, estimator, options)


def _fit(learner: Learner, tasks: Sequence[Task], epochs: int) -> list[Any]:
    if learner.make is None:
        return [None] * len(tasks)
    from credalset.predictors import fit_many

    networks = [learner.make(epochs, task.head["seed"]) for task in tasks]
    return fit_many(networks, [(task.train.X, _targets(learner, task.train)) for task in tasks])


def _targets(learner: Learner, train: Items) -> Any:
    if learner.learns_counts:
        assert train.counts is not None
        return train.counts
    return train.labels


def _measure_task(outcome: Outcome, learner: Learner, task: Task, estimator: Any, options: dict[str, Any]) -> None:
    calibration, test = (
        Part(learner.predict(estimator, items.X), items.labels, items.truth) for items in (task.calibration, task.test)
    )
    effort = Effort(options["volume_sets"], options["volume_rays"])
    for name, score in learner.scores(options["offset"]).items():
        head = {**task.head, "score": name}
        outcome.rows += measure(head, score, calibration, test, options["alphas"], effort)
        if task.shown:
            alpha = options["shown_alpha"]
            outcome.examples += example_rows(head, score, calibration, test, alpha, task.shown)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Train on one thread: sums then add up in the same order on every machine, and jobs do not crowd each other."""
    try:
        import torch
    except ImportError:  # only learners need it, and they complain by themselves
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _first_order(epochs: int, seed: int) -> Any:
    from credalset.predictors import FirstOrderNetwork

    return FirstOrderNetwork(epochs=epochs, random_state=seed)


def _second_order(epochs: int, seed: int) -> Any:
    from credalset.predictors import SecondOrderNetwork

    return SecondOrderNetwork(epochs=epochs, random_state=seed)


def _mixture(epochs: int, seed: int, likelihood: str = "density") -> Any:
    """A learner that is not in the paper, with its own defaults; ``epochs`` only shortens its training."""
    from credalset.predictors import DirichletMixtureNetwork

    shorter = min(epochs, DirichletMixtureNetwork().epochs)
    return DirichletMixtureNetwork(likelihood=likelihood, epochs=shorter, random_state=seed)


def _mixture_of_counts(epochs: int, seed: int) -> Any:
    """Model the distribution behind the votes rather than their shares: with few votes, these are far apart."""
    return _mixture(epochs, seed, "counts")
