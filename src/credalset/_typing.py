"""Array aliases used throughout the package."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = NDArray[Any]
RandomState: TypeAlias = int | np.random.Generator | None
#: what a score calls a valid batch of predictions: an array (N, K), or a
#: `credalset._predictions.PredictionBatch`
Prediction: TypeAlias = Any

__all__ = [
    "AnyArray",
    "ArrayLike",
    "BoolArray",
    "FloatArray",
    "IntArray",
    "Prediction",
    "RandomState",
]
