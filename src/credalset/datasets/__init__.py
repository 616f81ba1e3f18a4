"""Data sets for examples, tests and experiments."""

from __future__ import annotations

from credalset.datasets.synthetic import SyntheticData, make_synthetic

__all__ = ["SyntheticData", "make_synthetic"]
