"""Nonconformity scores, each with the region it induces. A new score is one file here and one line below."""

from __future__ import annotations

from credalset.scores.base import Score
from credalset.scores.density import NegativeLogDensity
from credalset.scores.dirichlet import RelativeLikelihood
from credalset.scores.hellinger import Hellinger
from credalset.scores.inner_product import InnerProduct
from credalset.scores.kullback_leibler import KullbackLeibler
from credalset.scores.normalized import Normalized
from credalset.scores.total_variation import TotalVariation
from credalset.scores.wasserstein import Wasserstein

REGISTRY: dict[str, type[Score]] = {
    score.name: score
    for score in (
        TotalVariation,
        Wasserstein,
        KullbackLeibler,
        InnerProduct,
        RelativeLikelihood,
        NegativeLogDensity,
        Hellinger,
        Normalized,
    )
}


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


__all__ = [
    "REGISTRY",
    "Hellinger",
    "InnerProduct",
    "KullbackLeibler",
    "NegativeLogDensity",
    "Normalized",
    "RelativeLikelihood",
    "Score",
    "TotalVariation",
    "Wasserstein",
    "get_score",
]
