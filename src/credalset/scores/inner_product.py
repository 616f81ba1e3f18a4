r"""One minus the inner product, f(x, λ) = 1 − Σ λ_k g_k, with a half-space as region.

The half-space is {λ : ⟨λ, g⟩ ≥ 1 − r}.

Everything is written in the margins d_k = g_k + r − 1. Since Σ λ_k = 1, membership reads Σ λ_k d_k
≥ 0: corners with d_k ≥ 0 are inside, corners with d_k < 0 outside, and the edge between an inside
corner i and an outside corner j crosses the plane where λ_j = d_i/(d_i − d_j). A set that is not
empty contains the corner of the largest g, so its smallest entropy is zero.

**Volume and draws** (Varsi 1973). Let x = {d_i : d_i > 0} and y = {−d_j : d_j < 0}, and let f(h, k)
be the fraction of the simplex spanned by the first h inside and the first k outside corners that
lies inside. The point where the edge from the h-th inside to the k-th outside corner meets the
plane splits that simplex in two: with it in place of the outside corner, a share w = x_h/(x_h +
y_k) of the volume, and in place of the inside corner, the share 1 − w. Hence

$$f(h, k) = w \, f(h, k-1) + (1 - w) \, f(h-1, k), \qquad f(h, 0) = 1, \quad f(0, k) = 0.$$

All terms are positive, so nothing cancels. The same splits, taken at random in proportion to the
volume that lies inside, end in a simplex that is entirely inside, and a uniform point of that is a
uniform point of the set.

References
----------
G. Varsi, The multidimensional content of the frustum of the simplex, Pacific Journal of Mathematics
46 (1973).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from credalset._blocks import in_blocks, row_blocks
from credalset._typing import FloatArray, IntArray
from credalset.scores.base import Score
from credalset.scores.registry import register_score
from credalset.sets.geometry import Geometry
from credalset.sets.results import Entropies
from credalset.sets.roots import newton
from credalset.simplex import corners, sum_classes

DRAWS_PER_CHUNK = 1 << 21


@final
@register_score
@dataclass(frozen=True)
class InnerProduct(Score):
    r"""One minus the inner product, $f = 1 - \sum_k \lambda_k g_k$ (paper name: Inner).

    Even a perfect prediction has a positive score unless it is one-hot. The set is empty exactly
    when the largest predicted probability is below one minus the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> InnerProduct()(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]))
    array([0.5])
    """

    name: ClassVar[str] = "inner"
    order: ClassVar[Literal["first", "second"]] = "first"
    has_enclosing_balls: ClassVar[bool] = True

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """Return 1 − Σ λ_k g_k."""
        return np.maximum(1.0 - (distribution * prediction).sum(axis=-1), 0.0)

    def geometry(self, prediction: FloatArray, threshold: FloatArray) -> HalfSpace:
        """Return half-spaces.

        They allow for rounding, by which mixtures of tied classes score below their corners.
        """
        least = 1.0 - prediction.max(axis=1)
        slack = prediction.shape[1] * np.finfo(float).eps
        return HalfSpace(
            prediction, np.where(least > threshold + slack, -1.0, np.maximum(threshold, least))
        )

    def best_fit(self, prediction: FloatArray) -> FloatArray:
        """Return the corner of the class with the largest predicted probability."""
        return corners(prediction.argmax(axis=1), prediction.shape[1])

    def label_scores(self, prediction: FloatArray) -> FloatArray:
        """Return one minus the predicted probability."""
        return 1.0 - prediction

    def lipschitz(self, n_classes: int) -> float:
        """Return one: a unit of mass moved changes the product by a difference of probabilities."""
        return 1.0

    def largest_gap(self, model: FloatArray, center: FloatArray) -> FloatArray:
        """Return the largest difference of the two predictions, at the corner of its class."""
        return np.asarray((model - center).max(axis=1))


@dataclass(frozen=True, eq=False)
class HalfSpace(Geometry):
    """{λ : ⟨λ, center⟩ ≥ 1 − radius}. All results are exact; the centre need not be a member."""

    shape: ClassVar[str] = "half-space"

    def divergence(self, points: FloatArray) -> FloatArray:
        """Return 1 − ⟨λ, g⟩."""
        return 1.0 - np.einsum("nmk,nk->nm", points, self.center)

    def support(self, utility: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return largest expectations and maximisers: the upper hull of (d_k, u_k) at d = 0."""
        return _support(self.center, self.radius, utility)

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Compute the envelope from mixtures with the class of the largest margin."""
        return _envelope(self.center, self.radius)

    def entropies(self) -> Entropies:
        """Return zero, the entropy of a corner, and the entropy of λ ∝ exp(β d)."""
        return Entropies.exact(np.zeros(len(self)), _max_entropy(self.center, self.radius))

    def mode_radius(self) -> FloatArray:
        """Return one minus the largest mean of g over sets of classes that contain the class."""
        return _mode_radius(self.center)

    def log_volume(
        self, generator: np.random.Generator, n_rays: int
    ) -> tuple[FloatArray, FloatArray, str]:
        """Return the exact volume for any number of classes."""
        return _log_fraction(self.center, self.radius), np.zeros(len(self)), "exact"

    def sample(self, n: int, generator: np.random.Generator) -> FloatArray:
        """Draw independent uniform members."""
        result = np.empty((len(self), n, self.n_classes))
        for rows in row_blocks(len(self), n * self.n_classes, DRAWS_PER_CHUNK):
            exponentials = generator.standard_exponential(result[rows].shape)
            uniforms = generator.random((len(exponentials), n, self.n_classes - 1))
            result[rows] = _sample(
                exponentials, uniforms, _margins(self.center[rows], self.radius[rows]).T
            )
        return result

    def vertices(self, i: int) -> FloatArray:
        """Return the corners inside, and a point on each edge from inside to outside."""
        margin = _margins(self.center[[i]], self.radius[[i]])[:, 0]
        inside, outside = (
            side.ravel()
            for side in np.meshgrid(np.flatnonzero(margin > 0), np.flatnonzero(margin < 0))
        )
        crossings = np.zeros((len(inside), len(margin)))
        rows = np.arange(len(inside))
        crossings[rows, inside] = -margin[outside] / (margin[inside] - margin[outside])
        crossings[rows, outside] = margin[inside] / (margin[inside] - margin[outside])
        return np.concatenate([np.eye(len(margin))[margin >= 0.0], crossings])


# Below, classes come first, (K, n), so that sums over them run along memory.


def _margins(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Return d_k = g_k + r − 1, (K, n), with the score's signs; the best corner is inside."""
    g = np.ascontiguousarray(center.T)
    margin = (g - 1.0) + np.minimum(radius, 2.0)
    inside = 1.0 - g <= radius
    margin = np.where(inside, np.maximum(margin, 0.0), np.minimum(margin, 0.0))
    return np.asarray(margin - np.minimum(margin.max(axis=0), 0.0))


