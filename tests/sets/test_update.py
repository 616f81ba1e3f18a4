"""Sets in the light of votes: the region holds whenever voting stops, and answers hold for every common member."""

from __future__ import annotations

import numpy as np
import pytest

import credalset as cs
from credalset.scores.anytime import FLOOR, STRENGTHS, anytime_radius, vote_region
from credalset.sets.updated import UpdatedSet, meet
from credalset.simplex import entropy, grid, sample_uniform

GRID = grid(3, 0.01)
VOTES = np.array([[4, 1, 0], [10, 10, 1], [0, 0, 0], [2, 30, 8], [0, 0, 1], [60, 0, 0], [3, 3, 30], [5, 5, 5.0]])
SCORES = ["tv", "ws", "kl", "inner", "so", "density", "hellinger", "brier"]


def some_sets(name: str) -> cs.CredalSet:
    rng = np.random.default_rng(0)
    score = cs.get_score(name)
    prediction = rng.dirichlet([2.0, 1.0, 1.0], 8)
    if score.order == "second":
        prediction = 1.0 + 10.0 * prediction
    truth = rng.dirichlet(np.ones(3), 8)
    return score.region(prediction, np.quantile(score(prediction, truth), 0.6))


def members(sets: UpdatedSet) -> np.ndarray:
    return sets.contains(GRID, broadcast=True)


# --- the region of the votes ---


def test_the_radius_is_that_of_the_mixture_of_predictive_laws() -> None:
    """An urn that draws vote after vote has the mixture's likelihood, without any gamma function."""
    order = [0, 2, 0, 1, 0, 0, 2]
    center, delta = np.array([0.6, 0.3, 0.1]), 0.05
    urns = [np.ones(3), *(s * ((1 - FLOOR) * center + FLOOR / 3) for s in STRENGTHS)]
    likelihood = np.zeros(len(urns))
    for i, urn in enumerate(urns):
        full = urn.copy()
        for vote in order:
            likelihood[i] += np.log(full[vote] / full.sum())
            full[vote] += 1.0
    counts = np.bincount(order, minlength=3).astype(float)
    shares = counts / len(order)
    mixture = np.log(np.exp(likelihood).mean())
    wanted = ((counts * np.log(shares)).sum() - mixture - np.log(delta)) / len(order)
    np.testing.assert_allclose(anytime_radius(counts[None], delta, center[None]), wanted, rtol=1e-12)
    members = vote_region(counts[None], delta, center[None]).contains(GRID, broadcast=True)[0]
    with np.errstate(divide="ignore"):
        direct = np.log(GRID) @ counts
    clear = np.abs(direct - mixture - np.log(delta)) > 1e-9
    np.testing.assert_array_equal(members[clear], (direct >= mixture + np.log(delta))[clear])


