r"""Where the distribution behind some votes may lie, and how badly it may fit a prediction there.

With votes $n \sim \mathrm{Multinomial}(m, \lambda)$ and shares $\hat\lambda = n / m$, three regions hold λ with
probability at least 1 − δ, whatever λ and m are:

- ``"exact"``: $\lambda_k \ge l_k$ for all k, with the exact (Clopper–Pearson) lower limits at level δ / K;
- ``"tv"``: a total-variation ball around the shares, from concentration inequalities;
- ``"kl"``: $KL(\hat\lambda \| \lambda) \le \rho$, from the law of the empirical divergence.

The first is itself a simplex with K corners. A score with convex level sets takes its maximum over that simplex at one
of them: exact, for K evaluations (mixtures of densities have a bound instead, on pieces of the simplex). For the balls
the linear score is exact, and the others take the smaller of two bounds: the score over the simplex above the ball's
lower envelope, and, for metrics, the triangle inequality.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, gammaln, xlogy

from credalset._predictions import PredictionBatch
from credalset._typing import FloatArray, Prediction
from credalset.scores import InnerProduct, NegativeLogDensity, Normalized, Score, TotalVariation, Wasserstein
from credalset.sets.credal_set import CredalSet

REGIONS = ("exact", "tv", "kl")
MAX_PIECES = 81  # that a confidence region is covered by, where each has only a bound


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
        Any score; see `Score.largest_above`.
    prediction : array of shape (n, K)
        Valid predictions of the score's order.
    counts : array of shape (n, K)
        Votes, at least one per item.
    delta : float
        Probability with which a region may miss its λ.
    region : {"exact", "tv", "kl"}
        See the module's documentation.

    Examples
    --------
    >>> g, n = np.array([[0.5, 0.5]]), np.array([[90.0, 10.0]])
    >>> [float(largest_score(TotalVariation(), g, n, 0.05, region)[0].round(3)) for region in REGIONS]
    [0.451, 0.5, 0.472]
    """
    if region == "exact":
        return _largest_above(score, prediction, lower_limits(counts, delta))
    votes, n_classes = counts.sum(axis=1), counts.shape[1]
    shares = counts / votes[:, None]
    if region == "tv":
        radius = total_variation_radius(votes, n_classes, delta)
        ball: CredalSet = TotalVariation().region(shares, radius)
    else:
        divergence = relative_entropy_radius(votes, n_classes, delta)
        radius = np.sqrt(0.5 * divergence)  # Pinsker's inequality
        density = NegativeLogDensity()
        ball = density.region(1.0 + counts, density(1.0 + counts, shares) + votes * divergence)
    core = score.score if isinstance(score, Normalized) else score
    if isinstance(core, InnerProduct):
        bound = np.maximum(1.0 - ball.lower_expectation(prediction), 0.0)
    else:
        bound = _largest_above(core, prediction, ball.lower())
        if isinstance(core, TotalVariation | Wasserstein):
            reach = score_range(core, n_classes)
            bound = np.minimum(bound, core.evaluate_rows(prediction, shares) + reach * radius)
    return _rescaled(score, prediction, bound)


def _largest_above(score: Score, prediction: Prediction, lower: FloatArray) -> FloatArray:
    """Return the largest score over {λ : λ ≥ lower}, or a bound above it.

    For mixtures `Score.largest_above` is a bound, closer the smaller the simplex. Some class always has a K-th of what
    ``lower`` leaves, so K simplices of the same kind, smaller by 1 − 1/K, cover it, and so on within each.
    """
    depth = int(np.log(MAX_PIECES + 0.5) / np.log(lower.shape[1])) if isinstance(prediction, PredictionBatch) else 0
    return _in_pieces(score, prediction, lower, depth)


def _in_pieces(score: Score, prediction: Prediction, lower: FloatArray, depth: int) -> FloatArray:
    if depth == 0:
        return score.largest_above(prediction, lower)
    n_classes = lower.shape[1]
    # Rounded down, so that the pieces overlap rather than leave a gap.
    part = np.maximum(1.0 - lower.sum(axis=1, keepdims=True), 0.0) / n_classes * (1.0 - 1e-12)
    pieces = (lower + part * corner for corner in np.eye(n_classes))
    return np.max([_in_pieces(score, prediction, piece, depth - 1) for piece in pieces], axis=0)


def largest_possible_score(score: Score, prediction: Prediction) -> FloatArray:
    """Return per prediction the largest score of any distribution: that of a corner of the simplex."""
    return score.largest_above(prediction, np.zeros((len(prediction), score.n_classes(prediction))))


def score_range(score: Score, n_classes: int) -> float:
    """Return how much a unit of total variation can change the score: for Wasserstein the length of its line."""
    return float(score.gaps(n_classes).sum()) if isinstance(score, Wasserstein) else 1.0


def _rescaled(score: Score, prediction: FloatArray, bound: FloatArray) -> FloatArray:
    if not isinstance(score, Normalized):
        return bound
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(bound > 0, bound / score.ambiguity(prediction), 0.0)
