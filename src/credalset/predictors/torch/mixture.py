"""A learner of densities that label distributions really have: mixtures of Dirichlets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from credalset._typing import FloatArray
from credalset.predictors.torch.committee import CommitteeEstimator
from credalset.predictors.torch.heads import DirichletMixture, Head


@dataclass(kw_only=True, eq=False, repr=False)
class DirichletMixtureNetwork(CommitteeEstimator):
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
    n_networks : int
        Networks to train, side by side and from different seeds; the prediction is the mean of their densities, a
        mixture of ``n_networks`` · ``n_components`` Dirichlets. A few give slightly smaller sets than one.
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
        As in `FirstOrderNetwork`. With several networks ``module_`` holds them all, and curves are their means.

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

    n_components: int = 8
    pull: float = 1e-3
    likelihood: str = "density"

    def _head(self) -> Head:
        return DirichletMixture(self.n_components, self.pull, self.likelihood)

    def predict_density(self, X: Any) -> FloatArray:
        """Predict mixtures (n, C, K + 1): for each component its weight, then its K concentrations.

        With several networks, C is ``n_networks`` · ``n_components``.
        """
        return self._head().read(self._predict_outputs(X))

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict label distributions (n, K): the mean of the predicted density."""
        mixture = self.predict_density(X)
        theta = mixture[..., 1:]
        means = (mixture[..., :1] * theta / theta.sum(axis=-1, keepdims=True)).sum(axis=1)
        return np.asarray(means / means.sum(axis=1, keepdims=True))
