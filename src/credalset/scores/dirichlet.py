r"""Scores of predicted Dirichlet densities, and the reverse-KL balls they induce.

With concentrations θ ≥ 1, excess a = θ − 1, weight W = Σ a and mode m = a / W, the density
satisfies $p(\lambda) = p(m) \exp(-W \, \mathrm{KL}(m \| \lambda))$: its level sets are reverse-KL
balls around the mode. The density is uniform for W = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, loggamma, rel_entr, xlog1py, xlogy

from credalset._blocks import gather_blocks
from credalset._typing import BoolArray, FloatArray
from credalset.scores.base import Score
from credalset.scores.power import BLOCK, TINIEST, PowerBall, pool
from credalset.scores.registry import register_score
from credalset.sets.geometry import Geometry
from credalset.sets.roots import bisect
from credalset.simplex import sum_classes

ComplexArray = NDArray[np.complex128]

STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
N_NODES = (
    32  # of the integral for the volume; the error is 5e-13 for 24 nodes, and at rounding for 32
)


def mode_and_weight(concentration: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mode m and the weight W of Dirichlets (…, K); a uniform density has weight 0."""
    excess = concentration - 1.0
    weight = excess.sum(axis=-1)
    mode = excess / np.where(weight > 0, weight, 1.0)[..., None]
    return np.where(weight[..., None] > 0, mode, 1.0 / excess.shape[-1]), weight


def log_density_drop(concentration: FloatArray, distribution: FloatArray) -> FloatArray:
    """Return log p(m) − log p(λ) = W · KL(m ‖ λ) on arrays (…, K); zero where W = 0."""
    mode, weight = mode_and_weight(concentration)
    drop = rel_entr(mode, distribution).sum(axis=-1)
    return np.where(weight > 0, weight * np.maximum(drop, 0.0), 0.0)


class DirichletScore(Score):
    """Base of scores whose region is a reverse-KL ball around the mode of a Dirichlet."""

    order: ClassVar[Literal["first", "second"]] = "second"
    has_enclosing_balls: ClassVar[bool] = True

    def best_fit(self, prediction: FloatArray) -> FloatArray:
        """Return the mode of the predicted Dirichlet."""
        return mode_and_weight(prediction)[0]

    def _ball(self, prediction: FloatArray, drop: FloatArray) -> ReverseKullbackLeiblerBall:
        """Return the regions where the log density lies at most ``drop`` (N,) below its peak."""
        mode, weight = mode_and_weight(prediction)
        with np.errstate(divide="ignore", invalid="ignore"):
            radius = np.where(weight > 0, drop / weight, np.where(drop >= 0, np.inf, -np.inf))
        return ReverseKullbackLeiblerBall(mode, radius)

    def common_center(self, models: Sequence[FloatArray]) -> FloatArray:
        """Return the smallest concentrations, for which `largest_gap` is finite."""
        return np.min(models, axis=0)

    def largest_gap(self, model: FloatArray, center: FloatArray) -> FloatArray:
        """Return the largest fall in log density relative to its peak, from model to center, (N,).

        It is a constant plus max Σ b log λ with b = model − center, attained at λ = b / Σ b.
        """
        return _log_peak(model - center) + _log_peak(center - 1.0) - _log_peak(model - 1.0)


def _log_peak(excess: FloatArray) -> FloatArray:
    """Return max over λ of Σ a log λ = Σ a log(a / W)."""
    weight = excess.sum(axis=1)
    return xlogy(excess, excess).sum(axis=1) - xlogy(weight, weight)