@pytest.mark.parametrize("center", [[0.2, 0.5, 0.3], [0.98, 0.01, 0.01]], ids=["right", "wrong"])
def test_whoever_stops_when_the_region_misses_succeeds_rarely(center: list[float]) -> None:
    rng = np.random.default_rng(1)
    truth, delta, n = np.array([0.2, 0.5, 0.3]), 0.2, 3000
    votes = np.eye(3)[rng.choice(3, (n, 80), p=truth)].cumsum(axis=1)
    missed = np.zeros(n, dtype=bool)
    for m in range(80):
        counts = votes[:, m]
        shares = counts / (m + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            divergence = np.where(shares > 0, shares * np.log(shares / truth), 0.0).sum(axis=1)
        missed |= divergence > anytime_radius(counts, delta, np.tile(center, (n, 1)))
    assert missed.mean() <= delta + 3 * np.sqrt(delta * (1 - delta) / n)


def test_a_good_prediction_makes_regions_smaller_and_a_bad_one_hardly_larger() -> None:
    counts = np.array([[18.0, 2.0, 0.0]])
    plain = anytime_radius(counts, 0.05)
    assert anytime_radius(counts, 0.05, np.array([[0.9, 0.1, 0.0]])) < 0.8 * plain
    assert anytime_radius(counts, 0.05, np.array([[0.0, 0.0, 1.0]])) <= plain + np.log(5) / 20 + 1e-12


# --- answers against brute force ---


@pytest.mark.parametrize("name", SCORES)
def test_membership_is_that_of_both(name: str) -> None:
    sets = some_sets(name)
    after = sets.update(VOTES, delta=0.05)
    region = vote_region(VOTES, 0.05, sets.score.mean(sets.prediction))
    both = sets.contains(GRID, broadcast=True) & region.contains(GRID, broadcast=True)
    np.testing.assert_array_equal(members(after), both)
    np.testing.assert_array_equal(after.contains(GRID[:8]), np.diagonal(both[:, :8]))
    np.testing.assert_array_equal(after[2:5].contains(GRID, broadcast=True), both[2:5])


@pytest.mark.parametrize("name", SCORES)
def test_no_member_goes_beyond_the_answers(name: str) -> None:
    after = some_sets(name).update(VOTES, delta=0.05)
    inside = members(after)
    lower, upper = after.envelope()
    least, most = after.entropy_bounds()
    utility = np.array([1.0, -0.5, 0.3])
    high, low, peak = after.upper_expectation(utility), after.lower_expectation(utility), after.smallest_peak()
    labels = after.decide()
    for i in np.flatnonzero(inside.any(axis=1)):
        own = GRID[inside[i]]
        assert not after.is_empty()[i]
        assert (own >= lower[i] - 1e-9).all()
        assert (own <= upper[i] + 1e-9).all()
        assert (entropy(own) >= least[i] - 1e-9).all()
        assert (entropy(own) <= most[i] + 1e-9).all()
        assert (own @ utility <= high[i] + 1e-9).all()
        assert (own @ utility >= low[i] - 1e-9).all()
        assert own.max(axis=1).min() >= peak[i] - 1e-9
        tops = (own >= own.max(axis=1, keepdims=True) - 1e-12).any(axis=0)
        assert (labels[i] | ~tops).all()


@pytest.mark.parametrize("name", SCORES)
def test_answers_are_no_looser_than_those_of_either_and_close_to_the_truth(name: str) -> None:
    sets = some_sets(name)
    after = sets.update(VOTES, delta=0.05)
    region = after.region
    there = ~after.is_empty()
    for other in (sets, region):
        assert (after.lower()[there] >= other.lower()[there] - 1e-9).all()
        assert (after.upper()[there] <= other.upper()[there] + 1e-9).all()
        assert (after.entropy_bounds().upper[there] <= other.entropy_bounds().upper[there] + 1e-9).all()
        assert not (after.decide() & ~other.decide())[there].any()
    inside = members(after)
    rows = np.flatnonzero(inside.sum(axis=1) > 20)
    own = np.array([np.ptp(GRID[inside[i]], axis=0).sum() for i in rows])
    assert (after.upper() - after.lower())[rows].sum() < 1.25 * (own + 0.03).sum()


@pytest.mark.parametrize("name", SCORES)
def test_emptiness_is_certain_and_centres_are_members(name: str) -> None:
    sets = some_sets(name)
    far = np.eye(3)[sets.center.argmin(axis=1)] * 200
    for votes in (VOTES, far):
        after = sets.update(votes, delta=0.05)
        assert not members(after)[after.is_empty()].any()
        known = after.found & ~after.is_empty()
        assert after[known].contains(after.center[known]).all()
        assert (after.found | after.is_empty()).all()  # nothing here is so close that it stays open


def test_votes_that_contradict_a_set_leave_nothing() -> None:
    after = cs.get_score("tv").region([[1.0, 0.0, 0.0]], 0.2).update([[0, 50, 0]])
    assert after.is_empty().all()
    assert np.isnan(after.lower()).all()
    assert not after.decide().any()


@pytest.mark.parametrize("name", ["hellinger", "kl", "brier"])
def test_two_sets_that_just_miss_each_other_are_told_apart(name: str) -> None:
    """Their boxes overlap, so only the search can tell."""
    score, prediction, counts = cs.get_score(name), np.array([[0.6, 0.2, 0.2]]), np.array([[90.0, 150.0, 60.0]])
    region = vote_region(counts, 0.05, prediction)
    fine = grid(3, 0.002)
    inside = fine[region.contains(fine, broadcast=True)[0]]
    nearest = score(np.repeat(prediction, len(inside), axis=0), inside).min()
    for factor in (0.97, 1.03):
        sets = score.region(prediction, factor * nearest)
        assert not np.isnan(meet(sets.envelope(), region.envelope())[0]).any()
        after = sets.update(counts, 0.05)
        assert after.is_empty()[0] == (factor < 1)
        assert after.found[0] == (factor > 1)


@pytest.mark.parametrize(
    ("name", "prediction", "counts"),
    [
        ("kl", [0.04, 0.71, 0.25], [58.0, 24.0, 68.0]),
        ("tv", [0.06, 0.71, 0.23], [41.0, 94.0, 15.0]),
        ("ws", [0.2, 0.07, 0.73], [14.0, 0.0, 136.0]),
    ],
)
def test_a_thin_lens_off_the_straight_way_is_found(name: str, prediction: list[float], counts: list[float]) -> None:
    """No point between the votes and the best fit lies in both sets, and yet they meet."""
    score, g, votes = cs.get_score(name), np.array([prediction]), np.array([counts])
    region = vote_region(votes, 0.05, g)
    fine = grid(3, 0.002)
    inside = fine[region.contains(fine, broadcast=True)[0]]
    sets = score.region(g, 1.02 * score(np.repeat(g, len(inside), axis=0), inside).min())
    way = np.linspace(region.center[0], sets.center[0], 1001)
    assert not (sets.contains(way, broadcast=True) & region.contains(way, broadcast=True)).any()
    after = sets.update(votes, 0.05)
    assert not after.is_empty()[0]
    assert after.contains(after.center)[0]


def test_two_classes_are_exact() -> None:
    sets = cs.get_score("kl").region([[0.7, 0.3], [0.2, 0.8]], 0.2)
    after = sets.update([[5, 7], [3, 20]], 0.1)
    line = np.linspace(0.0, 1.0, 20001)
    inside = after.contains(np.stack([line, 1 - line], axis=1), broadcast=True)
    for i in range(2):
        assert after.lower()[i, 0] == pytest.approx(line[inside[i]].min(), abs=6e-5)
        assert after.upper()[i, 0] == pytest.approx(line[inside[i]].max(), abs=6e-5)


@pytest.mark.parametrize("name", ["tv", "kl", "so"])
def test_volumes_and_draws_are_of_the_intersection(name: str) -> None:
    after = some_sets(name).update(VOTES, delta=0.05)
    points = sample_uniform(50_000, 3, np.random.default_rng(1))
    share = after.contains(points, broadcast=True).mean(axis=1)
    value, error = after.volume(return_error=True, random_state=0)
    assert (np.abs(value - share) <= 4 * np.sqrt(error**2 + (share + 1e-5) / len(points))).all()
    there = ~after.is_empty()
    draws = after[there].sample(50, random_state=0)
    assert after[there].contains(draws).all()
    assert np.isnan(after.sample(5, random_state=0)[~there]).all()


# --- how votes come in ---


def test_votes_add_up_and_delta_is_spent_once() -> None:
    sets = some_sets("kl")
    whole = sets.update(VOTES, 0.05)
    twice = sets.update(np.floor(VOTES / 2), 0.05).update(VOTES - np.floor(VOTES / 2), 0.05)
    np.testing.assert_array_equal(twice.votes, VOTES)
    np.testing.assert_array_equal(members(twice), members(whole))
    assert repr(twice).endswith("178 votes, error alpha + 0.05")
    with pytest.raises(ValueError, match=r"delta must stay the same from update to update, but was 0.05 and is 0.1"):
        whole.update(VOTES, 0.1)


def test_without_votes_nothing_changes() -> None:
    sets = some_sets("tv")
    after = sets.update(np.zeros((8, 3)))
    np.testing.assert_array_equal(members(after), sets.contains(GRID, broadcast=True))
    np.testing.assert_allclose(after.envelope(), sets.envelope(), atol=1e-12)
    everything = cs.get_score("tv").region([[0.2, 0.3, 0.5]], np.inf).update([[0, 0, 0]])
    assert np.isposinf(everything.radius).all()
    np.testing.assert_array_equal(everything.upper(), np.ones((1, 3)))


def test_votes_are_matched_by_name() -> None:
    pd = pytest.importorskip("pandas")
    data = cs.datasets.make_synthetic(200, n_votes=20, random_state=0)
    calibration = cs.conformalize(data.distributions, data.counts, classes=("a", "b", "c"))
    frame = pd.DataFrame([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], index=["x", "y"], columns=["a", "b", "c"])
    sets = calibration.predict_set(frame)
    votes = cs.Annotations.from_counts([[7, 1, 0]], classes=("c", "a", "b"), items=["y"])
    np.testing.assert_array_equal(sets.update(votes).votes, [[0, 0, 0], [1, 0, 7]])
    unknown = cs.Annotations.from_counts([[7, 1, 0]], classes=("a", "b", "c"), items=["z"])
    with pytest.raises(ValueError, match=r"votes is about 1 items that there are no sets for \(first: 'z'\)"):
        sets.update(unknown)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ([[1, 2, 3]], "votes has 1 rows, but there are 8 sets"),
        (np.full((8, 3), 0.5), "whole-number annotation counts"),
        (-VOTES, "votes"),
    ],
    ids=["too few", "shares", "negative"],
)
def test_what_are_no_votes_is_refused(votes: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        some_sets("tv").update(votes)


def test_the_other_questions_have_answers() -> None:
    after = some_sets("tv").update(VOTES)
    assert after.answers()["contains"] == "exact"
    assert after.answers()["envelope"] == "outer"
    assert len(after.queue()) == 8
    assert "<svg" in after._repr_html_()
    assert (after.uncertainty().epistemic[~after.is_empty()] >= 0).all()
    assert after.to_dict()["threshold"].shape == (8,)
    with pytest.raises(TypeError, match="cannot be saved"):
        after.save("nowhere")


def test_unions_and_mixtures_are_cut_too() -> None:
    score = cs.get_score("tv")
    union = cs.sets.UnionSet.of(score.region([[0.8, 0.1, 0.1]], 0.1), score.region([[0.1, 0.8, 0.1]], 0.1))
    after = union.update([[20, 2, 2]])
    assert after.decide()[0].tolist() == [True, False, False]
    assert after.found.all()


def test_error_is_at_most_alpha_plus_delta_when_voting_is_driven_by_votes() -> None:
    """Items whose votes disagree get more of them."""
    rng = np.random.default_rng(0)
    alpha, delta, covered = 0.2, 0.1, []
    for _ in range(40):
        truth = rng.dirichlet([1.0, 0.7, 0.5], 100)
        g = 0.7 * truth + 0.3 * rng.dirichlet(np.ones(3), 100)
        calibration = cs.conformalize(g[:60], truth[:60], "tv")
        sets = calibration.predict_set(g[60:], alpha)
        votes = np.zeros((40, 3))
        for _ in range(4):
            open_items = (votes.max(axis=1) < 0.8 * votes.sum(axis=1)) | (votes.sum(axis=1) == 0)
            votes += np.where(open_items[:, None], rng.multinomial(8, truth[60:]), 0)
        covered.append(sets.update(votes, delta).contains(truth[60:]).mean())
    assert np.mean(covered) >= 1 - alpha - delta - 3 * np.std(covered) / np.sqrt(40)
