"""What an answer says about itself: exact, a bracket with its gap, or the answer of a larger set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.optimize import brentq

from credalset.scores import Hellinger, Wasserstein
from credalset.scores.hellinger import HellingerBall
from credalset.scores.hellinger import _StationaryCurve as hellinger_curve
from credalset.sets import generic
from credalset.sets.credal_set import CredalSet
from credalset.simplex import entropy_of_valid, grid, sample_uniform
from tests.conftest import SCORES, random_predictions
from tests.sets.makers import crossed, mixtures


@dataclass(frozen=True, eq=False, repr=False)
class PlainBall(CredalSet):
    """A Hellinger ball that knows its divergence and its support function, as the region of a new score does."""

    shape: ClassVar[str] = "plain ball"

    def _divergence(self, points: np.ndarray) -> np.ndarray:
        return HellingerBall._divergence(self, points)  # type: ignore[arg-type]

    def _support(self, utility: np.ndarray, attaining: bool) -> tuple[np.ndarray, np.ndarray | None]:
        return HellingerBall._support(self, utility, attaining)  # type: ignore[arg-type]

    def _tilted(self, depth: np.ndarray, offset: np.ndarray) -> Any:
        return HellingerBall._tilted(self, depth, offset)  # type: ignore[arg-type]


def plain(sets: CredalSet) -> PlainBall:
    return PlainBall(sets.score, sets.prediction, sets.threshold, center=sets.center, radius=sets.radius)


def hellinger(n: int, n_classes: int, radius: float, seed: int = 0) -> CredalSet:
    return Hellinger().region(np.random.default_rng(seed).dirichlet(np.ones(n_classes), n), radius)


def local_minimum(sets: CredalSet, n_starts: int = 6) -> np.ndarray:
    """Smallest entropy that linearisations reach from many directions: a member's, so never too small."""
    best = generic._descend(sets)[0]  # from the peak of every class
    rng = np.random.default_rng(1)
    for _ in range(n_starts):
        slope = rng.normal(size=sets.center.shape)
        for _ in range(15):
            _, point = sets.upper_expectation(slope, return_distribution=True)
            slope = np.log(np.maximum(point, 1e-300))
        best = np.minimum(best, entropy_of_valid(point))
    return best


def test_uncertainty_is_not_off_by_more_than_it_says() -> None:
    """The certified lower end once stood for the smallest entropy itself: off by .07, at the median, for these sets."""
    sets = hellinger(50, 4, 0.05)
    parts = sets.uncertainty()
    truth = local_minimum(sets) / np.log(4)
    assert parts.method == "exact"
    assert parts.aleatoric == pytest.approx(truth, abs=1e-9)
    assert parts.epistemic == pytest.approx(parts.total - truth, abs=1e-9)
    assert not parts.aleatoric_gap.any()


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_brackets_hold_the_exact_value(n_classes: int) -> None:
    exact = hellinger(5, n_classes, 0.05)
    parts, truth = plain(exact).uncertainty(), exact.uncertainty()
    assert plain(exact).answers()["uncertainty"] == "bracket"
    assert (parts.method, truth.method) == ("bracket" if n_classes > 2 else parts.method, "exact")
    slack = 1e-9
    assert (parts.aleatoric <= truth.aleatoric + slack).all()
    assert (parts.aleatoric + parts.aleatoric_gap >= truth.aleatoric - slack).all()
    assert (parts.total >= truth.total - slack).all()
    assert (parts.total - parts.total_gap <= truth.total + slack).all()
    assert (parts.epistemic >= truth.epistemic - slack).all()
    assert (parts.epistemic - parts.epistemic_gap <= truth.epistemic + slack).all()
    assert parts.total == pytest.approx(parts.aleatoric + parts.epistemic)
    if n_classes > 2:
        assert parts.aleatoric_gap.max() > 0.01, "the gap is no rounding error"


def test_largest_entropies_are_never_too_small_where_the_steps_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = hellinger(4, 6, 0.02)
    monkeypatch.setattr(generic, "MAX_STEPS", 2)
    bounds = plain(exact).entropy_bounds(return_distributions=True)
    most = exact.entropy_bounds().upper
    assert (bounds.upper >= most - 1e-12).all()
    assert (bounds.upper - bounds.upper_gap <= most + 1e-12).all()
    assert bounds.upper_gap.max() > 1e-6
    assert entropy_of_valid(bounds.upper_distribution) == pytest.approx(bounds.upper - bounds.upper_gap)


