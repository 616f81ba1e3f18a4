r"""Certify thresholds of the risk: the mean loss among accepted items is bounded.

The loss of accepting the label y of an item is the chance that another annotator disagrees,
1 − λ_y. It is linear in the crowd's distribution λ, so that a single vote that was held back
estimates it without bias. Leave vote v of item i out, predict from the others: a label, a risk
r_iv, and the loss ℓ_iv of this label for the vote that was left out. For a threshold τ put

$$Z_i(\tau) = \frac{1}{m_i} \sum_v 1\{r_{iv} \le \tau\} (\varepsilon - \ell_{iv}), \qquad
  e(\tau) = \frac{1}{B} \sum_b \prod_i (1 + b Z_i(\tau)).$$

Thresholds are tested one after the other, upwards from a start; the last one before the first with
e(τ) < 1/δ is kept. With probability at least 1 − δ the mean loss among accepted items is at most ε:
see the page on proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from credalset._typing import BoolArray, FloatArray, IntArray
from credalset.acceptance.cases import Cases
from credalset.acceptance.losses import Loss

GRID = 200  # thresholds: quantiles of the risk on other items
BETS = 8
LARGEST_BET = 0.98  # of the bet at which one certain loss would end the game
NOTHING = -np.inf  # threshold if nothing can be accepted
DIGITS = 12  # to which Z is rounded, so that equal values are counted together


def grid_of(fitted: Cases, loss: Loss, error: float) -> FloatArray:
    r"""Return the thresholds to test, in order, from the risks of items that do not certify.

    They are quantiles of the risk. The first is where the moments that the model predicts promise
    most evidence, which is $\sum w 1\{r \le τ\} (ε − r) / \sqrt{\sum w 1\{r \le τ\} ((ε − r)^2 +
    \sigma^2)}$, without a look at losses.
    """
    order = np.argsort(fitted.risk, kind="stable")
    risk = fitted.risk[order]
    weight = fitted.weight[order]
    gain = error - fitted.expected[order]
    drift = np.cumsum(weight * gain)
    spread = np.cumsum(weight * (gain**2 + fitted.variance[order]))
    share = np.cumsum(weight) / weight.sum()
    place = np.searchsorted(share, np.linspace(0.0, 1.0, GRID + 1)[1:] - 1e-12)
    place = np.unique(np.minimum(place, len(risk) - 1))
    # A threshold takes all items with this risk.
    place = np.unique(np.searchsorted(risk, risk[place], side="right") - 1)
    place = place[risk[place] <= loss.largest_threshold(error)]
    if not len(place):
        return np.empty(0)
    evidence = drift[place] / np.sqrt(np.maximum(spread[place], 1e-300))
    return risk[place][int(evidence.argmax()) :]


def log_evidence(z: FloatArray, number: Any, worst: float) -> float:
    """Return log e for values Z that occur so often each; none is below ``worst`` < 0."""
    bets = LARGEST_BET / -worst * np.arange(1, BETS + 1) / BETS
    logs = np.log1p(bets[:, None] * z) @ number
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).mean()))


def certify(
    cases: Cases,
    fitted: Cases,
    loss: Loss,
    errors: Sequence[float],
    delta: float,
    *,
    clusters: IntArray | None = None,
    times: float = 1.0,
) -> FloatArray:
    """Return the certified threshold for each error, (R,); −inf where nothing is certified.

    Parameters
    ----------
    cases : Cases
        The certifying items, with votes held back.
    fitted : Cases
        Other items, which choose the thresholds to test.
    loss : Loss
        The loss of accepting a label.
    errors : sequence of R floats
        Bounds of the mean loss among accepted items, in ascending order. They share δ.
    delta : float
        Probability with which any of the thresholds may be wrong.
    clusters : ndarray of n ints, optional
        Number of the cluster of each item, from 0. Clusters are independent, items need not be.
    times : float
        How often each item counts: 1, unless the result is a forecast for more or fewer items.
    """
    needed = np.log(len(errors) / delta)
    found = np.full(len(errors), NOTHING)
    unit = np.arange(cases.n_items) if clusters is None else clusters
    largest = 1 if clusters is None or not len(unit) else int(np.bincount(unit).max())
    n_units = int(unit.max(initial=-1)) + 1
    order = np.argsort(cases.risk, kind="stable")
    risk = cases.risk[order]
    for number, error in enumerate(errors):
        grid = grid_of(fitted, loss, error)
        gain = cases.weight[order] * (error - cases.loss[order]) / largest
        where = unit[cases.item[order]]
        ends = np.searchsorted(risk, grid, side="right")
        z = np.zeros(n_units)
        start = 0
        for threshold, end in zip(grid, ends, strict=True):
            z += np.bincount(where[start:end], gain[start:end], n_units)
            start = end
            values, often = np.unique(np.round(z, DIGITS), return_counts=True)
            if log_evidence(values, times * often, error - loss.high) < needed:
                break
            found[number] = threshold
    # A threshold that keeps to a smaller error keeps to a larger one.
    return np.maximum.accumulate(found)


def guarded(risk: FloatArray, accepted: BoolArray, error: float) -> BoolArray:
    """Return the accepted items of least risk, as many as have a mean risk of at most the error.

    It is for decisions with more votes than a rule was certified for, which nothing certifies.
    """
    order = np.flatnonzero(accepted)[np.argsort(risk[accepted], kind="stable")]
    mean = np.cumsum(risk[order]) / np.arange(1, len(order) + 1)
    kept = np.zeros(len(risk), dtype=bool)
    kept[order[: int(np.flatnonzero(mean <= error).max(initial=-1)) + 1]] = True
    return kept
