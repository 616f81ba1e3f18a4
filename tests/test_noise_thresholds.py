"""Thresholds under noise, to many digits, against a slow computation that shares nothing with the package but scores.

Coverage of the truth is far above what is promised in most cells of `test_noise`, so a threshold that is a fifth too
small would go unnoticed there. Here it does not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

import credalset as cs
from credalset.scores import Normalized, Score

from .conftest import SCORES
from .test_noise import draw

DELTAS = (0.5, 0.9, 0.8, 0.7, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001)
N, N_NEW, K = 53, 4, 3


# --- what the package does, slowly ---


def quantile(values: list[float], level: Fraction) -> float:
    rank = math.ceil((len(values) + 1) * (1 - level))
    return sorted(values)[rank - 1] if rank <= len(values) else math.inf


def evaluate(score: Score, g: np.ndarray, y: np.ndarray) -> np.ndarray:
    return score(g, y / y.sum(axis=1, keepdims=True))


def above(score: Score, g: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """The largest score at a corner of {λ ≥ lower}."""
    spare = np.maximum(1 - lower.sum(axis=1, keepdims=True), 0)
    return np.max([evaluate(score, g, lower + spare * corner) for corner in np.eye(K)], axis=0)


def limits(counts: np.ndarray, delta: float) -> np.ndarray:
    """The lower ends of exact intervals, as the distribution of the k-th smallest of m uniform numbers gives them."""
    m = counts.sum(axis=1, keepdims=True)
    return np.where(counts > 0, stats.beta.ppf(delta / K, np.maximum(counts, 1), m - counts + 1), 0.0)


def tv_radius(m: float, delta: float) -> float:
    events = math.sqrt((math.log(2**K - 2) - math.log(delta)) / (2 * m))
    mean = 0.5 * math.sqrt((K - 1) / m) + math.sqrt(-math.log(delta) / (2 * m))
    return min(events, mean, 1.0)


def kl_radius(m: float, delta: float) -> float:
    """Agrawal's bound exp(−x) (e x / (K−1))^(K−1) ≤ δ with x = m ρ, or the number of outcomes."""
    excess = lambda x: x - (K - 1) - (K - 1) * math.log(x / (K - 1)) + math.log(delta)  # noqa: E731
    agrawal = optimize.brentq(excess, K - 1, 1e4, xtol=1e-13, rtol=1e-14)
    return min(agrawal, math.log(math.comb(int(m) + K - 1, K - 1)) - math.log(delta)) / m


