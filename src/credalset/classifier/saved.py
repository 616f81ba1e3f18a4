"""Classifiers as plain values, arrays and files, and back. What is read is checked, not trusted."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from credalset._typing import AnyArray
from credalset.annotations.seen import NOTHING
from credalset.calibration import Calibration, CrossCalibration
from credalset.calibration.models import as_noise
from credalset.calibration.noise import Noise
from credalset.calibration.saved import noise_from_dict, noise_to_dict
from credalset.classifier.safety import check_made_with
from credalset.persistence.bundle import Bundle
from credalset.persistence.plain import read_array, refusing, require
from credalset.predictors.saved import (
    check_estimators,
    dump_estimator,
    fitted_attributes,
    fitted_values,
    load_estimator,
    warn_of_refusal,
)
from credalset.scores import Score, get_score
from credalset.scores.saved import score_from_dict

TRAINED = "trained"  # the digests of the items that the estimator was trained on


def classifier_to_bundle(classifier: Any) -> Bundle:
    """Take a fitted classifier apart, calibrated or not."""
    if not hasattr(classifier, "estimator_") and not hasattr(classifier, "estimators_"):
        raise NotFittedError("this classifier has no fitted estimator to save. Call fit or conformalize first.")
    values: dict[str, Any] = {
        "score": get_score(classifier.nonconformity).describe(),
        "noise": noise_to_dict(as_noise(classifier.noise)),
        "calibration": None,
        **fitted_values(classifier),
    }
    arrays: dict[str, AnyArray] = {}
    if hasattr(classifier, "calibration_"):
        bundle = classifier._calibrated().to_bundle()  # what load would refuse is not written
        values["calibration"], arrays = bundle.values, dict(bundle.arrays)
    if len(trained := getattr(classifier, "_seen", NOTHING)):
        arrays[TRAINED] = trained
    has_folds = hasattr(classifier, "estimators_")
    estimators = classifier.estimators_ if has_folds else [classifier.estimator_]
    files: dict[str, bytes] = {}
    networks = []
    for i, estimator in enumerate(estimators):
        own, network = dump_estimator(estimator, _prefix(i) if has_folds else "")
        files |= own
        networks.append(network)
    values |= {"folds": networks} if has_folds else {"network": networks[0]}
    warn_of_refusal(estimators[0], files)
    return Bundle("classifier", values, arrays, files)


def classifier_from_bundle(kind: type, bundle: Bundle, trusted: Sequence[str], module: Any) -> Any:
    """Put a classifier of this kind together again, refusing parts that contradict each other."""
    values = bundle.values
    score, noise = score_from_dict(values.get("score")), noise_from_dict(values.get("noise"))
    fitted = fitted_attributes(values)
    require("classes_" in fitted, "does not say which classes its classifier has.")
    is_valid = "calibration" in values and isinstance(values["calibration"], dict | None)
    require(is_valid, "does not say whether the classifier is calibrated.")
    if values["calibration"] is not None:
        of = CrossCalibration if "folds" in values else Calibration
        fitted["calibration_"] = made = of.from_bundle(Bundle(of.kind, values["calibration"], bundle.arrays))
        _check_calibration(made, score, noise, fitted["classes_"])
    if "folds" in values:
        networks = values["folds"]
        require(isinstance(networks, list) and len(networks) >= 2, "has no valid estimators of its folds.")
        estimators = [
            load_estimator(bundle.files, network, trusted, copy.deepcopy(module), _prefix(i))
            for i, network in enumerate(networks)
        ]
        n_folds = getattr(fitted.get("calibration_"), "n_folds", len(estimators))
        require(n_folds == len(estimators), "contradicts itself: its folds and its estimators differ in number.")
        fitted["estimators_"] = estimators
    else:
        estimators = [load_estimator(bundle.files, values.get("network"), trusted, module)]
        fitted["estimator_"] = estimators[0]
    if TRAINED in bundle.arrays:
        fitted["_seen"] = read_array(bundle.arrays, TRAINED, np.uint64, (None,), "digests of the items it has seen")
    check_estimators(estimators, fitted)
    # The parameter is what a new fit would start from: an estimator like the fitted ones.
    classifier = kind(estimators[0], score, None if noise == as_noise(None) else noise)
    for name, value in fitted.items():
        setattr(classifier, name, value)
    return classifier


def _prefix(fold: int) -> str:
    """What the names of the files of a fold's estimator begin with."""
    return f"fold-{fold}-"


def _check_calibration(made: Calibration | CrossCalibration, score: Score, noise: Noise, classes: AnyArray) -> None:
    """Refuse a calibration that is not that of the classifier."""
    is_same = len(classes) == made.n_classes and made.classes in (None, tuple(classes.tolist()))
    require(is_same, "contradicts itself: the classifier and its calibration differ in classes.")
    with refusing("contradicts itself"):
        check_made_with(made, score, noise)
