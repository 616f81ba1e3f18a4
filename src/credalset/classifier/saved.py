"""Classifiers as plain values, arrays and files, and back. What is read is checked, not trusted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from credalset._typing import AnyArray
from credalset.calibration import Calibration, CrossCalibration
from credalset.calibration.models import as_noise
from credalset.calibration.noise import Noise
from credalset.calibration.saved import noise_from_dict, noise_to_dict
from credalset.evaluation import Constant
from credalset.persistence.bundle import Bundle
from credalset.persistence.plain import read_array, refusing, require
from credalset.predictors.saved import (
    SavedEstimator,
    check_estimators,
    dump_estimator,
    dump_folds,
    fitted_attributes,
    fitted_values,
    load_estimator,
    load_folds,
    warn_of_refusal,
)
from credalset.scores import Score, get_score
from credalset.scores.saved import score_from_dict, score_to_dict

CONSTANT = "constant-"  # before the names of the arrays of the constant prediction


def classifier_to_bundle(classifier: Any) -> Bundle:
    """Take a fitted classifier apart, calibrated or not."""
    if not hasattr(classifier, "estimator_") and not hasattr(classifier, "estimators_"):
        raise NotFittedError("this classifier has no fitted estimator to save. Call fit or conformalize first.")
    values: dict[str, Any] = {
        "score": score_to_dict(get_score(classifier.nonconformity)),
        "noise": noise_to_dict(as_noise(classifier.noise)),
        "calibration": None,
        **fitted_values(classifier),
    }
    arrays: dict[str, AnyArray] = {}
    if hasattr(classifier, "calibration_"):
        bundle = classifier._calibrated().to_bundle()  # what load would refuse is not written
        values["calibration"], arrays = bundle.values, dict(bundle.arrays)
        constant = getattr(classifier, "constant_", None)
        if constant is not None:
            bundle = constant.calibration.to_bundle()
            values["constant"] = bundle.values
            arrays |= {CONSTANT + name: array for name, array in bundle.arrays.items()}
            arrays[CONSTANT + "prediction"] = constant.prediction
    if hasattr(classifier, "estimators_"):
        estimators = classifier.estimators_
        files, values["folds"] = dump_folds(estimators)
    else:
        estimators = [classifier.estimator_]
        saved = dump_estimator(estimators[0])
        files, values["network"] = saved.files, saved.network
    warn_of_refusal(estimators[0], files)
    return Bundle("classifier", values, arrays, files)


def classifier_from_bundle(kind: type, bundle: Bundle, path: str | Path, trusted: Sequence[str], module: Any) -> Any:
    """Put a classifier of this kind together again, refusing parts that contradict each other."""
    values = bundle.values
    score, noise = score_from_dict(values.get("score"), path), noise_from_dict(values.get("noise"), path)
    fitted = fitted_attributes(values, path)
    require("classes_" in fitted, f"{path} does not say which classes its classifier has.")
    is_valid = "calibration" in values and isinstance(values["calibration"], dict | None)
    require(is_valid, f"{path} does not say whether the classifier is calibrated.")
    if values["calibration"] is not None:
        of = CrossCalibration if "folds" in values else Calibration
        made = of.from_bundle(Bundle(of.kind, values["calibration"], bundle.arrays), path)
        _check_calibration(made, score, noise, fitted["classes_"], path)
        fitted["calibration_"] = made
        fitted["constant_"] = _constant(bundle, score, noise, fitted["classes_"], path)
    if "folds" in values:
        estimators = load_folds(bundle.files, values["folds"], path, trusted, module)
        n_folds = getattr(fitted.get("calibration_"), "n_folds", len(estimators))
        is_whole = n_folds == len(estimators)
        require(is_whole, f"{path} contradicts itself: its folds and its estimators differ in number.")
        fitted["estimators_"] = estimators
    else:
        saved = SavedEstimator(bundle.files, values.get("network"))
        estimators = [load_estimator(saved, path, trusted, module)]
        fitted["estimator_"] = estimators[0]
    check_estimators(estimators, fitted, path)
    # The parameter is what a new fit would start from: an estimator like the fitted ones.
    classifier = kind(estimators[0], score, None if noise == as_noise(None) else noise)
    for name, value in fitted.items():
        setattr(classifier, name, value)
    return classifier


def _constant(bundle: Bundle, score: Score, noise: Noise, classes: AnyArray, path: str | Path) -> Constant | None:
    """Read the constant prediction, if there is one."""
    if bundle.values.get("constant") is None:
        return None
    wrong = f"{path} has no valid constant prediction."
    require(isinstance(bundle.values["constant"], dict), wrong)
    arrays = {name.removeprefix(CONSTANT): a for name, a in bundle.arrays.items() if name.startswith(CONSTANT)}
    made = Calibration.from_bundle(Bundle(Calibration.kind, bundle.values["constant"], arrays), path)
    prediction = read_array(arrays, "prediction", np.float64, (1, len(classes)), wrong)
    with refusing(wrong):
        score.check_prediction(prediction)
    _check_calibration(made, score, noise, classes, path)
    return Constant(prediction, made)


def _check_calibration(
    made: Calibration | CrossCalibration, score: Score, noise: Noise, classes: AnyArray, path: str | Path
) -> None:
    """Refuse a calibration that is not that of the classifier."""
    is_same = len(classes) == made.n_classes and made.classes in (None, tuple(classes.tolist()))
    require(is_same, f"{path} contradicts itself: the classifier and its calibration differ in classes.")
    made_with = made.rule.noise
    for what, own, other, agree in (
        ("score", score, made.score, score == made.score),
        ("noise", noise, made_with, noise.agrees_with(made_with)),
    ):
        require(
            agree,
            f"{path} contradicts itself: the classifier's {what} is {own!r}, but it was calibrated with {other!r}. "
            "Calibrate it again and save it.",
        )
