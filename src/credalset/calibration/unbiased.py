"""`UnbiasedVotes`: votes are unbiased, without further assumptions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from credalset._batch import Labels
from credalset._typing import FloatArray, Prediction
from credalset._validation import as_finite, as_probability
from credalset.calibration.levels import as_weights
from credalset.calibration.noise import PLAIN, Columns, Fit, Guarantee, Noise, set_aside
from credalset.scores import Score


@dataclass(frozen=True)
class UnbiasedVotes(Noise):
    r"""Noise model that covers the true label distribution assuming that votes are unbiased.

    The assumption is $E[\tilde\lambda \,|\, x, \lambda] = \lambda$ for the recorded shares
    $\tilde\lambda$ of the votes and the true distribution λ, also given all other items and their
    votes. It holds if annotators are drawn anew for each item. It does not hold if the same few
    annotators vote on all items: coverage can then be far below 1 − α. Items may have any number of
    votes, and the annotators of an item need not be independent of each other.

    For a score f that is convex in λ, the mean score of the votes is at least the score of λ
    (Jensen's inequality). With $X_i = (f(x_i, \tilde\lambda_i) - s)_+$ and $B(x)$ the largest such
    excess for the new prediction, the threshold

    $$q(x) = s + \frac{\sum_i X_i + B(x)}{\alpha (n+1)}$$

    gives sets that contain the true λ of a new item, exchangeable with the calibration items, with
    probability at least 1 − α. Thresholds differ between items.

    Parameters
    ----------
    s : float, optional
        Number s above which scores count as excess, in the units of the score. Any number that does
        not depend on the calibration items is valid. By default, s is the quantile that minimises q
        on items that are set aside.
    tuning : float
        Share of the items that are set aside to choose s; by default every fifth item. Not used if
        ``s`` is given.

    Notes
    -----
    For a score that is infinite in some corner of the simplex, B(x) is infinite and the set is the
    whole simplex. This holds for ``kl`` if a class is predicted with probability zero, and always
    for ``so`` and ``density``. The scores ``tv``, ``ws``, ``inner``, ``hellinger``, ``brier`` and
    ``intervals`` are bounded.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(500, n_votes=5, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts, "tv",
    ...                              noise=cs.UnbiasedVotes())
    >>> calibration.thresholds(data.distributions[:2], 0.1).round(3)
    array([0.387, 0.39 ])
    """

    s: float | None = None
    tuning: float = 0.2
    name: ClassVar[str] = "unbiased-votes"
    varies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.s is not None:
            object.__setattr__(self, "s", as_finite(self.s, "s"))
        object.__setattr__(self, "tuning", as_probability(self.tuning, "tuning"))

    @property
    def guarantee(self) -> Guarantee:
        """Cover the true distribution, if votes are unbiased."""
        return Guarantee("true", votes="votes are unbiased, whatever the votes on other items")

    @property
    def unsupported(self) -> dict[str, str]:
        """Uses that need a quantile, or several models."""
        instead = "Use AnnotatorSampling(delta)"
        return {
            "features": f"its thresholds are not quantiles. {instead}",
            "cross": f"its proof needs one model for all items. {instead}, or split the data and "
            "conformalize",
        }

    def check_score(self, score: Score, prediction: Prediction | None = None) -> None:
        """Refuse scores that are not convex in λ."""
        if not score.is_convex:
            raise ValueError(
                "UnbiasedVotes needs a score that is convex in the label distribution, but "
                f"score is {score.name!r}. "
                "Use AnnotatorSampling with this score, or a convex score such as kl."
            )

    def fit(
        self,
        score: Score,
        prediction: Prediction,
        labels: Labels,
        scores: FloatArray,
        columns: Columns = PLAIN,
    ) -> Fit:
        """Keep the scores of the votes, and separately those of the items set aside."""
        aside = set_aside(len(scores), self.tuning if self.s is None else 0.0)
        old = np.ones(len(scores)) if columns.weights is None else columns.weights
        return MeanExcess(score, scores[~aside], old[~aside], scores[aside], self.s)


@dataclass(frozen=True, eq=False)
class MeanExcess(Fit):
    """Thresholds of `UnbiasedVotes`: s + (Σ w X + w_new B) / (α Σ w), the new weight included.

    Attributes
    ----------
    score : Score
        The score, for its largest value at a prediction.
    scores, weights : ndarrays of shape (n,)
        Scores of the votes, and weights of the items.
    held_out : ndarray of shape (n',)
        Scores of the items set aside.
    s : float or None
        Start of the excess; None to choose it with the items set aside.
    """

    score: Score
    scores: FloatArray
    weights: FloatArray
    held_out: FloatArray
    s: float | None = None

    def __post_init__(self) -> None:
        if self.scores.ndim != 1 or self.held_out.ndim != 1 or np.isnan(self.scores).any():
            raise ValueError("scores and held_out must hold one number per item.")
        as_weights(self.weights, len(self.scores))

    def threshold(
        self, alpha: Fraction, prediction: Prediction, columns: Columns = PLAIN
    ) -> FloatArray:
        """Return the threshold of each new item, (N,)."""
        new = np.ones(len(prediction)) if columns.weights is None else columns.weights
        s = self._start(alpha)
        counted = self.weights > 0
        total = (self.weights[counted] * np.maximum(self.scores[counted] - s, 0.0)).sum()
        largest = np.maximum(self.score.largest_score(prediction) - s, 0.0)
        worst = np.where(new > 0, new, 1.0) * largest * (new > 0)
        with np.errstate(invalid="ignore"):
            q = s + (total + worst) / (float(alpha) * (self.weights.sum() + new))
        return np.where(np.isnan(q), np.inf, q)

    def _start(self, alpha: Fraction) -> float:
        """Return a quantile of f: the s of least s + E(f − s)₊ / α + (B − s) / (α (n + 1))."""
        if self.s is not None:
            return self.s
        finite = np.sort(self.held_out[np.isfinite(self.held_out)])
        if len(finite) == 0:
            return 0.0
        share = max(alpha - Fraction(1, len(self.scores) + 1), Fraction(0))
        return float(finite[min(math.floor(len(self.held_out) * (1 - share)), len(finite) - 1)])
