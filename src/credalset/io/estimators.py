"""Fitted estimators in saved folders: parameters and arrays, or skops for trusted types.

The caller says which types to trust.

Credalset's own estimators and a short list of scikit-learn's (logistic regression, TF-IDF, scaling,
one-hot coding, imputation, pipelines and column transformers of these) are written by their
attributes and checked when they are read. Every other type goes through skops and must be named by
whoever loads it: altered arrays can make compiled code (trees, neighbours, SVMs) read or write
memory that is not its own. Nothing of a skops file is unpacked before that. Of a search, such as
``GridSearchCV``, the best estimator is written.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, get_type_hints

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.model_selection._search import BaseSearchCV

from credalset.calibration.base import ScoreCalibration
from credalset.exceptions import FileFormatError, MissingExtraError, need
from credalset.io.folders import check_array, open_stored_zip, refusing, require
from credalset.io.store import Reader, Writer, check_field, find_type

#: limits of skops files: bytes, values and objects of the description, and bytes of sparse matrices
MAX_SCHEMA = 1 << 24
MAX_VALUES = 1 << 19
MAX_NODES = 30_000
MAX_UNPACKED = 100_000_000
MAX_LAYERS = 500
DEVICES = ("cpu", "cuda", "mps", "xpu")  # others need further packages, or hold no numbers
#: plain types of skops files, and the loaders that build nothing else from them
NUMPY = {
    f"numpy.{name}" for name in ("ndarray", "float64", "float32", "int64", "int32", "bool", "str_")
}
PLAIN = {"JsonNode": {"builtins.str"}, "DictNode": {"builtins.dict"}, "ListNode": {"builtins.list"}}
PLAIN |= {
    "TupleNode": {"builtins.tuple"},
    "NdArrayNode": NUMPY,
    "TypeNode": {"builtins.str", *NUMPY},
}
PREDICTS = ("predict_proba", "predict_concentration", "predict_density", "predict_intervals")
#: what fitting leaves on estimators of ours, and of which type; networks have a module beside
FITTED: dict[str, Any] = {
    "classes_": np.ndarray,
    "n_features_in_": int,
    "feature_names_in_": np.ndarray,
    "feature_kinds_in_": tuple[str, ...],
}
FITTED |= {
    "text_name_in_": str | None,
    "items_": tuple[Any, ...] | None,
    "n_iter_": int,
    "loss_curve_": list[float],
}
FITTED |= {
    "validation_curve_": list[float],
    "module_": dict,
    "calibration_": Any,
    "estimators_": list[Any],
}
FITTED |= {"base_": Any, "estimator_": Any}
KINDS = {"number", "category", "text"}  # of features
INNER = {"base": "base_", "estimator": "estimator_"}  # parameters that a fitted clone stands for


def encode_estimator(estimator: Any, where: str, writer: Writer) -> dict[str, Any]:
    """Take an estimator apart: by its attributes if its type is known here, else through skops."""
    if isinstance(estimator, BaseSearchCV) and hasattr(estimator, "best_estimator_"):
        return encode_estimator(estimator.best_estimator_, where, writer)
    kind: Any = type(estimator)
    is_own = find_type(kind.__name__) is kind
    if is_own or _checked_type(kind.__name__) is kind:
        before = dict(writer.arrays), dict(writer.files)
        try:
            state = _state_of(estimator, is_own)
            if not is_own:  # what would be refused when it is read goes through skops
                _check_sklearn(kind.__new__(kind), state)
            encoded = {key: writer.encode(value, f"{where}.{key}") for key, value in state.items()}
            writer.packages |= set() if is_own else {"scikit-learn"}
            return {"estimator": kind.__name__, "state": encoded}
        except (TypeError, ValueError):  # a function among its parameters, say
            if is_own:
                raise
            writer.arrays, writer.files = before
    return {"skops": _dump_skops(estimator, writer)}


def decode_estimator(node: dict[str, Any], reader: Reader) -> Any:
    """Build an estimator from its parts."""
    if set(node) == {"skops"}:
        return _load_skops(reader.take(reader.files, node["skops"]), reader.trusted)
    is_valid = set(node) == {"estimator", "state"} and isinstance(node["state"], dict)
    require(is_valid, f"has parts that are not known here: {', '.join(map(str, node))[:80]}.")
    name = node["estimator"]
    own: Any = find_type(name) if isinstance(name, str) else None
    kind = own if hasattr(own, "get_params") else _checked_type(name)
    require(
        kind is not None, f"holds an estimator of type {str(name)[:80]!r}, which is not known here."
    )
    state = {key: reader.decode(value) for key, value in node["state"].items()}
    estimator = kind.__new__(kind)
    with refusing(f"has no valid {name}"):
        if kind is own:
            _check_own(estimator, state)
        else:
            _check_sklearn(estimator, state)
    return estimator


def _state_of(estimator: Any, is_own: bool) -> dict[str, Any]:
    state = dict(vars(estimator))
    if is_own:
        known = set(estimator._get_param_names()) | set(FITTED)
        state = {key: value for key, value in state.items() if key in known}
        if not set(state) & set(FITTED):
            raise NotFittedError(
                f"this {type(estimator).__name__} is not fitted. Call fit or conformalize first."
            )
        is_fitted = "estimators_" in state or any(clone in state for clone in INNER.values())
        state = {key: value for key, value in state.items() if not (is_fitted and key in INNER)}
    else:
        state = {
            key: value for key, value in state.items() if not key.startswith("_") or key in PRIVATE
        }
        if type(estimator).__name__ == "ColumnTransformer":
            state = _state_of_columns(estimator, state)
    if not isinstance(state.get("random_state", 0), int | np.integer):
        state["random_state"] = None  # only seeds are saved
    if "device" in state:
        state["device"] = str(state["device"])
    if "module_" in state:
        weights = state["module_"].state_dict()
        state["module_"] = {
            name: each.detach().cpu().contiguous().numpy() for name, each in weights.items()
        }
    return state


# --- credalset's own ---


def _check_own(estimator: Any, state: dict[str, Any]) -> None:
    """Fill one of our estimators with what is of the declared types and fits together."""
    kind = type(estimator)
    hints = get_type_hints(kind if dataclasses.is_dataclass(kind) else kind.__init__)
    names = set(kind._get_param_names())
    is_complete = names - set(INNER) <= set(state) <= names | set(FITTED)
    require(is_complete, f"does not have the parameters of a {kind.__name__}.")
    for key, value in state.items():
        check_field(
            key, value, FITTED[key] if key in FITTED else hints.get(key, Any), kind.__name__
        )
    seed = state.get("random_state")
    require(seed is None or (type(seed) is int and seed >= 0), "has no valid random_state.")
    is_flat = all(state[key].ndim == 1 for key in ("classes_", "feature_names_in_") if key in state)
    names_fit = "feature_names_in_" not in state or len(state["feature_names_in_"]) == state.get(
        "n_features_in_"
    )
    require(
        is_flat and names_fit, "contradicts itself: its features and their names differ in number."
    )
    kinds = state.get("feature_kinds_in_", ())
    kinds_fit = set(kinds) <= KINDS and len(kinds) in (0, state.get("n_features_in_"))
    require(kinds_fit, "contradicts itself: its features are not of the kinds that it names.")
    inner = [state[key] for key in INNER.values() if key in state] + list(
        state.get("estimators_", ())
    )
    _check_together(inner, state)
    vars(estimator).update({key: inner[0] for key in INNER if inner and key in names} | state)
    if "module_" in state:
        estimator.module_ = _build_module(estimator, state["module_"])
    if "calibration_" in state:
        estimator._calibrated()


def _check_together(inner: Sequence[Any], state: dict[str, Any]) -> None:
    """Refuse estimators within another that do not predict, or differ in classes or features."""
    is_valid = all(any(hasattr(estimator, method) for method in PREDICTS) for estimator in inner)
    require(is_valid, "holds an estimator that does not predict.")
    features = {
        n for each in (state, *map(vars, inner)) if isinstance(n := each.get("n_features_in_"), int)
    }
    require(len(features) <= 1, "contradicts itself: its parts differ in the number of features.")
    calibration: Any = state.get("calibration_")
    if calibration is not None:
        own = np.asarray(state.get("classes_", ())).tolist()
        require(isinstance(calibration, ScoreCalibration), "holds a calibration that is none.")
        is_same = (
            len(own) == calibration.n_classes
            and calibration.classes in (None, tuple(own))
            and calibration._n_models == max(len(state.get("estimators_", ())), 1)
        )
        require(
            is_same,
            "contradicts itself: the classifier and its calibration differ in classes or folds.",
        )


def _build_module(estimator: Any, arrays: dict[str, Any]) -> Any:
    """Build a network around the weights that were saved.

    Shapes are compared before anything is allocated.
    """
    import torch

    estimator._check_options()
    require(
        torch.device(estimator.device).type in DEVICES,
        f"has the device {estimator.device!r}, which is not known.",
    )
    n_classes = len(getattr(estimator, "classes_", ()))
    n_features = getattr(estimator, "n_features_in_", 0)
    is_complete = (
        n_classes >= 2 and n_features >= 1 and len(estimator.hidden) < len(arrays) <= 2 * MAX_LAYERS
    )
    require(is_complete, "does not have the classes, features and weights of its network.")
    with torch.device("meta"):
        module = estimator._build_module(n_features, n_classes)
    weights = {name: torch.from_numpy(array) for name, array in arrays.items()}
    for name, own in module.state_dict().items():
        found: Any = weights.get(name)
        is_same = found is not None and (found.shape, found.dtype) == (own.shape, own.dtype)
        require(
            is_same and bool(torch.isfinite(found).all()),
            f"contradicts itself: {name!r} does not fit its network.",
        )
    module.load_state_dict(weights, assign=True)
    return module.eval()


# --- scikit-learn's, by their attributes ---

#: attributes with an underscore that are written: the weights within a `TfidfVectorizer`, and
#: whether ``set_output`` asked for frames. Others are found again from those without.
PRIVATE = ("_tfidf", "_sklearn_output_config")


def _checked_type(name: Any) -> Any:
    if not isinstance(name, str) or name not in CHECKED:
        return None
    return getattr(import_module(CHECKED[name][0]), name)


def _check_sklearn(estimator: Any, state: dict[str, Any]) -> None:
    """Fill one of scikit-learn's estimators with valid parameters and matching arrays."""
    name = type(estimator).__name__
    params = set(estimator._get_param_names())
    derived = {"transformers"} if name == "ColumnTransformer" and "transformers_" in state else {}
    is_known = all(
        key in params or key in PRIVATE or (key.endswith("_") and key.isidentifier())
        for key in state
    )
    require(
        is_known and params - set(derived) <= set(state),
        f"does not have the parameters of a {name}.",
    )
    config = state.get("_sklearn_output_config", {"transform": "default"})
    require(
        config in [{"transform": each} for each in ("default", "pandas", "polars")],
        f"has a {name} whose output is of no known kind.",
    )
    n = state.get("n_features_in_")
    names = state.get("feature_names_in_")
    is_named = isinstance(names, np.ndarray) and names.shape == (n,)
    require(
        names is None or is_named, f"has a {name} whose features and their names differ in number."
    )
    vars(estimator).update(state)
    CHECKED[name][1](estimator, state, n)
    estimator._validate_params()


