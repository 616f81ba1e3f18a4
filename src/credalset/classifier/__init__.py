"""The scikit-learn face: an estimator that predicts credal sets, and how it is saved."""

from __future__ import annotations

from credalset.classifier.estimator import ConformalCredalClassifier

__all__ = ["ConformalCredalClassifier"]
