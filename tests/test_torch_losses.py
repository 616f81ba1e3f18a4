"""Losses, links and gradients against formulas that do not come from PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

torch = pytest.importorskip("torch")

from credalset.predictors.torch import losses  # noqa: E402
from credalset.predictors.torch.heads import Dirichlet, Probabilities, Softmax  # noqa: E402

RNG = np.random.default_rng(0)
LABELS = RNG.dirichlet(np.ones(4), 30)
RAW = RNG.normal(0.3, 2.0, (30, 4))
LINKS = {
    "relu": lambda z: np.maximum(z, 0.0),
    "softplus": lambda z: np.logaddexp(0.0, z),
    "exp": np.exp,
}


def tensor(array: np.ndarray) -> torch.Tensor:
    return torch.tensor(array, dtype=torch.float64)


def gradient(function: object, at: np.ndarray) -> np.ndarray:
    point = tensor(at).requires_grad_()
    function(point).sum().backward()  # type: ignore[operator]
    return point.grad.numpy()


def differences(function: object, at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences of a function whose row i depends on row i only."""
    result = np.empty_like(at)
    for k in range(at.shape[1]):
        shift = np.zeros_like(at)
        shift[:, k] = step
        result[:, k] = (function(at + shift) - function(at - shift)) / (2 * step)  # type: ignore[operator]
    return result


def test_cross_entropy_is_entropy_plus_divergence() -> None:
    predicted = special.softmax(RAW, axis=1)
    expected = stats.entropy(LABELS, axis=1) + stats.entropy(LABELS, predicted, axis=1)
    assert losses.soft_cross_entropy(tensor(RAW), tensor(LABELS)).numpy() == pytest.approx(expected, rel=1e-12)
    assert losses.probability_cross_entropy(tensor(predicted), tensor(LABELS)).numpy() == pytest.approx(expected)


def test_cross_entropy_gradient_is_softmax_minus_label() -> None:
    found = gradient(lambda z: losses.soft_cross_entropy(z, tensor(LABELS)), RAW)
    assert found == pytest.approx(special.softmax(RAW, axis=1) - LABELS, abs=1e-12)


def test_probabilities_of_zero_leave_the_loss_finite() -> None:
    loss = losses.probability_cross_entropy(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]]))
    assert torch.isfinite(loss).all()


@pytest.mark.parametrize("link", LINKS)
def test_dirichlet_likelihood_is_that_of_scipy(link: str) -> None:
    theta = 1.0 + LINKS[link](RAW)
    expected = [-stats.dirichlet.logpdf(y, t) for y, t in zip(LABELS, theta, strict=True)]
    head = Dirichlet(link, output_l2=0.0)
    assert head.read(tensor(RAW)) == pytest.approx(theta, rel=1e-12)
    assert head.item_loss(tensor(RAW), tensor(LABELS)).numpy() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    direct = Dirichlet("concentration").item_loss(tensor(theta), tensor(LABELS))
    assert direct.numpy() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("link", LINKS)
def test_dirichlet_gradient(link: str) -> None:
    """∂/∂θ_k = ψ(θ_k) − ψ(Σθ) − log λ_k, times the slope of the link."""
    theta = 1.0 + LINKS[link](RAW)
    slope = {"relu": RAW > 0, "softplus": special.expit(RAW), "exp": np.exp(RAW)}[link]
    by_theta = special.digamma(theta) - special.digamma(theta.sum(axis=1, keepdims=True)) - np.log(LABELS)
    found = gradient(lambda z: Dirichlet(link).item_loss(z, tensor(LABELS)), RAW)
    assert found == pytest.approx(by_theta * slope, rel=1e-9, abs=1e-9)
    numeric = differences(lambda z: Dirichlet(link).item_loss(tensor(z), tensor(LABELS)).numpy(), RAW)
    assert found == pytest.approx(numeric, rel=1e-4, abs=1e-5)


def test_labels_on_the_boundary_are_clipped() -> None:
    """log λ becomes log 1e-6, and the other shares stay as they are."""
    theta = np.array([3.0, 2.0, 1.5])
    expected = -(special.gammaln(6.5) - special.gammaln(theta).sum() + 2.0 * np.log(1.0) + 1.5 * np.log(1e-6))
    found = Dirichlet("concentration").item_loss(tensor(theta[None]), tensor([[1.0, 0.0, 0.0]]))
    assert found.item() == pytest.approx(expected, rel=1e-12)


def test_the_penalty_is_summed_over_the_batch_and_the_likelihood_averaged() -> None:
    head, plain = Dirichlet("softplus", output_l2=1e-4), Dirichlet("softplus", output_l2=0.0)
    excess = LINKS["softplus"](RAW)
    expected = plain.item_loss(tensor(RAW), tensor(LABELS)).mean().item() + 1e-4 * 0.5 * (excess**2).sum()
    assert head.batch_loss(tensor(RAW), tensor(LABELS)).item() == pytest.approx(expected, rel=1e-12)
    runs = head.batch_loss(tensor(np.stack([RAW, RAW - 1.0])), tensor(np.stack([LABELS, LABELS])))
    assert runs.shape == (2,)
    assert runs[0].item() == pytest.approx(expected, rel=1e-12)


def test_heads_read_predictions() -> None:
    assert Softmax().read(tensor(RAW)) == pytest.approx(special.softmax(RAW, axis=1), rel=1e-12)
    assert Probabilities().read(tensor(LABELS)) == pytest.approx(LABELS, rel=1e-6)
    with pytest.raises(ValueError, match='declared "probabilities", contains negative values'):
        Probabilities().read(tensor(RAW))
    with pytest.raises(ValueError, match=r'declared "probabilities".*do not sum to one'):
        Probabilities().read(tensor(LABELS * 2))
    with pytest.raises(
        ValueError, match="declared as concentrations, must hold Dirichlet concentrations of at least 1"
    ):
        Dirichlet("concentration").read(tensor(LABELS))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"link": "sigmoid"}, "link must be one of 'relu', 'softplus', 'exp', but is 'sigmoid'"),
        ({"label_clip": 0.0}, "label_clip must lie strictly between 0 and 1"),
        ({"output_l2": -1.0}, "output_l2 must be a finite number of at least 0"),
    ],
)
def test_wrong_settings(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dirichlet(**options)  # type: ignore[arg-type]
