"""A guarantee for the true distribution from a handful of votes per item."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from credalset._typing import FloatArray
from credalset._validation import as_probability
from credalset.annotations.labels import Labels
from credalset.calibration.ladder import Evidence, Ladder, smallest_threshold
from credalset.calibration.noise import Noise, Prepared
from credalset.calibration.part import Part
from credalset.calibration.promise import Promise
from credalset.scores import Score

RATIO, LOWEST = 1.06, 1e-4  # between neighbouring thresholds of the moments, and from the largest to the smallest


@dataclass(frozen=True)
class FewVotes(Noise):
    r"""Votes are independent draws from λ, few per item and many items: from two votes on, sets of useful size.

    A *majorant* $\varphi_t(x, c)$ of the votes c has a mean, over votes drawn from λ, of at least one wherever the
    score of λ exceeds t and at least zero elsewhere, for every λ. Its mean over items therefore bounds the chance that
    the truth scores above t. The smallest t for which a test shows this mean to be small enough is the threshold. The
    test is by betting, exact for any number of items (`credalset.calibration.betting`).

    Parameters
    ----------
    delta : float or None
        The sets contain the true λ with probability at least 1 − α for all but a share δ of calibration sets, and on
        average over all of them. None: on average only, as other noise models promise, with smaller sets.
    tuning : float
        Share of the items set aside to fit majorants and choose a method, every fifth by default.

    Notes
    -----
    Items must be independent of each other, and how many votes an item gets must not depend on how they
    fall. Items may have different numbers of votes. An item with a single vote cannot tell spread from error; it counts
    with the score of its vote (moments) or with a majorant of degree one, both safe and wide. If the number of votes
    has nothing to do with the item, leave such items out.

    Examples
    --------
    >>> import numpy as np, credalset as cs
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.dirichlet([0.7, 0.7, 0.7], size=4000)
    >>> g = 0.9 * truth + 0.1 * rng.dirichlet([1, 1, 1], size=4000)
    >>> counts = rng.multinomial(5, truth)
    >>> few = cs.conformalize(g, counts, "brier", noise=cs.FewVotes())
    >>> plain = cs.conformalize(g, counts, "brier")  # about the votes, with no promise for the truth
    >>> few.threshold(0.1) < plain.threshold(0.1)
    True
    """

    delta: float | None = 0.01
    tuning: float = 0.2
    name: ClassVar[str] = "few-votes"
    needs_counts: ClassVar[bool] = True
    takes_features: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.delta is not None:
            object.__setattr__(self, "delta", as_probability(self.delta, "delta"))
        object.__setattr__(self, "tuning", as_probability(self.tuning, "tuning"))

    @property
    def promise(self) -> Promise:
        """The truth; with probability 1 − δ, unless δ is None."""
        votes = "votes are independent draws, their number chosen beforehand"
        return Promise("truth", self.delta, "independent", votes)

    @property
    def n_bounds(self) -> int:
        """The estimate of the score of each item, and what it cannot exceed."""
        return 2

    def check_score(self, score: Score, prediction: FloatArray | None = None) -> None:
        """Refuse a score that votes give no unbiased estimate of."""
        if score.estimate_from_votes(np.full((1, 2), 0.5), np.ones((1, 2))) is None:
            raise ValueError(
                f"FewVotes needs an unbiased estimate of the score from votes, which {score.name!r} does not have. "
                "Use the score 'brier', or UnbiasedVotes or AnnotatorSampling."
            )

    def why_not_cross_conformal(self) -> str | None:
        """Refuse: items that trained the other folds' models are not independent of their scores."""
        return (
            "noise is FewVotes, whose test needs items that are independent given the model, and in cross-conformal "
            "calibration every item trains models. Use AnnotatorSampling(delta), or split the data and conformalize."
        )

    def why_no_weights(self) -> str | None:
        """Refuse: a bet needs to know how much it can lose."""
        return (
            "FewVotes tests the mean of bounded numbers, and weights have no bound that calibration items could tell. "
            "Use UnbiasedVotes or AnnotatorSampling with weights."
        )

    def prepare(self, score: Score, prediction: FloatArray, labels: Labels, scores: FloatArray) -> Prepared:
        """Fit majorants to the items set aside, and evaluate them for all."""
        counts = labels.votes("labels", type(self).__name__)
        aside = self.set_aside(len(prediction))
        if not aside.any():
            raise ValueError(
                f"FewVotes sets aside a share {self.tuning:g} of the items, and {len(counts)} are too few."
            )
        estimate = score.estimate_from_votes(prediction, counts)
        assert estimate is not None
        return Prepared(self, np.stack([estimate, score.largest_score(prediction)]))

    def min_items(self, alpha: Fraction, n: int) -> int:
        """Return one: groups that are too small get the whole simplex rather than a share in a pool."""
        return 1

    def thresholds(
        self, part: Part, alpha: Fraction, score: Score, prediction: FloatArray, weights: FloatArray | None
    ) -> FloatArray:
        """Return the smallest threshold that passes its tests, the same for every prediction."""
        if alpha not in part.memo:
            part.memo[alpha] = self._threshold(part, float(alpha))
        return np.full(len(prediction), part.memo[alpha])

    def _threshold(self, part: Part, alpha: float) -> float:
        if len(part) == 0:
            return float("inf")
        evidence = Evidence.of(*self._values(part.held_out, part.held_out))
        values = self._values(part.bounds, part.held_out)[1]
        return smallest_threshold(evidence, values, self._ladder(evidence, len(part), alpha))

    def why_infinite(self, alpha: Fraction, n: int) -> str:
        """Say that no threshold passed its test."""
        surer = "" if self.delta is None else " or delta"
        return (
            f"{n} calibration items with these votes do not show that the truth lies within any distance from the "
            f"predictions with probability 1 - {float(alpha):g}. Add items, votes per item or better predictions, "
            f"raise alpha{surer}, or use UnbiasedVotes or AnnotatorSampling"
        )

    def _ladder(self, evidence: Evidence, n: int, alpha: float) -> Ladder:
        return evidence.best_ladder(n, alpha) if self.delta is None else Ladder.certain(alpha, self.delta)

    def _values(self, bounds: FloatArray, held_out: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return thresholds (L,), the values of majorants there (L, n'), and what these cannot exceed (L,)."""
        top = held_out[1][np.isfinite(held_out[1])].max(initial=0.0)
        top = float(top) if top > 0 else 1.0
        thresholds = top * RATIO ** -np.arange(1.0, np.ceil(np.log(1.0 / LOWEST) / np.log(RATIO)))
        # Bets need a bound: items that could score higher than those set aside have the constant majorant.
        usable = bounds[1] <= top
        estimate = np.where(usable, bounds[0], 0.0)
        values = np.where(usable, estimate / thresholds[:, None], 1.0)
        return thresholds, values, top / thresholds
