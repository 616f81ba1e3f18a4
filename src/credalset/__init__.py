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

from credalset._version import __version__

TYPE_CHECKING = False  # that of typing, which takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

    from credalset import (
        datasets,
        evaluation,
        judges,
        labels,
        metrics,
        plotting,
        predictors,
        scores,
        simplex,
        testing,
    )
    from credalset._splits import train_conformalize_test_split
    from credalset.acting.review import review
    from credalset.calibration import (
        AnnotatorSampling,
        BoundedNoise,
        Calibration,
        Conditional,
        CrossCalibration,
        FewVotes,
        Guarantee,
        SplitCalibration,
        Stream,
        UnbiasedVotes,
        conformalize,
        cross_conformalize,
        epsilon_from_counts,
    )
    from credalset.classifier import ConformalCredalClassifier
    from credalset.crowd import Cascade, DirichletCrowd, VotingPolicy, cascade
    from credalset.estimation import Estimated, estimate
    from credalset.evaluation import evaluate
    from credalset.exceptions import (
        ClusterError,
        CredalSetWarning,
        FileFormatError,
        MissingExtraError,
    )
    from credalset.io import dask as distributed
    from credalset.io.scorer import Scorer
    from credalset.io.store import load
    from credalset.predictors import SoftLabelClassifier
    from credalset.reporting import report
    from credalset.scores import get_score
    from credalset.sets import CredalSet, QueueRules
    from credalset.votes import Annotations

# The modules of the public names. They are imported at first use, so that scikit-learn is loaded
# only if it is needed.
_HOMES = {
    "votes": "Annotations",
    "calibration": "AnnotatorSampling BoundedNoise Calibration Conditional CrossCalibration "
    "FewVotes Guarantee "
    "SplitCalibration Stream UnbiasedVotes conformalize cross_conformalize epsilon_from_counts",
    "exceptions": "ClusterError CredalSetWarning FileFormatError MissingExtraError",
    "classifier": "ConformalCredalClassifier",
    "sets": "CredalSet QueueRules",
    "crowd": "Cascade DirichletCrowd VotingPolicy cascade",
    "io.scorer": "Scorer",
    "predictors": "SoftLabelClassifier",
    "estimation": "Estimated estimate",
    "evaluation": "evaluate",
    "scores": "get_score",
    "io.store": "load",
    "acting.review": "review",
    "reporting": "report",
    "_splits": "train_conformalize_test_split",
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}
_PACKAGES = (
    "datasets",
    "evaluation",
    "judges",
    "labels",
    "metrics",
    "plotting",
    "predictors",
    "scores",
    "simplex",
    "testing",
)


def __getattr__(name: str) -> Any:
    if name in _PACKAGES or name == "distributed":
        return import_module(f"credalset.{'io.dask' if name == 'distributed' else name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'credalset' has no attribute {name!r}")
    value = getattr(import_module(f"credalset.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "Annotations",
    "AnnotatorSampling",
    "BoundedNoise",
    "Calibration",
    "Cascade",
    "ClusterError",
    "Conditional",
    "ConformalCredalClassifier",
    "CredalSet",
    "CredalSetWarning",
    "CrossCalibration",
    "DirichletCrowd",
    "Estimated",
    "FewVotes",
    "FileFormatError",
    "Guarantee",
    "MissingExtraError",
    "QueueRules",
    "Scorer",
    "SoftLabelClassifier",
    "SplitCalibration",
    "Stream",
    "UnbiasedVotes",
    "VotingPolicy",
    "__version__",
    "cascade",
    "conformalize",
    "cross_conformalize",
    "datasets",
    "distributed",
    "epsilon_from_counts",
    "estimate",
    "evaluate",
    "evaluation",
    "get_score",
    "judges",
    "labels",
    "load",
    "metrics",
    "plotting",
    "predictors",
    "report",
    "review",
    "scores",
    "simplex",
    "testing",
    "train_conformalize_test_split",
]
