"""Names that people try first: taken where only one thing can be meant, explained where something else is.

`explained` does so for the arguments of a function, `Hinting` for the attributes of an object and the arguments of its
methods, `Guessing` for the parameters of an estimator and `missing_name` for the names of a module. What is meant by
what is in the tables of `_guesses.py`.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache, wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Self, TypeVar

from credalset._guesses import (
    ARGUMENTS,
    ARGUMENTS_OF,
    BESIDE,
    CALLED,
    IN_FRAMES,
    SO_ANYWAY,
    TOLD,
)

P = ParamSpec("P")
R = TypeVar("R")

MOST_LISTED = 12  # names that a message lists
CLOSE = 0.7  # how alike a name must be to be the one that was meant, from 0 to 1
SHORT = 30  # characters of a value that a message repeats


class Arguments:
    """What a function takes, read once from its code, and words for what it does not take."""

    def __init__(self, function: Callable[..., Any]) -> None:
        plain: Any = inspect.unwrap(function)
        code, defaults = plain.__code__, plain.__kwdefaults__ or {}
        n, m = code.co_argcount, code.co_kwonlyargcount
        positional, self.by_name = list(code.co_varnames[:n]), list(code.co_varnames[n : n + m])
        self.function = plain.__name__
        self.bound = int(positional[:1] in (["self"], ["cls"]))  # which nobody passes
        self.positional = positional[self.bound :]
        n_needed = len(self.positional) - len(plain.__defaults__ or ())
        self.needed = self.positional[:n_needed] + [name for name in self.by_name if name not in defaults]
        self.takes = [*self.positional, *self.by_name]
        self.is_open = bool(code.co_flags & inspect.CO_VARKEYWORDS)
        # Calls within these need no second look; what must come by name is looked for in every call.
        self.least = self.bound + n_needed if len(self.needed) == n_needed else n + m + 1
        self.most = self.bound + (1 << 30 if code.co_flags & inspect.CO_VARARGS else len(self.positional))
        self.names = frozenset(self.takes)
        tables = (ARGUMENTS, ARGUMENTS_OF.get(self.function, {}))
        called = ((name, others) for table in tables for name, others in table.items() if name in self.names)
        self.called = {other: name for name, others in called for other in others if other not in self.names}
        if self.is_open:  # what it does not know is for whoever it passes it on to
            self.called = {}

    def understand(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments under the names that the function has for them, or say which it has not."""
        there = {*self.positional[: len(args) - self.bound], *(kwargs.keys() & self.names)}
        known: dict[str, Any] = {}
        for tried, value in kwargs.items():
            name = self.called.get(tried, tried)
            if name != tried and name not in there:
                there.add(name)
                known[name] = value
            elif tried in self.names or (self.is_open and name == tried):
                known[tried] = value
            elif not any(value is plain for plain in SO_ANYWAY.get(self.function, {}).get(tried, ())):
                raise TypeError(f"{self.function} has no argument {tried!r}. {self.advice(tried)}")
        if len(args) > self.most:
            raise TypeError(self._too_many(args[self.most :]))
        if missing := [name for name in self.needed if name not in there]:
            told = TOLD.get(self.function, {}).get(missing[0], "")
            words = f"{self.function} needs {' and '.join(missing)}. {told}".strip()
            raise TypeError(f"{words} {self.listed}")
        return known

    def advice(self, tried: str) -> str:
        """Say what is meant by an argument that the function does not have, and what it takes."""
        told = TOLD.get(self.function, {}).get(tried)
        if told is None:
            beside = (others.get(tried) for name, others in BESIDE.items() if name in self.names)
            told = next((words for words in beside if words is not None), None)
        if told is None and tried in self.called:
            told = f"It is called {self.called[tried]} here, which is given, too."
        if told is None:
            close = get_close_matches(tried.lower(), self.takes, 1, CLOSE)
            told = f"Did you mean {close[0]}?" if close else ""
        return f"{told} {self.listed}".strip()

    @property
    def listed(self) -> str:
        """What the function takes, in a sentence."""
        return f"It takes {', '.join(self.takes)}." if self.takes else "It takes no arguments."

    def _too_many(self, extra: Sequence[Any]) -> str:
        """Say by which names the arguments go that were passed by position and do not go by it."""
        by_position = ", ".join(self.positional) or "nothing"
        pairs = list(zip(self.by_name, extra, strict=False))
        if len(pairs) < len(extra):
            found = len(self.positional) + len(extra)
            return f"{self.function} takes {by_position} by position, but was given {found} arguments. {self.listed}"
        named = ", ".join(f"{name}={_brief(value)}" for name, value in pairs)
        return f"{self.function} takes {by_position} by position, and all else by name: {named}. {self.listed}"


def _brief(value: Any) -> str:
    text = repr(value) if value is None or isinstance(value, bool | int | float | str) else "..."
    return text if len(text) <= SHORT else "..."