@register_score
@dataclass(frozen=True)
class RelativeLikelihood(DirichletScore):
    r"""Minus log relative likelihood (paper name: SO).

    It is $f = -\log \frac{p(\lambda | \theta)}{p(m | \theta)}$.

    Here p is the density of the Dirichlet distribution with predicted concentrations θ, and m is
    its mode. The paper's score is $1 - p(\lambda | \theta) / p(m | \theta) = 1 - e^{-f}$, which
    `as_published` returns. It is an increasing function of f, so the sets are the same. In floating
    point it equals 1 for f ≥ 37: sharp predictions would tie, and their sets would be the whole
    simplex. f is zero at the mode m and unbounded. For all-ones concentrations every distribution
    has score 0.

    Examples
    --------
    >>> import numpy as np
    >>> score = RelativeLikelihood()
    >>> concentration = np.array([[3.0, 2.0, 1.0], [300.0, 2.0, 1.0]])
    >>> f = score(concentration, np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]))
    >>> f.round(3), score.as_published(f).round(3)
    (array([  0.681, 201.753]), array([0.494, 1.   ]))
    """

    name: ClassVar[str] = "so"

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """Return W · KL(m ‖ λ)."""
        return log_density_drop(prediction, distribution)

    def geometry(self, prediction: FloatArray, threshold: FloatArray) -> ReverseKullbackLeiblerBall:
        """Return reverse-KL balls of radius t / W."""
        return self._ball(prediction, threshold)

    @staticmethod
    def as_published(score: FloatArray) -> FloatArray:
        """Convert scores or thresholds to the paper's: one minus the relative likelihood."""
        return np.asarray(-np.expm1(-np.asarray(score)) + 0.0)


@register_score
@dataclass(frozen=True)
class NegativeLogDensity(DirichletScore):
    r"""Negative log density, $f = -\log p(\lambda)$, of the predicted Dirichlet distribution.

    Sets of highest density have the smallest average volume if the predicted density is correct
    (Sadinle, Lei and Wasserman, 2019): sets are small for concentrated predictions and large for
    flat ones. The set is empty if the density is nowhere as large as exp(−threshold).

    Examples
    --------
    >>> import numpy as np
    >>> NegativeLogDensity()(np.ones((1, 3)), np.array([[0.2, 0.3, 0.5]])).round(4)  # −log 2
    array([-0.6931])
    """

    name: ClassVar[str] = "density"

    def formula(self, prediction: FloatArray, distribution: FloatArray) -> FloatArray:
        """Return −log p(λ) = −log p(m) + W · KL(m ‖ λ)."""
        return _negative_log_peak(prediction) + log_density_drop(prediction, distribution)

    def geometry(self, prediction: FloatArray, threshold: FloatArray) -> Geometry:
        """Return reverse-KL balls of radius (t + log p(m)) / W."""
        # Adding −log p(m) rounds the score: drops up to half a unit of its last place above t + log
        # p(m) are members.
        rounding = 0.5 * np.spacing(np.minimum(np.abs(threshold), 1e300))
        drop = threshold - self.evaluate_rows(prediction, self.best_fit(prediction)) + rounding
        return self._ball(prediction, drop)

    def largest_gap(self, model: FloatArray, center: FloatArray) -> FloatArray:
        """Return the largest fall in log density from model to center ≤ model, (N,)."""
        return _log_peak(model - center) + _log_beta(center) - _log_beta(model)


def _log_beta(concentration: FloatArray) -> FloatArray:
    return np.asarray(gammaln(concentration).sum(axis=-1) - gammaln(concentration.sum(axis=-1)))


def _negative_log_peak(concentration: FloatArray) -> FloatArray:
    """Return −log p(m) = log B(θ) − Σ a log m on arrays (…, K)."""
    mode, _ = mode_and_weight(concentration)
    return _log_beta(concentration) - xlogy(concentration - 1.0, mode).sum(axis=-1)


