"""Names that people try first: taken where only one thing can be meant, explained where the object has another."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Self, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: arguments, and other names for them
ARGUMENTS = {
    "Y": ("y", "labels"),
    "folds": ("cv", "n_folds"),
    "calibration_size": ("test_size", "conformalize_size"),
    "task": ("item", "item_id", "id"),
    "worker": ("annotator", "annotators", "columns", "rater", "raters", "user"),
    "label": ("rating", "vote", "category"),
    "delimiter": ("sep", "separator"),
    "texts": ("text",),
    "budget": ("n_votes",),
}


def also_called(method: Callable[P, R]) -> Callable[P, R]:
    """Let a method take its arguments by other names too, where it has none of that name itself."""
    own = inspect.signature(method).parameters
    meant = {other: name for name, others in ARGUMENTS.items() if name in own for other in others if other not in own}

    @wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        for other in meant.keys() & kwargs.keys():
            if meant[other] not in kwargs:
                kwargs[meant[other]] = kwargs.pop(other)
        return method(*args, **kwargs)

    return wrapper


class Hinting:
    """Says what is meant by an attribute that an object does not have and that is often tried."""

    _hints: ClassVar[dict[str, str]] = {}

    if not TYPE_CHECKING:  # type checkers go by the names that there are

        def __getattr__(self, name: str) -> Any:
            hint = type(self)._hints.get(name)
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(text if hint is None else f"{text}. {hint}", name=name, obj=self)


class Guessing:
    """Explains parameters that an estimator does not have; comes before ``BaseEstimator`` among the bases."""

    #: what is meant by parameters that are often tried
    _meant: ClassVar[dict[str, str]] = {}

    def __new__(cls, *args: Any, **params: Any) -> Self:
        """Explain a parameter that the constructor does not know."""
        for name in params:
            if name in cls._meant:
                raise TypeError(f"{cls.__name__} has no parameter {name!r}: {cls._meant[name]}")
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, nested ones too (``estimator__C``); one that does not exist is told its likely name."""
        try:
            changed: Self = super().set_params(**params)  # type: ignore[misc]
        except ValueError:
            known = self.get_params(deep=True)  # type: ignore[attr-defined]
            for name in params:
                meant = [other for other in known if other.endswith(f"__{name.rsplit('__', 1)[-1]}")]
                if name not in known and (meant or name in self._meant):
                    advice = self._meant.get(name) or f"did you mean {' or '.join(map(repr, meant[:3]))}?"
                    raise ValueError(f"{type(self).__name__} has no parameter {name!r}: {advice}") from None
            raise
        return changed
