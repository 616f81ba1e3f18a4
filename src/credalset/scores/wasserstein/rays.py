r"""Volume of W₁ balls with many classes: an unbiased radial estimate whose rays are drawn in the shape of the ball.

In the offsets w = F − G of the cumulative masses, measured in units of the radius, the ball is

$$\{ w : \textstyle\sum_k gap_k |w_k| \le 1,\; w_k \ge w_{k-1} - g_k,\; w_{K-1} \le g_K \}, \qquad w_0 = 0,$$

a chain, and so is the density ∝ e^{−s W₁} on the simplex: one backward pass over the classes,

$$m_{k-1}(w) = \int_{w - g_k} f_k(x) \, dx, \qquad f_k(x) = e^{-s \, gap_k |x|} \, m_k(x),$$

and w_k given w_{k−1} has density f_k / m_{k−1}(w_{k−1}). All of these are log-concave. Each f_k is replaced by a
function that is log-linear between knots, whose integrals are known in closed form, so the density q of what is drawn
is exact however coarse the knots, and close to e^{−s W₁} where they are dense: where a pilot sample says that offsets
lie. Inside, balls come last, (…, n).

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

from credalset._parallel import in_blocks
from credalset._typing import FloatArray, IntArray
from credalset.scores.wasserstein.geometry import within_reach
from credalset.sets.rays import N_RAYS, Rays, log_incomplete_gamma, log_mean, log_terms

if TYPE_CHECKING:
    from credalset.sets.region import Region

PILOT_RAYS = 64
UNIFORM_FROM = 0.25  # share of the simplex from which uniform rays, whose terms are at most one, do well
NEWTON_STEPS = 8
SETTLED = 0.1  # a step in the tilt that moves the mean of W by this many standard deviations hardly matters
WINDOW_KNOTS = np.linspace(0.0, 1.0, 25)  # across the range where offsets lie
# and everywhere, in units of the scale of e^{−s gap |x|}
KNOTS = np.array([0.1, 0.3, 0.6, 1.0, 1.5, 2.2, 3.2, 4.5, 6.5, 10.0, 20.0, 60.0])
END_WIDTH = 0.01  # of the last cells, in units of the distance that offsets keep from the end
FLAT = 1e-9
ELEMENTS_PER_BLOCK = 1 << 21


class Chain(NamedTuple):
    """Balls in units of their radius, (K, n): w_k ≥ w_{k−1} − mass_k, and hence low_k ≤ w_k ≤ high_k, (K − 1, n)."""

    mass: FloatArray
    gaps: FloatArray
    low: FloatArray
    high: FloatArray


class Link(NamedTuple):
    """One f_k, (j, n): its logarithm is linear between knots; ``tails`` are the logs of its integrals from each on."""

    knots: FloatArray
    values: FloatArray
    tails: FloatArray

    def cell(self, x: FloatArray) -> IntArray:
        """The cell of points (m, n): the one whose left knot is the last at or below them."""
        return np.minimum((self.knots[1:, None] <= x).sum(axis=0), len(self.knots) - 2)

    def ends(self, cell: IntArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Knots and values on the left and on the right of cells (m, n)."""
        left = cell * self.knots.shape[1] + np.arange(self.knots.shape[1])
        right = left + self.knots.shape[1]
        return self.knots.take(left), self.knots.take(right), self.values.take(left), self.values.take(right)

    def log_tail(self, x: FloatArray, cell: IntArray) -> FloatArray:
        """Log of the integral of f from points x of known cells on."""
        left, right, at_left, at_right = self.ends(cell)
        within = log_cell(right - x, interpolated(x, left, right, at_left, at_right), at_right)
        return np.logaddexp(within, np.take_along_axis(self.tails, cell + 1, axis=0))


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
    return _tilted_rays(sets, gaps, n_rays, generator)[1]


def weighted_rays(sets: Region, gaps: FloatArray, n_rays: int, generator: np.random.Generator) -> Rays:
    """Rays in the shape of each ball, for sampling."""
    length, log_weights, offsets = _tilted_rays(sets, gaps, n_rays, generator)
    moved = np.diff(offsets, axis=-1, prepend=0.0, append=0.0)
    return Rays(within_reach(sets.radius, gaps)[:, None, None] * moved, length, log_weights)


