r"""Volume of W₁ balls with many classes: an unbiased radial estimate whose rays are drawn in the shape of the ball.

In the offsets w = F − G of the cumulative masses, measured in units of the radius, the ball is

$$\{ w : \textstyle\sum_k gap_k |w_k| \le 1,\; w_k \ge w_{k-1} - g_k,\; w_{K-1} \le g_K \}, \qquad w_0 = 0,$$

a chain, and so is the density ∝ e^{−s W₁} on the simplex: one backward pass over the classes,

$$m_{k-1}(w) = \int_{w - g_k} f_k(x) \, dx, \qquad f_k(x) = e^{-s \, gap_k |x|} \, m_k(x),$$

and w_k given w_{k−1} has density f_k / m_{k−1}(w_{k−1}). All of these are log-concave. Each f_k is replaced by a
function that is log-linear between knots, whose integrals are known in closed form, so the density q of what is drawn
is exact however coarse the knots. They are placed where f_k bends, so that q is close to e^{−s W₁} everywhere.

Write d = K − 1, W for the distance of a draw, and T ≥ 1 for the multiple of it that reaches the edge of the simplex.
Where along its ray a draw happens to lie is averaged out as if q were exact, and the last factor sets that right:

$$\mathrm{vol} = E\left[ \frac{\min(T, 1/W)^d / d}{\int_0^T e^{-s W t} t^{d-1} dt} \cdot \frac{e^{-s W}}{q} \right].$$

The first factor is bounded, greatest for rays that leave ball and simplex together. The tilt s is the saddle point,
E[W] = 1, found by a few Newton steps on a pilot sample that is then thrown away. Balls are drawn a block at a time,
one row each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import gammaln

from credalset._parallel import for_each_block
from credalset._typing import FloatArray, IntArray
from credalset.scores.wasserstein.geometry import in_units_of_radius, within_reach
from credalset.sets.rays import Rays, log_incomplete_gamma

if TYPE_CHECKING:
    from credalset.sets.region import Region

PILOT_RAYS = 64
NEWTON_STEPS = 8
SETTLED = 0.1  # a step in the tilt that moves the mean of W by this many standard deviations hardly matters
N_KNOTS = 80
SCALES = np.outer([-1.0, 1.0], 2.0 ** np.arange(-3.0, 9.0)).ravel()  # where e^{−|x|} is looked at; beyond it is nothing
ENDS = 3.0 ** -np.arange(1.0, 9.0)  # distances from the end of f, relative to its length
END_WIDTH = 0.01  # of the last cell, in units of the distance that offsets keep from the end
FLAT = 1e-9
DRAWS_PER_BLOCK = 1 << 16


class Link(NamedTuple):
    """One f_k of each ball, (n, M): log f is linear between the knots; ``tails`` are log-integrals from each on."""

    knots: FloatArray
    values: FloatArray
    tails: FloatArray

    def of(self, table: FloatArray, cell: IntArray) -> FloatArray:
        """Entries (n, m) of one of the tables."""
        return table.take(cell + len(table[0]) * np.arange(len(table))[:, None])

    def cell_of(self, x: FloatArray) -> IntArray:
        """Return the cell whose left knot is the last one at or below x."""
        return self._clipped([np.searchsorted(*row, side="right") for row in zip(self.knots, x, strict=True)])

    def cell_at_level(self, level: FloatArray) -> IntArray:
        """Return the cell with tails[cell] > level ≥ tails[cell + 1]."""
        return self._clipped([np.searchsorted(*row) for row in zip(-self.tails, -level, strict=True)])

    def _clipped(self, following: list[IntArray]) -> IntArray:
        return np.clip(np.stack(following) - 1, 0, self.knots.shape[1] - 2)

    def log_f(self, cell: IntArray, x: FloatArray) -> FloatArray:
        """Log f at points x (n, m) of known cells."""
        left, right = self.of(self.knots, cell), self.of(self.knots, cell + 1)
        share = np.divide(x - left, right - left, out=np.zeros_like(x), where=right > left)
        return self.of(self.values, cell) * (1.0 - share) + self.of(self.values, cell + 1) * share

    def log_tail(self, x: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:
        """Return points x (n, m), moved between the ends, their cells, and log-integrals of f from each on."""
        x = np.clip(x, self.knots[:, :1], self.knots[:, -1:])
        cell = self.cell_of(x)
        within = log_cell(self.of(self.knots, cell + 1) - x, self.log_f(cell, x), self.of(self.values, cell + 1))
        return x, cell, np.logaddexp(within, self.of(self.tails, cell + 1))


def weighted_rays(sets: Region, gaps: FloatArray, n_rays: int, generator: np.random.Generator) -> Rays:
    """Rays in the shape of each ball, in units of their draws; each weight is an unbiased estimate of the fraction."""
    n, d = len(sets), len(gaps)
    reach = within_reach(sets.radius, gaps)
    mass = in_units_of_radius(sets.center, reach, gaps)
    pilot, uniforms = generator.random((n, PILOT_RAYS, d, 2)), generator.random((n, n_rays, d, 2))
    tilt, offsets, (cost, edge, log_ratio) = np.empty(n), np.empty((n, n_rays, d)), np.empty((3, n, n_rays))

    def one_block(rows: slice) -> None:
        drawn = draw(mass[rows], gaps, pilot[rows], uniforms[rows])
        tilt[rows], cost[rows], edge[rows], log_ratio[rows], offsets[rows] = drawn

    for_each_block(one_block, n, n_rays, block_size=DRAWS_PER_BLOCK)
    speed = tilt[:, None] * cost
    with np.errstate(divide="ignore", invalid="ignore"):
        length = np.minimum(edge, 1.0 / cost)
        along_ray = log_incomplete_gamma(np.array(d), speed * edge) - d * np.log(speed)
        terms = d * np.log(length) - np.log(d) - along_ray + log_ratio + d * np.log(reach)[:, None] + gammaln(d + 1)
    # A draw of the centre itself, or of a face, has probability zero, but seeds coincide.
    usable = (cost > 0) & np.isfinite(log_ratio)
    directions = reach[:, None, None] * np.diff(offsets, axis=-1, prepend=0.0, append=0.0)
    return Rays(directions, np.where(usable, length, 0.0), np.where(usable, terms, -np.inf))


def draw(
    mass: FloatArray, gaps: FloatArray, pilot: FloatArray, uniforms: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the tilts s (n,) and, for each ray, W, T, log(e^{−s W} / q) and w, from uniforms (n, rays, K − 1, 2)."""
    tilt = _find_tilt(mass, gaps, pilot)
    offsets, log_ratio = _sample(mass, gaps, tilt, uniforms)
    step = np.diff(offsets, axis=-1, prepend=0.0, append=0.0)
    exits = np.divide(mass[:, None], -step, out=np.full_like(step, np.inf), where=step < 0)
    return tilt, np.abs(offsets) @ gaps, np.maximum(exits.min(axis=-1), 1.0), log_ratio, offsets