def _check_pipeline(estimator: Any, state: dict[str, Any], n: Any) -> None:
    steps = state["steps"]
    is_valid = isinstance(steps, list) and all(
        isinstance(step, tuple) and len(step) == 2 for step in steps
    )
    is_valid = is_valid and all(
        hasattr(step, "get_params") or step == "passthrough" for _, step in steps
    )
    require(is_valid, "has a pipeline without valid steps.")


def _check_logistic(estimator: Any, state: dict[str, Any], n: Any) -> None:
    if "coef_" not in state:
        return
    rows = len(state["classes_"]) if len(state["classes_"]) > 2 else 1
    is_valid = _is_matrix(state["coef_"], rows, n) and _is_matrix(
        np.atleast_2d(state["intercept_"]), 1, rows
    )
    require(is_valid, "has a linear model whose coefficients do not fit its classes and features.")


def _check_scaler(estimator: Any, state: dict[str, Any], n: Any) -> None:
    for key in ("mean_", "scale_", "var_"):
        fits = state.get(key) is None or _is_matrix(np.atleast_2d(state[key]), 1, n)
        require(fits, f"has a scaler whose {key} does not fit its features.")


def _check_weights(estimator: Any, state: dict[str, Any], n: Any) -> None:
    is_valid = "idf_" not in state or _is_matrix(np.atleast_2d(state["idf_"]), 1, n)
    require(is_valid, "has weights of words that do not fit their number.")


