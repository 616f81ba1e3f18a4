r"""Volume of W₁ balls with many classes: an unbiased radial estimate whose rays are drawn in the shape of the ball.

In the offsets w = F − G of the cumulative masses, measured in units of the radius, the ball is

$$\{ w : \textstyle\sum_k gap_k |w_k| \le 1,\; w_k \ge w_{k-1} - g_k,\; w_{K-1} \le g_K \}, \qquad w_0 = 0,$$

a chain, and so is the density ∝ e^{−s W₁} on the simplex: one backward pass over the classes,

$$m_{k-1}(w) = \int_{w - g_k} f_k(x) \, dx, \qquad f_k(x) = e^{-s \, gap_k |x|} \, m_k(x),$$

and w_k given w_{k−1} has density f_k / m_{k−1}(w_{k−1}). All of these are log-concave. Each f_k is replaced by a
function that is log-linear between knots, whose integrals are known in closed form, so the density q of what is drawn
is exact however coarse the knots. A chord below a concave function is off by at most twice what it is off by in the
middle, so cells are halved until that is small, and q is close to e^{−s W₁} everywhere.

Write d = K − 1, W for the distance of a draw, and T ≥ 1 for the multiple of it that reaches the edge of the simplex.
Where along its ray a draw happens to lie is averaged out as if q were exact, and the last factor sets that right:

$$\mathrm{vol} = E\left[ \frac{\min(T, 1/W)^d / d}{\int_0^T e^{-s W t} t^{d-1} dt} \cdot \frac{e^{-s W}}{q} \right].$$

The first factor is bounded, greatest for rays that leave ball and simplex together. The tilt s is the saddle point,
E[W] = 1, found by a few Newton steps on a pilot sample that is then thrown away; it also tells where the knots matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import gammaln

from credalset._compiled import kernels
from credalset._parallel import for_each_block
from credalset._typing import FloatArray, IntArray
from credalset.scores.wasserstein.geometry import within_reach
from credalset.sets.rays import N_RAYS, Rays, log_incomplete_gamma, log_mean, log_terms

if TYPE_CHECKING:
    from credalset.sets.region import Region

KERNELS = "credalset.scores.wasserstein.rays_kernels"
PILOT_RAYS = 64
UNIFORM_FROM = 0.25  # share of the simplex from which uniform rays, whose terms are at most one, do well
NEWTON_STEPS = 8
SETTLED = 0.1  # a step in the tilt that moves the mean of W by this many standard deviations hardly matters
COARSE, FINE = 0.5, 0.05  # how far the middle of a chord may lie below its function, outside and inside the window
MAX_HALVINGS = 64
END_WIDTH = 0.01  # of the last cell, in units of the distance that offsets keep from the end
COMPILE_FROM = 1 << 21  # numbers drawn by which NumPy takes longer than the compiler, about a hundred balls of ten
# classes; once compiled, kernels take a tenth of the time or less, and importing Numba a few balls' worth
KERNELS_FROM = 1 << 16
ELEMENTS_PER_BLOCK = 1 << 21


class Chain(NamedTuple):
    """One ball in units of its radius: w_k ≥ w_{k−1} − mass_k, and hence low_k ≤ w_k ≤ high_k."""

    mass: FloatArray
    gaps: FloatArray
    low: FloatArray
    high: FloatArray


class Link(NamedTuple):
    """One f_k: its logarithm is linear between the knots; ``tails`` are the logs of its integrals from each on."""

    knots: FloatArray
    values: FloatArray
    tails: FloatArray


def estimate_log_volume(
    sets: Region, gaps: FloatArray, generator: np.random.Generator, n_rays: int = N_RAYS
) -> tuple[FloatArray, FloatArray]:
    """Estimate log(fraction of the simplex) and the standard error of that logarithm."""
    n, k = sets.center.shape
    log_volume, error = np.full(n, -np.inf), np.zeros(n)
    proper = np.flatnonzero(sets.radius > 0)
    step = max(1, ELEMENTS_PER_BLOCK // (2 * n_rays * k))
    for start in range(0, len(proper), step):
        rows = proper[start : start + step]
        large = log_mean(_uniform_terms(sets[rows], gaps, PILOT_RAYS, generator))[0] > np.log(UNIFORM_FROM)
        for mine, terms in ((rows[large], _uniform_terms), (rows[~large], _tilted_terms)):
            if len(mine):
                log_volume[mine], error[mine] = log_mean(terms(sets[mine], gaps, n_rays, generator))
    return log_volume, error


def _uniform_terms(sets: Region, gaps: FloatArray, n_rays: int, generator: np.random.Generator) -> FloatArray:
    return log_terms(sets, np.zeros(len(sets)), n_rays, generator)


def _tilted_terms(sets: Region, gaps: FloatArray, n_rays: int, generator: np.random.Generator) -> FloatArray:
    """Log of each ray's unbiased estimate of the fraction, (N, n_rays)."""
    return _tilted_rays(sets, gaps, n_rays, generator, np.empty((0, 0, 0)))[1]


