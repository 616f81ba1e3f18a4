"""The networks: what they learn, how they are trained,
and that they are ordinary scikit-learn estimators.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import credalset as cs
from credalset.predictors.protocol import default_estimator

torch = pytest.importorskip("torch")

from credalset.predictors import (  # noqa: E402
    FirstOrderNetwork,
    IntervalNetwork,
    SecondOrderNetwork,
)

DATA = cs.datasets.make_synthetic(300, n_classes=3, n_votes=20, random_state=0)
SMALL: dict[str, Any] = {
    "hidden": (16,),
    "epochs": 15,
    "learning_rate": 2e-2,
    "batch_size": 25,
    "random_state": 0,
}
KINDS = {
    "kl": FirstOrderNetwork,
    "so": SecondOrderNetwork,
    "intervals": IntervalNetwork,
}


def weights(network: Any) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in network.module_.parameters()])


@parametrize_with_checks(
    [FirstOrderNetwork((16,), epochs=20, learning_rate=2e-2, dropout=0.0, batch_size=32)]
)
def test_scikit_learn_estimator_checks(estimator: object, check: object) -> None:
    check(estimator)  # type: ignore[operator]


def test_the_defaults_are_those_of_the_paper() -> None:
    network = SecondOrderNetwork()
    assert (network.hidden, network.dropout) == ((256, 64, 16), 0.3)
    assert (network.learning_rate, network.weight_decay, network.batch_size, network.epochs) == (
        1e-4,
        0.0,
        8,
        100,
    )
    assert (network.label_clip, network.output_l2, network.early_stopping) == (1e-6, 1e-4, False)
    first = FirstOrderNetwork().get_params()
    assert first == {name: value for name, value in network.get_params().items() if name in first}
    layers = FirstOrderNetwork(epochs=1).fit(DATA.X[:9], DATA.counts[:9]).module_
    assert [tuple(layer.weight.shape) for layer in layers if hasattr(layer, "weight")] == [
        (256, 10),
        (64, 256),
        (16, 64),
        (3, 16),
    ]
    assert [type(layer).__name__ for layer in layers[-3:]] == ["ReLU", "Dropout", "Linear"]


# --- learning ---


def test_soft_labels_recover_the_conditional_distribution() -> None:
    """Softmax regression is the true model; the network gets as near as the votes allow."""
    data = cs.datasets.make_synthetic(3000, n_classes=3, n_votes=100, random_state=1)
    network = FirstOrderNetwork(
        (), learning_rate=0.05, epochs=20, dropout=0.0, batch_size=50, random_state=0
    )
    predicted = network.fit(data.X[:2000], data.counts[:2000]).predict_proba(data.X[2000:])
    assert np.abs(predicted - data.distributions[2000:]).sum(axis=1).mean() / 2 < 0.02
    entropy = -(data.distributions * np.log(data.distributions)).sum(axis=1).mean()
    assert network.loss_curve_[-1] == pytest.approx(entropy, abs=0.05)


def test_a_known_dirichlet_is_recovered() -> None:
    """Labels drawn from Dir(θ(x)) with two kinds of items:
    maximum likelihood finds both concentrations.
    """
    rng = np.random.default_rng(0)
    theta = np.array([[8.0, 3.0, 2.0], [2.0, 2.0, 6.0]])
    kind = rng.integers(2, size=800)
    labels = np.array([rng.dirichlet(theta[k]) for k in kind])
    options = {
        "dropout": 0.0,
        "output_l2": 0.0,
        "batch_size": 50,
        "learning_rate": 0.02,
        "epochs": 30,
    }
    network = SecondOrderNetwork((16,), random_state=1, **options).fit(np.eye(2)[kind], labels)
    assert network.predict_concentration(np.eye(2)) == pytest.approx(theta, rel=0.15)
    assert network.predict_proba(np.eye(2)) == pytest.approx(
        theta / theta.sum(axis=1, keepdims=True), abs=0.04
    )


def test_a_stuck_relu_predicts_the_uniform_density() -> None:
    network = SecondOrderNetwork((4,), epochs=1, random_state=0).fit(DATA.X, DATA.counts)
    with torch.no_grad():
        network.module_[-1].bias.fill_(-1e6)
    assert (network.predict_concentration(DATA.X) == 1.0).all()


@pytest.mark.parametrize("recovers", [True, False])
def test_outputs_below_zero_come_back_if_items_want_them(
    recovers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every output starts below zero; published training has no gradient there and stays."""
    build = SecondOrderNetwork._build_module

    def start_dead(self: Any, *shape: int) -> Any:
        module = build(self, *shape)
        torch.nn.init.zeros_(module[-1].weight)
        torch.nn.init.constant_(module[-1].bias, -0.2)
        return module

    monkeypatch.setattr(SecondOrderNetwork, "_build_module", start_dead)
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=200)
    theta = np.array([[8.0, 3.0, 2.0], [2.0, 2.0, 6.0]])
    labels = np.array([rng.dirichlet(theta[k]) for k in kind])
    options = {"dropout": 0.0, "learning_rate": 0.02, "epochs": 20, "random_state": 0}
    network = SecondOrderNetwork((16,), recovers=recovers, **options).fit(np.eye(2)[kind], labels)
    is_alive = (network.predict_concentration(np.eye(2)) > 1.0).all()
    assert is_alive == recovers


