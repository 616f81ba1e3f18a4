"""How much sets leave open: what people read off them, and their volume.

Each measure rewards something else. *Width* is small where every class probability is known closely, *epistemic* where
it is known how ambiguous an item is, *labels* is small and *decided* large where one label is clearly most probable.
*Volume* is the share of all distributions that a set holds, and by itself it rewards slivers: a set can be thin and yet
reach into several corners of the simplex, so that its volume is small while every label stays possible.

A set without members leaves nothing open: it counts with width, epistemic part, labels and volume zero, and as
decided, so that scores are compared on the same items. Look at the number of empty sets beside these.
"""

from __future__ import annotations

import numpy as np

from credalset._typing import FloatArray, IntArray
from credalset._validation import as_positive_int
from credalset.metrics.estimate import Estimate, mean, proportion
from credalset.sets.credal_set import CredalSet


def mean_width(sets: CredalSet, level: float = 0.95) -> Estimate:
    r"""Return the average width of the envelopes, $\frac12 \sum_k (\mathrm{upper}_k - \mathrm{lower}_k)$.

    A single distribution has width 0, the whole simplex K/2. For two classes it is the length of the interval.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.4, 0.3, 0.3], [1.0, 0.0, 0.0]], threshold=0.1)
    >>> mean_width(sets).n, round(mean_width(sets), 3)  # 0.3 and 0.15
    (2, 0.225)
    """
    return mean(widths(sets), level)


def mean_epistemic(sets: CredalSet, level: float = 0.95) -> Estimate:
    """Return the average difference between the largest and the smallest entropy in a set, as shares of log K.

    Where entropies are brackets rather than exact (`CredalSet.answers`), differences are never too small.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> round(mean_epistemic(TotalVariation().region([[0.5, 0.5]], threshold=0.5)), 3)  # everything from sure to torn
    1.0
    """
    return mean(_epistemic(sets), level)


def mean_labels(sets: CredalSet, level: float = 0.95) -> Estimate:
    """Return the average number of labels that are most probable for some member, the E-admissible ones.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.4, 0.3, 0.3], [1.0, 0.0, 0.0]], threshold=0.1)
    >>> float(mean_labels(sets))  # all three, and one
    2.0
    """
    return mean(_n_labels(sets), level)


def decided(sets: CredalSet, level: float = 0.95) -> Estimate:
    """Return the share of items for which at most one label can be the most probable one, with an exact interval.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.4, 0.3, 0.3], [1.0, 0.0, 0.0]], threshold=0.1)
    >>> float(decided(sets))
    0.5
    """
    return _decided(_n_labels(sets), level)


def mean_sizes(sets: CredalSet, *, max_sets: int | None = None, level: float = 0.95) -> dict[str, Estimate]:
    """Return ``width``, ``epistemic``, ``labels`` and ``decided`` together, for less than one after the other.

    Parameters
    ----------
    sets : CredalSet
        A batch of N sets.
    max_sets : int, optional
        Measure no more than so many, spread evenly through the batch.
    level : float
        Confidence level of the intervals.

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
    return {name: mean(values, level) for name, values in means.items()} | {"decided": _decided(labels, level)}


def mean_efficiency(sets: CredalSet, resolution: float = 0.005, level: float = 0.95) -> Estimate:
    """Return the average share of the simplex grid that the sets cover, the paper's efficiency."""
    return mean(sets.efficiency(resolution), level)


def mean_volume(sets: CredalSet, *, n_rays: int = 256, max_sets: int = 200, level: float = 0.95) -> Estimate:
    """Return the average volume of the sets, as a fraction of the simplex.

    Exact volumes are averaged over all sets. Where volumes are estimates, which take longer, the average is over
    ``max_sets`` sets spread evenly through the batch, with ``n_rays`` rays each: unbiased, and quick enough for tables.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> round(mean_volume(TotalVariation().region([[0.4, 0.3, 0.3], [0.3, 0.3, 0.4]], threshold=0.1)), 4)
    0.06
    """
    if len(sets) == 0:
        return mean([], level)
    chosen, _ = volume_sample(sets, as_positive_int(max_sets, "max_sets"))
    return mean(chosen.volume(n_rays=n_rays), level)  # type: ignore[arg-type]


def volume_sample(sets: CredalSet, max_sets: int) -> tuple[CredalSet, bool]:
    """Return the sets to measure, and whether their volumes are exact: all of them, or ``max_sets`` spread evenly."""
    regular = np.flatnonzero(np.isfinite(sets.radius) & (sets.radius >= 0.0))
    is_exact = sets[regular[:1]].log_volume(n_rays=2).method == "exact"
    return sets if is_exact else evenly(sets, max_sets), is_exact


def evenly(sets: CredalSet, at_most: int) -> CredalSet:
    """Return at most so many of the sets, spread evenly through the batch."""
    return sets[:: max(1, -(-len(sets) // at_most))]


def widths(sets: CredalSet) -> FloatArray:
    """Return half the summed widths of each set's envelope, 0 where it is empty, (N,)."""
    lower, upper = sets.envelope()
    return np.nan_to_num(0.5 * (upper - lower).sum(axis=1))  # NaN where a set is empty


def _epistemic(sets: CredalSet) -> FloatArray:
    return np.nan_to_num(sets.uncertainty(base="K").epistemic)


def _n_labels(sets: CredalSet) -> IntArray:
    return sets.decide("e-admissible").sum(axis=1)


def _decided(n_labels: IntArray, level: float) -> Estimate:
    return proportion(int((n_labels <= 1).sum()), len(n_labels), level)