@dataclass(frozen=True, eq=False)
class ReverseKullbackLeiblerBall(PowerBall):
    """{λ : KL(center ‖ λ) ≤ radius}, in nats. All results are exact."""

    shape: ClassVar[str] = "reverse-KL ball"
    power: ClassVar[int] = 1

    @staticmethod
    def distance(center: FloatArray, point: FloatArray) -> FloatArray:
        """Return Σ m φ(λ/m − 1) with φ(x) = x − log(1 + x), and λ where m = 0, all ≥ 0."""
        with np.errstate(all="ignore"):
            ratio = point / center
            excess = ratio - 1.0
            terms = center * (
                excess - np.where(np.abs(excess) < 0.1, np.log1p(excess), np.log(ratio))
            )
            return sum_classes(np.where(center > TINIEST, terms, point))

    @staticmethod
    def kept_mass(value: FloatArray, radius: FloatArray) -> FloatArray:
        """Return exp(value − radius): the divergence with mass c is ``value`` − log c."""
        return np.exp(value - radius)

    def envelope(self) -> tuple[FloatArray, FloatArray]:
        """Solve d(m_k ‖ λ_k) = r, as for a fixed λ_k the other classes stay in proportion.

        With λ_k = m_k exp(−s) for the lower end and 1 − λ_k = (1 − m_k) exp(−s) for the upper, s is
        `log_shrinkage`.
        """

        def one_block(rows: slice) -> tuple[FloatArray, FloatArray]:
            m = self.center[rows]
            radius = self.radius[rows, None]
            rest = 1.0 - m
            upper = m - rest * np.expm1(-log_shrinkage(rest, m, radius))
            return m * np.exp(-log_shrinkage(m, rest, radius)), np.minimum(upper, 1.0)

        lower, upper = gather_blocks(one_block, len(self), self.n_classes, BLOCK)
        return lower, upper

    def mode_radius(self) -> FloatArray:
        """Pool each class with the larger ones at their mean t: KL = Σ_pool m log(m / t)."""
        largest = self.center.max(axis=1, keepdims=True)
        shifted = self.center / largest - 1.0  # near ties keep their digits
        size, average = pool(shifted)
        costs = np.zeros((len(self), self.n_classes + 1))
        ranked = -np.sort(-shifted, axis=1)
        with np.errstate(divide="ignore"):
            np.cumsum(xlog1py(1.0 + ranked, ranked), axis=1, out=costs[:, 1:])
            total = np.take_along_axis(costs, size, axis=1) + xlog1py(1.0 + shifted, shifted)
            return largest * np.maximum(total - (size + 1) * xlog1py(1.0 + average, average), 0.0)

    def log_volume(
        self, generator: np.random.Generator, n_rays: int
    ) -> tuple[FloatArray, FloatArray, str]:
        """Return the logarithm of the share of the simplex, exact for any number of classes."""
        if self.n_classes == 2:
            return super().log_volume(generator, n_rays)
        rows = np.flatnonzero(self.radius > 0)
        result = np.full(len(self), -np.inf)
        result[rows] = gather_blocks(
            lambda part: log_fraction(self.center[rows[part]], self.radius[rows[part]]),
            len(rows),
            N_NODES * self.n_classes,
        )
        return result, np.zeros(len(self)), "exact"


def log_shrinkage(a: FloatArray, b: FloatArray, radius: FloatArray) -> FloatArray:
    """Return s ≥ 0 with d(a ‖ a exp(−s)) = radius, or the radius if b = 1 − a is 0.

    Here d is the binary KL divergence.

    F(s) = a φ(e^(−s) − 1) + b φ(a (1 − e^(−s)) / b) is convex, about (a/2b) s² for small and a s +
    b log b for large s. The start combines both; about two Householder steps of order four follow.
    What has converged is left alone, so that an item's answer does not depend on its batch.
    """
    with np.errstate(all="ignore"):
        is_tiny = ~(a > TINIEST)
        a = np.where(is_tiny, 1.0, a)
        b = np.where(is_tiny, 0.0, b)
        limit = radius / a
        root = np.sqrt(2.0 * b * limit)
        ratio = root * (1.0 + 2.0 * b) / b
        s = np.maximum(root, limit + 3.0 * root / np.sqrt(9.0 + ratio * ratio))
        fixed = (b <= TINIEST) | (limit > 750.0) | (radius <= 0)  # exp(−s) underflows
        s = np.where(fixed, limit, s)
        done = fixed
        for _ in range(12):
            loss = -np.expm1(-s)
            moved = a * loss
            rest = b + moved
            value = a * (s - loss) + b * (moved / b - np.log1p(moved / b)) - radius
            first = value / moved * rest
            second = 0.5 * (b / rest) * ((1.0 - loss) / loss * first)
            third = second * (first / rest) * (1.0 + a * (1.0 - loss)) / 3.0
            step = np.where(done, 0.0, first * (1.0 - second) / (1.0 - 2.0 * second - third))
            s = s - np.where(np.isfinite(step), step, 0.0)
            done = done | ~(np.abs(step) > 1e-4 * s)
            if done.all():
                break
    return np.maximum(s, 0.0)