def test_the_start_is_that_of_the_authors() -> None:
    """Glorot's uniform weights and zero biases; the outputs of the second order start at one."""
    for kind, first in ((FirstOrderNetwork, 0.0), (SecondOrderNetwork, 1.0)):
        torch.manual_seed(0)
        module = kind()._build_module(10, 3)
        *inner, last = [layer for layer in module if isinstance(layer, torch.nn.Linear)]
        assert all((layer.bias == 0).all() for layer in inner)
        assert (last.bias == first).all()
        for layer in (*inner, last):
            limit = np.sqrt(6.0 / sum(layer.weight.shape))
            assert 0.8 * limit < layer.weight.abs().max().item() <= limit


def test_labels_of_every_kind() -> None:
    names = ["no", "maybe", "yes"]
    expected = FirstOrderNetwork(**SMALL).fit(DATA.X, DATA.counts / 20).predict_proba(DATA.X)
    for labels in (DATA.counts, pd.DataFrame(DATA.counts, columns=names)):
        network = FirstOrderNetwork(**SMALL).fit(DATA.X, labels)
        assert np.array_equal(network.predict_proba(DATA.X), expected)
    assert network.classes_.tolist() == names
    hard = np.array(names)[DATA.counts.argmax(axis=1)]
    assert (FirstOrderNetwork(**SMALL).fit(DATA.X, hard).predict(DATA.X) == hard).mean() > 0.8
    with pytest.raises(ValueError, match=r"Y must have one row .* but has 10"):
        FirstOrderNetwork(**SMALL).fit(DATA.X, DATA.counts[:10])
    hidden = np.ma.masked_greater(DATA.X, 1.0)
    for call in (lambda: network.fit(hidden, DATA.counts), lambda: network.predict_proba(hidden)):
        with pytest.raises(ValueError, match="X has masked values"):
            call()


# --- training ---


@pytest.mark.parametrize("kind", KINDS.values())
def test_a_seed_decides_everything_and_the_global_state_is_left_alone(kind: Any) -> None:
    def fit(seed: int | None) -> np.ndarray:
        return weights(kind((5,), epochs=2, random_state=seed).fit(DATA.X[:60], DATA.counts[:60]))

    first, before = fit(0), torch.get_rng_state()
    assert np.array_equal(first, fit(0))
    assert not np.array_equal(first, fit(1))
    assert not np.array_equal(fit(None), fit(None))
    assert torch.equal(before, torch.get_rng_state())


def test_training_is_that_of_plain_pytorch() -> None:
    """Full batches without dropout: the same numbers as nn.Sequential with torch.optim.Adam."""
    options = {"hidden": (6,), "dropout": 0.0, "batch_size": 300, "random_state": 0}
    start = (
        FirstOrderNetwork(epochs=1, learning_rate=1e-30, **options).fit(DATA.X, DATA.counts).module_
    )
    optimizer = torch.optim.Adam(start.parameters(), lr=0.01)
    x, y = (
        torch.tensor(DATA.X, dtype=torch.float32),
        torch.tensor(DATA.counts / 20, dtype=torch.float32),
    )
    curve = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(start(x), y)
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    network = FirstOrderNetwork(epochs=5, learning_rate=0.01, **options).fit(DATA.X, DATA.counts)
    assert network.loss_curve_ == pytest.approx(curve, rel=1e-5)
    own = torch.cat([p.detach().ravel() for p in start.parameters()]).numpy()
    assert weights(network) == pytest.approx(own, abs=1e-5)


