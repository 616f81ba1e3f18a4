"""Group coverage on CIFAR-10H; set CREDALSET_DATA to the folder that holds
``cifar10h_model_a.npz``.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import credalset as cs

FILE = Path(os.environ.get("CREDALSET_DATA", "")) / "cifar10h_model_a.npz"


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("CREDALSET_DATA"), reason="CREDALSET_DATA is not set")
@pytest.mark.parametrize("score", ["tv", "kl", "inner"])
def test_every_predicted_class_is_covered(score: str) -> None:
    data = np.load(FILE)
    logits = data["logits"].astype(float)
    g = np.exp(logits - logits.max(axis=1, keepdims=True))
    g /= g.sum(axis=1, keepdims=True)
    labels = data["counts"] / data["counts"].sum(axis=1, keepdims=True)
    predicted = g.argmax(axis=1)
    rng = np.random.default_rng(0)
    grouped, plain = np.zeros((20, 10)), np.zeros((20, 10))
    for r in range(20):
        order = rng.permutation(len(g))
        calib, test = order[:5000], order[5000:]
        for table, groups in ((grouped, "predicted"), (plain, None)):
            calibration = cs.conformalize(g[calib], labels[calib], score, groups=groups)
            inside = calibration.score(g[test], labels[test]) <= calibration.thresholds(
                g[test], 0.1
            )
            table[r] = [inside[predicted[test] == k].mean() for k in range(10)]
    # Splits overlap, so the mean over them is no surer than one split: binomial noise of a class in
    # 10 000 items.
    spread = stats.norm.ppf(1 - 1e-3) * np.sqrt(0.09 * (1 / 500 + 1 / 500))
    assert (grouped.mean(axis=0) >= 0.9 - spread).all()
    assert np.abs(grouped.mean(axis=0) - 0.9).max() < 0.02
    assert plain.mean(axis=0).min() < 0.9 - spread, "without groups some class pays for the others"
