"""The networks as scikit-learn estimators, in the classifier and in pipelines."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
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

from credalset.predictors import FirstOrderNetwork, SecondOrderNetwork, fit_many  # noqa: E402

DATA = cs.datasets.make_synthetic(300, n_classes=3, n_votes=20, random_state=0)
SMALL: dict[str, Any] = {"hidden": (16,), "epochs": 15, "learning_rate": 2e-2, "batch_size": 25, "random_state": 0}


@parametrize_with_checks([FirstOrderNetwork((16,), epochs=20, learning_rate=2e-2, dropout=0.0, batch_size=32)])
def test_scikit_learn_estimator_checks(estimator: object, check: object) -> None:
    check(estimator)  # type: ignore[operator]


@pytest.mark.slow
@parametrize_with_checks(
    [SecondOrderNetwork((16,), epochs=20, learning_rate=2e-2, dropout=0.0, link="softplus", batch_size=32)]
)
def test_scikit_learn_estimator_checks_of_the_second_order(estimator: object, check: object) -> None:
    """What they ask goes through the same base class, which `test_scikit_learn_estimator_checks` asks on."""
    check(estimator)  # type: ignore[operator]


def test_the_defaults_are_those_of_the_paper() -> None:
    network = SecondOrderNetwork()
    assert network.hidden == (256, 64, 16)
    assert (network.activation, network.dropout, network.link) == ("relu", 0.3, "relu")
    assert (network.optimizer, network.learning_rate, network.weight_decay) == ("adam", 1e-4, 0.0)
    assert (network.batch_size, network.epochs, network.early_stopping) == (8, 100, False)
    assert (network.label_clip, network.output_l2) == (1e-6, 1e-4)
    first = FirstOrderNetwork().get_params()
    assert first == {name: value for name, value in network.get_params().items() if name in first}
    layers = FirstOrderNetwork(epochs=1).fit(DATA.X[:9], DATA.counts[:9]).module_
    shapes = [tuple(layer.weight.shape) for layer in layers if hasattr(layer, "weight")]
    assert shapes == [(256, 10), (64, 256), (16, 64), (3, 16)]
    assert type(layers[-2]).__name__ == "Dropout"


# --- learning ---


def test_soft_labels_recover_the_conditional_distribution() -> None:
    """Softmax regression is the true model; the network gets as near as the votes allow."""
    data = cs.datasets.make_synthetic(3000, n_classes=3, n_votes=100, random_state=1)
    options = {"dropout": 0.0, "batch_size": 50, "random_state": 0}
    linear = FirstOrderNetwork((), learning_rate=0.05, epochs=20, **options)
    deep = FirstOrderNetwork((32, 16), learning_rate=0.005, epochs=20, **options)
    for network, bound in ((linear, 0.02), (deep, 0.05)):
        predicted = network.fit(data.X[:2000], data.counts[:2000]).predict_proba(data.X[2000:])
        distance = np.abs(predicted - data.distributions[2000:]).sum(axis=1).mean() / 2
        assert distance < bound
    entropy = -(data.distributions * np.log(data.distributions)).sum(axis=1).mean()
    assert linear.loss_curve_[-1] == pytest.approx(entropy, abs=0.05)


@pytest.mark.parametrize("link", ["relu", "softplus", "exp"])
def test_a_known_dirichlet_is_recovered(link: str) -> None:
    """Labels drawn from Dir(θ(x)) with two kinds of items: maximum likelihood finds both concentrations."""
    rng = np.random.default_rng(0)
    theta = np.array([[8.0, 3.0, 2.0], [2.0, 2.0, 6.0]])
    kind = rng.integers(2, size=1500)
    labels = np.array([rng.dirichlet(theta[k]) for k in kind])
    features = np.eye(2)[kind]
    network = SecondOrderNetwork(
        (16,), link=link, dropout=0.0, output_l2=0.0, batch_size=50, learning_rate=0.02, epochs=30, random_state=1
    )
    if link == "relu":  # outputs that start below zero have no gradient and would stay there
        network.set_params(epochs=1, warm_start=True).fit(features, labels).set_params(epochs=30)
        with torch.no_grad():
            network.module_[-1].bias.fill_(3.0)
    found = network.fit(features, labels).predict_concentration(np.eye(2))
    assert found == pytest.approx(theta, rel=0.15)
    assert network.predict_proba(np.eye(2)) == pytest.approx(theta / theta.sum(axis=1, keepdims=True), abs=0.04)


def test_a_stuck_relu_predicts_the_uniform_density() -> None:
    """What the paper's link may end in is legal: all outputs zero, all concentrations one."""
    network = SecondOrderNetwork((4,), epochs=1, random_state=0).fit(DATA.X, DATA.counts)
    with torch.no_grad():
        network.module_[-1].bias.fill_(-1e6)
    assert (network.predict_concentration(DATA.X) == 1.0).all()
    assert network.predict_proba(DATA.X) == pytest.approx(1 / 3)


