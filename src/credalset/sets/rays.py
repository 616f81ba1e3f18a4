"""Volumes by shooting rays from the centre: an unbiased estimate with a standard error, for any star-shaped region.

Write d = K − 1. In polar coordinates about the centre g, a region that is star-shaped about g has

    V = ∫ ρ(u)^d / d du        over directions u, with ρ(u) the length of the ray inside the region.

Directions are drawn by drawing a point y from a Dirichlet q and pointing at it. The density of that direction is
∫₀^T q(g + t u) t^{d−1} dt with T(u) the distance to the edge of the simplex, hence

    V = E[ ∫₀^ρ t^{d−1} dt / ∫₀^T q(g + t u) t^{d−1} dt ].

Any q gives an unbiased estimate; one that resembles the region gives a good one. Here q = Dirichlet(1 + κ g), which
respects the edge of the simplex where g has small entries, and κ is chosen per region with draws that are then thrown
away. With κ = 0 directions point at uniform points of the simplex and the ratio is (ρ / T)^d ≤ 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import gammainc, gammaln

from credalset._parallel import in_blocks, row_blocks
from credalset._typing import AnyArray, BoolArray, FloatArray
from credalset.sets.roots import among, bisect, newton
from credalset.simplex import log_sum_exp

if TYPE_CHECKING:
    from credalset.sets.region import Region

N_RAYS = 1024
PILOT_RAYS = 64
UNIFORM_FROM = 0.25  # share of the simplex from which uniform rays, whose terms are at most one, do well
DROP = 32.0
# Beyond, the normaliser of the Dirichlet cancels away digits that the reported error knows nothing of.
LARGEST_SHARPNESS = 1e8
ELEMENTS_PER_BLOCK = 1 << 21


def _quadrature(n: int) -> tuple[FloatArray, FloatArray]:
    """Gauss–Legendre on [−1, 1] through a smooth step, which tames fractional powers at both ends."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    u = 0.5 * (1.0 + nodes)
    return 2.0 * u**3 * (10.0 - 15.0 * u + 6.0 * u**2) - 1.0, weights * 30.0 * (u * (1.0 - u)) ** 2


NODES, WEIGHTS = _quadrature(48)


def edge_distance(origin: FloatArray, directions: FloatArray) -> FloatArray:
    """Return sup{t : origin + t·direction ≥ 0}, for origins (N, 1, K) and directions (N, M, K) that sum to zero.

    Zero for the direction zero.
    """
    ratio = _to_edge(origin, directions)
    return np.where(np.isinf(ratio), 0.0, ratio)  # a direction without a negative entry is no direction at all


