"""Scores by name."""

from __future__ import annotations

from typing import TypeVar

from credalset.scores.base import REGISTRY, Score

ScoreType = TypeVar("ScoreType", bound=type[Score])


def register_score(score: ScoreType) -> ScoreType:
    """Give a score its name: it can then be asked for by name, saved, loaded, and used from the command line.

    Use it as a decorator on the class. Whoever loads a file that was made with the score must register it first, which
    importing the module that defines it does.

    Parameters
    ----------
    score : type of Score
        A frozen dataclass with a ``name``; its fields are plain values (numbers, texts, tuples of them).

    Returns
    -------
    type of Score
        The class itself.
    """
    if not (isinstance(score, type) and issubclass(score, Score)):
        raise TypeError(f"register_score takes a class derived from Score, but got {score!r}.")
    name = getattr(score, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"{score.__name__} needs a name such as 'chi_square' to be registered, but has {name!r}.")
    parameters = getattr(score, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        raise TypeError(
            f"{score.__name__} must be a frozen dataclass, so that its parameters can be saved. "
            "Write @dataclass(frozen=True) above the class, below register_score."
        )
    known = REGISTRY.get(name)
    if known is not None and (known.__module__, known.__qualname__) != (score.__module__, score.__qualname__):
        raise ValueError(f"the name {name!r} belongs to {known.__module__}.{known.__qualname__}. Choose another name.")
    REGISTRY[name] = score
    return score


def get_score(score: str | Score) -> Score:
    """Return a score object from a name or from a score.

    The names are ``tv ws kl inner so density hellinger brier normalized prototypes``, and those of scores that you
    registered.

    Examples
    --------
    >>> get_score("kl")
    KullbackLeibler(base=2.0)
    """
    if isinstance(score, Score):
        return score
    if isinstance(score, type) and issubclass(score, Score):
        raise TypeError(f"score must be an instance: write {score.__name__}() instead of {score.__name__}.")
    if not isinstance(score, str):
        raise TypeError(f"score must be a name or a Score object, but is {score!r}.")
    if score not in REGISTRY:
        raise ValueError(f"score {score!r} is unknown. Known names: {', '.join(sorted(REGISTRY))}.")
    return REGISTRY[score]()
