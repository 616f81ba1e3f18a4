"""Items that arrive one after the other: a level that adapts, and an alarm when calibration no longer fits."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from credalset._guessing import Hinting
from credalset._typing import ArrayLike, FloatArray
from credalset._validation import as_finite, as_probability
from credalset.calibration.quantile import exact_level
from credalset.calibration.split import Calibration
from credalset.sets.credal_set import CredalSet

#: slopes of the betting functions 1 + ε(p − ½), and how readily capital moves between them
SLOPES = np.array([-1.0, 0.0, 1.0])
JUMP = 0.01


class StreamStep(NamedTuple):
    """What one item did to a stream: was it covered, its p-value, the capital and whether the alarm is on."""

    covered: bool
    p_value: float
    capital: float
    alarm: bool


class Stream(Hinting):
    r"""Follow a stream of labelled items with adaptive sets and a test of exchangeability.

    *Adaptive conformal inference* (Gibbs and Candès, 2021) asks the calibration for sets at a level that moves after
    each item, $\alpha_{t+1} = \alpha_t + \gamma (\alpha - \mathrm{miss}_t)$. Whatever the data do, the share of misses
    among the first T items differs from α by at most $(\max(\alpha, 1 - \alpha) + \gamma) / (\gamma T)$.

    *The alarm* is a conformal test martingale, the "simple jumper" (Vovk et al., 2021). Each item gets the randomised
    rank p of its score among all scores before it; as long as items are exchangeable with the calibration items, these
    are independent and uniform. Capital 1 is bet against that. It ever reaches c with probability at most 1 / c
    (Ville's inequality), so the alarm at 1 / ``false_alarm`` is false with probability at most ``false_alarm``.

    Parameters
    ----------
    calibration : Calibration
        Without groups of its own keys and without weights.
    alpha : float
        Share of misses to aim for.
    gamma : float
        Step of the level, above 0: larger reacts faster and fluctuates more.
    false_alarm : float
        Probability of an alarm, ever, while nothing has changed.
    random_state : int
        Seed of the draws that break ties between scores.

    Attributes
    ----------
    level : float
        The miscoverage level in force for the next item; at or below 0 sets are the whole simplex, from 1 on empty.
    n_items, n_missed : int
        How many items were seen and how many their sets missed.
    capital : float
        The martingale's value.
    peak : float
        The largest value it has had.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(700, n_votes=20, random_state=0)
    >>> calibration = cs.conformalize(data.distributions[:500], data.counts[:500])
    >>> stream = cs.Stream(calibration, alpha=0.1)
    >>> steps = stream.update(data.distributions[500:], data.counts[500:])
    >>> stream.alarm
    False
    >>> steps = stream.update(data.distributions[500:], data.counts[499:299:-1])  # labels of other items
    >>> stream.alarm
    True
    """

    def __init__(
        self,
        calibration: Calibration,
        alpha: float = 0.1,
        gamma: float = 0.01,
        false_alarm: float = 0.01,
        random_state: int = 0,
    ) -> None:
        if not isinstance(calibration, Calibration):
            raise TypeError(
                f"calibration must be a Calibration made by conformalize, but is {calibration!r}. Cross-conformal sets "
                "have no single rank per item, which the alarm needs."
            )
        rule = calibration.rule
        own_keys = rule.conditional is not None or (rule.groups is not None and not rule.groups.predicted)
        if rule.weights is not None or own_keys:
            raise ValueError("calibration must not have weights or groups of its own keys: a stream passes neither.")
        self.calibration = calibration
        self.alpha = as_probability(alpha, "alpha")
        self.gamma = as_finite(gamma, "gamma")
        if self.gamma <= 0:
            raise ValueError(f"gamma must be above 0, but is {gamma!r}. Try 0.01.")
        self.false_alarm = as_probability(false_alarm, "false_alarm")
        if isinstance(random_state, bool) or not isinstance(random_state, int) or random_state < 0:
            raise TypeError(f"random_state must be a whole number, not negative, but is {random_state!r}.")
        self.random_state = random_state
        self.level = self.alpha
        self.n_items = 0
        self.n_missed = 0
        self.peak = 1.0
        self._stakes = np.full(3, 1.0 / 3.0)
        self._seen: list[float] = []  # scores of the stream, in order of arrival
        self._sorted: list[float] = calibration.scores.tolist()

    @property
    def capital(self) -> float:
        """The martingale's value."""
        return float(self._stakes.sum())

    @property
    def alarm(self) -> bool:
        """Whether capital has ever reached 1 / ``false_alarm``."""
        return self.peak * self.false_alarm >= 1.0

    def predict_set(self, prediction: ArrayLike) -> CredalSet:
        """Predict credal sets at the level now in force, (N,)."""
        checked = self.calibration.check(prediction)
        sets = self.calibration.score._region(checked, self._thresholds(checked))
        return self.calibration._named(sets, prediction)

    def update(self, prediction: ArrayLike, labels: Any) -> list[StreamStep]:
        """Take in labelled items in order of arrival; the level and the capital move after each.

        Parameters
        ----------
        prediction : array of shape (N, K)
            Predictions for the items.
        labels : array of shape (N, K) or Annotations
            Their label distributions or annotation counts.

        Returns
        -------
        list of StreamStep
            One per item.
        """
        checked = self.calibration.check(prediction)
        distributions = self.calibration.read_labels(labels, "labels", prediction).distributions
        self.calibration.score.check_pairs(checked, distributions)
        scores = self.calibration.score.evaluate_rows(checked, distributions)
        return [self._step(checked[i : i + 1], float(scores[i])) for i in range(len(scores))]

    def save(self, path: str | Path) -> None:
        """Write the stream and its calibration to a directory; `credalset.load` resumes exactly here."""
        from credalset.io.store import save

        save(self, path)

    def _to_store(self) -> dict[str, Any]:
        names = ("calibration", "alpha", "gamma", "false_alarm", "random_state", "level", "n_missed", "peak")
        arrays = {"scores": np.array(self._seen, dtype=np.float64), "stakes": self._stakes}
        return {name: getattr(self, name) for name in names} | arrays

    @classmethod
    def _from_store(
        cls,
        calibration: Calibration,
        alpha: float,
        gamma: float,
        false_alarm: float,
        random_state: int,
        level: float,
        n_missed: int,
        peak: float,
        scores: FloatArray,
        stakes: FloatArray,
    ) -> Stream:
        stream = cls(calibration, alpha, gamma=gamma, false_alarm=false_alarm, random_state=random_state)
        is_valid = stakes.shape == SLOPES.shape and (stakes >= 0).all() and scores.ndim == 1
        if not is_valid or np.isnan(scores).any() or not 0 <= n_missed <= len(scores):
            raise ValueError("the state of the stream contradicts itself.")
        stream._seen, stream._stakes, stream.n_items = scores.tolist(), stakes.copy(), len(scores)
        stream._sorted = sorted([*stream._sorted, *stream._seen])
        stream.level, stream.n_missed, stream.peak = level, n_missed, peak
        return stream

    def _step(self, prediction: FloatArray, score: float) -> StreamStep:
        covered = score <= self._thresholds(prediction)[0]
        self.level += self.gamma * (self.alpha - (not covered))
        p = self._p_value(score)
        self.n_items += 1
        self.n_missed += not covered
        mixed = (1.0 - JUMP) * self._stakes + JUMP * self._stakes.mean()
        self._stakes = mixed * (1.0 + SLOPES * (p - 0.5))
        self.peak = max(self.peak, self.capital)
        self._seen.append(score)
        insort(self._sorted, score)
        return StreamStep(bool(covered), p, self.capital, self.alarm)

    def _p_value(self, score: float) -> float:
        """Rank the score among all before it, ties (with itself) broken at random: uniform, and independent of them."""
        larger = len(self._sorted) - bisect_right(self._sorted, score)
        ties = len(self._sorted) - bisect_left(self._sorted, score) - larger + 1
        draw = float(np.random.default_rng([self.random_state, self.n_items]).random())
        return (larger + draw * ties) / (len(self._sorted) + 1)

    def _thresholds(self, prediction: FloatArray) -> FloatArray:
        if self.level >= 1.0:
            return np.full(len(prediction), -math.inf)
        rule, level = self.calibration.rule, exact_level(self.level) if self.level > 0.0 else Fraction(0)
        if level <= rule.noise.spent:
            return np.full(len(prediction), math.inf)
        # No user chose this level, so nobody is warned of what it leads to.
        return rule.thresholds(level, self.calibration.score, prediction, quiet=True)

    def __repr__(self) -> str:
        state = "alarm" if self.alarm else "no alarm"
        return f"Stream: {self.n_items} items, {self.n_missed} missed, level {self.level:.4g}, {state}"
