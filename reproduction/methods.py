"""Methods that predict sets of label distributions, or of labels: ours, and those of other papers.

Each is one function of a `Split` and a level α. What it returns is measured by `compare`: credal
sets over the test items, label sets, or both. The papers' methods are written from the papers, as
short as they can be; where a paper leaves a choice, the docstring says which was made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax

import credalset as cs
from credalset._typing import FloatArray, IntArray
from credalset.labels import LabelSets, annotator_labels
from credalset.scores import IntervalPrediction, Intervals, TotalVariation
from credalset.sets.credal_set import CredalSet

NARROWEST = 1e-9  # half-width of an interval, which must be positive
DECIMALS = 3  # of probabilities in the coverage that `probly` computes
RELATIVE_LIKELIHOODS = (*np.round(np.linspace(0.95, 0.05, 19), 2), 0.02, 0.01, 1e-3, 1e-6)


@dataclass(frozen=True, eq=False)
class Split:
    """Predictions and votes of one split; a learner was fitted on the training items.

    Attributes
    ----------
    train, calibration, test : ndarray of shape (n, K)
        Predicted distributions.
    votes_train, votes_calibration : ndarray of shape (n, K)
        Counts of votes; those of the test items are kept from methods.
    members_test : ndarray of shape (M, n, K) or None
        Predictions of an ensemble: the same learner fitted on resampled training items.
    concentrations : tuple of ndarray or None
        Predicted Dirichlet concentrations of the calibration and of the test items.
    """

    train: FloatArray
    calibration: FloatArray
    test: FloatArray
    votes_train: IntArray
    votes_calibration: IntArray
    members_test: FloatArray | None = None
    concentrations: tuple[FloatArray, FloatArray] | None = None


@dataclass(frozen=True)
class Answer:
    """Credal sets, label sets, or both, of the test items."""

    sets: CredalSet | None = None
    labels: LabelSets | None = None


Method = Callable[[Split, float], Answer]


def conformal(split: Split, alpha: float, score: str) -> Answer:
    """Conformal credal sets (Javanmardi, Stutz and Hüllermeier, NeurIPS 2024), a score of ours.

    Promises: the recorded distribution of a new item is covered with probability 1 − α. Needs votes
    on calibration items.
    """
    pair = (split.calibration, split.test)
    if score in ("so", "density"):
        if split.concentrations is None:
            raise ValueError(f"{score} needs concentrations: use the learner 'network'.")
        pair = split.concentrations
    calibrated = cs.conformalize(pair[0], split.votes_calibration, score)
    return Answer(calibrated.predict_set(pair[1], alpha))


def posterior_scaled(split: Split, alpha: float) -> Answer:
    """Conformal KL balls, larger where the posterior of `DirichletCrowd` is wider; ours.

    The crowd is fitted on predictions and votes of the training items. Promises and needs what
    `conformal` does.
    """
    crowd = cs.DirichletCrowd().fit(split.train, split.votes_train)
    calibrated = crowd.conformalize(split.calibration, split.votes_calibration, "kl", in_hand=(0,))
    return Answer(calibrated.predict_set(split.test, alpha))


def credal_regions(split: Split, alpha: float, delta: float = 0.05) -> Answer:
    """Conformalized credal regions (Caprio, Stutz, Li and Doucet, 2025, arXiv 2411.04852).

    The credal region is a conformal set of distributions, here of KL, at a level β with (1 − β)(1 −
    δ) = 1 − α. The imprecise highest density set holds the fewest labels whose lower probability is
    at least 1 − δ. Promises: a label is in the set with probability 1 − α.
    """
    beta = 1.0 - (1.0 - alpha) / (1.0 - delta)
    sets = conformal(split, beta, "kl").sets
    assert sets is not None
    return Answer(sets, annotator_labels(sets, 1.0 - delta))


def monte_carlo(split: Split, alpha: float) -> Answer:
    """Monte Carlo conformal prediction (Stutz et al., TMLR 2023), with infinitely many draws.

    The score is one minus the predicted probability of the label. Promises: a label is in the set
    with probability 1 − α. Needs votes on calibration items.
    """
    calibrated = cs.labels.conformalize(split.calibration, split.votes_calibration, "inner")
    return Answer(labels=calibrated.predict_set(split.test, alpha))


def decalibration(split: Split, alpha: float) -> Answer:
    """Efficient credal prediction through decalibration (Hofman et al., ICLR 2026).

    For each class, the largest and the smallest bias of its logit at which the geometric mean of
    the likelihoods of the training labels, relative to that without bias, is at least some level;
    the set is spanned by all biased predictions. The level is no rate of errors. So that it can be
    compared, it is chosen here from a grid, as the highest one that covers 1 − α of the calibration
    items. Promises nothing. Needs one label per training item, here the majority of the votes.
    """
    logits, calibrating, tested = (
        np.log(np.maximum(part, 1e-300)) for part in (split.train, split.calibration, split.test)
    )
    labels = split.votes_train.argmax(axis=1)
    shares = split.votes_calibration / split.votes_calibration.sum(axis=1, keepdims=True)
    for level in RELATIVE_LIKELIHOODS:
        low, high = rounded_range(biased_predictions(logits, labels, calibrating, level))
        inside = ((low <= shares.round(DECIMALS)) & (shares.round(DECIMALS) <= high)).all(axis=1)
        if inside.mean() >= 1.0 - alpha:
            break
    return Answer(_box(biased_predictions(logits, labels, tested, level), split.test))


def biased_predictions(
    logits: FloatArray, labels: IntArray, tested: FloatArray, alpha: float
) -> FloatArray:
    """Return the predictions at the end of each class's range of biases, (2 K, n, K)."""
    rows = np.arange(len(labels))
    k = logits.shape[1]

    def likelihood(bias: FloatArray) -> float:
        return float(log_softmax(logits + bias, axis=1)[rows, labels].mean())

    goal = likelihood(np.zeros(k)) + np.log(alpha)
    found = []
    for unit in np.eye(k):
        excess = partial(lambda c, unit: likelihood(c * unit) - goal, unit=unit)
        best = _peak(excess)
        for far in (-1e4, 1e4):
            end = far if excess(far) >= 0 else brentq(excess, best, far, xtol=1e-6)
            found.append(softmax(tested + end * unit, axis=1))
    return np.array(found)


