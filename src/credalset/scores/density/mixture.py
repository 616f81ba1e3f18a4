r"""Level sets of a mixture of Dirichlet densities, $\{\lambda : p(\lambda) \ge c\}$.

Labels are read a little off the boundary, at $y = (\lambda + \epsilon) / (1 + K\epsilon)$, which keeps
$p(\lambda) = \sum_j w_j \, \mathrm{Dir}(y \mid \theta_j)$ finite though concentrations may fall below one. The pull
maps the simplex onto a smaller one, $\{y : y_k \ge f\}$ with $f = \epsilon / (1 + K\epsilon)$, and stretches volumes by
a constant.

Such a set need be neither convex nor connected. Membership is exact; volumes and members are drawn by importance
sampling (`density_proposals`). Probability envelopes are certified from outside:
no member goes beyond them. Every question that asks for a convex set (expectations, entropies, decisions) is answered
for the box that the envelopes span, which contains the set; which classes can be most probable, for a bound on the
density itself.

Arrays: weights (N, C), concentrations θ (N, C, K), points λ (N, M, K).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy

from credalset._typing import BoolArray, FloatArray
from credalset.scores.pooling import pool
from credalset.simplex import log_sum_exp

MAX_ASCENTS = 60
MAX_STARTS = 8  # components whose own peak an ascent starts from
CELLS = 32  # into which an interval is cut, at each of the levels of a scan
LEVELS = 4


class Mixture(NamedTuple):
    """A batch of mixtures: log-weights (N, C), concentrations (N, C, K), and the pull ε."""

    log_weights: FloatArray
    theta: FloatArray
    pull: float

    @property
    def floor(self) -> float:
        """The smallest entry of a pulled distribution."""
        return self.pull / (1.0 + self.theta.shape[-1] * self.pull)

    def rows(self, rows: slice | FloatArray) -> Mixture:
        """Select mixtures."""
        return Mixture(self.log_weights[rows], self.theta[rows], self.pull)

    def pulled(self, points: FloatArray) -> FloatArray:
        """Move distributions off the boundary."""
        return (points + self.pull) / (1.0 + self.theta.shape[-1] * self.pull)

    def released(self, y: FloatArray) -> FloatArray:
        """Undo `pulled`, up to rounding."""
        points = np.maximum(y * (1.0 + self.theta.shape[-1] * self.pull) - self.pull, 0.0)
        return points / points.sum(axis=-1, keepdims=True)

    def log_norms(self) -> FloatArray:
        """Log w_j − log B(θ_j), (N, C)."""
        return self.log_weights + gammaln(self.theta.sum(axis=-1)) - gammaln(self.theta).sum(axis=-1)

    def component_logs(self, y: FloatArray) -> FloatArray:
        """Log w_j Dir(y | θ_j) of pulled points (N, M, K), (N, M, C)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(y)
            excess = self.theta - 1.0
            if self.pull > 0:
                return self.log_norms()[:, None, :] + logs @ np.swapaxes(excess, 1, 2)
            terms = np.where(excess[:, None] == 0, 0.0, excess[:, None] * logs[:, :, None, :])
        return self.log_norms()[:, None, :] + terms.sum(axis=-1)

    def log_density(self, y: FloatArray) -> FloatArray:
        """Log Σ_j w_j Dir(y | θ_j), (N, M)."""
        return log_sum_exp(self.component_logs(y))


