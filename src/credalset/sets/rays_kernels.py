"""Compiled form of the direction density in `credalset.sets.rays`."""

from __future__ import annotations

import numba as nb
import numpy as np

from credalset._typing import FloatArray


@nb.njit(cache=True, nogil=True)
def _log_integrand(t: float, center: FloatArray, direction: FloatArray, excess: FloatArray) -> float:
    total = (len(center) - 2) * np.log(t)
    for k in range(len(center)):
        if excess[k] > 0.0:
            x = center[k] + t * direction[k]
            if x <= 0.0:
                return -np.inf
            total += excess[k] * np.log(x)
    return total


@nb.njit(cache=True, nogil=True)
def _slope(t: float, center: FloatArray, direction: FloatArray, excess: FloatArray) -> tuple[float, float]:
    first = (len(center) - 2) / t
    second = -first / t
    for k in range(len(center)):
        if excess[k] > 0.0:
            x = max(center[k] + t * direction[k], 1e-300)
            ratio = direction[k] / x
            first += excess[k] * ratio
            second -= excess[k] * ratio * ratio
    return first, second


@nb.njit(cache=True, nogil=True)
def _peak(center: FloatArray, direction: FloatArray, excess: FloatArray, edge: float) -> float:
    """Newton's method on the falling slope, kept inside its bracket; a rough peak is enough."""
    low, high = 0.0, edge
    t = 0.5 * edge
    for _ in range(200):
        first, second = _slope(t, center, direction, excess)
        if first > 0.0:
            low = t
        else:
            high = t
        step = t - first / second if second < 0.0 else -1.0
        new = step if low < step < high else 0.5 * (low + high)
        if abs(new - t) <= 1e-3 * t:
            return new
        t = new
    return t


@nb.njit(cache=True, nogil=True)
def _window_end(
    end: float, peak: float, width: float, level: float, center: FloatArray, direction: FloatArray, excess: FloatArray
) -> float:
    """Step away from the peak, doubling, until the integrand has fallen below the level or the end is reached."""
    sign = 1.0 if end > peak else -1.0
    for _ in range(200):
        t = peak + sign * width
        if sign * (t - end) >= 0.0:
            return end
        if _log_integrand(t, center, direction, excess) < level:
            return t
        width *= 1.2
    return end


@nb.njit(cache=True, nogil=True)
def log_direction_integral(
    center: FloatArray,
    directions: FloatArray,
    edge: FloatArray,
    excess: FloatArray,
    nodes: FloatArray,
    log_weights: FloatArray,
    drop: float,
    out: FloatArray,
) -> None:
    """Log of ∫₀^edge ∏ x_k(t)^{excess_k} t^{K−2} dt for each ray, with x(t) = centre + t·direction."""
    for i in range(directions.shape[0]):
        for j in range(directions.shape[1]):
            c, u, a = center[i], directions[i, j], excess[i]
            if not edge[i, j] > 0.0:
                out[i, j] = -np.inf
                continue
            peak = _peak(c, u, a, edge[i, j])
            top = _log_integrand(peak, c, u, a)
            curvature = -_slope(peak, c, u, a)[1]
            width = min(np.sqrt(2.0 * drop / curvature), edge[i, j]) if curvature > 0.0 else edge[i, j]
            low = _window_end(0.0, peak, width, top - drop, c, u, a)
            high = _window_end(edge[i, j], peak, width, top - drop, c, u, a)
            total = 0.0
            for n in range(len(nodes)):
                t = 0.5 * (low + high) + 0.5 * (high - low) * nodes[n]
                total += np.exp(_log_integrand(t, c, u, a) - top + log_weights[n])
            out[i, j] = np.log(total) + top + np.log(0.5 * (high - low))