def weighted_rays(sets: Region, gaps: FloatArray, n_rays: int, generator: np.random.Generator) -> Rays:
    """Rays in the shape of each ball, for sampling."""
    offsets = np.empty((len(sets), n_rays, len(gaps)))
    length, log_weights = _tilted_rays(sets, gaps, n_rays, generator, offsets)
    moved = np.diff(offsets, axis=-1, prepend=0.0, append=0.0)
    return Rays(within_reach(sets.radius, gaps)[:, None, None] * moved, length, log_weights)


def _tilted_rays(
    sets: Region, gaps: FloatArray, n_rays: int, generator: np.random.Generator, offsets: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Length of each ray in units of its draw, and log of its estimate; fills ``offsets`` unless that is empty."""
    n, d = len(sets), len(gaps)
    reach = within_reach(sets.radius, gaps)
    mass = in_units_of_radius(sets.center, reach, gaps)
    pilot, uniforms = generator.random((n, PILOT_RAYS, d, 2)), generator.random((n, n_rays, d, 2))
    tilt, cost, edge, log_ratio = np.empty(n), *np.empty((3, n, n_rays))
    compiled = kernels(KERNELS, uniforms.size, COMPILE_FROM, KERNELS_FROM)

    def one_block(rows: slice) -> None:
        if compiled is not None:
            results = tilt[rows], cost[rows], edge[rows], log_ratio[rows], offsets[rows]
            compiled.draw(mass[rows], gaps, pilot[rows], uniforms[rows], *results)
            return
        for i in range(rows.start, rows.stop):
            tilt[i], cost[i], edge[i], log_ratio[i], drawn = draw(mass[i], gaps, pilot[i], uniforms[i])
            if len(offsets):
                offsets[i] = drawn

    for_each_block(one_block, n, uniforms[0].size, block_size=1)
    speed = tilt[:, None] * cost
    with np.errstate(divide="ignore", invalid="ignore"):
        length = np.minimum(edge, 1.0 / cost)
        along_ray = log_incomplete_gamma(np.array(d), speed * edge) - d * np.log(speed)
        terms = d * np.log(length) - np.log(d) - along_ray + log_ratio + d * np.log(reach)[:, None] + gammaln(d + 1)
    # A draw of the centre itself, or of a face, has probability zero, but seeds coincide.
    usable = (cost > 0) & np.isfinite(log_ratio)
    return np.where(usable, length, 0.0), np.where(usable, terms, -np.inf)


def in_units_of_radius(center: FloatArray, reach: FloatArray, gaps: FloatArray) -> FloatArray:
    """Masses over the radius, (N, K), cut off where they cannot bind: members have |w_k| ≤ 1 / gap_k."""
    nearest = np.minimum(np.r_[gaps[0], gaps], np.r_[gaps, gaps[-1]])
    with np.errstate(over="ignore"):
        return np.minimum(center / reach[:, None], 4.0 / nearest)


def draw(
    mass: FloatArray, gaps: FloatArray, pilot: FloatArray, uniforms: FloatArray
) -> tuple[float, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the tilt s and, for each ray, W, T, log(e^{−s W} / q) and w, from uniforms (n_rays, K − 1, 2)."""
    chain = Chain(mass, gaps, -np.cumsum(mass)[:-1], np.cumsum(mass[::-1])[-2::-1])
    tilt, window = _find_tilt(chain, pilot)
    offsets, log_ratio = _sample(chain, tilt, _backward(chain, tilt, window), uniforms)
    step = np.diff(offsets, axis=1, prepend=0.0, append=0.0)
    exits = np.divide(mass, -step, out=np.full_like(step, np.inf), where=step < 0)
    return tilt, np.abs(offsets) @ gaps, np.maximum(exits.min(axis=1), 1.0), log_ratio, offsets


def _find_tilt(chain: Chain, pilot: FloatArray) -> tuple[float, FloatArray]:
    """Solve E[W] = 1 for the tilt, and return where the offsets then lie, (K − 1, 2).

    On a cone E[W] = d / s, so Newton's method works on 1 / E[W], which is close to linear in s, from s = d downwards.
    """
    d = len(chain.gaps)
    tilt, window = float(d), np.tile([np.inf, -np.inf], (d, 1))
    for i in range(NEWTON_STEPS):
        offsets, log_ratio = _sample(chain, tilt, _backward(chain, tilt, window), pilot)
        cost = np.abs(offsets) @ chain.gaps
        weight = np.exp(log_ratio - log_ratio.max())
        weight /= weight.sum()
        mean = weight @ cost
        variance = weight @ (cost - mean) ** 2
        margin = 0.5 * np.ptp(offsets, axis=0)
        window = np.stack([offsets.min(axis=0) - margin, offsets.max(axis=0) + margin], axis=1)
        if not variance > 0:  # gaps of such different sizes that the rays all cost the same
            break
        before, tilt = tilt, min(max(tilt + mean * (mean - 1.0) / variance, tilt / 8.0), float(d))
        if i > 0 and abs(tilt - before) * np.sqrt(variance) < SETTLED:
            break
    return tilt, window


def _backward(chain: Chain, tilt: float, window: FloatArray) -> list[Link]:
    links: list[Link] = []
    for k in reversed(range(len(chain.gaps))):
        links.insert(0, _link(chain, k, tilt, window[k], links[0] if links else None))
    return links


def _link(chain: Chain, k: int, tilt: float, window: FloatArray, after: Link | None) -> Link:
    """Halve the cells between a few seeds until log f_k is close to its chord on all of them."""
    rate = tilt * chain.gaps[k]

    def log_f(x: FloatArray) -> FloatArray:
        return -rate * np.abs(x) + (0.0 if after is None else log_tail(after, x - chain.mass[k + 1]))

    far = (2.0 * len(chain.gaps) + 60.0) / rate  # no draw ever gets there
    narrow = END_WIDTH * min(1.0 / (tilt * chain.gaps.sum()), chain.mass.sum() / len(chain.mass))
    seeds = np.array([-far, -1.0 / rate, 0.0, 1.0 / rate, far])
    inner = seeds[(seeds > chain.low[k]) & (seeds < chain.high[k])]
    knots = np.r_[chain.low[k], inner, chain.high[k]]
    values = log_f(knots)
    is_open = np.ones(len(knots) - 1, dtype=bool)
    for _ in range(MAX_HALVINGS):
        cells = np.flatnonzero(is_open)
        left, right = knots[cells], knots[cells + 1]
        middle = 0.5 * (left + right)
        value = log_f(middle)
        tolerance = np.where((left < window[1]) & (right > window[0]), FINE, COARSE)
        with np.errstate(invalid="ignore"):
            split = value - 0.5 * (values[cells] + values[cells + 1]) > tolerance
        # f_k vanishes at its upper end: no chord there, only a narrow last cell
        ending = np.isneginf(values[cells + 1])
        split = np.where(ending, (right - left > narrow) & (left < far), split) & np.isfinite(value)
        split &= (middle > left) & (middle < right)
        is_open[:] = False
        if not split.any():
            break
        at = cells[split] + 1
        is_open[at - 1] = True
        knots, values = np.insert(knots, at, middle[split]), np.insert(values, at, value[split])
        is_open = np.insert(is_open, at, True)
    if np.isneginf(values[-1]):
        # the last chord goes on, above f_k and still concave, or the test of the middle would be worth nothing
        slope = (values[-2] - values[-3]) / (knots[-2] - knots[-3]) if len(knots) > 2 else 0.0
        values[-1] = values[-2] + slope * (knots[-1] - knots[-2])
    mass = log_cell(np.diff(knots), values[:-1], values[1:])
    return Link(knots, values, np.r_[np.logaddexp.accumulate(mass[::-1])[::-1], -np.inf])


def log_cell(width: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    """Log of the integral over a cell of a function whose logarithm is linear, given at both ends."""
    drop = np.abs(right - left)
    with np.errstate(divide="ignore"):
        mean = np.where(drop > 1e-9, -np.expm1(-drop) / np.where(drop > 0, drop, 1.0), 1.0)
        return np.asarray(np.maximum(left, right) + np.log(mean) + np.log(np.maximum(width, 0.0)))


def _interpolate(link: Link, cell: IntArray, x: FloatArray) -> FloatArray:
    """Log f at points x of known cells."""
    left, right = link.knots[cell], link.knots[cell + 1]
    share = (x - left) / (right - left)
    return np.asarray(link.values[cell] * (1.0 - share) + link.values[cell + 1] * share)


def log_tail(link: Link, x: FloatArray) -> FloatArray:
    """Log of the integral of f from x on."""
    x = np.clip(x, link.knots[0], link.knots[-1])
    cell = np.clip(np.searchsorted(link.knots, x, side="right") - 1, 0, len(link.knots) - 2)
    within = log_cell(link.knots[cell + 1] - x, _interpolate(link, cell, x), link.values[cell + 1])
    return np.asarray(np.logaddexp(within, link.tails[cell + 1]))


def _sample(chain: Chain, tilt: float, links: list[Link], uniforms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Draw the offsets one after another, (n_rays, K − 1), and return log(e^{−s W} / q) along with them."""
    n, d = uniforms.shape[:2]
    offsets, log_ratio, before = np.empty((n, d)), np.zeros(n), np.zeros(n)
    for k, link in enumerate(links):
        start = np.clip(before - chain.mass[k], link.knots[0], link.knots[-1])
        normaliser = log_tail(link, start)
        with np.errstate(divide="ignore"):
            level = normaliser + np.log(uniforms[:, k, 0])
        cell = np.searchsorted(-link.tails, -level, side="left") - 1  # tails[cell] > level ≥ tails[cell + 1]
        first = np.searchsorted(link.knots, start, side="right") - 1
        cell = np.clip(np.maximum(cell, first), 0, len(link.knots) - 2)
        left, right = np.maximum(link.knots[cell], start), link.knots[cell + 1]
        at_left, at_right = _interpolate(link, cell, left), link.values[cell + 1]
        drop = np.abs(at_right - at_left)
        flat = drop < 1e-9
        steep = -np.log1p(uniforms[:, k, 1] * np.expm1(-drop)) / np.where(flat, 1.0, drop)
        share = np.where(flat, uniforms[:, k, 1], np.minimum(steep, 1.0))
        x = np.where(at_left > at_right, left + share * (right - left), right - share * (right - left))
        x = np.clip(x, left, right)
        log_ratio += normaliser - tilt * chain.gaps[k] * np.abs(x) - _interpolate(link, cell, x)
        offsets[:, k] = before = x
    return offsets, log_ratio
