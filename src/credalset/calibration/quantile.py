"""The arithmetic of split conformal prediction: exact ranks, and what coverage a rank gives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from credalset._guessing import Hinting
from credalset._typing import FloatArray
from credalset._validation import as_probability

#: significant digits of a number that was meant as a decimal, by type
SHORT_DECIMAL = {np.dtype(np.float16): 3, np.dtype(np.float32): 6}
LARGEST_DENOMINATOR = 1000  # of a level that was meant as a fraction


def exact_level(level: float | Fraction) -> Fraction:
    """Return the fraction that a floating-point level stands for.

    Levels are read as the decimal, or the simple fraction, that was meant: 0.3 and float32(0.3) become 3/10, and so
    does 1 − 0.7, which is how the level for a confidence of 0.7 comes out in floating point. Without it,
    (n + 1)(1 − α) lands on the wrong side of whole numbers. No level moves by more than two units in the last place,
    its own or that of the confidence it was computed from; one that is near no short number stays as it is.

    Examples
    --------
    >>> exact_level(1 - 0.9), exact_level(np.float16(0.006))
    (Fraction(1, 10), Fraction(3, 500))
    """
    if isinstance(level, Fraction):
        return level
    number = level if isinstance(level, np.floating) else np.float64(level)
    confidence = number.dtype.type(1) - number
    is_difference = number.dtype.type(1) - confidence == number  # it may well be the result of a subtraction
    for digits in range(1, 1 + SHORT_DECIMAL.get(number.dtype, 9)):
        decimal = _decimal(number, digits)
        if decimal is None and is_difference:
            of_confidence = _decimal(confidence, digits)
            decimal = None if of_confidence is None else 1 - of_confidence
        if decimal is not None:
            return decimal
    exact = Fraction(float(number))
    simple = exact.limit_denominator(LARGEST_DENOMINATOR)
    return simple if _is_near(number, float(simple)) else exact


def _decimal(number: np.floating[Any], digits: int) -> Fraction | None:
    """Return the decimal with so many significant digits that a number stands for, None if there is none."""
    rounded = round(float(number), digits - 1 - math.floor(math.log10(number)))
    return Fraction(repr(rounded)) if _is_near(number, rounded) else None


def _is_near(number: np.floating[Any], other: float) -> bool:
    return 0.0 < other < 1.0 and abs(other - float(number)) <= 1.5 * float(np.spacing(number))


def conformal_rank(n: int, alpha: float | Fraction) -> int:
    """Return ⌈(n + 1)(1 − α)⌉, computed in whole numbers.

    Examples
    --------
    >>> conformal_rank(9, 0.1), conformal_rank(9, 0.3), conformal_rank(9, 0.05)
    (9, 7, 10)
    """
    as_probability(alpha, "alpha")  # type: ignore[arg-type]
    return math.ceil((n + 1) * (1 - exact_level(alpha)))


def score_at_rank(sorted_scores: FloatArray, rank: int) -> float:
    """Return the rank-th smallest score, +inf when there are fewer scores than that."""
    return float(sorted_scores[rank - 1]) if rank <= len(sorted_scores) else math.inf


def pac_rank(n: int, alpha: float, delta: float) -> int:
    """Return the smallest rank whose coverage is at least 1 − α with probability at least 1 − δ over calibration sets.

    With continuous scores, the k-th smallest of n gives coverage Beta(k, n + 1 − k); ties only add coverage. The
    result is n + 1 (an infinite threshold) when even the largest score does not suffice.

    Examples
    --------
    >>> pac_rank(500, 0.1, 0.05), conformal_rank(500, 0.1)
    (462, 451)
    """
    from scipy.special import betainc

    as_probability(alpha, "alpha")
    as_probability(delta, "delta")
    ranks = np.arange(1, n + 1)
    failure = betainc(ranks, n + 1 - ranks, float(1 - exact_level(alpha)))  # P(coverage < 1 − α), falling in the rank
    good = np.flatnonzero(failure <= float(exact_level(delta)))
    return int(ranks[good[0]]) if len(good) else n + 1


@dataclass(frozen=True)
class CoverageDistribution(Hinting):
    """Distribution of the coverage over calibration sets: Beta(rank, n + 1 − rank).

    Given a calibration set, the coverage of its predictions on fresh data is a random number. For exchangeable data
    with continuous scores it follows this distribution exactly; with ties it is larger (stochastically). A rank
    beyond n means an infinite threshold, hence coverage one.

    Examples
    --------
    >>> coverage = CoverageDistribution(rank=451, n=500)
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
        """Expected coverage, rank / (n + 1): the marginal guarantee."""
        return min(self.rank, self.n + 1) / (self.n + 1)

    def std(self) -> float:
        """Standard deviation of the coverage between calibration sets."""
        return 0.0 if self.is_certain else float(self._beta().std())

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Central interval that holds the coverage with probability ``level``."""
        level = as_probability(level, "level")
        if self.is_certain:
            return 1.0, 1.0
        low, high = self._beta().interval(level)
        return float(low), float(high)

    def cdf(self, coverage: float) -> float:
        """Probability that the coverage is at most this number."""
        return float(coverage >= 1.0) if self.is_certain else float(self._beta().cdf(coverage))

    def ppf(self, probability: float) -> float:
        """Quantile of the coverage."""
        return 1.0 if self.is_certain else float(self._beta().ppf(probability))

    def observed_interval(self, n_test: int, level: float = 0.95) -> tuple[float, float]:
        """Central interval for the share of ``n_test`` fresh items that are covered, the calibration draw included.

        The number of covered items is beta-binomial: coverage is a Beta draw, and each item a coin with that chance.

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
