"""Methods that either succeed or change nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from credalset._guessing import also_called

P = ParamSpec("P")
R = TypeVar("R")


def all_or_nothing(method: Callable[P, R]) -> Callable[P, R]:
    """Leave the classifier as it was if the method fails: what was fitted and calibrated before stays good."""

    @wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        state: dict[str, Any] = args[0].__dict__
        before = dict(state)
        try:
            return method(*args, **kwargs)
        except BaseException:
            state.clear()
            state.update(before)
            raise

    return also_called(wrapper)
