"""The training loop: alone or stacked, reproducible, stopping early, going on."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import credalset as cs

torch = pytest.importorskip("torch")

from credalset.predictors import (  # noqa: E402
    DirichletMixtureNetwork,
    FirstOrderNetwork,
    IntervalNetwork,
    PrototypeNetwork,
    SecondOrderNetwork,
    fit_many,
)
from credalset.predictors.torch import base, training  # noqa: E402

DATA = cs.datasets.make_synthetic(61, n_classes=3, n_votes=20, random_state=0)
SMALL: dict[str, Any] = {"hidden": (12, 5), "epochs": 6, "learning_rate": 3e-3}


def fit(kind: Any = FirstOrderNetwork, **options: Any) -> Any:
    return kind(**{**SMALL, "random_state": 0, **options}).fit(DATA.X, DATA.counts)


def weights(network: Any) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in network.module_.parameters()])


# --- alone and together ---

VARIANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "first order": (FirstOrderNetwork, {}),
    "second order": (SecondOrderNetwork, {}),
    "second order, exp, adamw": (SecondOrderNetwork, {"link": "exp", "optimizer": "adamw", "weight_decay": 0.1}),
    "mixture": (DirichletMixtureNetwork, {"n_components": 3}),
    "mixture, counts": (DirichletMixtureNetwork, {"n_components": 3, "likelihood": "counts"}),
    "prototypes": (PrototypeNetwork, {"n_components": 2}),
    "prototypes, counts": (PrototypeNetwork, {"likelihood": "counts"}),
    "intervals": (IntervalNetwork, {"batch_size": 8}),
    "sgd, tanh": (FirstOrderNetwork, {"optimizer": "sgd", "learning_rate": 0.05, "activation": "tanh"}),
    "no dropout, one layer, gelu": (FirstOrderNetwork, {"dropout": 0.0, "hidden": (7,), "activation": "gelu"}),
    "softmax regression": (FirstOrderNetwork, {"hidden": ()}),
    "early stopping": (
        FirstOrderNetwork,
        {"early_stopping": True, "n_iter_no_change": 2, "epochs": 30, "learning_rate": 0.05, "dropout": 0.6},
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_stacked_runs_end_where_each_ends_alone(variant: str) -> None:
    kind, options = VARIANTS[variant]
    sets = [cs.datasets.make_synthetic(61, 3, n_votes=20, random_state=seed) for seed in range(4)]
    make = [lambda seed=seed: kind(**{**SMALL, **options, "random_state": seed}) for seed in range(4)]
    together = fit_many([new() for new in make], [(data.X, data.counts) for data in sets])
    for new, data, among_others in zip(make, sets, together, strict=True):
        alone = new().fit(data.X, data.counts)
        assert weights(among_others) == pytest.approx(weights(alone), abs=2e-5)
        assert among_others.loss_curve_ == pytest.approx(alone.loss_curve_, abs=1e-5)
        assert among_others.predict_proba(data.X) == pytest.approx(alone.predict_proba(data.X), abs=1e-5)
        assert among_others.n_iter_ == alone.n_iter_
    if variant == "early stopping":
        assert len({network.n_iter_ for network in together}) > 1, "runs stop at different times"


def test_runs_of_other_shapes_form_their_own_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    original = training.train
    monkeypatch.setattr(
        "credalset.predictors.torch.base.train",
        lambda trainee, head, runs, *rest, **more: (
            sizes.append(len(runs)) or original(trainee, head, runs, *rest, **more)
        ),
    )
    monkeypatch.setattr(base, "MAX_STACK", 3)
    kinds = [FirstOrderNetwork] * 4 + [SecondOrderNetwork, FirstOrderNetwork, FirstOrderNetwork]
    networks = [kind(**{**SMALL, "epochs": 1, "random_state": i}) for i, kind in enumerate(kinds)]
    networks[5].set_params(hidden=(3,))
    data = [(DATA.X, DATA.counts)] * 6 + [(DATA.X[:40], DATA.counts[:40])]
    assert fit_many(networks, data) == networks
    assert sizes == [3, 1, 1, 1, 1]
    assert all(network.n_iter_ == 1 for network in networks)


def test_fit_many_wants_pairs() -> None:
    network = FirstOrderNetwork(**SMALL)
    with pytest.raises(ValueError, match="2 estimators, but 1 data sets"):
        fit_many([network, FirstOrderNetwork()], [(DATA.X, DATA.counts)])
    with pytest.raises(ValueError, match="the same estimator appears twice"):
        fit_many([network, network], [(DATA.X, DATA.counts)] * 2)
    assert fit_many([], []) == []


# --- reproducible ---


@pytest.mark.parametrize("kind", [FirstOrderNetwork, SecondOrderNetwork])
def test_a_seed_decides_everything(kind: Any) -> None:
    first = weights(fit(kind))
    torch.manual_seed(99)
    assert np.array_equal(first, weights(fit(kind)))
    assert not np.array_equal(first, weights(fit(kind, random_state=1)))
    unseeded = [weights(fit(kind, random_state=None, epochs=1)) for _ in range(2)]
    assert not np.array_equal(*unseeded)


def test_the_global_state_is_left_alone() -> None:
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    fit()
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_num_threads() == threads


def test_first_weights_are_those_of_pytorch() -> None:
    """Uniform on ±1/√n_inputs, as nn.Linear documents."""
    network = FirstOrderNetwork(hidden=(400, 100), epochs=1, learning_rate=1e-12, random_state=0)
    layers = network.fit(DATA.X, DATA.counts).module_
    for layer, n_inputs in ((layers[0], 10), (layers[2], 400)):
        values = np.concatenate([layer.weight.detach().numpy().ravel(), layer.bias.detach().numpy()])
        assert np.abs(values).max() <= n_inputs**-0.5
        assert values.std() == pytest.approx((3 * n_inputs) ** -0.5, rel=0.05)


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    run = training.Run(torch.zeros(4000, 2), torch.zeros(4000, 3), torch.Generator().manual_seed(0))
    network = FirstOrderNetwork(hidden=(20,), dropout=0.3, epochs=1)
    trainee = network._trainee([network._prepare(DATA.X, DATA.counts)])
    mask = training._draw_masks(trainee, [run], 4000)
    assert mask is not None
    assert mask.shape == (1, 4000, 20)
    assert (mask == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert mask.mean().item() == pytest.approx(1.0, abs=0.02)


def test_batches_hold_every_item_once(monkeypatch: pytest.MonkeyPatch) -> None:
    network = FirstOrderNetwork(**SMALL)
    trainee = network._trainee([network._prepare(DATA.X, DATA.counts)])
    run = training.Run(torch.arange(61.0)[:, None], torch.zeros(61, 3), torch.Generator().manual_seed(0))
    for block in (1 << 18, 200, 1):
        monkeypatch.setattr(training, "BLOCK_ELEMENTS", block)
        sizes, seen = [], []
        for x, _, mask in training._batches(trainee, [run], 8):
            sizes.append(x.shape[1])
            assert mask is not None
            assert mask.shape == (1, x.shape[1], 5)
            seen += x.ravel().tolist()
        assert sizes == [8] * 7 + [5]
        assert sorted(seen) == list(range(61))
        assert seen != sorted(seen)


def test_one_step_is_that_of_plain_pytorch() -> None:
    """Full batches without dropout: the same numbers as nn.Sequential with torch.optim.Adam."""
    options = {"hidden": (6,), "dropout": 0.0, "batch_size": 61, "learning_rate": 0.01, "random_state": 0}
    start = FirstOrderNetwork(epochs=1, **{**options, "learning_rate": 1e-30}).fit(DATA.X, DATA.counts).module_
    optimizer = torch.optim.Adam(start.parameters(), lr=0.01)
    x, y = torch.tensor(DATA.X, dtype=torch.float32), torch.tensor(DATA.counts / 20, dtype=torch.float32)
    curve = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(start(x), y)
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    network = FirstOrderNetwork(epochs=5, **options).fit(DATA.X, DATA.counts)
    assert network.loss_curve_ == pytest.approx(curve, rel=1e-5)
    own = torch.cat([p.detach().ravel() for p in start.parameters()]).numpy()
    assert weights(network) == pytest.approx(own, abs=1e-5)


# --- early stopping, warm start, progress, divergence ---


def test_early_stopping_returns_to_the_best_weights() -> None:
    options = {"hidden": (30,), "learning_rate": 0.03, "dropout": 0.0, "random_state": 0, "early_stopping": True}
    network = FirstOrderNetwork(epochs=200, n_iter_no_change=5, validation_fraction=0.3, **options)
    network.fit(DATA.X, DATA.counts)
    curve = network.validation_curve_
    best = int(np.argmin(curve))
    assert network.n_iter_ == len(curve) == best + 6 < 200
    stopped_there = FirstOrderNetwork(epochs=best + 1, n_iter_no_change=5, validation_fraction=0.3, **options)
    assert np.array_equal(weights(stopped_there.fit(DATA.X, DATA.counts)), weights(network))
    assert not hasattr(fit(), "validation_curve_")
    network.set_params(early_stopping=False, epochs=2).fit(DATA.X, DATA.counts)
    assert not hasattr(network, "validation_curve_")


def test_early_stopping_needs_items_to_train_on() -> None:
    network = FirstOrderNetwork(early_stopping=True, validation_fraction=0.9)
    with pytest.raises(ValueError, match="holds out 4 of 4 items, which leaves none"):
        network.fit(DATA.X[:4], DATA.counts[:4])


def test_warm_start_goes_on() -> None:
    network = fit(warm_start=True, epochs=3)
    first = weights(network)
    network.set_params(epochs=4).fit(DATA.X, DATA.counts)
    assert network.n_iter_ == len(network.loss_curve_) == 7
    assert network.loss_curve_[3] < network.loss_curve_[0]
    assert not np.array_equal(first, weights(network))
    assert np.array_equal(first, weights(fit(warm_start=False, epochs=3)))
    again = fit(warm_start=True, epochs=3)
    assert np.array_equal(weights(again.set_params(epochs=4).fit(DATA.X, DATA.counts)), weights(network))
    with pytest.raises(ValueError, match="2 classes"):
        network.fit(DATA.X, DATA.counts[:, :2] + 1)
    with pytest.raises(ValueError, match="features"):
        network.fit(DATA.X[:, :3], DATA.counts)
    network.set_params(warm_start=False).fit(DATA.X[:, :3], DATA.counts[:, :2] + 1)
    assert network.n_iter_ == 4


def test_progress_is_shown_when_asked_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes stderr for a terminal
    fit()
    assert capsys.readouterr() == ("", "")
    fit(verbose=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "6/6" in shown.err
    assert "loss" in shown.err


@pytest.mark.parametrize("missing", ["rich.progress", "a terminal"])
def test_progress_is_silent_without(
    missing: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing != "a terminal":
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setitem(sys.modules, missing, None)
    fit(verbose=True)
    assert capsys.readouterr() == ("", "")


def test_only_small_steps_are_kept_to_one_thread() -> None:
    network = FirstOrderNetwork(**SMALL)
    trainee = network._trainee([network._prepare(DATA.X, DATA.counts)])
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with training.one_thread_if_small(trainee, 8):
            assert torch.get_num_threads() == 1
        with training.one_thread_if_small(trainee, 10**9):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_divergence_is_told() -> None:
    with pytest.raises(ValueError, match=r"training diverged: the loss is (nan|inf) in epoch .*learning_rate"):
        fit(SecondOrderNetwork, link="exp", learning_rate=1e4, epochs=50)
    good = SecondOrderNetwork(**{**SMALL, "link": "exp", "random_state": 0})
    huge = (DATA.X * 1e30, DATA.counts)
    with pytest.raises(ValueError, match="the loss of run 1 is"):
        fit_many([good, SecondOrderNetwork(**{**SMALL, "link": "exp"})], [(DATA.X, DATA.counts), huge])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"hidden": 3}, TypeError, r"hidden must list the widths of the hidden layers"),
        ({"hidden": (3, 0)}, ValueError, r"each entry of hidden must be at least 1"),
        ({"hidden": (3, 2.5)}, TypeError, r"each entry of hidden must be a whole number"),
        ({"activation": "step"}, ValueError, r"activation must be one of 'relu', 'tanh'"),
        ({"dropout": 1.0}, ValueError, r"dropout must be at least 0 and below 1"),
        ({"optimizer": "lbfgs"}, ValueError, r"optimizer must be one of 'adam', 'adamw', 'sgd'"),
        ({"learning_rate": 0.0}, ValueError, r"learning_rate must be positive"),
        ({"weight_decay": -1.0}, ValueError, r"weight_decay must be a finite number of at least 0"),
        ({"momentum": 1.0}, ValueError, r"momentum must be at least 0 and below 1"),
        ({"batch_size": 0}, ValueError, r"batch_size must be at least 1"),
        ({"epochs": 1.5}, TypeError, r"epochs must be a whole number"),
        ({"validation_fraction": 1.0}, ValueError, r"validation_fraction must lie strictly between 0 and 1"),
        ({"n_iter_no_change": 0}, ValueError, r"n_iter_no_change must be at least 1"),
        ({"device": "toaster"}, ValueError, r"device 'toaster' cannot be used here"),
        ({"random_state": "x"}, TypeError, r"random_state must be a seed"),
    ],
)
def test_wrong_parameters(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FirstOrderNetwork(**{"epochs": 1, **options}).fit(DATA.X, DATA.counts)
