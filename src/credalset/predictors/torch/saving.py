"""Networks as plain values and a safetensors file, and back. Nothing here is pickled or executed."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from credalset._validation import as_positive_int
from credalset.exceptions import FileFormatError, MissingExtraError
from credalset.persistence.plain import is_whole, refusing, require
from credalset.predictors.torch.base import TorchEstimator
from credalset.predictors.torch.estimators import FirstOrderNetwork, NetworkEstimator, SecondOrderNetwork
from credalset.predictors.torch.intervals import IntervalNetwork
from credalset.predictors.torch.mixture import DirichletMixtureNetwork
from credalset.predictors.torch.prototypes import PrototypeNetwork
from credalset.predictors.torch.torch_predictor import TorchPredictor

#: estimators that can be saved; a new learner adds itself here
SAVEABLE: dict[str, type[TorchEstimator]] = {
    kind.__name__: kind
    for kind in (
        DirichletMixtureNetwork,
        FirstOrderNetwork,
        IntervalNetwork,
        PrototypeNetwork,
        SecondOrderNetwork,
        TorchPredictor,
    )
}
CURVES = ("loss_curve", "validation_curve")


def dump_network(estimator: TorchEstimator) -> tuple[dict[str, Any], bytes]:
    """Return the type, parameters and training curves of a fitted estimator, and its weights."""
    name = type(estimator).__name__
    if SAVEABLE.get(name) is not type(estimator):
        raise TypeError(
            f"{name} is not one of credalset's own networks and cannot be saved. "
            "Save the calibration alone with classifier.calibration_.save(path), and the weights by their own means."
        )
    values: dict[str, Any] = {"type": name, "params": plain_params(estimator)}
    for curve in CURVES:
        if hasattr(estimator, f"{curve}_"):
            values[curve] = [float(loss) for loss in getattr(estimator, f"{curve}_")]
    module = estimator.module if getattr(estimator, "prefit", False) else estimator.module_
    return values, dump_weights(module)


def load_network(
    values: dict[str, Any], weights: bytes, fitted: dict[str, Any], module: nn.Module | None
) -> TorchEstimator:
    """Rebuild an estimator; ``fitted`` holds its checked classes and features."""
    name = values.get("type")
    is_known = isinstance(name, str) and name in SAVEABLE
    require(is_known, f"holds a network of type {name!r}, which is not known here.")
    kind = SAVEABLE[str(name)]
    if kind is TorchPredictor and module is None:
        raise ValueError(
            "module is missing: what was saved are the weights of a module of your own. Pass an object of the same "
            "class to load them into: credalset.load(path, module=...)."
        )
    if kind is not TorchPredictor and module is not None:
        raise ValueError(f"module was given, but a {name} builds its own network. Load it without module.")
    estimator = _build(kind, values.get("params"), module)
    network = _load_into(estimator, load_weights(weights), fitted)
    curves = {curve: _curve(values[curve]) for curve in CURVES if curve in values}
    if not getattr(estimator, "prefit", False):
        fitted = fitted | {"module_": network.eval(), "n_iter_": len(curves.get("loss_curve", ()))}
    for name, value in (fitted | {f"{curve}_": losses for curve, losses in curves.items()}).items():
        setattr(estimator, name, value)
    return estimator


def plain_params(estimator: TorchEstimator) -> dict[str, Any]:
    """Return the constructor's parameters as JSON values; a generator in place of a seed is forgotten."""
    params = {name: value for name, value in estimator.get_params(deep=False).items() if name != "module"}
    if not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None
    params["device"] = str(params["device"])
    if "hidden" in params:
        params["hidden"] = [_plain(width) for width in params["hidden"]]
    return {name: _plain(value) for name, value in params.items()}


