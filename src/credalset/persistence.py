"""Save and load calibrations and classifiers. No pickle: nothing that is loaded can run code."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from sklearn.exceptions import NotFittedError

from credalset._bundle import Bundle, open_stored_zip, read_bundle, write_bundle
from credalset._typing import AnyArray
from credalset.calibration import Calibration
from credalset.exceptions import FileFormatError, MissingExtraError
from credalset.scores import REGISTRY, Score, get_score

if TYPE_CHECKING:
    from credalset.classifier import ConformalCredalClassifier

ESTIMATOR_FILE = "estimator.skops"
CLASS_DTYPES = ["object", "str", "bool", "float16", "float32", "float64"]
CLASS_DTYPES += [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
TRUSTED_TYPES = ["credalset.predictors.soft_label.SoftLabelClassifier"]


def load(path: str | Path, *, trusted: Sequence[str] = ()) -> Calibration | ConformalCredalClassifier:
    """Load what `Calibration.save` or `ConformalCredalClassifier.save` wrote.

    Parameters
    ----------
    path : str or Path
        The directory given to ``save``.
    trusted : sequence of str
        Full names of estimator types from outside scikit-learn and credalset that may be built while loading. Loading
        refuses any other type and names it, so that you can decide.

    Returns
    -------
    Calibration or ConformalCredalClassifier

    Examples
    --------
    >>> import tempfile, credalset as cs
    >>> data = cs.datasets.make_synthetic(100, random_state=0)
    >>> calibration = cs.conformalize(data.distributions, data.counts, score="kl")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     calibration.save(f"{folder}/kl")
    ...     cs.load(f"{folder}/kl")
    Calibration: score kl, 100 items, 3 classes
    """
    if isinstance(trusted, str):
        raise TypeError(f"trusted must be a list of type names, but is the string {trusted!r}. Write [{trusted!r}].")
    bundle = read_bundle(path)
    if bundle.kind == "calibration":
        return _calibration_from(bundle, path)
    if bundle.kind == "classifier":
        return _classifier_from(bundle, path, trusted)
    raise FileFormatError(f"{path} holds a {bundle.kind!r}, which this version of credalset does not know.")


def save_calibration(calibration: Calibration, path: str | Path) -> None:
    """Write a calibration to a directory."""
    write_bundle(path, _calibration_bundle(calibration))


def save_classifier(classifier: ConformalCredalClassifier, path: str | Path) -> None:
    """Write a fitted classifier, calibrated or not, to a directory."""
    if not hasattr(classifier, "estimator_"):
        raise NotFittedError("this classifier has no fitted estimator to save. Call fit or conformalize first.")
    values: dict[str, Any] = {"score": score_to_dict(get_score(classifier.score)), "calibrated": False}
    if hasattr(classifier, "classes_"):
        values["classes"] = _plain_classes(classifier.classes_.tolist())
        values["classes_dtype"] = _dtype_name(classifier.classes_.dtype)
    if hasattr(classifier, "n_features_in_"):
        values["n_features_in"] = int(classifier.n_features_in_)
    if hasattr(classifier, "feature_names_in_"):
        values["feature_names_in"] = [str(name) for name in classifier.feature_names_in_]
    arrays = {}
    if hasattr(classifier, "calibration_"):
        calibration = _calibration_bundle(classifier.calibration_)
        values |= {"calibrated": True, "calibration": calibration.values}
        arrays = calibration.arrays
    files = {ESTIMATOR_FILE: _dump_estimator(classifier.estimator_)}
    write_bundle(path, Bundle("classifier", values, arrays, files))


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
    if not isinstance(description, dict) or not isinstance(description.get("params"), dict):
        raise FileFormatError(f"{path} has no valid description of its score.")
    name, params = description.get("name"), description["params"]
    if not isinstance(name, str) or name not in REGISTRY:
        raise FileFormatError(f"{path} uses the score {name!r}, which is not registered here.")
    try:
        nested = {k: score_from_dict(v, path) if isinstance(v, dict) else v for k, v in params.items()}
        score = REGISTRY[name](**nested)
    except FileFormatError:
        raise
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise FileFormatError(f"{path} has unusable parameters for the score {name!r}: {error}") from None
    # Building a score converts what it can ("12" to two positions); what save wrote needs no converting.
    if json.loads(json.dumps(score_to_dict(score))) != description:
        raise FileFormatError(f"{path} has parameters for the score {name!r} that save() does not write: {params}.")
    return score


def _calibration_bundle(calibration: Calibration) -> Bundle:
    values = {
        "score": score_to_dict(calibration.score),
        "n_classes": calibration.n_classes,
        "classes": None if calibration.classes is None else _plain_classes(calibration.classes),
    }
    return Bundle("calibration", values, {"scores": np.asarray(calibration.scores, dtype=np.float64)})


def _calibration_from(bundle: Bundle, path: str | Path) -> Calibration:
    values = bundle.values
    scores, n_classes, classes = bundle.arrays.get("scores"), values.get("n_classes"), values.get("classes")
    if scores is None or scores.ndim != 1 or scores.dtype != np.float64 or len(scores) == 0:
        raise FileFormatError(f"{path} has no valid calibration scores.")
    if np.isnan(scores).any() or (scores[1:] < scores[:-1]).any():
        raise FileFormatError(f"{path} has calibration scores that are NaN or out of order.")
    if not _is_count(n_classes) or n_classes < 2:
        raise FileFormatError(f"{path} has no valid number of classes.")
    if classes is not None and (not _are_plain(classes) or len(classes) != n_classes):
        raise FileFormatError(f"{path} names classes that do not fit its {n_classes} columns.")
    score = score_from_dict(values.get("score"), path)
    try:
        score._check_classes(n_classes)
    except ValueError as error:
        raise FileFormatError(f"{path} contradicts itself: {error}") from None
    return Calibration(score, scores, n_classes, None if classes is None else tuple(classes))


def _classifier_from(bundle: Bundle, path: str | Path, trusted: Sequence[str]) -> ConformalCredalClassifier:
    from credalset.classifier import ConformalCredalClassifier

    values = bundle.values
    score = score_from_dict(values.get("score"), path)
    fitted = _fitted_attributes(values, path)
    if values.get("calibrated") is True and isinstance(values.get("calibration"), dict):
        fitted["calibration_"] = _calibration_from(Bundle("calibration", values["calibration"], bundle.arrays), path)
        if "classes_" in fitted and len(fitted["classes_"]) != fitted["calibration_"].n_classes:
            raise FileFormatError(f"{path} contradicts itself: the classifier and its calibration differ in classes.")
    elif values.get("calibrated") is not False or "calibration" in values:
        raise FileFormatError(f"{path} does not say whether the classifier is calibrated.")
    if ESTIMATOR_FILE not in bundle.files:
        raise FileFormatError(f"{path} has no saved estimator.")
    estimator = _load_estimator(bundle.files[ESTIMATOR_FILE], path, trusted)
    classifier = ConformalCredalClassifier(estimator, score)
    classifier.estimator_ = estimator
    for name, value in fitted.items():
        setattr(classifier, name, value)
    return classifier


def _fitted_attributes(values: dict[str, Any], path: str | Path) -> dict[str, Any]:
    """Return the scikit-learn attributes of a fitted classifier, those that were saved."""
    fitted: dict[str, Any] = {}
    if "classes" in values:
        fitted["classes_"] = _class_array(values["classes"], values.get("classes_dtype"), path)
    if "n_features_in" in values:
        if not _is_count(values["n_features_in"]):
            raise FileFormatError(f"{path} has no valid number of features.")
        fitted["n_features_in_"] = values["n_features_in"]
    if "feature_names_in" in values:
        names = values["feature_names_in"]
        is_list_of_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not is_list_of_names or len(names) != fitted.get("n_features_in_"):
            raise FileFormatError(f"{path} has no valid feature names.")
        fitted["feature_names_in_"] = np.asarray(names, dtype=object)
    return fitted


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_plain(classes: Any) -> bool:
    return isinstance(classes, list) and all(isinstance(c, str | int | float) for c in classes)


def _dtype_name(dtype: np.dtype[Any]) -> str:
    """Name a dtype without the length of its strings, which the strings themselves tell."""
    return {"U": "str"}.get(dtype.kind, dtype.name if dtype.name in CLASS_DTYPES else "object")


def _class_array(classes: Any, dtype: Any, path: str | Path) -> AnyArray:
    if not _are_plain(classes) or dtype not in CLASS_DTYPES:
        raise FileFormatError(f"{path} has no valid class names.")
    try:
        array = np.array(classes, dtype=dtype)
    except (ValueError, OverflowError):
        array = np.empty(0)
    if array.tolist() != classes:
        raise FileFormatError(f"{path} has class names that are not of their type {dtype!r}.")
    return array


def _plain_classes(classes: Sequence[Any]) -> list[Any]:
    plain = [c.item() if isinstance(c, np.generic) else c for c in classes]
    odd = [c for c in plain if not _is_saveable_name(c)]
    if odd:
        raise TypeError(f"class names must be text or finite numbers to be saved, but one is {odd[0]!r}.")
    return plain


def _is_saveable_name(name: Any) -> bool:
    if isinstance(name, str):
        return name.encode(errors="replace").decode() == name  # half of a surrogate pair is no text
    return isinstance(name, int) or (isinstance(name, float) and math.isfinite(name))


def _skops_io() -> Any:
    try:
        import skops.io
    except ImportError:
        raise MissingExtraError("Saving or loading a scikit-learn estimator", "skops", "io") from None
    return skops.io


def _dump_estimator(estimator: Any) -> bytes:
    try:
        return bytes(_skops_io().dumps(estimator))
    except MissingExtraError:
        raise
    except Exception as error:
        raise TypeError(
            f"the estimator {type(estimator).__name__} cannot be saved without pickle: {error}. "
            "Save the calibration alone with classifier.calibration_.save(path), and the estimator by its own means."
        ) from error


def _load_estimator(data: bytes, path: str | Path, trusted: Sequence[str]) -> Any:
    skops_io = _skops_io()
    allowed = [*TRUSTED_TYPES, *trusted]
    try:
        open_stored_zip(data, Path(path) / ESTIMATOR_FILE).close()
        unknown = [name for name in skops_io.get_untrusted_types(data=data) if name not in allowed]
        if unknown:
            raise FileFormatError(
                f"{path} holds types that are not trusted: {', '.join(unknown)}. "
                "If you know where the file comes from, allow them with load(path, trusted=[...])."
            )
        estimator = skops_io.loads(data, trusted=allowed)
    except FileFormatError:
        raise
    except Exception as error:
        raise FileFormatError(f"{path} has an estimator that cannot be read: {error}") from error
    if not (hasattr(estimator, "predict_proba") or hasattr(estimator, "predict_concentration")):
        raise FileFormatError(f"{path} holds a {type(estimator).__name__}, which is not an estimator that predicts.")
    return estimator
