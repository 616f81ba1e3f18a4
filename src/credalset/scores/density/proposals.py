r"""Importance sampling in level sets of mixtures of Dirichlets: volumes and uniform members.

A proposal raises each component of the mixture, and one more that touches it at its peak, to a power β, and draws
distributions class by class, from the smallest concentration to the largest, each a share of what is left:

* a class with θ < 1, which takes ε > 0, from the density $\propto (\lambda + \epsilon)^{-\beta(1-\theta)}$ on
  [0, rest], a power law;
* a class with θ ≥ 1 from the Beta density of a stick of $\mathrm{Dir}(1 + \beta(\theta - 1))$, or at times uniformly;
* the last class takes what is left.

All factors are in closed form, so the density q of the whole proposal is known at every point, and a member weighs 1/q.
A component whose peak is r nats above the level has a level set that powers near (K − 1) / r fill; a look at multiples
of that finds which serve a set best. Each comes with a flatter copy, lest the edge of the set be out of reach.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import betaln, gammaln

from credalset._typing import FloatArray, IntArray
from credalset.scores.density.mixture import Mixture, monomial_peak
from credalset.simplex import log_sum_exp

MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)  # of each component's power, to choose from
FLATTER = 0.25  # the power of each component's second copy, relative to the first
PILOT_POINTS = 128
UNIFORM_SHARE = 0.1  # of the points, and of each stick, lest any member be out of reach
BELOW_LEVEL = 0.1  # weight of a component that does not reach the level by itself, relative to one that does
SMALLEST_POWER, LARGEST_POWER = 0.05, 1e9


class Proposal(NamedTuple):
    """Log-weights and powers of components (N, C), their concentrations in increasing order (N, C, K), the classes."""

    log_weights: FloatArray
    powers: FloatArray
    theta: FloatArray
    order: IntArray
    pull: float


class Points(NamedTuple):
    """Points drawn for a batch of level sets: distributions (N, M, K), and log 1/q as a share of the simplex (N, M)."""

    points: FloatArray
    log_weights: FloatArray


#: from points to the log-weights of the members among them, −inf for the others
Weigher = Callable[[Points], FloatArray]


def prepare(mixture: Mixture, peak: FloatArray, log_level: FloatArray) -> Proposal:
    r"""Set up the proposals for {p ≥ c}: the components, one that touches p at its peak y* (N, K), and a uniform one.

    With responsibilities r at y*, $p(y) \ge p(y^*) \prod_k (y_k / y_k^*)^{\sum_j r_j (\theta_{jk} - 1)}$, which is a
    Dirichlet in whose level sets around y* the mixture is at least as high.
    """
    k = peak.shape[1]
    logs = mixture.component_logs(peak[:, None, :])[:, 0]
    shares = np.exp(logs - log_sum_exp(logs)[:, None])
    touching = 1.0 + (shares[:, None, :] @ (mixture.theta - 1.0))
    tops = monomial_peak(mixture.theta - 1.0, mixture.floor)
    heights = np.einsum("njj->nj", mixture.component_logs(tops))
    reach = np.column_stack([heights, log_sum_exp(logs)]) - log_level[:, None]
    powers = np.clip((k - 1) / np.maximum(reach, 1e-300), SMALLEST_POWER, LARGEST_POWER)
    powers = np.where(reach > 0, powers, 1.0)
    log_weights = np.where(reach > 0, 0.0, np.log(BELOW_LEVEL))
    both = np.concatenate([log_weights + np.log(0.7), log_weights + np.log(0.3)], axis=1)
    both += np.log1p(-UNIFORM_SHARE) - log_sum_exp(both)[:, None]
    ones = np.ones((len(peak), 1))
    theta = np.concatenate([mixture.theta, touching], axis=1)
    theta = np.concatenate([theta, theta, np.ones_like(touching)], axis=1)
    order = np.argsort(theta, axis=-1, kind="stable")
    return Proposal(
        np.concatenate([both, np.log(UNIFORM_SHARE) * ones], axis=1),
        np.concatenate([powers, FLATTER * powers, ones], axis=1),
        np.take_along_axis(theta, order, axis=-1),
        order,
        mixture.pull,
    )


def propose(proposal: Proposal, multiple: FloatArray, n: int, generator: np.random.Generator) -> Points:
    """Draw n points per set, with powers multiplied by the number (N,) of each."""
    size, n_components, k = proposal.theta.shape
    powers = proposal.powers * multiple[:, None]
    gumbel = generator.gumbel(size=(size, n, n_components))
    chosen = (proposal.log_weights[:, None, :] + gumbel).argmax(axis=-1)
    theta = np.take_along_axis(proposal.theta, chosen[..., None], axis=1)
    beta = np.take_along_axis(powers, chosen, axis=1)
    ranked, rest = np.empty_like(theta), np.ones((size, n))
    for i in range(k - 1):
        ranked[..., i] = np.minimum(rest * _draw_share(theta, i, rest, beta, proposal.pull, generator), rest)
        rest = rest - ranked[..., i]
    ranked[..., -1] = rest
    points = np.empty_like(ranked)
    np.put_along_axis(points, np.take_along_axis(proposal.order, chosen[..., None], axis=1), ranked, axis=-1)
    parts = [
        _log_density(points, proposal.theta[:, j], proposal.order[:, j], powers[:, j], proposal.pull)
        + proposal.log_weights[:, j, None]
        for j in range(n_components)
    ]
    return Points(points, gammaln(k) - log_sum_exp(np.stack(parts, axis=-1)))


def _draw_share(
    theta: FloatArray, i: int, rest: FloatArray, beta: FloatArray, pull: float, generator: np.random.Generator
) -> FloatArray:
    """Draw the i-th class's share of what is left."""
    uniform, own = generator.random(rest.shape), theta[..., i]
    share = np.where(generator.random(rest.shape) < UNIFORM_SHARE, uniform, 0.0)
    sticks = (share == 0.0) & (own >= 1.0)
    later = (1.0 + beta[..., None] * (theta[..., i + 1 :] - 1.0)).sum(axis=-1)
    share[sticks] = generator.beta(1.0 + (beta * (own - 1.0))[sticks], later[sticks])
    idle = own < 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        # log((λ + ε) / ε) has density ∝ e^(g v) on [0, log(1 + rest / ε)], with g = 1 − β (1 − θ).
        top = np.log1p(rest / pull)
        g = 1.0 - beta * (1.0 - own)
        small = np.abs(g * top) < 1e-8
        grown = np.log1p(uniform * np.expm1(np.minimum(g * top, 700.0))) / np.where(small, 1.0, g)
        v = np.where(small, uniform * top, grown)
        power_law = np.where(rest > 0, pull * np.expm1(np.clip(v, 0.0, top)) / rest, 0.0)
    return np.where(idle, power_law, share)


