"""Credal sets: the one class a user holds, and the geometry that answers its questions."""

from __future__ import annotations

from credalset.sets.credal_set import CredalSet
from credalset.sets.geometry import Geometry
from credalset.sets.queue import Queue, QueueRules
from credalset.sets.results import Entropies, EntropyBounds, Uncertainty, Volume

__all__ = [
    "CredalSet",
    "Entropies",
    "EntropyBounds",
    "Geometry",
    "Queue",
    "QueueRules",
    "Uncertainty",
    "Volume",
]


def __dir__() -> list[str]:
    return list(__all__)
