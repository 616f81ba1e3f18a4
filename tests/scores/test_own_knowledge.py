"""What a score knows of itself, and what it is taken to know when it says nothing."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from credalset.scores.confidence import REGIONS, largest_score

import credalset as cs
from credalset.scores import InnerProduct, KullbackLeibler, Score, TotalVariation, Wasserstein
from tests.conftest import SCORES, random_predictions

RNG = np.random.default_rng(0)
G, COUNTS = RNG.dirichlet(np.ones(3), 40), RNG.multinomial(25, [0.5, 0.3, 0.2], 40)


class Own(Score):
    """A score of a stranger: a formula, a region, a best fit."""

    name: ClassVar[str] = "own"
    order: ClassVar[Literal["first", "second"]] = "first"

    def formula(self, prediction: Any, distribution: Any) -> Any:
        return ((prediction - distribution) ** 2 / (prediction + 0.1)).sum(axis=-1)

    def _region(self, prediction: Any, threshold: Any) -> Any:
        return TotalVariation()._region(prediction, np.sqrt(threshold))

    def best_fit(self, prediction: Any) -> Any:
        return prediction


class Hilly(Own):
    """One that is not convex, and does not say whether its regions are."""

    is_convex: ClassVar[bool] = False

    def formula(self, prediction: Any, distribution: Any) -> Any:
        return np.sin(8 * distribution[..., 0]) + 1.0


class Stretched(Own):
    """A metric that nobody here knows, but for its saying so."""

    is_metric: ClassVar[bool] = True

    def formula(self, prediction: Any, distribution: Any) -> Any:
        return np.abs(prediction - distribution).max(axis=-1)


def brute_force(score: Score, i: int, members: np.ndarray) -> float:
    return float(score(np.repeat(G[i : i + 1], len(members), axis=0), members).max())


@pytest.mark.parametrize("score", [Own(), Stretched()], ids=lambda score: type(score).__name__)
def test_defaults_hold_for_any_convex_score(score: Score) -> None:
    lower = np.minimum(G, COUNTS / 25) * 0.7
    found = score.largest_above(G, lower)
    ball = TotalVariation().region(COUNTS / 25, 0.15)
    within = score.largest_within(G, ball, np.full(40, 0.15))
    spread = np.vstack([RNG.dirichlet(np.full(3, 0.5), 2000), np.eye(3)])
    for i in range(40):
        assert found[i] == pytest.approx(brute_force(score, i, lower[i] + (1 - lower[i].sum()) * spread), rel=1e-12)
        near = COUNTS[i] / 25 + 0.15 * (spread - COUNTS[i] / 25)
        assert brute_force(score, i, near) <= within[i] + 1e-12
        assert score.largest_score(G[i : i + 1])[0] == pytest.approx(brute_force(score, i, np.eye(3)))
    assert score.lipschitz(3) is None
    for region in REGIONS:
        assert (largest_score(score, G, COUNTS.astype(float), 0.1, region) >= score(G, COUNTS / 25)).all()


def test_a_stranger_is_calibrated_with_every_noise_model() -> None:
    for noise in (cs.AnnotatorSampling(0.05), cs.AnnotatorSampling(0.05, "kl"), cs.UnbiasedVotes()):
        calibration = cs.conformalize(G, COUNTS, Own(), noise=noise)
        assert np.isfinite(calibration.thresholds(G, 0.3)).all()
    with pytest.raises(ValueError, match="prediction is missing: how far votes can move the score 'own'"):
        cs.epsilon_from_counts(COUNTS, 0.1, Own())


def test_balls_only_where_they_are_known() -> None:
    folds = np.arange(40) % 2
    assert not Own().has_enclosing_balls(G)
    assert type(cs.cross_conformalize(G, COUNTS, folds, Own()).predict_set([G, G], 0.3)).__name__ == "CrossSet"
    with pytest.raises(NotImplementedError, match="no enclosing balls are known for the score 'own'"):
        Own().enclosing_threshold(G, G, np.zeros(40))
    assert Stretched().has_enclosing_balls(G), "the triangle inequality is all it takes"
    center, spread = RNG.dirichlet(np.ones(3), 40), RNG.dirichlet(np.ones(3), 200)
    for i in range(40):
        here, there = (np.repeat(rows[i : i + 1], 200, axis=0) for rows in (G, center))
        radii = Stretched().enclosing_threshold(here[:1], there[:1], Stretched()(here, spread))
        assert (Stretched()(there, spread) <= radii + 1e-12).all()


def test_what_need_not_be_convex_is_refused() -> None:
    with pytest.raises(ValueError, match="does not say how large it gets over a set of distributions"):
        cs.conformalize(G, COUNTS, Hilly(), noise=cs.AnnotatorSampling(0.05))
    with pytest.raises(ValueError, match="needs a score that is convex"):
        cs.conformalize(G, COUNTS, Hilly(), noise=cs.UnbiasedVotes())
    assert len(cs.conformalize(G, COUNTS, Hilly())) == 40


@pytest.mark.parametrize("parent", [TotalVariation, Wasserstein, KullbackLeibler, InnerProduct])
def test_a_formula_of_ones_own_inherits_no_knowledge(parent: type[Score]) -> None:
    class Squared(parent):  # type: ignore[misc, valid-type]
        """The parent's region, another formula."""

        def formula(self, prediction: Any, distribution: Any) -> Any:
            return 3.0 * super().formula(prediction, distribution) ** 2

    class Renamed(parent):  # type: ignore[misc, valid-type]
        """The parent in everything but its name."""

    assert parent().has_enclosing_balls(G)
    assert Renamed().has_enclosing_balls(G)
    assert Renamed().lipschitz(3) == parent().lipschitz(3)
    assert not Squared().has_enclosing_balls(G)
    assert Squared().lipschitz(3) is None
    ball = TotalVariation().region(COUNTS / 25, 0.1)
    assert np.array_equal(Squared().largest_within(G, ball, np.full(40, 0.1)), Squared().largest_above(G, ball.lower()))


@pytest.mark.parametrize("name", ["tv", "ws", "inner"])
def test_no_score_changes_faster_than_it_says(name: str) -> None:
    score = SCORES[name]
    g = np.repeat(random_predictions(score, 30, 4, RNG), 50, axis=0)
    one, other = (RNG.dirichlet(np.full(4, 0.4), len(g)) for _ in range(2))
    change = np.abs(score(g, one) - score(g, other))
    slope = score.lipschitz(4)
    assert slope is not None
    assert (change <= slope * TotalVariation()(one, other) + 1e-12).all()
    corners = np.eye(4)
    steepest = score(corners[[3]], corners[[0]]) - score(corners[[3]], corners[[3]])
    assert steepest[0] == pytest.approx(slope), "and somewhere as fast"


def test_metrics_are_metrics() -> None:
    metrics = [score for score in SCORES.values() if score.is_metric]
    assert [score.name for score in metrics] == ["tv", "ws"]
    for score in metrics:
        a, b, c = (RNG.dirichlet(np.full(4, 0.4), 3000) for _ in range(3))
        assert (score(a, c) <= score(a, b) + score(b, c) + 1e-12).all()
        assert score(a, b) == pytest.approx(score(b, a), abs=1e-15)
