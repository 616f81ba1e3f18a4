"""Predictions that consist of several arrays with one row per item each, and what has names."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from credalset._typing import AnyArray, FloatArray, IntArray, Prediction

__all__ = ["Named", "PredictionBatch", "map_arrays", "row_size"]


class Named:
    """Base class of what knows the names of its rows and columns: tuples, or None."""

    items: tuple[Any, ...] | None
    classes: tuple[Any, ...] | None

    def __getitem__(self, rows: Any) -> Any:
        """Return some rows, with their names."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class PredictionBatch(Named):
    """Predictions for N items as several arrays (N, …), as ``check_prediction`` may return.

    A subclass has the arrays as fields, and defines the number of classes and the mean. The last
    axis of an array with more than one axis is that of the classes. Rows are selected as in an
    array; `map` applies a function to all arrays.
    """

    items: tuple[Any, ...] | None = field(default=None, kw_only=True)
    classes: tuple[Any, ...] | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """Number of classes K."""

    @abstractmethod
    def mean(self) -> FloatArray:
        """Return the expected label distribution of each item, (N, K)."""

    def _arrays(self) -> dict[str, AnyArray]:
        names = [each.name for each in dataclasses.fields(self)]
        return {name: getattr(self, name) for name in names if name not in ("items", "classes")}

    def arrays(self) -> tuple[FloatArray, ...]:
        """Return the arrays in the order of the fields."""
        return tuple(self._arrays().values())

    def map(self, function: Callable[[FloatArray], FloatArray]) -> Self:
        """Return a batch without names, with the function applied to each array."""
        arrays: dict[str, Any] = {name: function(x) for name, x in self._arrays().items()}
        return type(self)(**arrays)

    def take_classes(self, columns: IntArray) -> Self:
        """Return a batch without names, with the classes in the order given."""
        return self.map(lambda array: array[..., columns] if array.ndim > 1 else array)

    def __len__(self) -> int:
        return len(self.arrays()[0])

    def __getitem__(self, rows: Any) -> Self:
        return self.map(lambda array: array[rows])


def map_arrays(prediction: Prediction, function: Callable[[FloatArray], FloatArray]) -> Prediction:
    """Apply a function to the array, or to each array, of valid predictions."""
    if isinstance(prediction, PredictionBatch):
        return prediction.map(function)
    return function(prediction)


def row_size(prediction: Prediction) -> int:
    """Return the number of entries per item."""
    arrays = prediction.arrays() if isinstance(prediction, PredictionBatch) else (prediction,)
    return sum(int(np.prod(array.shape[1:])) for array in arrays)
