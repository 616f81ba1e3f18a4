"""ε and δ of the paper's noise theorem from annotation counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from credalset._batch import Labels, read_votes
from credalset._display import plural
from credalset._typing import BoolArray, FloatArray, Prediction
from credalset._validation import as_probability
from credalset.calibration.base import read_items
from credalset.calibration.levels import conformal_rank, exact_level, score_at_rank
from credalset.calibration.noise import BoundedNoise
from credalset.calibration.sampling import lower_limits
from credalset.scores import Score, get_score
from credalset.sets.roots import bisect


def epsilon_from_counts(
    votes: Any, delta: float, score: str | Score = "kl", *, predictions: Any = None
) -> BoundedNoise:
    r"""Compute an ε such that votes change the score by more than ε with probability at most δ.

    Votes are assumed to be independent draws, $n_i \sim \mathrm{Multinomial}(m_i, \lambda_i)$.

    *With predictions*, for any score: each item gets $\epsilon_i = u_i - f(x_i, \hat\lambda_i)$,
    where $u_i$ is the largest score over a (1 − δ/2) confidence region for its λ. ε is the
    conformal quantile of the $\epsilon_i$ at level δ/2. The change of a new item exceeds ε only if
    $\epsilon_{new} > \epsilon$ (probability at most δ/2) or if its region does not contain λ
    (probability at most δ/2). The predictions may be those that are calibrated: the probabilities
    of both events are bounded on average over calibration sets, as coverage is.

    *Without predictions*, for scores that change by at most L · TV (``tv``, ``ws``, ``inner``,
    ``brier``): ε = L · r(m), where r comes from a concentration inequality. If items differ in
    their number of votes, r is the smallest number with $(1 + \sum_i P_i(r)) / (n + 1) \le \delta$,
    where $P_i(r)$ bounds the probability that the shares of item i, which has $m_i$ votes, deviate
    by more than r. The number of votes of a new item must be exchangeable with those of the items.

    Unless all items have the same number of votes and there are no predictions, ε holds only on
    average over items: among items with few votes, the change may exceed ε far more often than δ.
    Such an ε is refused with groups, weights and `Conditional`. `AnnotatorSampling` holds for each
    item.

    Parameters
    ----------
    votes : array or data frame of shape (n, K), or Annotations
        Annotation counts.
    delta : float
        Probability δ in (0, 1), below the α that you will use; about a third of α is a reasonable
        choice.
    score : str or Score
        The score to be calibrated.
    predictions : array or data frame of shape (n, K), optional
        Predictions for the same items. They are needed for scores without a known L, such as
        ``kl``.

    Returns
    -------
    BoundedNoise
        Noise model with this ε and δ, and the rule ``"union"``.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(500, n_votes=100, random_state=0)
    >>> noise = cs.epsilon_from_counts(data.counts, delta=0.05, score="tv")
    >>> round(noise.epsilon, 3), noise.delta
    (0.155, 0.05)
    >>> noise = cs.epsilon_from_counts(data.counts, 0.05, "kl", predictions=data.distributions)
    >>> calibration = cs.conformalize(data.distributions, data.counts, "kl", noise=noise)
    """
    chosen = get_score(score)
    delta = as_probability(delta, "delta")
    if predictions is not None:
        found = read_items(chosen, predictions, votes)
        epsilon = _from_predictions(found.score, found.prediction, found.labels, delta)
        return BoundedNoise(epsilon, delta, _scope="average item, one model")
    labels = read_votes(votes)
    order = labels.scale_order() if chosen.is_ordinal else None
    labels = labels if order is None else labels.reorder(order)
    counts = labels.votes("votes", "epsilon_from_counts")
    counts = counts[counts.any(axis=1)]
    n_votes = counts.sum(axis=1)
    is_equal = bool((n_votes == n_votes[0]).all())
    epsilon = _from_votes(chosen.on_scale(labels.scale), counts, delta)
    return BoundedNoise(epsilon, delta, _scope="any" if is_equal else "average item")


def _from_predictions(score: Score, prediction: Prediction, labels: Labels, delta: float) -> float:
    votes = labels.votes("votes", "epsilon_from_counts")
    observed = score.evaluate_rows(prediction, labels.distributions)
    largest = score.largest_above(prediction, lower_limits(votes, delta / 2))
    # An infinite score cannot grow; a bound may be below the observed score by rounding.
    with np.errstate(invalid="ignore"):
        change = np.where(np.isinf(observed), 0.0, np.maximum(largest - observed, 0.0))
    rank = conformal_rank(len(change), exact_level(delta) / 2)
    epsilon = score_at_rank(np.sort(change), rank)
    if math.isinf(epsilon):
        unbounded = plural(int(np.isinf(change).sum()), "item")
        reason = f"score {score.name!r} is unbounded over the confidence regions of {unbounded}"
        if rank > len(change):
            reason = (
                f"votes has {plural(len(change), 'item')}, and delta={delta:g} needs "
                f"{math.ceil(2 / delta) - 1}"
            )
        raise ValueError(
            f"epsilon is infinite: {reason}. Raise delta, add items or votes, or change the score."
        )
    return epsilon


def _from_votes(score: Score, counts: FloatArray, delta: float) -> float:
    votes = counts.sum(axis=1)
    n_classes = counts.shape[1]
    slope = score.lipschitz(n_classes)
    if slope is None:
        raise ValueError(
            f"predictions is missing, and the effect of votes on the score {score.name!r} depends "
            "on it. Pass the predictions for these items, or use tv, ws, inner or brier."
        )
    if (votes == votes[0]).all():
        return slope * float(total_variation_radius(votes[:1], n_classes, delta)[0])

    def is_enough(radius: FloatArray) -> BoolArray:
        return np.array([_failures(float(radius[0]), votes, n_classes) <= delta])

    return slope * float(bisect(is_enough, np.zeros(1), np.ones(1), steps=60)[1][0])


def _failures(radius: float, votes: FloatArray, n_classes: int) -> float:
    """Bound P(TV > radius) for a new item whose number of votes is exchangeable with these."""
    if radius >= 1.0:
        return 0.0
    by_events = (
        n_classes * np.log(2.0) + np.log1p(-(2.0 ** (1.0 - n_classes))) - 2.0 * votes * radius**2
    )
    beyond_mean = np.maximum(radius - 0.5 * np.sqrt((n_classes - 1) / votes), 0.0)
    chance = np.exp(np.minimum(np.minimum(by_events, -2.0 * votes * beyond_mean**2), 0.0))
    return float((1.0 + chance.sum()) / (len(votes) + 1))


def total_variation_radius(votes: FloatArray, n_classes: int, delta: float) -> FloatArray:
    r"""Return r(m) with $P(TV(\hat\lambda, \lambda) \ge r) \le \delta$ for every λ.

    The smaller of two bounds: $\sqrt{(\log(2^K - 2) + \log(1/\delta)) / 2m}$ (Hoeffding's
    inequality for each event, as in Weissman et al., 2003) and $\tfrac12 \sqrt{(K-1)/m} +
    \sqrt{\log(1/\delta) / 2m}$ (the mean, and McDiarmid's inequality around it).

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
