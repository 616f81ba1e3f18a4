"""What files of every kind are made of: names as JSON holds them, and refusals of what was not written by `save`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
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
    lists = [name for name in names if tuples and isinstance(name, list)]
    require(all(is_name(part) for name in lists for part in name), sentence)
    require(all(is_name(name) for name in names if not any(name is one for one in lists)), sentence)
    found = [tuple(name) if isinstance(name, list) else name for name in names]
    require(len(set(found)) == len(found), twice)
    return found
