"""A float with a confidence interval, and the two intervals that are used everywhere."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from credalset._text import number_text
from credalset._typing import ArrayLike
from credalset._validation import as_probability


class Estimate(float):
    """A float with a confidence interval, ``low`` to ``high``, and the sample size ``n``."""

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
    """Return an average with its confidence interval from the t distribution.

    Examples
    --------
    >>> mean([0.1, 0.2, 0.6])
    0.3000 [-0.3572, 0.9572] (n=3)
    """
    from scipy.stats import t

    array = np.asarray(values, dtype=np.float64)
    upper = 0.5 + as_probability(level, "level") / 2.0
    n = len(array)
    if n < 2:
        return Estimate(float(array[0]) if n else np.nan, -np.inf, np.inf, n)
    half = t.ppf(upper, n - 1) * array.std(ddof=1) / np.sqrt(n)
    return Estimate(array.mean(), array.mean() - half, array.mean() + half, n)
