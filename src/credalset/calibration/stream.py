"""Streams of items: an adaptive level, and an alarm when items are no longer exchangeable."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from credalset._display import plural
from credalset._typing import FloatArray
from credalset._validation import as_finite, as_probability
from credalset.calibration.base import Inputs, warn_of_empty
from credalset.calibration.levels import exact_level
from credalset.calibration.split import SplitCalibration
from credalset.io.store import Saved
from credalset.sets.credal_set import CredalSet

#: slopes ε of the betting functions 1 + ε(p − ½), and the share of capital that moves between them
SLOPES = np.array([-1.0, 0.0, 1.0])
JUMP = 0.01


class StreamStep(NamedTuple):
    """Result for one item of a `Stream`.

    Attributes
    ----------
    covered : bool
        Whether the set of the item contained its recorded label distribution.
    p_value : float
        The p-value of the item, which is uniform if items are exchangeable.
    capital : float
        The value of the martingale after this item.
    alarm : bool
        Whether the alarm has been raised by now.
    """

    covered: bool
    p_value: float
    capital: float
    alarm: bool


@dataclass(eq=False, repr=False)
class Stream(Saved):
    r"""Predict adaptive sets for a stream of labelled items, and test that items are exchangeable.

    The sets contain the *recorded* label distribution (the shares of the votes that were recorded)
    for a share 1 − α of the items in the long run, for any data. The guarantee does not extend to
    the true label distribution.

    *Adaptive conformal inference* (Gibbs and Candès, 2021) predicts sets at a level that changes
    after each item, $\alpha_{t+1} = \alpha_t + \gamma (\alpha - \mathrm{miss}_t)$. An item is a
    miss if its set does not contain its recorded label distribution. For any data, the share of
    misses among the first T items differs from α by at most $(\max(\alpha, 1 - \alpha) + \gamma) /
    (\gamma T)$.

    *The alarm* is a conformal test martingale, the "simple jumper" (Vovk et al., 2021). Each item
    has a p-value, the randomised rank of its score among all earlier scores. While items are
    exchangeable with the calibration items, the p-values are independent and uniform. The
    martingale starts with capital 1 and bets against this hypothesis. Under the hypothesis, it ever
    reaches c with probability at most 1 / c (Ville's inequality). The alarm is raised at 1 /
    ``false_alarm``, so a false alarm has probability at most ``false_alarm``.

    Parameters
    ----------
    calibration : SplitCalibration
        A calibration without weights, without `Conditional` and without groups by keys.
    alpha : float
        Target share of misses, in (0, 1).
    gamma : float
        Step size of the level, above 0. With a larger step the level reacts faster and fluctuates
        more.
    false_alarm : float
        Largest probability that the alarm is ever raised while items are exchangeable.
    random_state : int
        Seed of the random numbers that break ties between scores.

    Attributes
    ----------
    level : float
        Miscoverage level for the next item. At 0 or below, the set is the whole simplex; at 1 or
        above, it is empty.
    n_items : int
        Number of items seen.
    n_missed : int
        Number of misses.
    capital : float
        The value of the martingale.
    peak : float
        The largest value of the martingale so far.
    alarm : bool
        Whether the martingale has ever reached 1 / ``false_alarm``.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(700, n_votes=20, random_state=0)
    >>> calibration = cs.conformalize(data.distributions[:500], data.counts[:500])
    >>> stream = cs.Stream(calibration, alpha=0.1)
    >>> steps = stream.update(data.distributions[500:], data.counts[500:])
    >>> stream.alarm
    False
    >>> steps = stream.update(data.distributions[500:], data.counts[499:299:-1])  # of other items
    >>> stream.alarm
    True
    """

    calibration: SplitCalibration
    alpha: float = 0.1
    gamma: float = 0.01
    false_alarm: float = 0.01
    random_state: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.calibration, SplitCalibration):
            raise TypeError(
                f"calibration must be a SplitCalibration, but is {self.calibration!r}. Use "
                "conformalize; cross-conformal "
                "sets have no p-value per item, which the alarm needs."
            )
        fitted = self.calibration.fitted
        if (
            fitted.weighted
            or fitted.features is not None
            or (fitted.groups is not None and not fitted.predicted)
        ):
            raise ValueError(
                "calibration must not have weights, features or groups by keys. Calibrate "
                "without them."
            )
        self.alpha = as_probability(self.alpha, "alpha")
        self.gamma = as_finite(self.gamma, "gamma")
        if self.gamma <= 0:
            raise ValueError(f"gamma must be above 0, but is {self.gamma!r}. Try 0.01.")
        self.false_alarm = as_probability(self.false_alarm, "false_alarm")
        if (
            isinstance(self.random_state, bool)
            or not isinstance(self.random_state, int)
            or self.random_state < 0
        ):
            raise TypeError(
                f"random_state must be a whole number of at least 0, but is {self.random_state!r}."
            )
        self._resume(self.alpha, 0, 1.0, np.full(len(SLOPES), 1.0 / len(SLOPES)), np.empty(0))

    def _resume(
        self, level: float, n_missed: int, peak: float, stakes: FloatArray, seen: FloatArray
    ) -> None:
        """Set the state of a stream that has seen scores in this order, after checking it."""
        self.level = as_finite(level, "level")
        self.peak = as_finite(peak, "peak", minimum=1.0)
        is_capital = (
            stakes.shape == SLOPES.shape and np.isfinite(stakes).all() and (stakes >= 0).all()
        )
        if seen.ndim != 1 or np.isnan(seen).any() or not 0 <= n_missed <= len(seen):
            raise ValueError(
                "seen must hold one score per item, and n_missed be at most their number."
            )
        if not is_capital:
            raise ValueError(f"stakes must hold {len(SLOPES)} finite numbers, none negative.")
        self.n_missed = n_missed
        self._stakes = stakes
        self._seen: list[float] = seen.tolist()  # in order of arrival
        self._sorted: list[float] = sorted([*self.calibration.scores.tolist(), *self._seen])

    @property
    def n_items(self) -> int:
        """Number of items seen."""
        return len(self._seen)

    @property
    def capital(self) -> float:
        """The value of the martingale."""
        return float(self._stakes.sum())

    @property
    def alarm(self) -> bool:
        """Whether the capital has ever reached 1 / ``false_alarm``."""
        return self.peak * self.false_alarm >= 1.0

    def predict_set(self, predictions: Any) -> CredalSet:
        """Predict credal sets at the current level.

        Parameters
        ----------
        predictions : array or data frame of shape (N, K)
            Predictions for the items.

        Returns
        -------
        CredalSet
            A batch of N sets.
        """
        inputs = self.calibration._read(predictions)
        sets = self.calibration.score._region(inputs.prediction, self._thresholds(inputs))
        warn_of_empty(sets)
        return replace(sets, classes=self.calibration.classes, items=inputs.batch.items)

    def update(self, predictions: Any, votes: Any) -> list[StreamStep]:
        """Process labelled items in order of arrival; level and capital change after each item.

        Parameters
        ----------
        predictions : array or data frame of shape (N, K)
            Predictions for the items.
        votes : array or data frame of shape (N, K), or Annotations
            Their annotation counts or label distributions.

        Returns
        -------
        list of StreamStep
            The N results, one per item.
        """
        inputs = self.calibration._read(predictions)
        distributions = inputs.batch.votes(votes).distributions
        scores = self.calibration.score.evaluate_rows(inputs.prediction, distributions)
        return [self._step(inputs.take([i]), float(scores[i])) for i in range(len(scores))]

    def _to_store(self) -> dict[str, Any]:
        names = [*(each.name for each in fields(self)), "level", "n_missed", "peak"]
        seen = np.array(self._seen, float)
        return {name: getattr(self, name) for name in names} | {
            "stakes": self._stakes,
            "seen": seen,
        }

    @classmethod
    def _from_store(
        cls,
        calibration: SplitCalibration,
        alpha: float,
        gamma: float,
        false_alarm: float,
        random_state: int,
        level: float,
        n_missed: int,
        peak: float,
        stakes: FloatArray,
        seen: FloatArray,
    ) -> Stream:
        stream = cls(calibration, alpha, gamma, false_alarm, random_state)
        stream._resume(level, n_missed, peak, stakes, seen)
        return stream

    def _step(self, inputs: Inputs, score: float) -> StreamStep:
        covered = bool(score <= self._thresholds(inputs)[0])
        self.level += self.gamma * (self.alpha - (not covered))
        p = self._p_value(score)
        self.n_missed += not covered
        mixed = (1.0 - JUMP) * self._stakes + JUMP * self._stakes.mean()
        self._stakes = mixed * (1.0 + SLOPES * (p - 0.5))
        self.peak = max(self.peak, self.capital)
        self._seen.append(score)
        insort(self._sorted, score)
        return StreamStep(covered, p, self.capital, self.alarm)

    def _p_value(self, score: float) -> float:
        """Return the rank of the score among all earlier ones, with ties broken at random.

        Such ranks are uniform and independent.
        """
        larger = len(self._sorted) - bisect_right(self._sorted, score)
        ties = len(self._sorted) - bisect_left(self._sorted, score) - larger + 1
        draw = float(np.random.default_rng([self.random_state, self.n_items]).random())
        return (larger + draw * ties) / (len(self._sorted) + 1)

    def _thresholds(self, inputs: Inputs) -> FloatArray:
        if self.level >= 1.0:
            return np.full(len(inputs), -math.inf)
        level = exact_level(self.level) if self.level > 0.0 else Fraction(0)
        if level <= self.calibration.noise._spent:
            return np.full(len(inputs), math.inf)
        # The user did not choose this level, so there are no warnings of infinite thresholds.
        fitted = self.calibration.fitted
        return fitted.thresholds(level, inputs.prediction, inputs.codes, inputs.columns)

    def __repr__(self) -> str:
        state = "alarm" if self.alarm else "no alarm"
        return (
            f"Stream: {plural(self.n_items, 'item')}, {self.n_missed} missed, level "
            f"{self.level:.4g}, {state}"
        )
