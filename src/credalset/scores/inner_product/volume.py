"""Volume of a simplex cut by one hyperplane, and uniform draws from it, through one recursion.

Split the margins d (see `geometry.margins`) into x = {d_i : d_i > 0} and y = {−d_j : d_j < 0};
corners on the plane do not change the fraction. Let f(h, k) be the fraction of the simplex spanned by the first h
inside and the first k outside corners that lies inside. The point p where the edge from the h-th inside corner to the
k-th outside corner meets the plane splits that simplex in two: with p in place of the outside corner, a share
w = x_h/(x_h + y_k) of the volume, and with p in place of the inside corner, the share 1 − w. As p lies on the plane,

    f(h, k) = w · f(h, k−1) + (1 − w) · f(h−1, k),    f(h, 0) = 1,    f(0, k) = 0

(Varsi 1973). All terms are positive, so nothing cancels: a fraction of 1e-900 is as precise as one of 0.3. The same
splits, taken at random in proportion to the volume that lies inside, end in a simplex that is entirely inside, and a
uniform point of that is a uniform point of the set.

References
----------
G. Varsi, The multidimensional content of the frustum of the simplex, Pacific Journal of Mathematics 46 (1973).
"""

from __future__ import annotations

import numpy as np

from credalset._parallel import in_blocks, row_blocks
from credalset._typing import FloatArray, IntArray
from credalset.scores.inner_product.geometry import margins

DRAWS_PER_CHUNK = 1 << 21
# The recursion in plain doubles is right to a few ulp unless its result is close to the underflow threshold.
PLAIN_FROM = 1e-280
SMALLEST = 5e-324


