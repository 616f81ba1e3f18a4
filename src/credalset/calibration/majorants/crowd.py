"""A model of how crowds scatter around predictions. It makes majorants small; what they promise never rests on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from credalset._typing import FloatArray, IntArray
from credalset.calibration.majorants.polynomials import count_vectors

#: how closely crowds may follow predictions: λ ~ Dirichlet(s g)
SHARPNESS = np.geomspace(0.7, 3000.0, 24)
SMOOTHING = 0.003  # of predictions, so that no vote is impossible
LOOSE = 0.002  # share of crowds that may be anywhere


@dataclass(frozen=True, eq=False)
class Crowd:
    """λ given x is Dirichlet(s g) with s drawn from a grid.

    Attributes
    ----------
    shares : ndarray of shape (24,)
        Probability of each sharpness s.
    """

    shares: FloatArray

    @classmethod
    def fit(cls, prediction: FloatArray, counts: FloatArray) -> Crowd:
        """Weigh each sharpness by how well it explains all votes, and keep a few loose crowds in mind."""
        g, votes = _smooth(prediction), counts.sum(axis=1)
        fits = [
            ((gammaln(s * g + counts) - gammaln(s * g)).sum(axis=1) + gammaln(s) - gammaln(s + votes)).sum()
            for s in SHARPNESS
        ]
        posterior = np.exp(np.array(fits) - max(fits))
        loose = (SHARPNESS < 3.0).astype(float)
        return cls((1.0 - LOOSE) * posterior / posterior.sum() + LOOSE * loose / loose.sum())

    def probabilities(self, prediction: FloatArray, n_votes: int) -> FloatArray:
        """Return how probable each count vector of ``n_votes`` votes is, (n, C)."""
        vectors = count_vectors(n_votes, prediction.shape[1])
        found = [
            share * dirichlet_multinomial(s * _smooth(prediction), vectors)
            for s, share in zip(SHARPNESS, self.shares, strict=True)
            if share > 1e-4
        ]
        total = np.sum(found, axis=0)
        return total / total.sum(axis=1, keepdims=True)


def dirichlet_multinomial(concentration: FloatArray, vectors: IntArray) -> FloatArray:
    """Return the probabilities of count vectors (C, K) if λ ~ Dirichlet(concentration (n, K)), (n, C)."""
    m = vectors.sum(axis=1)[0]
    ways = gammaln(m + 1.0) - gammaln(vectors + 1.0).sum(axis=1)
    total = concentration.sum(axis=-1)
    log = ways + (gammaln(total) - gammaln(total + m))[:, None]
    for k in range(vectors.shape[1]):
        rising = gammaln(concentration[:, k, None] + np.arange(m + 1)) - gammaln(concentration[:, k, None])
        log += rising[:, vectors[:, k]]
    return np.exp(log)


def _smooth(prediction: FloatArray) -> FloatArray:
    return (1.0 - SMOOTHING) * prediction + SMOOTHING / prediction.shape[1]
