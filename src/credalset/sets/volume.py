r"""Volumes by rays from the centre: unbiased estimates with errors, for any star-shaped region.

Write d = K − 1. In polar coordinates about the centre g, a region that is star-shaped about g has
the volume $\int \rho(u)^d / d \, du$ over directions u, with ρ(u) the length of the ray inside the
region. Directions are drawn by drawing a point from a Dirichlet q and pointing at it. The density
of that direction is $\int_0^T q(g + t u) t^{d-1} dt$ with T(u) the distance to the edge of the
simplex, hence

$$V = E\Bigl[ \int_0^\rho t^{d-1} dt \Big/ \int_0^T q(g + t u) t^{d-1} dt \Bigr].$$

The estimate is unbiased for any q, and its variance is small if q resembles the region. Here q =
Dirichlet(1 + κ g), which respects the edge of the simplex where g has small entries, and κ is
chosen per region with separate draws. With κ = 0 the ratio is (ρ / T)^d ≤ 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, logsumexp

from credalset._blocks import row_blocks
from credalset._typing import BoolArray, FloatArray
from credalset.sets.roots import bisect, newton

if TYPE_CHECKING:
    from credalset.sets.geometry import Geometry

PILOT_RAYS = 64
RAY_STEPS = 18
UNIFORM_FROM = (
    0.25  # share of the simplex from which uniform rays are used, whose terms are at most one
)
DROP = 32.0  # fall of the log integrand beyond which it is negligible
LARGEST_SHARPNESS = 1e8  # beyond, the normaliser of the Dirichlet loses digits
LARGEST_ERROR = (
    0.25  # relative standard error beyond which a few rays dominate and the error is unreliable
)
ELEMENTS = 1 << 21  # numbers held at a time


def edge_distance(origin: FloatArray, directions: FloatArray) -> FloatArray:
    """Return sup{t : origin + t·direction ≥ 0} for directions (…, K) that sum to zero.

    0 for the direction zero.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(directions < 0, origin / -directions, np.inf).min(axis=-1)
    return np.where(np.isinf(ratio), 0.0, ratio)


