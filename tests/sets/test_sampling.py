"""Uniform draws, judged by their first two moments against draws that come about otherwise.

The oracles share nothing with the sampler but ``contains`` and the envelope. Where there is an
exact one it is used: the half-space recursion, where a ball about a corner is a half-space; balls
of ``BALLS`` that extend beyond the simplex, or a small simplex around the set, of which the members
are kept. Elsewhere draws of a Dirichlet around the centre are weighted by one over its density.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from credalset.scores import KullbackLeibler
from credalset.scores.inner_product import HalfSpace
from credalset.sets import sampling
from credalset.sets.credal_set import CredalSet
from tests.conftest import SCORES

N_DRAWS = 3000
N_PROPOSALS = 100_000
ENOUGH = 3000  # members of an exact oracle
NAMES = ["tv", "ws", "kl", "density", "hellinger", "brier"]
slow = pytest.mark.slow  # other sizes, which take the same ways


def center_of(kind: str, n_classes: int) -> np.ndarray:
    rng = np.random.default_rng(n_classes)
    if kind == "corner":
        return np.eye(n_classes)[0]
    if kind == "middle corner":
        return np.eye(n_classes)[n_classes // 2]
    if kind == "near a corner":
        return 0.96 * np.eye(n_classes)[1] + 0.04 * rng.dirichlet(np.ones(n_classes))
    return rng.dirichlet(np.full(n_classes, 3.0))


def make(name: str, center: np.ndarray, radius: float) -> CredalSet:
    """One ball; the radius of a Wasserstein ball is in units of a fifth of the line."""
    score = SCORES[name]
    if name == "density":
        prediction = 1.0 + 50.0 * center[None]
        return score.region(prediction, score(prediction, center[None]) + 50.0 * radius)
    return score.region(center[None], radius * len(center) / 5 if name == "ws" else radius)


def assert_same_law(
    draws: np.ndarray, points: np.ndarray, weights: np.ndarray, limit: float = 5.0
) -> None:
    """Means of every class, and of squared projections, agree within the errors of both samples."""
    weights = weights / weights.sum()
    middle, spread = weights @ points, np.sqrt(weights @ (points - weights @ points) ** 2)
    some = spread > 0
    assert np.allclose(draws[:, ~some], middle[~some], atol=1e-12)
    draws, points = ((x[:, some] - middle[some]) / spread[some] for x in (draws, points))
    axes = np.random.default_rng(0).normal(size=(2 * some.sum(), some.sum()))
    for features in (lambda x: x, lambda x: (x @ axes.T) ** 2):
        ours, theirs = features(draws), features(points)
        expected = weights @ theirs
        error = np.sqrt(ours.var(axis=0) / len(ours) + weights**2 @ (theirs - expected) ** 2)
        z = (ours.mean(axis=0) - expected) / error
        assert np.abs(z).max() < limit, f"largest deviation {np.abs(z).max():.1f} standard errors"


def members_by_importance(
    one: CredalSet, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Members drawn from Dirichlet(1 + κ·centre), with the κ that wastes least,
    and their weights.
    """
    g = one.center[0]

    def draw(kappa: float, n: int) -> tuple[np.ndarray, np.ndarray, float]:
        points = rng.dirichlet(1.0 + kappa * g, n)
        points = points[one.contains(points, broadcast=True)[0]]
        with np.errstate(divide="ignore", invalid="ignore"):
            log_density = np.where(g > 0, kappa * g * np.log(points), 0.0).sum(axis=1)
        weights = np.exp(log_density.min(initial=0.0) - log_density) if len(points) else np.zeros(0)
        effective = weights.sum() ** 2 / (weights**2).sum() if len(points) else 0.0
        return points, weights, effective

    # The flattest proposal that is not much worse than the best: a sharp one hides how heavy its
    # tails are.
    kappas = np.geomspace(0.1, 1e7, 30)
    worth = np.array([draw(kappa, 4000)[2] for kappa in kappas])
    best = kappas[np.argmax(worth >= 0.4 * worth.max())]
    points, weights, effective = draw(best, N_PROPOSALS)
    largest = weights.max(initial=0.0) / max(weights.sum(), 1e-300)
    if (
        effective < 400 or largest > 0.005
    ):  # few large weights stand for many that did not turn up: errors are too small
        pytest.skip(
            f"the oracle is worth {effective:.0f} draws only, and one has {largest:.1%} of "
            "the weight"
        )
    return points, weights


