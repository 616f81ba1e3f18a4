"""Noise models: guarantees for the true distribution when calibration sees only votes.

This file has the base class, labels without noise, and `BoundedNoise`, the paper's Theorem 2; every
other model has its own file. The proofs are in docs/proofs.md.

A noise model is a frozen dataclass with a method `Noise.fit`, which returns an object with
``threshold(alpha, prediction, columns)``, and one entry in
`credalset.calibration.thresholds.NOISES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from credalset._batch import Labels
from credalset._typing import BoolArray, FloatArray, Prediction
from credalset._validation import as_finite, check_choice
from credalset.calibration.conditional import conditional_quantiles
from credalset.calibration.levels import as_weights, conformal_rank, exact_level, score_at_rank
from credalset.scores import Score

# Relative rounding error of sums of weights, within which a share reaches a level.
ROUNDING = 1e-12
Covered = Literal["recorded", "further", "true", "annotator", "majority", "share"]
COVERED: dict[Covered, str] = {
    "recorded": "the recorded label distribution",
    "further": "the distribution of the votes that are not in hand",
    "true": "the true label distribution",
    "annotator": "the label of an annotator asked at random",
    "majority": "the label with most votes",
    "share": "the labels of the wanted share of the item's annotators",
}


@dataclass(frozen=True)
class Guarantee:
    """What sets at miscoverage rate α contain, for which items and under which assumptions.

    ``print(guarantee)`` writes it as sentences.

    Attributes
    ----------
    covers : {"recorded", "further", "true", "annotator", "majority", "share"}
        What the sets contain. ``"recorded"``: the shares of the votes that would be recorded for a
        new item. ``"further"``: the shares of those votes of an item that are not in hand.
        ``"true"``: the distribution that votes are drawn from. For label sets, ``"annotator"``: the
        label of a random annotator; ``"majority"``: the label with most votes; ``"share"``: the
        labels of a share of the annotators.
    within : str
        Subsets of items within which the guarantee also holds, such as ``"each group"``; empty if
        there are none.
    delta : float or None
        None if coverage is at least 1 − α on average over calibration sets. A number δ: for a share
        1 − δ of calibration sets, coverage is at least 1 − α as well.
    items : str
        Assumption on new items and calibration items: ``"exchangeable"``, or a stronger one.
    votes : str
        Assumption on votes; empty if there is none.
    rate : str
        Lower bound of the coverage: ``"1 - alpha"``, or less for cross-conformal sets.
    is_exact : bool
        False if the coverage is approximate, without a guarantee.

    Examples
    --------
    >>> print(Guarantee("true", delta=0.01, items="independent",
    ...                 votes="votes are independent draws"))
    Sets contain the true label distribution with probability at least 1 - alpha on average over
    calibration sets and, for all but a share 0.01 of them, for the calibration set at hand.
    Assumptions: items are independent; votes are independent draws.
    """

    covers: Covered = "recorded"
    within: str = ""
    delta: float | None = None
    items: str = "exchangeable"
    votes: str = ""
    rate: str = "1 - alpha"
    is_exact: bool = True

    def __str__(self) -> str:
        how = f"at least {self.rate}"
        if not self.is_exact:
            how = f"approximately {self.rate}, which is not guaranteed,"
        text = (
            f"Sets contain {COVERED[self.covers]} with probability {how} on average over "
            "calibration sets"
        )
        if self.delta is not None:
            text += (
                f" and, for all but a share {self.delta:g} of them, for the calibration set at hand"
            )
        if self.within:
            text += f", within {self.within}"
        assumptions = f"items are {self.items}"
        if self.votes:
            assumptions += f"; {self.votes}"
        return f"{text}. Assumptions: {assumptions}."


class Columns(NamedTuple):
    """Further data of items: a weight, or a row of features, per item.

    Attributes
    ----------
    weights : ndarray of shape (n,) or None
        Likelihood ratios under covariate shift.
    features : ndarray of shape (n, d) or None
        Features of which thresholds are a linear function, besides a constant.
    """

    weights: FloatArray | None = None
    features: FloatArray | None = None

    def take(self, rows: Any) -> Columns:
        """Select items."""
        return Columns(*(None if column is None else column[rows] for column in self))


PLAIN = Columns()


class Fit(ABC):
    """A noise model fitted to calibration items: it returns thresholds at any level."""

    @abstractmethod
    def threshold(
        self, alpha: Fraction, prediction: Prediction, columns: Columns = PLAIN
    ) -> FloatArray:
        """Return the threshold of each new item at miscoverage rate α, (N,); it may be +inf."""

    @property
    def has_features(self) -> bool:
        """Whether thresholds depend on features of the items."""
        return False


class Noise:
    """The relation of votes to the distribution that is covered.

    Subclasses are frozen dataclasses of plain values.

    A model overrides `fit` in general, or only `bounds`, `_spent`, `factor` and `margin` if its
    threshold is a conformal quantile of bounds.
    """

    name: ClassVar[str]
    #: whether thresholds depend on the prediction, not only on the calibration items
    varies: ClassVar[bool] = False
    #: part of α that covers failures of the model; α must exceed it
    _spent: Fraction = Fraction(0)
    #: factor of the rest of α
    factor: Fraction = Fraction(1)
    #: margin that is added to the quantile
    margin: float = 0.0

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of a calibration with this model."""
        return Guarantee(votes="new items get as many votes as calibration items")

    @property
    def unsupported(self) -> dict[str, str]:
        """Uses without a proof, with the reason and an alternative.

        Uses are "groups", "weights", "features" and "cross".
        """
        return {}

    def check_score(self, score: Score, prediction: Prediction | None = None) -> None:
        """Refuse a score, or predictions, for which the guarantee does not hold."""
        return

    def bounds(
        self, score: Score, prediction: Prediction, labels: Labels, scores: FloatArray
    ) -> FloatArray:
        """Return the numbers whose quantile is the threshold, (n,): by default the scores."""
        return scores

    def fit(
        self,
        score: Score,
        prediction: Prediction,
        labels: Labels,
        scores: FloatArray,
        columns: Columns = PLAIN,
    ) -> Fit:
        """Fit the model to valid items; by default thresholds are conformal quantiles of `bounds`.

        Parameters
        ----------
        score, prediction, labels
            The score, and valid predictions and labels of n items.
        scores : ndarray of shape (n,)
            Scores of the shares of the votes.
        columns : Columns
            Weights and features.
        """
        return Quantile(self.bounds(score, prediction, labels, scores), self, *columns)

    def level(self, alpha: Fraction) -> Fraction:
        """Return the level of the quantile, refusing an α that does not exceed `_spent`."""
        if alpha <= self._spent:
            raise ValueError(
                f"alpha must be above delta={float(self._spent):g}, the probability that the noise "
                f"model fails, but is {float(alpha):g}. Raise alpha or lower delta."
            )
        return (alpha - self._spent) * self.factor

    def smallest_alpha(self, n: int) -> float:
        """Return the smallest α for which n items can give a finite threshold."""
        return float(self._spent + 1 / (self.factor * (n + 1)))