def two_class_kl(p: float, q: float) -> float:
    rest = (1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0
    return p * math.log(p / q) + rest


def kl_lower(p: float, rho: float) -> float:
    """The smallest λ_k with KL(shares ‖ λ) ≤ ρ: the other classes keep their proportions."""
    if p == 0:
        return 0.0
    low = math.log(p) - rho / p - 2
    return math.exp(optimize.brentq(lambda x: two_class_kl(p, math.exp(x)) - rho, low, math.log(p), xtol=1e-14))


def least_mean(g: np.ndarray, shares: np.ndarray, rho: float) -> float:
    """The smallest ⟨g, μ⟩ with KL(shares ‖ μ) ≤ ρ for shares above zero: μ ∝ shares / (g − ν)."""
    if rho <= 0 or np.ptp(g) == 0:
        return float(shares @ g)

    def tilted(log_gap: float) -> np.ndarray:
        mu = shares / (g - g.min() + math.exp(log_gap))
        return np.asarray(mu / mu.sum())

    gap = lambda x: float(shares @ np.log(shares / tilted(x))) - rho  # noqa: E731
    return float(tilted(optimize.brentq(gap, -600, 50, xtol=1e-13)) @ g)


def kl_least_mean(g: np.ndarray, shares: np.ndarray, rho: float) -> float:
    """The same where shares may be zero: classes without a vote can hold 1 − t, the best of them does."""
    seen = shares > 0
    if seen.all():
        return least_mean(g, shares, rho)
    best = float(g[~seen].min())
    value = lambda t: t * least_mean(g[seen], shares[seen], rho + math.log(t)) + (1 - t) * best  # noqa: E731
    found = optimize.minimize_scalar(value, bounds=(math.exp(-rho), 1.0), method="bounded", options={"xatol": 1e-13})
    return min(float(found.fun), value(math.exp(-rho)), value(1.0))


def tv_least_mean(g: np.ndarray, shares: np.ndarray, radius: float) -> float:
    """Move mass from the classes with the largest g to the one with the smallest."""
    left, total = radius, float(shares @ g)
    for k in np.argsort(-g):
        moved = min(left, shares[k])
        total, left = total - moved * (g[k] - g.min()), left - moved
    return total


def largest(score: Score, g: np.ndarray, counts: np.ndarray, delta: float, region: str) -> np.ndarray:
    if region == "exact":
        return above(score, g, limits(counts, delta))
    if isinstance(score, Normalized):
        ambiguity = stats.entropy(g, axis=1) / math.log(K) + score.offset
        return largest(score.score, g, counts, delta, region) / ambiguity
    m, shares = float(counts[0].sum()), counts / counts.sum(axis=1, keepdims=True)
    rho = kl_radius(m, delta)
    radius = tv_radius(m, delta) if region == "tv" else math.sqrt(rho / 2)
    if score.name == "inner":
        pairs = zip(g, shares, strict=True)
        least = [tv_least_mean(*pair, radius) if region == "tv" else kl_least_mean(*pair, rho) for pair in pairs]
        return 1 - np.array(least)
    lower = np.maximum(shares - radius, 0)
    if region == "kl":
        known = {p: kl_lower(p, rho) for p in np.unique(shares)}
        lower = np.vectorize(known.get)(shares)
    slope = {"tv": 1.0, "ws": K - 1.0}.get(score.name, math.inf)
    return np.minimum(above(score, g, lower), evaluate(score, g, counts) + slope * radius)


class Slow:
    """The items of a calibration, and what each noise model makes of them."""

    def __init__(self, score: Score, g: np.ndarray, counts: np.ndarray, alpha: Fraction) -> None:
        self.score, self.g, self.counts, self.alpha = score, g, counts, alpha
        self.scores = evaluate(score, g, counts).tolist()
        self.aside = [i % 5 == 4 for i in range(len(g))]

    def bounds(self, delta: float, region: str = "exact") -> list[float]:
        found: list[float] = largest(self.score, self.g, self.counts, delta, region).tolist()
        return found

    def fixed(self, delta: Fraction, region: str) -> float:
        return quantile(self.bounds(float(delta), region), self.alpha * (1 - delta))

    def bounded(self, delta: Fraction) -> float:
        bounds = self.bounds(float(delta) / 2)
        change = [0.0 if math.isinf(f) else max(u - f, 0.0) for u, f in zip(bounds, self.scores, strict=True)]
        return quantile(self.scores, self.alpha - delta) + quantile(change, delta / 2)

    def chosen(self) -> float:
        best: tuple[float, int, float] | None = None
        for rank, delta in enumerate(DELTAS):
            level = self.alpha * (1 - Fraction(str(delta)))
            if level * (self.aside.count(False) + 1) < 1:
                continue
            bounds = self.bounds(delta)
            held_out = sorted(u for u, aside in zip(bounds, self.aside, strict=True) if aside)
            kept = [u for u, aside in zip(bounds, self.aside, strict=True) if not aside]
            guess = held_out[math.ceil(len(held_out) * (1 - level)) - 1]
            rival = (guess, rank, quantile(kept, level))
            best = rival if best is None else min(best, rival)
        assert best is not None
        return best[2]

    def unbiased(self, new: np.ndarray) -> list[float]:
        finite = sorted(f for f, aside in zip(self.scores, self.aside, strict=True) if aside and math.isfinite(f))
        kept = [f for f, aside in zip(self.scores, self.aside, strict=True) if not aside]
        share = max(self.alpha - Fraction(1, len(kept) + 1), Fraction(0))
        start = finite[min(math.floor(sum(self.aside) * (1 - share)), len(finite) - 1)] if finite else 0.0
        total = sum(max(f - start, 0.0) for f in kept)
        peaks = np.maximum(above(self.score, new, np.zeros((len(new), K))) - start, 0.0)
        return [start + (total + peak) / (float(self.alpha) * (len(kept) + 1)) for peak in peaks]


MODELS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "unbiased": (lambda g, n, score: cs.UnbiasedVotes(), lambda slow, new: slow.unbiased(new)),
    "sampling": (lambda g, n, score: cs.AnnotatorSampling(), lambda slow, new: slow.chosen()),
    "sampling-exact": (
        lambda g, n, score: cs.AnnotatorSampling(0.05),
        lambda slow, new: slow.fixed(Fraction(1, 20), "exact"),
    ),
    "sampling-tv": (
        lambda g, n, score: cs.AnnotatorSampling(0.02, "tv"),
        lambda slow, new: slow.fixed(Fraction(1, 50), "tv"),
    ),
    "sampling-kl": (
        lambda g, n, score: cs.AnnotatorSampling(0.02, "kl"),
        lambda slow, new: slow.fixed(Fraction(1, 50), "kl"),
    ),
    "bounded": (
        lambda g, n, score: cs.epsilon_from_counts(n, 0.08, score, prediction=g),
        lambda slow, new: slow.bounded(Fraction(2, 25)),
    ),
}


