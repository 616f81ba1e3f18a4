"""Scores by name."""

from __future__ import annotations

from credalset.scores.base import Score

#: every registered score, by name
REGISTRY: dict[str, type[Score]] = {}


def register_score(score: type[Score]) -> type[Score]:
    """Give a score a name of its own, by which it can be asked for, saved and loaded; works as a class decorator."""
    REGISTRY[score.name] = score
    return score


def get_score(score: str | Score) -> Score:
    """Return a score object from a name (``tv ws kl inner so density hellinger normalized``) or from a score.

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
