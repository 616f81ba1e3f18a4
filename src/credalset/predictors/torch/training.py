"""One training loop for every network: a single one, many stacked, or a module of the user's own.

All randomness of a run (order of items, dropout) comes from the run's own generator and is drawn in the same amounts
whether the run is trained alone or among others, so both ways give the same result up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from credalset._progress import progress
from credalset._typing import RandomState
from credalset._validation import as_finite, as_positive_int, as_probability, check_choice
from credalset.predictors.torch.heads import Head

OPTIMIZERS = ("adam", "adamw", "sgd")
BLOCK_ELEMENTS = 1 << 18  # numbers per run that are gathered or drawn at a time
EVALUATION_ROWS = 1024  # items per run that are evaluated at a time
SMALL_STEP = 50_000_000  # multiplications per step below which more threads are not worth their coordination


class Trainee(Protocol):
    """What the loop trains: R runs in one set of tensors, each with the runs along its first axis."""

    parameters: Sequence[Tensor]
    dropout: float
    mask_width: int  # numbers to draw per item for dropout; 0 for none
    work: float  # multiplications per item, over all runs; infinite if unknown

    def training_outputs(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return outputs (R, B, n_outputs) for features (R, B, …), with dropout."""

    def outputs(self, x: Tensor) -> Tensor:
        """Return outputs without dropout."""

    def keep(self, runs: list[int]) -> None:
        """Remember the present weights of these runs."""

    def restore(self) -> None:
        """Put back the weights that were kept."""

    def write_back(self) -> None:
        """Hand the trained weights to the modules they belong to."""


@dataclass(kw_only=True, eq=False, repr=False)
class TrainingOptions:
    """How to train, parameters that every estimator has; see `FirstOrderNetwork` for the meaning of each."""

    optimizer: str = "adam"
    learning_rate: float = 1e-4
    weight_decay: float = 0.0
    momentum: float = 0.9
    batch_size: int = 8
    epochs: int = 100
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 0.0
    warm_start: bool = False
    random_state: RandomState = None
    device: str = "cpu"
    verbose: bool = False

    def _check_options(self) -> None:
        check_choice(self.optimizer, "optimizer", OPTIMIZERS)
        if as_finite(self.learning_rate, "learning_rate") <= 0.0:
            raise ValueError(f"learning_rate must be positive, but is {self.learning_rate!r}.")
        as_finite(self.weight_decay, "weight_decay", minimum=0.0)
        if not 0.0 <= as_finite(self.momentum, "momentum") < 1.0:
            raise ValueError(f"momentum must be at least 0 and below 1, but is {self.momentum!r}.")
        as_positive_int(self.batch_size, "batch_size")
        as_positive_int(self.epochs, "epochs")
        as_probability(self.validation_fraction, "validation_fraction")
        as_positive_int(self.n_iter_no_change, "n_iter_no_change")
        as_finite(self.tol, "tol", minimum=0.0)


@dataclass
class Run:
    """The data and randomness of one run, and what became of it."""

    x: Tensor
    y: Tensor
    generator: torch.Generator
    x_validation: Tensor | None = None
    y_validation: Tensor | None = None
    loss_curve: list[float] = field(default_factory=list)
    validation_curve: list[float] = field(default_factory=list)

    def hold_out(self, fraction: float) -> None:
        """Set a random part of the items aside for validation."""
        n = len(self.x)
        n_held = math.ceil(fraction * n)
        if n_held >= n:
            raise ValueError(
                f"early stopping holds out {n_held} of {n} items, which leaves none to train on. "
                "Pass more items, a smaller validation_fraction, or early_stopping=False."
            )
        order = torch.randperm(n, generator=self.generator)
        held, kept = order[:n_held], order[n_held:]
        self.x_validation, self.y_validation = self.x[held], self.y[held]
        self.x, self.y = self.x[kept], self.y[kept]


def train(trainee: Trainee, head: Head, runs: Sequence[Run], options: TrainingOptions) -> None:
    """Train all runs together, in place; every run needs the same number of items."""
    if options.early_stopping:
        for run in runs:
            run.hold_out(options.validation_fraction)
    optimizer = make_optimizer(trainee.parameters, options)
    watch = _EarlyStopping(trainee, head, runs, options) if options.early_stopping else None
    with progress("Training", options.epochs, shown=bool(options.verbose)) as advance:
        for epoch in range(options.epochs):
            losses = _train_epoch(trainee, head, runs, options.batch_size, optimizer)
            _check_finite(losses, epoch)
            for i, (run, loss) in enumerate(zip(runs, losses, strict=True)):
                if watch is None or watch.active[i]:
                    run.loss_curve.append(loss)
            advance(1, f"loss {sum(losses) / len(losses):.4f}")
            if watch is not None and not watch.goes_on(epoch):
                break
    if watch is not None:
        trainee.restore()