def test_labels_of_every_kind() -> None:
    distributions = DATA.counts / DATA.counts.sum(axis=1, keepdims=True)
    expected = FirstOrderNetwork(**SMALL).fit(DATA.X, distributions).predict_proba(DATA.X)
    names = ["no", "maybe", "yes"]
    votes = cs.Annotations.from_counts(DATA.counts, classes=names)
    for labels in (DATA.counts, votes, pd.DataFrame(DATA.counts, columns=names)):
        network = FirstOrderNetwork(**SMALL).fit(DATA.X, labels)
        assert np.array_equal(network.predict_proba(DATA.X), expected)
    assert network.classes_.tolist() == names
    assert set(network.predict(DATA.X)) <= set(names)
    hard = np.array(names)[DATA.counts.argmax(axis=1)]
    assert (FirstOrderNetwork(**SMALL).fit(DATA.X, hard).predict(DATA.X) == hard).mean() > 0.8
    with pytest.raises(ValueError, match="X has 300 items, but Y has 10"):
        FirstOrderNetwork(**SMALL).fit(DATA.X, DATA.counts[:10])
    with pytest.raises(ValueError, match="Normalise the rows or pass the raw counts"):
        FirstOrderNetwork(**SMALL).fit(DATA.X, DATA.distributions * 2)


# --- scikit-learn ---


def test_not_fitted() -> None:
    for ask in (FirstOrderNetwork().predict_proba, SecondOrderNetwork().predict_concentration):
        with pytest.raises(NotFittedError):
            ask(DATA.X)


def test_clone_parameters_pipelines_and_grids() -> None:
    network = FirstOrderNetwork(**SMALL)
    assert clone(network).get_params() == network.get_params()
    fitted = clone(network).fit(DATA.X, DATA.counts)
    assert not hasattr(clone(fitted), "module_")
    pipeline = make_pipeline(StandardScaler(), network)
    shifted = pipeline.fit(DATA.X * 50 + 1000, DATA.counts).predict_proba(DATA.X * 50 + 1000)
    plain = make_pipeline(StandardScaler(), network).fit(DATA.X, DATA.counts).predict_proba(DATA.X)
    assert shifted == pytest.approx(plain, abs=1e-3)
    labels = DATA.counts.argmax(axis=1)
    grid = GridSearchCV(pipeline, {"firstordernetwork__hidden": [(2,), (16,)]}, cv=2).fit(DATA.X, labels)
    assert grid.best_score_ > -0.5, "minus the cross-entropy; a coin with three sides has -1.1"


def test_predictions_do_not_depend_on_the_batch() -> None:
    network = FirstOrderNetwork(**SMALL).fit(DATA.X, DATA.counts)
    whole = network.predict_proba(DATA.X)
    assert np.concatenate([network.predict_proba(DATA.X[i : i + 1]) for i in range(300)]) == pytest.approx(
        whole, abs=1e-12
    )
    assert whole.sum(axis=1) == pytest.approx(1.0, abs=1e-14)


def test_the_module_is_an_ordinary_one() -> None:
    network = FirstOrderNetwork(**SMALL).fit(DATA.X, DATA.counts)
    with torch.no_grad():
        logits = network.module_(torch.tensor(DATA.X, dtype=torch.float32))
    assert torch.softmax(logits, 1).numpy() == pytest.approx(network.predict_proba(DATA.X), abs=1e-5)


# --- in the classifier ---


@pytest.mark.parametrize("score", ["tv", "kl", "so", "density"])
def test_networks_in_the_classifier(score: str) -> None:
    kind = SecondOrderNetwork if score in ("so", "density") else FirstOrderNetwork
    pipeline = make_pipeline(StandardScaler(), kind(**SMALL))
    for estimator in (kind(**SMALL), pipeline, make_pipeline(kind(**SMALL))):
        clf = cs.ConformalCredalClassifier(estimator, score).fit(DATA.X[:100], DATA.counts[:100])
        clf.conformalize(DATA.X[100:200], DATA.counts[100:200])
        sets = clf.predict_set(DATA.X[200:], alpha=0.2)
        assert 0.65 < cs.metrics.coverage(sets, DATA.counts[200:]) < 0.95
    labels = np.array(["a", "b", "c"])[DATA.counts.argmax(axis=1)]
    labelled = cs.ConformalCredalClassifier(kind(**SMALL), score).fit(DATA.X, labels)
    assert labelled.classes_.tolist() == ["a", "b", "c"]
    assert set(labelled.predict(DATA.X)) <= {"a", "b", "c"}