@in_blocks()
def _envelope(center: FloatArray, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
    """With m the class of largest margin, max λ_k = d_m/(d_m − d_k) where d_k < 0 and 1 elsewhere.

    A class can be avoided altogether unless it is m and every other corner lies outside; then the
    runner-up s is the cheapest alternative and min λ_m = −d_s/(d_m − d_s).
    """
    margin = _margins(center, radius)
    best = margin.argmax(axis=0)
    rows = np.arange(len(radius))
    top = margin[best, rows]
    upper = np.divide(top, top - margin, out=np.ones_like(margin), where=margin < 0.0)
    margin[best, rows] = -np.inf
    second = margin.max(axis=0)
    lower = np.zeros_like(margin)
    lower[best, rows] = np.divide(
        -second, top - second, out=np.zeros_like(second), where=second < 0.0
    )
    return np.ascontiguousarray(lower.T), np.ascontiguousarray(upper.T)


@in_blocks()
def _support(
    center: FloatArray, radius: FloatArray, utility: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Solve a linear program with one constraint besides the simplex.

    The optimum is the corner of largest utility if that lies inside. Otherwise it is on the hull
    edge that crosses d = 0, found by cutting: start from the line between the corner of largest
    margin and the corner of largest utility; while some corner lies above the line, the one
    furthest above replaces the end on its own side. Each cut narrows the range of margins, so there
    are at most K of them (three or four as a rule).
    """
    margin = _margins(center, radius)
    u = np.ascontiguousarray(utility.T)
    rows = np.arange(len(radius))
    nearest = np.where(margin == margin.max(axis=0), u, -np.inf).argmax(axis=0)
    outside = np.where(u == u.max(axis=0), margin, -np.inf).argmax(axis=0)
    inside = np.where(margin[outside, rows] >= 0.0, outside, nearest)
    for _ in range(len(margin)):
        d_in = margin[inside, rows]
        d_out = margin[outside, rows]
        u_in = u[inside, rows]
        above = (u - u_in) * (d_in - d_out) - (u[outside, rows] - u_in) * (d_in - margin)
        above = np.where((d_out < margin) & (margin < d_in), above, -np.inf)
        cut = above.argmax(axis=0)
        improves = above[cut, rows] > 0.0
        if not improves.any():
            break
        cut_is_inside = margin[cut, rows] >= 0.0
        inside = np.where(improves & cut_is_inside, cut, inside)
        outside = np.where(improves & ~cut_is_inside, cut, outside)
    d_in = margin[inside, rows]
    d_out = margin[outside, rows]
    share = np.divide(d_in, d_in - d_out, out=np.zeros(len(rows)), where=d_out < 0.0)
    point = np.zeros(center.shape)
    point[rows, inside] = 1.0 - share
    point[rows, outside] += share
    return (1.0 - share) * u[inside, rows] + share * u[outside, rows], point


@in_blocks()
def _max_entropy(center: FloatArray, radius: FloatArray) -> FloatArray:
    r"""Log K if the uniform distribution is inside, else a minimum over a scalar β.

    It is $\log \sum e^{\beta d_k}$ with $\sum d_k e^{\beta d_k} = 0$.

    By stationarity $\lambda_k \propto e^{\beta d_k}$. If the plane only touches the simplex, the
    region is a face.
    """
    margin = _margins(center, radius)
    top = margin.max(axis=0)
    tilt = np.zeros(len(radius))
    cut = sum_classes(margin) < 0.0
    rows = np.flatnonzero(cut & (top > 0.0))
    tilt[rows] = _root(margin[:, rows], top[rows])
    weights = np.exp(-tilt * (top - margin))
    touching = np.flatnonzero(cut & (top == 0.0))
    weights[:, touching] = margin[:, touching] == 0.0
    return np.minimum(np.log(sum_classes(weights)) + tilt * top, np.log(len(margin)))


def _root(margin: FloatArray, top: FloatArray) -> FloatArray:
    """Solve Σ d_k exp(β d_k) = 0 for sets with Σ d_k < 0 < max d_k.

    Newton's method on log P − log Q with P and Q the sums over the positive and the negative
    margins, which is close to a straight line: its slope is the mean of d under the terms of P plus
    the mean of |d| under those of Q.
    """
    # Distance of the nearest outside corner.
    nearest = np.where(margin < 0.0, -margin, np.inf).min(axis=0)

    def curve(
        x: FloatArray, d: FloatArray, top: FloatArray, nearest: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        terms = d * np.exp(x * (d - np.where(d > 0.0, top, -nearest)))  # exponents are at most 0
        p = np.maximum(terms, 0.0)
        q = np.minimum(terms, 0.0)
        (p, p_2), (q, q_2) = ((sum_classes(side), sum_classes(side * d)) for side in (p, q))
        return x * (top + nearest) + np.log(p) - np.log(-q), p_2 / p - q_2 / q

    with np.errstate(all="ignore"):
        value, slope = curve(0.0 * top, margin, top, nearest)
    start = -value / slope
    return newton(
        curve, (margin, top, nearest), 0.0 * top, np.full_like(top, np.inf), start, 1e-9 * start
    )


@in_blocks(lambda size: 4 * size)
def _mode_radius(center: FloatArray) -> FloatArray:
    """Return 1 − max_j mean(g_a and the j largest), (n, K).

    The extreme points of {λ : λ_a = max} are uniform on sets of classes that contain a. Counting a
    twice, if it is among the j largest, never raises the maximum.
    """
    own = np.ascontiguousarray(center.T)
    best = own.copy()
    for j, total in enumerate(np.cumsum(np.sort(own, axis=0)[::-1], axis=0), start=1):
        np.maximum(best, (own + total) / (j + 1), out=best)
    return np.ascontiguousarray(1.0 - best.T)


def _sides(margin: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return positive margins, sizes of negative margins, and the order of the classes.

    Negative margins go from the last to the first.

    Margins are rows (n, K). The order has corners inside first, then those on the plane, then those
    outside; shorter rows are padded with zeros.
    """
    order = np.argsort(-np.sign(margin).astype(np.int8), axis=1, kind="stable")
    ordered = np.take_along_axis(margin, order, axis=1)
    n_inside, n_outside = (
        int(side.sum(axis=1).max(initial=0)) for side in (margin > 0.0, margin < 0.0)
    )
    return (
        np.maximum(ordered[:, :n_inside], 0.0),
        np.maximum(-ordered[:, ::-1][:, :n_outside], 0.0),
        order,
    )


def _recursion(x: FloatArray, y: FloatArray, split: FloatArray | None = None) -> FloatArray:
    """Return log f(H, Y); fill ``split[:, h, k]`` with the share of f(h, k) from f(h, k−1).

    Cells with the same h + k depend only on the cells before them and are computed together;
    ``log_f[h]`` holds f(h, t − h). The zeros that pad rows with fewer corners copy a neighbouring
    cell: w = 1 for y = 0, else w = 0.
    """
    x = np.ascontiguousarray(x.T)
    y = np.ascontiguousarray(y.T)
    log_f = np.zeros((len(x) + 1, x.shape[1]))
    log_f[0] = -np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        log_x = np.log(x)
        log_y = np.log(y)
        for t in range(2, len(x) + len(y) + 1):
            first = max(1, t - len(y))
            last = min(len(x), t - 1)
            h = slice(first - 1, last)
            k = slice(t - last - 1, t - first)
            log_total = np.logaddexp(log_x[h], log_y[k][::-1])
            log_w = np.where(x[h] > 0.0, log_x[h] - log_total, -np.inf)
            log_rest = np.where(
                y[k][::-1] > 0.0, log_y[k][::-1] - log_total, np.where(x[h] > 0.0, -np.inf, 0.0)
            )
            from_left = log_w + log_f[first : last + 1]
            log_f[first : last + 1] = np.logaddexp(from_left, log_rest + log_f[h])
            if split is not None:
                cells = np.arange(first, last + 1)
                split[:, cells, t - cells] = np.exp(from_left - np.maximum(log_f[cells], -1e300)).T
    return np.asarray(log_f[-1])


@in_blocks(lambda size: size // 4 + 1)
def _log_fraction(center: FloatArray, radius: FloatArray) -> FloatArray:
    margin = _margins(center, radius).T
    x, y, _ = _sides(margin)
    return np.where(margin.min(axis=1) >= 0.0, 0.0, np.minimum(_recursion(x, y), 0.0))


@in_blocks(lambda size: 2 * size, block_size=1 << 16)
def _sample(exponentials: FloatArray, uniforms: FloatArray, margin: FloatArray) -> FloatArray:
    """Walk from cell (H, Y) to k = 0, with one corner per step a crossing; mix what is left.

    A uniform point of a simplex weights its vertices by independent exponentials, normalised; a
    crossing passes its weight on to the two corners of its edge. A set without interior is a face;
    draws are uniform there.
    """
    n_classes = margin.shape[1]
    x, y, order = _sides(margin)
    order = order[:, None, :]
    exponentials = np.take_along_axis(exponentials, order, axis=2)
    split = np.zeros((len(margin), x.shape[1] + 1, y.shape[1] + 1))
    _recursion(x, y, split)
    h, k = (
        np.repeat(side.sum(axis=1)[:, None], uniforms.shape[1], axis=1)
        for side in (margin > 0.0, margin < 0.0)
    )
    position = np.arange(n_classes)
    on_plane = (position >= h[:, :, None]) & (position < n_classes - k[:, :, None])
    weights = np.zeros(exponentials.shape)
    for step in range(n_classes - 1):
        i, j = np.nonzero((h > 0) & (k > 0))
        if not len(i):
            break
        inside = h[i, j] - 1
        outside = n_classes - k[i, j]
        x_h = x[i, h[i, j] - 1]
        y_k = y[i, k[i, j] - 1]
        replaces_outside = uniforms[i, j, step] < split[i, h[i, j], k[i, j]]
        weight = exponentials[i, j, np.where(replaces_outside, outside, inside)]
        weights[i, j, inside] += weight * (y_k / (x_h + y_k))
        weights[i, j, outside] += weight * (x_h / (x_h + y_k))
        h[i, j] -= ~replaces_outside
        k[i, j] -= replaces_outside
    weights += np.where(on_plane | (position < h[:, :, None]), exponentials, 0.0)
    result = np.empty_like(weights)
    np.put_along_axis(result, order, weights / weights.sum(axis=2, keepdims=True), axis=2)
    return result
