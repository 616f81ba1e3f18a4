"""Items whose votes test the sets of a calibration: read once, compared once at each level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np

from credalset._batch import Labels
from credalset._display import Estimate, proportion
from credalset._typing import AnyArray, ArrayLike, BoolArray, FloatArray, Prediction
from credalset._validation import as_probability
from credalset.calibration.base import Calibration, Inputs, Predictor, as_level, warn_of_empty
from credalset.calibration.levels import CoverageDistribution
from credalset.evaluation.verdict import LEVEL, WIDEST_BAND, ConstantPrediction, Verdict
from credalset.scores import Score
from credalset.sets.credal_set import CredalSet
from credalset.simplex import entropy_of_valid
from credalset.votes import refuse_shared

ROUNDING = 1e-12  # of entropies that are equal


@dataclass(frozen=True, eq=False)
class AtLevel:
    """Sets of N items at one level, and whether those of the M items with votes cover them."""

    alpha: float | None
    sets: CredalSet
    covered: BoolArray


@dataclass(frozen=True, eq=False)
class TestedItems:
    """N items, of which M have votes that test sets.

    Attributes
    ----------
    score : Score
        The score of the sets.
    prediction : ndarray of shape (N, K) or PredictionBatch
        Valid predictions, around which the score forms the sets.
    distributions : ndarray of shape (M, K)
        What the sets of the items with votes must cover.
    rows : ndarray of shape (M,)
        Positions of these items.
    calibration : Calibration or None
        The calibration that gives the guarantee; None for sets without one.
    inputs : Inputs or None
        Valid inputs of the calibration for all N items.
    groups : sequence of N keys or None
        Group of each item, by which coverage is shown.
    used : str
        What the items were used for before; empty if they were not used.
    left_out : str
        A sentence about items that cannot test the guarantee; empty if there are none.
    assumption : object or None
        Test of the assumption about votes, where votes cannot test the guarantee itself.
    """

    score: Score
    prediction: Prediction
    distributions: FloatArray
    rows: AnyArray
    calibration: Calibration | None = None
    inputs: Inputs | None = None
    groups: Sequence[Any] | None = None
    used: str = ""
    left_out: str = ""
    assumption: Any = None

    # Test runners collect classes with this prefix.
    __test__ = False

    @classmethod
    def of(
        cls, source: Any, inputs: Inputs, labels: Labels, groups: Sequence[Any] | None = None
    ) -> TestedItems:
        """Return the items that test a calibration, or a classifier that has one."""
        calibration = source.calibration
        shares, left_out = calibration._tested(inputs, labels)
        assumption = None
        if calibration.guarantee.covers == "true" and labels.counts is not None:
            # Shares of votes are not the true distributions: whether sets cover them says nothing.
            shares = np.full_like(shares, np.nan)
            assumption = calibration._check_assumption(inputs, labels)
        rows = _with_votes(shares)
        used = items_used(source, inputs.batch.items)
        about = (calibration, inputs, groups, used, left_out, assumption)
        return cls(calibration.score, inputs.prediction, shares[rows], rows, *about)

    @classmethod
    def of_sets(cls, sets: CredalSet, labels: Labels) -> TestedItems:
        """Return the items of sets without a calibration."""
        rows = _with_votes(labels.distributions)
        return cls(sets.score, sets.prediction, labels.distributions[rows], rows)

    @cached_property
    def scores(self) -> FloatArray:
        """Scores of what must be covered, (M,), which serve all levels."""
        return self.score.evaluate_rows(self.prediction[self.rows], self.distributions)

    @cached_property
    def constant(self) -> ConstantPrediction | None:
        """A constant prediction for the same labels; None where it says nothing.

        A constant prediction of a crowd would have to use the votes in hand too.
        """
        if self.calibration is not None and "constant" not in self.calibration.supports:
            return None
        return ConstantPrediction.of(self.score, self.distributions)

    def predict(self, alpha: float) -> AtLevel:
        """Predict the sets of all items at a level, and compare them with the votes."""
        assert self.calibration is not None
        assert self.inputs is not None
        sets = self.calibration._predict(self.inputs, as_level(alpha))
        warn_of_empty(sets)
        return self.compare(sets, float(alpha))

    def compare(self, sets: CredalSet, alpha: float | None) -> AtLevel:
        """Compare sets of all items with the votes.

        A set holds what scores at most its threshold.
        """
        return AtLevel(alpha, sets, self.scores <= sets.threshold[self.rows])

    def by_difficulty(
        self, covered: BoolArray, names: Sequence[str], fewest: int
    ) -> dict[str, Estimate | None]:
        """Return the coverage of the items with votes by quantile of their predicted entropy.

        Parameters
        ----------
        covered : ndarray of M bool
            Whether each item is covered.
        names : sequence of str
            Names of the quantiles, which are equally large up to ties, from the smallest entropy.
        fewest : int
            Number of items below which nothing is returned.
        """
        if len(covered) < fewest:
            return dict.fromkeys(names)
        entropy = entropy_of_valid(self.score.mean(self.prediction[self.rows]))
        part = quantile_of(entropy, entropy, len(names))
        found: dict[str, Estimate | None] = {}
        for number, name in enumerate(names):
            hits = covered[part == number]
            found[name] = proportion(int(hits.sum()), len(hits)) if len(hits) else None
        return found

    def judge(
        self,
        covered: ArrayLike,
        alpha: float | None,
        rows: AnyArray,
        *,
        level: float = LEVEL,
        **sizes: Any,
    ) -> Verdict:
        """Compare the observed coverage of some items with the guarantee.

        Parameters
        ----------
        covered : array of n bool
            Whether each of the items is covered.
        alpha : float or None
            Level of the sets; None if it is not known, then nothing is tested.
        rows : array of n whole numbers
            Positions of the items.
        level : float
            Probability of the band.
        **sizes
            ``width``, ``constant_width``, ``labels``, ``n_classes`` and ``left_out`` of the
            `Verdict`.
        """
        hits = np.asarray(covered, dtype=bool)
        observed = proportion(int(hits.sum()), len(hits), level)
        if self.calibration is None or alpha is None:
            return Verdict(observed, alpha, used=self.used, level=level, **sizes)
        guaranteed = self.calibration._guaranteed(alpha)
        band = self.band(alpha, rows, level=level)
        untested = ""
        low, high = band or (observed.low, observed.high)
        if self.calibration.guarantee.covers == "true":
            untested = "the sets are about true label distributions, which votes do not show"
        elif not observed.n:
            untested = sizes.pop("left_out", "").removesuffix(".") or "no item has votes"
        elif high - low > WIDEST_BAND and low <= observed <= high:
            untested = f"there are too few test or calibration items for alpha = {alpha:g}"
        about = (alpha, guaranteed, band, self.used, untested)
        tested = "" if self.assumption is None else self.assumption.sentence
        return Verdict(observed, *about, level=level, assumption=tested, **sizes)

    def band(
        self, alpha: float, rows: AnyArray, *, level: float = LEVEL
    ) -> tuple[float, float] | None:
        """Return the band of the share of covered items, which has probability ``level`` or more.

        With groups, the number of covered items is a sum over independent groups. The band is None
        if the distribution of the coverage is not known: noise models, weights, cross-conformal
        sets.
        """
        n = len(rows)
        if n == 0 or self.calibration is None or self.inputs is None:
            return None
        parts = self.calibration._coverage_of(self.inputs, alpha, rows)
        if parts is None:
            return None
        if len(parts) == 1:
            return parts[0][0].observed_interval(n, level)
        tail = (1.0 - as_probability(level, "level")) / 2.0
        below = np.cumsum(reduce(_sum, [_number_covered(each, size) for each, size in parts]))
        low, high = np.searchsorted(below, [tail, 1.0 - tail])
        return float(low) / n, min(float(high), n) / n


def quantile_of(values: FloatArray, reference: FloatArray, number: int) -> AnyArray:
    """Return in which quantile of reference values each value is, from 0.

    Equal values, up to rounding, belong together.
    """
    ends = np.quantile(reference, np.arange(1, number) / number)
    return np.searchsorted(ends, values - ROUNDING, side="left")


def read_tested(
    source: Any,
    predictions: Any,
    votes: Any,
    groups: Any = None,
    weights: Any = None,
    votes_in_hand: Any = None,
) -> TestedItems:
    """Read what is evaluated: predictions, their votes, and what belongs to the items."""
    inputs = read_inputs(source, predictions, groups, weights, votes_in_hand)
    refuse_shared(votes, votes_in_hand, "votes")
    labels = inputs.batch.votes(votes, empty=True)
    shown = inputs.keys
    if shown is None and groups is not None and np.ndim(groups) == 1:
        shown = tuple(inputs.batch.column(groups, "groups"))
    return TestedItems.of(source, inputs, labels, shown)


def read_inputs(
    source: Any, predictions: Any, groups: Any, weights: Any, votes_in_hand: Any
) -> Inputs:
    """Read the inputs of a calibration or classifier; groups may be there only to be shown."""
    if not isinstance(source, Predictor) or source.calibration.predicts == "labels":
        raise TypeError(
            "calibration must be a calibration of credal sets or a calibrated classifier, but is a "
            f"{type(source).__name__}. Start with cs.conformalize(predictions, votes); label sets "
            "have sets.share."
        )
    calibration = source.calibration
    own = groups if calibration._needs_groups else None
    inputs: Inputs = source._read(predictions, votes=votes_in_hand, groups=own, weights=weights)
    return inputs


def items_used(source: Any, items: Any) -> str:
    """Return what items of these names were used for: training or calibration; else nothing.

    Parameters
    ----------
    source : Calibration or ConformalCredalClassifier
        A calibration that knows the names of its items.
    items : sequence or None
        Names of the test items.

    Examples
    --------
    >>> import pandas as pd, credalset as cs
    >>> votes = pd.DataFrame([[3, 1], [0, 4]], index=["m1", "m2"])
    >>> items_used(cs.conformalize(votes / 4, votes), ["m2", "m3"])
    'these items were used for calibration (1 of 2)'
    """
    new = set(map(str, () if items is None else items))
    found = {use: new & names for use, names in source._used().items()}
    uses = [use for use, names in found.items() if names]
    if not uses:
        return ""
    used = set().union(*found.values())
    return f"these items were used for {' and '.join(uses)} ({len(used)} of {len(items)})"


def _with_votes(shares: FloatArray) -> AnyArray:
    return np.flatnonzero(~np.isnan(shares).any(axis=1))


def _number_covered(distribution: CoverageDistribution, size: int) -> FloatArray:
    """Probabilities of 0, …, size covered items."""
    from scipy.stats import betabinom

    if distribution.is_certain:
        return np.eye(size + 1)[size]
    rank = distribution.rank
    n = distribution.n
    return np.asarray(betabinom(size, rank, n + 1 - rank).pmf(np.arange(size + 1)))


def _sum(first: FloatArray, second: FloatArray) -> FloatArray:
    """Probabilities of the sum of two independent numbers."""
    from scipy.signal import convolve

    return np.maximum(convolve(first, second), 0.0)  # a Fourier transform may round below zero
