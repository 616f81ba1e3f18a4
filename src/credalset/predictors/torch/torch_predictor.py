"""Train, or just use, any PyTorch module."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
import torch
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data
from torch import Tensor, nn

from credalset._typing import FloatArray
from credalset._validation import check_choice
from credalset.exceptions import CredalSetWarning
from credalset.predictors.torch.base import Job, TorchEstimator, as_device, forward_in_blocks
from credalset.predictors.torch.heads import Dirichlet, Head, Probabilities, Softmax
from credalset.predictors.torch.training import Trainee

OUTPUTS = {"first": ("logits", "probabilities"), "second": ("relu", "softplus", "exp", "concentration")}


def _is_second_order(predictor: TorchPredictor) -> bool:
    return predictor.order == "second"


@dataclass(eq=False, repr=False)
class TorchPredictor(TorchEstimator):
    """Train a PyTorch module of your own on label distributions, or predict with one that is already trained.

    What the module puts out is declared, and checked as far as it can be: outputs that contradict the declaration are
    refused. ``fit`` trains a copy and leaves ``module`` as it is.

    Parameters
    ----------
    module : nn.Module
        Takes a batch of features and returns (batch, K) numbers. ``fit`` starts from the weights it has.
    order : {"first", "second"}
        Whether it predicts label distributions or Dirichlet concentrations.
    output : str
        First order: ``"logits"`` (softmax is applied) or ``"probabilities"`` (rows that sum to one). Second order:
        ``"relu"``, ``"softplus"`` or ``"exp"``, the link that is applied to raw outputs to give θ = 1 + link(output),
        or ``"concentration"``, θ itself, at least one everywhere.
    prefit : bool
        The module is trained already: predict with it as it is. There is nothing to ``fit``.
    label_clip, output_l2
        As in `SecondOrderNetwork`; second order only.
    optimizer, learning_rate, weight_decay, momentum, batch_size, epochs
        As in `FirstOrderNetwork`.
    early_stopping, validation_fraction, n_iter_no_change, tol, warm_start
        As in `FirstOrderNetwork`.
    random_state, device, verbose
        As in `FirstOrderNetwork`. The seed also governs what the module itself draws while it is trained, its dropout
        for example; the global random state is put back afterwards.

    Attributes
    ----------
    module_ : nn.Module
        The trained module.
    classes_, n_features_in_, loss_curve_, validation_curve_, n_iter_
        As in `FirstOrderNetwork`.

    Examples
    --------
    >>> import credalset as cs
    >>> from torch import nn
    >>> data = cs.datasets.make_synthetic(100, n_classes=3, random_state=0)
    >>> module = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 3))
    >>> predictor = TorchPredictor(module, "first", "logits", epochs=5, random_state=0).fit(data.X, data.counts)
    >>> predictor.predict_proba(data.X[:4]).shape
    (4, 3)

    A module that is already trained:

    >>> prefit = TorchPredictor(predictor.module_, "first", "logits", prefit=True)
    >>> clf = cs.ConformalCredalClassifier(prefit, nonconformity="kl").conformalize(data.X, data.counts)
    """

    module: nn.Module
    order: Literal["first", "second"]
    output: str
    _: KW_ONLY
    prefit: bool = False
    label_clip: float = 1e-6
    output_l2: float = 1e-4

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict label distributions (n, K); the mean of the predicted Dirichlet for a second-order module."""
        prediction = self._predict(X)
        return prediction / prediction.sum(axis=1, keepdims=True) if self.order == "second" else prediction

    @available_if(_is_second_order)  # type: ignore[untyped-decorator]
    def predict_concentration(self, X: Any) -> FloatArray:
        """Predict Dirichlet concentrations (n, K), all of them at least one; second order only."""
        return self._predict(X)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether predictions can be made."""
        return bool(self.prefit) or hasattr(self, "module_")

    def _head(self) -> Head:
        check_choice(self.order, "order", OUTPUTS)
        check_choice(self.output, f"output of a module of {self.order} order", OUTPUTS[self.order])
        if self.order == "second":
            return Dirichlet(self.output, self.label_clip, self.output_l2)
        return Softmax() if self.output == "logits" else Probabilities()

    def _new_module(self, n_classes: int, seed: int) -> nn.Module:
        return deepcopy(_as_module(self.module))

    def _prepare(self, X: Any, Y: Any) -> Job:
        if self.prefit:
            raise ValueError(
                "this TorchPredictor is prefit: its module is used as it is. Pass prefit=False to train a copy of it."
            )
        _as_module(self.module)
        job = super()._prepare(X, Y)
        job.module.to(as_device(self.device))
        self._read(job.module, job.run.x[: self.batch_size], n_classes=len(job.classes))
        return job

    def _key(self, job_shape: Hashable) -> Hashable:
        return id(self)

    def _trainee(self, jobs: Sequence[Job]) -> Trainee:
        (job,) = jobs
        return ModuleTrainee(job.module, as_device(self.device), job.run.x)

    def _train(self, jobs: Sequence[Job]) -> None:
        """Train, with the global random state, from which modules draw, put back afterwards."""
        device = as_device(self.device)
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(jobs[0].seed)
            super()._train(jobs)

    def _features(self, X: Any, *, reset: bool) -> Tensor:
        """Check features of any shape (n, …); tensors are taken as they are."""
        if isinstance(X, Tensor):
            if reset and X.ndim == 2:
                self.n_features_in_ = X.shape[1]
            return X.detach().cpu()
        array = validate_data(self, X, dtype=None, allow_nd=True, reset=reset)
        return torch.from_numpy(np.array(array, dtype=np.float32))

    def _predict(self, X: Any) -> FloatArray:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                "This TorchPredictor is not fitted yet. Call fit, or pass prefit=True if its module is already trained."
            )
        module = _as_module(self.module) if self.prefit else self.module_
        first = self.prefit and not hasattr(self, "n_features_in_")
        n_classes = len(self.classes_) if hasattr(self, "classes_") else None
        return self._read(module, self._features(X, reset=first), n_classes)

    def _read(self, module: nn.Module, x: Tensor, n_classes: int | None) -> FloatArray:
        """Run a module in evaluation mode and check its outputs against their declaration."""
        device = as_device(self.device)
        was_training = module.training
        module.to(device).eval()
        try:
            outputs = forward_in_blocks(module, x, device, None)
        finally:
            module.train(was_training)
        if outputs.ndim != 2 or outputs.shape[0] != len(x) or n_classes not in (None, outputs.shape[1]):
            expected = f"({len(x)}, {n_classes or 'K'})"
            raise ValueError(
                f"the module must return one number per class, shape {expected}, but returns {tuple(outputs.shape)}."
            )
        if self.order == "first" and self.output == "logits":
            _warn_if_probabilities(outputs)
        return self._head().read(outputs)


class ModuleTrainee:
    """One module of any kind, as the training loop takes it: a stack of one run."""

    dropout = 0.0
    mask_width = 0  # a module draws its own dropout

    def __init__(self, module: nn.Module, device: torch.device, x: Tensor) -> None:
        self._module = module.to(device)
        self.parameters: Sequence[Tensor] = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not self.parameters:
            raise ValueError("the module has no parameters to train. Pass prefit=True to predict with it as it is.")
        # Plain feature vectors meet each weight about once. With images or tokens the work is not known.
        is_plain = x.ndim == 2 and x.is_floating_point()
        self.work = float(sum(p.numel() for p in module.parameters())) if is_plain else math.inf
        self._kept: dict[str, Tensor] = {}

    def training_outputs(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return outputs in training mode."""
        outputs: Tensor = self._module.train()(x[0])
        return outputs[None]

    def outputs(self, x: Tensor) -> Tensor:
        """Return outputs in evaluation mode."""
        outputs: Tensor = self._module.eval()(x[0])
        return outputs[None]

    def keep(self, runs: list[int]) -> None:
        """Remember the present weights and buffers."""
        self._kept = {name: value.detach().clone() for name, value in self._module.state_dict().items()}

    def restore(self) -> None:
        """Put back what was kept."""
        self._module.load_state_dict(self._kept)

    def write_back(self) -> None:
        """Nothing to do: the module itself was trained."""


def _as_module(module: Any) -> nn.Module:
    if not isinstance(module, nn.Module):
        hint = " Pass an object, not the class." if isinstance(module, type) else ""
        raise TypeError(f"module must be a torch.nn.Module, but is {module!r}.{hint}")
    return module


def _warn_if_probabilities(outputs: Tensor) -> None:
    sums = outputs.sum(dim=1)
    if len(outputs) > 1 and bool((outputs >= 0).all()) and bool(((sums - 1.0).abs() < 1e-5).all()):
        warnings.warn(
            "the module's output is declared as logits, but every row is a probability distribution. If the module "
            "applies softmax itself, declare output='probabilities'.",
            CredalSetWarning,
            stacklevel=4,
        )