def test_batches_hold_every_item_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def record(self: Any, outputs: Any, target: Any) -> Any:
        seen.append(target[:, 0].tolist())
        return outputs.sum()

    monkeypatch.setattr(FirstOrderNetwork, "_loss", record)
    labels = np.column_stack(
        [np.arange(1.0, 62.0), 100.0 - np.arange(1.0, 62.0)]
    )  # each item known by its share
    FirstOrderNetwork((3,), epochs=2, random_state=0).fit(DATA.X[:61], labels)
    assert [len(batch) for batch in seen] == 2 * ([8] * 7 + [5])
    epochs = [np.concatenate(seen[:8]), np.concatenate(seen[8:])]
    for epoch in epochs:
        assert np.sort(epoch) == pytest.approx(np.arange(1, 62) / 100)
    assert not np.array_equal(*epochs)


def test_early_stopping_returns_to_the_best_weights() -> None:
    options = {
        "hidden": (30,),
        "learning_rate": 0.03,
        "dropout": 0.0,
        "random_state": 0,
        "early_stopping": True,
    }
    options |= {"n_iter_no_change": 5, "validation_fraction": 0.3}
    network = FirstOrderNetwork(epochs=200, **options).fit(DATA.X[:60], DATA.counts[:60])
    best = int(np.argmin(network.validation_curve_))
    assert network.n_iter_ == len(network.validation_curve_) == best + 6 < 200
    stopped_there = FirstOrderNetwork(epochs=best + 1, **options).fit(DATA.X[:60], DATA.counts[:60])
    assert np.array_equal(weights(stopped_there), weights(network))
    with pytest.raises(ValueError, match="holds out 4 of 4 items"):
        network.set_params(validation_fraction=0.9).fit(DATA.X[:4], DATA.counts[:4])


def test_divergence_is_an_error() -> None:
    with pytest.raises(ValueError, match="training diverged"):
        FirstOrderNetwork((12,), learning_rate=1e30, epochs=50, random_state=0).fit(
            DATA.X, DATA.counts
        )


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (FirstOrderNetwork, {"hidden": 3}),
        (FirstOrderNetwork, {"hidden": (3, 0)}),
        (FirstOrderNetwork, {"dropout": 1.0}),
        (FirstOrderNetwork, {"learning_rate": 0.0}),
        (FirstOrderNetwork, {"weight_decay": -1.0}),
        (FirstOrderNetwork, {"batch_size": 0}),
        (FirstOrderNetwork, {"epochs": 1.5}),
        (FirstOrderNetwork, {"validation_fraction": 1.0}),
        (FirstOrderNetwork, {"n_iter_no_change": 0}),
        (FirstOrderNetwork, {"device": "toaster"}),
        (FirstOrderNetwork, {"random_state": "x"}),
        (SecondOrderNetwork, {"recovers": "yes"}),
        (SecondOrderNetwork, {"label_clip": 0.0}),
        (SecondOrderNetwork, {"output_l2": -1.0}),
        (IntervalNetwork, {"width": -1.0}),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(kind: Any, options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        kind(**{"epochs": 1, **options}).fit(DATA.X, DATA.counts)


# --- scikit-learn, the classifier, files ---


def test_clone_pipelines_and_grids() -> None:
    network = FirstOrderNetwork(**SMALL)
    assert clone(network).get_params() == network.get_params()
    assert not hasattr(clone(clone(network).fit(DATA.X, DATA.counts)), "module_")
    with pytest.raises(NotFittedError):
        network.predict_proba(DATA.X)
    pipeline = make_pipeline(StandardScaler(), network)
    labels = DATA.counts.argmax(axis=1)
    grid = GridSearchCV(pipeline, {"firstordernetwork__hidden": [(2,), (16,)]}, cv=2).fit(
        DATA.X, labels
    )
    assert grid.best_score_ > -0.5, "minus the cross-entropy; the uniform prediction has -1.1"


def test_predictions_are_those_of_the_module_and_do_not_depend_on_the_batch() -> None:
    network = FirstOrderNetwork(**SMALL).fit(DATA.X, DATA.counts)
    whole = network.predict_proba(DATA.X)
    with torch.no_grad():
        logits = network.module_(torch.tensor(DATA.X, dtype=torch.float32))
    assert torch.softmax(logits, 1).numpy() == pytest.approx(whole, abs=1e-5)
    assert whole.sum(axis=1) == pytest.approx(1.0, abs=1e-14)
    assert np.concatenate([network.predict_proba(x[None]) for x in DATA.X[:20]]) == pytest.approx(
        whole[:20], abs=1e-12
    )


@pytest.mark.parametrize("score", KINDS)
def test_networks_in_the_classifier_and_back_from_files(score: str, tmp_path: Path) -> None:
    estimator = make_pipeline(StandardScaler(), KINDS[score](**SMALL))
    clf = cs.ConformalCredalClassifier(estimator, score).fit(DATA.X[:100], DATA.counts[:100])
    clf.conformalize(DATA.X[100:200], DATA.counts[100:200])
    sets = clf.predict_set(DATA.X[200:], alpha=0.2)
    assert 0.65 < cs.metrics.coverage(sets, DATA.counts[200:]) < 0.95
    clf.save(tmp_path / "model")
    loaded = cs.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(DATA.X), clf.predict_proba(DATA.X))
    assert np.array_equal(loaded.predict_set(DATA.X[200:], 0.2).threshold, sets.threshold)
    network = clf.estimator_[-1]
    network.save(tmp_path / "network")
    again = cs.load(tmp_path / "network")
    assert np.array_equal(again.predict_proba(DATA.X), network.predict_proba(DATA.X))
    assert (again.get_params(), again.loss_curve_) == (network.get_params(), network.loss_curve_)


