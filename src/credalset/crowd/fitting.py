"""Fit a crowd law by penalised maximum likelihood."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from credalset._progress import progress
from credalset._typing import FloatArray
from credalset.crowd.law import CrowdLaw, Items, log_likelihood, normalised_entropy

# Normal priors, mean and standard deviation: weak, they matter where votes say nothing about a parameter.
AROUND = ((1.5, 1.5), (0.0, 1.0), (0.0, 1.0), (-1.0, 2.0))  # log strength, slope, log power, log (K · floor)
CONSENSUS = ((2.0, 1.5), (0.0, 2.0), (0.0, 1.0), (-3.0, 2.0))  # log own, log others, log power, logit uniform
GATE = ((0.0, 2.0), (0.0, 1.0))
UNSEEN = 0.1  # share of the confusion that is spread evenly, and in votes for a class that nobody was seen to confuse
LARGEST_FIT = 200_000  # items × classes that are fitted; further items do not change a dozen numbers
LARGEST_START = 2_000  # items that the better of two starts is chosen with
REFITS, REFIT_ITERATIONS, LARGEST_REFIT = 10, 40, 5_000  # bootstrap: how many, how long, of how many items


def initial_law(prediction: FloatArray, counts: FloatArray, n_around: int, n_consensus: int) -> CrowdLaw:
    """Return the law at the means of the priors, with the confusion of classes that the votes show."""
    n_classes = prediction.shape[1]
    around = np.tile([mean for mean, _ in AROUND], (n_around, 1))
    around[:, 0] = np.linspace(0.5, 3.0, n_around) if n_around > 1 else 1.5
    around[:, 3] -= np.log(n_classes)
    consensus = np.tile([mean for mean, _ in CONSENSUS], (n_consensus, 1))
    consensus[:, 0] += np.linspace(1.0, 0.0, n_consensus) if n_consensus > 1 else 0.0
    entropies = normalised_entropy(prediction)
    scale = np.array([entropies.mean(), max(entropies.std(), 1e-6)])
    gate = np.zeros((n_around + n_consensus, 2))
    return CrowdLaw(around, consensus, gate, confusion_of(prediction, counts), scale)


def confusion_of(prediction: FloatArray, counts: FloatArray) -> FloatArray:
    """Return which classes stand beside each other in predictions and votes: rows sum to one, zero diagonal."""
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
    consensus, gate = np.tile(CONSENSUS, (len(law.consensus), 1, 1)), np.tile(GATE, (len(law.gate), 1, 1))
    flat = np.concatenate([part.reshape(-1, 2) for part in (around, consensus, gate)])
    return flat[:, 0], flat[:, 1]


def maximise(law: CrowdLaw, items: Items, max_iter: int, weights: FloatArray | float = 1.0) -> CrowdLaw:
    """Return the law with the largest penalised likelihood that L-BFGS finds from here."""
    mean, deviation = prior_of(law)
    size = len(items.counts)

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = log_likelihood(law.at(theta), items)
        off = (theta - mean) / deviation
        total = float(np.sum(weights * value) - 0.5 * off @ off)
        slope = (np.broadcast_to(weights, (size,)) @ gradient) - off / deviation
        return -total / size, -slope / size

    found = minimize(objective, law.theta, jac=True, method="L-BFGS-B", options={"maxiter": max_iter})
    return law.at(found.x)


def fit_law(
    prediction: FloatArray, counts: FloatArray, n_around: int, n_consensus: int, max_iter: int
) -> tuple[CrowdLaw, float]:
    """Fit a law from two starts, and return the better one with its mean log-likelihood per item."""
    start = initial_law(prediction, counts, n_around, n_consensus)
    few = Items(start, prediction[:LARGEST_START], counts[:LARGEST_START])
    shift = np.array([1.0, 0.0, 0.0, 0.0])
    doubtful = replace(start, around=start.around - shift, consensus=start.consensus + 1.5 * shift)
    tried = [maximise(law, few, min(max_iter, 40)) for law in (start, doubtful)]
    best = max(tried, key=lambda law: float(log_likelihood(law, few)[0].sum()))
    items = Items(start, prediction, counts)
    law = maximise(best, items, max_iter)
    return law, float(log_likelihood(law, items)[0].mean())


def bootstrap_laws(
    law: CrowdLaw, prediction: FloatArray, counts: FloatArray, generator: np.random.Generator
) -> list[CrowdLaw]:
    """Refit the law to bootstrap samples of items: how well the votes determine it."""
    size = min(len(counts), LARGEST_REFIT)
    chosen = generator.choice(len(counts), size, replace=False) if size < len(counts) else slice(None)
    items = Items(law, prediction[chosen], counts[chosen])
    laws = []
    with progress("Bootstrap", REFITS) as advance:
        for _ in range(REFITS):
            weights = generator.multinomial(size, np.full(size, 1.0 / size)).astype(np.float64)
            laws.append(maximise(law, items, REFIT_ITERATIONS, weights))
            advance(1, "")
    return laws
