r"""Coverage, size and loss on labelled data, with confidence intervals.

The measures of size are small, and *decided* is large, for different reasons. *Width*: all class
probabilities are known closely. *Epistemic*: the ambiguity of the item is known. *Labels* and
*decided*: one label is clearly the most probable. *Volume*: the set is a small share of the
simplex; a thin set that reaches several corners has a small volume although all labels are
possible.

An empty set has width, epistemic part, labels and volume zero and counts as decided, so that scores
are compared on the same items. The number of empty sets should be reported with these measures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy

from credalset._batch import name_array, read
from credalset._display import Estimate, mean, proportion
from credalset._typing import ArrayLike, BoolArray, FloatArray, IntArray
from credalset._validation import as_distributions, as_positive_int
from credalset.sets.credal_set import CredalSet
from credalset.sets.membership import contains_rows

__all__ = [
    "Estimate",
    "coverage",
    "coverage_by_group",
    "decided",
    "mean",
    "mean_efficiency",
    "mean_epistemic",
    "mean_labels",
    "mean_sizes",
    "mean_volume",
    "mean_width",
    "proportion",
    "soft_brier",
    "soft_log_loss",
]


def __dir__() -> list[str]:
    return list(__all__)


#: smaller ones are clipped, as in scikit-learn's log_loss
SMALLEST_PROBABILITY = float(np.finfo(np.float64).eps)


def coverage(sets: CredalSet, votes: Any, level: float = 0.95) -> Estimate:
    """Return the share of sets that contain their label distribution, with a binomial interval.

    Parameters
    ----------
    sets : CredalSet
        A batch of N sets.
    votes : array or data frame of shape (N, K), or Annotations
        Annotation counts or label distributions.
    level : float
        Confidence level of the interval.

    Returns
    -------
    Estimate
        The observed coverage with its interval.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.5, 0.5], [1.0, 0.0]], threshold=0.3)
    >>> coverage(sets, [[3, 7], [0, 10]])
    0.5000 [0.0126, 0.9874] (n=2)
    """
    covered = _covered(sets, votes)
    return proportion(int(covered.sum()), len(covered), level)


def coverage_by_group(
    sets: CredalSet, votes: Any, groups: ArrayLike, level: float = 0.95
) -> dict[Any, Estimate]:
    """Return the observed coverage within each group, with exact binomial intervals.

    Parameters
    ----------
    sets, votes, level
        As in `coverage`.
    groups : array of shape (N,)
        One key per item, such as its predicted class, source or number of annotators.

    Returns
    -------
    dict of Estimate
        The coverage of each group, by key.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.5, 0.5], [1.0, 0.0]], threshold=0.3)
    >>> coverage_by_group(sets, [[3, 7], [0, 10]], ["easy", "hard"])
    {'easy': 1.0000 [0.0250, 1.0000] (n=1), 'hard': 0.0000 [0.0000, 0.9750] (n=1)}
    """
    keys = name_array(sets._batch.column(groups, "groups"))
    hits = by_key(keys, _covered(sets, votes))
    return {key: proportion(sum(mine), len(mine), level) for key, mine in hits.items()}


def mean_width(sets: CredalSet, level: float = 0.95) -> Estimate:
    r"""Return the average width of the envelopes.

    It is $\frac12 \sum_k (\mathrm{upper}_k - \mathrm{lower}_k)$ per set.

    A set of one distribution has width 0, and the whole simplex has width K/2. For two classes, the
    width is the length of the interval. An empty set has width 0.

    Parameters
    ----------
    sets : CredalSet
        A batch of N sets.
    level : float
        Confidence level of the interval.

    Returns
    -------
    Estimate
        The mean width with its interval.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.4, 0.3, 0.3], [1.0, 0.0, 0.0]], threshold=0.1)
    >>> mean_width(sets).n, round(mean_width(sets), 3)  # 0.3 and 0.15
    (2, 0.225)
    """
    return mean(widths(sets), level)


def mean_epistemic(sets: CredalSet, level: float = 0.95) -> Estimate:
    """Return the average difference of the largest and smallest entropy, as a share of log K.

    This is the epistemic uncertainty. If entropies are certified bounds rather than exact, the
    difference is an upper bound. An empty set counts as 0.

    Parameters
    ----------
    sets : CredalSet
        A batch of N sets.
    level : float
        Confidence level of the interval.

    Returns
    -------
    Estimate
        The mean difference with its interval.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> round(mean_epistemic(TotalVariation().region([[0.5, 0.5]], threshold=0.5)), 3)
    1.0
    """
    return mean(_epistemic(sets), level)


def mean_labels(sets: CredalSet, level: float = 0.95) -> Estimate:
    """Return the average number of E-admissible labels.

    These are the most probable ones under some distribution in the set.

    Parameters
    ----------
    sets : CredalSet
        A batch of N sets.
    level : float
        Confidence level of the interval.

    Returns
    -------
    Estimate
        The mean number of labels with its interval.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.4, 0.3, 0.3], [1.0, 0.0, 0.0]], threshold=0.1)
    >>> float(mean_labels(sets))  # three and one
    2.0
    """
    return mean(_n_labels(sets), level)


def decided(sets: CredalSet, level: float = 0.95) -> Estimate:
    """Return the share of sets with at most one E-admissible label, with a binomial interval.

    Parameters
    ----------
    sets : CredalSet
        A batch of N sets.
    level : float
        Confidence level of the interval.

    Returns
    -------
    Estimate
        The share of decided sets with its interval.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.4, 0.3, 0.3], [1.0, 0.0, 0.0]], threshold=0.1)
    >>> float(decided(sets))
    0.5
    """
    return _decided(_n_labels(sets), level)


def mean_sizes(
    sets: CredalSet, *, max_sets: int | None = None, level: float = 0.95
) -> dict[str, Estimate]:
    """Return `mean_width`, `mean_epistemic`, `mean_labels` and `decided` in one dictionary.

    Parameters
    ----------
    sets : CredalSet
        A batch of N sets.
    max_sets : int, optional
        Largest number of sets to measure; they are spread evenly through the batch. By default all
        sets are measured.
    level : float
        Confidence level of the intervals.

    Returns
    -------
    dict of Estimate
        The keys are ``"width"``, ``"epistemic"``, ``"labels"`` and ``"decided"``.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.4, 0.3, 0.3], [1.0, 0.0, 0.0]], threshold=0.1)
    >>> {name: round(value, 3) for name, value in mean_sizes(sets).items()}
    {'width': 0.225, 'epistemic': 0.211, 'labels': 2.0, 'decided': 0.5}
    """
    some = sets if max_sets is None else evenly(sets, as_positive_int(max_sets, "max_sets"))
    labels = _n_labels(some)
    means = {"width": widths(some), "epistemic": _epistemic(some), "labels": labels}
    return {name: mean(values, level) for name, values in means.items()} | {
        "decided": _decided(labels, level)
    }


def mean_efficiency(sets: CredalSet, resolution: float = 0.005, level: float = 0.95) -> Estimate:
    """Return the average share of a simplex grid that lies in the sets.

    This is the efficiency of the paper.

    Parameters
    ----------
    sets : CredalSet
        A batch of N sets.
    resolution : float
        Step of the grid, as in `CredalSet.efficiency`.
    level : float
        Confidence level of the interval.

    Returns
    -------
    Estimate
        The mean share with its interval.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> round(mean_efficiency(TotalVariation().region([[0.4, 0.3, 0.3]], threshold=0.1)), 2)
    0.06
    """
    return mean(sets.efficiency(resolution), level)


def mean_volume(
    sets: CredalSet, *, n_rays: int = 256, max_sets: int = 200, level: float = 0.95
) -> Estimate:
    """Return the average volume of the sets, as a fraction of the simplex.

    Exact volumes are averaged over all sets. If volumes have to be estimated, the average is over
    at most ``max_sets`` sets, which are spread evenly through the batch.

    Parameters
    ----------
    sets : CredalSet
        A batch of N sets.
    n_rays : int
        Number of random rays with which the volume of a set is estimated.
    max_sets : int
        Largest number of sets whose volumes are estimated.
    level : float
        Confidence level of the interval.

    Returns
    -------
    Estimate
        The mean volume with its interval.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.4, 0.3, 0.3], [0.3, 0.3, 0.4]], threshold=0.1)
    >>> round(mean_volume(sets), 4)
    0.06
    """
    if len(sets) == 0:
        return mean([], level)
    measured = (
        sets if has_exact_volumes(sets) else evenly(sets, as_positive_int(max_sets, "max_sets"))
    )
    return mean(measured.volume(n_rays=n_rays), level)


def soft_log_loss(votes: Any, predictions: Any, level: float = 0.95) -> Estimate:
    r"""Return the mean soft cross-entropy in nats.

    It is $-\sum_k \lambda_k \log g_k$ for the predicted distribution g.

    The method ``score`` of the estimators of this package returns minus this loss. The order of the
    arguments is that of scikit-learn's metrics, so that `sklearn.metrics.make_scorer` can use it.

    Parameters
    ----------
    votes : array or data frame of shape (N, K), or Annotations
        Annotation counts or label distributions.
    predictions : array or data frame of shape (N, K)
        Predicted distributions.
    level : float
        Confidence level of the interval.

    Returns
    -------
    Estimate
        The mean loss with its interval.

    Examples
    --------
    >>> round(soft_log_loss([[3, 7], [1, 0]], [[0.5, 0.5], [0.9, 0.1]]), 3)
    0.399
    """
    found, labels = _pairs(predictions, votes)
    return mean(0.0 - xlogy(labels, np.maximum(found, SMALLEST_PROBABILITY)).sum(axis=1), level)


def soft_brier(votes: Any, predictions: Any, level: float = 0.95) -> Estimate:
    r"""Return the mean squared distance of predictions from labels.

    It is $\sum_k (\lambda_k - g_k)^2$ for the predicted distribution g and the label λ.

    Parameters
    ----------
    votes, predictions, level
        As in `soft_log_loss`.

    Returns
    -------
    Estimate
        The mean loss with its interval.

    Examples
    --------
    >>> round(soft_brier([[3, 7], [1, 0]], [[0.5, 0.5], [0.9, 0.1]]), 3)
    0.05
    """
    found, labels = _pairs(predictions, votes)
    return mean(((found - labels) ** 2).sum(axis=1), level)


def evenly(sets: CredalSet, at_most: int) -> CredalSet:
    """Return at most so many of the sets, spread evenly through the batch."""
    return sets[:: max(1, -(-len(sets) // at_most))]


def has_exact_volumes(sets: CredalSet) -> bool:
    """Return whether volumes are exact rather than estimated; a set that is not trivial decides."""
    regular = np.flatnonzero(np.isfinite(sets.radius) & (sets.radius >= 0.0))
    return sets[regular[:1]].log_volume(n_rays=2).method == "exact"


def widths(sets: CredalSet) -> FloatArray:
    """Return half the summed widths of each set's envelope, 0 where it is empty, (N,)."""
    lower, upper = sets.envelope()
    return np.nan_to_num(0.5 * (upper - lower).sum(axis=1))  # NaN where a set is empty