def _check_words(estimator: Any, state: dict[str, Any], n: Any) -> None:
    """Compiled code would read beyond its arrays at the place of a word that has none."""
    if "vocabulary_" not in state:
        return
    words = list(state["vocabulary_"])
    places = list(state["vocabulary_"].values())
    is_valid = all(isinstance(word, str) for word in words) and sorted(places) == list(
        range(len(places))
    )
    n_idf = getattr(state.get("_tfidf"), "n_features_in_", len(words))
    require(is_valid and n_idf == len(words), "has a vocabulary that does not number its words.")


def _check_one_hot(estimator: Any, state: dict[str, Any], n: Any) -> None:
    """Compiled code would write beyond its arrays for categories that are not in order."""
    is_usual = state["categories"] == "auto" and isinstance(state["drop"], str | None)
    is_usual = is_usual and state["min_frequency"] is None and state["max_categories"] is None
    require(is_usual, "has an encoder with parameters that are not checked.")
    if "categories_" not in state:
        return
    categories = state["categories_"]
    is_valid = isinstance(categories, list) and len(categories) == n
    require(
        is_valid and all(map(_are_categories, categories)), "has categories that are not valid."
    )
    estimator._infrequent_enabled = False
    estimator._set_drop_idx()
    estimator._n_features_outs = estimator._compute_n_features_outs()


