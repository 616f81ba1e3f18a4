"""Scores and sets from plain values. What is read is checked, not trusted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from credalset.annotations.labels import name_array
from credalset.persistence.bundle import Bundle
from credalset.persistence.plain import is_whole, read_array, read_names, rebuild, refusing, require
from credalset.scores.base import REGISTRY, Score
from credalset.scores.registry import find_score
from credalset.sets.credal_set import CredalSet


def score_from_dict(description: Any) -> Score:
    """Build a score from its description, refusing names and parameters that are not registered."""
    _look_up(description)
    missing = "which is not registered here: import the module that calls register_score for it, then load again."
    score: Score = rebuild(description, REGISTRY, "score", missing)
    return score


def _look_up(description: Any) -> None:
    """Let installed packages register the scores that a description names."""
    if isinstance(description, dict):
        if isinstance(description.get("name"), str):
            find_score(description["name"])
        for value in description.values():
            _look_up(value)


def sets_from_bundle(bundle: Bundle) -> CredalSet:
    """Build sets from what `CredalSet.save` wrote, after checking all of it."""
    values, n_classes = bundle.values, bundle.values.get("n_classes")
    score = score_from_dict(values.get("score"))
    require(is_whole(n_classes), "has no valid number of classes.")
    with refusing("has no valid predictions"):
        prediction = bundle.arrays.pop("prediction")
        require(prediction.dtype == np.float64, "has no valid predictions.")
        checked = score.check_prediction(prediction, n_classes=n_classes)
    threshold = read_array(bundle.arrays, "threshold", np.float64, (len(checked),), "thresholds")
    sets = score._region(checked, threshold)
    items = read_names(values.get("items"), "item names", len(sets), tuples=True, distinct=False)
    return replace(
        sets,
        classes=read_names(values.get("classes"), "class names", n_classes),
        items=None if items is None else name_array(items),
    )
