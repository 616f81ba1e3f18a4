"""What every batch of credal sets answers: questions with generic answers, uncertainty, decisions."""

from __future__ import annotations

from credalset.sets.credal_set import CredalSet
from credalset.sets.queue import Queue, QueueRules
from credalset.sets.results import EntropyBounds, Uncertainty, Volume
from credalset.sets.union import UnionSet
from credalset.sets.updated import UpdatedSet

__all__ = ["CredalSet", "EntropyBounds", "Queue", "QueueRules", "Uncertainty", "UnionSet", "UpdatedSet", "Volume"]
