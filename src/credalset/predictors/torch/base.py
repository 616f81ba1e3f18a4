"""What every PyTorch estimator shares: reading labels, seeding, training, predicting in blocks, saving.

A subclass says what its outputs mean (`_head`), where its module comes from (`_new_module`) and how a list of jobs is
trained together (`_trainee`). A learner that needs more than label distributions (counts, say) overrides `_targets`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from credalset._guessing import explained
from credalset._typing import AnyArray, FloatArray
from credalset._validation import as_generator
from credalset.annotations.labels import Labels
from credalset.predictors.labels import read_labels
from credalset.predictors.scoring import SoftScoring
from credalset.predictors.torch.heads import Head
from credalset.predictors.torch.training import Run, Trainee, TrainingOptions, one_thread_if_small, train

PREDICTION_ROWS = 4096
MAX_STACK = 64  # runs per stack: beyond it memory grows and speed does not


@dataclass
class Job:
    """One fit, prepared: everything is checked, nothing is trained yet."""

    estimator: TorchEstimator
    module: nn.Module
    run: Run
    classes: AnyArray
    seed: int
    #: jobs with equal keys have the same shape and settings, and can be trained together
    key: Hashable


class TorchEstimator(SoftScoring, ClassifierMixin, TrainingOptions, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators that train a PyTorch module on label distributions.

    Estimators are data classes: their fields are the parameters of their constructors, which only store them.
    """

    #: tells `ConformalCredalClassifier` that ``fit`` takes label distributions
    accepts_label_distributions = True

    @explained
    def fit(self, X: Any, Y: Any) -> Self:
        """Train the network.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features. They are not scaled; put a ``StandardScaler`` before the network if theirs differ.
        Y : array of shape (n, K), Annotations, or array of n labels
            Label distributions, annotation counts, or one label per item (read as one vote). Every item weighs the
            same, however many votes it has.
        """
        return fit_many([self], [(X, Y)])[0]

    def save(self, path: str | Path) -> None:
        """Write the estimator to a directory without pickle; read it with `credalset.load`."""
        check_is_fitted(self)
        from credalset.io.store import save

        save(self, path)

    @abstractmethod
    def predict_proba(self, X: Any) -> FloatArray:
        """Predict label distributions (n, K)."""

    # --- what a subclass provides ---

    @abstractmethod
    def _head(self) -> Head:
        """Say what the outputs mean."""

    @abstractmethod
    def _new_module(self, n_classes: int, seed: int) -> nn.Module:
        """Return the module to train."""

    @abstractmethod
    def _trainee(self, jobs: Sequence[Job]) -> Trainee:
        """Put the modules of several jobs into a form that the training loop takes."""

    def _check_continues(self, n_classes: int) -> None:
        """Refuse a warm start whose parameters do not fit the network that was trained before."""
        return

    def _targets(self, labels: Labels) -> FloatArray:
        """Return what the head's loss compares outputs with, (n, …)."""
        return labels.distributions

    def _features(self, X: Any, *, reset: bool) -> Tensor:
        """Check features and return them as a tensor; single precision for training."""
        return torch.from_numpy(np.array(validate_data(self, X, dtype=np.float32, reset=reset)))

    def _key(self, job_shape: Hashable) -> Hashable:
        """Return equal values for jobs that can be trained together."""
        own = {name: value for name, value in self.get_params(deep=False).items() if name != "random_state"}
        return type(self), repr(sorted(own.items())), job_shape

    def _join(self, modules: Sequence[nn.Module]) -> nn.Module:
        """Make one module of those that were trained: the only one, unless the estimator has several networks."""
        return modules[0]

    @property
    def _goes_on(self) -> bool:
        """Whether ``fit`` starts from what was learned before."""
        return bool(self.warm_start) and hasattr(self, "module_")

    # --- the steps of fit ---

    def _jobs(self, X: Any, Y: Any) -> list[Job]:
        """Set up everything that is to be trained: one network, unless the estimator has several."""
        return [self._prepare(X, Y)]

    def _prepare(self, X: Any, Y: Any) -> Job:
        """Check everything and set up the training of this estimator."""
        self._check_options()
        self._head()
        as_device(self.device)
        goes_on = self._goes_on
        x = self._features(X, reset=not goes_on)
        labels = read_labels(Y, X, classes=self.classes_ if goes_on else None)
        targets, classes = self._targets(labels), labels.class_names()
        if len(x) != len(targets):
            raise ValueError(f"X has {len(x)} items, but Y has {len(targets)}.")
        if goes_on:
            self._check_continues(len(classes))
        epochs_done = self.n_iter_ if goes_on else 0
        init_seed, run_seed = _seeds(self.random_state, epochs_done)
        module = deepcopy(self.module_) if goes_on else self._new_module(len(classes), init_seed)
        y = torch.from_numpy(targets.astype(np.float32))
        run = Run(x, y, torch.Generator().manual_seed(run_seed))
        key = self._key((tuple(x.shape), tuple(y.shape)))
        return Job(self, module, run, classes, init_seed, key)

    def _train(self, jobs: Sequence[Job]) -> None:
        """Train jobs with equal keys together."""
        trainee = self._trainee(jobs)
        with one_thread_if_small(trainee, self.batch_size):
            train(trainee, self._head(), [job.run for job in jobs], self)
        trainee.write_back()

    def _finish(self, jobs: Sequence[Job]) -> None:
        """Take over what was learned; curves of several networks are averaged."""
        earlier: list[float] = self.loss_curve_ if self._goes_on else []
        self.module_ = self._join([job.module for job in jobs]).eval()
        self.classes_ = jobs[0].classes
        self.loss_curve_: list[float] = [*earlier, *_mean_curve([job.run.loss_curve for job in jobs])]
        self.n_iter_ = len(self.loss_curve_)
        self.__dict__.pop("validation_curve_", None)
        if self.early_stopping:
            self.validation_curve_ = _mean_curve([job.run.validation_curve for job in jobs])

    # --- prediction ---

    def _predict_outputs(self, X: Any) -> Tensor:
        """Return the outputs of the trained network, in double precision where the device has it."""
        check_is_fitted(self)
        device = as_device(self.device)
        dtype = torch.float32 if device.type == "mps" else torch.float64
        module = deepcopy(self.module_).to(device=device, dtype=dtype).eval()
        x = torch.from_numpy(np.array(validate_data(self, X, dtype=np.float64, reset=False)))
        return forward_in_blocks(module, x, device, dtype)