def ray_length(geometry: Geometry, directions: FloatArray) -> FloatArray:
    """Return sup{t : centre + t·direction in region ∩ simplex}, (N, M), from below.

    False position (Illinois) between the logarithms of t and of the divergence, which grows about
    as a power of t.
    """
    origin = geometry.center[:, None, :]
    edge = edge_distance(origin, directions)

    def excess(t: FloatArray) -> FloatArray:
        value = geometry.divergence(np.maximum(origin + t[..., None] * directions, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.clip(np.log(value / geometry.radius[:, None]), -100.0, 100.0)

    with np.errstate(divide="ignore"):
        high = np.log(edge)
    f_high = excess(edge)
    low = high - 40.0
    f_low = np.full(edge.shape, -80.0)
    side = np.zeros(edge.shape)
    for _ in range(RAY_STEPS):
        with np.errstate(invalid="ignore", divide="ignore"):
            x = (low * f_high - high * f_low) / (f_high - f_low)
            x = np.where((x > low) & (x < high), x, 0.5 * (low + high))
        f = excess(np.exp(np.where(np.isfinite(x), x, -800.0)))
        good = f <= 0
        # The end on whose side the divergence lies moves there. An end that stays for a second time
        # counts half, so that the next point is closer to it (the Illinois rule).
        high_value = np.where(side > 0, 0.5 * f_high, f_high)
        low_value = np.where(side < 0, 0.5 * f_low, f_low)
        f_high = np.where(good, high_value, f)
        f_low = np.where(good, f, low_value)
        low = np.where(good, x, low)
        high = np.where(good, high, x)
        side = np.where(good, 1.0, -1.0)
    return np.where(excess(edge) <= 0, edge, np.where(edge > 0, np.exp(low), 0.0))


def estimate(
    geometry: Geometry, generator: np.random.Generator, n_rays: int
) -> tuple[FloatArray, FloatArray, str]:
    """Return each region's log share of the simplex, its standard error, and the method.

    Two classes are exact. Weights with a large spread have heavy tails, which a sample understates:
    the standard error is enlarged by a factor found on balls of known volume, and is ``+inf`` where
    it is unreliable.
    """
    n, k = geometry.center.shape
    if k == 2:
        both_ways = np.broadcast_to([[1.0, -1.0], [-1.0, 1.0]], (n, 2, 2))
        with np.errstate(divide="ignore"):
            return np.log(geometry._ray_length(both_ways).sum(axis=1)), np.zeros(n), "exact"
    value = np.full(n, -np.inf)
    error = np.zeros(n)
    proper = np.flatnonzero(geometry.radius > 0)  # a single point has no volume
    for block in row_blocks(len(proper), n_rays * k, ELEMENTS):
        rows = proper[block]
        value[rows], error[rows] = log_mean(_weights(geometry[rows], n_rays, generator))
    return value, np.where(error > LARGEST_ERROR, np.inf, error * (1.0 + 8.0 * error)), "estimate"


def log_mean(terms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log of the mean of exp(terms) over the last axis, and its relative error.

    The standard error is of first order.
    """
    n = terms.shape[-1]
    with np.errstate(divide="ignore"):
        logs = np.asarray(logsumexp(terms, axis=-1)) - np.log(n)
    values = np.exp(terms - np.where(np.isfinite(logs), logs, 0.0)[..., None])
    return logs, values.std(axis=-1, ddof=1) / np.sqrt(n)


def _weights(geometry: Geometry, n_rays: int, generator: np.random.Generator) -> FloatArray:
    """Return log weights of rays (N, M), uniform ones for regions that cover much."""
    pilot = draw_weights(geometry, np.zeros(len(geometry)), PILOT_RAYS, generator)
    large = log_mean(pilot)[0] > np.log(UNIFORM_FROM)
    return draw_weights(
        geometry, np.where(large, 0.0, choose_sharpness(geometry, generator)), n_rays, generator
    )


def choose_sharpness(geometry: Geometry, generator: np.random.Generator) -> FloatArray:
    """Return κ such that half the Dirichlet draws lie within 0.7 of the radius, (N,).

    Zero for large regions.
    """
    goal = 0.7 * geometry.radius

    def is_narrow(log_sharpness: FloatArray) -> BoolArray:
        draws = _dirichlet(geometry.center, np.exp(log_sharpness), PILOT_RAYS, generator)
        return np.asarray(np.median(geometry.divergence(draws), axis=1) <= goal)

    low = np.full(len(geometry), np.log(0.1))
    high = np.full(len(geometry), np.log(LARGEST_SHARPNESS))
    large = is_narrow(low)
    low, high = bisect(is_narrow, low, high, steps=16)
    return np.where(large, 0.0, np.exp(0.5 * (low + high)))


def _dirichlet(
    center: FloatArray, sharpness: FloatArray, n: int, generator: np.random.Generator
) -> FloatArray:
    """Draw from Dirichlet(1 + sharpness·centre), (N, n, K)."""
    concentration = (1.0 + sharpness[:, None] * center)[:, None, :]
    draws = generator.standard_gamma(
        np.broadcast_to(concentration, (len(center), n, center.shape[1]))
    )
    return np.asarray(draws / draws.sum(axis=-1, keepdims=True))


def draw_weights(
    geometry: Geometry, sharpness: FloatArray, n_rays: int, generator: np.random.Generator
) -> FloatArray:
    """Draw rays toward Dirichlet points.

    Return the logarithm of each ray's unbiased estimate of the share, (N, M).
    """
    center = geometry.center[:, None, :]
    k = geometry.n_classes
    toward = _dirichlet(geometry.center, sharpness, n_rays, generator) - center
    # The entries sum to zero: that of the largest class, which is the least precise, follows from
    # the others.
    rows = np.arange(len(geometry))
    top = geometry.center.argmax(axis=1)
    toward[rows, :, top] = 0.0
    toward[rows, :, top] = -toward.sum(axis=-1)
    scale = np.abs(toward).max(axis=-1, keepdims=True)
    aimed = scale > 1e-13  # a ray toward the centre itself has no direction
    some_direction = np.zeros(k)
    some_direction[:2] = 1.0, -1.0
    directions = np.where(aimed, toward / np.where(aimed, scale, 1.0), some_direction)
    reach = geometry._ray_length(directions)
    edge = edge_distance(center, directions)
    excess = sharpness[:, None] * geometry.center
    with np.errstate(divide="ignore", invalid="ignore"):
        density = (k - 1) * np.log(edge) - np.log(k - 1)  # the integral for a flat q
        curved = np.flatnonzero(sharpness > 0)
        for block in row_blocks(len(curved), 2 * n_rays * k):
            some = curved[block]
            density[some] = _log_integral(
                directions[some], edge[some], geometry.center[some], excess[some]
            )
        density += (gammaln(k + excess.sum(axis=-1)) - gammaln(1.0 + excess).sum(axis=-1))[:, None]
        terms = (k - 1) * np.log(reach) - np.log(k - 1) - density + gammaln(k)
    return np.where(aimed[..., 0], terms, -np.inf)


def smooth_quadrature(n: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights on [−1, 1].

    Gauss–Legendre after a substitution for fractional powers at the ends.
    """
    nodes, weights = np.polynomial.legendre.leggauss(n)
    u = 0.5 * (1.0 + nodes)
    return 2.0 * u**3 * (10.0 - 15.0 * u + 6.0 * u**2) - 1.0, weights * 30.0 * (u * (1.0 - u)) ** 2


NODES, WEIGHTS = smooth_quadrature(48)


def _log_integral(
    directions: FloatArray, edge: FloatArray, center: FloatArray, excess: FloatArray
) -> FloatArray:
    """Return log ∫₀^edge ∏ x_k(t)^{excess_k} t^{K−2} dt for each ray, (N, M).

    Here x(t) = centre + t·direction.

    The logarithm of the integrand is concave. It is integrated by Gauss–Legendre around its peak,
    as far as it has fallen by `DROP` on both sides. Inside, classes take precedence.
    """
    n, m, k = directions.shape
    rows = np.flatnonzero(edge.ravel() > 0)
    d = np.ascontiguousarray(directions.reshape(-1, k)[rows].T)
    far = edge.ravel()[rows]
    g, a = (np.ascontiguousarray(array[rows // m].T) for array in (center, excess))
    # the others add nothing
    g = np.where(a > 0, g, 1.0)
    d = np.where(a > 0, d, 0.0)

    def log_integrand(t: FloatArray, g: FloatArray, d: FloatArray, a: FloatArray) -> FloatArray:
        logs = np.log(np.maximum(g + t * d, 0.0))
        logs *= a
        return np.asarray(logs.sum(axis=0) + (k - 2) * np.log(t))

    def fall(
        t: FloatArray, g: FloatArray, d: FloatArray, a: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        ratio = d / np.maximum(g + t * d, 1e-300)
        pull = a * ratio
        return -pull.sum(axis=0) - (k - 2) / t, (pull * ratio).sum(axis=0) + (k - 2) / (t * t)

    with np.errstate(all="ignore"):
        # Powers start out balanced.
        start = np.minimum(np.sqrt((k - 2) / (a * (d / g) ** 2).sum(axis=0)), 0.5 * far)
        peak = newton(fall, (g, d, a), np.zeros_like(far), far, start, 1e-4 * start)
        top = log_integrand(peak, g, d, a)
        width = np.sqrt(2.0 * DROP / fall(peak, g, d, a)[1])
        width = np.where(width > 0, np.minimum(width, far), far)
        low, high = (
            _window_end(log_integrand, (g, d, a), peak, width, top - DROP, end)
            for end in (0.0 * far, far)
        )
        half = 0.5 * (high - low)
        middle = 0.5 * (high + low)
        total = np.zeros_like(far)
        for node, weight in zip(NODES, WEIGHTS, strict=True):
            total += weight * np.exp(log_integrand(middle + half * node, g, d, a) - top)
        result = np.full(n * m, -np.inf)
        result[rows] = np.log(total) + top + np.log(half)
    return result.reshape(n, m)


def _window_end(
    log_integrand: Callable[..., FloatArray],
    data: Sequence[FloatArray],
    peak: FloatArray,
    width: FloatArray,
    level: FloatArray,
    end: FloatArray,
) -> FloatArray:
    """Step from the peak with growing steps until the integrand is below the level, or the end."""
    share = np.minimum(width / np.abs(end - peak), 1.0)
    for _ in range(200):
        is_open = (log_integrand(peak + share * (end - peak), *data) >= level) & (share < 1.0)
        if not is_open.any():
            break
        share = np.where(is_open, np.minimum(1.3 * share, 1.0), share)
    return peak + share * (end - peak)
