"""`FewVotes`: guarantees for the true distribution from two or more votes on each of many items."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from credalset._batch import Labels
from credalset._typing import FloatArray, Prediction
from credalset._validation import as_probability
from credalset.calibration.levels import exact_level
from credalset.calibration.noise import PLAIN, Columns, Fit, Guarantee, Noise
from credalset.scores import Score

#: of neighbouring means that are tested, and of the smallest to the largest
RATIO, SMALLEST = (
    1.02,
    1e-4,
)
BOLDNESS = 0.9  # share of the largest admissible bet, so that the capital stays positive
PRIOR = 10.0  # number of values that the first guess of the spread counts for
ROUNDS = 500  # of bets


@dataclass(frozen=True)
class FewVotes(Noise):
    r"""Noise model for the true label distribution, from a few independent votes per item.

    The assumptions are that votes are independent draws from the true distribution λ of their item,
    that the number of votes of an item does not depend on the votes, and that items are independent
    of each other. Most items should have two or more votes. The score must be ``"brier"``.

    For the Brier score f, the votes c of an item give an unbiased estimate of the score of its true
    distribution,

    $$U = \sum_k v_k \left[ \frac{c_k (c_k - 1)}{m (m - 1)} - 2 g_k \frac{c_k}{m} + g_k^2 \right] ,
    \qquad
    E[U \,|\, x, \lambda] = f(x, \lambda) .$$

    By Markov's inequality $P(f > t) \le E[U] / t$. The threshold is an upper confidence bound for
    $E[U]$, at confidence 1 − δ, divided by $(\alpha - \delta) / (1 - \delta)$. The confidence bound
    is a betting bound (Waudby-Smith and Ramdas, *Estimating means of bounded random variables by
    betting*, 2024). The sets contain the true λ of a new item with probability at least 1 − α for
    all but a share δ of calibration sets, and on average over all calibration sets.

    Parameters
    ----------
    delta : float
        Probability δ in (0, 1) that the confidence bound fails; it must be below every α that is
        used.

    Notes
    -----
    Items may have different numbers of votes. An item with a single vote contributes the score of
    its vote, which is conservative; if the number of votes is independent of the item, leave such
    items out.

    Examples
    --------
    >>> import numpy as np, credalset as cs
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.dirichlet([0.7, 0.7, 0.7], size=4000)
    >>> g = 0.9 * truth + 0.1 * rng.dirichlet([1, 1, 1], size=4000)
    >>> counts = rng.multinomial(5, truth)
    >>> few = cs.conformalize(g, counts, "brier", noise=cs.FewVotes())
    >>> plain = cs.conformalize(g, counts, "brier")  # covers the recorded distribution only
    >>> few.threshold(0.1) < plain.threshold(0.1)
    True
    """

    delta: float = 0.01
    name: ClassVar[str] = "few-votes"

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", as_probability(self.delta, "delta"))

    @property
    def guarantee(self) -> Guarantee:
        """Cover the true distribution, with probability 1 − δ over calibration sets."""
        votes = "votes are independent draws, their number fixed in advance"
        return Guarantee("true", delta=self.delta, items="independent", votes=votes)

    @property
    def _spent(self) -> Fraction:  # type: ignore[override]
        """Return δ."""
        return exact_level(self.delta)

    @property
    def factor(self) -> Fraction:  # type: ignore[override]
        """Return 1 / (1 − δ).

        The bound on the mean fails with probability δ; otherwise the miscoverage is at most the
        level. On average over calibration sets it is at most level · (1 − δ) + δ = α.
        """
        return 1 / (1 - self._spent)

    @property
    def unsupported(self) -> dict[str, str]:
        """Uses for which the bound of the mean has no proof."""
        instead = "Use AnnotatorSampling(delta)"
        return {
            "weights": "it tests the mean of bounded numbers, and weights have no known bound. "
            f"{instead}",
            "features": f"its thresholds are not quantiles. {instead}",
            "cross": "it needs items that are independent given the model. "
            f"{instead}, or split the data",
        }

    def check_score(self, score: Score, prediction: Prediction | None = None) -> None:
        """Refuse a score without an unbiased estimate, or unbounded for some prediction."""
        known = score.estimate_from_votes(np.full((1, 2), 0.5), np.ones((1, 2))) is not None
        if not known or not isinstance(prediction, np.ndarray | None):
            raise ValueError(
                f"FewVotes supports the score 'brier', but score is {score.name!r}. Use that, or "
                "another noise model (AnnotatorSampling, UnbiasedVotes)."
            )

    def fit(
        self,
        score: Score,
        prediction: Prediction,
        labels: Labels,
        scores: FloatArray,
        columns: Columns = PLAIN,
    ) -> Fit:
        """Bound the mean score of the true distributions from above."""
        counts = labels.votes("votes", type(self).__name__)
        estimates = score.estimate_from_votes(prediction, counts)
        assert estimates is not None
        largest = float(score.largest_score(np.eye(counts.shape[1])).max())  # of any prediction
        return MeanBound(self, upper_mean(estimates, largest, self.delta), largest)


@dataclass(frozen=True)
class MeanBound(Fit):
    """Thresholds of `FewVotes`: a bound of the mean score of true distributions over the level.

    Attributes
    ----------
    noise : FewVotes
        The model.
    mean : float
        Upper confidence bound for the mean score of the true distributions.
    largest : float
        Upper bound of the score.
    """

    noise: FewVotes
    mean: float
    largest: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.mean <= self.largest:
            raise ValueError(f"mean must lie between 0 and {self.largest}, but is {self.mean}.")

    def threshold(
        self, alpha: Fraction, prediction: Prediction, columns: Columns = PLAIN
    ) -> FloatArray:
        """Return the threshold, equal for all predictions, (N,); +inf if it excludes nothing."""
        threshold = self.mean / float(self.noise.level(alpha))
        return np.full(len(prediction), threshold if threshold < self.largest else np.inf)


def upper_mean(values: FloatArray, largest: float, delta: float) -> float:
    r"""Return an upper confidence bound for the mean of independent values of at most ``largest``.

    Test "E X ≥ r" by betting (Waudby-Smith and Ramdas, *Estimating means of bounded random
    variables by betting*, 2024): capital 1 is multiplied by 1 + λ (r − X) for each value X, with a
    bet λ ≥ 0 chosen before X is seen. For λ (largest − r) ≤ 1 the capital stays positive, and if E
    X ≥ r it is a supermartingale for any distribution of X. By Ville's inequality it reaches 1 / δ
    with probability at most δ, so that rejecting at 1 / δ is a test at level δ for any number of
    values. Means r are tested from the largest down until one is not rejected; the bound is the
    last one rejected. It is too small only if the first tested r ≤ E X is rejected.

    The bets affect only the power. They replicate the option that pays 1 / δ if the mean of a
    normal sample is below r − z σ / √n, which needs about z = 2.33 standard errors at δ = 0.01, as
    the normal approximation does; a constant bet needs √(2 log 1/δ) = 3.03.

    Parameters
    ----------
    values : array of shape (n,)
        Independent values with the same mean; they need no lower bound.
    largest : float
        Upper bound of the values, known in advance.
    delta : float
        Probability that the bound is too small.

    Examples
    --------
    >>> coin = np.random.default_rng(1).random(1000) < 0.4
    >>> round(upper_mean(coin.astype(float), 1.0, 0.01), 2)
    0.45
    """
    n = len(values)
    steps = int(np.ceil(np.log(1.0 / SMALLEST) / np.log(RATIO)))
    level = largest * RATIO ** -np.arange(1.0, steps)
    fortune = np.full(len(level), delta)  # in units of 1 / δ: rejected at one
    squares = np.full(len(level), PRIOR * (largest / 4.0) ** 2)
    seen = 0
    for block in np.array_split(values, min(n, ROUNDS)) if n else []:
        goal = -ndtri(fortune)  # distance of the option from paying, in standard errors
        with np.errstate(divide="ignore", over="ignore"):
            hedge = np.exp(-0.5 * goal**2) / (
                fortune * np.sqrt(2.0 * np.pi * (n - seen) * squares / (PRIOR + seen))
            )
        bet = np.where(fortune < 1.0, np.minimum(hedge, BOLDNESS / (largest - level)), 0.0)
        gain = level[:, None] - block
        fortune = np.clip(fortune * np.prod(1.0 + bet[:, None] * gain, axis=1), 1e-200, 1.0)
        squares = squares + (gain**2).sum(axis=1)
        seen = seen + len(block)
    n_rejected = int(np.argmin(np.append(fortune >= 1.0, False)))
    return float(level[n_rejected - 1]) if n_rejected else largest
