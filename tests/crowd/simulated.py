"""Crowds made to fit the model, and to break it, and honest bands for their coverage."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import betabinom
from sklearn.linear_model import LogisticRegression

DATA = Path(os.environ.get("CREDALSET_DATA", Path(__file__).parents[3] / "shared" / "data"))
needs_data = pytest.mark.skipif(
    not (DATA / "cifar10h_model_a.npz").is_file(),
    reason="the third-party data are not here (CREDALSET_DATA)",
)


def make_crowd(n, n_classes, n_votes, rng, *, strength=4.0, wrong=0.2, sharp=1.0):
    """Crowds around predictions; a share of them agrees on a class that the model does not see."""
    p = rng.dirichlet(np.full(n_classes, 0.7), n)
    center = p**sharp / (p**sharp).sum(axis=1, keepdims=True)
    truth = np.stack([rng.dirichlet(strength * row + 0.05) for row in center])
    odd = rng.random(n) < wrong
    truth[odd] = rng.dirichlet(np.full(n_classes, 0.1), odd.sum())
    numbers = np.broadcast_to(n_votes, (n,))
    counts = np.stack([rng.multinomial(m, row) for m, row in zip(numbers, truth, strict=True)])
    return p, counts, truth


def on_faces(n, n_classes, n_votes, rng):
    """Crowds that are unanimous or split evenly between two classes,
    whatever the prediction says of it.
    """
    p = rng.dirichlet(np.ones(n_classes), n)
    first = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    second = rng.integers(n_classes, size=n)
    truth = 0.5 * (
        np.eye(n_classes)[first] + np.eye(n_classes)[np.where(rng.random(n) < 0.4, second, first)]
    )
    return p, np.stack([rng.multinomial(n_votes, row) for row in truth]), truth


def nearly_exact(n, n_classes, n_votes, rng):
    """A model that knows the crowd almost exactly: few votes cannot tell how exactly."""
    p = rng.dirichlet(np.ones(n_classes), n)
    truth = np.stack([rng.dirichlet(300.0 * row + 0.01) for row in p])
    return p, np.stack([rng.multinomial(n_votes, row) for row in truth]), truth


def hold_back(counts, h, rng):
    """Draw h votes of each item without replacement; return them and the others."""
    hand = np.stack([rng.multivariate_hypergeometric(row, min(h, row.sum())) for row in counts])
    return hand, counts - hand


def shares(counts):
    return counts / counts.sum(axis=1, keepdims=True)


def assert_in_bands(hits, n_calibration, n_test, alpha=0.1, *, ties=False):
    """Check numbers of covered items, one per resplit,
    against the law that exchangeability gives them.
    """
    rank = int(np.ceil((1 - alpha) * (n_calibration + 1) - 1e-9))
    law = betabinom(n_test, rank, n_calibration + 1 - rank)
    low, high = law.ppf(0.025), law.ppf(0.975)
    hits = np.asarray(hits)
    error = 4.5 * law.std() / np.sqrt(len(hits))
    assert hits.mean() >= law.mean() - error
    assert (hits < low).mean() <= 0.025 + 4 * np.sqrt(0.025 / len(hits))
    if not ties:
        assert hits.mean() <= law.mean() + error
        assert (hits > high).mean() <= 0.025 + 4 * np.sqrt(0.025 / len(hits))


def load_cifar10h():
    with np.load(DATA / "cifar10h_model_a.npz") as file:
        return softmax(file["logits"].astype(float), axis=1), file["counts"].astype(int)


def load_chaosnli():
    """Predictions of a linear model on RoBERTa logits for the items that did not train it."""
    with (
        np.load(DATA / "chaosnli_snli_mnli_roberta.npz") as file,
        np.load(DATA / "chaosnli_snli_mnli.npz") as votes,
    ):
        known = file["has_roberta"]
        logits, counts = (
            file["roberta_logits"][known].astype(float),
            votes["counts"][known].astype(int),
        )
    features = np.hstack([logits.reshape(-1, 9), softmax(logits, axis=2).reshape(-1, 9)])
    order = np.random.default_rng(0).permutation(len(counts))
    train, rest = order[:600], order[600:]
    labels, weights = np.tile(np.arange(3), 600), counts[train].ravel() / 100
    model = LogisticRegression(C=0.1, max_iter=500).fit(
        np.repeat(features[train], 3, axis=0), labels, weights
    )
    return model.predict_proba(features[rest]), counts[rest]
