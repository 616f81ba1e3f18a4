"""Noise models and rules as plain values and arrays, and back. What is read is checked, not trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import AnyArray
from credalset.calibration.conditional import Conditional, check_conditional
from credalset.calibration.groups import Groups
from credalset.calibration.models import NOISES
from credalset.calibration.noise import Noise
from credalset.calibration.part import as_weights
from credalset.calibration.rule import Rule
from credalset.persistence.plain import describe, plain_names, read_array, read_names, rebuild, refusing, require
from credalset.scores import Score

PathLike = str | Path
Arrays = dict[str, AnyArray]
SCORES, BOUNDS, WEIGHTS, GROUPS = "scores", "rule_bounds", "rule_weights", "rule_groups"
FEATURES = "rule_features"


def noise_to_dict(noise: Noise) -> dict[str, Any]:
    """Describe a noise model by its name and plain parameters."""
    return describe(noise, NOISES, "is not one of credalset's noise models and cannot be saved.")


def noise_from_dict(description: Any, path: PathLike) -> Noise:
    """Build a noise model from its description."""
    noise: Noise = rebuild(description, NOISES, "noise model", path)
    return noise


def rule_to_plain(rule: Rule) -> tuple[dict[str, Any], Arrays]:
    """Return the plain values and the arrays of a rule."""
    arrays: Arrays = {SCORES: np.asarray(rule.scores, dtype=np.float64)}
    values: dict[str, Any] = {"noise": noise_to_dict(rule.noise), "groups": None}
    if rule.reason:
        values |= {"reason": rule.reason, "promise": str(rule.promise)}  # the latter for those who read files
    if rule.noise.n_bounds:
        arrays[BOUNDS] = np.ascontiguousarray(rule.bounds)
    if rule.weights is not None:
        arrays[WEIGHTS] = rule.weights
    if rule.groups is not None:
        arrays[GROUPS] = rule.groups.codes
        keys = plain_names(rule.groups.keys, "group keys", tuples=True)
        values["groups"] = {"keys": keys, "predicted": rule.groups.predicted}
    if rule.conditional is not None:
        arrays[FEATURES] = rule.conditional.features
        names = rule.conditional.names
        values["features"] = None if names is None else plain_names(names, "feature names")
    return values, arrays


def rule_from_plain(values: Any, arrays: Arrays, score: Score, path: PathLike) -> Rule:
    """Build a rule from what `rule_to_plain` returned."""
    n = len(arrays[SCORES]) if SCORES in arrays and arrays[SCORES].ndim == 1 else 0
    scores = read_array(arrays, SCORES, np.float64, (n,), f"{path} has calibration scores that are no numbers.")
    require(n > 0, f"{path} has no valid calibration scores.")
    is_rule = isinstance(values, dict) and set(values) - {"reason", "promise", "features"} == {"noise", "groups"}
    require(is_rule, f"{path} has no valid description of how thresholds are found.")
    noise = noise_from_dict(values["noise"], path)
    require(noise.is_settled, f"{path} does not say which noise model its bounds were made by.")
    wrong, shape = f"{path} has no valid calibration bounds.", (noise.n_bounds, n)
    require((BOUNDS in arrays) == bool(noise.n_bounds), wrong)
    bounds = read_array(arrays, BOUNDS, np.float64, shape, wrong) if noise.n_bounds else scores[None, :]
    reason = values.get("reason", "")
    require(isinstance(reason, str), f"{path} does not say in words why its noise model was chosen.")
    with refusing(f"{path} contradicts itself"):
        noise.check_score(score)
        weights = as_weights(arrays[WEIGHTS], n) if WEIGHTS in arrays else None
    groups, conditional = _groups(values["groups"], arrays, n, path), _conditional(values, arrays, noise, n, path)
    require(groups is None or conditional is None, f"{path} contradicts itself: it has groups of two kinds.")
    return Rule(scores, noise, bounds, weights, groups, reason, conditional)


def _conditional(values: Any, arrays: Arrays, noise: Noise, n: int, path: PathLike) -> Conditional | None:
    wrong = f"{path} has no valid features for its thresholds to follow."
    require(("features" in values) == (FEATURES in arrays), wrong)
    if FEATURES not in arrays:
        return None
    require(arrays[FEATURES].ndim == 2, wrong)
    features = read_array(arrays, FEATURES, np.float64, (n, arrays[FEATURES].shape[1]), wrong)
    names = values["features"]
    with refusing(f"{path} contradicts itself"):
        found = Conditional(features, names if names is None else tuple(read_names(names, wrong, wrong)))
        check_conditional(found, noise, n)
    return found


def _groups(description: Any, arrays: Arrays, n: int, path: PathLike) -> Groups | None:
    if description is None and GROUPS not in arrays:
        return None
    is_valid = isinstance(description, dict) and set(description) == {"keys", "predicted"}
    require(is_valid and isinstance(description["predicted"], bool), f"{path} has no valid groups.")
    codes = read_array(arrays, GROUPS, np.int64, (n,), f"{path} does not say for each item which group it is in.")
    keys = read_names(
        description["keys"], f"{path} has no valid group names.", f"{path} names a group twice.", tuples=True
    )
    is_numbered = np.array_equal(np.unique(codes), np.arange(len(keys)))
    require(is_numbered, f"{path} contradicts itself: its items and its group names do not match.")
    return Groups(tuple(keys), codes, description["predicted"])
