"""What files of every kind are made of: names as JSON holds them, and refusals of what was not written by `save`.

Refusals say what is wrong with "it"; `load` puts the path in front of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
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
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RuntimeError) as error:
        raise FileFormatError(f"{sentence}: {error}") from None


def read_array(
    arrays: dict[str, AnyArray], name: str, dtype: Any, shape: tuple[int | None, ...], what: str
) -> AnyArray:
    """Take an array out of those that a file holds, of the dtype and shape that it must have; None fits any length."""
    array: Any = arrays.pop(name, None)
    is_valid = array is not None and array.dtype == dtype and array.ndim == len(shape)
    fits = is_valid and all(wanted in (None, n) for wanted, n in zip(shape, array.shape, strict=True))
    require(fits and not (array != array).any(), f"has no valid {what}.")
    found: AnyArray = array
    return found


def is_whole(value: Any) -> TypeGuard[int]:
    """Tell whether a value is a whole number of at least zero."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_name(value: Any) -> bool:
    """Tell whether a value is text or a finite number, which JSON holds."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode() == value  # half of a surrogate pair is no text
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def plain_names(names: Iterable[Any] | None, what: str, tuples: bool = False) -> Any:
    """Return names that JSON can hold, tuples as lists if they are allowed, and refuse others; None stays None."""
    return None if names is None else [_plain_name(name, what, tuples) for name in names]


def _plain_name(name: Any, what: str, tuples: bool) -> Any:
    value = name.item() if isinstance(name, np.generic) else name
    if tuples and isinstance(value, tuple):
        return [_plain_name(part, what, tuples=False) for part in value]
    if not is_name(value):
        kinds = "text, finite numbers or tuples of them" if tuples else "text or finite numbers"
        raise TypeError(f"{what} must be {kinds} to be saved, but one is {name!r}.")
    return value


def read_names(names: Any, what: str, n: int | None = None, tuples: bool = False, distinct: bool = True) -> Any:
    """Return the n names that `plain_names` wrote as a tuple; None stays None."""
    if names is None:
        return None
    require(isinstance(names, list) and n in (None, len(names)), f"has no valid {what}: {n or 'a list'} expected.")
    parts = [part for name in names for part in (name if tuples and isinstance(name, list) else [name])]
    require(all(map(is_name, parts)), f"has no valid {what}.")
    found = tuple(tuple(name) if isinstance(name, list) else name for name in names)
    require(not distinct or len(set(found)) == len(found), f"has no valid {what}: one comes twice in {names}.")
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
    missing: str = "which is not registered in this version of credalset.",
) -> Any:
    """Build a thing from its description, refusing names and parameters that `describe` does not write."""
    is_description = isinstance(description, dict) and isinstance(description.get("params"), dict)
    require(is_description, f"has no valid description of its {what}.")
    name, params = description.get("name"), description["params"]
    is_known = isinstance(name, str) and name in registry
    require(is_known, f"uses the {what} {name!r}, {missing}")
    with refusing(f"has unusable parameters for the {what} {name!r}"):
        nested = {k: rebuild(v, registry, what, missing) if isinstance(v, dict) else v for k, v in params.items()}
        thing: Any = registry[name](**nested)
        # Building converts what it can ("12" to two positions); what save wrote needs no converting.
        written = json.loads(json.dumps(describe(thing, registry, "")))
    require(written == description, f"has parameters for the {what} {name!r} that save() does not write: {params}.")
    return thing