def _are_categories(values: Any) -> bool:
    """Tell whether values are rising numbers, or different texts with a missing one at the end."""
    if not isinstance(values, np.ndarray) or values.ndim != 1 or not len(values):
        return False
    if values.dtype.kind not in "OU":
        return values.dtype.kind in "iuf" and bool((values[1:] > values[:-1]).all())
    texts = values.tolist()
    last = texts[-1]
    if last is None or last != last:
        texts.pop()
    return all(isinstance(text, str) for text in texts) and len(set(texts)) == len(texts)


def _check_imputer(estimator: Any, state: dict[str, Any], n: Any) -> None:
    require(
        state.get("indicator_") is None, "has an imputer with an indicator, which is not checked."
    )
    missing = state["missing_values"]
    require(
        missing is None or missing != missing, "has an imputer of other values than missing ones."
    )
    if "statistics_" not in state:
        return
    values = state["statistics_"]
    is_valid = isinstance(values, np.ndarray) and values.shape == (n,)
    if is_valid and values.dtype == object:
        is_valid = all(isinstance(value, str) for value in values.tolist())
    else:
        is_valid = is_valid and values.dtype.kind in "iuf" and bool(np.isfinite(values).all())
    require(is_valid, "has an imputer whose values do not fit its features.")
    estimator._fit_dtype = estimator._fill_dtype = values.dtype


def _check_function(estimator: Any, state: dict[str, Any], n: Any) -> None:
    """Accept only a `FunctionTransformer` without a function, which stands for "passthrough"."""
    functions = ("func", "inverse_func", "kw_args", "inv_kw_args")
    require(all(state[each] is None for each in functions), "has a transformer with a function.")