def _to_edge(origin: FloatArray, directions: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(directions < 0, origin / -directions, np.inf).min(axis=-1)


def ray_length_in_norm(center: FloatArray, radius: FloatArray, speed: FloatArray, directions: FloatArray) -> FloatArray:
    """Return sup{t : centre + t·direction in ball ∩ simplex} for the ball of a norm, directions having norm ``speed``.

    Infinite for the direction zero.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        to_surface = np.where(speed > 0, radius[:, None] / speed, np.inf)
    return np.minimum(to_surface, _to_edge(center[:, None], directions))


def ray_length(sets: Region, directions: FloatArray) -> FloatArray:
    """Return sup{t : centre + t·direction in region ∩ simplex} by bisection on the region's own divergence."""
    origin = sets.center[:, None, :]
    edge = edge_distance(origin, directions)
    limit = sets.radius[:, None]

    def outside(t: FloatArray) -> BoolArray:
        return sets._divergence(np.maximum(origin + t[..., None] * directions, 0.0)) > limit

    return bisect(outside, np.where(outside(edge), 0.0, edge), edge, steps=72, by_scale=True)[0]


def estimate_log_volume(
    sets: Region, generator: np.random.Generator, n_rays: int = N_RAYS
) -> tuple[FloatArray, FloatArray]:
    """Estimate log(fraction of the simplex) and the standard error of that logarithm, for non-empty regions.

    Regions that fill much of the simplex are met by rays toward uniform points, whose estimates never exceed one; a
    pilot sample tells which those are.
    """
    n, k = sets.center.shape
    log_volume, error = np.full(n, -np.inf), np.zeros(n)
    proper = np.flatnonzero(sets.radius > 0)  # a single point has no volume, and no doubt about it
    for block in row_blocks(len(proper), n_rays * k, ELEMENTS_PER_BLOCK):
        rows = proper[block]
        large = log_mean(_uniform_rays(sets[rows], PILOT_RAYS, generator).log_weights)[0] > np.log(UNIFORM_FROM)
        for mine, draw in ((rows[large], _uniform_rays), (rows[~large], type(sets)._weighted_rays)):
            if len(mine):
                log_volume[mine], error[mine] = log_mean(draw(sets[mine], n_rays, generator).log_weights)
    return log_volume, error


def log_mean(terms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log of the mean of exp(terms) over the last axis, and its standard error (relative, to first order)."""
    n = terms.shape[-1]
    logs = log_sum_exp(terms) - np.log(n)
    # Values of mean one; rays that all have length zero mean a flat set, for certain.
    values = np.exp(terms - np.where(np.isfinite(logs), logs, 0.0)[..., None])
    return logs, values.std(axis=-1, ddof=1) / np.sqrt(n)


def log_incomplete_gamma(a: AnyArray, x: FloatArray) -> FloatArray:
    """Log ∫₀^x e^{−t} t^{a−1} dt, also where the regularised function underflows."""
    with np.errstate(divide="ignore"):
        regularised = gammainc(a, x)
        series = a * np.log(x) - np.log(a) - x * a / (a + 1.0)  # relative error O(x²), for x tiny against a
        return np.where(regularised > 1e-280, np.log(regularised) + gammaln(a), series)


def choose_sharpness(sets: Region, generator: np.random.Generator) -> FloatArray:
    """Pick κ per set so that half the Dirichlet draws lie within 0.7 of the radius, (N,); zero for large sets.

    The best rays point at draws that mostly fall inside, near the edge; anything from 0.4 to 1.1 of the radius does
    about as well. Judging candidates by the spread of their own pilot estimates would be fooled by heavy tails.
    """
    goal = 0.7 * sets.radius

    def is_narrow(log_sharpness: FloatArray) -> BoolArray:
        draws = _dirichlet(sets.center, np.exp(log_sharpness), PILOT_RAYS, generator)
        return np.asarray(np.median(sets._divergence(draws), axis=1) <= goal)

    low, high = np.full(len(sets), np.log(0.1)), np.full(len(sets), np.log(LARGEST_SHARPNESS))
    large = is_narrow(low)
    low, high = bisect(is_narrow, low, high, steps=16)
    return np.where(large, 0.0, np.exp(0.5 * (low + high)))


def _dirichlet(center: FloatArray, sharpness: FloatArray, n: int, generator: np.random.Generator) -> FloatArray:
    """Draw from Dirichlet(1 + sharpness·centre), (N, n, K)."""
    concentration = (1.0 + sharpness[:, None] * center)[:, None, :]
    draws = generator.standard_gamma(np.broadcast_to(concentration, (len(center), n, center.shape[1])))
    return draws / draws.sum(axis=-1, keepdims=True)


class Rays(NamedTuple):
    """Rays from the centres: directions (N, M, K), their length inside the region and log weights, (N, M)."""

    directions: FloatArray
    reach: FloatArray
    log_weights: FloatArray


def _uniform_rays(sets: Region, n_rays: int, generator: np.random.Generator) -> Rays:
    return draw_rays(sets, np.zeros(len(sets)), n_rays, generator)


def draw_rays(sets: Region, sharpness: FloatArray, n_rays: int, generator: np.random.Generator) -> Rays:
    """Draw rays toward Dirichlet points; each ray's weight is its unbiased estimate of the fraction."""
    center = sets.center[:, None, :]
    k = sets.n_classes
    toward = _dirichlet(sets.center, sharpness, n_rays, generator) - center
    # The entries sum to zero; the one of the largest class is the least precise, and follows from the others.
    rows, top = np.arange(len(sets)), sets.center.argmax(axis=1)
    toward[rows, :, top] = 0.0
    toward[rows, :, top] = -toward.sum(axis=-1)
    # Unit in the largest entry, not in Euclidean length: the unit cancels, and this one never under- or overflows.
    scale = np.abs(toward).max(axis=-1, keepdims=True)
    some_direction = np.zeros(k)
    some_direction[:2] = 1.0, -1.0
    aimed = scale > 1e-13
    directions = np.where(aimed, toward / np.where(aimed, scale, 1.0), some_direction)
    reach, edge = sets._ray_length(directions), edge_distance(center, directions)
    with np.errstate(divide="ignore", invalid="ignore"):
        numerator = (k - 1) * np.log(reach) - np.log(k - 1)
        terms = numerator - _log_direction_density(center, directions, edge, sharpness) + gammaln(k)
    # A ray toward the centre itself has no direction. It has probability zero, but seeds coincide.
    return Rays(directions, reach, np.where(aimed[..., 0], terms, -np.inf))


def _log_direction_density(
    center: FloatArray, directions: FloatArray, edge: FloatArray, sharpness: FloatArray
) -> FloatArray:
    """Log of ∫₀^edge q(centre + t u) t^{K−2} dt with q = Dirichlet(1 + sharpness·centre), (N, M).

    q is the density with respect to Lebesgue measure on the first K − 1 coordinates, under which the simplex has
    volume 1 / (K − 1)!.
    """
    k = center.shape[-1]
    excess = sharpness[:, None] * center[:, 0]
    log_constant = gammaln(k + excess.sum(axis=-1)) - gammaln(1.0 + excess).sum(axis=-1)
    with np.errstate(divide="ignore"):
        result = (k - 1) * np.log(edge) - np.log(k - 1)  # the integral for a flat q
    curved = np.flatnonzero(sharpness > 0)
    if len(curved):
        rows = directions[curved], edge[curved], center[curved, 0], excess[curved]
        result[curved] = log_direction_integral(*rows)
    return result + log_constant[:, None]


@in_blocks(lambda size: 2 * size)
def log_direction_integral(
    directions: FloatArray, edge: FloatArray, center: FloatArray, excess: FloatArray
) -> FloatArray:
    """Log of ∫₀^edge ∏ x_k(t)^{excess_k} t^{K−2} dt for each ray, with x(t) = centre + t·direction, (N, M).

    The logarithm of the integrand is concave: find its peak, go as far as it has fallen by `DROP` on both sides, and
    integrate there by Gauss–Legendre.
    """
    n, m, k = directions.shape
    rows = np.flatnonzero(edge.ravel() > 0)
    d, far = np.ascontiguousarray(directions.reshape(-1, k)[rows].T), edge.ravel()[rows]
    g, a = (np.ascontiguousarray(array[rows // m].T) for array in (center, excess))
    g, d = np.where(a > 0, g, 1.0), np.where(a > 0, d, 0.0)  # the others add nothing

    def log_integrand(t: FloatArray, g: FloatArray, d: FloatArray, a: FloatArray) -> FloatArray:
        x = np.log(np.maximum(g + t * d, 0.0))
        x *= a
        return x.sum(axis=0) + (k - 2) * np.log(t)

    def fall(t: FloatArray, g: FloatArray, d: FloatArray, a: FloatArray) -> tuple[FloatArray, FloatArray]:
        ratio = d / np.maximum(g + t * d, 1e-300)
        pull = a * ratio
        return -pull.sum(axis=0) - (k - 2) / t, (pull * ratio).sum(axis=0) + (k - 2) / (t * t)

    with np.errstate(all="ignore"):
        start = np.minimum(np.sqrt((k - 2) / (a * (d / g) ** 2).sum(axis=0)), 0.5 * far)  # powers start out balanced
        peak = newton(fall, (g, d, a), np.zeros_like(far), far, start, 1e-4 * start)
        top = log_integrand(peak, g, d, a)
        width = np.sqrt(2.0 * DROP / fall(peak, g, d, a)[1])
        width = np.where(width > 0, np.minimum(width, far), far)
        low, high = (_window_end(log_integrand, (g, d, a), peak, width, top - DROP, end) for end in (0.0 * far, far))
        half, middle = 0.5 * (high - low), 0.5 * (high + low)
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
    """Step away from the peak, further each time, until the integrand is below the level or the end is reached."""
    result, rows = end.copy(), np.arange(len(end))
    for _ in range(200):
        t = peak + np.where(end > peak, width, -width)
        is_open = np.abs(t - peak) < np.abs(end - peak)
        rows, t, peak, width, level, end = among(is_open, rows, t, peak, width, level, end)
        data = among(is_open, *data)
        low = log_integrand(t, *data) < level
        result[rows[low]] = t[low]
        rows, peak, width, level, end = among(~low, rows, peak, 1.3 * width, level, end)
        data = among(~low, *data)
        if not len(rows):
            break
    return result