def test_wasserstein_brackets_are_carried_on() -> None:
    sets = Wasserstein().region(np.random.default_rng(0).dirichlet(np.ones(25), 6), 0.8)
    bounds, parts = sets.entropy_bounds("K"), sets.uncertainty()
    assert np.array_equal(parts.aleatoric_gap, bounds.lower_gap)
    assert np.array_equal(parts.epistemic_gap, bounds.lower_gap)
    assert parts.method == bounds.method == ("bracket" if bounds.lower_gap.any() else "exact")
    assert sets.answers()["entropy_bounds"] == "bracket"


OUTER: dict[str, Callable[[], CredalSet]] = {
    "mixtures-3": lambda: mixtures(6, 3),
    "mixtures-5": lambda: mixtures(4, 5),
    "cross-tv": lambda: crossed(SCORES["tv"], 5, 3),
    "cross-kl": lambda: crossed(SCORES["kl"], 4, 4),
    "cross-so": lambda: crossed(SCORES["so"], 4, 3),
}


@pytest.mark.parametrize("name", OUTER)
def test_answers_of_larger_sets_say_so(name: str) -> None:
    sets = OUTER[name]()
    answers = sets.answers()
    assert answers["contains"] == "exact"
    assert {answers[q] for q in ("envelope", "expectation", "entropy_bounds", "uncertainty", "decide")} == {"outer"}
    assert answers["volume"] == "estimate"
    assert sets.entropy_bounds().method == "outer"
    members = sets.sample(300, random_state=0)
    for family in ("entropy", "zero-one"):
        parts = sets.uncertainty(family=family)
        assert parts.method == "outer"
        values = entropy_of_valid(members) / np.log(sets.n_classes) if family == "entropy" else 1 - members.max(axis=2)
        assert (values >= parts.aleatoric[:, None] - 1e-9).all()
        assert (values <= parts.total[:, None] + 1e-9).all()
        assert (parts.total_gap >= 0).all()
        assert (parts.aleatoric_gap >= 0).all()
        # Inner ends belong to members: nothing certified is crossed, and they lie in order.
        assert (parts.aleatoric + parts.aleatoric_gap <= parts.total - parts.total_gap + 1e-9).all()


@pytest.mark.parametrize("name", OUTER)
def test_known_members_are_members(name: str) -> None:
    sets = OUTER[name]()
    assert sets.contains(sets._known_members()).all()
    point = sets.entropy_bounds(return_distributions=True).lower_distribution
    assert sets.contains(point).all()


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 16])
@pytest.mark.parametrize("name", SCORES)
def test_results_are_as_announced(name: str, n_classes: int) -> None:
    score = SCORES[name]
    prediction = random_predictions(score, 2, n_classes, np.random.default_rng(0))
    sets = score.region(prediction, score(prediction, score.best_fit(score.check_prediction(prediction))) + 0.05)
    answers = sets.answers()
    assert sets.log_volume(return_error=True, n_rays=4).method == answers["volume"]
    brackets = ("ws" in name and n_classes > 10) or ("brier" in name and n_classes > 3)
    brackets |= name == "intervals" and n_classes > 12
    assert answers["entropy_bounds"] == ("bracket" if brackets else "exact")
    if answers["entropy_bounds"] == "exact":
        assert sets.entropy_bounds().method == "exact"
        assert sets.uncertainty().method == "exact"


# --- labels that can be the most probable one, for sets without a convex shape ---


def top_on_grid(sets: CredalSet, step: float) -> np.ndarray:
    points = grid(sets.n_classes, step)
    is_top = points >= points.max(axis=1, keepdims=True) - 1e-12
    return np.stack([is_top[row].any(axis=0) for row in sets.contains(points, broadcast=True)])


@pytest.mark.parametrize("drop", [0.3, 1.0, 3.0])
def test_labels_of_density_sets_against_a_grid(drop: float) -> None:
    """No label is lost; and most that no member has on top are ruled out, where the box rules out few."""
    sets = mixtures(150, 3, seed=3, drop=drop)
    kept, there = sets.decide(), top_on_grid(sets, 0.01)
    assert (kept >= there).all()
    lower, upper = sets.envelope()
    boxed = upper >= lower.max(axis=1, keepdims=True)
    assert kept.sum() <= boxed.sum()
    assert (kept & ~there).sum() <= 0.35 * max((~there).sum(), 1) + 3


@pytest.mark.parametrize("n_classes", [4, 10])
def test_no_label_of_a_density_set_is_lost(n_classes: int) -> None:
    """Members drawn at random, and those found by climbing within the points at which a class is on top."""
    sets = mixtures(12, n_classes, seed=4)
    kept = sets.decide()
    drawn = sets.sample(100, random_state=0)
    assert (kept >= (drawn >= drawn.max(axis=2, keepdims=True)).any(axis=1)).all()
    pool = sample_uniform(3000, n_classes, 5) ** 3
    pool /= pool.sum(axis=1, keepdims=True)
    assert (kept >= top_of_members(sets, pool)).all()
    assert kept.sum() < 0.9 * kept.size


