"""The weights of networks as arrays, and networks from them (extra ``torch``)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from credalset._typing import AnyArray
from credalset.io.folders import require


def state_arrays(module: nn.Module) -> dict[str, AnyArray]:
    """Return a module's weights."""
    return {name: value.detach().cpu().contiguous().numpy() for name, value in module.state_dict().items()}


def build_network(kind: Any, params: dict[str, Any], fitted: dict[str, Any], arrays: dict[str, AnyArray]) -> Any:
    """Build an estimator around the weights that were saved; shapes are compared before anything is allocated."""
    estimator = kind(**params)
    check_device(params.get("device", "cpu"))
    estimator._check_options()
    n_classes, n_features = len(fitted.get("classes_", ())), fitted.get("n_features_in_", 0)
    require(n_classes >= 2 and n_features >= 1, "does not say which classes and features its network has.")
    is_complete = len(estimator.hidden) < len(arrays) <= 1000
    require(is_complete, f"does not have the weights of {len(estimator.hidden)} hidden layers.")
    with torch.device("meta"):
        network = estimator._build_module(n_features, n_classes)
    network.load_state_dict(_checked_weights(network.state_dict(), arrays), assign=True)
    vars(estimator).update(fitted | {"module_": network.eval()})
    return estimator


def check_device(name: Any) -> None:
    """Refuse what is not the name of a device; one that is not here is noticed when it is used."""
    require(isinstance(name, str), f"has no valid device: {name!r}.")
    torch.device(name)


def _checked_weights(expected: dict[str, Tensor], arrays: dict[str, AnyArray]) -> dict[str, Tensor]:
    odd = sorted(set(expected) ^ set(arrays))
    require(not odd, f"contradicts itself: its weights do not fit its network, first {odd[:1]}.")
    found: dict[str, Tensor] = {}
    for name, own in expected.items():
        tensor = torch.from_numpy(arrays[name])
        is_same = (tensor.shape, tensor.dtype) == (own.shape, own.dtype)
        require(is_same, f"contradicts itself: {name!r} is {tuple(tensor.shape)} instead of {tuple(own.shape)}.")
        is_finite = not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())
        require(is_finite, f"has weights that are not finite: {name!r}.")
        found[name] = tensor
    return found
