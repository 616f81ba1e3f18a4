"""Numbers behind the pictures of many items, computed once for plots and for the report.

Each function takes what was read before and returns a small record of arrays; `credalset.plotting`
draws them with matplotlib, and the report as SVG.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2_contingency, ks_2samp, norm

from credalset._batch import Labels
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.sets import CredalSet
from credalset.simplex import entropy_of_valid

BINS = 10  # of predicted shares, of equal width
NUMBERS = (0, 1, 2, 3, 5, 10)  # of votes at which sets are compared as votes come in


@dataclass(frozen=True, eq=False)
class RangeStrip:
    """The range of the label that each item would get, sorted by its lower bound.

    Attributes
    ----------
    order : ndarray of shape (N,)
        Rows of the items, by increasing lower bound to three decimals, then by the prediction;
        empty sets come first.
    label : ndarray of shape (N,)
        Column of the label of each item, in the order of the items, as all that follows.
    lower, upper : ndarray of shape (N,)
        Smallest and largest share of the label in the set; NaN for an empty set.
    predicted : ndarray of shape (N,)
        Share that the prediction gives to the label.
    share : ndarray of shape (N,)
        Share of the votes for the label; NaN without votes.
    covered : ndarray of shape (N,)
        Whether the set contains the shares of the votes; True without votes.
    """

    order: IntArray
    label: IntArray
    lower: FloatArray
    upper: FloatArray
    predicted: FloatArray
    share: FloatArray
    covered: BoolArray

    @classmethod
    def of(
        cls,
        sets: CredalSet,
        labels: Labels | None = None,
        label: IntArray | None = None,
        predicted: FloatArray | None = None,
        covered: BoolArray | None = None,
    ) -> RangeStrip:
        """Collect the ranges of N sets.

        A label is by default the likeliest of the prediction, and predictions (N, K) are by default
        what the sets are centred at. Whether votes are covered is found out unless it is known.
        """
        center = sets.center if predicted is None else predicted
        rows = np.arange(len(sets))
        chosen = center.argmax(axis=1) if label is None else label
        lower, upper = (end[rows, chosen] for end in sets.envelope())
        share = np.full(len(sets), np.nan)
        if labels is not None:
            voted = labels.has_votes
            share[voted] = labels.distributions[voted, chosen[voted]]
        if covered is None:
            covered = np.ones(len(sets), dtype=bool)
            if labels is not None:
                covered[voted] = sets[voted].contains(labels.distributions[voted])
        # Lower bounds that nobody could tell apart are ties, which predictions break.
        bound = np.round(np.nan_to_num(lower, nan=-1.0), 3)
        order = np.lexsort((center[rows, chosen], bound))
        return cls(order, chosen, lower, upper, center[rows, chosen], share, covered)


@dataclass(frozen=True, eq=False)
class ShareCalibration:
    """Predicted shares in bins, and the shares of votes that were observed.

    Attributes
    ----------
    predicted, observed : ndarray of shape (B,)
        Means of a bin.
    low, high : ndarray of shape (B,)
        Interval of the observed mean. Items are taken to be independent, the classes of one item
        are not.
    n : ndarray of shape (B,)
        Number of shares in a bin.
    """

    predicted: FloatArray
    observed: FloatArray
    low: FloatArray
    high: FloatArray
    n: IntArray

    @classmethod
    def of(
        cls, predicted: FloatArray, observed: FloatArray, bins: int = BINS, level: float = 0.95
    ) -> ShareCalibration:
        """Compare predicted shares (N, K) with observed ones, in bins of equal width."""
        number = np.minimum((predicted * bins).astype(np.int64), bins - 1)
        wide = float(norm.ppf(0.5 + level / 2.0))
        columns = []
        for each in np.unique(number):
            inside = number == each
            size = inside.sum()
            mean = observed[inside].mean()
            # Residuals are summed within items first, since the shares of an item depend on
            # each other.
            residual = np.where(inside, observed - mean, 0.0).sum(axis=1)
            error = wide * float(np.sqrt((residual**2).sum())) / size
            columns.append(
                (predicted[inside].mean(), mean, max(mean - error, 0.0), min(mean + error, 1.0))
            )
        means, shares, low, high = np.array(columns).T
        sizes = np.bincount(number.ravel())
        return cls(means, shares, low, high, sizes[sizes > 0])


@dataclass(frozen=True, eq=False)
class VotesComingIn:
    """The bounds of all classes for N items, as their votes come in one by one.

    Attributes
    ----------
    numbers : ndarray of shape (H,)
        Numbers of votes in hand.
    order : list of N arrays
        The classes of the votes of each item, in the order in which they come.
    lower, upper, center : ndarray of shape (N, H, K)
        Bounds of the sets, and what they are centred at; NaN where an item has fewer votes.
    """

    numbers: IntArray
    order: list[IntArray]
    lower: FloatArray
    upper: FloatArray
    center: FloatArray

    @classmethod
    def of(
        cls,
        predict: Callable[[IntArray, FloatArray], CredalSet],
        order: Sequence[IntArray],
        n_classes: int,
        numbers: Sequence[int] = NUMBERS,
    ) -> VotesComingIn:
        """Predict sets for items 0, …, N − 1; ``predict`` takes items and their votes (n, K)."""
        totals = np.array([len(votes) for votes in order], dtype=np.int64)
        often = np.array(sorted(set(numbers)), dtype=np.int64)
        item, place = np.nonzero(often[None, :] <= totals[:, None])
        hand = np.stack(
            [
                np.bincount(order[i][: often[h]], minlength=n_classes)
                for i, h in zip(item.tolist(), place.tolist(), strict=True)
            ]
        )
        sets = predict(item, hand.astype(np.float64))
        lower, upper = sets.envelope()
        found = np.full((3, len(order), len(often), n_classes), np.nan)
        for number, values in enumerate((lower, upper, sets.center)):
            found[number, item, place] = values
        return cls(often, list(order), *found)


@dataclass(frozen=True, eq=False)
class Drift:
    """Predictions for new items beside those for earlier ones.

    Attributes
    ----------
    earlier, new : ndarray of shape (K,)
        Shares of the predicted classes.
    entropy : tuple of two floats
        Mean entropy of the predictions in units of log K, of the earlier items and of the new ones.
    class_p_value : float
        Of a chi-squared test that the classes are predicted equally often.
    entropy_p_value : float
        Of a Kolmogorov–Smirnov test that the entropies have one distribution.
    n : tuple of two ints
        Numbers of items.
    """

    earlier: FloatArray
    new: FloatArray
    entropy: tuple[float, float]
    class_p_value: float
    entropy_p_value: float
    n: tuple[int, int]

    @classmethod
    def of(cls, earlier: FloatArray, new: FloatArray) -> Drift:
        """Compare predictions (n, K) with predictions (N, K), both of at least one item."""
        n_classes = earlier.shape[1]
        often = np.stack(
            [np.bincount(each.argmax(axis=1), minlength=n_classes) for each in (earlier, new)]
        )
        seen = often[:, often.any(axis=0)]
        entropies = [entropy_of_valid(each) / np.log(n_classes) for each in (earlier, new)]
        p_value = float(chi2_contingency(seen).pvalue) if seen.shape[1] > 1 else 1.0
        shares = often / often.sum(axis=1, keepdims=True)
        return cls(
            shares[0],
            shares[1],
            (float(entropies[0].mean()), float(entropies[1].mean())),
            p_value,
            float(ks_2samp(*entropies).pvalue),
            (len(earlier), len(new)),
        )

    @property
    def is_seen(self) -> bool:
        """Whether one of the two tests finds a difference, at a level of 1 % together."""
        return min(self.class_p_value, self.entropy_p_value) < 0.005


@dataclass(frozen=True, eq=False)
class Rejection:
    """Mean loss among the items that are kept, when the most uncertain ones are left out.

    Attributes
    ----------
    kept : ndarray of shape (N,)
        Share of the items that are kept, 1 / N to 1.
    loss : ndarray of shape (N,)
        Their mean loss.
    """

    kept: FloatArray
    loss: FloatArray

    @classmethod
    def of(cls, uncertainty: FloatArray, loss: FloatArray) -> Rejection:
        """Keep items by increasing uncertainty; ties are kept together, by their mean loss."""
        values, inverse, often = np.unique(uncertainty, return_inverse=True, return_counts=True)
        mean = np.bincount(inverse, loss, len(values)) / often
        number = np.arange(1, len(loss) + 1)
        return cls(number / len(loss), np.cumsum(np.repeat(mean, often)) / number)

    @property
    def area(self) -> float:
        """Mean of the losses over all shares kept; smaller is better."""
        return float(self.loss.mean())