def test_without_an_estimator_the_network_fits_the_score(monkeypatch: pytest.MonkeyPatch) -> None:
    for score, kind in (
        ("kl", FirstOrderNetwork),
        ("density", SecondOrderNetwork),
        ("intervals", IntervalNetwork),
    ):
        assert type(default_estimator(cs.get_score(score))) is kind
    defaults = FirstOrderNetwork.__init__.__kwdefaults__
    monkeypatch.setattr(FirstOrderNetwork.__init__, "__kwdefaults__", {**defaults, "epochs": 1})
    assert isinstance(
        cs.ConformalCredalClassifier().fit(DATA.X, DATA.counts).estimator_, FirstOrderNetwork
    )


def test_a_second_order_network_serves_first_order_scores_by_its_mean() -> None:
    network = SecondOrderNetwork(**SMALL).fit(DATA.X, DATA.counts)
    clf = cs.ConformalCredalClassifier(network, "tv").conformalize(DATA.X, DATA.counts)
    assert np.array_equal(clf.predict_proba(DATA.X), network.predict_proba(DATA.X))


def test_torch_is_imported_only_when_asked_for_and_its_absence_is_explained() -> None:
    code = """
import sys
import credalset.predictors as p
p.SoftLabelClassifier, dir(p)
assert "torch" not in sys.modules

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoTorch())
import credalset as cs
for ask in (lambda: p.FirstOrderNetwork,
            lambda: cs.ConformalCredalClassifier().fit([[0.0]] * 4, [0, 1] * 2)):
    try:
        ask()
    except cs.MissingExtraError as error:
        assert "credalset[torch]" in str(error)
    else:
        raise SystemExit(1)
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=120)


# --- the paper's findings ---


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "score"), [(FirstOrderNetwork, "tv"), (SecondOrderNetwork, "so")])
def test_noisy_votes_widen_the_sets_and_keep_the_truth_covered(kind: Any, score: str) -> None:
    """Synthetic data, α = 0.1: the true distribution stays covered for every m,
    and sets shrink as m grows.
    """
    volumes, covered = [], []
    for m in (1, 10, 100):
        volume, inside = [], []
        for seed in range(3):
            data = cs.datasets.make_synthetic(1500, 3, n_votes=m, random_state=seed)
            network = kind(random_state=seed).fit(data.X[:500], data.counts[:500])
            clf = cs.ConformalCredalClassifier(network, score).conformalize(
                data.X[500:1000], data.counts[500:1000]
            )
            sets = clf.predict_set(data.X[1000:], alpha=0.1)
            volume.append(float(cs.metrics.mean_volume(sets)))
            inside.append(float(cs.metrics.coverage(sets, data.distributions[1000:])))
        volumes.append(np.mean(volume))
        covered.append(np.mean(inside))
    assert all(fewer > more for fewer, more in pairwise(volumes))
    assert min(covered) > 0.88
