r"""From majorants to a threshold: what is tested, and how sure one has to be.

For thresholds $t_1 > t_2 > \dots$ let $R_j$ be the chance that a new item scores above $t_j$, which grows with j, and
$\varphi_j$ a variable with mean at least $R_j$ (a majorant). A *rung* (r, δ) asks at each threshold, from the largest
on, whether the mean of $\varphi_j$ is below r, with a test that errs with probability at most δ, and stops at the first
failure. It stops too late only if the first threshold with $R_j > r$ passes; so, for the last threshold that passed,
$P(R > r) \le \delta$ without any correction for the number of tests. A *ladder* has several rungs, $r_1 < r_2 < \dots$,
and goes on while all of them pass. Then each promise holds, and on average over calibration sets

$$E R \le r_1 + \sum_i (r_{i+1} - r_i) \, \delta_i, \qquad r_{last + 1} = 1.$$

Two ladders keep this at most α: one whose first rung makes a promise with probability 1 − δ, and one that spends
nothing on such a promise and has smaller sets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from credalset._typing import FloatArray
from credalset.calibration.betting import BOLDNESS, mean_is_below

#: how far above α the second rung of a certain ladder is, in units of α, and the δ up to which it is so high
SAFETY, OFTEN = 2.0, 0.05
RARELY = 0.05  # and how much less often it may fail
#: rungs of an average ladder, in standard errors of the mean that is tested
HEIGHTS = np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5])
N_RUNGS = (9, 10, 11, 12)  # with few items the highest rungs ask for more certainty than bets can give
ERRORS = np.geomspace(0.01, 0.6, 16)  # standard errors, over α, that average ladders are made for
SMALLEST_SPREAD = 1e-6
SCENARIOS = (np.arange(9) + 0.5) / 9  # probabilities of what held-out items, and then the others, may say


@dataclass(frozen=True, eq=False)
class Ladder:
    """Risks r and how often each may be exceeded."""

    risks: FloatArray
    deltas: FloatArray

    @property
    def mean_risk(self) -> float:
        """The bound on the risk, on average over calibration sets."""
        return float(self.risks[0] + (np.diff(np.append(self.risks, 1.0)) * self.deltas).sum())

    @classmethod
    def certain(cls, alpha: float, delta: float) -> Ladder:
        """Promise a risk of at most α with probability 1 − δ, and a mean risk of at most α.

        Examples
        --------
        >>> ladder = Ladder.certain(0.1, 0.01)
        >>> ladder.risks.round(4), ladder.deltas, round(ladder.mean_risk, 9)
        (array([0.0976, 0.3   ]), array([0.01  , 0.0005]), 0.1)
        """
        second = min(alpha * (1.0 + SAFETY * min(1.0, OFTEN / delta)), 0.5 * (1.0 + alpha))
        rare = RARELY * min(delta, alpha)
        first = (alpha - second * (delta - rare) - rare) / (1.0 - delta)
        return cls(np.array([first, second]), np.array([delta, rare]))

    @classmethod
    def average(cls, alpha: float, error: float, n_rungs: int = len(HEIGHTS)) -> Ladder:
        """Promise a mean risk of at most α, for a test whose mean is known with this standard error."""
        heights = HEIGHTS[:n_rungs]
        deltas = ndtr(-heights)
        steps = error * np.diff(heights)
        last = error * heights[-1]
        # first + Σ steps·deltas + (1 − first − last)·δ_last = α
        first = (alpha - (steps * deltas[:-1]).sum() - (1.0 - last) * deltas[-1]) / (1.0 - deltas[-1])
        risks = first + error * heights
        keep = risks < 1.0
        return cls(risks[keep], deltas[keep])


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of majorants at decreasing thresholds, beside their values: all of it from items set aside.

    Attributes
    ----------
    thresholds : ndarray of shape (L,)
        Decreasing.
    mean, spread, error : ndarrays of shape (L,)
        Mean, standard deviation and standard error of the mean of the majorants' values.
    largest : ndarray of shape (L,)
        What the majorants cannot exceed.
    """

    thresholds: FloatArray
    mean: FloatArray
    spread: FloatArray
    error: FloatArray
    largest: FloatArray

    @classmethod
    def of(cls, thresholds: FloatArray, held_out: FloatArray, largest: FloatArray) -> Evidence:
        """Summarise the values of items set aside, (L, n')."""
        size = held_out.shape[1]
        if size < 2:
            zero = np.zeros(len(thresholds))
            return cls(thresholds, zero, zero + 1.0, zero + np.inf, largest)
        spread = np.maximum(held_out.std(axis=1), SMALLEST_SPREAD)
        return cls(thresholds, held_out.mean(axis=1), spread, spread / np.sqrt(size), largest)

    def scenarios(self, n: int, ladder: Ladder) -> FloatArray:
        """Return thresholds that n more items may give with a ladder, all equally likely; infinite if none passes."""
        z = ndtri(SCENARIOS)
        error = self.spread / np.sqrt(n)
        # What the truth may be, given the items set aside, and what the other items may say then: (9, 9, L).
        shift = np.minimum(self.error, 1e3)
        seen = np.maximum(self.mean - z[:, None] * shift, 0.0)[:, None] + z[:, None] * error
        # Below a risk by as many standard errors as δ asks for; and by what the largest legal bet wins 1 / δ with.
        boldest = BOLDNESS / np.maximum(self.largest[:, None] - ladder.risks, 1e-9)
        needed = np.maximum(ndtri(1.0 - ladder.deltas) * error[:, None], -np.log(ladder.deltas) / (n * boldest))
        margin = (ladder.risks - needed).min(axis=1)
        good = np.concatenate([seen <= margin, np.zeros((*seen.shape[:2], 1), dtype=bool)], axis=2)
        return np.append(np.inf, self.thresholds)[np.argmin(good, axis=2)].ravel()

    def outlook(self, n: int, ladder: Ladder) -> float:
        """Return the mean logarithm of these thresholds, where none counts as one beyond the largest."""
        return float(np.log(np.minimum(self.scenarios(n, ladder), np.e * self.thresholds[0])).mean())

    def best_ladder(self, n: int, alpha: float) -> Ladder:
        """Choose an average ladder, among those made for different standard errors, by its outlook."""
        found = [Ladder.average(alpha, alpha * error, n_rungs) for n_rungs in N_RUNGS for error in ERRORS]
        useful = [ladder for ladder in found if ladder.risks[0] > 0.0]
        return min(useful, key=lambda ladder: self.outlook(n, ladder)) if useful else found[0]

    def window(self, ladder: Ladder) -> slice:
        """Leave out thresholds that are sure to pass, but for the last of them, and those that are sure to fail."""
        safe = self.mean + 6.0 * self.error <= ladder.risks[0] / 3.0
        hopeless = self.mean - 6.0 * self.error > ladder.risks[0]
        start = max(int(np.argmin(np.append(safe, False))) - 1, 0)
        return slice(start, max(len(hopeless) - int(np.argmin(np.append(hopeless[::-1], False))), start + 1))


def smallest_threshold(evidence: Evidence, values: FloatArray, ladder: Ladder) -> float:
    """Return the last threshold that passes, given the values of the majorants (L, n); infinite if none does."""
    if ladder.risks[0] <= 0.0:
        return float("inf")
    part = evidence.window(ladder)
    largest, spread = evidence.largest[part], evidence.spread[part]
    good = mean_is_below(values[part], ladder.risks, ladder.deltas, largest, spread).all(axis=1)
    n_passed = int(np.argmin(np.append(good, False)))
    return float(evidence.thresholds[part][n_passed - 1]) if n_passed else float("inf")