def by_key(keys: Any, values: Any) -> dict[Any, list[Any]]:
    """Return the values of each key; unsortable keys, such as None and text, keep their order."""
    found: dict[Any, list[Any]] = {}
    for key, value in zip(np.asarray(keys).tolist(), np.asarray(values).tolist(), strict=True):
        found.setdefault(key, []).append(value)
    try:
        return {key: found[key] for key in sorted(found)}
    except TypeError:
        return found


def _epistemic(sets: CredalSet) -> FloatArray:
    return np.nan_to_num(sets.uncertainty(base="K").epistemic)


def _n_labels(sets: CredalSet) -> IntArray:
    return sets.decide("e-admissible").sum(axis=1)


def _decided(n_labels: IntArray, level: float) -> Estimate:
    return proportion(int((n_labels <= 1).sum()), len(n_labels), level)


def _covered(sets: CredalSet, votes: Any) -> BoolArray:
    if isinstance(votes, CredalSet):
        raise TypeError("sets come first, and votes (or label distributions) second.")
    return contains_rows(sets, sets._batch.votes(votes).distributions)


def _pairs(predictions: Any, votes: Any) -> tuple[FloatArray, FloatArray]:
    """Return predicted and label distributions of the same items, (N, K) each."""
    batch = read(predictions)
    found = as_distributions(batch.values, "predictions")
    return found, batch.votes(votes).distributions
