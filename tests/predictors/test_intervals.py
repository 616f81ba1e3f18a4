"""The interval network: what training minimises against the sets themselves, and that it helps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import credalset as cs  # noqa: E402
from credalset.predictors import FirstOrderNetwork, IntervalNetwork  # noqa: E402
from credalset.predictors.torch import intervals  # noqa: E402

RNG = np.random.default_rng(0)


def tensor(values: Any) -> Any:
    return torch.as_tensor(np.asarray(values), dtype=torch.float64)


def batch(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Intervals (n, 3, k) and label distributions that lie about them."""
    g = RNG.dirichlet(np.full(k, 0.8), n)
    labels = RNG.multinomial(21, g) / 21  # odd, so that no two classes tie
    return np.stack([g, *RNG.gamma(2.0, 0.05, (2, n, k))], axis=1), labels


@pytest.mark.parametrize("k", [2, 3, 6])
def test_sizes_are_those_of_a_calibration_on_the_batch(
    k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a sharp quantile and steep counting they are the exact ones;
    the least entropy may be a little too large.
    """
    monkeypatch.setattr(intervals, "SPREAD", 1e-4)
    monkeypatch.setattr(intervals, "SOFTNESS", 1e-7)
    prediction, labels = batch(199, k)
    found = intervals.mean_sizes(*tensor(np.moveaxis(prediction, 1, 0)), tensor(labels))
    calibration = cs.conformalize(prediction, labels, "intervals")
    sets = [calibration.predict_set(prediction, level) for level in intervals.LEVELS]
    assert found[0].item() == pytest.approx(
        np.mean([cs.metrics.mean_width(one) for one in sets]), rel=1e-5
    )
    assert found[1].item() == pytest.approx(
        np.mean([cs.metrics.mean_labels(one) for one in sets]), rel=1e-5
    )
    epistemic = np.mean([cs.metrics.mean_epistemic(one) for one in sets])
    assert epistemic * 0.97 <= found[2].item() <= epistemic + 1e-5


def test_gradients_are_those_of_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Double precision, away from kinks; the level of the largest entropy is not differentiated,
    and need not be.
    """
    monkeypatch.setattr(intervals, "BISECTIONS", 50)
    network, k = IntervalNetwork(), 4
    outputs, target = tensor(RNG.normal(size=(40, 3 * k))).requires_grad_(), tensor(batch(40, k)[1])
    network._loss(outputs, target).backward()
    for i, j in ((0, 1), (5, 6), (17, 10), (39, 3)):
        moved = [outputs.detach().clone() for _ in range(2)]
        moved[0][i, j] += 1e-5
        moved[1][i, j] -= 1e-5
        slope = (network._loss(moved[0], target) - network._loss(moved[1], target)).item() / 2e-5
        assert outputs.grad[i, j].item() == pytest.approx(slope, abs=1e-5, rel=1e-3)


def test_extreme_outputs_have_finite_gradients() -> None:
    outputs = torch.tensor(
        [[40.0, -40.0, -40.0, 30.0, -30.0, 0.0, -30.0, 30.0, 0.0]] * 8, requires_grad=True
    )
    loss = IntervalNetwork()._loss(outputs, torch.tensor([[1.0, 0.0, 0.0]] * 7 + [[0.0, 1.0, 0.0]]))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(outputs.grad).all()


def test_sets_are_narrower_than_those_of_one_radius() -> None:
    """Items of two kinds, one whose labels spread: equal radii serve neither."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(800, 3))
    g = np.exp(np.c_[x[:, 0], -x[:, 0], np.zeros(800)])
    g /= g.sum(axis=1, keepdims=True)
    spread = np.where(x[:, 1] > 0, 2.0, 200.0)[:, None]
    labels = rng.gamma(np.maximum(spread * g, 1e-3))
    labels /= labels.sum(axis=1, keepdims=True)
    parts = np.split(np.arange(800), [400, 600])
    widths = {}
    for name, network in {
        "intervals": IntervalNetwork((32,), epochs=40, random_state=0),
        "tv": FirstOrderNetwork(
            (32,), learning_rate=5e-3, epochs=20, batch_size=32, random_state=0
        ),
    }.items():
        clf = cs.ConformalCredalClassifier(network, name).fit(x[parts[0]], labels[parts[0]])
        sets = clf.conformalize(x[parts[1]], labels[parts[1]]).predict_set(x[parts[2]], 0.2)
        assert 0.7 < sets.contains(labels[parts[2]]).mean() < 0.9
        widths[name] = float(cs.metrics.mean_width(sets))
    assert widths["intervals"] < 0.85 * widths["tv"]