def explained(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function take arguments by their other names, and say in plain words what it does not take.

    Examples
    --------
    >>> @explained
    ... def predict(X, *, alpha=0.1): return alpha
    >>> predict([1], significance_level=0.2)
    0.2
    >>> predict([1], 0.2)
    Traceback (most recent call last):
    TypeError: predict takes X by position, and all else by name: alpha=0.2. It takes X, alpha.
    """
    if hasattr(function, "_arguments"):
        return function
    known = Arguments(function)
    least, most, names = known.least, known.most, known.names

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if not (least <= len(args) <= most and kwargs.keys() <= names):
            return function(*args, **known.understand(args, kwargs))
        return function(*args, **kwargs)

    wrapper._arguments = known  # type: ignore[attr-defined]
    return wrapper


def _told(kind: type) -> dict[str, str]:
    """Return what a class and its bases say of attributes that they do not have."""
    return {name: hint for base in reversed(kind.__mro__) for name, hint in vars(base).get("_hints", {}).items()}


def _public(kind: type) -> list[str]:
    """Return the public names of a class, those of the class itself first, fields before methods."""
    names = (name for base in kind.__mro__ for name in [*vars(base).get("__dataclass_fields__", {}), *vars(base)])
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


@lru_cache(maxsize=1024)
def _advice(kind: type, name: str) -> str:
    return advice(name, _told(kind), _public(kind))


def advice(name: str, hints: Mapping[str, str], names: Sequence[str]) -> str:
    """Say what is meant by a name: a hint, what it is called here, the closest names, or some that there are.

    Examples
    --------
    >>> advice("uper", {"bounds": "Ask envelope()."}, ["lower", "upper"])
    'Did you mean upper?'
    >>> advice("bound", {"bounds": "Ask envelope()."}, ["lower", "upper"])
    'Ask envelope().'
    >>> advice("nonsense", {}, ["lower", "upper"])
    'It has lower, upper.'
    """
    if name in hints:
        return hints[name]
    called = next((own for own, others in CALLED.items() if name in others and own in names), None)
    if called is not None:
        return f"It is called {called} here."
    if name in IN_FRAMES and "to_frame" in names:
        return f"A frame has it: to_frame().{name}."
    close = get_close_matches(name, [*names, *hints], 3, CLOSE)
    if close:
        return hints.get(close[0]) or f"Did you mean {' or '.join(found for found in close if found in names)}?"
    return f"It has {', '.join(names[:MOST_LISTED])}{', …' if len(names) > MOST_LISTED else '.'}"


def missing_name(module: str, name: str, names: Iterable[str], hints: Mapping[str, str]) -> AttributeError:
    """Return the error for a name that a module does not have; its ``__getattr__`` raises it."""
    text = f"module {module!r} has no attribute {name!r}"
    if not name.startswith("_"):
        text = f"{text}. {advice(name, hints, list(names))}"
    return AttributeError(text, name=name)


class Hinting:
    """Says what is meant by an attribute that an object does not have, or by an argument that its methods do not."""

    #: what is meant by attributes that are often tried, and what people know the class as, if not by its name
    _hints: ClassVar[dict[str, str]] = {}
    _known_as: ClassVar[str | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Have every public method explain its arguments."""
        super().__init_subclass__(**options)
        if not cls.__module__.startswith("credalset."):  # methods of others are theirs
            return
        for name, value in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if isinstance(value, FunctionType):
                setattr(cls, name, explained(value))
            elif isinstance(value, classmethod):
                setattr(cls, name, classmethod(explained(value.__func__)))

    if not TYPE_CHECKING:  # type checkers go by the names that there are

        def __getattr__(self, name: str) -> Any:
            text = f"{(type(self)._known_as or type(self).__name__)!r} object has no attribute {name!r}"
            if name.startswith("_"):  # asked for by copy, pickle and the like, which look for nothing else
                raise AttributeError(text, name=name, obj=self)
            if isinstance(inspect.getattr_static(type(self), name, None), property):
                return object.__getattribute__(self, name)  # it failed by itself: let its own error be seen
            raise AttributeError(f"{text}. {_advice(type(self), name)}", name=name)


class HintingClass(ABCMeta):  # so that classes of users can be abstract, too
    """Says of a class, too, what is meant by an attribute that it does not have."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            text = f"type object {cls.__name__!r} has no attribute {name!r}"
            hint = None if name.startswith("_") else _told(cls).get(name)
            raise AttributeError(text if hint is None else f"{text}. {hint}", name=name, obj=cls)


class Guessing(metaclass=HintingClass):
    """Explains parameters that an estimator does not have; comes before ``BaseEstimator`` among the bases."""

    #: what is meant by parameters that are often tried
    _meant: ClassVar[dict[str, str]] = {}

    def __new__(cls, *args: Any, **params: Any) -> Self:
        """Explain a parameter that the constructor does not know."""
        if params:
            known = Arguments(cls.__init__)
            for name in params.keys() - (params.keys() if known.is_open else known.names):
                told = f": {cls._meant[name]}" if name in cls._meant else f". {known.advice(name)}"
                raise TypeError(f"{cls.__name__} has no parameter {name!r}{told}")
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
                    told = self._meant.get(name) or f"did you mean {' or '.join(map(repr, meant[:3]))}?"
                    raise ValueError(f"{type(self).__name__} has no parameter {name!r}: {told}") from None
            raise
        return changed
