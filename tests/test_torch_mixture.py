"""The mixture learner: losses against SciPy, what it recovers, what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats
from sklearn.linear_model import LogisticRegression

torch = pytest.importorskip("torch")

import credalset as cs  # noqa: E402
from credalset.predictors import DirichletMixtureNetwork, SecondOrderNetwork, fit_many  # noqa: E402
from credalset.predictors.torch import losses  # noqa: E402
from credalset.predictors.torch.heads import DirichletMixture  # noqa: E402
from tests.test_torch_losses import differences, gradient, tensor  # noqa: E402

RNG = np.random.default_rng(0)
OUTPUTS = RNG.normal(0.0, 1.0, (12, 8))  # two components over three classes
LABELS = RNG.dirichlet(np.full(3, 0.4), 12)
COUNTS = RNG.multinomial(7, LABELS).astype(float)


def parts(outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    table = outputs.reshape(-1, 2, 4)
    return special.softmax(table[..., 0], axis=1), np.exp(table[..., 1:])


def expected_loss(outputs: np.ndarray, likelihood: str) -> np.ndarray:
    weights, theta = parts(outputs)
    result = []
    for w, t, y, n in zip(weights, theta, LABELS, COUNTS, strict=True):
        if likelihood == "density":
            pulled = (y + 0.01) / 1.03
            values = [stats.dirichlet(one).pdf(pulled / pulled.sum()) for one in t]
        else:
            order = special.gammaln(n.sum() + 1) - special.gammaln(n + 1).sum()
            values = [np.exp(stats.dirichlet_multinomial(one, 7).logpmf(n.astype(int)) - order) for one in t]
        result.append(-np.log(w @ np.array(values)))
    return np.array(result)


@pytest.mark.parametrize("likelihood", ["density", "counts"])
def test_loss_and_gradient_against_scipy(likelihood: str) -> None:
    head = DirichletMixture(2, 0.01, likelihood)
    target = tensor(LABELS if likelihood == "density" else COUNTS)
    assert head.item_loss(tensor(OUTPUTS), target).numpy() == pytest.approx(expected_loss(OUTPUTS, likelihood))
    found = gradient(lambda z: head.item_loss(z, target), OUTPUTS)
    assert found == pytest.approx(differences(lambda z: expected_loss(z, likelihood), OUTPUTS), abs=1e-5)


def test_reading_gives_weights_and_concentrations() -> None:
    weights, theta = parts(OUTPUTS)
    mixture = DirichletMixture(2).read(tensor(OUTPUTS))
    assert mixture[..., 0] == pytest.approx(weights)
    assert mixture[..., 1:] == pytest.approx(theta)
    extreme = DirichletMixture(2).read(tensor(OUTPUTS * 1e4))
    assert np.isfinite(extreme).all()
    assert extreme[..., 1:].min() > 0


def test_one_vote_is_a_draw_from_the_mean() -> None:
    theta = tensor(RNG.gamma(2.0, 1.0, (5, 3)))
    for k in range(3):
        vote = torch.eye(3, dtype=torch.float64)[k].expand(5, 3)
        found = losses.dirichlet_multinomial_log_likelihood(theta, vote).exp()
        assert found.numpy() == pytest.approx((theta[:, k] / theta.sum(dim=1)).numpy())


def boundary_data(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels at one of two ends, which one only chance tells; the feature moves both."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1))
    share = 1 / (1 + np.exp(-x[:, 0]))
    ends = np.where(
        rng.random(n)[:, None] < 0.5, np.c_[share, 0 * share, 1 - share], np.c_[0 * share, share, 1 - share]
    )
    return x, np.array([rng.dirichlet(np.maximum(200 * e, 0.05)) for e in ends])


def test_two_ends_are_learned_as_two_ends() -> None:
    x, y = boundary_data(600, 0)
    network = DirichletMixtureNetwork((16,), n_components=4, epochs=60, learning_rate=5e-3, random_state=0).fit(x, y)
    x_test, y_test = boundary_data(400, 1)
    score = cs.scores.NegativeLogDensity()
    nll = score(network.predict_density(x_test), y_test).mean()
    single = DirichletMixtureNetwork((16,), n_components=1, epochs=60, learning_rate=5e-3, random_state=0).fit(x, y)
    assert nll < score(single.predict_density(x_test), y_test).mean() - 0.5
    middle = np.c_[(1 - y_test[:, 2:]) / 2, (1 - y_test[:, 2:]) / 2, y_test[:, 2:]]
    far = score(network.predict_density(x_test), middle).mean()
    assert far > nll + 2.0, "between the two ends there is nothing"


def test_counts_model_the_distribution_behind_few_votes() -> None:
    """With three votes, shares lie on a coarse lattice; the truth here is one interior distribution."""
    rng = np.random.default_rng(0)
    truth = np.array([0.5, 0.3, 0.2])
    counts, x = rng.multinomial(3, truth, 600).astype(float), rng.normal(size=(600, 2))
    options: dict[str, Any] = {
        "hidden": (8,),
        "n_components": 2,
        "epochs": 60,
        "learning_rate": 1e-2,
        "random_state": 0,
    }
    of_counts = DirichletMixtureNetwork(likelihood="counts", **options).fit(x, counts).predict_density(x)
    of_shares = DirichletMixtureNetwork(**options).fit(x, counts).predict_density(x)
    score = cs.scores.NegativeLogDensity()
    behind = np.tile(truth, (600, 1))
    assert score(of_counts, behind).mean() < score(of_shares, behind).mean() - 1.0
    assert score.mean(score.check_prediction(of_counts)).mean(axis=0) == pytest.approx(truth, abs=0.05)


def test_several_networks_are_the_mean_of_each() -> None:
    data = cs.datasets.make_synthetic(80, n_classes=3, random_state=0)
    options: dict[str, Any] = {"hidden": (6,), "n_components": 2, "epochs": 3}
    several = DirichletMixtureNetwork(n_networks=3, random_state=0, **options).fit(data.X, data.counts)
    mixture = several.predict_density(data.X[:5])
    assert mixture.shape == (5, 6, 4)
    assert mixture[..., 0].sum(axis=1) == pytest.approx(np.ones(5))
    seeds = np.random.default_rng(0).integers(2**63, size=3)
    alone = [DirichletMixtureNetwork(random_state=int(seed), **options).fit(data.X, data.counts) for seed in seeds]
    parts = np.concatenate([one.predict_density(data.X[:5]) for one in alone], axis=1)
    parts[..., 0] /= 3
    assert mixture == pytest.approx(parts, rel=1e-4)
    assert several.loss_curve_ == pytest.approx(np.mean([one.loss_curve_ for one in alone], axis=0), rel=1e-5)
    again = fit_many([DirichletMixtureNetwork(n_networks=3, random_state=0, **options)], [(data.X, data.counts)])
    assert again[0].predict_density(data.X[:5]) == pytest.approx(mixture, rel=1e-5)
    several.set_params(warm_start=True).fit(data.X, data.counts)
    assert several.n_iter_ == 6
    stopped = DirichletMixtureNetwork(n_networks=2, early_stopping=True, random_state=0, **options)
    assert len(stopped.fit(data.X, data.counts).validation_curve_) == 3
    with pytest.raises(ValueError, match="n_networks must be at least 1"):
        DirichletMixtureNetwork(n_networks=0, **options).fit(data.X, data.counts)


@pytest.mark.parametrize("changed", [{"n_networks": 2}, {"n_components": 5}, {"hidden": (7, 3)}])
def test_a_warm_start_needs_the_same_shape(changed: dict[str, Any]) -> None:
    data = cs.datasets.make_synthetic(40, n_classes=3, random_state=0)
    for n_networks in (1, 3):
        network = DirichletMixtureNetwork((4,), n_networks=n_networks, epochs=1, warm_start=True, random_state=0)
        network.fit(data.X, data.counts).set_params(**changed)
        with pytest.raises(ValueError, match="warm_start continues with the network of the last fit"):
            network.fit(data.X, data.counts)


def test_density_sets_from_the_classifier(tmp_path: Any) -> None:
    data = cs.datasets.make_synthetic(600, n_classes=3, n_votes=20, random_state=0)
    estimator = DirichletMixtureNetwork((16,), n_components=3, epochs=5, likelihood="counts", random_state=0)
    clf = cs.ConformalCredalClassifier(estimator, nonconformity="density")
    clf.fit(data.X[:300], data.counts[:300]).conformalize(data.X[300:500], data.counts[300:500])
    sets = clf.predict_set(data.X[500:], alpha=0.2)
    assert sets.shape == "density set"
    assert 0.6 < sets.contains(data.counts[500:] / 20).mean() <= 1.0
    assert clf.predict_proba(data.X[500:]) == pytest.approx(clf.estimator_.predict_proba(data.X[500:]))
    assert clf.predict_proba(data.X[500:]).sum(axis=1) == pytest.approx(np.ones(100))
    again = cs.ConformalCredalClassifier(estimator, nonconformity="density").fit_conformalize(data.X, data.counts, 200)
    assert len(again.calibration_) == 200
    rows = clf.evaluate(data.X[500:], data.counts[500:], alpha=[0.1, 0.2])
    assert len(list(rows)) == 2


def test_what_is_refused() -> None:
    data = cs.datasets.make_synthetic(50, n_classes=3, random_state=0)
    small: dict[str, Any] = {"hidden": (4,), "epochs": 1, "random_state": 0}
    with pytest.raises(ValueError, match="likelihood='counts' needs annotation counts"):
        DirichletMixtureNetwork(likelihood="counts", **small).fit(data.X, data.distributions)
    with pytest.raises(ValueError, match="likelihood must be one of 'density', 'counts', not 'votes'"):
        DirichletMixtureNetwork(likelihood="votes", **small).fit(data.X, data.counts)
    with pytest.raises(ValueError, match="pull must be positive"):
        DirichletMixtureNetwork(pull=0.0, **small).fit(data.X, data.counts)
    with pytest.raises(TypeError, match="n_components must be a whole number"):
        DirichletMixtureNetwork(n_components=1.5, **small).fit(data.X, data.counts)
    mixture = DirichletMixtureNetwork(**small).fit(data.X, data.counts)
    with pytest.raises(TypeError, match="score 'so' needs an estimator with predict_concentration"):
        cs.ConformalCredalClassifier(mixture, nonconformity="so").conformalize(data.X, data.counts)
    with pytest.raises(TypeError, match="score 'density' needs an estimator with predict_concentration"):
        cs.ConformalCredalClassifier(LogisticRegression(), nonconformity="density").fit(
            data.X, data.counts
        ).conformalize(data.X, data.counts)


SECOND_ORDER: dict[str, tuple[Any, str]] = {
    "relative likelihood": (SecondOrderNetwork, "so"),
    "density": (SecondOrderNetwork, "density"),
    "mixture": (DirichletMixtureNetwork, "density"),
    "mixture of counts": (lambda **seed: DirichletMixtureNetwork(likelihood="counts", **seed), "density"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SECOND_ORDER)
def test_more_votes_make_smaller_sets_that_cover(name: str) -> None:
    """m = 1, 5, 10, 100 votes per item: noisy labels are covered at every m, and sets shrink as votes come in."""
    make, score = SECOND_ORDER[name]
    n_seeds, votes = 4, (1, 5, 10, 100)
    cells = [(seed, m) for seed in range(n_seeds) for m in votes]
    data = [cs.datasets.make_synthetic(1500, n_classes=3, n_votes=m, random_state=seed) for seed, m in cells]
    networks = fit_many([make(random_state=s) for s, _ in cells], [(d.X[:500], d.counts[:500]) for d in data])
    covered, volume = dict.fromkeys(votes, 0), dict.fromkeys(votes, 0.0)
    for (_, m), d, network in zip(cells, data, networks, strict=True):
        clf = cs.ConformalCredalClassifier(network, nonconformity=score)
        sets = clf.conformalize(d.X[500:1000], d.counts[500:1000]).predict_set(d.X[1000:], alpha=0.1)
        covered[m] += int(sets.contains(d.counts[1000:] / m).sum())
        volume[m] += sets.volume().mean() / n_seeds
    # The covered items of one seed are beta-binomial; four of them, and ties only add to the coverage.
    law = stats.betabinom(500, 451, 50)
    low = 500 * n_seeds * 0.9 - 4.5 * np.sqrt(n_seeds) * law.std()
    assert min(covered.values()) > low
    assert volume[100] < volume[10] < 0.97
    if name == "mixture":
        assert volume[1] < 1e-4, "single votes are corners, and a density of shares hugs them"
    else:
        assert volume[100] < 0.5 * volume[1]