def log_fraction(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the logarithm of the fraction of the simplex that lies in each set, shape (N,).

    Exact for any number of classes: −inf when the set has no interior, and fractions close to one are computed through
    their complement, so that the logarithm keeps its digits too.
    """
    result = np.empty(len(center))
    order = np.argsort((center >= 1.0 - radius[:, None]).sum(axis=1))  # sets with as many corners inside, side by side
    result[order] = _log_fraction_of(center[order], radius[order])
    return result


@in_blocks(lambda size: size // 4 + 1)
def _log_fraction_of(center: FloatArray, radius: FloatArray) -> FloatArray:
    return _log_fraction(margins(center, radius))


def _log_fraction(margin: FloatArray) -> FloatArray:
    x, y = _sides(margin)
    fraction = _recursion(x.T, y.T)
    with np.errstate(divide="ignore"):
        result = np.log(fraction)
    tiny = fraction < PLAIN_FROM
    result[tiny] = _log_recursion(x[tiny], y[tiny])
    large = fraction > 0.5
    result[large] = np.log1p(-_recursion(y[large].T, x[large].T)) + 0.0  # never −0
    result[margin.min(axis=1) >= 0.0] = 0.0
    return result


def _recursion(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return f(H, Y), sides first: cells with the same h + k depend only on those before; ``f[h]`` holds f(h, t − h).

    The zeros that pad sets with fewer corners copy a neighbouring cell: w = 1 for y = 0, else w = 0.
    """
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    f = np.ones((len(x) + 1, x.shape[1]))
    f[0] = 0.0
    for t in range(2, len(x) + len(y) + 1):
        first, last = max(1, t - len(y)), min(len(x), t - 1)
        x_h, y_k = x[first - 1 : last], y[t - last - 1 : t - first][::-1]
        share = x_h / (x_h + y_k + SMALLEST)
        share *= f[first : last + 1] - f[first - 1 : last]  # never negative: f rises with h and falls with k
        f[first : last + 1] = f[first - 1 : last] + share
    return f[-1]


def _by_side(margin: FloatArray) -> IntArray:
    """Return the order of corners that puts those inside first, then those on the plane, then those outside."""
    return np.argsort(-np.sign(margin).astype(np.int8), axis=1, kind="stable")


def _sides(margin: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the positive margins, and the sizes of the negative ones from the last to the first, padded with zeros."""
    ordered = np.take_along_axis(margin, _by_side(margin), axis=1)
    n_inside, n_outside = (int(side.sum(axis=1).max(initial=0)) for side in (margin > 0.0, margin < 0.0))
    return np.maximum(ordered[:, :n_inside], 0.0), np.maximum(-ordered[:, ::-1][:, :n_outside], 0.0)


def _log_recursion(x: FloatArray, y: FloatArray, split: FloatArray | None = None) -> FloatArray:
    """Return log f(H, Y), and fill ``split[:, h, k]`` with the share of f(h, k) that comes from f(h, k−1).

    Cells with the same h + k depend only on the cells before them and are computed together; ``log_f[:, h]`` holds
    f(h, t − h). The zeros that pad rows with fewer corners copy a neighbouring cell: w = 1 for y = 0, else w = 0.
    """
    n_inside, n_outside = x.shape[1], y.shape[1]
    log_f = np.zeros((len(x), n_inside + 1))
    log_f[:, 0] = -np.inf
    for t in range(2, n_inside + n_outside + 1):
        first, last = max(1, t - n_outside), min(n_inside, t - 1)
        h = slice(first, last + 1)
        x_h, y_k = x[:, first - 1 : last], y[:, t - last - 1 : t - first][:, ::-1]
        # Differences of logarithms, for a margin may be as small as doubles go and its share smaller.
        with np.errstate(divide="ignore", invalid="ignore"):
            log_x, log_y, log_total = np.log(x_h), np.log(y_k), np.log(x_h + y_k)
            log_w = np.where(x_h > 0.0, log_x - log_total, -np.inf)
            log_rest = np.where(y_k > 0.0, log_y - log_total, np.where(x_h > 0.0, -np.inf, 0.0))
        from_left = log_w + log_f[:, h]
        log_f[:, h] = np.logaddexp(from_left, log_rest + log_f[:, first - 1 : last])
        if split is not None:
            k = t - np.arange(first, last + 1)
            split[:, np.arange(first, last + 1), k] = np.exp(from_left - np.maximum(log_f[:, h], -1e300))
    return log_f[:, -1]


def sample(center: FloatArray, radius: FloatArray, n: int, generator: np.random.Generator) -> FloatArray:
    """Return n independent uniform draws from each set, shape (N, n, K).

    Exact: see the module's description. A set without interior is a face of the simplex; draws are uniform there.
    """
    n_sets, n_classes = center.shape
    result = np.empty((n_sets, n, n_classes))
    for rows in row_blocks(n_sets, n * n_classes, DRAWS_PER_CHUNK):
        # Random numbers are drawn here, in order, so that threads do not change the outcome.
        exponentials = generator.standard_exponential(result[rows].shape)
        uniforms = generator.random((len(exponentials), n, n_classes - 1))
        result[rows] = _sample(exponentials, uniforms, center[rows], radius[rows])
    return result


@in_blocks(lambda size: 2 * size, block_size=1 << 16)
def _sample(exponentials: FloatArray, uniforms: FloatArray, center: FloatArray, radius: FloatArray) -> FloatArray:
    """Walk from cell (H, Y) down to k = 0, turning one corner per step into a crossing, and mix what is left.

    A uniform point of a simplex weights its vertices by independent exponentials, normalised; a crossing passes its
    weight on to the two corners of its edge.
    """
    margin = margins(center, radius)
    n_classes = margin.shape[1]
    order = _by_side(margin)[:, None, :]
    exponentials = np.take_along_axis(exponentials, order, axis=2)
    x, y = _sides(margin)
    split = np.zeros((len(margin), x.shape[1] + 1, y.shape[1] + 1))
    _log_recursion(x, y, split)
    h, k = (np.repeat(side.sum(axis=1)[:, None], uniforms.shape[1], axis=1) for side in (margin > 0.0, margin < 0.0))
    position = np.arange(n_classes)
    on_plane = (position >= h[:, :, None]) & (position < n_classes - k[:, :, None])
    weights = np.zeros(exponentials.shape)
    for step in range(n_classes - 1):
        i, j = np.nonzero((h > 0) & (k > 0))
        if not len(i):
            break
        inside, outside = h[i, j] - 1, n_classes - k[i, j]
        x_h, y_k = x[i, h[i, j] - 1], y[i, k[i, j] - 1]
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
