"""Every answer of every score against members that the score alone has found.

No member goes beyond an answer, and every answer is attained: to 1e-6 where the search is dense
(three classes), to what a search finds beyond. Predictions are one-hot, tied, tiny, with zeros and
ordinary; sets are points, tiny, of several sizes and huge.
"""

from __future__ import annotations

import numpy as np
import pytest

from credalset.scores import Score
from credalset.sets import CredalSet
from credalset.sets.columns import QUESTIONS
from credalset.sets.decisions import RULES
from credalset.sets.membership import contains_pairs
from credalset.simplex import entropy_of_valid, sample_uniform
from tests.conftest import SCORES, SHIPPED, Formula
from tests.sets.oracle import extreme, improve, make_sets, members, nearest_with_top

#: one of each kind, of which the others are variants
PLAIN = [*SHIPPED, "normalized-kl"]
plain = pytest.mark.parametrize("score", [SCORES[name] for name in PLAIN], ids=PLAIN)
SHARES: list[float | str] = ["point", "tiny", 0.02, 0.3, 0.8, "huge"]
sizes = pytest.mark.parametrize("share", SHARES, ids=str)
EPS = 1e-6


def utilities(n_classes: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    tied = np.r_[1.0, 1.0, np.zeros(n_classes - 2)]
    return np.concatenate(
        [rng.normal(size=(2, n_classes)), tied[None], np.eye(n_classes)[:1], -np.eye(n_classes)[:1]]
    )


def assert_members(sets: CredalSet, points: np.ndarray) -> None:
    """Points are members up to rounding of the score."""
    scores = sets.score.evaluate_rows(sets.prediction, points)
    best = sets.score.evaluate_rows(sets.prediction, sets.score.best_fit(sets.prediction))
    slack = EPS * np.maximum(sets.threshold - best, 0.0) + 1e-9 * (1.0 + np.abs(sets.threshold))
    assert (scores <= sets.threshold + slack).all()


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@sizes
@plain
def test_no_member_goes_beyond_an_answer(score: Score, share: float | str, n_classes: int) -> None:
    sets = make_sets(score, n_classes, share)
    found = members(sets, 360 if n_classes == 3 else 120)
    lower, upper = sets.envelope()
    assert (found >= lower[:, None] - EPS).all()
    assert (found <= upper[:, None] + EPS).all()
    bounds = sets.entropy_bounds()
    entropy = entropy_of_valid(found)
    assert (entropy >= bounds.lower[:, None] - EPS).all()
    assert (entropy <= bounds.upper[:, None] + EPS).all()
    for utility in utilities(n_classes):
        value, member = sets.support(utility)
        assert (found @ utility <= value[:, None] + EPS).all()
        np.testing.assert_allclose(sets.lower_expectation(-utility), -value, atol=1e-12)
        assert_members(sets, member)
        np.testing.assert_allclose(member @ utility, value, atol=EPS + 2 * sets.geometry.tolerance)


@pytest.mark.parametrize("share", [0.02, 0.5])
@plain
def test_answers_over_three_classes_are_attained(score: Score, share: float) -> None:
    sets = make_sets(score, 3, share)
    lower, upper = sets.envelope()
    bounds = sets.entropy_bounds()
    for k in range(3):
        np.testing.assert_allclose(
            extreme(sets, lambda points, k=k: points[..., k]), upper[:, k], atol=EPS
        )
        np.testing.assert_allclose(
            extreme(sets, lambda points, k=k: -points[..., k]), -lower[:, k], atol=EPS
        )
    assert (
        -extreme(sets, lambda points: -entropy_of_valid(points))
        <= bounds.lower + bounds.lower_gap + 1e-5
    ).all()
    flat = (sets.upper() > 0) / (sets.upper() > 0).sum(
        axis=1, keepdims=True
    )  # on a face, no ray ends there
    even = np.where(sets.contains(flat), entropy_of_valid(flat), extreme(sets, entropy_of_valid))
    assert (even >= bounds.upper - bounds.upper_gap - EPS).all()
    for utility in utilities(3)[:3]:
        found = extreme(sets, lambda points, u=utility: points @ u)
        np.testing.assert_allclose(found, sets.upper_expectation(utility), atol=EPS)


@pytest.mark.parametrize("share", [0.02, 0.3])
@plain
def test_answers_over_six_classes_are_met_by_a_search(score: Score, share: float) -> None:
    sets = make_sets(score, 6, share)
    found, rows = members(sets, 100), np.arange(len(sets))
    bounds, entropy = sets.entropy_bounds(), entropy_of_valid(found)
    low = improve(
        sets, found[rows, entropy.argmin(axis=1)], lambda points: -entropy_of_valid(points)
    )
    high = improve(sets, found[rows, entropy.argmax(axis=1)], entropy_of_valid)
    assert (entropy_of_valid(low) >= bounds.lower - EPS).all()
    assert (entropy_of_valid(high) <= bounds.upper + EPS).all()
    assert (entropy_of_valid(high) >= bounds.upper - bounds.upper_gap - 0.1).all()


@pytest.mark.parametrize("n_classes", [2, 4])
@sizes
@plain
def test_possible_modes(score: Score, share: float | str, n_classes: int) -> None:
    sets = make_sets(score, n_classes, share)
    kept = sets.decide("e-admissible")
    best = score.evaluate_rows(sets.prediction, score.best_fit(sets.prediction))
    slack = 0.3 * (sets.threshold - best) + 1e-6  # of the random search
    for k in range(n_classes):
        nearest = nearest_with_top(sets, k)
        assert (kept[:, k] >= (nearest <= sets.threshold)).all()
        if share in (0.02, 0.3, 0.8):
            assert (kept[:, k] <= (nearest <= sets.threshold + slack)).all()


@pytest.mark.parametrize("n_classes", [3, 5])
@pytest.mark.parametrize("share", [0.02, 0.3])
@plain
def test_rules_nest_and_agree_with_members(score: Score, share: float, n_classes: int) -> None:
    sets = make_sets(score, n_classes, share)
    utility = np.concatenate([np.eye(n_classes), np.full((1, n_classes), 0.45)])
    for matrix in (None, utility):
        e_admissible, maximal = sets.decide("e-admissible", matrix), sets.decide("maximal", matrix)
        interval = sets.decide("interval-dominance", matrix)
        assert (e_admissible <= maximal).all()
        assert (maximal <= interval).all()
        assert (sets.decide("gamma-maximin", matrix) <= interval).all()
        assert (sets.decide("gamma-maximax", matrix) <= interval).all()
        assert e_admissible.any(axis=1).all()
    values = members(sets, 120) @ utility.T
    best = (values >= values.max(axis=2, keepdims=True)).any(axis=1)
    assert (e_admissible >= best).all()
    if n_classes == 3:
        pool = np.concatenate([sample_uniform(20_000, 3, 0), np.eye(3)])
        worth, held = pool @ utility.T, contains_pairs(sets, pool[None])
        near = (worth >= worth.max(axis=1, keepdims=True) - 0.02)[None] & held[..., None]
        assert (e_admissible <= near.any(axis=1) | best).all()


@pytest.mark.parametrize("share", [0.02, 0.3, 0.8])
@plain
def test_volume_over_three_classes(score: Score, share: float) -> None:
    sets = make_sets(score, 3, share)
    value, error = sets.volume(return_error=True)
    pool = sample_uniform(60_000, 3, 1)
    held = sets.contains(pool, broadcast=True).mean(axis=1)
    noise = np.sqrt(held * (1.0 - held) / len(pool)) + 1e-5
    assert (np.abs(value - held) <= 5.0 * np.hypot(noise, error)).all()


@pytest.mark.parametrize("share", [0.05, 0.3])
@plain
def test_volume_over_five_classes(score: Score, share: float) -> None:
    sets = make_sets(score, 5, share)
    value, error = sets.volume(return_error=True)
    pool = sample_uniform(40_000, 5, 1)
    held = sets.contains(pool, broadcast=True).mean(axis=1)
    noise = np.sqrt(held * (1.0 - held) / len(pool)) + 1e-5
    assert (np.abs(value - held) <= 5.0 * np.hypot(noise, error)).all()


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@sizes
@plain
def test_draws_are_members(score: Score, share: float | str, n_classes: int) -> None:
    sets = make_sets(score, n_classes, share)
    draws = sets.sample(20, random_state=0)
    assert draws.shape == (len(sets), 20, n_classes)
    np.testing.assert_allclose(draws.sum(axis=2), 1.0, atol=1e-9)
    for i in range(20):
        assert_members(sets, draws[:, i])


@plain
def test_draws_are_uniform(score: Score) -> None:
    sets = make_sets(score, 3, 0.3)
    draws = sets.sample(2000, random_state=0)
    pool = sample_uniform(40_000, 3, 1)
    held = sets.contains(pool, broadcast=True)
    for i in range(len(sets)):
        inside = pool[held[i]]
        if len(inside) > 1000:
            spread = inside.std(axis=0) / np.sqrt(1000.0) + 1e-9
            assert (np.abs(draws[i].mean(axis=0) - inside.mean(axis=0)) < 5.0 * spread).all()


def test_answers_do_not_depend_on_the_batch(score: Score) -> None:
    sets = make_sets(score, 4, 0.3)
    alone = [sets[i] for i in range(len(sets))]
    np.testing.assert_allclose(
        np.concatenate([one.lower() for one in alone]), sets.lower(), atol=1e-12
    )
    np.testing.assert_array_equal(np.concatenate([one.decide() for one in alone]), sets.decide())
    np.testing.assert_allclose(
        [one.entropy_bounds().upper[0] for one in alone], sets.entropy_bounds().upper, atol=1e-9
    )


def test_whole_simplices_and_selections(score: Score) -> None:
    sets = make_sets(score, 3, 0.3)
    mixed = score.region(
        sets.prediction, np.where(np.arange(len(sets)) % 2 == 0, np.inf, sets.threshold)
    )
    whole = slice(0, None, 2)
    lower, upper = mixed.envelope()
    assert (lower[whole] == 0.0).all()
    assert (upper[whole] == 1.0).all()
    bounds = mixed.entropy_bounds("K")
    assert (bounds.lower[whole] == 0.0).all()
    assert (bounds.upper[whole] == 1.0).all()
    assert (mixed.volume()[whole] == 1.0).all()
    assert mixed.decide()[whole].all()
    np.testing.assert_allclose(mixed.upper_expectation([3.0, 1.0, 2.0])[whole], 3.0)
    np.testing.assert_array_equal(mixed.lower()[1::2], sets.lower()[1::2])
    np.testing.assert_array_equal(mixed.vertices(0), np.eye(3))


@pytest.mark.parametrize(
    "score", [*SCORES.values(), Formula()], ids=lambda score: repr(score).partition("(")[0]
)
def test_empty_sets_and_whole_simplices_alone_and_beside_others(score: Score) -> None:
    """A batch may hold sets of every kind, of one kind only, or none."""
    regular = make_sets(score, 3, 0.3)
    best = score.evaluate_rows(regular.prediction, score.best_fit(regular.prediction))
    kind = np.arange(len(regular)) % 3
    too_small = best - 1.0 - np.abs(best)
    levels = np.choose(kind, [too_small, np.full(len(regular), np.inf), regular.threshold])
    mixed = score.region(regular.prediction, levels)
    assert mixed.is_empty().tolist() == (kind == 0).tolist()
    whole = mixed[kind == 1]
    empty = mixed[kind == 0]
    for sets, fill in ((whole, 0.0), (empty, np.nan), (mixed[:0], np.nan)):
        n = len(sets)
        lower, upper = sets.envelope()
        np.testing.assert_array_equal(lower, np.full((n, 3), fill))
        np.testing.assert_array_equal(upper, np.full((n, 3), 1.0 + fill))
        least, most = sets.entropy_bounds("K")
        np.testing.assert_array_equal(least, np.full(n, fill))
        np.testing.assert_array_equal(most, np.full(n, 1.0 + fill))
        value, member = sets.support([3.0, 1.0, 2.0])
        np.testing.assert_array_equal(value, np.full(n, 3.0 + fill))
        assert member.shape == (n, 3)
        assert sets.volume().tolist() == [0.0 if np.isnan(fill) else 1.0] * n
        assert sets.sample(4, random_state=0).shape == (n, 4, 3)
        assert np.isnan(sets.sample(4, random_state=0)).all() == np.isnan(fill)
        for rule in RULES:
            assert sets.decide(rule).shape == (n, 3)
            assert (sets.decide(rule) == ~np.isnan(fill)).all() or rule == "gamma-maximin"
        assert len(sets.to_frame(ask=QUESTIONS)) == len(sets.queue()) == n
    close = {"atol": 1e-6 + 2 * mixed.geometry.tolerance}
    np.testing.assert_allclose(mixed.lower()[kind == 2], regular.lower()[kind == 2], **close)
    np.testing.assert_array_equal(mixed.lower()[kind == 1], whole.lower())
    assert np.isnan(mixed.lower()[kind == 0]).all()
    assert mixed.sample(4, random_state=0).shape == (len(mixed), 4, 3)