Estimator = TypeVar("Estimator", bound=TorchEstimator)


def fit_many(estimators: Sequence[Estimator], data: Iterable[tuple[Any, Any]]) -> list[Estimator]:
    """Fit estimator i to data set i, training those of the same shape together.

    Networks of a few thousand weights spend most of their training time between the operations. Stacking the weights
    of R runs turns R small matrix products into one batched product, which takes a fraction of the time. Each run
    keeps its own data, seed, order of items and dropout, and ends where ``fit`` alone would have ended, up to rounding.

    Estimators are trained together if their type, their parameters except ``random_state``, and the shapes of their
    data agree; the others form stacks of their own, or are trained alone. A `TorchPredictor` is always trained alone.

    Parameters
    ----------
    estimators : sequence of estimators
        `FirstOrderNetwork`, `SecondOrderNetwork` or `TorchPredictor` objects, each a different one.
    data : iterable of pairs (X, Y)
        One data set per estimator, as ``fit`` takes it. The same arrays may appear many times.

    Returns
    -------
    list
        The estimators, fitted.

    Examples
    --------
    >>> import credalset as cs
    >>> from credalset.predictors import FirstOrderNetwork
    >>> data = cs.datasets.make_synthetic(100, random_state=0)
    >>> networks = [FirstOrderNetwork(hidden=(8,), epochs=2, random_state=seed) for seed in range(5)]
    >>> [network.n_iter_ for network in fit_many(networks, [(data.X, data.counts)] * 5)]
    [2, 2, 2, 2, 2]
    """
    estimators = list(estimators)
    pairs = list(data)
    if len(estimators) != len(pairs):
        raise ValueError(
            f"there are {len(estimators)} estimators, but {len(pairs)} data sets. Pass one (X, Y) for each."
        )
    if len({id(estimator) for estimator in estimators}) < len(estimators):
        raise ValueError("the same estimator appears twice. Pass sklearn.base.clone(estimator) for each run.")
    groups: dict[Hashable, list[Job]] = defaultdict(list)
    shared: dict[Hashable, Tensor] = {}
    own_jobs = []
    for estimator, (X, Y) in zip(estimators, pairs, strict=True):
        own_jobs.append(estimator._jobs(X, Y))
        for job in own_jobs[-1]:
            # Runs on the same features share one tensor, which none of them changes.
            job.run.x = shared.setdefault((type(estimator), id(X)), job.run.x)
            groups[job.key].append(job)
    for group in groups.values():
        for start in range(0, len(group), MAX_STACK):
            stack = group[start : start + MAX_STACK]
            stack[0].estimator._train(stack)
    for estimator, jobs in zip(estimators, own_jobs, strict=True):
        estimator._finish(jobs)
    return estimators


def _mean_curve(curves: Sequence[Sequence[float]]) -> list[float]:
    """Average over the networks that were still training."""
    longest = max(map(len, curves))
    return [float(np.mean([curve[i] for curve in curves if i < len(curve)])) for i in range(longest)]


def as_device(name: Any) -> torch.device:
    """Check the name of a device and that it is there."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {name!r} cannot be used here: {reason}. Use device='cpu'.") from None
    return device


def forward_in_blocks(module: nn.Module, x: Tensor, device: torch.device, dtype: torch.dtype | None) -> Tensor:
    """Run a module over the items, a block at a time; outputs come back on the CPU in double precision."""
    blocks = []
    with torch.no_grad():
        for start in range(0, max(1, len(x)), PREDICTION_ROWS):
            block = x[start : start + PREDICTION_ROWS].to(device)
            outputs = module(block if dtype is None else block.to(dtype))
            blocks.append(outputs.detach().cpu().to(torch.float64))
    outputs = torch.cat(blocks)
    if not bool(torch.isfinite(outputs).all()):
        raise ValueError("the network's output contains NaN or infinity. Are the features far from those it learned?")
    return outputs


def _seeds(random_state: Any, epochs_done: int) -> tuple[int, int]:
    """Return independent seeds for the first weights and for the run; a warm start goes on with fresh ones."""
    root = int(as_generator(random_state).integers(2**63))
    first, run = np.random.SeedSequence([root, epochs_done]).generate_state(2, np.uint64) >> np.uint64(1)
    return int(first), int(run)
