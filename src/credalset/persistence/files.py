"""Save and load calibrations, classifiers and networks. No pickle: nothing that is loaded can run code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from credalset._typing import AnyArray, FloatArray
from credalset.calibration import Calibration, CrossCalibration, Stream
from credalset.calibration.checks import takes_mixtures
from credalset.calibration.cross import are_numbered, check_options
from credalset.calibration.noise import Noise
from credalset.calibration.rule import Rule, noise_of
from credalset.calibration.saved import (
    noise_from_dict,
    noise_to_dict,
    rule_from_plain,
    rule_to_plain,
    stream_from_plain,
    stream_to_plain,
)
from credalset.exceptions import FileFormatError
from credalset.persistence.bundle import Bundle, read_bundle, write_bundle
from credalset.persistence.estimator import (
    SavedEstimator,
    are_plain,
    check_distinct,
    check_estimators,
    dump_estimator,
    dump_folds,
    fitted_attributes,
    fitted_values,
    is_count,
    load_estimator,
    load_folds,
    plain_classes,
)
from credalset.scores import REGISTRY, Score, get_score

if TYPE_CHECKING:
    from torch import nn

    from credalset.classifier import ConformalCredalClassifier
    from credalset.predictors.torch.base import TorchEstimator


def load(
    path: str | Path, *, trusted: Sequence[str] = (), module: nn.Module | None = None
) -> Calibration | CrossCalibration | Stream | ConformalCredalClassifier | TorchEstimator:
    """Load what the ``save`` of a calibration, a stream, a classifier or a network wrote.

    Parameters
    ----------
    path : str or Path
        The directory given to ``save``.
    trusted : sequence of str
        Full names of estimator types from outside scikit-learn and credalset that may be built while loading. Loading
        refuses any other type and names it, so that you can decide.
    module : nn.Module, optional
        For a `TorchPredictor`: an object of the class that was saved, which takes over the saved weights. Code is not
        saved, so credalset cannot build it.

    Returns
    -------
    Calibration, CrossCalibration, Stream, ConformalCredalClassifier or estimator

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
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the directory that save() wrote, as a string or a Path, but is {path!r}.")
    bundle = read_bundle(path)
    without_network: dict[str, Callable[..., Calibration | CrossCalibration | Stream]] = {
        "calibration": _calibration_from,
        "cross-calibration": _cross_calibration_from,
        "stream": _stream_from,
    }
    if bundle.kind in without_network:
        if module is not None:
            raise ValueError(f"{path} holds a {bundle.kind}, and no network. Load it without module.")
        return without_network[bundle.kind](bundle, path)
    if bundle.kind == "classifier":
        return _classifier_from(bundle, path, trusted, module)
    if bundle.kind == "estimator":
        saved = SavedEstimator(bundle.files, bundle.values)
        return load_estimator(saved, path, trusted, module)
    raise FileFormatError(f"{path} holds a {bundle.kind!r}, which this version of credalset does not know.")


def save_calibration(calibration: Calibration, path: str | Path) -> None:
    """Write a calibration to a directory."""
    write_bundle(path, _calibration_bundle(calibration))


def save_cross_calibration(calibration: CrossCalibration, path: str | Path) -> None:
    """Write a cross-conformal calibration to a directory."""
    write_bundle(path, _cross_bundle(calibration))


def save_stream(stream: Stream, path: str | Path) -> None:
    """Write a stream, its calibration and its state to a directory."""
    bundle = _calibration_bundle(stream.calibration)
    values, arrays = stream_to_plain(stream)
    write_bundle(path, Bundle("stream", {**values, "calibration": bundle.values}, bundle.arrays | arrays))


