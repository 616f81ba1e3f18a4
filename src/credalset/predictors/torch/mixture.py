"""A learner of densities that label distributions really have: mixtures of Dirichlets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from credalset._typing import AnyArray, FloatArray, RandomState
from credalset.calibration.votes import raw_counts
from credalset.predictors.torch.estimators import NetworkEstimator
from credalset.predictors.torch.heads import DirichletMixture, Head


class DirichletMixtureNetwork(NetworkEstimator):
    r"""Predict mixtures of Dirichlet densities over label distributions.

    The density is $p(\lambda | x) = \sum_j w_j(x) \, \mathrm{Dir}(y \mid \theta_j(x))$ at
    $y = (\lambda + \epsilon) / (1 + K\epsilon)$, with softmax weights and concentrations $\theta = \exp(z) > 0$. Label
    distributions of real annotators crowd the boundary of the simplex, where a Dirichlet with θ ≥ 1 must vanish;
    components with θ < 1 rise there, and several of them follow what one cannot.

    Use it with the score ``"density"`` (`NegativeLogDensity`), whose sets are then the smallest that the density
    allows.

    Parameters
    ----------
    hidden, activation, dropout
        As in `FirstOrderNetwork`.
    n_components : int
        Number of Dirichlets.
    pull : float
        ε, how far labels are moved off the boundary. The score has the same parameter with the same default.
    likelihood : {"density", "counts"}
        ``"density"``: maximise the density of the label distributions. ``"counts"``: maximise the probability of the
        votes under the mixture of Dirichlet-multinomials, which models the distribution behind few votes rather than
        their shares; Y must then be counts.
    optimizer, learning_rate, weight_decay, momentum, batch_size, epochs
        As in `FirstOrderNetwork`.
    early_stopping, validation_fraction, n_iter_no_change, tol, warm_start
        As in `FirstOrderNetwork`.
    random_state, device, verbose
        As in `FirstOrderNetwork`.

    Attributes
    ----------
    module_, classes_, n_features_in_, loss_curve_, validation_curve_, n_iter_
        As in `FirstOrderNetwork`.

    See Also
    --------
    SecondOrderNetwork : the paper's single Dirichlet.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(200, n_classes=3, random_state=0)
    >>> network = DirichletMixtureNetwork(n_components=4, epochs=5, random_state=0).fit(data.X, data.counts)
    >>> network.predict_density(data.X[:2]).shape  # per component a weight and three concentrations
    (2, 4, 4)
    """

    #: tells `ConformalCredalClassifier` to pass on counts where it has them
    accepts_counts = True

    def __init__(
        self,
        hidden: Sequence[int] = (64, 64),
        *,
        activation: str = "relu",
        dropout: float = 0.3,
        n_components: int = 8,
        pull: float = 1e-3,
        likelihood: str = "density",
        optimizer: str = "adamw",
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-2,
        momentum: float = 0.9,
        batch_size: int = 32,
        epochs: int = 40,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 0.0,
        warm_start: bool = False,
        random_state: RandomState = None,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.dropout = dropout
        self.n_components = n_components
        self.pull = pull
        self.likelihood = likelihood
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.momentum = momentum
        self.batch_size = batch_size
        self.epochs = epochs
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _head(self) -> Head:
        return DirichletMixture(self.n_components, self.pull, self.likelihood)

    def _encode(self, Y: Any, classes: AnyArray | None) -> tuple[FloatArray, AnyArray]:
        distributions, names = super()._encode(Y, classes)
        if self.likelihood != "counts":
            return distributions, names
        if not hasattr(Y, "has_counts") and np.shape(Y) != distributions.shape:
            return distributions, names  # one label per item is one vote
        counts = raw_counts(Y, "Y")
        if counts is None:
            raise ValueError(
                "Y holds label distributions, but likelihood='counts' needs annotation counts (whole numbers). "
                "Pass the counts, or likelihood='density'."
            )
        return counts, names

    def predict_density(self, X: Any) -> FloatArray:
        """Predict mixtures (n, C, K + 1): for each component its weight, then its K concentrations."""
        return self._head().read(self._predict_outputs(X))

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict label distributions (n, K): the mean of the predicted density."""
        mixture = self.predict_density(X)
        theta = mixture[..., 1:]
        means = (mixture[..., :1] * theta / theta.sum(axis=-1, keepdims=True)).sum(axis=1)
        return np.asarray(means / means.sum(axis=1, keepdims=True))
