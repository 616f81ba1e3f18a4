r"""From majorants to a threshold: what is tested, and how sure one has to be.

For thresholds $t_1 > t_2 > \dots$ let $R_j$ be the chance that a new item scores above $t_j$, which grows with j, and
$\varphi_j$ a variable with mean at least $R_j$ (a majorant). A *rung* (r, δ) asks at each threshold, from the largest on,
whether the mean of $\varphi_j$ is below r, with a test that errs with probability at most δ, and stops at the first
failure. It stops too late only if the first threshold with $R_j > r$ passes; so, for the last threshold that passed,
$P(R > r) \le \delta$ without any correction for the number of tests. A *ladder* has several rungs, $r_1 < r_2 < \dots$, and
goes on while all of them pass. Then each promise holds, and on average over calibration sets

$$E R \le r_1 + \sum_i (r_{i+1} - r_i) \, \delta_i, \qquad r_{last + 1} = 1.$$

Two ladders keep this at most α: one whose first rung makes a promise with probability 1 − δ, and one that spends nothing
on such a promise and has smaller sets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from credalset._typing import FloatArray
from credalset.calibration.betting import mean_is_below

SAFETY = 3.0  # the second rung of a certain ladder, in units of α
RARELY = 0.05  # and how much less often it may fail
#: rungs of an average ladder, in standard errors of the mean that is tested
HEIGHTS = np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5])
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
        second, rare = min(SAFETY * alpha, 0.5 * (1.0 + alpha)), RARELY * min(delta, alpha)
        first = (alpha - second * (delta - rare) - rare) / (1.0 - delta)
        return cls(np.array([first, second]), np.array([delta, rare]))

    @classmethod
    def average(cls, alpha: float, error: float) -> Ladder:
        """Promise a mean risk of at most α, for a test whose mean is known with this standard error."""
        deltas = ndtr(-HEIGHTS)
        steps = error * np.diff(HEIGHTS)
        last = error * HEIGHTS[-1]
        # first + Σ steps·deltas + (1 − first − last)·δ_last = α
        first = (alpha - (steps * deltas[:-1]).sum() - (1.0 - last) * deltas[-1]) / (1.0 - deltas[-1])
        risks = first + error * HEIGHTS
        keep = risks < 1.0
        return cls(risks[keep], deltas[keep])


def passed(values: FloatArray, largest: FloatArray, spread: FloatArray, ladder: Ladder) -> int:
    """Return how many thresholds pass, given the values of their majorants (L, n) from the largest threshold on."""
    if ladder.risks[0] <= 0.0:
        return 0
    good = mean_is_below(values, ladder.risks, ladder.deltas, largest, spread).all(axis=1)
    return int(np.argmin(np.append(good, False)))


def plan(held_out: FloatArray, n: int, alpha: float) -> tuple[Ladder, float]:
    """Choose an average ladder for n items from the values of items set aside (L, n').

    A ladder is best for a test with the standard error it was made for, and errors differ between thresholds. Each
    threshold's own error is tried, in scenarios of what the truth and the other items may be.

    Returns
    -------
    tuple
        The ladder, and the mean position of the last threshold that is expected to pass.
    """
    size = held_out.shape[1]
    if size < 2:
        return Ladder.average(alpha, 0.1 * alpha), 0.0
    mean, spread = held_out.mean(axis=1), np.maximum(held_out.std(axis=1), 1e-9)
    z = ndtri(SCENARIOS)
    truth = np.maximum(mean - z[:, None] * spread / np.sqrt(size), 0.0)  # (9, L)
    error = spread / np.sqrt(n)
    seen = truth[:, None] + z[:, None] * error  # (9, 9, L)
    best, best_ladder = -1.0, Ladder.average(alpha, float(error.min()))
    for candidate in error:
        ladder = Ladder.average(alpha, float(candidate))
        heights = HEIGHTS[: len(ladder.risks)]
        if ladder.risks[0] <= 0.0:
            continue
        margin = (ladder.risks - heights * error[:, None]).min(axis=1)  # what a mean may be to pass every rung
        position = np.argmin(np.concatenate([seen <= margin, np.zeros((9, 9, 1), bool)], axis=2), axis=2).mean()
        if position > best:
            best, best_ladder = float(position), ladder
    return best_ladder, best
