"""Numbers with confidence intervals, overall and by group."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from credalset._estimate import Estimate
from credalset._typing import ArrayLike, IntArray
from credalset._validation import as_probability
from credalset.annotations.labels import in_item_order
from credalset.sets.credal_set import CredalSet

__all__ = ["Estimate", "by_group", "mean", "proportion", "rows_by_group"]


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


def by_group(
    measure: Callable[..., Estimate], sets: CredalSet, groups: ArrayLike, **options: Any
) -> dict[Any, Estimate]:
    """Return a measure of the sets within each group.

    Parameters
    ----------
    measure : function
        Any function here that takes sets: `mean_width`, `mean_epistemic`, `mean_labels`, `decided`, `mean_volume`.
    sets : CredalSet
        A batch of N sets.
    groups : array of shape (N,)
        Any key per item: predicted class, source, annotator count band.
    **options
        What else the measure takes, such as ``level``.

    Examples
    --------
    >>> from credalset.metrics import decided
    >>> from credalset.scores import TotalVariation
    >>> sets = TotalVariation().region([[0.5, 0.5], [1.0, 0.0]], threshold=0.3)
    >>> by_group(decided, sets, ["hard", "easy"])
    {'easy': 1.0000 [0.0250, 1.0000] (n=1), 'hard': 0.0000 [0.0000, 0.9750] (n=1)}
    """
    return {key: measure(sets[rows], **options) for key, rows in rows_by_group(groups, sets).items()}


def rows_by_group(groups: Any, sets: CredalSet) -> dict[Any, IntArray]:
    """Return the rows of each group, groups in order."""
    keys = np.asarray(in_item_order(groups, sets.items, "groups", "the sets"))
    if keys.shape != (len(sets),):
        raise ValueError(f"groups must hold one key for each of the {len(sets)} sets, but has shape {keys.shape}.")
    rows: dict[Any, list[int]] = {}
    for row, key in enumerate(keys.tolist()):
        rows.setdefault(key, []).append(row)
    return {key: np.array(rows[key], dtype=np.int64) for key in _in_order(rows)}


def _in_order(keys: Iterable[Any]) -> list[Any]:
    """Sort keys; those that cannot be compared, such as None and text, stay in the order they came."""
    try:
        return sorted(keys)
    except TypeError:
        return list(keys)