def save_classifier(classifier: ConformalCredalClassifier, path: str | Path) -> None:
    """Write a fitted classifier, calibrated or not, to a directory."""
    if not hasattr(classifier, "estimator_") and not hasattr(classifier, "estimators_"):
        raise NotFittedError("this classifier has no fitted estimator to save. Call fit or conformalize first.")
    values: dict[str, Any] = {"score": score_to_dict(get_score(classifier.score)), "calibrated": False}
    if classifier.noise is not None:
        values["noise"] = noise_to_dict(classifier.noise)
    values |= fitted_values(classifier)
    arrays = {}
    if hasattr(classifier, "calibration_"):
        calibration = classifier._calibrated()  # what load would refuse is not written
        if isinstance(calibration, CrossCalibration):
            bundle = _cross_bundle(calibration)
        else:
            bundle = _calibration_bundle(calibration)
        values |= {"calibrated": True, "calibration": bundle.values}
        arrays = bundle.arrays
    if hasattr(classifier, "estimators_"):
        files, values["folds"] = dump_folds(classifier.estimators_)
    else:
        saved = dump_estimator(classifier.estimator_)
        files = saved.files
        if saved.network is not None:
            values["network"] = saved.network
    write_bundle(path, Bundle("classifier", values, arrays, files))


def save_estimator(estimator: TorchEstimator, path: str | Path) -> None:
    """Write a fitted network to a directory."""
    check_is_fitted(estimator)
    saved = dump_estimator(estimator)
    write_bundle(path, Bundle("estimator", saved.network or {}, {}, saved.files))


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


def _calibration_bundle(calibration: Calibration | CrossCalibration) -> Bundle:
    values = {
        "score": score_to_dict(calibration.score),
        "n_classes": calibration.n_classes,
        "classes": None if calibration.classes is None else plain_classes(calibration.classes),
    }
    if calibration.mixtures is not None:
        values["mixtures"] = calibration.mixtures
    rule_values, rule_arrays = rule_to_plain(calibration.rule)
    scores = np.asarray(calibration.scores, dtype=np.float64)
    return Bundle("calibration", values | rule_values, {"scores": scores, **rule_arrays})


def _calibration_from(bundle: Bundle, path: str | Path) -> Calibration:
    parts = _calibration_parts(bundle, path)
    if (parts.scores[1:] < parts.scores[:-1]).any():
        raise FileFormatError(f"{path} has calibration scores that are NaN or out of order.")
    return Calibration(**parts._asdict())


class _Parts(NamedTuple):
    """What every calibration has."""

    score: Score
    scores: FloatArray
    n_classes: int
    classes: tuple[Any, ...] | None
    rule: Rule | None
    mixtures: bool | None


def _calibration_parts(bundle: Bundle, path: str | Path) -> _Parts:
    values = bundle.values
    scores, n_classes, classes = bundle.arrays.get("scores"), values.get("n_classes"), values.get("classes")
    if scores is None or scores.ndim != 1 or scores.dtype != np.float64 or len(scores) == 0:
        raise FileFormatError(f"{path} has no valid calibration scores.")
    if np.isnan(scores).any():
        raise FileFormatError(f"{path} has calibration scores that are NaN or out of order.")
    if not is_count(n_classes) or n_classes < 2:
        raise FileFormatError(f"{path} has no valid number of classes.")
    if classes is not None and (not are_plain(classes) or len(classes) != n_classes):
        raise FileFormatError(f"{path} names classes that do not fit its {n_classes} columns.")
    if classes is not None:
        check_distinct(classes, path)
    score = score_from_dict(values.get("score"), path)
    try:
        score._check_classes(n_classes)
    except ValueError as error:
        raise FileFormatError(f"{path} contradicts itself: {error}") from None
    rule = rule_from_plain(values, bundle.arrays, score, len(scores), path)
    mixtures = _mixtures(values, score, path)
    return _Parts(score, scores, n_classes, None if classes is None else tuple(classes), rule, mixtures)


def _mixtures(values: dict[str, Any], score: Score, path: str | Path) -> bool | None:
    """Tell whether predictions were mixtures; older files do not say."""
    if "mixtures" not in values:
        return None
    if not isinstance(values["mixtures"], bool) or not takes_mixtures(score):
        raise FileFormatError(f"{path} does not say which predictions its score {score.name!r} was calibrated with.")
    return values["mixtures"]


def _cross_bundle(calibration: CrossCalibration) -> Bundle:
    bundle = _calibration_bundle(calibration)
    return Bundle(
        "cross-calibration", bundle.values | {"exact": calibration.exact}, {**bundle.arrays, "folds": calibration.folds}
    )