@dataclass(frozen=True, eq=False)
class Quantile(Fit):
    r"""A threshold that is a conformal quantile of one score per calibration item.

    Without weights: the ⌈(n + 1)(1 − level)⌉-th smallest score. With weights, the smallest q with

    $$\sum_{i : s_i \le q} w_i \; \ge \; (1 - \text{level}) \, (w_1 + \dots + w_n + w_{new})$$

    and +inf if no q satisfies this: the new item counts as an infinite score (Tibshirani, Foygel
    Barber, Candès, Ramdas: *Conformal prediction under covariate shift*, 2019). With features, the
    quantile is that of `credalset.calibration.conditional`.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores of the items, or bounds above the scores of their true distributions; +inf is legal.
    noise : Noise
        The noise model, which defines the level of the quantile and its margin for a miscoverage
        rate α.
    weights : ndarray of shape (n,), optional
        Weights of the items; those of new items are one by default.
    features : ndarray of shape (n, d), optional
        Features of which thresholds are a linear function, besides a constant; new items need
        theirs.

    Examples
    --------
    >>> scores = np.array([0.4, 0.2, 0.3, 0.1])
    >>> Quantile(scores, NoNoise()).at(Fraction(2, 5), 2)
    array([0.3, 0.3])
    >>> Quantile(scores, NoNoise(), np.ones(4)).at(Fraction(2, 5), 2, Columns(np.array([1.0, 9.0])))
    array([0.3, inf])
    """

    scores: FloatArray
    noise: Noise
    weights: FloatArray | None = None
    features: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.scores.ndim != 1 or np.isnan(self.scores).any():
            raise ValueError("scores must hold one number per calibration item.")
        if self.weights is not None:
            as_weights(self.weights, len(self.scores))
        if self.features is not None and (
            self.features.ndim != 2
            or len(self.features) != len(self.scores)
            or not np.isfinite(self.features).all()
        ):
            raise ValueError("features must hold one row of finite numbers per calibration item.")

    @property
    def has_features(self) -> bool:
        """Whether thresholds depend on features of the items."""
        return self.features is not None

    def threshold(
        self, alpha: Fraction, prediction: Prediction, columns: Columns = PLAIN
    ) -> FloatArray:
        """Return the threshold of each new item at miscoverage rate α, (N,)."""
        return self.at(self.noise.level(alpha), len(prediction), columns) + self.noise.margin

    def at(self, level: Fraction, n_new: int, columns: Columns = PLAIN) -> FloatArray:
        """Return the quantile at a level for each of N new items, (N,)."""
        weights = columns.weights
        if self.features is not None:
            assert columns.features is not None
            old, new = (
                np.column_stack([np.ones(len(z)), z]) for z in (self.features, columns.features)
            )
            return conditional_quantiles(self.scores, old, float(level), new, self.weights, weights)
        scores, reached = self._in_order
        if self.weights is None:
            return np.full(n_new, score_at_rank(scores, conformal_rank(len(scores), level)))
        total = reached[-1] + (np.ones(n_new) if weights is None else weights)
        needed = float(1 - level) * total * (1.0 - ROUNDING)
        place = np.searchsorted(reached[1:], needed, side="left")
        return np.where(total > 0, np.append(scores, np.inf)[place], np.inf)

    def p_values(self, values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Return the share of items, including the new one, that score at least this, (N,)."""
        scores, reached = self._in_order
        new = np.ones(len(values)) if weights is None else weights
        total = new + reached[-1]
        at_least = new + reached[-1] - reached[np.searchsorted(scores, values, side="left")]
        return np.where(total > 0, at_least / np.where(total > 0, total, 1.0), 1.0)

    @cached_property
    def _in_order(self) -> tuple[FloatArray, FloatArray]:
        """The scores in increasing order, and cumulative weights before and of all, (n + 1,)."""
        order = np.argsort(self.scores, kind="stable")
        each = np.ones(len(order)) if self.weights is None else self.weights[order]
        return self.scores[order], np.append(0.0, np.cumsum(each))


@dataclass(frozen=True)
class NoNoise(Noise):
    """No noise model: the recorded label distribution is covered."""

    name: ClassVar[str] = "none"

    def __repr__(self) -> str:
        return "None"


@dataclass(frozen=True)
class BoundedNoise(Noise):
    r"""Noise model that covers the true distribution if votes rarely change a score by over ε.

    The assumption is $P(f(x, \lambda) - f(x, \tilde\lambda) > \epsilon) \le \delta$ for a new item
    with true distribution λ and recorded shares of votes $\tilde\lambda$: with probability at least
    1 − δ, the score of λ exceeds that of the votes by at most ε. Then the set at threshold
    $q(\tilde\alpha) + \epsilon$ contains the true λ with probability at least 1 − α, where q are
    the quantiles of the scores of the votes (the paper's Theorem 2; ``rule`` chooses the level).
    With groups, weights or `Conditional`, the assumption must hold within each group, for the
    shifted items, and after every shift by the features.

    Parameters
    ----------
    epsilon : float
        Largest change ε ≥ 0 of the score, in the units of the score. `epsilon_from_counts` computes
        it from counts.
    delta : float
        Largest probability δ in [0, 1) that the change exceeds ε; it must be below every α that is
        used.
    rule : {"union", "paper"}
        ``"union"``: $\tilde\alpha = \alpha - \delta$, which follows from the assumption above.
        ``"paper"``: $\tilde\alpha = (\alpha - \delta) / (1 - \delta)$, slightly larger; it also
        assumes that the noise exceeds ε with probability at most δ *given* that the votes are
        covered.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(500, n_votes=50, random_state=0)
    >>> noise = cs.BoundedNoise(epsilon=0.1, delta=0.05)
    >>> calibration = cs.conformalize(data.distributions, data.counts, "tv", noise=noise)
    >>> plain = cs.conformalize(data.distributions, data.counts, "tv")
    >>> round(calibration.threshold(0.1) - plain.threshold(0.05), 6)
    0.1
    """

    epsilon: float
    delta: float
    rule: Literal["union", "paper"] = "union"
    _scope: Literal["any", "average item", "average item, one model"] = field(
        default="any", repr=False
    )
    name: ClassVar[str] = "bounded"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", as_finite(self.epsilon, "epsilon", minimum=0.0))
        delta = as_finite(self.delta, "delta", minimum=0.0)
        if delta >= 1.0:
            raise ValueError(
                f"delta must lie in [0, 1), but is {self.delta!r}. It is a probability of failure."
            )
        object.__setattr__(self, "delta", delta)
        check_choice(self.rule, "rule", ("union", "paper"))
        check_choice(self._scope, "_scope", ("any", "average item", "average item, one model"))

    @property
    def guarantee(self) -> Guarantee:
        """Cover the true distribution, if votes move f by at most ε except with probability δ."""
        votes = (
            f"votes move the score by at most {self.epsilon:g} except for a share "
            f"{self.delta:g} of the items"
        )
        votes += ", also among items whose votes are covered" if self.rule == "paper" else ""
        votes += ". With groups or weights, this must hold within each group and after the shift"
        return Guarantee("true", votes=votes)

    @property
    def _spent(self) -> Fraction:  # type: ignore[override]
        """Return δ."""
        return exact_level(self.delta) if self.delta else Fraction(0)

    @property
    def factor(self) -> Fraction:  # type: ignore[override]
        """Return 1 / (1 − δ) for the paper's rule."""
        return 1 / (1 - self._spent) if self.rule == "paper" else Fraction(1)

    @property
    def margin(self) -> float:  # type: ignore[override]
        """Return ε."""
        return self.epsilon

    @property
    def unsupported(self) -> dict[str, str]:
        """Uses for which the rule, or the scope of ε, gives no proof."""
        found = {}
        if self._scope != "any":
            reason = (
                "epsilon_from_counts computes an epsilon for the average item. Use "
                "AnnotatorSampling(delta)"
            )
            found = dict.fromkeys(("groups", "weights", "features"), reason)
        if self._scope == "average item, one model":
            found["cross"] = (
                "epsilon was computed for one model. Omit prediction, or use "
                "AnnotatorSampling(delta)"
            )
        if self.rule == "paper":
            found["cross"] = "the proof of rule='paper' is for a single threshold. Use rule='union'"
        return found


def set_aside(n: int, share: float) -> BoolArray:
    """Mark every (1 / share)-th item, independently of the data.

    Examples
    --------
    >>> set_aside(10, 0.2).nonzero()[0]
    array([4, 9])
    """
    return np.diff(np.floor(np.arange(n + 1) * share + 1e-9)) > 0


def check_supported(noise: Noise, **uses: Any) -> None:
    """Refuse a use ("groups", "weights", "features", "cross") for which there is no proof."""
    for use, asked in uses.items():
        if asked and use in noise.unsupported:
            raise ValueError(
                f"noise={noise!r} is not supported with "
                f"{use.replace('cross', 'cross-conformal sets')}: {noise.unsupported[use]}."
            )
