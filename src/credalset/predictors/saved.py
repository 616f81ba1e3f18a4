"""Fitted estimators as files: scikit-learn's through skops, networks as plain values and safetensors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from credalset._typing import AnyArray
from credalset.exceptions import FileFormatError, MissingExtraError, warn
from credalset.persistence.bundle import open_stored_zip
from credalset.persistence.plain import is_whole, plain_names, read_names, refusing, require
from credalset.predictors.soft_label import SoftLabelClassifier

ESTIMATOR_FILE = "estimator.skops"
WEIGHTS_FILE = "weights.safetensors"
PREDICT_METHODS = (
    "predict_proba",
    "predict_concentration",
    "predict_density",
    "predict_prototypes",
    "predict_intervals",
)
TRUSTED_TYPES = [
    "credalset.predictors.soft_label.SoftLabelClassifier",
]


def dump_estimator(estimator: Any, prefix: str = "") -> tuple[dict[str, bytes], dict[str, Any] | None]:
    """Take an estimator apart: its files, and for a network, or a pipeline that ends in one, what describes it."""
    last = _last(estimator)
    if not _is_network(last):
        return {prefix + ESTIMATOR_FILE: _dump_skops(estimator)}, None
    from credalset.predictors.torch.saving import dump_network

    values, weights = dump_network(last)
    values |= fitted_values(last)
    files = {prefix + WEIGHTS_FILE: weights}
    if isinstance(estimator, Pipeline):
        values["step"] = estimator.steps[-1][0]
        files[prefix + ESTIMATOR_FILE] = _dump_skops(_with_last_step(estimator, "passthrough"))
    return files, values


def load_estimator(files: dict[str, bytes], network: Any, trusted: Sequence[str], module: Any, prefix: str = "") -> Any:
    """Put an estimator together again, refusing types that are not trusted."""
    if network is None:
        if module is not None:
            raise ValueError("module was given, but no network was saved. Load it without module.")
        return _check_predicts(_load_skops(files.get(prefix + ESTIMATOR_FILE), trusted))
    require(isinstance(network, dict) and prefix + WEIGHTS_FILE in files, "has no saved network.")
    from credalset.predictors.torch.saving import load_network

    loaded = load_network(network, files[prefix + WEIGHTS_FILE], fitted_attributes(network), module)
    if "step" not in network:
        return loaded
    pipeline = _load_skops(files.get(prefix + ESTIMATOR_FILE), trusted)
    is_fit = isinstance(pipeline, Pipeline) and pipeline.steps[-1:] == [(network["step"], "passthrough")]
    require(is_fit, "has no pipeline that its network fits into.")
    return _with_last_step(pipeline, loaded)


def fitted_values(estimator: Any) -> dict[str, Any]:
    """Describe the classes and features that an estimator was fitted with."""
    values: dict[str, Any] = {}
    if hasattr(estimator, "classes_"):
        values["classes"] = plain_names(estimator.classes_.tolist(), "class names")
        values["classes_dtype"] = _dtype_name(estimator.classes_.dtype)
    if hasattr(estimator, "n_features_in_"):
        values["n_features_in"] = int(estimator.n_features_in_)
    if hasattr(estimator, "feature_names_in_"):
        values["feature_names_in"] = [str(name) for name in estimator.feature_names_in_]
    if hasattr(estimator, "text_name_in_"):
        values["text_name_in"] = estimator.text_name_in_
    return values


def fitted_attributes(values: dict[str, Any]) -> dict[str, Any]:
    """Return the scikit-learn attributes of a fitted estimator, those that were saved."""
    fitted: dict[str, Any] = {}
    if "classes" in values:
        fitted["classes_"] = _class_array(values["classes"], values.get("classes_dtype"))
    if "n_features_in" in values:
        require(is_whole(values["n_features_in"]), "has no valid number of features.")
        fitted["n_features_in_"] = values["n_features_in"]
    if "feature_names_in" in values:
        names = values["feature_names_in"]
        is_list_of_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
        is_complete = is_list_of_names and len(names) == fitted.get("n_features_in_")
        require(is_complete, "has no valid feature names.")
        fitted["feature_names_in_"] = np.asarray(names, dtype=object)
    if "text_name_in" in values:
        is_valid = isinstance(values["text_name_in"], str | None) and "n_features_in_" not in fitted
        require(is_valid, "has no valid name of the texts that it reads.")
        fitted["text_name_in_"] = values["text_name_in"]
    return fitted


def check_estimators(estimators: Sequence[Any], fitted: dict[str, Any]) -> None:
    """Refuse estimators of credalset that contradict each other, or the classes and features of their classifier."""
    known = [e for e in estimators if _is_network(_last(e)) or isinstance(_last(e), SoftLabelClassifier)]
    classes = [tuple(e.classes_) for e in known if isinstance(getattr(e, "classes_", None), np.ndarray)]
    require(len(set(classes)) <= 1, "contradicts itself: the estimators of its folds differ in classes.")
    fits = all(len(names) == len(fitted["classes_"]) for names in classes)
    require(fits, "contradicts itself: the classifier and its estimator differ in classes.")
    features = {n for e in known if isinstance(n := getattr(e, "n_features_in_", None), int)}
    features |= {fitted["n_features_in_"]} if "n_features_in_" in fitted else set()
    require(len(features) <= 1, "contradicts itself: its parts differ in the number of features they take.")


def _is_network(estimator: Any) -> bool:
    base = sys.modules.get("credalset.predictors.torch.base")  # who holds a network has imported this
    return base is not None and isinstance(estimator, base.TorchEstimator)


def _last(estimator: Any) -> Any:
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def _with_last_step(pipeline: Pipeline, last: Any) -> Pipeline:
    """Copy a pipeline, its fitted steps shared, with another last step."""
    steps = [*pipeline.steps[:-1], (pipeline.steps[-1][0], last)]
    return Pipeline(steps, transform_input=pipeline.transform_input, memory=pipeline.memory, verbose=pipeline.verbose)


def _dtype_name(dtype: np.dtype[Any]) -> str:
    """Name a dtype without the length of its strings, which the strings themselves tell."""
    return {"U": "str"}.get(dtype.kind, dtype.name if dtype.kind in "biuf" else "object")


def _class_array(classes: Any, dtype: Any) -> AnyArray:
    require(isinstance(classes, list) and isinstance(dtype, str), "has no valid class names.")
    names = list(read_names(classes, "class names"))
    with refusing(f"has class names that are not of their type {dtype!r}"):
        array = np.array(names, dtype=dtype)
    require(array.tolist() == names, f"has class names that are not of their type {dtype!r}.")
    return array


def _skops_io() -> Any:
    """Import skops; it walks through all of scikit-learn, which would import PyTorch and Dask for nothing."""
    unused = [f"sklearn.externals.array_api_compat.{name}" for name in ("cupy", "dask", "jax", "torch")]
    unused = [name for name in unused if name not in sys.modules]
    sys.modules.update(dict.fromkeys(unused))  # type: ignore[arg-type]  # None there is a package that is not installed
    try:
        import skops.io
    except ImportError:
        raise MissingExtraError("Saving or loading a scikit-learn estimator", "skops", "io") from None
    finally:
        for name in unused:
            del sys.modules[name]
    return skops.io


def _dump_skops(estimator: Any) -> bytes:
    try:
        return bytes(_skops_io().dumps(estimator))
    except MissingExtraError:
        raise
    except Exception as error:
        raise TypeError(
            f"the estimator {type(estimator).__name__} cannot be saved without pickle: {error}. "
            "Save the calibration alone with classifier.calibration_.save(path), and the estimator by its own means."
        ) from error


def warn_of_refusal(estimator: Any, files: dict[str, bytes]) -> None:
    """Warn, while there is time, that `load` will refuse types unless it is told to trust them."""
    unknown: dict[str, None] = {}
    for name, data in files.items():
        if name.endswith(ESTIMATOR_FILE):
            unknown |= dict.fromkeys(_untrusted(data, TRUSTED_TYPES))
    if not unknown:
        return
    own = [name for name in unknown if name.startswith("__main__.")]
    elsewhere = (
        f" {', '.join(own)} must then be defined in the program that loads it: better put it into a module."
        if own
        else ""
    )
    warn(
        f"{type(estimator).__name__} was saved, but holds types that load does not trust by itself: "
        f"{', '.join(unknown)}. Load it with credalset.load(path, trusted={list(unknown)!r}).{elsewhere}"
    )


def _untrusted(data: bytes, allowed: Sequence[str]) -> list[str]:
    return [name for name in _skops_io().get_untrusted_types(data=data) if name not in allowed]


def _load_skops(data: bytes | None, trusted: Sequence[str]) -> Any:
    if data is None:
        raise FileFormatError("has no saved estimator.")
    skops_io, allowed = _skops_io(), [*TRUSTED_TYPES, *trusted]
    try:
        open_stored_zip(data).close()
        unknown = _untrusted(data, allowed)
        require(
            not unknown,
            f"holds types that are not trusted: {', '.join(unknown)}. If you know where the file comes from, allow "
            f"them with load(path, trusted={[*trusted, *unknown]!r}).",
        )
        return skops_io.loads(data, trusted=allowed)
    except FileFormatError:
        raise
    except Exception as error:
        raise FileFormatError(f"has an estimator that cannot be read: {error}") from error


def _check_predicts(estimator: Any) -> Any:
    predicts = any(hasattr(estimator, method) for method in PREDICT_METHODS)
    require(predicts, f"holds a {type(estimator).__name__}, which is not an estimator that predicts.")
    return estimator
