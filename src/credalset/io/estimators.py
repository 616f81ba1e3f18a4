"""Fitted estimators in saved folders: parameters and arrays, or skops for types that the caller must trust.

Credalset's own estimators and a short list of scikit-learn's (linear models, TF-IDF, pipelines) are written by their
attributes and checked when they are read. Every other type goes through skops and must be named by whoever loads it:
altered arrays can make compiled code (trees, neighbours, SVMs) read or write memory that is not its own.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Sequence
from importlib import import_module
from typing import Any, get_type_hints

import numpy as np

from credalset.exceptions import MissingExtraError, need, warn
from credalset.io.folders import MAX_FILE, open_stored_zip, refusing, require
from credalset.io.store import Reader, Writer, check_field, find_type

MAX_SCHEMA = 1 << 26  # bytes
#: estimators of scikit-learn whose arrays are checked here, and the modules that have them
CHECKED = {
    "Pipeline": "sklearn.pipeline",
    "LogisticRegression": "sklearn.linear_model",
    "StandardScaler": "sklearn.preprocessing",
    "CountVectorizer": "sklearn.feature_extraction.text",
    "TfidfTransformer": "sklearn.feature_extraction.text",
    "TfidfVectorizer": "sklearn.feature_extraction.text",
}
#: what skops files are made of beside estimators
PLAIN = {f"builtins.{name}" for name in ("dict", "list", "tuple", "str")}
PLAIN |= {f"numpy.{name}" for name in ("ndarray", "float64", "float32", "int64", "int32", "bool", "str_")}
PLAIN_LOADERS = {"JsonNode", "DictNode", "ListNode", "TupleNode", "ObjectNode", "NdArrayNode", "TypeNode"}
PREDICTS = ("predict_proba", "predict_concentration", "predict_density", "predict_intervals")
#: what fitting leaves on estimators of ours, and of which type
FITTED: dict[str, Any] = {
    "classes_": np.ndarray,
    "n_features_in_": int,
    "feature_names_in_": np.ndarray,
    "text_name_in_": str | None,
    "n_iter_": int,
    "loss_curve_": list[float],
    "validation_curve_": list[float],
    "base_": Any,
    "estimator_": Any,
    "estimators_": list[Any],
    "calibration_": Any,
    "items_": tuple[Any, ...] | None,
}


def encode_estimator(estimator: Any, where: str, writer: Writer) -> dict[str, Any]:
    """Take an estimator apart: by its attributes if its type is known here, else through skops."""
    name, kind = type(estimator).__name__, type(estimator)
    if find_type(name) is kind:
        return _encode_own(estimator, where, writer)
    if name in CHECKED and _checked_type(name) is kind:
        before = dict(writer.arrays), dict(writer.files)
        try:
            return _encode_checked(estimator, where, writer)
        except TypeError:  # a function among its parameters, say
            writer.arrays, writer.files = before
    return {"skops": _dump_skops(estimator, writer)}


def decode_estimator(node: dict[str, Any], reader: Reader) -> Any:
    """Put an estimator together again."""
    if set(node) == {"estimator", "params", "fitted", "weights"}:
        return _decode_own(node, reader)
    if set(node) == {"sklearn", "state"}:
        return _decode_checked(node, reader)
    if set(node) == {"number"}:
        require(node["number"] in ("float64", "float32"), "has an estimator of unknown numbers.")
        return getattr(np, node["number"])
    require(set(node) == {"skops"}, f"has parts that are not known here: {', '.join(map(str, node))[:80]}.")
    data = reader.files.pop(node["skops"], None) if isinstance(node["skops"], str) else None
    require(data is not None, "has no saved estimator.")
    return _load_skops(data, reader.trusted)  # type: ignore[arg-type]


# --- credalset's own ---


def _encode_own(estimator: Any, where: str, writer: Writer) -> dict[str, Any]:
    params = estimator.get_params(deep=False)
    fitted = {key: value for key, value in vars(estimator).items() if key in FITTED}
    if any(key in fitted for key in ("estimator_", "estimators_", "base_")):
        params = {key: value for key, value in params.items() if key not in ("estimator", "base")}
    if "random_state" in params and not isinstance(params["random_state"], int | np.integer):
        params["random_state"] = None  # a generator in place of a seed is forgotten
    if "device" in params:
        params["device"] = str(params["device"])
    module = vars(estimator).get("module_")
    if module is None and not fitted:
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(f"this {type(estimator).__name__} has nothing to save. Call fit or conformalize first.")
    weights = None
    if module is not None:
        from credalset.io.networks import state_arrays

        weights = writer.encode(state_arrays(module), f"{where}.weights")
    return {
        "estimator": type(estimator).__name__,
        "params": {key: writer.encode(value, f"{where}.{key}") for key, value in params.items()},
        "fitted": {key: writer.encode(value, f"{where}.{key}") for key, value in fitted.items()},
        "weights": weights,
    }


def _decode_own(node: dict[str, Any], reader: Reader) -> Any:
    name = node["estimator"]
    kind: Any = find_type(name) if isinstance(name, str) else None
    require(hasattr(kind, "get_params"), f"holds an estimator of type {name!r}, which is not known here.")
    require(isinstance(node["params"], dict) and isinstance(node["fitted"], dict), f"has no valid {name}.")
    params = {key: reader.decode(value) for key, value in node["params"].items()}
    fitted = {key: reader.decode(value) for key, value in node["fitted"].items()}
    weights = reader.decode(node["weights"])
    _check_own(kind, params, fitted)
    inner = [fitted[key] for key in ("base_", "estimator_") if key in fitted] + list(fitted.get("estimators_", ()))
    _check_together(inner, fitted)
    with refusing(f"has no valid {name}"):
        if weights is not None:
            from credalset.io.networks import build_network

            return build_network(kind, params, fitted, weights)
        own = {key: inner[0] for key in ("base", "estimator") if inner and key in kind._get_param_names()}
        estimator = kind(**params, **own)
        vars(estimator).update(fitted)
        if "calibration_" in fitted:
            estimator._calibrated()
    return estimator


def _check_own(kind: Any, params: dict[str, Any], fitted: dict[str, Any]) -> None:
    hints = get_type_hints(kind if dataclasses.is_dataclass(kind) else kind.__init__)
    names = set(kind._get_param_names())
    is_complete = set(params) <= names <= {*params, "base", "estimator"}
    require(is_complete and set(fitted) <= set(FITTED), f"does not have the parameters of a {kind.__name__}.")
    for key, value in params.items():
        check_field(key, value, hints.get(key, Any), kind.__name__)
    for key, value in fitted.items():
        check_field(key, value, FITTED[key], kind.__name__)
    seed = params.get("random_state")
    require(seed is None or (type(seed) is int and seed >= 0), "has no valid random_state.")
    for key in ("classes_", "feature_names_in_"):
        require(key not in fitted or fitted[key].ndim == 1, f"has no valid {key}.")
    names_fit = "feature_names_in_" not in fitted or len(fitted["feature_names_in_"]) == fitted.get("n_features_in_")
    require(names_fit, "contradicts itself: its features and their names differ in number.")


def _check_together(inner: Sequence[Any], fitted: dict[str, Any]) -> None:
    """Refuse estimators inside another that do not predict, or differ from it in classes or features."""
    for estimator in inner:
        require(any(hasattr(estimator, method) for method in PREDICTS), "holds an estimator that does not predict.")
    features = {n for e in (*inner,) if isinstance(n := vars(e).get("n_features_in_"), int)}
    features |= {fitted["n_features_in_"]} if "n_features_in_" in fitted else set()
    require(len(features) <= 1, "contradicts itself: its parts differ in the number of features.")
    calibration = fitted.get("calibration_")
    if calibration is not None:
        classes = getattr(calibration, "classes", None), getattr(calibration, "n_classes", None)
        own = fitted.get("classes_", ())
        is_same = hasattr(calibration, "predict_set") and len(own) == classes[1]
        is_same = is_same and classes[0] in (None, tuple(np.asarray(own).tolist()))
        require(is_same, "contradicts itself: the classifier and its calibration differ in classes.")
        n_folds = getattr(calibration, "n_folds", None)
        is_same = n_folds in (None, len(fitted.get("estimators_", ())))
        require(is_same, "contradicts itself: its folds and its estimators differ in number.")


# --- scikit-learn's, by their attributes ---


def _checked_type(name: str) -> Any:
    return getattr(import_module(CHECKED[name]), name)


def _encode_checked(estimator: Any, where: str, writer: Writer) -> dict[str, Any]:
    state = {k: v for k, v in vars(estimator).items() if not k.startswith("_") or k == "_tfidf"}
    if not isinstance(state.get("random_state", 0), int):
        state["random_state"] = None  # a generator in place of a seed is forgotten
    encoded = {}
    for key, value in state.items():
        is_type = isinstance(value, type) and issubclass(value, np.floating)
        encoded[key] = {"number": value.__name__} if is_type else writer.encode(value, f"{where}.{key}")
    writer.packages.add("scikit-learn")
    return {"sklearn": type(estimator).__name__, "state": encoded}


def _decode_checked(node: dict[str, Any], reader: Reader) -> Any:
    name, state = node["sklearn"], node["state"]
    require(isinstance(name, str) and name in CHECKED and isinstance(state, dict), "has no valid estimator.")
    kind = _checked_type(name)
    values = {key: reader.decode(value) for key, value in state.items()}
    params = set(kind._get_param_names())
    is_known = all(key in params or key == "_tfidf" or (key.endswith("_") and key.isidentifier()) for key in values)
    require(is_known and params <= set(values), f"does not have the parameters of a {name}.")
    estimator = kind.__new__(kind)
    vars(estimator).update(values)
    with refusing(f"has no valid {name}"):
        estimator._validate_params()
        _check_arrays(name, values)
    return estimator


def _check_arrays(name: str, state: dict[str, Any]) -> None:
    """Refuse arrays that do not fit each other."""
    n = state.get("n_features_in_")
    if name == "Pipeline":
        steps = state["steps"]
        is_valid = isinstance(steps, list) and all(isinstance(step, tuple) and len(step) == 2 for step in steps)
        is_valid = is_valid and all(hasattr(step, "get_params") or step == "passthrough" for _, step in steps)
        require(is_valid, "has a pipeline without valid steps.")
    elif name == "LogisticRegression" and "coef_" in state:
        rows = len(state["classes_"]) if len(state["classes_"]) > 2 else 1
        is_valid = _is_matrix(state["coef_"], rows, n) and _is_matrix(np.atleast_2d(state["intercept_"]), 1, rows)
        require(is_valid, "has a linear model whose coefficients do not fit its classes and features.")
    elif name == "StandardScaler":
        for key in ("mean_", "scale_", "var_"):
            fits = state.get(key) is None or _is_matrix(np.atleast_2d(state[key]), 1, n)
            require(fits, f"has a scaler whose {key} does not fit its features.")
    elif name == "TfidfTransformer" and "idf_" in state:
        require(_is_matrix(np.atleast_2d(state["idf_"]), 1, n), "has weights of words that do not fit their number.")
    elif "vocabulary_" in state:  # compiled code would read beyond its arrays at the place of a word that has none
        words, places = list(state["vocabulary_"]), list(state["vocabulary_"].values())
        is_valid = all(isinstance(word, str) for word in words) and sorted(places) == list(range(len(places)))
        n_idf = getattr(state.get("_tfidf"), "n_features_in_", len(words))
        require(is_valid and n_idf == len(words), "has a vocabulary that does not number its words.")


def _is_matrix(value: Any, rows: int, columns: Any) -> bool:
    is_array = isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.isfinite(value).all()
    return bool(is_array and value.shape == (rows, columns))


# --- others, through skops ---


def _dump_skops(estimator: Any, writer: Writer) -> str:
    try:
        data = bytes(_skops_io().dumps(estimator))
    except MissingExtraError:
        raise
    except Exception as error:
        raise TypeError(
            f"the estimator {type(estimator).__name__} cannot be saved without pickle: {error}. "
            "Save the calibration alone with classifier.calibration_.save(path), and the estimator by its own means."
        ) from error
    unknown = _look_through(data)
    if unknown and not writer.files:  # once, not for every fold
        warn(
            f"{type(estimator).__name__} was saved, but holds types that load builds only for those who trust the "
            f"file. Load it with credalset.load(path, trusted={unknown!r})."
        )
    name = f"estimator{len(writer.files) or ''}.skops"
    writer.files[name] = data
    writer.packages |= {"scikit-learn", "skops"}
    return name


def _load_skops(data: bytes, trusted: Sequence[str]) -> Any:
    with refusing("has an estimator that cannot be read"):
        found = _look_through(data)
        unknown = [name for name in found if name not in trusted]
        require(
            not unknown,
            f"holds estimators of types that are not checked: {', '.join(unknown)}. An altered file can take over "
            f"Python through them. If you trust the file, load it with trusted={[*trusted, *unknown]!r}.",
        )
        return _skops_io().loads(data, trusted=[*PLAIN, *found])


def _look_through(data: bytes) -> list[str]:
    """Return the types in a skops file beside plain values, refusing one that unpacks to more than it is."""
    with open_stored_zip(data) as archive:
        require(archive.getinfo("schema.json").file_size <= MAX_SCHEMA, "has too large a description of an estimator.")
        packed = [archive.read(name) for name in archive.namelist() if name.endswith(".npz")]  # sparse matrices
        sizes = [m.file_size for each in packed for m in zipfile.ZipFile(io.BytesIO(each)).infolist()]
        require(sum(sizes) <= min(MAX_FILE, 100 * len(data)), "has sparse matrices that unpack to too much.")
        schema = json.loads(archive.read("schema.json"))
    unknown: set[str] = set()
    built: dict[Any, int] = {}
    n_nodes = 0

    def count(node: Any) -> int:
        """Return how many nodes skops visits: it takes the object that an ``__id__`` named first wherever it recurs."""
        nonlocal n_nodes
        n_nodes += 1
        if isinstance(node, list):
            return 1 + sum(map(count, node))
        if not isinstance(node, dict):
            return 1
        if "__class__" in node:
            kind, loader = f"{node.get('__module__')}.{node['__class__']}", node.get("__loader__", "TypeNode")
            require(isinstance(loader, str) and loader != "CachedNode", "has an estimator that refers to itself.")
            if kind not in PLAIN or loader not in PLAIN_LOADERS:
                unknown.add(kind)
        own = 1 + sum(map(count, node.values()))
        return max(own, built.setdefault(node.get("__id__"), own)) if "__id__" in node else own

    require(count(schema) <= 4 * n_nodes, "has an estimator whose parts refer to each other.")
    return sorted(unknown)


def _skops_io() -> Any:
    return need("skops.io", "Saving or loading a scikit-learn estimator", extra="cli")
