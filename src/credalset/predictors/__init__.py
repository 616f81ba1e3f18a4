"""Estimators that learn label distributions, and the protocol by which credalset talks to any estimator."""

from __future__ import annotations

from credalset.predictors.soft_label import SoftLabelClassifier

__all__ = ["SoftLabelClassifier"]
