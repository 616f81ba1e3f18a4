"""How well credal sets do on labelled data: coverage and size, with confidence intervals."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from credalset._text import number_text
from credalset._typing import ArrayLike, BoolArray, FloatArray
from credalset._validation import as_positive_int, as_probability
from credalset.annotations.labels import Labels
from credalset.sets.credal_set import CredalSet
from credalset.simplex import entropy_of_valid


class Estimate(float):
    """A number that carries its confidence interval: ``value``, ``low``, ``high`` and the sample size ``n``."""

    low: float
    high: float
    n: int

    def __new__(cls, value: float, low: float, high: float, n: int) -> Estimate:
        """Create the estimate; it behaves like the plain number ``value``."""
        self = super().__new__(cls, value)
        self.low, self.high, self.n = float(low), float(high), int(n)
        return self

    def __repr__(self) -> str:
        value, low, high = (number_text(x, missing="nan") for x in (float(self), self.low, self.high))
        return f"{value} [{low}, {high}] (n={self.n})"

    def __reduce__(self) -> tuple[type[Estimate], tuple[float, float, float, int]]:
        return Estimate, (float(self), self.low, self.high, self.n)


def proportion(successes: int, n: int, level: float = 0.95) -> Estimate:
    """Return a share with its exact (Clopper–Pearson) confidence interval.

    Examples
    --------
    >>> proportion(90, 100)
    0.9000 [0.8238, 0.9510] (n=100)
    """
    low, high = _exact_interval(int(successes), int(n), as_probability(level, "level"))
    return Estimate(successes / n if n else np.nan, low, high, n)


@lru_cache(maxsize=1024)  # an interval takes milliseconds, and small groups often have equal counts
def _exact_interval(successes: int, n: int, level: float) -> tuple[float, float]:
    from scipy.stats import binomtest

    interval = binomtest(successes, n).proportion_ci(level) if n else (0.0, 1.0)
    return float(interval[0]), float(interval[1])


def mean(values: ArrayLike, level: float = 0.95) -> Estimate:
    """Return an average with its normal-theory confidence interval."""
    from scipy.stats import t

    array = np.asarray(values, dtype=np.float64)
    upper = 0.5 + as_probability(level, "level") / 2.0
    n = len(array)
    if n < 2:
        only = float(array[0]) if n else np.nan
        return Estimate(only, -np.inf, np.inf, n)
    half = t.ppf(upper, n - 1) * array.std(ddof=1) / np.sqrt(n)
    return Estimate(array.mean(), array.mean() - half, array.mean() + half, n)


def coverage(sets: CredalSet, Y: Any, level: float = 0.95) -> Estimate:
    """Return the share of sets that contain their label distribution.

    Parameters
    ----------
    sets : CredalSet
        A batch of N sets.
    Y : array of shape (N, K) or Annotations
        Label distributions or annotation counts.
    level : float
        Confidence level of the interval.

    Returns
    -------
    Estimate
        A float that also carries ``low`` and ``high``, an exact binomial interval.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.5, 0.5], [1.0, 0.0]], threshold=0.3)
    >>> float(coverage(sets, [[3, 7], [0, 10]]))
    0.5
    """
    covered = _covered(sets, Y)
    return proportion(int(covered.sum()), len(covered), level)


def coverage_by_group(sets: CredalSet, Y: Any, groups: ArrayLike, level: float = 0.95) -> dict[Any, Estimate]:
    """Return the coverage within each group.

    Parameters
    ----------
    sets, Y, level
        As in `coverage`.
    groups : array of shape (N,)
        Any key per item: predicted class, source, annotator count band.

    Examples
    --------
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.5, 0.5], [1.0, 0.0]], threshold=0.3)
    >>> coverage_by_group(sets, [[3, 7], [0, 10]], ["easy", "hard"])
    {'easy': 1.0000 [0.0250, 1.0000] (n=1), 'hard': 0.0000 [0.0000, 0.9750] (n=1)}
    """
    keys = np.asarray(groups)
    if keys.shape != (len(sets),):
        raise ValueError(f"groups must hold one key for each of the {len(sets)} sets, but has shape {keys.shape}.")
    covered = _covered(sets, Y)
    hits: dict[Any, list[bool]] = {}
    for key, hit in zip(keys.tolist(), covered.tolist(), strict=True):
        hits.setdefault(key, []).append(hit)
    return {key: proportion(sum(hits[key]), len(hits[key]), level) for key in _in_order(hits)}


def coverage_by_size(
    sets: CredalSet, Y: Any, *, n_bins: int = 5, sizes: ArrayLike | None = None, level: float = 0.95
) -> list[dict[str, Any]]:
    """Return the coverage within bins of set size (equal counts), smallest sets first.

    Parameters
    ----------
    sets, Y, level
        As in `coverage`.
    n_bins : int
        Number of quantile bins; fewer are returned when many sizes tie.
    sizes : array of shape (N,), optional
        Size of each set; grid efficiency by default (three classes).

    Returns
    -------
    list of dict
        Per bin the smallest and largest size, ``low`` and ``high``, and the ``coverage`` with its interval.
    """
    values = sets.efficiency() if sizes is None else np.asarray(sizes, dtype=np.float64)
    return _coverage_by_bins(sets, Y, values, n_bins, level)


def coverage_by_entropy(sets: CredalSet, Y: Any, *, n_bins: int = 5, level: float = 0.95) -> list[dict[str, Any]]:
    """Return the coverage within bins of the predicted entropy (base K), least ambiguous predictions first."""
    return _coverage_by_bins(sets, Y, entropy_of_valid(sets.center) / np.log(sets.n_classes), n_bins, level)


def mean_efficiency(sets: CredalSet, resolution: float = 0.005, level: float = 0.95) -> Estimate:
    """Return the average share of the simplex grid that the sets cover, the paper's efficiency."""
    return mean(sets.efficiency(resolution), level)


