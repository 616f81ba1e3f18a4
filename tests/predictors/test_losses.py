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
LINKS = {
    "relu": lambda z: np.maximum(z, 0.0),
    "softplus": lambda z: np.logaddexp(0.0, z),
    "exp": np.exp,
}


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


@pytest.mark.parametrize("link", LINKS)
def test_dirichlet_likelihood_and_penalty(link: str) -> None:
    """The likelihood is averaged over the batch, the penalty summed;
    ∂/∂θ_k = ψ(θ_k) − ψ(Σθ) − log λ_k.
    """
    excess = LINKS[link](OUTPUTS)
    theta = 1.0 + excess
    slope = {"relu": OUTPUTS > 0, "softplus": special.expit(OUTPUTS), "exp": np.exp(OUTPUTS)}[link]
    likelihood = np.mean([stats.dirichlet.logpdf(y, t) for y, t in zip(LABELS, theta, strict=True)])
    network = SecondOrderNetwork(link=link)
    expected = -likelihood + 1e-4 * 0.5 * (excess**2).sum()
    assert loss(network, OUTPUTS, LABELS) == pytest.approx(expected, rel=1e-9)
    by_theta = (
        special.digamma(theta) - special.digamma(theta.sum(axis=1, keepdims=True)) - np.log(LABELS)
    )
    found = gradient(network, OUTPUTS, LABELS)
    assert found == pytest.approx((by_theta / 30 + 1e-4 * excess) * slope, rel=1e-9, abs=1e-9)


def test_labels_on_the_boundary_are_clipped() -> None:
    """log λ becomes log 1e-6, and the other shares stay as they are."""
    excess = np.array([2.0, 1.0, 0.5])
    expected = -(special.gammaln(6.5) - special.gammaln(1.0 + excess).sum() + 1.5 * np.log(1e-6))
    network = SecondOrderNetwork(output_l2=0.0)
    assert loss(network, excess[None], np.array([[1.0, 0.0, 0.0]])) == pytest.approx(
        expected, rel=1e-12
    )