def top_of_members(sets: CredalSet, points: np.ndarray) -> np.ndarray:
    is_top = points == points.max(axis=1, keepdims=True)
    return np.stack([is_top[row].any(axis=0) for row in sets.contains(points, broadcast=True)])


@pytest.mark.parametrize("name", ["tv", "kl", "so"])
def test_labels_of_cross_conformal_sets_are_those_of_their_parts(name: str) -> None:
    sets = crossed(SCORES[name], 8, 3, alpha=0.3)
    kept = sets.decide()
    assert (kept >= top_on_grid(sets, 0.02)).all()
    parts = np.stack([np.where(part.is_empty()[:, None], False, part.decide()) for part in sets._parts() or ()])
    assert np.array_equal(kept, parts.any(axis=0))


# --- the closed forms of Hellinger balls ---


@pytest.mark.parametrize("radius", [1e-12, 1e-6, 0.003, 0.05, 0.2, 0.6])
def test_hellinger_entropies_on_the_whole_boundary(radius: float) -> None:
    """Three classes: the roots of members lie on a cap of the sphere, whose rim is a circle."""
    centers = np.random.default_rng(2).dirichlet(np.ones(3), 20)
    sets = Hellinger().region(centers, radius)
    bounds = sets.entropy_bounds(return_distributions=True)
    angles = 2 * np.pi * np.arange(4000) / 4000
    for i, g in enumerate(centers):
        root = np.sqrt(g)
        frame = np.linalg.svd(root[None])[2][1:]
        cosine = 1 - radius
        rim = cosine * root + np.sqrt(radius * (2 - radius)) * (
            np.cos(angles)[:, None] * frame[0] + np.sin(angles)[:, None] * frame[1]
        )
        inside = (rim >= 0).all(axis=1)
        corners = np.eye(3)[np.sqrt(g) >= cosine]
        points = np.concatenate([rim[inside] ** 2, corners])
        if len(points) == 0:
            continue
        points /= points.sum(axis=1, keepdims=True)
        entropies = entropy_of_valid(points)
        assert bounds.lower[i] <= entropies.min() + 1e-12
        if inside.all() or len(corners):
            assert bounds.lower[i] >= entropies.min() - 1e-5 * np.sqrt(radius) - 1e-12
        assert bounds.upper[i] >= entropies.max() - 1e-12
    for point in (bounds.lower_distribution, bounds.upper_distribution):
        assert (sets._divergence(point[:, None])[:, 0] <= radius * (1 + 1e-8) + 1e-16).all()


def test_hellinger_entropies_where_the_curve_folds() -> None:
    """Nearly flat centres over many classes reach a radius twice along the curve: the better candidate counts."""
    centers = np.random.default_rng(3).dirichlet(np.full(2000, 1000.0), 6)[5:]
    curve, steps = hellinger_curve(centers), np.geomspace(1e-3, 20.0, 400)

    def distance(x: float) -> float:
        return float(curve.at(np.array([x]))[1][0])

    distances = np.array([distance(x) for x in steps])
    falling = np.flatnonzero(np.diff(distances) < 0)
    start, end = steps[falling[0]], steps[falling[-1] + 1]
    winners = set()
    for share in (0.05, 0.95):
        radius = distance(end) + share * (distance(start) - distance(end))
        roots = [brentq(lambda x: distance(x) - radius, *cell, xtol=1e-14) for cell in ((-9.0, start), (end, 20.0))]  # noqa: B023
        candidates = [entropy_of_valid(curve.at(np.array([x]))[0])[0] for x in roots]
        winners.add(int(np.argmin(candidates)))
        assert np.ptp(candidates) > 1e-5
        found = Hellinger().region(centers, radius).entropy_bounds().lower
        assert found == pytest.approx(min(candidates), abs=1e-10)
    assert winners == {0, 1}


@pytest.mark.parametrize("n_classes", [5, 20])
def test_no_search_finds_less_entropy_in_a_hellinger_ball(n_classes: int) -> None:
    centers = np.random.default_rng(3).dirichlet(np.full(n_classes, 500.0), 4)
    centers[0] = 1 / n_classes
    sets = Hellinger().region(centers, 0.05)
    bounds = sets.entropy_bounds(return_distributions=True)
    assert (bounds.lower <= local_minimum(sets, 3) + 1e-9).all()
    assert entropy_of_valid(bounds.lower_distribution) == pytest.approx(bounds.lower, abs=1e-12)
    assert (sets._divergence(bounds.lower_distribution[:, None])[:, 0] <= 0.05 * (1 + 1e-9)).all()
