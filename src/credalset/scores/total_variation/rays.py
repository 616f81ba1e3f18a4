r"""Volume of TV balls with many classes: an unbiased radial estimate whose rays are drawn in the shape of the ball.

A member at distance t from the centre g takes t from the classes S that lose, a_k ≤ g_k each, and spreads t over the
others. Integrating the gains out,

$$\frac{V}{\mathrm{vol}(\Delta)} = (K-1)! \sum_S \int_{a \in \prod_{k \in S} [0, g_k]} 1\{A \le r\}
    \frac{A^{K-|S|-1}}{(K-|S|-1)!} \, da, \qquad A = \sum_{k \in S} a_k.$$

Each ray draws S and the losses independently over classes: class k loses with probability ℓ_k / (ℓ_k + 1/q), where
ℓ_k = (1 − e^{−p g_k}) / p, and then loses an exponential amount of rate p, cut off at g_k. Only the proportions of the
losses are kept, and the sum is integrated along the ray, which goes on until the first losing class is exhausted
(A = T) or A = r. The weights depend on the ray through T and |S| alone. The tilts p, q minimise
Σ log(ℓ_k + 1/q) + (p + q) r, the saddle point, where typical rays are the rays that matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import gammaln

from credalset._typing import BoolArray, FloatArray
from credalset.sets.rays import Rays, log_incomplete_gamma

if TYPE_CHECKING:
    from credalset.sets.region import Region


class Losses(NamedTuple):
    """Which classes lose and how much, (N, M, K); how far the ray goes and its log weight, (N, M)."""

    loses: BoolArray
    loss: FloatArray
    reach: FloatArray
    log_weights: FloatArray


def weighted_rays(sets: Region, n_rays: int, generator: np.random.Generator) -> Rays:
    """Rays in the shape of each ball; given who loses, the gains are uniform on their simplex.

    They are drawn in units of the radius, which no radius is too small for; a member takes at most r from any class.
    """
    radius = np.minimum(sets.radius, 1.0)
    mantissa, exponent = np.frexp(radius)
    mass = np.ldexp(np.minimum(sets.center, radius[:, None]), -exponent[:, None]) / mantissa[:, None]
    drawn = _draw(mass, *saddle_point(mass), n_rays, generator)
    gain = np.where(drawn.loses, 0.0, generator.standard_exponential(drawn.loss.shape))
    gained, lost = (np.maximum(side.sum(axis=-1, keepdims=True), np.finfo(float).tiny) for side in (gain, drawn.loss))
    directions = radius[:, None, None] * (gain / gained - drawn.loss / lost)
    return Rays(directions, drawn.reach, drawn.log_weights + (sets.n_classes - 1) * np.log(radius)[:, None])


def _log_loss_share(p: FloatArray, center: FloatArray) -> FloatArray:
    """Log ℓ_k = log((1 − e^{−p g}) / p), with its limit log g as p g → 0."""
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(-p * center)) - np.log(p)


def saddle_point(center: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Minimise the convex Σ log(ℓ_k(p) + 1/q) + p + q, the radius being one, over log p and log q."""
    k = center.shape[1]
    log_p = log_q = np.full(len(center), np.log(0.5 * k))
    smallest = np.log(1e-3)
    width = 2.0

    def cost(x: FloatArray, y: FloatArray) -> FloatArray:
        p, q = np.exp(x), np.exp(y)
        return np.logaddexp(_log_loss_share(p[:, None], center), -y[:, None]).sum(axis=1) + p + q

    # A compass search: two smooth variables, and the tilts only steer the variance, so a rough minimum is plenty.
    best = cost(log_p, log_q)
    for _ in range(60):
        improved = np.zeros(len(best), dtype=bool)
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1)):
            x, y = np.maximum(log_p + width * dx, smallest), log_q + width * dy
            value = cost(x, y)
            better = value < best
            log_p, log_q = np.where(better, x, log_p), np.where(better, y, log_q)
            best = np.where(better, value, best)
            improved |= better
        if not improved.any():
            width *= 0.5
            if width < 0.02:
                break
    return np.exp(log_p), np.exp(log_q)


def _draw(center: FloatArray, p: FloatArray, q: FloatArray, n_rays: int, generator: np.random.Generator) -> Losses:
    """Draw who loses and how much, in units of the radius, with the log of each ray's unbiased estimate."""
    n, k = center.shape
    log_share = _log_loss_share(p[:, None], center)
    log_phi = np.logaddexp(log_share, -np.log(q)[:, None])
    loses = generator.random((n, n_rays, k)) < np.exp(log_share - log_phi)[:, None, :]
    tilt = p[:, None, None]
    cut = -np.expm1(-tilt * center[:, None, :])
    loss = np.where(loses, -np.log1p(-generator.random((n, n_rays, k)) * cut) / tilt, 0.0)
    total, n_losing = loss.sum(axis=-1), loses.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        exhausted = np.where(loss > 0, center[:, None, :] / loss, np.inf).min(axis=-1) * total  # T: a class runs dry
        reach = np.minimum(exhausted, 1.0)
        # ∫₀^reach A^{K−2} dA  over  ∫₀^T e^{−pA} A^{|S|−1} dA · q^{−(K−|S|)} / ∏φ
        numerator = (k - 1) * np.log(reach) - np.log(k - 1) - gammaln(k - n_losing)
        proposal = log_incomplete_gamma(n_losing, p[:, None] * exhausted)
        proposal -= n_losing * np.log(p)[:, None] + (k - n_losing) * np.log(q)[:, None]
        terms = numerator - proposal + log_phi.sum(axis=1)[:, None] + gammaln(k)
    # Nobody loses, or nobody gains: such rays do not move at all.
    still = (n_losing == 0) | (n_losing == k) | (total == 0)
    return Losses(loses, loss, np.where(still, 0.0, reach), np.where(still, -np.inf, terms))
