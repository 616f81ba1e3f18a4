"""The paper's learners: a network that predicts label distributions, and one that predicts Dirichlet densities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import nn

from credalset._typing import FloatArray
from credalset._validation import as_finite, as_positive_int, check_choice
from credalset.predictors.torch.base import Job, TorchEstimator, as_device
from credalset.predictors.torch.heads import Dirichlet, Head, Softmax
from credalset.predictors.torch.losses import LINKS
from credalset.predictors.torch.networks import ACTIVATIONS, StackedNetworks, build_network, initialise
from credalset.predictors.torch.training import Trainee


@dataclass(eq=False, repr=False)
class NetworkEstimator(TorchEstimator):
    """Base of the estimators that build a fully connected network of their own."""

    hidden: Sequence[int] = (256, 64, 16)
    _: KW_ONLY
    activation: str = "relu"
    dropout: float = 0.3

    def _new_module(self, n_classes: int, seed: int) -> nn.Sequential:
        network = self._empty_network(self.n_features_in_, n_classes)
        initialise(network, torch.Generator().manual_seed(seed))
        return network

    def _empty_network(self, n_features: int, n_classes: int) -> nn.Sequential:
        """Build the network without its weights."""
        hidden = [as_positive_int(width, "each entry of hidden") for width in _as_sequence(self.hidden)]
        check_choice(self.activation, "activation", ACTIVATIONS)
        if not 0.0 <= as_finite(self.dropout, "dropout") < 1.0:
            raise ValueError(f"dropout must be at least 0 and below 1, but is {self.dropout!r}.")
        n_outputs = self._head().n_outputs(n_classes)
        return build_network(n_features, hidden, n_outputs, activation=self.activation, dropout=float(self.dropout))

    def _empty_module(self, n_features: int, n_classes: int) -> nn.Module:
        """Build what is saved, without its weights: the network, or all of them if there are several."""
        return self._empty_network(n_features, n_classes)

    def _check_continues(self, n_classes: int) -> None:
        asked = self._empty_module(self.n_features_in_, n_classes).state_dict()
        there = self.module_.state_dict()
        if {name: value.shape for name, value in asked.items()} != {name: value.shape for name, value in there.items()}:
            raise ValueError(
                "warm_start continues with the network of the last fit, but its shape no longer fits the parameters "
                "(hidden, or the number of components or networks). Restore them, or set warm_start=False."
            )

    def _trainee(self, jobs: Sequence[Job]) -> Trainee:
        networks = [job.module for job in jobs if isinstance(job.module, nn.Sequential)]
        device = as_device(self.device)
        return StackedNetworks(networks, activation=self.activation, dropout=float(self.dropout), device=device)


class FirstOrderNetwork(NetworkEstimator):
    r"""Predict label distributions with a fully connected network (the paper's first-order learner).

    Minimises the cross-entropy $-\sum_k \lambda_k \log g(x)_k$ against label distributions λ. The defaults are those
    of the paper: hidden layers of 256, 64 and 16 units with ReLU, dropout 0.3 before the output layer, Adam with
    learning rate 1e-4, batches of 8, 100 epochs. Weights start as PyTorch's linear layers do.

    Parameters
    ----------
    hidden : sequence of int
        Widths of the hidden layers; empty for softmax regression.
    activation : {"relu", "tanh", "silu", "gelu"}
        Activation of the hidden layers.
    dropout : float
        Share of the last hidden layer that is dropped in training.
    optimizer : {"adam", "adamw", "sgd"}
        Optimiser.
    learning_rate, weight_decay : float
        Settings of the optimiser.
    momentum : float
        Momentum of ``"sgd"``.
    batch_size, epochs : int
        Items per step, and passes over the data.
    early_stopping : bool
        Hold out ``validation_fraction`` of the items, stop when their loss has not improved by more than ``tol`` for
        ``n_iter_no_change`` epochs, and return to the best weights.
    validation_fraction : float
        Share of the items that is held out.
    n_iter_no_change : int
        Epochs to wait for an improvement.
    tol : float
        What counts as an improvement.
    warm_start : bool
        Let ``fit`` start from the weights of the last ``fit`` (with a fresh optimiser).
    random_state : int, Generator or None
        Source of the first weights, the order of items and the dropout. On the CPU, the same seed gives the same
        network. The global random state of PyTorch is not touched.
    device : str
        Where to train and predict, such as ``"cpu"`` or ``"cuda"``.
    verbose : bool
        Show a progress bar, in a terminal or notebook.

    Attributes
    ----------
    module_ : nn.Sequential
        The trained network, an ordinary PyTorch module on the CPU whose outputs are logits.
    classes_ : ndarray of shape (K,)
        Class names, in column order.
    n_features_in_ : int
        Number of features.
    loss_curve_ : list of float
        Mean training loss of each epoch.
    validation_curve_ : list of float
        Loss of the held-out items after each epoch, with early stopping.
    n_iter_ : int
        Epochs trained.

    See Also
    --------
    SecondOrderNetwork : predicts a Dirichlet density instead of one distribution.
    TorchPredictor : the same training for a module of your own.
    fit_many : trains many networks at once.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(200, n_classes=3, random_state=0)
    >>> network = FirstOrderNetwork(hidden=(16,), learning_rate=0.01, epochs=20, random_state=0)
    >>> network.fit(data.X, data.counts).predict_proba(data.X[:2]).shape
    (2, 3)
    """

    def _head(self) -> Head:
        return Softmax()

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict label distributions (n, K)."""
        return self._head().read(self._predict_outputs(X))


@dataclass(kw_only=True, eq=False, repr=False)
class SecondOrderNetwork(NetworkEstimator):
    r"""Predict Dirichlet densities over label distributions (the paper's second-order learner).

    The concentration is $\theta(x) = 1 + \mathrm{link}(z(x))$, so that the density always has a mode. The loss of a
    batch is the mean negative log-likelihood of its label distributions, clipped to [``label_clip``, 1], plus
    ``output_l2`` · ½‖θ − 1‖² summed over the batch. Defaults are the paper's; its ReLU link can get stuck at θ = 1, the
    uniform density, where its gradient is zero: ``"softplus"`` and ``"exp"`` cannot.

    Parameters
    ----------
    hidden, activation, dropout
        As in `FirstOrderNetwork`.
    link : {"relu", "softplus", "exp"}
        From outputs to θ − 1.
    label_clip : float
        Smallest share that a label is taken to have in the loss.
    output_l2 : float
        Weight of the penalty on θ − 1.
    optimizer, learning_rate, weight_decay, momentum, batch_size, epochs
        As in `FirstOrderNetwork`.
    early_stopping, validation_fraction, n_iter_no_change, tol, warm_start
        As in `FirstOrderNetwork`; the validation loss is the negative log-likelihood without the penalty.
    random_state, device, verbose
        As in `FirstOrderNetwork`.

    Attributes
    ----------
    module_ : nn.Sequential
        The trained network, an ordinary PyTorch module on the CPU; its outputs go through the link.
    classes_, n_features_in_, loss_curve_, validation_curve_, n_iter_
        As in `FirstOrderNetwork`.

    See Also
    --------
    FirstOrderNetwork : predicts one distribution.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(200, n_classes=3, random_state=0)
    >>> network = SecondOrderNetwork(hidden=(16,), link="softplus", learning_rate=0.01, epochs=20, random_state=0)
    >>> concentration = network.fit(data.X, data.counts).predict_concentration(data.X[:2])
    >>> concentration.shape, bool((concentration >= 1).all())
    ((2, 3), True)
    """

    link: str = "relu"
    label_clip: float = 1e-6
    output_l2: float = 1e-4

    def _head(self) -> Head:
        check_choice(self.link, "link", LINKS)
        return Dirichlet(self.link, self.label_clip, self.output_l2)

    def predict_concentration(self, X: Any) -> FloatArray:
        """Predict Dirichlet concentrations (n, K), all of them at least one."""
        return self._head().read(self._predict_outputs(X))

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict label distributions (n, K): the mean of the predicted Dirichlet."""
        concentration = self.predict_concentration(X)
        return concentration / concentration.sum(axis=1, keepdims=True)


def _as_sequence(hidden: Any) -> Sequence[Any]:
    if isinstance(hidden, str) or not hasattr(hidden, "__iter__"):
        raise TypeError(f"hidden must list the widths of the hidden layers, such as (256, 64, 16), but is {hidden!r}.")
    return list(hidden)