def test_without_an_estimator_the_network_fits_the_score(monkeypatch: pytest.MonkeyPatch) -> None:
    assert repr(default_estimator(cs.get_score("kl"))) == "FirstOrderNetwork()"
    assert repr(default_estimator(cs.get_score("density"))) == "SecondOrderNetwork()"
    monkeypatch.setattr(
        FirstOrderNetwork.__init__, "__kwdefaults__", {**FirstOrderNetwork.__init__.__kwdefaults__, "epochs": 1}
    )
    clf = cs.ConformalCredalClassifier().fit(DATA.X, DATA.counts)
    assert isinstance(clf.estimator_, FirstOrderNetwork)
    assert clf.estimator_.n_iter_ == 1


def test_a_second_order_network_serves_first_order_scores_by_its_mean() -> None:
    network = SecondOrderNetwork(**SMALL, link="softplus").fit(DATA.X, DATA.counts)
    clf = cs.ConformalCredalClassifier(network, "tv").conformalize(DATA.X, DATA.counts)
    assert np.array_equal(clf.predict_proba(DATA.X), network.predict_proba(DATA.X))
    with pytest.raises(TypeError, match="needs an estimator with predict_concentration, but FirstOrderNetwork"):
        cs.ConformalCredalClassifier(FirstOrderNetwork(**SMALL).fit(DATA.X, DATA.counts), "so").conformalize(
            DATA.X, DATA.counts
        )


# --- the extra ---


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120
    ).stdout.strip()


def test_torch_is_imported_only_when_asked_for_and_missed_by_a_clear_word() -> None:
    code = """
import sys
import credalset.predictors as p
p.SoftLabelClassifier
dir(p)
print("torch" in sys.modules)

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoTorch())
import credalset as cs
from credalset.exceptions import MissingExtraError
fit = cs.ConformalCredalClassifier().fit
for ask in (lambda: cs.predictors.FirstOrderNetwork, lambda: fit([[0.0]] * 4, [0, 1] * 2)):
    try:
        ask()
    except MissingExtraError as error:
        print(error)
try:
    cs.predictors.Nonsense
except AttributeError as error:
    print(str(error).partition(". It has ")[0])
"""
    assert run(code).splitlines() == [
        "False",
        "A neural network needs the package 'torch', which is not installed. "
        "Install it with: pip install 'credalset[torch]'",
        "The default estimator, a neural network, needs the package 'torch', which is not installed. "
        "Install it with: pip install 'credalset[torch]' (or pass an estimator of your own with predict_proba)",
        "module 'credalset.predictors' has no attribute 'Nonsense'",
    ]


# --- the paper's findings ---


@pytest.mark.slow
def test_noisy_votes_widen_the_sets_and_keep_the_truth_covered() -> None:
    """Synthetic data, α = 0.1: the true distribution stays covered for every m, and thresholds shrink as m grows."""
    seeds, votes = range(4), (1, 5, 10, 100)
    runs = [(cs.datasets.make_synthetic(1500, 3, n_votes=m, random_state=seed), m) for m in votes for seed in seeds]
    networks = [FirstOrderNetwork(random_state=i) for i in range(len(runs))]
    fit_many(networks, [(data.X[:500], data.counts[:500]) for data, _ in runs])
    thresholds: dict[int, list[float]] = {m: [] for m in votes}
    covered: dict[int, list[float]] = {m: [] for m in votes}
    for network, (data, m) in zip(networks, runs, strict=True):
        clf = cs.ConformalCredalClassifier(network, "tv").conformalize(data.X[500:1000], data.counts[500:1000])
        sets = clf.predict_set(data.X[1000:], alpha=0.1)
        thresholds[m].append(clf.calibration_.threshold(0.1))
        covered[m].append(float(cs.metrics.coverage(sets, data.distributions[1000:])))
    means = [np.mean(thresholds[m]) for m in votes]
    assert all(fewer > more for fewer, more in pairwise(means))
    assert all(np.mean(covered[m]) > 0.88 for m in votes)
    assert all(np.mean(covered[m]) > 0.98 for m in (1, 5))
