"""Scores by name."""

from __future__ import annotations

import dataclasses
import inspect
import re
from importlib.metadata import entry_points
from typing import Any, TypeVar

from credalset.scores.base import REGISTRY, Score

#: group of entry points through which installed packages register scores
ENTRY_POINTS = "credalset.scores"

ScoreType = TypeVar("ScoreType", bound=type[Score])


def register_score(score: ScoreType) -> ScoreType:
    """Register a score class under its name, so that it can be used by name, saved and loaded.

    Use it as a decorator above ``@dataclass(frozen=True)``, or call it with the class. The name is
    registered for the current process: import the module that registers the score before you load a
    saved file. This import is not needed for scores that an installed package lists in its
    ``pyproject.toml``::

        [project.entry-points."credalset.scores"]
        chi2 = "my_package.scores:ChiSquare"

    Parameters
    ----------
    score : type
        A frozen dataclass derived from `Score` that defines ``name`` and ``order``. All fields have
        defaults, and plain values: None, numbers, text, tuples of them, or other scores.

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
    # A notebook cell that is run again defines the same class again.
    if taken is not None and (taken.__module__, taken.__qualname__) != (
        score.__module__,
        score.__qualname__,
    ):
        raise ValueError(
            f"name {name!r} is taken by {taken.__module__}.{taken.__qualname__}. Choose "
            "another name."
        )
    REGISTRY[name] = score
    return score


def _checked_name(score: Any) -> str:
    """Return the name of a score class; it must be one that can be built, saved and loaded."""
    if not (isinstance(score, type) and issubclass(score, Score)):
        raise TypeError(f"register_score takes a class derived from Score, but got {score!r}.")
    what = score.__name__
    parameters = vars(score).get("__dataclass_params__")
    if parameters is None or not parameters.frozen:
        raise TypeError(
            f"{what} must be a frozen dataclass. Write @dataclass(frozen=True) above it."
        )
    if inspect.isabstract(score):
        raise TypeError(f"{what} has no formula. Define formula(self, prediction, distribution).")
    name = vars(score).get("name")
    if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name)):
        raise ValueError(
            f"{what} must have a name of letters, digits, '-', '_' and '.', but has {name!r}."
        )
    if getattr(score, "order", None) not in ("first", "second"):
        raise ValueError(
            f'{what} must have order = "first" (predicted distributions) or "second" '
            "(concentrations)."
        )
    for field in dataclasses.fields(score):  # type: ignore[arg-type]
        missing = dataclasses.MISSING
        has_default = field.default is not missing or field.default_factory is not missing
        if field.init and not has_default:
            raise TypeError(
                f"{what} must have a default for its parameter {field.name}, to be built by name."
            )
        value = getattr(score(), field.name)
        if not _is_plain(value):
            raise TypeError(
                f"{what} has the parameter {field.name} = {value!r}, which cannot be saved. Use "
                "None, numbers, text, tuples of them, or other scores."
            )
    return name


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | Score)


def find_score(name: str) -> type[Score] | None:
    """Return the class registered under a name, also by a package; None if unknown."""
    if name not in REGISTRY:
        for point in entry_points(group=ENTRY_POINTS, name=name):
            register_score(point.load())
    return REGISTRY.get(name)


def get_score(score: str | Score) -> Score:
    """Return a score object from a name or from a score.

    Parameters
    ----------
    score : str or Score
        Name of a score, or a score object, which is returned unchanged. Names are, for predicted
        distributions, ``"kl"``, ``"tv"``, ``"inner"``, ``"hellinger"``, ``"brier"``, ``"ws"`` (for
        ordered classes) and ``"normalized"``; for Dirichlet concentrations, ``"so"`` and
        ``"density"``; for predicted intervals, ``"intervals"``; and those that you registered.

    Returns
    -------
    Score

    Examples
    --------
    >>> get_score("kl"), get_score("tv")
    (KullbackLeibler(base=2.0), TotalVariation())
    """
    if isinstance(score, Score):
        return score
    if isinstance(score, type) and issubclass(score, Score):
        raise TypeError(
            f"score must be an instance: write {score.__name__}() instead of {score.__name__}."
        )
    if not isinstance(score, str):
        raise TypeError(f"score must be a name or a Score object, but is {score!r}.")
    found = find_score(score)
    if found is None:
        known = [
            name if name == each.__name__.lower() else f"{name} ({each.__name__})"
            for name, each in sorted(REGISTRY.items())
        ]
        meant = [
            f" Did you mean {name!r}?"
            for name, each in REGISTRY.items()
            if score.lower().replace("-", "").replace("_", "") in (name, each.__name__.lower())
        ]
        raise ValueError(
            f"score {score!r} is unknown.{''.join(meant)} Known names are {', '.join(known)}, and "
            "those that an imported module registers."
        )
    return found()
