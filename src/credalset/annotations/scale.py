"""Ordinal scales: where each class stands, so that distances between classes have a meaning."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from credalset.annotations.table import is_number_text

Positions = tuple[float, ...]


def find_positions(
    classes: Sequence[Hashable], ordered: bool | None, positions: Sequence[float] | None, inferred: bool = False
) -> Positions | None:
    """Return the position of every class on its scale, None for classes without an order.

    Parameters
    ----------
    classes : sequence of K names
        In the order of the scale.
    ordered : bool, optional
        True: the classes are levels. Levels that are numbers stand at these numbers, others at 0, 1, 2, …
    positions : sequence of K increasing numbers, optional
        Positions given outright.
    inferred : bool
        Whether the data say that the classes are ordered; counts when ``ordered`` is None.

    Examples
    --------
    >>> find_positions(["low", "high"], True, None)
    (0.0, 1.0)
    >>> find_positions([1, 2, 5], True, None)
    (1.0, 2.0, 5.0)
    """
    if ordered not in (None, True, False):
        raise TypeError(f"ordered must be True, False or None, but is {ordered!r}.")
    if positions is not None:
        if ordered is False:
            raise ValueError("positions are given, but ordered is False. Leave one of them out.")
        return _checked(positions, len(classes))
    if not (inferred if ordered is None else ordered):
        return None
    if not all(_is_number(name) for name in classes):
        return tuple(map(float, range(len(classes))))
    numbers = tuple(float(name) for name in classes)  # type: ignore[arg-type]
    if any(b <= a for a, b in pairwise(numbers)):
        raise ValueError(
            f"ordered=True needs classes in the order of their scale, but they are {list(classes)}. "
            "Sort classes=[...], or pass positions=[...] if the numbers are mere codes."
        )
    return numbers


def _checked(positions: Sequence[float], size: int) -> Positions:
    try:
        numbers = tuple(float(x) for x in positions)
    except (TypeError, ValueError):
        raise TypeError(f"positions must be {size} increasing numbers, but is {positions!r}.") from None
    if len(numbers) != size or not np.isfinite(numbers).all() or any(b <= a for a, b in pairwise(numbers)):
        raise ValueError(
            f"positions must be {size} finite, strictly increasing numbers, one per class, but is {list(numbers)}. "
            "Put classes=[...] into the order of the scale."
        )
    return numbers


def _is_number(name: Any) -> bool:
    if isinstance(name, bool | np.bool_):
        return False
    return is_number_text(name) or (isinstance(name, int | float | np.number) and bool(np.isfinite(name)))
