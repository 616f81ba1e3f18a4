"""The learner of prototypes: its normaliser and loss against quadrature, what it recovers, what it refuses."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

torch = pytest.importorskip("torch")

import credalset as cs  # noqa: E402
from credalset.predictors import PrototypeNetwork, fit_many  # noqa: E402
from credalset.predictors.protocol import default_estimator  # noqa: E402
from credalset.predictors.torch import widths  # noqa: E402
from credalset.predictors.torch.normaliser import log_h, log_normaliser, quadrature  # noqa: E402
from credalset.predictors.torch.prototypes import PrototypeHead  # noqa: E402
from tests.test_torch_losses import differences, gradient, tensor  # noqa: E402

RNG = np.random.default_rng(0)
OUTPUTS = RNG.normal(0.0, 1.0, (4, 10))  # two prototypes over three classes
LABELS = RNG.dirichlet(np.full(3, 0.4), 4)
LABELS[0] = [1.0, 0.0, 0.0]
COUNTS = RNG.multinomial(7, LABELS).astype(float)


def by_scipy(u: float) -> float:
    """log h(u) by adaptive quadrature, in pieces around the peak."""
    edges = sorted({0.0, max(0.0, u - 12 * u**0.5), u, u + 12 * u**0.5 + 0.01, u + 50 * max(1.0, u**0.5)})
    total = sum(
        integrate.quad(lambda x: np.exp(u_minus(x, u)), a, b, limit=500, epsabs=0.0, epsrel=1e-11)[0]
        for a, b in pairwise(edges)
    )
    return float(np.log(total))


def u_minus(x: float, u: float) -> float:
    return float(x - u - special.xlogy(x, x / u))


@pytest.mark.parametrize("u", [1e-8, 1e-4, 0.03, 1.0, 7.0, 500.0, 3e4])
def test_table_of_the_normaliser(u: float) -> None:
    assert quadrature(np.array([u]))[0] == pytest.approx(by_scipy(u), abs=1e-10)


def test_interpolation_is_within_a_millionth() -> None:
    u = np.exp(RNG.uniform(np.log(1e-8), np.log(1e5), 20_000))
    assert np.abs(log_h(torch.from_numpy(u)).numpy() - quadrature(u)).max() < 1e-6


def log_integral(s: float, g: np.ndarray, n: int = 300) -> float:
    """log ∫ exp(−s KL(λ‖g)) dλ over the triangle, nodes dense toward its edges."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    angle = 0.25 * np.pi * (nodes + 1.0)
    t, w = np.sin(angle) ** 2, 0.5 * np.pi * weights * np.sin(angle) * np.cos(angle)
    first, second = t[:, None], t[None, :]
    points = np.stack(np.broadcast_arrays(first, (1 - first) * second, (1 - first) * (1 - second)), axis=-1)
    divergence = special.rel_entr(points, g).sum(axis=-1)
    return float(np.log((w[:, None] * w * (1 - first) * np.exp(-s * divergence)).sum()))


@pytest.mark.parametrize(("s", "error"), [(1.0, 0.95), (3.0, 0.3), (10.0, 0.07), (100.0, 0.007), (3000.0, 3e-4)])
def test_error_of_the_normaliser_at_three_classes(s: float, error: float) -> None:
    for g in ([1 / 3, 1 / 3, 1 / 3], [0.7, 0.2, 0.1], [0.98, 0.015, 0.005], [0.9994, 0.0003, 0.0003]):
        found = log_normaliser(tensor(np.array(s)), tensor(np.array(g))).item()
        assert abs(found - log_integral(s, np.array(g))) < error


def expected_loss(outputs: np.ndarray, likelihood: str) -> np.ndarray:
    table = outputs.reshape(-1, 2, 5)
    log_w, s = np.log(special.softmax(table[..., 0], axis=1)), 10.0 * np.exp(table[..., 1])
    g = 0.999 * special.softmax(table[..., 2:], axis=-1) + 0.001 / 3
    if likelihood == "counts":
        order = special.gammaln(8.0) - special.gammaln(COUNTS + 1).sum(axis=1)
        logs = np.array(
            [
                [stats.dirichlet_multinomial(si * gi, 7).logpmf(n.astype(int)) for si, gi in zip(a, b, strict=True)]
                for a, b, n in zip(s, g, COUNTS, strict=True)
            ]
        )
        return -special.logsumexp(log_w + logs - order[:, None], axis=1)
    logs = -s * special.rel_entr(LABELS[:, None], g).sum(axis=-1)
    log_z = quadrature(s[..., None] * g).sum(axis=-1) - 2 * np.log(s) - quadrature(s)
    return -special.logsumexp(log_w + logs - log_z, axis=1)