def _find_tilt(mass: FloatArray, gaps: FloatArray, pilot: FloatArray) -> FloatArray:
    """Solve E[W] = 1 for the tilts.

    On a cone E[W] = d / s, so Newton's method works on 1 / E[W], which is close to linear in s, from s = d downwards.
    """
    largest = float(len(gaps))
    tilt, rows = np.full(len(mass), largest), np.arange(len(mass))
    for _ in range(NEWTON_STEPS):
        before = tilt[rows]
        offsets, log_ratio = _sample(mass[rows], gaps, before, pilot[rows])
        cost = np.abs(offsets) @ gaps
        weight = np.exp(log_ratio - log_ratio.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        mean = (weight * cost).sum(axis=1)
        variance = (weight * (cost - mean[:, None]) ** 2).sum(axis=1)
        # With gaps of very different sizes the rays may all cost the same.
        step = np.divide(mean * (mean - 1.0), variance, out=np.zeros_like(mean), where=variance > 0)
        tilt[rows] = np.clip(before + step, before / 8.0, largest)
        rows = rows[np.abs(tilt[rows] - before) * np.sqrt(variance) >= SETTLED]
        if not len(rows):
            break
    return tilt


def _backward(mass: FloatArray, gaps: FloatArray, tilt: FloatArray) -> list[Link]:
    """Tabulate all f_k, from the last to the first."""
    links: list[Link] = []
    low, high = -np.cumsum(mass, axis=1)[:, :-1], np.cumsum(mass[:, ::-1], axis=1)[:, -2::-1]
    narrow = END_WIDTH * np.minimum(1.0 / (tilt * gaps.sum()), mass.mean(axis=1))
    for k in reversed(range(len(gaps))):
        rate, after = (tilt * gaps[k])[:, None], links[0] if links else None
        ends = low[:, k, None], high[:, k, None], high[:, k, None] - narrow[:, None]
        links.insert(0, _link(rate, mass[:, k + 1, None], after, *ends, len(gaps)))
    return links


def _link(
    rate: FloatArray,
    mass: FloatArray,
    after: Link | None,
    low: FloatArray,
    high: FloatArray,
    end: FloatArray,
    n_links: int,
) -> Link:
    """Put knots at 0, and where log m bends, after a look where it may, so that all chords miss it by as much.

    A chord misses by about an eighth of its width times the change of slope: more knots where its root is large, fewer
    where f is small. f vanishes at its upper end, where the last, narrow chord goes on: above f, and still concave.
    """
    end = np.minimum(end, high - 1e-9 * (high - low))
    bends = SCALES / rate if after is None else np.hstack([SCALES / rate, after.knots + mass])
    seeds = np.sort(np.clip(np.hstack([bends, high - (high - low) * ENDS]), low, end), axis=1)
    log_m = np.zeros_like(seeds) if after is None else after.log_tail(seeds - mass)[2]
    values, width = log_m - rate * np.abs(seeds), np.diff(seeds, axis=1)
    slope = np.divide(np.diff(log_m, axis=1), width, out=np.zeros_like(width), where=width > 0)
    change = np.maximum(-np.diff(slope, axis=1, prepend=slope[:, :1], append=slope[:, -1:]), 0.0)
    depth = 20.0 + 2.0 * n_links  # this far below its peak, log f matters less
    matters = np.exp((values - values.max(axis=1, keepdims=True)) / depth)
    need = np.maximum(matters[:, 1:], matters[:, :-1]) * np.sqrt(width * (change[:, 1:] + change[:, :-1]))
    mean = need.mean(axis=1, keepdims=True)
    upto = np.cumsum(np.hstack([0.0 * low, need + np.where(mean > 0, 1e-2 * mean, 1.0)]), axis=1)
    goals = upto[:, -1:] * np.linspace(0.0, 1.0, N_KNOTS)
    inner = [np.interp(*row) for row in zip(goals, upto, seeds, strict=True)]
    knots = np.sort(np.hstack([np.stack(inner), np.clip(0.0, low, end)]), axis=1)
    values = -rate * np.abs(knots) + (0.0 if after is None else after.log_tail(knots - mass)[2])
    last = knots[:, -1:] - knots[:, -2:-1]
    slope = np.divide(values[:, -1:] - values[:, -2:-1], last, out=np.zeros_like(last), where=last > 0)
    knots, values = np.hstack([knots, high]), np.hstack([values, values[:, -1:] + slope * (high - knots[:, -1:])])
    cells = log_cell(np.diff(knots, axis=1), values[:, :-1], values[:, 1:])
    tails = np.logaddexp.accumulate(cells[:, ::-1], axis=1)[:, ::-1]
    return Link(knots, values, np.hstack([tails, np.full_like(high, -np.inf)]))


def log_cell(width: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    """Log of the integral over a cell of a function whose logarithm is linear, given at both ends."""
    drop = np.abs(right - left)
    with np.errstate(divide="ignore"):
        mean = np.where(drop > FLAT, -np.expm1(-drop) / np.maximum(drop, FLAT), 1.0)
        return np.asarray(np.maximum(left, right) + np.log(mean * np.maximum(width, 0.0)))


def _sample(
    mass: FloatArray, gaps: FloatArray, tilt: FloatArray, uniforms: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Draw the offsets one after another, (n, rays, K − 1), and return log(e^{−s W} / q) along with them."""
    n, n_rays, d = uniforms.shape[:3]
    offsets, log_ratio, before = np.empty((n, n_rays, d)), np.zeros((n, n_rays)), np.zeros((n, n_rays))
    for k, link in enumerate(_backward(mass, gaps, tilt)):
        start, first, normaliser = link.log_tail(before - mass[:, k, None])
        with np.errstate(divide="ignore"):
            level = normaliser + np.log(uniforms[..., k, 0])
        cell = np.maximum(link.cell_at_level(level), first)
        left, right = np.maximum(link.of(link.knots, cell), start), link.of(link.knots, cell + 1)
        at_left, at_right = link.log_f(cell, left), link.of(link.values, cell + 1)
        drop = np.abs(at_right - at_left)
        steep = -np.log1p(uniforms[..., k, 1] * np.expm1(-drop)) / np.maximum(drop, FLAT)
        share = np.where(drop < FLAT, uniforms[..., k, 1], np.minimum(steep, 1.0))
        x = np.where(at_left > at_right, left + share * (right - left), right - share * (right - left))
        x = np.clip(x, left, right)
        log_ratio += normaliser - (tilt * gaps[k])[:, None] * np.abs(x) - link.log_f(cell, x)
        offsets[..., k] = before = x
    return offsets, log_ratio
