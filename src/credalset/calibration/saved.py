"""Noise models and rules as plain values and arrays, and back. What is read is checked, not trusted."""

from __future__ import annotations

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

Arrays = dict[str, AnyArray]
SCORES, BOUNDS, WEIGHTS, GROUPS = "scores", "rule_bounds", "rule_weights", "rule_groups"
FEATURES = "rule_features"


def noise_to_dict(noise: Noise) -> dict[str, Any]:
    """Describe a noise model by its name and plain parameters."""
    return describe(noise, NOISES, "is not one of credalset's noise models and cannot be saved.")


def noise_from_dict(description: Any) -> Noise:
    """Build a noise model from its description."""
    noise: Noise = rebuild(description, NOISES, "noise model")
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
        values["features"] = plain_names(rule.conditional.names, "feature names")
    return values, arrays


def rule_from_plain(values: Any, arrays: Arrays, score: Score) -> Rule:
    """Build a rule from what `rule_to_plain` returned."""
    scores = read_array(arrays, SCORES, np.float64, (None,), "calibration scores")
    n = len(scores)
    require(n > 0, "has no valid calibration scores.")
    is_rule = isinstance(values, dict) and set(values) - {"reason", "promise", "features"} == {"noise", "groups"}
    require(is_rule, "has no valid description of how thresholds are found.")
    noise = noise_from_dict(values["noise"])
    require(noise.is_settled, "does not say which noise model its bounds were made by.")
    bounds = scores[None, :]
    if noise.n_bounds:
        bounds = read_array(arrays, BOUNDS, np.float64, (noise.n_bounds, n), "calibration bounds")
    reason = values.get("reason", "")
    require(isinstance(reason, str), "does not say in words why its noise model was chosen.")
    with refusing("contradicts itself"):
        noise.check_score(score)
        weights = as_weights(arrays.pop(WEIGHTS), n) if WEIGHTS in arrays else None
    conditional = None if "features" not in values else _conditional(values["features"], arrays, noise, n)
    groups = None if values["groups"] is None else _groups(values["groups"], arrays, n)
    require(groups is None or conditional is None, "contradicts itself: it has groups of two kinds.")
    return Rule(scores, noise, bounds, weights, groups, reason, conditional)


def _conditional(names: Any, arrays: Arrays, noise: Noise, n: int) -> Conditional:
    features = read_array(arrays, FEATURES, np.float64, (n, None), "features for its thresholds to follow")
    with refusing("contradicts itself"):
        found = Conditional(features, read_names(names, "feature names"))
        check_conditional(found, noise, n)
    return found


def _groups(description: Any, arrays: Arrays, n: int) -> Groups:
    is_valid = isinstance(description, dict) and set(description) == {"keys", "predicted"}
    require(is_valid and isinstance(description["predicted"], bool), "has no valid groups.")
    codes = read_array(arrays, GROUPS, np.int64, (n,), "groups of its items")
    keys = read_names(description["keys"], "group names", tuples=True) or ()
    is_numbered = np.array_equal(np.unique(codes), np.arange(len(keys)))
    require(is_numbered, "contradicts itself: its items and its group names do not match.")
    return Groups(keys, codes, description["predicted"])
