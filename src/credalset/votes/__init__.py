"""Annotations: votes of annotators on items, label distributions, agreement and names."""

from __future__ import annotations

from credalset.votes.agreement import Agreement
from credalset.votes.annotations import Annotations, refuse_shared

__all__ = ["Agreement", "Annotations", "refuse_shared"]


def __dir__() -> list[str]:
    return list(__all__)