def log_fraction(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the logarithm of the share of the simplex with KL(m ‖ λ) ≤ r, for r > 0.

    For λ uniform on the simplex, D = KL(m ‖ λ) = −H(m) − Σ m_k log λ_k has the Laplace transform of
    a Dirichlet moment,

        E[exp(−s D)] = exp(s H(m)) Γ(K) Π Γ(1 + s m_k) / Γ(K + s),

    and P(D ≤ r) is its Bromwich integral (1/2πi) ∫ exp(s r) E[exp(−s D)] ds / s. All singularities
    are on s ≤ 0, so the path can be a hyperbola through the saddle point that bends to the left.
    There the integrand does not oscillate, and the trapezoidal rule converges geometrically.
    `_gamma_excess` avoids the cancellation between s H(m) and log Γ.
    """
    saddle = _saddle(center, radius)
    reach = 1.5 * saddle  # matches the curvature of the path of steepest descent of e^s s^(−a)
    step = np.arccosh(1.0 + 40.0 / (reach * radius)) / N_NODES
    v = (np.arange(N_NODES) + 0.5) * step[:, None]
    s = saddle[:, None] - reach[:, None] * (np.cosh(v) - 1.0 - 1j * np.sinh(v))
    direction = reach[:, None] * (1j * np.cosh(v) - np.sinh(v))
    peak = _log_transform(center, radius, saddle[:, None].astype(np.complex128)).real
    integrand = np.exp(_log_transform(center, radius, s) - peak) * (direction / saddle[:, None])
    total = integrand.imag.sum(axis=1) * step / np.pi
    return np.minimum(peak[:, 0] + np.log(total) + np.log(saddle), 0.0)


def _log_transform(center: FloatArray, radius: FloatArray, s: ComplexArray) -> ComplexArray:
    """Return log of exp(s r) E[exp(−s D)] / s at nodes s (N, Q), adding classes one by one."""
    n_classes = center.shape[1]
    total = s * radius[:, None] - _gamma_excess(s) - np.log(s) + gammaln(n_classes)
    for k in range(n_classes):
        total += _gamma_excess(s * center[:, k, None])
        if k > 0:
            total -= np.log(s + k)
    return total


def _gamma_excess(z: ComplexArray) -> ComplexArray:
    """Return log Γ(1 + z) − z log z + z, zero at z = 0."""
    result = np.zeros_like(z)
    size = np.abs(z)
    far = size >= 10.0
    near = (size < 10.0) & (size > 0.0)
    w = 1.0 / z[far]
    series = np.zeros_like(w)
    for coefficient in reversed(STIRLING):
        series = series * w * w + coefficient
    result[far] = 0.5 * np.log(2.0 * np.pi * z[far]) + series * w
    result[near] = loggamma(1.0 + z[near]) - z[near] * (np.log(z[near]) - 1.0)
    return result


def _saddle(center: FloatArray, radius: FloatArray) -> FloatArray:
    """Return an approximate minimiser of the integrand on the axis, between 1/r and (K + ½)/r."""
    order = np.arange(1, center.shape[1])

    def elasticity(x: FloatArray) -> FloatArray:  # x (ψ(1 + x) − log x), between 0 and ½
        safe = np.clip(x, 1e-300, 1e4)
        return np.asarray(np.where(x < 1e4, safe * (digamma(1.0 + safe) - np.log(safe)), 0.5))

    def is_right(log_s: FloatArray) -> BoolArray:
        s = np.exp(log_s)[:, None]
        decay = (
            1.0
            + (s / (s + order)).sum(axis=1)
            + elasticity(s[:, 0])
            - elasticity(s * center).sum(axis=1)
        )
        return np.asarray(s[:, 0] * radius >= decay)

    low, high = bisect(
        is_right, -np.log(radius), np.log(center.shape[1] + 0.5) - np.log(radius), steps=10
    )
    return np.asarray(np.exp(0.5 * (low + high)))