def _log_density(points: FloatArray, theta: FloatArray, order: IntArray, power: FloatArray, pull: float) -> FloatArray:
    """Log density of one component's proposal at points (N, M, K), for concentrations in increasing order (N, K)."""
    k = theta.shape[-1]
    ranked = np.take_along_axis(points, np.broadcast_to(order[:, None, :], points.shape), axis=-1)
    left = ranked[..., ::-1].cumsum(axis=-1)[..., ::-1]  # what is left before each class
    total = np.zeros(points.shape[:2])
    tiny = np.finfo(float).tiny
    for i in range(k - 1):
        own, rest = theta[:, i, None], np.maximum(left[..., i], tiny)
        a = 1.0 + power[:, None] * (own - 1.0)
        b = (1.0 + power[:, None] * (theta[:, i + 1 :] - 1.0)).sum(axis=-1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            share = np.minimum(ranked[..., i] / rest, 1.0)
            ends = (a - 1.0) * np.log(np.maximum(share, tiny)) + (b - 1.0) * np.log(np.maximum(1.0 - share, tiny))
            stick = np.logaddexp(
                np.log1p(-UNIFORM_SHARE) + ends - betaln(np.maximum(a, tiny), np.maximum(b, tiny)),
                np.log(UNIFORM_SHARE),
            )
            top = np.log1p(rest / pull)
            spread = np.where(np.abs(a * top) < 1e-8, np.log(top), _log_expm1_ratio(a, top))
            law = (a - 1.0) * np.log1p(ranked[..., i] / pull) - np.log(pull) - spread
        total += np.where(own < 1.0, law, stick - np.log(rest))
    return total


def _log_expm1_ratio(g: FloatArray, top: FloatArray) -> FloatArray:
    """Log ∫_0^top e^(g v) dv = log((e^(g·top) − 1) / g), for either sign of g."""
    x = np.abs(g) * top
    grown = np.log(-np.expm1(-x)) - np.log(np.abs(g))
    return np.where(g > 0, x + grown, grown)


def choose_multiples(proposal: Proposal, weigh: Weigher, generator: np.random.Generator) -> FloatArray:
    """Return, per set, the multiple of the powers at which proposals estimate its volume best, by a look at each."""
    size = len(proposal.theta)
    best, quality = np.ones(size), np.full(size, -1.0)
    for multiple in MULTIPLES:
        drawn = propose(proposal, np.full(size, multiple), PILOT_POINTS, generator)
        worth = effective_size(weigh(drawn))
        best, quality = np.where(worth > quality, multiple, best), np.maximum(worth, quality)
    return best


def effective_size(log_weights: FloatArray) -> FloatArray:
    """(Σ w)² / Σ w² of each row: how many equally weighted points it is worth."""
    total = log_sum_exp(log_weights)
    with np.errstate(invalid="ignore"):
        size = np.exp(2.0 * total - log_sum_exp(2.0 * log_weights))
    return np.where(np.isneginf(total), 0.0, size)
