"""Columns of predictions that have no names, and probably stand in another order than the classes of the votes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from credalset._typing import FloatArray
from credalset.annotations.labels import shown
from credalset.exceptions import warn

#: classes and items beyond which nothing more is to be learned
MOST_CLASSES, MOST_ITEMS = 50, 1000
FEWEST_ITEMS = 50  # below which chance alone may put columns into another order
#: share of the best order's covariance that the order at hand must miss, and by how many standard errors, for a word
POORER, SURE = 0.5, 6.0


def warn_of_order(prediction: FloatArray, shares: FloatArray, classes: Sequence[Any]) -> None:
    """Warn if columns without names would follow the votes much better in another order.

    Orders are compared by the covariance of columns and shares over items, summed over classes, and the best one is
    found as an assignment. What a model says of all items alike, its bias, does not count.

    Parameters
    ----------
    prediction : array of shape (n, K)
        Predicted distributions.
    shares : array of shape (n, K)
        Shares of votes.
    classes : sequence of K names
        Names of the columns of ``shares``.
    """
    k, step = len(classes), -(-len(prediction) // MOST_ITEMS)
    if k > MOST_CLASSES or len(prediction) < FEWEST_ITEMS:
        return
    p, y = (values[::step] - values[::step].mean(axis=0) for values in (prediction, shares))
    order = linear_sum_assignment(p.T @ y, maximize=True)[1]  # the class that each column follows
    own, best = (p * y).sum(axis=1), (p * y[:, order]).sum(axis=1)
    gain = best - own
    if own.mean() < POORER * best.mean() and gain.mean() > SURE * gain.std(ddof=1) / np.sqrt(len(gain)):
        better = [classes[int(j)] for j in order]
        warn(
            f"the columns of prediction have no names and are taken for {shown(classes, 8)}, but follow the votes far "
            f"better as {shown(better, 8)}. Say whose they are: classes=model.classes_, or a frame with their names."
        )