@pytest.mark.parametrize("votes", [1, 10, 100])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", SCORES)
def test_thresholds(name: str, model: str, votes: int) -> None:
    score = SCORES[name]
    if model == "unbiased" and not score.is_convex:
        return
    rng = np.random.default_rng([votes, len(model)])
    g, _, counts = draw(score, N + N_NEW, K, votes, rng)
    noise, slowly = MODELS[model]
    for alpha in (Fraction(1, 5), Fraction(1, 10)):
        slow = Slow(score, g[:N], counts[:N], alpha)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cs.CredalSetWarning)
            calibration = cs.conformalize(g[:N], counts[:N], score, noise=noise(g[:N], counts[:N], score))
            found = calibration.thresholds(g[N:], float(alpha))
        assert found == pytest.approx(np.broadcast_to(slowly(slow, g[N:]), N_NEW), rel=2e-8, abs=1e-10)


# --- coverage where there is little to spare ---


@pytest.mark.parametrize(
    "noise",
    [cs.AnnotatorSampling(0.01), cs.AnnotatorSampling(0.01, "kl"), cs.AnnotatorSampling(0.01, "tv"), "bounded"],
    ids=repr,
)
@pytest.mark.parametrize("name", ["tv", "ws", "kl", "inner", "hellinger", "so", "normalized-kl"])
def test_with_many_votes_coverage_is_what_is_asked_for(name: str, noise: Any) -> None:
    """A million votes leave nearly no noise: coverage lies between 1 − α and 1 − α + δ, up to the draw of items."""
    score, rng, n, repetitions = SCORES[name], np.random.default_rng(5), 300, 12
    covered = []
    for _ in range(repetitions):
        g, truth, counts = draw(score, 2 * n, K, 1_000_000, rng)
        model = cs.epsilon_from_counts(counts[:n], 0.01, score, prediction=g[:n]) if noise == "bounded" else noise
        calibration = cs.conformalize(g[:n], counts[:n], score, noise=model)
        covered.append(calibration.predict_set(g[n:], 0.25).contains(truth[n:]).mean())
    spread = math.sqrt(0.25 * 0.75 * 2 / (n * repetitions))
    assert 0.75 - 3 * spread <= np.mean(covered) <= 0.75 + 0.02 + 1 / n + 3 * spread


def test_fair_votes_are_covered_where_markov_is_sharp() -> None:
    """Excesses that are nothing or all there is: one item in eight, so that α = 1/8 is just enough."""
    rng, n = np.random.default_rng(6), 4000
    bad = rng.random(2 * n) < 0.12
    g = np.tile([1.0, 0.0], (2 * n, 1))
    truth = np.where(bad[:, None], [0.0, 1.0], [1.0, 0.0])
    calibration = cs.conformalize(g[:n], truth[:n], noise=cs.UnbiasedVotes(s=0.0))
    at = {alpha: calibration.predict_set(g[n:], alpha).contains(truth[n:]).mean() for alpha in (0.11, 0.13)}
    assert at[0.11] == 1.0
    assert at[0.13] == 1 - bad[n:].mean()
