r"""The region in which the distribution behind some votes lies, whenever and why ever voting stops.

Before an item's votes are seen, mix distributions by some law: $\bar p(n) = \int \lambda^n \, dw(\lambda)$ is then the
likelihood of votes n under the mixture, and $\bar p(n_m) / \lambda^{n_m}$ is a martingale with mean one if votes are
independent draws from λ. It exceeds 1 / δ at any time with probability at most δ (Ville), hence

$$P\bigl(\exists m : \lambda^{n_m} < \delta \, \bar p(n_m)\bigr) \le \delta \quad \text{for every } \lambda$$

(Lindon and Malek, *Anytime-valid inference for multinomial count data*, 2022, with the uniform law). What is left is a
reverse-KL ball around the shares of the votes. The law may be anything that was chosen before the votes: the better it
foresees them, the smaller the ball. Where a prediction is known, an equal mixture of the uniform law and of Dirichlet
laws around the prediction costs at most $\log 5 / m$ of radius, and saves much where the prediction is any good.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlogy

from credalset._typing import FloatArray
from credalset.scores.dirichlet import NegativeLogDensity
from credalset.sets.credal_set import CredalSet

STRENGTHS = (1.0, 4.0, 16.0, 64.0)  # votes that a prediction is worth; nobody knows, so all of them are mixed
FLOOR = 0.01  # share of the uniform distribution in every centre, so that no vote is impossible


def log_marginal(counts: FloatArray, concentration: FloatArray) -> FloatArray:
    r"""Return $\log \int \lambda^n \, d\mathrm{Dir}(\lambda | a)$, the likelihood of votes in a given order, (…,).

    Examples
    --------
    >>> float(np.exp(log_marginal(np.array([1.0, 1.0]), np.ones(2))).round(6))
    0.166667
    """
    total = gammaln(concentration.sum(axis=-1)) - gammaln((concentration + counts).sum(axis=-1))
    return total + (gammaln(concentration + counts) - gammaln(concentration)).sum(axis=-1)


def anytime_radius(counts: FloatArray, delta: float, center: FloatArray | None = None) -> FloatArray:
    r"""Return ρ(n), in nats, with $P(\exists m : KL(\hat\lambda_m \| \lambda) > \rho(n_m)) \le \delta$ for every λ.

    Parameters
    ----------
    counts : array of shape (n, K)
        Votes, at least one per item.
    delta : float
        Probability with which a region may miss its λ at any time.
    center : array of shape (n, K), optional
        What was predicted before the votes were seen; without it all distributions are mixed evenly.

    Examples
    --------
    >>> counts = np.array([[1.0, 0.0, 0.0], [90.0, 10.0, 0.0]])
    >>> anytime_radius(counts, 0.05).round(3)
    array([4.094, 0.095])
    >>> anytime_radius(counts, 0.05, center=np.array([[0.8, 0.1, 0.1], [0.8, 0.1, 0.1]])).round(3)
    array([3.348, 0.07 ])
    """
    votes, n_classes = counts.sum(axis=1), counts.shape[1]
    mixture = log_marginal(counts, np.ones(n_classes))
    if center is not None:
        near = (1.0 - FLOOR) * center + FLOOR / n_classes
        for strength in STRENGTHS:
            mixture = np.logaddexp(mixture, log_marginal(counts, strength * near))
        mixture -= np.log(1 + len(STRENGTHS))
    best = xlogy(counts, counts / votes[:, None]).sum(axis=1)
    return np.asarray((best - mixture - np.log(delta)) / votes)


def vote_region(counts: FloatArray, delta: float, center: FloatArray | None = None) -> CredalSet:
    """Return the balls that hold the distributions behind votes (n, K); without votes, the whole simplex.

    Examples
    --------
    >>> vote_region(np.array([[30.0, 10.0, 0.0], [0.0, 0.0, 0.0]]), 0.05).upper().round(2)
    array([[0.94, 0.56, 0.18],
           [1.  , 1.  , 1.  ]])
    """
    some = counts.sum(axis=1) > 0
    safe = np.where(some[:, None], counts, 1.0)
    votes = safe.sum(axis=1)
    density = NegativeLogDensity()
    lowest = density.evaluate_rows(1.0 + safe, safe / votes[:, None])
    return density._region(1.0 + safe, np.where(some, lowest + votes * anytime_radius(safe, delta, center), np.inf))
