"""Audits: prove accepted labels by a random sample of them, however their votes came about.

When votes were bought where an earlier review asked for them, their numbers depend on how they came
out, and votes left out in turn prove nothing. An audit does: a random sample of the items that
would now be accepted gets one more vote each. With n sampled items at a threshold τ of the risk, of
which k get a vote against their label, the mean error L(τ) is at most ε unless an event of
probability P(Bin(n, ε) ≤ k) has occurred. Thresholds are tested one after the other, upwards from a
start that only the model chooses; the last one before the first failure is kept.

The sample is drawn without replacement and the items have different errors, so that k is a sum of
independent draws from unequal probabilities. Its lower tail is at most the binomial one
(Hoeffding 1956; for sampling without replacement, Hoeffding 1963, theorem 4).
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from credalset._typing import FloatArray, IntArray
from credalset.crowd.drawing import draw_one

STEPS = 20  # thresholds that are tested
ANSWERED = 0.9  # share of the sample that must have a vote; the others count as errors


def draw_sample(accepted: IntArray, size: int, generator: np.random.Generator) -> IntArray:
    """Draw rows to audit from those that would be accepted, without replacement."""
    return np.sort(generator.choice(accepted, min(size, len(accepted)), replace=False))


def sequence(risk: FloatArray, sampled: FloatArray, error: float) -> FloatArray:
    """Return the thresholds to test, upwards, from the risks of all accepted items.

    They are quantiles of the risk. The first is where the model expects most evidence from the
    sample, by its own moments.
    """
    grid = np.unique(np.quantile(risk, np.linspace(0.0, 1.0, STEPS + 1)[1:], method="higher"))
    order = np.sort(sampled)
    evidence = []
    for threshold in grid:
        inside = order[order <= threshold]
        gain = error - inside
        spread = np.sqrt((gain**2 + inside * (1.0 - inside)).sum()) if len(inside) else np.inf
        evidence.append(gain.sum() / max(spread, 1e-12) if len(inside) else -np.inf)
    return grid[int(np.argmax(evidence)) :]


def audit_threshold(
    thresholds: FloatArray, risk: FloatArray, wrong: FloatArray, error: float, delta: float
) -> float:
    """Return the largest threshold that the audit proves; −inf if it proves none.

    Parameters
    ----------
    thresholds : ndarray
        To test, in this order.
    risk, wrong : ndarray of shape (n,)
        Risk of the sampled items, and whether the further vote is against the label.
    error, delta : float
        Largest mean error, and probability of claiming wrongly that it holds.

    Examples
    --------
    >>> risk = np.linspace(0.0, 0.2, 100)
    >>> audit_threshold(np.array([0.1, 0.2]), risk, np.zeros(100), error=0.1, delta=0.1)
    0.2
    >>> audit_threshold(np.array([0.1, 0.2]), risk, risk > 0.1, error=0.1, delta=0.1)
    0.1
    """
    found = -np.inf
    for threshold in thresholds:
        inside = risk <= threshold
        n_items = int(inside.sum())
        if binom.cdf(wrong[inside].sum(), n_items, error) > delta:
            break
        found = float(threshold)
    return found


def next_votes(
    before: FloatArray, now: FloatArray, generator: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Draw one of the further votes on each item: its class, −1 if there is none; and all votes."""
    further = np.maximum(now - before, 0.0)
    uniform = generator.random(len(further))
    answered = np.flatnonzero(further.any(axis=1))
    found = np.full(len(further), -1)
    found[answered] = draw_one(further[answered], uniform[answered])
    return found, further
