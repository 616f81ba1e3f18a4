"""Does a calibration keep its promise on held-out items? What was promised, about what, and what chance allows.

For exchangeable items and continuous scores, the coverage that n calibration items give follows Beta(k, n + 1 − k) with
k = ⌈(n + 1)(1 − α)⌉, and the number covered among m new items a beta-binomial distribution with the same parameters.
Its central 99% is the band in which the observed coverage should lie. Ties between scores only add coverage.

Whoever judges (``evaluate``, ``compare``, the page, ``credalset check``) does so here, with one band and one set of
words. Intervals that describe are 95% in this package; a verdict is passed at several levels, run after run, and stops
pipelines: at 95% one honest calibration in forty would be called short at each level, at 99% it is one in two hundred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np

from credalset._guessing import Hinting
from credalset._typing import ArrayLike, FloatArray
from credalset._validation import as_probability
from credalset.calibration import CoverageDistribution
from credalset.metrics import Estimate, coverage_by_group, proportion
from credalset.sets.credal_set import CredalSet

__all__ = ["Promise", "Verdict", "coverage_band", "judge", "promise_of"]

Status = Literal["kept", "short", "generous", "too few", "unseen", "unchecked", "no promise"]

#: probability of the band wherever none is named
LEVEL = 0.99

#: a band or interval wider than this tells nothing about a promise that it holds
WIDEST = 0.25

#: how items must be alike, in the words of a calibration's promise, and said of new items
ALIKE = {
    "exchangeable": "exchangeable with the calibration items",
    "independent": "drawn independently, as the calibration items were",
}
ABOUT = {"recorded": "recorded label distributions", "true": "true label distributions"}
HEADLINES: dict[Status, str] = {
    "kept": "The sets keep their promise",
    "short": "The sets fall short of their promise",
    "generous": "The sets cover more than they promise",
    "too few": "There are too few items to check the promise",
    "unseen": "The promise cannot be seen in votes",
    "unchecked": "Nothing here can check the promise",
    "no promise": "There is no promise to compare with",
}


@dataclass(frozen=True)
class Promise:
    """What a calibration says about new items.

    Attributes
    ----------
    coverage : float
        Share of the items that is covered, at least, on average over calibration sets: 1 − α, or the proven bound of a
        cross-conformal calibration.
    typical : float
        What is usually seen: 1 − α.
    about : {"recorded", "true"}
        Whether the label distribution is covered as it would be recorded, by votes, or as it is behind the votes.
    assumptions : tuple of str
        What it rests on, in sentences.
    n : int
        Number of calibration items.
    """

    coverage: float
    typical: float
    about: Literal["recorded", "true"]
    assumptions: tuple[str, ...]
    n: int


@dataclass(frozen=True)
class Verdict(Hinting):
    """Whether the observed coverage agrees with the promise.

    Attributes
    ----------
    status : str
        ``"kept"``, ``"short"`` or ``"generous"`` (less or more than chance allows); ``"too few"`` where chance allows
        a quarter of all shares or more; ``"unseen"`` where the promise is about true distributions and only votes are
        known; ``"unchecked"`` without votes; ``"no promise"`` without a calibration.
    promise : Promise or None
        What was promised.
    observed : Estimate
        Share covered, with its exact binomial interval.
    band : tuple or None
        Smallest and largest share that chance allows if the promise holds, where its distribution is known.
    level : float
        Probability of the band, and confidence of the interval.
    of_truth : bool
        Whether true distributions were observed.
    """

    status: Status
    promise: Promise | None
    observed: Estimate
    band: tuple[float, float] | None
    level: float = LEVEL
    of_truth: bool = False

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        return HEADLINES[self.status]

    @property
    def detail(self) -> str:
        """What the headline rests on, in numbers, as the second half of a sentence."""
        what = ABOUT["true" if self.of_truth else "recorded"]
        seen, n = percent(float(self.observed)), f"{self.observed.n:,}"
        n_items = f"{n} item" if self.observed.n == 1 else f"{n} items"
        interval = f"{percent(self.level)} interval {percent(self.observed.low)} to {percent(self.observed.high)}"
        if self.promise is None:
            return f"{seen} of {n} {what} lie in their sets ({interval})" if self.observed.n else "there are no votes"
        promised = percent(self.promise.coverage)
        if self.status == "unchecked":
            return f"{promised} coverage, and no item has votes"
        if self.status == "unseen":
            true = f"{promised} of the {ABOUT['true']} are covered if the assumptions hold"
            return f"{true}; of {n} recorded ones, {seen} are"
        text = f"{promised} coverage of {what} was promised, and {seen} is observed on {n_items}"
        if self.band is None:
            return f"{text} ({interval})"
        where = {"short": "below", "generous": "above"}.get(self.status, "within")
        return f"{text}, {where} the {percent(self.band[0])} to {percent(self.band[1])} that chance allows"

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        return f"{self.headline}: {self.detail}."


def promise_of(calibration: Any, alpha: float) -> Promise:
    """Read what a calibration promises at a level.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(200, n_votes=20, random_state=0)
    >>> plain = cs.conformalize(data.distributions, data.counts, "tv")
    >>> fair = cs.conformalize(data.distributions, data.counts, "tv", noise=cs.UnbiasedVotes())
    >>> promise_of(plain, 0.1).about, promise_of(fair, 0.1).about, promise_of(fair, 0.1).coverage
    ('recorded', 'true', 0.9)
    """
    typical = 1.0 - as_probability(alpha, "alpha")
    known = calibration.guarantee
    alike = known.items.replace(word := known.items.split()[0], ALIKE[word])
    assumptions = [f"New items are {alike}, and the model was not trained on either."]
    if known.votes:
        assumptions.append(f"{known.votes[0].upper()}{known.votes[1:]} ({calibration.noise!r}).")
    if known.within:
        pooled = ", or each pool of groups too small to stand alone" if calibration.groups is not None else ""
        assumptions.append(f"The promise holds within {known.within}{pooled}.")
    bound = getattr(calibration, "guaranteed_coverage", None)
    if bound is not None:
        assumptions.append(f"Cross-conformal sets: proven is {percent(bound(alpha))}, usual {percent(typical)}.")
    coverage = typical if bound is None else float(bound(alpha))
    about: Literal["recorded", "true"] = "true" if known.covers == "true" else "recorded"
    return Promise(coverage, typical, about, tuple(assumptions), len(calibration))


def coverage_band(
    calibration: Any, alpha: float, n: int, *, groups: Sequence[Any] | None = None, level: float = LEVEL
) -> tuple[float, float] | None:
    """Return the smallest and largest share of n new items that chance leaves covered, if the promise holds.

    Parameters
    ----------
    calibration : Calibration
        Plain, or with groups: then the number covered is a sum over independent groups.
    alpha : float
        Miscoverage rate of the sets.
    n : int
        Number of new items.
    groups : sequence of n keys, optional
        Their groups, if the calibration has groups.
    level : float
        Probability that the share lies in the band, at least.

    Returns
    -------
    tuple or None
        None where the distribution is not known: noise models, weights, cross-conformal sets, pooled groups.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(500, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts, "tv")
    >>> coverage_band(calibration, 0.1, 500)
    (0.848, 0.944)
    """
    tail = (1.0 - as_probability(level, "level")) / 2.0
    if n == 0:
        return None
    try:
        if groups is None:
            return calibration.coverage_distribution(alpha).observed_interval(n, level)
        sizes = Counter(groups)
        parts = [_number_covered(calibration.coverage_distribution(alpha, group=key), m) for key, m in sizes.items()]
    except (ValueError, AttributeError):
        return None
    below = np.cumsum(reduce(_sum, parts))
    low, high = np.searchsorted(below, [tail, 1.0 - tail])
    return float(low) / n, min(float(high), n) / n


def _number_covered(distribution: CoverageDistribution, size: int) -> FloatArray:
    """Probabilities of 0, …, size covered items."""
    from scipy.stats import betabinom

    if distribution.is_certain:
        return np.eye(size + 1)[size]
    rank, n = distribution.rank, distribution.n
    return np.asarray(betabinom(size, rank, n + 1 - rank).pmf(np.arange(size + 1)))


def _sum(first: FloatArray, second: FloatArray) -> FloatArray:
    """Probabilities of the sum of two independent numbers."""
    from scipy.signal import convolve

    return np.maximum(convolve(first, second), 0.0)  # by Fourier transform where that is quicker, hence the rounding


def judge(
    calibration: Any,
    covered: ArrayLike,
    alpha: float | None,
    *,
    groups: Sequence[Any] | None = None,
    of_truth: bool = False,
    level: float = LEVEL,
) -> Verdict:
    """Compare the observed coverage with what was promised.

    Parameters
    ----------
    calibration : Calibration, CrossCalibration or None
        Who promised; without it there is nothing to compare with.
    covered : array of n bool
        Whether the label distribution of each held-out item is in its set: ``sets.contains(Y)``.
    alpha : float or None
        Level of the sets.
    groups : sequence of n keys, optional
        As in `coverage_band`.
    of_truth : bool
        Whether ``covered`` is about true distributions rather than votes.
    level : float
        Probability of the band, and confidence of the interval.

    Examples
    --------
    >>> import credalset as cs
    >>> data = cs.datasets.make_synthetic(1000, n_votes=50, random_state=0)
    >>> calibration = cs.conformalize(data.distributions[:500], data.counts[:500], "tv")
    >>> sets = calibration.predict_set(data.distributions[500:], alpha=0.1)
    >>> print(judge(calibration, sets.contains(data.counts[500:] / 50), 0.1).sentence)
    The sets keep their promise: 90% coverage of recorded label distributions was promised, and 91.4% is observed on 500
    items, within the 84.8% to 94.4% that chance allows.
    """
    hits = np.asarray(covered, dtype=bool)
    observed = proportion(int(hits.sum()), len(hits), level)
    if calibration is None or alpha is None:
        return Verdict("no promise", None, observed, None, level, of_truth)
    promise = promise_of(calibration, alpha)
    if len(hits) == 0:
        return Verdict("unchecked", promise, observed, None, level, of_truth)
    if promise.about == "true" and not of_truth:
        return Verdict("unseen", promise, observed, None, level, of_truth)
    if promise.about == "recorded" and of_truth:
        raise ValueError(
            "of_truth=True needs a calibration that promises something about true distributions, and this one covers "
            "recorded ones. Pass coverage of the votes, or calibrate with a noise model."
        )
    band = coverage_band(calibration, alpha, len(hits), groups=groups, level=level)
    low, high = (observed.low, observed.high) if band is None else (float(observed), float(observed))
    least, most = (promise.coverage, promise.typical) if band is None else band
    wide = (observed.high - observed.low if band is None else most - least) > WIDEST
    status: Status = "short" if high < least else "generous" if low > most else "too few" if wide else "kept"
    return Verdict(status, promise, observed, band, level, of_truth)


def percent(share: float) -> str:
    """Write a share as a percentage with one decimal, or none if it is whole.

    Examples
    --------
    >>> percent(0.9), percent(0.896), percent(0.99999)
    ('90%', '89.6%', '99.9%')
    """
    if not np.isfinite(share):
        return "unknown"
    value = round(100.0 * share, 1)
    if value >= 100.0 and share < 1.0:
        value = 99.9  # not all of them
    elif value <= 0.0 < share:
        value = 0.1
    return f"{value:.1f}".removesuffix(".0") + "%"


def on_missing_bands(rows: Sequence[dict[str, Any]], level: float = LEVEL) -> list[str]:
    """Say what verdicts in rows without a band rest on; nothing where every verdict has one.

    Examples
    --------
    >>> on_missing_bands([{"band_low": None, "verdict": "kept"}])
    ['Where no band is known, the 99% interval of the coverage is compared with the promise.']
    >>> on_missing_bands([{"band_low": 0.85, "verdict": "kept"}])
    []
    """
    if any(row["band_low"] is None and row["verdict"] in ("kept", "short", "generous") for row in rows):
        return [f"Where no band is known, the {level:.0%} interval of the coverage is compared with the promise."]
    return []


def judge_groups(
    calibration: Any, sets: CredalSet, labels: Any, alpha: float, groups: Any, *, level: float = LEVEL
) -> list[dict[str, Any]]:
    """Compare the coverage of each group with what was promised of it: nothing, unless the calibration has groups.

    Parameters
    ----------
    calibration, alpha, level
        As in `judge`.
    sets, labels, groups
        Sets, and the labels and groups of their items.

    Returns
    -------
    list of dict
        A row per group: ``group``, its ``coverage`` and number of items ``n``; ``band_low``, ``band_high`` and
        ``verdict`` as in `judge`, None where nothing is promised of single groups.

    Examples
    --------
    >>> import credalset as cs
    >>> data, groups = cs.datasets.make_synthetic(1000, random_state=0), ["a", "b"] * 500
    >>> made = cs.conformalize(data.distributions[:500], data.counts[:500], groups=groups[:500])
    >>> sets = made.predict_set(data.distributions[500:], groups=groups[500:])
    >>> [(row["group"], row["verdict"]) for row in judge_groups(made, sets, data.counts[500:], 0.1, groups[500:])]
    [('a', 'kept'), ('b', 'kept')]
    """
    rows = []
    for group, observed in coverage_by_group(sets, labels, groups).items():
        row = {"group": group, "coverage": observed, "band_low": None, "band_high": None, "verdict": None}
        if calibration.groups is not None:
            covered = np.arange(observed.n) < round(float(observed) * observed.n)
            found = judge(calibration, covered, alpha, groups=[group] * observed.n, level=level)
            low, high = found.band or (None, None)
            row |= {"band_low": low, "band_high": high, "verdict": found.status}
        rows.append(row | {"n": observed.n})
    return rows
