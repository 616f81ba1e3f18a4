"""Losses and their gradients against formulas that do not come from PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

torch = pytest.importorskip("torch")

from credalset.predictors import FirstOrderNetwork, SecondOrderNetwork  # noqa: E402

RNG = np.random.default_rng(0)
LABELS = RNG.dirichlet(np.ones(4), 30)
OUTPUTS = RNG.normal(0.3, 2.0, (30, 4))


def tensor(array: Any) -> Any:
    return torch.as_tensor(np.asarray(array), dtype=torch.float64)


def loss(network: Any, outputs: np.ndarray, target: np.ndarray) -> float:
    return float(network._loss(tensor(outputs), tensor(target)))


def gradient(network: Any, outputs: np.ndarray, target: np.ndarray) -> np.ndarray:
    point = tensor(outputs).requires_grad_()
    network._loss(point, tensor(target)).backward()
    return np.asarray(point.grad.numpy())


def test_cross_entropy_is_entropy_plus_divergence() -> None:
    predicted = special.softmax(OUTPUTS, axis=1)
    expected = (stats.entropy(LABELS, axis=1) + stats.entropy(LABELS, predicted, axis=1)).mean()
    assert loss(FirstOrderNetwork(), OUTPUTS, LABELS) == pytest.approx(expected, rel=1e-12)
    assert gradient(FirstOrderNetwork(), OUTPUTS, LABELS) == pytest.approx(
        (predicted - LABELS) / 30, abs=1e-12
    )


@pytest.mark.parametrize("recovers", [True, False])
def test_dirichlet_likelihood_and_penalty(recovers: bool) -> None:
    """The likelihood is averaged over the batch, the penalty summed;
    ∂/∂θ_k = ψ(θ_k) − ψ(Σθ) − log λ_k. Below zero, gradients that raise θ pass, if asked for.
    """
    excess = np.maximum(OUTPUTS, 0.0)
    theta = 1.0 + excess
    likelihood = np.mean([stats.dirichlet.logpdf(y, t) for y, t in zip(LABELS, theta, strict=True)])
    network = SecondOrderNetwork(recovers=recovers)
    expected = -likelihood + 1e-4 * 0.5 * (excess**2).sum()
    assert loss(network, OUTPUTS, LABELS) == pytest.approx(expected, rel=1e-9)
    by_theta = (
        special.digamma(theta) - special.digamma(theta.sum(axis=1, keepdims=True)) - np.log(LABELS)
    ) / 30 + 1e-4 * excess
    below = np.minimum(by_theta, 0.0) if recovers else 0.0
    assert (by_theta[OUTPUTS < 0] < 0).any()
    assert (by_theta[OUTPUTS < 0] > 0).any()
    found = gradient(network, OUTPUTS, LABELS)
    assert found == pytest.approx(np.where(OUTPUTS > 0, by_theta, below), rel=1e-9, abs=1e-9)


def test_labels_on_the_boundary_are_clipped() -> None:
    """log λ becomes log 1e-6, and the other shares stay as they are."""
    excess = np.array([2.0, 1.0, 0.5])
    expected = -(special.gammaln(6.5) - special.gammaln(1.0 + excess).sum() + 1.5 * np.log(1e-6))
    network = SecondOrderNetwork(output_l2=0.0)
    assert loss(network, excess[None], np.array([[1.0, 0.0, 0.0]])) == pytest.approx(
        expected, rel=1e-12
    )
