"""Numbers behind the pictures of many items, computed once for plots and for the report.

Each function takes what was read before and returns a small record of arrays; `credalset.plotting`
draws them with matplotlib, and the report as SVG.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from credalset._batch import Labels
from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.sets import CredalSet

BINS = 10  # of predicted shares, of equal width


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
        cls, sets: CredalSet, labels: Labels | None = None, label: IntArray | None = None
    ) -> RangeStrip:
        """Collect the ranges of N sets; a label is by default the likeliest of the prediction."""
        center = sets.center
        rows = np.arange(len(sets))
        chosen = center.argmax(axis=1) if label is None else label
        lower, upper = (end[rows, chosen] for end in sets.envelope())
        share = np.full(len(sets), np.nan)
        covered = np.ones(len(sets), dtype=bool)
        if labels is not None:
            voted = labels.has_votes
            share[voted] = labels.distributions[voted, chosen[voted]]
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
