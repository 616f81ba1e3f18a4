"""Why second-order networks lose outputs, and what helps: ``python -m reproduction learner``.

Every trial trains the same twenty networks of the synthetic experiment, three classes, five and a
hundred votes, ten seeds, in one way, and measures the sets of ``so``. The ways differ in the
weights at the start, the gradient where θ = 1, the link, and the labels: plain shares of votes, or
shares that were smoothed to (mλ + ½) / (m + K/2), in training alone or in the score as well.

A second table has the network as published and the default on the logits of CIFAR-10H, for the
paper's ten epochs and for a hundred.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from credalset._typing import FloatArray
from credalset.calibration import conformalize
from credalset.calibration.levels import conformal_rank
from credalset.exceptions import CredalSetWarning
from credalset.predictors import SecondOrderNetwork
from credalset.predictors.torch.base import Network
from credalset.scores import RelativeLikelihood
from credalset.simplex import grid
from reproduction import cifar10h, synthetic
from reproduction.measure import GRID_STEP
from reproduction.runs import Task
from reproduction.stacked import fit_together
from reproduction.tables import markdown

ALPHA = 0.1
VOTES = (5, 100)
MEASURED_ITEMS = 100  # test items whose sets are measured on the grid
EPOCHS = (10, 100)  # on the logits of CIFAR-10H


class PyTorchStart(SecondOrderNetwork):
    """Starts from the weights that PyTorch gives a linear layer."""

    def _build_module(self, n_features: int, n_classes: int) -> nn.Sequential:
        return Network._build_module(self, n_features, n_classes)


class Leaky(SecondOrderNetwork):
    """Passes a tenth of every gradient below z = 0."""

    def _excess(self, outputs: Tensor) -> Tensor:
        below = outputs.clamp(max=0.0)
        return torch.relu(outputs) + 0.1 * (below - below.detach())


class ZeroBiases(SecondOrderNetwork):
    """Treats θ ≥ 1 as a constraint, but starts from biases of zero."""

    def _build_module(self, n_features: int, n_classes: int) -> nn.Sequential:
        module = super()._build_module(n_features, n_classes)
        nn.init.zeros_(module[-1].bias)  # type: ignore[arg-type]
        return module


class Softplus(SecondOrderNetwork):
    """θ = 1 + softplus(z)."""

    link: Callable[[Tensor], Tensor] = staticmethod(nn.functional.softplus)

    def _excess(self, outputs: Tensor) -> Tensor:
        return self.link(outputs)

    def predict_concentration(self, X: Any) -> FloatArray:
        """Predict concentrations above one."""
        return (1.0 + self.link(self._outputs(X))).numpy()


class Exponential(Softplus):
    """θ = 1 + exp(z)."""

    link = staticmethod(torch.exp)


@dataclass(frozen=True)
class Trial:
    """A way to train: a network, its options, and where labels are smoothed."""

    name: str
    network: type[SecondOrderNetwork] = SecondOrderNetwork
    recovers: bool = False
    smooth_training: bool = False
    smooth_score: bool = False


DEFAULT = Trial("and biases of the outputs start at one (**the default**)", recovers=True)
TRIALS = (
    Trial("as published (`recovers=False`)"),
    Trial("as published, PyTorch's weights", PyTorchStart),
    Trial("as published, labels smoothed in training", smooth_training=True),
    Trial(
        "as published, labels smoothed in training and score",
        smooth_training=True,
        smooth_score=True,
    ),
    Trial("a tenth of every gradient passes below zero", Leaky),
    Trial("gradient that raises θ passes below zero", ZeroBiases, recovers=True),
    DEFAULT,
    Trial("the default, labels smoothed in training", recovers=True, smooth_training=True),
    Trial(
        "the default, labels smoothed in training and score",
        recovers=True,
        smooth_training=True,
        smooth_score=True,
    ),
    Trial("softplus", Softplus),
    Trial("exp", Exponential),
    Trial(
        "softplus, labels smoothed in training and score",
        Softplus,
        smooth_training=True,
        smooth_score=True,
    ),
)


def run(n_seeds: int, epochs: int, tell: Callable[[str], None]) -> str:
    """Run all trials and return their table; ``tell`` gets a line for each."""
    settings = synthetic.settings() | {"votes": list(VOTES), "classes": [3]}
    batches = synthetic.batches(settings, n_seeds)
    tasks = [
        task for batch in batches if batch.part == "second-order" for task in synthetic.tasks(batch)
    ]
    lines = []
    for trial in TRIALS:
        found = _measure(trial, tasks, epochs)
        lines.append([trial.name, *found])
        tell(" | ".join(lines[-1]))
    each = ("volume", "coverage", "dead output", "infinite")
    head = [f"m = {m}: {name}" if name == "volume" else name for m in VOTES for name in each]
    return markdown(["trained", *head], lines)


def run_on_images(
    n_seeds: int, epochs: tuple[int, ...], data_dir: Path | None, tell: Callable[[str], None]
) -> str:
    """Train on logits of CIFAR-10H, ten classes, as published and by default; return a table."""
    batches = cifar10h.batches(cifar10h.settings(data_dir=data_dir), n_seeds)
    splits = [
        task
        for batch in batches
        if batch.part == "second-order"
        for task in cifar10h.tasks(batch, data_dir)
    ]
    lines = []
    for n_epochs in epochs:
        for trial in (TRIALS[0], DEFAULT):
            found = _measure_images(trial, splits, n_epochs)
            name = "as published" if trial is TRIALS[0] else "the default"
            lines.append([f"{name}, {n_epochs} epochs", *found])
            tell(" | ".join(lines[-1]))
    head = ["trained on logits of CIFAR-10H", "coverage", "width", "uniform density", "infinite"]
    return markdown(head, lines)


def _measure_images(trial: Trial, splits: list[Task], epochs: int) -> list[str]:
    networks = [
        trial.network(epochs=epochs, recovers=trial.recovers, random_state=task.head["seed"])
        for task in splits
    ]
    fit_together(
        networks, [task.train.inputs for task in splits], [task.train.labels for task in splits]
    )
    found = []
    for task, network in zip(splits, networks, strict=True):
        calibrating, tested = (
            network.predict_concentration(part.inputs) for part in (task.calibration, task.test)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CredalSetWarning)  # infinite thresholds are counted
            calibrated = conformalize(calibrating, task.calibration.labels, "so")
            sets = calibrated.predict_set(tested, ALPHA)
            threshold = calibrated.threshold(ALPHA)
        found.append(
            (
                sets.contains(task.test.labels).mean(),
                sets.width().mean(),
                (tested == 1.0).all(axis=1).mean(),
                math.isinf(threshold),
            )
        )
    coverage, width, uniform, infinite = np.array(found).T
    shares = [f"{coverage.mean():.3f}", _with_spread(width), f"{uniform.mean():.2f}"]
    return [*shares, f"{int(infinite.sum())}"]


def smoothed(shares: FloatArray, n_votes: int) -> FloatArray:
    """Return (mλ + ½) / (m + K/2).

    Examples
    --------
    >>> smoothed(np.array([0.0, 1.0]), 1)
    array([0.25, 0.75])
    """
    return (n_votes * shares + 0.5) / (n_votes + 0.5 * shares.shape[-1])


def _measure(trial: Trial, tasks: list[Task], epochs: int) -> list[str]:
    """Train a network per task; return the columns of the table."""
    networks = [
        trial.network(epochs=epochs, recovers=trial.recovers, random_state=task.head["seed"])
        for task in tasks
    ]
    labels = [
        smoothed(task.train.labels, task.head["n_votes"])
        if trial.smooth_training
        else task.train.labels
        for task in tasks
    ]
    fit_together(networks, [task.train.inputs for task in tasks], labels)
    text = []
    for n_votes in VOTES:
        found = np.array(
            [
                _sets(trial, task, network)
                for task, network in zip(tasks, networks, strict=True)
                if task.head["n_votes"] == n_votes
            ]
        )
        volume, coverage, dead, infinite = found.T
        text += [
            _with_spread(volume),
            f"{coverage.mean():.3f}",
            f"{int(dead.sum())}",
            f"{int(infinite.sum())}",
        ]
    return text


def _with_spread(values: FloatArray) -> str:
    """Write a mean and the standard deviation over seeds, if there is more than one."""
    spread = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{spread}"


def _sets(trial: Trial, task: Task, network: SecondOrderNetwork) -> tuple[float, ...]:
    """Return volume and coverage of a network's sets, and if an output or all sets are lost."""
    n_votes = task.head["n_votes"]

    def scores(concentration: FloatArray, shares: FloatArray) -> FloatArray:
        seen = smoothed(shares, n_votes) if trial.smooth_score else shares
        return RelativeLikelihood().evaluate_pairs(concentration, seen)

    calibrating, tested = (
        network.predict_concentration(part.inputs) for part in (task.calibration, task.test)
    )
    own = np.sort(scores(calibrating, task.calibration.labels[:, None])[:, 0])
    threshold = float(own[conformal_rank(len(own), ALPHA) - 1])
    covered = scores(tested, task.test.labels[:, None])[:, 0] <= threshold
    points = grid(3, GRID_STEP)[None]
    inside = scores(tested[:: len(tested) // MEASURED_ITEMS], points) <= threshold
    dead = bool((np.concatenate([calibrating, tested]) == 1.0).all(axis=0).any())
    return float(inside.mean()), float(covered.mean()), dead, math.isinf(threshold)