def make_optimizer(parameters: Sequence[Tensor], options: TrainingOptions) -> torch.optim.Optimizer:
    """Build the optimiser; the fused kernels pass over the weights once per step."""
    common: dict[str, Any] = {"lr": options.learning_rate, "weight_decay": options.weight_decay}
    if options.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=options.momentum, **common)
    kind = torch.optim.Adam if options.optimizer == "adam" else torch.optim.AdamW
    can_fuse = parameters[0].device.type in ("cpu", "cuda") and all(p.is_floating_point() for p in parameters)
    return kind(parameters, fused=can_fuse or None, **common)


def one_thread_if_small(trainee: Trainee, batch_size: int) -> AbstractContextManager[None]:
    """Use one thread while the steps are too small to be worth sharing."""
    return one_thread() if batch_size * trainee.work < SMALL_STEP else nullcontext()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch compute on one thread; the setting is put back afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _train_epoch(
    trainee: Trainee, head: Head, runs: Sequence[Run], batch_size: int, optimizer: torch.optim.Optimizer
) -> list[float]:
    """Pass over all items once; return the mean loss of each run."""
    total = torch.zeros(len(runs), device=trainee.parameters[0].device)
    for x, y, mask in _batches(trainee, runs, batch_size):
        loss = head.batch_loss(trainee.training_outputs(x, mask), y)
        optimizer.zero_grad()
        loss.sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total += loss.detach() * x.shape[1]
    losses: list[float] = (total / len(runs[0].x)).tolist()
    return losses


def _batches(trainee: Trainee, runs: Sequence[Run], batch_size: int) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """Yield shuffled batches (R, B, …) of all runs, gathered a block of batches at a time."""
    first = runs[0]
    device = trainee.parameters[0].device
    orders = [torch.randperm(len(first.x), generator=run.generator) for run in runs]
    per_item = first.x[0].numel() + first.y[0].numel() + trainee.mask_width
    block = batch_size * max(1, BLOCK_ELEMENTS // (batch_size * per_item))
    for start in range(0, len(first.x), block):
        rows = [order[start : start + block] for order in orders]
        x = torch.stack([run.x[row] for run, row in zip(runs, rows, strict=True)]).to(device)
        y = torch.stack([run.y[row] for run, row in zip(runs, rows, strict=True)]).to(device)
        masks = _draw_masks(trainee, runs, len(rows[0]))
        for at in range(0, x.shape[1], batch_size):
            batch = slice(at, at + batch_size)
            yield x[:, batch], y[:, batch], None if masks is None else masks[:, batch]


def _draw_masks(trainee: Trainee, runs: Sequence[Run], n_items: int) -> Tensor | None:
    """Draw what the last hidden layer is multiplied with: 0, or 1/(1 − dropout) to keep its mean."""
    if trainee.mask_width == 0:
        return None
    draws = [torch.rand(n_items, trainee.mask_width, generator=run.generator) for run in runs]
    kept = torch.stack(draws).to(trainee.parameters[0].device) >= trainee.dropout
    return kept.to(trainee.parameters[0].dtype) / (1.0 - trainee.dropout)


def _check_finite(losses: list[float], epoch: int) -> None:
    odd = [i for i, loss in enumerate(losses) if not math.isfinite(loss)]
    if odd:
        which = f" of run {odd[0]}" if len(losses) > 1 else ""
        raise ValueError(
            f"training diverged: the loss{which} is {losses[odd[0]]} in epoch {epoch + 1}. "
            "Lower learning_rate, standardise the features, or choose another link."
        )


class _EarlyStopping:
    """Watches the validation loss, has each run's best weights kept and tells which runs go on.

    A run that has stopped stays in the stack, where its further steps are ignored.
    """

    def __init__(self, trainee: Trainee, head: Head, runs: Sequence[Run], options: TrainingOptions) -> None:
        self._trainee, self._head, self._runs, self._options = trainee, head, runs, options
        device = trainee.parameters[0].device
        self._x = torch.stack([run.x_validation for run in runs if run.x_validation is not None]).to(device)
        self._y = torch.stack([run.y_validation for run in runs if run.y_validation is not None]).to(device)
        self._best = [math.inf] * len(runs)
        self._best_epoch = [0] * len(runs)
        self.active = [True] * len(runs)

    def goes_on(self, epoch: int) -> bool:
        """Evaluate the runs after an epoch; tell whether any of them goes on."""
        improved = []
        for i, (run, loss) in enumerate(zip(self._runs, self._evaluate(), strict=True)):
            if not self.active[i]:
                continue
            run.validation_curve.append(loss)
            if loss < self._best[i] - self._options.tol:
                self._best[i], self._best_epoch[i] = loss, epoch
                improved.append(i)
            elif epoch - self._best_epoch[i] >= self._options.n_iter_no_change:
                self.active[i] = False
        if improved:
            self._trainee.keep(improved)
        return any(self.active)

    def _evaluate(self) -> list[float]:
        total = torch.zeros(len(self._runs), device=self._x.device)
        with torch.no_grad():
            for start in range(0, self._x.shape[1], EVALUATION_ROWS):
                rows = slice(start, start + EVALUATION_ROWS)
                total += self._head.item_loss(self._trainee.outputs(self._x[:, rows]), self._y[:, rows]).sum(dim=-1)
        losses: list[float] = (total / self._x.shape[1]).tolist()
        return losses
