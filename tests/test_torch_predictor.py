"""Modules of the user's own: trained, or used as they are; what they put out is declared and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import credalset as cs
from credalset.exceptions import CredalSetWarning

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from credalset.predictors import FirstOrderNetwork, TorchPredictor, fit_many  # noqa: E402

DATA = cs.datasets.make_synthetic(120, n_classes=3, n_votes=20, random_state=0)
QUICK: dict[str, Any] = {"epochs": 10, "learning_rate": 1e-2, "random_state": 0}


def module(*last: nn.Module, dropout: float = 0.2) -> nn.Sequential:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Linear(10, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 3), *last
        )


class AboveOne(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1.0 + nn.functional.softplus(x)


DECLARATIONS = [
    ("first", "logits", ()),
    ("first", "probabilities", (nn.Softmax(dim=1),)),
    ("second", "relu", ()),
    ("second", "softplus", ()),
    ("second", "exp", ()),
    ("second", "concentration", (AboveOne(),)),
]


@pytest.mark.parametrize(("order", "output", "last"), DECLARATIONS)
def test_training_from_label_distributions(order: Any, output: str, last: tuple[nn.Module, ...]) -> None:
    own = module(*last)
    before = {name: value.clone() for name, value in own.state_dict().items()}
    predictor = TorchPredictor(own, order, output, **QUICK).fit(DATA.X, DATA.counts)
    assert all(torch.equal(before[name], value) for name, value in own.state_dict().items()), "a copy is trained"
    assert predictor.loss_curve_[-1] < predictor.loss_curve_[0]
    probabilities = predictor.predict_proba(DATA.X)
    assert probabilities.sum(axis=1) == pytest.approx(1.0)
    truth = np.abs(probabilities - DATA.distributions).sum(axis=1).mean()
    assert truth < np.abs(DATA.distributions.mean(axis=0) - DATA.distributions).sum(axis=1).mean()
    score = "tv" if order == "first" else "density"
    clf = cs.ConformalCredalClassifier(predictor, score).conformalize(DATA.X, DATA.counts)
    assert len(clf.predict_set(DATA.X, alpha=0.2)) == 120
    assert hasattr(predictor, "predict_concentration") == (order == "second")


def test_two_declarations_of_the_same_network_train_alike() -> None:
    """Up to rounding, which Adam magnifies in the bias before the normalisation, whose gradient is zero."""
    options = {**QUICK, "epochs": 3}
    logits = TorchPredictor(module(), "first", "logits", **options).fit(DATA.X, DATA.counts)
    softmax = TorchPredictor(module(nn.Softmax(dim=1)), "first", "probabilities", **options).fit(DATA.X, DATA.counts)
    assert softmax.predict_proba(DATA.X) == pytest.approx(logits.predict_proba(DATA.X), abs=0.02)


def test_the_network_of_the_library_as_a_module_of_ones_own() -> None:
    """Both ways of training share the loop: without dropout they agree."""
    options = {"epochs": 3, "learning_rate": 1e-2, "random_state": 0, "dropout": 0.0}
    start = FirstOrderNetwork((6,), **{**options, "learning_rate": 1e-30, "epochs": 1}).fit(DATA.X, DATA.counts)
    network = FirstOrderNetwork((6,), **options).fit(DATA.X, DATA.counts)
    options.pop("dropout")
    own = TorchPredictor(start.module_, "first", "logits", **options).fit(DATA.X, DATA.counts)
    assert own.loss_curve_ == pytest.approx(network.loss_curve_, rel=1e-4)
    assert own.predict_proba(DATA.X) == pytest.approx(network.predict_proba(DATA.X), abs=1e-4)


def test_a_seed_decides_everything_and_the_global_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    fits = [TorchPredictor(module(), "first", "logits", **QUICK).fit(DATA.X, DATA.counts) for _ in range(2)]
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(*(fit.predict_proba(DATA.X) for fit in fits))
    other = TorchPredictor(module(), "first", "logits", **{**QUICK, "random_state": 1}).fit(DATA.X, DATA.counts)
    assert not np.array_equal(other.predict_proba(DATA.X), fits[0].predict_proba(DATA.X))
    both = fit_many([clone(fits[0]), clone(other)], [(DATA.X, DATA.counts)] * 2)
    assert np.array_equal(both[0].predict_proba(DATA.X), fits[0].predict_proba(DATA.X))


def test_early_stopping_and_warm_start() -> None:
    options = {**QUICK, "epochs": 60, "learning_rate": 0.05, "early_stopping": True, "n_iter_no_change": 3}
    predictor = TorchPredictor(module(), "first", "logits", warm_start=True, **options).fit(DATA.X, DATA.counts)
    curve = predictor.validation_curve_
    assert predictor.n_iter_ == len(curve) == int(np.argmin(curve)) + 4
    before = predictor.n_iter_
    predictor.set_params(epochs=2, early_stopping=False).fit(DATA.X, DATA.counts)
    assert predictor.n_iter_ == before + 2


def test_features_of_any_shape() -> None:
    images = np.random.default_rng(0).normal(size=(30, 1, 4, 4))
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))
    predictor = TorchPredictor(network, "first", "logits", epochs=2).fit(images, np.eye(2)[[0, 1] * 15])
    assert predictor.predict_proba(images).shape == (30, 2)
    tokens = torch.arange(30).reshape(15, 2)
    bag = nn.EmbeddingBag(30, 2)
    predictor = TorchPredictor(bag, "first", "logits", epochs=2).fit(tokens, np.eye(2)[[0] * 8 + [1] * 7])
    assert predictor.predict(tokens).shape == (15,)
    clf = cs.ConformalCredalClassifier(predictor, "tv").conformalize(tokens, np.eye(2)[[0] * 8 + [1] * 7])
    assert len(clf.predict_set(tokens, alpha=0.2)) == 15


# --- prefit ---


def test_a_prefit_module_is_used_as_it_is() -> None:
    trained = module().train()
    predictor = TorchPredictor(trained, "first", "logits", prefit=True)
    with torch.no_grad():
        logits = trained.eval()(torch.tensor(DATA.X, dtype=torch.float32)).numpy()
    trained.train()
    assert predictor.predict_proba(DATA.X) == pytest.approx(special.softmax(logits, axis=1), abs=1e-6)
    assert trained.training, "the mode is put back"
    clf = cs.ConformalCredalClassifier(predictor, "kl").conformalize(DATA.X, DATA.counts)
    assert len(clf.predict_set(DATA.X[:5])) == 5
    assert predictor.predict(DATA.X).max() <= 2
    with pytest.raises(ValueError, match=r"is prefit.*prefit=False to train a copy"):
        predictor.fit(DATA.X, DATA.counts)
    with pytest.raises(NotFittedError, match="Call fit, or pass prefit=True"):
        TorchPredictor(trained, "first", "logits").predict_proba(DATA.X)


# --- declarations ---


class Constant(nn.Module):
    def __init__(self, *row: float) -> None:
        super().__init__()
        self.row = nn.Parameter(torch.tensor(row))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.row.expand(len(x), -1)


@pytest.mark.parametrize(
    ("row", "order", "output", "message"),
    [
        ((0.5, 0.6, 0.7), "first", "probabilities", "do not sum to one"),
        ((-0.5, 0.8, 0.7), "first", "probabilities", "contains negative values"),
        ((0.2, 0.3, 0.5), "second", "concentration", "concentrations of at least 1"),
        ((float("nan"), 0.3, 0.5), "first", "logits", "contains NaN or infinity"),
        ((0.2, 0.8), "first", "probabilities", r"shape \(8, 3\), but returns \(8, 2\)"),
    ],
)
def test_outputs_that_contradict_their_declaration(row: Any, order: Any, output: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TorchPredictor(Constant(*row), order, output).fit(DATA.X, DATA.counts)
    if len(row) == 3:
        prefit = TorchPredictor(Constant(*row), order, output, prefit=True)
        with pytest.raises(ValueError, match=message):
            prefit.predict_proba(DATA.X)


def test_probabilities_declared_as_logits_are_noticed() -> None:
    predictor = TorchPredictor(Constant(0.2, 0.3, 0.5), "first", "logits", prefit=True)
    with pytest.warns(CredalSetWarning, match="declared as logits, but every row is a probability distribution"):
        predictor.predict_proba(DATA.X)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((Constant(1.0, 2.0, 3.0), "third", "logits"), ValueError, "order must be one of 'first', 'second'"),
        ((Constant(1.0, 2.0, 3.0), "first", "relu"), ValueError, "one of 'logits', 'probabilities', but is 'relu'"),
        ((Constant(1.0, 2.0, 3.0), "second", "logits"), ValueError, "module of second order must be one of 'relu'"),
        ((nn.Identity(), "second", "relu"), ValueError, "must return one number per class"),
        ((nn.Linear, "first", "logits"), TypeError, "Pass an object, not the class"),
        ((lambda x: x, "first", "logits"), TypeError, "module must be a torch.nn.Module"),
    ],
)
def test_wrong_arguments(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TorchPredictor(*arguments).fit(DATA.X, DATA.counts)


def test_a_module_without_weights_cannot_be_trained() -> None:
    with pytest.raises(ValueError, match="no parameters to train"):
        TorchPredictor(nn.Identity(), "first", "logits").fit(DATA.X[:, :3], DATA.counts)


def test_frozen_layers_stay_as_they_are() -> None:
    own = module()
    own[0].requires_grad_(False)
    predictor = TorchPredictor(own, "first", "logits", **QUICK).fit(DATA.X, DATA.counts)
    assert torch.equal(predictor.module_[0].weight, own[0].weight)
    assert not torch.equal(predictor.module_[4].weight, own[4].weight)
