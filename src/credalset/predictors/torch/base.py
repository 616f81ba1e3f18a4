"""Base class of the networks: parameters, training on label distributions, prediction."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from credalset._display import progress
from credalset._typing import FloatArray, RandomState
from credalset._validation import as_finite, as_generator, as_positive_int, as_probability, unmasked
from credalset.io.store import Saved
from credalset.predictors.labels import SoftScoring, class_array, read_labels

PREDICTION_ROWS = 4096  # batch size of predictions


@dataclass(eq=False, repr=False)
class Network(Saved, SoftScoring, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fully connected network that is trained on label distributions.

    The fields are the parameters of the constructor; `FirstOrderNetwork` documents them. A subclass
    defines the number of outputs, the loss and the predictions.
    """

    hidden: Sequence[int] = (256, 64, 16)
    _: KW_ONLY
    dropout: float = 0.3
    learning_rate: float = 1e-4
    weight_decay: float = 0.0
    batch_size: int = 8
    epochs: int = 100
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    random_state: RandomState = None
    device: str = "cpu"
    verbose: bool = False

    #: tells `ConformalCredalClassifier` that ``fit`` takes label distributions
    accepts_label_distributions = True

    @abstractmethod
    def predict_proba(self, X: Any) -> FloatArray:
        """Predict label distributions.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        ndarray of shape (n, K)
            Predicted distributions.
        """

    @abstractmethod
    def _loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the loss of a batch, from outputs (…, B, n_outputs) and distributions (…, B, K).

        Leading axes, of several networks, remain.
        """

    def _n_outputs(self, n_classes: int) -> int:
        return n_classes

    def fit(self, X: Any, y: Any) -> Self:
        """Train the network.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features. The network does not scale them; use a ``StandardScaler`` in front of it if
            their scales differ.
        y : array of shape (n, K), Annotations, or array of n labels
            Label distributions, annotation counts, or one label per item (read as one vote). All
            items have the same weight.

        Returns
        -------
        self : object
            The fitted network.
        """
        self._check_options()
        device = _as_device(self.device)
        x = torch.from_numpy(np.array(validate_data(self, unmasked(X, "X"), dtype=np.float32)))
        labels = read_labels(y, X)
        target = torch.from_numpy(labels.distributions.astype(np.float32))
        if len(x) != len(target):
            raise ValueError(f"X has {len(x)} items, but y has {len(target)}.")
        seed = int(as_generator(self.random_state).integers(2**63))
        with torch.random.fork_rng(
            [device] if device.type == "cuda" else []
        ):  # the global random state is restored
            torch.manual_seed(seed)
            module = self._build_module(x.shape[1], labels.n_classes).to(device)
            losses, validation = self._train(module, x.to(device), target.to(device))
        self.module_ = module.cpu().eval()
        self.classes_ = class_array(labels)
        self.loss_curve_ = losses
        self.validation_curve_ = validation
        self.n_iter_ = len(losses)
        return self

    def _build_module(self, n_features: int, n_classes: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for before, after in pairwise([n_features, *self.hidden]):
            layers += [nn.Linear(before, after), nn.ReLU()]
        last = nn.Linear([n_features, *self.hidden][-1], self._n_outputs(n_classes))
        return nn.Sequential(*layers, nn.Dropout(self.dropout), last)

    def _check_options(self) -> None:
        if isinstance(self.hidden, str) or not hasattr(self.hidden, "__iter__"):
            raise TypeError(
                "hidden must list the widths of hidden layers, such as (256, 64), but is "
                f"{self.hidden!r}."
            )
        for width in self.hidden:
            as_positive_int(width, "each entry of hidden")
        for name in ("batch_size", "epochs", "n_iter_no_change"):
            as_positive_int(getattr(self, name), name)
        if not 0.0 <= as_finite(self.dropout, "dropout") < 1.0:
            raise ValueError(f"dropout must be at least 0 and below 1, but is {self.dropout!r}.")
        if as_finite(self.learning_rate, "learning_rate") <= 0.0:
            raise ValueError(f"learning_rate must be positive, but is {self.learning_rate!r}.")
        as_finite(self.weight_decay, "weight_decay", minimum=0.0)
        as_probability(self.validation_fraction, "validation_fraction")

    def _train(self, module: nn.Module, x: Tensor, y: Tensor) -> tuple[list[float], list[float]]:
        """Train a module in place; return training and validation losses of each epoch."""
        n_held = math.ceil(self.validation_fraction * len(x)) if self.early_stopping else 0
        if n_held >= len(x):
            raise ValueError(
                f"early_stopping holds out {n_held} of {len(x)} items, which leaves none to "
                "train on."
            )
        order = torch.randperm(len(x), device=x.device)
        held = (x[order[:n_held]], y[order[:n_held]])
        x = x[order[n_held:]]
        y = y[order[n_held:]]
        is_fused = x.device.type in ("cpu", "cuda")
        optimizer = torch.optim.AdamW(  # Adam, if weight_decay is 0
            module.parameters(),
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            fused=is_fused,
        )
        losses: list[float] = []
        validation: list[float] = []
        best = deepcopy(module.state_dict())
        with progress("Training", self.epochs, shown=bool(self.verbose)) as advance:
            for epoch in range(self.epochs):
                losses.append(self._epoch(module.train(), x, y, optimizer))
                if not math.isfinite(losses[-1]):
                    raise ValueError(
                        f"training diverged: the loss is {losses[-1]} in epoch {epoch + 1}. Lower "
                        "learning_rate, or standardise the features."
                    )
                advance(1, f"loss {losses[-1]:.4f}")
                if not self.early_stopping:
                    continue
                with torch.no_grad():
                    validation.append(self._epoch(module.eval(), *held, None))
                if validation[-1] == min(validation):
                    best = deepcopy(module.state_dict())
                elif epoch - int(np.argmin(validation)) >= self.n_iter_no_change:
                    break
        if self.early_stopping:
            module.load_state_dict(best)
        return losses, validation

    def _epoch(
        self, module: nn.Module, x: Tensor, y: Tensor, optimizer: torch.optim.Optimizer | None
    ) -> float:
        """Pass over all items in random order, training with an optimiser; return the mean loss."""
        order = torch.randperm(len(x), device=x.device)
        x = x[order]
        y = y[order]
        total = torch.zeros((), device=x.device)
        for start in range(0, len(x), self.batch_size):
            batch = slice(start, start + self.batch_size)
            loss = self._loss(module(x[batch]), y[batch])
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            total += loss.detach() * len(x[batch])
        return float(total) / len(x)

    def _outputs(self, X: Any) -> Tensor:
        """Return outputs for new items, (n, n_outputs), in double precision where possible."""
        check_is_fitted(self)
        device = _as_device(self.device)
        dtype = torch.float32 if device.type == "mps" else torch.float64
        module = deepcopy(self.module_).to(device=device, dtype=dtype)
        x = torch.from_numpy(
            np.array(validate_data(self, unmasked(X, "X"), dtype=np.float64, reset=False))
        )
        with torch.no_grad():
            blocks = torch.split(x, PREDICTION_ROWS)
            outputs = torch.cat(
                [module(block.to(device, dtype)).cpu().double() for block in blocks]
            )
        if not bool(torch.isfinite(outputs).all()):
            raise ValueError(
                "X has values so large that the output of the network is not finite. Scale the "
                "features as in fit."
            )
        return outputs


def _as_device(name: Any) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device {name!r} cannot be used here: {reason}. Use device='cpu'."
        ) from None
    return device
