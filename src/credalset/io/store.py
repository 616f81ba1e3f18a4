"""Save and load: a folder with a JSON manifest and arrays of numbers, in which nothing is executed.

An object is a tree. Frozen dataclasses on the list `TYPES`, scores and noise models are written
field by field, arrays go to ``arrays.npz``, everything else is JSON. On reading, each field must
have the type that the class declares, and the class's own ``__post_init__`` checks the values, so
that a damaged or forged file ends in `FileFormatError`. A class whose fields are not what should be
stored has ``_to_store(self) -> dict`` and a class method ``_from_store(**fields)`` with annotated
parameters instead. Estimators are in `credalset.io.estimators`.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from credalset._typing import AnyArray
from credalset.exceptions import FileFormatError, warn
from credalset.io.folders import NUMBERS, SAFE_NAME, read_object, refusing, require, write_object

MAX_SIZE = 1_000_000  # classes or features that a file may claim without holding them
MAX_TEXTS = 40_000_000  # characters of an array of texts
MAX_DEPTH = 100  # of values in values
LONG = 1_000  # names; longer lists are arrays, as JSON takes far more memory than it has bytes
MAX_NAMES = 1 << 21  # of all long lists

_TYPES = {
    "credalset.calibration": "SplitCalibration CrossCalibration Stream",
    "credalset.calibration.noise": "NoNoise BoundedNoise Quantile",
    "credalset.calibration.sampling": "AnnotatorSampling SampledQuantile",
    "credalset.calibration.unbiased": "UnbiasedVotes MeanExcess",
    "credalset.calibration.few_votes": "FewVotes MeanBound",
    "credalset.calibration.thresholds": "Thresholds",
    "credalset.labels": "LabelCalibration",
    "credalset.sets": "CredalSet",
    "credalset.scores": "ScaledPrediction IntervalPrediction",
    "credalset.crowd": "DirichletCrowd VotingPolicy CrowdCalibration",
    "credalset.crowd.bias": "ClassBias",
    "credalset.crowd.law": "CrowdLaw",
    "credalset.crowd.accept": "FitItems",
    "credalset.acceptance": "AcceptRule",
    "credalset.acting.stored": "StoredRule",
    "credalset.classifier": "ConformalCredalClassifier",
    "credalset.predictors": "SoftLabelClassifier FirstOrderNetwork SecondOrderNetwork "
    "IntervalNetwork JudgePool",
    "credalset.predictors.pool": "PoolLaw",
}
#: classes that can be saved, and the modules that have them: imported when one is read or written
TYPES = {name: module for module, names in _TYPES.items() for name in names.split()}
#: where scores are found by their names, and estimators of scikit-learn are read and written
SCORES = "credalset.scores.registry"
ESTIMATORS = "credalset.io.estimators"


class Saved:
    """Base class of what can be saved to a folder."""

    def save(self, path: str | Path) -> None:
        """Write the object to a folder (JSON and ``.npz``, no pickle); `credalset.load` reads it.

        Parameters
        ----------
        path : str or Path
            Folder to write to; an object that was saved there before is replaced.
        """
        save(self, path)


def save(thing: Any, path: str | Path) -> None:
    """Write an object to a folder, replacing an object that was saved there and nothing else.

    Say so if it holds estimators of types that `load` does not check.
    """
    untrusted = write(thing, path)
    if untrusted:
        warn(
            f"{path} was saved, but holds estimators of types that load does not check. Whoever "
            f"trusts the file loads it with\n{_line(path, untrusted)}"
        )


def write(thing: Any, path: str | Path) -> tuple[str, ...]:
    """Write an object to a folder; return the types that whoever loads it must trust."""
    writer = Writer()
    tree = writer.encode(thing)
    write_object(Path(os.path.abspath(path)), tree, writer.arrays, writer.files, writer.packages)
    return tuple(sorted(writer.untrusted))


def load(path: str | Path, *, trusted: Sequence[str] = ()) -> Any:
    """Load an object that its method ``save`` wrote to a folder.

    Files without an estimator, such as calibrations, may come from untrusted sources: loading
    executes no code and refuses files that are damaged or forged. Logistic regression, TF-IDF,
    scaling, one-hot coding, imputation, pipelines and column transformers of these and the networks
    of credalset are checked in the same way. Load other estimators only from files that you trust,
    and name their types in ``trusted``: the error shows the line to write.

    Parameters
    ----------
    path : str or Path
        The folder that was passed to ``save``.
    trusted : sequence of str
        Full names of further estimator types that may be created while loading. Any other type is
        refused, and the error names it. An altered file can crash Python or run code through such
        types, so list them only for files that you trust.

    Returns
    -------
    object
        The `Calibration`, `CrossCalibration`, `LabelCalibration`, `CrowdCalibration`, `Stream`,
        `AcceptRule`, `CredalSet`, `DirichletCrowd`, `VotingPolicy`, `ConformalCredalClassifier` or
        estimator that was saved.

    Examples
    --------
    >>> import tempfile, credalset as cs
    >>> data = cs.datasets.make_synthetic(100, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts, score="kl")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     calibration.save(f"{folder}/kl")
    ...     cs.load(f"{folder}/kl")
    SplitCalibration: score kl, 100 items, 3 classes
    """
    if isinstance(trusted, str):
        raise TypeError(f"trusted must be a list of names of types, but is the string {trusted!r}.")
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"path must be the folder that save() wrote, as a string or a Path, but is {path!r}."
        )
    remark = ""
    try:
        tree, arrays, files, remark = read_object(Path(path))
        if files:
            import_module(ESTIMATORS).refuse_untrusted(files, trusted)
        reader = Reader(arrays, files, tuple(trusted))
        with refusing("holds a value that is not valid"):
            loaded = reader.decode(tree)
        left = [*reader.arrays, *reader.files]
        require(not left, f"holds {left[:1]}, which does not belong to it.")
    except FileFormatError as error:
        sentence = f"{path} {error}{remark}"
        if error.untrusted:
            sentence = (
                f"{path} {error} If you trust the file, write:\n{_line(path, error.untrusted)}"
            )
        made = FileFormatError(sentence)
        made.untrusted = error.untrusted
        raise made from error.__cause__
    return loaded


def _line(path: Any, trusted: Sequence[str]) -> str:
    """Return the line that loads a folder with types that are not checked (``cs`` is credalset)."""
    return f"cs.load({os.fspath(path)!r}, trusted={list(trusted)})"


# --- objects as trees ---


class Writer:
    """Take objects apart into JSON values, named arrays and files."""

    def __init__(self) -> None:
        self.arrays: dict[str, AnyArray] = {}
        self.files: dict[str, bytes] = {}
        self.packages: set[str] = set()  # whose versions matter for reading
        self.untrusted: set[str] = set()  # types of estimators that are not checked
        self._n_names = 0

    def encode(self, value: Any, where: str = "") -> Any:
        """Return a value as JSON; ``where`` it stands names its arrays."""
        value = value.item() if isinstance(value, np.generic) else value
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, str):
            value.encode()  # raises for half of a surrogate pair
            return str(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, Fraction):
            return {"fraction": [value.numerator, value.denominator]}
        if isinstance(value, type) and value in NUMBER_TYPES.values():
            return {"number": value.__name__}
        if isinstance(value, tuple | list):
            parts = self._encode_names(value, where) if len(value) > LONG else None
            parts = parts or [self.encode(part, f"{where}.{i}") for i, part in enumerate(value)]
            return {"list": parts} if isinstance(value, list) else parts
        if isinstance(value, dict):
            values = (
                [self.encode(part, f"{where}.{key}") for key, part in value.items()]
                if len(value) <= LONG
                else None
            )
            return {
                "dict": [
                    self.encode(tuple(value), where),
                    values or self.encode(tuple(value.values()), where),
                ]
            }
        if isinstance(value, np.ndarray) and value.dtype.kind in "UO" and value.ndim == 1:
            is_small = value.dtype.kind == "U" and value.nbytes <= 4 * MAX_TEXTS
            return {"texts" if is_small else "objects": self.encode(tuple(value.tolist()), where)}
        if isinstance(value, np.ndarray):
            return self._encode_array(value, where)
        return self._encode_object(value, where)

    def _encode_names(self, values: Sequence[Any], where: str) -> Any:
        """Return a long list of texts, or of whole numbers, as an array; None if it is neither."""
        self._n_names += len(values)
        if all(isinstance(value, str) and "\0" not in value for value in values):
            array: AnyArray = np.frombuffer("\0".join(values).encode(), np.uint8)
        else:
            array = np.asarray(
                values if {type(value) for value in values} <= {int, np.int64} else None
            )
        is_one = array.dtype in (np.uint8, np.int64) and self._n_names <= MAX_NAMES
        return {"names": self._encode_array(array, where)["array"]} if is_one else None

    def _encode_array(self, array: AnyArray, where: str) -> Any:
        if array.dtype.kind not in NUMBERS:
            raise TypeError(
                f"{where or 'the array'} holds {array.dtype}, which cannot be saved: only "
                "numbers can."
            )
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", where.strip(".")) or "array"
        name = (
            name
            if SAFE_NAME.fullmatch(name) and name not in self.arrays
            else f"array-{len(self.arrays)}"
        )
        self.arrays[name] = np.asarray(array, order="C")
        return {"array": name}

    def _encode_object(self, value: Any, where: str) -> Any:
        kind = type(value)
        is_own_way = hasattr(value, "_to_store")
        if hasattr(value, "get_params") and not is_own_way:
            return import_module(ESTIMATORS).encode_estimator(value, where, self)
        tag = "type"
        name = next((k.__name__ for k in kind.__mro__ if find_type(k.__name__) is k), "")
        if isinstance(getattr(kind, "name", None), str) and find_score(kind.name) is kind:
            tag = "score"
            name = kind.name
        elif not name or (find_type(name) is not kind and not is_own_way):
            what = where.strip(".") or "the object"
            if inspect.isroutine(value):
                raise TypeError(
                    f"{what} is a function, which cannot be saved, as files execute nothing. Save "
                    "the rest, and pass the function again."
                )
            raise TypeError(
                f"{what} is a {kind.__name__}, which has no file format: scores need "
                "register_score."
            )
        fields = (
            value._to_store()
            if is_own_way
            else {field: getattr(value, field) for field in _constructor(kind)[1]}
        )
        return {
            tag: name,
            "fields": {
                field: self.encode(part, f"{where}.{field}") for field, part in fields.items()
            },
        }


class Reader:
    """Put objects together again from JSON values, arrays and files; each has one owner."""

    def __init__(
        self, arrays: dict[str, AnyArray], files: dict[str, bytes], trusted: Sequence[str] = ()
    ) -> None:
        self.arrays = arrays
        self.files = files
        self.trusted = trusted
        self._depth = self._n_names = 0

    def decode(self, node: Any) -> Any:
        """Return the value that a JSON value stands for."""
        self._depth += 1
        require(self._depth <= MAX_DEPTH, "is nested too deeply; it was not written by credalset.")
        value = self._decode(node)
        self._depth -= 1
        return value

    def _decode(self, node: Any) -> Any:
        if isinstance(node, list):
            return tuple([self.decode(part) for part in node])
        if not isinstance(node, dict):
            return node
        tag = next(iter(node)) if len(node) == 1 else ""
        if tag == "array":
            return self.take(self.arrays, node[tag])
        if tag == "names":
            return self._names(self.take(self.arrays, node[tag]))
        if tag in VALUES:
            return VALUES[tag](self.decode(node[tag]))
        if set(node) in ({"type", "fields"}, {"score", "fields"}):
            return self._object(node)
        return import_module(ESTIMATORS).decode_estimator(node, self)

    def take(self, held: dict[str, Any], name: Any) -> Any:
        """Return an array or a file, once."""
        require(
            isinstance(name, str) and name in held,
            f"has no {str(name)[:80]!r}, or refers to it twice.",
        )
        return held.pop(name)

    def _names(self, array: AnyArray) -> tuple[Any, ...]:
        """Return the texts, or the whole numbers, of a long list."""
        is_text = array.dtype == np.uint8
        self._n_names += array.size - int(np.count_nonzero(array)) if is_text else array.size
        is_valid = (
            array.ndim == 1 and array.dtype in (np.uint8, np.int64) and self._n_names <= MAX_NAMES
        )
        require(is_valid, f"has a list of names that is not valid, or more than {MAX_NAMES} names.")
        return tuple(bytes(array).decode().split("\0") if is_text else array.tolist())

    def _object(self, node: dict[str, Any]) -> Any:
        name: Any = node.get("type", node.get("score"))
        fields = node["fields"]
        require(
            isinstance(name, str) and isinstance(fields, dict),
            "has no valid description of its parts.",
        )
        kind = find_score(name) if "score" in node else find_type(name)
        missing = (
            "import the module that calls register_score for it"
            if "score" in node
            else "upgrade credalset"
        )
        require(
            kind is not None,
            f"holds a {name!r}, which is not known here: {missing}, then load again.",
        )
        build, hints = _constructor(kind)
        require(
            set(fields) == set(hints),
            f"does not have the fields of a {name}: {', '.join(sorted(hints))}.",
        )
        values = {field: self.decode(part) for field, part in fields.items()}
        for field, value in values.items():
            check_field(field, value, hints[field], name)
        with refusing(f"has no valid {name}"):
            return build(**values)


def check_field(field: str, value: Any, hint: Any, owner: str) -> None:
    """Refuse a value that is not of the declared type, and sizes that nothing in the file backs."""
    if not fits(value, hint):
        raise FileFormatError(f"has no valid {field} for a {owner}: {str(value)[:80]!r}.")
    is_size = field in ("n_classes", "n_features_in_") and value is not None
    if is_size and not 1 <= value <= MAX_SIZE:  # only now put into words: other values may be long
        raise FileFormatError(f"claims {field} = {value}; at most {MAX_SIZE} are read.")


def fits(value: Any, hint: Any) -> bool:
    """Tell whether a value is of an annotated type; annotations that say nothing fit everything.

    Examples
    --------
    >>> fits(1, float | None), fits(True, int)
    (True, False)
    >>> fits(("a", 1), tuple[str, ...]), fits("x", Literal["x", "y"])
    (False, True)
    """
    origin = get_origin(hint)
    parts = get_args(hint)
    if hint is Any or isinstance(hint, str) or (origin is None and not isinstance(hint, type)):
        return True
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return any(value == part and type(value) is type(part) for part in parts)
    if hint in (None, NoneType):
        return value is None
    kind = origin or hint
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    if kind is np.ndarray:
        number = next(iter(get_args(parts[1])), Any) if len(parts) > 1 else Any
        is_any = number is Any or not isinstance(number, type)
        return isinstance(value, np.ndarray) and (is_any or value.dtype == number)
    if not isinstance(value, kind):
        return False
    if kind in (Sequence, list) or (kind is tuple and parts[1:] == (...,)):
        return not parts or all(fits(part, parts[0]) for part in value)
    return True


def _constructor(kind: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return what builds an object, and the types of its arguments."""
    if hasattr(kind, "_from_store"):
        hints = get_type_hints(kind._from_store)
        return kind._from_store, {
            name: hints.get(name, Any) for name in inspect.signature(kind._from_store).parameters
        }
    require(
        dataclasses.is_dataclass(kind),
        f"holds a {kind.__name__}, which is not written in this way.",
    )
    hints = get_type_hints(kind)
    return kind, {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}


