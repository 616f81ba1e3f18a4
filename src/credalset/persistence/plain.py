"""What files of every kind are made of: names as JSON holds them, and refusals of what was not written by `save`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from credalset._typing import AnyArray
from credalset.exceptions import FileFormatError


def require(condition: Any, sentence: str) -> None:
    """Refuse a file in which something is not as `save` writes it."""
    if not condition:
        raise FileFormatError(sentence)


@contextmanager
def refusing(sentence: str) -> Iterator[None]:
    """Blame the file for whatever its values make a constructor or a check complain about."""
    try:
        yield
    except FileFormatError:
        raise
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise FileFormatError(f"{sentence}: {error}") from None


def read_array(arrays: dict[str, AnyArray], name: str, dtype: Any, shape: tuple[int, ...], sentence: str) -> AnyArray:
    """Return an array of the dtype and shape that it must have."""
    array = arrays.get(name)
    if array is None or array.dtype != dtype or array.shape != shape or (array != array).any():
        raise FileFormatError(sentence)
    return array


def is_whole(value: Any) -> TypeGuard[int]:
    """Tell whether a value is a whole number of at least zero."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_name(value: Any) -> bool:
    """Tell whether a value is text or a finite number, which JSON holds."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode() == value  # half of a surrogate pair is no text
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def plain_names(names: Sequence[Any], what: str, tuples: bool = False) -> list[Any]:
    """Return names that JSON can hold, tuples as lists if they are allowed, and refuse others."""
    return [_plain_name(name, what, tuples) for name in names]


def _plain_name(name: Any, what: str, tuples: bool) -> Any:
    value = name.item() if isinstance(name, np.generic) else name
    if tuples and isinstance(value, tuple):
        return [_plain_name(part, what, tuples=False) for part in value]
    if not is_name(value):
        kinds = "text, finite numbers or tuples of them" if tuples else "text or finite numbers"
        raise TypeError(f"{what} must be {kinds} to be saved, but one is {name!r}.")
    return value


def read_names(names: Any, sentence: str, twice: str, tuples: bool = False) -> list[Any]:
    """Return the names that `plain_names` wrote, all different."""
    require(isinstance(names, list), sentence)
    parts = [part for name in names for part in (name if tuples and isinstance(name, list) else [name])]
    require(all(map(is_name, parts)), sentence)
    found = [tuple(name) if isinstance(name, list) else name for name in names]
    require(len(set(found)) == len(found), twice)
    return found


def describe(thing: Any, registry: Mapping[str, type], complaint: str) -> dict[str, Any]:
    """Describe a thing with a name and ``params()`` by these, refusing one whose class is not registered."""
    kind: Any = type(thing)
    if registry.get(thing.name) is not kind:
        raise TypeError(f"{kind.__name__} {complaint}")
    params = {key: describe(v, registry, complaint) if hasattr(v, "params") else v for key, v in thing.params().items()}
    return {"name": thing.name, "params": params}


def rebuild(
    description: Any,
    registry: Mapping[str, type[Any]],
    what: str,
    path: str | Path,
    missing: str = "which is not registered in this version of credalset.",
) -> Any:
    """Build a thing from its description, refusing names and parameters that `describe` does not write."""
    is_description = isinstance(description, dict) and isinstance(description.get("params"), dict)
    require(is_description, f"{path} has no valid description of its {what}.")
    name, params = description.get("name"), description["params"]
    is_known = isinstance(name, str) and name in registry
    require(is_known, f"{path} uses the {what} {name!r}, {missing}")
    with refusing(f"{path} has unusable parameters for the {what} {name!r}"):
        nested = {k: rebuild(v, registry, what, path, missing) if isinstance(v, dict) else v for k, v in params.items()}
        thing: Any = registry[name](**nested)
        # Building converts what it can ("12" to two positions); what save wrote needs no converting.
        written = json.loads(json.dumps(describe(thing, registry, "")))
    require(
        written == description, f"{path} has parameters for the {what} {name!r} that save() does not write: {params}."
    )
    return thing
