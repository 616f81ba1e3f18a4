"""Exact levels and ranks of split conformal prediction, and the distribution of the coverage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from credalset._typing import FloatArray
from credalset._validation import as_numbers, as_probability


def exact_level(level: float | Fraction) -> Fraction:
    """Return the decimal fraction that a floating-point level approximates.

    0.3 and float32(0.3) become 3/10, and so does 1 − 0.7, which is 0.30000000000000004 in floating
    point. Otherwise (n + 1)(1 − α) would be on the wrong side of whole numbers. A level changes by
    less than the rounding error of 1 − level; levels that are close to no simple fraction are
    unchanged.

    Examples
    --------
    >>> exact_level(1 - 0.9), exact_level(np.float16(0.006))
    (Fraction(1, 10), Fraction(3, 500))
    """
    if isinstance(level, Fraction):
        return level
    number = level if isinstance(level, np.floating) else np.float64(level)
    decimal = Fraction(str(number))
    simple = decimal.limit_denominator(10**6 if number.dtype == np.float64 else 1000)
    is_near = abs(simple - decimal) <= Fraction(float(np.finfo(number.dtype).eps)) / 2
    return simple if is_near and 0 < simple < 1 else decimal


def conformal_rank(n: int, alpha: float | Fraction) -> int:
    """Return ⌈(n + 1)(1 − α)⌉, computed in whole numbers.

    Examples
    --------
    >>> conformal_rank(9, 0.1), conformal_rank(9, 0.3), conformal_rank(9, 0.05)
    (9, 7, 10)
    """
    as_probability(alpha, "alpha")  # type: ignore[arg-type]
    return math.ceil((n + 1) * (1 - exact_level(alpha)))


def pac_rank(n: int, alpha: float, delta: float) -> int:
    """Return the smallest rank of coverage at least 1 − α with probability at least 1 − δ.

    The probability is over calibration sets.

    With continuous scores, the k-th smallest of n has coverage Beta(k, n + 1 − k); ties increase
    it. The result is n + 1 (an infinite threshold) if even the largest score is not enough.

    Examples
    --------
    >>> pac_rank(500, 0.1, 0.05), conformal_rank(500, 0.1)
    (462, 451)
    """
    from scipy.special import betainc

    as_probability(alpha, "alpha")
    as_probability(delta, "delta")
    ranks = np.arange(1, n + 1)
    # P(coverage < 1 − α), falling in the rank.
    failure = betainc(ranks, n + 1 - ranks, float(1 - exact_level(alpha)))
    good = np.flatnonzero(failure <= float(exact_level(delta)))
    return int(ranks[good[0]]) if len(good) else n + 1


def score_at_rank(sorted_scores: FloatArray, rank: int) -> float:
    """Return the rank-th smallest score, +inf if there are fewer scores."""
    return float(sorted_scores[rank - 1]) if rank <= len(sorted_scores) else math.inf


def as_weights(value: Any, n: int) -> FloatArray:
    """Check likelihood ratios: n finite numbers up to 1e300, none negative."""
    weights = as_numbers(value, "weights", "Pass one number per item.").copy()
    if weights.shape != (n,):
        raise ValueError(
            f"weights must hold one number per item ({n}), but has shape {weights.shape}."
        )
    bad = ~((weights >= 0) & (weights <= 1e300))  # sums of larger ones are infinite
    if bad.any():
        raise ValueError(
            f"weights must be between 0 and 1e300, but is {weights[bad][0]:.6g} in row "
            f"{bad.argmax()}. Pass likelihood ratios: the density of x where you predict over its "
            "density where you calibrate."
        )
    return weights


@dataclass(frozen=True)
class CoverageDistribution:
    """Distribution of the coverage over calibration sets, Beta(rank, n + 1 − rank).

    The coverage of split-conformal sets depends on the calibration set. For independent items with
    continuous scores it has exactly this distribution; with ties it is stochastically larger. A
    rank above n means that the threshold is infinite and the coverage is one.
    `Calibration.coverage_distribution` returns this object.

    Attributes
    ----------
    rank : int
        Rank of the threshold among the calibration scores.
    n : int
        Number of calibration items.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(500, random_state=0)
    >>> coverage = cs.conformalize(data.distributions, data.counts).coverage_distribution(alpha=0.1)
    >>> coverage
    CoverageDistribution(rank=451, n=500)
    >>> round(coverage.mean(), 4)
    0.9002
    >>> [round(x, 3) for x in coverage.interval(0.9)]
    [0.877, 0.921]
    """

    rank: int
    n: int

    @property
    def is_certain(self) -> bool:
        """Whether the threshold is infinite and every distribution is covered."""
        return self.rank > self.n

    def _beta(self) -> Any:
        from scipy.stats import beta

        return beta(self.rank, self.n + 1 - self.rank)

    def mean(self) -> float:
        """Return the expected coverage, rank / (n + 1), the marginal coverage guarantee."""
        return min(self.rank, self.n + 1) / (self.n + 1)

    def std(self) -> float:
        """Return the standard deviation of the coverage between calibration sets."""
        return 0.0 if self.is_certain else float(self._beta().std())

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the central interval that contains the coverage with probability ``level``.

        Parameters
        ----------
        level : float
            Probability of the interval, in (0, 1).

        Returns
        -------
        tuple of two floats
            Lower and upper end.
        """
        level = as_probability(level, "level")
        if self.is_certain:
            return 1.0, 1.0
        low, high = self._beta().interval(level)
        return float(low), float(high)

    def cdf(self, coverage: float) -> float:
        """Return the probability that the coverage is at most a given number.

        Parameters
        ----------
        coverage : float
            Coverage in [0, 1].

        Returns
        -------
        float
            The probability.
        """
        return float(coverage >= 1.0) if self.is_certain else float(self._beta().cdf(coverage))

    def ppf(self, probability: float) -> float:
        """Return a quantile of the coverage.

        Parameters
        ----------
        probability : float
            Probability in [0, 1] that the coverage is at most the quantile.

        Returns
        -------
        float
            The quantile.
        """
        return 1.0 if self.is_certain else float(self._beta().ppf(probability))

    def observed_interval(self, n_test: int, level: float = 0.95) -> tuple[float, float]:
        """Return a central interval of the coverage of ``n_test`` items, over calibration sets.

        The number of covered items has a beta-binomial distribution, because the coverage has a
        Beta distribution.

        Parameters
        ----------
        n_test : int
            Number of new items.
        level : float
            Probability of the interval, in (0, 1).

        Returns
        -------
        tuple of two floats
            Lower and upper end, as shares of the new items.

        Examples
        --------
        >>> [round(x, 3) for x in CoverageDistribution(rank=451, n=500).observed_interval(500)]
        [0.86, 0.934]
        """
        from scipy.stats import betabinom

        level = as_probability(level, "level")
        if self.is_certain or n_test == 0:
            return 1.0 if self.is_certain else 0.0, 1.0
        low, high = betabinom(n_test, self.rank, self.n + 1 - self.rank).interval(level)
        return float(low) / n_test, float(high) / n_test
