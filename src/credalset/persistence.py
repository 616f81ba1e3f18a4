"""Save and load calibrations and classifiers. No pickle: nothing that is loaded can run code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from credalset._bundle import Bundle, read_bundle, write_bundle
from credalset.calibration import Calibration
from credalset.exceptions import FileFormatError, MissingExtraError
from credalset.scores import REGISTRY, Score

if TYPE_CHECKING:
    from credalset.classifier import ConformalCredalClassifier

ESTIMATOR_FILE = "estimator.skops"
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
    from credalset.scores import get_score

    if not hasattr(classifier, "estimator_"):
        raise ValueError("this classifier has no fitted estimator to save. Call fit or conformalize first.")
    values: dict[str, Any] = {"score": score_to_dict(get_score(classifier.score)), "calibrated": False}
    if hasattr(classifier, "classes_"):
        values["classes"] = _plain_classes(classifier.classes_.tolist())
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
    nested = {k: score_from_dict(v, path) if isinstance(v, dict) else v for k, v in params.items()}
    try:
        return REGISTRY[name](**nested)
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"{path} has unusable parameters for the score {name!r}: {error}") from None


def _calibration_bundle(calibration: Calibration) -> Bundle:
    values = {
        "score": score_to_dict(calibration.score),
        "n_classes": calibration.n_classes,
        "classes": None if calibration.classes is None else _plain_classes(calibration.classes),
    }
    return Bundle("calibration", values, {"scores": calibration.scores})


def _calibration_from(bundle: Bundle, path: str | Path) -> Calibration:
    values = bundle.values
    scores, n_classes, classes = bundle.arrays.get("scores"), values.get("n_classes"), values.get("classes")
    if scores is None or scores.ndim != 1 or scores.dtype != np.float64 or len(scores) == 0:
        raise FileFormatError(f"{path} has no valid calibration scores.")
    if np.isnan(scores).any() or (scores[1:] < scores[:-1]).any():
        raise FileFormatError(f"{path} has calibration scores that are NaN or out of order.")
    if not isinstance(n_classes, int) or isinstance(n_classes, bool) or n_classes < 2:
        raise FileFormatError(f"{path} has no valid number of classes.")
    if classes is not None and (not isinstance(classes, list) or len(classes) != n_classes):
        raise FileFormatError(f"{path} names classes that do not fit its {n_classes} columns.")
    score = score_from_dict(values.get("score"), path)
    return Calibration(score, scores, n_classes, None if classes is None else tuple(classes))


def _classifier_from(bundle: Bundle, path: str | Path, trusted: Sequence[str]) -> ConformalCredalClassifier:
    from credalset.classifier import ConformalCredalClassifier

    if ESTIMATOR_FILE not in bundle.files:
        raise FileFormatError(f"{path} has no saved estimator.")
    values = bundle.values
    score = score_from_dict(values.get("score"), path)
    calibration = None
    if values.get("calibrated"):
        nested = Bundle("calibration", values.get("calibration", {}), bundle.arrays)
        calibration = _calibration_from(nested, path)
    estimator = _load_estimator(bundle.files[ESTIMATOR_FILE], path, trusted)
    classifier = ConformalCredalClassifier(estimator, score)
    classifier.estimator_ = estimator
    if calibration is not None:
        classifier.calibration_ = calibration
    if "classes" in values:
        classifier.classes_ = np.asarray(values["classes"])
    if "n_features_in" in values:
        classifier.n_features_in_ = int(values["n_features_in"])
    if "feature_names_in" in values:
        classifier.feature_names_in_ = np.asarray(values["feature_names_in"], dtype=object)
    return classifier


def _plain_classes(classes: Sequence[Any]) -> list[Any]:
    plain = [c.item() if isinstance(c, np.generic) else c for c in classes]
    odd = [c for c in plain if not isinstance(c, str | int | float | bool)]
    if odd:
        raise TypeError(f"class names must be strings or numbers to be saved, but one is {odd[0]!r}.")
    return plain


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
        unknown = [name for name in skops_io.get_untrusted_types(data=data) if name not in allowed]
        if unknown:
            raise FileFormatError(
                f"{path} holds types that are not trusted: {', '.join(unknown)}. "
                "If you know where the file comes from, allow them with load(path, trusted=[...])."
            )
        return skops_io.loads(data, trusted=allowed)
    except FileFormatError:
        raise
    except Exception as error:
        raise FileFormatError(f"{path} has an estimator that cannot be read: {error}") from error