def members_of_half_space(
    one: CredalSet, cost: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Exact draws from a ball about a corner, whose divergence is Σ cost_k λ_k."""
    most = cost.max()
    return HalfSpace((1.0 - cost / most)[None], one.radius / most).sample(n, rng)[0]


def members_of_total_variation_ball(one: CredalSet, n: int, rng: np.random.Generator) -> np.ndarray:
    """Choose how many classes lose, which, and how losses and gains are spread.

    All are uniform given their number.

    This is exact for the ball that ignores λ ≥ 0; the members of it are kept.
    """
    n_classes = one.n_classes
    number = np.arange(1, n_classes)
    log_size = gammaln(n_classes + 1) - gammaln(number + 1) - gammaln(n_classes - number + 1)
    log_size -= gammaln(number) + gammaln(n_classes - number)
    share = np.exp(log_size - log_size.max())
    loses = rng.permuted(
        np.arange(n_classes) < rng.choice(number, (n, 1), p=share / share.sum()), axis=1
    )
    amounts = rng.standard_exponential(loses.shape)
    loss, gain = np.where(loses, amounts, 0.0), np.where(loses, 0.0, amounts)
    moved = gain / gain.sum(axis=1, keepdims=True) - loss / loss.sum(axis=1, keepdims=True)
    points = one.center + one.radius * rng.random((n, 1)) ** (1 / (n_classes - 1)) * moved
    return points[(points >= 0).all(axis=1)]


def members_of_brier_ball(one: CredalSet, n: int, rng: np.random.Generator) -> np.ndarray:
    """A Euclidean ball in the plane Σ λ = 1, of which the members of the simplex are kept."""
    z = rng.normal(size=(n, one.n_classes))
    z -= z.mean(axis=1, keepdims=True)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    points = one.center + np.sqrt(one.radius) * rng.random((n, 1)) ** (1 / (one.n_classes - 1)) * z
    return points[(points >= 0).all(axis=1)]


def members_of_wasserstein_ball(one: CredalSet, n: int, rng: np.random.Generator) -> np.ndarray:
    """Cumulative sums within r of those of the centre, in ℓ₁,
    of which those are kept that belong to distributions.
    """
    z = rng.laplace(size=(n, one.n_classes - 1))
    z *= (
        one.radius
        * rng.random((n, 1)) ** (1 / (one.n_classes - 1))
        / np.abs(z).sum(axis=1, keepdims=True)
    )
    points = one.center + np.diff(z, axis=1, prepend=0.0, append=0.0)
    return points[(points >= 0).all(axis=1)]


def members_above_their_least(one: CredalSet, n: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform points of the smallest simplex λ ≥ c around the set,
    of which the members are kept.
    """
    least = np.clip(one.lower()[0] - 1e-9, 0.0, None)
    points = least + (1.0 - least.sum()) * rng.dirichlet(np.ones(one.n_classes), n)
    return points[one.contains(points, broadcast=True)[0]]


def members(name: str, one: CredalSet, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Members and weights from the best oracle there is."""
    points, top = np.empty((0, one.n_classes)), one.center[0].argmax()
    if name in ("tv", "ws") and one.center[0, top] == 1.0:
        distance = np.abs(np.arange(one.n_classes) - top)
        points = members_of_half_space(
            one, distance if name == "ws" else np.sign(distance), N_PROPOSALS, rng
        )
    elif name in BALLS:
        points = BALLS[name](one, N_PROPOSALS, rng)
    if len(points) < ENOUGH:
        points = members_above_their_least(one, N_PROPOSALS, rng)
    return (
        (points, np.ones(len(points))) if len(points) >= ENOUGH else members_by_importance(one, rng)
    )


BALLS = {
    "tv": members_of_total_variation_ball,
    "ws": members_of_wasserstein_ball,
    "brier": members_of_brier_ball,
}


@pytest.mark.parametrize(
    "radius", [pytest.param(1e-3, marks=slow), 0.05, pytest.param(0.3, marks=slow)]
)
@pytest.mark.parametrize("kind", ["corner", "middle corner", "near a corner", "inside"])
@pytest.mark.parametrize("n_classes", [3, 10, pytest.param(20, marks=slow)])
@pytest.mark.parametrize("name", NAMES)
def test_against_other_draws(name: str, n_classes: int, kind: str, radius: float) -> None:
    center = center_of(kind, n_classes)
    if name == "kl" and not center.all():
        pytest.skip("a Kullback–Leibler ball about a corner is the corner")
    one = make(name, center, radius)
    draws = one.sample(N_DRAWS, random_state=1)
    assert one.contains(draws).all()
    assert_same_law(draws[0], *members(name, one, np.random.default_rng(2)))


@pytest.mark.parametrize("n_classes", [4, 10, 20, pytest.param(30, marks=slow)])
@pytest.mark.parametrize("name", BALLS)
def test_a_ball_inside_the_simplex(name: str, n_classes: int) -> None:
    one = SCORES[name].region(
        np.full((1, n_classes), 1 / n_classes), 0.5 / n_classes ** (2 if name == "brier" else 1)
    )
    exact = BALLS[name](one, 20_000, np.random.default_rng(8))
    assert_same_law(one.sample(N_DRAWS, random_state=9)[0], exact, np.ones(len(exact)))


def test_a_ball_on_a_face_is_sampled_there() -> None:
    """Classes that a Kullback–Leibler centre rules out get nothing;
    the others are drawn as if these were not there.
    """
    inner = np.array([0.5, 0.3, 0.15, 0.05])
    padded = np.insert(inner, [0, 2], 0.0)[None]
    draws = KullbackLeibler().region(padded, 0.3).sample(N_DRAWS, random_state=1)[0]
    assert not draws[:, [0, 3]].any()
    plain = KullbackLeibler().region(inner[None], 0.3)
    points, weights = members_by_importance(plain, np.random.default_rng(2))
    assert_same_law(draws[:, [1, 2, 4, 5]], points, weights)


@pytest.mark.parametrize("name", NAMES)
def test_moves_preserve_the_uniform_distribution(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Two sweeps from draws by rejection: however slowly a chain forgets,
    it must stay where it belongs.
    """
    one = make(name, center_of("inside", 6), 0.1)
    start = one.sample(6000, random_state=1)
    monkeypatch.setattr(sampling, "WIDE", 2.0)
    monkeypatch.setattr(sampling, "SWEEPS", 2)
    monkeypatch.setattr(sampling, "_start", lambda *_: start)
    draws = one.sample(6000, random_state=2)[0]
    assert (draws != start[0]).any(axis=1).mean() > 0.99
    assert_same_law(draws, *members(name, one, np.random.default_rng(2)))


@pytest.mark.parametrize(
    ("name", "kind"), [("tv", "inside"), ("ws", "middle corner"), ("tv", "near a corner")]
)
def test_chains_forget_where_they_start(
    monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    """All chains start at the centre, which is the worst start."""
    monkeypatch.setattr(
        sampling, "_start", lambda geometry, n, *_: np.repeat(geometry.center[:, None], n, axis=1)
    )
    one = make(name, center_of(kind, 20), 0.05)
    assert_same_law(
        one.sample(N_DRAWS, random_state=1)[0], *members(name, one, np.random.default_rng(2))
    )


@pytest.mark.parametrize("name", ["tv", "ws", "kl"])
def test_few_draws_from_many_sets_are_uniform_too(name: str) -> None:
    """Four draws each from copies of a set: what is drawn together must not differ from
    what is drawn one by one.
    """
    one = make(name, center_of("near a corner", 6), 0.05)
    draws = one[np.zeros(150, dtype=int)].sample(4, random_state=1)
    assert_same_law(draws.reshape(600, -1), *members_by_importance(one, np.random.default_rng(2)))


def test_draws_are_reproducible_and_independent_of_each_other() -> None:
    one = make("ws", center_of("near a corner", 10), 0.05)
    draws = one.sample(2000, random_state=3)[0]
    assert np.array_equal(draws, one.sample(2000, random_state=3)[0])
    assert len(np.unique(draws, axis=0)) == len(draws)
    neighbours = np.corrcoef(draws[:-1, 1], draws[1:, 1])[0, 1]
    assert abs(neighbours) < 5 / np.sqrt(len(draws))