def _state_of_columns(estimator: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a `ColumnTransformer`, its columns by name or by number.

    Columns that a function or mask selected are named; the fitted transformers stand for the
    others.
    """
    state.pop("output_indices_", None)
    if "transformers_" not in state:
        return state
    names = state.get("feature_names_in_")
    found = []
    for name, transformer, columns in state["transformers_"]:
        places = estimator._transformer_to_input_indices[name]
        chosen = [int(place) if names is None else str(names[place]) for place in places]
        found.append((name, transformer, chosen[0] if np.isscalar(columns) else chosen))
    del state["transformers"]
    return {**state, "transformers_": found}


def _check_columns(estimator: Any, state: dict[str, Any], n: Any) -> None:
    """Find the columns of each transformer again."""
    if "transformers_" not in state:
        return
    is_valid = isinstance(state["transformers_"], list) and type(n) is int and n >= 1
    require(is_valid, "has a transformer of columns without columns.")
    names = state.get("feature_names_in_", np.arange(n)).tolist()
    position = {name: place for place, name in enumerate(names)}
    places = {}
    for part in state["transformers_"]:
        is_valid = isinstance(part, tuple) and len(part) == 3 and isinstance(part[0], str)
        require(is_valid, "has a transformer of columns with parts that are not valid.")
        name, transformer, columns = part
        is_known = hasattr(transformer, "get_params") or transformer in ("drop", "passthrough")
        chosen = columns if isinstance(columns, list) else [columns]
        is_valid = is_known and name not in places and all(each in position for each in chosen)
        require(is_valid, f"has a transformer of columns whose part {name[:80]!r} is not valid.")
        places[name] = [position[each] for each in chosen]
    remaining = sorted(set(range(n)) - {place for each in places.values() for place in each})
    parts = [part for part in state["transformers_"] if part[0] != "remainder"]
    estimator.transformers = parts
    estimator._columns = [columns for _, _, columns in parts]
    estimator._transformer_to_input_indices = {"remainder": remaining} | places
    estimator._remainder = ("remainder", state["remainder"], places.get("remainder", remaining))
    estimator._n_features = n


def _is_matrix(value: Any, rows: int, columns: Any) -> bool:
    is_array = (
        isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.isfinite(value).all()
    )
    return bool(is_array and value.shape == (rows, columns))


#: estimators of scikit-learn that are checked here: the modules that have them, and what checks
#: their state before anything uses it
CHECKED: dict[str, tuple[str, Callable[[Any, dict[str, Any], Any], None]]] = {
    "Pipeline": ("sklearn.pipeline", _check_pipeline),
    "ColumnTransformer": ("sklearn.compose", _check_columns),
    "LogisticRegression": ("sklearn.linear_model", _check_logistic),
    "CountVectorizer": ("sklearn.feature_extraction.text", _check_words),
    "TfidfVectorizer": ("sklearn.feature_extraction.text", _check_words),
    "TfidfTransformer": ("sklearn.feature_extraction.text", _check_weights),
    "StandardScaler": ("sklearn.preprocessing", _check_scaler),
    "OneHotEncoder": ("sklearn.preprocessing", _check_one_hot),
    "FunctionTransformer": ("sklearn.preprocessing", _check_function),
    "SimpleImputer": ("sklearn.impute", _check_imputer),
}


# --- others, through skops ---


def _dump_skops(estimator: Any, writer: Writer) -> str:
    try:
        data = _renumbered(bytes(_skops_io().dumps(estimator)))
        unknown = _look_through(data)
    except MissingExtraError:
        raise
    except Exception as error:
        raise TypeError(
            f"the estimator {type(estimator).__name__} cannot be saved without pickle: {error}. "
            "Save the calibration alone with classifier.calibration_.save(path), and the "
            "estimator by its own means."
        ) from error
    writer.untrusted |= set(unknown)
    name = f"estimator{len(writer.files) or ''}.skops"
    writer.files[name] = data
    writer.packages |= {"scikit-learn", "skops"}
    return name


def _renumbered(data: bytes) -> bytes:
    """Return a skops file that is the same for equal estimators, whenever it is written.

    Skops calls objects and their files by addresses in memory. Here they are numbered in the order
    in which they appear, and plain values by what they are.
    """
    with open_stored_zip(data) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    numbers: dict[Any, int] = {}
    names: dict[str, str] = {}

    def see(node: dict[str, Any]) -> dict[str, Any]:
        if "__id__" in node:
            is_plain = node.get("__loader__") == "JsonNode"
            key = str(node.get("content")) if is_plain else node["__id__"]
            node["__id__"] = numbers.setdefault(key, len(numbers) + 1)
        if isinstance(node.get("file"), str):
            suffix = node["file"].rpartition(".")[2]
            node["file"] = names.setdefault(node["file"], f"{len(names) + 1}.{suffix}")
        return node

    schema = json.loads(members.pop("schema.json"), object_hook=see)
    members = {names[name]: member for name, member in members.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(members):
            archive.writestr(zipfile.ZipInfo(name), members[name])
        archive.writestr(zipfile.ZipInfo("schema.json"), json.dumps(schema))
    return buffer.getvalue()


def refuse_untrusted(files: dict[str, bytes], trusted: Sequence[str]) -> None:
    """Refuse types in the files of estimators that are not trusted, all of them at once."""
    with refusing("has an estimator that cannot be read"):
        found = {name for data in files.values() for name in _look_through(data)}
    unknown = sorted(found - set(trusted))
    if unknown:
        error = FileFormatError(
            "holds estimators of types that are not checked, through which an altered file can "
            "take over Python."
        )
        error.untrusted = (*trusted, *unknown)
        raise error


def _load_skops(data: bytes, trusted: Sequence[str]) -> Any:
    with refusing("has an estimator that cannot be read"):
        return _skops_io().loads(data, trusted=[*set().union(*PLAIN.values()), *trusted])


def _look_through(data: bytes) -> list[str]:
    """Return the types in a skops file beside plain values; there is at least that of an estimator.

    Files that would take far more memory or time than they have bytes are refused: arrays that are
    larger than what is stored, a member that several objects read, and objects that repeat the
    number of another with other contents.
    """
    with open_stored_zip(data) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = members.pop("schema.json")
    n_values = sum(map(schema.count, (b"{", b"[", b",")))
    require(
        len(schema) <= MAX_SCHEMA and n_values <= MAX_VALUES, "has an estimator of too many parts."
    )
    _check_arrays(members.values())
    unknown: set[str] = set()
    first: dict[Any, Any] = {}
    readers: dict[str, Any] = {}

    def see(node: dict[str, Any]) -> dict[str, Any]:
        if "__class__" not in node:
            return node
        kind = f"{node.get('__module__')}.{node['__class__']}"
        number = node.pop("__id__", None)
        unknown.update(() if kind in PLAIN.get(node.get("__loader__", "TypeNode"), ()) else {kind})
        is_own = number and readers.setdefault(node.pop("file", number), number) == number
        require(
            is_own and first.setdefault(number, node) == node and len(first) <= MAX_NODES,
            "has an estimator whose parts are too many or contradict each other.",
        )
        found: dict[str, Any] = first[number]
        return found

    json.loads(schema, object_hook=see)
    require(unknown, "has an estimator file without an estimator.")
    return sorted(unknown)


def _check_arrays(members: Iterable[bytes]) -> None:
    """Refuse arrays, also those of sparse matrices, that claim to be larger than they are."""
    room = MAX_UNPACKED
    for data in members:
        if data.startswith(b"\x93NUMPY"):
            check_array(data)
        elif data.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(data)) as inner:
                room -= sum(member.file_size for member in inner.infolist())
                require(room >= 0, "has sparse matrices that are too large.")
                for name in inner.namelist():
                    check_array(inner.read(name))


def _skops_io() -> Any:
    return need("skops.io", "Saving or loading a scikit-learn estimator", extra="cli")
