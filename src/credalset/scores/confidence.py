r"""Where the distribution behind some votes may lie, and how badly it may fit a prediction there.

With votes $n \sim \mathrm{Multinomial}(m, \lambda)$ and shares $\hat\lambda = n / m$, four regions hold λ with
probability at least 1 − δ, whatever λ and m are:

- ``"exact"``: $\lambda_k \ge l_k$ for all k, with the exact (Clopper–Pearson) lower limits at level δ / K;
- ``"tv"``: a total-variation ball around the shares, from concentration inequalities;
- ``"kl"``: $KL(\hat\lambda \| \lambda) \le \rho$, from the law of the empirical divergence;
- ``"anytime"``: the same with another ρ, so that it holds for all m at once: whenever voting stops, and why ever.

The first is itself a simplex with K corners, and the others are credal sets; how large a score gets over them is its
own knowledge: `Score.largest_above` and `Score.largest_within`.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, gammaln, xlogy

from credalset._typing import FloatArray, Prediction
from credalset.scores.anytime import anytime_radius, vote_region
from credalset.scores.base import Score
from credalset.scores.dirichlet import NegativeLogDensity
from credalset.scores.total_variation import TotalVariation

REGIONS = ("exact", "tv", "kl", "anytime")


def lower_limits(counts: FloatArray, delta: float) -> FloatArray:
    r"""Return lower limits that hold for all classes at once with probability at least 1 − δ, (n, K).

    Clopper and Pearson (1934): $l_k$ is the δ/K-quantile of $\mathrm{Beta}(n_k, m - n_k + 1)$ and 0 without votes, so
    $P(\lambda_k < l_k) \le \delta / K$ for each class.

    Examples
    --------
    >>> lower_limits(np.array([[1.0, 0.0], [90.0, 10.0]]), 0.1).round(3)
    array([[0.05 , 0.   ],
           [0.836, 0.055]])
    """
    votes = counts.sum(axis=1, keepdims=True)
    limits = betaincinv(np.maximum(counts, 1.0), np.maximum(votes - counts, 0.0) + 1.0, delta / counts.shape[1])
    return np.where(counts > 0, limits, 0.0)


def total_variation_radius(votes: FloatArray, n_classes: int, delta: float) -> FloatArray:
    r"""Return r(m) with $P(TV(\hat\lambda, \lambda) \ge r) \le \delta$ for every λ.

    The smaller of two bounds: $\sqrt{(\log(2^K - 2) + \log(1/\delta)) / 2m}$ (Hoeffding's inequality for each event, as
    in Weissman et al., 2003) and $\tfrac12 \sqrt{(K-1)/m} + \sqrt{\log(1/\delta) / 2m}$ (the mean, and McDiarmid's
    inequality around it).

    Examples
    --------
    >>> total_variation_radius(np.array([1.0, 100.0]), 3, 0.05).round(3)
    array([1.   , 0.155])
    """
    surprise = np.log(1.0 / delta)
    n_events = n_classes * np.log(2.0) + np.log1p(-(2.0 ** (1.0 - n_classes)))
    by_events = np.sqrt((n_events + surprise) / (2.0 * votes))
    by_mean = 0.5 * np.sqrt((n_classes - 1) / votes) + np.sqrt(surprise / (2.0 * votes))
    return np.minimum(np.minimum(by_events, by_mean), 1.0)


def relative_entropy_radius(votes: FloatArray, n_classes: int, delta: float) -> FloatArray:
    r"""Return ρ(m), in nats, with $P(KL(\hat\lambda \| \lambda) \ge \rho) \le \delta$ for every λ.

    The smaller of two bounds: $e^{-m\rho} (e m \rho / (K-1))^{K-1} \le \delta$ (Agrawal, 2020), and the number of
    possible outcomes, $\binom{m+K-1}{K-1} e^{-m\rho} \le \delta$ (the method of types).

    Examples
    --------
    >>> relative_entropy_radius(np.array([1.0, 100.0]), 3, 0.05).round(3)
    array([4.094, 0.077])
    """
    surprise, freedom = np.log(1.0 / delta), n_classes - 1.0
    outcomes = gammaln(votes + n_classes) - gammaln(n_classes) - gammaln(votes + 1.0)
    low, high = freedom, 2.0 * (freedom + surprise)
    while _divergence_exponent(high, freedom) < surprise:
        high *= 2.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _divergence_exponent(middle, freedom) >= surprise else (middle, high)
    return np.minimum(high, outcomes + surprise) / votes


def _divergence_exponent(x: float, freedom: float) -> float:
    """Return x − (K−1) log(e x / (K−1)), which rises from 0 at x = K − 1."""
    return x - freedom - float(xlogy(freedom, x / freedom))


def largest_score(score: Score, prediction: Prediction, counts: FloatArray, delta: float, region: str) -> FloatArray:
    """Return per item the largest score over a (1 − δ) confidence region for its distribution, or a bound above it.

    Parameters
    ----------
    score : Score
        Any score.
    prediction : array of shape (n, K)
        Valid predictions of the score's order.
    counts : array of shape (n, K)
        Votes, at least one per item.
    delta : float
        Probability with which a region may miss its λ.
    region : {"exact", "tv", "kl", "anytime"}
        See the module's documentation.

    Examples
    --------
    >>> g, n = np.array([[0.5, 0.5]]), np.array([[90.0, 10.0]])
    >>> [float(largest_score(TotalVariation(), g, n, 0.05, region)[0].round(3)) for region in REGIONS]
    [0.451, 0.5, 0.472, 0.471]
    """
    if region == "exact":
        return score.largest_above(prediction, lower_limits(counts, delta))
    votes, n_classes = counts.sum(axis=1), counts.shape[1]
    shares = counts / votes[:, None]
    if region == "tv":
        radius = total_variation_radius(votes, n_classes, delta)
        return score.largest_within(prediction, TotalVariation().region(shares, radius), radius)
    if region == "anytime":
        # Pinsker's inequality, here and below
        return score.largest_within(
            prediction, vote_region(counts, delta), np.sqrt(0.5 * anytime_radius(counts, delta))
        )
    divergence = relative_entropy_radius(votes, n_classes, delta)
    density = NegativeLogDensity()
    ball = density.region(1.0 + counts, density(1.0 + counts, shares) + votes * divergence)
    return score.largest_within(prediction, ball, np.sqrt(0.5 * divergence))
