"""`AnnotatorSampling`: votes are independent draws.

Each item has a confidence region for its distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from scipy.special import betaincinv, gammaln, rel_entr, xlogy

from credalset._batch import Labels
from credalset._typing import BoolArray, FloatArray, Prediction
from credalset._validation import as_probability, check_choice
from credalset.calibration.levels import exact_level
from credalset.calibration.noise import PLAIN, Columns, Fit, Guarantee, Noise, Quantile, set_aside
from credalset.scores import Score
from credalset.sets.roots import bisect

REGIONS = ("exact", "anytime")
#: values of δ among which `AnnotatorSampling` chooses if none is given; the first one if no items
#: are set aside
DELTAS = (
    0.5,
    0.9,
    0.8,
    0.7,
    0.6,
    0.4,
    0.3,
    0.2,
    0.1,
    0.05,
    0.02,
    0.01,
    0.005,
    0.002,
    0.001,
    0.0005,
    0.0002,
    0.0001,
)


@dataclass(frozen=True)
class AnnotatorSampling(Noise):
    r"""Noise model that covers the true label distribution if votes are independent draws.

    The assumption is $n_i \sim \mathrm{Multinomial}(m_i, \lambda_i)$ for the counts $n_i$ of the
    $m_i$ votes of an item with true distribution $\lambda_i$, independently of the other items:
    annotators are drawn anew for each item. The number of votes must not depend on the votes,
    except with ``region="anytime"``. Under this assumption, the sets contain the true λ of a new
    item, exchangeable with the calibration items, with probability at least 1 − α.

    The score of each calibration item is replaced by the largest score over a (1 − δ) confidence
    region for its λ, and the threshold is the quantile at level α (1 − δ). If the true λ scores
    above the threshold, the largest score over the region does so with probability at least 1 − δ,
    so the true miscoverage is at most the observed one divided by 1 − δ. This holds for each item,
    and therefore within groups, with weights and with `Conditional`. Items may have different
    numbers of votes, and all scores are supported. With few votes the regions and the sets are
    wide.

    Parameters
    ----------
    delta : float, optional
        Probability δ that a region does not contain its λ; values such as 0.5 are fine. By default
        δ is chosen, for each α, among eighteen values from 0.9 to 0.0001 to minimise the threshold
        of items that are set aside. These items are not used for calibration, so the guarantee
        holds.
    region : {"exact", "anytime"}
        ``"exact"``: simultaneous exact (Clopper–Pearson) lower limits. ``"anytime"``: a region that
        is valid for any stopping rule, such as collecting votes until they agree. No other noise
        model allows such rules.
    tuning : float
        Share of the items that are set aside to choose δ; by default every fifth item. Not used if
        ``delta`` is given.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(500, n_votes=50, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts, "tv",
    ...                              noise=cs.AnnotatorSampling())
    >>> recorded = cs.conformalize(data.distributions, data.counts, "tv")
    >>> calibration.threshold(0.1) > recorded.threshold(0.1)
    True
    """

    delta: float | None = None
    region: Literal["exact", "anytime"] = "exact"
    tuning: float = 0.2
    name: ClassVar[str] = "annotator-sampling"

    def __post_init__(self) -> None:
        if self.delta is not None:
            object.__setattr__(self, "delta", as_probability(self.delta, "delta"))
        object.__setattr__(self, "tuning", as_probability(self.tuning, "tuning"))
        check_choice(self.region, "region", REGIONS)

    @property
    def guarantee(self) -> Guarantee:
        """Cover the true distribution, if votes are independent draws."""
        how = (
            "their number may depend on the votes"
            if self.region == "anytime"
            else "their number fixed in advance"
        )
        return Guarantee("true", votes=f"votes are independent draws, also between items, {how}")

    @property
    def factor(self) -> Fraction:  # type: ignore[override]
        """Return 1 − δ, with the smallest δ if none is given."""
        return 1 - exact_level(DELTAS[-1] if self.delta is None else self.delta)

    @property
    def unsupported(self) -> dict[str, str]:
        """Cross-conformal sets without δ: models of other folds saw the items set aside."""
        return (
            {"cross": "the choice of delta needs one model. Pass AnnotatorSampling(0.5)"}
            if self.delta is None
            else {}
        )

    def check_score(self, score: Score, prediction: Prediction | None = None) -> None:
        """Refuse scores whose largest value over a set of distributions is unknown."""
        if prediction is not None and len(prediction):
            score.largest_score(prediction[:1])

    def bounds(
        self, score: Score, prediction: Prediction, labels: Labels, scores: FloatArray
    ) -> FloatArray:
        """Return the largest scores over the confidence regions, (n,)."""
        assert self.delta is not None
        votes = labels.votes("votes", type(self).__name__)
        return score.largest_above(prediction, lower_limits(votes, self.delta, self.region))

    def fit(
        self,
        score: Score,
        prediction: Prediction,
        labels: Labels,
        scores: FloatArray,
        columns: Columns = PLAIN,
    ) -> Fit:
        """Fit quantiles of the bounds, for every δ if none is given."""
        if self.delta is not None:
            return super().fit(score, prediction, labels, scores, columns)
        models = [AnnotatorSampling(delta, self.region) for delta in DELTAS]
        bounds = np.stack([model.bounds(score, prediction, labels, scores) for model in models])
        aside = set_aside(len(labels), self.tuning)
        return SampledQuantile(
            self.region, bounds[:, ~aside], bounds[:, aside], *columns.take(~aside)
        )


@dataclass(frozen=True, eq=False)
class SampledQuantile(Fit):
    """Thresholds of `AnnotatorSampling` without δ, chosen for each α with the items set aside.

    Attributes
    ----------
    region : {"exact", "anytime"}
        Kind of the confidence regions.
    bounds, held_out : ndarrays of shapes (J, n) and (J, n')
        Largest scores of the items, and of those set aside, over their regions: one row per value
        of `DELTAS`.
    weights, features : ndarrays of shapes (n,) and (n, d) or None
        As in `Quantile`.
    """

    region: Literal["exact", "anytime"]
    bounds: FloatArray
    held_out: FloatArray
    weights: FloatArray | None = None
    features: FloatArray | None = None

    def __post_init__(self) -> None:
        if (
            self.bounds.ndim != 2
            or self.held_out.ndim != 2
            or {len(self.bounds), len(self.held_out)} != {len(DELTAS)}
        ):
            raise ValueError(
                f"bounds and held_out must have {len(DELTAS)} rows, one per value of delta."
            )
        check_choice(self.region, "region", REGIONS)
        self._quantile(0)  # validates weights and features

    @property
    def has_features(self) -> bool:
        """Whether thresholds depend on features of the items."""
        return self.features is not None

    def threshold(
        self, alpha: Fraction, prediction: Prediction, columns: Columns = PLAIN
    ) -> FloatArray:
        """Return quantiles for the δ with the smallest threshold of the items set aside, (N,)."""
        levels = [alpha * (1 - exact_level(delta)) for delta in DELTAS]
        n = self.bounds.shape[1]
        size = self.held_out.shape[1]
        feasible = [row for row, level in enumerate(levels) if level * (n + 1) >= 1] or [
            len(DELTAS) - 1
        ]
        places = [math.ceil(size * (1 - levels[row])) - 1 for row in feasible]
        found = [
            self._sorted[row, place] if size else 0.0
            for row, place in zip(feasible, places, strict=True)
        ]
        return self._quantile(feasible[int(np.argmin(found))]).threshold(alpha, prediction, columns)

    def _quantile(self, row: int) -> Quantile:
        if row not in self._quantiles:
            model = AnnotatorSampling(DELTAS[row], self.region)
            self._quantiles[row] = Quantile(self.bounds[row], model, self.weights, self.features)
        return self._quantiles[row]

    @cached_property
    def _quantiles(self) -> dict[int, Quantile]:
        return {}

    @cached_property
    def _sorted(self) -> FloatArray:
        return np.sort(self.held_out, axis=1)


def lower_limits(counts: FloatArray, delta: float, region: str = "exact") -> FloatArray:
    r"""Return lower confidence limits (n, K) that hold for all classes with probability ≥ 1 − δ.

    ``"exact"`` (Clopper and Pearson, 1934): $l_k$ is the δ/K-quantile of $\mathrm{Beta}(n_k, m -
    n_k + 1)$ and 0 without votes, so $P(\lambda_k < l_k) \le \delta / K$ for each class.

    ``"anytime"`` (Lindon and Malek, *Anytime-valid inference for multinomial count data*, 2022):
    the likelihood of the votes under a uniform mixture of distributions, divided by that under λ,
    is a martingale with mean one, and ever exceeds 1 / δ with probability at most δ (Ville).
    Otherwise $KL(\hat\lambda \| \lambda) \le \rho$ with $\rho = (\log \hat\lambda^n - \log \bar
    p(n) - \log \delta) / m$ for any stopping rule; the limits are the lower envelope of this set.

    Examples
    --------
    >>> lower_limits(np.array([[1.0, 0.0], [90.0, 10.0]]), 0.1).round(3)
    array([[0.05 , 0.   ],
           [0.836, 0.055]])
    >>> lower_limits(np.array([[90.0, 10.0]]), 0.1, "anytime").round(3)
    array([[0.781, 0.032]])
    """
    votes = counts.sum(axis=1, keepdims=True)
    n_classes = counts.shape[1]
    if region == "exact":
        limits = betaincinv(
            np.maximum(counts, 1.0), np.maximum(votes - counts, 0.0) + 1.0, delta / n_classes
        )
        return np.where(counts > 0, limits, 0.0)
    shares = counts / votes
    mixture = (
        gammaln(n_classes)
        - gammaln(votes + n_classes)
        + gammaln(1.0 + counts).sum(axis=1, keepdims=True)
    )
    radius = (xlogy(counts, shares).sum(axis=1, keepdims=True) - mixture - np.log(delta)) / votes

    def inside(
        p: FloatArray,
    ) -> BoolArray:  # share · log(share / p) + (1 − share) · log((1 − share) / (1 − p)) ≤ ρ
        return np.asarray(rel_entr(shares, p) + rel_entr(1.0 - shares, 1.0 - p) <= radius)

    return bisect(inside, np.zeros_like(shares), shares, steps=60)[0]
