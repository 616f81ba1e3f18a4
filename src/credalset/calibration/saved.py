"""Noise models and rules as plain values and arrays, and back. What is read is checked, not trusted."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from credalset._typing import AnyArray, FloatArray
from credalset.calibration.groups import Groups
from credalset.calibration.noise import NOISES, AnnotatorSampling, Noise, NoNoise
from credalset.calibration.rule import Rule
from credalset.calibration.shift import as_weights
from credalset.calibration.split import Calibration
from credalset.calibration.stream import Stream
from credalset.exceptions import FileFormatError
from credalset.scores import Score

PathLike = str | Path
BOUNDS, TUNING, WEIGHTS, GROUPS = "rule_bounds", "rule_tuning", "rule_weights", "rule_groups"


def noise_to_dict(noise: Noise | None) -> dict[str, Any] | None:
    """Describe a noise model by its name and plain parameters."""
    if noise is None or isinstance(noise, NoNoise):
        return None
    if NOISES.get(noise.name) is not type(noise):
        raise TypeError(f"{type(noise).__name__} is not one of credalset's noise models and cannot be saved.")
    return {"name": noise.name, "params": noise.params()}


def noise_from_dict(description: Any, path: PathLike) -> Noise | None:
    """Build a noise model from its description."""
    if description is None:
        return None
    if not isinstance(description, dict) or not isinstance(description.get("params"), dict):
        raise FileFormatError(f"{path} has no valid description of its noise model.")
    name = description.get("name")
    if not isinstance(name, str) or name not in NOISES:
        raise FileFormatError(f"{path} uses the noise model {name!r}, which this version of credalset does not know.")
    try:
        noise = NOISES[name](**_without_idle_tuning(description["params"]))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise FileFormatError(f"{path} has unusable parameters for the noise model {name!r}: {error}") from None
    if json.loads(json.dumps(noise_to_dict(noise))) != description:
        raise FileFormatError(f"{path} has parameters for the noise model {name!r} that save() does not write.")
    return noise


def _without_idle_tuning(params: dict[str, Any]) -> dict[str, Any]:
    """Leave out a share of zero, which models with nothing to choose show but do not take."""
    return {key: value for key, value in params.items() if key != "tuning" or value != 0.0}


def rule_to_plain(rule: Rule | None) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return the plain values and the arrays of a rule; nothing at all for plain split conformal."""
    if rule is None:
        return {}, {}
    arrays: dict[str, AnyArray] = {BOUNDS: np.ascontiguousarray(rule.bounds), TUNING: rule.tuning}
    values: dict[str, Any] = {"noise": noise_to_dict(rule.noise), "groups": None}
    if rule.weights is not None:
        arrays[WEIGHTS] = rule.weights
    if rule.groups is not None:
        arrays[GROUPS] = rule.groups.codes
        keys = [_plain_key(key) for key in rule.groups.keys]
        values["groups"] = {"keys": keys, "predicted": rule.groups.predicted}
    return {"rule": values}, arrays


def rule_from_plain(
    values: dict[str, Any], arrays: dict[str, AnyArray], score: Score, n: int, path: PathLike
) -> Rule | None:
    """Build a rule for n calibration items from what `rule_to_plain` returned."""
    description = values.get("rule")
    if description is None:
        if any(name in arrays for name in (BOUNDS, TUNING, WEIGHTS, GROUPS)):
            raise FileFormatError(f"{path} contradicts itself: it has parts of a rule and no rule.")
        return None
    if not isinstance(description, dict) or set(description) != {"noise", "groups"}:
        raise FileFormatError(f"{path} has no valid description of how thresholds are found.")
    noise = noise_from_dict(description["noise"], path) or NoNoise()
    try:
        noise.check_score(score)
        weights = as_weights(arrays[WEIGHTS], n) if WEIGHTS in arrays else None
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"{path} contradicts itself: {error}") from None
    return Rule(
        bounds=_bounds(arrays.get(BOUNDS), noise, n, path),
        tuning=_of_dtype(arrays.get(TUNING), np.bool_, n, path),
        noise=noise,
        weights=weights,
        groups=_groups(description["groups"], arrays.get(GROUPS), n, path),
    )