def _tilted_rays(
    sets: Region, gaps: FloatArray, n_rays: int, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Length of each ray in units of its draw, log of its estimate, and its offsets, (N, n_rays, K − 1)."""
    n, d = len(sets), len(gaps)
    reach = within_reach(sets.radius, gaps)
    pilot, uniforms = generator.random((n, PILOT_RAYS, d, 2)), generator.random((n, n_rays, d, 2))
    mass = in_units_of_radius(sets.center, reach, gaps)
    tilt, cost, edge, log_ratio, offsets = draw(uniforms, pilot, mass, gaps=gaps)
    speed = tilt[:, None] * cost
    with np.errstate(divide="ignore", invalid="ignore"):
        length = np.minimum(edge, 1.0 / cost)
        along_ray = log_incomplete_gamma(np.array(d), speed * edge) - d * np.log(speed)
        terms = d * np.log(length) - np.log(d) - along_ray + log_ratio + d * np.log(reach)[:, None] + gammaln(d + 1)
    # A draw of the centre itself, or of a face, has probability zero, but seeds coincide.
    usable = (cost > 0) & np.isfinite(log_ratio)
    return np.where(usable, length, 0.0), np.where(usable, terms, -np.inf), offsets


def in_units_of_radius(center: FloatArray, reach: FloatArray, gaps: FloatArray) -> FloatArray:
    """Masses over the radius, (N, K), cut off where they cannot bind: members have |w_k| ≤ 1 / gap_k."""
    nearest = np.minimum(np.r_[gaps[0], gaps], np.r_[gaps, gaps[-1]])
    with np.errstate(over="ignore"):
        return np.minimum(center / reach[:, None], 4.0 / nearest)


@in_blocks(block_size=1 << 17)
def draw(
    uniforms: FloatArray, pilot: FloatArray, mass: FloatArray, *, gaps: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the tilt s and, for each ray, W, T, log(e^{−s W} / q) and w, from uniforms (N, n_rays, K − 1, 2)."""
    g = np.ascontiguousarray(mass.T)
    chain = Chain(g, gaps, -np.cumsum(g, axis=0)[:-1], np.cumsum(g[::-1], axis=0)[-2::-1])
    tilt, window = _find_tilt(chain, np.ascontiguousarray(pilot.transpose(2, 3, 1, 0)))
    links = _links(chain, tilt, window)
    offsets, log_ratio = _sample(chain, tilt, links, np.ascontiguousarray(uniforms.transpose(2, 3, 1, 0)))
    step = np.diff(offsets, axis=0, prepend=0.0, append=0.0)
    exits = np.divide(g[:, None], -step, out=np.full_like(step, np.inf), where=step < 0)
    edge = np.maximum(exits.min(axis=0), 1.0)
    cost = np.tensordot(gaps, np.abs(offsets), axes=1)
    return tilt, cost.T, edge.T, log_ratio.T, offsets.transpose(2, 1, 0)


def _find_tilt(chain: Chain, pilot: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve E[W] = 1 for the tilts, and return where the offsets then lie, (K − 1, 2, n).

    On a cone E[W] = d / s, so Newton's method works on 1 / E[W], which is close to linear in s, from s = d downwards.
    """
    d, n = len(chain.gaps), chain.mass.shape[1]
    tilt, settled = np.full(n, float(d)), np.zeros(n, dtype=bool)
    reach = 3.0 / (d * chain.gaps)[:, None, None] * np.array([[-1.0], [1.0]])
    window = np.broadcast_to(reach, (d, 2, n)).copy()
    for i in range(NEWTON_STEPS):
        offsets, log_ratio = _sample(chain, tilt, _links(chain, tilt, window), pilot)
        cost = np.tensordot(chain.gaps, np.abs(offsets), axes=1)
        weight = np.exp(log_ratio - log_ratio.max(axis=0))
        weight /= weight.sum(axis=0)
        mean = (weight * cost).sum(axis=0)
        variance = (weight * (cost - mean) ** 2).sum(axis=0)
        ends = np.stack([offsets.min(axis=1), offsets.max(axis=1)], axis=1)
        margin = 0.5 * (ends[:, 1] - ends[:, 0])[:, None] * np.array([[-1.0], [1.0]])
        window = np.where(settled, window, ends + margin)
        settled = settled | ~(variance > 0)  # gaps of such different sizes that the rays all cost the same
        with np.errstate(all="ignore"):
            moved = np.clip(tilt + mean * (mean - 1.0) / variance, tilt / 8.0, float(d))
        moved = np.where(settled, tilt, moved)
        settled |= (np.abs(moved - tilt) * np.sqrt(variance) < SETTLED) & (i > 0)
        tilt = moved
        if settled.all():
            break
    return tilt, window


def _links(chain: Chain, tilt: FloatArray, window: FloatArray) -> list[Link]:
    """Tabulate every f_k, from the last offset to the first."""
    links: list[Link] = []
    for k in range(len(chain.gaps) - 1, -1, -1):
        rate = tilt * chain.gaps[k]
        knots = _place_knots(chain, k, tilt, window[k])
        values = -rate * np.abs(knots)
        if links:
            x = np.clip(knots - chain.mass[k + 1], links[0].knots[0], links[0].knots[-1])
            values = values + links[0].log_tail(x, links[0].cell(x))
            # f_k vanishes at its upper end: the last chord goes on, above f_k and still concave, or the test of the
            # middle would be worth nothing.
            width = knots[-2] - knots[-3]
            slope = np.divide(values[-2] - values[-3], width, out=np.zeros_like(width), where=width > 0)
            values[-1] = np.where(np.isneginf(values[-1]), values[-2] + slope * (knots[-1] - knots[-2]), values[-1])
        cells = log_cell(np.diff(knots, axis=0), values[:-1], values[1:])
        tails = np.logaddexp.accumulate(cells[::-1], axis=0)[::-1]
        links.insert(0, Link(knots, values, np.concatenate([tails, np.full((1, len(tilt)), -np.inf)])))
    return links


def _place_knots(chain: Chain, k: int, tilt: FloatArray, window: FloatArray) -> FloatArray:
    """Knots of f_k, (j, n): dense where offsets lie, ever wider apart beyond, and a narrow last cell."""
    low, high = chain.low[k], chain.high[k]
    scale = KNOTS[:, None] / (tilt * chain.gaps[k])
    narrow = END_WIDTH * np.minimum(1.0 / (tilt * chain.gaps.sum()), chain.mass.mean(axis=0))
    inner = [window[0] + WINDOW_KNOTS[:, None] * (window[1] - window[0]), scale, -scale, np.zeros((1, len(tilt)))]
    ends = np.stack([low, high - 2.0 * narrow, high - narrow])
    knots = np.sort(np.clip(np.concatenate([*inner, ends]), low, high - narrow), axis=0)
    return np.maximum(np.concatenate([knots, high[None]]), low)


def log_cell(width: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    """Log of the integral over a cell of a function whose logarithm is linear, given at both ends."""
    drop = np.abs(right - left)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(drop > FLAT, -np.expm1(-drop) / drop, 1.0)
        return np.maximum(left, right) + np.log(mean * np.maximum(width, 0.0))


def interpolated(
    x: FloatArray, left: FloatArray, right: FloatArray, at_left: FloatArray, at_right: FloatArray
) -> FloatArray:
    """Read log f off the chord of a cell."""
    share = np.divide(x - left, right - left, out=np.zeros_like(x), where=right > left)
    return at_left * (1.0 - share) + at_right * share


def _sample(chain: Chain, tilt: FloatArray, links: list[Link], uniforms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Draw the offsets one after another, (K − 1, n_rays, n), and return log(e^{−s W} / q) along with them."""
    offsets, log_ratio = np.empty(uniforms[:, 0].shape), np.zeros(uniforms.shape[2:])
    before = np.zeros_like(log_ratio)
    for k, (link, (where, share)) in enumerate(zip(links, uniforms, strict=True)):
        start = np.clip(before - chain.mass[k], link.knots[0], link.knots[-1])
        first = link.cell(start)
        normaliser = link.log_tail(start, first)
        with np.errstate(divide="ignore"):
            level = normaliser + np.log(where)
        # the cell with tails[cell] > level ≥ tails[cell + 1]
        cell = np.maximum(np.minimum((link.tails[1:, None] > level).sum(axis=0), len(link.knots) - 2), first)
        left, right, at_left, at_right = link.ends(cell)
        cut = np.maximum(left, start)
        at_cut = interpolated(cut, left, right, at_left, at_right)
        drop = np.abs(at_right - at_cut)
        with np.errstate(divide="ignore", invalid="ignore"):
            steep = np.minimum(-np.log1p(share * np.expm1(-drop)) / drop, 1.0)
        step = np.where(drop < FLAT, share, steep) * (right - cut)
        x = np.clip(np.where(at_cut > at_right, cut + step, right - step), cut, right)
        log_ratio += normaliser - tilt * chain.gaps[k] * np.abs(x) - interpolated(x, left, right, at_left, at_right)
        offsets[k] = before = x
    return offsets, log_ratio
