"""How often sets contain the label distributions of labelled items."""

from __future__ import annotations

from typing import Any

import numpy as np

from credalset._text import Rows
from credalset._typing import ArrayLike, BoolArray, FloatArray
from credalset._validation import as_positive_int
from credalset.annotations.labels import Labels, in_item_order
from credalset.metrics.estimate import Estimate, proportion, rows_by_group
from credalset.metrics.size import widths
from credalset.sets.credal_set import CredalSet
from credalset.simplex import entropy_of_valid


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
    found = rows_by_group(groups, sets)
    covered = _covered(sets, Y)
    return {key: proportion(int(covered[rows].sum()), len(rows), level) for key, rows in found.items()}


def coverage_by_size(
    sets: CredalSet, Y: Any, *, n_bins: int = 5, sizes: ArrayLike | None = None, level: float = 0.95
) -> Rows:
    """Return the coverage within bins of set size (equal counts), smallest sets first.

    Parameters
    ----------
    sets, Y, level
        As in `coverage`.
    n_bins : int
        Number of quantile bins; fewer are returned when many sizes tie.
    sizes : array of shape (N,), optional
        Size of each set; by default its width, as in `mean_width`.

    Returns
    -------
    Rows, a list of dict that prints as a table
        Per bin the smallest and largest size, ``low`` and ``high``, and the ``coverage`` with its interval.
    """
    if sizes is None:
        sizes = widths(sets)
    values = np.asarray(in_item_order(sizes, sets.items, "sizes", "the sets"), dtype=np.float64)
    return _coverage_by_bins(sets, Y, values, n_bins, level)


def coverage_by_entropy(sets: CredalSet, Y: Any, *, n_bins: int = 5, level: float = 0.95) -> Rows:
    """Return the coverage within bins of the predicted entropy (base K), least ambiguous predictions first."""
    return _coverage_by_bins(sets, Y, entropy_of_valid(sets.center) / np.log(sets.n_classes), n_bins, level)


def _covered(sets: CredalSet, Y: Any) -> BoolArray:
    if isinstance(Y, CredalSet):
        raise TypeError("sets come first and Y, the label distributions or counts, second.")
    labels = Labels.read(Y, "Y", classes=sets.classes, like="the sets", n_classes=sets.n_classes)
    labels = labels.matching(sets.items, "Y", "the sets")
    if len(labels) != len(sets):
        raise ValueError(f"Y has {len(labels)} rows, but there are {len(sets)} sets.")
    return sets.contains(labels)


def _coverage_by_bins(sets: CredalSet, Y: Any, values: FloatArray, n_bins: int, level: float) -> Rows:
    if values.shape != (len(sets),):
        raise ValueError(f"sizes must hold one number for each of the {len(sets)} sets, but has shape {values.shape}.")
    if np.isnan(values).any():
        raise ValueError(f"sizes must be numbers, but {int(np.isnan(values).sum())} of {len(values)} are NaN.")
    covered = _covered(sets, Y)
    return Rows(
        {
            "low": float(values[members].min()),
            "high": float(values[members].max()),
            "coverage": proportion(int(covered[members].sum()), int(members.sum()), level),
        }
        for members in _quantile_bins(values, as_positive_int(n_bins, "n_bins"))
    )


def _quantile_bins(values: FloatArray, n_bins: int) -> list[BoolArray]:
    """Split into bins of equal counts, smallest values first; equal values share a bin, so there may be fewer."""
    starts = bin_starts(values, n_bins)
    index = np.searchsorted(starts, values, side="right") - 1
    return [index == b for b in range(len(starts))]


def bin_starts(values: FloatArray, n_bins: int) -> FloatArray:
    """Return the smallest value of each bin of equal counts; equal values are in one bin."""
    n = len(values)
    return np.unique(np.sort(values)[np.arange(min(n_bins, n)) * n // min(n_bins, max(n, 1))])