@pytest.mark.parametrize("likelihood", ["distributions", "counts"])
def test_loss_and_gradient(likelihood: str) -> None:
    head = PrototypeHead(2, likelihood)
    target = tensor(LABELS if likelihood == "distributions" else COUNTS)
    assert head.item_loss(tensor(OUTPUTS), target).numpy() == pytest.approx(
        expected_loss(OUTPUTS, likelihood), abs=1e-5
    )
    found = gradient(lambda z: head.item_loss(z, target), OUTPUTS)
    assert found == pytest.approx(differences(lambda z: expected_loss(z, likelihood), OUTPUTS), abs=1e-3)


def test_offsets_make_the_score_the_negative_log_density() -> None:
    """min over prototypes of b + s KL is the largest term of the sum that the loss takes the logarithm of."""
    head = PrototypeHead(2)
    table = head.read(tensor(OUTPUTS))
    score = cs.scores.Prototypes()(table, LABELS)
    loss = head.item_loss(tensor(OUTPUTS), tensor(LABELS)).numpy()
    assert (score >= loss - 1e-9).all()
    assert (score <= loss + np.log(2) + 1e-9).all()
    extreme = head.read(tensor(OUTPUTS * 1e4))
    assert np.isfinite(extreme).all()
    assert cs.scores.Prototypes().check_prediction(extreme).n_components == 2


