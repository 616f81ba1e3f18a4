"""The nearest distribution, in Kullback–Leibler divergence, in which a given class comes out on top."""

from __future__ import annotations

import numpy as np

from credalset._parallel import in_blocks
from credalset._typing import FloatArray
from credalset.scores.kullback_leibler.geometry import normalised


@in_blocks(lambda size: 2 * size)
def closest_with_top(center: FloatArray) -> FloatArray:
    """Smallest KL(λ‖g) among the λ whose largest entry is that of the class, for each class; +inf where g_k = 0."""
    g = np.ascontiguousarray(normalised(center).T)
    n_classes = len(g)
    order = np.argsort(-g, axis=0)
    ordered = np.take_along_axis(g, order, axis=0)
    with np.errstate(divide="ignore"):
        logs = np.where(ordered > 0, np.log(ordered), -1e4)  # a finite stand-in, overwritten below
    total, size, growing = np.zeros_like(g), np.ones_like(g), np.ones_like(g, dtype=bool)
    for j in range(n_classes - 1):  # pool the j-th largest class with every smaller one whose pool it still exceeds
        above = logs[j] - logs
        growing &= above > total / size
        growing[: j + 1] = False
        if not growing.any():
            break
        total += np.where(growing, above, 0.0)
        size += growing
    level = logs + total / size
    pooled = np.exp(level)
    loss = _pooling_loss(ordered, logs, level, pooled)
    for j in range(int(size.max()) - 1):
        loss += np.where(size - 1 > j, _pooling_loss(ordered[j], logs[j], level, pooled), 0.0)
    tails = np.concatenate([np.cumsum(ordered[::-1], axis=0)[::-1], np.zeros((1, g.shape[1]))])
    outside = np.maximum(np.take_along_axis(tails, size.astype(np.int64) - 1, axis=0) - ordered, 0.0)
    with np.errstate(divide="ignore"):
        cost = np.where(loss < 0.5, -np.log1p(-np.minimum(loss, 0.5)), -np.log(size * pooled + outside))
    result = np.empty_like(g)
    np.put_along_axis(result, order, np.where(ordered > 0, np.maximum(cost, 0.0), np.inf), axis=0)
    return result.T


def _pooling_loss(mass: FloatArray, log_mass: FloatArray, level: FloatArray, pooled: FloatArray) -> FloatArray:
    """Return mass − pooled − pooled·log(mass/pooled) ≥ 0: what pooling this class takes from the total mass."""
    z = log_mass - level
    near = np.abs(z) < 0.5
    return np.where(near, pooled * (np.expm1(np.where(near, z, 0.0)) - z), mass - pooled - pooled * z)