def dump_weights(module: nn.Module) -> bytes:
    """Write a module's weights and buffers in safetensors format."""
    state = module.state_dict()
    odd = [name for name, value in state.items() if not isinstance(value, Tensor)]
    if odd:
        raise TypeError(f"the module keeps {odd[0]!r}, which is not a tensor, among its weights and cannot be saved.")
    # Tensors that share memory are written apart, which the format asks for.
    return bytes(
        _safetensors().save({name: value.detach().cpu().contiguous().clone() for name, value in state.items()})
    )


def load_weights(data: bytes) -> dict[str, Tensor]:
    """Read weights in safetensors format."""
    safetensors = _safetensors()
    try:
        weights: dict[str, Tensor] = safetensors.load(data)
    except Exception as error:  # whatever a damaged or forged file makes the reader trip over
        raise FileFormatError(f"has weights that cannot be read: {error}") from None
    return weights


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise MissingExtraError("Saving or loading a network", "safetensors", "torch") from None
    return safetensors.torch


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _build(kind: type[TorchEstimator], params: Any, module: nn.Module | None) -> TorchEstimator:
    own: dict[str, Any] = {} if module is None else {"module": module}
    has_all = isinstance(params, dict) and set(params) == set(kind._get_param_names()) - {"module"}
    require(has_all, f"does not have the parameters of a {kind.__name__}.")
    are_flags = all(isinstance(params[field.name], bool) for field in fields(kind) if field.type == "bool")
    seed, device = params["random_state"], params["device"]
    is_possible = are_flags and (seed is None or is_whole(seed)) and isinstance(device, str)
    require(is_possible, f"has parameters that a {kind.__name__} cannot have.")
    with refusing(f"has unusable parameters for a {kind.__name__}"):
        hidden = {"hidden": tuple(params["hidden"])} if "hidden" in params else {}
        estimator = kind(**{**params, **hidden, **own})
        estimator._head()
        estimator._check_options()
    return estimator


def _load_into(estimator: TorchEstimator, weights: dict[str, Tensor], fitted: dict[str, Any]) -> nn.Module:
    """Check names and shapes before anything is allocated, then take the weights over."""
    if not isinstance(estimator, NetworkEstimator):
        _check_fit(estimator.module.state_dict(), weights, "has weights that do not fit the module")
        estimator.module.load_state_dict(weights)
        return estimator.module
    n_classes, n_features = len(fitted.get("classes_", ())), fitted.get("n_features_in_", 0)
    require(n_classes >= 2 and n_features >= 1, "does not say which classes and features its network has.")
    with refusing("describes a network that cannot be built"):
        n_networks = as_positive_int(getattr(estimator, "n_networks", 1), "n_networks")
        is_complete = len(weights) == 2 * (len(estimator.hidden) + 1) * n_networks
        require(is_complete, f"does not have the weights of {len(estimator.hidden)} hidden layers.")
        network = estimator._empty_module(n_features, n_classes)
    _check_fit(network.state_dict(), weights, "contradicts itself: its weights do not fit its network")
    network.load_state_dict(weights, assign=True)
    return network


def _check_fit(expected: dict[str, Tensor], weights: dict[str, Tensor], sentence: str) -> None:
    for odd in sorted(set(expected) ^ set(weights)):
        raise FileFormatError(f"{sentence}: {odd!r} {'is missing' if odd in expected else 'is not part of it'}.")
    for name, own in expected.items():
        found = weights[name]
        shapes = f"{tuple(found.shape)} instead of {tuple(own.shape)}"
        require(own.shape == found.shape, f"{sentence}: {name!r} has shape {shapes}.")
        require(own.dtype == found.dtype, f"{sentence}: {name!r} is of type {found.dtype} instead of {own.dtype}.")
        is_finite = not found.is_floating_point() or bool(torch.isfinite(found).all())
        require(is_finite, f"{sentence}: {name!r} contains NaN or infinity.")


def _curve(values: Any) -> list[float]:
    is_curve = isinstance(values, list) and all(isinstance(value, float) for value in values)
    require(is_curve, "has no valid record of its training.")
    return list(values)