def noisy(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels around a distribution that the first feature tells, as closely as the second says."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    center = special.softmax(np.c_[x[:, 0], -x[:, 0], np.zeros(n)], axis=1)
    precision = np.exp(3.5 + 1.2 * x[:, 1])
    return x, np.array([rng.dirichlet(s * g) for s, g in zip(precision, center, strict=True)]), precision


def test_it_learns_how_closely_prototypes_hold() -> None:
    x, labels, precision = noisy(1500, 0)
    network = PrototypeNetwork((16,), epochs=20, dropout=0.0, learning_rate=5e-3, random_state=0).fit(x, labels)
    table = network.predict_prototypes(x)
    assert np.corrcoef(np.log(table[:, 0, 3]), np.log(precision))[0, 1] > 0.9
    assert (table[:, 0, 4] == 0.0).all()
    assert network.predict_proba(x) == pytest.approx(table[:, 0, :3], abs=1e-9)
    new, truth, _ = noisy(1000, 1)
    widths = {}
    for name, predict in {"prototypes": network.predict_prototypes, "kl": network.predict_proba}.items():
        sets = cs.conformalize(predict(new[:500]), truth[:500], name).predict_set(predict(new[500:]), 0.2)
        lower, upper = sets.envelope()
        widths[name] = 0.5 * (upper - lower).sum(axis=1).mean()
    assert widths["prototypes"] < 0.9 * widths["kl"]


def test_networks_side_by_side() -> None:
    data = cs.datasets.make_synthetic(120, 3, random_state=0)
    small: dict[str, Any] = {"hidden": (6,), "epochs": 3, "random_state": 0}
    three = PrototypeNetwork(n_networks=3, offsets=True, **small).fit(data.X, data.counts)
    members = three._head().read(three._predict_outputs(data.X))
    table = three.predict_prototypes(data.X)
    assert (members.shape, table.shape) == ((120, 3, 1, 5), (120, 1, 5))
    assert table[:, 0, :3] == pytest.approx(members[:, :, 0, :3].mean(axis=1))
    assert np.log(table[:, 0, 3]) == pytest.approx(np.log(members[:, :, 0, 3]).mean(axis=1))
    several = PrototypeNetwork(n_networks=3, n_components=2, offsets=True, **small).fit(data.X, data.counts)
    pooled = several.predict_prototypes(data.X)
    assert pooled.shape == (120, 6, 5)
    assert several.predict_proba(data.X).sum(axis=1) == pytest.approx(1.0)
    alone = several._head().read(several._predict_outputs(data.X)).reshape(120, 6, 5)
    assert pooled[..., 4] == pytest.approx(alone[..., 4] + np.log(3))
    one, two = fit_many([PrototypeNetwork(**small), PrototypeNetwork(**small)], [(data.X, data.counts)] * 2)
    assert one.predict_prototypes(data.X) == pytest.approx(two.predict_prototypes(data.X), rel=1e-5)


def test_without_an_estimator_the_score_trains_its_network() -> None:
    assert isinstance(default_estimator(cs.get_score("prototypes")), PrototypeNetwork)


def test_widths_and_their_gradients_are_those_of_the_sets() -> None:
    rng = np.random.default_rng(0)
    g, r = rng.dirichlet(np.ones(4), 6), rng.uniform(0.01, 0.5, 6)

    def by_sets(radii: np.ndarray) -> np.ndarray:
        lower, upper = cs.scores.KullbackLeibler(float(np.e)).region(g, radii).envelope()
        return np.asarray(0.5 * (upper - lower).sum(axis=1))

    radius = tensor(r).requires_grad_()
    found = widths._widths(tensor(g)[:, None], radius[:, None, None])[:, 0]
    assert found.detach().numpy() == pytest.approx(by_sets(r), abs=5e-5)
    found.sum().backward()
    assert radius.grad is not None
    assert radius.grad.numpy() == pytest.approx((by_sets(r + 1e-5) - by_sets(r - 1e-5)) / 2e-5, rel=1e-3)


def test_mean_width_is_that_of_a_calibration_on_the_batch() -> None:
    x, labels, precision = noisy(200, 3)
    center = special.softmax(np.c_[x[:, 0], -x[:, 0], np.zeros(200)], axis=1)
    divergence = special.rel_entr(labels, center).sum(axis=1)
    found = widths.mean_sizes(tensor(precision), tensor(center), tensor(divergence))
    table = np.concatenate([center, precision[:, None], 0 * precision[:, None]], axis=1)[:, None]
    calibration = cs.conformalize(table, labels, "prototypes")
    sizes = [cs.metrics.mean_sizes(calibration.predict_set(table, level)) for level in widths.LEVELS]
    assert found[0].item() == pytest.approx(np.mean([one["width"] for one in sizes]), rel=5e-3)
    assert found[1].item() == pytest.approx(np.mean([one["labels"] for one in sizes]), rel=0.03)  # counted smoothly


def test_labels_are_counted_where_the_nearest_tie_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a steep sigmoid the smooth number is the exact one, for two classes always and for three here."""
    monkeypatch.setattr(widths, "SOFTNESS", 1e-4)
    for k in (2, 3):
        g = np.random.default_rng(k).dirichlet(np.ones(k), 40)
        for radius in (0.003, 0.05, 0.3):
            exact = cs.scores.KullbackLeibler(float(np.e)).region(g, radius).decide().sum(axis=1)
            found = widths._labels(tensor(g)[:, None], torch.full((40, 1, 1), radius, dtype=torch.float64))[:, 0]
            assert found.numpy() == pytest.approx(exact, abs=1e-3)


def test_a_sure_guess_has_a_finite_gradient() -> None:
    """In single precision one minus the largest probability is rounded to zero."""
    outputs = torch.tensor([[0.0, 3.0, 30.0, -30.0, -30.0]] * 8, requires_grad=True)
    target = torch.tensor([[1.0, 0.0, 0.0]] * 7 + [[0.5, 0.5, 0.0]])
    PrototypeHead(floor=1e-9, width=20.0, labels=5.0).batch_loss(outputs, target).backward()
    assert outputs.grad is not None
    assert torch.isfinite(outputs.grad).all()


def test_the_weights_of_width_and_labels_add_to_the_loss() -> None:
    head, outputs = PrototypeHead(width=3.0, labels=2.0), tensor(RNG.normal(size=(2, 4, 5)))  # two runs of four items
    target = tensor(np.stack([LABELS, LABELS[::-1]]))
    _, precision, g = head.parts(outputs)
    divergence = special.rel_entr(target.numpy(), g[:, :, 0].numpy()).sum(axis=-1)
    width, labels = widths.mean_sizes(precision[..., 0], g[..., 0, :], tensor(divergence))
    expected = PrototypeHead().batch_loss(outputs, target) + 3.0 * width + 2.0 * labels
    assert head.batch_loss(outputs, target).numpy() == pytest.approx(expected.numpy())
    assert width.shape == labels.shape == (2,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components must be at least 1"),
        ({"likelihood": "density"}, "likelihood must be one of 'distributions', 'counts'"),
        ({"max_precision": 0.5}, "max_precision must be at least 1"),
        ({"floor": 0.0}, "floor must lie strictly between 0 and 1"),
        ({"width": 1.0, "n_components": 2}, "width can only be aimed at with one prototype"),
        ({"labels": 1.0, "n_components": 2}, "labels can only be aimed at with one prototype"),
        ({"n_networks": 0}, "n_networks must be at least 1"),
        ({"likelihood": "counts"}, "needs annotation counts"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PrototypeNetwork(epochs=1, **options).fit(np.zeros((4, 2)), LABELS)
