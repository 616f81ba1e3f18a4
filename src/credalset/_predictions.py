"""Predictions that consist of several arrays with one row per item each."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from credalset._typing import FloatArray, Prediction


@dataclass(frozen=True, eq=False)
class PredictionBatch:
    """Predictions for N items as several arrays (N, …), which ``check_prediction`` may return.

    A subclass has the arrays as fields, and defines the number of classes and the mean. Rows are
    selected as in an array; `map` applies a function to all arrays.
    """

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """Number of classes K."""

    @abstractmethod
    def mean(self) -> FloatArray:
        """Return the expected label distribution of each item, (N, K)."""

    def arrays(self) -> tuple[FloatArray, ...]:
        """Return the arrays in the order of the fields."""
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    def map(self, function: Callable[[FloatArray], FloatArray]) -> Self:
        """Return a batch with the function applied to each array."""
        return type(self)(*(function(array) for array in self.arrays()))

    def __len__(self) -> int:
        return len(self.arrays()[0])

    def __getitem__(self, rows: Any) -> Self:
        return self.map(lambda array: array[rows])


def map_arrays(prediction: Prediction, function: Callable[[FloatArray], FloatArray]) -> Prediction:
    """Apply a function to the array, or to each array, of valid predictions."""
    return (
        prediction.map(function)
        if isinstance(prediction, PredictionBatch)
        else function(prediction)
    )


def row_size(prediction: Prediction) -> int:
    """Return the number of entries per item."""
    arrays = prediction.arrays() if isinstance(prediction, PredictionBatch) else (prediction,)
    return sum(int(np.prod(array.shape[1:])) for array in arrays)