def monomial_peak(powers: FloatArray, floor: float) -> FloatArray:
    r"""Return where $\prod_k y_k^{a_k}$ is largest over $\{y : \sum y = 1, y_k \ge f\}$, for powers (…, K).

    Classes with a ≤ 0 sit at the floor: mass moved from them to a class with a > 0 raises the product twice. The
    others share what is left in proportion to a, those whose share would be below the floor staying there. Without
    any a > 0 the logarithm is convex and peaks at a corner: everything goes to the class whose power is nearest zero.
    """
    k = powers.shape[-1]
    positive = np.maximum(powers, 0.0)
    none = np.asarray(~(positive > 0).any(axis=-1))
    share, at_floor = np.zeros_like(positive), positive <= 0
    for _ in range(k):
        free = 1.0 - floor * at_floor.sum(axis=-1, keepdims=True)
        total = np.where(at_floor, 0.0, positive).sum(axis=-1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(at_floor, floor, free * positive / total)
        below = ~at_floor & (share < floor)
        if not below.any():
            break
        at_floor |= below
    corner = np.where(np.arange(k) == powers.argmax(axis=-1)[..., None], 1.0 - (k - 1) * floor, floor)
    return np.where(none[..., None], corner, share)


def highest_points(mixture: Mixture) -> tuple[FloatArray, FloatArray]:
    """Search the mode of each mixture: (pulled points (N, K), log densities (N,)).

    From the peaks of the heaviest components, ascend by minorisation: with responsibilities r_j at the present point,
    Σ_j r_j log p_j touches log p from below there, and its maximum is `monomial_peak` of Σ_j r_j (θ_j − 1). Each step
    cannot go down. The highest of the ends is the mode in all but contrived cases; no bound says so.
    """
    excess = mixture.theta - 1.0
    peaks = monomial_peak(excess, mixture.floor)
    heights = np.where(np.isneginf(mixture.log_weights), -np.inf, mixture.log_density(peaks))
    starts = np.argsort(-heights, axis=1)[:, :MAX_STARTS]
    y = np.take_along_axis(peaks, starts[..., None], axis=1)
    value = np.take_along_axis(heights, starts, axis=1)
    for _ in range(MAX_ASCENTS):
        logs = mixture.component_logs(y)
        with np.errstate(invalid="ignore", under="ignore"):
            shares = np.exp(logs - log_sum_exp(logs)[..., None])
        moved = monomial_peak(np.nan_to_num(shares) @ excess, mixture.floor)
        height = mixture.log_density(moved)
        better = height > value + 1e-12
        if not better.any():
            break
        y, value = np.where(better[..., None], moved, y), np.where(better, height, value)
    best = value.argmax(axis=1)
    rows = np.arange(len(value))
    return y[rows, best], value[rows, best]


def envelope(mixture: Mixture, log_level: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Bound the probabilities of the members of {p ≥ c} from outside: lower and upper, each (N, K).

    On the slice $y_k = t$ the mixture is at most $\sum_j w_j M_j(t)$, with $M_j(t)$ the largest value of component j
    there, in closed form. The last t at which that sum reaches c bounds $y_k$; it is found by cutting [f, 1] into
    cells, on each of which every $M_j$ is bounded by its largest value, and cutting the outermost cell that may reach
    c again.
    """
    lower, upper = np.empty(mixture.theta.shape[::2]), np.empty(mixture.theta.shape[::2])
    log_level = _with_slack(mixture, log_level)
    for k in range(mixture.theta.shape[-1]):
        pieces = _slice_peaks(mixture, k)
        lower[:, k] = _outermost(pieces, log_level, mixture.floor, last=False)
        upper[:, k] = _outermost(pieces, log_level, mixture.floor, last=True)
    scale = 1.0 + mixture.theta.shape[-1] * mixture.pull
    slack = 4.0 * np.finfo(float).eps
    return (
        np.clip(lower * scale - mixture.pull - slack, 0.0, 1.0),
        np.clip(upper * scale - mixture.pull + slack, 0.0, 1.0),
    )


def _with_slack(mixture: Mixture, log_level: FloatArray) -> FloatArray:
    """Lower a level a little: log-gamma functions of large concentrations cancel, and what that may cost is given."""
    size = np.abs(gammaln(mixture.theta.sum(axis=-1))).max(axis=1) + np.abs(log_level)
    return np.asarray(log_level - 1e-12 - 8.0 * np.finfo(float).eps * size)


def reaches_with_top(mixture: Mixture, log_level: FloatArray) -> BoolArray:
    r"""Tell for which classes k {p ≥ c} may hold a point with $y_k \ge y_j$ for all j, (N, K); False is certain.

    There the mixture is at most $\sum_j w_j M_{jk}$, with $M_{jk}$ at least the largest value of component j. Write a
    for its powers θ − 1. Factors with a ≤ 0 are at most what they are at the floor, or at 1/K for class k itself. The
    others share what is left in proportion to a, save that k and the classes with more than it are pooled: each
    takes the pool's average, which the pool grows to until no class outside has more.
    """
    powers, floor, k = mixture.theta - 1.0, mixture.floor, mixture.theta.shape[-1]
    positive, is_idle = np.maximum(powers, 0.0), powers <= 0
    total = positive.sum(axis=-1, keepdims=True)
    pools = pool(positive.reshape(-1, k), np.positive, lambda a: xlogy(a, a))
    size, pooled, in_pool = (array.reshape(powers.shape) for array in pools)
    n_at_floor = is_idle.sum(axis=-1, keepdims=True) - is_idle  # besides the class itself
    with np.errstate(divide="ignore"):
        shared = xlogy(positive, positive).sum(axis=-1, keepdims=True) - in_pool + xlogy(pooled, pooled / size)
        shared += xlogy(total, (1.0 - floor * n_at_floor) / total)
        idle = np.where(powers < 0, powers * (np.log(floor) if floor > 0 else 0.0), 0.0)
    at_floor = idle.sum(axis=-1, keepdims=True) - idle - np.minimum(powers, 0.0) * np.log(k)
    logs = mixture.log_norms()[..., None] + shared + at_floor
    return np.asarray(log_sum_exp(np.moveaxis(logs, 1, 2)) >= _with_slack(mixture, log_level)[:, None])


class _Slices(NamedTuple):
    """Log M_j(t) = constant + power·log t + rest·log(1 − t − taken), each (N, C, 1): t in [floor, 1 − (K−1)·floor]."""

    constant: FloatArray
    power: FloatArray
    rest: FloatArray
    taken: FloatArray
    highest: float

    def at(self, t: FloatArray) -> FloatArray:
        """Log M_j at points (N, 1 or C, T), (N, C, T)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.log(np.maximum(1.0 - t - self.taken, 0.0))
            own = np.where(self.power == 0, 0.0, self.power * np.log(t))
            return self.constant + own + np.where(self.rest == 0, 0.0, self.rest * left)

    def peak(self) -> FloatArray:
        """Where log M_j is stationary, if it is anywhere, (N, C, 1)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(self.power / (self.power + self.rest) * (1.0 - self.taken), nan=-1.0)


def _slice_peaks(mixture: Mixture, k: int) -> _Slices:
    """Describe the largest value of each component among the points with a given k-th entry.

    The other classes share 1 − t as in `monomial_peak`; leaving the floor of those with a > 0 aside only raises the
    value.
    """
    n_classes, floor = mixture.theta.shape[-1], mixture.floor
    others = np.delete(mixture.theta - 1.0, k, axis=-1)
    positive = np.maximum(others, 0.0)
    total = positive.sum(axis=-1)
    any_positive = total > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = xlogy(positive, positive / total[..., None]).sum(axis=-1)
        log_floor = np.log(floor) if floor > 0 else -np.inf
        idle = np.minimum(others, 0.0)
        nearest = others.max(axis=-1)  # takes everything if no power is positive
        fixed = np.where(any_positive, idle.sum(axis=-1), idle.sum(axis=-1) - nearest)
        fixed = np.where(fixed == 0, 0.0, fixed * log_floor)
    n_idle = np.where(any_positive, (others <= 0).sum(axis=-1), n_classes - 2)
    constant = mixture.log_norms() + np.where(any_positive, shares, 0.0) + fixed
    rest = np.where(any_positive, total, nearest)
    return _Slices(
        constant[..., None],
        (mixture.theta[..., k] - 1.0)[..., None],
        rest[..., None],
        (n_idle * floor)[..., None],
        1.0 - (n_classes - 1) * floor,
    )


def _outermost(pieces: _Slices, log_level: FloatArray, floor: float, *, last: bool) -> FloatArray:
    """Return a bound beyond which no slice reaches the level, (N,)."""
    n = len(log_level)
    low, high = np.full(n, floor), np.full(n, pieces.highest)
    peak = pieces.peak()
    for _ in range(LEVELS):
        edges = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, CELLS + 1)
        values = pieces.at(edges[:, None, :])
        inside = np.clip(peak, edges[:, None, :-1], edges[:, None, 1:])
        top = np.maximum(np.maximum(values[..., :-1], values[..., 1:]), pieces.at(inside))
        reaches = log_sum_exp(np.moveaxis(top, 1, 2)) >= log_level[:, None]
        reaches[:, -1 if last else 0] |= ~reaches.any(axis=1)  # rounding must not lose the set altogether
        cell = CELLS - 1 - reaches[:, ::-1].argmax(axis=1) if last else reaches.argmax(axis=1)
        low, high = edges[np.arange(n), cell], edges[np.arange(n), cell + 1]
    return high if last else low
