"""Scores by name."""

from __future__ import annotations

import dataclasses
import inspect
import re
from importlib.metadata import entry_points
from typing import Any, TypeVar

from credalset.scores.base import REGISTRY, Score

#: group of entry points in which installed packages announce scores of theirs
ENTRY_POINTS = "credalset.scores"

ScoreType = TypeVar("ScoreType", bound=type[Score])


def register_score(score: ScoreType) -> ScoreType:
    """Give a score a name by which it can be asked for, saved and loaded, here and on the command line.

    Use it as a decorator above ``@dataclass(frozen=True)``, or call it with the class. A name lasts as long as the
    process: whoever loads a saved file imports the module that registers the score first. An installed package does
    without that import if it announces the score in its ``pyproject.toml``, by its name::

        [project.entry-points."credalset.scores"]
        chi2 = "my_package.scores:ChiSquare"

    Parameters
    ----------
    score : type
        A frozen dataclass derived from `Score` with a ``name`` and an ``order`` of its own, whose fields all have
        defaults and plain values: None, numbers, text, tuples of them, or other scores.

    Returns
    -------
    type
        The same class.

    Examples
    --------
    >>> import dataclasses, numpy as np
    >>> from credalset.scores import Score, get_score, register_score
    >>> @register_score
    ... @dataclasses.dataclass(frozen=True)
    ... class Euclidean(Score):
    ...     name = "euclidean"
    ...     order = "first"
    ...
    ...     def formula(self, prediction, distribution):
    ...         return np.sqrt(((distribution - prediction) ** 2).sum(axis=-1))
    >>> get_score("euclidean")([[0.5, 0.5]], [[0.8, 0.2]]).round(3)
    array([0.424])
    """
    name = _checked_name(score)
    taken = REGISTRY.get(name)
    # A notebook's cell that is run again defines the same class anew.
    if taken is not None and (taken.__module__, taken.__qualname__) != (score.__module__, score.__qualname__):
        raise ValueError(f"the name {name!r} belongs to {taken.__module__}.{taken.__qualname__}. Choose another name.")
    REGISTRY[name] = score
    return score


def _checked_name(score: Any) -> str:
    """Return the name of a score class that can be built, saved and loaded by it."""
    if not (isinstance(score, type) and issubclass(score, Score)):
        raise TypeError(f"register_score takes a class derived from Score, but got {score!r}.")
    what, parameters = score.__name__, vars(score).get("__dataclass_params__")
    if parameters is None or not parameters.frozen:
        raise TypeError(f"{what} must be a frozen dataclass: write @dataclass(frozen=True) above it.")
    if inspect.isabstract(score):
        raise TypeError(f"{what} has no formula: define formula(self, prediction, distribution).")
    name = vars(score).get("name")
    if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name)):
        raise ValueError(f"{what} must have a name of letters, digits, '-', '_' and '.', but has {name!r}.")
    if getattr(score, "order", None) not in ("first", "second"):
        raise ValueError(f'{what} must have order = "first" (predicted distributions) or "second" (concentrations).')
    for field in dataclasses.fields(score):  # type: ignore[arg-type]
        if field.init and field.default is field.default_factory is dataclasses.MISSING:
            raise TypeError(f"{what} needs a default for its parameter {field.name}: by name, it is built without any.")
        value = getattr(score(), field.name)
        if not _is_plain(value):
            raise TypeError(
                f"{what} has the parameter {field.name} = {value!r}, which files cannot hold. Use None, numbers, text, "
                "tuples of them, or other scores."
            )
    return name


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | Score)


def find_score(name: str) -> type[Score] | None:
    """Return the class that a name is registered for, here or by an installed package; None if there is none."""
    if name not in REGISTRY:
        for point in entry_points(group=ENTRY_POINTS, name=name):
            register_score(point.load())
    return REGISTRY.get(name)


def get_score(score: str | Score) -> Score:
    """Return a score object from a name or from a score.

    The names are ``tv ws kl inner so density hellinger brier normalized intervals``, and those of scores
    that you registered.

    Examples
    --------
    >>> get_score("kl"), get_score("tv")
    (KullbackLeibler(base=2.0), TotalVariation())
    """
    if isinstance(score, Score):
        return score
    if isinstance(score, type) and issubclass(score, Score):
        raise TypeError(f"score must be an instance: write {score.__name__}() instead of {score.__name__}.")
    if not isinstance(score, str):
        raise TypeError(f"score must be a name or a Score object, but is {score!r}.")
    found = find_score(score)
    if found is None:
        raise ValueError(
            f"score {score!r} is unknown. Known names: {', '.join(sorted(REGISTRY))}. A score of your own is known "
            "once the module that calls register_score for it is imported."
        )
    return found()
