"""Scores as plain values, and back. What is read is checked, not trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from credalset.persistence.plain import describe, rebuild
from credalset.scores.base import Score
from credalset.scores.registry import REGISTRY, find_score


def score_to_dict(score: Score) -> dict[str, Any]:
    """Describe a score by its registered name and plain parameters."""
    advice = "Put @register_score above its class, here and where it is loaded."
    return describe(score, REGISTRY, f"is not a registered score and cannot be saved. {advice}")


def score_from_dict(description: Any, path: str | Path) -> Score:
    """Build a score from its description, refusing names and parameters that are not registered."""
    _look_up(description)
    missing = "which is not registered here: import the module that calls register_score for it, then load again."
    score: Score = rebuild(description, REGISTRY, "score", path, missing)
    return score


def _look_up(description: Any) -> None:
    """Let installed packages register the scores that a description names."""
    if isinstance(description, dict):
        if isinstance(description.get("name"), str):
            find_score(description["name"])
        for value in description.values():
            _look_up(value)
