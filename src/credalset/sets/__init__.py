"""What every batch of credal sets answers: questions with generic answers, uncertainty, decisions."""

from __future__ import annotations

from credalset.sets.credal_set import CredalSet
from credalset.sets.results import EntropyBounds, Volume
from credalset.sets.uncertainty import Uncertainty

__all__ = ["CredalSet", "EntropyBounds", "Uncertainty", "Volume"]