def find_type(name: str) -> Any:
    """Return the class of the list `TYPES` that has this name, else None."""
    if name not in TYPES:
        return None
    return getattr(import_module(TYPES[name]), name, None)


def find_score(name: str) -> Any:
    """Return the score class registered under a name, else None."""
    return import_module(SCORES).find_score(name)


def _text_array(names: tuple[str, ...]) -> AnyArray:
    """Return an array of texts, each of which takes as much memory as the longest."""
    longest = max(map(len, names), default=0)
    require(longest * len(names) <= MAX_TEXTS, "has names that are too long.")
    require(all(isinstance(name, str) for name in names), "has names that are not texts.")
    return np.array(names, dtype=str)


def _dict(parts: tuple[Any, ...]) -> dict[Any, Any]:
    """Return a dict of keys that cannot be chosen to have one hash."""
    keys, values = parts
    is_plain = all(isinstance(key, str | float) or abs(key) < 1 << 63 for key in keys)
    require(is_plain, "has a table whose keys are not valid.")
    return dict(zip(keys, values, strict=True))


def _object_array(values: tuple[Any, ...]) -> AnyArray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


NUMBER_TYPES = {"float64": np.float64, "float32": np.float32}
#: what values that JSON lacks are built with
VALUES: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "dict": _dict,
    "float": float,
    "fraction": lambda parts: Fraction(*parts),
    "number": NUMBER_TYPES.__getitem__,
    "texts": _text_array,
    "objects": _object_array,
}
