"""The networks of the paper, which predict label distributions or Dirichlet densities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from credalset._typing import FloatArray
from credalset._validation import as_finite
from credalset.predictors.torch.base import Network


class PaperNetwork(Network):
    """A network that starts as the authors' do: Glorot's uniform weights and zero biases."""

    def _build_module(self, n_features: int, n_classes: int) -> nn.Sequential:
        module = super()._build_module(n_features, n_classes)
        for layer in module:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
        return module


class FirstOrderNetwork(PaperNetwork):
    r"""Predict label distributions by a fully connected network (the paper's first-order learner).

    Training minimises the cross-entropy $-\sum_k \lambda_k \log g(x)_k$ against label distributions
    λ. The defaults are those of the paper [1]_: hidden layers of 256, 64 and 16 units with ReLU,
    dropout 0.3 before the output layer, Adam with learning rate 1e-4, batches of 8 items and 100
    epochs; and those of the authors' code: Glorot's uniform weights and zero biases at the start.

    Parameters
    ----------
    hidden : sequence of int
        Widths of the hidden layers; empty for softmax regression.
    dropout : float
        Dropout rate of the last hidden layer.
    learning_rate : float
        Learning rate of AdamW.
    weight_decay : float
        Weight decay of AdamW. With 0, AdamW is Adam.
    batch_size : int
        Items per step.
    epochs : int
        Passes over the data.
    early_stopping : bool
        Whether to hold out a share ``validation_fraction`` of the items, stop when their loss has
        not improved for ``n_iter_no_change`` epochs, and restore the best weights.
    validation_fraction : float
        Share of the items to hold out for early stopping.
    n_iter_no_change : int
        Number of epochs to wait for an improvement.
    random_state : int, Generator or None
        Seed of the initial weights, the order of items and dropout. On the CPU, the same seed gives
        the same network. The global random state of PyTorch is not changed.
    device : str
        Device for training and prediction, such as ``"cpu"`` or ``"cuda"``.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    module_ : nn.Sequential
        The trained PyTorch module, on the CPU; its outputs are logits.
    classes_ : ndarray of shape (K,)
        Class names, in column order.
    n_features_in_ : int
        Number of features.
    loss_curve_ : list of float
        Mean training loss of each epoch.
    validation_curve_ : list of float
        Loss of the held-out items after each epoch; empty without early stopping.
    n_iter_ : int
        Number of epochs trained.

    See Also
    --------
    SecondOrderNetwork : predicts a Dirichlet density instead of one distribution.
    SoftLabelClassifier : the same for any scikit-learn classifier.

    References
    ----------
    .. [1] Javanmardi, Stutz and Hüllermeier, "Conformalized Credal Set Predictors", NeurIPS 2024.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(200, n_classes=3, random_state=0)
    >>> network = FirstOrderNetwork(hidden=(16,), learning_rate=0.01, epochs=20, random_state=0)
    >>> network.fit(data.X, data.counts).predict_proba(data.X[:2]).shape
    (2, 3)
    """

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
        return torch.softmax(self._outputs(X), dim=1).numpy()

    def _loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(outputs, target)


@dataclass(kw_only=True, eq=False, repr=False)
class SecondOrderNetwork(PaperNetwork):
    r"""Predict Dirichlet densities over label distributions (the paper's second-order learner).

    The concentration is $\theta(x) = 1 + \mathrm{relu}(z(x))$, so that the density always has a
    mode. The loss of a batch is the mean negative log-likelihood of its label distributions,
    clipped to [``label_clip``, 1], plus ``output_l2`` · ½‖θ − 1‖² summed over the batch. The
    defaults are those of the paper [1]_, except for two details of training.

    At θ = 1 the loss falls toward larger $\theta_j$ only for items with $\log \lambda_j > \psi(1) -
    \psi(K)$; shares of zero, which count as ``label_clip``, push all others down. Below z = 0 a
    ReLU passes no gradient, so that a class that all items have left stays at θ = 1 for good, and
    sets become far too large. By default, θ ≥ 1 is treated as a constraint instead: below z = 0 a
    gradient that would raise θ passes, one that would lower it does not, as at the optimum of the
    constrained problem. And the biases of the outputs start at one, that is θ at about 2.
    ``recovers=False`` trains as published, from biases of zero.

    Parameters
    ----------
    hidden, dropout, learning_rate, weight_decay, batch_size, epochs
        As in `FirstOrderNetwork`.
    early_stopping, validation_fraction, n_iter_no_change, random_state, device, verbose
        As in `FirstOrderNetwork`.
    recovers : bool
        Whether outputs below zero pass gradients that raise them; False is the published way.
    label_clip : float
        Smallest probability of a class in the loss; smaller ones are raised to it.
    output_l2 : float
        Weight of the penalty on θ − 1.

    Attributes
    ----------
    module_ : nn.Sequential
        The trained network; θ is one plus the positive part of its outputs.
    classes_, n_features_in_, loss_curve_, validation_curve_, n_iter_
        As in `FirstOrderNetwork`.

    See Also
    --------
    FirstOrderNetwork : predicts one distribution.

    References
    ----------
    .. [1] Javanmardi, Stutz and Hüllermeier, "Conformalized Credal Set Predictors", NeurIPS 2024.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(200, n_classes=3, random_state=0)
    >>> network = SecondOrderNetwork(hidden=(16,), learning_rate=0.01, epochs=20, random_state=0)
    >>> concentration = network.fit(data.X, data.counts).predict_concentration(data.X[:2])
    >>> concentration.shape, bool((concentration >= 1).all())
    ((2, 3), True)
    """

    recovers: bool = True
    label_clip: float = 1e-6
    output_l2: float = 1e-4

    def predict_concentration(self, X: Any) -> FloatArray:
        """Predict Dirichlet concentrations θ ≥ 1.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        ndarray of shape (n, K)
            Predicted concentrations.
        """
        return (1.0 + torch.relu(self._outputs(X))).numpy()

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict label distributions, the means of the predicted Dirichlet densities.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features.

        Returns
        -------
        ndarray of shape (n, K)
            Predicted distributions.
        """
        concentration = self.predict_concentration(X)
        return concentration / concentration.sum(axis=1, keepdims=True)

    def _check_options(self) -> None:
        super()._check_options()
        if not isinstance(self.recovers, bool):
            raise TypeError(f"recovers must be True or False, but is {self.recovers!r}.")
        if not 0.0 < as_finite(self.label_clip, "label_clip") < 1.0:
            raise ValueError(
                f"label_clip must lie strictly between 0 and 1, but is {self.label_clip!r}."
            )
        as_finite(self.output_l2, "output_l2", minimum=0.0)

    def _build_module(self, n_features: int, n_classes: int) -> nn.Sequential:
        module = super()._build_module(n_features, n_classes)
        if self.recovers:
            nn.init.ones_(module[-1].bias)  # type: ignore[arg-type]
        return module

    def _excess(self, outputs: Tensor) -> Tensor:
        """Return θ − 1 in training, zero below z = 0 but maybe with a gradient that raises it."""
        excess = torch.relu(outputs)
        if self.recovers and outputs.requires_grad:
            below = outputs.clamp(max=0.0)
            below.register_hook(lambda gradient: gradient.clamp(max=0.0))  # type: ignore[no-untyped-call]
            excess = excess + (below - below.detach())
        return excess

    def _loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        excess = self._excess(outputs)
        log_density = dirichlet_log_density(1.0 + excess, target.clamp(self.label_clip, 1.0).log())
        penalty = 0.5 * self.output_l2 * excess.square().sum(dim=(-2, -1))
        return penalty - log_density.mean(dim=-1)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    r"""Return $-\sum_k \lambda_k \log \mathrm{softmax}(z)_k$, averaged over a batch.

    Axes are those of networks, if there are any, of items and of classes.

    Examples
    --------
    >>> cross_entropy(torch.zeros(1, 4), torch.full((1, 4), 0.25)).exp()
    tensor(4.)
    """
    return -(target * torch.log_softmax(logits, dim=-1)).sum(dim=-1).mean(dim=-1)


def dirichlet_log_density(concentration: Tensor, log_point: Tensor) -> Tensor:
    r"""Return $\log \mathrm{Dir}(y \mid \theta)$, (…), for tensors θ and log y of shape (…, K).

    Points need not sum to one, because the paper clips labels without rescaling them.

    Examples
    --------
    >>> dirichlet_log_density(torch.ones(3), torch.tensor([0.2, 0.3, 0.5]).log()).exp()  # uniform
    tensor(2.)
    """
    log_beta = torch.lgamma(concentration).sum(dim=-1) - torch.lgamma(concentration.sum(dim=-1))
    return ((concentration - 1.0) * log_point).sum(dim=-1) - log_beta
