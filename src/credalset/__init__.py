"""Credal sets with a coverage guarantee, learned from label distributions by conformal calibration.

Examples
--------
>>> import credalset as cs
>>> data = cs.datasets.make_synthetic(600, n_classes=3, n_votes=50, random_state=0)
>>> calibration = cs.conformalize(data.distributions[:500], data.counts[:500], score="tv")
>>> calibration.predict_set(data.distributions[500:], alpha=0.1)
CredalSet: 100 total-variation balls over 3 classes, threshold 0.09964 (score tv)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from credalset import datasets, labels, metrics, scores, simplex
from credalset._guesses import IN_PACKAGE
from credalset._guessing import missing_name
from credalset._version import __version__
from credalset.calibration import (
    AnnotatorSampling,
    BoundedNoise,
    Calibration,
    Conditional,
    CoverageDistribution,
    CrossCalibration,
    FewVotes,
    Guarantee,
    Stream,
    UnbiasedVotes,
    conformalize,
    cross_conformalize,
    epsilon_from_counts,
)
from credalset.exceptions import CredalSetWarning, FileFormatError, MissingExtraError
from credalset.scores import Score, get_score
from credalset.sets import CredalSet, QueueRules
from credalset.votes import Annotations

if TYPE_CHECKING:
    from credalset import distributed as distributed
    from credalset import plotting as plotting
    from credalset import predictors
    from credalset._splits import train_conformalize_test_split
    from credalset.classifier import ConformalCredalClassifier
    from credalset.crowd import DirichletCrowd, VotingPolicy
    from credalset.evaluation import evaluate
    from credalset.io.scorer import Scorer
    from credalset.io.store import load
    from credalset.predictors import SoftLabelClassifier
    from credalset.reporting import report

# scikit-learn takes a while to import; whoever only has arrays does not wait for it.
_LAZY = {
    "ConformalCredalClassifier": "credalset.classifier",
    "DirichletCrowd": "credalset.crowd",
    "VotingPolicy": "credalset.crowd",
    "train_conformalize_test_split": "credalset._splits",
    "SoftLabelClassifier": "credalset.predictors",
    "Scorer": "credalset.io.scorer",
    "evaluate": "credalset.evaluation",
    "load": "credalset.io.store",
    "report": "credalset.reporting",
}
# Packages behind an extra, or that import one.
_LAZY_PACKAGES = ("distributed", "plotting", "predictors")


def __getattr__(name: str) -> Any:
    if name in _LAZY_PACKAGES:
        return import_module(f"credalset.{name}")
    if name not in _LAZY:
        raise missing_name(__name__, name, __all__, _homes(name) | IN_PACKAGE)
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def _homes(name: str) -> dict[str, str]:
    """Say where a name lives that the package itself does not have."""
    places: dict[str, Any] = {part.__name__: part for part in (metrics, scores, simplex, datasets)}
    places |= {"Annotations": Annotations, "a method, sets": CredalSet, "a method, calibration": Calibration}
    homes = [home for home, part in places.items() if name in dir(part) and callable(getattr(part, name))]
    return {name: f"It is {homes[0]}.{name}"} if homes else {}


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_LAZY_PACKAGES})


__all__ = [
    "Annotations",
    "AnnotatorSampling",
    "BoundedNoise",
    "Calibration",
    "Conditional",
    "ConformalCredalClassifier",
    "CoverageDistribution",
    "CredalSet",
    "CredalSetWarning",
    "CrossCalibration",
    "DirichletCrowd",
    "FewVotes",
    "FileFormatError",
    "Guarantee",
    "MissingExtraError",
    "QueueRules",
    "Score",
    "Scorer",
    "SoftLabelClassifier",
    "Stream",
    "UnbiasedVotes",
    "VotingPolicy",
    "__version__",
    "conformalize",
    "cross_conformalize",
    "datasets",
    "epsilon_from_counts",
    "evaluate",
    "get_score",
    "labels",
    "load",
    "metrics",
    "predictors",
    "report",
    "scores",
    "simplex",
    "train_conformalize_test_split",
]
