"""Guarantees for the distribution behind the votes, when calibration sees only the votes.

Three routes: `BoundedNoise` (votes change the score by less than ε, the paper's Theorem 2), `AnnotatorSampling` (votes
are independent draws from λ), `UnbiasedVotes` (votes are fair on average). A fourth, for few votes, is in
`credalset.calibration.few_votes`. Proofs are in the guide "Which guarantee do I have?".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from credalset._typing import BoolArray, FloatArray
from credalset._validation import as_finite, as_probability, check_choice
from credalset.annotations.labels import Labels
from credalset.calibration.part import Part
from credalset.calibration.promise import Promise
from credalset.calibration.quantile import exact_level
from credalset.scores import Score
from credalset.scores.confidence import REGIONS, largest_score

#: values of δ that `AnnotatorSampling` chooses from when none is given, the first one where items do not tell
DELTAS = (0.5, 0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001)


class Prepared(NamedTuple):
    """A noise model with what it learned from the items set aside, what to calibrate on, and why this model."""

    model: Noise
    bounds: FloatArray
    reason: str = ""


class Noise:
    """How votes relate to the distribution they stand for. Subclasses are frozen dataclasses of plain parameters.

    What the methods below say is right for labels without noise; a model overrides what it changes. It calibrates on
    `bounds` instead of scores and adds `margin` to thresholds. It fails with a probability of at most `spent`, which is
    taken from α, and the bound of an item holds with a probability of at least `kept`, whatever the item, by which what
    is left of α is multiplied.
    """

    name: ClassVar[str]
    needs_counts: ClassVar[bool] = False
    #: whether thresholds depend on the prediction, not only on the calibration items
    varies: ClassVar[bool] = False
    #: whether the model may fail for each fold of a cross-conformal calibration apart, rather than for an item
    fails_by_fold: ClassVar[bool] = False
    #: whether thresholds may follow features: they are quantiles of bounds
    takes_features: ClassVar[bool] = True
    #: share of the items set aside to choose a parameter
    tuning: float = 0.0
    #: what is added to the scores that thresholds come from
    margin: float = 0.0

    @property
    def n_bounds(self) -> int:
        """How many rows `bounds` has; none if it is the scores themselves."""
        return 0

    @property
    def promise(self) -> Promise:
        """What a calibration with this model promises."""
        return Promise()

    @property
    def is_settled(self) -> bool:
        """Whether calibration has nothing more to find out about the model itself."""
        return True

    def agrees_with(self, settled: Noise) -> bool:
        """Tell whether a model is this one, as some calibration may have settled it."""
        return self == settled

    @property
    def spent(self) -> Fraction:
        """The part of α that the model needs for itself: α must exceed it."""
        return Fraction(0)

    @property
    def kept(self) -> Fraction:
        """The probability, given an item, that its bound is one; a missed item is seen to be missed as often."""
        return Fraction(1)

    @property
    def scale(self) -> Fraction:
        """What is left of α is divided by this."""
        return Fraction(1)

    def check_score(self, score: Score, prediction: FloatArray | None = None) -> None:
        """Refuse a score, or its predictions, that the guarantee does not hold for."""
        return

    def why_not_cross_conformal(self) -> str | None:
        """Say why there is no proof for cross-conformal sets, and what to use instead; None if there is one."""
        return None

    def why_no_weights(self) -> str | None:
        """Say why there is no proof for items that count unequally, and what to use instead; None if there is one."""
        return None

    def set_aside(self, n: int) -> BoolArray:
        """Mark the items that only help to choose a parameter, (n,)."""
        return set_aside(n, self.tuning)

    def prepare(self, score: Score, prediction: FloatArray, labels: Labels, scores: FloatArray) -> Prepared:
        """Settle what is left open by the items set aside, and work out what to calibrate on."""
        return Prepared(self, scores[None, :])

    def level(self, alpha: Fraction, n: int) -> Fraction:
        """Return what is left of α for a quantile of n items, refusing an α of which nothing is left."""
        if alpha <= self.spent:
            raise ValueError(
                f"alpha={float(alpha):g} must be above delta={float(self.spent):g}, the probability that the noise "
                f"bound fails. The smallest feasible alpha with these {n} items is {self.smallest_alpha(n):.4g}; raise "
                "alpha or lower delta."
            )
        return (alpha - self.spent) * self.kept / self.scale

    def smallest_alpha(self, n: int) -> float:
        """Return the smallest α for which n items can give a finite threshold."""
        return float(self.spent + self.scale / (self.kept * (n + 1)))

    def min_items(self, alpha: Fraction, n: int) -> int:
        """Return how many items, the new one included, can give a finite threshold."""
        return math.ceil(1 / self.level(alpha, n))

    def thresholds(
        self, part: Part, alpha: Fraction, score: Score, prediction: FloatArray, weights: FloatArray | None
    ) -> FloatArray:
        """Return one threshold per prediction, (N,): a conformal quantile of the bounds, plus the margin."""
        row, level = self.choose(part, alpha)
        return part.quantiles(level, len(prediction), weights, row) + self.margin

    def choose(self, part: Part, alpha: Fraction) -> tuple[int, Fraction]:
        """Return which row of the bounds to take, and at which level; items set aside may help to choose."""
        return 0, self.level(alpha, len(part))

    def why_infinite(self, alpha: Fraction, n: int) -> str:
        """Say why a threshold from n items is infinite, and what helps, if the model knows better than others."""
        return ""

    def params(self) -> dict[str, Any]:
        """Return the parameters as plain values, enough to build the model again."""
        return asdict(self)  # type: ignore[call-overload]

    def _settle(self, parameter: str, check: Callable[[Any, str], float]) -> None:
        """Check a parameter that is given, for which no items are set aside, or the share set aside to choose it."""
        given = getattr(self, parameter)
        if given is not None:
            object.__setattr__(self, parameter, check(given, parameter))
        object.__setattr__(self, "tuning", as_probability(self.tuning, "tuning") if given is None else 0.0)


@dataclass(frozen=True)
class NoNoise(Noise):
    """Labels are what is to be covered."""

    name: ClassVar[str] = "none"

    def __repr__(self) -> str:
        return "None"


@dataclass(frozen=True)
class BoundedNoise(Noise):
    r"""Votes move the score by less than ε, except with probability δ (the paper's Theorem 2).

    If $P(f(x, \lambda) - f(x, \tilde\lambda) > \epsilon) \le \delta$ for a new item with true distribution λ and votes
    $\tilde\lambda$, the set at threshold $q(\tilde\alpha) + \epsilon$ contains λ with probability at least 1 − α, where
    q are the quantiles of the scores of the votes.

    Parameters
    ----------
    epsilon : float
        ε ≥ 0, in the units of the score. `epsilon_from_counts` finds one.
    delta : float
        δ in [0, 1), and below every α that is asked for.
    rule : {"union", "paper"}
        ``"union"``: $\tilde\alpha = \alpha - \delta$, which the assumption above gives. ``"paper"``:
        $\tilde\alpha = (\alpha - \delta) / (1 - \delta)$, slightly larger; it needs the noise to exceed ε with
        probability at most δ also *given* that the votes are covered.

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
    name: ClassVar[str] = "bounded"
    fails_by_fold: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", as_finite(self.epsilon, "epsilon", minimum=0.0))
        delta = as_finite(self.delta, "delta", minimum=0.0)
        if delta >= 1.0:
            raise ValueError(f"delta must lie in [0, 1), but is {self.delta!r}. It is a probability of failure.")
        object.__setattr__(self, "delta", delta)
        check_choice(self.rule, "rule", ("union", "paper"))

    @property
    def promise(self) -> Promise:
        """The truth, if votes are as near as is said."""
        near = f"votes move the score by at most {self.epsilon:g}, but for a share {self.delta:g} of the items"
        return Promise("truth", votes=near)

    @property
    def spent(self) -> Fraction:
        """Return δ."""
        return exact_level(self.delta) if self.delta else Fraction(0)

    @property
    def margin(self) -> float:  # type: ignore[override]
        """Return ε."""
        return self.epsilon

    @property
    def scale(self) -> Fraction:
        """Return 1 − δ for the paper's rule."""
        return 1 - self.spent if self.rule == "paper" else Fraction(1)

    def why_not_cross_conformal(self) -> str | None:
        """Refuse the paper's rule."""
        if self.rule == "union":
            return None
        return (
            "noise has rule='paper', whose proof is for a single threshold and not for cross-conformal sets. "
            "Use rule='union'."
        )


@dataclass(frozen=True)
class AnnotatorSampling(Noise):
    r"""Votes are independent draws from λ: $n_i \sim \mathrm{Multinomial}(m_i, \lambda_i)$.

    Each item is calibrated with the largest score over a (1 − δ) confidence region for its λ, at level α (1 − δ). The
    sets then contain the true λ with probability at least 1 − α: an item that scores above the threshold is seen to do
    so with probability 1 − δ, whatever the item, so what is seen is less than the truth by no more than that factor.
    Items may have different numbers of votes; there is no ε to choose, and any score will do. With few votes the
    regions, and the sets, are wide. How many votes an item gets must not depend on how they fall, but for
    ``region="anytime"``.

    Parameters
    ----------
    delta : float, optional
        Probability with which a region may miss its λ; it may well be a half. By default it is chosen, for each α,
        among eighteen values from 0.9 to 0.0001 so that the threshold of the items set aside is smallest. As those
        items take no further part, the guarantee is untouched.
    region : {"exact", "tv", "kl", "anytime"}
        ``"exact"``: simultaneous exact (Clopper–Pearson) lower limits; the largest score is exact for every score, and
        a bound above it for mixtures of densities.
        ``"tv"``: a total-variation ball by concentration inequalities, cheapest. ``"kl"``: a relative-entropy ball.
        ``"anytime"``: one that holds λ whenever voting stops, for votes that were collected until they agreed
        (Lindon and Malek, 2022). No other region, and no other noise model, survives that.
    tuning : float
        Share of the items set aside to choose δ, every fifth by default. Not used when ``delta`` is given.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(500, n_votes=50, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts, "tv", noise=cs.AnnotatorSampling())
    >>> calibration.threshold(0.1) > cs.conformalize(data.distributions, data.counts, "tv").threshold(0.1)
    True
    """

    delta: float | None = None
    region: Literal["exact", "tv", "kl", "anytime"] = "exact"
    tuning: float = 0.2
    name: ClassVar[str] = "annotator-sampling"
    needs_counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._settle("delta", as_probability)
        check_choice(self.region, "region", REGIONS)

    @property
    def deltas(self) -> tuple[float, ...]:
        """The values of δ that bounds are kept for."""
        return DELTAS if self.delta is None else (self.delta,)

    @property
    def n_bounds(self) -> int:
        """One row per δ."""
        return len(self.deltas)

    @property
    def promise(self) -> Promise:
        """The truth, if votes are draws."""
        when = (
            "their number may depend on how they fall" if self.region == "anytime" else "their number chosen beforehand"
        )
        return Promise("truth", votes=f"votes are independent draws, {when}")

    @property
    def kept(self) -> Fraction:
        """Return 1 − δ; with δ still open, that of the first to try."""
        return 1 - exact_level(self.deltas[0])

    def prepare(self, score: Score, prediction: FloatArray, labels: Labels, scores: FloatArray) -> Prepared:
        """Calibrate on the largest scores over the confidence regions, one row per δ."""
        votes = labels.votes("labels", type(self).__name__)
        largest = [largest_score(score, prediction, votes, delta, self.region) for delta in self.deltas]
        return Prepared(self, np.stack(largest))

    def why_not_cross_conformal(self) -> str | None:
        """Refuse a δ that is left open."""
        if self.delta is not None:
            return None
        return (
            "noise needs a delta here: left open, it would be chosen by items on which the other folds' models were "
            "trained. Write AnnotatorSampling(delta), with delta between 0.2 and 0.9."
        )

    def choose(self, part: Part, alpha: Fraction) -> tuple[int, Fraction]:
        """Choose δ on the items set aside, among those that the number of items is enough for."""
        if self.delta is not None:
            return super().choose(part, alpha)
        levels = [alpha * (1 - exact_level(delta)) for delta in DELTAS]
        feasible = [row for row, level in enumerate(levels) if level * (len(part) + 1) >= 1] or [len(DELTAS) - 1]
        held_out = np.sort(part.held_out, axis=1)
        size = held_out.shape[1]
        found = [held_out[row, math.ceil(size * (1 - levels[row])) - 1] if size else 0.0 for row in feasible]
        row = feasible[int(np.argmin(found))]
        return row, levels[row]


@dataclass(frozen=True)
class UnbiasedVotes(Noise):
    r"""Votes are fair: $E[\tilde\lambda \,|\, x, \lambda] = \lambda$, and nothing more, for any number of votes.

    For a score that is convex in λ, votes score at least as high as λ on average (Jensen's inequality). With
    $X_i = (f(x_i, \tilde\lambda_i) - s)_+$ and $B(x)$ the largest such excess for the new prediction, the threshold

    $$q(x) = s + \frac{\sum_i X_i + B(x)}{\alpha (n+1)}$$

    gives sets that contain the true λ with probability at least 1 − α. Thresholds differ from item to item. The number
    of votes does not matter, and annotators need not be independent of each other.

    Parameters
    ----------
    s : float, optional
        Where excess begins, in the units of the score. Any number chosen without looking at the calibration items is
        valid. By default the items set aside choose it, as the quantile that makes q smallest.
    tuning : float
        Share of the items set aside to choose s, every fifth by default. Not used when ``s`` is given.

    Notes
    -----
    A score that is infinite in some corner of the simplex has an infinite B(x), hence the whole simplex as its set:
    Kullback–Leibler where a class is predicted with probability zero, and the Dirichlet density always.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(500, n_votes=5, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts, "tv", noise=cs.UnbiasedVotes())
    >>> calibration.thresholds(data.distributions[:2], 0.1).round(3)
    array([0.387, 0.39 ])
    """

    s: float | None = None
    tuning: float = 0.2
    name: ClassVar[str] = "unbiased-votes"
    takes_features: ClassVar[bool] = False
    varies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._settle("s", as_finite)

    @property
    def promise(self) -> Promise:
        """The truth, if votes are fair."""
        return Promise("truth", votes="votes are fair on average")

    def check_score(self, score: Score, prediction: FloatArray | None = None) -> None:
        """Refuse scores that are not convex in λ."""
        is_convex = score.is_convex if prediction is None else score.is_convex_at(prediction)
        if not is_convex:
            of_what = "" if not score.is_convex else " for these predictions"
            raise ValueError(
                f"UnbiasedVotes needs a score that is convex in the label distribution, and {score.name!r} is "
                f"not{of_what}: fair votes may then score lower on average than the distribution they come from. "
                "Use AnnotatorSampling with this score, or a convex one (tv, ws, kl, inner, hellinger)."
            )

    def why_not_cross_conformal(self) -> str | None:
        """Refuse: a threshold comes from the excesses over all items, of one model."""
        return (
            f"noise is {type(self).__name__}, whose proof needs one model for all items and does not carry over to "
            "cross-conformal sets. Use AnnotatorSampling(delta) or BoundedNoise, or split the data and conformalize."
        )

    def thresholds(
        self, part: Part, alpha: Fraction, score: Score, prediction: FloatArray, weights: FloatArray | None
    ) -> FloatArray:
        """Return s + (Σ w X + w_new B) / (α Σ w), the new weight included; all weights are one without shift."""
        self.check_score(score, prediction)  # a mixture to predict for is as little convex as one to calibrate on
        kept = part.bounds[0]
        old = np.ones(len(kept)) if part.weights is None else part.weights
        new = np.ones(len(prediction)) if weights is None else weights
        s = self._start(part.held_out[0], alpha, len(kept))
        peak = score.largest_score(prediction)
        counted = old > 0
        total = (old[counted] * np.maximum(kept[counted] - s, 0.0)).sum()
        worst = np.where(new > 0, new, 1.0) * np.maximum(peak - s, 0.0) * (new > 0)
        mass = float(alpha) * (old.sum() + new)
        with np.errstate(invalid="ignore"):
            q = s + (total + worst) / mass
        return np.where(np.isnan(q), np.inf, q)

    def _start(self, held_out: FloatArray, alpha: Fraction, n: int) -> float:
        """Return the s that minimises s + E(f − s)₊ / α + (B − s) / (α (n + 1)): a quantile of f."""
        if self.s is not None:
            return self.s
        finite = np.sort(held_out[np.isfinite(held_out)])
        if len(finite) == 0:
            return 0.0
        share = max(alpha - Fraction(1, n + 1), Fraction(0))
        return float(finite[min(math.floor(len(held_out) * (1 - share)), len(finite) - 1)])


def set_aside(n: int, share: float) -> BoolArray:
    """Mark every (1 / share)-th item; which ones does not depend on the data.

    Examples
    --------
    >>> set_aside(10, 0.2).nonzero()[0]
    array([4, 9])
    """
    position = np.arange(n + 1)
    return np.diff(np.floor(position * share + 1e-9)) > 0
