"""Where a vote most likely leads to acceptance: the value of asking, under the crowd model."""

from __future__ import annotations

import numpy as np

from credalset._typing import FloatArray, IntArray
from credalset.crowd.law import CrowdLaw
from credalset.crowd.posterior import Posterior

DEPTH = 7  # votes that are looked ahead
LARGEST_CLASSES = 4  # most probable classes that further votes may agree on


def risk_of(law: CrowdLaw, prediction: FloatArray, counts: FloatArray) -> FloatArray:
    """Return the probability that another annotator names another label than the best one, (N,)."""
    return np.asarray(1.0 - Posterior.given(law, prediction, counts).mean.max(axis=1))


def acceptance_per_vote(
    law: CrowdLaw, prediction: FloatArray, counts: FloatArray, accept: float, left: IntArray
) -> FloatArray:
    r"""Return the probability per vote that asking leads to acceptance, (N,).

    It is $\max_n \frac1n \sum_k P(\text{the next n votes are for k}) \, 1[r_{kn} \le \tau]$ for n =
    1, …, 7, as long as so many votes are left, where $r_{kn}$ is the risk after these votes: the
    probability under the crowd that the next n votes agree and the item is then accepted, divided
    by their number. One vote ahead is not enough, as an item may need two votes that agree.

    Parameters
    ----------
    law : CrowdLaw
        The fitted law.
    prediction, counts : ndarray of shape (N, K)
        Predictions and votes in hand.
    accept : float
        τ, the largest risk that is accepted.
    left : ndarray of N ints
        How many further votes each item may get.
    """
    n_items, n_classes = counts.shape
    first = Posterior.given(law, prediction, counts).mean
    likely = np.argsort(-first, axis=1, kind="stable")[:, : min(n_classes, LARGEST_CLASSES)]
    rows = np.arange(n_items)
    depth = int(np.clip(left.max(initial=1), 1, DEPTH))
    gained = np.zeros((depth, n_items))
    for column in likely.T:
        votes = counts.copy()
        path = first[rows, column]
        for step in range(depth):
            votes[rows, column] += 1
            mean = Posterior.given(law, prediction, votes).mean
            is_accepted = (1.0 - mean.max(axis=1) <= accept) & (step < left)
            gained[step] += path * is_accepted
            path = path * mean[rows, column]
    return np.asarray((gained / np.arange(1, depth + 1)[:, None]).max(axis=0))
