"""A guarantee for the true distribution from a handful of votes per item."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from credalset._typing import BoolArray, FloatArray
from credalset._validation import as_probability, check_choice
from credalset.annotations.labels import Labels
from credalset.calibration.ladder import Evidence, Ladder, smallest_threshold
from credalset.calibration.majorants import Majorants, why_no_majorants
from credalset.calibration.noise import Noise, Prepared
from credalset.calibration.part import Part
from credalset.calibration.promise import Promise
from credalset.scores import Score

METHODS = ("auto", "moments", "majorant", "family")
CHOICES = ("moments", "majorant")  # of "auto": an assumption is never chosen for anybody
RATIO, LOWEST = 1.06, 1e-4  # between neighbouring thresholds of the moments, and from the largest to the smallest
TYPICAL_ALPHA = 0.1  # the level that methods are compared at
RARELY = 0.02  # the chance of sets without content that is no reason to take another method


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
    method : {"auto", "moments", "majorant", "family"}
        ``"moments"``: $\varphi_t = U / t$ with an unbiased estimate U of the score, which the Brier score has; any
        number of classes. ``"majorant"``: tables that are the best for these predictions and votes by a quadratic
        programme, and certified for every λ; up to four classes, any convex score of ours. ``"auto"``: whichever of
        these promises smaller thresholds on the items set aside. ``"family"``: tables that need an assumption about
        crowds, with smaller sets: given x, the truth scatters like some mixture of Dirichlet distributions centred at
        the prediction or somewhat beside it (`credalset.calibration.majorants.family`).
    tuning : float
        Share of the items set aside to fit majorants and choose a method, every fifth by default.
    levels, largest : tuples of floats
        What calibration fills in: the thresholds that there are majorants for, and what these cannot exceed.

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
    >>> few = cs.conformalize(g, counts, "brier", noise=cs.FewVotes(method="moments"))
    >>> plain = cs.conformalize(g, counts, "brier")  # about the votes, with no promise for the truth
    >>> few.threshold(0.1) < plain.threshold(0.1)
    True
    """

    delta: float | None = 0.01
    method: Literal["auto", "moments", "majorant", "family"] = "auto"
    tuning: float = 0.2
    levels: tuple[float, ...] = field(default=(), repr=False)
    largest: tuple[float, ...] = field(default=(), repr=False)
    name: ClassVar[str] = "few-votes"
    needs_counts: ClassVar[bool] = True
    takes_features: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.delta is not None:
            object.__setattr__(self, "delta", as_probability(self.delta, "delta"))
        object.__setattr__(self, "tuning", as_probability(self.tuning, "tuning"))
        check_choice(self.method, "method", METHODS)
        for name in ("levels", "largest"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
        if len(self.levels) != len(self.largest) or any(not t > 0 for t in self.levels):
            raise ValueError("levels and largest must hold one positive number each per threshold. Leave both out.")

    @property
    def promise(self) -> Promise:
        """The truth; with probability 1 − δ, unless δ is None."""
        votes = "votes are independent draws, their number chosen beforehand"
        if self.method == "family":
            votes += ", and the truth scatters around predictions like a mixture of Dirichlet distributions"
        return Promise("truth", self.delta, "independent", votes)

    @property
    def is_settled(self) -> bool:
        """Whether the method is chosen, and its majorants are known."""
        return self.method == "moments" or (self.method != "auto" and len(self.levels) > 0)

    def agrees_with(self, settled: Noise) -> bool:
        """Tell whether a model has this one's δ, share set aside, and method unless it was left open."""
        if not isinstance(settled, FewVotes):
            return False
        method = settled.method if self.method == "auto" else self.method
        return replace(settled, levels=(), largest=()) == replace(self, method=method, levels=(), largest=())

    @property
    def n_bounds(self) -> int:
        """Two numbers per item for moments, one per threshold for majorants."""
        return 2 if self.method == "moments" else len(self.levels)

    def check_score(self, score: Score, prediction: FloatArray | None = None) -> None:
        """Refuse a score that the method has no majorants for."""
        open_to = CHOICES if self.method == "auto" else (self.method,)
        reasons = [f"{name}: {why}" for name in open_to if (why := self._why_not(name, score, prediction))]
        if len(reasons) == len(open_to):
            raise ValueError(
                f"FewVotes(method={self.method!r}) does not apply to these predictions and the score {score.name!r} "
                f"({'; '.join(reasons)}). Use UnbiasedVotes or AnnotatorSampling, or the score 'brier'."
            )

    def _why_not(self, method: str, score: Score, prediction: FloatArray | None) -> str:
        if method != "moments":
            return why_no_majorants(score, prediction)
        known = score.estimate_from_votes(np.full((1, 2), 0.5), np.ones((1, 2)))
        return "" if known is not None else f"votes give no unbiased estimate of the score {score.name!r}"

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
        methods = CHOICES if self.method == "auto" else (self.method,)
        found = {
            method: self._fitted(method, score, prediction, counts, aside)
            for method in methods
            if not self._why_not(method, score, prediction)
        }
        n = int((~aside).sum())
        outlook = {
            method: model.scenarios(bounds[:, aside], n, TYPICAL_ALPHA) for method, (model, bounds) in found.items()
        }
        beyond = np.e * max(t[np.isfinite(t)].max(initial=0.0) for t in outlook.values()) or 1.0

        def preference(method: str) -> tuple[bool, float]:
            infinite = np.isinf(outlook[method])
            return infinite.mean() > RARELY, float(np.log(np.where(infinite, beyond, outlook[method])).mean())

        return Prepared(*found[min(outlook, key=preference)])

    def _fitted(
        self, method: Any, score: Score, prediction: FloatArray, counts: FloatArray, aside: BoolArray
    ) -> tuple[FewVotes, FloatArray]:
        if method == "moments":
            estimate = score.estimate_from_votes(prediction, counts)
            assert estimate is not None
            return replace(self, method=method), np.stack([estimate, score.largest_score(prediction)])
        fitted = Majorants.fit(score, prediction[aside], counts[aside], int((~aside).sum()), method == "family")
        levels, largest = tuple(fitted.thresholds.tolist()), tuple(fitted.largest.tolist())
        return replace(self, method=method, levels=levels, largest=largest), fitted.values(prediction, counts)

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

    def scenarios(self, held_out: FloatArray, n: int, alpha: float) -> FloatArray:
        """Return equally likely thresholds that n items may give, given the bounds of others; some may be infinite."""
        evidence = Evidence.of(*self._values(held_out, held_out))
        return evidence.scenarios(n, self._ladder(evidence, n, alpha))

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
        if self.method != "moments":
            return np.array(self.levels), bounds, np.array(self.largest)
        top = held_out[1][np.isfinite(held_out[1])].max(initial=0.0)
        top = float(top) if top > 0 else 1.0
        thresholds = top * RATIO ** -np.arange(1.0, np.ceil(np.log(1.0 / LOWEST) / np.log(RATIO)))
        # Bets need a bound: items that could score higher than those set aside have the constant majorant.
        usable = bounds[1] <= top
        estimate = np.where(usable, bounds[0], 0.0)
        values = np.where(usable, estimate / thresholds[:, None], 1.0)
        return thresholds, values, top / thresholds
