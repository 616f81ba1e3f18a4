"""The nearest distribution, in Kullback–Leibler divergence, in which a given class comes out on top."""

from __future__ import annotations

import numpy as np

from credalset._parallel import in_blocks
from credalset._typing import FloatArray
from credalset.scores.kullback_leibler.geometry import normalised
from credalset.scores.pooling import pool


@in_blocks(lambda size: 2 * size)
def closest_with_top(center: FloatArray) -> FloatArray:
    """Smallest KL(λ‖g) among the λ whose largest entry is that of the class, for each class; +inf where g_k = 0."""
    g = normalised(center)
    largest = g.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        logs = np.where(g > 0, np.log(g / largest), -1e4)  # a finite stand-in, overwritten below
    size, total, shortfall = pool(logs, np.positive, lambda x: np.expm1(x) - x)
    level = total / size  # the pool's geometric mean, as a logarithm relative to the largest class
    # What pooling takes from the total mass: the pool's mass less its size times the mean.
    loss = largest * (shortfall - size * (np.expm1(level) - level))
    tails = np.cumsum(np.sort(g, axis=1), axis=1)[:, ::-1]  # mass of the classes from each rank on
    outside = np.maximum(np.take_along_axis(tails, size.astype(np.int64) - 1, axis=1) - g, 0.0)
    with np.errstate(divide="ignore"):
        pooled = size * largest * np.exp(level)
        cost = np.where(loss < 0.5, -np.log1p(-np.minimum(loss, 0.5)), -np.log(pooled + outside))
    return np.where(g > 0, np.maximum(cost, 0.0), np.inf)
