"""Fit a crowd law by penalised maximum likelihood."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from credalset._display import progress
from credalset._typing import FloatArray
from credalset.crowd.law import CrowdLaw, Items, log_likelihood, normalised_entropy

# Mean and standard deviation of weak normal priors, for parameters that the votes do not determine.
#: log strength, slope, log power, log (K · floor)
AROUND = (
    (1.5, 1.5),
    (0.0, 1.0),
    (0.0, 1.0),
    (-1.0, 2.0),
)
#: log own, log others, log power, logit uniform
CONSENSUS = (
    (2.0, 1.5),
    (0.0, 2.0),
    (0.0, 1.0),
    (-3.0, 2.0),
)
GATE = ((0.0, 2.0), (0.0, 1.0))
UNSEEN = 0.1  # share of the confusion that is spread over all classes
LARGEST_FIT = 100_000  # items × classes
SMALL_START = 2_000  # items of a first, quick fit
REFITS, REFIT_ITERATIONS = 10, 30
FARTHEST = 6.0  # bound of parameters, in standard deviations of the prior


def initial_law(
    prediction: FloatArray, counts: FloatArray, n_around: int, n_consensus: int
) -> CrowdLaw:
    """Return the law at the means of the priors, with a confusion of classes from the votes."""
    n_classes = prediction.shape[1]
    around = np.tile([mean for mean, _ in AROUND], (n_around, 1))
    around[:, 0] = np.linspace(0.5, 3.0, n_around) if n_around > 1 else 1.5
    around[:, 3] -= np.log(n_classes)
    consensus = np.tile([mean for mean, _ in CONSENSUS], (n_consensus, 1))
    consensus[:, 0] += np.linspace(1.0, 0.0, n_consensus) if n_consensus > 1 else 0.0
    entropies = normalised_entropy(prediction)
    scale = np.array([entropies.mean(), entropies.std() if entropies.std() > 1e-6 else 1.0])
    gate = np.zeros((n_around + n_consensus, 2))
    return CrowdLaw(around, consensus, gate, confusion_of(prediction, counts), scale)


def confusion_of(prediction: FloatArray, counts: FloatArray) -> FloatArray:
    """Return how often classes meet in predictions and votes; rows sum to one, zero diagonal."""
    n_classes = prediction.shape[1]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    beside = (prediction + shares).T @ shares
    np.fill_diagonal(beside, 0.0)
    beside += UNSEEN * (beside.sum(axis=1, keepdims=True) + 1.0) / n_classes
    np.fill_diagonal(beside, 0.0)
    return np.asarray(beside / beside.sum(axis=1, keepdims=True))


def prior_of(law: CrowdLaw) -> tuple[FloatArray, FloatArray]:
    """Return the means and standard deviations of the priors, in the order of θ."""
    around = np.tile(AROUND, (len(law.around), 1, 1))
    around[:, 3, 0] -= np.log(len(law.confusion))
    consensus = np.tile(CONSENSUS, (len(law.consensus), 1, 1))
    gate = np.tile(GATE, (len(law.gate), 1, 1))
    flat = np.concatenate([part.reshape(-1, 2) for part in (around, consensus, gate)])
    return flat[:, 0], flat[:, 1]


def maximise(
    law: CrowdLaw, items: Items, max_iter: int, weights: FloatArray | float = 1.0
) -> tuple[CrowdLaw, float]:
    """Maximise the penalised likelihood with L-BFGS; return the law and the value per item.

    The parameters are scaled by the information matrix (outer products of gradients) at the start.
    """
    mean, deviation = prior_of(law)
    size = len(items.counts)
    start = law.theta
    weight = np.broadcast_to(weights, (size,))
    gradient = log_likelihood(law, items)[1]
    information = (gradient * weight[:, None]).T @ gradient + np.diag(deviation**-2.0)
    scale = np.sqrt(size) * np.linalg.inv(np.linalg.cholesky(information)).T
    lowest = mean - FARTHEST * deviation
    highest = mean + FARTHEST * deviation

    def objective(step: FloatArray) -> tuple[float, FloatArray]:
        theta = start + scale @ step
        # The likelihood overflows far outside; the prior leads back.
        within = np.clip(theta, lowest, highest)
        value, slope = log_likelihood(law.at(within), items)
        off = (theta - mean) / deviation
        total = (weight @ slope) * (theta == within) - off / deviation
        return float(0.5 * off @ off - weight @ value) / size, -scale.T @ total / size

    # Looser tolerances let the rounding of a processor decide where the search ends, and with it
    # which items are asked.
    options: Any = {"maxiter": max_iter, "ftol": 1e-10, "gtol": 1e-6}
    found = minimize(objective, np.zeros(len(start)), jac=True, method="L-BFGS-B", options=options)
    return law.at(np.clip(start + scale @ found.x, lowest, highest)), -float(found.fun)


def fit_law(
    prediction: FloatArray, counts: FloatArray, n_around: int, n_consensus: int, max_iter: int
) -> tuple[CrowdLaw, float]:
    """Fit a law from two starts; return the better one and its penalised log-likelihood."""
    start = initial_law(prediction, counts, n_around, n_consensus)
    shift = np.array([1.0, 0.0, 0.0, 0.0])
    doubtful = replace(start, around=start.around - shift, consensus=start.consensus + 1.5 * shift)
    few, items = (Items(start, prediction[:n], counts[:n]) for n in (SMALL_START, len(counts)))
    fits = []
    with progress("Fitting the crowd", 2) as advance:
        for law in (start, doubtful):
            fits.append(maximise(maximise(law, few, min(max_iter, 40))[0], items, max_iter))
            advance(1, "")
    return max(fits, key=lambda fit: fit[1])


def bootstrap_laws(
    law: CrowdLaw, prediction: FloatArray, counts: FloatArray, generator: np.random.Generator
) -> list[CrowdLaw]:
    """Refit the law to bootstrap samples of items, to show the uncertainty of its parameters."""
    size = min(len(counts), largest_fit(prediction.shape[1]) // 2)
    chosen = generator.choice(len(counts), size, replace=False)
    items = Items(law, prediction[chosen], counts[chosen])
    laws = []
    with progress("Bootstrap", REFITS) as advance:
        for _ in range(REFITS):
            weights = generator.multinomial(size, np.full(size, 1.0 / size)).astype(np.float64)
            laws.append(maximise(law, items, REFIT_ITERATIONS, weights)[0])
            advance(1, "")
    return laws


def largest_fit(n_classes: int) -> int:
    """Return the largest number of items to fit; more items hardly change a dozen parameters."""
    return max(LARGEST_FIT // n_classes, 500)
