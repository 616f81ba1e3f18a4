"""Scores as plain values, and back. What is read is checked, not trusted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import AnyArray
from credalset.annotations.labels import name_array
from credalset.persistence.bundle import Bundle
from credalset.persistence.plain import is_name, is_whole, read_array, read_names, rebuild, refusing, require
from credalset.scores.base import REGISTRY, Score
from credalset.sets.credal_set import CredalSet


def score_to_dict(score: Score) -> dict[str, Any]:
    """Describe a score by its registered name and plain parameters."""
    return score.describe()


def score_from_dict(description: Any, path: str | Path) -> Score:
    """Build a score from its description, refusing names and parameters that are not registered."""
    score: Score = rebuild(description, REGISTRY, "score", path)
    return score


def sets_from_bundle(bundle: Bundle, path: str | Path) -> CredalSet:
    """Build sets from what `CredalSet.save` wrote, after checking all of it."""
    values, n_classes = bundle.values, bundle.values.get("n_classes")
    score = score_from_dict(values.get("score"), path)
    prediction = bundle.arrays.get("prediction")
    wrong = f"{path} has no valid predictions."
    require(prediction is not None and prediction.dtype == np.float64 and prediction.ndim >= 2, wrong)
    assert prediction is not None
    n = len(prediction)
    threshold = read_array(bundle.arrays, "threshold", np.float64, (n,), f"{path} has no valid thresholds.")
    require(is_whole(n_classes), f"{path} has no valid number of classes.")
    with refusing(wrong):
        checked = score.check_prediction(prediction, n_classes=n_classes)
        sets = score._region(checked, threshold)
    return replace(
        sets,
        classes=_names(values.get("classes"), n_classes, f"{path} has no valid class names."),
        items=_items(values.get("items"), n, f"{path} has no valid item names."),
    )


def _names(names: Any, n: Any, wrong: str) -> tuple[Any, ...] | None:
    if names is None:
        return None
    found = tuple(read_names(names, wrong, wrong))
    require(len(found) == n, wrong)
    return found


def _items(names: Any, n: int, wrong: str) -> AnyArray | None:
    """Return the names of the items, which may repeat, as an array of objects."""
    if names is None:
        return None
    is_list = isinstance(names, list) and len(names) == n
    require(is_list and all(is_name(p) for name in names for p in (name if isinstance(name, list) else [name])), wrong)
    return name_array([tuple(name) if isinstance(name, list) else name for name in names])