def _peak(curve: Callable[[float], float]) -> float:
    """Return the bias of largest likelihood, which is concave in it."""
    from scipy.optimize import minimize_scalar

    return float(minimize_scalar(lambda c: -curve(c), bounds=(-50.0, 50.0), method="bounded").x)


def ensemble(split: Split, alpha: float) -> Answer:
    """Credal wrapper of an ensemble (Wang et al., ICLR 2025): the range of its members.

    Members are the learner fitted on resampled training items. Promises nothing; α is not used.
    """
    if split.members_test is None:
        raise ValueError("ensemble needs members: set members in the experiment.")
    return Answer(_box(split.members_test, split.members_test.mean(axis=0)))


def kl_as_tv_balls(split: Split, alpha: float) -> Answer:
    """What `probly` 0.9.1 returns for KL: total-variation balls with the quantile of KL as radius.

    The quantile is capped at the largest score. Promises what the paper promises, and does not keep
    it, because score and set do not belong together.
    """
    kl = cs.get_score("kl")
    shares = split.votes_calibration / split.votes_calibration.sum(axis=1, keepdims=True)
    scores = kl(split.calibration, shares) * np.log(2.0)
    rank = min(int(np.ceil((len(scores) + 1) * (1.0 - alpha))), len(scores))
    return Answer(TotalVariation().region(split.test, float(np.sort(scores)[rank - 1])))


def rounded_range(members: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and largest probabilities of members, to three decimals.

    The authors' measure of coverage (``probly.metrics``) rounds, too; otherwise shares of zero
    would never be covered, because the softmax is always positive.
    """
    return members.min(axis=0).round(DECIMALS), members.max(axis=0).round(DECIMALS)


def _box(members: FloatArray, center: FloatArray) -> CredalSet:
    """Return all distributions between the smallest and the largest probabilities of members."""
    low, high = rounded_range(members)
    half = 0.5 * 10.0**-DECIMALS  # shares that round to the bounds are inside
    below = np.maximum(center - np.maximum(low - half, 0.0), NARROWEST)
    above = np.maximum(np.minimum(high + half, 1.0) - center, NARROWEST)
    return Intervals().region(IntervalPrediction(center, below, above), 1.0)


METHODS: dict[str, Method] = {
    **{
        score: partial(conformal, score=score)
        for score in ("tv", "ws", "kl", "inner", "hellinger", "brier", "so", "density")
    },
    "kl-posterior": posterior_scaled,
    "credal-regions": credal_regions,
    "monte-carlo": monte_carlo,
    "decalibration": decalibration,
    "ensemble": ensemble,
    "kl-as-tv-balls": kl_as_tv_balls,
}


def describe(name: str) -> str:
    """Return the first line of what a method is, without the full stop.

    Examples
    --------
    >>> describe("ensemble")
    'Credal wrapper of an ensemble (Wang et al., ICLR 2025): the range of its members'
    """
    method: Any = METHODS[name]
    function = method.func if isinstance(method, partial) else method
    return str(function.__doc__).splitlines()[0].rstrip(".")
