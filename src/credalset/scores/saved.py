"""Scores as plain values, and back. What is read is checked, not trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from credalset.persistence.plain import refusing, require
from credalset.scores.base import Score
from credalset.scores.registry import REGISTRY


def score_to_dict(score: Score) -> dict[str, Any]:
    """Describe a score by its registered name and plain parameters."""
    if REGISTRY.get(score.name) is not type(score):
        raise TypeError(
            f"{type(score).__name__} is not a registered score and cannot be saved. "
            "Register it in credalset.scores.REGISTRY under its name, here and where it is loaded."
        )
    params = {key: score_to_dict(v) if isinstance(v, Score) else v for key, v in score.params().items()}
    return {"name": score.name, "params": params}


def score_from_dict(description: Any, path: str | Path) -> Score:
    """Build a score from its description, refusing names and parameters that are not registered."""
    is_description = isinstance(description, dict) and isinstance(description.get("params"), dict)
    require(is_description, f"{path} has no valid description of its score.")
    name, params = description.get("name"), description["params"]
    require(
        isinstance(name, str) and name in REGISTRY, f"{path} uses the score {name!r}, which is not registered here."
    )
    with refusing(f"{path} has unusable parameters for the score {name!r}"):
        score = REGISTRY[name](**{k: score_from_dict(v, path) if isinstance(v, dict) else v for k, v in params.items()})
        # Building a score converts what it can ("12" to two positions); what save wrote needs no converting.
        written = json.loads(json.dumps(score_to_dict(score)))
    require(
        written == description, f"{path} has parameters for the score {name!r} that save() does not write: {params}."
    )
    return score
