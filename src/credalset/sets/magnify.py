r"""Balls of f-divergences too small for doubles, and what turns their volume into that of a ball that is not.

Near its centre a divergence Σ g_k φ(λ_k / g_k) with φ''(1) = c treats a class in one of two ways when the radius r is
tiny. Where g_k ≫ r, members stay close to g_k and the class adds c (λ_k − g_k)² / 2 g_k. Where g_k is of the order of r
or below, so is λ_k, and the class adds g_k φ(λ_k / g_k), which is homogeneous: it scales with (g_k, λ_k). Let E be the
classes of the first kind, the largest one among them, and T the others. For any factor s and any masses g̃ on E,

$$V(g, r) = V(\tilde g, s r) \; s^{-|T| - (|E| - 1)/2} \prod_{k \in E} \sqrt{g_k / \tilde g_k},
  \qquad \tilde g_k = s g_k \text{ on } T,$$

up to a relative error of the order of r / min g over E. So the volume of a ball of radius 1e-300 is that of one whose
radius is a round small number, and a factor.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from credalset._typing import FloatArray


def magnify(
    center: FloatArray, radius: FloatArray, below: float, ratio: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Replace balls of radius less than ``below`` by balls of about that radius.

    Parameters
    ----------
    center, radius : ndarray of shape (N, K) and (N,)
        Balls of an f-divergence.
    below : float
        Radius from which the balls' own formulas hold their digits.
    ratio : float
        Mass over radius from which a class counts as large; the volume is off by about 1 / ratio.

    Returns
    -------
    center, radius, log_factor
        The balls, and what to add to the logarithm of their volume, (N,).

    Examples
    --------
    >>> center, radius, log_factor = magnify(np.array([[0.9, 0.1]]), np.array([1e-300]), below=1e-60, ratio=1e17)
    >>> center, 1e-61 < radius[0] < 1e-59, log_factor.round()
    (array([[0.5, 0.5]]), np.True_, array([-277.]))
    """
    log_factor = np.zeros(len(center))
    rows = np.flatnonzero((radius > 0) & (radius < below))
    if len(rows) == 0:
        return center, radius, log_factor
    center, radius = center.copy(), radius.copy()
    g, r = center[rows], radius[rows]
    exponent = np.frexp(below)[1] - np.frexp(r)[1]  # powers of two: nothing is rounded
    large = g >= np.minimum(ratio * r, g.max(axis=1))[:, None]
    n_large = large.sum(axis=1)
    small = np.where(large, 0.0, np.ldexp(np.where(large, 0.0, g), exponent[:, None]))
    share = (1.0 - small.sum(axis=1)) / n_large
    with np.errstate(divide="ignore"):
        log_ratio = np.where(large, np.log(g) - np.log(share)[:, None], 0.0)
    power = g.shape[1] - n_large + 0.5 * (n_large - 1)
    log_factor[rows] = 0.5 * log_ratio.sum(axis=1) - power * exponent * np.log(2.0)
    center[rows], radius[rows] = np.where(large, share[:, None], small), np.ldexp(r, exponent)
    return center, radius, log_factor


def magnified(sets: Any, below: float, ratio: float) -> tuple[Any, FloatArray]:
    """Do the same to a batch of credal sets."""
    center, radius, log_factor = magnify(sets.center, sets.radius, below, ratio)
    return dataclasses.replace(sets, center=center, radius=radius), log_factor