def stream_to_plain(stream: Stream) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return the plain values and the arrays of a stream, without its calibration."""
    options = {name: getattr(stream, name) for name in ("alpha", "gamma", "false_alarm", "random_state")}
    state = {"level": stream.level, "n_missed": stream.n_missed, "peak": stream.peak}
    arrays = {"stream_scores": np.array(stream._seen, dtype=np.float64), "stream_stakes": stream._stakes}
    return {"options": options, "state": state}, arrays


def stream_from_plain(
    calibration: Calibration, values: dict[str, Any], arrays: dict[str, AnyArray], path: PathLike
) -> Stream:
    """Build a stream that goes on where the saved one stopped."""
    options, state = values.get("options"), values.get("state")
    scores, stakes = arrays.get("stream_scores"), arrays.get("stream_stakes")
    if not isinstance(options, dict) or not isinstance(state, dict) or set(state) != {"level", "n_missed", "peak"}:
        raise FileFormatError(f"{path} has no valid state of its stream.")
    if scores is None or scores.dtype != np.float64 or scores.ndim != 1 or np.isnan(scores).any():
        raise FileFormatError(f"{path} has no valid scores of its stream.")
    if stakes is None or stakes.dtype != np.float64 or stakes.shape != (3,) or not (stakes >= 0).all():
        raise FileFormatError(f"{path} has no valid capital of its stream.")
    numbers = [state["level"], state["peak"]]
    if not all(isinstance(x, float) for x in numbers) or not _is_at_most(state["n_missed"], len(scores)):
        raise FileFormatError(f"{path} has no valid state of its stream.")
    try:
        stream = Stream(calibration, **options)
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"{path} has unusable options of its stream: {error}") from None
    stream.restore(scores.tolist(), stakes, state["level"], state["n_missed"], state["peak"])
    return stream


def _is_at_most(value: Any, n: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= n


def _bounds(array: AnyArray | None, noise: Noise, n: int, path: PathLike) -> FloatArray:
    n_rows = len(noise.deltas) if isinstance(noise, AnnotatorSampling) else 1
    if array is None or array.dtype != np.float64 or array.shape != (n_rows, n) or np.isnan(array).any():
        raise FileFormatError(f"{path} has no valid calibration bounds.")
    return array


def _of_dtype(array: AnyArray | None, dtype: Any, n: int, path: PathLike) -> AnyArray:
    if array is None or array.dtype != dtype or array.shape != (n,):
        raise FileFormatError(f"{path} does not say for each item how it takes part in calibration.")
    return array


def _groups(description: Any, codes: AnyArray | None, n: int, path: PathLike) -> Groups | None:
    if description is None and codes is None:
        return None
    if not isinstance(description, dict) or set(description) != {"keys", "predicted"}:
        raise FileFormatError(f"{path} has no valid groups.")
    keys, predicted = description["keys"], description["predicted"]
    checked = _of_dtype(codes, np.int64, n, path)
    if not isinstance(keys, list) or not isinstance(predicted, bool) or not all(map(_is_plain, keys)):
        raise FileFormatError(f"{path} has no valid group names.")
    if not np.array_equal(np.unique(checked), np.arange(len(keys))):
        raise FileFormatError(f"{path} contradicts itself: its items and its group names do not match.")
    names = tuple(tuple(key) if isinstance(key, list) else key for key in keys)
    if len(set(names)) != len(names):
        raise FileFormatError(f"{path} names a group twice.")
    return Groups(names, checked, predicted)


def _plain_key(key: Any) -> Any:
    plain = [_plain_key(part) for part in key] if isinstance(key, tuple) else key
    plain = plain.item() if isinstance(plain, np.generic) else plain
    if not _is_plain(plain):
        raise TypeError(f"group keys must be text, finite numbers or tuples of them to be saved, but one is {key!r}.")
    return plain


def _is_plain(key: Any) -> bool:
    if isinstance(key, list):
        return all(_is_plain(part) and not isinstance(part, list) for part in key)
    if isinstance(key, str):
        return key.encode(errors="replace").decode() == key
    return isinstance(key, int) or (isinstance(key, float) and math.isfinite(key))
