"""The value that predicted mixtures of Dirichlets are from the public door on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from credalset._predictions import PredictionBatch
from credalset._typing import ArrayLike, FloatArray
from credalset._validation import as_numbers

SUM_TOLERANCE = 1e-6
SMALLEST, LARGEST = 1e-8, 1e10  # concentrations whose densities doubles can tell


@dataclass(frozen=True, eq=False)
class DirichletMixture(PredictionBatch):
    """N mixtures of C Dirichlets over K classes: weights (N, C) that sum to one, concentrations (N, C, K) > 0.

    ``np.asarray(mixture)`` is the array (N, C, K + 1) that `DirichletMixtureNetwork.predict_density` returns, with the
    weights first.

    Examples
    --------
    >>> mixture = DirichletMixture(np.array([[0.5, 0.5]]), np.array([[[3.0, 1.0], [1.0, 1.0]]]))
    >>> len(mixture), mixture.n_classes, mixture.mean()
    (1, 2, array([[0.625, 0.375]]))
    """

    weights: FloatArray
    concentrations: FloatArray

    @property
    def n_components(self) -> int:
        """Number of components C."""
        return int(self.weights.shape[-1])

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.concentrations.shape[-1])

    def mean(self) -> FloatArray:
        """Return the means of the mixtures, (N, K)."""
        theta = self.concentrations
        means = (self.weights[..., None] * (theta / theta.sum(axis=-1, keepdims=True))).sum(axis=-2)
        return np.asarray(means / means.sum(axis=-1, keepdims=True))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        both = np.concatenate([self.weights[..., None], self.concentrations], axis=-1)
        return both if dtype is None else both.astype(dtype)


def as_mixtures(value: ArrayLike | DirichletMixture, name: str, n_classes: int | None) -> DirichletMixture:
    """Check mixtures, or an array of them (N, C, K + 1): weights sum to one, concentrations are positive."""
    if not isinstance(value, DirichletMixture):
        array = as_numbers(value, name)
        if array.ndim != 3 or array.shape[1] < 1 or array.shape[2] < 3:
            raise ValueError(
                f"{name} must hold mixtures of shape (N, components, 1 + classes) with at least 1 component and "
                f"2 classes, but has shape {array.shape}."
            )
        value = DirichletMixture(array[..., 0], array[..., 1:])
    weights, theta = value.weights, value.concentrations
    if n_classes is not None and value.n_classes != n_classes:
        raise ValueError(f"{name} has mixtures over {value.n_classes} classes, but {n_classes} are expected.")
    if not (np.isfinite(weights).all() and np.isfinite(theta).all()):
        raise ValueError(f"{name} contains NaN or infinity.")
    sums = weights.sum(axis=1)
    bad = (weights < 0).any(axis=1) | (np.abs(sums - 1.0) > SUM_TOLERANCE)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"{name} must have weights (its entries [:, :, 0]) that are not negative and sum to one, but those of row "
            f"{row} sum to {sums[row]:.6g} and the smallest is {weights[row].min():.6g}."
        )
    if theta.min(initial=1.0) < SMALLEST or theta.max(initial=1.0) > LARGEST:
        raise ValueError(
            f"{name} must have concentrations (its entries [:, :, 1:]) from {SMALLEST:g} to {LARGEST:g}, but they go "
            f"from {theta.min():.6g} to {theta.max():.6g}. Clip them: densities beyond are lost to rounding."
        )
    return value