def _cross_calibration_from(bundle: Bundle, path: str | Path) -> CrossCalibration:
    parts = _calibration_parts(bundle, path)
    folds, exact = bundle.arrays.get("folds"), bundle.values.get("exact")
    if folds is None or folds.dtype != np.int64 or folds.shape != parts.scores.shape:
        raise FileFormatError(f"{path} does not say for each item which fold it is in.")
    if not are_numbered(folds):
        raise FileFormatError(f"{path} has folds that are not numbered 0, 1, …")
    if exact is not None and not isinstance(exact, bool):
        raise FileFormatError(f"{path} does not say whether its sets are exact or enclosing balls.")
    if parts.rule is not None:
        groups = parts.rule.groups
        try:
            check_options(parts.rule.noise, "predicted" if groups is not None and groups.predicted else None)
        except ValueError as error:
            raise FileFormatError(f"{path} contradicts itself: {error}") from None
    return CrossCalibration(folds=folds, exact=exact, **parts._asdict())


def _stream_from(bundle: Bundle, path: str | Path) -> Stream:
    described = bundle.values.get("calibration")
    if not isinstance(described, dict):
        raise FileFormatError(f"{path} has no valid calibration.")
    calibration = _calibration_from(Bundle("calibration", described, bundle.arrays), path)
    return stream_from_plain(calibration, bundle.values, bundle.arrays, path)


def _classifier_from(
    bundle: Bundle, path: str | Path, trusted: Sequence[str], module: nn.Module | None
) -> ConformalCredalClassifier:
    from credalset.classifier import ConformalCredalClassifier

    values = bundle.values
    score = score_from_dict(values.get("score"), path)
    fitted = fitted_attributes(values, path)
    if "classes_" not in fitted:
        raise FileFormatError(f"{path} does not say which classes its classifier has.")
    noise = noise_from_dict(values.get("noise"), path)
    if values.get("calibrated") is True and isinstance(values.get("calibration"), dict):
        fitted["calibration_"] = _calibration_of_classifier(bundle, score, noise, fitted["classes_"], path)
    elif values.get("calibrated") is not False or "calibration" in values:
        raise FileFormatError(f"{path} does not say whether the classifier is calibrated.")
    if "folds" in values:
        estimators = load_folds(bundle.files, values["folds"], path, trusted, module)
        if len(estimators) != getattr(fitted.get("calibration_"), "n_folds", len(estimators)):
            raise FileFormatError(f"{path} contradicts itself: its folds and its estimators differ in number.")
        check_estimators(estimators, fitted, path)
        # The parameter is what a new fit would start from: an estimator like those of the folds.
        classifier = ConformalCredalClassifier(estimators[0], score, noise)
        classifier.estimators_ = estimators
    else:
        estimator = load_estimator(SavedEstimator(bundle.files, values.get("network")), path, trusted, module)
        check_estimators([estimator], fitted, path)
        classifier = ConformalCredalClassifier(estimator, score, noise)
        classifier.estimator_ = estimator
    for name, value in fitted.items():
        setattr(classifier, name, value)
    return classifier


def _calibration_of_classifier(
    bundle: Bundle, score: Score, noise: Noise | None, classes: AnyArray, path: str | Path
) -> Calibration | CrossCalibration:
    build = _cross_calibration_from if "folds" in bundle.values else _calibration_from
    calibration = build(Bundle("calibration", bundle.values["calibration"], bundle.arrays), path)
    if len(classes) != calibration.n_classes or calibration.classes not in (None, tuple(classes.tolist())):
        raise FileFormatError(f"{path} contradicts itself: the classifier and its calibration differ in classes.")
    if calibration.score != score:
        raise FileFormatError(
            f"{path} contradicts itself: the classifier's score is {score!r}, but it was calibrated with "
            f"{calibration.score!r}. Calibrate it again and save it."
        )
    made = noise_of(calibration.rule)
    if made != noise:
        raise FileFormatError(
            f"{path} contradicts itself: the classifier's noise is {noise!r}, but it was calibrated with {made!r}. "
            "Calibrate it again and save it."
        )
    return calibration