def _in_order(keys: Iterable[Any]) -> list[Any]:
    """Sort keys; those that cannot be compared, such as None and text, stay in the order they came."""
    try:
        return sorted(keys)
    except TypeError:
        return list(keys)


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
    is_exact = sets.answers()["volume"] == "exact"
    return sets if is_exact else sets[:: max(1, -(-len(sets) // max_sets))], is_exact


def _covered(sets: CredalSet, Y: Any) -> BoolArray:
    labels = Labels.read(Y, "Y", classes=sets.classes, like="the sets", n_classes=sets.n_classes)
    labels = labels.matching(sets.items, "Y", "the sets")
    if len(labels) != len(sets):
        raise ValueError(f"Y has {len(labels)} rows, but there are {len(sets)} sets.")
    return sets.contains(labels)


def _coverage_by_bins(sets: CredalSet, Y: Any, values: FloatArray, n_bins: int, level: float) -> list[dict[str, Any]]:
    if values.shape != (len(sets),):
        raise ValueError(f"sizes must hold one number for each of the {len(sets)} sets, but has shape {values.shape}.")
    if np.isnan(values).any():
        raise ValueError(f"sizes must be numbers, but {int(np.isnan(values).sum())} of {len(values)} are NaN.")
    covered = _covered(sets, Y)
    return [
        {
            "low": float(values[members].min()),
            "high": float(values[members].max()),
            "coverage": proportion(int(covered[members].sum()), int(members.sum()), level),
        }
        for members in _quantile_bins(values, as_positive_int(n_bins, "n_bins"))
    ]


def _quantile_bins(values: FloatArray, n_bins: int) -> list[BoolArray]:
    """Split into bins of equal counts, smallest values first; equal values share a bin, so there may be fewer."""
    n = len(values)
    starts = np.unique(np.sort(values)[np.arange(min(n_bins, n)) * n // min(n_bins, max(n, 1))])
    index = np.searchsorted(starts, values, side="right") - 1
    return [index == b for b in range(len(starts))]
